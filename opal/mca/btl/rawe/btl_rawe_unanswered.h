/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interfaces of peers through which nobody has answered in all of btl_rawe_connect_timeout_ms. Open
 * MPI introduces processes one by one, and lets no other thread introduce any meanwhile: so that a
 * host that cannot be reached costs that time once, and not for each of its processes.
 */
#ifndef MCA_BTL_RAWE_UNANSWERED_H
#define MCA_BTL_RAWE_UNANSWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/rawe_wire.h"

/** Further processes there are tried for this long: some frames may get lost. */
#define MCA_BTL_RAWE_UNANSWERED_NS 500000000ull

struct mca_btl_rawe_unanswered {
    uint8_t (*macs)[RAWE_MAC_BYTES];
    size_t count;
};

/** Has nobody answered through this interface so far? */
bool mca_btl_rawe_unanswered_has(const struct mca_btl_rawe_unanswered *unanswered,
                                 const uint8_t mac[RAWE_MAC_BYTES]);

/** Somebody has been tried for long enough, and has answered or not. */
void mca_btl_rawe_unanswered_note(struct mca_btl_rawe_unanswered *unanswered,
                                  const uint8_t mac[RAWE_MAC_BYTES], bool answered);

/** Forget all. */
void mca_btl_rawe_unanswered_free(struct mca_btl_rawe_unanswered *unanswered);

#endif
