/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the link tests share: a private network namespace with a veth pair in it, and links on it.
 */
#ifndef LINK_FIXTURE_H
#define LINK_FIXTURE_H

#include <stdint.h>
#include <unistd.h>

#include "../../unit/unit_test.h"
#include "../../../opal/mca/btl/rawe/core/base/rawe_wire.h"
#include "../../../opal/mca/btl/rawe/linux/packet/rawe_packet.h"
#include "../../../opal/mca/btl/rawe/linux/probe/rawe_responder.h"

/** Wait until it is so, at most ten seconds. */
#define AWAIT(condition)                                                           \
    for (unsigned waited_ms = 0; waited_ms < 10000 && !(condition); waited_ms++) { \
        usleep(1000);                                                              \
    }

/** One end of the veth pair, or lo. */
struct fixture_end {
    char name[16];
    int index;
    uint8_t mac[6];
    uint16_t port;
    uint32_t key;
    uint16_t ping_port; /**< the responder's */
    uint32_t ping_key;
};

struct fixture {
    struct fixture_end a;
    struct fixture_end b;
    uint32_t mtu_bytes;
};

/**
 * Two ends of 1500 bytes, in a network namespace of this process alone (it vanishes with the process),
 * which it enters before its first test. Without the right to do so, it ends with status 77 (skipped).
 */
extern struct fixture net;

/** Remove the pair and create it again with this MTU; both ends and lo are up afterwards. */
void fixture_renew(struct fixture *fixture, uint32_t mtu_bytes);

/** Make both ends lo, which is what two processes on one host use. */
void fixture_use_loopback(struct fixture *fixture);

/** Run a shell command that must succeed; for `ip` and `nft`. */
void fixture_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** What to open an express port of this end with. */
struct rawe_port_config fixture_config(const struct fixture *fixture,
                                       const struct fixture_end *end);

/** Open a link or fail the test. */
struct rawe_port *fixture_open(const struct fixture *fixture, const struct fixture_end *end,
                               size_t ring_bytes);

/** Start a responder or fail the test. */
struct rawe_responder *fixture_start(const struct fixture *fixture, const struct fixture_end *end);

/** The same with a duty; NULL and the error where its port cannot be opened. */
struct rawe_responder *fixture_try_start(const struct rawe_port_config *config,
                                         const struct fixture_end *end,
                                         const struct rawe_responder_duty *duty,
                                         struct rawe_port_error *error);

/** Write the first RAWE_PAYLOAD_OFFSET bytes of a frame from `from` to `to`. */
void fixture_write_head(uint8_t *frame, const struct fixture_end *from,
                        const struct fixture_end *to, const struct rawe_header *header);

/** Send a frame, which the kernel must take. */
void fixture_send(struct rawe_port *port, uint8_t *frame, size_t len_bytes);

/** Receive what is there, at most 100 frames; how many that were. */
unsigned fixture_receive(struct rawe_port *port);

/**
 * A packet socket of an interface, for frames of this protocol (0: it only sends), which waits ten
 * seconds for one at most.
 */
int fixture_socket(int interface_index, uint16_t protocol);

#endif
