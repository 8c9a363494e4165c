/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Packet sockets for processes that may not open any: rawe-socket-helper, a small program with the
 * capability, opens them and hands them over.
 *
 * It is started for a few sockets, and is no child of the process: no SIGCHLD comes of it, and a
 * program that waits for its children does not meet it. Any thread may call, and waits until the
 * socket is there: where hundreds of ranks start at once on few cores, or a name service is slow,
 * that takes a while.
 */
#ifndef RAWE_HELPER_H
#define RAWE_HELPER_H

#include "rawe_fanout_program.h"
#include "rawe_filter.h"
#include "rawe_helper_request.h"
#include "../port/rawe_port.h"

/**
 * Have `config->helper` open the socket of a port: filtered, the filter locked, bound, without a
 * ring. Returns the descriptor, or -1 and the error. EPERM: none was granted, and the step is a
 * clause that says why. Otherwise a system call failed, here or in the helper.
 */
int rawe_helper_open(const struct rawe_port_config *config, struct rawe_port_error *error);

/** The same for the founder of a fanout group, see rawe_fanout_found. */
int rawe_helper_open_founder(const struct rawe_port_config *config,
                             const struct rawe_fanout_place *places, unsigned count,
                             struct rawe_port_error *error);

/** No further socket is wanted for now: a helper that waits for the next request ends. */
void rawe_helper_hang_up(void);

/**
 * Send the request to the program `path`, which is started unless one waits, and receive the answer;
 * `timeout_ms` for all of it. Returns and fails as rawe_helper_open.
 */
int rawe_helper_ask(const char *path, const struct rawe_helper_request *request, int timeout_ms,
                    struct rawe_port_error *error);

#endif
