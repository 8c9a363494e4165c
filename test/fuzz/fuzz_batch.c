/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `batch`: hostile batches, through the receiving half of the bulk link, the engine's
 * plan for them and reassembly.
 *
 * Input: 4 bytes of settings, then records of 16 bytes, one step each:
 *
 *   0 operation | 1 options | 2 a, 16 bits | 4 b | 8 c | 12 d
 */
#include "fuzz.h"

#include <linux/virtio_net.h>
#include <string.h>

#include "net_engine.h"
#include "rawe_conn.h"
#include "reassembly_model.h"
#include "batch_link.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* Linux 6.2 */
#endif

enum operation {
    FRAME,      /**< one more frame for the batch */
    MORE,       /**< more of the same, as an honest sender would go on */
    DELIVER,    /**< the batch as one packet */
    ONE_BY_ONE, /**< the batch as plain frames */
    PLAN,       /**< only ask for its place, with lengths that are not its own */
    HANDLE,     /**< take a region back and register it anew */
    REASSEMBLY, /**< a segment, given to reassembly itself */
    PROGRESS,
    OPERATIONS
};

const struct fuzz_format fuzz_format = {
    .head_bytes = 4,
    .record_bytes = 16,
    .operations = OPERATIONS,
    .records_max = 100,
};

#define REGIONS 3u
#define BATCH_BYTES_MAX BATCH_LINK_BYTES_MAX
#define KEY 0x1234u
#define PORT 7u

static const uint8_t our_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 2};
static const size_t region_bytes[REGIONS] = {100, 5000, 70000};

struct step {
    uint8_t operation, options;
    uint16_t a;
    uint32_t b, c, d;
};

static struct world {
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    struct rawe_conn *conn;
    uint64_t now_ns;
    uint8_t *regions[REGIONS];
    uint32_t index[REGIONS];
    uint64_t key[REGIONS];
    /* the batch being made */
    uint8_t batch[BATCH_BYTES_MAX];
    size_t batch_bytes, frame_bytes; /**< of all, of the first */
    struct rawe_header header;       /**< of its last frame */
    struct rawe_fragment fragment;
    uint64_t delivered_bytes;
    struct reassembly_model *model;
} world;

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    (void)context;
    FUZZ_CHECK(count == 1 && frames->len_bytes <=
                                 RAWE_PAYLOAD_OFFSET + RAWE_SACK_BYTES_MAX + RAWE_CHECKSUM_BYTES,
               "a receiver sends more than acknowledgements and answers");
    return count;
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
    if (tag % 8 == 7) { /* the program takes memory back when it hears of something */
        rawe_handle_deregister(&to->handles, to->index[0], to->key[0]);
    }
}

static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    (void)source_mac;
    return from->lane == RAWE_LANE_BULK ? ((struct world *)context)->conn : NULL;
}

static void add_region(unsigned i)
{
    world.regions[i] = fuzz_guarded_new(region_bytes[i]);
    FUZZ_CHECK(rawe_handle_register(&world.handles, world.regions[i], region_bytes[i],
                                    &world.index[i], &world.key[i]),
               "no memory for a handle");
}

static void remove_region(unsigned i)
{
    rawe_handle_deregister(&world.handles, world.index[i], world.key[i]);
    fuzz_guarded_delete(world.regions[i], region_bytes[i]);
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
        .ack_delay_ns = 50000,
        .liveness.probe_least_ns = 500000,
        .liveness.probe_most_ns = 100000000,
        .reorder_ns = 100000,
        .checksum = (bits & 8) != 0,
    };
    const struct rawe_callbacks callbacks = {.deliver = deliver, .accept = accept_peer};
    const struct rawe_conn_config peer = {
        .peer_mac = {2, 0, 0, 0, 0, 2},
        .peer_port = PORT,
        .peer_key = KEY + 1,
        .payload_max_bytes = config.payload_max_bytes,
        .lane = RAWE_LANE_BULK,
    };
    memset(&world, 0, sizeof(world));
    world.now_ns = 1000000000;
    net_engine_start(&world.engine, &world.handles, &config, &callbacks, transmit, &world,
                     world.now_ns);
    if ((bits & 16) != 0) { /* then validation frames are looked at */
        const struct rawe_batches batches = {.frames_max = 48, .bytes_max = 65507};
        FUZZ_CHECK(net_engine_use_batches(&world.engine, &batches, transmit),
                   "no memory for batches");
    }
    if ((bits & 32) != 0) {
        world.engine.reassembly_buffers.limit = 2;
    }
    world.conn = rawe_conn_open(&world.engine, &peer);
    FUZZ_CHECK(world.conn != NULL, "no memory for a connection");
    for (unsigned i = 0; i < REGIONS; i++) {
        add_region(i);
    }
    world.model = reassembly_model_new(2 + (unsigned)fuzz_take(head, 1) % 4);
}

/** The peer asks for a connection, and answers ours: from now on frames are taken. */
static void connect_peer(void)
{
    for (unsigned reply = 0; reply < 2; reply++) {
        uint8_t frame[RAWE_PAYLOAD_OFFSET + RAWE_CONNECT_BYTES + RAWE_CHECKSUM_BYTES];
        struct rawe_header header = {
            .type = RAWE_FRAME_CONNECT,
            .flags = reply != 0 ? RAWE_FLAG_REPLY : 0,
            .port = PORT,
            .key = KEY,
            .connection_id = reply != 0 ? world.conn->handshake.local_id : 0,
            .payload_bytes = RAWE_CONNECT_BYTES,
            .credit = 64,
        };
        const struct rawe_connect connect = {
            .connection_id = 1u << 20,
            .key = KEY + 1,
            .port = PORT,
            .lane = RAWE_LANE_BULK,
            .payload_max_bytes = world.engine.config.payload_max_bytes,
            .incarnation = 5,
        };
        memcpy(frame, our_mac, RAWE_MAC_BYTES);
        memcpy(frame + RAWE_MAC_BYTES, peer_mac, RAWE_MAC_BYTES);
        rawe_connect_encode(frame + RAWE_PAYLOAD_OFFSET, &connect);
        size_t len_bytes = rawe_frame_seal(frame, &header, world.engine.config.checksum);
        rawe_engine_receive(&world.engine, frame, len_bytes, world.now_ns);
    }
    FUZZ_CHECK(world.conn->handshake.state == RAWE_CONN_OPEN, "the connection did not open");
}

/** Append the frame of world.header and world.fragment, cut short or filled up by `lie` bytes. */
static void append(int lie)
{
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX] = {0};
    size_t fragment_bytes = rawe_fragment_encode(head + RAWE_PAYLOAD_OFFSET, &world.fragment);
    size_t data_bytes = (size_t)world.fragment.data_bytes;
    if (lie < 0) {
        data_bytes = data_bytes > (size_t)-lie ? data_bytes - (size_t)-lie : 0;
    } else {
        data_bytes += (size_t)lie;
    }
    size_t frame_bytes = RAWE_HEADER_BYTES + fragment_bytes + data_bytes;
    if (world.batch_bytes + frame_bytes > BATCH_BYTES_MAX) {
        return;
    }
    world.header.payload_bytes = (uint16_t)(fragment_bytes + data_bytes);
    rawe_header_encode(head + RAWE_ETH_HEADER_BYTES, &world.header);
    uint8_t *at = world.batch + world.batch_bytes;
    memcpy(at, head + RAWE_ETH_HEADER_BYTES, RAWE_HEADER_BYTES + fragment_bytes);
    memset(at + RAWE_HEADER_BYTES + fragment_bytes, (int)world.header.sequence & 0xFF, data_bytes);
    if (world.batch_bytes == 0) {
        world.frame_bytes = frame_bytes;
    }
    world.batch_bytes += frame_bytes;
}

static void make_frame(const struct step *step)
{
    uint32_t expected = world.conn->recvwin.acktr != NULL ? world.conn->recvwin.acktr->next : 0;
    uint32_t next = world.conn->reassembly != NULL ? world.conn->reassembly->next : 0;
    unsigned region = step->options >> 5 & 3;
    region = region < REGIONS ? region : 0;
    world.header = (struct rawe_header){
        .type = (step->a & 0x8000) != 0 ? (uint8_t)(step->a >> 8 & 15) : RAWE_FRAME_BULK,
        .flags = (step->a & 0x4000) != 0 ? RAWE_FLAG_ACK_NOW : 0,
        .port = PORT,
        .key = KEY,
        .connection_id = world.conn->handshake.local_id,
        .sequence = expected + (uint32_t)(int8_t)step->a,
        .credit = 64,
    };
    world.fragment = (struct rawe_fragment){
        .kind = (uint8_t)(step->options & 7),
        .tag = (uint8_t)(step->options >> 3),
        .data_bytes = (uint16_t)step->b,
        .id = next + (uint32_t)(int8_t)(step->b >> 24),
        .total_bytes = step->d,
        .offset = step->c,
    };
    if (world.fragment.kind == RAWE_FRAGMENT_PUT) {
        world.fragment.id = world.index[region];
        world.fragment.key = world.key[region] ^ (step->d & 1);
    }
    append((int8_t)(step->b >> 16));
}

static void make_more(const struct step *step)
{
    for (unsigned i = 0; i < (step->a & 63) + 1u && world.batch_bytes != 0; i++) {
        world.header.sequence += 1u + (step->options & 1);
        world.fragment.offset += world.fragment.data_bytes * (1u + (step->options & 1u));
        append(0);
    }
    if (step->b != 0) { /* the last one is shorter */
        world.header.sequence++;
        world.fragment.offset += world.fragment.data_bytes;
        world.fragment.data_bytes = (uint16_t)(step->b % (world.fragment.data_bytes + 1u));
        append(0);
    }
}

static bool plan(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                 size_t segment_bytes, size_t total_bytes, struct rawe_placement *placement)
{
    uint8_t *copy = fuzz_copy(head, head_bytes);
    bool planned = rawe_engine_plan(context, source_mac, copy, head_bytes, segment_bytes,
                                    total_bytes, placement);
    fuzz_delete(copy);
    return planned;
}

static void segment(void *context, const uint8_t *source_mac, const uint8_t *head,
                    size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    uint8_t *copy = fuzz_copy(head, head_bytes);
    rawe_engine_receive_parts(context, source_mac, copy, head_bytes, data, data_bytes,
                              world.now_ns);
    fuzz_delete(copy);
}

static void deliver_batch(const struct step *step)
{
    const struct rawe_bulk_receiver receiver = {.plan = plan, .segment = segment};
    struct batch_link_packet packet = {
        .gso_type = (step->options & 1) != 0 ? VIRTIO_NET_HDR_GSO_NONE : VIRTIO_NET_HDR_GSO_UDP_L4,
        .gso_size = (uint16_t)((step->options & 2) != 0 ? step->a : world.frame_bytes),
        .bytes = world.batch,
        .len_bytes = world.batch_bytes,
        .cut_bytes = (step->options & 4) != 0 ? step->b : 0,
    };
    memcpy(packet.destination, our_mac, RAWE_MAC_BYTES);
    memcpy(packet.source, peer_mac, RAWE_MAC_BYTES);
    batch_link_receive(&packet, &receiver, &world.engine);
    world.batch_bytes = 0;
}

static void deliver_one_by_one(void)
{
    for (size_t at = 0; at + RAWE_HEADER_BYTES <= world.batch_bytes;) {
        size_t payload_bytes = (size_t)world.batch[at + 20] << 8 | world.batch[at + 21];
        size_t len_bytes = RAWE_HEADER_BYTES + payload_bytes;
        len_bytes = len_bytes < world.batch_bytes - at ? len_bytes : world.batch_bytes - at;
        uint8_t *frame = fuzz_copy(world.batch + at, len_bytes);
        rawe_engine_receive_parts(&world.engine, peer_mac, frame, len_bytes, NULL, 0, world.now_ns);
        fuzz_delete(frame);
        at += len_bytes;
    }
    world.batch_bytes = 0;
}

static void only_plan(const struct step *step)
{
    struct rawe_placement placement = {0};
    size_t head_bytes = (step->a & 127) < world.batch_bytes ? (step->a & 127) : world.batch_bytes;
    if (plan(&world.engine, peer_mac, world.batch, head_bytes, step->b & 0x1FFFF, step->c & 0x1FFFF,
             &placement)) {
        size_t frame_bytes = step->b & 0x1FFFF, total_bytes = step->c & 0x1FFFF;
        frame_bytes = frame_bytes == 0 || frame_bytes > total_bytes ? total_bytes : frame_bytes;
        size_t count = (total_bytes + frame_bytes - 1) / frame_bytes;
        /* All of what would be received there may be written. */
        memset(placement.base, 0, total_bytes - count * placement.head_bytes);
    }
}

static void take_step(const struct step *step)
{
    switch (step->operation % OPERATIONS) {
    case FRAME:
        make_frame(step);
        break;
    case MORE:
        make_more(step);
        break;
    case DELIVER:
        deliver_batch(step);
        break;
    case ONE_BY_ONE:
        deliver_one_by_one();
        break;
    case PLAN:
        only_plan(step);
        break;
    case HANDLE:
        remove_region(step->a % REGIONS);
        add_region(step->a % REGIONS);
        break;
    case REASSEMBLY:
        reassembly_model_step(world.model, step->options, step->a, step->b, step->c, step->d);
        break;
    default:
        world.now_ns += step->a * 1000u;
        rawe_engine_flush(&world.engine, world.now_ns);
        rawe_engine_advance(&world.engine, world.now_ns);
        rawe_engine_flush(&world.engine, world.now_ns);
        break;
    }
    FUZZ_CHECK(world.engine.reassembly_buffers.allocated <=
                   world.engine.reassembly_buffers.limit + 1,
               "more reassembly buffers than the limit allows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz_input input = {data, data + len_bytes};
    start(&input);
    fuzz_take(&input, fuzz_format.head_bytes - (unsigned)(input.at - data));
    connect_peer();
    for (unsigned i = 0; i < fuzz_format.records_max && fuzz_left(&input) != 0; i++) {
        struct step step;
        step.operation = (uint8_t)fuzz_take(&input, 1);
        step.options = (uint8_t)fuzz_take(&input, 1);
        step.a = (uint16_t)fuzz_take(&input, 2);
        step.b = (uint32_t)fuzz_take(&input, 4);
        step.c = (uint32_t)fuzz_take(&input, 4);
        step.d = (uint32_t)fuzz_take(&input, 4);
        take_step(&step);
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        remove_region(i);
    }
    rawe_conn_close(world.conn, world.now_ns);
    net_engine_stop(&world.engine);
    reassembly_model_free(world.model);
    return 0;
}
