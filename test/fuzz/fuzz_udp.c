/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `udp`: datagrams of attackers, through the receiving half of the UDP port, the engine
 * and the responder.
 *
 * Input: one byte of options (enum option), 2 bytes with the length of each datagram (0: of the only
 * one), then the datagrams, as one system call returns those that the kernel has merged. Unless the
 * options say otherwise, version, port, key and connection id are made right, so that an attacker
 * knows everything except, as the options choose, the key, or how to send from the peer's address
 * or UDP port.
 *
 * The process lives through all inputs: no attacker may change anything in it. Answers go only to
 * the sender, and all together are no longer than its datagrams.
 */

/* For handle_frame, as in fuzz_decode.c. It must come first because it selects extensions of the C
 * library. */
#include "linux/probe/rawe_responder.c"

#include <stddef.h>
#include <string.h>

#include "fuzz.h"

#include "net_engine.h"
#include "net_forge.h"
#include "net_ipv6.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_path.h"
#include "linux/udp/rawe_udp.h"
#include "linux/udp/rawe_udp_batch.h"

enum option {
    LACKS = 3, /**< mask: enum lacking */
    TO_RESPONDER = 4,
    FINALIZING = 8,
    RAW = 16, /**< the datagrams are sent as they are; for their version, see fuzz_set_version */
    OTHER_CONNECTION = 32, /**< the connection id is not made right */
    IN_PEERS_NAME = 64,    /**< CONNECT and PROBE name the peer; PINGs have the sender's port */
    IPV6 = 128, /**< addresses are of IPv6; the attacker's, of 256, have the hash of the peer's */
};

/** The attacker lacks the peer's address, its UDP port, the key, or all three. */
enum lacking { LACKS_ADDRESS, LACKS_SOURCE_PORT, LACKS_KEY, LACKS_ALL };

#define HEAD_BYTES 3u
#define INPUT_BYTES_MAX 8192u

#define PORT 33000u
#define KEY 0x12345678u
#define PING_KEY 0x9ABCDEF0u
#define PEER_PORT 34000u
#define PEER_KEY 0x0BADCAFEu
#define PEER_CONNECTION (1u << 20)
#define TOKEN (1ull << 63)
#define REGION_BYTES 256u

static const uint8_t own_mac[RAWE_MAC_BYTES] = {2, 4, 10, 0, 0, 1};
static const uint8_t peer_mac[RAWE_MAC_BYTES] = {2, 4, 10, 0, 0, 2};
static const uint8_t attacker_mac[RAWE_MAC_BYTES] = {2, 4, 10, 0, 0, 3};
static const struct in6_addr peer_ipv6 = {.s6_addr = {0xFD, [15] = 2}};

static struct world {
    bool started;
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    struct rawe_route route; /**< to the peer */
    struct rawe_conn *conn;
    struct rawe_responder responder;
    struct rawe_udp link, ping;
    struct rawe_udp_received *received;
    uint8_t peer_ipv6_mac[RAWE_MAC_BYTES];
    uint8_t region[REGION_BYTES]; /**< memory that the peer may write */
    size_t answered_bytes;
    bool watched; /**< the world is complete: attackers send, and answers are checked */
} world;

static uint64_t clock_of(void *context)
{
    (void)context;
    return 1000000000;
}

/** Check where an answer goes, and add its length. */
static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    const uint8_t *head = frames->pieces[0].base;

    (void)context;
    if (world.watched) {
        FUZZ_CHECK(memcmp(head, world.received->source, RAWE_MAC_BYTES) == 0,
                   "an answer to another address");
        FUZZ_CHECK(rawe_udp_port_of(head + RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_PORT) ==
                       world.received->source_port,
                   "an answer to another port");
        for (unsigned i = 0; i < count; i++) {
            world.answered_bytes += frames[i].len_bytes - RAWE_ETH_HEADER_BYTES;
        }
    }
    return count;
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    FUZZ_CHECK(false, "an attacker's message was delivered");
}

/** Accept a CONNECT like the component, which leaves the source address to the engine. */
static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    return from->key == PEER_KEY && from->port == PEER_PORT ? world.conn : NULL;
}

/** The component sends one PING to the new address. */
static void unknown_source(void *context, const struct rawe_conn *conn,
                           const struct rawe_connect *from,
                           const uint8_t source_mac[RAWE_MAC_BYTES])
{
    world.answered_bytes += RAWE_HEADER_BYTES + RAWE_PING_BYTES;
}

static void start_engine(void)
{
    const struct rawe_engine_config config = {
        .mac = {2, 4, 10, 0, 0, 1},
        .port = PORT,
        .key = KEY,
        .checksummed = true,
        .payload_max_bytes = 1444,
        .message_max_bytes = 65536,
        .window_frames = 64,
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
    const struct rawe_callbacks callbacks = {
        .deliver = deliver, .accept = accept_peer, .unknown_source = unknown_source};
    uint32_t index;
    uint64_t key;

    net_engine_start(&world.engine, &world.handles, &config, &callbacks, transmit, NULL,
                     clock_of(NULL));
    world.route = (struct rawe_route){.engine = &world.engine,
                                      .port = PEER_PORT,
                                      .key = PEER_KEY,
                                      .payload_max_bytes = config.payload_max_bytes};
    memcpy(world.route.mac, peer_mac, RAWE_MAC_BYTES);
    rawe_route_init(&world.route);
    world.conn = rawe_conn_open(&world.route, RAWE_LANE_BULK, NULL, NULL);
    FUZZ_CHECK(world.conn != NULL, "no memory for a connection");
    FUZZ_CHECK(rawe_handle_register(&world.handles, world.region, sizeof world.region, &index, &key,
                                    RAWE_ACCESS_WRITE | RAWE_ACCESS_READ),
               "no memory for a handle");
}

static void start_responder(void)
{
    static const struct rawe_port_kind kind = {.transmit = transmit};
    static struct rawe_port wire = {.kind = &kind};
    struct rawe_ping_address to = {.port = PEER_PORT + 1, .key = PING_KEY + 1};

    memcpy(to.mac, peer_mac, RAWE_MAC_BYTES);
    world.responder.wire = &wire;
    rawe_watch_table_init(&world.responder.watches);
    struct rawe_watch *watch = rawe_responder_watch(&world.responder, &to);
    FUZZ_CHECK(watch == world.responder.watches.watches[0], "no memory for a watch");
    watch->token = TOKEN; /* not random: inputs must mean the same in every run */
    watch->asked_bytes = RAWE_PING_BYTES;
}

static void start_port(struct rawe_udp *udp, enum rawe_port_use use)
{
    udp->config = (struct rawe_port_config){.use = use,
                                            .ethertype = RAWE_ETHERTYPE_DEFAULT,
                                            .port = PORT,
                                            .key = KEY,
                                            .ping_port = PORT + 1,
                                            .ping_key = PING_KEY};
    memcpy(udp->config.address, own_mac, RAWE_MAC_BYTES);
    udp->port = (struct rawe_port){.kind = &rawe_udp_port, .fd = -1};
}

/** Pass datagrams of `segment_bytes` each to a port, as one system call received them. */
static void receive(struct rawe_udp *udp, const uint8_t *bytes, size_t len_bytes,
                    size_t segment_bytes, const struct rawe_port_receiver *receiver, void *context)
{
    struct rawe_udp_received *to = world.received;

    /* At the end of the memory, so that the address sanitizer sees reads beyond. */
    to->users = 0;
    to->len_bytes = RAWE_UDP_DATAGRAM_BYTES_MAX;
    to->at_bytes = to->len_bytes - len_bytes;
    to->segment_bytes = segment_bytes;
    memcpy(to->bytes + RAWE_ETH_HEADER_BYTES + to->at_bytes, bytes, len_bytes);
    udp->current = to;
    while (udp->current != NULL) {
        (void)rawe_port_receive(&udp->port, 5, receiver, context);
    }
    FUZZ_CHECK(udp->spare == to && to->users == 0, "the port lost the memory");
    udp->spare = NULL;
}

static void note_arrival(void *context, uint64_t arrived_ns, uint16_t source_port)
{
    rawe_engine_arriving(context, arrived_ns);
    rawe_engine_sent_from(context, source_port);
}

static void receive_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    rawe_engine_receive(context, frame, len_bytes, clock_of(NULL));
}

static uint8_t *place(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes)
{
    uint8_t *at = rawe_engine_place(context, source_mac, head, head_bytes, data_bytes);

    FUZZ_CHECK(at == NULL, "a place for an attacker's data");
    return at;
}

static void receive_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                           size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    rawe_engine_receive_batch(context, source_mac, head, head_bytes, data, data_bytes,
                              clock_of(NULL));
}

static const struct rawe_port_receiver to_engine = {
    .arrived = note_arrival, .frame = receive_frame, .place = place, .packet = receive_packet};
static const struct rawe_port_receiver to_responder = {.arrived = note_source,
                                                       .frame = handle_frame};

/** Let the peer connect: its CONNECT, and its reply to ours. */
static void connect_peer(void)
{
    for (unsigned reply = 0; reply < 2; reply++) {
        uint8_t frame[NET_CONNECT_BYTES];
        const size_t len_bytes = net_forge_connect(world.conn, PEER_CONNECTION, reply != 0, frame) -
                                 RAWE_ETH_HEADER_BYTES;
        receive(&world.link, frame + RAWE_ETH_HEADER_BYTES, len_bytes, len_bytes, &to_engine,
                &world.engine);
    }
    rawe_engine_flush(&world.engine, clock_of(NULL));
    FUZZ_CHECK(world.conn->handshake.state == RAWE_CONN_OPEN, "the connection did not open");
}

static void start(void)
{
    world.started = true;
    world.received =
        fuzz_new(offsetof(struct rawe_udp_received, bytes) + sizeof world.received->bytes);
    world.received->from = rawe_udp_address_of(peer_mac, PEER_PORT);
    rawe_udp_note_source(world.received);
    FUZZ_CHECK(rawe_udp_ipv6_mac(world.peer_ipv6_mac, peer_ipv6.s6_addr, RAWE_UDP_GIVEN),
               "no room for an address");
    start_engine();
    start_responder();
    start_port(&world.link, RAWE_PORT_EXPRESS);
    start_port(&world.ping, RAWE_PORT_RESPONDER);
    connect_peer();
    world.watched = true;
}

/** Make the sender's identity in a CONNECT or PROBE the peer's, in a PING the attacker's. */
static void make_identity(uint8_t *payload, size_t len_bytes, bool ping)
{
    if (ping && len_bytes >= RAWE_PING_BYTES) {
        rawe_put16(payload + 4, world.received->source_port);
    } else if (!ping && len_bytes >= RAWE_CONNECT_BYTES) {
        rawe_put32(payload + 8, PEER_CONNECTION);
        rawe_put32(payload + 12, PEER_KEY);
        rawe_put16(payload + 16, PEER_PORT);
        payload[18] = RAWE_LANE_BULK;
    }
}

/** Set the versions of a datagram, and of the batch header in it: unless `raw`, the current one. */
static void set_versions(uint8_t *bytes, size_t len_bytes, bool raw)
{
    const bool batch = (bytes[0] & 0xF) == 0xF && len_bytes >= RAWE_BATCH_HEADER_BYTES;
    uint8_t *const versions[] = {bytes, bytes + RAWE_BATCH_OFFSET_VERSION_TYPE};

    for (unsigned i = 0; i < (batch ? 2 : 1); i++) {
        *versions[i] &= raw ? 0xFF : 0xF;
        fuzz_set_version(versions[i]);
    }
}

/** Make what the attacker knows right in a datagram of the current version. */
static void make_right(uint8_t *bytes, size_t len_bytes, uint8_t options)
{
    const uint32_t wrong = (options & LACKS) >= LACKS_KEY;
    const uint32_t id = (options & OTHER_CONNECTION) != 0 ? 0 : world.conn->handshake.local_id;
    const uint8_t type = bytes[0] & 0xF;
    const bool ping = type == RAWE_FRAME_PING || type == RAWE_FRAME_PONG;

    if (bytes[0] == RAWE_UDP_BATCH_MARKER && len_bytes >= RAWE_BATCH_HEADER_BYTES) {
        rawe_put16(bytes + 2, (uint16_t)id);
        rawe_put32(bytes + 20, 0xFE285257u);
        rawe_put32(bytes + RAWE_BATCH_OFFSET_KEY, KEY ^ wrong);
        rawe_put16(bytes + 32, (uint16_t)(id >> 16));
    } else if (len_bytes >= RAWE_HEADER_BYTES) {
        rawe_put16(bytes + RAWE_OFFSET_PORT, ping ? PORT + 1 : PORT);
        rawe_put32(bytes + RAWE_OFFSET_KEY, (ping ? PING_KEY : KEY) ^ wrong);
        rawe_put32(bytes + 8, ping ? 0 : id);
        if (len_bytes >= RAWE_FRAME_OVERHEAD_BYTES) {
            rawe_put16(bytes + 20, (uint16_t)(len_bytes - RAWE_FRAME_OVERHEAD_BYTES));
        }
        if ((options & IN_PEERS_NAME) != 0 &&
            (ping || type == RAWE_FRAME_CONNECT || type == RAWE_FRAME_PROBE)) {
            make_identity(bytes + RAWE_HEADER_BYTES, len_bytes - RAWE_HEADER_BYTES, ping);
        }
    }
}

/** Set who sends, and how the peer is reached. */
static void choose_addresses(bool ipv6, bool from_peer, uint16_t port, uint8_t attacker)
{
    struct in6_addr address = peer_ipv6;

    memcpy(world.route.mac, ipv6 ? world.peer_ipv6_mac : peer_mac, RAWE_MAC_BYTES);
    rawe_conn_path_use(world.conn, &world.route);
    if (ipv6) {
        net_ipv6_collide(address.s6_addr, from_peer ? 0 : 1u + attacker);
        world.received->from.ipv6 = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = address};
    } else {
        world.received->from = rawe_udp_address_of(from_peer ? peer_mac : attacker_mac, port);
    }
    rawe_udp_note_source(world.received);
    FUZZ_CHECK(!from_peer || !world.received->unknown, "the peer's address is forgotten");
}

/** Return true if the sender's address is known. */
static bool sender_is_known(void)
{
    rawe_udp_note_source(world.received);
    return !world.received->unknown;
}

/** Everything that no attacker may change. */
static void check_unchanged(size_t asked_bytes, uint64_t received, uint32_t local_id)
{
    static const uint8_t zeros[REGION_BYTES];
    const struct rawe_conn *conn = world.conn;

    FUZZ_CHECK(world.answered_bytes <= asked_bytes, "an answer longer than its question");
    FUZZ_CHECK(world.engine.counters.frames_received == received, "a frame was accepted");
    FUZZ_CHECK(conn->handshake.state == RAWE_CONN_OPEN && conn->handshake.local_id == local_id &&
                   conn->handshake.peer_id == PEER_CONNECTION && conn->path.route == &world.route,
               "the connection has changed");
    FUZZ_CHECK(world.engine.reassembly_buffers.allocated == 0 && conn->tx.queue.first == NULL &&
                   world.engine.deferral->bytes == 0 && rawe_list_empty(&world.engine.pending),
               "memory or work for an attacker");
    FUZZ_CHECK(memcmp(world.region, zeros, sizeof zeros) == 0, "a attacker wrote into memory");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    static uint8_t bytes[INPUT_BYTES_MAX];

    if (!world.started) {
        start();
    }
    if (len_bytes < HEAD_BYTES || len_bytes > HEAD_BYTES + INPUT_BYTES_MAX) {
        return 0;
    }
    const uint8_t options = data[0];
    /* Bytes sent as they are may have the key. */
    const enum lacking lacks =
        (options & (RAW | LACKS)) == (RAW | LACKS_KEY) ? LACKS_ADDRESS : options & LACKS;
    const bool to_ping = (options & TO_RESPONDER) != 0;
    size_t segment_bytes = (size_t)data[1] << 8 | data[2];
    len_bytes -= HEAD_BYTES;
    memcpy(bytes, data + HEAD_BYTES, len_bytes);
    segment_bytes = segment_bytes == 0 || segment_bytes > len_bytes ? len_bytes : segment_bytes;
    const bool from_peer = lacks == LACKS_KEY || lacks == LACKS_SOURCE_PORT;
    choose_addresses((options & IPV6) != 0, from_peer,
                     (uint16_t)((to_ping ? PEER_PORT + 1 : PEER_PORT) +
                                (lacks == LACKS_ADDRESS || lacks == LACKS_KEY ? 0 : 2)),
                     data[2]);
    const bool unknown = world.received->unknown;
    for (size_t at = 0; at < len_bytes; at += segment_bytes) {
        const size_t left_bytes = len_bytes - at;
        const size_t datagram_bytes = left_bytes < segment_bytes ? left_bytes : segment_bytes;
        set_versions(bytes + at, datagram_bytes, (options & RAW) != 0);
        if ((options & RAW) == 0) {
            make_right(bytes + at, datagram_bytes, options);
        }
    }
    world.responder.answers = 64;
    world.responder.pings_waiting = 0; /* of an earlier input with more PINGs */
    world.answered_bytes = 0;
    world.engine.finalizing = (options & FINALIZING) != 0;
    const uint64_t received = world.engine.counters.frames_received;
    const uint32_t local_id = world.conn->handshake.local_id;
    receive(to_ping ? &world.ping : &world.link, bytes, len_bytes, segment_bytes,
            to_ping ? &to_responder : &to_engine,
            to_ping ? (void *)&world.responder : (void *)&world.engine);
    check_unchanged(len_bytes, received, local_id);
    FUZZ_CHECK(!unknown || lacks != LACKS_ALL || (options & RAW) != 0 || !sender_is_known(),
               "an address without the key is remembered");
    return 0;
}

/** Change the options or a type, repeat a datagram, or change anything. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len_bytes, size_t max_bytes, unsigned seed)
{
    static const uint16_t lengths[] = {0, 1, 24, 28, 40, 44, 59, 60, 61, 64, 100, 128};
    uint64_t random = seed;

    if (len_bytes <= HEAD_BYTES) {
        return LLVMFuzzerMutate(data, len_bytes, max_bytes);
    }
    const uint16_t length = lengths[fuzz_random(&random) % (sizeof lengths / sizeof lengths[0])];
    switch (fuzz_random(&random) % 8) {
    case 0:
        data[0] ^= (uint8_t)(1u << fuzz_random(&random) % 8);
        break;
    case 1:
        rawe_put16(data + 1, length);
        break;
    case 2:
        data[HEAD_BYTES] = (uint8_t)fuzz_random(&random);
        break;
    case 3: /* repeat the first datagram, as the next of a batch */
        if (length != 0 && len_bytes >= HEAD_BYTES + length && len_bytes + length <= max_bytes) {
            memcpy(data + len_bytes, data + HEAD_BYTES, length);
            rawe_put16(data + 1, length);
            len_bytes += length;
            if (length >= RAWE_BATCH_HEADER_BYTES) {
                rawe_put32(data + len_bytes - length + RAWE_BATCH_OFFSET_OFFSET,
                           length - RAWE_BATCH_HEADER_BYTES);
            }
        }
        break;
    default:
        len_bytes = LLVMFuzzerMutate(data, len_bytes, max_bytes);
        break;
    }
    return len_bytes;
}
