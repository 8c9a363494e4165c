/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Path discovery finds out which peers can be reached, and how large frames to them may be. It is a
 * state machine: its inputs are time and answers, its outputs PINGs. The caller serializes calls.
 *
 * One search covers all paths of a call at once. Each path has two phases:
 *
 *   REACH   repeat the smallest frame: the peer may not have started yet
 *   SIZES   rounds of larger frames: first only the full size, then all common sizes above the
 *           largest that has passed
 *
 * The result is final once the full size has passed, or after some rounds in which no larger size
 * has passed.
 *
 * Most paths between processes with several interfaces lead nowhere, because the interfaces are on
 * different networks. Once one path reaches a process, the search gives its other paths less time.
 */
#ifndef RAWE_PATH_H
#define RAWE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** MTU of the smallest frame, which only shows that the peer is present. */
#define RAWE_PATH_MTU_SMALLEST_BYTES (RAWE_HEADER_BYTES + RAWE_PING_BYTES)

/** Largest MTU that a PING can test: the header's length field has 16 bits. */
#define RAWE_PATH_MTU_LARGEST_BYTES (RAWE_HEADER_BYTES + UINT16_MAX)

/** A path from one of our interfaces to an interface of another process. */
struct rawe_path {
    /* in */
    uint32_t mtu_bytes; /**< the largest MTU worth testing: the smaller of the two ends' MTUs */
    /** Bytes that the network adds to each frame, so frames must be shorter than its MTU by this. */
    uint32_t overhead_bytes;
    bool same_process;  /**< same process as the path before it, and a worse choice */
    bool process_known; /**< another of our interfaces already reaches the process */
    /** First path only: end the search for the process if it is silent for this time; 0: never */
    uint64_t silence_ns;
    /** First path only: if no path is usable, the process is given up, and told so. */
    bool last_chance;
    bool deprioritized; /**< our interface has reached no process yet: test it only briefly */
    /**
     * Indirect check, through another of our interfaces: it only finds out whether the process is
     * present, which limits the time for its other paths. It follows these paths in the array.
     */
    bool indirect;
    /** The indirect check is for a process that the other paths do not reach: ask only after them. */
    bool fallback;
    /** The path is lo: an answer implies the full size, without large PINGs. */
    bool mtu_certain;
    /* out */
    bool reachable;            /**< a frame of any size came back */
    uint32_t mtu_passed_bytes; /**< the largest MTU that came back; 0: none above the smallest */
    bool refused; /**< first path only: the process has given us up; no path to it is usable */
    /* the search's */
    bool done;
    uint8_t round;        /**< of SIZES: rounds sent */
    uint8_t size;         /**< index of the next size in this round */
    uint8_t asked;        /**< PINGs sent in REACH, counted up to a few */
    uint64_t asked_ns;    /**< when its first PING was sent; 0: not sent yet, because of pacing */
    uint64_t heard_ns;    /**< first path only: when the process's newest PING came; 0: never */
    uint64_t next_ns;     /**< when the next round is due */
    uint64_t interval_ns; /**< from next_ns to the round after it */
    uint64_t present_ns;  /**< first path only: since when the process is known to exist; 0: no */
    uint64_t usable_ns;   /**< first path only: since when a path to it is usable; 0: none */
};

/** A search over `count` paths, which the caller owns. */
struct rawe_path_search {
    struct rawe_path *paths;
    unsigned count;
    unsigned paced_pings; /**< PINGs per pace interval of 2 ms */
    unsigned budget;      /**< PINGs left in this interval */
    unsigned first;       /**< path at which the pass starts, so that pacing starves none */
    unsigned scanned;     /**< paths handled in this pass */
    unsigned unknown;     /**< unresolved paths, without indirect checks */
    uint64_t skipped_ns;  /**< total of our own long pauses; only wake_ns includes them */
    uint64_t now_ns;
    uint64_t refilled_ns;
    uint64_t deadline_ns;
    uint64_t wake_ns; /**< when the next pass is due, unless an answer arrives first */
};

/** A PING to send. */
struct rawe_path_ping {
    unsigned path;      /**< index */
    uint32_t mtu_bytes; /**< length with rawe's header, without the Ethernet header */
};

/**
 * Return how many PINGs a responder may send per pace interval, if its ring has `ring_frames` and
 * is drained at `frames_per_s`: each causes a PONG, and the peer, also searching, sends a PING.
 */
unsigned rawe_path_paced_pings(unsigned ring_frames, unsigned frames_per_s);

/**
 * Begin a search that ends at most `timeout_ns` from now; pauses between calls count as at most
 * 50 ms if they last a second or more. The "in" members of `paths` must be set. At most
 * `paced_pings` (not 0) are sent per pace interval of 2 ms.
 */
void rawe_path_search_begin(struct rawe_path_search *search, struct rawe_path *paths,
                            unsigned count, unsigned paced_pings, uint64_t now_ns,
                            uint64_t timeout_ns);

/** Begin a pass, after answers or at `wake_ns`. Returns false at the end: the results are final. */
bool rawe_path_search_advance(struct rawe_path_search *search, uint64_t now_ns);

/** Return the pass's next PING. False: none until the next pass, which is due at `wake_ns`. */
bool rawe_path_search_next(struct rawe_path_search *search, struct rawe_path_ping *ping);

/** Note that a PING of this MTU came back as a PONG of the same length. */
void rawe_path_search_answered(struct rawe_path_search *search, unsigned path, uint32_t mtu_bytes);

/**
 * Note that the process at the end of this path has sent a PING itself. It has been answered, and
 * may connect, so the process is not silent.
 */
void rawe_path_search_heard(struct rawe_path_search *search, unsigned path);

/** Note that the process at the end of this path has given us up. */
void rawe_path_search_refused(struct rawe_path_search *search, unsigned path);

/** Return true if the search, which is over, gives up the process at the end of this path. */
bool rawe_path_search_gives_up(const struct rawe_path_search *search, unsigned path);

#endif
