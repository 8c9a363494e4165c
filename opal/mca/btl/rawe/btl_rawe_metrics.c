/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All that is counted for a module, wherever it is counted, as one list: what the engine, the link,
 * the bulk sockets, the responder and the pools have to say. Report and MPI_T read it.
 */
#include "btl_rawe_metrics.h"

#include <assert.h>
#include <string.h>

/** What stands in the list behind the engine's own counters; see append_values for the order. */
static const struct mca_btl_rawe_metric others[] = {
    {"link_frames_sent", "plain frames handed to the kernel", false},
    {"link_frames_received", "plain frames taken out of the receive ring", false},
    {"link_send_full", "times the kernel had no room for a plain frame", false},
    {"link_send_errors", "plain frames the kernel refused for good, so that they are lost", false},
    {"link_ring_drops", "plain frames for this process that found its receive ring full", false},
    {"bulk_frames_sent", "frames handed to the kernel in batches", false},
    {"bulk_frames_received",
     "frames received in batches, as far as the kernel says how many it has merged", false},
    {"bulk_send_full", "times the kernel had no room for a batch", false},
    {"bulk_send_errors", "batches the kernel refused for good, so that they are lost", false},
    {"bulk_queue_drops", "batches for this process that found its queue full", false},
    {"pings_answered", "questions of peers whether this process lives, answered by its thread",
     false},
    {"pings_unanswered", "such questions for whose answer the kernel had no room", false},
    {"pongs_matched", "answers of peers to this process's own questions", false},
    {"pongs_unknown", "answers that nobody asked for: late or forged", false},
    {"pings_invalid", "questions and answers dropped: malformed", false},
    {"ping_pauses", "times more questions came than the thread answers, so that it slept", false},
    {"frames_unacked_most", "memory for frames kept until they are acknowledged, in frames", true},
    {"reassembly_buffers_most", "memory for fragmented messages, in messages", true},
};

#define OTHERS (sizeof(others) / sizeof(others[0]))
#define ENGINES (sizeof(struct rawe_counters) / sizeof(uint64_t))

_Static_assert(ENGINES + OTHERS <= MCA_BTL_RAWE_METRICS_MAX, "raise MCA_BTL_RAWE_METRICS_MAX");

unsigned mca_btl_rawe_metric_count(void)
{
    return ENGINES + OTHERS;
}

struct mca_btl_rawe_metric mca_btl_rawe_metric(unsigned index)
{
    assert(index < ENGINES + OTHERS);
    if (index < ENGINES) {
        const struct rawe_counter_description *description = &rawe_counter_descriptions[index];
        return (struct mca_btl_rawe_metric){description->name, description->text, false};
    }
    return others[index - ENGINES];
}

static uint64_t *append_link(uint64_t *out, const struct rawe_port_counters *link)
{
    *out++ = link->frames_sent;
    *out++ = link->frames_received;
    *out++ = link->send_full;
    *out++ = link->send_errors;
    *out++ = link->ring_drops;
    return out;
}

static uint64_t *append_responder(uint64_t *out, const mca_btl_rawe_module_t *module)
{
    struct rawe_responder_counters responder;

    rawe_responder_read_counters(module->responder, &responder);
    *out++ = responder.pings_answered;
    *out++ = responder.pings_unanswered;
    *out++ = responder.pongs_matched;
    *out++ = responder.pongs_unknown;
    *out++ = responder.frames_invalid;
    *out++ = responder.pauses;
    return out;
}

void mca_btl_rawe_metrics_read(mca_btl_rawe_module_t *module, uint64_t *values)
{
    struct rawe_port_counters link;
    uint64_t *out = values + ENGINES;

    if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
        memset(values, 0, (ENGINES + OTHERS) * sizeof(*values));
        return;
    }
    memcpy(values, &module->engine.counters, sizeof(module->engine.counters));
    rawe_port_read_counters(module->link, &link);
    out = append_link(out, &link);
    memset(&link, 0, sizeof(link));
    if (NULL != module->bulk) {
        rawe_port_read_counters(module->bulk, &link);
    }
    out = append_link(out, &link);
    out = append_responder(out, module);
    *out++ = module->engine.frames.allocated;
    *out++ = module->engine.reassembly_buffers.allocated;
    assert(out == values + ENGINES + OTHERS);
}
