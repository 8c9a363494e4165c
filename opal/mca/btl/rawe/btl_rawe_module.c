/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening a module, and what failed in it. See btl_rawe_module.h.
 */
#include "btl_rawe_module.h"

#include "btl_rawe_help.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct failure {
    bool noted;
    char interface[RAWE_INTERFACE_NAME_BYTES];
    struct rawe_port_error error;
} failures[MCA_BTL_RAWE_FAILURES];

/** For `failures`; nothing is called while it is held. */
static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;

void mca_btl_rawe_failure_note(enum mca_btl_rawe_failure kind, const char *interface,
                               const struct rawe_port_error *error)
{
    struct failure *failure = &failures[kind];

    pthread_mutex_lock(&failures_lock);
    if (!failure->noted) {
        failure->noted = true;
        failure->error = *error;
        snprintf(failure->interface, sizeof(failure->interface), "%s", interface);
        atomic_store_explicit(&mca_btl_rawe_state.failures_wait, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&failures_lock);
}

static void report_open(const struct failure *failure)
{
    const struct rawe_port_error *error = &failure->error;
    const char *helper = mca_btl_rawe_params.helper;

    if (EPERM == error->code || EACCES == error->code) {
        MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, failure->interface,
                                   NULL == helper || '\0' == *helper ? "none" : helper,
                                   error->step);
    } else if (ENETDOWN == error->code) {
        MCA_BTL_RAWE_HELP_IF_ASKED(interface_down, failure->interface);
    } else if (ENOMEM == error->code) {
        MCA_BTL_RAWE_HELP_IF_ASKED(ring_not_allocated, failure->interface,
                                   mca_btl_rawe_state.ring_bytes, strerror(error->code));
    } else {
        MCA_BTL_RAWE_HELP_IF_ASKED(link_failed, failure->interface, error->step,
                                   strerror(error->code));
    }
}

void mca_btl_rawe_failures_report(void)
{
    struct failure now[MCA_BTL_RAWE_FAILURES];

    pthread_mutex_lock(&failures_lock);
    memcpy(now, failures, sizeof(now));
    memset(failures, 0, sizeof(failures));
    atomic_store_explicit(&mca_btl_rawe_state.failures_wait, false, memory_order_relaxed);
    pthread_mutex_unlock(&failures_lock);
    if (now[MCA_BTL_RAWE_FAILURE_OPEN].noted) {
        report_open(&now[MCA_BTL_RAWE_FAILURE_OPEN]);
    }
    if (now[MCA_BTL_RAWE_FAILURE_LOST].noted) {
        const struct failure *lost = &now[MCA_BTL_RAWE_FAILURE_LOST];
        MCA_BTL_RAWE_HELP(link_failed, lost->interface, lost->error.step,
                          strerror(lost->error.code));
    }
}

/** What failed is tried again after this time at the earliest: it is asked for with each PING. */
#define OPEN_AGAIN_NS 1000000000u

/** Where the link is open, something has failed for good. endpoints_lock held. */
static bool may_open(mca_btl_rawe_module_t *module)
{
    uint64_t now_ns = mca_btl_rawe_now_ns();
    bool early = 0 != module->open_tried_ns && now_ns - module->open_tried_ns < OPEN_AGAIN_NS;

    if (module->closing || NULL != module->link || early) {
        return false;
    }
    module->open_tried_ns = now_ns;
    return true;
}

bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *module)
{
    if (OPAL_LIKELY(atomic_load_explicit(&module->open, memory_order_acquire))) {
        return true;
    }
    opal_mutex_lock(&module->endpoints_lock);
    bool open = module->open || (may_open(module) && module->open_sockets(module));
    opal_mutex_unlock(&module->endpoints_lock);
    return open;
}
