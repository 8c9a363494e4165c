/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Finding out which peers can be reached, and with which frame size.
 *
 * For each peer there are trials, one a frame size: the smallest frame, the full MTU, and, when the
 * small one came back but a few full ones did not, the usual sizes between, all at once. A trial
 * sends PINGs at growing intervals until one is answered, or until it has failed:
 *
 *      small   never fails before the caller's timeout: the peer may not have started yet
 *      others  fail TRIES_MIN unanswered frames and FAIL_NS after the small one has passed, and
 *              not before several of the small one's round trips: with one frame in ten lost
 *              each way, ten exchanges in a row fail once in 17 million times
 *
 * The answer is the largest size that passed, once all larger ones have failed.
 *
 * Most processes with several interfaces are on several networks, and most ways between two of them
 * lead nowhere. That a process can be reached some other way ends the patience with those.
 */
#include <stdlib.h>

#include "rawe_responder_internal.h"

#define NS_PER_MS 1000000ull

/** First interval between two frames of a trial; each next one is half as long again. */
#define INTERVAL_FIRST_NS (2 * NS_PER_MS)
#define INTERVAL_MAX_NS (50 * NS_PER_MS)

/** When a trial has failed: this many frames, this long, and this many round trips. */
#define TRIES_MIN 10u
#define FAIL_NS (300 * NS_PER_MS)
#define FAIL_NS_MAX (2000 * NS_PER_MS)
#define FAIL_ROUND_TRIPS 8u

/**
 * Full frames sent before it is known that the peer is there: a switch floods unknown addresses.
 */
#define BLIND_TRIES 3u

/** Unanswered full frames, the peer being there, after which the sizes between are tried too. */
#define TRIES_BEFORE_BETWEEN 4u

/**
 * Pace: a quarter of our ring every so often. The others do the same to us at the same time,
 * and each probe of ours comes back.
 */
#define PACE_NS (2 * NS_PER_MS)
#define PACE_RING_PART 4u

/** How long better ways are still tried once there is a good one: which is used matters little. */
#define BETTER_WAY_NS (20 * NS_PER_MS)

/** With witnesses there is more than one table of answers to look at. */
#define WITNESS_LOOK_NS (2 * NS_PER_MS)

/** MTUs that switches, drivers and tunnels are known to be limited to, falling. */
static const uint32_t usual_mtus[] = {32000, 16000, 9198, 9000, 8996, 8950, 8192, 8000, 4074, 4000,
                                      2000,  1500,  1496, 1492, 1450, 1400, 1280, 1024, 576};

#define BETWEEN_MAX (sizeof usual_mtus / sizeof usual_mtus[0])

enum trial_state { TRIAL_UNDER_WAY, TRIAL_PASSED, TRIAL_FAILED };

struct trial {
    enum trial_state state;
    struct rawe_responder *responder;
    int probe; /**< index in the responder's table */
    uint32_t mtu_bytes;
    unsigned tries;
    uint64_t first_ns; /**< when the tries that count began; 0: not yet */
    uint64_t next_ns;  /**< when to send again */
    uint64_t interval_ns;
};

/** A way to a peer. */
struct peer {
    struct rawe_reach *reach;
    uint64_t reached_ns; /**< in the first of a process: it has been reached since; 0: not yet */
    uint64_t good_ns;    /**< in the first: since when there is a good way; 0: none yet */
    bool done;
    struct trial small;
    struct trial full;
    struct trial *between; /**< falling sizes; NULL: not needed yet */
    unsigned between_count;
    uint64_t small_round_trip_ns; /**< upper bound, from the first frame on; 0: not passed yet */
};

/** One call of rawe_responder_reach. */
struct search {
    struct rawe_responder *responder;
    uint64_t now_ns;
    uint64_t wake_ns;  /**< earliest time at which something is due */
    unsigned allowance; /**< frames that may be sent now */
    uint64_t refilled_ns;
};

static struct rawe_ping_table *probes_of(const struct trial *trial)
{
    return rawe_responder_ping_table(trial->responder);
}

/** Returns false when there is no memory for it. */
static bool start_trial(struct search *search, struct trial *trial, const struct rawe_reach *reach,
                        uint32_t mtu_bytes)
{
    *trial = (struct trial){
        .responder = reach->witness != NULL ? reach->witness : search->responder,
        .mtu_bytes = mtu_bytes,
        .next_ns = search->now_ns,
        .interval_ns = INTERVAL_FIRST_NS,
    };
    trial->probe = rawe_ping_table_add(probes_of(trial), reach->mac, reach->port, reach->key,
                                  mtu_bytes - RAWE_HEADER_BYTES);
    if (trial->probe < 0) {
        trial->state = TRIAL_FAILED;
    }
    return trial->probe >= 0;
}

static void end_trial(struct trial *trial)
{
    if (trial->probe >= 0) {
        rawe_ping_table_remove(probes_of(trial), trial->probe);
        trial->probe = -1;
    }
}

static void note_due(struct search *search, uint64_t when_ns)
{
    if (when_ns < search->wake_ns) {
        search->wake_ns = when_ns;
    }
}

/** Has an answer come? */
static bool has_passed(struct trial *trial)
{
    if (trial->state == TRIAL_UNDER_WAY &&
        rawe_ping_table_pong_ns(probes_of(trial), trial->probe) != 0) {
        trial->state = TRIAL_PASSED;
    }
    return trial->state == TRIAL_PASSED;
}

/** Send the trial's next frame if it is due and the pace allows. */
static void send_if_due(struct search *search, struct trial *trial)
{
    if (trial->next_ns <= search->now_ns) {
        if (search->allowance == 0) {
            note_due(search, search->refilled_ns + PACE_NS);
            return;
        }
        search->allowance--;
        if (trial->first_ns == 0) {
            trial->first_ns = search->now_ns;
        }
        rawe_responder_send_ping(trial->responder, trial->probe);
        trial->tries++;
        trial->next_ns = search->now_ns + trial->interval_ns;
        trial->interval_ns += trial->interval_ns / 2;
        if (trial->interval_ns > INTERVAL_MAX_NS) {
            trial->interval_ns = INTERVAL_MAX_NS;
        }
    }
    note_due(search, trial->next_ns);
}

/** Go on with a trial of more than the small size, the peer being there. */
static void advance_trial(struct search *search, const struct peer *peer, struct trial *trial)
{
    uint64_t fail_ns = FAIL_ROUND_TRIPS * peer->small_round_trip_ns;

    if (trial->state != TRIAL_UNDER_WAY || has_passed(trial)) {
        return;
    }
    if (fail_ns < FAIL_NS) {
        fail_ns = FAIL_NS;
    } else if (fail_ns > FAIL_NS_MAX) {
        fail_ns = FAIL_NS_MAX; /* a peer that started late looks like a slow one */
    }
    if (trial->tries >= TRIES_MIN && search->now_ns - trial->first_ns >= fail_ns) {
        trial->state = TRIAL_FAILED;
        return;
    }
    send_if_due(search, trial);
}

/** The peer is there: what was sent of the full size before does not count, begin anew. */
static void note_small_passed(struct search *search, struct peer *peer)
{
    const uint64_t pong_ns = rawe_ping_table_pong_ns(probes_of(&peer->small), peer->small.probe);

    peer->reach->small_passed = true;
    peer->small_round_trip_ns = pong_ns - peer->small.first_ns + 1;
    peer->full.tries = 0;
    peer->full.first_ns = 0;
    peer->full.interval_ns = INTERVAL_FIRST_NS;
    /* The frame that went out beside the small one has its chance first. */
    peer->full.next_ns = search->now_ns + INTERVAL_FIRST_NS;
    note_due(search, peer->full.next_ns);
}

static void start_between(struct search *search, struct peer *peer)
{
    peer->between = calloc(BETWEEN_MAX, sizeof peer->between[0]);
    if (peer->between == NULL) {
        return;
    }
    for (unsigned i = 0; i < BETWEEN_MAX; i++) {
        if (usual_mtus[i] < peer->reach->mtu_bytes &&
            start_trial(search, &peer->between[peer->between_count], peer->reach, usual_mtus[i])) {
            peer->between_count++;
        }
    }
}

/** Try the sizes between, from the largest; smaller ones than one that passed are not needed. */
static void advance_between(struct search *search, struct peer *peer)
{
    bool larger_failed = peer->full.state == TRIAL_FAILED;

    for (unsigned i = 0; i < peer->between_count; i++) {
        struct trial *trial = &peer->between[i];
        advance_trial(search, peer, trial);
        if (trial->state == TRIAL_PASSED) {
            peer->reach->mtu_passed_bytes = trial->mtu_bytes;
            peer->done = larger_failed;
            return;
        }
        larger_failed = larger_failed && trial->state == TRIAL_FAILED;
    }
    peer->done = larger_failed; /* not one of them passes */
}

static void advance_peer(struct search *search, struct peer *peer)
{
    struct rawe_reach *reach = peer->reach;

    if (has_passed(&peer->full)) {
        reach->small_passed = true;
        reach->mtu_passed_bytes = reach->mtu_bytes;
        peer->done = true;
        return;
    }
    if (peer->small.state == TRIAL_UNDER_WAY) {
        if (!has_passed(&peer->small)) {
            send_if_due(search, &peer->small);
            if (peer->full.state == TRIAL_UNDER_WAY && peer->full.tries < BLIND_TRIES) {
                send_if_due(search, &peer->full);
            }
            return;
        }
        note_small_passed(search, peer);
    }
    if (peer->small.state == TRIAL_FAILED) {
        peer->done = true; /* out of memory: nothing can be found out */
        return;
    }
    advance_trial(search, peer, &peer->full);
    if (peer->full.state == TRIAL_PASSED) {
        advance_peer(search, peer);
        return;
    }
    if (peer->between == NULL &&
        (peer->full.tries >= TRIES_BEFORE_BETWEEN || peer->full.state == TRIAL_FAILED)) {
        start_between(search, peer);
    }
    if (peer->between != NULL || peer->full.state == TRIAL_FAILED) {
        advance_between(search, peer);
    }
}

/** Only whether it is there. */
static void advance_witness(struct search *search, struct peer *peer)
{
    peer->reach->small_passed = has_passed(&peer->small);
    peer->done = peer->reach->small_passed || peer->small.state == TRIAL_FAILED;
    if (!peer->done) {
        send_if_due(search, &peer->small);
    }
}

/**
 * What the ways to one process, `count` of them, mean for each other. Returns how many still have
 * to be found out, not counting witnesses.
 */
static unsigned advance_process(struct search *search, struct peer *ways, unsigned count)
{
    bool good = false;
    unsigned left = 0;

    for (unsigned i = 0; i < count; i++) {
        if (ways[i].reach->small_passed && ways[0].reached_ns == 0) {
            ways[0].reached_ns = search->now_ns;
        }
        if (ways[i].reach->mtu_passed_bytes != 0 && ways[0].good_ns == 0) {
            ways[0].good_ns = search->now_ns;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        struct peer *way = &ways[i];
        const struct rawe_reach *reach = way->reach;
        uint64_t end_ns = ways[0].reached_ns + reach->other_way_ns;
        if (ways[0].good_ns != 0 && end_ns > ways[0].good_ns + BETTER_WAY_NS) {
            end_ns = ways[0].good_ns + BETTER_WAY_NS;
        }
        if (!way->done && ways[0].reached_ns != 0 && !reach->small_passed &&
            reach->other_way_ns != 0) {
            way->done = search->now_ns >= end_ns;
            if (!way->done) {
                note_due(search, end_ns);
            }
        }
        way->done = way->done || good;
        good = good || (way->done && reach->mtu_passed_bytes != 0);
        left += !way->done && reach->witness == NULL;
    }
    return left;
}

static void begin_peer(struct search *search, struct peer *peer, struct rawe_reach *reach)
{
    *peer = (struct peer){.reach = reach, .small.probe = -1, .full.probe = -1};
    peer->reached_ns = reach->reached_elsewhere ? search->now_ns : 0;
    reach->mtu_passed_bytes = 0;
    reach->small_passed = false;
    if (reach->mtu_bytes > RAWE_HEADER_BYTES + UINT16_MAX) {
        reach->mtu_bytes = RAWE_HEADER_BYTES + UINT16_MAX;
    }
    start_trial(search, &peer->small, reach, RAWE_HEADER_BYTES + RAWE_PING_BYTES);
    if (reach->witness != NULL) {
        return;
    }
    if (reach->mtu_bytes > RAWE_HEADER_BYTES + RAWE_PING_BYTES) {
        start_trial(search, &peer->full, reach, reach->mtu_bytes);
    } else {
        peer->full.state = TRIAL_FAILED; /* no MTU that anything could be sent with */
    }
}

static void end_peer(struct peer *peer)
{
    end_trial(&peer->small);
    end_trial(&peer->full);
    for (unsigned i = 0; i < peer->between_count; i++) {
        end_trial(&peer->between[i]);
    }
    free(peer->between);
}

void rawe_responder_reach(struct rawe_responder *responder, struct rawe_reach *reaches,
                          unsigned count, uint64_t timeout_ns)
{
    const unsigned pace = rawe_responder_ring_frames(responder) / PACE_RING_PART + 1;
    struct search search = {
        .responder = responder,
        .now_ns = rawe_responder_now_ns(),
    };
    const uint64_t end_ns = search.now_ns + timeout_ns;
    struct peer *peers = calloc(count + 1, sizeof *peers);
    unsigned left = count;
    unsigned first = 0;
    bool witnesses = false;

    for (unsigned i = 0; i < count; i++) {
        reaches[i].mtu_passed_bytes = 0;
        reaches[i].small_passed = false;
        witnesses = witnesses || reaches[i].witness != NULL;
        if (peers != NULL) {
            begin_peer(&search, &peers[i], &reaches[i]);
        }
    }
    while (peers != NULL && left > 0) {
        const uint64_t seen = rawe_ping_table_answers(rawe_responder_ping_table(responder));

        search.now_ns = rawe_responder_now_ns();
        search.wake_ns = witnesses ? search.now_ns + WITNESS_LOOK_NS : end_ns;
        if (search.now_ns - search.refilled_ns >= PACE_NS) {
            search.allowance = pace;
            search.refilled_ns = search.now_ns;
        }
        /* Begin with another one each time, so that the pace holds up nobody in particular. */
        for (unsigned n = 0; n < count; n++) {
            struct peer *peer = &peers[(first + n) % count];
            if (!peer->done && peer->reach->witness != NULL) {
                advance_witness(&search, peer);
            } else if (!peer->done) {
                advance_peer(&search, peer);
            }
        }
        left = 0;
        for (unsigned i = 0, ways; i < count; i += ways) {
            for (ways = 1; i + ways < count && reaches[i + ways].another_way; ways++) {
            }
            left += advance_process(&search, &peers[i], ways);
        }
        first = (first + pace) % count;
        if (left == 0 || search.now_ns >= end_ns) {
            break;
        }
        rawe_ping_table_wait(rawe_responder_ping_table(responder), seen, search.wake_ns);
    }
    for (unsigned i = 0; peers != NULL && i < count; i++) {
        end_peer(&peers[i]);
    }
    free(peers);
}
