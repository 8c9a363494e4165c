/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_service: when the thread serves a source, and when it stops serving one.
 */
#define _GNU_SOURCE

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "linux/sys/rawe_service.h"
#include "unit_test.h"

/** A source that counts its calls and reads all input. */
struct counter {
    struct rawe_service_source source; /**< must be first */
    unsigned calls;                    /**< atomic */
    unsigned readable_calls;           /**< calls with POLLIN; atomic */
    int rest_ms;                       /**< return value of serve() */
    bool reads_nothing;                /**< goes deaf at the first call, without reading */
    int listens;                       /**< descriptor to use from the next call on; -1: none */
};

static int serve(struct rawe_service_source *source, short events)
{
    struct counter *counter = (struct counter *)source;
    char byte;

    source->deaf = counter->reads_nothing;
    const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX] = {
        {.fd = -1},
        {.fd = __atomic_load_n(&counter->listens, __ATOMIC_SEQ_CST), .events = POLLIN},
    };
    rawe_service_listen(source, wanted);
    if ((events & POLLIN) != 0) {
        if (!counter->reads_nothing && source->fd >= 0) {
            assert_int_equal(read(source->fd, &byte, 1), 1);
        }
        __atomic_fetch_add(&counter->readable_calls, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_add(&counter->calls, 1, __ATOMIC_SEQ_CST);
    return counter->rest_ms;
}

static unsigned load(const unsigned *value)
{
    return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

/** Wait for at most ten seconds until a count reaches `least`. */
static void await(const unsigned *value, unsigned least)
{
    for (unsigned waited_ms = 0; load(value) < least && waited_ms < 10000; waited_ms++) {
        usleep(1000);
    }
    assert_true(load(value) >= least);
}

static struct rawe_service *start(void)
{
    struct rawe_service *started;
    struct rawe_port_error error;

    assert_int_equal(rawe_service_start(&started, &error), 0);
    return started;
}

static struct rawe_service *service;
static int ends[2]; /**< a socket pair */

static void set_up(void)
{
    service = start();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void tear_down(void)
{
    rawe_service_stop(service);
    close(ends[0]);
    close(ends[1]);
}

static void add(struct counter *counter)
{
    struct rawe_port_error error;

    assert_int_equal(rawe_service_add(service, &counter->source, &error), 0);
}

FIXTURE(set_up, tear_down);

static struct counter counter_of(int fd, int rest_ms)
{
    return (struct counter){
        .source = {.serve = serve, .fd = fd}, .rest_ms = rest_ms, .listens = -1};
}

/** Wake a source and wait until the thread has visited all of its sources since the call. */
static void pass_a_round(struct counter *other)
{
    const unsigned before = load(&other->calls);

    rawe_service_wake(&other->source, 0);
    await(&other->calls, before + 1);
    rawe_service_wake(&other->source, 0);
    await(&other->calls, before + 2);
}

TEST(add__is_served_at_once_and_then_left_alone)
{
    struct counter one = counter_of(-1, -1), other = counter_of(-1, -1);

    add(&one);
    await(&one.calls, 1);
    add(&other);
    pass_a_round(&other);
    assert_int_equal(load(&one.calls), 1);
    rawe_service_remove(&one.source);
    rawe_service_remove(&other.source);
}

TEST(serve_sources__for_its_descriptor_its_time_and_when_woken)
{
    struct counter reader = counter_of(ends[0], -1), timed = counter_of(-1, 1);
    add(&reader);
    add(&timed);
    await(&timed.calls, 3);
    assert_int_equal(load(&reader.readable_calls), 0);
    assert_int_equal(write(ends[1], "ab", 2), 2);
    await(&reader.readable_calls, 2);
    const unsigned calls = load(&reader.calls);
    rawe_service_wake(&reader.source, 0);
    await(&reader.calls, calls + 1);
    assert_int_equal(load(&reader.readable_calls), 2);
    rawe_service_remove(&reader.source);
    rawe_service_remove(&timed.source);
}

TEST(listen__it_is_served_for_that_descriptor_until_it_listens_no_more)
{
    struct counter one = counter_of(-1, -1), other = counter_of(-1, -1);

    assert_int_equal(write(ends[1], "a", 1), 1);
    add(&one);
    add(&other);
    pass_a_round(&other);
    assert_int_equal(load(&one.readable_calls), 0);
    __atomic_store_n(&one.listens, ends[0], __ATOMIC_SEQ_CST);
    rawe_service_wake(&one.source, 0);
    await(&one.readable_calls, 2); /* the source reads nothing */
    __atomic_store_n(&one.listens, -1, __ATOMIC_SEQ_CST);
    pass_a_round(&other);
    const unsigned calls = load(&one.readable_calls);
    pass_a_round(&other);
    assert_int_equal(load(&one.readable_calls), calls);
    __atomic_store_n(&one.listens, ends[0], __ATOMIC_SEQ_CST);
    rawe_service_wake(&one.source, 0);
    await(&one.readable_calls, calls + 1);
    rawe_service_remove(&one.source); /* the thread no longer uses the source */
    pass_a_round(&other);
    rawe_service_remove(&other.source);
}

TEST(wake__after_some_time_or_before)
{
    struct counter one = counter_of(-1, -1), other = counter_of(-1, -1);

    add(&one);
    add(&other);
    pass_a_round(&other);
    const unsigned calls = load(&one.calls);
    const uint64_t before_ns = rawe_port_clock_ns();
    rawe_service_wake(&one.source, 50000);
    rawe_service_wake(&other.source, 1000000000); /* in us; does not delay the first source */
    await(&one.calls, calls + 1);
    assert_true(rawe_port_clock_ns() - before_ns >= 50000000);
    rawe_service_wake(&one.source, 1000000000);
    rawe_service_wake(&other.source, 500); /* due first: both sources are served */
    await(&one.calls, calls + 2);
    rawe_service_remove(&one.source);
    rawe_service_remove(&other.source);
}

/** Otherwise the thread would spin on a source that remains readable. */
TEST(serve__a_deaf_source_is_not_called_for_its_descriptor)
{
    struct counter deaf = counter_of(ends[0], -1), other = counter_of(-1, -1);
    /* The thread reads this field. */
    // cppcheck-suppress unreadVariable
    deaf.reads_nothing = true;
    add(&deaf);
    add(&other);
    await(&deaf.calls, 1);
    assert_int_equal(write(ends[1], "a", 1), 1);
    pass_a_round(&other);
    assert_int_equal(load(&deaf.readable_calls), 0);
    rawe_service_remove(&deaf.source);
    rawe_service_remove(&other.source);
}

TEST(remove__neither_source_nor_descriptor_are_used_any_more)
{
    struct counter other = counter_of(-1, -1);
    char byte;

    add(&other);
    for (unsigned i = 0; i < 100; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct counter one = counter_of(pair[0], -1);
        add(&one);
        await(&one.calls, 1);
        rawe_service_remove(&one.source);
        assert_null(one.source.service);
        const unsigned calls = load(&one.calls);
        assert_int_equal(write(pair[1], "a", 1), 1);
        rawe_service_wake(&one.source, 0);
        pass_a_round(&other);
        assert_int_equal(load(&one.calls), calls);
        /* Nothing else holds the file, so the other end sees at once that it is closed. */
        assert_int_equal(read(pair[0], &byte, 1), 1);
        close(pair[0]);
        assert_int_equal(recv(pair[1], &byte, 1, MSG_DONTWAIT), 0);
        close(pair[1]);
    }
    rawe_service_remove(&other.source);
    rawe_service_remove(&other.source); /* the second call does nothing */
    rawe_service_stop(NULL);
}

/** An application may lower the descriptor limit below the number already open. */
TEST(serve__below_a_lowered_limit_of_descriptors)
{
    static struct counter many[8];
    struct rlimit before, lowered;

    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        many[i] = counter_of(i == 0 ? ends[0] : -1, -1);
        add(&many[i]);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    lowered = before;
    lowered.rlim_cur = 4;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lowered), 0);
    pass_a_round(&many[1]);
    assert_int_equal(write(ends[1], "a", 1), 1);
    await(&many[0].readable_calls, 1);
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        rawe_service_remove(&many[i].source);
    }
    rawe_service_stop(service);
    service = NULL;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/** A counter whose first call replaces the file behind its descriptor. */
struct replacer {
    struct counter counter; /**< must be first */
    int other;
};

static int serve_and_replace(struct rawe_service_source *source, short events)
{
    struct replacer *replacer = (struct replacer *)source;

    if (replacer->other >= 0) {
        rawe_service_unwatch(source);
        assert_int_equal(dup2(replacer->other, source->fd), source->fd);
        close(replacer->other);
        replacer->other = -1;
    }
    return serve(source, events);
}

TEST(unwatch__another_file_is_served_under_the_same_number)
{
    int others[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
    struct replacer replacer = {counter_of(ends[0], -1), others[0]};
    replacer.counter.source.serve = serve_and_replace;
    add(&replacer.counter);
    await(&replacer.counter.calls, 1);
    assert_int_equal(write(others[1], "ab", 2), 2);
    await(&replacer.counter.readable_calls, 2);
    rawe_service_remove(&replacer.counter.source);
    close(others[1]);
}

TEST(add__refuses_what_cannot_be_waited_for)
{
    struct counter one = counter_of(1 << 20, -1);
    struct rawe_port_error error;

    assert_int_equal(rawe_service_add(service, &one.source, &error), -1);
    assert_int_equal(error.code, EBADF);
    assert_null(one.source.service);
}

/** Poll under SCHED_FIFO, bound to one processor, like a rank. */
static void *poll_main(void *context)
{
    const struct sched_param first = {.sched_priority = 1};
    bool *served = context;
    struct timespec begin, now;
    cpu_set_t processor;

    CPU_ZERO(&processor);
    CPU_SET(sched_getcpu(), &processor);
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) != 0 ||
        sched_setaffinity(0, sizeof processor, &processor) != 0) {
        return NULL;
    }
    struct rawe_service *own = start();
    struct counter one = counter_of(-1, 1);
    struct rawe_port_error error;
    assert_int_equal(rawe_service_add(own, &one.source, &error), 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        *served = load(&one.calls) >= 3;
    } while (!*served && now.tv_sec - begin.tv_sec < 3);
    rawe_service_remove(&one.source);
    rawe_service_stop(own);
    return context;
}

TEST(start__is_not_starved_by_a_rank_with_real_time_priority)
{
    bool served = false;
    void *tried;
    pthread_t rank;

    assert_int_equal(pthread_create(&rank, NULL, poll_main, &served), 0);
    assert_int_equal(pthread_join(rank, &tried), 0);
    if (tried == NULL) {
        skip(); /* real-time scheduling is not permitted */
    }
    assert_true(served);
}

/** Lower this thread's nice value as far as permitted, and store it in `value`. */
static void *take_least(void *value)
{
    (void)setpriority(PRIO_PROCESS, 0, -20);
    *(int *)value = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

/** As take_least, but let rawe_service_adjust_share() lower the value, if that is permitted. */
static void *adjust_share(void *value)
{
    struct rawe_service_share share = {0};

    while (!share.raised && !share.denied && !share.unknown) {
        rawe_service_adjust_share(&share);
        usleep(10000); /* the main thread sleeps as well: it never waits for a processor */
    }
    *(int *)value = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

static int nice_of(void *(*thread_main)(void *))
{
    pthread_t thread;
    int nice;

    assert_int_equal(pthread_create(&thread, NULL, thread_main, &nice), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return nice;
}

TEST(adjust_share__of_this_thread_alone_as_far_as_permitted)
{
    int before = getpriority(PRIO_PROCESS, 0);

    assert_int_equal(nice_of(adjust_share), nice_of(take_least));
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

TEST(is_shared__when_others_run_while_the_main_thread_waits)
{
    assert_false(rawe_service_is_shared(100, 0, 0));
    assert_false(rawe_service_is_shared(100, 12, 0)); /* kernel threads may have run */
    assert_true(rawe_service_is_shared(100, 13, 0));
    assert_false(rawe_service_is_shared(100, 60, 50)); /* the main thread waited for this one */
    assert_true(rawe_service_is_shared(100, 60, 40));
    assert_false(rawe_service_is_shared(100, 0, 50)); /* this thread has its own processor */
}
