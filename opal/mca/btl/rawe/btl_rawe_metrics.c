/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All that is counted for a module, in one list: by the engine, the ports, the responder and the
 * pools. Three readers: the report at the end, rawe-top, and MPI_T.
 */
#include "btl_rawe_metrics.h"

#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "linux/sys/rawe_monitor.h"

#include "opal/mca/base/mca_base_pvar.h"
#include "opal/util/output.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct metric {
    const char *name;
    const char *text;
    bool watermark; /**< the most there was of something, instead of how often it happened */
};

/** Behind the engine's own counters, in the order in which metrics_read appends their values. */
static const struct metric others[] = {
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
    {"pings_unanswered", "such questions whose answer the kernel had no room for", false},
    {"pongs_matched", "answers of peers to this process's own questions", false},
    {"pongs_unknown", "answers to none of this process's questions: late or forged", false},
    {"pings_invalid", "questions and answers dropped: malformed", false},
    {"ping_pauses", "pauses of the thread, as more questions came than it answers", false},
    {"frames_unacked_most", "memory for frames kept until they are acknowledged, in frames", true},
    {"reassembly_buffers_most", "memory for fragmented messages, in messages", true},
};

#define ENGINES (sizeof(struct rawe_counters) / sizeof(uint64_t))
#define METRICS (ENGINES + sizeof(others) / sizeof(others[0]))

static struct metric metric_at(unsigned index)
{
    if (index < ENGINES) {
        const struct rawe_counter_description *description = &rawe_counter_descriptions[index];
        return (struct metric){description->name, description->text, false};
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

/** The values of all metrics as of now; system calls. Lock held. */
static void metrics_read(mca_btl_rawe_module_t *module, uint64_t *values)
{
    struct rawe_port_counters link;
    uint64_t *out = values + ENGINES;

    if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
        memset(values, 0, METRICS * sizeof(*values));
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
    assert(out == values + METRICS);
}

/** Counters a line. */
#define PER_LINE 6u

/** Lines of "name=value" words, each with the same words in front: for people and for scripts. */
struct report {
    char head[160];
    char line[1024];
    size_t used;
    unsigned on_line;
};

static void report_flush(struct report *report)
{
    if (0 != report->on_line) {
        opal_output(0, "%s", report->line);
        report->on_line = 0;
    }
}

static void report_add(struct report *report, const char *name, uint64_t value)
{
    if (0 == report->on_line) {
        report->used = (size_t)snprintf(report->line, sizeof(report->line), "%s", report->head);
    }
    if (report->used < sizeof(report->line)) {
        report->used +=
            (size_t)snprintf(report->line + report->used, sizeof(report->line) - report->used,
                             " %s=%" PRIu64, name, value);
    }
    if (++report->on_line == PER_LINE) {
        report_flush(report);
    }
}

/** The buckets that are not empty, named by their upper limit. */
static void report_round_trips(struct report *report, const struct rawe_histogram *histogram)
{
    char name[48];

    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; ++i) {
        if (0 == histogram->count[i]) {
            continue;
        }
        if (i + 1 < RAWE_HISTOGRAM_BUCKETS) {
            snprintf(name, sizeof(name), "round_trips_below_%" PRIu64 "ns",
                     rawe_histogram_limit_ns(i));
        } else {
            snprintf(name, sizeof(name), "round_trips_longer");
        }
        report_add(report, name, histogram->count[i]);
    }
}

/** Are all metrics 0? */
static bool unused(const uint64_t *values)
{
    for (unsigned i = 0; i < METRICS; ++i) {
        if (0 != values[i]) {
            return false;
        }
    }
    return true;
}

void mca_btl_rawe_metrics_report(mca_btl_rawe_module_t *module, const char *title)
{
    uint64_t values[METRICS];
    struct report report = {.on_line = 0};

    snprintf(report.head, sizeof(report.head), "%s: host %s rank %u interface %s:", title,
             mca_btl_rawe_compat_my_hostname(), (unsigned)OPAL_PROC_MY_NAME.vpid,
             module->interface.name);
    metrics_read(module, values);
    if (unused(values)) {
        opal_output(0, "%s unused", report.head);
        return;
    }
    for (unsigned i = 0; i < METRICS; ++i) {
        report_add(&report, metric_at(i).name, values[i]);
    }
    report_flush(&report);
    report_round_trips(&report, &module->engine.round_trips);
    report_flush(&report);
}

void mca_btl_rawe_metrics_check_ring(mca_btl_rawe_module_t *module)
{
    struct rawe_port_counters link;

    if (module->ring_warned) {
        return;
    }
    rawe_port_read_counters(module->link, &link);
    uint64_t drops = link.ring_drops;
    if (NULL != module->bulk) {
        rawe_port_read_counters(module->bulk, &link);
        drops += link.ring_drops;
    }
    if (0 != drops) {
        module->ring_warned = true;
        MCA_BTL_RAWE_HELP_IF_ASKED(ring_dropped_frames, module->interface.name, drops,
                                   mca_btl_rawe_state.ring_bytes);
    }
}

/*
 * For rawe-top, as lines of text:
 *
 *     rank 3
 *     job 1234567169              of Open MPI's runtime
 *     interface eth0              the following lines are about this interface
 *     counter frames_sent 17
 *     most reassembly_buffers_most 2
 *     round_trips 2048 5          five took less than 2048 ns; 0 stands for the longest
 *     interface lo
 *     ...
 *
 * A line "busy" in place of interfaces: MPI's thread did not leave the engines in time.
 */

static struct rawe_monitor *monitor;

static void describe_metrics(FILE *out, mca_btl_rawe_module_t *module)
{
    uint64_t values[METRICS];

    metrics_read(module, values);
    for (unsigned i = 0; i < METRICS; ++i) {
        struct metric metric = metric_at(i);
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
        mca_btl_rawe_unlock();
    } else {
        fprintf(out, "busy\n");
    }
    (void)fclose(out);
    return text;
}

void mca_btl_rawe_metrics_monitor_open(void)
{
    struct rawe_port_error error;

    (void)rawe_monitor_open(&monitor, describe, NULL, mca_btl_rawe_state.service, &error);
}

void mca_btl_rawe_metrics_monitor_close(void)
{
    rawe_monitor_close(monitor);
    monitor = NULL;
}

/*
 * For MPI_T, as performance variables, for tools that ask while a job runs:
 *
 *     btl_rawe_<metric>       one element an interface
 *     btl_rawe_round_trips    one element a bucket of the histogram, all interfaces together
 *     btl_rawe_interfaces     which element is which interface: an enumeration of their names
 *
 * MPI_T counts from the moment a handle is allocated: a tool that wants everything allocates early.
 */

/* Open MPI's name for a type of 64 bits that MPI_T admits for counters. */
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "rawe needs a 64-bit system");
#define PVAR_TYPE MCA_BASE_VAR_TYPE_UNSIGNED_LONG

/** The interfaces, in the order of the arrays' elements. They outlast their modules. */
static struct watched {
    mca_btl_rawe_module_t *module; /**< NULL when it has been finalized */
    uint64_t values[METRICS];      /**< as of the last reading */
    struct rawe_histogram round_trips;
} watched[MCA_BTL_RAWE_MODULES_MAX];
static unsigned watched_count;

/**
 * For `watched`: several tools may read at the same time. A thread that holds it waits for the
 * engines for a bounded time only, so a thread inside them may take it, too.
 */
static pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;

/**
 * Any thread may call MPI_T, also where MPI has only one: it claims the lock as the progress thread
 * does. If it cannot, the values are those of the last reading.
 */
static void refresh(struct watched *one, bool claimed)
{
    if (NULL != one->module && claimed) {
        metrics_read(one->module, one->values);
        one->round_trips = one->module->engine.round_trips;
    }
}

static int notify_array(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                        int *count)
{
    (void)pvar;
    (void)object;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        *count = (int)watched_count;
    }
    return OPAL_SUCCESS;
}

static int notify_histogram(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                            int *count)
{
    (void)pvar;
    (void)object;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        *count = RAWE_HISTOGRAM_BUCKETS;
    }
    return OPAL_SUCCESS;
}

static int read_metric(const mca_base_pvar_t *pvar, void *value, void *object)
{
    uint64_t *out = value;
    size_t index = (size_t)(uintptr_t)pvar->ctx;

    (void)object;
    pthread_mutex_lock(&watched_lock);
    bool claimed = mca_btl_rawe_lock_claim_patiently();
    for (unsigned i = 0; i < watched_count; ++i) {
        refresh(&watched[i], claimed);
        out[i] = watched[i].values[index];
    }
    if (claimed) {
        mca_btl_rawe_unlock();
    }
    pthread_mutex_unlock(&watched_lock);
    return OPAL_SUCCESS;
}

static int read_histogram(const mca_base_pvar_t *pvar, void *value, void *object)
{
    uint64_t *out = value;

    (void)pvar;
    (void)object;
    memset(out, 0, RAWE_HISTOGRAM_BUCKETS * sizeof(*out));
    pthread_mutex_lock(&watched_lock);
    bool claimed = mca_btl_rawe_lock_claim_patiently();
    for (unsigned i = 0; i < watched_count; ++i) {
        refresh(&watched[i], claimed);
        for (unsigned bucket = 0; bucket < RAWE_HISTOGRAM_BUCKETS; ++bucket) {
            out[bucket] += watched[i].round_trips.count[bucket];
        }
    }
    if (claimed) {
        mca_btl_rawe_unlock();
    }
    pthread_mutex_unlock(&watched_lock);
    return OPAL_SUCCESS;
}

static int read_interfaces(const mca_base_pvar_t *pvar, void *value, void *object)
{
    int *out = value;

    (void)pvar;
    (void)object;
    for (unsigned i = 0; i < watched_count; ++i) {
        out[i] = (int)i;
    }
    return OPAL_SUCCESS;
}

static int register_one(const char *name, const char *text, int var_class, mca_base_var_type_t type,
                        mca_base_var_enum_t *enumeration, mca_base_get_value_fn_t read,
                        mca_base_notify_fn_t notify, size_t index)
{
    return mca_base_component_pvar_register(
        &mca_btl_rawe_state.component->btl_version, name, text, OPAL_INFO_LVL_5, var_class, type,
        enumeration, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, notify,
        (void *)(uintptr_t)index);
}

static int register_interfaces(void)
{
    mca_base_var_enum_value_t names[MCA_BTL_RAWE_MODULES_MAX + 1];
    mca_base_var_enum_t *enumeration;

    for (unsigned i = 0; i < watched_count; ++i) {
        names[i].value = (int)i;
        names[i].string = watched[i].module->interface.name;
    }
    names[watched_count].value = 0;
    names[watched_count].string = NULL;
    int status = mca_base_var_enum_create("btl_rawe_interfaces", names, &enumeration);
    if (OPAL_SUCCESS != status) {
        return status;
    }
    status =
        register_one("interfaces", "Which interface each element of the other variables belongs to",
                     MCA_BASE_PVAR_CLASS_STATE, MCA_BASE_VAR_TYPE_INT, enumeration, read_interfaces,
                     notify_array, 0);
    OBJ_RELEASE(enumeration); /* the variable has its own reference */
    return status;
}

int mca_btl_rawe_metrics_publish(void)
{
    int status;

    watched_count = mca_btl_rawe_state.module_count;
    for (unsigned i = 0; i < watched_count; ++i) {
        memset(&watched[i], 0, sizeof(watched[i]));
        watched[i].module = mca_btl_rawe_state.modules[i];
    }
    status = register_interfaces();
    for (unsigned i = 0; i < METRICS && status >= 0; ++i) {
        struct metric metric = metric_at(i);
        status = register_one(metric.name, metric.text,
                              metric.watermark ? MCA_BASE_PVAR_CLASS_HIGHWATERMARK
                                               : MCA_BASE_PVAR_CLASS_COUNTER,
                              PVAR_TYPE, NULL, read_metric, notify_array, i);
    }
    if (status >= 0) {
        status = register_one("round_trips",
                              "Round trips of frames: element 0 counts those below 1024 ns, "
                              "element i those from 2^(9+i) to below 2^(10+i) ns, the last all "
                              "longer ones",
                              MCA_BASE_PVAR_CLASS_COUNTER, PVAR_TYPE, NULL, read_histogram,
                              notify_histogram, 0);
    }
    /* Registering returns the variable's index, or an error, which is negative. */
    return status < 0 ? status : OPAL_SUCCESS;
}

void mca_btl_rawe_metrics_forget(mca_btl_rawe_module_t *module)
{
    pthread_mutex_lock(&watched_lock);
    for (unsigned i = 0; i < watched_count; ++i) {
        if (watched[i].module == module) {
            refresh(&watched[i], true); /* MPI is inside */
            watched[i].module = NULL;
        }
    }
    pthread_mutex_unlock(&watched_lock);
}
