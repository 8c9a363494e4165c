/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Component: register, open, init, progress, close.
 */
#include "btl_rawe.h"

#include "btl_rawe_close.h"
#include "btl_rawe_help.h"
#include "btl_rawe_params.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/** Frames taken from a ring before other components have their turn. */
#define RECEIVE_BUDGET 64u

/** Idle progress calls between two looks at the clock, while timers are armed: a power of two. */
#define IDLE_CALLS_PER_CLOCK_READ 16u

static int component_register(void);
static int component_open(void);
static int component_close(void);
static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads);
static int component_progress(void);

mca_btl_rawe_component_t mca_btl_rawe_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("rawe"),
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .btl_data =
                {
                    .param_field = MCA_BASE_METADATA_PARAM_NONE,
                },
            .btl_init = component_init,
            .btl_progress = component_progress,
        },
};
MCA_BASE_COMPONENT_INIT(opal, btl, rawe)

uint64_t mca_btl_rawe_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

const char *mca_btl_rawe_mac_text(const uint8_t mac[RAWE_MAC_BYTES], char out[18])
{
    snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
    return out;
}

static int component_register(void)
{
    mca_base_var_group_component_register(
        &mca_btl_rawe_component.super.btl_version,
        "BTL for raw Ethernet frames: MPI between hosts without IP and TCP");
    int status = mca_btl_rawe_params_register(&mca_btl_rawe_component.super.btl_version);
    if (OPAL_SUCCESS != status) {
        return status;
    }
    return mca_btl_base_param_register(&mca_btl_rawe_component.super.btl_version,
                                       &mca_btl_rawe_module_template);
}

static int component_open(void)
{
    if (!mca_btl_rawe_compat_version_check()) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    OBJ_CONSTRUCT(&mca_btl_rawe_component.lock, opal_recursive_mutex_t);
    mca_btl_rawe_component.opened = true;
    mca_btl_rawe_component.module_count = 0;
    mca_btl_rawe_component.progressing = false;
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    mca_btl_rawe_close_wait();
    /* Open MPI also closes a component that refused to open. */
    if (mca_btl_rawe_component.opened) {
        rawe_handle_table_free(&mca_btl_rawe_component.handles);
        OBJ_DESTRUCT(&mca_btl_rawe_component.lock);
        mca_btl_rawe_component.opened = false;
    }
    return OPAL_SUCCESS;
}

/** What was looked at, and why it was not taken: for the message that nothing was found. */
static char *describe(const struct rawe_interface *interfaces, unsigned count)
{
    size_t size = 64 + count * 96;
    char *text = malloc(size);

    if (NULL == text) {
        return NULL;
    }
    size_t used = (size_t) snprintf(text, size, "%s", 0 == count ? "(none)" : "");
    for (unsigned i = 0; i < count && used < size; ++i) {
        const struct rawe_interface *interface = &interfaces[i];
        const char *why = !interface->ethernet ? "not Ethernet"
                          : interface->loopback ? "loopback"
                          : !interface->up ? "down or without carrier"
                          : NULL != interface->excluded_why ? interface->excluded_why
                                                            : "not chosen";
        used += (size_t) snprintf(text + used, size - used, "%s%s (%s)", 0 == i ? "" : ", ",
                                  interface->name, why);
    }
    return text;
}

static void open_module(const struct rawe_interface *interface)
{
    if (mca_btl_rawe_component.module_count == MCA_BTL_RAWE_MODULES_MAX) {
        return;
    }
    mca_btl_rawe_module_t *module = mca_btl_rawe_module_open(interface);
    if (NULL != module) {
        mca_btl_rawe_component.modules[mca_btl_rawe_component.module_count++] = module;
    }
}

/** Modules for the interfaces the user wants, or all that are fit, and lo behind them. */
static void open_modules(void)
{
    struct rawe_interface *interfaces;
    unsigned count;
    char unknown[128];

    if (0 != rawe_interface_list(&interfaces, &count)) {
        mca_btl_rawe_help_internal_error("listing the network interfaces", strerror(errno),
                                         __FILE__, __LINE__);
        return;
    }
    const char *include = mca_btl_rawe_params.if_include;
    const char *exclude = mca_btl_rawe_params.if_exclude;
    unsigned chosen = rawe_interface_select(interfaces, count, include, exclude, unknown,
                                            sizeof(unknown));
    if ('\0' != unknown[0]) {
        bool including = NULL != include && '\0' != *include;
        mca_btl_rawe_help_unknown_interface(including ? "if_include" : "if_exclude", unknown);
        free(interfaces);
        return;
    }
    bool loopback_chosen = false;
    unsigned tried = 0;
    for (unsigned i = 0; i < chosen; ++i) {
        if (interfaces[i].loopback) {
            loopback_chosen = true;
        } else if (!interfaces[i].ethernet) {
            mca_btl_rawe_help_not_ethernet(interfaces[i].name);
            ++tried;
        } else if (!interfaces[i].up) {
            mca_btl_rawe_help_interface_down(interfaces[i].name);
            ++tried;
        } else {
            open_module(&interfaces[i]);
            ++tried;
        }
    }
    if (0 == tried && !loopback_chosen) {
        char *text = describe(interfaces, count);
        mca_btl_rawe_help_no_usable_interface(text);
        free(text);
    }
    /*
     * Ranks of this host alone need no interface but lo; without one, rawe is of no use to others.
     */
    if (0 != mca_btl_rawe_component.module_count || loopback_chosen) {
        for (unsigned i = 0; i < count && mca_btl_rawe_params.loopback; ++i) {
            if (interfaces[i].loopback && interfaces[i].up) {
                open_module(&interfaces[i]);
                break;
            }
        }
    }
    free(interfaces);
}

static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads)
{
    (void) progress_threads;
    (void) mpi_threads;
    *count = 0;
    if (OPAL_SUCCESS != mca_btl_rawe_params_check()) {
        return NULL;
    }
    uint64_t seed;
    if (sizeof(seed) != getrandom(&seed, sizeof(seed), 0)) {
        mca_btl_rawe_help_internal_error("getting random numbers", strerror(errno), __FILE__,
                                         __LINE__);
        return NULL;
    }
    rawe_handle_table_init(&mca_btl_rawe_component.handles, seed);
    mca_btl_rawe_thread_init();
    open_modules();
    unsigned modules = mca_btl_rawe_component.module_count;
    if (0 == modules) {
        return NULL;
    }
    mca_btl_base_module_t **list = malloc(modules * sizeof(*list));
    if (NULL == list || OPAL_SUCCESS != mca_btl_rawe_modex_send()) {
        free(list);
        for (unsigned i = 0; i < modules; ++i) {
            mca_btl_rawe_finalize(&mca_btl_rawe_component.modules[i]->super);
        }
        mca_btl_rawe_component.module_count = 0;
        return NULL;
    }
    /* A tool cannot look at the counters then; the job has no use for them. */
    (void) mca_btl_rawe_pvars_register();
    for (unsigned i = 0; i < modules; ++i) {
        list[i] = &mca_btl_rawe_component.modules[i]->super;
    }
    *count = (int) modules;
    return list;
}

/** rawe_link_receive_fn: a frame out of the ring, straight to the engine. */
static void receive_frame(void *context, const uint8_t *frame, size_t len_bytes)
{
    struct rawe_engine *engine = context;

    rawe_engine_receive(engine, frame, len_bytes, engine->now_ns);
}

static bool plan_bulk(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t segment_bytes, size_t total_bytes,
                      struct rawe_placement *placement)
{
    return rawe_engine_plan(context, source_mac, head, head_bytes, segment_bytes, total_bytes,
                            placement);
}

static void receive_segment(void *context, const uint8_t *source_mac, const uint8_t *head,
                            size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct rawe_engine *engine = context;

    rawe_engine_receive_parts(engine, source_mac, head, head_bytes, data, data_bytes,
                              engine->now_ns);
}

static unsigned receive_predicted(void *context, const uint8_t *source_mac, const uint8_t *head,
                            size_t head_stride, const struct rawe_placement *placement,
                            const uint8_t *data, unsigned count)
{
    struct rawe_engine *engine = context;

    return rawe_engine_receive_predicted(engine, source_mac, head, head_stride, placement, data, count,
                                   engine->now_ns);
}

/** Batches, straight into place. */
static unsigned receive_bulk(mca_btl_rawe_module_t *module)
{
    static const struct rawe_bulk_receiver receiver = {
        .plan = plan_bulk,
        .segment = receive_segment,
        .run = receive_predicted,
    };

    return rawe_bulk_receive(module->bulk, UINT_MAX, &receiver, &module->engine);
}

static bool receivable(const mca_btl_rawe_module_t *module)
{
    return rawe_link_pending(module->link)
           || (NULL != module->bulk && rawe_bulk_pending(module->bulk));
}

unsigned mca_btl_rawe_module_receive(mca_btl_rawe_module_t *module)
{
    struct rawe_engine *engine = &module->engine;
    unsigned received = 0;

    if (receivable(module)) {
        engine->now_ns = mca_btl_rawe_now_ns();
        /*
         * The ring first, then all that waits for bulk, and only then the answers: a probe out of
         * the ring asks about batches that were sent before it.
         */
        received = rawe_link_receive(module->link, RECEIVE_BUDGET, receive_frame, engine);
        if (NULL != module->bulk && rawe_bulk_pending(module->bulk)) {
            received += receive_bulk(module);
        }
    }
    return received;
}

void mca_btl_rawe_module_service(mca_btl_rawe_module_t *module)
{
    struct rawe_engine *engine = &module->engine;

    if (rawe_timer_wheel_due(&engine->timers, engine->now_ns) && !receivable(module)) {
        /* Only with an empty ring: what lies in it may be what a timer waits for. */
        rawe_engine_advance(engine, engine->now_ns);
    }
    if (rawe_engine_pending(engine)) {
        rawe_engine_flush(engine, engine->now_ns);
    }
}

/**
 * A peer sent data that was acknowledged and dropped: it names memory that we do not know, or is
 * part of a message that we do not take. Neither the PML nor the peer will ever hear otherwise that
 * it is missing: the job must not go on.
 */
static void data_refused(mca_btl_rawe_module_t *module)
{
    if (module->refusal_reported) {
        return;
    }
    module->refusal_reported = true;
    if (0 != module->engine.counters.dropped_handle) {
        mca_btl_rawe_help_internal_error("receiving a PUT",
                                         "it names memory that is unknown here, data is missing",
                                         __FILE__, __LINE__);
    } else {
        mca_btl_rawe_help_internal_error("receiving a message",
                                         "a part fits none that is taken here, data is missing",
                                         __FILE__, __LINE__);
    }
    if (NULL != module->error_callback) {
        char text[] = "rawe: data is missing";
        module->error_callback(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, opal_proc_local_get(),
                               text);
    }
}

unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock)
{
    struct rawe_engine *engine = &module->engine;

    if (OPAL_LIKELY(!receivable(module) && !rawe_engine_pending(engine)
                    && !rawe_engine_has_deferred(engine)
                    && (!poll_clock || 0 == engine->timers.armed))) {
        return 0;
    }
    if (OPAL_UNLIKELY(rawe_engine_has_deferred(engine))) {
        rawe_engine_deliver_deferred(engine);
    }
    unsigned received = mca_btl_rawe_module_receive(module);
    if (0 == received) {
        engine->now_ns = mca_btl_rawe_now_ns();
    }
    mca_btl_rawe_module_service(module);
    if (0 != received) {
        mca_btl_rawe_thread_watch(module);
    }
    if (OPAL_UNLIKELY(0 != (engine->counters.dropped_handle | engine->counters.dropped_fragment))) {
        data_refused(module);
    }
    return received;
}

static int component_progress(void)
{
    mca_btl_rawe_component_t *component = &mca_btl_rawe_component;
    unsigned received = 0;

    if (OPAL_UNLIKELY(!mca_btl_rawe_trylock())) {
        return 0; /* somebody else makes progress */
    }
    uint32_t rounds = atomic_load_explicit(&mca_btl_rawe_thread.rounds, memory_order_relaxed);
    atomic_store_explicit(&mca_btl_rawe_thread.rounds, rounds + 1, memory_order_relaxed);
    if (OPAL_LIKELY(!component->progressing)) {
        component->progressing = true;
        bool poll_clock = 0 == (++component->idle_count & (IDLE_CALLS_PER_CLOCK_READ - 1));
        for (unsigned i = 0; i < component->module_count; ++i) {
            /* Without connections (lo, mostly) only calls may come, which can wait a little. */
            if (0 != component->modules[i]->engine.table.used || poll_clock) {
                received += mca_btl_rawe_module_progress(component->modules[i], poll_clock);
            }
        }
        component->progressing = false;
    }
    mca_btl_rawe_unlock();
    return (int) received;
}
