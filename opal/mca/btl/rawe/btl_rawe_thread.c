/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The progress thread: keeps a module's engine going while MPI is away. See btl_rawe_thread.h.
 */
#define _GNU_SOURCE
#include "btl_rawe.h"

#include "btl_rawe_params.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/**
 * While MPI makes progress, the progress thread looks once in so many intervals: closely, when messages have
 * been held back lately, or else slowly. Each look is a wakeup in the midst of the program, and
 * kernels that schedule by groups of processes (Linux 6.18) were seen to starve ranks for seconds
 * when hundreds of them a second met ranks that yield.
 */
#define CLOSE_FACTOR 4u
#define SLOW_FACTOR 16u

/** So often it looks closely, once messages have been held back. */
#define CLOSE_LOOKS 4u

/** While nothing comes of looking after what is under way, the same. */
#define IDLE_BACKOFF_MAX 64u

/** Messages kept for MPI at most; what comes beyond waits in the ring. */
#define DEFERRED_BYTES_MAX (8u << 20)

/** Frames received in a takeover at most: MPI may be waiting to come back. */
#define FRAMES_MAX 256u

/**
 * So many calls of progress read all that waits in a ring of any usual size. A program that waits in
 * MPI makes them within a millisecond; one that computes, and tests now and then, does not.
 */
#define SERVICED_ROUNDS 1000u

/** How long that is true of the process. */
#define SERVICED_NS 100000000u

/** Turns in which MPI yields the processor to the progress thread before it sleeps. */
#define YIELDS_MAX 4u

struct mca_btl_rawe_thread mca_btl_rawe_thread;

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

void mca_btl_rawe_thread_init(void)
{
    mca_btl_rawe_thread.ready =
        0 == membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void mca_btl_rawe_thread_wait(void)
{
    for (unsigned i = 0; i < YIELDS_MAX; ++i) {
        sched_yield();
        if (0 == atomic_load_explicit(&mca_btl_rawe_thread.claimed, memory_order_acquire)) {
            return;
        }
    }
    (void) syscall(SYS_futex, &mca_btl_rawe_thread.claimed, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void unclaim(void)
{
    atomic_store_explicit(&mca_btl_rawe_thread.claimed, 0, memory_order_release);
    (void) syscall(SYS_futex, &mca_btl_rawe_thread.claimed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL,
                   0);
}

/** Take the engines over. False when MPI, or another module's guard, is in them. */
static bool claim(void)
{
    uint32_t free = 0;

    if (opal_using_threads()) {
        return 0 == opal_mutex_trylock(&mca_btl_rawe_component.lock);
    }
    if (!mca_btl_rawe_thread.ready
        || !atomic_compare_exchange_strong(&mca_btl_rawe_thread.claimed, &free, 1)) {
        return false;
    }
    /*
     * MPI's thread either sees the claim, or its being inside is seen here: the kernel has it pass
     * a full barrier in between (membarrier(2), "private expedited").
     */
    if (0 != membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        || 0 != atomic_load_explicit(&mca_btl_rawe_thread.inside, memory_order_acquire)) {
        unclaim();
        return false;
    }
    return true;
}

static void give_back(void)
{
    if (opal_using_threads()) {
        opal_mutex_unlock(&mca_btl_rawe_component.lock);
    } else {
        unclaim();
    }
}

/** What progress would do, but for telling MPI. Returns true when something came of it. */
static bool take_over(mca_btl_rawe_module_t *module)
{
    struct rawe_engine *engine = &module->engine;
    unsigned received = 0;

    rawe_engine_defer_begin(engine);
    while (received < FRAMES_MAX && engine->deferred_bytes < DEFERRED_BYTES_MAX) {
        unsigned count = mca_btl_rawe_module_receive(module);
        if (0 == count) {
            break;
        }
        received += count;
    }
    bool held_back = rawe_engine_pending(engine);
    engine->now_ns = mca_btl_rawe_now_ns();
    mca_btl_rawe_module_service(module);
    rawe_engine_defer_end(engine);
    return 0 != received || held_back;
}

void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *module, unsigned how)
{
    atomic_store_explicit(&module->thread_mode, how, memory_order_release);
    rawe_responder_wake(module->responder);
}

/** Progress has been made since the last look. Returns after how many intervals to look again. */
static unsigned rest(mca_btl_rawe_module_t *module, unsigned thread_mode)
{
    if (MCA_BTL_RAWE_THREAD_POLLS_FAST != thread_mode) {
        module->thread_polls = 0;
        return SLOW_FACTOR;
    }
    if (++module->thread_polls < CLOSE_LOOKS) {
        return CLOSE_FACTOR;
    }
    module->thread_polls = 0;
    atomic_store_explicit(&module->thread_mode, MCA_BTL_RAWE_THREAD_POLLS, memory_order_release);
    return SLOW_FACTOR;
}

bool mca_btl_rawe_thread_serviced(void *context)
{
    mca_btl_rawe_module_t *module = context;
    uint32_t rounds = atomic_load_explicit(&mca_btl_rawe_thread.rounds, memory_order_relaxed);
    uint64_t now_ns = mca_btl_rawe_now_ns();

    if (rounds - module->serviced_rounds >= SERVICED_ROUNDS) {
        module->serviced_rounds = rounds;
        module->serviced_ns = now_ns;
    }
    return 0 != module->serviced_ns && now_ns - module->serviced_ns < SERVICED_NS;
}

int mca_btl_rawe_thread_service(void *context, bool asked)
{
    mca_btl_rawe_module_t *module = context;
    int interval_ms = (int) mca_btl_rawe_params.progress_thread_ms;
    uint32_t rounds = atomic_load_explicit(&mca_btl_rawe_thread.rounds, memory_order_relaxed);

    if (0 == interval_ms || (!mca_btl_rawe_thread.ready && !opal_using_threads())) {
        return -1;
    }
    unsigned thread_mode = atomic_load_explicit(&module->thread_mode, memory_order_acquire);
    if (asked && MCA_BTL_RAWE_THREAD_IDLE == thread_mode) {
        thread_mode = MCA_BTL_RAWE_THREAD_POLLS;
        atomic_store_explicit(&module->thread_mode, thread_mode, memory_order_release);
    }
    if (MCA_BTL_RAWE_THREAD_IDLE == thread_mode) {
        return -1;
    }
    if (rounds != module->thread_rounds) {
        module->thread_rounds = rounds;
        module->thread_backoff = 1;
        return interval_ms * (int) rest(module, thread_mode);
    }
    if (!claim()) {
        module->thread_backoff = 1;
        return interval_ms;
    }
    bool useful = module->open && take_over(module);
    bool idle = !module->open
                || (rawe_engine_idle(&module->engine) && !rawe_link_pending(module->link)
                    && (NULL == module->bulk || !rawe_bulk_pending(module->bulk)));
    if (idle) {
        atomic_store_explicit(&module->thread_mode, MCA_BTL_RAWE_THREAD_IDLE, memory_order_release);
    }
    give_back();
    module->thread_backoff = useful ? 1 : module->thread_backoff * 2;
    if (module->thread_backoff > IDLE_BACKOFF_MAX) {
        module->thread_backoff = IDLE_BACKOFF_MAX;
    }
    return idle ? -1 : interval_ms * (int) module->thread_backoff;
}
