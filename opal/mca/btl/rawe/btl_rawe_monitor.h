/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process counts, for rawe-top (linux/sys/rawe_monitor.h).
 */
#ifndef MCA_BTL_RAWE_MONITOR_H
#define MCA_BTL_RAWE_MONITOR_H

/** Answer from now on. Where that is not possible the process cannot be watched, and works. */
void mca_btl_rawe_monitor_open(void);

void mca_btl_rawe_monitor_close(void);

#endif
