/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_send.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"
#include "btl_rawe_thread.h"
#include "core/conn/rawe_conn_record.h"
#include "core/routes/rawe_balance.h"

#include <string.h>

/** Longest scattered payload that the PML passes to sendi, which packs it on the stack. */
#define SENDI_PACK_BYTES_MAX 512u

static void fragment_construct(mca_btl_rawe_fragment_t *fragment)
{
    fragment->base.des_segments = fragment->segments;
    fragment->base.des_segment_count = 1;
    fragment->list = NULL;
    fragment->complete = (struct rawe_link){.next = NULL};
    fragment->rdma.btl = NULL;
}

OBJ_CLASS_INSTANCE(mca_btl_rawe_fragment_t, mca_btl_base_descriptor_t, fragment_construct, NULL);
OBJ_CLASS_INSTANCE(mca_btl_rawe_registration_t, opal_free_list_item_t, NULL, NULL);

static mca_btl_rawe_fragment_t *fragment_of(struct rawe_message *message)
{
    return RAWE_OWNER(message, mca_btl_rawe_fragment_t, message);
}

static mca_btl_rawe_fragment_t *fragment_take(opal_free_list_t *list,
                                              mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *)mca_btl_rawe_compat_take(list);
    if (OPAL_LIKELY(NULL != fragment)) {
        fragment->list = list;
        fragment->endpoint = endpoint;
    }
    return fragment;
}

/** Return true for the body of a long message (no PRIORITY), which the PML needs in order. */
static bool must_keep_order(uint32_t flags)
{
    return 0 == (flags & MCA_BTL_DES_FLAGS_PRIORITY);
}

mca_btl_base_descriptor_t *mca_btl_rawe_alloc(struct mca_btl_base_module_t *btl,
                                              struct mca_btl_base_endpoint_t *endpoint,
                                              uint8_t order, size_t size, uint32_t flags)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *)btl;
    opal_free_list_t *list;

    if (must_keep_order(flags)) {
        module = endpoint->in_order->module; /* that module's engine will hold the fragment */
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
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *)descriptor;

    mca_btl_rawe_compat_give(fragment->list, (opal_free_list_item_t *)fragment);
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
    bool in_place = !mca_btl_rawe_compat_must_pack(convertor);
    bool room_for_copy = !in_place || reserve + payload_bytes <= RAWE_PEER_COPY_BYTES;
    mca_btl_base_descriptor_t *descriptor = mca_btl_rawe_alloc(
        btl, endpoint, order, reserve + (room_for_copy ? payload_bytes : 0), flags);
    if (OPAL_UNLIKELY(NULL == descriptor)) {
        return NULL;
    }
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *)descriptor;
    if (in_place) {
        fragment->segments[0].seg_len = reserve;
        void *source;
        opal_convertor_get_current_pointer(convertor, &source);
        fragment->segments[1].seg_addr.pval = source;
        fragment->segments[1].seg_len = payload_bytes;
        fragment->base.des_segment_count = 2;
    } else {
        struct iovec iov = {.iov_base = (IOVBASE_TYPE *)(fragment->data + reserve),
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

/** Tell the user of a refusal as well, because Open MPI may ignore the status. */
void mca_btl_rawe_rdma_report(mca_btl_rawe_fragment_t *fragment, enum rawe_refusal refusal,
                              int status)
{
    mca_btl_base_module_t *btl = fragment->rdma.btl;

    if (OPAL_UNLIKELY(RAWE_REFUSAL_NONE != refusal)) {
        mca_btl_rawe_access_refused(btl, fragment->rdma.proc, refusal);
    }
    if (NULL != fragment->rdma.callback) {
        fragment->rdma.callback(btl, fragment->endpoint, fragment->rdma.local_address,
                                fragment->rdma.local_handle, fragment->rdma.context,
                                fragment->rdma.cbdata, status);
    }
    mca_btl_rawe_free(btl, &fragment->base);
}

/** Report completion to the PML, and free the descriptor if it is ours and no longer in use. */
static void report_complete(mca_btl_rawe_fragment_t *fragment, int status)
{
    const struct rawe_message *message = &fragment->message;
    mca_btl_base_module_t *btl = &fragment->endpoint->module->super;
    uint32_t flags = fragment->base.des_flags;
    /* Read nothing of the fragment after the callback, during which the peer may release it. */
    bool dispose = 0 != (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) && !message->completed_early;

    /* A caller that gives us the descriptor may have no callback: 5.0's am-rdma has none. */
    if (0 != (flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && NULL != fragment->base.des_cbfunc) {
        fragment->base.des_cbfunc(btl, fragment->endpoint, &fragment->base, status);
    }
    if (dispose) {
        mca_btl_rawe_free(btl, &fragment->base);
    }
}

/** Return a send's status as the PML expects it. */
static int opal_status(enum rawe_status status)
{
    return RAWE_STATUS_DONE == status ? OPAL_SUCCESS : OPAL_ERR_UNREACH;
}

/** Implement rawe_message.complete. */
static void message_complete(struct rawe_message *message, enum rawe_status status)
{
    report_complete(fragment_of(message), opal_status(status));
}

/** Have progress report handed-over work that completed, or failed, at once. */
static void report_later(mca_btl_rawe_fragment_t *fragment, int status)
{
    fragment->status = status;
    rawe_list_append(&mca_btl_rawe_state.complete, &fragment->complete);
}

void mca_btl_rawe_send_complete_deferred(void)
{
    struct rawe_link *next;

    while (NULL != (next = rawe_list_take(&mca_btl_rawe_state.complete))) {
        mca_btl_rawe_fragment_t *fragment = RAWE_OWNER(next, mca_btl_rawe_fragment_t, complete);
        if (NULL != fragment->rdma.btl) {
            mca_btl_rawe_rdma_report(fragment, RAWE_REFUSAL_NONE, fragment->status);
        } else {
            report_complete(fragment, fragment->status);
        }
    }
}

/** Implement rawe_message.release. The endpoint may no longer exist. */
static void message_release(struct rawe_message *message)
{
    mca_btl_rawe_free(NULL, &fragment_of(message)->base);
}

static mca_btl_rawe_fragment_t *fragment_of_work(struct mca_btl_rawe_work *work)
{
    return RAWE_OWNER(work, mca_btl_rawe_fragment_t, work);
}

/** Return the endpoint that carries a message. Lock held. */
static mca_btl_base_endpoint_t *carrying_endpoint(const mca_btl_rawe_fragment_t *fragment)
{
    return fragment->message.send.ordered ? fragment->endpoint->in_order : fragment->endpoint;
}

/** Send a message through this endpoint. Returns 1 if complete, as btl_send does. Lock held. */
static inline int send_by(mca_btl_base_endpoint_t *endpoint, mca_btl_rawe_fragment_t *fragment)
{
    switch (rawe_peer_send(&endpoint->peer, &fragment->message)) {
    case RAWE_PEER_COMPLETE:
        return 1;
    case RAWE_PEER_QUEUED:
        /* Part of the message waits for acknowledgements. */
        mca_btl_rawe_thread_watch_as(endpoint->module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
        return OPAL_SUCCESS;
    case RAWE_PEER_FAILED:
        return OPAL_ERR_UNREACH;
    default:
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
}

/** Send a handed-over message. No engine calls Open MPI, because all engines share a deferral. */
static void send_handed_over(struct mca_btl_rawe_work *work)
{
    mca_btl_rawe_fragment_t *fragment = fragment_of_work(work);
    mca_btl_base_endpoint_t *endpoint = carrying_endpoint(fragment);
    struct rawe_engine *engine = &endpoint->module->engine;

    rawe_engine_defer_begin(engine);
    int result = send_by(endpoint, fragment);
    rawe_engine_defer_end(engine);
    if (OPAL_SUCCESS != result) {
        report_later(fragment, 1 == result ? OPAL_SUCCESS : result);
    }
    mca_btl_rawe_thread_watch(endpoint->module);
}

int mca_btl_rawe_send(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                      mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    mca_btl_rawe_fragment_t *fragment = (mca_btl_rawe_fragment_t *)descriptor;
    struct rawe_message *message = &fragment->message;
    struct rawe_send *send = &message->send;
    bool ours = 0 != (descriptor->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);

    fragment->endpoint = endpoint;
    message->complete = message_complete;
    message->release = message_release;
    message->own = ours ? fragment->data : NULL;
    send->tag = (uint8_t)tag;
    send->ordered = must_keep_order(descriptor->des_flags);
    send->piece_count = (uint8_t)descriptor->des_segment_count;
    for (size_t i = 0; i < descriptor->des_segment_count; ++i) {
        send->pieces[i].base = descriptor->des_segments[i].seg_addr.pval;
        send->pieces[i].len_bytes = descriptor->des_segments[i].seg_len;
    }
    /* A part must not overtake earlier ones, which other threads have handed over. */
    if (OPAL_UNLIKELY(!(send->ordered ? mca_btl_rawe_enter_in_order() : mca_btl_rawe_enter()))) {
        descriptor->des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
        fragment->work.perform = send_handed_over;
        mca_btl_rawe_lock_hand_over(&fragment->work);
        return OPAL_SUCCESS;
    }
    endpoint = carrying_endpoint(fragment);
    int result = send_by(endpoint, fragment);
    if (1 == result) {
        report_complete(fragment, OPAL_SUCCESS);
    } else if (OPAL_SUCCESS == result) {
        descriptor->des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
    }
    mca_btl_rawe_thread_watch(endpoint->module);
    mca_btl_rawe_unlock();
    return result;
}

int mca_btl_rawe_sendi(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       struct opal_convertor_t *convertor, void *header, size_t header_size,
                       size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                       mca_btl_base_descriptor_t **descriptor)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *)btl;
    enum rawe_status status = RAWE_STATUS_BUSY;
    uint8_t packed[SENDI_PACK_BYTES_MAX];
    void *payload = NULL;

    if (0 != payload_size) {
        if (OPAL_LIKELY(!mca_btl_rawe_compat_must_pack(convertor))) {
            opal_convertor_get_current_pointer(convertor, &payload);
        } else if (payload_size <= sizeof(packed)) {
            struct iovec iov = {.iov_base = (IOVBASE_TYPE *)packed, .iov_len = payload_size};
            uint32_t iov_count = 1;
            size_t position = 0, packed_bytes = payload_size;
            if (opal_convertor_pack(convertor, &iov, &iov_count, &packed_bytes) >= 0) {
                payload = packed;
            }
            /* If the engine is busy, the PML packs again from the start. */
            opal_convertor_set_position(convertor, &position);
        }
    }
    if (OPAL_LIKELY((NULL != payload || 0 == payload_size) && mca_btl_rawe_enter())) {
        status = rawe_peer_send_copy(&endpoint->peer, (uint8_t)tag, header, header_size, payload,
                                     payload_size);
        mca_btl_rawe_thread_watch(module);
        mca_btl_rawe_unlock();
    }
    if (OPAL_LIKELY(RAWE_STATUS_DONE == status)) {
        return OPAL_SUCCESS;
    }
    /* The PML packs into this descriptor and calls btl_send. */
    if (NULL != descriptor) {
        *descriptor = mca_btl_rawe_alloc(btl, endpoint, order, header_size + payload_size, flags);
    }
    return RAWE_STATUS_FAILED == status ? OPAL_ERR_UNREACH : OPAL_ERR_OUT_OF_RESOURCE;
}

/** Implement rawe_operation.done. */
static void rdma_done(struct rawe_operation *operation, enum rawe_status status)
{
    mca_btl_rawe_rdma_report(RAWE_OWNER(operation, mca_btl_rawe_fragment_t, operation),
                             operation->refusal, opal_status(status));
}

mca_btl_rawe_fragment_t *mca_btl_rawe_rdma_new(mca_btl_base_module_t *btl,
                                               struct mca_btl_base_endpoint_t *endpoint,
                                               const opal_proc_t *proc, void *local_address,
                                               mca_btl_base_registration_handle_t *local_handle,
                                               mca_btl_base_rdma_completion_fn_t callback,
                                               void *context, void *cbdata)
{
    mca_btl_rawe_fragment_t *fragment = fragment_take(&mca_btl_rawe_state.operations, endpoint);

    if (OPAL_LIKELY(NULL != fragment)) {
        fragment->rdma.btl = btl;
        fragment->rdma.proc = proc;
        fragment->rdma.local_address = local_address;
        fragment->rdma.local_handle = local_handle;
        fragment->rdma.callback = callback;
        fragment->rdma.context = context;
        fragment->rdma.cbdata = cbdata;
    }
    return fragment;
}

void mca_btl_rawe_rdma_aim(mca_btl_rawe_fragment_t *fragment, uint8_t kind, uint64_t remote_address,
                           const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                           void *local)
{
    struct rawe_operation *operation = &fragment->operation;

    operation->done = rdma_done;
    operation->handle_index = remote_handle->index;
    operation->handle_key = remote_handle->key;
    operation->offset = remote_address - remote_handle->base;
    operation->len_bytes = size;
    operation->local = local;
    operation->kind = kind;
    operation->spreads = false;
}

/** Begin a PUT or GET over all routes to the process. Lock held. False when out of memory. */
static bool rdma_begin(mca_btl_rawe_fragment_t *fragment)
{
    struct rawe_peer *peer = &fragment->endpoint->peer, *each = peer;
    bool taken = rawe_balance_operate(peer, &fragment->operation);

    do {
        mca_btl_base_endpoint_t *endpoint = each->owner;
        mca_btl_rawe_thread_watch(endpoint->module);
        each = rawe_peer_next(each);
    } while (each != peer);
    return taken;
}

/** Begin a handed-over PUT or GET. Other modules may carry parts of it. */
static void rdma_handed_over(struct mca_btl_rawe_work *work)
{
    mca_btl_rawe_fragment_t *fragment = fragment_of_work(work);
    struct rawe_engine *engine = &fragment->endpoint->module->engine;

    rawe_engine_defer_begin(engine);
    if (!rdma_begin(fragment)) {
        report_later(fragment, OPAL_ERR_OUT_OF_RESOURCE);
    }
    rawe_engine_defer_end(engine);
}

/** Perform a PUT or GET now, or when the thread inside the engines leaves them. */
static int rdma_perform(struct mca_btl_base_endpoint_t *endpoint, uint8_t kind, void *local_address,
                        uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
                        const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                        mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_rawe_fragment_t *fragment =
        mca_btl_rawe_rdma_new(&endpoint->module->super, endpoint, endpoint->proc, local_address,
                              local_handle, callback, context, cbdata);

    if (OPAL_UNLIKELY(NULL == fragment)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (0 == size) {
        mca_btl_rawe_rdma_report(fragment, RAWE_REFUSAL_NONE, OPAL_SUCCESS);
        return OPAL_SUCCESS;
    }
    mca_btl_rawe_rdma_aim(fragment, kind, remote_address, remote_handle, size, local_address);
    fragment->operation.spreads = true;
    if (OPAL_UNLIKELY(!mca_btl_rawe_enter())) {
        fragment->work.perform = rdma_handed_over;
        mca_btl_rawe_lock_hand_over(&fragment->work);
        return OPAL_SUCCESS;
    }
    bool taken = rdma_begin(fragment);
    mca_btl_rawe_unlock();
    if (OPAL_UNLIKELY(!taken)) {
        mca_btl_rawe_free(NULL, &fragment->base);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}

int mca_btl_rawe_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     void *local_address, uint64_t remote_address,
                     mca_btl_base_registration_handle_t *local_handle,
                     mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                     int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                     void *cbdata)
{
    return rdma_perform(endpoint, RAWE_FRAGMENT_PUT, local_address, remote_address, local_handle,
                        remote_handle, size, callback, context, cbdata);
}

int mca_btl_rawe_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     void *local_address, uint64_t remote_address,
                     mca_btl_base_registration_handle_t *local_handle,
                     mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                     int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                     void *cbdata)
{
    return rdma_perform(endpoint, RAWE_FRAGMENT_GET, local_address, remote_address, local_handle,
                        remote_handle, size, callback, context, cbdata);
}

/** Return what peers may do with memory that Open MPI registers with `flags`. */
static unsigned access_of(uint32_t flags)
{
    return (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_READ) ? RAWE_ACCESS_READ : 0) |
           (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) ? RAWE_ACCESS_WRITE : 0) |
           (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) ? RAWE_ACCESS_ATOMIC : 0);
}

struct mca_btl_base_registration_handle_t *mca_btl_rawe_register_mem(
    struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *base,
    size_t size, uint32_t flags)
{
    opal_free_list_t *list = &mca_btl_rawe_state.registrations;
    mca_btl_rawe_registration_t *registration =
        (mca_btl_rawe_registration_t *)mca_btl_rawe_compat_take(list);

    if (OPAL_UNLIKELY(NULL == registration)) {
        return NULL;
    }
    registration->handle.base = (uint64_t)(uintptr_t)base;
    registration->handle.zero = 0;
    mca_btl_rawe_lock();
    bool registered =
        rawe_handle_register(&mca_btl_rawe_state.handles, base, size, &registration->handle.index,
                             &registration->handle.key, access_of(flags));
    mca_btl_rawe_unlock();
    if (OPAL_UNLIKELY(!registered)) {
        mca_btl_rawe_compat_give(list, &registration->super);
        return NULL;
    }
    return &registration->handle;
}

int mca_btl_rawe_deregister_mem(struct mca_btl_base_module_t *btl,
                                struct mca_btl_base_registration_handle_t *handle)
{
    mca_btl_rawe_registration_t *registration =
        RAWE_OWNER(handle, mca_btl_rawe_registration_t, handle);

    mca_btl_rawe_lock();
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        if (module->open) {
            rawe_conn_serve_forget(&module->engine, handle->index);
        }
    }
    (void)rawe_handle_deregister(&mca_btl_rawe_state.handles, handle->index, handle->key);
    mca_btl_rawe_unlock();
    mca_btl_rawe_compat_give(&mca_btl_rawe_state.registrations, &registration->super);
    return OPAL_SUCCESS;
}
