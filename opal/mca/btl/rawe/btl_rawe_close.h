/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Closing packet sockets beside each other.
 *
 * In close(2) of a packet socket the kernel waits until no processor can be in it any more
 * (packet_release, synchronize_net): 7 to 40 ms each, measured. A process has six of them; closed
 * at the same time they wait for the same grace period.
 */
#ifndef MCA_BTL_RAWE_CLOSE_H
#define MCA_BTL_RAWE_CLOSE_H

/**
 * Have `close` called with `what` later, on a thread of its own where one can be had. `close` must
 * not use anything else that may be gone by then.
 */
void mca_btl_rawe_close_later(void (*close)(void *), void *what);

/** Begin to close them. */
void mca_btl_rawe_close_begin(void);

/** Wait until all of them are closed: before the component's code goes away. */
void mca_btl_rawe_close_wait(void);

#endif
