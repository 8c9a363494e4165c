/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What opening a socket on an interface takes, and what it counts: common to all of a link's parts.
 */
#ifndef RAWE_LINK_CONFIG_H
#define RAWE_LINK_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What went wrong, for the user: which step, errno, and the object it was done to. */
struct rawe_link_error {
    const char *step; /**< static text, e.g. "socket(AF_PACKET)" */
    int code;         /**< errno value */
};

struct rawe_link_config {
    const char *interface; /**< kernel name */
    int interface_index;
    bool loopback;      /**< the interface is lo: frames come back to this host */
    uint16_t ethertype; /**< host order */
    uint16_t port;      /**< ours: frames for others never reach user space */
    uint32_t key;       /**< ours */
    uint16_t ping_port; /**< the responder's, for PING and PONG, which no session key is in */
    uint32_t ping_key;
    uint32_t mtu_bytes; /**< interface MTU: largest frame less the Ethernet header */
    size_t ring_bytes;  /**< memory for the receive ring, rounded as the kernel wants it */
    bool qdisc_bypass;  /**< PACKET_QDISC_BYPASS: skip the administrator's shaping */
    uint8_t priority;   /**< SO_PRIORITY of all that is sent; 0: the kernel's default */
    const char *helper; /**< path of rawe-socket-helper; NULL or empty: none, see rawe_helper.h */
};

struct rawe_link_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t send_full;   /**< the kernel had no room (ENOBUFS, EAGAIN): tried again later */
    uint64_t send_errors; /**< frames the kernel refused for good: counted as lost */
    uint64_t last_send_errno;
    uint64_t ring_drops; /**< tp_drops: frames for us that found the ring full */
};

#endif
