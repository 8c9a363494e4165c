/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads that close what takes the kernel long to close. See btl_rawe_close.h.
 */
#include "btl_rawe_close.h"

#include "btl_rawe_state.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/** Link, responder and bulk of each module. */
#define CLOSINGS_MAX (3u * MCA_BTL_RAWE_MODULES_MAX)

struct closing {
    void (*close)(void *);
    void *what;
};

static pthread_t threads[CLOSINGS_MAX];
static unsigned thread_count;

static void *thread_main(void *context)
{
    struct closing closing = *(struct closing *)context;

    free(context);
    closing.close(closing.what);
    return NULL;
}

/** Signals are for the program's own threads. */
static bool start(struct closing *closing)
{
    sigset_t all, before;

    if (CLOSINGS_MAX == thread_count) {
        return false;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&threads[thread_count], NULL, thread_main, closing);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread_count += 0 == code;
    return 0 == code;
}

void mca_btl_rawe_close_later(void (*close)(void *), void *what)
{
    struct closing *closing = malloc(sizeof(*closing));

    if (NULL != closing) {
        *closing = (struct closing){.close = close, .what = what};
        if (start(closing)) {
            return;
        }
        free(closing);
    }
    close(what);
}

void mca_btl_rawe_close_wait(void)
{
    while (0 != thread_count) {
        pthread_join(threads[--thread_count], NULL);
    }
}
