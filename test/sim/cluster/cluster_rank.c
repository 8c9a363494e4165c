/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks: see cluster.h.
 */
#include "cluster.h"

#include <string.h>

#include "net_engine.h"
#include "net_harness.h"
#include "net_packet.h"
#include "conn/rawe_conn_batch.h"
#include "routes/rawe_balance.h"

/** Size of the express socket's send buffer (rawe_packet.c). */
#define SEND_BUFFER_BYTES (4u << 20)

/** Number of senders whose packets GRO can merge at the same time (GRO_HASH_BUCKETS). */
#define MERGED_AT_A_TIME 8u

/** Capacity of the bulk queue. */
#define BULK_RECEIVE_FRAMES 2560u
/** Interval at which an idle rank makes progress, when its progress thread polls. */
#define PROGRESS_NS 10000000u

/* ---- sending ---- */

/** Return the number of a rank's bytes in the NIC's queue, which are charged to its socket. */
static uint32_t nic_bytes(const struct cluster_rank *rank, bool batches)
{
    return rank->cluster->net.nic_bytes[rank->index][batches];
}

uint64_t cluster_rank_spend(struct cluster_rank *rank)
{
    const struct cluster *cluster = rank->cluster;

    rank->free_ns = (rank->free_ns > cluster->now_ns ? rank->free_ns : cluster->now_ns) +
                    cluster->plan.frame_ns;
    return rank->free_ns;
}

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct cluster_rank *rank = context;
    struct cluster *cluster = rank->cluster;
    struct rawe_header header;
    unsigned taken = 0;

    for (; taken < count && !cluster->ending && nic_bytes(rank, false) < SEND_BUFFER_BYTES;
         taken++) {
        uint32_t len_bytes = frames[taken].len_bytes;
        struct cluster_frame *frame = cluster_frame_new(rank->index, 0, len_bytes, len_bytes);
        net_frame_linearize(&rank->engine, &frames[taken], frame->bytes, &header);
        frame->to = net_index_of(frame->bytes);
        cluster_net_send(&cluster->net, frame, cluster_rank_spend(rank));
    }
    return cluster->ending ? count : taken;
}

static bool lies_in(const uint8_t *data, const uint8_t *memory, size_t len_bytes)
{
    return data >= memory && data < memory + len_bytes;
}

/** Return a batch's data if it never changes, so that frames need no copy of it, else NULL. */
static const uint8_t *constant_data(const struct cluster_rank *rank,
                                    const struct rawe_frame *packet)
{
    const uint8_t *data = packet->piece_count == 2 ? packet->pieces[1].base : NULL;
    bool constant =
        data != NULL && (lies_in(data, rank->cluster->payload, CLUSTER_MESSAGE_BYTES_MAX) ||
                         lies_in(data, rawe_conn_batch_pattern(), RAWE_BATCH_BYTES_MAX));
    return constant ? data : NULL;
}

/** Return frame `index` of a batch; the frame refers to the batch's data without copying it. */
static struct cluster_frame *cut_constant(const struct net_batch *batch, uint32_t index,
                                          const uint8_t *data)
{
    struct cluster_frame *frame =
        cluster_frame_new(0, 0, net_batch_frame_bytes(batch, index), NET_BATCH_HEAD_BYTES);

    net_batch_cut_head(batch, index, frame->bytes);
    frame->data = data + index * batch->segment_bytes;
    return frame;
}

static struct cluster_frame *cut_copied(const struct net_batch *batch, uint32_t index)
{
    uint32_t len_bytes = net_batch_frame_bytes(batch, index);
    struct cluster_frame *frame = cluster_frame_new(0, 0, len_bytes, len_bytes);

    net_batch_cut(batch, index, frame->bytes);
    frame->data = frame->bytes + NET_BATCH_HEAD_BYTES;
    return frame;
}

static bool transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    struct cluster_rank *rank = context;
    struct cluster *cluster = rank->cluster;
    const uint8_t *data = constant_data(rank, packet);

    if (cluster->ending) {
        return true;
    }
    const uint32_t queued_bytes = nic_bytes(rank, true);
    if (rank->txqueue.refused) {
        (void)rawe_txqueue_poll(&rank->txqueue, queued_bytes, cluster->now_ns);
    }
    if (queued_bytes >= rank->txqueue.limit_bytes) {
        if (!rank->txqueue.refused) {
            rawe_txqueue_full(&rank->txqueue, queued_bytes, cluster->now_ns);
        }
        return false;
    }
    (void)rawe_txqueue_taken(&rank->txqueue);
    rank->batch_bytes = rawe_txqueue_batch_bytes(&rank->txqueue);
    uint8_t *bytes = net_new(data != NULL ? NET_BATCH_HEAD_BYTES : packet->len_bytes);
    struct net_batch batch = data != NULL
                                 ? net_batch_describe(&rank->engine, packet, segment_bytes, bytes)
                                 : net_batch_linearize(&rank->engine, packet, segment_bytes, bytes);
    const uint64_t at_ns = cluster_rank_spend(rank);
    for (uint32_t i = 0, count = net_batch_frames(&batch); i < count; i++) {
        struct cluster_frame *frame =
            data != NULL ? cut_constant(&batch, i, data) : cut_copied(&batch, i);
        frame->batch = true;
        frame->from = rank->index;
        frame->to = net_index_of(frame->bytes);
        cluster_net_send(&cluster->net, frame, at_ns);
    }
    net_delete(bytes);
    return true;
}

/* ---- receiving ---- */

/**
 * Pass a packet with a batch header to the engine. Data is copied to its destination only if the
 * frame holds a copy of it. Frames of bundled short messages do.
 */
static void receive_batch(struct rawe_engine *engine, const struct cluster_frame *first,
                          uint32_t len_bytes)
{
    const uint8_t *source_mac = first->bytes + RAWE_MAC_BYTES;
    const uint8_t *head = first->bytes + RAWE_ETH_HEADER_BYTES;
    uint32_t data_bytes = len_bytes - NET_BATCH_HEAD_BYTES;
    uint8_t *place =
        rawe_engine_place(engine, source_mac, head, RAWE_BATCH_HEADER_BYTES, data_bytes);

    if (place != NULL && first->data == first->bytes + NET_BATCH_HEAD_BYTES) {
        memcpy(place, first->data, data_bytes);
    }
    rawe_engine_receive_batch(engine, source_mac, head, RAWE_BATCH_HEADER_BYTES,
                              place != NULL ? place : first->data, data_bytes, engine->now_ns);
}

/**
 * Receive and free a frame, or the packet of `len_bytes` that GRO has made of several frames.
 */
static void receive_packet(struct cluster_rank *rank, struct cluster_frame *first,
                           uint32_t len_bytes)
{
    struct rawe_engine *engine = &rank->engine;
    uint64_t before_bytes = engine->counters.bytes_received;

    (void)cluster_rank_spend(rank);
    if (first->group) {
        cluster_collective_receive(rank, first->bytes + RAWE_ETH_HEADER_BYTES,
                                   len_bytes - RAWE_ETH_HEADER_BYTES);
        cluster_frame_free(first);
        return;
    }
    rawe_engine_arriving(engine, first->at_ns);
    if (first->batch) {
        receive_batch(engine, first, len_bytes);
    } else {
        rawe_engine_receive(engine, first->bytes, len_bytes, engine->now_ns);
    }
    cluster_rank_peer(rank, first->from)->received_bytes +=
        engine->counters.bytes_received - before_bytes;
    cluster_frame_free(first);
}

/** Packets that GRO holds, oldest first, until all arrived frames are received. */
struct merging {
    struct cluster_frame *first[MERGED_AT_A_TIME];
    uint32_t len_bytes[MERGED_AT_A_TIME];
    unsigned count;
};

/** Pass the packet at index `at` to the engine. */
static void merging_finish(struct merging *merging, struct cluster_rank *rank, unsigned at)
{
    struct cluster_frame *first = merging->first[at];
    uint32_t len_bytes = merging->len_bytes[at];

    merging->count--;
    for (unsigned i = at; i < merging->count; i++) {
        merging->first[i] = merging->first[i + 1];
        merging->len_bytes[i] = merging->len_bytes[i + 1];
    }
    receive_packet(rank, first, len_bytes);
}

/** Merge a batch's frame into its sender's packet, or start a new packet. */
static void merging_put(struct merging *merging, struct cluster_rank *rank,
                        struct cluster_frame *frame)
{
    unsigned at = 0;

    while (at < merging->count && merging->first[at]->from != frame->from) {
        at++;
    }
    if (at < merging->count) {
        const struct cluster_frame *first = merging->first[at];
        uint32_t data_bytes = merging->len_bytes[at] - NET_BATCH_HEAD_BYTES;
        if (rank->cluster->plan.merges && frame->data == first->data + data_bytes &&
            net_batch_joins(first->bytes, merging->len_bytes[at], first->len_bytes, frame->bytes,
                            frame->len_bytes)) {
            merging->len_bytes[at] += frame->len_bytes - NET_BATCH_HEAD_BYTES;
            cluster_frame_free(frame);
            return;
        }
        merging_finish(merging, rank, at);
    } else if (merging->count == MERGED_AT_A_TIME) {
        merging_finish(merging, rank, 0);
    }
    merging->first[merging->count] = frame;
    merging->len_bytes[merging->count++] = frame->len_bytes;
}

/** Receive all frames that have arrived. */
static void receive(struct cluster_rank *rank)
{
    struct cluster *cluster = rank->cluster;
    struct merging merging = {.count = 0};
    struct cluster_frame *frame;

    while ((frame = cluster_net_take(&cluster->net, rank->index, cluster->now_ns)) != NULL) {
        if (frame->batch) {
            merging_put(&merging, rank, frame);
        } else {
            receive_packet(rank, frame, frame->len_bytes);
        }
    }
    while (merging.count != 0) {
        merging_finish(&merging, rank, 0);
    }
}

/* ---- progress ---- */

void cluster_rank_wake_by(struct cluster_rank *rank, uint64_t at_ns)
{
    if (at_ns < rank->wake_ns) {
        rank->wake_ns = at_ns;
        sim_events_push(&rank->cluster->events, (struct sim_event){.at_ns = at_ns,
                                                                   .kind = CLUSTER_EVENT_WAKE,
                                                                   .node = rank->index,
                                                                   .value = ++rank->wake_number});
    }
}

void cluster_rank_expect(struct cluster_rank *rank)
{
    const struct cluster *cluster = rank->cluster;
    uint64_t at_ns = cluster_net_arrival_ns(&cluster->net, rank->index);
    uint64_t host_ns = cluster->plan.host_ns;

    if (!rank->expects && at_ns != UINT64_MAX) {
        rank->expects = true;
        cluster_rank_wake_by(
            rank, at_ns + sim_random_between(&rank->random, host_ns / 2, host_ns + host_ns / 2));
    }
}

/**
 * Return when the wheel needs service: a timer of its finest level is due, or others move to that
 * level.
 */
static uint64_t timer_ns(const struct rawe_timer_wheel *wheel)
{
    uint64_t tick = wheel->tick;

    if (wheel->armed == 0) {
        return UINT64_MAX;
    }
    while (rawe_list_empty(&wheel->slots[0][tick % RAWE_TIMER_SLOTS]) &&
           tick % RAWE_TIMER_SLOTS != 0) {
        tick++;
    }
    return tick << RAWE_TIMER_TICK_SHIFT;
}

static void plan_wake(struct cluster_rank *rank)
{
    const struct cluster *cluster = rank->cluster;
    uint64_t due_ns = timer_ns(&rank->engine.timers);

    cluster_rank_expect(rank);
    if (rawe_engine_pending(&rank->engine)) { /* the NIC was full, or a callback sent data */
        cluster_rank_wake_by(rank, cluster->now_ns + cluster->plan.host_ns);
    }
    cluster_rank_wake_by(rank, rank->next_ns);
    if (rawe_engine_reclaims_credit(&rank->engine)) {
        cluster_rank_wake_by(rank, cluster->now_ns + PROGRESS_NS);
    }
    if (due_ns != UINT64_MAX) {
        cluster_rank_wake_by(rank, due_ns > cluster->now_ns ? due_ns : cluster->now_ns + 1);
    }
    if (cluster->plan.multicast) {
        due_ns = rawe_group_next_ns(&rank->part.group);
        cluster_rank_wake_by(rank, due_ns > cluster->now_ns ? due_ns : cluster->now_ns + 1);
    }
}

/** Return true if the program is computing: `busy_ns` at a stretch, about half of the time. */
static bool is_busy(struct cluster_rank *rank, uint64_t now_ns)
{
    uint64_t busy_ns = rank->receives ? rank->cluster->plan.busy_ns : 0;

    while (busy_ns != 0 && rank->phase_end_ns <= now_ns) {
        rank->computes = !rank->computes;
        rank->phase_end_ns +=
            rank->computes ? busy_ns : sim_random_between(&rank->random, 1, 2 * busy_ns);
    }
    return rank->computes;
}

void cluster_rank_wake(struct cluster_rank *rank, uint64_t number)
{
    struct rawe_engine *engine = &rank->engine;
    uint64_t now_ns = rank->cluster->now_ns;

    if (number != rank->wake_number) {
        return;
    }
    rank->wake_ns = UINT64_MAX;
    if (is_busy(rank, now_ns)) {
        cluster_rank_wake_by(rank, rank->phase_end_ns);
        return;
    }
    if (rank->free_ns > now_ns) {
        cluster_rank_wake_by(rank, rank->free_ns);
        return;
    }
    rank->expects = false;
    engine->now_ns = now_ns;
    receive(rank);
    cluster_traffic_start(rank);
    cluster_collective_start(rank);
    if (rank->cluster->plan.multicast) {
        rawe_group_progress(&rank->part.group, now_ns);
    }
    if (rawe_engine_reclaims_credit(engine) || rawe_timer_wheel_due(&engine->timers, now_ns)) {
        rawe_engine_advance(engine, now_ns);
    }
    if (rawe_engine_pending(engine)) {
        rawe_engine_flush(engine, now_ns);
    }
    plan_wake(rank);
}

/* ---- peers ---- */

static uint64_t now_ns(void *cluster)
{
    return ((const struct cluster *)cluster)->now_ns;
}

/** Return a peer's slot in the table, which may still be empty. */
static struct cluster_peer **find_peer(const struct cluster_rank *rank, uint32_t index)
{
    uint32_t at = index * 0x9E3779B1u; /* Fibonacci hashing */

    do {
        at = (at + 1) & (rank->peer_room - 1);
    } while (rank->peers[at] != NULL && rank->peers[at]->index != index);
    return &rank->peers[at];
}

/** Enlarge the table of peers. */
static void enlarge(struct cluster_rank *rank, uint32_t room)
{
    struct cluster_peer **before = rank->peers;
    uint32_t before_room = rank->peer_room;

    rank->peers = net_zeroed(room * sizeof(struct cluster_peer *));
    rank->peer_room = room;
    for (uint32_t i = 0; i < before_room; i++) {
        if (before[i] != NULL) {
            *find_peer(rank, before[i]->index) = before[i];
        }
    }
    net_delete(before);
}

struct cluster_peer *cluster_rank_peer(struct cluster_rank *rank, uint32_t index)
{
    struct cluster_peer **at = find_peer(rank, index);

    if (*at == NULL) {
        struct cluster_peer *peer = net_new(sizeof(*peer));
        struct rawe_peer_config config = net_peer_config(index);
        *peer = (struct cluster_peer){.rank = rank, .index = index};
        peer->messages_tail = &peer->messages;
        config.payload_max_bytes = rank->engine.config.payload_max_bytes;
        config.owner = peer;
        rawe_peer_init(&peer->peer, &rank->engine, &config);
        *at = peer;
        if (2 * ++rank->peer_count > rank->peer_room) {
            enlarge(rank, 2 * rank->peer_room);
        }
        return peer;
    }
    return *at;
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    (void)context;
    (void)data;
    cluster_traffic_deliver(conn->owner, tag, (uint32_t)len_bytes);
}

static void control(void *context, struct rawe_conn *conn, uint64_t channel, const uint8_t *data,
                    size_t len_bytes)
{
    (void)context;
    (void)channel;
    cluster_collective_control(conn->owner, data, len_bytes);
}

static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    (void)source_mac;
    return rawe_peer_conn(&cluster_rank_peer(context, from->vpid)->peer, from->lane);
}

/** rawe_callbacks.silent: simulate an immediate answer of the peer's responder. */
static void silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    (void)silent_ns;
    rawe_liveness_alive(&conn->path.liveness,
                        ((const struct cluster_rank *)context)->cluster->now_ns);
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    const struct cluster_peer *peer = conn->owner;
    (void)context;
    net_fail("living peers are never given up", "n%u gives n%u up after %llu ns", peer->rank->index,
             peer->index, (unsigned long long)silent_ns);
}

void cluster_rank_init(struct cluster_rank *rank, struct cluster *cluster, uint32_t index)
{
    static const struct rawe_callbacks callbacks = {
        .deliver = deliver,
        .accept = accept_conn,
        .silent = silent,
        .failed = failed,
        .control = control,
        .long_reply = rawe_balance_reply,
    };
    struct rawe_engine_config config = net_component_config();

    config.clock_ns = now_ns;
    config.clock_context = cluster;
    config.arrival_clock_ns = now_ns;
    config.link_mbps = (uint32_t)cluster->plan.claim_mbps;
    *rank = (struct cluster_rank){
        .cluster = cluster,
        .index = index,
        .random = sim_random_stream(cluster->plan.seed, index),
        .wake_ns = UINT64_MAX,
        .next_ns = UINT64_MAX,
        .phase_end_ns = cluster->now_ns,
        .due_tail = &rank->due,
    };
    enlarge(rank, 4);
    rawe_txqueue_init(&rank->txqueue);
    rank->batch_bytes = rawe_txqueue_batch_bytes(&rank->txqueue);
    net_identify(&config, index);
    config.payload_max_bytes = cluster_plan_payload_bytes(&cluster->plan);
    config.inflow_bytes = cluster->plan.inflow_bytes;
    config.congestion = cluster->plan.congestion;
    config.host = &cluster->hosts[index / cluster->plan.ranks];
    config.host_index = index % cluster->plan.ranks;
    net_engine_start(&rank->engine, &rank->handles, &config, &callbacks, transmit, rank,
                     cluster->now_ns);
    net_engine_use_batches(&rank->engine, RAWE_BATCH_BYTES_MAX, transmit_batch);
    if (!rawe_handle_register(&rank->handles, cluster->payload, CLUSTER_MESSAGE_BYTES_MAX,
                              &rank->payload_index, &rank->payload_key, RAWE_ACCESS_READ)) {
        net_fail("engines start", "n%u has no memory", index);
    }
    rank->engine.batches.output.longest_bytes = &rank->batch_bytes;
    if (cluster->plan.multicast) {
        cluster_collective_init(rank);
    }
    /* The bulk queue holds fewer frames than the ring. */
    rawe_credit_use_bulk(&rank->engine.pull.credit, BULK_RECEIVE_FRAMES);
}

void cluster_rank_close(struct cluster_rank *rank)
{
    for (uint32_t i = 0; i < rank->peer_room; i++) {
        if (rank->peers[i] != NULL) {
            rawe_peer_close(&rank->peers[i]->peer);
        }
    }
}

void cluster_rank_free(struct cluster_rank *rank)
{
    rawe_handle_deregister(&rank->handles, rank->payload_index, rank->payload_key);
    rawe_group_free(&rank->part.group);
    net_engine_stop(&rank->engine);
    for (uint32_t i = 0; i < rank->peer_room; i++) {
        if (rank->peers[i] != NULL) {
            cluster_traffic_forget(rank->peers[i]);
            net_delete(rank->peers[i]);
        }
    }
    net_delete(rank->peers);
}
