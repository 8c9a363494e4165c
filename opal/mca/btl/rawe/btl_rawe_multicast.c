/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_multicast.h"

#include "opal/class/opal_hash_table.h"

#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "core/base/rawe_list.h"
#include "linux/packet/rawe_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** Memory that frames of groups are received in: a few windows of frames of MTU 1500. */
#define RING_BYTES (1u << 20)

/** The same of batches: a quarter of it for those of one frame, another for those up to 16 kB. */
#define BULK_RING_BYTES (8u << 20)

/** Frames received at a time. */
#define RECEIVE_BUDGET 64u

/** Groups that the table has room for before it grows. */
#define GROUPS_EXPECTED 64u

/**
 * Frames of a root that are not acknowledged by all members yet, at least, and more up to as many
 * bytes: with 1 MiB, a Bcast as long took 1.4 times as long, as the copies do not stay in the cache.
 */
#define WINDOW_FRAMES_LEAST 64u
#define WINDOW_BYTES (1u << 19)

/** Windows of frames that wait for earlier ones, or for the program, beside one of each member. */
#define STORED_WINDOWS 4u

/**
 * A message that comes sooner than this after the last, without progress meanwhile, is one of many:
 * it may wait for others to share its frame.
 */
#define STREAK_NS 5000u

/**
 * A group that was closed is kept until all have what this member sent, and as long as frames come:
 * a root that misses our acknowledgement asks at least every 64 ms.
 */
#define QUIET_NS 500000000ull

struct mca_btl_rawe_multicast {
    struct rawe_group core;
    struct rawe_link busy; /**< in the list of those that have something under way */
    bool closed;
    bool deferred;     /**< something expected has come while the progress thread received */
    uint64_t heard_ns; /**< when a frame came last, or the group was closed */
    struct mca_btl_rawe_transfer *sending;   /**< NULL: no message waits for the window */
    struct mca_btl_rawe_transfer *expecting; /**< NULL: none is expected */
    size_t taken_bytes;                      /**< of it */
    uint32_t expected_root;
    struct rawe_group_send send;
    uint8_t macs[][RAWE_MAC_BYTES]; /**< the members' */
};

static struct {
    mca_btl_rawe_module_t *module; /**< whose interface is used; NULL: none is open yet */
    opal_hash_table_t all;         /**< by id; a program may have thousands of communicators */
    struct rawe_link busy;
    struct rawe_group_counters counters;       /**< of all groups */
    uint8_t address[RAWE_MAC_BYTES];           /**< 03-72-61, and three bytes of the job's */
    uint32_t ports_get[RAWE_PORT_GROUP_WORDS]; /**< rawe_port_config.groups */
    unsigned waiting; /**< groups that a call waits for, in which a message is expected or sent */
    bool deferring;   /**< nothing is delivered */
    bool holding;     /**< a frame waits for more messages, or for progress */
    uint64_t sent_ns; /**< when the last message had been sent; 0: before progress was made */
    const struct mca_btl_rawe_multicast *last; /**< which group that was */
    unsigned streak;                           /**< messages of it, one right after the other */
} groups;

/** The one module that leads to other hosts; NULL: there is none, or several. */
static mca_btl_rawe_module_t *only_module(void)
{
    mca_btl_rawe_module_t *only = NULL;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        if (module->interface.loopback) {
            continue;
        }
        if (NULL != only) {
            return NULL;
        }
        only = module;
    }
    return only;
}

bool mca_btl_rawe_multicast_possible(bool mpi_threads)
{
    return !mpi_threads && !mca_btl_rawe_compat_fault_tolerant() && NULL != only_module();
}

/* ---- the wire ---- */

/** Hash of the job's number (the finalizer of MurmurHash3): equal in all of its processes. */
static uint64_t job_hash(void)
{
    uint64_t hash = OPAL_PROC_MY_NAME.jobid;

    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDull;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53ull;
    return hash ^ hash >> 33;
}

/** rawe_group_output.transmit */
static bool transmit(void *context, uint32_t to, const struct rawe_bytes *bytes)
{
    const struct mca_btl_rawe_multicast *group = context;
    struct rawe_port *link = groups.module->link;
    uint8_t ethernet[RAWE_ETH_HEADER_BYTES];
    const struct rawe_frame frame = {
        .pieces = {{ethernet, sizeof(ethernet)}, *bytes},
        .piece_count = 2,
        .len_bytes = (uint32_t)(sizeof(ethernet) + bytes->len_bytes),
    };

    rawe_eth_header_encode(ethernet, RAWE_GROUP_ALL == to ? groups.address : group->macs[to],
                           groups.module->address.mac, (uint16_t)mca_btl_rawe_params.ethertype);
    return 1 == link->kind->transmit(link, &frame, 1);
}

/** 224.0.0.254, for experiments (RFC 4727): switches that snoop send it everywhere (RFC 4541). */
static const uint8_t batch_address[RAWE_MAC_BYTES] = {0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE};

/** rawe_group_output.batch */
static bool batch(void *context, uint8_t *head, const struct rawe_bytes *data,
                  uint32_t segment_bytes)
{
    struct rawe_port *bulk = groups.module->group_bulk;
    uint8_t headers[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES] = {0};
    const struct rawe_frame packet = {
        .pieces = {{headers, sizeof(headers)}, *data},
        .piece_count = 2,
        .len_bytes = (uint32_t)(sizeof(headers) + data->len_bytes),
    };

    memcpy(headers, batch_address, RAWE_MAC_BYTES);
    memcpy(headers + RAWE_MAC_BYTES, groups.module->address.mac, RAWE_MAC_BYTES);
    memcpy(headers + RAWE_ETH_HEADER_BYTES, head, RAWE_BATCH_HEADER_BYTES);
    return bulk->kind->transmit_batch(bulk, &packet, segment_bytes);
}

/** Something may be under way. */
static void touch(struct mca_btl_rawe_multicast *group)
{
    if (!rawe_list_has(&group->busy)) {
        rawe_list_append(&groups.busy, &group->busy);
    }
}

/** A call waits for the group, or not any more. */
static void set_transfers(struct mca_btl_rawe_multicast *group,
                          struct mca_btl_rawe_transfer *sending,
                          struct mca_btl_rawe_transfer *expecting)
{
    groups.waiting -= NULL != group->sending || NULL != group->expecting;
    group->sending = sending;
    group->expecting = expecting;
    groups.waiting += NULL != sending || NULL != expecting;
}

/** The open group with this id; NULL. */
static struct mca_btl_rawe_multicast *find(uint64_t id)
{
    void *found;

    return OPAL_SUCCESS == opal_hash_table_get_value_uint64(&groups.all, id, &found) ? found : NULL;
}

/** rawe_port_receiver.frame */
static void receive_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    uint64_t now_ns = *(const uint64_t *)context;
    const uint8_t *head = frame + RAWE_ETH_HEADER_BYTES;
    struct rawe_group_header header;

    if (len_bytes < RAWE_ETH_HEADER_BYTES ||
        RAWE_DECODE_OK !=
            rawe_group_header_decode(&header, head, len_bytes - RAWE_ETH_HEADER_BYTES)) {
        ++groups.counters.dropped_decode;
        return;
    }
    struct mca_btl_rawe_multicast *group = find(header.id);
    if (NULL == group) {
        ++groups.counters.dropped_group;
        return;
    }
    group->heard_ns = now_ns;
    rawe_group_receive(&group->core, head, len_bytes - RAWE_ETH_HEADER_BYTES, now_ns);
    touch(group);
}

/** The group that a batch is for; NULL. */
static struct mca_btl_rawe_multicast *group_of(const uint8_t *head, size_t head_bytes,
                                               size_t data_bytes)
{
    struct rawe_group_header header;

    return RAWE_DECODE_OK == rawe_group_batch_decode(&header, head, head_bytes, data_bytes)
               ? find(header.id)
               : NULL;
}

/** rawe_port_receiver.place */
static uint8_t *place_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                             size_t head_bytes, size_t data_bytes)
{
    struct mca_btl_rawe_multicast *group = group_of(head, head_bytes, data_bytes);

    return NULL == group ? NULL : rawe_group_place(&group->core, head, head_bytes, data_bytes);
}

/** rawe_port_receiver.packet */
static void receive_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                           size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    uint64_t now_ns = *(const uint64_t *)context;
    struct mca_btl_rawe_multicast *group = group_of(head, head_bytes, data_bytes);

    if (NULL == group) {
        ++groups.counters.dropped_group;
        return;
    }
    group->heard_ns = now_ns;
    rawe_group_receive_batch(&group->core, head, head_bytes, data, data_bytes, now_ns);
    touch(group);
}

/* ---- life ---- */

/**
 * Have the ports get what is for our groups, and no other: all ranks of this host would copy the batches
 * that are for one of them.
 */
static bool renew_filters(void)
{
    const mca_btl_rawe_module_t *module = groups.module;
    struct rawe_port_error error;
    uint64_t id;
    void *group;

    memset(groups.ports_get, 0, sizeof(groups.ports_get));
    OPAL_HASH_TABLE_FOREACH(id, uint64, group, &groups.all)
    {
        groups.ports_get[id % 256 / 32] |= UINT32_C(1) << id % 32;
    }
    return 0 == rawe_port_renew_filter(module->group_port, &error) &&
           (NULL == module->group_bulk || 0 == rawe_port_renew_filter(module->group_bulk, &error));
}

/** The port is the module's, which closes it. */
static bool open_port(mca_btl_rawe_module_t *module)
{
    struct rawe_port_config config = {
        .kind = &rawe_packet_port,
        .use = RAWE_PORT_GROUP,
        .interface = module->interface.name,
        .interface_index = module->interface.index,
        .ethertype = (uint16_t)mca_btl_rawe_params.ethertype,
        .key = (uint32_t)job_hash(),
        .groups = groups.ports_get,
        .mtu_bytes = module->interface.mtu_bytes,
        .ring_bytes = RING_BYTES,
    };
    struct rawe_port_error error = {.step = "memory for groups", .code = ENOMEM};

    const uint64_t hash = job_hash();
    const uint8_t address[RAWE_MAC_BYTES] = {
        0x03, 0x72, 0x61, (uint8_t)(hash >> 32), (uint8_t)(hash >> 40), (uint8_t)(hash >> 48)};
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
        config.port = (uint16_t)config.key;
        config.ring_bytes = BULK_RING_BYTES;
        config.priority = (uint8_t)mca_btl_rawe_params.socket_priority;
        memcpy(config.group, batch_address, sizeof(config.group));
        (void)rawe_port_open(&module->group_bulk, &config, &error); /* without it no batches */
    }
    return true;
}

struct mca_btl_rawe_place mca_btl_rawe_multicast_place(void)
{
    struct mca_btl_rawe_place place = {.payload_bytes = 0};
    mca_btl_rawe_module_t *module = only_module();

    if (NULL == module || !atomic_load_explicit(&module->open, memory_order_acquire) ||
        (NULL == module->group_port && !open_port(module))) {
        return place;
    }
    uint32_t payload_bytes =
        module->interface.mtu_bytes - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES;
    if (payload_bytes < RAWE_GROUP_NACK_BYTES_MAX) {
        return place; /* the MTU is too small for the longest NACK */
    }
    place.payload_bytes = payload_bytes < UINT16_MAX ? payload_bytes : UINT16_MAX;
    if (NULL != module->group_bulk) {
        place.segment_bytes = (uint16_t)(module->interface.mtu_bytes - RAWE_BATCH_HEADER_BYTES -
                                         module->group_bulk->overhead_bytes);
        place.batch_frames = module->group_bulk->receive_frames;
    }
    memcpy(place.mac, module->address.mac, sizeof(place.mac));
    return place;
}

/** Is this part of the root's next message expected? */
static bool expects(const struct mca_btl_rawe_multicast *group, const struct rawe_group_part *part)
{
    return NULL != group->expecting && part->root == group->expected_root;
}

/** rawe_group_config.place */
static uint8_t *place_part(void *context, const struct rawe_group_part *part)
{
    const struct mca_btl_rawe_multicast *group = context;

    return expects(group, part) && !groups.deferring && part->at_bytes == group->taken_bytes &&
                   part->total_bytes == group->expecting->len_bytes
               ? (uint8_t *)group->expecting->data + part->at_bytes
               : NULL;
}

/** rawe_group_config.deliver */
static bool deliver(void *context, const struct rawe_group_part *part)
{
    struct mca_btl_rawe_multicast *group = context;
    struct mca_btl_rawe_transfer *message = group->expecting;

    if (!expects(group, part)) {
        return group->closed; /* the rest of one that had another length: the root waits for it */
    }
    group->deferred = groups.deferring;
    if (group->deferred) {
        return false;
    }
    if (part->at_bytes != group->taken_bytes) {
        return true; /* the rest of one that had another length */
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
    set_transfers(group, group->sending, NULL);
    message->batches = part->batches;
    atomic_store_explicit(&message->state,
                          fits ? MCA_BTL_RAWE_TRANSFER_DONE : MCA_BTL_RAWE_TRANSFER_LENGTH,
                          memory_order_release);
    return true;
}

struct mca_btl_rawe_multicast *mca_btl_rawe_multicast_open(uint64_t id, uint32_t members,
                                                           uint32_t self,
                                                           const struct mca_btl_rawe_place *all,
                                                           const struct mca_btl_rawe_place *places)
{
    struct mca_btl_rawe_multicast *group =
        calloc(1, sizeof(*group) + members * sizeof(group->macs[0]));
    uint32_t window_frames = WINDOW_FRAMES_LEAST;
    bool batches = 0 != all->segment_bytes && NULL != groups.module->group_bulk;

    if (NULL == group || OPAL_SUCCESS != opal_hash_table_set_value_uint64(&groups.all, id, group) ||
        !renew_filters()) {
        opal_hash_table_remove_value_uint64(&groups.all, id);
        free(group);
        return NULL;
    }
    while (batches && 2 * window_frames * all->payload_bytes <= WINDOW_BYTES &&
           2 * window_frames <= all->batch_frames && 2 * window_frames <= RAWE_WINDOW_FRAMES_MAX) {
        window_frames *= 2;
    }
    const struct rawe_group_config config = {
        .id = id,
        .key = (uint32_t)job_hash(),
        .members = members,
        .self = self,
        .payload_bytes = all->payload_bytes,
        .segment_bytes = batches ? all->segment_bytes : 0,
        .window_frames = window_frames,
        /* What is held back has to leave without MPI's help. */
        .share_from = 0 != mca_btl_rawe_params.progress_thread_ms
                          ? (uint32_t)mca_btl_rawe_params.coalesce_from
                          : 0,
        .stored_max = STORED_WINDOWS * window_frames + members,
        .checksum = true,
        .deliver = deliver,
        .place = place_part,
        .context = group,
        .output = {.transmit = transmit,
                   .batch = batch,
                   .batch_bytes = batches ? &groups.module->group_bulk->batch_bytes : NULL,
                   .context = group},
        .counters = &groups.counters,
    };
    rawe_group_init(&group->core, &config);
    for (uint32_t i = 0; i < members; ++i) {
        memcpy(group->macs[i], places[i].mac, RAWE_MAC_BYTES);
    }
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
    set_transfers(group, NULL, NULL);
    rawe_group_free(&group->core);
    groups.last = groups.last == group ? NULL : groups.last; /* another may come to lie there */
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

static void progress(struct mca_btl_rawe_multicast *group, uint64_t now_ns)
{
    group->core.withheld = batches_wait(groups.module);
    rawe_group_progress(&group->core, now_ns);
}

/** rawe_group_send.done: the message is in the window. */
static void sent(struct rawe_group_send *send)
{
    struct mca_btl_rawe_multicast *group = RAWE_OWNER(send, struct mca_btl_rawe_multicast, send);
    struct mca_btl_rawe_transfer *message = group->sending;

    set_transfers(group, NULL, group->expecting);
    atomic_store_explicit(&message->state, MCA_BTL_RAWE_TRANSFER_DONE, memory_order_release);
}

bool mca_btl_rawe_multicast_send(struct mca_btl_rawe_multicast *group,
                                 struct mca_btl_rawe_transfer *message)
{
    uint64_t now_ns = mca_btl_rawe_now_ns();

    groups.streak =
        group == groups.last && now_ns - groups.sent_ns < STREAK_NS ? groups.streak + 1 : 0;
    groups.last = group;
    atomic_store_explicit(&message->state, MCA_BTL_RAWE_TRANSFER_WAITS, memory_order_relaxed);
    set_transfers(group, message, group->expecting);
    group->send = (struct rawe_group_send){.done = sent,
                                           .data = message->data,
                                           .len_bytes = (uint32_t)message->len_bytes,
                                           .batches = message->batches,
                                           .may_wait = groups.streak >= RAWE_PEER_STREAK_MESSAGES};
    if (!rawe_group_send(&group->core, &group->send, now_ns)) {
        set_transfers(group, NULL, group->expecting);
        return false;
    }
    const bool held = 0 != group->core.held_ns;
    groups.holding = groups.holding || held;
    groups.sent_ns = held ? now_ns : mca_btl_rawe_now_ns(); /* what the link takes does not count */
    touch(group);
    return true;
}

void mca_btl_rawe_multicast_expect(struct mca_btl_rawe_multicast *group, uint32_t root,
                                   struct mca_btl_rawe_transfer *message)
{
    group->expected_root = root;
    set_transfers(group, group->sending, message);
    group->taken_bytes = 0;
    atomic_store_explicit(&message->state, MCA_BTL_RAWE_TRANSFER_WAITS, memory_order_relaxed);
    /* It may have come already. */
    if (NULL != group->core.waiting) {
        progress(group, mca_btl_rawe_now_ns());
        touch(group);
    }
}

void mca_btl_rawe_multicast_close(struct mca_btl_rawe_multicast *group, bool complete)
{
    if (!complete) {
        group_free(group);
        (void)renew_filters();
        return;
    }
    group->closed = true;
    set_transfers(group, NULL, NULL);
    group->heard_ns = mca_btl_rawe_now_ns();
    progress(group, group->heard_ns); /* what was refused is taken now */
    touch(group);
}

unsigned mca_btl_rawe_multicast_awaited(const struct mca_btl_rawe_multicast *group,
                                        uint32_t *members, unsigned most)
{
    const struct rawe_group *core = &group->core;
    unsigned count = 0;

    if (NULL != group->expecting) {
        members[count++] = group->expected_root;
        return count;
    }
    for (uint32_t i = 0; NULL != group->sending && NULL != core->members && count < most &&
                         i < core->config.members;
         ++i) {
        if (i != core->config.self && core->members[i].acked == core->base) {
            members[count++] = i;
        }
    }
    return count;
}

/* ---- progress ---- */

/**
 * Is something due, or wanted by the link, or by others of a group that was closed? Frames of theirs
 * may be behind those that were received.
 */
static bool is_busy(const struct mca_btl_rawe_multicast *group, uint64_t now_ns)
{
    return !rawe_group_stable(&group->core) || UINT64_MAX != rawe_group_next_ns(&group->core) ||
           group->deferred ||
           (group->closed &&
            (now_ns - group->heard_ns < QUIET_NS || rawe_port_pending(groups.module->group_port)));
}

/**
 * Batches stay in the port until a call waits for them: then they go where they belong, and are copied
 * once.
 */
static unsigned receive_batches(const mca_btl_rawe_module_t *module,
                                const struct rawe_port_receiver *receiver, uint64_t now_ns)
{
    unsigned received = 0;

    for (unsigned i = 0; i < RECEIVE_BUDGET && 0 != groups.waiting && batches_wait(module); ++i) {
        received += rawe_port_receive(module->group_bulk, 1, receiver, &now_ns);
    }
    return received;
}

/** Run what is due; groups with nothing under way leave the list, those that were closed go. */
static void serve(uint64_t now_ns)
{
    struct rawe_link *next;

    for (struct rawe_link *link = groups.busy.next; link != &groups.busy; link = next) {
        struct mca_btl_rawe_multicast *group =
            RAWE_OWNER(link, struct mca_btl_rawe_multicast, busy);
        next = link->next;
        if (rawe_group_next_ns(&group->core) <= now_ns || group->core.sent != group->core.next ||
            group->deferred) {
            progress(group, now_ns);
        }
        if (is_busy(group, now_ns)) {
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
        .frame = receive_frame, .place = place_packet, .packet = receive_packet};
    bool pending = is_pending(module);

    if (module != groups.module) {
        return 0;
    }
    groups.sent_ns = 0;
    if (!pending && !groups.holding && !(poll_clock && !rawe_list_empty(&groups.busy))) {
        return 0;
    }
    uint64_t now_ns = mca_btl_rawe_now_ns();
    groups.deferring = deferring;
    unsigned received =
        pending ? rawe_port_receive(module->group_port, RECEIVE_BUDGET, &receiver, &now_ns) : 0;
    received += deferring ? 0 : receive_batches(module, &receiver, now_ns);
    groups.holding = false;
    serve(now_ns);
    groups.deferring = false;
    return received;
}

bool mca_btl_rawe_multicast_holding(void)
{
    return groups.holding;
}

bool mca_btl_rawe_multicast_busy(const mca_btl_rawe_module_t *module)
{
    return NULL != module->group_port && module == groups.module &&
           (!rawe_list_empty(&groups.busy) || is_pending(module));
}
