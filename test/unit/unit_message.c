/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of tests: see unit_message.h.
 */
#include "unit_message.h"

#include <stdlib.h>
#include <string.h>

#include "net_message.h"
#include "conn/rawe_conn_send.h"

void unit_fill(uint8_t *data, size_t len_bytes, unsigned seed)
{
    net_content_fill(data, net_content_seed(0, seed), 0, len_bytes);
}

void unit_send_done(struct rawe_send *send, enum rawe_status status)
{
    struct unit_send *unit = (struct unit_send *)(void *)send;
    unit->done++;
    unit->status = status;
    assert_int_equal(unit->done, 1);
    if (unit->on_done != NULL) {
        unit->on_done(unit);
    }
}

void unit_send_message(struct rawe_conn *conn, struct unit_send *send, uint8_t tag, void *data,
                       size_t len_bytes)
{
    send->done = 0;
    send->send.done = unit_send_done;
    send->send.kind = RAWE_FRAGMENT_MESSAGE;
    send->send.tag = tag;
    /* In two pieces whenever there are two bytes: a header and what it stands in front of. */
    size_t first_bytes = len_bytes / 3;
    send->send.piece_count = first_bytes != 0 ? 2 : 1;
    if (first_bytes != 0) {
        send->send.pieces[0] = (struct rawe_bytes){data, first_bytes};
    }
    send->send.pieces[send->send.piece_count - 1] =
        (struct rawe_bytes){(uint8_t *)data + first_bytes, len_bytes - first_bytes};
    struct unit_node *node = conn->owner;
    rawe_conn_send(conn, &send->send, node->net->now_ns);
}

void unit_send_put(struct rawe_conn *conn, struct unit_send *send, void *data, size_t len_bytes,
                   uint32_t index, uint64_t key, uint64_t offset)
{
    send->done = 0;
    send->send.done = unit_send_done;
    send->send.kind = RAWE_FRAGMENT_PUT;
    send->send.piece_count = 1;
    send->send.pieces[0] = (struct rawe_bytes){data, len_bytes};
    send->send.handle_index = index;
    send->send.handle_key = key;
    send->send.offset = offset;
    struct unit_node *node = conn->owner;
    rawe_conn_send(conn, &send->send, node->net->now_ns);
}

enum rawe_status unit_copy_message(struct rawe_conn *conn, uint8_t tag, size_t len_bytes)
{
    uint8_t *data = malloc(len_bytes + 1);
    assert_non_null(data);
    unit_fill(data, len_bytes, tag);
    struct unit_node *node = conn->owner;
    size_t first_bytes = len_bytes / 2;
    enum rawe_status status = rawe_conn_send_copy(conn, tag, data, first_bytes, data + first_bytes,
                                                  len_bytes - first_bytes, node->net->now_ns);
    free(data);
    return status;
}

void unit_assert_message(const struct unit_node *node, unsigned index, uint8_t tag,
                         size_t len_bytes, unsigned seed)
{
    assert_true(index < node->message_count);
    const struct unit_message *message = &node->messages[index];
    assert_int_equal(message->tag, tag);
    assert_int_equal(message->len_bytes, len_bytes);
    assert_int_equal(net_content_compare(message->data, net_content_seed(0, seed), 0, len_bytes),
                     len_bytes);
}
