/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of core/pull/rawe_credit.c.
 */
#include <string.h>

#include "pull/rawe_credit.h"
#include "unit_test.h"

#define WINDOW 128u
#define MS 1000000ull

static struct rawe_credit credit; /**< for a ring of 64 frames */
static struct rawe_credit_member members[2000];

static void set_up(void)
{
    rawe_credit_init(&credit, 64, WINDOW, 1);
    memset(members, 0, sizeof(members));
}

FIXTURE(set_up, NULL);

TEST(rawe_credit_init__alone_at_most_a_window)
{
    rawe_credit_init(&credit, 256, WINDOW, 1);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, WINDOW); /* less than 3/4 of 256 */
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].idle, 64);
    rawe_credit_init(&credit, 64, WINDOW, 1);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 48);
    assert_int_equal(credit.share[RAWE_LANE_BULK].active, 48);
    assert_int_equal(credit.share[RAWE_LANE_BULK].idle, 16);
}

TEST(rawe_credit_use_bulk__the_queue_but_half_of_the_ring_at_most)
{
    rawe_credit_use_bulk(&credit, 16);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 36);
    assert_int_equal(credit.share[RAWE_LANE_BULK].active, 12);
    rawe_credit_use_bulk(&credit, 1000);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 24);
    assert_int_equal(credit.share[RAWE_LANE_BULK].active, 24);
}

/** Members of both lanes, sending and idle, that share a queue of the default size. */
static struct rawe_credit_member two_lanes[RAWE_LANES][300];

static void open_both(unsigned express_senders, unsigned bulk_senders, unsigned open)
{
    const unsigned senders[RAWE_LANES] = {express_senders, bulk_senders};
    rawe_credit_init(&credit, 8192, 512, 1);
    rawe_credit_use_bulk(&credit, 2621);
    memset(two_lanes, 0, sizeof(two_lanes));
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        for (unsigned i = 0; i < open; i++) {
            rawe_credit_open(&credit, lane, &two_lanes[lane][i]);
        }
        for (unsigned i = 0; i < senders[lane]; i++) {
            rawe_credit_note(&credit, lane, &two_lanes[lane][i]);
        }
    }
}

TEST(rawe_credit_note__express_senders_leave_the_queue_to_bulk)
{
    open_both(200, 1, 200);
    assert_int_equal(rawe_credit_of(&credit, RAWE_LANE_BULK, &two_lanes[RAWE_LANE_BULK][0]), 512);
    open_both(200, 4, 200);
    assert_int_equal(rawe_credit_of(&credit, RAWE_LANE_BULK, &two_lanes[RAWE_LANE_BULK][0]), 491);
}

TEST(rawe_credit_note__idle_lanes_share_a_quarter)
{
    open_both(100, 0, 100);
    uint32_t promised = 0;
    for (unsigned i = 0; i < 100; i++) {
        promised += rawe_credit_advertise(&credit, RAWE_LANE_BULK, &two_lanes[RAWE_LANE_BULK][i]);
    }
    assert_in_range(promised, 100, 2621 / 4 + 1);
    /* No credit has to be withdrawn, so no connection needs a review. */
    assert_true(rawe_credit_advance(&credit, 1 + 10 * MS));
    (void)rawe_credit_review(&credit);
    assert_false(rawe_credit_review(&credit));
}

TEST(rawe_credit_open__a_quarter_for_those_that_may_begin)
{
    rawe_credit_init(&credit, 256, WINDOW, 1);
    for (unsigned i = 0; i < 9; i++) {
        rawe_credit_open(&credit, i % 3 == 0 ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS, &members[i]);
    }
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
    /* Both lanes share the ring, so eight other connections share a quarter of it. */
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].idle, 256 / 4 / 8);
    rawe_credit_close(&credit, RAWE_LANE_BULK, &members[3]);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].idle, 256 / 4 / 7);
}

TEST(rawe_credit_of__in_turns_everybody_has_one)
{
    unsigned turns[500] = {0};
    for (unsigned i = 0; i < 500; i++) {
        rawe_credit_open(&credit, RAWE_LANE_EXPRESS, &members[i]);
    }
    for (unsigned epoch = 1; epoch <= 60; epoch++) {
        for (unsigned i = 0; i < 500; i++) {
            rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[i]);
        }
        for (unsigned i = 0; i < 500; i++) {
            turns[i] += rawe_credit_of(&credit, RAWE_LANE_EXPRESS, &members[i]);
        }
        assert_true(rawe_credit_advance(&credit, 1 + epoch * 10 * MS));
    }
    for (unsigned i = 0; i < 500; i++) {
        assert_in_range(turns[i], 2,
                        4); /* 60 epochs, 48 frames for 500 senders, each kept for two epochs */
    }
}

TEST(rawe_credit_note__a_sender_counts_once_an_epoch)
{
    assert_false(rawe_credit_is_active(&credit, &members[0]));
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
    assert_true(rawe_credit_is_active(&credit, &members[0]));
    assert_int_equal(credit.senders_now[RAWE_LANE_EXPRESS], 1);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 48);
}

TEST(rawe_credit_advance__the_number_of_an_epoch_wraps)
{
    credit.epoch = UINT32_MAX - 1; /* after 497 days */
    for (unsigned i = 1; i <= 4; i++) {
        rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
        assert_true(rawe_credit_is_active(&credit, &members[0]));
        assert_int_equal(credit.senders_now[RAWE_LANE_EXPRESS], 1);
        const uint32_t joined = credit.joined[RAWE_LANE_EXPRESS];
        rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[i]); /* a new one */
        assert_int_equal(credit.joined[RAWE_LANE_EXPRESS], joined + 1);
        assert_true(rawe_credit_advance(&credit, 1 + i * 10 * MS));
    }
}

TEST(rawe_credit_advance__a_sender_of_the_last_epoch_still_counts)
{
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[1]);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 24);
    assert_false(rawe_credit_advance(&credit, 9 * MS));
    assert_false(rawe_credit_advance(&credit, 0)); /* another engine's clock, before the start */
    assert_true(rawe_credit_advance(&credit, 1 + 10 * MS));
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 24);
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
    assert_int_equal(credit.senders_now[RAWE_LANE_EXPRESS],
                     1); /* noted again, but not as a new sender */
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 24);
    assert_true(rawe_credit_advance(&credit, 1 + 20 * MS));
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 48);
    assert_true(rawe_credit_is_active(&credit, &members[0]));
    assert_false(rawe_credit_is_active(&credit, &members[1]));
}

/** Open four peers on a ring of 64 frames; only the first has sent, and was granted 48. */
static void begin_alone(void)
{
    for (unsigned i = 0; i < 4; i++) {
        rawe_credit_open(&credit, RAWE_LANE_EXPRESS, &members[i]);
    }
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[0]);
    assert_int_equal(rawe_credit_advertise(&credit, RAWE_LANE_EXPRESS, &members[0]), 48);
    assert_false(rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[0]));
    rawe_credit_advance(&credit, 1 + 10 * MS);
    rawe_credit_advance(&credit, 1 + 20 * MS);
}

TEST(rawe_credit_outdated__a_silent_sender_gives_back)
{
    begin_alone();
    /* The ring has room for all advertised credit. */
    assert_false(rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[0]));
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[1]);
    assert_int_equal(rawe_credit_advertise(&credit, RAWE_LANE_EXPRESS, &members[1]), 48);
    assert_true(rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[0]));
    assert_int_equal(rawe_credit_advertise(&credit, RAWE_LANE_EXPRESS, &members[0]), 5);
    assert_false(rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[0]));
    assert_int_equal(credit.advertised[RAWE_LANE_EXPRESS], 53);
}

TEST(rawe_credit_outdated__whose_turn_has_come)
{
    begin_alone();
    /* An idle peer need not be told that it could have more credit. */
    assert_false(rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[1]));
    rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[1]);
    assert_true(rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[1]));
}

TEST(rawe_credit_close__what_it_had_others_may_have)
{
    begin_alone();
    for (unsigned i = 0; i < 3; i++) {
        rawe_credit_note(&credit, RAWE_LANE_EXPRESS, &members[i]);
        (void)rawe_credit_advertise(&credit, RAWE_LANE_EXPRESS, &members[i]);
    }
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 16);
    rawe_credit_close(&credit, RAWE_LANE_EXPRESS, &members[0]);
    rawe_credit_close(&credit, RAWE_LANE_EXPRESS, &members[1]);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 48);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].idle, 16);
    assert_int_equal(credit.advertised[RAWE_LANE_EXPRESS], members[2].advertised);
    rawe_credit_advance(&credit, 1 + 30 * MS);
    assert_int_equal(credit.share[RAWE_LANE_EXPRESS].active, 48);
    rawe_credit_forget(&credit, RAWE_LANE_EXPRESS, &members[2]);
    assert_int_equal(credit.advertised[RAWE_LANE_EXPRESS], 0);
}

/** A review finds every sender with outdated credit if all waiting senders are noted again. */
TEST(rawe_credit_review__misses_no_sender)
{
    enum { MEMBERS = 60 };
    uint64_t now_ns = 1, random = 1;
    unsigned outdated = 0, saved = 0;
    rawe_credit_init(&credit, 40, 512, now_ns);
    for (unsigned i = 0; i < MEMBERS; i++) {
        rawe_credit_open(&credit, RAWE_LANE_EXPRESS, &members[i]);
    }
    for (unsigned step = 0; step < 200000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* A few members send for a while, then many. */
        unsigned senders = step / 5000 % 2 == 0 ? 3 : MEMBERS;
        struct rawe_credit_member *member = &members[(random >> 33) % senders];
        switch (random >> 60) {
        case 0:
            rawe_credit_forget(&credit, RAWE_LANE_EXPRESS, member);
            break;
        case 1:
        case 2:
        case 3:
            (void)rawe_credit_advertise(&credit, RAWE_LANE_EXPRESS,
                                        &members[(random >> 33) % MEMBERS]);
            break;
        default:
            rawe_credit_note(&credit, RAWE_LANE_EXPRESS, member);
            break;
        }
        now_ns += 500000;
        if (!rawe_credit_advance(&credit, now_ns)) {
            continue;
        }
        bool reviewed = rawe_credit_review(&credit);
        saved += !reviewed;
        for (unsigned i = 0; i < MEMBERS; i++) {
            if (rawe_credit_outdated(&credit, RAWE_LANE_EXPRESS, &members[i])) {
                assert_true(reviewed);
                (void)rawe_credit_advertise(&credit, RAWE_LANE_EXPRESS, &members[i]);
                outdated++;
            }
            if (reviewed) {
                rawe_credit_keep(&credit, RAWE_LANE_EXPRESS, &members[i]);
            }
        }
    }
    assert_int_not_equal(outdated, 0);
    assert_int_not_equal(saved, 0);
}
