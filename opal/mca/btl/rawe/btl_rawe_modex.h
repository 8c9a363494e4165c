/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The modex: which addresses each process publishes.
 */
#ifndef MCA_BTL_RAWE_MODEX_H
#define MCA_BTL_RAWE_MODEX_H

#include "btl_rawe_compat.h"

#include "btl_rawe_address.h"

/** Publish the addresses of all modules. */
int mca_btl_rawe_modex_send(void);

/**
 * Addresses of a process: at most MCA_BTL_RAWE_MODULES_MAX. Returns their number, 0 when it has no
 * rawe or speaks another version.
 */
unsigned mca_btl_rawe_modex_receive(const opal_proc_t *proc,
                                    struct mca_btl_rawe_address *addresses);

/** The same from what a process published. `proc` is for messages; NULL: no messages. */
unsigned mca_btl_rawe_modex_parse(const opal_proc_t *proc, const void *data, size_t len_bytes,
                                  struct mca_btl_rawe_address *addresses);

/** At the end: of processes without rawe. */
void mca_btl_rawe_modex_forget(void);

#endif
