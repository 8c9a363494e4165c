/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interfaces of peers through which nobody has answered. See btl_rawe_silent.h.
 */
#include "btl_rawe_silent.h"

#include <stdlib.h>
#include <string.h>

static size_t find(const struct mca_btl_rawe_silent *silent, const uint8_t mac[RAWE_MAC_BYTES])
{
    size_t i = 0;

    while (i < silent->count && 0 != memcmp(silent->macs[i], mac, RAWE_MAC_BYTES)) {
        ++i;
    }
    return i;
}

bool mca_btl_rawe_silent_has(const struct mca_btl_rawe_silent *silent,
                             const uint8_t mac[RAWE_MAC_BYTES])
{
    return find(silent, mac) < silent->count;
}

void mca_btl_rawe_silent_note(struct mca_btl_rawe_silent *silent, const uint8_t mac[RAWE_MAC_BYTES],
                              bool answered)
{
    size_t i = find(silent, mac);

    if (answered && i < silent->count) {
        memcpy(silent->macs[i], silent->macs[--silent->count], RAWE_MAC_BYTES);
    } else if (!answered && i == silent->count) {
        /* Without memory the next process there takes as long again. */
        void *more = realloc(silent->macs, (silent->count + 1) * sizeof(*silent->macs));
        if (NULL != more) {
            silent->macs = more;
            memcpy(silent->macs[silent->count++], mac, RAWE_MAC_BYTES);
        }
    }
}

void mca_btl_rawe_silent_free(struct mca_btl_rawe_silent *silent)
{
    free(silent->macs);
    *silent = (struct mca_btl_rawe_silent){.macs = NULL};
}
