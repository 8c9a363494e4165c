/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process counts, as lines of text. See btl_rawe_monitor.h.
 *
 *     rank 3
 *     job 1234567169              of Open MPI's runtime
 *     interface eth0              what follows is this interface's
 *     counter frames_sent 17
 *     most reassembly_buffers_most 2
 *     round_trips 2048 5          five were shorter than 2048 ns; 0 stands for the longest
 *     interface lo
 *     ...
 *
 * A line "busy" in place of interfaces: MPI's thread did not leave the engines in time.
 */
#include "btl_rawe_monitor.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_state.h"
#include "linux/sys/rawe_monitor.h"

#include <inttypes.h>
#include <stdio.h>

static struct rawe_monitor *monitor;

static void describe_metrics(FILE *out, mca_btl_rawe_module_t *module)
{
    uint64_t values[MCA_BTL_RAWE_METRICS_MAX];

    mca_btl_rawe_metrics_read(module, values);
    for (unsigned i = 0; i < mca_btl_rawe_metric_count(); ++i) {
        struct mca_btl_rawe_metric metric = mca_btl_rawe_metric(i);
        fprintf(out, "%s %s %" PRIu64 "\n", metric.watermark ? "most" : "counter", metric.name,
                values[i]);
    }
}

static void describe_round_trips(FILE *out, const struct rawe_histogram *histogram)
{
    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; ++i) {
        uint64_t limit_ns = rawe_histogram_limit_ns(i);

        if (0 != histogram->count[i]) {
            fprintf(out, "round_trips %" PRIu64 " %" PRIu64 "\n",
                    UINT64_MAX == limit_ns ? 0 : limit_ns, histogram->count[i]);
        }
    }
}

/** rawe_monitor_describe_fn: the service thread, which claims the lock as for progress. */
static char *describe(void *context)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    char *text = NULL;
    size_t len_bytes;
    FILE *out = open_memstream(&text, &len_bytes);

    (void)context;
    if (NULL == out) {
        return NULL;
    }
    fprintf(out, "rank %u\njob %u\n", (unsigned)OPAL_PROC_MY_NAME.vpid,
            (unsigned)OPAL_PROC_MY_NAME.jobid);
    if (mca_btl_rawe_lock_claim_patiently()) {
        for (unsigned i = 0; i < state->module_count; ++i) {
            fprintf(out, "interface %s\n", state->modules[i]->interface.name);
            describe_metrics(out, state->modules[i]);
            describe_round_trips(out, &state->modules[i]->engine.round_trips);
        }
        mca_btl_rawe_lock_unclaim();
    } else {
        fprintf(out, "busy\n");
    }
    (void)fclose(out);
    return text;
}

void mca_btl_rawe_monitor_open(void)
{
    struct rawe_port_error error;

    (void)rawe_monitor_open(&monitor, describe, NULL, mca_btl_rawe_state.service, &error);
}

void mca_btl_rawe_monitor_close(void)
{
    rawe_monitor_close(monitor);
    monitor = NULL;
}
