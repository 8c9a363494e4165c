/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan of a run: number of nodes, parameters, network, faults and workload. The seed determines
 * the plan, along with the few options that restrict it.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NODES_MAX 1000u
#define SIM_NICS_MAX 3u
#define SIM_PROCESSES_MAX 3u

/* clang-format off */
#define SIM_FAULT_LIST(X)                                                                         \
    X(LOSS,      "loss",      "frames vanish at random")                                          \
    X(BURST,     "burst",     "all frames to a node vanish for a while")                          \
    X(DUPLICATE, "duplicate", "frames arrive twice")                                              \
    X(REORDER,   "reorder",   "single frames are overtaken by many")                              \
    X(JITTER,    "jitter",    "each frame has a random delay")                                    \
    X(CORRUPT,   "corrupt",   "bytes of a frame change, after the addresses")                     \
    X(RESIZE,    "resize",    "frames are truncated, or something is appended to them")           \
    X(ECHO,      "echo",      "frames arrive twice, one of them with a changed byte")             \
    X(PAUSE,     "pause",     "nodes compute for microseconds to minutes")                        \
    X(THREAD,    "thread",    "while nodes compute, a progress thread serves their engines")      \
    X(FREEZE,    "freeze",    "hosts and their responders are suspended, sometimes for too long")  \
    X(JUMP,      "jump",      "clocks jump ahead")                                                \
    X(COARSE,    "coarse",    "clocks advance in steps, so that many events coincide")            \
    X(WRAP,      "wrap",      "sequence numbers begin shortly before they wrap")                  \
    X(RING,      "ring",      "receive rings are small and overflow")                             \
    X(SWITCH,    "switch",    "the switch has small buffers that overflow")                       \
    X(PARTITION, "partition", "some nodes cannot reach others for a while, one way or both")       \
    X(SEVER,     "sever",     "hosts are cut off forever, or until their peers have given up")    \
    X(UNEVEN,    "uneven",    "some links are many times slower than others")                     \
    X(FULL,      "full",      "the send path accepts no frames for a while")                      \
    X(CLOSE,     "close",     "connections are closed at any time and reopened")                  \
    X(REVOKE,    "revoke",    "memory is deregistered while it is accessed")                      \
    X(RESTART,   "restart",   "processes die, and others with new keys replace them")             \
    X(KILL,      "kill",      "processes die")                                                    \
    X(MEMORY,    "memory",    "few frames and buffers, and allocations fail")                     \
    X(FORGE,     "forge",     "an unknown peer sends frames without knowing the keys")            \
    X(REPLAY,    "replay",    "recorded frames are sent again much later")                        \
    X(HOSTILE,   "hostile",   "an attacker with all keys sends anything: only safety is checked")  \
    X(PULL,      "pull",      "cables are pulled and plugged, with or without the kernel's notice")\
    X(LOSSY,     "lossy",     "one of several routes loses some of its frames for seconds")       \
    X(ADDRESS,   "address",   "interfaces get other addresses, or their first one again")         \
    X(ERROR,     "error",     "ports report errors: they lose frames for a while")                \
    X(STRAY,     "stray",     "frames reach another process of the host for a while")             \
    X(STEP,      "step",      "the clock of arrival times is set forward or back")                \
    X(STEADY,    "steady",    "programs send to one node continuously")                           \
    X(SHRINK,    "shrink",    "the MTU of a path shrinks")                                        \
    X(NEST,      "nest",      "callbacks make progress")
/* clang-format on */

enum sim_fault {
#define X(symbol, name, text) SIM_FAULT_##symbol,
    SIM_FAULT_LIST(X)
#undef X
        SIM_FAULTS
};

#define SIM_BIT(symbol) (1ull << SIM_FAULT_##symbol)
#define SIM_FAULTS_ALL ((1ull << SIM_FAULTS) - 1u)
#define SIM_FAULTS_MILD                                                                         \
    (SIM_BIT(LOSS) | SIM_BIT(DUPLICATE) | SIM_BIT(REORDER) | SIM_BIT(JITTER) | SIM_BIT(PAUSE) | \
     SIM_BIT(RING) | SIM_BIT(SWITCH) | SIM_BIT(FULL) | SIM_BIT(JUMP) | SIM_BIT(COARSE) |        \
     SIM_BIT(WRAP) | SIM_BIT(UNEVEN) | SIM_BIT(FORGE) | SIM_BIT(THREAD) | SIM_BIT(PULL) |       \
     SIM_BIT(LOSSY) | SIM_BIT(ADDRESS) | SIM_BIT(STEP) | SIM_BIT(STEADY) | SIM_BIT(SHRINK) |    \
     SIM_BIT(NEST))
/** Faults whose frames may be believed: only safety still holds. */
#define SIM_FAULTS_LYING SIM_BIT(HOSTILE)

struct sim_fault_name {
    const char *name;
    const char *text;
};

/** By enum sim_fault. */
extern const struct sim_fault_name sim_fault_names[SIM_FAULTS];

/** Write the names, separated by commas, or "none". */
void sim_faults_format(uint64_t faults, char *out, size_t out_bytes);

/** The user's options. */
struct sim_options {
    uint64_t seed;
    uint64_t faults; /**< allowed faults, or (faults_exact) exactly these */
    bool faults_exact;
    unsigned nodes;          /**< 0: the seed decides */
    unsigned nics;           /**< 0: the seed decides */
    unsigned operations;     /**< 0: the seed decides */
    uint64_t incident_first; /**< first incident that happens, counted from 0 */
    uint64_t incident_end;   /**< one past the last incident that happens */
    bool trace;
};

enum sim_pattern {
    SIM_PATTERN_RANDOM, /**< to any node */
    SIM_PATTERN_INCAST, /**< all to node 0 */
    SIM_PATTERN_RING,   /**< to the next one */
    SIM_PATTERN_PAIRS,  /**< 0 with 1, 2 with 3, ... */
    SIM_PATTERNS
};

/** How a path treats a batch. */
enum sim_batch_path {
    SIM_BATCH_WHOLE,   /**< it arrives as one packet */
    SIM_BATCH_CUT,     /**< its frames arrive one by one */
    SIM_BATCH_BLOCKED, /**< it is lost */
    SIM_BATCH_FADING,  /**< it arrives as one packet, and from some time on is lost */
    SIM_BATCH_PATHS
};

/** Which frames a lossy route loses. */
enum sim_lossy_kind {
    SIM_LOSSY_ROUTE,     /**< between two interfaces of different hosts */
    SIM_LOSSY_INTERFACE, /**< to and from an interface */
    SIM_LOSSY_IN,        /**< to an interface */
    SIM_LOSSY_OUT,       /**< from an interface */
    SIM_LOSSY_ALL,       /**< on all routes */
    SIM_LOSSY_KINDS
};

/** Which frames meet a smaller MTU. */
enum sim_shrink_kind {
    SIM_SHRINK_BOTH, /**< to and from an interface */
    SIM_SHRINK_IN,   /**< to an interface */
    SIM_SHRINK_OUT,  /**< from an interface */
    SIM_SHRINK_ALL,
    SIM_SHRINK_KINDS
};

struct sim_plan {
    uint64_t faults;
    unsigned nodes;
    unsigned processes;  /**< nodes per host, which share its links and clock */
    unsigned nics;       /**< interfaces per node, at most */
    bool mixed_nics;     /**< some nodes have fewer */
    unsigned operations; /**< messages, requests and transfers, of all nodes */

    /* engine */
    uint32_t payload_max_bytes; /**< of the largest MTU in the network */
    bool mixed_mtu;             /**< some nodes have a smaller MTU */
    uint32_t window_frames, receive_frames, copy_max_bytes, message_max_bytes, frames_limit;
    unsigned reassembly_limit; /**< buffers; 0: the engine's default */
    uint32_t coalesce_from_frames;
    bool batches; /**< some nodes send batches, others only receive them */
    uint32_t batch_bytes_max;
    uint32_t first_sequence;
    uint32_t overtaken_most; /**< messages that a message may overtake; 0: the default */
    uint64_t streak_ns;      /**< maximum gap within a streak; 0: no streaks */
    uint64_t inflow_bytes;
    uint64_t ack_delay_ns, probe_least_ns, probe_most_ns, reorder_ns, peer_timeout_ns;
    uint64_t idle_ns; /**< interval at which idle peers are checked; 0: never */

    /* network */
    uint64_t delay_ns;      /**< of each of the two links on a path */
    uint32_t ps_per_byte;   /**< rate of every link */
    uint32_t backlog_bytes; /**< capacity of the send path */
    uint32_t switch_bytes;  /**< buffer of a switch port; 0: unbounded */
    uint32_t ring_frames;   /**< capacity of a receive ring */
    bool rates_known;       /**< drivers report the links' rates */
    bool arrivals_known;    /**< frames carry the time of their arrival */
    bool checksummed;       /**< like UDP: damaged frames are lost, and need no CRC32C */
    bool padding;           /**< short frames arrive padded to 60 bytes */

    /* hosts */
    unsigned receive_budget; /**< frames taken from the ring per progress */
    uint64_t poll_ns;        /**< longest time from a frame's arrival to its receipt */
    uint64_t receive_cost_ns, transmit_cost_ns;
    bool clock_per_call;    /**< time is read before each call, not once per progress */
    uint64_t clock_step_ns; /**< resolution of clocks */

    /* faults; none begins after faults_end_ns */
    uint64_t faults_end_ns;
    uint32_t loss_ppm, burst_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm, pause_ppm, full_ppm;
    uint32_t close_ppm, revoke_ppm, no_memory_ppm, error_ppm, stray_ppm, step_ppm;
    uint64_t burst_ns, late_ns, jitter_ns, full_ns, error_ns, stray_ns; /**< longest */
    uint64_t step_most_ns;
    unsigned pauses_most; /**< per node */
    uint64_t pause_most_ns;
    uint64_t
        thread_ns; /**< interval of the progress thread's checks of a computing node; 0: none */
    uint32_t deferred_most_bytes; /**< of messages, until the program returns to MPI */
    unsigned nest_every;          /**< one in this many callbacks makes progress; 0: none */
    unsigned partitions;
    uint64_t partition_most_ns;
    unsigned deaths; /**< kills or restarts */
    uint32_t freeze_ppm, jump_ppm;
    uint64_t jump_most_ns;
    uint64_t suspended_ns; /**< all hosts are suspended once for this long; 0: never */
    unsigned severances;
    unsigned pulls;        /**< of cables */
    uint64_t pull_most_ns; /**< longest, except ... */
    unsigned
        pull_longest; /**< ... this interface, whose cable may stay pulled on hosts with others */
    unsigned readdressings; /**< of interfaces */
    enum sim_lossy_kind lossy;
    uint32_t lossy_ppm; /**< 0: no route is lossy */
    uint64_t lossy_from_ns, lossy_until_ns;
    enum sim_shrink_kind shrink;
    uint32_t shrink_bytes;   /**< longest payload that then passes */
    uint64_t shrink_from_ns; /**< 0: no MTU shrinks */
    unsigned slowness_most;  /**< of links; 1: all are alike */
    bool lying;              /**< frames may contain data that was never sent */
    uint64_t forge_gap_ns, replay_gap_ns, hostile_gap_ns; /**< between frames; 0: none */

    uint64_t depart_ns; /**< nodes finalize within this time of each other; 0: they just end */
    uint64_t depart_faults_ns; /**< during which faults continue for this long */

    /* workload */
    enum sim_pattern pattern;
    uint64_t gap_ns;     /**< longest pause between two bursts of operations of a node */
    unsigned burst_most; /**< operations in a burst */
    unsigned sends_most; /**< incomplete sends a node may have */
    uint32_t transfer_max_bytes;
    unsigned request_percent, transfer_percent;
    bool streaks; /**< occasionally many messages of one length in a row */
};

void sim_plan_make(struct sim_plan *plan, const struct sim_options *options);

#endif
