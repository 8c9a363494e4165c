/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "btl_rawe_async.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_progress.h"
#include "linux/sys/rawe_service.h"

#include "opal/runtime/opal_progress.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/param.h>
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

/**
 * A thread that wakes on its rank's core takes 16 to 25 us from the rank. That is a loss if the
 * rank enters MPI anyway when the frame arrives. So the thread is *prompt* (looks early whether MPI
 * is absent, and then sleeps on the sockets) only in programs in which this helps: it transfers
 * data WORTH_NS before MPI's return, or finds data although it was not prompt. Each time counts
 * LESSON, and so does each frame that wakes the thread after MPI was inside, against it. Otherwise
 * the thread is *patient*: it leaves progress to the progress thread, and only looks at longer
 * intervals, and once more POLL_MIN_NS later, whether data waits while MPI is absent. A thread that
 * need not share the rank's core is always prompt, and so is one beside a slow progress thread.
 */
#define PROMPT_MAX 16u
#define LESSON 4u
#define WORTH_NS 200000u
#define PATIENT_REST_NS (2u * MS_NS)
#define PATIENT_REST_MAX_NS (16u * MS_NS)
#define PROGRESS_THREAD_MS_MAX 4u

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

/** Work found while MPI is absent. */
struct found {
    bool frames_wait;
    bool data_waits;      /**< deferred by the progress thread */
    bool work_waits;      /**< these, or anything else that MPI's progress would do */
    uint64_t transferred; /**< see transferred() */
};

/** Observations of the program. */
struct habits {
    bool may_be_patient;
    unsigned prompt;    /**< 0: the thread is patient; grows as promptness helps */
    uint64_t absent_ns; /**< since when a patient thread has seen MPI absent; 0: it was inside */
    uint64_t served_ns; /**< when the thread transferred data; 0: not since MPI was inside */
    uint64_t back_ns;   /**< when MPI returned; 0: it is absent */
    uint64_t busy_ns;   /**< the last rest with something in flight; 0: frames were waiting */
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

/** Return the number of frames, other than acknowledgements, that modules sent and received. */
static uint64_t transferred(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    uint64_t sum = 0;

    for (unsigned i = 0; i < state->module_count; ++i) {
        const struct rawe_counters *counters = &state->modules[i]->engine.counters;
        sum += state->modules[i]->open ? counters->frames_sent + counters->frames_received : 0;
    }
    return sum;
}

/** Have frames of a module wake the thread and, with `room`, room to send. */
static void add_ports(struct descriptors *descriptors, const mca_btl_rawe_module_t *module,
                      bool room)
{
    add_port(descriptors, module->link, POLLIN);
    add_port(descriptors, module->bulk, (short)(POLLIN | (room ? POLLOUT : 0)));
    add_port(descriptors, NULL == module->bulk ? NULL : module->bulk->beside, POLLIN);
    /* Group batches stay in their port until a call waits for them. */
    add_port(descriptors, module->group_port, POLLIN);
}

/** Learn from a look while MPI was absent. `used`: the thread has transferred data since. */
static void learn(struct habits *habits, bool used)
{
    const uint64_t now_ns = mca_btl_rawe_now_ns();

    if (0 == habits->prompt && used) {
        habits->prompt = PROMPT_MAX;
        atomic_store(&mca_btl_rawe_state.async_patient, false);
    } else if (0 != habits->served_ns && now_ns - habits->served_ns >= WORTH_NS) {
        habits->prompt = MIN(habits->prompt + LESSON, PROMPT_MAX);
        habits->served_ns = 0;
    }
    habits->served_ns = 0 == habits->served_ns && used ? now_ns : habits->served_ns;
}

/** Return the next rest of a patient thread while MPI is absent. */
static uint64_t rest_patiently(struct habits *habits)
{
    uint64_t now_ns = mca_btl_rawe_now_ns();

    habits->absent_ns = 0 == habits->absent_ns ? now_ns : habits->absent_ns;
    return MIN(MAX((now_ns - habits->absent_ns) / POLL_SHARE, PATIENT_REST_NS),
               PATIENT_REST_MAX_NS);
}

/**
 * Prepare to sleep while MPI is away, after progress; return for how long. `useless`: a descriptor
 * was readable, but there were no frames (if the interface is down, say), so frames do not wake the
 * thread.
 */
static uint64_t prepare_to_sleep(struct descriptors *descriptors, struct habits *habits,
                                 const struct found *found, bool useless)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    descriptors->count = 1;
    if (!mca_btl_rawe_lock_claim()) {
        return POLL_MIN_NS; /* MPI is back */
    }
    bool idle = !state->deferral.pending; /* otherwise the progress thread has just been here */
    learn(habits, found->data_waits || transferred() != found->transferred);
    if (0 == habits->prompt) {
        mca_btl_rawe_unlock();
        return rest_patiently(habits);
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
            add_ports(descriptors, module,
                      sent != descriptors->batches_sent && rawe_engine_pending(&module->engine));
        }
    }
    descriptors->batches_sent = sent;
    mca_btl_rawe_unlock();
    if (idle && !useless) {
        habits->busy_ns = 0;
        return 0 != habits->served_ns ? WORTH_NS : IDLE_REST_NS;
    }
    habits->busy_ns = MAX(2 * habits->busy_ns, MS_NS);
    habits->busy_ns = MIN(habits->busy_ns, BUSY_REST_MAX_NS);
    return habits->busy_ns;
}

/** Return true if MPI has been away since `*entries`. If so, look for work. */
static bool mpi_is_away(uint32_t *entries, struct found *found)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (!mca_btl_rawe_progress_mpi_absent(entries) || !mca_btl_rawe_lock_claim()) {
        return false;
    }
    *found = (struct found){
        .data_waits = NULL != state->deferral.first || state->deferral.fragments_wait,
        .work_waits = state->deferral.pending || NULL != state->lost ||
                      !rawe_list_empty(&state->complete) || mca_btl_rawe_failures_wait() ||
                      state->deaths != mca_btl_rawe_proc_deaths() ||
                      atomic_load_explicit(&state->links_wanted, memory_order_relaxed),
        .transferred = transferred(),
    };
    for (unsigned i = 0; i < state->module_count; ++i) {
        const mca_btl_rawe_module_t *module = state->modules[i];
        if (module->open) {
            found->frames_wait =
                found->frames_wait || mca_btl_rawe_module_receivable(module) ||
                (NULL != module->group_port && rawe_port_pending(module->group_port));
        }
    }
    found->work_waits = found->work_waits || found->frames_wait || found->data_waits;
    mca_btl_rawe_unlock();
    return true;
}

/** Return the next rest while MPI is inside. The last one took `rest_ns`. */
static uint64_t rest_beside_mpi(const struct habits *habits, uint64_t rest_ns)
{
    uint64_t share_ns = (mca_btl_rawe_now_ns() - habits->back_ns) / POLL_SHARE;

    if (rest_ns > POLL_MIN_NS) {
        return POLL_MIN_NS;
    }
    return 0 != habits->prompt ? MIN(MAX(share_ns, POLL_MIN_NS), POLL_MAX_NS)
                               : MIN(MAX(share_ns, PATIENT_REST_NS), PATIENT_REST_MAX_NS);
}

/** Leave progress to the progress thread. */
static void hand_over(void)
{
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        rawe_responder_wake(mca_btl_rawe_state.modules[i]->responder, 0);
    }
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
            if (atomic_load(&mca_btl_rawe_state.async_patient)) {
                hand_over(); /* MPI took the thread for prompt, but it has just become patient */
            }
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

/** Note that a frame woke the thread after MPI had been inside. */
static void become_less_prompt(struct habits *habits)
{
    habits->prompt -= habits->may_be_patient ? MIN(habits->prompt, LESSON) : 0;
    if (0 == habits->prompt && !atomic_exchange(&mca_btl_rawe_state.async_patient, true)) {
        hand_over();
    }
}

/** Return the next rest after MPI was inside. `readable`: a frame woke the thread. */
static uint64_t rest_while_inside(struct habits *habits, uint64_t rest_ns, bool readable)
{
    habits->absent_ns = habits->served_ns = 0;
    if (readable) {
        become_less_prompt(habits);
    }
    habits->back_ns = 0 == habits->back_ns ? mca_btl_rawe_now_ns() : habits->back_ns;
    return rest_beside_mpi(habits, rest_ns);
}

/** Return true if this thread shares a core with a rank, and the progress thread can replace it. */
static bool may_be_patient(void)
{
    const unsigned ranks = mca_btl_rawe_compat_local_ranks();
    const uint64_t interval_ms = mca_btl_rawe_params.progress_thread_ms;
    cpu_set_t allowed;

    /* Without affinity, or with more processors than a cpu_set_t holds, there are enough. */
    bool alone = 0 == sched_getaffinity(0, sizeof(allowed), &allowed) && CPU_COUNT(&allowed) < 2;
    return 0 != interval_ms && interval_ms <= PROGRESS_THREAD_MS_MAX &&
           (alone || sysconf(_SC_NPROCESSORS_ONLN) < 2 * (long)ranks);
}

static void *progress_in_thread(void *context)
{
    struct descriptors descriptors = {{{.fd = async.wake_fd, .events = POLLIN}}, 1, 0};
    struct habits habits = {.may_be_patient = may_be_patient(), .prompt = PROMPT_MAX};
    uint64_t rest_ns = INIT_REST_NS;
    uint32_t entries = 0;

    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* rests are as short as the default slack */
    /* The user asked for this thread; but with too few processors, polling would delay others. */
    if (sysconf(_SC_NPROCESSORS_ONLN) >= (long)mca_btl_rawe_compat_local_ranks()) {
        (void)rawe_service_raise_share();
    }
    while (!thread_must_end()) {
        struct found found;
        bool readable = sleep_on(&descriptors, rest_ns);
        if (MCA_BTL_RAWE_COMPAT_WORKS != mca_btl_rawe_compat_stage()) {
            continue;
        }
        if (!mpi_is_away(&entries, &found)) {
            rest_ns = rest_while_inside(&habits, rest_ns, readable);
            descriptors.count = 1;
            continue;
        }
        habits.back_ns = 0;
        if (0 == habits.prompt && !found.work_waits) {
            rest_ns = rest_patiently(&habits);
            continue;
        }
        habits.busy_ns = found.frames_wait ? 0 : habits.busy_ns;
        for (unsigned i = 0; i < CALLS && !thread_must_end(); ++i) {
            opal_progress();
        }
        entries = mca_btl_rawe_lock_entries();
        rest_ns = prepare_to_sleep(&descriptors, &habits, &found, !found.frames_wait && readable);
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
    atomic_store(&mca_btl_rawe_state.async_patient, false);
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
    hand_over(); /* sessions may outlive MPI_Finalize */
}

void mca_btl_rawe_async_wake(void)
{
    (void)eventfd_write(async.wake_fd, 1);
}
