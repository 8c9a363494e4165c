/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Packet sockets for processes that may not open any: rawe-socket-helper, a small program with the
 * capability, opens them and hands them over (doc/security.md). It is not a child of the process,
 * so it causes no SIGCHLD, and a program that waits for its children does not reap it. Any thread
 * may call. The call blocks until the socket is open, which may take seconds.
 *
 * They communicate over a SOCK_SEQPACKET socket pair. The helper's standard input is one end of
 * it. Each request is answered before the next; all messages are fixed-size structs in host
 * order. An answer carries the granted socket (SCM_RIGHTS). The helper exits after a refusal, after
 * RAWE_HELPER_SOCKETS_MAX grants, and when the process hangs up. The two may be from different
 * releases, so `version` always comes first in both structs.
 */
#ifndef RAWE_HELPER_H
#define RAWE_HELPER_H

#include "rawe_filter.h"
#include "../port/rawe_port.h"

#define RAWE_HELPER_VERSION 2u

/** Sockets that one helper grants: an interface's, and one more. Earlier releases granted one. */
#define RAWE_HELPER_SOCKETS_MAX 5u

/** Bytes of an interface's name, including the terminating 0 (IFNAMSIZ). */
#define RAWE_HELPER_NAME_BYTES 16u

/** Members that a kind of socket does not use are 0. */
struct rawe_helper_request {
    uint32_t version; /**< RAWE_HELPER_VERSION */
    uint32_t what;    /**< enum rawe_port_use */
    char interface[RAWE_HELPER_NAME_BYTES];
    uint16_t ethertype; /**< not for bulk */
    uint16_t port;
    uint16_t ping_port;   /**< a responder's */
    uint16_t place_count; /**< not 0: for the founder of a fanout group, without keys */
    uint32_t key;
    uint32_t ping_key;                                       /**< a responder's */
    struct rawe_fanout_place places[RAWE_FANOUT_PLACES_MAX]; /**< sorted by key */
};

enum rawe_helper_status {
    RAWE_HELPER_GRANTED,
    RAWE_HELPER_OTHER_VERSION,
    RAWE_HELPER_BAD_REQUEST,
    RAWE_HELPER_NO_LIST,           /**< the access list is missing or unreadable */
    RAWE_HELPER_UNSAFE_LIST,       /**< users other than root can write it */
    RAWE_HELPER_BAD_LIST,          /**< a line of the list is wrong; see the helper's log */
    RAWE_HELPER_USER_REFUSED,      /**< the list names neither the user nor one of its groups */
    RAWE_HELPER_INTERFACE_REFUSED, /**< the list does not name the interface */
    RAWE_HELPER_ETHERTYPE_REFUSED, /**< the list does not name the EtherType */
    RAWE_HELPER_INTERFACE_UNKNOWN,
    RAWE_HELPER_NO_CAPABILITY, /**< the helper itself may not open packet sockets */
    RAWE_HELPER_FAILED,        /**< a system call failed with `code` */
    RAWE_HELPER_NO_LOG,        /**< the system log did not accept the line about the grant */
    RAWE_HELPER_STATUS_COUNT,
};

struct rawe_helper_answer {
    uint32_t version; /**< RAWE_HELPER_VERSION */
    uint32_t status;  /**< enum rawe_helper_status */
    int32_t code;     /**< errno, for RAWE_HELPER_FAILED */
};

/**
 * Make `config->helper` open a port's socket: bound unless it is for batches, with its filter
 * locked, without a ring. Or, if `place_count` is not 0, the founder of a fanout group
 * (rawe_fanout_found). Returns the descriptor, or -1 and the error. EPERM: no socket was granted;
 * the step is a clause that says why. EBUSY: other requests take too long. Other errors: a system
 * call failed, here or in the helper.
 */
int rawe_helper_open(const struct rawe_port_config *config, const struct rawe_fanout_place *places,
                     unsigned place_count, struct rawe_port_error *error);

/** End a helper that is waiting for the next request: no more sockets are needed for now. */
void rawe_helper_hang_up(void);

/**
 * Send a request to the program `path`, which is started unless one is waiting. Threads take turns.
 * Takes at most `timeout_ms`: the error is EBUSY if other threads' requests take half of it. See
 * rawe_helper_open.
 */
int rawe_helper_ask(const char *path, const struct rawe_helper_request *request, int timeout_ms,
                    struct rawe_port_error *error);

#endif
