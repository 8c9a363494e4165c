/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port: one way to the wire through one interface. It moves whole frames; it knows of the
 * protocol only where the receiver's port and key lie, so that the kernel can choose the receiver of a frame.
 *
 * A process has up to four for each interface (enum rawe_port_use), and three for groups. How a port
 * does its work is its kind, a table of functions: packet/ has the one for AF_PACKET sockets.
 *
 * Threads: receiving and transmitting may go on at the same time, but receiving in one thread at a
 * time. A receiver may itself receive and transmit.
 */
#ifndef RAWE_PORT_H
#define RAWE_PORT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "../../core/base/rawe_output.h"

/** Words of rawe_port_config.groups. */
#define RAWE_PORT_GROUP_WORDS 8u

/** What a port is for: which frames it gets. Each frame for a process goes to one, a PROBE to two. */
enum rawe_port_use {
    RAWE_PORT_EXPRESS,   /**< all frames but PING and PONG */
    RAWE_PORT_RESPONDER, /**< PING and PONG to the responder's address, PROBE to the express port's */
    RAWE_PORT_BULK,      /**< batches */
    RAWE_PORT_MIDDLE,    /**< beside a bulk port: those packets of batches that are not too long */
    RAWE_PORT_USES,      /**< how many of them rawe-socket-helper opens sockets for */
    RAWE_PORT_GROUP = RAWE_PORT_USES, /**< frames of groups, to a group address */
};

/** Does it get batches? */
static inline bool rawe_port_use_is_bulk(enum rawe_port_use use)
{
    return use == RAWE_PORT_BULK || use == RAWE_PORT_MIDDLE;
}

/** What went wrong, for the user: which step, errno, and the object it was done to. */
struct rawe_port_error {
    const char *step; /**< static text, e.g. "socket(AF_PACKET)" */
    int code;         /**< errno value */
};

/** Returns -1, for a function that has failed to return. */
static inline int rawe_port_failed(struct rawe_port_error *error, const char *step, int code)
{
    *error = (struct rawe_port_error){step, code};
    return -1;
}

/** setsockopt(2). Returns 0, or -1 and the error: `step` names the option. */
static inline int rawe_port_set_option(int fd, int level, int name, const void *value,
                                       size_t value_bytes, const char *step,
                                       struct rawe_port_error *error)
{
    return setsockopt(fd, level, name, value, (socklen_t)value_bytes) == 0
               ? 0
               : rawe_port_failed(error, step, errno);
}

/** CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t rawe_port_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/** CLOCK_REALTIME in nanoseconds: the clock of rawe_port_receiver.arrived. */
static inline uint64_t rawe_port_arrival_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct rawe_port_kind;

/** The strings stay the caller's, and are used for as long as the port is open. */
struct rawe_port_config {
    const struct rawe_port_kind *kind;
    enum rawe_port_use use;
    const char *interface; /**< kernel name */
    int interface_index;
    bool loopback;      /**< the interface is lo: frames come back to this host */
    uint16_t ethertype; /**< host order */
    uint16_t port;      /**< ours: frames for others never reach user space */
    uint32_t key;       /**< ours */
    uint16_t ping_port; /**< the responder's, for PING and PONG, which no session key is in */
    uint32_t ping_key;
    uint8_t group[6]; /**< frames to this address instead of the interface's; zeros: none */
    /**
     * NULL: frames with our port and key. Else those to these groups alone, whatever stands there: bit i
     * (of word i / 32) is set if the last byte of an id is i. It stays the caller's, and may change:
     * see rawe_port_renew_filter.
     */
    const uint32_t *groups;
    uint32_t mtu_bytes; /**< interface MTU: largest frame less the Ethernet header */
    size_t ring_bytes;  /**< memory to receive express frames in; the other uses take less */
    uint8_t priority;   /**< SO_PRIORITY of all that is sent; 0: the kernel's default */
    const char *helper; /**< path of rawe-socket-helper; NULL or empty: none, see rawe_helper.h */
    bool once;          /**< no further attempts for some seconds when a helper cannot be started */
};

struct rawe_port_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t send_full;   /**< the kernel had no room (ENOBUFS, EAGAIN): tried again later */
    uint64_t send_errors; /**< frames the kernel refused for good: counted as lost */
    uint64_t ring_drops;  /**< frames for us that found no room to be received */
    uint64_t damaged; /**< packets of bulk that were dropped: cut short, or changed on the way */
};

/** Where received frames go. All functions get `context`; what they get is valid until they return. */
struct rawe_port_receiver {
    /** A frame, which may be changed. Of a responder's, only head and PING; `len_bytes` is all. */
    void (*frame)(void *context, uint8_t *frame, size_t len_bytes);
    /** Of a bulk port: where to receive the `data_bytes` behind this batch header; or NULL. */
    uint8_t *(*place)(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes);
    /** Of a bulk port: a packet, its data where `place` said, or anywhere. */
    void (*packet)(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                   const uint8_t *data, size_t data_bytes);
    /** When what is handed up next arrived at this host, by CLOCK_REALTIME. NULL: no matter. */
    void (*arrived)(void *context, uint64_t arrived_ns);
};

/** First member of every kind's own struct. */
struct rawe_port {
    /** A frame waits when the bits of this word that `mask` has are not `idle`. */
    const uint32_t *word;
    uint32_t mask;
    uint32_t idle;
    const struct rawe_port_kind *kind;
    struct rawe_port *beside; /**< of bulk: the middle port; NULL */
    int fd;                   /**< readable when a frame waits, to sleep on */
    unsigned receive_frames;  /**< that fit at least: what receiver credit is dealt out of */
    unsigned overhead_bytes;  /**< of bulk: what a packet has of the MTU, beside the batch header */
    uint32_t batch_bytes;     /**< of bulk: see rawe_batch_output.longest_bytes */
    bool offloaded;           /**< of bulk: the device cuts batches, or passes them whole */
};

/** What a kind of port does; see the functions below where there is no comment. */
struct rawe_port_kind {
    int (*open)(struct rawe_port **port, const struct rawe_port_config *config,
                struct rawe_port_error *error);
    int (*reopen)(struct rawe_port *port, int interface_index, struct rawe_port_error *error);
    int (*renew_filter)(struct rawe_port *port, struct rawe_port_error *error);
    /** Index of the interface that it receives from; negative when that is gone. */
    int (*interface)(const struct rawe_port *port);
    void (*close)(struct rawe_port *port);
    unsigned (*receive)(struct rawe_port *port, unsigned budget,
                        const struct rawe_port_receiver *receiver, void *context);
    /** rawe_output.transmit; its context is the port. */
    unsigned (*transmit)(void *port, const struct rawe_frame *frames, unsigned count);
    /** rawe_batch_output.transmit, the same; of bulk ports. */
    bool (*transmit_batch)(void *port, const struct rawe_frame *packet, uint32_t segment_bytes);
    void (*read_counters)(struct rawe_port *port, struct rawe_port_counters *counters);
};

/**
 * Open it; no foreign frame can slip in before the filter is in force. Returns 0, or -1 and the
 * error. EPERM means that CAP_NET_RAW is missing, and that the helper (rawe_helper.h) opened no
 * socket either; the step says why.
 */
static inline int rawe_port_open(struct rawe_port **port, const struct rawe_port_config *config,
                                 struct rawe_port_error *error)
{
    return config->kind->open(port, config, error);
}

/**
 * Open it again, under the same descriptor, with the same configuration but for the interface's
 * index: to leave a fanout group, or to follow an interface that is back. Frames that wait are lost.
 * Not from a receiver. Returns 0, or -1 and the error: the port is then as it was.
 */
static inline int rawe_port_reopen(struct rawe_port *port, int interface_index,
                                   struct rawe_port_error *error)
{
    return port->kind->reopen(port, interface_index, error);
}

/** rawe_port_config.groups, which is not NULL, has changed. Returns 0, or -1 and the error. */
static inline int rawe_port_renew_filter(struct rawe_port *port, struct rawe_port_error *error)
{
    return port->kind->renew_filter(port, error);
}

/** NULL is nothing to close. */
static inline void rawe_port_close(struct rawe_port *port)
{
    if (port != NULL) {
        port->kind->close(port);
    }
}

/** Of the port without the one beside it. */
static inline bool rawe_port_pending_itself(const struct rawe_port *port)
{
    return (__atomic_load_n(port->word, __ATOMIC_ACQUIRE) & port->mask) != port->idle;
}

/** True when a frame waits: no system call. An idle progress loop asks millions of times a second. */
static inline bool rawe_port_pending(const struct rawe_port *port)
{
    return rawe_port_pending_itself(port) ||
           (port->beside != NULL && rawe_port_pending_itself(port->beside));
}

/** Hand over up to `budget` frames or packets, in order of arrival. Returns how many frames came. */
static inline unsigned rawe_port_receive(struct rawe_port *port, unsigned budget,
                                         const struct rawe_port_receiver *receiver, void *context)
{
    return port->kind->receive(port, budget, receiver, context);
}

/** The kernel's own (ring_drops) are fetched by this call, a system call. NULL has counted nothing. */
static inline void rawe_port_read_counters(struct rawe_port *port,
                                           struct rawe_port_counters *counters)
{
    *counters = (struct rawe_port_counters){.frames_sent = 0};
    if (port != NULL) {
        port->kind->read_counters(port, counters);
    }
}

#endif
