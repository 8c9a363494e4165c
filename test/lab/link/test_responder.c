/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_responder over a veth pair, in their own network namespace: liveness, and responses
 * to received frames. test_discovery.c tests the discovery of paths.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/probe/rawe_responder.h"
#include "../../unit/unit_descriptors.h"

static struct rawe_responder *a, *b;

/** Forged frames that a link on end b sends to the responder on end a. */
static struct {
    struct rawe_port *link;
    uint8_t frame[200];
    size_t len_bytes;
} forger;

static void start(void)
{
    a = fixture_start(&net, &net.a);
    b = fixture_start(&net, &net.b);
    forger.link = fixture_open(&net, &net.b, 1 << 18);
}

static void stop(void)
{
    rawe_port_close(forger.link);
    rawe_port_close(rawe_responder_stop(b));
    rawe_port_close(rawe_responder_stop(a));
}

/** Replace responder b with one that has this duty. */
static void replace_b(const struct rawe_responder_duty *duty)
{
    const struct rawe_port_config config = fixture_config(&net, &net.b);
    struct rawe_port_error error = {0};

    rawe_port_close(rawe_responder_stop(b));
    b = fixture_try_start(&config, &net.b, duty, &error);
    assert_non_null(b);
}

FIXTURE(start, stop);

static struct rawe_responder_counters counters_of(const struct rawe_responder *responder)
{
    struct rawe_responder_counters counters;

    rawe_responder_read_counters(responder, &counters);
    return counters;
}

static struct rawe_ping_address address_of(const struct fixture_end *end)
{
    struct rawe_ping_address to = {.port = end->ping_port, .key = end->ping_key};

    memcpy(to.mac, end->mac, sizeof to.mac);
    return to;
}

static struct rawe_watch *watch(struct rawe_responder *responder, const struct fixture_end *end)
{
    const struct rawe_ping_address to = address_of(end);

    return rawe_responder_watch(responder, &to);
}

/** Send PINGs for at most ten seconds. Returns true once one is answered. */
static bool answers_to_ping(struct rawe_responder *responder, struct rawe_watch *watched)
{
    const uint64_t before = rawe_watch_last_pong_ns(watched);

    for (unsigned waited_ms = 0; waited_ms < 10000; waited_ms++) {
        rawe_responder_ping(responder, watched);
        usleep(1000);
        if (rawe_watch_last_pong_ns(watched) != before) {
            return true;
        }
    }
    return false;
}

TEST(watch__many_are_apart)
{
    enum { WATCHES = 300 };
    struct rawe_watch *watches[WATCHES];

    for (unsigned i = 0; i < WATCHES; i++) {
        /* Only one PING has the correct key; the others are not answered. */
        struct rawe_ping_address to = address_of(&net.b);
        to.key += i != 200;
        watches[i] = rawe_responder_watch(a, &to);
        assert_non_null(watches[i]);
    }
    for (unsigned i = 0; i < WATCHES; i++) {
        rawe_responder_ping(a, watches[i]);
    }
    assert_true(answers_to_ping(a, watches[200]));
    for (unsigned i = 0; i < WATCHES; i++) {
        assert_int_equal(rawe_watch_last_pong_ns(watches[i]) != 0, i == 200);
    }
    rawe_responder_unwatch(a, watches[200]);
    struct rawe_watch *again = watch(a, &net.b);
    assert_int_equal(rawe_watch_last_pong_ns(again), 0);
    assert_true(answers_to_ping(a, again));
}

TEST(watch__goes_on_after_the_interface_was_down)
{
    struct rawe_watch *watched = watch(a, &net.b);

    assert_true(answers_to_ping(a, watched));
    fixture_run("ip link set ra0 down && ip link set rb0 down");
    rawe_responder_ping(a, watched);
    fixture_run("ip link set ra0 up && ip link set rb0 up");
    assert_true(answers_to_ping(a, watched));
}

static uint64_t processor_time_us(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/** poll() reports the outage as an error; the thread must not spin on it. */
TEST(run__sleeps_while_the_interface_is_down)
{
    fixture_run("ip link set ra0 down");
    const uint64_t before_us = processor_time_us();
    usleep(300000);
    const uint64_t used_us = processor_time_us() - before_us;
    fixture_run("ip link set ra0 up");
    /* A sleeping thread uses almost no processor time; a spinning one uses all of it. */
    assert_true(used_us < 30000);
}

static void forge(uint8_t type, uint64_t token, uint16_t payload_bytes)
{
    const struct rawe_header header = {
        .type = type,
        .port = net.a.ping_port,
        .key = net.a.ping_key,
        .payload_bytes = payload_bytes,
    };
    const struct rawe_ping ping = {.key = net.b.ping_key, .port = net.b.ping_port, .token = token};

    memset(forger.frame, 0, sizeof forger.frame);
    fixture_write_head(forger.frame, &net.b, &net.a, &header);
    rawe_ping_encode(forger.frame + RAWE_PAYLOAD_OFFSET, &ping);
    forger.len_bytes = RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES;
}

static void send_forged(void)
{
    fixture_send(forger.link, forger.frame, forger.len_bytes);
}

TEST(receive__forged_answers_are_ignored)
{
    struct rawe_watch *watched = watch(a, &net.b);
    static const uint64_t tokens[] = {0, 1, 63, 64, 0xFFFFFF, 1ull << 63, UINT64_MAX};
    const unsigned count = sizeof tokens / sizeof tokens[0];

    for (unsigned i = 0; i < count; i++) {
        forge(RAWE_FRAME_PONG, tokens[i], RAWE_PING_BYTES);
        send_forged();
    }
    AWAIT(counters_of(a).pongs_unknown >= count);
    assert_int_equal(counters_of(a).pongs_unknown, count);
    assert_int_equal(counters_of(a).pongs_matched, 0);
    assert_int_equal(rawe_watch_last_pong_ns(watched), 0);
}

/** Return the token of the next PING that arrives at rb0. */
static uint64_t overhear_token(int fd)
{
    uint8_t frame[200];
    struct rawe_ping ping;
    const ssize_t got = recv(fd, frame, sizeof frame, 0);

    assert_true(got >= (ssize_t)(RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES));
    assert_int_equal(frame[RAWE_ETH_HEADER_BYTES] & 0xF, RAWE_FRAME_PING);
    assert_int_equal(rawe_ping_decode(&ping, frame + RAWE_PAYLOAD_OFFSET, RAWE_PING_BYTES),
                     RAWE_DECODE_OK);
    return ping.token;
}

TEST(receive__answer_longer_than_the_ping_proves_nothing)
{
    struct rawe_watch *watched = watch(a, &net.b);
    const int fd = fixture_socket(net.b.index, 0x88B5);

    rawe_port_close(rawe_responder_stop(b)); /* this responder would also answer */
    b = NULL;
    rawe_responder_ping(a, watched);
    const uint64_t token = overhear_token(fd);

    forge(RAWE_FRAME_PONG, token, RAWE_PING_BYTES + 8);
    forger.len_bytes += 8;
    send_forged();
    AWAIT(counters_of(a).pongs_unknown != 0);
    assert_int_equal(counters_of(a).pongs_unknown, 1);
    assert_int_equal(rawe_watch_last_pong_ns(watched), 0);

    forge(RAWE_FRAME_PONG, token, RAWE_PING_BYTES);
    send_forged();
    AWAIT(rawe_watch_last_pong_ns(watched) != 0);
    assert_int_not_equal(rawe_watch_last_pong_ns(watched), 0);
    close(fd);
}

/** A responder does not answer PINGs to the session's port and key, which are not its own. */
TEST(receive__pings_to_the_session_key_are_not_answered)
{
    struct rawe_ping_address to = {.port = net.b.port, .key = net.b.key};

    memcpy(to.mac, net.b.mac, sizeof to.mac);
    struct rawe_watch *watched = rawe_responder_watch(a, &to);
    for (unsigned i = 0; i < 5; i++) {
        rawe_responder_ping(a, watched);
    }
    assert_true(answers_to_ping(a, watch(a, &net.b))); /* these PINGs are sent after the others */
    assert_int_equal(rawe_watch_last_pong_ns(watched), 0);
}

static struct rawe_responder *reopened;

static int reopen(void *context, bool asked)
{
    struct rawe_port_error error;

    if (reopened != NULL) {
        assert_int_equal(rawe_responder_reopen(reopened, net.b.index, &error), 0);
        __atomic_store_n(&reopened, NULL, __ATOMIC_RELEASE);
    }
    return -1;
}

/** After its port is reopened, as when a fanout group breaks, the thread polls the new socket. */
TEST(reopen__goes_on_answering)
{
    const struct rawe_responder_duty duty = {.service = reopen};
    struct rawe_watch *watched = watch(a, &net.b);

    replace_b(&duty);
    const int fd = rawe_responder_port(b)->fd;
    assert_true(answers_to_ping(a, watched));
    __atomic_store_n(&reopened, b, __ATOMIC_RELEASE);
    rawe_responder_wake(b, 0);
    AWAIT(__atomic_load_n(&reopened, __ATOMIC_ACQUIRE) == NULL);
    assert_null(reopened);
    assert_int_equal(rawe_responder_port(b)->fd, fd);
    assert_true(answers_to_ping(a, watch(a, &net.b)));
}

static bool in_progress;

static bool serviced(void *context)
{
    return __atomic_load_n(&in_progress, __ATOMIC_RELAXED);
}

TEST(send__pong_says_whether_the_process_makes_progress)
{
    const struct rawe_responder_duty duty = {.serviced = serviced};
    struct rawe_watch *watched = watch(a, &net.b);

    replace_b(&duty);
    __atomic_store_n(&in_progress, true, __ATOMIC_RELAXED);
    assert_true(answers_to_ping(a, watched));
    assert_int_equal(rawe_watch_last_absent_ns(watched), 0);
    __atomic_store_n(&in_progress, false, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 10000 && rawe_watch_last_absent_ns(watched) == 0; i++) {
        assert_true(answers_to_ping(a, watched));
    }
    assert_int_not_equal(rawe_watch_last_absent_ns(watched), 0);
}

/** Frames addressed to the link do not wake the responder. */
TEST(receive__other_types_do_not_reach_it)
{
    struct rawe_watch *watched = watch(b, &net.a);

    for (uint8_t type = 0; type < 16; type++) {
        if (type != RAWE_FRAME_PING && type != RAWE_FRAME_PONG) {
            forge(type, 1, RAWE_PING_BYTES);
            send_forged();
        }
    }
    assert_true(answers_to_ping(b, watched));
    const struct rawe_responder_counters counters = counters_of(a);
    assert_int_equal(counters.frames_invalid, 0);
    assert_int_equal(counters.pongs_unknown, 0);
}

TEST(receive__malformed_frames_are_counted)
{
    forge(RAWE_FRAME_PING, 1, RAWE_PING_BYTES); /* truncated in the header */
    forger.len_bytes = RAWE_ETH_HEADER_BYTES + 12;
    send_forged();
    forge(RAWE_FRAME_PING, 1, RAWE_PING_BYTES); /* truncated in the payload */
    forger.len_bytes -= 1;
    send_forged();
    forge(RAWE_FRAME_PING, 1, RAWE_PING_BYTES - 1); /* too little payload */
    send_forged();
    forge(RAWE_FRAME_PING, 1, 60000); /* length field exceeds the frame */
    send_forged();
    forge(RAWE_FRAME_PING, 1, RAWE_PING_BYTES); /* from a multicast address */
    forger.frame[6] |= 1;
    send_forged();
    forge(RAWE_FRAME_PING, 1, RAWE_PING_BYTES); /* unknown flags */
    forger.frame[RAWE_ETH_HEADER_BYTES + 1] = 0x80;
    send_forged();
    AWAIT(counters_of(a).frames_invalid >= 6);
    assert_int_equal(counters_of(a).frames_invalid, 6);
    assert_int_equal(counters_of(a).pings_answered, 0);
}

TEST(stop__leaves_nothing_open)
{
    const unsigned before = unit_open_descriptors();
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error = {0};

    for (unsigned i = 0; i < 20; i++) {
        rawe_port_close(rawe_responder_stop(fixture_start(&net, &net.a)));
    }
    config.interface_index = 4711;
    assert_null(fixture_try_start(&config, &net.a, NULL, &error));
    assert_int_not_equal(error.code, 0);
    assert_non_null(error.step);
    rawe_port_close(rawe_responder_stop(NULL));
    assert_int_equal(unit_open_descriptors(), before);
}
