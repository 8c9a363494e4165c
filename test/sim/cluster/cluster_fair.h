/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the links allow: the time of one message of each pair, and the max-min fair rates of endless
 * flows.
 */
#ifndef CLUSTER_FAIR_H
#define CLUSTER_FAIR_H

struct cluster;

/** How many messages the busiest link carries, of one of each pair. */
double cluster_fair_busiest(const struct cluster *cluster);
/** Write the max-min fair rate of each pair's flow, as a part of a link. */
void cluster_fair_rates(const struct cluster *cluster, double *rates);

#endif
