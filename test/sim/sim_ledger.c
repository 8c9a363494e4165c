/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ledger: every message and PUT of a run, what its bytes are, what has become of it, and
 * whether what happens to it is allowed. How messages are sent is in sim_submit.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "rawe_conn.h"

struct sim_message *sim_ledger_new(struct sim *sim, uint8_t kind, uint32_t source,
                                   uint32_t destination, uint32_t len_bytes)
{
    struct sim_ledger *ledger = &sim->ledger;
    struct sim_message *message = calloc(1, sizeof(*message));

    if (ledger->count == ledger->room) {
        ledger->room = ledger->room == 0 ? 256 : ledger->room * 2;
        ledger->messages = realloc(ledger->messages, ledger->room * sizeof(*ledger->messages));
    }
    if (message == NULL || ledger->messages == NULL) {
        abort();
    }
    message->sim = sim;
    message->kind = kind;
    message->source = source;
    message->destination = destination;
    message->net.len_bytes = len_bytes;
    message->net.number = ledger->count;
    message->net.content_seed = net_content_seed(sim->options.seed, message->net.number);
    message->tag = (uint8_t)(message->net.content_seed >> 40);
    ledger->messages[ledger->count++] = message;
    return message;
}

void sim_ledger_excuse(struct sim *sim, struct sim_message *message)
{
    if (!message->lossy && message->submitted && !message->delivered &&
        message->kind != SIM_MESSAGE_PUT) {
        sim->ledger.undelivered--;
    }
    message->lossy = true;
    if (message->transfer != NULL) {
        message->transfer->lossy = true;
    }
}

/** Was it sent to this connection? */
static bool is_for(const struct sim_channel *channel, const struct sim_message *message)
{
    return message->submitted && message->kind != SIM_MESSAGE_PUT &&
           message->lane == channel->lane && message->source == channel->peer &&
           message->source_life == channel->peer_life &&
           message->destination == channel->node->index &&
           message->destination_life == channel->node->life;
}

/** The message with these bytes, or NULL. */
static struct sim_message *find(struct sim_channel *channel, uint8_t tag, const uint8_t *data,
                                size_t len_bytes)
{
    struct sim *sim = channel->node->sim;
    struct sim_ledger *ledger = &sim->ledger;
    uint32_t number;

    if (len_bytes >= SIM_NUMBERED_BYTES) {
        memcpy(&number, data, SIM_NUMBERED_BYTES);
        return number < ledger->count ? ledger->messages[number] : NULL;
    }
    struct sim_message *found = NULL;
    for (number = ledger->first_open; number < ledger->count; number++) {
        struct sim_message *message = ledger->messages[number];
        if (!message->delivered && message->net.len_bytes == len_bytes && message->tag == tag &&
            is_for(channel, message) &&
            net_content_compare(data, message->net.content_seed, 0, len_bytes) == len_bytes) {
            /* Of several with the same few bytes it is rather not one that may have been lost. */
            found = message;
            if (!message->lossy) {
                break;
            }
        }
    }
    return found;
}

/** Neither arrives any more nor waits for completion or its memory. */
static bool is_settled(const struct sim_message *message)
{
    return message->net.completed && !message->net.held &&
           (message->delivered || message->kind == SIM_MESSAGE_PUT);
}

static void skip_settled(struct sim_ledger *ledger)
{
    while (ledger->first_open < ledger->count && is_settled(ledger->messages[ledger->first_open])) {
        ledger->first_open++;
    }
}

/** Messages sent in order, and those too long for a frame, do not overtake each other. */
static void check_order(struct sim_channel *channel, const struct sim_message *message)
{
    const struct sim_node *from = &channel->node->sim->nodes[message->source];

    if (!message->net.out.send.ordered &&
        message->net.len_bytes <= from->payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES) {
        return;
    }
    if (message->net.number < channel->fragmented_next) {
        sim_violation(channel->node->sim, "fragmented messages are in order",
                      "n%u gets message %u from n%u after message %u", channel->node->index,
                      message->net.number, channel->peer, channel->fragmented_next - 1);
    }
    channel->fragmented_next = message->net.number + 1;
}

/** The message may be delivered here, and now for the first time. */
static void check_due(struct sim_channel *channel, const struct sim_message *message)
{
    const struct sim_node *node = channel->node;

    if (message->delivered) {
        sim_violation(node->sim, "exactly once", "n%u gets message %u from n%u again", node->index,
                      message->net.number, channel->peer);
    }
    if (!is_for(channel, message)) {
        sim_violation(node->sim, "no cross-talk",
                      "n%u (life %u) gets message %u of n%u (life %u) for n%u (life %u) on lane %u "
                      "from n%u (life %u)",
                      node->index, node->life, message->net.number, message->source,
                      message->source_life, message->destination, message->destination_life,
                      channel->lane, channel->peer, channel->peer_life);
    }
}

/** How many of the bytes are as they were sent. */
static size_t same_bytes(const struct sim_message *message, const uint8_t *data, size_t len_bytes)
{
    size_t skip = len_bytes >= SIM_NUMBERED_BYTES ? SIM_NUMBERED_BYTES : 0;
    return skip +
           net_content_compare(data + skip, message->net.content_seed, skip, len_bytes - skip);
}

/** Bit for bit a message that is due. */
static bool is_true(struct sim_channel *channel, const struct sim_message *message, uint8_t tag,
                    const uint8_t *data, size_t len_bytes)
{
    return message != NULL && is_for(channel, message) && !message->delivered &&
           message->net.len_bytes == len_bytes && message->tag == tag &&
           same_bytes(message, data, len_bytes) == len_bytes;
}

struct sim_message *sim_ledger_deliver(struct sim_channel *channel, uint8_t tag,
                                       const uint8_t *data, size_t len_bytes)
{
    struct sim_node *node = channel->node;
    struct sim *sim = node->sim;

    skip_settled(&sim->ledger);
    struct sim_message *message = find(channel, tag, data, len_bytes);
    if (sim->plan.lying && !is_true(channel, message, tag, data, len_bytes)) {
        return NULL;
    }
    if (message == NULL) {
        sim_violation(sim, "byte-exact", "n%u gets %zu bytes from n%u that nobody has sent",
                      node->index, len_bytes, channel->peer);
    }
    check_due(channel, message);
    size_t same = same_bytes(message, data, len_bytes);
    if (len_bytes != message->net.len_bytes || tag != message->tag || same != len_bytes) {
        sim_violation(sim, "byte-exact",
                      "n%u gets message %u from n%u with %zu of %u bytes, tag %u of %u, first "
                      "difference at %zu",
                      node->index, message->net.number, channel->peer, len_bytes,
                      message->net.len_bytes, tag, message->tag, same);
    }
    if (!sim->plan.lying) {
        check_order(channel, message);
    }
    sim_trace(sim, "n%u: message %u is delivered", node->index, message->net.number);
    message->delivered = true;
    sim->ledger.deliveries++;
    sim->activity_ns = sim->now_ns;
    if (!message->lossy) {
        sim->ledger.undelivered--;
    }
    return message;
}

void sim_ledger_closed(struct sim_channel *channel)
{
    struct sim_node *node = channel->node;
    struct sim *sim = node->sim;
    struct sim_node *peer = &sim->nodes[channel->peer];
    bool drained = !channel->failed && rawe_conn_drained(channel->conn);

    for (uint32_t i = sim->ledger.first_open; i < sim->ledger.count; i++) {
        struct sim_message *message = sim->ledger.messages[i];
        if (!message->submitted || is_settled(message)) {
            continue;
        }
        if (message->channel == channel) {
            if (drained && !sim_submit_may_be_deferred(message) && !message->lossy &&
                !message->delivered && message->kind != SIM_MESSAGE_PUT) {
                sim_violation(sim, "acknowledged means delivered",
                              "n%u: all is acknowledged by n%u, message %u is not delivered",
                              node->index, channel->peer, message->net.number);
            }
            message->channel = NULL;
            sim_ledger_excuse(sim, message);
        } else if (message->source == channel->peer && message->destination == node->index &&
                   message->lane == channel->lane) {
            sim_ledger_excuse(sim, message);
        }
    }
    for (struct sim_channel *back = peer->channels; back != NULL; back = back->next) {
        if (back->peer == node->index && back->lane == channel->lane) {
            back->unsettled = true;
        }
    }
}

void sim_ledger_died(struct sim_node *node)
{
    struct sim *sim = node->sim;

    for (uint32_t i = sim->ledger.first_open; i < sim->ledger.count; i++) {
        struct sim_message *message = sim->ledger.messages[i];
        if (message->submitted &&
            (message->source == node->index || message->destination == node->index) &&
            !is_settled(message)) {
            sim_ledger_excuse(sim, message);
            if (message->source == node->index && message->source_life == node->life) {
                sim->ledger.open_sends -= !message->net.completed;
                sim->ledger.held -= message->net.held;
            }
        }
    }
}

void sim_ledger_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->ledger.count; i++) {
        net_message_drop(&sim->ledger.messages[i]->net);
        free(sim->ledger.messages[i]);
    }
    free(sim->ledger.messages);
}
