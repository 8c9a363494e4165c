/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes that ended, by the runtime's word. See btl_rawe_departed.h.
 */
#include "btl_rawe_departed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ROOM_FIRST 16u

static opal_process_name_t *names;
static unsigned room;
static atomic_uint count; /**< of names; changed with the lock held */

/** For all of them; nothing is called while it is held. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_known(const opal_process_name_t *name)
{
    for (unsigned i = 0; i < count; ++i) {
        if (names[i].jobid == name->jobid && names[i].vpid == name->vpid) {
            return true;
        }
    }
    return false;
}

/** Returns false without memory. */
static bool grow(void)
{
    unsigned larger = 0 == room ? ROOM_FIRST : 2 * room;
    opal_process_name_t *grown = realloc(names, larger * sizeof(*names));

    if (NULL == grown) {
        return false;
    }
    names = grown;
    room = larger;
    return true;
}

/** By the runtime's thread. One that there is no memory for is waited for until it is silent. */
static void note(const opal_process_name_t *name)
{
    pthread_mutex_lock(&names_lock);
    if (!is_known(name) && (count < room || grow())) {
        names[count] = *name;
        atomic_fetch_add(&count, 1);
    }
    pthread_mutex_unlock(&names_lock);
}

void mca_btl_rawe_departed_begin(void)
{
    if (mca_btl_rawe_compat_fault_tolerant()) {
        mca_btl_rawe_compat_departures_begin(note);
    }
}

void mca_btl_rawe_departed_end(void)
{
    mca_btl_rawe_compat_departures_end();
    pthread_mutex_lock(&names_lock);
    free(names);
    names = NULL;
    room = 0;
    atomic_store(&count, 0);
    pthread_mutex_unlock(&names_lock);
}

bool mca_btl_rawe_departed(const opal_process_name_t *name)
{
    /* Asked again and again, and mostly there is none. */
    if (0 == atomic_load(&count)) {
        return false;
    }
    pthread_mutex_lock(&names_lock);
    bool known = is_known(name);
    pthread_mutex_unlock(&names_lock);
    return known;
}
