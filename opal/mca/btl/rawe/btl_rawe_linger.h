/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The process finalizes: its modules carry what is left to their peers before they close, all at
 * the same time. A connection of one may use the link of another.
 */
#ifndef MCA_BTL_RAWE_LINGER_H
#define MCA_BTL_RAWE_LINGER_H

/**
 * The first module is finalized, and the PML closed: from now on nothing is delivered, completed, or
 * placed into memory. Drives all modules until peers have acknowledged everything and know that we
 * finalize, or finalize as well. With peers that are silent that takes btl_rawe_peer_timeout, and the
 * user is told if they may miss data. Does nothing when it is called again, for another module. Lock
 * not held.
 */
void mca_btl_rawe_linger(void);

#endif
