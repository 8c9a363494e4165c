/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An engine's counters: one for each event in a frame's life, and one for each reason to drop a
 * frame. Add counters only to this list. Also defines a histogram of times.
 */
#ifndef RAWE_COUNTERS_H
#define RAWE_COUNTERS_H

#include <stdint.h>

/*
 * Every message changes the first eight, which share a cache line or two.
 * frames_resent is at most the sum of losses_*: a late acknowledgement may avert a resend.
 */
/* clang-format off */
#define RAWE_COUNTER_LIST(X)                                                                      \
    X(messages_sent,        "messages handed to the engine")                                     \
    X(messages_coalesced,   "messages that joined others in a frame held back for a moment")     \
    X(messages_received,    "messages delivered")                                                \
    X(bytes_sent,           "bytes of messages, PUTs and replies handed to the engine")          \
    X(bytes_received,       "bytes delivered or placed")                                         \
    X(frames_sent,          "sequenced frames sent, each counted once")                          \
    X(frames_acknowledged,  "sequenced frames of ours that the peer has acknowledged")           \
    X(frames_received,      "sequenced frames accepted")                                         \
    X(puts_sent,            "PUT operations handed to the engine")                               \
    X(operations_sent,      "GET and atomic operations handed to the engine")                    \
    X(operations_served,    "peers' GET and atomic operations executed")                         \
    X(operations_refused,   "peers' operations refused because of the memory they named")        \
    X(frames_resent,        "sequenced frames sent again after evidence of loss")                \
    X(losses_overtaken,     "frames found lost: a later one has arrived")                        \
    X(losses_probed,        "frames found lost: missing from the answer to a later probe")       \
    X(losses_validation,    "frames found lost while a path was validated for batches")          \
    X(losses_refused,       "frames for which the peer had no memory; sent again")               \
    X(acks_sent,            "frames that carried nothing but an acknowledgement")                \
    X(acks_received,        "acknowledgement frames received")                                   \
    X(probes_sent,          "requests for an acknowledgement after silence")                     \
    X(probes_received,      "requests for an acknowledgement received")                          \
    X(probes_answered,      "answers to our requests received")                                  \
    X(connects_sent,        "connection requests and replies sent")                              \
    X(connects_received,    "connection requests and replies received")                          \
    X(blocked_port,         "times our port's queue had no room for a frame")                    \
    X(blocked_credit,       "times a send waited for the peer's credit")                         \
    X(blocked_congestion,   "times a send waited for the congestion window")                     \
    X(blocked_window,       "times a send waited for a sequence number")                         \
    X(blocked_peer,         "times a send found no open connection")                             \
    X(congestion_events,    "reductions of the congestion window")                               \
    X(congestion_persistent, "such reductions after several timeouts in which nothing arrived")  \
    X(duplicates,           "sequenced frames dropped: arrived before")                          \
    X(dropped_outside,      "frames dropped: sequence number outside the window")                \
    X(dropped_short,        "frames dropped: shorter than their header")                         \
    X(dropped_version,      "frames dropped: unknown wire version")                              \
    X(dropped_type,         "frames dropped: unknown type or flags")                             \
    X(dropped_length,       "frames or fragments dropped: inconsistent lengths")                 \
    X(dropped_checksum,     "frames dropped: damaged, according to their CRC32C")                \
    X(dropped_key,          "frames dropped: not our port or session key")                       \
    X(dropped_connection,   "frames dropped: no such connection, or an earlier incarnation")     \
    X(dropped_source,       "frames dropped: source address or UDP port is not the peer's")      \
    X(dropped_ack,          "frames dropped: acknowledge frames never sent")                     \
    X(dropped_handle,       "PUT frames refused: unknown handle, wrong key or out of bounds")    \
    X(dropped_fragment,     "fragments refused: contradict earlier ones or the size limit; "     \
                            "messages lost for lack of memory")                                  \
    X(dropped_reply,        "replies dropped: they match no outstanding operation")              \
    X(batches_sent,         "batches handed to the link")                                        \
    X(validations_passed,   "peers that batches reach")                                          \
    X(validations_failed,   "peers that batches do not reach, so plain frames are used")         \
    X(dropped_validation,   "validation frames with wrong content")                              \
    X(dropped_unknown_peer, "connection requests refused: identity unknown or wrong")            \
    X(no_buffer,            "frames dropped for lack of memory for their data")                  \
    X(slices_sent,          "parts sent of frames that no longer fit the path's MTU")            \
    X(dropped_slice,        "such parts dropped: an earlier one is missing")                     \
    X(credit_updates,       "acknowledgements sent only because credit has changed")            \
    X(migrations,           "times a connection moved to another route")                         \
    X(peers_lost,           "peers given up after silence, and peers that gave us up")
/* clang-format on */

struct rawe_counters {
#define X(name, text) uint64_t name;
    RAWE_COUNTER_LIST(X)
#undef X
};

/**
 * Round-trip times, one bucket per power of two: the first holds times below 1024 ns, bucket i
 * those from 2^(9+i) to below 2^(10+i) ns, the last those from 2^30 ns (about a second).
 */
#define RAWE_HISTOGRAM_BUCKETS 22u
#define RAWE_HISTOGRAM_FIRST_BITS 10u

struct rawe_histogram {
    uint64_t count[RAWE_HISTOGRAM_BUCKETS];
};

/** Return the bucket that counts a time. */
static inline unsigned rawe_histogram_bucket(uint64_t ns)
{
    if (ns < 1u << RAWE_HISTOGRAM_FIRST_BITS) {
        return 0;
    }
    unsigned bucket = 64u - RAWE_HISTOGRAM_FIRST_BITS - (unsigned)__builtin_clzll(ns);
    return bucket < RAWE_HISTOGRAM_BUCKETS ? bucket : RAWE_HISTOGRAM_BUCKETS - 1;
}

static inline void rawe_histogram_add(struct rawe_histogram *histogram, uint64_t ns)
{
    histogram->count[rawe_histogram_bucket(ns)]++;
}

/** Return the upper limit of a bucket, exclusive; UINT64_MAX for the last one. */
static inline uint64_t rawe_histogram_limit_ns(unsigned bucket)
{
    return bucket + 1 < RAWE_HISTOGRAM_BUCKETS ? 1ull << (RAWE_HISTOGRAM_FIRST_BITS + bucket)
                                               : UINT64_MAX;
}

#endif
