/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_thread.h"

#include "btl_rawe_async.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_routes.h"

#include <poll.h>
#include <time.h>

/**
 * While MPI makes progress, the thread polls once in this many intervals: fast if messages were
 * held back lately, else slowly. Each poll interrupts the program, and kernels that schedule by
 * groups of processes (Linux 6.18) starved ranks for seconds when hundreds of polls a second met
 * ranks that yield. So where others use the processor, all polls are slow (LAMMPS, two ranks
 * per processor: previously 600 wakeups per second and rank).
 */
#define FAST_FACTOR 4u
#define SLOW_FACTOR 16u

/**
 * A timer that expires before the kernel's next tick makes a virtual machine leave the guest: 25 us
 * on an Intel, 4 us on an AMD, in the middle of a message. So MPI sets one only in programs that
 * leave MPI while messages are queued; each time the thread finds that they did, for the next
 * EARLY_POLLS times. Others poll progress and send the rest themselves.
 */
#define EARLY_POLLS 8u

/** The thread polls, and needs no timer from MPI, until MPI has made no call for this long. */
#define ACTIVE_NS 100000000u

/** Fast polls after messages were held back. */
#define FAST_POLLS 4u

/** Polls before another queued part of a message gets an early poll. */
#define SOON_POLLS 2u

/** Maximum doublings of the interval while polls achieve nothing. */
#define DOUBLINGS_MAX 6u

/** A takeover ends after this many frames, because MPI may be waiting to enter. */
#define FRAMES_MAX 256u

/** Progress calls that empty any ring; a program waiting in MPI makes them in a millisecond. */
#define SERVICED_ROUNDS 1000u

/** How long a process counts as serviced after that many progress calls. */
#define SERVICED_NS 100000000u

#define MS_NS 1000000u

/** A peer that asks has already waited, so MPI is absent if it makes no call for this long. */
#define ABSENT_NS 20000l

/** Have the thread serve a module in mode `how`, after `in_us`. */
static void wake_after(mca_btl_rawe_module_t *module, unsigned how, unsigned in_us)
{
    atomic_store_explicit(&module->thread_mode, how, memory_order_release);
    if (mca_btl_rawe_async_works()) {
        mca_btl_rawe_async_wake();
    } else {
        rawe_responder_wake(module->responder, in_us);
    }
}

/** Return true if the program has lately left MPI while messages were queued. */
static bool polls_early(void)
{
    return 0 != atomic_load_explicit(&mca_btl_rawe_state.early_polls, memory_order_relaxed);
}

/**
 * Do not wake the thread at once: it would take the processor from the message that wakes it (1000
 * bytes after a pause: 20 us, not 3).
 */
void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *module, unsigned how)
{
    unsigned interval_us = 1000u * (unsigned)mca_btl_rawe_params.progress_thread_ms;
    unsigned mode = atomic_load_explicit(&module->thread_mode, memory_order_relaxed);
    bool early = MCA_BTL_RAWE_THREAD_POLLS != how && polls_early() &&
                 !atomic_load_explicit(&mca_btl_rawe_state.shared, memory_order_relaxed);

    if (!early && MCA_BTL_RAWE_THREAD_IDLE != mode && !mca_btl_rawe_async_works()) {
        atomic_store_explicit(&module->thread_mode, how, memory_order_release); /* it is polling */
        return;
    }
    wake_after(module, how,
               !early                                  ? SLOW_FACTOR * interval_us
               : MCA_BTL_RAWE_THREAD_POLLS_SOON == how ? interval_us / 2
                                                       : interval_us);
}

/** Have the thread serve next those other modules that have frames in flight. */
static void serve_others(const mca_btl_rawe_module_t *module)
{
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        if (other != module && other->open && !rawe_engine_idle(&other->engine)) {
            unsigned how = mca_btl_rawe_thread_mode(rawe_engine_pending(&other->engine));
            if (atomic_load_explicit(&other->thread_mode, memory_order_relaxed) < how) {
                wake_after(other, how, 0);
            }
        }
    }
}

/** Make progress in other modules: those with something to send if `pending`, else all. */
static bool defer_others(const mca_btl_rawe_module_t *module, bool pending)
{
    bool useful = false;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        if (other != module && other->open && (!pending || rawe_engine_pending(&other->engine))) {
            useful = mca_btl_rawe_module_defer(other, FRAMES_MAX) || useful;
        }
    }
    return useful;
}

/**
 * Make progress, without calling MPI. Returns true if there was work. Migrated connections receive
 * through another module's link, so read that first; this link may have other modules' frames.
 */
static bool take_over(mca_btl_rawe_module_t *module)
{
    bool useful = false;

    if (0 != mca_btl_rawe_state.connections.migrated) {
        useful = defer_others(module, false);
    }
    if (NULL != module->group_port) { /* control messages leave with the engine's frames */
        useful = 0 != mca_btl_rawe_multicast_progress(module, true, true) || useful;
    }
    useful = mca_btl_rawe_module_defer(module, FRAMES_MAX) || useful;
    useful = defer_others(module, true) || useful;
    /* Other modules may have part of a reply to send, or connections that have left a route. */
    serve_others(module);
    return useful;
}

/** Return the number of intervals to the next poll, if MPI made progress since the last one. */
static unsigned rest_intervals(mca_btl_rawe_module_t *module, unsigned thread_mode, bool shared)
{
    bool fast = MCA_BTL_RAWE_THREAD_POLLS_FAST == thread_mode;

    if (MCA_BTL_RAWE_THREAD_POLLS == thread_mode || shared || !polls_early()) {
        module->thread_polls = 0;
        return SLOW_FACTOR;
    }
    if (++module->thread_polls < (fast ? FAST_POLLS : SOON_POLLS)) {
        return fast ? FAST_FACTOR : SLOW_FACTOR;
    }
    module->thread_polls = 0;
    atomic_store_explicit(&module->thread_mode, MCA_BTL_RAWE_THREAD_POLLS, memory_order_release);
    return SLOW_FACTOR;
}

bool mca_btl_rawe_thread_serviced(void *context)
{
    mca_btl_rawe_module_t *module = context;
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    uint32_t rounds = atomic_load_explicit(&state->rounds, memory_order_relaxed);
    uint64_t now_ns = mca_btl_rawe_now_ns();

    /* A process that sends PINGs uses the link next. MPI opens it: a helper may take a minute. */
    if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
        atomic_store_explicit(&module->wanted, true, memory_order_relaxed);
        atomic_store_explicit(&state->links_wanted, true, memory_order_release);
        if (mca_btl_rawe_async_active()) {
            mca_btl_rawe_async_wake();
        }
    }
    if (rounds - module->serviced_rounds >= SERVICED_ROUNDS) {
        module->serviced_rounds = rounds;
        module->serviced_ns = now_ns;
    }
    return 0 != module->serviced_ns && now_ns - module->serviced_ns < SERVICED_NS;
}

/** Return true if MPI has made no call since the last check or, if it has, none for ABSENT_NS. */
static bool mpi_is_absent(void)
{
    uint32_t *entries = &mca_btl_rawe_state.thread_entries;

    if (mca_btl_rawe_progress_mpi_absent(entries)) {
        return true;
    }
    mca_btl_rawe_state.thread_active_ns = mca_btl_rawe_now_ns();
    nanosleep(&(struct timespec){.tv_nsec = ABSENT_NS}, NULL);
    return mca_btl_rawe_progress_mpi_absent(entries);
}

/** Have frames wake the thread if `frames` (otherwise PROBEs do), and room to send if `room`. */
static void listen_for(mca_btl_rawe_module_t *module, bool frames, bool room)
{
    short bulk_events = (short)((frames ? POLLIN : 0) | (room ? POLLOUT : 0));
    const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX] = {
        {.fd = frames ? module->link->fd : -1, .events = POLLIN},
        {.fd = NULL != module->bulk && 0 != bulk_events ? module->bulk->fd : -1,
         .events = bulk_events},
    };

    module->thread_listens = frames;
    rawe_responder_listen(module->responder, wanted);
}

/** Return when to check routes in this thread. If MPI makes progress, it checks them earlier. */
static uint64_t routes_due_ns(const mca_btl_rawe_module_t *module)
{
    uint64_t due_ns = module->open ? mca_btl_rawe_routes_due_ns() : UINT64_MAX;

    return UINT64_MAX == due_ns ? due_ns : due_ns + RAWE_FAILOVER_INTERVAL_NS;
}

/** Return the milliseconds until the next route check; -1: none before something changes. */
static int routes_rest_ms(const mca_btl_rawe_module_t *module)
{
    uint64_t due_ns = routes_due_ns(module), now_ns = mca_btl_rawe_now_ns();

    if (UINT64_MAX == due_ns) {
        return -1;
    }
    if (due_ns < now_ns + RAWE_FAILOVER_INTERVAL_NS) {
        due_ns = now_ns + RAWE_FAILOVER_INTERVAL_NS;
    }
    return (int)((due_ns - now_ns + MS_NS - 1) / MS_NS);
}

/** Learn from a poll after MPI had queued messages whether it had left some of them behind. */
static void learn_early_polls(unsigned thread_mode, bool left)
{
    atomic_uint *early_polls = &mca_btl_rawe_state.early_polls;
    unsigned before = atomic_load_explicit(early_polls, memory_order_relaxed);

    if (thread_mode > MCA_BTL_RAWE_THREAD_POLLS) {
        atomic_store_explicit(early_polls, left ? EARLY_POLLS : before - (0 != before),
                              memory_order_relaxed);
    }
}

/** Return true if MPI made a call lately, so that it is worth polling with nothing in flight. */
static bool mpi_is_active(bool shared)
{
    uint64_t active_ns = mca_btl_rawe_state.thread_active_ns;

    return !shared && 0 != active_ns && mca_btl_rawe_now_ns() - active_ns < ACTIVE_NS;
}

/** Leave progress to the asynchronous thread. Returns the milliseconds until a route is due. */
static int stand_back(mca_btl_rawe_module_t *module)
{
    bool served = module->thread_served;

    listen_for(module, false, false);
    module->thread_served = false;
    if (served || routes_due_ns(module) <= mca_btl_rawe_now_ns()) {
        mca_btl_rawe_async_wake();
    }
    return routes_rest_ms(module);
}

/** Count a poll that achieved nothing. Returns the doublings of the interval to the next one. */
static unsigned back_off(mca_btl_rawe_module_t *module)
{
    module->thread_doublings += module->thread_doublings < DOUBLINGS_MAX;
    return module->thread_doublings;
}

int mca_btl_rawe_thread_service(void *context, bool asked)
{
    mca_btl_rawe_module_t *module = context;
    int interval_ms = (int)mca_btl_rawe_params.progress_thread_ms;

    if (mca_btl_rawe_async_works()) {
        return stand_back(module);
    }
    if (0 == interval_ms) {
        return -1;
    }
    module->thread_served = true;
    unsigned thread_mode = atomic_load_explicit(&module->thread_mode, memory_order_acquire);
    asked = asked || routes_due_ns(module) <= mca_btl_rawe_now_ns();
    if ((asked || module->thread_listens) && MCA_BTL_RAWE_THREAD_IDLE == thread_mode) {
        thread_mode = MCA_BTL_RAWE_THREAD_POLLS;
        atomic_store_explicit(&module->thread_mode, thread_mode, memory_order_release);
    }
    if (MCA_BTL_RAWE_THREAD_IDLE == thread_mode) {
        return routes_rest_ms(module);
    }
    bool absent = mpi_is_absent(), shared = rawe_responder_shared(module->responder);
    atomic_store_explicit(&mca_btl_rawe_state.shared, shared, memory_order_relaxed);
    if (!absent || !mca_btl_rawe_lock_claim()) {
        listen_for(module, false, false);
        learn_early_polls(thread_mode, false);
        if (absent) { /* MPI is in the kernel, for example to open a port, or another thread polls */
            return interval_ms << back_off(module);
        }
        module->thread_doublings = 0;
        return interval_ms * (int)rest_intervals(module, thread_mode, shared);
    }
    if (mca_btl_rawe_async_works()) { /* it has become prompt in the meantime, with the lock */
        mca_btl_rawe_unlock();
        return stand_back(module);
    }
    mca_btl_rawe_progress_repair(false);
    uint64_t batches_sent = module->engine.counters.batches_sent;
    uint64_t frames_sent = module->engine.counters.frames_sent;
    bool useful = module->open && take_over(module);
    /* Frames may have arrived since: reading them saves the peer another PROBE. */
    bool idle = !module->open || (!useful && !mca_btl_rawe_module_receivable(module) &&
                                  mca_btl_rawe_progress_idle(module));
    bool active = idle && mpi_is_active(shared);
    learn_early_polls(thread_mode, frames_sent != module->engine.counters.frames_sent);
    /* Nothing is held back now; the next message held back wakes the thread again. */
    atomic_store_explicit(&module->thread_mode,
                          idle && !active ? MCA_BTL_RAWE_THREAD_IDLE : MCA_BTL_RAWE_THREAD_POLLS,
                          memory_order_release);
    /* An unreadable frame, or lack of room, must not wake the thread twice. */
    listen_for(module,
               module->open && 0 != mca_btl_rawe_state.handles.readable &&
                   (useful || !module->thread_listens),
               module->open && rawe_engine_pending(&module->engine) &&
                   batches_sent != module->engine.counters.batches_sent);
    mca_btl_rawe_unlock();
    unsigned doublings = useful ? (module->thread_doublings = 0) : back_off(module);
    return active ? interval_ms * (int)SLOW_FACTOR
           : idle ? routes_rest_ms(module)
                  : interval_ms << doublings;
}
