/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_multicast.h"

#include "opal/class/opal_hash_table.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "core/base/rawe_list.h"
#include "linux/packet/rawe_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/** Memory for receiving group frames: a few windows at MTU 1500. */
#define RING_BYTES (1u << 20)

/** Memory for receiving batches: for packets of one frame, and for those of up to 16 kB. */
#define BULK_RING_BYTES (4u << 20)
#define MIDDLE_RING_BYTES (8u << 20)

/** Frames received at a time. */
#define RECEIVE_BUDGET 64u

/** Number of groups that the table holds before it grows. */
#define GROUPS_EXPECTED 64u

/**
 * A root's window has at least this many unacknowledged frames, or more, up to this many bytes.
 * With 1 MiB, a Bcast of 1 MiB took 1.4 times as long, because copies do not stay in the cache.
 */
#define WINDOW_FRAMES_LEAST 64u
#define WINDOW_BYTES (1u << 19)

/** Messages closer together than this, without progress between them, may wait to share a frame. */
#define STREAK_NS 5000u

/** A group that waits longer than this probes the members it waits for, at this interval. */
#define ASK_NS 1000000000ull

struct mca_btl_rawe_multicast {
    struct rawe_group core;
    struct rawe_link busy; /**< in the list of groups with something in flight */
    bool closed;
    uint64_t asked_ns; /**< when the group began to wait, or last probed; 0: not set */
    struct mca_btl_rawe_transfer *transfer; /**< the call's transfer; NULL: no call waits */
    uint32_t root;                          /**< the message's root; this member for a send */
    size_t taken_bytes;                     /**< received so far, if the message is expected */
    struct rawe_group_send send;
    mca_btl_base_endpoint_t *endpoints[]; /**< the members' endpoints; NULL: this process */
};

static struct {
    mca_btl_rawe_module_t *module; /**< the module in use; NULL: no port is open yet */
    opal_hash_table_t all;         /**< by group id; programs may have thousands of communicators */
    struct rawe_link busy;
    struct rawe_group_counters counters;       /**< counters of all groups */
    uint8_t address[RAWE_MAC_BYTES];           /**< 03-72-61, and three bytes from the job's id */
    uint32_t ports_get[RAWE_PORT_GROUP_WORDS]; /**< rawe_port_config.groups */
    bool filtered;                             /**< the ports' filters use `ports_get` */
    unsigned waiting;                          /**< groups for which a call waits */
    bool deferring;                            /**< nothing may be delivered */
    bool holding;     /**< a frame is held back for more messages, or until progress */
    uint64_t sent_ns; /**< when the last message was sent; 0: progress was made since */
    const struct mca_btl_rawe_multicast *last; /**< the group of the last message */
    unsigned streak;                           /**< consecutive messages of that group */
} groups;

/** Return the only module with raw frames that leads to other hosts, or NULL. */
static mca_btl_rawe_module_t *only_module(void)
{
    mca_btl_rawe_module_t *only = NULL;
    unsigned count = 0;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        if (!module->interface.loopback && !module->address.udp) {
            only = module;
            ++count;
        }
    }
    return 1 == count ? only : NULL;
}

bool mca_btl_rawe_multicast_possible(bool mpi_threads)
{
    return !mpi_threads && !mca_btl_rawe_compat_fault_tolerant() && NULL != only_module();
}

/* ---- the wire ---- */

/** Build a frame to a group address; `head` begins with room for the Ethernet header. */
static struct rawe_frame frame_to(const uint8_t *address, uint8_t *head, size_t head_bytes,
                                  const struct rawe_bytes *rest)
{
    rawe_eth_header_encode(head, address, groups.module->engine.config.mac,
                           (uint16_t)mca_btl_rawe_params.ethertype);
    return (struct rawe_frame){.pieces = {{head, head_bytes}, *rest},
                               .piece_count = 2,
                               .len_bytes = (uint32_t)(head_bytes + rest->len_bytes)};
}

/** Implement rawe_group_output.multicast. */
static bool send_multicast(void *context, const struct rawe_bytes *bytes)
{
    struct rawe_port *link = groups.module->link;
    uint8_t head[RAWE_ETH_HEADER_BYTES];
    const struct rawe_frame frame = frame_to(groups.address, head, sizeof(head), bytes);

    return 1 == link->kind->transmit(link, &frame, 1);
}

/** Implement rawe_group_output.control. */
static bool send_control(void *context, uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    struct mca_btl_rawe_multicast *group = context;
    return rawe_peer_send_control(&group->endpoints[to]->peer, group->core.config.id, bytes,
                                  len_bytes);
}

/** 224.0.0.254, for experiments (RFC 4727): snooping switches flood it (RFC 4541). */
static const uint8_t batch_address[RAWE_MAC_BYTES] = {0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE};

/** Implement rawe_group_output.batch. */
static bool send_batch(void *context, uint8_t *head, const struct rawe_bytes *data,
                       uint32_t segment_bytes)
{
    struct rawe_port *bulk = groups.module->group_bulk;
    uint8_t headers[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    const struct rawe_frame packet = frame_to(batch_address, headers, sizeof(headers), data);

    memcpy(headers + RAWE_ETH_HEADER_BYTES, head, RAWE_BATCH_HEADER_BYTES);
    return bulk->kind->transmit_batch(bulk, &packet, segment_bytes);
}

/**
 * Defer completions, which sending a control message may cause: Open MPI would make progress, and
 * that may free the group in use. The engines' next progress reports them. Returns true if they were
 * deferred already.
 */
static bool completions_defer(struct rawe_engine *engine)
{
    const bool before = engine->deferral->active;

    rawe_engine_defer_begin(engine);
    return before;
}

/** Stop deferring completions, unless they were deferred `before`. */
static void completions_resume(struct rawe_engine *engine, bool before)
{
    if (!before) {
        rawe_engine_defer_end(engine);
    }
}

/** Put the group on the busy list: it may have something in flight. */
static void group_touch(struct mca_btl_rawe_multicast *group)
{
    if (!rawe_list_has(&group->busy)) {
        rawe_list_append(&groups.busy, &group->busy);
    }
}

/** Set the transfer for which a call waits; NULL: none. */
static void set_transfer(struct mca_btl_rawe_multicast *group, uint32_t root,
                         struct mca_btl_rawe_transfer *transfer)
{
    groups.waiting -= NULL != group->transfer;
    groups.waiting += NULL != transfer;
    group->transfer = transfer;
    group->root = root;
    group->taken_bytes = 0;
    group->asked_ns = 0;
    if (NULL != transfer) {
        atomic_store_explicit(&transfer->state, MCA_BTL_RAWE_TRANSFER_WAITS, memory_order_relaxed);
        group_touch(group);
    }
}

/** Complete the transfer, so that the call stops waiting. */
static void transfer_complete(struct mca_btl_rawe_multicast *group,
                              enum mca_btl_rawe_transfer_state state)
{
    struct mca_btl_rawe_transfer *transfer = group->transfer;

    set_transfer(group, 0, NULL);
    atomic_store_explicit(&transfer->state, state, memory_order_release);
}

/** Return the open group with this id, or NULL. */
static struct mca_btl_rawe_multicast *group_find(uint64_t id)
{
    void *found;

    return OPAL_SUCCESS == opal_hash_table_get_value_uint64(&groups.all, id, &found) ? found : NULL;
}

/** Return the group of a frame that a member sent from `mac`; NULL: drop, counted if `counts`. */
static struct mca_btl_rawe_multicast *group_of(const struct rawe_group_header *header,
                                               const uint8_t *mac, bool counts)
{
    struct mca_btl_rawe_multicast *group = group_find(header->id);
    uint64_t *drops = &groups.counters.dropped_group;

    if (NULL != group && header->sender >= group->core.config.members) {
        drops = &groups.counters.dropped_member;
    } else if (NULL != group) {
        /* The member's current address: an endpoint follows changes. */
        const mca_btl_base_endpoint_t *endpoint = group->endpoints[header->sender];
        if (NULL != endpoint && 0 == memcmp(endpoint->address.mac, mac, RAWE_MAC_BYTES)) {
            return group;
        }
        drops = &groups.counters.dropped_source;
    }
    *drops += counts;
    return NULL;
}

/** Receive a frame or packet from this address; `*context` is the current time. */
static void group_receive(void *context, const uint8_t *mac, const struct rawe_group_header *header,
                          const uint8_t *payload)
{
    struct mca_btl_rawe_multicast *group = group_of(header, mac, true);

    if (NULL != group) {
        rawe_group_receive(&group->core, header, payload, *(const uint64_t *)context);
        group_touch(group);
    }
}

/** Implement rawe_port_receiver.frame. */
static void receive_group_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    struct rawe_group_header header;
    const size_t group_bytes =
        len_bytes < RAWE_ETH_HEADER_BYTES ? 0 : len_bytes - RAWE_ETH_HEADER_BYTES;
    const uint8_t *payload =
        rawe_group_read(&header, frame + RAWE_ETH_HEADER_BYTES, group_bytes, &groups.counters);

    if (NULL != payload) {
        group_receive(context, frame + RAWE_MAC_BYTES, &header, payload);
    }
}

/** Implement rawe_port_receiver.place. */
static uint8_t *place_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                             size_t head_bytes, size_t data_bytes)
{
    struct rawe_group_header header;

    if (RAWE_DECODE_OK != rawe_group_batch_decode(&header, head, head_bytes, data_bytes)) {
        return NULL;
    }
    /* Drops are counted when the packet has been received. */
    const struct mca_btl_rawe_multicast *group = group_of(&header, source_mac, false);
    return NULL == group ? NULL : rawe_group_place(&group->core, &header);
}

/** Implement rawe_port_receiver.packet. */
static void receive_group_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                                 size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct rawe_group_header header;

    if (RAWE_DECODE_OK == rawe_group_batch_decode(&header, head, head_bytes, data_bytes)) {
        group_receive(context, source_mac, &header, data);
    } else {
        ++groups.counters.dropped_decode;
    }
}

void mca_btl_rawe_multicast_control(void *context, struct rawe_conn *conn, uint64_t channel,
                                    const uint8_t *data, size_t len_bytes)
{
    const mca_btl_base_endpoint_t *endpoint = conn->owner;
    struct mca_btl_rawe_multicast *group = NULL == groups.module ? NULL : group_find(channel);
    const bool deferring = groups.deferring;
    uint32_t from = 0;

    if (NULL == group) {
        return; /* this process has closed the group */
    }
    while (from < group->core.config.members &&
           (NULL == group->endpoints[from] || group->endpoints[from]->proc != endpoint->proc)) {
        ++from;
    }
    const bool deferred = completions_defer(conn->engine);
    groups.deferring = deferring || deferred;
    rawe_group_receive_control(&group->core, from, data, len_bytes, conn->engine->now_ns);
    groups.deferring = deferring;
    completions_resume(conn->engine, deferred);
    group_touch(group);
}

/* ---- life ---- */

/**
 * Make the ports receive only frames of our groups: otherwise all ranks on this host would copy the
 * batches meant for one. Replacing a filter takes up to a millisecond, so keep an unchanged one.
 */
static bool renew_filters(void)
{
    const mca_btl_rawe_module_t *module = groups.module;
    uint32_t wanted[RAWE_PORT_GROUP_WORDS] = {0};
    struct rawe_port_error error;
    uint64_t id;
    void *group;

    OPAL_HASH_TABLE_FOREACH(id, uint64, group, &groups.all)
    {
        wanted[id % 256 / 32] |= UINT32_C(1) << id % 32;
    }
    if (!groups.filtered || 0 != memcmp(wanted, groups.ports_get, sizeof(wanted))) {
        memcpy(groups.ports_get, wanted, sizeof(wanted));
        groups.filtered =
            0 == rawe_port_renew_filter(module->group_port, &error) &&
            (NULL == module->group_bulk || 0 == rawe_port_renew_filter(module->group_bulk, &error));
    }
    return groups.filtered;
}

/** Open the group ports for the module, which closes them. */
static bool open_port(mca_btl_rawe_module_t *module)
{
    const uint32_t job = OPAL_PROC_MY_NAME.jobid * UINT32_C(0x9E3779B1);
    /* The address usually differs between jobs, to spare others work; it is not secret. */
    const uint8_t address[RAWE_MAC_BYTES] = {
        0x03, 0x72, 0x61, (uint8_t)(job >> 8), (uint8_t)(job >> 16), (uint8_t)(job >> 24)};
    struct rawe_port_config config = {
        .kind = &rawe_packet_port,
        .use = RAWE_PORT_GROUP,
        .interface = module->interface.name,
        .interface_index = module->interface.index,
        .ethertype = (uint16_t)mca_btl_rawe_params.ethertype,
        .groups = groups.ports_get,
        .mtu_bytes = module->interface.mtu_bytes,
        .ring_bytes = RING_BYTES,
    };
    struct rawe_port_error error = {.step = "memory for groups", .code = ENOMEM};

    groups.filtered = false;
    memcpy(groups.address, address, sizeof(groups.address));
    memcpy(config.group, address, sizeof(config.group));
    rawe_list_init(&groups.busy);
    OBJ_CONSTRUCT(&groups.all, opal_hash_table_t);
    if (OPAL_SUCCESS != opal_hash_table_init(&groups.all, GROUPS_EXPECTED) ||
        0 != rawe_port_open(&module->group_port, &config, &error)) {
        OBJ_DESTRUCT(&groups.all);
        module->group_port = NULL;
        mca_btl_rawe_compat_say("no groups: %s: %s", error.step, strerror(error.code));
        return false;
    }
    groups.module = module;
    if (NULL != module->engine.batches.output.transmit) {
        config.use = RAWE_PORT_BULK;
        config.ring_bytes = BULK_RING_BYTES;
        config.middle_ring_bytes = MIDDLE_RING_BYTES;
        config.priority = (uint8_t)mca_btl_rawe_params.socket_priority;
        memcpy(config.group, batch_address, sizeof(config.group));
        (void)rawe_port_open(&module->group_bulk, &config, &error); /* on failure, no batches */
    }
    return true;
}

struct mca_btl_rawe_place mca_btl_rawe_multicast_place(void)
{
    struct mca_btl_rawe_place place = {.payload_bytes = 0};
    mca_btl_rawe_module_t *module = only_module();

    mca_btl_rawe_lock();
    if (NULL != module && atomic_load_explicit(&module->open, memory_order_acquire) &&
        (NULL != module->group_port || open_port(module))) {
        place.payload_bytes =
            MIN(module->interface.mtu_bytes - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES,
                RAWE_GROUP_PAYLOAD_MAX);
    }
    if (0 != place.payload_bytes && NULL != module->group_bulk) {
        place.segment_bytes = MIN(module->interface.mtu_bytes - RAWE_BATCH_HEADER_BYTES -
                                      module->group_bulk->overhead_bytes,
                                  place.payload_bytes);
        place.batch_frames = module->group_bulk->receive_frames;
    }
    mca_btl_rawe_unlock();
    return place;
}

/** Return true if this part belongs to the message expected from the root, and may be taken. */
static bool part_expected(const struct mca_btl_rawe_multicast *group,
                          const struct rawe_group_part *part)
{
    return NULL != group->transfer && part->root == group->root && !groups.deferring;
}

/** Implement rawe_group_config.place. */
static uint8_t *place_part(void *context, const struct rawe_group_part *part)
{
    const struct mca_btl_rawe_multicast *group = context;

    return part_expected(group, part) && part->at_bytes == group->taken_bytes &&
                   part->total_bytes == group->transfer->len_bytes
               ? (uint8_t *)group->transfer->data + part->at_bytes
               : NULL;
}

/** Implement rawe_group_config.deliver. */
static bool part_deliver(void *context, const struct rawe_group_part *part)
{
    struct mca_btl_rawe_multicast *group = context;
    struct mca_btl_rawe_transfer *message = group->transfer;

    if (!part_expected(group, part)) {
        return group->closed; /* if closed, drop the rest of a message of another length */
    }
    if (part->at_bytes != group->taken_bytes) {
        return true; /* the rest of a message of another length */
    }
    bool fits = part->total_bytes == message->len_bytes;
    if (fits && 0 != part->len_bytes) {
        uint8_t *place = (uint8_t *)message->data + part->at_bytes;
        if (place != part->data) {
            memcpy(place, part->data, part->len_bytes);
        }
        group->taken_bytes += part->len_bytes;
        if (group->taken_bytes != message->len_bytes) {
            return true;
        }
    }
    message->heard = part->heard;
    message->batches = part->batches;
    message->last = part->last;
    transfer_complete(group, fits ? MCA_BTL_RAWE_TRANSFER_DONE : MCA_BTL_RAWE_TRANSFER_LENGTH);
    return true;
}

/** Return the configuration of a group. */
static struct rawe_group_config config_of(struct mca_btl_rawe_multicast *group, uint64_t id,
                                          uint32_t members, uint32_t self,
                                          const struct mca_btl_rawe_place *all)
{
    const bool batches = 0 != all->segment_bytes && NULL != groups.module->group_bulk;
    uint32_t window_frames = WINDOW_FRAMES_LEAST;

    while (batches && 2 * window_frames * all->payload_bytes <= WINDOW_BYTES &&
           2 * window_frames <= all->batch_frames && 2 * window_frames <= RAWE_WINDOW_FRAMES_MAX) {
        window_frames *= 2;
    }
    return (struct rawe_group_config){
        .id = id,
        .members = members,
        .self = self,
        .payload_bytes = all->payload_bytes,
        .segment_bytes = batches ? all->segment_bytes : 0,
        .window_frames = window_frames,
        /* Messages may be held back only if they are sent without MPI's help. */
        .share_from = 0 != mca_btl_rawe_params.progress_thread_ms
                          ? (uint32_t)mca_btl_rawe_params.coalesce_from
                          : 0,
        .deliver = part_deliver,
        .place = place_part,
        .context = group,
        .output = {.multicast = send_multicast,
                   .batch = send_batch,
                   .control = send_control,
                   .batch_bytes = batches ? &groups.module->group_bulk->batch_bytes : NULL,
                   .context = group},
        .counters = &groups.counters,
    };
}

struct mca_btl_rawe_multicast *mca_btl_rawe_multicast_open(uint64_t id, uint32_t members,
                                                           uint32_t self,
                                                           const struct mca_btl_rawe_place *all,
                                                           opal_proc_t *const *procs)
{
    struct mca_btl_rawe_multicast *group =
        calloc(1, sizeof(*group) + members * sizeof(group->endpoints[0]));
    bool reached = NULL != group;

    mca_btl_rawe_lock();
    for (uint32_t i = 0; i < members && reached; ++i) {
        if (i != self) {
            mca_btl_base_endpoint_t *endpoint =
                NULL == procs[i] ? NULL : mca_btl_rawe_endpoint_in_order(procs[i]);
            reached = NULL != endpoint && endpoint->module == groups.module && !endpoint->lost;
            group->endpoints[i] = endpoint;
        }
    }
    if (!reached || OPAL_SUCCESS != opal_hash_table_set_value_uint64(&groups.all, id, group) ||
        !renew_filters()) {
        opal_hash_table_remove_value_uint64(&groups.all, id);
        free(group);
        group = NULL;
    } else {
        const struct rawe_group_config config = config_of(group, id, members, self, all);
        rawe_group_init(&group->core, &config);
    }
    mca_btl_rawe_unlock();
    return group;
}

struct rawe_group_counters mca_btl_rawe_multicast_counters(const mca_btl_rawe_module_t *module)
{
    return groups.module == module ? groups.counters
                                   : (struct rawe_group_counters){.messages_sent = 0};
}

static void group_free(struct mca_btl_rawe_multicast *group)
{
    opal_hash_table_remove_value_uint64(&groups.all, group->core.config.id);
    rawe_list_remove(&group->busy);
    set_transfer(group, 0, NULL);
    rawe_group_free(&group->core);
    groups.last = groups.last == group ? NULL : groups.last; /* its address may be reused */
    free(group);
}

void mca_btl_rawe_multicast_end(const mca_btl_rawe_module_t *module)
{
    if (groups.module != module) {
        return;
    }
    uint64_t id;
    void *group, *place;
    while (OPAL_SUCCESS == opal_hash_table_get_first_key_uint64(&groups.all, &id, &group, &place)) {
        group_free(group);
    }
    OBJ_DESTRUCT(&groups.all);
    memset(&groups.counters, 0, sizeof(groups.counters));
    groups.holding = false;
    groups.module = NULL;
}

/* ---- messages ---- */

static bool batches_wait(const mca_btl_rawe_module_t *module)
{
    return NULL != module->group_bulk && rawe_port_pending(module->group_bulk);
}

/** Make progress in a group. Completions must be deferred. */
static void group_progress(struct mca_btl_rawe_multicast *group, uint64_t now_ns)
{
    group->core.withheld = batches_wait(groups.module);
    rawe_group_progress(&group->core, now_ns);
}

/** rawe_group_send.done: the message is in the window. */
static void message_sent(struct rawe_group_send *send)
{
    struct mca_btl_rawe_multicast *group = RAWE_OWNER(send, struct mca_btl_rawe_multicast, send);

    group->transfer->last = send->last;
    transfer_complete(group, MCA_BTL_RAWE_TRANSFER_DONE);
}

bool mca_btl_rawe_multicast_send(struct mca_btl_rawe_multicast *group,
                                 struct mca_btl_rawe_transfer *message)
{
    uint64_t now_ns = mca_btl_rawe_now_ns();

    groups.streak =
        group == groups.last && now_ns - groups.sent_ns < STREAK_NS ? groups.streak + 1 : 0;
    groups.last = group;
    message->last = false;
    set_transfer(group, group->core.config.self, message);
    group->send = (struct rawe_group_send){.done = message_sent,
                                           .data = message->data,
                                           .len_bytes = (uint32_t)message->len_bytes,
                                           .batches = message->batches,
                                           .may_wait = groups.streak >= RAWE_PEER_STREAK_MESSAGES};
    if (!rawe_group_send(&group->core, &group->send, now_ns)) {
        set_transfer(group, 0, NULL);
        return false;
    }
    const bool held = 0 != group->core.held_ns;
    groups.holding = groups.holding || held;
    groups.sent_ns = held ? now_ns : mca_btl_rawe_now_ns(); /* without the time spent on the link */
    if (RAWE_GROUP_ALL != group->core.deaf) {
        const opal_proc_t *proc = group->endpoints[group->core.deaf]->proc;
        MCA_BTL_RAWE_HELP(multicast_lost, groups.module->interface.name,
                          mca_btl_rawe_peer_text(proc).text,
                          mca_btl_rawe_compat_hostname(proc).text);
    }
    return true;
}

void mca_btl_rawe_multicast_expect(struct mca_btl_rawe_multicast *group, uint32_t root,
                                   struct mca_btl_rawe_transfer *message)
{
    mca_btl_rawe_lock();
    set_transfer(group, root, message);
    /* The message may have arrived already. */
    if (NULL != group->core.waiting) {
        const bool deferred = completions_defer(&groups.module->engine);
        group_progress(group, mca_btl_rawe_now_ns());
        completions_resume(&groups.module->engine, deferred);
    }
    mca_btl_rawe_unlock();
}

void mca_btl_rawe_multicast_close(struct mca_btl_rawe_multicast *group, bool complete)
{
    if (!complete) {
        group_free(group);
        (void)renew_filters();
        return;
    }
    group->closed = true;
    set_transfer(group, 0, NULL);
    const bool deferred = completions_defer(&groups.module->engine);
    group_progress(group, mca_btl_rawe_now_ns()); /* parts refused before are taken now */
    completions_resume(&groups.module->engine, deferred);
    group_touch(group);
}

/* ---- progress ---- */

/** Return true if the group has anything in flight, due or awaited. */
static bool is_busy(const struct mca_btl_rawe_multicast *group)
{
    return !rawe_group_done(&group->core) || UINT64_MAX != rawe_group_next_ns(&group->core) ||
           NULL != group->transfer ||
           (group->closed && rawe_port_pending(groups.module->group_port));
}

bool mca_btl_rawe_multicast_done(void)
{
    const struct rawe_link *link = groups.busy.next;

    while (NULL != groups.module && link != &groups.busy &&
           rawe_group_done(&RAWE_OWNER(link, struct mca_btl_rawe_multicast, busy)->core)) {
        link = link->next;
    }
    return NULL == groups.module || link == &groups.busy;
}

/** Return true if a call waits for other members, or a closed group for acknowledgements. */
static bool awaits_members(const struct mca_btl_rawe_multicast *group)
{
    return NULL != group->transfer || (group->closed && group->core.base != group->core.sent);
}

/**
 * Probe the members that the group waits for, if it has waited for long. This also replaces control
 * messages for which there was no memory; without them, a closed group would stay forever.
 */
static void members_ask(struct mca_btl_rawe_multicast *group, uint64_t now_ns)
{
    if (awaits_members(group) && 0 != group->asked_ns && now_ns - group->asked_ns >= ASK_NS) {
        const bool receives = NULL != group->transfer && group->root != group->core.config.self;
        rawe_group_ask(&group->core, receives ? group->root : RAWE_GROUP_ALL);
        group->asked_ns = now_ns;
    }
    group->asked_ns = 0 == group->asked_ns ? now_ns : group->asked_ns;
}

/** Run due timers; take idle groups off the list, and free closed ones. */
static void groups_serve(uint64_t now_ns)
{
    struct rawe_link *next;

    for (struct rawe_link *link = groups.busy.next; link != &groups.busy; link = next) {
        struct mca_btl_rawe_multicast *group =
            RAWE_OWNER(link, struct mca_btl_rawe_multicast, busy);
        next = link->next;
        /* The awaited message may have arrived while the progress thread received. */
        if (rawe_group_next_ns(&group->core) <= now_ns || group->core.sent != group->core.next ||
            (NULL != group->transfer && NULL != group->core.waiting)) {
            group_progress(group, now_ns);
        }
        members_ask(group, now_ns);
        if (is_busy(group)) {
            continue;
        }
        rawe_list_remove(link);
        if (group->closed) {
            group_free(group);
            (void)renew_filters();
        }
    }
}

static bool is_pending(const mca_btl_rawe_module_t *module)
{
    return rawe_port_pending(module->group_port) || (0 != groups.waiting && batches_wait(module));
}

unsigned mca_btl_rawe_multicast_progress(const mca_btl_rawe_module_t *module, bool poll_clock,
                                         bool deferring)
{
    static const struct rawe_port_receiver receiver = {
        .frame = receive_group_frame, .place = place_packet, .packet = receive_group_packet};

    if (module != groups.module) {
        return 0; /* this module may have no port for groups */
    }
    const bool pending = is_pending(module);
    groups.sent_ns = 0;
    if (!pending && !groups.holding && !(poll_clock && !rawe_list_empty(&groups.busy))) {
        return 0;
    }
    uint64_t now_ns = mca_btl_rawe_now_ns();
    const bool deferred = completions_defer(&groups.module->engine);
    groups.deferring = deferring;
    unsigned received =
        pending ? rawe_port_receive(module->group_port, RECEIVE_BUDGET, &receiver, &now_ns) : 0;
    /* Batches stay in the port until a call waits, so that they are copied only once. */
    for (unsigned i = 0;
         i < RECEIVE_BUDGET && !deferring && 0 != groups.waiting && batches_wait(module); ++i) {
        received += rawe_port_receive(module->group_bulk, 1, &receiver, &now_ns);
    }
    groups.holding = false;
    groups_serve(now_ns);
    groups.deferring = false;
    completions_resume(&groups.module->engine, deferred);
    return received;
}

unsigned mca_btl_rawe_multicast_busy(const mca_btl_rawe_module_t *module)
{
    const bool busy = NULL != module->group_port && module == groups.module &&
                      (!rawe_list_empty(&groups.busy) || is_pending(module));

    return !busy            ? MCA_BTL_RAWE_THREAD_IDLE
           : groups.holding ? MCA_BTL_RAWE_THREAD_POLLS_FAST
                            : MCA_BTL_RAWE_THREAD_POLLS;
}
