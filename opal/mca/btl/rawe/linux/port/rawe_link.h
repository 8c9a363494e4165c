/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A link: one way to the wire through one interface. It moves whole frames; it knows of the
 * protocol only where the receiver's port and key lie, so that the kernel's filter can choose.
 *
 * Threads: receiving and transmitting may go on at the same time, but each of them in one thread
 * at a time. A receive callback may itself receive and transmit.
 */
#ifndef RAWE_LINK_H
#define RAWE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_output.h"
#include "rawe_link_config.h"

struct rawe_link;

/** One received frame, valid until the receive callback returns. */
typedef void rawe_link_receive_fn(void *context, const uint8_t *frame, size_t len_bytes);

/**
 * Open socket, ring and filter. The filter is in force before the socket is bound, and locked.
 * Returns 0 and the link, or -1 and the error. EPERM means CAP_NET_RAW is missing, and that the
 * helper (rawe_helper.h) did not open the socket either; the step says why.
 */
int rawe_link_open(struct rawe_link **link, const struct rawe_link_config *config,
                   struct rawe_link_error *error);
void rawe_link_close(struct rawe_link *link);

/**
 * Open socket and ring anew, with the configuration the link was opened with: to leave a fanout
 * group. Frames that wait in the ring are lost. Not from a receive callback. Returns 0, or -1 and
 * the error: the link is then as it was.
 */
int rawe_link_reopen(struct rawe_link *link, const struct rawe_link_config *config,
                     struct rawe_link_error *error);

/** Its socket, to join it to a fanout group. It stays the link's. */
int rawe_link_fd(const struct rawe_link *link);

/** True when a frame waits: a load and a compare, no system call. */
static inline bool rawe_link_pending(const struct rawe_link *link);

/** Give up to `budget` frames to `receive`, in order of arrival. Returns how many. */
unsigned rawe_link_receive(struct rawe_link *link, unsigned budget, rawe_link_receive_fn *receive,
                           void *context);

/** rawe_output.transmit; context is the link. */
unsigned rawe_link_transmit(void *link, const struct rawe_frame *frames, unsigned count);

/** Frames the ring can hold: what receiver credit is dealt out of. */
unsigned rawe_link_ring_frames(const struct rawe_link *link);

/** Counters; the kernel's own (ring_drops) are fetched by this call, a system call. */
void rawe_link_read_counters(struct rawe_link *link, struct rawe_link_counters *counters);

#include "rawe_link_inline.h"

#endif
