/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_udp: ports on 127.0.0.1 and ::1, which need no privilege.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "linux/udp/rawe_udp.h"
#include "linux/udp/rawe_udp_batch.h"
#include "net_ipv6.h"
#include "unit_test.h"

#define KEY 0x12345678u
#define PING_KEY 0x9ABCDEF0u
#define FRAMES_MAX 80u
#define PAYLOAD_MAX 1400u
#define WAIT_MS 10000

/** A process's ports. */
struct host {
    struct rawe_port_config config;
    struct rawe_port *link, *bulk, *responder;
};

/** Longest batch in a test: more than fits a datagram. */
#define BATCH_BYTES 64000u

/** Frames that a port has received. */
struct inbox {
    struct rawe_port *port;
    unsigned count;
    unsigned nest; /**< receive in the callback of this many frames */
    bool damaged;
    uint8_t source[RAWE_MAC_BYTES];
    struct {
        uint8_t bytes[RAWE_PAYLOAD_OFFSET + PAYLOAD_MAX];
        size_t len_bytes;
    } frames[FRAMES_MAX];
};

static struct host us, peer;
static struct inbox inbox;
static bool absent; /**< the system has no IPv6 */

static struct rawe_port *open_port(const struct host *host, enum rawe_port_use use)
{
    struct rawe_port_config config = host->config;
    struct rawe_port_error error;
    struct rawe_port *port;

    config.use = use;
    config.link = host->link;
    return rawe_port_open(&port, &config, &error) == 0 ? port : NULL;
}

static void open_host(struct host *host, uint32_t key, const uint8_t address[RAWE_MAC_BYTES])
{
    *host = (struct host){
        .config = {.kind = &rawe_udp_port,
                   .ethertype = RAWE_ETHERTYPE_DEFAULT,
                   .key = key,
                   .ping_key = PING_KEY + key,
                   .mtu_bytes = 1452},
    };
    memcpy(host->config.address, address, RAWE_MAC_BYTES);
    for (uint16_t port = 33000; host->responder == NULL && port < 60000; port += 2) {
        host->config.port = port;
        host->config.ping_port = port + 1;
        host->link = open_port(host, RAWE_PORT_EXPRESS);
        if (host->link != NULL) {
            host->responder = open_port(host, RAWE_PORT_RESPONDER);
            if (host->responder == NULL) {
                rawe_port_close(host->link);
            }
        }
    }
    assert_non_null(host->responder);
    host->bulk = rawe_udp_bulk(host->link);
    assert_non_null(host->bulk);
}

static void set_up(void)
{
    const uint8_t address[RAWE_MAC_BYTES] = {0}; /* 127.0.0.1 */

    absent = false;
    memset(&inbox, 0, sizeof(inbox));
    open_host(&us, KEY, address);
    open_host(&peer, KEY + 1, address);
}

static void set_up_ipv6(void)
{
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    uint8_t address[RAWE_MAC_BYTES];

    memset(&inbox, 0, sizeof(inbox));
    us = peer = (struct host){.link = NULL};
    absent = bind(fd, (const void *)&own, sizeof(own)) != 0;
    close(fd);
    if (!absent) {
        assert_true(rawe_udp_ipv6_mac(address, own.sin6_addr.s6_addr, RAWE_UDP_GIVEN));
        open_host(&us, KEY, address);
        open_host(&peer, KEY + 1, address);
    }
}

static void tear_down(void)
{
    rawe_port_close(us.bulk);
    rawe_port_close(peer.bulk);
    rawe_port_close(us.link);
    rawe_port_close(us.responder);
    rawe_port_close(peer.link);
    rawe_port_close(peer.responder);
}

FIXTURE(set_up, tear_down);

static const struct unit_fixture ipv6 = {set_up_ipv6, tear_down};

/** A test over IPv4, and over IPv6. */
#define TEST_BOTH(name_)          \
    static void name_(void);      \
    TEST(name_##_ipv4)            \
    {                             \
        name_();                  \
    }                             \
    TEST_WITH(ipv6, name_##_ipv6) \
    {                             \
        if (absent) {             \
            skip();               \
        }                         \
        name_();                  \
    }                             \
    static void name_(void)

/** A frame to the peer. */
struct outgoing {
    uint8_t head[RAWE_PAYLOAD_OFFSET];
    uint8_t payload[PAYLOAD_MAX];
};

static struct rawe_frame build(struct outgoing *out, uint8_t type, uint16_t port, uint32_t key,
                               unsigned number, size_t payload_bytes)
{
    const struct rawe_header header = {.type = type,
                                       .port = port,
                                       .key = key,
                                       .sequence = number,
                                       .payload_bytes = (uint16_t)payload_bytes};

    rawe_eth_header_encode(out->head, peer.config.address, us.config.address,
                           RAWE_ETHERTYPE_DEFAULT);
    rawe_header_encode(out->head + RAWE_ETH_HEADER_BYTES, &header);
    for (size_t i = 0; i < payload_bytes; i++) {
        out->payload[i] = (uint8_t)(number * 7 + i);
    }
    return (struct rawe_frame){
        .pieces = {{out->head, sizeof(out->head)}, {out->payload, payload_bytes}},
        .piece_count = 2,
        .len_bytes = (uint32_t)(sizeof(out->head) + payload_bytes)};
}

/** Send one frame. Returns how many the port took. */
static unsigned send_one(uint8_t type, uint16_t port, uint32_t key)
{
    struct outgoing out;
    const struct rawe_frame frame = build(&out, type, port, key, 0, 100);

    return us.link->kind->transmit(us.link, &frame, 1);
}

static const struct rawe_port_receiver receiver;

static void keep(void *context, uint8_t *frame, size_t len_bytes)
{
    struct inbox *box = context;
    const unsigned place = box->count++;
    uint8_t before[sizeof(box->frames[0].bytes)];

    assert_true(place < FRAMES_MAX && len_bytes <= sizeof(before));
    memcpy(before, frame, len_bytes);
    memcpy(box->frames[place].bytes, frame, len_bytes);
    box->frames[place].len_bytes = len_bytes;
    memcpy(box->source, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    if (box->nest != 0) {
        box->nest--;
        (void)rawe_port_receive(box->port, 3, &receiver, box);
    }
    /* Frames received in the meantime must not change this one. */
    box->damaged = box->damaged || memcmp(before, frame, len_bytes) != 0;
}

static const struct rawe_port_receiver receiver = {.frame = keep};

/** Receive until `count` frames have arrived. Datagrams over lo arrive before send returns. */
static void receive(struct rawe_port *port, unsigned count)
{
    inbox.port = port;
    while (inbox.count < count) {
        assert_true(rawe_port_pending(port));
        (void)rawe_port_receive(port, 5, &receiver, &inbox);
    }
    assert_int_equal(inbox.count, count);
    assert_false(rawe_port_pending(port));
}

static void assert_frame(unsigned place, unsigned number, size_t payload_bytes)
{
    const uint8_t *bytes = inbox.frames[place].bytes;
    struct rawe_header header;

    assert_int_equal(inbox.frames[place].len_bytes, RAWE_PAYLOAD_OFFSET + payload_bytes);
    assert_int_equal(rawe_header_decode(&header, bytes + RAWE_ETH_HEADER_BYTES,
                                        inbox.frames[place].len_bytes - RAWE_ETH_HEADER_BYTES),
                     RAWE_DECODE_OK);
    assert_int_equal(header.sequence, number);
    for (size_t i = 0; i < payload_bytes; i++) {
        assert_int_equal(bytes[RAWE_PAYLOAD_OFFSET + i], (uint8_t)(number * 7 + i));
    }
}

/** Send `count` frames at once, of `payload_bytes` each but for the last. */
static void send_several(unsigned count, size_t payload_bytes, size_t last_bytes)
{
    static struct outgoing out[FRAMES_MAX];
    struct rawe_frame frames[FRAMES_MAX];

    for (unsigned i = 0; i < count; i++) {
        frames[i] = build(&out[i], RAWE_FRAME_DATA, peer.config.port, peer.config.key, i,
                          i + 1 == count ? last_bytes : payload_bytes);
    }
    assert_int_equal(us.link->kind->transmit(us.link, frames, count), count);
}

TEST_BOTH(transmit__several_arrive_complete_and_in_order)
{
    static const struct {
        const char *name;
        unsigned count;
        size_t payload_bytes, last_bytes;
    } cases[] = {
        {"one", 1, 0, 8},
        {"the last one shorter", 10, 1400, 4},
        {"the last one longer", 10, 8, 1400},
        {"all equal", 10, 200, 200},
        {"more than the kernel cuts at once", FRAMES_MAX, 16, 16},
        {"longer than a datagram", 60, 1400, 1400},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].name);
        inbox.count = 0;
        send_several(cases[i].count, cases[i].payload_bytes, cases[i].last_bytes);
        receive(peer.link, cases[i].count);
        for (unsigned j = 0; j < cases[i].count; j++) {
            assert_frame(j, j,
                         j + 1 == cases[i].count ? cases[i].last_bytes : cases[i].payload_bytes);
        }
    }
}

/** A callback may receive: it gets the next frames, and the outer frame does not change. */
TEST_BOTH(receive__nested_calls_keep_order_and_content)
{
    for (unsigned nest = 1; nest < 12; nest++) {
        memset(&inbox, 0, sizeof(inbox));
        inbox.nest = nest;
        send_several(20, 64, 64);
        send_several(20, 64, 64);
        receive(peer.link, 40);
        assert_false(inbox.damaged);
        for (unsigned i = 0; i < 40; i++) {
            assert_frame(i, i % 20, 64);
        }
    }
}

TEST_BOTH(receive__only_frames_for_this_use)
{
    const struct {
        const char *name;
        uint8_t type;
        uint16_t port;
        uint32_t key;
        bool for_link, for_responder;
    } cases[] = {
        {"data", RAWE_FRAME_DATA, peer.config.port, peer.config.key, true, false},
        {"acknowledgement", RAWE_FRAME_ACK, peer.config.port, peer.config.key, true, false},
        {"a probe, to both", RAWE_FRAME_PROBE, peer.config.port, peer.config.key, true, true},
        {"ping", RAWE_FRAME_PING, peer.config.ping_port, peer.config.ping_key, false, true},
        {"pong", RAWE_FRAME_PONG, peer.config.ping_port, peer.config.ping_key, false, true},
        {"foreign key", RAWE_FRAME_DATA, peer.config.port, peer.config.key + 1, false, false},
        {"foreign key of a ping", RAWE_FRAME_PING, peer.config.ping_port, peer.config.key, false,
         false},
        {"a ping to the wrong port", RAWE_FRAME_PING, peer.config.port, peer.config.ping_key, false,
         false},
        {"data to the responder", RAWE_FRAME_DATA, peer.config.ping_port, peer.config.key, false,
         false},
        {"unknown type", RAWE_FRAME_TYPE_END, peer.config.port, peer.config.key, false, false},
        {"type 0", 0, peer.config.port, peer.config.key, false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].name);
        assert_int_equal(send_one(cases[i].type, cases[i].port, cases[i].key), 1);
        inbox.count = 0;
        (void)rawe_port_receive(peer.link, 10, &receiver, &inbox);
        assert_int_equal(inbox.count, cases[i].for_link);
        inbox.count = 0;
        (void)rawe_port_receive(peer.responder, 10, &receiver, &inbox);
        assert_int_equal(inbox.count, cases[i].for_responder);
    }
}

static uint16_t arrived_from;

static void note_port(void *context, uint64_t arrived_ns, uint16_t source_port)
{
    arrived_from = source_port;
}

/** A PONG leaves from a port that no PING was sent to: doc/protocol.md says why. */
TEST_BOTH(transmit__a_responder_answers_from_the_link)
{
    static const struct rawe_port_receiver noting = {.frame = keep, .arrived = note_port};
    const struct {
        uint8_t type;
        uint16_t port;
    } cases[] = {{RAWE_FRAME_PING, us.config.ping_port}, {RAWE_FRAME_PONG, us.config.port}};

    inbox.port = peer.responder;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outgoing out;
        const struct rawe_frame frame =
            build(&out, cases[i].type, peer.config.ping_port, peer.config.ping_key, 0, 100);
        assert_int_equal(us.responder->kind->transmit(us.responder, &frame, 1), 1);
        assert_int_equal(rawe_port_receive(peer.responder, 10, &noting, &inbox), 1);
        assert_int_equal(arrived_from, cases[i].port);
    }
}

/** Datagrams of an unknown peer, of any length, are dropped. */
TEST_BOTH(receive__short_and_foreign_datagrams_are_dropped)
{
    const union rawe_udp_address to = rawe_udp_address_of(peer.config.address, peer.config.port);
    const int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint8_t bytes[200] = {RAWE_FRAME_VERSION << 4 | RAWE_FRAME_DATA};

    rawe_put16(bytes + RAWE_OFFSET_PORT, peer.config.port);
    rawe_put32(bytes + RAWE_OFFSET_KEY, peer.config.key);
    for (size_t len_bytes = 0; len_bytes < sizeof(bytes); len_bytes++) {
        const bool complete = len_bytes >= RAWE_HEADER_BYTES;
        bytes[0] = (uint8_t)(len_bytes % 2 != 0 ? RAWE_FRAME_VERSION << 4 | RAWE_FRAME_DATA
                                                : (RAWE_FRAME_VERSION + 1) << 4 | RAWE_FRAME_DATA);
        assert_int_equal(sendto(fd, bytes, len_bytes, 0, &to.any, sizeof(to)), len_bytes);
        inbox.count = 0;
        (void)rawe_port_receive(peer.link, 10, &receiver, &inbox);
        assert_int_equal(inbox.count, complete && len_bytes % 2 != 0);
        assert_false(rawe_port_pending(peer.link));
    }
    close(fd);
}

/** The descriptor is readable while a datagram waits, so that a thread can sleep. */
TEST(pending__agrees_with_poll)
{
    struct pollfd readable = {.fd = peer.link->fd, .events = POLLIN};

    assert_int_equal(poll(&readable, 1, 0), 0);
    assert_false(rawe_port_pending(peer.link));
    assert_int_equal(send_one(RAWE_FRAME_DATA, peer.config.port, peer.config.key), 1);
    assert_int_equal(poll(&readable, 1, WAIT_MS), 1);
    assert_true(rawe_port_pending(peer.link));
    receive(peer.link, 1);
    assert_int_equal(poll(&readable, 1, 0), 0);
}

/** Foreign datagrams take no room, and wake no thread. */
TEST_BOTH(open__the_kernel_drops_what_lacks_the_key)
{
    const uint32_t key = peer.config.key;
    struct pollfd readable[] = {{.fd = peer.link->fd, .events = POLLIN},
                                {.fd = peer.responder->fd, .events = POLLIN}};

    assert_int_equal(send_one(RAWE_FRAME_DATA, peer.config.port, key + 1), 1);
    assert_int_equal(send_one(RAWE_FRAME_PROBE, peer.config.port, key + 1), 1);
    assert_int_equal(send_one(RAWE_FRAME_PING, peer.config.ping_port, key + 1), 1);
    assert_int_equal(poll(readable, 2, 0), 0);
    assert_int_equal(send_one(RAWE_FRAME_PROBE, peer.config.port, key), 1);
    assert_int_equal(poll(readable, 2, 0), 2);
}

TEST_BOTH(open__a_port_in_use_is_refused)
{
    struct rawe_port_config config = us.config;
    struct rawe_port_error error;
    struct rawe_port *port;

    config.use = RAWE_PORT_EXPRESS;
    assert_int_equal(rawe_port_open(&port, &config, &error), -1);
    assert_null(port);
    assert_int_equal(error.code, EADDRINUSE);
    assert_string_equal(error.step, "bind to a UDP port");
}

TEST(counters__frames_and_losses)
{
    struct rawe_port_counters counters;
    uint8_t group[] = {255, 255, 255, 255};
    struct outgoing out;
    struct rawe_frame frame;

    send_several(10, 100, 100);
    receive(peer.link, 10);
    rawe_port_read_counters(us.link, &counters);
    assert_int_equal(counters.frames_sent, 10);
    rawe_port_read_counters(peer.link, &counters);
    assert_int_equal(counters.frames_received, 10);
    assert_int_equal(counters.ring_drops, 0);
    /* Sending to the broadcast address is not permitted: lost, and not to be repeated. */
    frame = build(&out, RAWE_FRAME_DATA, peer.config.port, peer.config.key, 0, 100);
    rawe_udp_mac(out.head, group);
    assert_int_equal(us.link->kind->transmit(us.link, &frame, 1), 1);
    rawe_port_read_counters(us.link, &counters);
    assert_int_equal(counters.send_errors, 1);
    /* A datagram that finds no room is counted. */
    for (unsigned i = 0; counters.ring_drops == 0 && i < 100000; i++) {
        assert_int_equal(send_one(RAWE_FRAME_DATA, peer.config.port, peer.config.key), 1);
        rawe_port_read_counters(peer.link, &counters);
    }
    assert_true(counters.ring_drops > 0);
}

TEST(mac__stands_for_an_address)
{
    uint8_t mac[RAWE_MAC_BYTES];

    rawe_udp_mac(mac, (const uint8_t[]){10, 81, 0, 254});
    assert_memory_equal(mac, ((const uint8_t[]){2, 4, 10, 81, 0, 254}), RAWE_MAC_BYTES);
    assert_string_equal(rawe_udp_text(mac).text, "10.81.0.254");
    rawe_udp_mac(mac, (const uint8_t[]){127, 0, 0, 1});
    assert_memory_equal(mac, ((const uint8_t[]){0, 0, 0, 0, 0, 0}), RAWE_MAC_BYTES);
    assert_string_equal(rawe_udp_text(mac).text, "127.0.0.1");
    send_several(1, 8, 8);
    receive(peer.link, 1);
    assert_memory_equal(inbox.source, mac, RAWE_MAC_BYTES);
}

/* ---- IPv6 addresses ---- */

/** Return fd00::N. */
static struct in6_addr local_address(uint32_t number)
{
    struct in6_addr address = {.s6_addr = {0xFD}};

    rawe_put32(address.s6_addr + 12, number);
    return address;
}

/** Return another address with the hash of fd00::N. */
static struct in6_addr colliding_address(uint32_t number, uint32_t n)
{
    struct in6_addr address = local_address(number);

    net_ipv6_collide(address.s6_addr, n);
    return address;
}

static bool is_known(const struct in6_addr *address, uint8_t mac[RAWE_MAC_BYTES])
{
    return rawe_udp_ipv6_mac(mac, address->s6_addr, RAWE_UDP_UNCHECKED);
}

/** All processes compute this hash. */
TEST(ipv6_mac__ends_with_the_hash)
{
    const struct in6_addr address = local_address(1), unknown = local_address(2);
    uint8_t mac[RAWE_MAC_BYTES], again[RAWE_MAC_BYTES];

    assert_false(is_known(&address, mac));
    assert_true(rawe_udp_ipv6_mac(mac, address.s6_addr, RAWE_UDP_GIVEN));
    assert_memory_equal(mac, ((const uint8_t[]){6, 0, 0x4C, 0x2E, 0xA1, 0x45}), RAWE_MAC_BYTES);
    assert_true(is_known(&address, again));
    assert_memory_equal(again, mac, RAWE_MAC_BYTES);
    assert_string_equal(rawe_udp_text(mac).text, "fd00::1");
    assert_false(is_known(&unknown, mac));
    mac[1]++;
    assert_string_equal(rawe_udp_text(mac).text, "unknown");
    assert_int_equal(rawe_udp_address_of(mac, 1).any.sa_family, AF_UNSPEC);
}

/** Neither of two addresses with one hash is taken for the other. */
TEST(ipv6_mac__differs_although_the_hash_does_not)
{
    uint8_t macs[256][RAWE_MAC_BYTES];

    for (unsigned i = 0; i < 256; i++) {
        const struct in6_addr address = colliding_address(10, i);
        const bool room = rawe_udp_ipv6_mac(macs[i], address.s6_addr, RAWE_UDP_GIVEN);
        assert_int_equal(room, i < 255);
    }
    for (unsigned i = 0; i < 255; i++) {
        const struct in6_addr address = colliding_address(10, i);
        const union rawe_udp_address found = rawe_udp_address_of(macs[i], 0);
        assert_memory_equal(macs[i] + 2, macs[0] + 2, 4);
        assert_int_equal(macs[i][1], i);
        assert_memory_equal(&found.ipv6.sin6_addr, &address, sizeof(address));
    }
}

/** Give a datagram from an address to the peer's link, as one system call received it. */
static bool arrives_from(const struct in6_addr *address, uint32_t key)
{
    static struct rawe_udp_received received;
    struct rawe_udp *udp = (struct rawe_udp *)peer.link;
    const struct rawe_header header = {
        .type = RAWE_FRAME_DATA, .port = peer.config.port, .key = key};
    struct rawe_udp_received *spare = udp->spare;

    received = (struct rawe_udp_received){
        .len_bytes = RAWE_HEADER_BYTES,
        .segment_bytes = RAWE_HEADER_BYTES,
        .from.ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(7), .sin6_addr = *address},
    };
    rawe_header_encode(received.bytes + RAWE_ETH_HEADER_BYTES, &header);
    rawe_udp_note_source(&received);
    assert_int_equal(received.source_port, 7);
    udp->current = &received;
    inbox.count = 0;
    (void)rawe_port_receive(peer.link, 1, &receiver, &inbox);
    udp->spare = spare;
    return inbox.count == 1;
}

/** An address is remembered only if a datagram from it has the key. */
TEST(receive__an_unknown_address_needs_the_key)
{
    const struct in6_addr address = local_address(20), forged = colliding_address(20, 1);
    uint8_t mac[RAWE_MAC_BYTES], other[RAWE_MAC_BYTES];

    assert_false(arrives_from(&address, peer.config.key + 1));
    assert_false(is_known(&address, mac));
    assert_true(arrives_from(&address, peer.config.key));
    assert_true(is_known(&address, mac));
    assert_memory_equal(inbox.source, mac, RAWE_MAC_BYTES);
    assert_true(arrives_from(&forged, peer.config.key));
    assert_true(is_known(&forged, other));
    assert_memory_equal(inbox.source, other, RAWE_MAC_BYTES);
    assert_memory_not_equal(other, mac, RAWE_MAC_BYTES);
}

/** Unknown senders leave room for peers. */
TEST(receive__unknown_addresses_are_limited_in_number)
{
    struct rawe_port_counters counters;
    uint32_t number = 1000;
    uint8_t mac[RAWE_MAC_BYTES];
    struct in6_addr address;

    do {
        address = local_address(number++);
    } while (number < 100000 && arrives_from(&address, peer.config.key));
    assert_in_range(number, RAWE_UDP_HEARD_MAX, RAWE_UDP_HEARD_MAX + 1001);
    assert_false(is_known(&address, mac));
    rawe_port_read_counters(peer.link, &counters);
    assert_int_equal(counters.ring_drops, 1);
    assert_true(rawe_udp_ipv6_mac(mac, address.s6_addr, RAWE_UDP_GIVEN));
    assert_true(arrives_from(&address, peer.config.key));
    while (number < 100000 && rawe_udp_ipv6_mac(mac, address.s6_addr, RAWE_UDP_GIVEN)) {
        address = local_address(number++);
    }
    assert_in_range(number, 2 * RAWE_UDP_HEARD_MAX, 2 * RAWE_UDP_HEARD_MAX + 1001);
}

/* ---- batches ---- */

/** Received parts of batches. */
static struct {
    uint8_t place[BATCH_BYTES]; /**< where `place` has data put */
    uint8_t data[BATCH_BYTES];
    size_t data_bytes; /**< sum over the packets */
    unsigned packets;
    unsigned damaged; /**< packets whose header does not fit what came before */
    bool takes_place;
} batch;

static uint8_t *give_place(void *context, const uint8_t *source_mac, const uint8_t *head,
                           size_t head_bytes, size_t data_bytes)
{
    struct rawe_batch decoded;

    assert_int_equal(rawe_batch_decode(&decoded, head, head_bytes, data_bytes), RAWE_DECODE_OK);
    return batch.takes_place ? batch.place + decoded.at_bytes : NULL;
}

static void keep_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                        size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct rawe_batch decoded;

    batch.packets++;
    if (rawe_batch_decode(&decoded, head, head_bytes, data_bytes) != RAWE_DECODE_OK ||
        decoded.header.port != peer.config.port || decoded.header.key != peer.config.key ||
        decoded.header.connection_id != 0x12345678u ||
        decoded.at_bytes + data_bytes > sizeof(batch.data)) {
        batch.damaged++;
        return;
    }
    assert_true(!batch.takes_place || data == batch.place + decoded.at_bytes || data_bytes < 1500);
    memcpy(batch.data + decoded.at_bytes, data, data_bytes);
    batch.data_bytes += data_bytes;
}

static const struct rawe_port_receiver batch_receiver = {
    .frame = keep, .place = give_place, .packet = keep_packet};

/** Send `data_bytes` as one batch whose data is in two pieces. Returns false if it was refused. */
static bool send_batch(uint8_t *data, uint32_t data_bytes, uint16_t segment_bytes)
{
    const uint32_t frames = (data_bytes + segment_bytes - 1) / segment_bytes;
    const struct rawe_batch sent = {
        .header = {.type = RAWE_FRAME_BULK,
                   .port = peer.config.port,
                   .key = peer.config.key,
                   .connection_id = 0x12345678u},
        .fragment = {.kind = RAWE_FRAGMENT_PUT, .data_bytes = (uint16_t)data_bytes},
        .segment_bytes = segment_bytes,
        .frames = (uint8_t)frames,
    };
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    const struct rawe_frame packet = {
        .pieces = {{head, sizeof(head)},
                   {data, data_bytes / 3},
                   {data + data_bytes / 3, data_bytes - data_bytes / 3}},
        .piece_count = 3,
        .len_bytes = (uint32_t)sizeof(head) + data_bytes,
    };

    rawe_eth_header_encode(head, peer.config.address, us.config.address, RAWE_ETHERTYPE_DEFAULT);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &sent);
    return us.bulk->kind->transmit_batch(us.bulk, &packet, frames > 1 ? segment_bytes : 0);
}

TEST_BOTH(batch__arrives_as_one_packet)
{
    static const struct {
        const char *name;
        uint32_t data_bytes;
        uint16_t segment_bytes;
        unsigned packets;
    } cases[] = {
        {"one frame", 1000, 1412, 1},
        {"two frames", 1500, 1412, 1},
        {"the longest", 44 * 1412, 1412, 1},
        {"segments of equal length", 10 * 1000, 1000, 1},
        {"longer than a datagram", BATCH_BYTES, 1000, 2},
    };
    static uint8_t data[BATCH_BYTES];

    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i / 2].name);
        memset(&batch, 0, sizeof(batch));
        batch.takes_place = i % 2 != 0;
        assert_true(send_batch(data, cases[i / 2].data_bytes, cases[i / 2].segment_bytes));
        while (rawe_port_pending(peer.link)) {
            (void)rawe_port_receive(peer.link, 100, &batch_receiver, &inbox);
        }
        assert_int_equal(batch.packets, cases[i / 2].packets);
        assert_int_equal(batch.damaged, 0);
        assert_int_equal(batch.data_bytes, cases[i / 2].data_bytes);
        assert_memory_equal(batch.data, data, cases[i / 2].data_bytes);
    }
    assert_int_equal(inbox.count, 0);
}

/** Return the index of the interface that a socket sends through; 0: any. */
static unsigned pinned_to(const struct rawe_port *port)
{
    unsigned index = 0;
    socklen_t len_bytes = sizeof(index);

    assert_int_equal(getsockopt(port->fd, IPPROTO_IP, IP_UNICAST_IF, &index, &len_bytes), 0);
    return ntohl(index);
}

TEST(open__pins_to_an_interface_if_told_to)
{
    const unsigned lo = if_nametoindex("lo");
    struct host pinned = {.config = us.config};

    assert_int_equal(pinned_to(us.link), 0);
    pinned.config.pinned = true;
    pinned.config.interface_index = (int)lo;
    for (pinned.config.port = 61001; pinned.link == NULL && pinned.config.port < 61999;
         pinned.config.port++) {
        pinned.link = open_port(&pinned, RAWE_PORT_EXPRESS);
    }
    assert_non_null(pinned.link);
    assert_int_equal(pinned_to(pinned.link), lo);
    rawe_port_close(pinned.link);
}

/** Return how many packets arrive for a batch of three frames. */
static unsigned packets_of_batch(void)
{
    static uint8_t data[3000];

    memset(&batch, 0, sizeof(batch));
    assert_true(send_batch(data, sizeof(data), 1000));
    while (rawe_port_pending(peer.link)) {
        (void)rawe_port_receive(peer.link, 100, &batch_receiver, &inbox);
    }
    assert_int_equal(batch.data_bytes, sizeof(data));
    return batch.packets;
}

/** The kernel may refuse to cut datagrams for a while only, so it is asked again. */
TEST(batch__a_refusal_to_cut_is_not_final)
{
    static uint8_t data[3000];
    int refuses = 1;

    assert_int_equal(packets_of_batch(), 1);
    /* It cuts no datagrams without a checksum. */
    setsockopt(us.link->fd, SOL_SOCKET, SO_NO_CHECK, &refuses, sizeof(refuses));
    assert_false(send_batch(data, sizeof(data), 1000));
    assert_in_range(((struct rawe_udp *)us.link)->uncut_until_ns - rawe_port_clock_ns(), 1, 1e9);
    assert_int_equal(packets_of_batch(), 3);
    send_several(3, 100, 100);
    receive(peer.link, 3);
    refuses = 0;
    setsockopt(us.link->fd, SOL_SOCKET, SO_NO_CHECK, &refuses, sizeof(refuses));
    assert_int_equal(packets_of_batch(), 3);
    ((struct rawe_udp *)us.link)->uncut_until_ns = rawe_port_clock_ns(); /* later */
    assert_int_equal(packets_of_batch(), 1);
}

/** Batches and frames in a row stay apart, even if the kernel merged their datagrams. */
TEST_BOTH(batch__others_do_not_become_part_of_it)
{
    static uint8_t data[BATCH_BYTES];
    const unsigned rounds = 5;

    memset(&batch, 0, sizeof(batch));
    for (unsigned i = 0; i < rounds; i++) {
        assert_true(send_batch(data, 3000, 1000));
        assert_true(send_batch(data, 3000, 1000));
        send_several(2, 1000 + RAWE_BATCH_HEADER_BYTES - RAWE_HEADER_BYTES, 4);
    }
    while (rawe_port_pending(peer.link)) {
        (void)rawe_port_receive(peer.link, 100, &batch_receiver, &inbox);
    }
    assert_int_equal(batch.packets, 2 * rounds);
    assert_int_equal(batch.damaged, 0);
    assert_int_equal(batch.data_bytes, 2 * rounds * 3000);
    assert_int_equal(inbox.count, 2 * rounds);
}
