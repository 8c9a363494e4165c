/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lets a process report its counters to its own user and to root, over an abstract Unix socket that
 * vanishes with the process. It costs nothing while no tool connects.
 *
 * The socket's name is RAWE_MONITOR_PREFIX and digits, so tools find it in /proc/net/unix. A tool
 * connects and receives one packet of text, with RAWE_MONITOR_TITLE as its first line:
 *
 *     rawe-top 1          version of the text that follows
 *     refused             sent instead if the tool belongs to another user
 */
#ifndef RAWE_MONITOR_H
#define RAWE_MONITOR_H

#include "../port/rawe_port.h"
#include "rawe_service.h"

#define RAWE_MONITOR_PREFIX "rawe-top-"

/** Raise the version when tools that know the old text would misread the new text. */
#define RAWE_MONITOR_TITLE "rawe-top 1\n"

struct rawe_monitor;

/** Returns the text after the title, which the monitor frees; NULL: none. */
typedef char *rawe_monitor_describe_fn(void *context);

/** Let the service thread answer tools; it calls `describe`. Returns 0, or -1 and the error. */
int rawe_monitor_open(struct rawe_monitor **monitor, rawe_monitor_describe_fn *describe,
                      void *context, struct rawe_service *service, struct rawe_port_error *error);

/** Stop answering; `describe` is not called after this returns. NULL is allowed. */
void rawe_monitor_close(struct rawe_monitor *monitor);

#endif
