/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `batch`: hostile packets with batch headers, through the receiving half of the bulk
 * link and the engine.
 *
 * Input: a script, see fuzz.h.
 */
#include "fuzz.h"

#include <linux/virtio_net.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "net_engine.h"
#include "net_forge.h"
#include "conn/rawe_conn_batch.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_tx.h"
#include "base/rawe_sum16.h"
#include "linux/packet/rawe_packet.h"

/* ---- the bulk link without a packet socket: a ring of one slot, a queue of two sockets ---- */

/** Maximum data of a packet, limited by the IPv4 header's length field. */
#define LINK_BYTES_MAX (UINT16_MAX - RAWE_PACKET_OVERHEAD_BYTES - RAWE_BATCH_HEADER_BYTES)

struct link_packet {
    uint8_t destination[RAWE_MAC_BYTES], source[RAWE_MAC_BYTES];
    uint8_t gso_type;
    uint16_t gso_size;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];
    const uint8_t *data;
    size_t data_bytes;
    uint16_t ip_lie;  /**< added to the length in the IPv4 header */
    size_t cut_bytes; /**< bytes cut from the end of the packet */
    bool no_room;     /**< the queue has no room for it */
};

/** Offset of the Ethernet header in a slot, after the kernel's own header and the virtio header. */
#define SLOT_FRAME_AT 96u
/** Bytes of a packet in a slot, for an MTU of 1500. */
#define SLOT_DATA_BYTES 1510u

static uint64_t slot_memory[(SLOT_FRAME_AT + SLOT_DATA_BYTES + 7) / 8];
static struct rawe_packet bulk_link;
static int far_fd = -1;

/** Set the link up like rawe_port_open. */
static void open_link(void)
{
    static uint8_t scratch[RAWE_PACKET_SCRATCH_BYTES];
    int fds[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0, "no pair of sockets");
    far_fd = fds[1];
    bulk_link.port.fd = fds[0];
    bulk_link.scratch = scratch;
    bulk_link.ring = (struct rawe_ring){
        .next = (struct tpacket2_hdr *)(void *)slot_memory,
        .left_in_block = 1,
        .geometry = {sizeof(slot_memory), sizeof(slot_memory), 1, 1},
        .memory = (uint8_t *)slot_memory,
        .memory_bytes = sizeof(slot_memory),
    };
    bulk_link.config.use = RAWE_PORT_BULK;
    bulk_link.port.kind = &rawe_packet_port;
    rawe_txqueue_init(&bulk_link.txqueue);
    bulk_link.port.word = &bulk_link.ring.next->tp_status;
    bulk_link.port.mask = TP_STATUS_USER;
}

static void put16(uint8_t *out, size_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

/**
 * Write all headers before the data. The EtherType is right because of the filter, the other fields
 * of the envelope because of the kernel.
 */
static void write_envelope(struct rawe_envelope *envelope, const struct link_packet *packet)
{
    uint8_t *ip = envelope->packet + RAWE_ETH_HEADER_BYTES;
    *envelope = (struct rawe_envelope){
        .vnet = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                 .gso_type = packet->gso_type,
                 .gso_size = packet->gso_size},
    };
    memcpy(envelope->packet, packet->destination, RAWE_MAC_BYTES);
    memcpy(envelope->packet + RAWE_MAC_BYTES, packet->source, RAWE_MAC_BYTES);
    put16(envelope->packet + 2 * RAWE_MAC_BYTES, ETHERTYPE_IPV4);
    ip[0] = 0x45;
    put16(ip + 2, RAWE_PACKET_OVERHEAD_BYTES + RAWE_BATCH_HEADER_BYTES + packet->data_bytes +
                      packet->ip_lie);
    put16(ip + 10, (uint16_t)~rawe_sum16_fold(rawe_sum16_add(0, ip, RAWE_PACKET_OVERHEAD_BYTES)));
    memcpy(envelope->packet + RAWE_FILTER_BULK_OFFSET, packet->head, RAWE_BATCH_HEADER_BYTES);
}

/**
 * Let the link receive a packet from its ring or, if it is long, from its queue. It must take
 * exactly the bytes that exist, whatever the headers claim.
 */
static void link_receive(const struct link_packet *packet,
                         const struct rawe_port_receiver *receiver, void *context)
{
    static uint8_t whole[sizeof(struct rawe_envelope) + LINK_BYTES_MAX];
    const size_t vnet_bytes = offsetof(struct rawe_envelope, packet);
    struct rawe_envelope envelope;
    if (far_fd < 0) {
        open_link();
    }
    FUZZ_CHECK(packet->data_bytes <= LINK_BYTES_MAX, "the fuzzer's own packet is too long");
    write_envelope(&envelope, packet);
    memcpy(whole, &envelope, sizeof(envelope));
    memcpy(whole + sizeof(envelope), packet->data, packet->data_bytes);
    size_t len_bytes = sizeof(envelope) - vnet_bytes + packet->data_bytes;
    /* No packet is shorter than its Ethernet header. */
    len_bytes -= packet->cut_bytes % (len_bytes - RAWE_ETH_HEADER_BYTES + 1);
    bool truncated = len_bytes > SLOT_DATA_BYTES;
    bool queued = truncated && !packet->no_room;
    struct tpacket2_hdr *slot = bulk_link.ring.next;
    slot->tp_mac = SLOT_FRAME_AT;
    slot->tp_len = (uint32_t)len_bytes;
    slot->tp_snaplen = (uint32_t)(truncated ? SLOT_DATA_BYTES : len_bytes);
    memcpy((uint8_t *)slot + SLOT_FRAME_AT - vnet_bytes, whole, vnet_bytes + slot->tp_snaplen);
    if (queued) {
        ssize_t sent = send(far_fd, whole, vnet_bytes + len_bytes, MSG_DONTWAIT);
        FUZZ_CHECK(sent == (ssize_t)(vnet_bytes + len_bytes), "the socket pair took no packet");
    }
    slot->tp_status = TP_STATUS_USER | (queued ? TP_STATUS_COPY : 0);
    rawe_port_receive(&bulk_link.port, 2, receiver, context);
    FUZZ_CHECK(slot->tp_status == TP_STATUS_KERNEL, "a slot was not given back");
    FUZZ_CHECK(recv(bulk_link.port.fd, whole, sizeof(whole), MSG_DONTWAIT) < 0,
               "the bulk link left a packet in its queue");
}

/* ---- the target ---- */

enum operation {
    BATCH,  /**< choose the batch of the packets that follow */
    PACKET, /**< pass some of its frames, honest or not, through the link */
    DIRECT, /**< pass some of its frames to the engine, with wrong lengths */
    PLACE,  /**< only ask for a place */
    HANDLE, /**< deregister a region and register it again */
    DEFER,  /**< let the owner leave, or return */
    PROGRESS,
    OPERATIONS
};

const unsigned fuzz_operations = OPERATIONS, fuzz_steps_max = 100;

#define REGIONS 3u
/** Distance of messages in a bundle. */
#define BUNDLED_BYTES 64u
#define KEY 0x1234u
#define PORT 7u

static const uint8_t our_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 2};
static const size_t region_bytes[REGIONS] = {100, 5000, 70000};

static struct world {
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    struct rawe_route route; /**< to the peer */
    struct rawe_conn *conn;
    uint64_t now_ns;
    uint8_t *regions[REGIONS];
    uint32_t index[REGIONS];
    uint64_t key[REGIONS];
    struct rawe_batch batch; /**< batch of the packets; its `at_bytes` is not used */
    uint64_t delivered_bytes;
} world;

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    FUZZ_CHECK(count == 1 && frames->len_bytes <=
                                 RAWE_PAYLOAD_OFFSET + RAWE_SACK_BYTES_MAX + RAWE_CHECKSUM_BYTES,
               "a receiver sends more than acknowledgements and answers");
    return count;
}

static bool transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    FUZZ_CHECK(packet->len_bytes <=
                       RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES + RAWE_CONNECT_BYTES &&
                   segment_bytes == 0,
               "a receiver sends more than acknowledgements and answers");
    return true;
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct world *to = context;
    FUZZ_CHECK(conn == to->conn, "a message of no connection");
    FUZZ_CHECK(len_bytes <= UINT16_MAX || len_bytes <= to->engine.config.message_max_bytes,
               "a message longer than a frame and than any message may be");
    fuzz_delete(fuzz_copy(data, len_bytes));
    to->delivered_bytes += len_bytes;
    if (tag % 8 == 7) { /* the program deregisters memory in the callback */
        rawe_handle_deregister(&to->handles, to->index[0], to->key[0]);
    }
}

static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    return from->lane == RAWE_LANE_BULK ? ((struct world *)context)->conn : NULL;
}

static void add_region(unsigned i)
{
    world.regions[i] = fuzz_guarded_new(region_bytes[i]);
    FUZZ_CHECK(rawe_handle_register(&world.handles, world.regions[i], region_bytes[i],
                                    &world.index[i], &world.key[i], RAWE_ACCESS_WRITE),
               "no memory for a handle");
}

static void remove_region(unsigned i)
{
    rawe_handle_deregister(&world.handles, world.index[i], world.key[i]);
    fuzz_guarded_delete(world.regions[i], region_bytes[i]);
}

static uint64_t clock_of(void *context)
{
    (void)context;
    return world.now_ns;
}

static void start(struct fuzz_input *head)
{
    unsigned bits = (unsigned)fuzz_take(head, 1);
    const struct rawe_engine_config config = {
        .mac = {2, 0, 0, 0, 0, 1},
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .port = PORT,
        .key = KEY,
        .payload_max_bytes = (bits & 1) != 0 ? 1464 : 65000,
        .message_max_bytes = (bits & 2) != 0 ? 4096 : 65536,
        .window_frames = (bits & 4) != 0 ? 16 : 64,
        .receive_frames = 256,
        .copy_max_bytes = 1024,
        .frames_limit = 128,
        .deferred_max_bytes = 20000,
        .ack_delay_ns = 50000,
        .liveness.probe_least_ns = 500000,
        .liveness.probe_most_ns = 100000000,
        .reorder_ns = 100000,
        .clock_ns = clock_of,
    };
    const struct rawe_callbacks callbacks = {.deliver = deliver, .accept = accept_peer};
    memset(&world, 0, sizeof(world));
    world.now_ns = 1000000000;
    net_engine_start(&world.engine, &world.handles, &config, &callbacks, transmit, &world,
                     world.now_ns);
    if ((bits & 16) != 0) {
        net_engine_use_batches(&world.engine, RAWE_BATCH_BYTES_MAX, transmit_batch);
    }
    if ((bits & 32) != 0) {
        world.engine.reassembly_buffers.limit = 2;
    }
    world.route = (struct rawe_route){
        .engine = &world.engine,
        .mac = {2, 0, 0, 0, 0, 2},
        .port = PORT,
        .key = KEY + 1,
        .payload_max_bytes = config.payload_max_bytes,
    };
    rawe_route_init(&world.route);
    world.conn = rawe_conn_open(&world.route, RAWE_LANE_BULK, NULL, NULL);
    FUZZ_CHECK(world.conn != NULL, "no memory for a connection");
    for (unsigned i = 0; i < REGIONS; i++) {
        add_region(i);
    }
}

/** Open the connection: receive the peer's CONNECT, and its reply to ours. */
static void connect_peer(void)
{
    for (unsigned reply = 0; reply < 2; reply++) {
        uint8_t frame[NET_CONNECT_BYTES];
        const size_t len_bytes = net_forge_connect(world.conn, 1u << 20, reply != 0, frame);
        rawe_engine_receive(&world.engine, frame, len_bytes, world.now_ns);
    }
    FUZZ_CHECK(world.conn->handshake.state == RAWE_CONN_OPEN, "the connection did not open");
}

static void make_batch(const struct fuzz_step *step)
{
    uint32_t expected = world.conn->rx.window.next;
    uint32_t next = world.conn->rx.reassembly.next;
    struct rawe_batch *batch = &world.batch;
    unsigned region = step->options >> 5 & 3;
    region = region < REGIONS ? region : 0;
    *batch = (struct rawe_batch){
        .header =
            {
                .type = (step->a & 0x8000) != 0 ? (uint8_t)(step->b >> 16 & 15) : RAWE_FRAME_BULK,
                .flags = (step->a & 0x4000) != 0 ? RAWE_FLAG_ACK_NOW : 0,
                .port = PORT,
                .key = KEY,
                .connection_id = world.conn->handshake.local_id,
                .sequence = expected + (uint32_t)(int8_t)step->a,
                .credit = 64,
            },
        .fragment =
            {
                .kind = (uint8_t)(step->options & 7),
                .tag = (uint8_t)(step->options >> 3),
                .id = next + (uint32_t)(int8_t)(step->b >> 24),
                .total_bytes = step->d,
                .offset = step->c,
            },
        .segment_bytes = (uint16_t)step->b,
        .frames = (uint8_t)((step->a >> 8 & 63) + 1),
    };
    if (batch->fragment.kind == RAWE_FRAGMENT_PUT) {
        batch->fragment.id = world.index[region];
        batch->fragment.key = world.key[region] ^ (step->d & 1);
        batch->fragment.offset += (uint64_t)(step->d >> 1 & UINT16_MAX) << 32;
    }
}

/** Write a packet's data, beginning at an offset in the batch. */
static void write_data(uint8_t *out, size_t at_bytes, size_t data_bytes)
{
    const struct rawe_fragment *fragment = &world.batch.fragment;
    const uint8_t *pattern = rawe_conn_batch_pattern();
    uint64_t offset = fragment->offset + at_bytes;
    uint8_t message[RAWE_FRAGMENT_MESSAGE_BYTES];
    /* With odd tags, messages overlap the next one. */
    const struct rawe_fragment bundled = {
        .kind = RAWE_FRAGMENT_MESSAGE,
        .tag = fragment->tag,
        .data_bytes = BUNDLED_BYTES - RAWE_FRAGMENT_MESSAGE_BYTES + 100u * (fragment->tag & 1),
    };
    rawe_fragment_encode(message, &bundled);
    for (size_t i = 0; i < data_bytes; i++, offset++) {
        out[i] = (uint8_t)(offset ^ offset >> 8);
        if (fragment->kind == RAWE_FRAGMENT_VALIDATION) {
            out[i] = pattern[offset % RAWE_BATCH_BYTES_MAX] ^ (fragment->tag & 1);
        } else if (fragment->kind == RAWE_FRAGMENT_BUNDLE &&
                   offset % BUNDLED_BYTES < sizeof(message)) {
            out[i] = message[offset % BUNDLED_BYTES];
        }
    }
}

/**
 * Make a packet of the frames of the batch that `a` chooses; the last one is shorter by
 * `short_bytes`. The caller frees the data.
 */
static void cut(const struct fuzz_step *step, size_t short_bytes, struct link_packet *packet)
{
    struct rawe_batch batch = world.batch;
    size_t first = (step->a & 0x8000) != 0 ? 0 : step->a & 63;
    size_t frames = (step->a & 0x8000) != 0 ? batch.frames : (step->a >> 6 & 63) + 1u;
    size_t data_bytes = frames * batch.segment_bytes;
    data_bytes -= batch.segment_bytes != 0 ? short_bytes % batch.segment_bytes : 0;
    data_bytes = data_bytes < LINK_BYTES_MAX ? data_bytes : LINK_BYTES_MAX;
    batch.at_bytes = (uint32_t)(first * batch.segment_bytes);
    uint8_t *data = fuzz_new(data_bytes);
    write_data(data, batch.at_bytes, data_bytes);
    memcpy(packet->destination, our_mac, RAWE_MAC_BYTES);
    memcpy(packet->source, peer_mac, RAWE_MAC_BYTES);
    rawe_batch_encode(packet->head, &batch);
    packet->data = data;
    packet->data_bytes = data_bytes;
}

/** Ask the engine for a place, and write all of it. */
static uint8_t *place(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes)
{
    uint8_t *copy = fuzz_copy(head, head_bytes);
    uint8_t *at = rawe_engine_place(context, source_mac, copy, head_bytes, data_bytes);
    if (at != NULL) {
        memset(at, 0, data_bytes);
    }
    fuzz_delete(copy);
    return at;
}

/** Place of the last packet. */
static uint8_t *placed;

static uint8_t *place_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                             size_t head_bytes, size_t data_bytes)
{
    placed = place(context, source_mac, head, head_bytes, data_bytes);
    return placed;
}

static void receive(void *context, const uint8_t *source_mac, const uint8_t *head,
                    size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    /* Memory of exactly its length, so that a read beyond is detected. */
    uint8_t *head_copy = fuzz_copy(head, head_bytes);
    uint8_t *data_copy = data == placed ? NULL : fuzz_copy(data, data_bytes);
    rawe_engine_receive_batch(context, source_mac, head_copy, head_bytes,
                              data_copy != NULL ? data_copy : data, data_bytes, world.now_ns);
    fuzz_delete(data_copy);
    fuzz_delete(head_copy);
    placed = NULL;
}

static void receive_packet(const struct fuzz_step *step)
{
    const struct rawe_port_receiver receiver = {.place = place_packet, .packet = receive};
    struct link_packet packet = {
        .gso_type = (step->options & 1) != 0 ? VIRTIO_NET_HDR_GSO_NONE : VIRTIO_NET_HDR_GSO_TCPV4,
        .gso_size = (uint16_t)((step->options & 2) != 0 ? step->b : world.batch.segment_bytes),
        .cut_bytes = (step->options & 4) != 0 ? step->c & UINT16_MAX : 0,
        .no_room = (step->options & 8) != 0,
        .ip_lie = (step->options & 16) != 0 ? (uint16_t)(step->c >> 16) : 0,
    };
    cut(step, (step->options & 64) != 0 ? step->d >> 16 : 0, &packet);
    if ((step->options & 32) != 0) {
        packet.head[(step->d & 63) % RAWE_BATCH_HEADER_BYTES] ^= (uint8_t)(step->d >> 8);
    }
    placed = NULL;
    link_receive(&packet, &receiver, &world.engine);
    fuzz_delete((void *)(uintptr_t)packet.data);
}

/** Pass a part of the header, and data of a wrong length, to the engine. */
static void receive_directly(const struct fuzz_step *step)
{
    struct link_packet packet = {0};
    cut(step, step->d >> 16, &packet);
    size_t head_bytes = step->options % (RAWE_BATCH_HEADER_BYTES + 1);
    size_t data_bytes = (step->b & 1) != 0 ? step->c & 0x1FFFF : packet.data_bytes;
    uint8_t *head = fuzz_copy(packet.head, head_bytes);
    placed =
        (step->b & 2) != 0 ? place(&world.engine, peer_mac, head, head_bytes, data_bytes) : NULL;
    uint8_t *data = placed != NULL ? placed : fuzz_new(data_bytes);
    memcpy(data, packet.data, data_bytes < packet.data_bytes ? data_bytes : packet.data_bytes);
    rawe_engine_receive_batch(&world.engine, peer_mac, head, head_bytes, data, data_bytes,
                              world.now_ns);
    if (placed == NULL) {
        fuzz_delete(data);
    }
    fuzz_delete(head);
    fuzz_delete((void *)(uintptr_t)packet.data);
}

static void only_place(const struct fuzz_step *step)
{
    struct link_packet packet = {0};
    cut(step, 0, &packet);
    (void)place(&world.engine, peer_mac, packet.head, step->options % (RAWE_BATCH_HEADER_BYTES + 1),
                step->b & 0x1FFFF);
    fuzz_delete((void *)(uintptr_t)packet.data);
}

static void come_back(void)
{
    rawe_engine_defer_end(&world.engine);
    if (rawe_engine_has_deferred(&world.engine)) {
        rawe_engine_deliver_deferred(&world.engine);
    }
}

static void take_step(const struct fuzz_step *step)
{
    switch (step->operation % OPERATIONS) {
    case BATCH:
        make_batch(step);
        break;
    case PACKET:
        receive_packet(step);
        break;
    case DIRECT:
        receive_directly(step);
        break;
    case PLACE:
        only_place(step);
        break;
    case HANDLE:
        remove_region(step->a % REGIONS);
        add_region(step->a % REGIONS);
        break;
    case DEFER:
        come_back();
        if ((step->options & 1) != 0) {
            rawe_engine_defer_begin(&world.engine);
        }
        break;
    default:
        world.now_ns += step->a * 1000u;
        rawe_engine_flush(&world.engine, world.now_ns);
        rawe_engine_advance(&world.engine, world.now_ns);
        rawe_engine_flush(&world.engine, world.now_ns);
        break;
    }
    const struct rawe_buffer_pool *pool = &world.engine.reassembly_buffers;
    size_t deferred = world.engine.deferral->bytes / pool->buffer_bytes;
    FUZZ_CHECK(pool->allocated <= pool->limit + 1 + deferred,
               "more reassembly buffers than the limits allow");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz_input input = {data, data + len_bytes};
    start(&input);
    fuzz_take(&input, FUZZ_HEAD_BYTES - (unsigned)(input.at - data));
    connect_peer();
    for (unsigned i = 0; i < fuzz_steps_max && fuzz_left(&input) != 0; i++) {
        const struct fuzz_step step = fuzz_take_step(&input);
        take_step(&step);
    }
    come_back();
    for (unsigned i = 0; i < REGIONS; i++) {
        remove_region(i);
    }
    rawe_conn_close(world.conn, world.now_ns);
    net_engine_stop(&world.engine);
    return 0;
}
