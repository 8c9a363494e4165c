/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Samples and their percentiles.
 */
#ifndef CLUSTER_SAMPLES_H
#define CLUSTER_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/** Empty if all zero. */
struct cluster_samples {
    uint64_t *values;
    size_t count, room;
};

void cluster_samples_add(struct cluster_samples *samples, uint64_t value);
/**
 * Return the value that `per_mille` of the samples do not exceed; 0 if empty. Sorts the samples.
 */
uint64_t cluster_samples_quantile(struct cluster_samples *samples, unsigned per_mille);
void cluster_samples_free(struct cluster_samples *samples);

#endif
