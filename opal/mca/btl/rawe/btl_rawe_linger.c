/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * When the process finalizes, all modules deliver their remaining data before the first module
 * closes, because one module's connection may use another's link.
 */
#include "btl_rawe_lifecycle.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_routes.h"

#include <time.h>

/** Interval between checks whether endpoints may be closed. */
#define ASK_INTERVAL_NS 1000000ull

/** Sleep after this long without work: other processes on this host may need the processor. */
#define SPIN_NS 100000ull
static const struct timespec pause_time = {.tv_nsec = 100000};

/** Longest stay for groups; less if btl_rawe_peer_timeout is. */
#define GROUPS_SECONDS 30u

/** Make progress in all modules. For groups, deliver nothing. Returns true if it was useful. */
static bool modules_progress(bool for_groups)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    bool useful = false;

    mca_btl_rawe_progress_repair(true);
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (module->open && for_groups) {
            useful = 0 != mca_btl_rawe_multicast_progress(module, true, true) || useful;
            useful = mca_btl_rawe_module_defer(module, 0) || useful;
        } else if (module->open) {
            useful = 0 != mca_btl_rawe_module_progress(module, true) || useful;
        }
    }
    return useful;
}

/** Report that a peer may lack data. A fault-tolerant job notices our silence and gets errors. */
static void report_incomplete(const mca_btl_base_endpoint_t *endpoint)
{
    if (mca_btl_rawe_compat_fault_tolerant()) {
        mca_btl_rawe_compat_say("%s has not acknowledged all data on %s",
                                mca_btl_rawe_peer_text(endpoint->proc).text,
                                endpoint->module->interface.name);
        return;
    }
    MCA_BTL_RAWE_HELP(finalize_incomplete, endpoint->module->interface.name,
                      mca_btl_rawe_peer_text(endpoint->proc).text,
                      mca_btl_rawe_address_text(&endpoint->address).text);
}

/**
 * Return what an endpoint's process still needs. In MPI_Finalize, a job's processes pass a fence
 * before modules are finalized, and receive nothing after it. But if the job is connected to
 * another, Open MPI makes both exchange messages (ompi_dpm_dyn_finalize), which must be
 * acknowledged. A process of another job sends us nothing once we finalize.
 */
static enum rawe_needs needs_of(const mca_btl_base_endpoint_t *endpoint, bool fenced)
{
    return endpoint->proc->proc_name.jobid != OPAL_PROC_MY_NAME.jobid ? RAWE_NEEDS_DATA
           : fenced                                                   ? RAWE_NEEDS_NONE
                                                                      : RAWE_NEEDS_ALL;
}

/** Return true if our job has passed the fence and is not connected to another. */
static bool passed_fence(void)
{
    bool fenced = mca_btl_rawe_compat_fenced();
    mca_btl_base_endpoint_t *endpoint;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        OPAL_LIST_FOREACH(endpoint, &mca_btl_rawe_state.modules[i]->endpoints,
                          mca_btl_base_endpoint_t)
        {
            fenced = fenced && RAWE_NEEDS_DATA != needs_of(endpoint, true);
        }
    }
    return fenced;
}

/** Return true if all endpoints may be closed. `*lost`: one that has lost data; NULL: none. */
static bool modules_finalized(bool fenced, uint64_t now_ns, const mca_btl_base_endpoint_t **lost)
{
    mca_btl_base_endpoint_t *endpoint;
    bool all = true;

    *lost = NULL;
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        /* Ask every endpoint except the lost ones, because each measures its own time. */
        OPAL_LIST_FOREACH(endpoint, &mca_btl_rawe_state.modules[i]->endpoints,
                          mca_btl_base_endpoint_t)
        {
            bool gone = endpoint->lost || mca_btl_rawe_proc_died(endpoint->proc->proc_name) ||
                        !mca_btl_rawe_state.modules[i]->open;
            enum rawe_finalized finalized =
                gone ? RAWE_FINALIZED_DONE
                     : rawe_peer_finalized(&endpoint->peer, needs_of(endpoint, fenced), now_ns);
            all = all && RAWE_FINALIZED_NOT != finalized;
            *lost = RAWE_FINALIZED_LOST == finalized ? endpoint : *lost;
        }
    }
    return all;
}

/** Make progress until all endpoints may be closed. Peers may be ahead of us or behind. */
static void carry_data(void)
{
    const mca_btl_base_endpoint_t *lost = NULL;
    bool fenced = passed_fence();
    uint64_t now_ns = mca_btl_rawe_now_ns();
    uint64_t last_ns = now_ns, asked_ns = 0;

    for (;;) {
        bool received = modules_progress(false);
        now_ns = mca_btl_rawe_now_ns();
        last_ns = received ? now_ns : last_ns;
        if (now_ns - asked_ns >= ASK_INTERVAL_NS) {
            asked_ns = now_ns;
            if (modules_finalized(fenced, now_ns, &lost)) {
                break;
            }
        }
        if (now_ns - last_ns >= SPIN_NS) {
            (void)nanosleep(&pause_time, NULL);
        }
    }
    if (NULL != lost) {
        report_incomplete(lost);
    }
}

/**
 * Without a fence, other members of groups may still lack messages from this process, or wait for
 * an acknowledgement that it forwards. Stay for them as long as for a silent peer.
 */
static void carry_groups(void)
{
    const uint64_t timeout_s = mca_btl_rawe_params.peer_timeout;
    const uint64_t most_s = 0 != timeout_s ? MIN(timeout_s, GROUPS_SECONDS) : GROUPS_SECONDS;
    const uint64_t most_ns = most_s * 1000000000u;
    const uint64_t began_ns = mca_btl_rawe_now_ns();

    while (!passed_fence() && !mca_btl_rawe_multicast_done() &&
           mca_btl_rawe_now_ns() - began_ns < most_ns) {
        if (!modules_progress(true)) {
            (void)nanosleep(&pause_time, NULL);
        }
    }
}

void mca_btl_rawe_linger(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (state->finalizing) {
        return;
    }
    state->finalizing = true;
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        opal_mutex_lock(&module->endpoints_lock);
        module->closing = true; /* a module that is not open yet stays closed */
        opal_mutex_unlock(&module->endpoints_lock);
    }
    mca_btl_rawe_lock();
    mca_btl_rawe_lock_do_work();
    carry_groups();
    /* Memory registered by the PML may be freed by now: refuse frames that name it. */
    rawe_handle_table_free(&state->handles);
    for (unsigned i = 0; i < state->module_count; ++i) {
        if (state->modules[i]->open) {
            rawe_engine_finalizing(&state->modules[i]->engine);
        }
    }
    rawe_list_init(&state->complete); /* no completions for the closed PML */
    carry_data();
    mca_btl_rawe_unlock();
}
