/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_fanout over a veth pair, in their own network namespace: fanout groups of sockets
 * and the events that break them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/host/rawe_host_group.h"

#define MEMBERS 5u

/** Sockets of MEMBERS processes on end b, and one socket on end a that sends to them. */
static struct {
    struct fixture_end ends[MEMBERS];
    struct rawe_port *links[MEMBERS];
    struct rawe_port *sender;
} host;

static void open_host(void)
{
    host.sender = fixture_open(&net, &net.a, 1 << 18);
    for (unsigned i = 0; i < MEMBERS; i++) {
        host.ends[i] = net.b;
        /* Keys and ports are deliberately not in ascending order. */
        host.ends[i].key = 0x10000000u * ((i * 3 + 2) % MEMBERS) + 77;
        host.ends[i].port = (uint16_t)(100 + i % 2);
        host.links[i] = fixture_open(&net, &host.ends[i], 1 << 18);
    }
}

static void close_host(void)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        rawe_port_close(host.links[i]);
    }
    rawe_port_close(host.sender);
}

FIXTURE(open_host, close_host);

static struct rawe_fanout_member member_of(unsigned i)
{
    const struct rawe_port_config config = fixture_config(&net, &host.ends[i]);

    return rawe_fanout_member(host.links[i]->fd, &config);
}

/** List the members in another order than they were opened in. */
static void list_members(struct rawe_fanout_member members[MEMBERS])
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i] = member_of((i * 2 + 1) % MEMBERS);
    }
}

static void form(void)
{
    struct rawe_fanout_member members[MEMBERS];
    struct rawe_port_error error = {0};
    bool changed;

    list_members(members);
    if (rawe_fanout_form(members, MEMBERS, NULL, &changed, &error) != 0) {
        fprintf(stderr, "%s: %s\n", error.step, strerror(error.code));
        fail();
    }
    assert_true(changed);
}

static void send_to(unsigned i)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_DATA,
        .port = host.ends[i].port,
        .key = host.ends[i].key,
        .payload_bytes = 10,
    };
    uint8_t frame[RAWE_PAYLOAD_OFFSET + 10] = {0};

    fixture_write_head(frame, &net.a, &net.b, &header);
    fixture_send(host.sender, frame, sizeof frame);
}

static unsigned received(unsigned i)
{
    return fixture_receive(host.links[i]);
}

/** Send frames to member i for at most ten seconds. Returns true once a frame arrives. */
static bool arrives(unsigned i)
{
    for (unsigned waited_ms = 0; waited_ms < 10000; waited_ms++) {
        send_to(i);
        usleep(1000);
        if (received(i) != 0) {
            return true;
        }
    }
    return false;
}

/** Assert that each of these members receives all its own frames and no others. */
static void assert_delivered(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        assert_true(arrives(i));
    }
    for (unsigned i = first; i < end; i++) {
        (void)received(i);
    }
    for (unsigned i = first; i < end; i++) {
        for (unsigned k = 0; k < 20; k++) {
            send_to(i);
        }
        unsigned count = 0;
        for (unsigned waited_ms = 0; count < 20 && waited_ms < 10000; waited_ms++) {
            usleep(1000);
            count += received(i);
        }
        assert_int_equal(count, 20);
        for (unsigned other = first; other < end; other++) {
            assert_int_equal(received(other), 0);
        }
    }
}

/** When the interface goes down, all members leave the group; the kernel chooses the new order. */
TEST(form__lasts_through_the_interface_going_down)
{
    form();
    for (unsigned i = 0; i < 3; i++) {
        fixture_run("ip link set rb0 down");
        fixture_run("ip link set rb0 up");
        assert_delivered(0, MEMBERS);
    }
}

/** The remaining members reopen their sockets, and receive all frames again. */
TEST(reopen__heals_a_group_that_lost_a_member)
{
    struct rawe_port_error error;

    form();
    rawe_port_close(host.links[0]);
    host.links[0] = NULL;
    for (unsigned i = 1; i < MEMBERS; i++) {
        const int fd = host.links[i]->fd;
        assert_int_equal(rawe_port_reopen(host.links[i], net.b.index, &error), 0);
        assert_int_equal(host.links[i]->fd, fd);
    }
    assert_delivered(1, MEMBERS);
    /* The reopened sockets belong to no group, so they can form a new one. */
    struct rawe_fanout_member members[MEMBERS - 1];
    bool changed;
    for (unsigned i = 1; i < MEMBERS; i++) {
        members[i - 1] = member_of(i);
        assert_true(rawe_fanout_joinable(&members[i - 1]));
    }
    assert_int_equal(rawe_fanout_form(members, MEMBERS - 1, NULL, &changed, &error), 0);
    assert_delivered(1, MEMBERS);
}

TEST(reopen__failing_leaves_the_link_as_it_was)
{
    struct rawe_port_error error;

    assert_int_equal(rawe_port_reopen(host.links[0], 4711, &error), -1);
    assert_int_not_equal(error.code, 0);
    assert_delivered(0, 1);
}

/** Send frames with the keys of other jobs, and a frame too short to hold a key. */
TEST(form__foreign_frames_reach_nobody)
{
    struct fixture_end before;

    form();
    assert_delivered(0, MEMBERS);
    before = host.ends[2];
    for (unsigned i = 0; i < 200; i++) {
        host.ends[2].key = i * 0x01234567u + 5;
        send_to(2);
    }
    host.ends[2] = before;
    uint8_t head[RAWE_PAYLOAD_OFFSET];
    fixture_write_head(head, &net.a, &net.b, &(const struct rawe_header){.type = RAWE_FRAME_DATA});
    fixture_send(host.sender, head, 18);
    /* These frames are sent last: once they have arrived, any foreign frame would have arrived. */
    assert_delivered(4, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(received(i), 0);
    }
}

TEST(form__refuses_equal_keys_and_changes_nothing)
{
    struct rawe_fanout_member members[MEMBERS];
    struct rawe_port_error error = {0};
    bool changed;

    list_members(members);
    members[3].keys[0] = members[1].keys[0];
    assert_int_equal(rawe_fanout_form(members, MEMBERS, NULL, &changed, &error), -1);
    assert_false(changed);
    assert_int_equal(error.code, EEXIST);
    assert_delivered(0, MEMBERS);
    form();
    assert_delivered(0, MEMBERS);
}

TEST(joinable__only_what_is_bound_as_described_and_in_no_group)
{
    struct rawe_fanout_member member = member_of(0);
    int ends[2];

    assert_true(rawe_fanout_joinable(&member));
    member.interface_index++;
    assert_false(rawe_fanout_joinable(&member));
    member = member_of(0);
    member.ethertype++;
    assert_false(rawe_fanout_joinable(&member));
    member = member_of(0);
    member.key_count = RAWE_FANOUT_KEYS_MAX + 1;
    assert_false(rawe_fanout_joinable(&member));
    member = member_of(0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    member.fd = ends[0];
    assert_false(rawe_fanout_joinable(&member));
    close(ends[0]);
    close(ends[1]);
    assert_false(rawe_fanout_joinable(&member));
    form();
    member = member_of(0);
    assert_false(rawe_fanout_joinable(&member));
}

/** A responder's socket receives PINGs by the responder's key and PROBEs by the session's key. */
TEST(form__responders_are_found_by_both_keys)
{
    enum { RESPONDERS = 3 };
    struct rawe_responder *responders[RESPONDERS], *asker = fixture_start(&net, &net.a);
    struct rawe_fanout_member members[RESPONDERS];
    struct rawe_port_error error = {0};
    struct fixture_end ends[RESPONDERS];
    bool changed;

    for (unsigned i = 0; i < RESPONDERS; i++) {
        ends[i] = net.b;
        ends[i].key += i;
        ends[i].ping_key -= i;
        responders[i] = fixture_start(&net, &ends[i]);
        struct rawe_port_config config = fixture_config(&net, &ends[i]);
        config.use = RAWE_PORT_RESPONDER;
        members[i] = rawe_fanout_member(rawe_responder_port(responders[i])->fd, &config);
        assert_int_equal(members[i].key_count, 2);
    }
    assert_int_equal(rawe_fanout_form(members, RESPONDERS, NULL, &changed, &error), 0);
    for (unsigned i = 0; i < RESPONDERS; i++) {
        struct rawe_ping_address to = {.port = ends[i].ping_port, .key = ends[i].ping_key};
        struct rawe_responder_counters counters = {0};
        memcpy(to.mac, net.b.mac, 6);
        struct rawe_watch *watch = rawe_responder_watch(asker, &to);
        for (unsigned k = 0; k < 10000 && rawe_watch_last_pong_ns(watch) == 0; k++) {
            rawe_responder_ping(asker, watch);
            usleep(1000);
        }
        assert_int_not_equal(rawe_watch_last_pong_ns(watch), 0);
        const struct rawe_header header = {
            .type = RAWE_FRAME_PROBE, .port = ends[i].port, .key = ends[i].key};
        uint8_t frame[RAWE_PAYLOAD_OFFSET] = {0};
        fixture_write_head(frame, &net.a, &net.b, &header);
        for (unsigned k = 0; k < 10000 && counters.probes_seen == 0; k++) {
            fixture_send(host.sender, frame, sizeof frame);
            usleep(1000);
            rawe_responder_read_counters(responders[i], &counters);
        }
        assert_true(counters.probes_seen > 0);
    }
    for (unsigned i = 0; i < RESPONDERS; i++) {
        rawe_port_close(rawe_responder_stop(responders[i]));
    }
    rawe_port_close(rawe_responder_stop(asker));
}
