/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_T performance variables: every metric of every interface, for tools that ask while a job
 * runs.
 *
 *   btl_rawe_<metric>       one element an interface
 *   btl_rawe_round_trips    one element a bucket of the histogram, all interfaces together
 *   btl_rawe_interfaces     which element is which interface: an enumeration of their names
 *
 * MPI_T counts from the moment a handle is allocated, so a tool that wants it all allocates early.
 */
#include "btl_rawe_pvars.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_state.h"

#include "opal/mca/base/mca_base_pvar.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Open MPI's name for a type of 64 bits that MPI_T admits for counters. */
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "rawe needs a 64-bit system");
#define PVAR_TYPE MCA_BASE_VAR_TYPE_UNSIGNED_LONG

/** The interfaces in the order of the arrays' elements, which lasts longer than their modules. */
static struct watched {
    mca_btl_rawe_module_t *module;             /**< NULL when it has been finalized */
    uint64_t values[MCA_BTL_RAWE_METRICS_MAX]; /**< as of the last reading */
    struct rawe_histogram round_trips;
} watched[MCA_BTL_RAWE_MODULES_MAX];
static unsigned watched_count;

/**
 * For `watched`: several tools may read at the same time. Who holds it waits for the engines for a
 * bounded time only, so who is inside of them may take it, too.
 */
static pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;

/**
 * MPI_T may be called by any thread, also where MPI has but one: it claims the lock as the progress
 * thread does. Without it, values are as of the last reading.
 */
static void refresh(struct watched *one, bool claimed)
{
    if (NULL != one->module && claimed) {
        mca_btl_rawe_metrics_read(one->module, one->values);
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
        mca_btl_rawe_lock_unclaim();
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
        mca_btl_rawe_lock_unclaim();
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

int mca_btl_rawe_pvars_register(void)
{
    int status;

    watched_count = mca_btl_rawe_state.module_count;
    for (unsigned i = 0; i < watched_count; ++i) {
        memset(&watched[i], 0, sizeof(watched[i]));
        watched[i].module = mca_btl_rawe_state.modules[i];
    }
    status = register_interfaces();
    for (unsigned i = 0; i < mca_btl_rawe_metric_count() && status >= 0; ++i) {
        struct mca_btl_rawe_metric metric = mca_btl_rawe_metric(i);
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

void mca_btl_rawe_pvars_forget(mca_btl_rawe_module_t *module)
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
