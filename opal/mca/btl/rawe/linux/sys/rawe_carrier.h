/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The carrier of the host's interfaces: the kernel says by rtnetlink when one loses it or has it
 * again.
 */
#ifndef RAWE_CARRIER_H
#define RAWE_CARRIER_H

#include "rawe_interface.h"
#include "rawe_service.h"

struct rawe_carrier;

/**
 * Takes the state of an interface: of `interface`, only name, index, MAC and `up` are set. Called by the
 * service thread with each change, with each message of the kernel that may report one, and, for
 * every interface, at the beginning. Returns false to be called for every interface again, soon.
 */
typedef bool rawe_carrier_fn(void *context, const struct rawe_interface *interface);

/** Begin to watch. Returns 0, or -1 and the error. */
int rawe_carrier_start(struct rawe_carrier **carrier, struct rawe_service *service,
                       rawe_carrier_fn *changed, void *context, struct rawe_port_error *error);

/** `changed` is not called any more when this returns. NULL is nothing to stop. */
void rawe_carrier_stop(struct rawe_carrier *carrier);

#endif
