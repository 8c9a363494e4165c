/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A preloaded library that hides the data that rank $FORGOTTEN has published for rawe, as if the
 * runtime's answer came too late.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PMIX_ERROR (-1)

#define RANK_OFFSET 256 /* of the rank in pmix_proc_t */

typedef int get_fn(const char *proc, const char *key, const void *info, size_t count, void *answer,
                   void *context);

int PMIx_Get_nb(const char *proc, const char *key, const void *info, size_t count, void *answer,
                void *context)
{
    get_fn *get = (get_fn *)dlsym(RTLD_NEXT, "PMIx_Get_nb");
    const char *forgotten = getenv("FORGOTTEN");
    uint32_t rank;

    memcpy(&rank, proc + RANK_OFFSET, sizeof(rank));
    if (NULL != key && 0 == strncmp(key, "btl.rawe.", strlen("btl.rawe.")) && NULL != forgotten &&
        rank == strtoul(forgotten, NULL, 10)) {
        return PMIX_ERROR;
    }
    return get(proc, key, info, count, answer, context);
}
