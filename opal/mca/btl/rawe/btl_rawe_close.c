/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads that close what takes the kernel long to close. See btl_rawe_close.h.
 */
#include "btl_rawe_close.h"

#include "btl_rawe_state.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/** Link, responder and bulk of each module. */
#define CLOSINGS_MAX (3u * MCA_BTL_RAWE_MODULES_MAX)

struct closing {
    void (*close)(void *);
    void *what;
    pthread_t thread;
    bool begun; /**< `thread` closes it */
};

static struct closing closings[CLOSINGS_MAX];
static unsigned closing_count;

static void *thread_main(void *context)
{
    const struct closing *closing = context;

    closing->close(closing->what);
    return NULL;
}

/** Signals are for the program's own threads. */
static bool begin(struct closing *closing)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&closing->thread, NULL, thread_main, closing);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return 0 == code;
}

void mca_btl_rawe_close_later(void (*close)(void *), void *what)
{
    if (CLOSINGS_MAX == closing_count) {
        close(what);
        return;
    }
    closings[closing_count++] = (struct closing){.close = close, .what = what};
}

void mca_btl_rawe_close_begin(void)
{
    for (unsigned i = 0; i < closing_count; ++i) {
        closings[i].begun = closings[i].begun || begin(&closings[i]);
    }
}

void mca_btl_rawe_close_wait(void)
{
    mca_btl_rawe_close_begin();
    while (0 != closing_count) {
        struct closing *closing = &closings[--closing_count];
        if (closing->begun) {
            pthread_join(closing->thread, NULL);
        } else {
            closing->close(closing->what);
        }
    }
}
