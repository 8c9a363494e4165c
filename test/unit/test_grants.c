/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of core/pull/rawe_grants.c. Peers are identified by index.
 */
#include <string.h>

#include "pull/rawe_grants.h"
#include "unit_test.h"

#define MS 1000000ull
#define FRAME_BYTES 1500u
#define LINK_MBPS 25000u
/** Frames that all peers together may have in flight while the link is busy: 100 kB. */
#define BUDGET 66u
#define RING 480u

static struct rawe_line line;
static struct rawe_grants grants;
static struct rawe_grants_member members[100];
static uint32_t next[100]; /**< sequence number of the member's next frame */
static uint64_t now_ns;
static uint16_t ring_frames; /**< ring frames per member */

static void set_up(void)
{
    memset(members, 0, sizeof(members));
    memset(next, 0, sizeof(next));
    now_ns = MS;
    ring_frames = RING;
    rawe_line_init(&line, LINK_MBPS);
    rawe_grants_init(&grants, 100000, &line, FRAME_BYTES, &ring_frames);
    for (unsigned i = 0; i < 100; i++) {
        rawe_grants_reset(&grants, &members[i], 0);
    }
}

FIXTURE(set_up, NULL);

static void come(unsigned i, uint32_t frames, bool more)
{
    rawe_grants_arrived(&grants, &members[i], next[i], frames, more, 0, now_ns);
    next[i] += frames;
}

static uint16_t credit(unsigned i)
{
    return rawe_grants_credit(&grants, &members[i], RING);
}

/** Grant what is available. Returns the number of peers to inform. */
static unsigned grant(void)
{
    unsigned reported = 0;
    while (rawe_grants_next(&grants, now_ns) != NULL) {
        reported++;
    }
    return reported;
}

/** Receive frames from `count` members that have more to send, and stop holding back grants. */
static void begin(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        come(i, 2, true);
    }
    grants.held_back = 0;
}

TEST(rawe_grants_credit__one_that_is_alone_is_not_limited)
{
    begin(1);
    assert_int_equal(grant(), 0);
    assert_false(grants.waits);
    assert_int_equal(credit(0), RING);
}

TEST(rawe_grants_credit__without_a_limit_nobody_is)
{
    rawe_grants_init(&grants, 0, &line, FRAME_BYTES, &ring_frames);
    begin(10);
    assert_int_equal(grant(), 0);
    assert_int_equal(credit(3), RING);
}

TEST(rawe_grants_credit__no_more_than_the_ring_has)
{
    begin(2);
    grant();
    assert_int_equal(rawe_grants_credit(&grants, &members[0], 3), 3);
}

/** Granted frames that exceed the ring would count as outstanding and leave the link idle. */
TEST(rawe_grants_next__no_more_than_the_ring_has)
{
    for (uint16_t frames = 1; frames < 5; frames++) {
        set_up();
        ring_frames = frames;
        begin(100);
        grant();
        for (unsigned i = 0; i < 100; i++) {
            assert_true(members[i].frames <= frames);
        }
        assert_true(grants.frames + frames > BUDGET);
    }
}

TEST(rawe_grants_next__several_share)
{
    static const struct {
        unsigned peers, share, granted;
    } table[] = {{2, 33, 2}, {4, 16, 4}, {10, 3, 10}, {50, 3, 22}, {100, 3, 22}};
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        set_up();
        begin(table[i].peers);
        assert_true(grants.waits);
        assert_int_equal(credit(0), 0); /* nothing has been granted yet */
        assert_int_equal(grant(), table[i].granted);
        assert_int_equal(credit(0), table[i].share);
        assert_true(grants.frames <= BUDGET);
        assert_int_equal(grants.waits, table[i].granted < table[i].peers);
    }
}

/** If all begin at once, half of the port's buffer is kept back for frames sent later. */
TEST(rawe_grants_next__half_at_first)
{
    for (unsigned i = 0; i < 50; i++) {
        come(i, 1, true);
    }
    assert_int_equal(grant(), BUDGET / 2 / 3);
    assert_int_equal(grants.frames, BUDGET / 2);
    for (unsigned i = 0; i < BUDGET / 2 / 3; i++) {
        come(i, 3, true);
        grant();
        assert_in_range(grants.frames, BUDGET / 2, BUDGET);
    }
    assert_in_range(grants.frames, BUDGET - 3, BUDGET);
}

TEST(rawe_grants_expect__those_that_connect_share)
{
    for (unsigned i = 0; i < 50; i++) {
        rawe_grants_expect(&grants, &members[i], now_ns);
    }
    assert_int_equal(credit(0), 0); /* peer 0 was alone: no grant */
    assert_int_equal(credit(1), BUDGET / 2 / 2);
    assert_true(credit(2) >= 6);
    assert_int_equal(credit(49), 0);
    assert_in_range(grants.frames, BUDGET / 2 - 6, BUDGET / 2 + 6);
    for (unsigned i = 1; i < 3; i++) { /* peers 1 and 2 had little to send */
        come(i, 1, false);
    }
    assert_true(grant() > 0);
    assert_int_equal(credit(0), 3);
}

TEST(rawe_grants_next__by_turns)
{
    begin(50);
    grant();
    unsigned got[50] = {0}, most = 0;
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned i = 0; i < 50; i++) {
            const uint32_t frames = members[i].frames;
            got[i] += frames;
            most = frames > most ? frames : most;
            if (frames != 0) {
                now_ns += frames * 500;
                come(i, frames, true);
                grant();
            }
        }
    }
    for (unsigned i = 1; i < 50; i++) {
        assert_in_range(got[i], got[0] - 6, got[0] + 6);
    }
    assert_int_equal(most, 6); /* 3 frames at first */
}

TEST(rawe_grants_arrived__uses_up_what_was_granted)
{
    begin(2);
    grant();
    come(0, 10, true);
    assert_int_equal(credit(0), 23);
    assert_int_equal(grant(), 0); /* peer 0 still has more than half */
    come(0, 10, true);
    assert_int_equal(grant(), 1);
    assert_int_equal(credit(0), 33);
}

TEST(rawe_grants_arrived__what_one_does_not_need_others_get)
{
    begin(50);
    grant();
    come(0, 1, false);
    assert_int_equal(grants.senders, 49);
    assert_int_equal(grant(), 1);
    assert_true(credit(0) >= 6); /* peer 0 may resume without a request */
}

TEST(rawe_grants_arrived__the_last_one_is_told_that_it_is_alone)
{
    begin(2);
    grant();
    assert_true(credit(1) < RING);
    come(0, 10, false);
    assert_true(rawe_grants_next(&grants, now_ns) == &members[1]);
    assert_int_equal(credit(1), RING);
    assert_int_equal(grant(), 0);
    assert_false(grants.waits);
}

TEST(rawe_grants_arrived__a_frame_sent_again_says_nothing_new)
{
    begin(2);
    next[0] += 4; /* lost */
    come(0, 10, false);
    assert_int_equal(grants.senders, 1);
    next[0] -= 14;
    come(0, 4, true);
    assert_int_equal(grants.senders, 1);
}

TEST(rawe_grants_arrived__numbers_wrap)
{
    rawe_grants_reset(&grants, &members[0], UINT32_MAX - 1);
    rawe_grants_arrived(&grants, &members[0], UINT32_MAX - 1, 4, true, 0, now_ns);
    assert_int_equal(grants.senders, 1);
    rawe_grants_arrived(&grants, &members[0], 2, 1, false, 0, now_ns);
    assert_int_equal(grants.senders, 0);
}

TEST(rawe_grants_arrived__what_waits_here_may_be_in_flight_too)
{
    rawe_grants_arrived(&grants, &members[1], 0, 1, true, 100000, now_ns); /* 312 kB wait */
    next[1]++;
    begin(8);
    assert_int_equal(grant(), 8);
    assert_in_range(credit(0), 32, 35);
}

TEST(rawe_grants_arrived__a_usual_wait_is_part_of_the_round_trip)
{
    begin(8);
    rawe_grants_arrived(&grants, &members[1], next[1], 1, true, 8000, now_ns);
    grant();
    assert_int_equal(credit(0), BUDGET / 8);
}

TEST(rawe_grants_arrived__after_some_time_of_short_waits_less_is_in_flight_again)
{
    static const struct {
        unsigned later_ms;
        bool wide;
    } table[] = {{0, true}, {4, true}, {8, false}, {20, false}};
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        set_up();
        now_ns = 100 * MS;
        rawe_grants_arrived(&grants, &members[1], 0, 1, true, 5 * MS, now_ns);
        next[1]++;
        for (unsigned ms = 0; ms < table[i].later_ms; ms++) {
            now_ns += MS;
            come(1, 1, true);
        }
        begin(2);
        grant();
        assert_int_equal(credit(0) == RING, table[i].wide);
    }
}

/** Number of processes on the host, and of peers per process. */
#define RANKS 16u
#define PEERS 6u
static struct rawe_budget_host host;
static struct rawe_grants rank[RANKS];
static struct rawe_grants_member peer[RANKS][PEERS];

/** Receive frames from a peer over the shared link. Returns their number. */
static uint32_t come_to(unsigned r, unsigned p, uint32_t frames)
{
    now_ns += frames * 480;
    rawe_grants_arrived(&rank[r], &peer[r][p], peer[r][p].newest + 1, frames, true, 0, now_ns);
    return frames;
}

static void begin_host(unsigned ranks)
{
    memset(&host, 0, sizeof(host));
    for (unsigned r = 0; r < ranks; r++) {
        rawe_grants_init(&rank[r], 100000, &line, FRAME_BYTES, &ring_frames);
        rawe_budget_join(&rank[r].budget, &host, r);
        for (unsigned p = 0; p < PEERS; p++) {
            peer[r][p] = (struct rawe_grants_member){0};
            rawe_grants_reset(&rank[r], &peer[r][p], 0);
            come_to(r, p, 1);
        }
        rank[r].held_back = 0;
    }
}

/** Let each process grant as many frames as it may. Returns the total number of frames granted. */
static uint32_t grant_all(unsigned ranks)
{
    uint32_t frames = 0;
    for (unsigned r = 0; r < ranks; r++) {
        while (rawe_grants_next(&rank[r], now_ns) != NULL) {
        }
        frames += rank[r].frames;
    }
    return frames;
}

TEST(rawe_grants_next__processes_of_a_host_share)
{
    static const unsigned table[] = {1, 2, 4, RANKS};
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        uint32_t got[RANKS] = {0};
        const unsigned ranks = table[i];
        begin_host(ranks);
        for (unsigned turn = 0; turn < 200 * ranks; turn++) {
            const unsigned r = turn % ranks;
            for (unsigned p = 0; p < PEERS; p++) {
                assert_in_range(grant_all(ranks), BUDGET / 2, BUDGET + 6);
                got[r] += come_to(r, p, peer[r][p].frames);
            }
        }
        for (unsigned r = 1; r < ranks; r++) {
            assert_in_range(got[r], got[0] * 3 / 4, got[0] * 4 / 3);
        }
    }
}

/** PROBEs take time on the link, but do not use up grants. */
TEST(rawe_grants_probed__other_processes_see_the_same)
{
    begin_host(2);
    grant_all(2);
    const uint64_t before = rawe_budget_others(&rank[1].budget, now_ns).bytes;
    assert_true(before == (uint64_t)rank[0].frames * FRAME_BYTES);
    for (unsigned i = 0; i < 100; i++) {
        rawe_grants_probed(&rank[0], now_ns);
    }
    assert_true(rawe_budget_others(&rank[1].budget, now_ns).bytes == before);
}

TEST(rawe_grants_next__a_process_that_dies_holds_up_no_other)
{
    begin_host(2);
    grant_all(2);
    assert_int_equal(rank[1].ranks, 2);
    now_ns += MS;
    come_to(1, 0, 1); /* the other process is silent from now on */
    while (rawe_grants_next(&rank[1], now_ns) != NULL) {
    }
    assert_int_equal(rank[1].ranks, 1);
    assert_true(rank[1].frames > BUDGET * 3 / 4);
}

TEST(rawe_grants_next__one_that_sends_nothing_loses_its_turns)
{
    begin(2);
    grant();
    now_ns += 15 * MS;
    come(0, 33, true);
    grant();
    assert_int_equal(grants.senders, 2);
    assert_true(credit(0) < RING);
    now_ns += 15 * MS;
    come(0, 33, true);
    assert_int_equal(grant(), 1); /* peer 0 is now alone */
    assert_int_equal(grants.senders, 1);
    assert_int_equal(credit(0), RING);
    come(1, 33, true); /* peer 1 sends again */
    assert_int_equal(grants.senders, 2);
}

TEST(rawe_grants_next__more_while_the_link_idles)
{
    begin(50);
    const unsigned before = grant();
    now_ns += 10000;
    assert_int_equal(grant(), 0);
    now_ns += 20000;
    assert_int_equal(grant(), 1);
    assert_int_equal(before, 22);
}

TEST(rawe_grants_probed__questions_use_the_link)
{
    begin(50);
    grant();
    for (unsigned i = 0; i < 1000; i++) {
        now_ns += 35; /* time of 100 bytes plus a tenth for headers */
        rawe_grants_probed(&grants, now_ns);
    }
    assert_int_equal(grant(), 0);
}

TEST(rawe_grants_forget__one_that_is_gone)
{
    begin(50);
    grant();
    for (unsigned i = 0; i < 50; i++) {
        rawe_grants_forget(&grants, &members[i]);
    }
    assert_int_equal(grants.frames, 0);
    assert_int_equal(grants.senders, 0);
    assert_int_equal(grant(), 0);
    assert_false(grants.waits);
}
