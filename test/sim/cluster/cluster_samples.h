/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Samples, of which percentiles are taken.
 */
#ifndef CLUSTER_SAMPLES_H
#define CLUSTER_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/** All zero: empty. */
struct cluster_samples {
    uint64_t *values;
    size_t count, room;
};

void cluster_samples_add(struct cluster_samples *samples, uint64_t value);
/** The value that `per_mille` of a thousand do not exceed, and 0 of none; sorts the samples. */
uint64_t cluster_samples_quantile(struct cluster_samples *samples, unsigned per_mille);
void cluster_samples_free(struct cluster_samples *samples);

#endif
