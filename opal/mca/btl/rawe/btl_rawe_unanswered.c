/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interfaces of peers through which nobody has answered. See btl_rawe_unanswered.h.
 */
#include "btl_rawe_unanswered.h"

#include <stdlib.h>
#include <string.h>

static size_t find(const struct mca_btl_rawe_unanswered *unanswered,
                   const uint8_t mac[RAWE_MAC_BYTES])
{
    size_t i = 0;

    while (i < unanswered->count && 0 != memcmp(unanswered->macs[i], mac, RAWE_MAC_BYTES)) {
        ++i;
    }
    return i;
}

bool mca_btl_rawe_unanswered_has(const struct mca_btl_rawe_unanswered *unanswered,
                                 const uint8_t mac[RAWE_MAC_BYTES])
{
    return find(unanswered, mac) < unanswered->count;
}

void mca_btl_rawe_unanswered_note(struct mca_btl_rawe_unanswered *unanswered,
                                  const uint8_t mac[RAWE_MAC_BYTES], bool answered)
{
    size_t i = find(unanswered, mac);

    if (answered && i < unanswered->count) {
        memcpy(unanswered->macs[i], unanswered->macs[--unanswered->count], RAWE_MAC_BYTES);
    } else if (!answered && i == unanswered->count) {
        /* Without memory the next process there takes as long again. */
        void *more = realloc(unanswered->macs, (unanswered->count + 1) * sizeof(*unanswered->macs));
        if (NULL != more) {
            unanswered->macs = more;
            memcpy(unanswered->macs[unanswered->count++], mac, RAWE_MAC_BYTES);
        }
    }
}

void mca_btl_rawe_unanswered_free(struct mca_btl_rawe_unanswered *unanswered)
{
    free(unanswered->macs);
    *unanswered = (struct mca_btl_rawe_unanswered){.macs = NULL};
}
