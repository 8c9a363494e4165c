/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening ports in parallel. For each ring the kernel waits until no processor can be in the socket
 * any more (packet_set_ring, synchronize_net): 14 ms; 70 ms for five rings in sequence, and 12 with
 * a thread each (Linux 6.18, two busy cores). With 256 processes on these cores each ring takes a
 * second or more.
 */
#ifndef RAWE_PORT_OPENING_H
#define RAWE_PORT_OPENING_H

#include <pthread.h>
#include <stdbool.h>

#include "rawe_port.h"

/** A port being opened by a thread. */
struct rawe_port_opening {
    struct rawe_port_config config; /**< set by the caller */
    struct rawe_port *port;
    struct rawe_port_error error;
    pthread_t thread;
    bool threaded;
};

/** Begin to open a port. */
void rawe_port_open_begin(struct rawe_port_opening *opening);

/** Wait until the port is open. NULL: it could not be opened, see `error`. */
struct rawe_port *rawe_port_open_end(struct rawe_port_opening *opening);

#endif
