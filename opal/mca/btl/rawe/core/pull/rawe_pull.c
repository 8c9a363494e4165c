/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_pull.h"

#include <stddef.h>

void rawe_pull_init(struct rawe_pull *pull, const struct rawe_pull_config *config, uint64_t now_ns)
{
    struct rawe_pull_host *host = config->host;
    rawe_credit_init(&pull->credit, config->ring_frames, config->window_frames, now_ns);
    rawe_line_init(&pull->line, config->link_mbps);
    rawe_budget_init(&pull->gets, config->port_bytes, &pull->line);
    rawe_grants_init(&pull->grants, config->port_bytes, &pull->line, config->frame_bytes,
                     &pull->credit.share[RAWE_LANE_BULK].active);
    if (host != NULL) {
        rawe_line_join(&pull->line, &host->line);
        rawe_budget_join(&pull->gets, &host->gets, config->host_index);
        rawe_budget_join(&pull->grants.budget, &host->grants, config->host_index);
    }
}
