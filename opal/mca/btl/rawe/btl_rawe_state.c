/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_state.h"

#include "linux/port/rawe_port.h"

struct mca_btl_rawe_state mca_btl_rawe_state;

uint64_t mca_btl_rawe_now_ns(void)
{
    return rawe_port_clock_ns();
}

uint64_t mca_btl_rawe_peer_now_ns(void *context)
{
    return mca_btl_rawe_now_ns();
}
