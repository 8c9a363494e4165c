/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared parts of the link tests: a private network namespace with a veth pair, and links on it.
 */
#ifndef LINK_FIXTURE_H
#define LINK_FIXTURE_H

#include <stdint.h>
#include <unistd.h>

#include "../../unit/unit_test.h"
#include "../../../opal/mca/btl/rawe/core/base/rawe_wire.h"
#include "../../../opal/mca/btl/rawe/linux/packet/rawe_packet.h"
#include "../../../opal/mca/btl/rawe/linux/probe/rawe_responder.h"

/** Wait until the condition holds, for at most ten seconds. */
#define AWAIT(condition)                                                           \
    for (unsigned waited_ms = 0; waited_ms < 10000 && !(condition); waited_ms++) { \
        usleep(1000);                                                              \
    }

/** An end of the veth pair, or lo. */
struct fixture_end {
    char name[16];
    int index;
    uint8_t mac[6];
    uint16_t port;
    uint32_t key;
    uint16_t ping_port; /**< the responder's port */
    uint32_t ping_key;
};

struct fixture {
    struct fixture_end a;
    struct fixture_end b;
    uint32_t mtu_bytes;
};

/**
 * Two ends with an MTU of 1500, in a private network namespace that the process enters before its
 * first test. Without that privilege, the process ends with status 77 (skipped).
 */
extern struct fixture net;

/** Recreate the veth pair with this MTU; both ends and lo are up afterwards. */
void fixture_renew(struct fixture *fixture, uint32_t mtu_bytes);

/** Let both ends be lo, which two processes on one host would use. */
void fixture_use_loopback(struct fixture *fixture);

/** Run a shell command, such as `ip` or `nft`, that must succeed. */
void fixture_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Return the configuration of an express port on this end. */
struct rawe_port_config fixture_config(const struct fixture *fixture,
                                       const struct fixture_end *end);

/** Open a port, or fail the test. */
struct rawe_port *fixture_open(const struct fixture *fixture, const struct fixture_end *end,
                               size_t ring_bytes);

/** Start a responder, or fail the test. */
struct rawe_responder *fixture_start(const struct fixture *fixture, const struct fixture_end *end);

/** Start a responder with a duty. Returns NULL and sets the error if its port cannot be opened. */
struct rawe_responder *fixture_try_start(const struct rawe_port_config *config,
                                         const struct fixture_end *end,
                                         const struct rawe_responder_duty *duty,
                                         struct rawe_port_error *error);

/** Write the first RAWE_PAYLOAD_OFFSET bytes of a frame from `from` to `to`. */
void fixture_write_head(uint8_t *frame, const struct fixture_end *from,
                        const struct fixture_end *to, const struct rawe_header *header);

/** Send a frame, which the kernel must accept. */
void fixture_send(struct rawe_port *port, uint8_t *frame, size_t len_bytes);

/** Receive up to 100 waiting frames. Returns their number. */
unsigned fixture_receive(struct rawe_port *port);

/**
 * Open a packet socket on an interface for frames of `protocol` (0: for sending only). A receive
 * call times out after ten seconds.
 */
int fixture_socket(int interface_index, uint16_t protocol);

#endif
