/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The process finalizes: all modules deliver what is left to their peers before the first one
 * closes, as a connection of one may use the link of another.
 */
#ifndef MCA_BTL_RAWE_LINGER_H
#define MCA_BTL_RAWE_LINGER_H

/**
 * Called when the first module is finalized, with the PML closed: from now on nothing is delivered,
 * completed, or placed into memory. Drives all modules until each peer has acknowledged everything
 * and knows that we finalize, or finalizes as well; for btl_rawe_peer_timeout if it is silent, and
 * then tells the user if it may miss data. Later calls do nothing. Lock not held.
 */
void mca_btl_rawe_linger(void);

#endif
