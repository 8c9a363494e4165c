/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the two processes send each other and what arrives: see net.h.
 */
#include "net.h"

#include <string.h>

#define MESSAGE_BYTES_MAX 65536u

/** A new entry, or NULL when a script has had enough of them. */
static struct net_entry *new_entry(struct net_node *node, enum rawe_lane lane, size_t len_bytes)
{
    struct net *net = node->net;
    if (net->entry_count == NET_MESSAGES_MAX || node->ending) {
        return NULL;
    }
    struct net_entry *entry = &net->entries[net->entry_count];
    *entry = (struct net_entry){
        .message.number = net->entry_count++,
        .message.len_bytes = (uint32_t)len_bytes,
        .net = net,
        .from = (uint8_t)node->index,
        .lane = (uint8_t)lane,
    };
    entry->message.content_seed = net_content_seed(0, entry->message.number);
    entry->message.out.send.tag = (uint8_t)entry->message.number;
    return entry;
}

static bool disturbed(const struct net_entry *entry)
{
    return entry->net->tainted || entry->net->unsettled[entry->lane];
}

/** net_message.ended */
static void ended(struct net_message *message, enum rawe_status status, bool early)
{
    struct net_entry *entry = (struct net_entry *)(void *)message;
    struct net *net = entry->net;
    (void)early;
    FUZZ_CHECK(status == RAWE_STATUS_DONE || status == RAWE_STATUS_FAILED,
               "a send ended neither well nor badly");
    entry->failed = status != RAWE_STATUS_DONE;
    if (entry->put) {
        FUZZ_CHECK(entry->failed || disturbed(entry) ||
                       net_content_compare(entry->region + entry->offset, message->content_seed, 0,
                                           message->len_bytes) == message->len_bytes,
                   "a PUT was completed, but its data is not in place");
        net_ledger_close_region(net, message->number);
    }
    if (net->replies && message->number % 5 == 0) {
        net_send_message(&net->node[entry->from], 100 + message->number,
                         (struct net_send_options){.ordered = message->number % 2 == 0});
    }
}

/** net_message.released: acknowledged, or never to be. */
static void released(struct net_message *message)
{
    struct net_entry *entry = (struct net_entry *)(void *)message;
    const struct net_node *to = &entry->net->node[1 - entry->from];
    FUZZ_CHECK(disturbed(entry) || entry->delivered == 1 || to->engine.deferral.bytes != 0 ||
                   to->engine.deferral.fragments_wait,
               "a message was released, but not delivered");
}

static void lay_out(struct net_entry *entry, size_t first_bytes, bool early)
{
    entry->message.ended = ended;
    entry->message.released = released;
    net_message_lay_out(&entry->message, (uint32_t)first_bytes, false, early);
}

void net_send_copy(struct net_node *node, size_t len_bytes)
{
    size_t most_bytes = node->engine.config.copy_max_bytes;
    if (len_bytes > most_bytes) {
        len_bytes = most_bytes;
    }
    struct net_entry *entry = new_entry(node, RAWE_LANE_EXPRESS, len_bytes);
    if (entry == NULL) {
        return;
    }
    lay_out(entry, len_bytes / 3, false);
    entry->accepted = net_message_copy(&entry->message, net_peer(node));
    if (!entry->accepted) {
        net_message_drop(&entry->message);
    }
}

void net_send_message(struct net_node *node, size_t len_bytes, struct net_send_options options)
{
    size_t most_bytes = node->engine.config.message_max_bytes;
    len_bytes = len_bytes == 0 ? 1 : len_bytes < most_bytes ? len_bytes : most_bytes;
    struct net_entry *entry = new_entry(node, RAWE_LANE_EXPRESS, len_bytes);
    if (entry == NULL) {
        return;
    }
    struct rawe_send *send = &entry->message.out.send;
    lay_out(entry, len_bytes * options.cut / 256, options.early);
    send->ordered = options.ordered;
    entry->accepted = true;
    enum rawe_peer_result result = net_message_send(&entry->message, net_peer(node));
    const struct rawe_conn *express = node->peer.conn[RAWE_LANE_EXPRESS];
    entry->in_order =
        send->ordered || (express != NULL && len_bytes > rawe_conn_frame_message_bytes(express));
    entry->lane = entry->in_order ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS;
    net_message_conclude(&entry->message, result);
    if (result == RAWE_PEER_NO_MEMORY) {
        entry->accepted = false;
        net_message_drop(&entry->message);
    }
}

void net_send_put(struct net_node *node, size_t len_bytes, size_t offset, uint8_t cut)
{
    struct net *net = node->net;
    struct net_node *peer = &net->node[1 - node->index];
    len_bytes = len_bytes == 0 ? 1 : len_bytes < MESSAGE_BYTES_MAX ? len_bytes : MESSAGE_BYTES_MAX;
    struct net_entry *entry = new_entry(node, RAWE_LANE_BULK, len_bytes);
    if (entry == NULL) {
        return;
    }
    struct rawe_send *send = &entry->message.out.send;
    size_t first_bytes = len_bytes * cut / 256;
    entry->put = true;
    entry->offset = offset % 100;
    entry->region_bytes = entry->offset + len_bytes + offset / 100 % 50;
    entry->region = fuzz_guarded_new(entry->region_bytes);
    if (!rawe_handle_register(&peer->handles, entry->region, entry->region_bytes,
                              &entry->handle_index, &entry->handle_key)) {
        fuzz_guarded_delete(entry->region, entry->region_bytes);
        entry->region = NULL;
        return; /* without memory; nothing was sent */
    }
    lay_out(entry, first_bytes != 0 ? first_bytes : len_bytes, false);
    send->handle_index = entry->handle_index;
    send->handle_key = entry->handle_key;
    send->offset = entry->offset;
    entry->accepted = true;
    if (!net_message_put(&entry->message, net_peer(node))) {
        entry->accepted = false;
        net_message_drop(&entry->message);
    }
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
        FUZZ_CHECK(tag < net->entry_count, "a message that was never sent");
        struct net_entry *entry = &net->entries[tag];
        const struct net_message *message = &entry->message;
        FUZZ_CHECK(entry->from != node->index && entry->lane == conn->lane && !entry->put,
                   "a message that was never sent there");
        FUZZ_CHECK(entry->delivered == 0, "a message was delivered twice");
        FUZZ_CHECK(message->len_bytes == len_bytes &&
                       net_content_compare(data, message->content_seed, 0, len_bytes) == len_bytes,
                   "a message arrived garbled");
        entry->delivered++;
        if (entry->in_order) {
            FUZZ_CHECK(disturbed(entry) || tag >= net->in_order_next[entry->from],
                       "a message has overtaken another one");
            net->in_order_next[entry->from] = tag + 1u;
        }
    }
    if (net->replies && tag % 4 == 3) {
        net_send_copy(node, 50u + tag);
    }
}

void net_ledger_close_region(struct net *net, unsigned id)
{
    struct net_entry *entry = &net->entries[id];
    if (entry->region != NULL) {
        struct rawe_engine *engine = &net->node[1 - entry->from].engine;
        rawe_handle_deregister(engine->config.handles, entry->handle_index, entry->handle_key);
        fuzz_guarded_delete(entry->region, entry->region_bytes);
        entry->region = NULL;
    }
}

void net_ledger_died(const struct net_node *node)
{
    struct net *net = node->net;
    for (unsigned id = 0; id < net->entry_count; id++) {
        struct net_entry *entry = &net->entries[id];
        if (entry->from != node->index && entry->region != NULL) {
            fuzz_guarded_delete(entry->region, entry->region_bytes);
            entry->region = NULL;
        }
    }
}

void net_ledger_check_all(const struct net *net)
{
    for (unsigned id = 0; id < net->entry_count; id++) {
        const struct net_entry *entry = &net->entries[id];
        if (!entry->accepted || net->unsettled[entry->lane]) {
            continue;
        }
        FUZZ_CHECK(entry->message.completed, "a send was never completed");
        FUZZ_CHECK(!entry->failed, "a send failed on a connection that did not");
        FUZZ_CHECK(entry->put || entry->delivered == 1, "a message never arrived");
    }
}

void net_ledger_check_none(const struct net *net)
{
    for (unsigned id = 0; id < net->entry_count; id++) {
        const struct net_entry *entry = &net->entries[id];
        FUZZ_CHECK(!entry->accepted || entry->message.completed, "a send was never completed");
        FUZZ_CHECK(!entry->message.held, "a message was never released");
    }
}
