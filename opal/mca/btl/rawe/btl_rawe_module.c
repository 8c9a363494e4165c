/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_module.h"

#include "btl_rawe_help.h"
#include "btl_rawe_params.h"
#include "linux/udp/rawe_udp_address.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct mca_btl_rawe_state mca_btl_rawe_state;

uint64_t mca_btl_rawe_now_ns(void)
{
    return rawe_port_clock_ns();
}

uint64_t mca_btl_rawe_peer_now_ns(void *context)
{
    return mca_btl_rawe_now_ns();
}

struct rawe_mac_text mca_btl_rawe_address_text(const struct mca_btl_rawe_address *address)
{
    return address->udp ? rawe_udp_text(address->mac) : rawe_mac_text(address->mac);
}

unsigned mca_btl_rawe_modules_count(bool loopback, mca_btl_rawe_module_t **last)
{
    unsigned count = 0;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        if (mca_btl_rawe_state.modules[i]->interface.loopback == loopback) {
            *last = mca_btl_rawe_state.modules[i];
            ++count;
        }
    }
    return count;
}

/** The first unreported failure; a failure of sockets in use replaces another one. */
static struct failure {
    bool in_use; /**< the sockets were in use */
    char interface[RAWE_INTERFACE_NAME_BYTES];
    struct rawe_port_error error;
} failure;

/** Guards `failure`; nothing is called while it is held. */
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;

void mca_btl_rawe_failure_note(bool in_use, const char *interface,
                               const struct rawe_port_error *error)
{
    pthread_mutex_lock(&failure_lock);
    if (!mca_btl_rawe_failures_wait() || (in_use && !failure.in_use)) {
        failure.in_use = in_use;
        failure.error = *error;
        snprintf(failure.interface, sizeof(failure.interface), "%s", interface);
        atomic_store_explicit(&mca_btl_rawe_state.failures_wait, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&failure_lock);
}

/** Take the noted failure. Returns false if no failure was noted. */
static bool take_failure(struct failure *noted)
{
    pthread_mutex_lock(&failure_lock);
    bool waited = atomic_exchange(&mca_btl_rawe_state.failures_wait, false);
    *noted = failure;
    pthread_mutex_unlock(&failure_lock);
    return waited;
}

/** Return true if the failure means that this process may not send raw frames. */
static bool lacks_right(int code)
{
    return EPERM == code || EACCES == code;
}

void mca_btl_rawe_failures_drop(void)
{
    const bool no_raw = mca_btl_rawe_state.modules[0]->address.udp;
    struct failure noted;

    if (take_failure(&noted)) {
        mca_btl_rawe_compat_say(
            "%s %s: %s%s (%s)", no_raw ? "uses UDP, because raw frames cannot use" : "cannot use",
            noted.interface, lacks_right(noted.error.code) ? "no CAP_NET_RAW, and " : "",
            noted.error.step, strerror(noted.error.code));
    }
}

void mca_btl_rawe_failures_report(void)
{
    const char *helper = mca_btl_rawe_params.helper;
    struct failure noted;

    if (!take_failure(&noted)) {
        return;
    }
    const char *interface = noted.interface;
    const struct rawe_port_error error = noted.error;
    if (noted.in_use) {
        MCA_BTL_RAWE_HELP(reopen_failed, interface, error.step, strerror(error.code));
    } else if (lacks_right(error.code)) {
        MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, interface,
                                   NULL == helper || '\0' == *helper ? "none" : helper, error.step);
    } else if (ENETDOWN == error.code) {
        MCA_BTL_RAWE_HELP_IF_ASKED(interface_down, interface);
    } else if (ENOMEM == error.code) {
        MCA_BTL_RAWE_HELP_IF_ASKED(ring_not_allocated, interface, mca_btl_rawe_state.ring_bytes,
                                   strerror(error.code));
    } else if (NULL != mca_btl_rawe_help_limit(error.code)) {
        mca_btl_rawe_help_failed(error.step, error.code, __func__);
    } else {
        MCA_BTL_RAWE_HELP_IF_ASKED(link_failed, interface, error.step, strerror(error.code));
    }
}

void mca_btl_rawe_end_job(mca_btl_base_module_t *btl, const char *text)
{
    char copy[400];

    if (NULL != mca_btl_rawe_state.error_callback) {
        snprintf(copy, sizeof(copy), "%s", text);
        /* No process has failed: if one were named, 5.0 might go on without it. */
        mca_btl_rawe_state.error_callback(btl, MCA_BTL_ERROR_FLAGS_FATAL, NULL, copy);
    }
}

/** Minimum interval between attempts to open sockets; each PING requests one. */
#define OPEN_AGAIN_NS 1000000000u

bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *module)
{
    if (OPAL_LIKELY(atomic_load_explicit(&module->open, memory_order_acquire))) {
        return true;
    }
    opal_mutex_lock(&module->endpoints_lock);
    uint64_t now_ns = mca_btl_rawe_now_ns();
    bool early = 0 != module->open_tried_ns && now_ns - module->open_tried_ns < OPEN_AGAIN_NS;
    bool open = module->open;
    /* UDP's link exists before the module is open, because its port is published. */
    const bool closed = NULL == module->link || module->address.udp;
    if (!open && !module->closing && closed && !early) {
        module->open_tried_ns = now_ns;
        open = module->open_sockets(module);
    }
    opal_mutex_unlock(&module->endpoints_lock);
    return open;
}

void mca_btl_rawe_modules_open_wanted(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    atomic_exchange_explicit(&state->links_wanted, false, memory_order_acquire);
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (atomic_exchange_explicit(&module->wanted, false, memory_order_relaxed)) {
            (void)mca_btl_rawe_module_open_if_needed(module);
        }
    }
}
