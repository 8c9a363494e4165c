/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What all modules of a process share, and their clock.
 */
#include "btl_rawe_state.h"

#include <time.h>

struct mca_btl_rawe_state mca_btl_rawe_state;

uint64_t mca_btl_rawe_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mca_btl_rawe_peer_now_ns(void *context)
{
    return mca_btl_rawe_now_ns();
}
