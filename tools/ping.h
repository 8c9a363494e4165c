/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: declarations shared by its two sides, the asker and the listener.
 *
 * The listener has a well-known port and key, unlike the random ones of an MPI process. It answers
 * a PING with a PONG, as an MPI process's responder does. It answers a batch of VALIDATION frames,
 * which can only arrive as a batch, with an ACK to the last process that asked from that address.
 */
#ifndef PING_H
#define PING_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linux/sys/rawe_interface.h"
#include "linux/packet/rawe_packet.h"
#include "linux/udp/rawe_udp.h"
#include "linux/udp/rawe_udp_address.h"
#include "base/rawe_wire.h"

#define PING_PORT 0x5250u
/** The listener's UDP port: the last of the range that rawe uses by default. */
#define PING_UDP_PORT 60767u
#define PING_KEY 0x70696E67u

/** Exit statuses. */
enum ping_status {
    PING_GOOD = 0,
    PING_TROUBLE = 1, /**< something is blocked or lost */
    PING_CANNOT = 2,  /**< wrong usage, or no way to try */
};

struct ping_options {
    bool listen;
    bool udp;              /**< in UDP datagrams, whose addresses are written as MAC addresses */
    const char *interface; /**< NULL: the only suitable one */
    bool multicast;
    char *const *peers; /**< MAC or IP addresses: one, or several for multicast */
    unsigned peer_count;
    uint16_t ethertype;
    uint32_t key;
    unsigned count;      /**< pings of each size */
    unsigned timeout_ms; /**< time limit for the first answer */
    unsigned seconds;    /**< when listening: end after this time; 0: never */
    bool poll;           /**< spin instead of sleeping */
};

/** A socket for PING and PONG: `udp`, or `fd` with its ring. */
struct ping_socket {
    struct rawe_port *udp;  /**< NULL: raw frames */
    struct rawe_port *link; /**< UDP: where a listener sends answers; otherwise NULL */
    uint8_t *received;      /**< UDP: the last received frame */
    size_t received_bytes;  /**< 0: none */
    struct rawe_ring ring;
    struct tpacket2_hdr *held; /**< slot of the last received frame */
    int fd;
    uint16_t listener_port;         /**< where listeners receive PINGs */
    struct rawe_port_config config; /**< its port and key (same for all), and settings to open it */
    uint8_t mac[RAWE_MAC_BYTES];    /**< our address */
    uint8_t *frame;                 /**< buffer of MTU size for building a frame */
};

/** A received frame: valid until the next one is received. */
struct ping_frame {
    uint8_t source[RAWE_MAC_BYTES];
    struct rawe_header header;
    struct rawe_ping ping;
    const uint8_t *payload;
};

/** Print what is wrong and what to do, and exit the program with PING_CANNOT. */
void ping_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/** Set by SIGINT and SIGTERM once ping_catch_stop was called; before, they end the program. */
extern volatile sig_atomic_t ping_stopped;
void ping_catch_stop(void);

/** Format an address for messages. */
struct rawe_mac_text ping_text(const struct ping_options *options,
                               const uint8_t address[RAWE_MAC_BYTES]);

/** Fill memory with unpredictable random bytes. */
void ping_random(void *out, size_t len_bytes);
/**
 * Return the settings for a responder's port: the well-known port and key to listen, random ones
 * to ask. `interface` must outlive them.
 */
struct rawe_port_config ping_config(const struct rawe_interface *interface,
                                    const struct ping_options *options);
/** Open a port with these settings. Asking over UDP, another port number is drawn if one is taken. */
int ping_open_port(struct rawe_port **port, struct rawe_port_config *config,
                   const struct ping_options *options, struct rawe_port_error *error);
/**
 * Open a socket, either to listen, or to send PINGs from a random port with a random key. It
 * receives frames to `group`, or to the interface's address if that is NULL. Exits the program on
 * failure.
 */
void ping_open(struct ping_socket *one, const struct rawe_interface *interface,
               const struct ping_options *options, const uint8_t *group);
void ping_close(struct ping_socket *one);
/** Write the headers of one of our frames, Ethernet's first: RAWE_PAYLOAD_OFFSET bytes. */
void ping_headers(const struct ping_socket *one, uint8_t *out, const uint8_t to[RAWE_MAC_BYTES],
                  const struct rawe_header *header);
/** Send a frame, `ping` (NULL: none) padded with zeros. False: the kernel did not accept it. */
bool ping_send(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
               const struct rawe_header *header, const struct rawe_ping *ping);
/**
 * Return the connection id of PINGs and PONGs from an address: over UDP they name it, so that the
 * receiver notices NAT (rawe_ping).
 */
uint32_t ping_named(const struct ping_socket *one, const uint8_t address[RAWE_MAC_BYTES]);
/** Send a PING to listeners with this key. If the kernel does not accept it, it counts as lost. */
void ping_question(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES], uint32_t key,
                   uint64_t token, uint16_t payload_bytes);
/** Wait for a PING or PONG until `until_ns`, spinning or asleep. False: none, or stopped. */
bool ping_receive(struct ping_socket *one, struct ping_frame *out, uint64_t until_ns, bool spin);
/** Return true if the padding after the ping is unchanged, all zeros. */
bool ping_padding_right(const struct ping_frame *frame);
/** Explain to the user why opening failed, and exit the program. */
void ping_open_failed(const char *interface, const struct rawe_port_error *error)
    __attribute__((noreturn));

/** A host that asked, and where to send its answers. */
struct ping_asker {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
};

/** The result of sending a batch of frames. */
enum ping_batch {
    PING_BATCH_NOT_OFFERED, /**< no socket for batches can be opened */
    PING_BATCH_PASSES,
    PING_BATCH_CUT_BY_KERNEL, /**< it arrives, but the interface does not cut it */
    PING_BATCH_LOST,
};
/** A host that is asked. */
struct ping_host {
    uint8_t mac[RAWE_MAC_BYTES];
    bool answers;    /**< answers frames to its own address */
    bool gets_frame; /**< receives frames to the group */
    bool gets_batch; /**< received the last batch tried */
};
/**
 * Send a batch to listeners with that key, at a host's or a group's address, until all `hosts` have
 * answered; sets their `gets_batch`. Returns PASSES if all have.
 */
enum ping_batch ping_batch_try(const struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
                               uint32_t key, uint32_t mtu_bytes, struct ping_host *hosts,
                               unsigned count);

/** The listener's side of batches. */
struct ping_batch_listener;
/** Listen for batches to this host, or to a group (NULL: none). NULL: they cannot be received. */
struct ping_batch_listener *ping_batch_listen(struct ping_socket *one, const uint8_t *group);
/** Receive batches; answer complete ones to the asker that has their source address. */
void ping_batch_answer(struct ping_batch_listener *listener, const struct ping_asker *askers,
                       unsigned count);
void ping_batch_close(struct ping_batch_listener *listener);

#endif
