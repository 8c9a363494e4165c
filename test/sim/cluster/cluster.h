/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-cluster: many hosts on a switch, each with the real protocol engine, in virtual time. It
 * counts and times their messages. A plan determines every event of a run.
 *
 *   cluster_plan     parameters of a run, and lengths of messages in W3 and W4
 *   cluster_net      links, switch, queues
 *   cluster_rank     a process: its engine, reception and wake-ups
 *   cluster_traffic  messages, sent like those of ob1, and their times
 *   cluster_collective  MPI_Bcast, MPI_Allreduce
 *   cluster_run      a run from beginning to end, fair rates of flows, and the result
 *   cluster_main     command line, and a line for each run
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "rawe_engine.h"
#include "rawe_packet.h"
#include "base/rawe_counters.h"
#include "group/rawe_group.h"
#include "routes/rawe_peer.h"
#include "send/rawe_cc.h"
#include "sim_event.h"
#include "sim_random.h"

struct cluster;
struct cluster_rank;
struct cluster_peer;

/* ---- plan ---- */

#define CLUSTER_HOSTS_MAX 1000u
#define CLUSTER_RANKS_MAX 16u
/** Longest message: about the longest of the workloads. */
#define CLUSTER_MESSAGE_BYTES_MAX (16u << 20)

/** Streams of random numbers that are not per rank. */
enum {
    CLUSTER_STREAM_BEGIN = CLUSTER_HOSTS_MAX * CLUSTER_RANKS_MAX,
    CLUSTER_STREAM_SPRAY,
    CLUSTER_STREAM_PERMUTE, /**< a stream per rank of a host */
};

enum cluster_pattern {
    CLUSTER_INCAST,      /**< each rank sends a message to its counterpart on host 0 */
    CLUSTER_OUTCAST,     /**< each rank of host 0 sends a message to its counterpart on each host */
    CLUSTER_ALL_TO_ALL,  /**< each rank sends a message to every rank of other hosts */
    CLUSTER_PERMUTATION, /**< each rank sends one message to another host, and receives one */
    CLUSTER_W3,          /**< messages to random ranks, of random lengths */
    CLUSTER_W4,
    CLUSTER_BCAST, /**< collectives */
    CLUSTER_ALLREDUCE,
    CLUSTER_PATTERNS
};

extern const char *const cluster_pattern_names[CLUSTER_PATTERNS];

struct cluster_plan {
    uint64_t seed;
    enum cluster_pattern pattern;
    uint32_t hosts;        /**< 2 to CLUSTER_HOSTS_MAX */
    uint32_t ranks;        /**< processes per host, 1 to CLUSTER_RANKS_MAX */
    uint32_t leaf_hosts;   /**< per leaf switch; if `hosts` or more, there is one switch */
    uint32_t spines;       /**< switches that join the leaves; at least 1 */
    uint32_t size_bytes;   /**< of a message; 1 to CLUSTER_MESSAGE_BYTES_MAX */
    uint32_t mtu_bytes;    /**< of all links */
    uint64_t rate_mbps;    /**< of all links */
    uint64_t claim_mbps;   /**< reported by the hosts' interfaces; 0: none */
    uint64_t port_bytes;   /**< maximum queue of each switch port */
    uint64_t shared_bytes; /**< buffer shared by the ports of a switch; 0: none */
    uint64_t wire_ns;      /**< delay of a link */
    uint64_t host_ns;      /**< average time from a frame's arrival to its receipt by the process */
    uint64_t
        duration_ns;  /**< how long endless messages are measured; 0: each pair sends one message */
    uint64_t busy_ns; /**< time that receiving programs compute at a stretch; 0: never */
    uint32_t load_percent; /**< W3, W4: load of the hosts' links */
    bool sprays;           /**< each frame takes a spine at random */
    bool merges;           /**< the receiver merges frames of a batch */
    bool idle;             /**< all pairs have exchanged a message and are now idle */
    uint64_t inflow_bytes; /**< btl_rawe_inflow_bytes */
    const struct rawe_cc_type *congestion; /**< btl_rawe_congestion; NULL: the default */
    bool express_first; /**< the hosts' queueing disciplines send short frames first */
    uint32_t fan_out;   /**< of a bcast's tree; 0: binomial */
    bool multicast;     /**< collectives use multicast */
    uint32_t loss_ppm;  /**< random loss of frames before the last link to a host */
    uint64_t frame_ns;  /**< cost to a rank of sending or receiving a frame or a batch */
    bool pings;         /**< endless: the last host exchanges only short messages */
};

/** Return the maximum frame payload of the links, as core counts it. */
uint32_t cluster_plan_payload_bytes(const struct cluster_plan *plan);

/**
 * Return the bytes that a frame of `len_bytes` (with its Ethernet header) occupies on a link,
 * including the IPv4 header of a batch, padding, frame check sequence, preamble and gap.
 */
uint32_t cluster_plan_wire_bytes(uint32_t len_bytes, bool batch);

/** Return the time to transmit `bytes`, in picoseconds. */
static inline uint64_t cluster_plan_transmit_ps(const struct cluster_plan *plan, uint64_t bytes)
{
    return bytes * 8000000 / plan->rate_mbps;
}

/** Return the number of leaf switches; 1: the only switch. */
static inline uint32_t cluster_plan_leaf_count(const struct cluster_plan *plan)
{
    return (plan->hosts + plan->leaf_hosts - 1) / plan->leaf_hosts;
}

/** Return the time for a full frame and its acknowledgement in an idle network. */
uint64_t cluster_plan_round_trip_ns(const struct cluster_plan *plan);

/** Return true if a message is longer than a frame. */
bool cluster_plan_in_batches(const struct cluster_plan *plan, uint32_t size_bytes);

/** Return the bytes that a message of `size_bytes` occupies on a link. */
uint64_t cluster_plan_message_bytes(const struct cluster_plan *plan, uint32_t size_bytes);

static inline bool cluster_plan_is_workload(const struct cluster_plan *plan)
{
    return plan->pattern == CLUSTER_W3 || plan->pattern == CLUSTER_W4;
}

static inline bool cluster_plan_is_collective(const struct cluster_plan *plan)
{
    return plan->pattern == CLUSTER_BCAST || plan->pattern == CLUSTER_ALLREDUCE;
}

/** Return the number of ranks on all hosts. The ranks of host 0 have the lowest numbers. */
static inline uint32_t cluster_plan_ranks(const struct cluster_plan *plan)
{
    return plan->hosts * plan->ranks;
}

/** Return the number of ranks that send traffic, without those of a last host that only pings. */
static inline uint32_t cluster_plan_senders(const struct cluster_plan *plan)
{
    return cluster_plan_ranks(plan) - (plan->pings ? plan->ranks : 0);
}

/* ---- workloads ---- */

/*
 * Workloads W3 (applications of a Google data center) and W4 (Hadoop at Facebook) of the Homa paper
 * (Montazeri et al., SIGCOMM 2018): the lengths of messages.
 */

/** About a ninth of all messages, or of all bytes; `bytes` is the mean length. */
struct cluster_workload_size {
    uint32_t bytes;
    uint32_t ppm; /**< messages per million */
};

#define CLUSTER_WORKLOAD_SIZES_MAX 16u

/** Set `sizes` to those of W3 or W4, shortest first. Returns their number. */
unsigned cluster_workload_sizes(enum cluster_pattern pattern,
                                const struct cluster_workload_size **sizes);
/** Draw the index of a size. */
unsigned cluster_workload_draw(enum cluster_pattern pattern, struct sim_random *random);
/** Return a rank's average interval between messages; the ranks of a host share a link's load. */
double cluster_workload_interval_ns(const struct cluster_plan *plan);

/* ---- network ---- */

/*
 * The network: hosts on one switch, or on leaf switches joined by spines. Each port has a queue
 * that drops frames when full. All links have the same rate and delay.
 *
 *   host ---> leaf ---> host                    on the same leaf
 *   host ---> leaf ---> spine ---> leaf ---> host    the spine by a hash of the connection (ECMP),
 *                                                    or at random
 *
 * A link transmits frames one by one, in order. The time at which a frame will leave a
 * queue is therefore known when it enters, and the time until the link is free gives the queue's
 * length. A frame needs one event per switch; hosts receive frames when they wake.
 */

/** Instead of a rank's number: all ranks, or none. */
#define CLUSTER_ALL UINT32_MAX
#define CLUSTER_NONE (UINT32_MAX - 1)

/** A frame in flight. */
struct cluster_frame {
    STAILQ_ENTRY(cluster_frame) next;
    uint64_t at_ns;     /**< arrival at the end of its current link */
    uint32_t from, to;  /**< ranks; CLUSTER_ALL: multicast, with one rank per host */
    uint32_t len_bytes; /**< with Ethernet header, as core counts it */
    uint32_t spine;     /**< the spine to cross, if the path has one */
    bool batch;         /**< it has a batch header */
    bool group;         /**< it belongs to group delivery */
    const uint8_t
        *data;       /**< after the batch header: in `bytes`, or in memory that does not change */
    uint8_t bytes[]; /**< the frame; only its headers if `data` is elsewhere */
};

/** Allocate a frame with `bytes_count` bytes of room in `bytes`. */
struct cluster_frame *cluster_frame_new(uint32_t from, uint32_t to, uint32_t len_bytes,
                                        uint32_t bytes_count);
void cluster_frame_free(struct cluster_frame *frame);

STAILQ_HEAD(cluster_fifo, cluster_frame);

/** Histogram of the lengths of the ports' queues that arriving frames found. */
#define CLUSTER_QUEUE_BINS 4096u

struct cluster_queues {
    uint64_t frames, dropped;
    uint64_t most_bytes;
    uint64_t bins[CLUSTER_QUEUE_BINS];
};

struct cluster_net {
    const struct cluster_plan *plan;
    struct sim_events *events;
    uint32_t link_count;           /**< numbers of links: hosts' NICs first, then ports */
    uint64_t *free_ps;             /**< when each link will have transmitted its whole queue */
    struct cluster_fifo *waiting;  /**< frames to a switch, on a link or in the queue before it */
    uint64_t *shared_bytes;        /**< used part of each switch's shared buffer; leaves first */
    struct cluster_fifo *arriving; /**< frames on their last link, by rank */
    uint32_t (*nic_bytes)[2];      /**< each rank's bytes in the NIC's queue: frames, batches */
    struct sim_random random;      /**< spines */
    struct cluster_queues queues;
};

/** A frame reaches the switch at the end of link `node`: see cluster_net_forward. */
#define CLUSTER_EVENT_SWITCH 0u
/** `value` bytes have left the shared buffer of switch `node`. */
#define CLUSTER_EVENT_LEFT 2u

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events);
/** Free the network and all frames in flight. */
void cluster_net_free(struct cluster_net *net);

#define CLUSTER_PATH_LINKS_MAX 4u

/**
 * Return a link's relative capacity; with spraying, the links of all spines count as one wide link.
 */
double cluster_net_capacity(const struct cluster_plan *plan, uint32_t link);
/**
 * Write the links that a connection's frames (with batch header or not) use. Returns their number.
 */
unsigned cluster_net_path(const struct cluster_plan *plan, uint32_t from, uint32_t to, bool batch,
                          uint32_t links[CLUSTER_PATH_LINKS_MAX]);

/** Send a rank's frame and take ownership of it. The times of a rank's calls must not decrease. */
void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns);
/**
 * Handle CLUSTER_EVENT_SWITCH: forward the first frame of a link to the next port, or a multicast
 * frame to all other ports, if they have room. Returns the rank, or CLUSTER_ALL, to which a frame
 * may now be on its last link.
 */
uint32_t cluster_net_forward(struct cluster_net *net, uint32_t link, uint64_t now_ns);
/**
 * Return the arrival time, perhaps past, of the next frame for a rank; UINT64_MAX: none in flight.
 */
uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t rank);
/** Return the next frame for a rank if it has arrived, else NULL. The caller frees it. */
struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t rank, uint64_t now_ns);

/** Return the queue length in bytes that 99.9 % of the frames did not find exceeded. */
uint64_t cluster_queues_p999_bytes(const struct cluster_queues *queues,
                                   const struct cluster_plan *plan);

/* ---- traffic ---- */

/*
 * Messages as ob1 sends them over rawe: those up to the eager limit are sent at once; longer ones
 * are announced (RTS), read by one GET of the receiver, and completed by its FIN. Receives are
 * always posted in advance.
 */

/** Samples of a duration; all zero when empty. */
struct cluster_samples {
    uint64_t *values;
    size_t count, room;
};

void cluster_samples_add(struct cluster_samples *samples, uint64_t value);
/**
 * Return the value that `per_mille` of the samples do not exceed; 0 if empty. Sorts the samples.
 */
uint64_t cluster_samples_quantile(struct cluster_samples *samples, unsigned per_mille);
void cluster_samples_free(struct cluster_samples *samples);

/** A sending rank and a receiving rank. */
struct cluster_pair {
    uint32_t from, to;
};

/** A message in flight; the sender's cluster_peer lists its messages, oldest first. */
struct cluster_message {
    struct cluster_message *next;
    uint64_t began_ns;
    uint32_t size_bytes;
    bool announced;
};

/** Length classes of W3 and W4: at most a frame, longer but sent at once, or announced first. */
enum cluster_class { CLUSTER_SHORT, CLUSTER_EAGER, CLUSTER_LONG, CLUSTER_CLASSES };

struct cluster_traffic {
    struct cluster_pair *pairs; /**< senders and receivers */
    uint32_t pair_count;
    uint32_t started;          /**< pairs; cluster_traffic_warm starts them in turn */
    uint64_t begun, delivered; /**< messages */
    uint64_t begun_bytes;
    uint32_t size_bytes;                               /**< of due messages */
    bool endless;                                      /**< each message is followed by another */
    uint32_t pinger;                                   /**< rank yet to begin; UINT32_MAX: none */
    uint32_t pings;                                    /**< sent */
    uint64_t ping_ns;                                  /**< when the last ping was sent */
    struct cluster_samples times_ns;                   /**< of messages */
    uint64_t unloaded_ns[CLUSTER_WORKLOAD_SIZES_MAX];  /**< W3, W4: in an idle network; or 0 */
    struct cluster_samples slowdowns[CLUSTER_CLASSES]; /**< in thousandths of that time */
    struct cluster_samples ping_half_ns;               /**< half round trips of pings */
};

void cluster_traffic_init(struct cluster *cluster);
void cluster_traffic_free(struct cluster *cluster);

/** Warm up: send one message per pair, in turn, or run one collective. */
void cluster_traffic_warm(struct cluster *cluster);
/** Start a message. */
void cluster_traffic_send(struct cluster *cluster, struct cluster_pair pair, uint32_t size_bytes);
/** Start the pings. */
void cluster_traffic_ping(struct cluster *cluster);
/** Send a message of the current collective. */
void cluster_traffic_put(struct cluster_peer *to, uint32_t len_bytes);
/** Start all messages of the plan. */
void cluster_traffic_begin(struct cluster *cluster);
/** Return true if all started messages have arrived. */
bool cluster_traffic_done(const struct cluster *cluster);
/** Reset counts and times. */
void cluster_traffic_reset(struct cluster *cluster);

/** Start the due messages of a rank that is awake. */
void cluster_traffic_start(struct cluster_rank *rank);
/** Handle a message received from a peer. */
void cluster_traffic_deliver(struct cluster_peer *from, uint8_t tag, uint32_t len_bytes);
/** Free the list of messages to a peer. */
void cluster_traffic_forget(struct cluster_peer *to);

/* ---- collectives ---- */

/*
 * Consecutive collectives with one rank per host. With messages:
 *
 *   bcast      along a tree, in segments that each rank forwards when they arrive
 *   allreduce  log2(n) rounds; in round k, rank i sends to i + 2^k (dissemination: at most as many
 *              steps as recursive doubling). With one byte it is a barrier
 *
 * With multicast, as in coll/rawe: a bcast is one group message; an allreduce is a message from
 * each rank to rank 0, and a group message back.
 */

/** Number of collectives measured in a run, after one for warm-up. */
#define CLUSTER_COLLECTIVES 20u

/** The current collective. */
struct cluster_collective {
    uint64_t began_ns;
    uint32_t finished; /**< ranks that have received all their data */
    struct sim_random random;
};

/** A rank's part in the current collective. */
struct cluster_part {
    struct rawe_group group; /**< only with multicast */
    struct rawe_group_counters counters;
    struct rawe_group_send send;
    uint32_t came;   /**< segments or messages received */
    uint32_t passed; /**< segments forwarded, or rounds begun */
    uint32_t rounds; /**< rounds whose message was received, one bit each */
    bool due, entered;
};

/** Initialize a rank's part. The rank's engine must be running. */
void cluster_collective_init(struct cluster_rank *rank);

/** Begin `count` collectives. */
void cluster_collective_begin(struct cluster *cluster, uint32_t count);
/** Let a rank that is awake enter the collective if it is due. */
void cluster_collective_start(struct cluster_rank *rank);
/** Handle a multicast frame of the group; `bytes` begin after the Ethernet header. */
void cluster_collective_receive(struct cluster_rank *rank, const uint8_t *bytes, size_t len_bytes);
/** Handle a control message of the group. */
void cluster_collective_control(struct cluster_peer *from, const uint8_t *bytes, size_t len_bytes);
/** Handle a message of the collective. */
void cluster_collective_deliver(struct cluster_peer *from);

/* ---- ranks ---- */

/*
 * A rank: a process with an engine and a progress loop. The ranks of a host share its NIC, which
 * cuts batches and merges received frames. A rank receives a frame `host_ns` after its arrival,
 * together with all frames that have arrived in the meantime; each costs `frame_ns`.
 */

/** A rank's view of another rank. It owns the connections to that rank. */
struct cluster_peer {
    struct rawe_peer peer;
    struct cluster_rank *rank;                         /**< the rank that has this view */
    uint32_t index;                                    /**< number of the other rank */
    struct cluster_peer *next_due;                     /**< next peer with messages due */
    uint32_t due;                                      /**< number of messages due to the peer */
    struct cluster_message *messages, **messages_tail; /**< messages in flight to the peer */
    uint64_t received_bytes;                           /**< data from the peer, without repeats */
};

/** A rank. It is the context of its engine's callbacks. */
struct cluster_rank {
    struct cluster *cluster;
    uint32_t index;
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    uint32_t payload_index; /**< handle of the memory that others GET from */
    uint64_t payload_key;
    struct rawe_txqueue txqueue; /**< batches that the NIC has not sent yet */
    uint32_t batch_bytes;        /**< longest batch that fits */
    struct cluster_peer **peers; /**< hash table by index; its room is a power of two */
    uint32_t peer_count, peer_room;
    struct sim_random random;
    uint64_t wake_ns;      /**< UINT64_MAX: not until a frame arrives */
    uint64_t wake_number;  /**< of the valid wake event; ignore earlier ones */
    bool expects;          /**< it will wake by the time the next frame arrives */
    uint64_t next_ns;      /**< W3, W4: start of the next message; UINT64_MAX: none */
    uint64_t phase_end_ns; /**< end of the present phase of computing or progress */
    bool receives, computes;
    uint64_t free_ns;         /**< busy with frames until then: see cluster_rank_spend */
    struct cluster_part part; /**< its part in a collective */
    struct cluster_peer *due, **due_tail; /**< peers to which messages start when it wakes */
};

/** The progress loop of rank `node` wakes; `value` is its wake_number. */
#define CLUSTER_EVENT_WAKE 1u

void cluster_rank_init(struct cluster_rank *rank, struct cluster *cluster, uint32_t index);
/** Close the connections. */
void cluster_rank_close(struct cluster_rank *rank);
/** Free a rank. The connections of all ranks must have been closed. */
void cluster_rank_free(struct cluster_rank *rank);

/** Return a rank's view of another rank, creating it if necessary. */
struct cluster_peer *cluster_rank_peer(struct cluster_rank *rank, uint32_t index);
/** Plan to wake a rank at `at_ns`, unless it will wake earlier. */
void cluster_rank_wake_by(struct cluster_rank *rank, uint64_t at_ns);
/** Charge a rank for sending or receiving a frame or batch. Returns the time when it is done. */
uint64_t cluster_rank_spend(struct cluster_rank *rank);
/** Plan to wake a rank to receive a frame that is on its last link. */
void cluster_rank_expect(struct cluster_rank *rank);
/** Handle CLUSTER_EVENT_WAKE. */
void cluster_rank_wake(struct cluster_rank *rank, uint64_t number);

/* ---- run ---- */

/** State of a run. */
struct cluster {
    struct cluster_plan plan;
    uint64_t now_ns;
    struct sim_events events;
    struct cluster_net net;
    struct cluster_rank *ranks;
    struct rawe_pull_host *hosts; /**< shared by the ranks of a host */
    struct cluster_traffic traffic;
    struct cluster_collective collective;
    /** All messages of all ranks are read from `payload` and written to `sink`. */
    uint8_t *payload, *sink;
    bool ending; /**< connections are being closed: transmission has stopped */
};

struct cluster_quantiles {
    uint64_t p50, p99, p999;
};

struct cluster_result {
    bool complete;          /**< all messages have arrived; endless: always */
    uint64_t completion_ns; /**< from the start of the first message to the end of the last; average
                             * of a collective */
    /**
     * The minimum completion time: the wire bytes of all messages on the busiest link, divided by
     * its rate, plus a round trip. Endless: for one message of each pair.
     */
    uint64_t ideal_ns;
    struct cluster_quantiles message_ns;
    struct cluster_quantiles slowdown[CLUSTER_CLASSES]; /**< W3, W4: in thousandths */
    uint64_t queue_most_bytes, queue_p999_bytes;        /**< of all ports */
    uint64_t dropped_frames;                            /**< by ports */
    struct rawe_counters counters;                      /**< of all engines, without the warm-up */
    double utilization; /**< endless: data delivered / data at max-min fair rates, or data begun */
    double fair_part;   /**< ... without data that exceeds those rates */
    double jain_index;  /**< ... mean over 10 ms of Jain's index of rates / fair rates */
    struct cluster_quantiles ping_ns; /**< half round trips */
    uint64_t ping_unloaded_ns;        /**< the median in an idle network */
};

/** Run a plan, which determines the result. Ends the program if out of memory. */
struct cluster_result cluster_run(const struct cluster_plan *plan);

#endif
