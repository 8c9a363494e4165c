/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared parts of rawe-wire.
 */
#ifndef WIRE_H
#define WIRE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define WIRE_ETH_HEADER_BYTES 14u
#define WIRE_MAC_BYTES 6u
#define WIRE_FRAME_BYTES_MAX (WIRE_ETH_HEADER_BYTES + (64u << 10))

/* A frame as on a cable: the hosts' kernels have already cut batches and completed checksums. */
struct wire_frame {
    uint8_t *bytes; /* starting with the destination MAC address */
    size_t len_bytes;
};

/*
 * One direction of a cable: decides whether, when, how often and with what damage each frame is
 * delivered. It does no I/O, and time is an argument (wire_direction.c).
 */

/** Faults of one direction of a cable; shares are probabilities from 0 to 1. */
#define WIRE_SETTINGS(X)                                                       \
    X(loss)              /* share of the frames lost independently */          \
    X(burst)             /* share of the frames that start a burst of loss, */ \
    X(burst_frames)      /* of this many frames, or */                         \
    X(burst_ns)          /* of this time */                                    \
    X(duplicate)         /* share that arrives twice */                        \
    X(corrupt)           /* share in which a byte is changed */                \
    X(truncate)          /* share that is cut short */                         \
    X(pad)               /* share to which zeros are appended */               \
    X(lengthen)          /* share to which other bytes are appended */         \
    X(repeat_changed)    /* share that arrives twice, then a byte changed */   \
    X(reorder)           /* share held back, */                                \
    X(reorder_ns)        /* for this time at most */                           \
    X(delay_ns)          /* of every frame */                                  \
    X(rate_bits)         /* a second; 0: no limit */                           \
    X(buffer_bytes)      /* queue before the rate limit; excess is dropped */  \
    X(mtu_bytes)         /* longer frames vanish; 0: none */                   \
    X(blackout_ns)       /* nothing passes for this time, beginning now */     \
    X(blackout_every_ns) /* and again at this interval; 0: once */

struct wire_settings {
#define WIRE_SETTING_FIELD(name) double name;
    WIRE_SETTINGS(WIRE_SETTING_FIELD)
#undef WIRE_SETTING_FIELD
};

extern const struct wire_settings wire_settings_none;

/** Counters of one direction; all except `bytes` count frames. */
#define WIRE_COUNTERS(X)                                           \
    X(frames)        /* that entered this direction */             \
    X(bytes)         /* in them, with Ethernet header */           \
    X(lost)          /* by `loss` */                               \
    X(burst_lost)    /* by `burst` */                              \
    X(blackout_lost) /* by `blackout` */                           \
    X(too_long)      /* lost by `mtu` */                           \
    X(buffer_full)   /* lost because the rate's buffer was full */ \
    X(duplicated)    /* sent on twice */                           \
    X(reordered)     /* held back */                               \
    X(corrupted)     /* changed, cut short or made longer */       \
    X(delivered)     /* including duplicates */                    \
    X(refused)       /* by the kernel or by the wire itself, for lack of room: should not happen */

struct wire_counters {
#define WIRE_COUNTER_FIELD(name) uint64_t name;
    WIRE_COUNTERS(WIRE_COUNTER_FIELD)
#undef WIRE_COUNTER_FIELD
};

struct wire_direction {
    struct wire_settings settings;
    struct wire_counters counters;
    uint64_t random;        /* state of the generator */
    size_t longest_bytes;   /* of all frames: no host accepts a longer one */
    uint64_t blackout_from; /* ns: when the (first) blackout began */
    uint64_t burst_until;   /* ns: end of the present burst */
    uint32_t burst_left;    /* frames that the present burst will still lose */
    uint64_t busy_until;    /* ns: when all queued frames will have been sent */
};

/** Called for each copy to deliver at `release_ns`, now or later. The caller owns the bytes. */
typedef void wire_deliver_fn(void *context, const struct wire_frame *frame, uint64_t release_ns);

/** Reset counters and faults, and seed the generator with `seed` and `stream`. */
void wire_direction_reset(struct wire_direction *direction, uint64_t seed, uint64_t stream);

/** Reseed the generator, and leave everything else unchanged. */
void wire_direction_seed(struct wire_direction *direction, uint64_t seed, uint64_t stream);

/** Change the settings. A blackout begins now if `blackout_begins`. */
void wire_direction_change(struct wire_direction *direction, const struct wire_settings *settings,
                           bool blackout_begins, uint64_t now_ns);

/** Pass a frame through the faults. The frame's own bytes do not change. */
void wire_direction_pass(struct wire_direction *direction, struct wire_frame *frame,
                         uint64_t now_ns, wire_deliver_fn *deliver, void *context);

/*
 * Frames held until they are due.
 */

#define WIRE_NEVER UINT64_MAX

struct wire_held {
    TAILQ_ENTRY(wire_held) entry;
    uint64_t release_ns;
    unsigned port;           /* for use when the frame is released */
    bool is_inbound;         /* towards the port's host; otherwise into the switch */
    struct wire_frame frame; /* the frame's bytes follow this struct */
};

/** Sorted by release time; frames with equal times stay in order. */
struct wire_queue {
    TAILQ_HEAD(wire_held_list, wire_held) frames;
    size_t count, bytes;
};

/*
 * The switch: ports and the hosts behind them. A frame passes through the faults of both its ports
 * (wire_switch.c):
 *
 *      host A ──> port A, outbound direction ──> switch ──> port B, inbound direction ──> host B.
 */

struct wire_port {
    char name[IF_NAMESIZE];      /* of the network interface */
    uint8_t mac[WIRE_MAC_BYTES]; /* of the host's NIC at the other end */
    unsigned group;              /* ports of different groups are not connected */
    int fd;                      /* packet socket */
    struct wire_direction in;    /* towards the host */
    struct wire_direction out;   /* from the host */
};

struct wire_switch {
    struct wire_port *ports;
    unsigned count;
    struct wire_queue held;
    uint64_t seed;
};

/** Open the socket of the port's interface, or exit with a message. */
void wire_port_open(struct wire_port *port);

/** Return how many frames the kernel has dropped for lack of room since the last call. */
uint64_t wire_port_overrun(struct wire_port *port);

/** Return the monotonic time. */
uint64_t wire_now_ns(void);

/** Seed the generators of all directions. */
void wire_switch_seed(struct wire_switch *wire, uint64_t seed);

/** Receive some of the frames that are waiting at a port, and pass them on. */
void wire_switch_receive(struct wire_switch *wire, unsigned port);

/** Send the frames that are due. Returns the time at which the next is due, or WIRE_NEVER. */
uint64_t wire_switch_release(struct wire_switch *wire);

/*
 * The control socket (wire_main.c): one request and one answer per connection, in lines of text.
 *
 *     show                            counters of the wire and of each direction, "ok" at the end
 *     set PORT DIRECTION NAME=NUMBER... PORT: a name, or *; DIRECTION: in, out or both; "ok", or
 *                                     "error: ...". NAME is one of WIRE_SETTINGS; "none" resets all
 *                                     of them. For the whole wire, whatever the port: seed=NUMBER.
 */

#endif
