/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the two processes send each other and what arrives: see pair.h.
 */
#include "pair.h"

#include "conn/rawe_conn.h"

#define MESSAGE_BYTES_MAX 65536u

/** A new entry, or NULL when a script has had enough of them. */
static struct pair_entry *new_entry(struct pair_node *node, size_t len_bytes)
{
    struct pair *pair = node->pair;
    struct pair_node *peer = &pair->node[1 - node->index];
    if (pair->ledger.count == PAIR_MESSAGES_MAX || node->ending) {
        return NULL;
    }
    struct pair_entry *entry = &pair->entries[pair->ledger.count];
    *entry = (struct pair_entry){
        .message.len_bytes = (uint32_t)len_bytes,
        .message.from = {node->index, node->key},
        .message.to = {peer->index, peer->key},
        .message.receiver = &peer->engine,
        .pair = pair,
    };
    net_ledger_add(&pair->ledger, &entry->message, 0);
    entry->message.out.send.tag = (uint8_t)entry->message.number;
    return entry;
}

/** It uses that lane. */
static void note_lane(struct pair_entry *entry, enum rawe_lane lane)
{
    entry->message.lane = (uint8_t)lane;
    if (entry->pair->unsettled[lane]) {
        net_ledger_excuse(&entry->message);
    }
}

/** net_ledger.ended */
static void ended(struct net_message *message, enum rawe_status status, bool early)
{
    struct pair_entry *entry = (struct pair_entry *)(void *)message;
    struct pair *pair = entry->pair;
    if (message->put) {
        FUZZ_CHECK(status != RAWE_STATUS_DONE || message->excused || pair->ledger.lying ||
                       net_content_compare(entry->region + entry->offset, message->content_seed, 0,
                                           message->len_bytes) == message->len_bytes,
                   "a PUT was completed, but its data is not in place");
        pair_close_region(entry);
    }
    if (pair->replies && message->number % 5 == 0) {
        pair_send_message(&pair->node[message->from.index], 100 + message->number,
                          (struct pair_send_options){.ordered = message->number % 2 == 0});
    }
}

void pair_messages_start(struct pair *pair)
{
    pair->ledger.ended = ended;
    pair->ledger.absent = true;
}

void pair_send_copy(struct pair_node *node, size_t len_bytes)
{
    size_t most_bytes = node->engine.config.copy_max_bytes;
    if (len_bytes > most_bytes) {
        len_bytes = most_bytes;
    }
    struct pair_entry *entry = new_entry(node, len_bytes);
    if (entry == NULL) {
        return;
    }
    net_ledger_submit(&node->pair->ledger, &entry->message, (uint32_t)len_bytes / 3, false);
    note_lane(entry, RAWE_LANE_EXPRESS);
    if (!net_message_copy(&entry->message, pair_peer(node))) {
        net_ledger_withdraw(&entry->message);
    }
}

void pair_send_message(struct pair_node *node, size_t len_bytes, struct pair_send_options options)
{
    size_t most_bytes = node->engine.config.message_max_bytes;
    len_bytes = len_bytes == 0 ? 1 : len_bytes < most_bytes ? len_bytes : most_bytes;
    struct pair_entry *entry = new_entry(node, len_bytes);
    if (entry == NULL) {
        return;
    }
    struct rawe_send *send = &entry->message.out.send;
    send->ordered = options.ordered;
    /* When one lane has been opened again it may carry less in a frame than the other. */
    entry->message.may_overtake =
        !options.ordered && len_bytes <= node->engine.config.payload_max_bytes;
    net_ledger_submit(&node->pair->ledger, &entry->message,
                      (uint32_t)(len_bytes * options.cut / 256), options.early);
    enum rawe_peer_result result = net_message_send(&entry->message, pair_peer(node));
    const struct rawe_conn *express = node->peer.conn[RAWE_LANE_EXPRESS];
    bool bulk =
        send->ordered || (express != NULL && len_bytes > rawe_conn_frame_message_bytes(express));
    note_lane(entry, bulk ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS);
    net_message_conclude(&entry->message, result);
    if (result == RAWE_PEER_NO_MEMORY) {
        net_ledger_withdraw(&entry->message);
    }
}

void pair_send_put(struct pair_node *node, size_t len_bytes, size_t offset)
{
    struct pair *pair = node->pair;
    struct pair_node *peer = &pair->node[1 - node->index];
    len_bytes = len_bytes == 0 ? 1 : len_bytes < MESSAGE_BYTES_MAX ? len_bytes : MESSAGE_BYTES_MAX;
    struct pair_entry *entry = new_entry(node, len_bytes);
    if (entry == NULL) {
        return;
    }
    struct rawe_operation *operation = &entry->message.operation;
    entry->message.put = true;
    entry->offset = offset % 100;
    entry->region_bytes = entry->offset + len_bytes + offset / 100 % 50;
    entry->region = fuzz_guarded_new(entry->region_bytes);
    if (!rawe_handle_register(&peer->handles, entry->region, entry->region_bytes,
                              &operation->handle_index, &operation->handle_key,
                              RAWE_ACCESS_WRITE)) {
        fuzz_guarded_delete(entry->region, entry->region_bytes);
        entry->region = NULL;
        return; /* without memory; nothing was sent */
    }
    operation->offset = entry->offset;
    net_ledger_submit(&pair->ledger, &entry->message, (uint32_t)len_bytes, false);
    note_lane(entry, RAWE_LANE_BULK);
    if (!net_message_put(&entry->message, pair_peer(node), true)) {
        net_ledger_withdraw(&entry->message);
    }
}

/** A connection as the process on the node has it. */
static struct net_route route_of(struct pair_node *node, const struct rawe_conn *conn)
{
    return (struct net_route){
        .from = {1 - node->index, conn->peer_key},
        .to = {node->index, node->key},
        .lane = conn->lane,
        .next_in_order = &node->next_in_order,
    };
}

void pair_delivered(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct pair_node *node = context;
    struct pair *pair = node->pair;
    const struct net_route route = route_of(node, conn);
    FUZZ_CHECK(len_bytes <= UINT16_MAX || len_bytes <= pair->config.message_max_bytes,
               "a message longer than a frame and than any message may be");
    fuzz_delete(fuzz_copy(data, len_bytes)); /* lies, too, must at least be there */
    (void)net_ledger_deliver(&pair->ledger, &route, tag, data, len_bytes);
    if (pair->replies && tag % 4 == 3) {
        pair_send_copy(node, 50u + tag);
    }
}

void pair_messages_closed(struct pair_node *node, const struct rawe_conn *conn)
{
    const struct net_route route = route_of(node, conn);
    node->pair->unsettled[conn->lane] = true;
    net_ledger_closed(&node->pair->ledger, &route, &node->peer,
                      conn->handshake.state != RAWE_CONN_FAILED && rawe_conn_drained(conn));
}

void pair_close_region(struct pair_entry *entry)
{
    const struct rawe_operation *put = &entry->message.operation;
    if (entry->region != NULL) {
        struct pair_node *target = &entry->pair->node[entry->message.to.index];
        rawe_handle_deregister(&target->handles, put->handle_index, put->handle_key);
        fuzz_guarded_delete(entry->region, entry->region_bytes);
        entry->region = NULL;
    }
}

void pair_messages_died(const struct pair_node *node)
{
    struct pair *pair = node->pair;
    net_ledger_died(&pair->ledger, (struct net_process){node->index, node->key});
    pair->unsettled[RAWE_LANE_EXPRESS] = pair->unsettled[RAWE_LANE_BULK] = true;
    for (unsigned id = 0; id < pair->ledger.count; id++) {
        struct pair_entry *entry = &pair->entries[id];
        if (entry->message.to.index == node->index && entry->region != NULL) {
            fuzz_guarded_delete(entry->region, entry->region_bytes);
            entry->region = NULL;
        }
    }
}

void pair_messages_stop(struct pair *pair)
{
    net_ledger_check_ended(&pair->ledger);
    for (unsigned id = 0; id < pair->ledger.count; id++) {
        pair_close_region(&pair->entries[id]);
    }
    net_ledger_free(&pair->ledger, NULL);
}
