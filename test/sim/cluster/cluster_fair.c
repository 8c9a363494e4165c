/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shares of links: see cluster_fair.h.
 */
#include "cluster_fair.h"

#include "cluster.h"
#include "net_harness.h"

/** A link: its flows without a rate, and the capacity left by flows with one. */
struct share {
    double left;
    uint32_t flows;
};

static unsigned path_of(const struct cluster *cluster, uint32_t pair,
                        uint32_t path[CLUSTER_PATH_LINKS_MAX])
{
    const struct cluster_plan *plan = &cluster->plan;
    struct cluster_pair of = cluster->traffic.pairs[pair];

    const bool batch = cluster_plan_in_batches(plan, plan->size_bytes);
    return cluster_net_path(plan, of.from, of.to, batch, path);
}

/** Return all links with their flows. The caller frees them. */
static struct share *shares_new(const struct cluster *cluster)
{
    struct share *shares = net_new(cluster->net.link_count * sizeof(*shares));
    uint32_t path[CLUSTER_PATH_LINKS_MAX];

    for (uint32_t i = 0; i < cluster->net.link_count; i++) {
        shares[i] = (struct share){.left = cluster_net_capacity(&cluster->plan, i)};
    }
    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        for (unsigned j = path_of(cluster, i, path); j-- > 0;) {
            shares[path[j]].flows++;
        }
    }
    return shares;
}

double cluster_fair_busiest(const struct cluster *cluster)
{
    struct share *shares = shares_new(cluster);
    double most = 0;

    for (uint32_t i = 0; i < cluster->net.link_count; i++) {
        double messages = shares[i].flows / shares[i].left;
        most = messages > most ? messages : most;
    }
    net_delete(shares);
    return most;
}

/** Return the link with the least capacity per flow; UINT32_MAX if all flows have rates. */
static uint32_t narrowest(const struct share *shares, uint32_t count)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (shares[i].flows != 0 &&
            (least == UINT32_MAX ||
             shares[i].left * shares[least].flows < shares[least].left * shares[i].flows)) {
            least = i;
        }
    }
    return least;
}

void cluster_fair_rates(const struct cluster *cluster, double *rates)
{
    struct share *shares = shares_new(cluster);
    uint32_t path[CLUSTER_PATH_LINKS_MAX], link;

    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        rates[i] = 0;
    }
    /* Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5). */
    while ((link = narrowest(shares, cluster->net.link_count)) != UINT32_MAX) {
        double rate = shares[link].left / shares[link].flows;
        for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
            unsigned links = path_of(cluster, i, path), at = 0;
            while (at < links && path[at] != link) {
                at++;
            }
            for (unsigned j = 0; at < links && rates[i] == 0 && j < links; j++) {
                shares[path[j]].left -= rate;
                shares[path[j]].flows--;
            }
            rates[i] = at < links && rates[i] == 0 ? rate : rates[i];
        }
    }
    net_delete(shares);
}
