/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component: register, open, init, progress, close; and its offer to coll/rawe.
 */
#include "btl_rawe_compat.h"

#include "btl_rawe_deliver.h"
#include "btl_rawe_endpoint.h"
#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lifecycle.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_offer.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_async.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_thread.h"
#include "btl_rawe_routes.h"
#include "btl_rawe_send.h"
#include "linux/packet/rawe_helper.h"
#include "linux/packet/rawe_ring.h"
#include "linux/sys/rawe_random.h"
#include "linux/sys/rawe_service.h"
#include "linux/udp/rawe_udp_address.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** One of this many progress calls reads the clock even if nothing arrived: a power of two. */
#define CALLS_PER_CLOCK_READ 16u

/** Memory for deferred messages of all modules; further messages stay in the rings. */
#define DEFERRED_BYTES_MAX (8u << 20)

OPAL_MODULE_DECLSPEC extern struct mca_btl_rawe_component mca_btl_rawe_component;

static int component_register(void)
{
    mca_btl_rawe_help_begin();
    if (!mca_btl_rawe_compat_version_matches()) {
        MCA_BTL_RAWE_HELP_IF_ASKED(wrong_version, OPAL_IDENT_STRING, opal_version_string);
        return OPAL_ERR_NOT_AVAILABLE; /* the component is ignored, and shows nothing */
    }
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
    mca_btl_rawe_help_begin();
    mca_btl_rawe_proc_open();
    mca_btl_rawe_state = (struct mca_btl_rawe_state){
        .connections.generation = mca_btl_rawe_state.connections.generation,
    };
    rawe_list_init(&mca_btl_rawe_state.complete);
    rawe_deferral_init(&mca_btl_rawe_state.deferral, DEFERRED_BYTES_MAX);
    OBJ_CONSTRUCT(&mca_btl_rawe_state.routes_lock, opal_mutex_t);
    mca_btl_rawe_state.component = &mca_btl_rawe_component.super;
    bool registrations = mca_btl_rawe_free_list_init(&mca_btl_rawe_state.registrations,
                                                     OBJ_CLASS(mca_btl_rawe_registration_t),
                                                     sizeof(mca_btl_rawe_registration_t));
    return mca_btl_rawe_free_list_init(&mca_btl_rawe_state.operations,
                                       OBJ_CLASS(mca_btl_rawe_fragment_t),
                                       sizeof(mca_btl_rawe_fragment_t)) &&
                   registrations
               ? OPAL_SUCCESS
               : OPAL_ERR_OUT_OF_RESOURCE;
}

static int component_close(void)
{
    mca_btl_rawe_proc_close();
    mca_btl_rawe_metrics_monitor_close();
    mca_btl_rawe_fanout_close();
    rawe_service_stop(mca_btl_rawe_state.service);
    mca_btl_rawe_state.service = NULL;
    mca_btl_rawe_failures_report();
    /* Open MPI also closes a component that refused to open. */
    if (NULL != mca_btl_rawe_state.component) {
        mca_btl_rawe_rma_close();
        OBJ_DESTRUCT(&mca_btl_rawe_state.registrations);
        OBJ_DESTRUCT(&mca_btl_rawe_state.operations);
        rawe_handle_table_free(&mca_btl_rawe_state.handles);
        rawe_conn_table_free(&mca_btl_rawe_state.connections);
        OBJ_DESTRUCT(&mca_btl_rawe_state.routes_lock);
        mca_btl_rawe_state.component = NULL;
    }
    return OPAL_SUCCESS;
}

/** Describe the interfaces and why each is unused; NULL when out of memory. The caller frees it. */
static char *describe_interfaces(const struct rawe_interface *interfaces, unsigned count)
{
    char *text = NULL;
    size_t len_bytes;
    FILE *out = open_memstream(&text, &len_bytes);

    if (NULL == out) {
        return NULL;
    }
    fputs(0 == count ? "(none)" : "", out);
    for (unsigned i = 0; i < count; ++i) {
        const char *why = rawe_interface_refusal(&interfaces[i]);
        fprintf(out, "%s%s (%s)", 0 == i ? "" : ", ", interfaces[i].name,
                NULL == why ? "tried" : why);
    }
    (void)fclose(out);
    return text;
}

/** Descriptors that Open MPI needs to load further components, and other BTLs. */
#define DESCRIPTORS_LEFT 5u

/** UDP opens only if this many are free, where raw frames may do without: its own two, and lo's. */
#define DESCRIPTORS_FOR_UDP (DESCRIPTORS_LEFT + 2u + 5u)

/** Return true if this many descriptors are free; otherwise set errno. */
static bool descriptors_free(unsigned count)
{
    int opened[DESCRIPTORS_FOR_UDP];
    unsigned got = 0;

    while (got < count && (opened[got] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        ++got;
    }
    const int code = errno;
    const bool enough = got == count || (EMFILE != code && ENFILE != code);
    while (0 != got) {
        close(opened[--got]);
    }
    errno = code;
    return enough;
}

/** Return true if the user has named the interfaces to use. */
static bool names_interfaces(void)
{
    return NULL != mca_btl_rawe_params.if_include && '\0' != *mca_btl_rawe_params.if_include;
}

/** Open a module for raw frames or, with `udp`, for UDP. */
static void open_module(const struct rawe_interface *interface, bool udp)
{
    const unsigned kinds = mca_btl_rawe_params_kinds();
    /* With both kinds, a failure matters only if nothing else can be used: see open_modules. */
    const bool report = RAWE_PORT_KIND_BOTH != kinds;

    /* The last places are for lo, without which processes of this host may be unreachable. Raw frames
       come first: UDP may go without. */
    const unsigned reserved = interface->loopback ? 0 : udp && !report ? 2 : 1;
    if (mca_btl_rawe_state.module_count >= MCA_BTL_RAWE_MODULES_MAX - reserved) {
        mca_btl_rawe_compat_say("does not use %s%s: there are too many interfaces", interface->name,
                                udp ? " for UDP" : "");
        return;
    }
    /* Open lo when a process needs it, unless all ranks will look for each other there at once; and
       UDP when a process needs it, if there are raw frames. */
    const bool first = 0 == mca_btl_rawe_state.module_count;
    const bool later = udp ? !first && !mca_btl_rawe_state.modules[0]->address.udp
                           : interface->loopback && !first &&
                                 (1 == mca_btl_rawe_compat_local_ranks() ||
                                  mca_btl_rawe_compat_shared_memory_expected());
    if (udp && later && !descriptors_free(DESCRIPTORS_FOR_UDP)) {
        mca_btl_rawe_compat_say("does not use %s for UDP: %s", interface->name, strerror(errno));
        return;
    }
    mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(interface, udp);
    if (NULL == module) {
        /* That an interface has no IP address matters if the user named it. */
        if (report && names_interfaces()) {
            mca_btl_rawe_failures_report();
        }
        return;
    }
    if (later ? !mca_btl_rawe_module_open_responder(module) : !module->open_sockets(module)) {
        if (report) {
            mca_btl_rawe_failures_report();
        }
        mca_btl_rawe_finalize(&module->super);
        return;
    }
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = module;
    mca_btl_rawe_compat_say("uses %s%s", interface->name, udp ? " for UDP" : "");
}

/** Return the size of a ring: the user's, or what this rank needs and memory allows. */
static size_t ring_bytes(size_t usual_bytes, unsigned links)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t memory_bytes =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;

    return 0 != mca_btl_rawe_params.ring_bytes
               ? (size_t)mca_btl_rawe_params.ring_bytes
               : rawe_ring_share(usual_bytes, memory_bytes, mca_btl_rawe_compat_local_ranks(),
                                 mca_btl_rawe_compat_ranks(), links);
}

/** Drop interfaces that a subnet chose for UDP if only raw frames may be sent. Returns the rest. */
static unsigned drop_useless(struct rawe_interface *interfaces, unsigned chosen)
{
    unsigned left = 0;

    for (unsigned i = 0; i < chosen; ++i) {
        const struct rawe_interface one = interfaces[i];
        interfaces[i].chosen = one.ethernet || !one.has_subnet ||
                               0 != (RAWE_PORT_KIND_UDP & mca_btl_rawe_params_kinds());
        if (interfaces[i].chosen) {
            interfaces[i] = interfaces[left];
            interfaces[left++] = one;
        }
    }
    return left;
}

/** Return how many of these interfaces, except lo, UDP can use. */
static unsigned count_for_udp(const struct rawe_interface *interfaces, unsigned chosen)
{
    unsigned count = 0;

    if (0 == (RAWE_PORT_KIND_UDP & mca_btl_rawe_params_kinds())) {
        return 0;
    }
    for (unsigned i = 0; i < chosen; ++i) {
        struct rawe_interface one = interfaces[i];
        count += !one.loopback && one.up && rawe_udp_use(&one);
    }
    return count;
}

/**
 * Open modules for these interfaces except lo: all for raw frames, which are tried first. UDP also
 * uses interfaces that are not Ethernet, such as a VPN's or IP over InfiniBand, if they or their
 * subnets were named.
 */
static void open_chosen(const struct rawe_interface *interfaces, unsigned chosen)
{
    static const unsigned order[] = {RAWE_PORT_KIND_PACKET, RAWE_PORT_KIND_UDP};
    const unsigned kinds = mca_btl_rawe_params_kinds();
    bool reported = false;

    for (unsigned k = 0; k < sizeof(order) / sizeof(order[0]); ++k) {
        for (unsigned i = 0; i < chosen && 0 != (order[k] & kinds); ++i) {
            if (interfaces[i].loopback) {
                continue;
            }
            const bool udp = RAWE_PORT_KIND_UDP == order[k];
            if (interfaces[i].up && (udp || interfaces[i].ethernet)) {
                open_module(&interfaces[i], udp);
            } else if (!reported && !interfaces[i].up) {
                MCA_BTL_RAWE_HELP_IF_ASKED(interface_down, interfaces[i].name);
            } else if (!reported && RAWE_PORT_KIND_PACKET == kinds) {
                MCA_BTL_RAWE_HELP_IF_ASKED(not_ethernet, interfaces[i].name);
            }
        }
        reported = reported || 0 != (order[k] & kinds);
    }
}

/** Open modules for lo, of each kind: a host's processes may have different permissions. */
static void open_loopback(const struct rawe_interface *interface)
{
    const unsigned kinds = mca_btl_rawe_params_kinds();

    if (0 != (RAWE_PORT_KIND_PACKET & kinds)) {
        open_module(interface, false);
    }
    if (0 != (RAWE_PORT_KIND_UDP & kinds)) {
        open_module(interface, true);
    }
}

/** Open modules for the interfaces chosen by the user, or all suitable ones, and lo last. */
static void open_modules(void)
{
    struct rawe_interface *interfaces;
    unsigned count;
    char unknown[128];

    if (0 != rawe_interface_list(&interfaces, &count)) {
        mca_btl_rawe_help_failed("listing the network interfaces", errno, __func__);
        return;
    }
    const char *include = mca_btl_rawe_params.if_include;
    const char *exclude = mca_btl_rawe_params.if_exclude;
    unsigned chosen =
        rawe_interface_select(interfaces, count, include, exclude, unknown, sizeof(unknown));
    chosen = drop_useless(interfaces, chosen);
    if ('\0' != unknown[0]) {
        MCA_BTL_RAWE_HELP_IF_ASKED(unknown_interface,
                                   names_interfaces() ? "if_include" : "if_exclude", unknown);
        free(interfaces);
        return;
    }
    const unsigned links = chosen + (mca_btl_rawe_params.loopback || 0 == chosen ? 1u : 0u);
    mca_btl_rawe_state.ring_bytes = ring_bytes(RAWE_RING_USUAL_BYTES, links);
    mca_btl_rawe_state.middle_ring_bytes = ring_bytes(RAWE_RING_MIDDLE_BYTES, links);
    bool loopback_chosen = false;
    unsigned tried = 0;
    for (unsigned i = 0; i < chosen; ++i) {
        tried += !interfaces[i].loopback;
        loopback_chosen = loopback_chosen || interfaces[i].loopback;
    }
    mca_btl_rawe_state.several_interfaces = count_for_udp(interfaces, chosen) > 1;
    open_chosen(interfaces, chosen);
    char *text = describe_interfaces(interfaces, count);
    mca_btl_rawe_compat_say("found %s", NULL == text ? "interfaces" : text);
    if (0 == tried && !loopback_chosen) {
        MCA_BTL_RAWE_HELP_IF_ASKED(no_usable_interface, NULL == text ? "unknown" : text);
    }
    free(text);
    /* A job on this host alone needs only lo; without an interface, other jobs cannot use rawe. */
    if (0 != mca_btl_rawe_state.module_count || loopback_chosen) {
        for (unsigned i = 0; i < count && mca_btl_rawe_params.loopback; ++i) {
            if (interfaces[i].loopback && interfaces[i].up) {
                open_loopback(&interfaces[i]);
                break;
            }
        }
    }
    (0 == mca_btl_rawe_state.module_count ? mca_btl_rawe_failures_report
                                          : mca_btl_rawe_failures_drop)();
    free(interfaces);
}

/** Return true unless too few descriptors are free: no PML would load, without any message. */
static bool has_descriptors(void)
{
    const bool enough = descriptors_free(DESCRIPTORS_LEFT);

    if (!enough) {
        mca_btl_rawe_help_failed("leaving descriptors to Open MPI", errno, __func__);
    }
    return enough;
}

static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads)
{
    *count = 0;
    if (OPAL_SUCCESS != mca_btl_rawe_params_check()) {
        return NULL;
    }
    struct {
        uint64_t seed, generation;
    } drawn;
    if (sizeof(drawn) != getrandom(&drawn, sizeof(drawn), 0)) {
        MCA_BTL_RAWE_HELP_IF_ASKED(internal_error, "getting random numbers", strerror(errno),
                                   __func__);
        return NULL;
    }
    mca_btl_rawe_compat_stay_loaded();
    rawe_handle_table_init(&mca_btl_rawe_state.handles, drawn.seed);
    if (0 == mca_btl_rawe_state.connections.generation) {
        /* Make connection ids hard to guess. Their generations have 12 bits. */
        mca_btl_rawe_state.connections.generation = drawn.generation & 0xFFF;
    }
    mca_btl_rawe_routes_init();
    struct rawe_port_error error;
    if (0 != rawe_service_start(&mca_btl_rawe_state.service, &error)) {
        mca_btl_rawe_help_failed(error.step, error.code, __func__);
        return NULL;
    }
    open_modules();
    unsigned modules = mca_btl_rawe_state.module_count;
    if (0 == modules) {
        return NULL;
    }
    mca_btl_rawe_state.multicast_possible = mca_btl_rawe_multicast_possible(mpi_threads);
    mca_btl_base_module_t **list = malloc((modules + 1) * sizeof(*list));
    if (NULL == list || !has_descriptors() || OPAL_SUCCESS != mca_btl_rawe_proc_publish()) {
        free(list);
        while (0 != mca_btl_rawe_state.module_count) {
            mca_btl_rawe_finalize(&mca_btl_rawe_state.modules[0]->super);
        }
        return NULL;
    }
    mca_btl_rawe_fanout_open();
    rawe_helper_hang_up();
    mca_btl_rawe_routes_begin();
    int code = mca_btl_rawe_params.async_progress ? mca_btl_rawe_async_start() : 0;
    if (0 != code) {
        mca_btl_rawe_help_failed("starting the thread of async_progress", code, __func__);
    }
    mca_btl_rawe_metrics_monitor_open();
    mca_btl_rawe_proc_listen();
    for (unsigned i = 0; i < modules; ++i) {
        list[i] = &mca_btl_rawe_state.modules[i]->super;
    }
    /* Windows need access to every process, including those on this host. */
    if (mca_btl_rawe_params.loopback) {
        list[modules++] = mca_btl_rawe_rma_open();
    }
    *count = (int)modules;
    return list;
}

/** Report failures, and open the modules that peers want to use. */
static void act_without_lock(void)
{
    if (mca_btl_rawe_failures_wait()) {
        mca_btl_rawe_failures_report();
    }
    if (atomic_load_explicit(&mca_btl_rawe_state.links_wanted, memory_order_relaxed)) {
        mca_btl_rawe_modules_open_wanted();
    }
}

/** Do what was handed over, for which a callback up the stack may wait, and report its results. */
static inline void catch_up(struct mca_btl_rawe_state *state)
{
    if (OPAL_UNLIKELY(mca_btl_rawe_lock_has_work())) {
        mca_btl_rawe_lock_do_work();
    }
    if (OPAL_UNLIKELY(!rawe_list_empty(&state->complete))) {
        mca_btl_rawe_send_complete_deferred();
    }
}

static int component_progress(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    unsigned received = 0;

    mca_btl_rawe_async_end();
    if (OPAL_UNLIKELY(!mca_btl_rawe_trylock())) {
        if (mca_btl_rawe_async_active()) {
            sched_yield(); /* the asynchronous thread may share our processor */
        }
        return 0; /* another thread makes progress */
    }
    uint32_t rounds = atomic_load_explicit(&state->rounds, memory_order_relaxed) + 1;
    atomic_store_explicit(&state->rounds, rounds, memory_order_relaxed);
    bool poll_clock = 0 == (rounds & (CALLS_PER_CLOCK_READ - 1));
    /* A progress call further up the stack is still inside an engine. */
    bool outside = !state->progressing;
    if (OPAL_UNLIKELY(poll_clock && outside)) {
        mca_btl_rawe_progress_repair(true);
    }
    catch_up(state);
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
            continue;
        }
        unsigned count = OPAL_UNLIKELY(NULL != module->group_port)
                             ? mca_btl_rawe_multicast_progress(module, poll_clock, false)
                             : 0;
        /* Without connections (mostly lo) or migrated ones, only CONNECTs arrive: they can wait. */
        if (0 != module->engine.connections || 0 != state->connections.migrated || poll_clock) {
            count += mca_btl_rawe_module_progress(module, poll_clock);
        }
        if (0 != count) {
            mca_btl_rawe_thread_watch(module);
            received += count;
        }
    }
    mca_btl_base_endpoint_t *lost = NULL;
    if (OPAL_UNLIKELY(
            (NULL != state->lost || (poll_clock && mca_btl_rawe_proc_deaths() != state->deaths)) &&
            outside)) {
        lost = mca_btl_rawe_endpoints_take_lost();
    }
    struct mca_btl_rawe_message *deferred =
        OPAL_UNLIKELY(state->defers && outside) ? mca_btl_rawe_take_deferred() : NULL;
    mca_btl_rawe_unlock();
    mca_btl_rawe_deliver_deferred(deferred);
    mca_btl_rawe_endpoints_report_lost(lost);
    if (OPAL_UNLIKELY(poll_clock && outside)) {
        act_without_lock();
    }
    if (0 == received &&
        OPAL_UNLIKELY(atomic_load_explicit(&state->shared, memory_order_relaxed))) {
        sched_yield(); /* the awaited process may be waiting for this processor */
    }
    return (int)received;
}

/* ---- btl_rawe_offer.h: capabilities, and calls after which the progress thread watches ---- */

/** In 4.1, BTLs have published by now, so publish again: PMIx replaces data of the same name. */
static void announce_collectives(void)
{
    mca_btl_rawe_state.collectives = true;
    if (mca_btl_rawe_state.multicast_possible) {
        (void)mca_btl_rawe_proc_publish(); /* on failure the process takes no part */
    }
}

static bool process_takes_part(opal_process_name_t name, bool wait, uint64_t *host)
{
    return name.jobid == OPAL_PROC_MY_NAME.jobid &&
           0 != (MCA_BTL_RAWE_CAPABILITY_MULTICAST &
                 mca_btl_rawe_proc_capabilities(name, wait, host));
}

/** If the program leaves MPI, have the progress thread send what peers need; then unlock. */
static void watch_and_unlock(void)
{
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        mca_btl_rawe_thread_watch_as(module, mca_btl_rawe_multicast_busy(module));
    }
    mca_btl_rawe_unlock();
}

static bool send_message(struct mca_btl_rawe_multicast *group,
                         struct mca_btl_rawe_transfer *message)
{
    mca_btl_rawe_lock();
    bool taken = mca_btl_rawe_multicast_send(group, message);
    watch_and_unlock();
    return taken;
}

static void close_group(struct mca_btl_rawe_multicast *group, bool complete)
{
    mca_btl_rawe_lock();
    mca_btl_rawe_multicast_close(group, complete);
    watch_and_unlock();
}

static const struct mca_btl_rawe_offer offer = {
    .version = MCA_BTL_RAWE_OFFER_VERSION,
    .announce = announce_collectives,
    .takes_part = process_takes_part,
    .place = mca_btl_rawe_multicast_place,
    .open = mca_btl_rawe_multicast_open,
    .send = send_message,
    .expect = mca_btl_rawe_multicast_expect,
    .close = close_group,
};

struct mca_btl_rawe_component mca_btl_rawe_component = {
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
    .magic = MCA_BTL_RAWE_OFFER_MAGIC,
    .offer = &offer,
};
MCA_BASE_COMPONENT_INIT(opal, btl, rawe)
