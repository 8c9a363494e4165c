/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the watches of a responder.
 */
#include "linux/probe/rawe_watch.h"

#include <pthread.h>

#include "unit_test.h"

static struct rawe_watch_table table;

static const struct rawe_ping_address peer = {.mac = {2}, .port = 1, .key = 2};
static const uint8_t source[RAWE_MAC_BYTES] = {2};

static void set_up(void)
{
    table = (struct rawe_watch_table){0};
    rawe_watch_table_init(&table);
}

static void tear_down(void)
{
    rawe_watch_table_destroy(&table);
}

/** Have the peer ping us. Returns true if the answer says that it was given up. */
static bool pinged(void)
{
    const struct rawe_ping ping = {.port = peer.port, .key = peer.key};

    return rawe_watch_pinged(&table, &ping);
}

/** Have a PONG with these flags answer the watch. */
static void answered(struct rawe_watch *watch, uint8_t flags, uint16_t payload_bytes)
{
    const struct rawe_header pong = {.flags = flags, .payload_bytes = payload_bytes};

    watch->asked_bytes = 1500;
    assert_true(rawe_watch_answered(&table, source, 0, watch->token, &pong, 1));
}

FIXTURE(set_up, tear_down);

TEST(rawe_watch_pinged__tells_searches_that_the_process_was_heard)
{
    const struct rawe_ping_address others[] = {{.port = 1, .key = 3}, {.port = 3, .key = 2}};
    struct rawe_watch *other[] = {rawe_watch_seek(&table, &others[0]),
                                  rawe_watch_seek(&table, &others[1])};
    struct rawe_watch *watch = rawe_watch_seek(&table, &peer);

    assert_false(pinged());
    assert_true(watch->heard);
    for (unsigned i = 0; i < 2; i++) {
        assert_false(other[i]->heard);
        rawe_watch_unseek(&table, other[i]);
    }
    watch->heard = false;
    assert_false(pinged());
    assert_true(watch->heard); /* other searches have ended */
    rawe_watch_unseek(&table, watch);
    watch = rawe_watch_begin(&table, &peer);
    assert_false(pinged());
    assert_false(watch->heard); /* nothing is searched for */
    rawe_watch_end(&table, watch);
}

/** A process stays given up until it is searched for again, whatever else ends. */
TEST(rawe_watch_give_up__lasts_until_the_next_search)
{
    struct rawe_watch *watches[] = {rawe_watch_seek(&table, &peer), rawe_watch_seek(&table, &peer)};

    rawe_watch_give_up(&table, watches[0]);
    assert_true(pinged());
    rawe_watch_unseek(&table, watches[1]);
    rawe_watch_end(&table, rawe_watch_begin(&table, &peer));
    rawe_watch_unseek(&table, NULL);
    assert_true(pinged());
    struct rawe_watch *watch = rawe_watch_seek(&table, &peer);
    assert_false(pinged());
    rawe_watch_unseek(&table, watch);
    assert_false(pinged());
    assert_int_equal(table.sought, 0);
}

TEST(rawe_watch_take_back__forgets_that_a_process_was_given_up)
{
    const struct rawe_ping_address other = {.port = peer.port, .key = peer.key + 1};

    rawe_watch_give_up(&table, rawe_watch_seek(&table, &peer));
    rawe_watch_take_back(&table, &other);
    assert_true(pinged());
    rawe_watch_take_back(&table, &peer);
    assert_false(pinged());
    assert_int_equal(table.sought, 0);
    assert_int_equal(table.given_up, 0);
}

/** Two searches at once may give the same process up. */
TEST(rawe_watch_seek__forgets_that_several_searches_gave_up)
{
    struct rawe_watch *watches[] = {rawe_watch_seek(&table, &peer), rawe_watch_seek(&table, &peer)};

    rawe_watch_give_up(&table, watches[0]);
    rawe_watch_give_up(&table, watches[1]);
    assert_true(pinged());
    struct rawe_watch *watch = rawe_watch_seek(&table, &peer);
    assert_false(pinged());
    rawe_watch_unseek(&table, watch);
    assert_int_equal(table.sought, 0);
}

enum { ROUNDS = 2000 };

static pthread_barrier_t barrier;

static void *seek_often(void *context)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        (void)pthread_barrier_wait(&barrier);
        rawe_watch_give_up(&table, rawe_watch_seek(&table, &peer));
    }
    return NULL;
}

/** A thread that searches and one that validates a path may begin at the same time. */
TEST(rawe_watch_seek__by_two_threads_at_once)
{
    pthread_t threads[2];

    (void)pthread_barrier_init(&barrier, NULL, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, seek_often, NULL), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&barrier);
    assert_in_range(table.sought, 1, 2);
    assert_true(pinged());
    rawe_watch_unseek(&table, rawe_watch_seek(&table, &peer));
    assert_false(pinged());
    assert_int_equal(table.sought, 0);
}

/** The newest answer decides, and one that refuses us does not show what the path carries. */
TEST(rawe_watch_answered__may_refuse)
{
    struct rawe_watch *watch = rawe_watch_seek(&table, &peer);

    answered(watch, RAWE_FLAG_GIVEN_UP, 1000);
    assert_true(watch->refused);
    assert_int_equal(watch->pong_bytes, 0);
    answered(watch, RAWE_FLAG_SERVICED, 500);
    assert_false(watch->refused);
    assert_int_equal(watch->pong_bytes, 500);
    rawe_watch_unseek(&table, watch);
}
