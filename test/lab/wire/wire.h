/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-wire: what its files share.
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

/* A frame as on a cable: the hosts' kernels have cut batches and completed checksums. */
struct wire_frame {
    uint8_t *bytes; /* from the destination MAC address on */
    size_t len_bytes;
};

/*
 * One direction of one cable: decides for each frame whether, when, how often and how garbled it
 * comes out. It moves nothing itself; time is an argument (wire_direction.c).
 */

/** What can be wrong with one direction of a cable; shares are probabilities from 0 to 1. */
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
    X(buffer_bytes)      /* what may wait for the rate; the rest is dropped */ \
    X(mtu_bytes)         /* longer frames vanish; 0: none */                   \
    X(blackout_ns)       /* nothing passes for this time from now on */        \
    X(blackout_every_ns) /* and again at this interval; 0: once */

struct wire_settings {
#define WIRE_SETTING_FIELD(name) double name;
    WIRE_SETTINGS(WIRE_SETTING_FIELD)
#undef WIRE_SETTING_FIELD
};

extern const struct wire_settings wire_settings_none;

/** Counters of one direction; all but `bytes` count frames. */
#define WIRE_COUNTERS(X)                                           \
    X(frames)        /* that came to this direction */             \
    X(bytes)         /* in them, with Ethernet header */           \
    X(lost)          /* by `loss` */                               \
    X(burst_lost)    /* by `burst` */                              \
    X(blackout_lost) /* by `blackout` */                           \
    X(too_long)      /* lost by `mtu` */                           \
    X(buffer_full)   /* lost because the rate's buffer was full */ \
    X(duplicated)    /* sent on twice */                           \
    X(reordered)     /* held back */                               \
    X(corrupted)     /* changed, cut short or made longer */       \
    X(delivered)     /* that came out, duplicates included */      \
    X(refused)       /* that the kernel or the wire itself had no room for: not meant to happen */

struct wire_counters {
#define WIRE_COUNTER_FIELD(name) uint64_t name;
    WIRE_COUNTERS(WIRE_COUNTER_FIELD)
#undef WIRE_COUNTER_FIELD
};

struct wire_direction {
    struct wire_settings settings;
    struct wire_counters counters;
    uint64_t random;        /* state of the generator */
    size_t longest_bytes;   /* of the frames that came: no host takes a longer one */
    uint64_t blackout_from; /* ns: when the (first) blackout began */
    uint64_t burst_until;   /* ns: end of the present burst */
    uint32_t burst_left;    /* frames that the present burst still takes */
    uint64_t busy_until;    /* ns: when all that waits for the rate will be out */
};

/** Called for each copy that leaves, at `release_ns`: now or later. The caller owns the bytes. */
typedef void wire_deliver_fn(void *context, const struct wire_frame *frame, uint64_t release_ns);

/** No counts, no faults, a generator decided by `seed` and `stream`. */
void wire_direction_reset(struct wire_direction *direction, uint64_t seed, uint64_t stream);

/** Another generator, everything else as it was. */
void wire_direction_seed(struct wire_direction *direction, uint64_t seed, uint64_t stream);

/** Other settings from now on. A blackout begins now if `blackout_begins`. */
void wire_direction_change(struct wire_direction *direction, const struct wire_settings *settings,
                           bool blackout_begins, uint64_t now_ns);

/** Sends a frame through. Its bytes stay as they are. */
void wire_direction_pass(struct wire_direction *direction, struct wire_frame *frame,
                         uint64_t now_ns, wire_deliver_fn *deliver, void *context);

/*
 * Frames held until their time has come (wire_queue.c).
 */

#define WIRE_NEVER UINT64_MAX

struct wire_held {
    TAILQ_ENTRY(wire_held) entry;
    uint64_t release_ns;
    unsigned port;           /* what its owner wants to know when it comes out */
    bool is_inbound;         /* towards the port's host; else from it into the switch */
    struct wire_frame frame; /* its bytes follow the struct */
};

/** In the order of their times; of equal times first come, first served. */
struct wire_queue {
    TAILQ_HEAD(wire_held_list, wire_held) frames;
    size_t count, bytes;
};

/** Keeps a copy; false when there is no memory, or too much is held already. */
bool wire_queue_put(struct wire_queue *queue, const struct wire_frame *frame, uint64_t release_ns,
                    unsigned port, bool is_inbound);

/** When the next frame is due; WIRE_NEVER when there is none. */
uint64_t wire_queue_next_ns(const struct wire_queue *queue);

/** Takes the next frame out, if it is due; else NULL. The caller frees it. */
struct wire_held *wire_queue_take(struct wire_queue *queue, uint64_t now_ns);

/*
 * The switch: ports, the hosts behind them, and the way of a frame from port to port through the
 * faults of both (wire_switch.c, wire_port.c)
 *
 *      host A ──> port A, outbound direction ──> switch ──> port B, inbound direction ──> host B.
 */

struct wire_port {
    char name[IF_NAMESIZE];      /* of the network interface */
    uint8_t mac[WIRE_MAC_BYTES]; /* of the host's NIC at the other end */
    unsigned group;              /* ports of different groups do not hear each other */
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

/** Opens the socket of the port's interface; exits with a message when it cannot. */
void wire_port_open(struct wire_port *port);

/** Takes one frame; false when none waits. The bytes are good until the next call. */
bool wire_port_receive(struct wire_port *port, struct wire_frame *frame);

/** Hands a frame to the host at the other end; false when the kernel refuses it. */
bool wire_port_send(struct wire_port *port, const struct wire_frame *frame);

/** How many frames the kernel had no room for, since the last call. */
uint64_t wire_port_overrun(struct wire_port *port);

/** Monotonic time. */
uint64_t wire_now_ns(void);

/** Gives all directions generators that this seed decides. */
void wire_switch_seed(struct wire_switch *wire, uint64_t seed);

/** Takes some frames that wait at a port and sends them on their way. */
void wire_switch_receive(struct wire_switch *wire, unsigned port);

/** Sends on what is due; returns when the next one is, or WIRE_NEVER. */
uint64_t wire_switch_release(struct wire_switch *wire);

/*
 * The control socket (wire_control.c): one request and one answer for each connection, in lines of text.
 *
 *     show                            counters of the wire and of each direction, "ok" at the end
 *     set PORT DIRECTION NAME=NUMBER... PORT: a name, or *; DIRECTION: in, out or both; "ok", or
 *                                     "error: ...". NAME is one of WIRE_SETTINGS; "none" resets all
 *                                     of them. For the whole wire, whatever the port: seed=NUMBER.
 */

/** Opens the listening socket at this path; exits with a message when it cannot. */
int wire_control_listen(const char *path);

/** Serves a client that waits at the listening socket. */
void wire_control_serve(int listener, struct wire_switch *wire);

#endif
