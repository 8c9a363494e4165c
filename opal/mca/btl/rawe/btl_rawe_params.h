/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The parameters that users set with `--mca btl_rawe_<name> <value>`, in one table: name, type,
 * default, range, unit, level, one sentence. ethertype is in host order.
 */
#ifndef MCA_BTL_RAWE_PARAMS_H
#define MCA_BTL_RAWE_PARAMS_H

#include "btl_rawe_compat.h"
#include "core/send/rawe_cc.h"

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
/** Numbers: name, default, least, most, unit, remark, level, sentence. */
#define MCA_BTL_RAWE_NUMBER_LIST(X)                                                               \
    X(ethertype, 0x88B5, 0x0600, 0xFFFF, "", "", 4,                                               \
      "EtherType of all frames, the same on all hosts; the default is the one IEEE 802 sets "     \
      "aside for local experiments")                                                              \
    X(udp_port_min, 32768, 1024, 65534, "", "", 5,                                                \
      "Lowest UDP port used: each process has two for each interface, unless btl_rawe_kind is "   \
      "packet")                                                                                   \
    X(udp_port_range, 28000, 2, 64511, "", "", 5,                                                 \
      "Number of UDP ports from btl_rawe_udp_port_min on, which firewalls must let pass")         \
    X(socket_priority, 0, 0, 6, "", ", 0: like other traffic", 5,                                 \
      "Priority (SO_PRIORITY) of all frames sent: queueing disciplines use it, and "              \
      "the egress-qos-map of a VLAN interface makes it the priority code point of the tag")       \
    X(ring_bytes, 0, 0, 1 << 30, "bytes",                                                         \
      ", 0: 2 MiB, and 4 MiB for packets of middle length; with more than 8 ranks on the host "   \
      "eight times that by their number, or 8 KiB for each rank of the job where that is more; "  \
      "less where all would exceed 5 % of its memory",                                            \
      4,                                                                                          \
      "Memory of the receive ring of each interface and process")                                 \
    X(window_frames, 512, 16, 1024, "frames", ", a power of two", 6,                              \
      "Largest number of frames to one peer that may be unacknowledged at a time")                \
    X(inflow_bytes, 100000, 0, 1 << 25, "bytes", ", 0: no limit", 6,                              \
      "Buffer of a host's switch port. While the link is busy, the processes of a host request "  \
      "at most half of that, plus what the link carries in 16 us, of the long messages from "     \
      "several peers; while it idles they request more")                                          \
    X(coalesce_from, 4, 0, 1024, "frames", ", 0: never", 6,                                       \
      "With this many frames in flight to a peer or a group, short messages are bundled in "      \
      "frames that are held back until they are full or MPI makes progress; never without the "   \
      "progress thread")                                                                          \
    X(ack_delay_us, 50, 0, 100000, "microseconds", "", 8,                                         \
      "How long an acknowledgement waits for data that could carry it")                           \
    X(streak_us, 40, 0, 1000000, "microseconds", ", 0: never", 8,                                 \
      "Eight messages to a peer within this time begin a streak: of those that follow, the ones " \
      "too long to share frames share batches")                                                   \
    X(reorder_us, 50, 0, 100000, "microseconds", "", 8,                                           \
      "How much later than its successors a frame may arrive, at least, before it counts as "     \
      "lost")                                                                                     \
    X(probe_min_us, 200, 10, 1000000, "microseconds", "", 8,                                      \
      "Shortest silence after which a peer is asked for an acknowledgement")                      \
    X(probe_max_ms, 1000, 1, 60000, "milliseconds", "", 8,                                        \
      "Longest interval between requests to a peer that does not answer")                         \
    X(connect_timeout_ms, 0, 0, 600000, "milliseconds",                                           \
      ", 0: 10000, but 1000 for a host that answers nothing, where another BTL is left", 5,       \
      "How long to try to reach a peer at first contact before it is left to another BTL; for "   \
      "30 s (btl_rawe_peer_timeout, if less) where none is left, or the interface reaches others") \
    X(progress_thread_ms, 1, 0, 1000, "milliseconds", ", 0: never", 6,                            \
      "How often the progress thread sends held-back frames, lost frames and acknowledgements "   \
      "while the process is outside of MPI. While MPI makes progress, the thread checks every "   \
      "16 intervals whether it still does, or every 4 after MPI was left with messages queued")   \
    X(peer_timeout, 300, 0, 86400, "seconds", ", 0: wait forever", 3,                             \
      "How long a peer may be utterly silent (computing is not silence: the peer's service "      \
      "thread answers) before the job ends with an error. Fault-tolerant jobs (mpirun "            \
      "--with-ft) ask idle peers as well, and have 10 as their default")

/** Flags: name, default, level, sentence. */
#define MCA_BTL_RAWE_FLAG_LIST(X)                                                                 \
    X(loopback, true, 4,                                                                          \
      "Reach peers on the same host through the loopback interface; false leaves them to "        \
      "another BTL, such as vader")                                                               \
    X(async_progress, false, 4,                                                                   \
      "Let a separate thread make MPI's progress while the program computes: it matches and "     \
      "fetches messages, and advances collectives; Open MPI then takes its locks")                \
    X(windows, false, 4,                                                                          \
      "Offer PUT, GET and atomic operations for windows even where Open MPI can make messages "   \
      "of them (osc/pt2pt of 4.1, if not excluded), which is faster for accumulates, but waits "  \
      "for targets that compute; where it cannot, they are always offered")                       \
    X(fanout, true, 5,                                                                            \
      "Where a host has several ranks of a job, let their sockets receive as a group, in which "  \
      "the kernel offers a frame to one of them, not to all")                                     \
    X(batches, true, 5,                                                                           \
      "Send bulk data as batches of up to 64 kB, which look like TCP and which devices cut into " \
      "frames and merge again; they are tried with each peer before they are used")               \
    X(stats, false, 3,                                                                            \
      "Report the counters of each process when it finalizes")

/** Texts: name, default (NULL: empty), level, sentence. */
#define MCA_BTL_RAWE_TEXT_LIST(X)                                                                 \
    X(kind, "auto", 2,                                                                            \
      "Transport of frames: packet (raw Ethernet, by packet sockets), udp (UDP over IPv4, or "    \
      "IPv6 on interfaces without IPv4, which needs no privilege and crosses routers), or auto "  \
      "(packet for each peer that it reaches, else udp; only packet in jobs whose selection of "  \
      "BTLs does not name rawe)")                                                                 \
    X(if_include, NULL, 1,                                                                        \
      "Comma-separated list of the interfaces to use: names (exact or with a trailing *), MAC "   \
      "addresses, or subnets such as 10.1.0.0/16, in which UDP then uses an address; not "        \
      "together with btl_rawe_if_exclude. Empty: every Ethernet interface that is up, except lo, " \
      "wireless, bridges, and virtual ones")                                                      \
    X(if_exclude, NULL, 1,                                                                        \
      "Comma-separated list of the interfaces not to use, written as in btl_rawe_if_include; "    \
      "not together with it")                                                                     \
    X(helper, MCA_BTL_RAWE_HELPER, 5,                                                             \
      "The program that opens sockets if the process may not open them (rawe-socket-helper); "    \
      "empty: none")                                                                              \
    X(congestion, "cubic", 6,                                                                     \
      "The congestion control, which limits the frames in flight; cubic")
/* clang-format on */

struct mca_btl_rawe_params {
#define X(name, ...) uint64_t name;
    MCA_BTL_RAWE_NUMBER_LIST(X)
#undef X
#define X(name, ...) bool name;
    MCA_BTL_RAWE_FLAG_LIST(X)
#undef X
#define X(name, ...) char *name;
    MCA_BTL_RAWE_TEXT_LIST(X)
#undef X
};

extern struct mca_btl_rawe_params mca_btl_rawe_params;

/** Register all of the above for `component` and read the user's values. OPAL_SUCCESS or error. */
int mca_btl_rawe_params_register(const mca_base_component_t *component);

/**
 * Return the kinds of port that may be used (btl_rawe_kind). 0: the value is unknown. A job that did
 * not ask for rawe must not send datagrams through firewalls, or wait for them.
 */
unsigned mca_btl_rawe_params_kinds(void);

/** Return how long to try to reach a peer (btl_rawe_connect_timeout_ms, or its default). */
uint64_t mca_btl_rawe_params_connect_timeout_ms(void);

/** Return the chosen congestion control; NULL: the name is unknown. */
const struct rawe_cc_type *mca_btl_rawe_params_congestion(void);

/** Check all values. OPAL_ERR_BAD_PARAM: the user was told of the first bad one. */
int mca_btl_rawe_params_check(void);

#endif
