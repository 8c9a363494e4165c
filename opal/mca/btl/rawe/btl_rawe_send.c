/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From the PML to the engine: descriptors, send, sendi, put, and their completion.
 */
#include "btl_rawe.h"

#include "btl_rawe_params.h"

#include "opal/datatype/opal_convertor.h"

#include <string.h>

/** Payload the PML gives to sendi at most when it is not contiguous: it is packed on the stack. */
#define SENDI_PACK_BYTES_MAX 512u

static void fragment_construct(mca_btl_rawe_fragment_t *fragment)
{
    fragment->base.des_segments = fragment->segments;
    fragment->base.des_segment_count = 1;
    fragment->list = NULL;
}

OBJ_CLASS_INSTANCE(mca_btl_rawe_fragment_t, mca_btl_base_descriptor_t, fragment_construct, NULL);

static mca_btl_rawe_fragment_t *fragment_take(opal_free_list_t *list,
                                              mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *) opal_free_list_get(list);
    if (OPAL_LIKELY(NULL != fragment)) {
        fragment->list = list;
        fragment->completed_early = false;
        fragment->endpoint = endpoint;
    }
    return fragment;
}

/**
 * The PML marks with PRIORITY what others wait for: matching, control. What it does not mark is the
 * body of a long message, in pieces that it wants unpacked in order.
 */
static bool must_keep_order(uint32_t flags)
{
    return 0 == (flags & MCA_BTL_DES_FLAGS_PRIORITY);
}

mca_btl_base_descriptor_t *mca_btl_rawe_alloc(struct mca_btl_base_module_t *btl,
                                              struct mca_btl_base_endpoint_t *endpoint,
                                              uint8_t order, size_t size, uint32_t flags)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *) btl;
    opal_free_list_t *list;

    (void) order;
    if (must_keep_order(flags)) {
        module = endpoint->in_order->module; /* its engine will hold the fragment */
    }
    if (size <= MCA_BTL_RAWE_SMALL_BYTES) {
        list = &module->fragments_small;
    } else if (size <= btl->btl_max_send_size) {
        list = &module->fragments_large;
    } else {
        return NULL;
    }
    mca_btl_rawe_fragment_t *fragment = fragment_take(list, endpoint);
    if (OPAL_UNLIKELY(NULL == fragment)) {
        return NULL;
    }
    fragment->base.des_flags = flags;
    fragment->base.des_segment_count = 1;
    fragment->base.order = MCA_BTL_NO_ORDER;
    fragment->segments[0].seg_addr.pval = fragment->data;
    fragment->segments[0].seg_len = size;
    return &fragment->base;
}

int mca_btl_rawe_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *) descriptor;

    (void) btl;
    opal_free_list_return(fragment->list, (opal_free_list_item_t *) fragment);
    return OPAL_SUCCESS;
}

mca_btl_base_descriptor_t *mca_btl_rawe_prepare_src(struct mca_btl_base_module_t *btl,
                                                    struct mca_btl_base_endpoint_t *endpoint,
                                                    struct opal_convertor_t *convertor,
                                                    uint8_t order, size_t reserve, size_t *size,
                                                    uint32_t flags)
{
    size_t payload_bytes = *size;

    if (OPAL_UNLIKELY(reserve > btl->btl_max_send_size)) {
        return NULL;
    }
    if (payload_bytes > btl->btl_max_send_size - reserve) {
        payload_bytes = btl->btl_max_send_size - reserve;
    }
    bool in_place = !opal_convertor_need_buffers(convertor);
    bool room_for_copy = !in_place || reserve + payload_bytes <= MCA_BTL_RAWE_COPY_SENT_BYTES;
    mca_btl_base_descriptor_t *descriptor = mca_btl_rawe_alloc(
        btl, endpoint, order, reserve + (room_for_copy ? payload_bytes : 0), flags);
    if (OPAL_UNLIKELY(NULL == descriptor)) {
        return NULL;
    }
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *) descriptor;
    if (in_place) {
        fragment->segments[0].seg_len = reserve;
        void *source;
        opal_convertor_get_current_pointer(convertor, &source);
        fragment->segments[1].seg_addr.pval = source;
        fragment->segments[1].seg_len = payload_bytes;
        fragment->base.des_segment_count = 2;
    } else {
        struct iovec iov = {.iov_base = (IOVBASE_TYPE *) (fragment->data + reserve),
                            .iov_len = payload_bytes};
        uint32_t iov_count = 1;
        if (opal_convertor_pack(convertor, &iov, &iov_count, &payload_bytes) < 0) {
            mca_btl_rawe_free(btl, descriptor);
            return NULL;
        }
        fragment->segments[0].seg_len = reserve + payload_bytes;
    }
    *size = payload_bytes;
    return descriptor;
}

/** Tell the PML that a descriptor is done with, and dispose of it when it is ours. */
static void descriptor_complete(mca_btl_rawe_fragment_t *fragment, int status)
{
    uint32_t flags = fragment->base.des_flags;

    if (fragment->completed_early) { /* the endpoint may be gone */
        mca_btl_rawe_free(NULL, &fragment->base);
        return;
    }
    mca_btl_base_module_t *btl = &fragment->endpoint->module->super;
    if (0 != (flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK)) {
        fragment->base.des_cbfunc(btl, fragment->endpoint, &fragment->base, status);
    }
    if (0 != (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)) {
        mca_btl_rawe_free(btl, &fragment->base);
    }
}

/** rawe_send.done of a message. */
static void message_done(struct rawe_send *send, enum rawe_status status)
{
    mca_btl_rawe_fragment_t *fragment =
        (mca_btl_rawe_fragment_t *) ((char *) send - offsetof(mca_btl_rawe_fragment_t, send));

    if (MCA_BTL_RAWE_SEND_CALLING == fragment->phase) {
        fragment->phase = MCA_BTL_RAWE_SEND_FINISHED;
        fragment->status = status;
        return;
    }
    descriptor_complete(fragment, RAWE_STATUS_DONE == status ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
}

/**
 * All of a fragment that is ours, or becomes so by a copy, has left: as good as sent. The PML may
 * go on, and the fragment is kept until it has been acknowledged.
 */
static void fragment_transmitted(mca_btl_rawe_fragment_t *fragment, struct rawe_conn *conn)
{
    struct rawe_send *send = &fragment->send;

    if (1 != send->piece_count) {
        /* The first piece lies there already. */
        memcpy(fragment->data + send->pieces[0].len_bytes, send->pieces[1].base,
               send->pieces[1].len_bytes);
        rawe_conn_send_rebased(conn, send, fragment->data);
    }
    fragment->completed_early = true;
    if (0 != (fragment->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK)) {
        fragment->base.des_cbfunc(&fragment->endpoint->module->super, fragment->endpoint,
                                  &fragment->base, OPAL_SUCCESS);
    }
}

/** rawe_send.transmitted of such a message. */
static void message_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    mca_btl_rawe_fragment_t *fragment =
        (mca_btl_rawe_fragment_t *) ((char *) send - offsetof(mca_btl_rawe_fragment_t, send));

    fragment_transmitted(fragment, conn);
}

/** send_in_place: complete for the PML, which has been told; the fragment is still in use. */
#define MCA_BTL_RAWE_TAKEN 2

/** So many messages in a row, within btl_rawe_streak_us, are a burst: each takes 2 us, or more. */
#define STREAK_MESSAGES 8u

/**
 * Is this message, which fits a frame, one of many that are sent in a row? Then it had better share
 * a batch with those behind it, on the bulk lane: a system call for dozens of them instead of one
 * for each. It takes both signs: frames in flight alone also pile up when the peer is slow, and
 * messages close to each other alone are also those of a ping-pong; lone messages lose by it (NAS
 * LU 10 % of its time, ping-pong 20 %). Not while long messages are there, which it would have to
 * wait for; and once in a burst, until all of that lane is acknowledged, as changing lanes changes
 * the order.
 */
static bool joins_streak(mca_btl_base_endpoint_t *endpoint, const struct rawe_conn *express,
                        size_t total_bytes)
{
    if (OPAL_LIKELY(!rawe_conn_coalesce_poor(express, total_bytes))) {
        return false;
    }
    const struct rawe_engine *engine = &endpoint->module->engine;
    const struct rawe_conn *bulk = endpoint->conn[RAWE_LANE_BULK];
    bool idle = NULL == bulk || rawe_conn_idle(bulk);
    if (endpoint->streak && (!idle || 0 == endpoint->streak_count)) {
        return true; /* 0: it has begun with this message, in sendi */
    }
    endpoint->streak = false;
    if (OPAL_LIKELY(++endpoint->streak_count <= STREAK_MESSAGES)) {
        return false;
    }
    uint64_t now_ns = mca_btl_rawe_now_ns();
    endpoint->streak = 0 != engine->config.coalesce_from_frames && idle
                      && express->sendwin.in_flight >= engine->config.coalesce_from_frames
                      && now_ns - endpoint->streak_since_ns < 1000 * mca_btl_rawe_params.streak_us
                      && NULL != engine->batches.output.transmit
                      && (NULL == bulk || RAWE_BATCH_UNTRIED == bulk->batch
                          || RAWE_BATCH_VALID == bulk->batch);
    endpoint->streak_count = 0;
    endpoint->streak_since_ns = now_ns;
    return endpoint->streak;
}

/**
 * Hand a fragment to the engine from where it lies. Lock held. Returns what btl_send returns, or
 * MCA_BTL_RAWE_TAKEN.
 */
static int send_in_place(struct rawe_conn *conn, mca_btl_rawe_fragment_t *fragment,
                         mca_btl_base_tag_t tag, bool ordered, uint64_t now_ns)
{
    /* In segments it can share batches with others, however short it is. */
    bool burst = RAWE_LANE_BULK == conn->lane && fragment->endpoint->streak;
    struct rawe_send *send = &fragment->send;

    send->done = message_done;
    send->kind = RAWE_FRAGMENT_MESSAGE;
    send->tag = (uint8_t) tag;
    send->ordered = ordered || burst;
    send->piece_count = (uint8_t) fragment->base.des_segment_count;
    for (size_t i = 0; i < fragment->base.des_segment_count; ++i) {
        send->pieces[i].base = fragment->segments[i].seg_addr.pval;
        send->pieces[i].len_bytes = fragment->segments[i].seg_len;
    }
    /*
     * Data that lies in our own memory and has left is as good as sent: the PML may go on, and the
     * fragment is kept until it has been acknowledged. It must not wait for that: osc/pt2pt sends,
     * blocking, from inside progress, and would never return. But what has not left yet (a
     * connection is being made) is not complete: the PML might not call progress again for long.
     *
     * Data that is not ours becomes so by a copy, while the frames are on their way already: what
     * that takes is less than what waiting for the acknowledgement does.
     */
    bool copied = 1 != send->piece_count && !ordered
                  && fragment->segments[0].seg_len + fragment->segments[1].seg_len
                         <= MCA_BTL_RAWE_COPY_SENT_BYTES;
    bool ours = (1 == send->piece_count || copied)
                && 0 != (fragment->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    send->relaxed = ours;
    send->transmitted = NULL;
    fragment->phase = MCA_BTL_RAWE_SEND_CALLING;
    rawe_conn_send(conn, send, now_ns);
    if (MCA_BTL_RAWE_SEND_FINISHED != fragment->phase) {
        fragment->phase = MCA_BTL_RAWE_SEND_QUEUED;
        if (ours && send->framed_bytes == send->total_bytes) {
            fragment_transmitted(fragment, conn);
            return MCA_BTL_RAWE_TAKEN;
        }
        if (ours) {
            send->transmitted = message_transmitted;
        }
        fragment->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
        return 0;
    }
    return RAWE_STATUS_DONE == fragment->status ? 1 : OPAL_ERR_UNREACH;
}

/** Copy a short message: into a frame that is held back already, if there is one, or its own. */
static enum rawe_status send_copy(struct rawe_conn *conn, mca_btl_base_tag_t tag,
                                  const void *first, size_t first_bytes, const void *second,
                                  size_t second_bytes)
{
    if (rawe_conn_coalesce(conn, (uint8_t) tag, first, first_bytes, second, second_bytes)) {
        return RAWE_STATUS_DONE;
    }
    if (OPAL_UNLIKELY(!rawe_conn_stamps_later(conn))) {
        return rawe_conn_send_copy(conn, (uint8_t) tag, first, first_bytes, second, second_bytes,
                                   mca_btl_rawe_now_ns());
    }
    /* The clock is read while the frame is on its way already. */
    enum rawe_status status = rawe_conn_send_copy(conn, (uint8_t) tag, first, first_bytes, second,
                                                  second_bytes, RAWE_TIME_LATER);
    rawe_conn_stamp(conn, mca_btl_rawe_now_ns());
    return status;
}

int mca_btl_rawe_send(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                      mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *) descriptor;
    mca_btl_base_segment_t *segments = descriptor->des_segments;
    size_t second_bytes = descriptor->des_segment_count > 1 ? segments[1].seg_len : 0;
    size_t total_bytes = segments[0].seg_len + second_bytes;
    int result = OPAL_ERR_OUT_OF_RESOURCE;

    (void) btl;
    fragment->endpoint = endpoint;
    mca_btl_rawe_lock();
    bool ordered = must_keep_order(descriptor->des_flags);
    if (ordered) {
        endpoint = endpoint->in_order;
    }
    mca_btl_rawe_module_t *module = endpoint->module;
    struct rawe_conn *conn = mca_btl_rawe_endpoint_conn(endpoint, RAWE_LANE_EXPRESS);
    if (OPAL_LIKELY(NULL != conn)) {
        enum rawe_status status = RAWE_STATUS_BUSY;
        bool framed = total_bytes <= rawe_conn_frame_message_bytes(conn);
        if (ordered || !framed) {
            endpoint->streak = false;
            conn = mca_btl_rawe_endpoint_conn(endpoint, RAWE_LANE_BULK);
        } else if (joins_streak(endpoint, conn, total_bytes)) {
            endpoint->streak_count = 1;
            conn = mca_btl_rawe_endpoint_conn(endpoint, RAWE_LANE_BULK);
        } else if (total_bytes <= module->engine.config.copy_max_bytes) {
            status = send_copy(conn, tag, segments[0].seg_addr.pval, segments[0].seg_len,
                               0 != second_bytes ? segments[1].seg_addr.pval : NULL, second_bytes);
        }
        if (RAWE_STATUS_DONE == status) {
            result = 1;
        } else if (RAWE_STATUS_FAILED == status) {
            result = OPAL_ERR_UNREACH;
        } else if (OPAL_LIKELY(NULL != conn)) {
            result = send_in_place(conn, fragment, tag, ordered, mca_btl_rawe_now_ns());
        }
    }
    if (1 == result) {
        descriptor_complete(fragment, OPAL_SUCCESS);
    }
    mca_btl_rawe_thread_watch(module);
    mca_btl_rawe_unlock();
    return MCA_BTL_RAWE_TAKEN == result ? 1 : result;
}

int mca_btl_rawe_sendi(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       struct opal_convertor_t *convertor, void *header, size_t header_size,
                       size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                       mca_btl_base_descriptor_t **descriptor)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *) btl;
    enum rawe_status status = RAWE_STATUS_BUSY;
    uint8_t packed[SENDI_PACK_BYTES_MAX];
    void *payload = NULL;

    if (0 != payload_size) {
        if (OPAL_LIKELY(!opal_convertor_need_buffers(convertor))) {
            opal_convertor_get_current_pointer(convertor, &payload);
        } else if (payload_size <= sizeof(packed)) {
            struct iovec iov = {.iov_base = (IOVBASE_TYPE *) packed, .iov_len = payload_size};
            uint32_t iov_count = 1;
            size_t position = 0;
            (void) opal_convertor_pack(convertor, &iov, &iov_count, &payload_size);
            /* Should the engine be busy, the PML packs again, from the start. */
            opal_convertor_set_position(convertor, &position);
            payload = packed;
        }
    }
    if (OPAL_LIKELY((NULL != payload || 0 == payload_size)
                    && header_size + payload_size <= module->engine.config.copy_max_bytes)) {
        mca_btl_rawe_lock();
        struct rawe_conn *conn = mca_btl_rawe_endpoint_conn(endpoint, RAWE_LANE_EXPRESS);
        if (OPAL_LIKELY(NULL != conn
                        && header_size + payload_size <= rawe_conn_frame_message_bytes(conn)
                        && !joins_streak(endpoint, conn, header_size + payload_size))) {
            status = send_copy(conn, tag, header, header_size, payload, payload_size);
        }
        mca_btl_rawe_thread_watch(module);
        mca_btl_rawe_unlock();
    }
    if (OPAL_LIKELY(RAWE_STATUS_DONE == status)) {
        return OPAL_SUCCESS;
    }
    /* The PML goes on with this one: it packs into it and calls btl_send. */
    if (NULL != descriptor) {
        *descriptor = mca_btl_rawe_alloc(btl, endpoint, order, header_size + payload_size, flags);
    }
    return RAWE_STATUS_FAILED == status ? OPAL_ERR_UNREACH : OPAL_ERR_OUT_OF_RESOURCE;
}

/** rawe_send.done of a PUT: the far side has placed all of it, or never will. */
static void put_done(struct rawe_send *send, enum rawe_status status)
{
    mca_btl_rawe_fragment_t *fragment =
        (mca_btl_rawe_fragment_t *) ((char *) send - offsetof(mca_btl_rawe_fragment_t, send));
    mca_btl_base_module_t *btl = &fragment->endpoint->module->super;

    fragment->put.callback(btl, fragment->endpoint, fragment->put.local_address,
                           fragment->put.local_handle, fragment->put.context,
                           fragment->put.cbdata,
                           RAWE_STATUS_DONE == status ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
    mca_btl_rawe_free(btl, &fragment->base);
}

int mca_btl_rawe_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     void *local_address, uint64_t remote_address,
                     mca_btl_base_registration_handle_t *local_handle,
                     mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                     int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                     void *cbdata)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *) btl;

    (void) flags;
    (void) order;
    if (0 == size) {
        callback(btl, endpoint, local_address, local_handle, context, cbdata, OPAL_SUCCESS);
        return OPAL_SUCCESS;
    }
    mca_btl_rawe_fragment_t *fragment = fragment_take(&module->fragments_bare, endpoint);
    if (OPAL_UNLIKELY(NULL == fragment)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    fragment->put.callback = callback;
    fragment->put.local_address = local_address;
    fragment->put.local_handle = local_handle;
    fragment->put.context = context;
    fragment->put.cbdata = cbdata;
    struct rawe_send *send = &fragment->send;
    send->done = put_done;
    send->kind = RAWE_FRAGMENT_PUT;
    send->tag = 0;
    send->transmitted = NULL;
    send->ordered = false;
    send->relaxed = false;
    send->piece_count = 1;
    send->pieces[0].base = local_address;
    send->pieces[0].len_bytes = size;
    send->handle_index = remote_handle->index;
    send->handle_key = remote_handle->key;
    send->offset = remote_address - remote_handle->base;

    mca_btl_rawe_lock();
    struct rawe_conn *conn = mca_btl_rawe_endpoint_conn(endpoint, RAWE_LANE_BULK);
    endpoint->streak = false;
    if (OPAL_LIKELY(NULL != conn)) {
        rawe_conn_send(conn, send, mca_btl_rawe_now_ns());
        mca_btl_rawe_thread_watch(module);
    }
    mca_btl_rawe_unlock();
    if (OPAL_UNLIKELY(NULL == conn)) {
        mca_btl_rawe_free(btl, &fragment->base);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}
