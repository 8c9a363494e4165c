/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: what its two sides, asking and listening, share.
 *
 * The listener has a well-known port and key, instead of the random ones of an MPI process. It answers
 * PING by PONG, as the responder of an MPI process does, and a batch of VALIDATION frames, which can only
 * come by batch, by an ACK to the process of that address that asked last.
 */
#ifndef PING_H
#define PING_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linux/sys/rawe_interface.h"
#include "linux/packet/rawe_packet.h"
#include "base/rawe_wire.h"

#define PING_PORT 0x5250u
#define PING_KEY 0x70696E67u

/** Exit statuses. */
enum ping_status {
    PING_GOOD = 0,
    PING_TROUBLE = 1, /**< something does not pass, or gets lost */
    PING_CANNOT = 2,  /**< wrong use, or no way to try */
};

struct ping_options {
    bool listen;
    const char *interface; /**< NULL: the only one that is fit */
    bool multicast;
    char *const *peers; /**< MAC or IPv4 addresses: one, or of multicast several */
    unsigned peer_count;
    uint16_t ethertype;
    uint32_t key;
    unsigned count;      /**< pings of each size */
    unsigned timeout_ms; /**< for the first answer */
    unsigned seconds;    /**< listening: end after that; 0: never */
    bool poll;           /**< spin instead of sleep */
};

/** A socket for PING and PONG. */
struct ping_socket {
    struct rawe_ring ring;
    struct tpacket2_hdr *held; /**< slot of the frame that was received last */
    int fd;
    struct rawe_port_config config; /**< its port and key (one for all), and what opening needs */
    uint8_t mac[RAWE_MAC_BYTES];    /**< ours */
    uint8_t *frame;                 /**< to put a frame together, of MTU size */
};

/** A frame that was received: valid until the next one is. */
struct ping_frame {
    uint8_t source[RAWE_MAC_BYTES];
    struct rawe_header header;
    struct rawe_ping ping;
    const uint8_t *payload;
};

/* ping_options.c */

/** Reads the command line; ends the program when it is wrong, or with --help. */
struct ping_options ping_options(int argc, char **argv);
/** Says what is wrong and what to do, and ends the program with PING_CANNOT. */
void ping_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** The interface that is meant; ends the program when it is not clear or not usable. */
struct rawe_interface ping_interface(const struct ping_options *options);
/** The MAC address of a peer, as it was named; ends the program when it cannot be found out. */
void ping_peer(const char *peer, const struct rawe_interface *interface,
               uint8_t mac[RAWE_MAC_BYTES]);
const char *ping_mac_text(const uint8_t mac[RAWE_MAC_BYTES], char out[18]);

/* ping_socket.c */

/** Set by SIGINT and SIGTERM, once they are caught; until then they end the program. */
extern volatile sig_atomic_t ping_stopped;
void ping_catch_stop(void);

/** Random, not guessable. */
void ping_random(void *out, size_t len_bytes);
/**
 * Open to listen, also to a group (NULL: none), or to ask, from a random port with a random key; ends the
 * program when it cannot.
 */
void ping_open(struct ping_socket *one, const struct rawe_interface *interface,
               const struct ping_options *options, const uint8_t *group);
void ping_close(struct ping_socket *one);
/** Write the headers of a frame from here, Ethernet first: RAWE_PAYLOAD_OFFSET bytes. */
void ping_headers(const struct ping_socket *one, uint8_t *out, const uint8_t to[RAWE_MAC_BYTES],
                  const struct rawe_header *header);
/** Send a frame; behind `ping` (NULL: none), zeros. False: the kernel did not take it. */
bool ping_send(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
               const struct rawe_header *header, const struct rawe_ping *ping);
/** Send a PING to listeners of that key. What is not taken is as good as lost. */
void ping_question(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES], uint32_t key,
                   uint64_t token, uint16_t payload_bytes);
/** Wait for a PING or PONG until `until_ns`, spinning or asleep. False: none came, or stopped. */
bool ping_receive(struct ping_socket *one, struct ping_frame *out, uint64_t until_ns, bool spin);
/** True when what follows the ping proper is as it was sent: zeros. */
bool ping_padding_right(const struct ping_frame *frame);
/** Ends the program with what a failed opening means to the user. */
void ping_open_failed(const char *interface, const struct rawe_port_error *error)
    __attribute__((noreturn));

/* ping_batch.c */

/** A host that asked: where answers go. */
struct ping_asker {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
};

/** Does a batch of frames pass as a batch? */
enum ping_batch {
    PING_BATCH_NOT_OFFERED, /**< no socket for them can be opened */
    PING_BATCH_PASSES,
    PING_BATCH_CUT_BY_KERNEL, /**< it passes, but the interface does not cut it */
    PING_BATCH_LOST,
};
/** A host that is asked. */
struct ping_host {
    uint8_t mac[RAWE_MAC_BYTES];
    bool answers;    /**< a frame of its own */
    bool gets_frame; /**< to the group */
    bool gets_batch; /**< the last one that was tried */
};
/**
 * Send a batch to listeners of that key, at the address of one or of a group, until all of these hosts
 * have answered; sets their `gets_batch`. PASSES when all have.
 */
enum ping_batch ping_batch_try(const struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
                               uint32_t key, uint32_t mtu_bytes, struct ping_host *hosts,
                               unsigned count);

/** The listener's half of it. */
struct ping_batch_listener;
/** Of batches to this host, or to a group (NULL: none). NULL where they cannot be received. */
struct ping_batch_listener *ping_batch_listen(struct ping_socket *one, const uint8_t *group);
/** Take what has come; answer whole batches to the one of the `askers` whose address they have. */
void ping_batch_answer(struct ping_batch_listener *listener, const struct ping_asker *askers,
                       unsigned count);
void ping_batch_close(struct ping_batch_listener *listener);

/* ping_ask.c, ping_listen.c, ping_multicast.c */

/** Where multicast is sent: 224.0.0.254, for experiments (RFC 4727), plain frames as well. */
extern const uint8_t ping_group[RAWE_MAC_BYTES];

enum ping_status ping_ask(const struct ping_options *options);
enum ping_status ping_listen(const struct ping_options *options);
enum ping_status ping_multicast(const struct ping_options *options);

#endif
