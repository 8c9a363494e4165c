/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * When the process finalizes, all modules deliver their remaining data before the first one closes,
 * because one module's connection may use another's link.
 */
#ifndef MCA_BTL_RAWE_LINGER_H
#define MCA_BTL_RAWE_LINGER_H

/**
 * Drive all modules until each peer has acknowledged everything and knows that we finalize, or
 * finalizes as well. A silent peer has btl_rawe_peer_timeout; then tell the user if it may miss
 * data. Called when the first module is finalized, with the PML closed: from now on nothing is
 * delivered, completed, or placed into memory. Later calls do nothing. Lock not held.
 */
void mca_btl_rawe_linger(void);

#endif
