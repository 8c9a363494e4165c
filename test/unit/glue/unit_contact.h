/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module, and one peer with an endpoint that only the tests know, for the tests of how processes
 * become peers. No process answers.
 */
#ifndef UNIT_CONTACT_H
#define UNIT_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"
#include "btl_rawe_proc.h"
#include "fake_ompi.h"

#define THEIR_HOST 4711u

extern mca_btl_rawe_module_t module; /**< the only one that is listed */
extern mca_btl_rawe_module_t lo;     /**< or another module */
extern mca_btl_base_endpoint_t endpoint;
extern opal_proc_t peer_proc;

/** What every peer has published: one interface, unless a test adds others. */
extern struct mca_btl_rawe_published theirs;
/** The process has been given up. Read by the component. */
extern bool given_up;

/* Calls to mca_btl_rawe_endpoint_get, which returns `endpoint`. */
extern unsigned opened;
extern unsigned opened_address;   /**< index of the address in `theirs`; set by a test */
extern uint32_t opened_mtu_bytes; /**< path MTU of the last call */

/** For set_up and tear_down; they call those of unit_callback. */
void unit_contact_begin(void);
void unit_contact_end(void);

#endif
