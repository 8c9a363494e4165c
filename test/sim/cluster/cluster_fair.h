/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits set by the links: the time for one message of each pair, and the max-min fair rates of
 * endless flows.
 */
#ifndef CLUSTER_FAIR_H
#define CLUSTER_FAIR_H

struct cluster;

/** Return how many messages the busiest link carries if each pair sends one. */
double cluster_fair_busiest(const struct cluster *cluster);
/** Write the max-min fair rate of each pair's flow, in units of a link's rate. */
void cluster_fair_rates(const struct cluster *cluster, double *rates);

#endif
