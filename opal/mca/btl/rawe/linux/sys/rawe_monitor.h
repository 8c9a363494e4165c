/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that says what it counts, when it is asked: to its own user and to root, over a Unix
 * socket in no file system, which goes with the process. Without questions it costs nothing.
 *
 * The socket's name is RAWE_MONITOR_PREFIX and digits, so a tool finds it in /proc/net/unix. It
 * connects and receives one packet of text, the first line RAWE_MONITOR_TITLE:
 *
 *     rawe-top 1          the version of what follows
 *     refused             instead of it: the tool's user is another one
 */
#ifndef RAWE_MONITOR_H
#define RAWE_MONITOR_H

#include "../port/rawe_port.h"
#include "rawe_service.h"

#define RAWE_MONITOR_PREFIX "rawe-top-"

/** To be raised when a tool that knows the former text would take the new one wrong. */
#define RAWE_MONITOR_TITLE "rawe-top 1\n"

struct rawe_monitor;

/** What follows the title. Returns text that is to be freed, NULL: there is none. */
typedef char *rawe_monitor_describe_fn(void *context);

/** From now on the service thread answers; it calls `describe`. Returns 0, or -1 and the error. */
int rawe_monitor_open(struct rawe_monitor **monitor, rawe_monitor_describe_fn *describe,
                      void *context, struct rawe_service *service, struct rawe_port_error *error);

/** When this returns `describe` is not called any more. NULL is nothing to close. */
void rawe_monitor_close(struct rawe_monitor *monitor);

#endif
