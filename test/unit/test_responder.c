/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_responder over an in-memory port, which needs no privilege. For tests over packet
 * sockets, see test/lab/link/test_responder.c.
 */
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/param.h>
#include <unistd.h>

#include "linux/probe/rawe_responder.h"
#include "unit_test.h"

#define FRAMES 4096u
#define FRAME_BYTES (RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES)
#define OWN_KEY 0x11111111u
#define OWN_PORT 11u
#define PEER_KEY 0x22222222u
#define PEER_PORT 22u

/** A port with the frames to receive, in order, and a record of the frames sent. */
static struct memory_port {
    struct rawe_port port; /**< must be first */
    pthread_mutex_t lock;
    uint32_t waiting;
    unsigned first;
    uint8_t frames[FRAMES][FRAME_BYTES];
    unsigned full;           /**< transmissions that are refused */
    unsigned sent;           /**< atomic */
    struct rawe_header last; /**< header of the last frame sent */
    uint8_t last_to[RAWE_MAC_BYTES], last_from[RAWE_MAC_BYTES];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/** The address that a frame names as its sender's, and the UDP port that sent it; 0: none. */
static uint32_t named;
static uint16_t source_port;

static uint8_t flags; /**< flags of arriving frames */

static uint32_t peer_key = PEER_KEY; /**< of the interface that sends them */

static uint64_t token = 5; /**< token of arriving frames, of the last PING sent; atomic */

static const uint8_t own_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 2};

static int memory_open(struct rawe_port **port, const struct rawe_port_config *config,
                       struct rawe_port_error *error)
{
    memory.waiting = memory.first = memory.sent = memory.full = 0;
    memory.port = (struct rawe_port){
        .word = &memory.waiting,
        .mask = UINT32_MAX,
        .kind = config->kind,
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .receive_frames = FRAMES,
    };
    *port = &memory.port;
    return 0;
}

static void memory_close(struct rawe_port *port)
{
    close(port->fd);
}

static unsigned memory_receive(struct rawe_port *port, unsigned budget,
                               const struct rawe_port_receiver *receiver, void *context)
{
    unsigned received = 0;
    eventfd_t count;

    (void)eventfd_read(port->fd, &count);
    pthread_mutex_lock(&memory.lock);
    for (; received < budget && memory.waiting > 0; received++, memory.waiting--) {
        uint8_t *frame = memory.frames[memory.first++ % FRAMES];
        receiver->arrived(context, 1, source_port);
        receiver->frame(context, frame, FRAME_BYTES);
    }
    if (memory.waiting > 0) {
        (void)eventfd_write(port->fd, 1); /* readable while a frame is queued */
    }
    pthread_mutex_unlock(&memory.lock);
    return received;
}

static unsigned memory_transmit(void *port, const struct rawe_frame *frames, unsigned count)
{
    const uint8_t *bytes = frames[0].pieces[0].base;

    assert_int_equal(count, 1);
    if (memory.full != 0) {
        memory.full--;
        return 0;
    }
    memcpy(memory.last_to, bytes, RAWE_MAC_BYTES);
    assert_int_equal(rawe_header_decode(&memory.last, bytes + RAWE_ETH_HEADER_BYTES,
                                        frames[0].len_bytes - RAWE_ETH_HEADER_BYTES),
                     RAWE_DECODE_OK);
    if (memory.last.type == RAWE_FRAME_PING) {
        struct rawe_ping ping;
        assert_int_equal(
            rawe_ping_decode(&ping, bytes + RAWE_PAYLOAD_OFFSET, memory.last.payload_bytes),
            RAWE_DECODE_OK);
        __atomic_store_n(&token, ping.token, __ATOMIC_SEQ_CST);
    }
    memcpy(memory.last_from, bytes + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    __atomic_fetch_add(&memory.sent, 1, __ATOMIC_SEQ_CST);
    return 1;
}

static const struct rawe_port_kind memory_kind = {
    .open = memory_open,
    .close = memory_close,
    .receive = memory_receive,
    .transmit = memory_transmit,
};

static struct rawe_service *service;
static struct rawe_responder *responder;

static void start(const struct rawe_responder_duty *duty)
{
    const struct rawe_port_config config = {
        .kind = &memory_kind, .ping_port = OWN_PORT, .ping_key = OWN_KEY, .ethertype = 0x88B5};
    struct rawe_port *port;
    struct rawe_port_error error;

    responder = NULL;
    assert_int_equal(rawe_service_start(&service, &error), 0);
    assert_int_equal(rawe_port_open(&port, &config, &error), 0);
    assert_int_equal(
        rawe_responder_start(&responder, port, &config, own_mac, duty, service, &error), 0);
}

static void set_up(void)
{
    start(NULL);
}

static void tear_down(void)
{
    rawe_port_close(rawe_responder_stop(responder));
    rawe_service_stop(service);
}

/** Append `count` frames of a type from an address. The caller holds the lock. */
static void append(const uint8_t mac[RAWE_MAC_BYTES], uint8_t type, unsigned count)
{
    const struct rawe_header header = {.type = type,
                                       .flags = flags,
                                       .port = OWN_PORT,
                                       .key = OWN_KEY,
                                       .connection_id = named,
                                       .payload_bytes = RAWE_PING_BYTES};
    const struct rawe_ping ping = {
        .key = peer_key, .port = PEER_PORT, .token = __atomic_load_n(&token, __ATOMIC_SEQ_CST)};

    for (unsigned i = 0; i < count; i++) {
        uint8_t *frame = memory.frames[(memory.first + memory.waiting++) % FRAMES];
        memcpy(frame, own_mac, RAWE_MAC_BYTES);
        memcpy(frame + RAWE_MAC_BYTES, mac, RAWE_MAC_BYTES);
        rawe_header_encode(frame + RAWE_ETH_HEADER_BYTES, &header);
        rawe_ping_encode(frame + RAWE_PAYLOAD_OFFSET, &ping);
    }
    assert_int_equal(eventfd_write(memory.port.fd, 1), 0);
}

static void arrive_from(const uint8_t mac[RAWE_MAC_BYTES], uint8_t type, unsigned count)
{
    pthread_mutex_lock(&memory.lock);
    append(mac, type, count);
    pthread_mutex_unlock(&memory.lock);
}

static void arrive(uint8_t type, unsigned count)
{
    arrive_from(peer_mac, type, count);
}

static struct rawe_responder_counters counters(void)
{
    struct rawe_responder_counters now;

    rawe_responder_read_counters(responder, &now);
    return now;
}

static void await_handled(uint64_t frames)
{
    for (unsigned i = 0; i < 20000; i++) {
        const struct rawe_responder_counters now = counters();
        if (now.pings_answered + now.probes_seen + now.pongs_unknown + now.pongs_matched +
                now.frames_invalid ==
            frames) {
            pthread_mutex_lock(&memory.lock); /* the record of sent frames is now complete */
            pthread_mutex_unlock(&memory.lock);
            return;
        }
        usleep(1000);
    }
    fail_msg("not all frames were handled");
}

FIXTURE(set_up, tear_down);

TEST(rawe_responder__answers_a_ping_to_its_sender)
{
    arrive(RAWE_FRAME_PING, 1);
    await_handled(1);
    assert_int_equal(memory.sent, 1);
    assert_int_equal(memory.last.type, RAWE_FRAME_PONG);
    assert_int_equal(memory.last.key, PEER_KEY);
    assert_int_equal(memory.last.port, PEER_PORT);
    assert_memory_equal(memory.last_to, peer_mac, RAWE_MAC_BYTES);
}

/** Over UDP answers share a send buffer with data, which may be full for a while. */
TEST(rawe_responder__answers_once_there_is_room)
{
    pthread_mutex_lock(&memory.lock);
    memory.full = 3;
    append(peer_mac, RAWE_FRAME_PING, 2);
    pthread_mutex_unlock(&memory.lock);
    await_handled(2);
    assert_int_equal(memory.full, 0);
    assert_int_equal(memory.sent, 2);
    assert_int_equal(counters().pings_answered, 2);
    assert_int_equal(counters().pings_unanswered, 0);
}

/** Over UDP an answer goes to the port that asked, and no address may be translated. */
TEST(rawe_responder__answers_only_at_the_source)
{
    const struct rawe_ping_address to = {.mac = {2}, .port = PEER_PORT, .key = PEER_KEY};
    static const struct {
        const char *name;
        uint8_t type;
        uint32_t named;
        uint16_t source_port;
        bool taken;
    } cases[] = {
        {"raw frame", RAWE_FRAME_PING, 0, 0, true},
        {"its port", RAWE_FRAME_PING, 0, PEER_PORT, true},
        {"another port", RAWE_FRAME_PING, 0, PEER_PORT + 1, false},
        {"its address", RAWE_FRAME_PING, 0x00000002, PEER_PORT, true},
        {"another address", RAWE_FRAME_PING, 0x00000003, PEER_PORT, false},
        {"answer from its link", RAWE_FRAME_PONG, 0, PEER_PORT - 1, true},
        {"answer from where PINGs go", RAWE_FRAME_PONG, 0, PEER_PORT, false},
        {"answer from its address", RAWE_FRAME_PONG, 0x00000002, PEER_PORT - 1, true},
        {"answer from another address", RAWE_FRAME_PONG, 0x00000003, PEER_PORT - 1, false},
    };
    struct rawe_watch *watch = rawe_responder_watch(responder, &to);

    rawe_responder_ping(responder, watch);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct rawe_responder_counters before = counters();
        unit_case(cases[i].name);
        named = cases[i].named;
        source_port = cases[i].source_port;
        arrive(cases[i].type, 1);
        await_handled(i + 1);
        const struct rawe_responder_counters after = counters();
        assert_int_equal(after.pings_answered + after.pongs_matched -
                             (before.pings_answered + before.pongs_matched),
                         cases[i].taken);
    }
    named = source_port = 0;
    rawe_responder_unwatch(responder, watch);
}

/** Search for the peer; give it up if it is silent for this long, unless 0. */
static struct rawe_path search_for_peer(uint64_t silence_ns)
{
    struct rawe_path path = {
        .mtu_bytes = 1500, .silence_ns = MAX(silence_ns, 1), .last_chance = silence_ns != 0};
    struct rawe_path_target target = {.to = {.port = PEER_PORT, .key = PEER_KEY}};

    memcpy(target.to.mac, peer_mac, RAWE_MAC_BYTES);
    rawe_responder_discover(responder, &path, &target, 1, 60000000000ull);
    return path;
}

/** Return the flags of the answer to a PING from the peer. */
static unsigned answer_flags(void)
{
    const uint64_t before = counters().pings_answered;

    arrive(RAWE_FRAME_PING, 1);
    await_handled(before + 1);
    assert_int_equal(memory.last.type, RAWE_FRAME_PONG);
    return memory.last.flags;
}

/** The process must stop using this BTL, and stop waiting for it, once we use another one. */
TEST(rawe_responder__tells_a_process_that_it_was_given_up)
{
    assert_false(search_for_peer(0).reachable);
    assert_int_equal(answer_flags(), 0);
    assert_false(search_for_peer(1).reachable);
    assert_int_equal(answer_flags(), RAWE_FLAG_GIVEN_UP);
    assert_false(search_for_peer(0).reachable); /* it was introduced again */
    assert_int_equal(answer_flags(), 0);
}

/** PINGs may come from any of its interfaces. */
TEST(rawe_responder__tells_all_interfaces_of_a_process_that_it_was_given_up)
{
    struct rawe_path paths[] = {
        {.mtu_bytes = 1500, .silence_ns = 1, .last_chance = true},
        {.mtu_bytes = 1500, .same_process = true},
        {.mtu_bytes = 1500, .silence_ns = 1},
    };
    struct rawe_path_target targets[3];

    for (uint32_t i = 0; i < 3; i++) {
        targets[i] = (struct rawe_path_target){.to = {.port = PEER_PORT, .key = PEER_KEY + i}};
        memcpy(targets[i].to.mac, peer_mac, RAWE_MAC_BYTES);
    }
    rawe_responder_discover(responder, paths, targets, 3, 60000000000ull);
    for (uint32_t i = 0; i < 3; i++) {
        peer_key = PEER_KEY + i;
        assert_int_equal(answer_flags(), i < 2 ? RAWE_FLAG_GIVEN_UP : 0);
    }
    peer_key = PEER_KEY;
}

/** More PINGs than a search sends to a silent process in a second. */
#define PINGS_OF_TWO_SECONDS 26u

/** Ping until many PINGs of a search have come, or it is over; then refuse it, which ends it. */
static void *ping_often(void *over)
{
    uint64_t pings = 0;

    while (__atomic_load_n(&memory.sent, __ATOMIC_SEQ_CST) - counters().pings_answered <
               PINGS_OF_TWO_SECONDS &&
           !__atomic_load_n((bool *)over, __ATOMIC_SEQ_CST)) {
        arrive(RAWE_FRAME_PING, 1);
        await_handled(++pings);
        usleep(5000);
    }
    flags = RAWE_FLAG_GIVEN_UP;
    arrive(RAWE_FRAME_PONG, 1);
    return NULL;
}

TEST(rawe_responder__a_process_that_pings_is_waited_for)
{
    pthread_t thread;
    bool over = false;

    assert_int_equal(pthread_create(&thread, NULL, ping_often, &over), 0);
    const struct rawe_path path = search_for_peer(1000000000ull);
    __atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_join(thread, NULL), 0);
    flags = 0;
    assert_true(path.refused);
}

static void await_first_ping(void)
{
    while (__atomic_load_n(&memory.sent, __ATOMIC_SEQ_CST) == 0) {
        usleep(1000);
    }
}

/** Answer the first PING of a search by a PING. */
static void *ping_once(void *context)
{
    await_first_ping();
    arrive(RAWE_FRAME_PING, 1);
    return NULL;
}

TEST(rawe_responder__a_process_that_has_pinged_is_not_waited_for_without_end)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, ping_once, NULL), 0);
    assert_false(search_for_peer(1000000000ull).reachable);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(memory.sent < 300); /* the timeout would allow 600 */
}

/** Answer the first PING of a search. */
static void *refuse_search(void *context)
{
    await_first_ping();
    flags = RAWE_FLAG_GIVEN_UP;
    arrive(RAWE_FRAME_PONG, 1);
    return NULL;
}

TEST(rawe_responder__a_search_ends_when_refused)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, refuse_search, NULL), 0);
    const struct rawe_path path = search_for_peer(60000000000ull);
    assert_int_equal(pthread_join(thread, NULL), 0);
    flags = 0;
    assert_true(path.refused);
    assert_false(path.reachable);
}

TEST(rawe_responder__more_pings_than_a_second_allows_wait)
{
    arrive(RAWE_FRAME_PING, 3000);
    await_handled(3000);
    assert_int_equal(memory.sent, 3000);
    assert_int_not_equal(counters().pauses, 0);
}

TEST(rawe_responder__what_is_only_read_delays_no_answer)
{
    arrive(RAWE_FRAME_PROBE, 1500);
    arrive(RAWE_FRAME_PONG, 1500);
    arrive(RAWE_FRAME_PING, 1000);
    await_handled(4000);
    assert_int_equal(counters().pauses, 0);
    assert_int_equal(memory.sent, 1000);
}

TEST(rawe_responder_set_mac__from_the_next_frame_on)
{
    static const uint8_t other[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 3};

    arrive(RAWE_FRAME_PING, 1);
    await_handled(1);
    assert_memory_equal(memory.last_from, own_mac, RAWE_MAC_BYTES);
    rawe_responder_set_mac(responder, other);
    arrive(RAWE_FRAME_PING, 1);
    await_handled(2);
    assert_memory_equal(memory.last_from, other, RAWE_MAC_BYTES);
}

TEST(rawe_watch_answered_from__the_newest_answer)
{
    uint8_t from[RAWE_MAC_BYTES];
    static const uint8_t other[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 3};
    struct rawe_ping_address to = {.port = PEER_PORT, .key = PEER_KEY};

    memcpy(to.mac, peer_mac, RAWE_MAC_BYTES);
    struct rawe_watch *watch = rawe_responder_watch(responder, &to);
    rawe_responder_ping(responder, watch);
    assert_false(rawe_watch_answered_from(watch, from));
    arrive_from(other, RAWE_FRAME_PONG, 1);
    await_handled(1);
    assert_true(rawe_watch_answered_from(watch, from));
    assert_memory_equal(from, other, RAWE_MAC_BYTES);
    arrive(RAWE_FRAME_PONG, 1);
    await_handled(2);
    assert_true(rawe_watch_answered_from(watch, from));
    assert_memory_equal(from, peer_mac, RAWE_MAC_BYTES);
    rawe_responder_unwatch(responder, watch);
}

static uint64_t answered_before; /**< PINGs answered before the duty saw a PROBE; atomic */

/** rawe_responder_duty.service */
static int note_answered(void *context, bool asked)
{
    if (asked) {
        __atomic_store_n(&answered_before, counters().pings_answered, __ATOMIC_SEQ_CST);
    }
    return -1;
}

/** A PROBE that arrives behind many PINGs is served before all of them are answered. */
TEST_WITH(unit_no_fixture, rawe_responder__a_flood_of_pings_delays_no_probe)
{
    const struct rawe_responder_duty duty = {.service = note_answered};

    __atomic_store_n(&answered_before, 0, __ATOMIC_SEQ_CST);
    start(&duty);
    pthread_mutex_lock(&memory.lock);
    append(peer_mac, RAWE_FRAME_PING, FRAMES - 1);
    append(peer_mac, RAWE_FRAME_PROBE, 1);
    pthread_mutex_unlock(&memory.lock);
    await_handled(FRAMES);
    assert_in_range(__atomic_load_n(&answered_before, __ATOMIC_SEQ_CST), 1, FRAMES - 2);
    assert_int_equal(memory.sent, FRAMES - 1);
    tear_down();
}

static const struct rawe_responder *seen; /**< responder at the duty's first call */
static bool called = true;                /**< the duty was called; atomic */

/** rawe_responder_duty.service */
static int see(void *context, bool asked)
{
    if (!__atomic_load_n(&called, __ATOMIC_SEQ_CST)) {
        seen = responder;
        __atomic_store_n(&called, true, __ATOMIC_SEQ_CST);
    }
    return -1;
}

int __real_rawe_service_add(struct rawe_service *to, struct rawe_service_source *source,
                            struct rawe_port_error *error);
int __wrap_rawe_service_add(struct rawe_service *to, struct rawe_service_source *source,
                            struct rawe_port_error *error);

/** Return only once the thread has called the duty, if there is one. */
int __wrap_rawe_service_add(struct rawe_service *to, struct rawe_service_source *source,
                            struct rawe_port_error *error)
{
    const int status = __real_rawe_service_add(to, source, error);

    while (status == 0 && !__atomic_load_n(&called, __ATOMIC_SEQ_CST)) {
        usleep(1000);
    }
    return status;
}

/** Peers may know the address from an earlier use of MPI and send a PROBE at once. */
TEST_WITH(unit_no_fixture, rawe_responder_start__its_duty_may_use_it_from_the_first_call_on)
{
    const struct rawe_responder_duty duty = {.service = see};

    __atomic_store_n(&called, false, __ATOMIC_SEQ_CST);
    start(&duty);
    assert_ptr_equal(seen, responder);
    tear_down();
}
