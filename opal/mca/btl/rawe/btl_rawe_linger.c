/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is left when the process finalizes. See btl_rawe_linger.h.
 */
#include "btl_rawe_linger.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_routes.h"
#include "btl_rawe_state.h"

/** Finalize waits this long in all for peers to acknowledge what is left, ... */
#define LINGER_MOST_NS 1000000000ull

/** ... but no longer than this while nothing happens: peers that are gone do not answer. */
#define LINGER_IDLE_NS 100000000ull

static bool module_drained(mca_btl_rawe_module_t *module)
{
    mca_btl_base_endpoint_t *endpoint;

    OPAL_LIST_FOREACH(endpoint, &module->endpoints, mca_btl_base_endpoint_t)
    {
        if (!mca_btl_rawe_endpoint_drained(endpoint)) {
            return false;
        }
    }
    return true;
}

/** Progress of all modules. Returns true when something came of it. */
static bool progress(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    unsigned received = 0;

    if (mca_btl_rawe_routes_pending()) {
        mca_btl_rawe_routes_check(true);
    }
    for (unsigned i = 0; i < state->module_count; ++i) {
        if (state->modules[i]->open) {
            received += mca_btl_rawe_module_progress(state->modules[i], true);
        }
    }
    return 0 != received;
}

static bool drained(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    for (unsigned i = 0; i < state->module_count; ++i) {
        if (state->modules[i]->open && !module_drained(state->modules[i])) {
            return false;
        }
    }
    return true;
}

/**
 * Peers that have finalized may have left before they acknowledged our last frames, or we before
 * we heard of it; all of them have passed MPI_Finalize's fence, so nobody waits for data.
 */
static void carry(void)
{
    uint64_t begin_ns = mca_btl_rawe_now_ns();
    uint64_t last_ns = begin_ns, now_ns = begin_ns;

    do {
        bool received = progress();
        now_ns = mca_btl_rawe_now_ns();
        last_ns = received ? now_ns : last_ns;
    } while (!drained() && now_ns - begin_ns <= LINGER_MOST_NS &&
             now_ns - last_ns <= LINGER_IDLE_NS);
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
        module->closing = true; /* one that is not open yet stays so */
        opal_mutex_unlock(&module->endpoints_lock);
    }
    mca_btl_rawe_lock();
    mca_btl_rawe_lock_do_work();
    /* What the PML registered may be gone: frames that name it are refused. */
    rawe_handle_table_free(&state->handles);
    for (unsigned i = 0; i < state->module_count; ++i) {
        if (state->modules[i]->open) {
            rawe_engine_finalizing(&state->modules[i]->engine);
        }
    }
    state->complete_first = NULL; /* of sends that nobody is told of any more */
    carry();
    mca_btl_rawe_unlock();
}
