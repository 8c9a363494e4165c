/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of path discovery, step by step. For whole networks, see test/sim/path.
 */
#include "linux/probe/rawe_path.h"
#include "unit_test.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define SMALLEST RAWE_PATH_MTU_SMALLEST_BYTES

static struct rawe_path_search search;
static struct rawe_path paths[8];
static uint64_t now_ns;

/** Begin a search of one path; only its MTU is known. */
static void begin_one(uint32_t mtu_bytes)
{
    paths[0] = (struct rawe_path){.mtu_bytes = mtu_bytes};
    now_ns = SECOND;
    rawe_path_search_begin(&search, paths, 1, 100, now_ns, 10 * SECOND);
}

/** Run the next pass; store the MTUs probed on path 0, at most `most`. Returns their number. */
static unsigned pass(uint32_t *mtus, unsigned most)
{
    struct rawe_path_ping ping;
    unsigned count = 0;

    if (!rawe_path_search_advance(&search, now_ns)) {
        return 0;
    }
    while (rawe_path_search_next(&search, &ping)) {
        if (ping.path == 0 && count < most) {
            mtus[count++] = ping.mtu_bytes;
        }
    }
    return count;
}

/** Run passes until the search ends; only probes that fit `carries` are answered. */
static void run(uint32_t carries)
{
    struct rawe_path_ping ping;

    while (rawe_path_search_advance(&search, now_ns)) {
        uint32_t came[64];
        unsigned from[64], count = 0;
        while (rawe_path_search_next(&search, &ping)) {
            if (ping.mtu_bytes <= carries && count < 64) {
                from[count] = ping.path;
                came[count++] = ping.mtu_bytes;
            }
        }
        assert_true(search.wake_ns > now_ns);
        for (unsigned i = 0; i < count; i++) {
            rawe_path_search_answered(&search, from[i], came[i]);
        }
        now_ns = count != 0 ? now_ns + 1000 : search.wake_ns;
    }
}

TEST(search__asks_small_then_full)
{
    uint32_t mtus[4];

    begin_one(1500);
    assert_int_equal(pass(mtus, 4), 1);
    assert_int_equal(mtus[0], SMALLEST);
    rawe_path_search_answered(&search, 0, SMALLEST);
    assert_int_equal(pass(mtus, 4), 1);
    assert_int_equal(mtus[0], 1500);
    rawe_path_search_answered(&search, 0, 1500);
    assert_false(rawe_path_search_advance(&search, now_ns));
    assert_true(paths[0].reachable);
    assert_int_equal(paths[0].mtu_passed_bytes, 1500);
}

TEST(search__asks_no_size_where_nothing_lies_between)
{
    uint32_t mtus[4];

    begin_one(65536);
    paths[0].mtu_certain = true;
    assert_int_equal(pass(mtus, 4), 1);
    assert_int_equal(mtus[0], SMALLEST);
    assert_int_equal(paths[0].mtu_passed_bytes, 0);
    rawe_path_search_answered(&search, 0, SMALLEST);
    assert_int_equal(pass(mtus, 4), 0);
    assert_true(paths[0].done);
    assert_int_equal(paths[0].mtu_passed_bytes, 65536);
}

TEST(search__repeats_at_growing_intervals)
{
    uint32_t mtus[4];
    uint64_t interval_ns = 2 * MS;

    begin_one(1500);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(pass(mtus, 4), 1);
        assert_int_equal(mtus[0], SMALLEST);
        assert_int_equal(search.wake_ns - now_ns, interval_ns);
        now_ns += interval_ns - 1;
        assert_int_equal(pass(mtus, 4), 0);
        now_ns++;
        interval_ns = interval_ns * 2 < 100 * MS ? interval_ns * 2 : 100 * MS;
    }
}

TEST(search__ends_however_rarely_it_goes_on)
{
    begin_one(1500);
    for (unsigned i = 0; i < 201; i++) {
        struct rawe_path_ping ping;
        (void)rawe_path_search_advance(&search, now_ns);
        while (rawe_path_search_next(&search, &ping)) {
        }
        now_ns += 100 * SECOND;
    }
    assert_false(rawe_path_search_advance(&search, now_ns));
}

TEST(search__finds_the_largest_usual_size)
{
    static const struct {
        uint32_t mtu, carries, found;
    } cases[] = {
        {9000, 8999, 8996},    {9000, 4050, 4000}, {9000, 1500, 1500}, {1500, 1499, 1496},
        {1500, 600, 576},      {1500, 575, 0},     {1500, 40, 0},      {1500, 0, 0},
        {65559, 65559, 65559}, {1400, 1400, 1400}, {577, 576, 576},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_one(cases[i].mtu);
        run(cases[i].carries);
        assert_int_equal(paths[0].reachable, cases[i].carries != 0);
        assert_int_equal(paths[0].mtu_passed_bytes, cases[i].found);
        assert_true(cases[i].found == 0 ? now_ns == 11 * SECOND : now_ns < 3 * SECOND);
    }
}

TEST(search__finds_the_usual_size_less_what_the_network_adds)
{
    begin_one(1472);
    paths[0].overhead_bytes = 28;
    run(1400 - 28);
    assert_int_equal(paths[0].mtu_passed_bytes, 1372);
}

TEST(search__sizes_below_one_that_passed_are_not_asked)
{
    uint32_t mtus[32];

    begin_one(9000);
    (void)pass(mtus, 32);
    rawe_path_search_answered(&search, 0, SMALLEST);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pass(mtus, 32), 1);
        assert_int_equal(mtus[0], 9000);
        now_ns = search.wake_ns;
    }
    assert_int_equal(pass(mtus, 32), 16);
    assert_int_equal(mtus[1], 8996);
    assert_int_equal(mtus[15], 576);
    rawe_path_search_answered(&search, 0, 4000);
    now_ns = search.wake_ns;
    assert_int_equal(pass(mtus, 32), 6);
    assert_int_equal(mtus[5], 4074);
    /* A late answer still counts. */
    rawe_path_search_answered(&search, 0, 9000);
    assert_false(rawe_path_search_advance(&search, now_ns));
    assert_int_equal(paths[0].mtu_passed_bytes, 9000);
}

/** Rounds that a stopped host did not answer show nothing about sizes, though it answers one later. */
TEST(search__rounds_before_an_answer_do_not_count)
{
    uint32_t mtus[32];

    begin_one(65536);
    (void)pass(mtus, 32);
    rawe_path_search_answered(&search, 0, SMALLEST);
    while (now_ns < 5 * SECOND) {
        assert_true(pass(mtus, 32) > 0);
        now_ns = search.wake_ns;
    }
    /* Our full ring has dropped the other answers. */
    rawe_path_search_answered(&search, 0, 9198);
    run(32767);
    assert_int_equal(paths[0].mtu_passed_bytes, 32000);
    assert_true(now_ns < 7 * SECOND);
}

/** A suspended job resumes with the search time that it had left, less 50 ms. */
TEST(search__an_own_pause_is_no_silence)
{
    uint32_t mtus[4];

    begin_one(1500);
    assert_int_equal(pass(mtus, 4), 1);
    now_ns += 3600 * SECOND;
    assert_int_equal(pass(mtus, 4), 1);
    assert_int_equal(search.wake_ns - now_ns, 4 * MS);
    for (unsigned i = 0; i < 9; i++) {
        now_ns += SECOND;
        assert_true(rawe_path_search_advance(&search, now_ns));
    }
    now_ns += 949 * MS;
    assert_true(rawe_path_search_advance(&search, now_ns));
    now_ns += MS;
    assert_false(rawe_path_search_advance(&search, now_ns));
}

/** A fallback shows that the process is present, but is not pinged if a path answers at once. */
TEST(search__asks_a_fallback_late)
{
    struct rawe_path_ping ping;

    for (unsigned answers = 0; answers < 2; answers++) {
        const struct rawe_path path = {.mtu_bytes = 1500};
        unsigned asked = 0;
        uint64_t asked_ns = 0;
        paths[0] = paths[1] = path;
        paths[1].same_process = paths[1].indirect = paths[1].fallback = true;
        now_ns = SECOND;
        rawe_path_search_begin(&search, paths, 2, 100, now_ns, 10 * SECOND);
        while (rawe_path_search_advance(&search, now_ns)) {
            uint32_t came[2] = {0, 0};
            while (rawe_path_search_next(&search, &ping)) {
                came[ping.path] = ping.mtu_bytes;
            }
            if (came[1] != 0) {
                asked_ns = asked++ == 0 ? now_ns : asked_ns;
                rawe_path_search_answered(&search, 1, came[1]);
            }
            if (came[0] != 0 && answers != 0) {
                rawe_path_search_answered(&search, 0, came[0]);
            }
            now_ns = answers != 0 ? now_ns + 1000 : search.wake_ns;
        }
        assert_int_equal(asked, answers == 0 ? 1 : 0);
        assert_int_equal(asked_ns, answers == 0 ? SECOND + 100 * MS : 0);
        assert_int_equal(paths[0].reachable, answers);
    }
    assert_true(now_ns < 2 * SECOND);
}

/** A process that has answered gets the search's whole time. */
TEST(search__ends_after_silence)
{
    for (unsigned answers = 0; answers < 2; answers++) {
        begin_one(1500);
        paths[0].silence_ns = SECOND;
        run(answers == 0 ? 0 : SMALLEST);
        assert_int_equal(now_ns, answers == 0 ? 2 * SECOND : 11 * SECOND);
        assert_int_equal(paths[0].reachable, answers);
    }
}

/** A process that pings us has been answered, and may connect. */
TEST(search__a_process_that_asks_is_not_silent)
{
    struct rawe_path_ping ping;
    unsigned heard = 0;

    paths[0] = (struct rawe_path){.mtu_bytes = 1500, .silence_ns = SECOND, .last_chance = true};
    paths[1] = (struct rawe_path){.mtu_bytes = 1500, .same_process = true};
    now_ns = SECOND;
    rawe_path_search_begin(&search, paths, 2, 100, now_ns, 10 * SECOND);
    while (rawe_path_search_advance(&search, now_ns)) {
        while (rawe_path_search_next(&search, &ping)) {
        }
        if (now_ns >= SECOND + 900 * MS && heard++ == 0) {
            rawe_path_search_heard(&search, 1);
        }
        now_ns = search.wake_ns;
    }
    assert_in_range(now_ns, 2 * SECOND + 900 * MS, 3 * SECOND);
    assert_true(rawe_path_search_gives_up(&search, 0));
}

/** All paths to a process that has given us up are useless, whichever of them said so. */
TEST(search__ends_when_refused)
{
    struct rawe_path_ping ping;

    for (unsigned i = 0; i < 3; i++) {
        paths[i] = (struct rawe_path){
            .mtu_bytes = 1500, .same_process = i == 1, .last_chance = true, .silence_ns = SECOND};
    }
    now_ns = SECOND;
    rawe_path_search_begin(&search, paths, 3, 100, now_ns, 10 * SECOND);
    assert_true(rawe_path_search_advance(&search, now_ns));
    while (rawe_path_search_next(&search, &ping)) {
    }
    rawe_path_search_answered(&search, 0, SMALLEST);
    rawe_path_search_answered(&search, 2, 1500);
    rawe_path_search_answered(&search, 2, SMALLEST);
    rawe_path_search_refused(&search, 1);
    now_ns += MS;
    assert_false(rawe_path_search_advance(&search, now_ns));
    assert_true(paths[0].refused && !paths[0].reachable && !paths[1].reachable);
    assert_true(!paths[2].refused && paths[2].reachable);
    assert_false(rawe_path_search_gives_up(&search, 2));
}

/** Answers from before the refusal may be read after it. */
TEST(search__heeds_no_answer_once_refused)
{
    struct rawe_path_ping ping;

    for (unsigned i = 0; i < 2; i++) {
        paths[i] = (struct rawe_path){.mtu_bytes = 1500, .same_process = i == 1};
    }
    now_ns = SECOND;
    rawe_path_search_begin(&search, paths, 2, 100, now_ns, 10 * SECOND);
    assert_true(rawe_path_search_advance(&search, now_ns));
    while (rawe_path_search_next(&search, &ping)) {
    }
    rawe_path_search_refused(&search, 0);
    rawe_path_search_answered(&search, 1, 1500);
    assert_false(rawe_path_search_advance(&search, now_ns + MS));
    assert_false(paths[1].reachable);
    assert_int_equal(paths[1].mtu_passed_bytes, 0);
}

/** A process that answers, but over no path that carries data, is left to another BTL like any. */
TEST(search__gives_up_a_process_without_a_usable_path)
{
    static const struct {
        const char *name;
        bool last_chance, known, refused;
        unsigned path; /* the one that answers */
        uint32_t answer;
        bool gives_up;
    } cases[] = {
        {"silent", true, false, false, 0, 0, true},
        {"another search follows", false, false, false, 0, 0, false},
        {"usable", true, false, false, 1, 1500, false},
        {"only present", true, false, false, 0, SMALLEST, true},
        {"present for another interface", true, false, false, 2, SMALLEST, true},
        {"reached by another interface", true, true, false, 0, 0, false},
        {"refuses after an answer", true, false, true, 0, 1500, true},
        {"reached by another interface, refuses", true, true, true, 0, 0, false},
    };

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unit_case(cases[i].name);
        struct rawe_path_ping ping;
        for (unsigned k = 0; k < 4; k++) { /* the last one leads to another process */
            paths[k] = (struct rawe_path){.mtu_bytes = 1500,
                                          .process_known = k < 3 && cases[i].known,
                                          .last_chance = k == 0 && cases[i].last_chance,
                                          .same_process = k == 1 || k == 2,
                                          .indirect = k == 2};
        }
        now_ns = SECOND;
        rawe_path_search_begin(&search, paths, 4, 100, now_ns, SECOND);
        (void)rawe_path_search_advance(&search, now_ns);
        while (rawe_path_search_next(&search, &ping)) {
        }
        rawe_path_search_answered(&search, 3, 1500);
        if (cases[i].answer != 0) {
            rawe_path_search_answered(&search, cases[i].path, cases[i].answer);
        }
        (void)rawe_path_search_advance(&search, now_ns + MS);
        if (cases[i].refused) {
            rawe_path_search_refused(&search, 0);
        }
        while (rawe_path_search_advance(&search, now_ns)) {
            while (rawe_path_search_next(&search, &ping)) {
            }
            now_ns = search.wake_ns;
        }
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(rawe_path_search_gives_up(&search, k), cases[i].gives_up);
        }
        assert_false(rawe_path_search_gives_up(&search, 3));
    }
}

/** With one frame in ten lost each way, a size that fails ten times does not pass. */
TEST(search__tries_each_size_ten_times)
{
    struct rawe_path_ping ping;
    unsigned asked = 0;

    begin_one(2044);
    while (rawe_path_search_advance(&search, now_ns)) {
        uint32_t passed = 0;
        while (rawe_path_search_next(&search, &ping)) {
            asked += ping.mtu_bytes == 2000;
            passed = passed == 0 && ping.mtu_bytes <= 1500 ? ping.mtu_bytes : passed;
        }
        if (passed != 0) {
            rawe_path_search_answered(&search, 0, passed);
        }
        now_ns = search.wake_ns;
    }
    assert_int_equal(paths[0].mtu_passed_bytes, 1500);
    assert_int_equal(asked, 10);
}

TEST(search__forgets_an_earlier_refusal)
{
    uint32_t mtus[4];

    begin_one(1500);
    rawe_path_search_refused(&search, 0);
    assert_int_equal(pass(mtus, 4), 0);
    rawe_path_search_begin(&search, paths, 1, 100, now_ns, 10 * SECOND);
    assert_int_equal(pass(mtus, 4), 1);
    rawe_path_search_answered(&search, 0, 1500);
    assert_true(paths[0].reachable);
}

TEST(search__what_was_never_asked_is_no_answer)
{
    uint32_t mtus[4];

    begin_one(1500);
    (void)pass(mtus, 4);
    rawe_path_search_answered(&search, 0, 1501);
    assert_false(paths[0].reachable);
    assert_int_equal(paths[0].mtu_passed_bytes, 0);
}

TEST(search__an_mtu_without_room_is_only_asked_whether_it_answers)
{
    begin_one(SMALLEST);
    run(SMALLEST);
    assert_true(paths[0].reachable);
    assert_int_equal(paths[0].mtu_passed_bytes, 0);
    assert_true(now_ns < 2 * SECOND);
}

TEST(pings__fit_ring_and_responder)
{
    assert_int_equal(rawe_path_paced_pings(600, 20000), 20);
    assert_int_equal(rawe_path_paced_pings(30, 20000), 8);
    assert_int_equal(rawe_path_paced_pings(0, 0), 1);
}
