/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Path discovery. test/sim/path simulates it; each bug path-... of test/sim/planted.txt removes one
 * rule, which the simulator must notice.
 */
#include "rawe_path.h"

#include <assert.h>

#define NS_PER_MS 1000000ull

/** Interval between rounds of a path. It doubles each round, so that absent peers cost little. */
#define INTERVAL_FIRST_NS (2 * NS_PER_MS)
#define INTERVAL_MAX_NS (100 * NS_PER_MS)

/** Rounds that try only the full size, which passes on almost all networks. */
#define ROUNDS_FULL_ALONE 4u

/**
 * After this many rounds, 9 of them since a larger size passed, in 930 ms, sizes that have not
 * passed are too large. Earlier rounds show nothing: the peer may have been stopped, and its later
 * answers too many for our ring. Each size is tried at least 10 times, the round that passed
 * included: with one frame in ten lost each way, all fail once in 17 million times. If nothing has
 * passed, the responder may not have run, with many ranks on few cores: it must answer all sizes,
 * and the full size is sent repeatedly.
 */
#define ROUNDS_MAX (ROUNDS_FULL_ALONE + 9u)

/** Pacing interval: a responder that may be slow must receive the answers. */
#define PACE_NS (2 * NS_PER_MS)

/** How long a path is tested once its process is known to be present. */
#define PATIENCE_NS (500 * NS_PER_MS)

/** How long a path is tested if an answer is unlikely, or a worse path is already usable. */
#define PATIENCE_SHORT_NS (20 * NS_PER_MS)

/** When a fallback is asked for the first time: where the other paths lead to the process, never. */
#define FALLBACK_NS (100 * NS_PER_MS)

/** A process is silent only after this many PINGs: with many processes, the pace allows few. */
#define PINGS_MIN 8u

/** While our process runs, passes are no further apart than this. */
#define OWN_PAUSE_NS (1000 * NS_PER_MS)

/** How much of a longer pause counts, so that the search ends even if it is called late. */
#define OWN_PAUSE_COUNTED_NS (INTERVAL_MAX_NS / 2)

/** MTU limits of common switches, drivers and tunnels, in descending order. */
static const uint32_t usual_mtus[] = {32000, 16000, 9198, 9000, 8996, 8950, 8192, 8000, 4074, 4000,
                                      2000,  1500,  1496, 1492, 1450, 1400, 1280, 1024, 576};

#define USUAL_MTUS (sizeof usual_mtus / sizeof usual_mtus[0])

unsigned rawe_path_paced_pings(unsigned ring_frames, unsigned frames_per_s)
{
    const unsigned ring_part = ring_frames / 4 + 1;
    const unsigned served = (unsigned)(frames_per_s * PACE_NS / (1000 * NS_PER_MS)) / 2;

    return ring_part < served || served == 0 ? ring_part : served;
}

static void begin_round_now(struct rawe_path *path, uint64_t now_ns)
{
    path->round = 0;
    path->size = 0;
    path->asked = 0;
    path->asked_ns = 0;
    path->next_ns = now_ns;
    path->interval_ns = INTERVAL_FIRST_NS;
}

void rawe_path_search_begin(struct rawe_path_search *search, struct rawe_path *paths,
                            unsigned count, unsigned paced_pings, uint64_t now_ns,
                            uint64_t timeout_ns)
{
    assert(paced_pings != 0);
    *search = (struct rawe_path_search){
        .paths = paths,
        .count = count,
        .paced_pings = paced_pings,
        .budget = paced_pings,
        .now_ns = now_ns,
        .refilled_ns = now_ns,
        .deadline_ns = now_ns + timeout_ns,
    };
    for (unsigned i = 0; i < count; i++) {
        struct rawe_path *path = &paths[i];
        if (path->mtu_bytes > RAWE_PATH_MTU_LARGEST_BYTES) {
            path->mtu_bytes = RAWE_PATH_MTU_LARGEST_BYTES;
        }
        path->reachable = false;
        path->mtu_passed_bytes = 0;
        path->refused = false;
        path->done = false;
        path->present_ns = path->process_known ? now_ns : 0;
        path->usable_ns = 0;
        path->heard_ns = 0;
        begin_round_now(path, now_ns + (path->fallback ? FALLBACK_NS : 0));
    }
}

/** Return the first path to the process that this path leads to. */
static struct rawe_path *head_of(const struct rawe_path_search *search, unsigned index)
{
    while (search->paths[index].same_process) {
        index--;
    }
    return &search->paths[index];
}

void rawe_path_search_answered(struct rawe_path_search *search, unsigned index, uint32_t mtu_bytes)
{
    struct rawe_path *path = &search->paths[index];

    if (mtu_bytes > path->mtu_bytes && mtu_bytes != RAWE_PATH_MTU_SMALLEST_BYTES) {
        return; /* no PING of this size was sent */
    }
    if (head_of(search, index)->refused) {
        return; /* this answer was sent before the refusal, over another path */
    }
    if (!path->reachable) {
        path->reachable = true;
        begin_round_now(path, search->now_ns);
    }
    if (path->mtu_certain) {
        path->mtu_passed_bytes = path->mtu_bytes;
    } else if (mtu_bytes != RAWE_PATH_MTU_SMALLEST_BYTES && mtu_bytes > path->mtu_passed_bytes) {
        path->mtu_passed_bytes = mtu_bytes;
        path->round = path->round < ROUNDS_FULL_ALONE ? path->round : ROUNDS_FULL_ALONE;
    }
}

void rawe_path_search_heard(struct rawe_path_search *search, unsigned index)
{
    head_of(search, index)->heard_ns = search->now_ns;
}

void rawe_path_search_refused(struct rawe_path_search *search, unsigned index)
{
    struct rawe_path *path = head_of(search, index);

    path->refused = true;
    do {
        path->reachable = false;
        path->mtu_passed_bytes = 0;
        path++;
    } while (path != &search->paths[search->count] && path->same_process);
}

bool rawe_path_search_gives_up(const struct rawe_path_search *search, unsigned index)
{
    const struct rawe_path *head = head_of(search, index), *path = head;
    bool usable = head->process_known;

    do {
        usable = usable || path->mtu_passed_bytes != 0;
        path++;
    } while (path != &search->paths[search->count] && path->same_process);
    return head->last_chance && !usable;
}

/** Return true if testing this path can reveal nothing more. */
static bool is_known(const struct rawe_path *path, uint64_t now_ns)
{
    if (!path->reachable) {
        return false;
    }
    return path->indirect || path->mtu_bytes <= RAWE_PATH_MTU_SMALLEST_BYTES ||
           path->mtu_passed_bytes == path->mtu_bytes ||
           (path->round == ROUNDS_MAX && path->mtu_passed_bytes != 0 && now_ns >= path->next_ns);
}

/** Return when to give up on a path that has not answered, although its process is present. */
static uint64_t patience_end_ns(const struct rawe_path *path, const struct rawe_path *head)
{
    uint64_t end_ns = head->present_ns + (path->deprioritized ? PATIENCE_SHORT_NS : PATIENCE_NS);
    uint64_t usable_end_ns = head->usable_ns + PATIENCE_SHORT_NS;

    end_ns = head->usable_ns != 0 && usable_end_ns < end_ns ? usable_end_ns : end_ns;
    /* With many other paths, this path's first PING may be late. */
    const uint64_t asked_end_ns = path->asked_ns + PATIENCE_SHORT_NS;
    return asked_end_ns > end_ns ? asked_end_ns : end_ns;
}

static void wake_by(struct rawe_path_search *search, uint64_t when_ns)
{
    if (when_ns + search->skipped_ns < search->wake_ns) {
        search->wake_ns = when_ns + search->skipped_ns;
    }
}

/** Restart all paths to a process that has just started, to give them equal chances. */
static void ask_again(struct rawe_path *head, unsigned count, uint64_t now_ns)
{
    for (unsigned i = 0; i < count; i++) {
        if (!head[i].reachable && !head[i].fallback) {
            begin_round_now(&head[i], now_ns);
        }
    }
}

/** Return true if the process has not answered for as long as the search waits for it. */
static bool is_silent(struct rawe_path_search *search, const struct rawe_path *head)
{
    const uint64_t since_ns = head->heard_ns > head->asked_ns ? head->heard_ns : head->asked_ns;
    const uint64_t end_ns = since_ns + head->silence_ns;

    if (head->silence_ns == 0 || head->present_ns != 0 || head->asked < PINGS_MIN) {
        return false;
    }
    if (search->now_ns < end_ns) {
        wake_by(search, end_ns);
        return false;
    }
    return true;
}

/** Apply what the `count` paths to one process imply for each other. */
static void judge_process(struct rawe_path_search *search, struct rawe_path *head, unsigned count)
{
    bool chosen = false; /* a better path is known to be usable */

    for (unsigned i = 0; i < count; i++) {
        if (head[i].reachable && head->present_ns == 0) {
            head->present_ns = search->now_ns;
            ask_again(head, count, search->now_ns);
        }
        if (head[i].mtu_passed_bytes != 0 && head->usable_ns == 0) {
            head->usable_ns = search->now_ns;
        }
    }
    const bool over = head->refused || is_silent(search, head);
    for (unsigned i = 0; i < count; i++) {
        struct rawe_path *path = &head[i];
        path->done = path->done || over || chosen || is_known(path, search->now_ns) ||
                     (path->fallback && head->present_ns != 0);
        if (!path->done && !path->reachable && head->present_ns != 0 && path->asked_ns != 0) {
            const uint64_t end_ns = patience_end_ns(path, head);
            path->done = search->now_ns >= end_ns;
            if (!path->done) {
                wake_by(search, end_ns);
            }
        }
        chosen = chosen || (path->done && path->mtu_passed_bytes != 0);
        search->unknown += !path->done && !path->indirect;
    }
}

bool rawe_path_search_advance(struct rawe_path_search *search, uint64_t now_ns)
{
    now_ns -= search->skipped_ns;
    /* Our own pauses do not count as silence: a job may be suspended and resumed. */
    if (now_ns - search->now_ns > OWN_PAUSE_NS) {
        search->skipped_ns += now_ns - search->now_ns - OWN_PAUSE_COUNTED_NS;
        now_ns = search->now_ns + OWN_PAUSE_COUNTED_NS;
    }
    search->now_ns = now_ns;
    search->wake_ns = search->deadline_ns + search->skipped_ns;
    search->scanned = 0;
    search->unknown = 0;
    if (now_ns - search->refilled_ns >= PACE_NS) {
        search->budget = search->paced_pings;
        search->refilled_ns = now_ns;
    }
    for (unsigned i = 0, paths; i < search->count; i += paths) {
        for (paths = 1; i + paths < search->count && search->paths[i + paths].same_process;) {
            paths++;
        }
        judge_process(search, &search->paths[i], paths);
    }
    return search->unknown != 0 && now_ns < search->deadline_ns;
}

/** Return the next MTU in the path's round; 0: the round is over. */
static uint32_t next_mtu(struct rawe_path *path)
{
    const uint8_t index = path->size++;

    if (index == 0) {
        return path->reachable ? path->mtu_bytes : RAWE_PATH_MTU_SMALLEST_BYTES;
    }
    if (!path->reachable || path->round < ROUNDS_FULL_ALONE || path->round == ROUNDS_MAX) {
        return 0;
    }
    for (unsigned i = index - 1u; i < USUAL_MTUS; i++) {
        const uint32_t mtu_bytes = usual_mtus[i] - path->overhead_bytes;
        if (mtu_bytes <= path->mtu_passed_bytes) {
            break;
        }
        if (mtu_bytes < path->mtu_bytes) {
            path->size = (uint8_t)(i + 2);
            return mtu_bytes;
        }
    }
    return 0;
}

static void end_probe_round(struct rawe_path_search *search, struct rawe_path *path)
{
    path->round += path->reachable && path->round < ROUNDS_MAX;
    path->size = 0;
    path->next_ns = search->now_ns + path->interval_ns;
    path->interval_ns *= 2;
    if (path->interval_ns > INTERVAL_MAX_NS) {
        path->interval_ns = INTERVAL_MAX_NS;
    }
}

bool rawe_path_search_next(struct rawe_path_search *search, struct rawe_path_ping *ping)
{
    for (; search->scanned < search->count; search->scanned++) {
        const unsigned index = (search->first + search->scanned) % search->count;
        struct rawe_path *path = &search->paths[index];
        if (path->done) {
            continue;
        }
        if (path->next_ns <= search->now_ns &&
            (path->round < ROUNDS_MAX || path->mtu_passed_bytes == 0)) {
            if (search->budget == 0) {
                search->first = index;
                wake_by(search, search->refilled_ns + PACE_NS);
                return false;
            }
            const uint32_t mtu_bytes = next_mtu(path);
            if (mtu_bytes != 0) {
                search->budget--;
                path->asked_ns = path->asked_ns != 0 ? path->asked_ns : search->now_ns;
                path->asked += path->asked < PINGS_MIN;
                *ping = (struct rawe_path_ping){.path = index, .mtu_bytes = mtu_bytes};
                return true;
            }
            end_probe_round(search, path);
        }
        wake_by(search, path->next_ns);
    }
    return false;
}
