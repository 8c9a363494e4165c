/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port's packet socket.
 */
#ifndef WIRE_PORT_H
#define WIRE_PORT_H

#include "wire_switch.h"

/** Opens the socket of the port's interface; exits with a message when it cannot. */
void wire_port_open(struct wire_port *port);

/** Takes one frame; false when none waits. The bytes are good until the next call. */
bool wire_port_receive(struct wire_port *port, struct wire_frame *frame);

/** Hands a frame to the host at the other end; false when the kernel refuses it. */
bool wire_port_send(struct wire_port *port, const struct wire_frame *frame);

/** How many frames the kernel had no room for, since the last call. */
uint64_t wire_port_overrun(struct wire_port *port);

#endif
