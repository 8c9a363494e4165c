/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Samples: see cluster_samples.h.
 */
#include "cluster_samples.h"

#include <stdlib.h>

void cluster_samples_add(struct cluster_samples *samples, uint64_t value)
{
    if (samples->count == samples->room) {
        samples->room = samples->room == 0 ? 256 : 2 * samples->room;
        samples->values = realloc(samples->values, samples->room * sizeof(*samples->values));
        if (samples->values == NULL) {
            abort();
        }
    }
    samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t cluster_samples_quantile(struct cluster_samples *samples, unsigned per_mille)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->values, samples->count, sizeof(*samples->values), compare);
    size_t rank = (samples->count * per_mille + 999) / 1000;
    return samples->values[rank == 0 ? 0 : rank - 1];
}

void cluster_samples_free(struct cluster_samples *samples)
{
    free(samples->values);
    *samples = (struct cluster_samples){0};
}
