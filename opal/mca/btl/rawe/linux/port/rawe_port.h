/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port sends and receives whole frames through one interface. All it knows about the protocol is
 * where the receiver's port and key are, so that the kernel can choose the receiver.
 *
 * A process has up to four ports for each interface (enum rawe_port_use), and three for groups. A
 * port is implemented by its kind, a table of functions; packet/ has the one for AF_PACKET sockets.
 *
 * Threads: receiving and transmitting may overlap, but only one thread may receive at a time. A
 * receiver may itself receive and transmit.
 */
#ifndef RAWE_PORT_H
#define RAWE_PORT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../../core/base/rawe_output.h"

/** Words of rawe_port_config.groups. */
#define RAWE_PORT_GROUP_WORDS 8u

/** Kinds of port (bits), as processes publish them. */
enum {
    RAWE_PORT_KIND_PACKET = 1,
    RAWE_PORT_KIND_UDP = 2,
    RAWE_PORT_KIND_BOTH = RAWE_PORT_KIND_PACKET | RAWE_PORT_KIND_UDP,
};

/** Return the kinds that a value of btl_rawe_kind allows. NULL, "": the default. 0: unknown. */
static inline unsigned rawe_port_kinds(const char *value)
{
    if (value == NULL || *value == '\0' || strcmp(value, "auto") == 0) {
        return RAWE_PORT_KIND_BOTH;
    }
    if (strcmp(value, "packet") == 0) {
        return RAWE_PORT_KIND_PACKET;
    }
    return strcmp(value, "udp") == 0 ? RAWE_PORT_KIND_UDP : 0;
}

/** A port's use, which selects its frames. Each frame goes to one port, except PROBEs to two. */
enum rawe_port_use {
    RAWE_PORT_EXPRESS,   /**< all frames except PING and PONG */
    RAWE_PORT_RESPONDER, /**< PING and PONG to the responder, PROBE to the express port */
    RAWE_PORT_BULK,      /**< batches */
    RAWE_PORT_MIDDLE,    /**< beside a bulk port: the shorter packets of batches */
    RAWE_PORT_USES,      /**< number of uses with sockets from rawe-socket-helper */
    RAWE_PORT_GROUP = RAWE_PORT_USES, /**< group frames, to a group address */
};

/** Return true if a port with this use receives batches. */
static inline bool rawe_port_use_is_bulk(enum rawe_port_use use)
{
    return use == RAWE_PORT_BULK || use == RAWE_PORT_MIDDLE;
}

/** A failure, for the user: the step that failed, and errno. */
struct rawe_port_error {
    const char *step; /**< static text, e.g. "socket(AF_PACKET)" */
    int code;         /**< errno value */
};

/** Set the error. Returns -1, for a failed function to return. */
static inline int rawe_port_failed(struct rawe_port_error *error, const char *step, int code)
{
    *error = (struct rawe_port_error){step, code};
    return -1;
}

/** Call setsockopt(2). Returns 0, or -1 and the error: `step` names the option. */
static inline int rawe_port_set_option(int fd, int level, int name, const void *value,
                                       size_t value_bytes, const char *step,
                                       struct rawe_port_error *error)
{
    return setsockopt(fd, level, name, value, (socklen_t)value_bytes) == 0
               ? 0
               : rawe_port_failed(error, step, errno);
}

/** Return CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t rawe_port_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/** Return CLOCK_REALTIME, the clock of rawe_port_receiver.arrived, in nanoseconds. */
static inline uint64_t rawe_port_arrival_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct rawe_port;
struct rawe_port_kind;

/** The strings remain the caller's, and must stay valid while the port is open. */
struct rawe_port_config {
    const struct rawe_port_kind *kind;
    enum rawe_port_use use;
    const char *interface; /**< kernel name */
    int interface_index;
    uint8_t address[6]; /**< UDP: our IP address, as a MAC address (rawe_udp_address.h) */
    bool loopback;      /**< the interface is lo: frames return to this host */
    uint16_t ethertype; /**< host order */
    uint16_t port;      /**< ours: frames for other ports never reach user space */
    uint32_t key;       /**< ours */
    uint16_t ping_port; /**< the responder's, for PING and PONG, which carry no session key */
    uint32_t ping_key;
    bool pinned; /**< UDP: send through this interface only, whatever the routes are */
    /** UDP's responder: PONGs are sent from this port, which must stay open. NULL: from its own. */
    const struct rawe_port *link;
    uint8_t group[6]; /**< receive frames to this address instead of the interface's; zeros: none */
    /**
     * NULL: receive frames with our port and key. Otherwise only frames to these groups, with any
     * port and key: bit i (of word i / 32) is set for ids whose last byte is i. Owned by the
     * caller, which may change it (rawe_port_renew_filter).
     */
    const uint32_t *groups;
    uint32_t mtu_bytes;       /**< largest frame, without the Ethernet header */
    size_t ring_bytes;        /**< memory for receiving; a responder takes less */
    size_t middle_ring_bytes; /**< memory of a bulk port's middle port; 0: ring_bytes */
    uint8_t priority;         /**< SO_PRIORITY of everything sent; 0: the kernel's default */
    const char *helper; /**< path of rawe-socket-helper; NULL or empty: none, see rawe_helper.h */
    bool once;          /**< do not retry for some seconds when a helper cannot be started */
};

struct rawe_port_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t send_full;   /**< no room in the kernel (ENOBUFS, EAGAIN): retried later */
    uint64_t send_errors; /**< frames that the kernel refused permanently: counted as lost */
    uint64_t ring_drops;  /**< dropped by the kernel for lack of room; UDP: or damaged, foreign */
    uint64_t damaged;     /**< batch packets dropped because truncated, or corrupted in transit */
};

/** Receives frames. All functions get `context`; their arguments are valid until they return. */
struct rawe_port_receiver {
    /** Called for a frame, which may be modified. A responder gets only its head and PING. */
    void (*frame)(void *context, uint8_t *frame, size_t len_bytes);
    /** Bulk ports: return where to receive the `data_bytes` after this batch header, or NULL. */
    uint8_t *(*place)(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes);
    /** Bulk ports: called for a packet, whose data may be where `place` said, or elsewhere. */
    void (*packet)(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                   const uint8_t *data, size_t data_bytes);
    /**
     * Called with the next frame's or packet's arrival time (CLOCK_REALTIME), and the UDP port that
     * sent it (0: a raw frame). May be NULL.
     */
    void (*arrived)(void *context, uint64_t arrived_ns, uint16_t source_port);
};

/** First member of each kind's own struct. */
struct rawe_port {
    /** A frame is waiting if this word, masked with `mask`, is not `idle`. */
    const uint32_t *word;
    uint32_t mask;
    uint32_t idle;
    /** Otherwise look for one, with a system call. Returns true if found. NULL: the word is all. */
    bool (*poll)(struct rawe_port *port);
    const struct rawe_port_kind *kind;
    struct rawe_port *beside; /**< bulk: the middle port; or NULL */
    int fd;                   /**< readable when a frame is waiting; for poll or epoll */
    unsigned receive_frames;  /**< minimum number of frames that fit: the basis of credit */
    /** Share of the MTU that the kernel's headers take. Bulk: besides the batch header. */
    unsigned overhead_bytes;
    uint32_t batch_bytes; /**< bulk: see rawe_batch_output.longest_bytes */
    bool offloaded;       /**< bulk: the device segments batches, or passes them whole */
};

/** Operations of a kind of port. Those without a comment are described below. */
struct rawe_port_kind {
    int (*open)(struct rawe_port **port, const struct rawe_port_config *config,
                struct rawe_port_error *error);
    int (*reopen)(struct rawe_port *port, int interface_index, struct rawe_port_error *error);
    /** For groups. NULL: the kind has no group ports. */
    int (*renew_filter)(struct rawe_port *port, struct rawe_port_error *error);
    /** Return the index of the port's interface; negative if that was deleted. */
    int (*interface)(const struct rawe_port *port);
    void (*close)(struct rawe_port *port);
    unsigned (*receive)(struct rawe_port *port, unsigned budget,
                        const struct rawe_port_receiver *receiver, void *context);
    /** rawe_output.transmit; the context is the port. */
    unsigned (*transmit)(void *port, const struct rawe_frame *frames, unsigned count);
    /** rawe_batch_output.transmit; the context is the port. Bulk ports only. NULL: none exist. */
    bool (*transmit_batch)(void *port, const struct rawe_frame *packet, uint32_t segment_bytes);
    void (*read_counters)(struct rawe_port *port, struct rawe_port_counters *counters);
};

/**
 * Open a port. No foreign frame can arrive before the filter is attached. Returns 0, or -1 and the
 * error. EPERM means that CAP_NET_RAW is missing and the helper (rawe_helper.h) opened no socket
 * either; the step says why.
 */
static inline int rawe_port_open(struct rawe_port **port, const struct rawe_port_config *config,
                                 struct rawe_port_error *error)
{
    return config->kind->open(port, config, error);
}

/**
 * Reopen a port under the same descriptor and configuration, except for the interface index: to
 * leave a fanout group, or to follow a recreated interface. Waiting frames are lost. Do not call
 * from a receiver. Returns 0, or -1 and the error; then the port is unchanged.
 */
static inline int rawe_port_reopen(struct rawe_port *port, int interface_index,
                                   struct rawe_port_error *error)
{
    return port->kind->reopen(port, interface_index, error);
}

/** Apply a change of rawe_port_config.groups, which is not NULL. Returns 0, or -1 and the error. */
static inline int rawe_port_renew_filter(struct rawe_port *port, struct rawe_port_error *error)
{
    return port->kind->renew_filter(port, error);
}

/** Close the port. NULL is allowed. */
static inline void rawe_port_close(struct rawe_port *port)
{
    if (port != NULL) {
        port->kind->close(port);
    }
}

/** Return true if a frame is waiting, not counting the port beside this one. */
static inline bool rawe_port_pending_itself(struct rawe_port *port)
{
    return (__atomic_load_n(port->word, __ATOMIC_ACQUIRE) & port->mask) != port->idle ||
           (port->poll != NULL && port->poll(port));
}

/**
 * Return true if a frame is waiting. Idle loops call this continually: a ring needs no system call.
 * Not for two threads at a time, nor beside rawe_port_receive in another.
 */
static inline bool rawe_port_pending(struct rawe_port *port)
{
    return rawe_port_pending_itself(port) ||
           (port->beside != NULL && rawe_port_pending_itself(port->beside));
}

/** Hand over up to `budget` frames or packets, in order of arrival. Returns the frame count. */
static inline unsigned rawe_port_receive(struct rawe_port *port, unsigned budget,
                                         const struct rawe_port_receiver *receiver, void *context)
{
    return port->kind->receive(port, budget, receiver, context);
}

/** Read the counters; ring_drops takes a system call. All are 0 if `port` is NULL. */
static inline void rawe_port_read_counters(struct rawe_port *port,
                                           struct rawe_port_counters *counters)
{
    *counters = (struct rawe_port_counters){.frames_sent = 0};
    if (port != NULL) {
        port->kind->read_counters(port, counters);
    }
}

#endif
