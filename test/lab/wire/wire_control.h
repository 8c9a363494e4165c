/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire's control socket: one request and one answer for each connection, in lines of text.
 *
 *     show                            counters of the wire and of each direction, "ok" at the end
 *     set PORTS DIRECTION KEY=VALUE... PORTS: names with commas, or *; DIRECTION: in, out or both;
 *                                     "ok", or "error: ..." and nothing is changed. "none" instead
 *                                     of KEY=VALUE ends all faults. For the whole wire, whatever
 *                                     the ports: seed=NUMBER, batches=cut, batches=whole
 */
#ifndef WIRE_CONTROL_H
#define WIRE_CONTROL_H

#include "wire_switch.h"

/** Opens the listening socket at this path; exits with a message when it cannot. */
int wire_control_listen(const char *path);

/** Serves the clients that wait at the listening socket. */
void wire_control_serve(int listener, struct wire_switch *wire);

/** Carries one request out; the answer is for the caller to free. */
char *wire_control_answer(struct wire_switch *wire, char *request);

#endif
