/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rate of the line to this host at its narrowest point: the rate that the interface reports,
 * until arrivals show otherwise. A virtual machine's share of a NIC is lower than its driver
 * reports, and some drivers report nothing.
 *
 * A line that delivers more than its assumed rate is faster. A line that delivers less is slower
 * only if it loses frames while more is in flight to this host than its port holds; otherwise the
 * senders have no more to send, or other ports lose frames. Delivery is measured in windows of
 * arrival time. Each frame that arrives marked as resent counts as a loss.
 *
 * Processes that share memory (struct rawe_line_host) learn together. They add arrivals to a window
 * atomically, because a lost update there would change the rate; elsewhere it matters little. The
 * memory may contain anything. No clock, no socket.
 */
#ifndef RAWE_LINE_H
#define RAWE_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** Rate and measurements that processes share. Initially all zero. */
struct rawe_line_host {
    _Alignas(64) _Atomic uint64_t mbps; /**< the line's rate; 0: as reported */
    _Atomic uint64_t begin_ns;          /**< start of the window, at an arrival; 0: none */
    _Atomic uint64_t arrived;           /**< in this window: bytes, and frames * 2^40 */
    _Atomic uint64_t last_mbps;         /**< delivered in the previous window */
    _Atomic uint64_t overfull_ns;       /**< when more than the port holds was last in flight */
    _Atomic uint64_t excess_frames;     /**< 64 per lost frame, minus the number of arrived ones */
    _Atomic uint64_t clean_bytes;       /**< arrived since the rate last changed */
    _Atomic uint64_t spared_bytes;      /**< losses do not count until this much has arrived */
    _Atomic uint64_t sample_frames;     /**< arrived recently; on probation, since its start */
    _Atomic uint64_t sample_lost;    /**< lost frames among these; on probation, after the first */
    _Atomic uint64_t probation_mbps; /**< rate before the probation; 0: not on probation */
    _Atomic uint64_t least_mbps;     /**< on probation, minimum rate to be delivered */
    _Atomic uint64_t probation_lost; /**< lost before the probation, per 1024 frames */
};

struct rawe_line {
    struct rawe_line_host *host; /**< shared, or `own` */
    struct rawe_line_host own;
    uint64_t reported_mbps;
};

/** Initialize a line; `reported_mbps` is the rate that the interface reports, 0: none. */
void rawe_line_init(struct rawe_line *line, uint32_t reported_mbps);
/** Share what is learned with the processes of this host. */
void rawe_line_join(struct rawe_line *line, struct rawe_line_host *host);
/** Note that more is in flight to this host than its switch port holds. */
void rawe_line_overfull(struct rawe_line *line, uint64_t now_ns);
/**
 * Note frames from one or more peers that arrived at `arrived_ns`. They used `bytes` of the line;
 * `lost` of them had been lost when first sent.
 */
void rawe_line_arrived(struct rawe_line *line, uint64_t bytes, uint32_t frames, uint32_t lost,
                       uint64_t arrived_ns);
/** Return the line's rate in Mb/s: 1 to RAWE_LINE_MBPS_MAX. */
uint64_t rawe_line_mbps(const struct rawe_line *line);

#define RAWE_LINE_MBPS_MAX 1000000u

#endif
