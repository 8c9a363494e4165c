/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Delivery: received messages are passed to Open MPI, at once or after the engines' lock is
 * released.
 */
#ifndef BTL_RAWE_DELIVER_H
#define BTL_RAWE_DELIVER_H

#include <stddef.h>
#include <stdint.h>

struct mca_btl_rawe_message;
struct rawe_conn;

/**
 * rawe_callbacks.deliver: pass a message to the callback registered for its tag.
 *
 * To reply to a process that Open MPI has not introduced yet, the callback has bml/r2 introduce it.
 * That takes a lock which another thread may hold for btl_rawe_connect_timeout_ms or longer while
 * it searches for paths. In a program with threads, such a message is deferred until the engines'
 * lock is released.
 */
void mca_btl_rawe_deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                          size_t len_bytes);
/** Take the deferred messages. NULL: none, or a thread is delivering them. Lock held. */
struct mca_btl_rawe_message *mca_btl_rawe_take_deferred(void);
/** Deliver and free these messages; no others are delivered at the same time. Lock not held. */
void mca_btl_rawe_deliver_deferred(struct mca_btl_rawe_message *messages);

#endif
