/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "btl_rawe_async.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_progress.h"
#include "linux/sys/rawe_service.h"

#include "opal/runtime/opal_progress.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS_NS 1000000u

/** An idle engine reads the clock once per 16 progress calls. */
#define CALLS 16u

/** Until MPI is initialized, check its stage at this interval. */
#define INIT_REST_NS (10u * MS_NS)

/** Beside MPI, rests alternate between the minimum and a quarter of the time since MPI's return. */
#define POLL_SHARE 4u
#define POLL_MIN_NS 30000u
#define POLL_MAX_NS (4u * MS_NS)

/** With nothing in flight, sleep until a frame or mca_btl_rawe_async_wake wakes the thread. */
#define IDLE_REST_NS (1000u * MS_NS)

/** The longest rest while something is in flight but polls achieve nothing. */
#define BUSY_REST_MAX_NS (64u * MS_NS)

/** Per module: link, bulk, the port beside bulk, and the group port. */
#define DESCRIPTORS_MAX (1u + 4u * MCA_BTL_RAWE_MODULES_MAX)

/** The descriptors that the thread sleeps on; the first is `async.wake_fd`. */
struct descriptors {
    struct pollfd polled[DESCRIPTORS_MAX];
    unsigned count;
    uint64_t batches_sent; /**< batches sent by all modules at the last preparation */
};

static struct {
    pthread_t thread;
    int wake_fd; /**< eventfd; never closed, because the service thread may be about to write */
    atomic_bool stopping;
} async = {.wake_fd = -1};

static void add_port(struct descriptors *descriptors, const struct rawe_port *port, short events)
{
    if (NULL != port) {
        descriptors->polled[descriptors->count++] =
            (struct pollfd){.fd = port->fd, .events = events};
    }
}

static uint64_t batches_sent(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    uint64_t sent = 0;

    for (unsigned i = 0; i < state->module_count; ++i) {
        /* Another thread may be starting another module's engine. */
        sent += state->modules[i]->open ? state->modules[i]->engine.counters.batches_sent : 0;
    }
    return sent;
}

/**
 * Prepare to sleep while MPI is away; return for how long. `useless`: a descriptor was readable,
 * but there were no frames (if the interface is down, say), so frames do not wake the thread.
 */
static uint64_t prepare_to_sleep(struct descriptors *descriptors, uint64_t *busy_ns, bool useless)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    bool idle = true;

    descriptors->count = 1;
    if (!mca_btl_rawe_lock_claim()) {
        return POLL_MIN_NS; /* MPI is back */
    }
    uint64_t sent = batches_sent();
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (!module->open) {
            continue;
        }
        if (mca_btl_rawe_progress_idle(module)) {
            atomic_store_explicit(&module->thread_mode, MCA_BTL_RAWE_THREAD_IDLE,
                                  memory_order_release);
        } else {
            idle = false;
        }
        if (!useless) {
            /* Wait for room to send only while batches are being sent. */
            bool room = sent != descriptors->batches_sent && rawe_engine_pending(&module->engine);
            add_port(descriptors, module->link, POLLIN);
            add_port(descriptors, module->bulk, (short)(POLLIN | (room ? POLLOUT : 0)));
            add_port(descriptors, NULL == module->bulk ? NULL : module->bulk->beside, POLLIN);
            /* Group batches stay in their port until a call waits for them. */
            add_port(descriptors, module->group_port, POLLIN);
        }
    }
    descriptors->batches_sent = sent;
    mca_btl_rawe_unlock();
    if (idle && !useless) {
        *busy_ns = 0;
        return IDLE_REST_NS;
    }
    *busy_ns = *busy_ns < MS_NS ? MS_NS : *busy_ns * 2;
    *busy_ns = *busy_ns < BUSY_REST_MAX_NS ? *busy_ns : BUSY_REST_MAX_NS;
    return *busy_ns;
}

/** Return true if MPI has been away since `*entries`. If so, set `*waits` if a frame is waiting. */
static bool mpi_is_away(uint32_t *entries, bool *waits)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (!mca_btl_rawe_progress_mpi_absent(entries) || !mca_btl_rawe_lock_claim()) {
        return false;
    }
    *waits = false;
    for (unsigned i = 0; i < state->module_count; ++i) {
        const mca_btl_rawe_module_t *module = state->modules[i];
        *waits =
            *waits || (module->open &&
                       (mca_btl_rawe_module_receivable(module) ||
                        (NULL != module->group_port && rawe_port_pending(module->group_port))));
    }
    mca_btl_rawe_unlock();
    return true;
}

/** Return the next rest. MPI returned at `back_ns`, and the last rest took `rest_ns`. */
static uint64_t rest_beside_mpi(uint64_t back_ns, uint64_t rest_ns)
{
    uint64_t share_ns = (mca_btl_rawe_now_ns() - back_ns) / POLL_SHARE;

    if (rest_ns > POLL_MIN_NS || share_ns < POLL_MIN_NS) {
        return POLL_MIN_NS;
    }
    return share_ns < POLL_MAX_NS ? share_ns : POLL_MAX_NS;
}

/** Sleep until a descriptor is ready. Returns true if the cause may be a frame. */
static bool sleep_on(struct descriptors *descriptors, uint64_t rest_ns)
{
    const struct timespec rest = {.tv_sec = (time_t)(rest_ns / 1000000000u),
                                  .tv_nsec = (long)(rest_ns % 1000000000u)};
    eventfd_t ignored;
    bool readable = false;

    if (0 < ppoll(descriptors->polled, descriptors->count, &rest, NULL)) {
        if (0 != descriptors->polled[0].revents) {
            (void)eventfd_read(async.wake_fd, &ignored);
        }
        for (unsigned i = 1; i < descriptors->count; ++i) {
            readable = readable || 0 != (descriptors->polled[i].revents & ~POLLOUT);
        }
    }
    return readable;
}

static bool thread_must_end(void)
{
    return atomic_load(&async.stopping) || MCA_BTL_RAWE_COMPAT_ENDS == mca_btl_rawe_compat_stage();
}

static void *progress_in_thread(void *context)
{
    struct descriptors descriptors = {{{.fd = async.wake_fd, .events = POLLIN}}, 1, 0};
    uint64_t rest_ns = INIT_REST_NS, busy_ns = 0, back_ns = 0;
    uint32_t entries = 0;

    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* rests are as short as the default slack */
    /* The user asked for this thread; but with too few processors, polling would delay others. */
    if (sysconf(_SC_NPROCESSORS_ONLN) >= (long)mca_btl_rawe_compat_local_ranks()) {
        (void)rawe_service_raise_share();
    }
    while (!thread_must_end()) {
        bool waits, readable = sleep_on(&descriptors, rest_ns);
        if (MCA_BTL_RAWE_COMPAT_WORKS != mca_btl_rawe_compat_stage()) {
            continue;
        }
        if (!mpi_is_away(&entries, &waits)) {
            back_ns = 0 == back_ns ? mca_btl_rawe_now_ns() : back_ns;
            rest_ns = rest_beside_mpi(back_ns, rest_ns);
            descriptors.count = 1;
            continue;
        }
        back_ns = 0;
        bool useless = !waits && readable;
        for (unsigned i = 0; i < CALLS && !thread_must_end(); ++i) {
            opal_progress();
        }
        entries = mca_btl_rawe_lock_entries();
        busy_ns = waits ? 0 : busy_ns;
        rest_ns = prepare_to_sleep(&descriptors, &busy_ns, useless);
    }
    return NULL;
}

int mca_btl_rawe_async_start(void)
{
    if (async.wake_fd < 0) {
        async.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (async.wake_fd < 0) {
            return errno;
        }
    }
    /*
     * Act as if the program had requested MPI_THREAD_MULTIPLE. BTL initialization is early enough,
     * and it lasts: MPI_Init sets the flag earlier, nothing clears it, and btl/tcp does the same.
     */
    opal_set_using_threads(true);
    atomic_store(&async.stopping, false);
    int code = rawe_service_create_thread(&async.thread, progress_in_thread, NULL, "rawe-async");
    atomic_store(&mca_btl_rawe_state.async_active, 0 == code);
    return code;
}

void mca_btl_rawe_async_stop(void)
{
    if (!mca_btl_rawe_async_active() || pthread_equal(async.thread, pthread_self())) {
        return;
    }
    atomic_store(&async.stopping, true);
    mca_btl_rawe_async_wake();
    pthread_join(async.thread, NULL);
    atomic_store(&mca_btl_rawe_state.async_active, false);
    /* Hand over to the progress thread, because sessions may outlive MPI_Finalize. */
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        rawe_responder_wake(mca_btl_rawe_state.modules[i]->responder, 0);
    }
}

void mca_btl_rawe_async_wake(void)
{
    (void)eventfd_write(async.wake_fd, 1);
}
