/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages that tests send, and what must be known of those that arrive.
 */
#ifndef UNIT_MESSAGE_H
#define UNIT_MESSAGE_H

#include "unit_net.h"

/** A send from the test's memory that notes its completion. */
struct unit_send {
    struct rawe_send send; /**< first: cast back from it */
    unsigned done;
    enum rawe_status status;
    void (*on_done)(struct unit_send *send);
    void *context; /**< of on_done */
};

/** rawe_send.done of a struct unit_send. */
void unit_send_done(struct rawe_send *send, enum rawe_status status);
/** Bytes that depend on their place and on `seed`. */
void unit_fill(uint8_t *data, size_t len_bytes, unsigned seed);
/** Send a message from memory that the test keeps until it is done. */
void unit_send_message(struct rawe_conn *conn, struct unit_send *send, uint8_t tag, void *data,
                       size_t len_bytes);
void unit_send_put(struct rawe_conn *conn, struct unit_send *send, void *data, size_t len_bytes,
                   uint32_t index, uint64_t key, uint64_t offset);
/** Copy a message of `len_bytes` filled with seed `tag` into the engine. */
enum rawe_status unit_copy_message(struct rawe_conn *conn, uint8_t tag, size_t len_bytes);
/** Message `index` that `node` got is as unit_fill(seed) made it. */
void unit_assert_message(const struct unit_node *node, unsigned index, uint8_t tag,
                         size_t len_bytes, unsigned seed);

#endif
