/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_state.h"

#include "linux/port/rawe_port.h"
#include "linux/sys/rawe_service.h"

#include <unistd.h>

struct mca_btl_rawe_state mca_btl_rawe_state;

uint64_t mca_btl_rawe_now_ns(void)
{
    return rawe_port_clock_ns();
}

uint64_t mca_btl_rawe_peer_now_ns(void *context)
{
    return mca_btl_rawe_now_ns();
}

void mca_btl_rawe_raise_thread(void)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) >= (long)mca_btl_rawe_compat_local_ranks()) {
        rawe_service_raise_share();
    }
}
