/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Path discovery: which peers can be reached, and how large frames to them may be. A state machine:
 * the time and the answers are given in, the PINGs to send come out. The caller serializes.
 *
 * One search covers all paths of a call at the same time. Each path goes through
 *
 *   REACH   the smallest frame, again and again: the peer may not have started yet
 *   SIZES   rounds of larger frames: the full size alone first, then all common sizes that are
 *           larger than the largest that has passed
 *
 * and is known when the full size has passed, or when ROUNDS_MAX rounds have brought nothing more.
 *
 * Most paths between processes with several interfaces lead nowhere, as these are on several
 * networks. Paths to the same process therefore bound each other's time.
 */
#ifndef RAWE_PATH_H
#define RAWE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** MTU of the frame that only asks whether the peer is there. */
#define RAWE_PATH_MTU_SMALLEST_BYTES (RAWE_HEADER_BYTES + RAWE_PING_BYTES)

/** Largest MTU a PING can test: the length field of the header has 16 bits. */
#define RAWE_PATH_MTU_LARGEST_BYTES (RAWE_HEADER_BYTES + UINT16_MAX)

/** A path to a process, from one of our interfaces to one of its. */
struct rawe_path {
    /* in */
    uint32_t mtu_bytes; /**< the largest MTU worth testing: both ends' minimum */
    bool same_process;  /**< leads to the process of the path before it, and is a worse choice */
    bool process_known; /**< another interface of ours reaches the process already */
    bool deprioritized; /**< our interface reached no process so far: test it briefly */
    /**
     * Indirect check, through another interface of ours: only finds out that the process is there,
     * which ends the patience with its other paths. Stands behind the others of its process.
     */
    bool indirect;
    /** Only lo lies between: what answers is reached at full size, without large PINGs. */
    bool mtu_certain;
    /* out */
    bool reachable;            /**< a frame came back, be it only the smallest */
    uint32_t mtu_passed_bytes; /**< the largest MTU that came back; 0: none above the smallest */
    /* the search's */
    bool done;
    uint8_t round;        /**< of SIZES: how many have been sent */
    uint8_t size;         /**< index of the size to send next in this round */
    uint64_t asked_ns;    /**< when its first PING left; 0: the pace has not let it yet */
    uint64_t next_ns;     /**< when the next round is due */
    uint64_t interval_ns; /**< from that one to the one after it */
    uint64_t present_ns;  /**< in the first path of a process: the process is known to be there
                               since then; 0: not yet */
    uint64_t usable_ns;   /**< the same: a path to it is usable since then; 0: none yet */
};

/** One search over `count` paths, which are the caller's. */
struct rawe_path_search {
    struct rawe_path *paths;
    unsigned count;
    unsigned paced_pings; /**< PINGs per pace interval of 2 ms */
    unsigned budget;      /**< PINGs that may still be sent in this one */
    unsigned first;       /**< path to begin the pass with, so that the pace starves none */
    unsigned scanned;     /**< paths of the pass dealt with */
    unsigned unknown;     /**< paths to be found out about, without indirect checks */
    uint64_t now_ns;
    uint64_t refilled_ns;
    uint64_t deadline_ns;
    uint64_t wake_ns; /**< when the next pass is due, unless an answer comes before */
};

/** A PING to be sent. */
struct rawe_path_ping {
    unsigned path;      /**< index */
    uint32_t mtu_bytes; /**< its length with rawe's header, without Ethernet's */
};

/**
 * How many PINGs may leave per pace interval, for a responder that has a ring of `ring_frames` and
 * takes `frames_per_s` from it: each brings a PONG, and a PING of the peer's, which searches, too.
 */
unsigned rawe_path_paced_pings(unsigned ring_frames, unsigned frames_per_s);

/**
 * Begin a search that ends `timeout_ns` from now at the latest, not counting more than 50 ms of
 * a second and more without a call. Of `paths` the members under "in"
 * are set. At most `paced_pings` (not 0) leave per pace interval of 2 ms.
 */
void rawe_path_search_begin(struct rawe_path_search *search, struct rawe_path *paths,
                            unsigned count, unsigned paced_pings, uint64_t now_ns,
                            uint64_t timeout_ns);

/** Begin a pass, after answers or at `wake_ns`. False: over, the results are final. */
bool rawe_path_search_advance(struct rawe_path_search *search, uint64_t now_ns);

/** The next PING of the pass. False: none until the next pass; `wake_ns` says when that is due. */
bool rawe_path_search_next(struct rawe_path_search *search, struct rawe_path_ping *ping);

/** A PING of this MTU came back, as a PONG of the same length. */
void rawe_path_search_answered(struct rawe_path_search *search, unsigned path, uint32_t mtu_bytes);

#endif
