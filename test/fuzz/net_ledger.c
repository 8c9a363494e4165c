/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the two processes send each other and what arrives: see net.h.
 */
#include "net.h"

#include <string.h>

#include "rawe_conn_coalesce.h"
#include "rawe_conn_send.h"

#define MESSAGE_BYTES_MAX 65536u

/** Contents: message n is this from byte n on. */
static const uint8_t *content(unsigned id)
{
    static uint8_t bytes[MESSAGE_BYTES_MAX + NET_MESSAGES_MAX];
    if (bytes[0] == 0) {
        uint64_t random = 1;
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)(1 + fuzz_random(&random) % 255);
        }
    }
    return bytes + id;
}

/** A new entry, or NULL when a script has had enough of them. */
static struct net_message *new_message(struct net_node *node, enum rawe_lane lane, size_t len_bytes)
{
    struct net *net = node->net;
    net_open(node, lane);
    if (net->message_count == NET_MESSAGES_MAX || node->peer.conn[lane] == NULL) {
        return NULL;
    }
    struct net_message *message = &net->messages[net->message_count++];
    *message = (struct net_message){
        .len_bytes = len_bytes,
        .from = (uint8_t)node->index,
        .lane = (uint8_t)lane,
    };
    return message;
}

static unsigned id_of(const struct net *net, const struct net_message *message)
{
    return (unsigned)(message - net->messages);
}

void net_send_copy(struct net_node *node, enum rawe_lane lane, size_t len_bytes)
{
    const struct net *net = node->net;
    struct net_message *message = new_message(node, lane, len_bytes);
    if (message == NULL) {
        return;
    }
    struct rawe_conn *conn = node->peer.conn[lane];
    size_t most_bytes = rawe_conn_frame_message_bytes(conn);
    if (most_bytes > node->engine.config.copy_max_bytes) {
        most_bytes = node->engine.config.copy_max_bytes;
    }
    if (message->len_bytes > most_bytes) {
        message->len_bytes = most_bytes;
    }
    unsigned id = id_of(net, message);
    size_t first_bytes = message->len_bytes / 3;
    uint8_t *first = fuzz_copy(content(id), first_bytes);
    uint8_t *second = fuzz_copy(content(id) + first_bytes, message->len_bytes - first_bytes);
    size_t second_bytes = message->len_bytes - first_bytes;
    enum rawe_status status = RAWE_STATUS_DONE;
    if (!rawe_conn_coalesce(conn, (uint8_t)id, first, first_bytes, second, second_bytes)) {
        status = rawe_conn_send_copy(conn, (uint8_t)id, first, first_bytes, second, second_bytes,
                                     net->now_ns);
    }
    message->accepted = status == RAWE_STATUS_DONE;
    message->failed = status == RAWE_STATUS_FAILED;
    fuzz_delete(first);
    fuzz_delete(second);
}

static void done(struct rawe_send *send, enum rawe_status status)
{
    struct net_send *under_way = (struct net_send *)(void *)send;
    struct net *net = under_way->net;
    unsigned id = under_way->id;
    struct net_message *message = &net->messages[id];
    FUZZ_CHECK(message->under_way == under_way, "a send was completed twice");
    FUZZ_CHECK(status == RAWE_STATUS_DONE || status == RAWE_STATUS_FAILED,
               "a send ended neither well nor badly");
    message->under_way = NULL;
    message->failed = status != RAWE_STATUS_DONE;
    if (message->put) {
        FUZZ_CHECK(message->failed || net->tainted || net->unsettled[message->lane] ||
                       memcmp(message->region + message->offset, content(id), message->len_bytes) ==
                           0,
                   "a PUT was completed, but its data is not in place");
        net_ledger_close_region(net, id);
    }
    fuzz_delete(under_way->data);
    fuzz_delete(under_way);
    if (net->replies && id % 5 == 0) {
        net_send_message(&net->node[message->from], (enum rawe_lane)message->lane, 100 + id,
                         (struct net_send_options){.ordered = id % 2 == 0});
    }
}

/** As the component does to give a short message's memory back at once. */
static void move(struct rawe_conn *conn, struct net_send *under_way, size_t len_bytes)
{
    uint8_t *copy = fuzz_copy(under_way->data, len_bytes);
    rawe_conn_send_rebased(conn, &under_way->send, copy);
    fuzz_delete(under_way->data); /* a resend from there is seen */
    under_way->data = copy;
}

/** Begin a send from memory of exactly its length. */
static void begin(struct net *net, struct net_message *message, struct net_send_options options)
{
    unsigned id = id_of(net, message);
    struct net_send *under_way = fuzz_new(sizeof(*under_way));
    size_t first_bytes = message->len_bytes * options.cut / 256;
    under_way->net = net;
    under_way->id = id;
    under_way->data = fuzz_copy(content(id), message->len_bytes);
    struct rawe_send *send = &under_way->send;
    send->done = done;
    send->kind = message->put ? RAWE_FRAGMENT_PUT : RAWE_FRAGMENT_MESSAGE;
    send->tag = (uint8_t)id;
    send->relaxed = options.relaxed;
    send->ordered = options.ordered && !message->put;
    send->handle_index = message->handle_index;
    send->handle_key = message->handle_key;
    send->offset = message->offset;
    if (first_bytes != 0) {
        send->pieces[send->piece_count++] = (struct rawe_bytes){under_way->data, first_bytes};
    }
    send->pieces[send->piece_count++] =
        (struct rawe_bytes){under_way->data + first_bytes, message->len_bytes - first_bytes};
    message->under_way = under_way;
    message->accepted = true;
    struct rawe_conn *conn = net->node[message->from].peer.conn[message->lane];
    rawe_conn_send(conn, send, net->now_ns);
    if (options.moved && message->under_way == under_way &&
        send->framed_bytes == send->total_bytes) {
        move(conn, under_way, message->len_bytes);
    }
}

void net_send_message(struct net_node *node, enum rawe_lane lane, size_t len_bytes,
                      struct net_send_options options)
{
    size_t most_bytes = node->engine.config.message_max_bytes;
    len_bytes = len_bytes == 0 ? 1 : len_bytes < most_bytes ? len_bytes : most_bytes;
    struct net_message *message = new_message(node, lane, len_bytes);
    if (message != NULL) {
        begin(node->net, message, options);
    }
}

void net_send_put(struct net_node *node, enum rawe_lane lane, size_t len_bytes, size_t offset,
                  struct net_send_options options)
{
    struct net *net = node->net;
    struct net_node *peer = &net->node[1 - node->index];
    len_bytes = len_bytes == 0 ? 1 : len_bytes < MESSAGE_BYTES_MAX ? len_bytes : MESSAGE_BYTES_MAX;
    struct net_message *message = new_message(node, lane, len_bytes);
    if (message == NULL) {
        return;
    }
    message->put = true;
    message->offset = offset % 100;
    message->region_bytes = message->offset + len_bytes + offset / 100 % 50;
    message->region = fuzz_guarded_new(message->region_bytes);
    if (!rawe_handle_register(&peer->handles, message->region, message->region_bytes,
                              &message->handle_index, &message->handle_key)) {
        fuzz_guarded_delete(message->region, message->region_bytes);
        message->region = NULL;
        return; /* without memory; nothing was sent */
    }
    begin(net, message, options);
}

void net_delivered(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                   size_t len_bytes)
{
    struct net_node *node = context;
    struct net *net = node->net;
    FUZZ_CHECK(len_bytes <= UINT16_MAX || len_bytes <= net->config.message_max_bytes,
               "a message longer than a frame and than any message may be");
    if (net->tainted) {
        fuzz_delete(fuzz_copy(data, len_bytes)); /* at least it must be there */
    } else {
        FUZZ_CHECK(tag < net->message_count, "a message that was never sent");
        struct net_message *message = &net->messages[tag];
        FUZZ_CHECK(message->from != node->index && message->lane == conn->lane && !message->put,
                   "a message that was never sent there");
        FUZZ_CHECK(message->delivered == 0, "a message was delivered twice");
        FUZZ_CHECK(message->len_bytes == len_bytes && memcmp(content(tag), data, len_bytes) == 0,
                   "a message arrived garbled");
        message->delivered++;
    }
    if (net->replies && tag % 4 == 3) {
        net_send_copy(node, (enum rawe_lane)conn->lane, 50u + tag);
    }
}

void net_ledger_close_region(struct net *net, unsigned id)
{
    struct net_message *message = &net->messages[id];
    if (message->region != NULL) {
        struct rawe_engine *engine = &net->node[1 - message->from].engine;
        rawe_handle_deregister(engine->config.handles, message->handle_index, message->handle_key);
        fuzz_guarded_delete(message->region, message->region_bytes);
        message->region = NULL;
    }
}

void net_ledger_died(const struct net_node *node)
{
    struct net *net = node->net;
    for (unsigned id = 0; id < net->message_count; id++) {
        struct net_message *message = &net->messages[id];
        if (message->from != node->index && message->region != NULL) {
            fuzz_guarded_delete(message->region, message->region_bytes);
            message->region = NULL;
        }
    }
}

void net_ledger_check_all(const struct net *net)
{
    for (unsigned id = 0; id < net->message_count; id++) {
        const struct net_message *message = &net->messages[id];
        if (!message->accepted || net->unsettled[message->lane]) {
            continue;
        }
        FUZZ_CHECK(message->under_way == NULL, "a send was never completed");
        FUZZ_CHECK(!message->failed, "a send failed on a connection that did not");
        FUZZ_CHECK(message->put || message->delivered == 1, "a message never arrived");
    }
}

void net_ledger_check_none(const struct net *net)
{
    for (unsigned id = 0; id < net->message_count; id++) {
        FUZZ_CHECK(net->messages[id].under_way == NULL, "a send was never completed");
    }
}
