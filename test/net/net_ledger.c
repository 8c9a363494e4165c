/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ledger of sent messages: see net_ledger.h.
 */
#include "net_ledger.h"

#include <string.h>

#include "net_harness.h"
#include "conn/rawe_conn_batch.h"

#define MESSAGES_LEAST 256u

void net_ledger_add(struct net_ledger *ledger, struct net_message *message, uint64_t seed)
{
    if (ledger->count == ledger->room) {
        uint32_t room = ledger->room == 0 ? MESSAGES_LEAST : ledger->room * 2;
        struct net_message **messages = net_new(room * sizeof(struct net_message *));

        if (ledger->count != 0) {
            memcpy(messages, ledger->messages, ledger->count * sizeof(struct net_message *));
        }
        net_delete(ledger->messages);
        ledger->messages = messages;
        ledger->room = room;
    }
    message->ledger = ledger;
    message->number = ledger->count;
    message->content_seed = net_content_seed(seed, message->number);
    ledger->messages[ledger->count++] = message;
}

static bool same_process(struct net_process a, struct net_process b)
{
    return a.index == b.index && a.life == b.life;
}

/** Return true if the message must still arrive. */
static bool is_due(const struct net_message *message)
{
    return message->submitted && !message->excused && !message->delivered && !message->put;
}

void net_ledger_excuse(struct net_message *message)
{
    message->ledger->undelivered -= is_due(message);
    message->excused = true;
    if (message->whole_excused != NULL) {
        *message->whole_excused = true;
    }
}

bool net_ledger_may_be_deferred(const struct net_message *message)
{
    const struct rawe_engine *receiver = message->receiver;

    return message->ledger->lying || receiver->deferral->bytes != 0 ||
           receiver->deferral->fragments_wait;
}

/** Return true if any route to the process sends batches. */
static bool may_send_batches(struct rawe_peer *peer)
{
    struct rawe_peer *each = peer;
    bool found = false;

    do {
        found = found || each->engine->batches.output.transmit != NULL;
        each = rawe_peer_next(each);
    } while (each != peer);
    return found;
}

/**
 * Return true if the message may be complete before delivery, because the engine may have copied
 * it. The path's MTU may have shrunk since then, so the limit is the engine's.
 */
static bool can_be_copied(const struct net_message *message)
{
    const struct rawe_conn *conn = message->peer->conn[message->lane];
    const struct rawe_engine *engine = message->peer->engine;

    if (message->lane == RAWE_LANE_BULK && engine->config.coalesce_from_frames != 0 &&
        message->len_bytes <= RAWE_CONN_BUNDLED_BYTES_MAX && may_send_batches(message->peer)) {
        return true;
    }
    return conn != NULL && !message->out.send.ordered &&
           message->len_bytes <= engine->config.copy_max_bytes &&
           message->len_bytes <= engine->config.payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES;
}

/**
 * Return true if a completed message must have been delivered. This holds even if connections were
 * closed meanwhile. But a receiver that has died or defers messages may have lost a message that it
 * had received.
 */
static bool must_be_delivered(const struct net_message *message)
{
    const struct net_ledger *ledger = message->ledger;

    return !message->put &&
           (!message->excused || (!ledger->lying && !ledger->absent && message->receiver != NULL));
}

static void check_delivered(const struct net_message *message)
{
    if (!message->delivered && !can_be_copied(message) && !net_ledger_may_be_deferred(message)) {
        net_fail("complete means delivered",
                 "n%u: message %u to n%u is complete, but not delivered", message->from.index,
                 message->number, message->to.index);
    }
}

/** net_message.ended */
static void ended(struct net_message *message, enum rawe_status status, bool early)
{
    struct net_ledger *ledger = message->ledger;

    if (status == RAWE_STATUS_DONE && !early && must_be_delivered(message)) {
        check_delivered(message);
    }
    if (status != RAWE_STATUS_DONE && !message->excused && !ledger->lying) {
        net_fail("sends to the living succeed", "n%u: message %u to n%u failed",
                 message->from.index, message->number, message->to.index);
    }
    if (!message->orphaned) {
        ledger->open--;
        ledger->held += early;
    }
    ledger->ended(message, status, early);
}

/** net_message.released: the message is acknowledged, or never will be. */
static void released(struct net_message *message)
{
    if (!message->excused) {
        check_delivered(message);
    }
    message->ledger->held -= !message->orphaned;
}

void net_ledger_submit(struct net_ledger *ledger, struct net_message *message, uint32_t first_bytes,
                       bool early)
{
    message->ended = ended;
    message->released = released;
    net_message_lay_out(message, first_bytes,
                        !message->put && message->len_bytes >= NET_NUMBERED_BYTES, early);
    message->submitted = true;
    ledger->open++;
    ledger->undelivered += !message->put;
}

void net_ledger_withdraw(struct net_message *message)
{
    net_ledger_excuse(message);
    net_message_drop(message);
    message->ledger->open -= message->submitted;
    message->submitted = false;
}

/** Return true if the message was sent on this connection. */
static bool is_for(const struct net_route *route, const struct net_message *message)
{
    return message->submitted && !message->put && message->lane == route->lane &&
           same_process(message->from, route->from) && same_process(message->to, route->to);
}

/** Return the number of leading bytes that match those sent. */
static size_t same_bytes(const struct net_message *message, const uint8_t *data, size_t len_bytes)
{
    size_t skip = len_bytes >= NET_NUMBERED_BYTES ? NET_NUMBERED_BYTES : 0;

    return skip + net_content_compare(data + skip, message->content_seed, skip, len_bytes - skip);
}

static bool is_exact(const struct net_message *message, uint8_t tag, const uint8_t *data,
                     size_t len_bytes)
{
    return message->len_bytes == len_bytes && message->out.send.tag == tag &&
           same_bytes(message, data, len_bytes) == len_bytes;
}

/** Return the message with these bytes, or NULL. */
static struct net_message *find(struct net_ledger *ledger, const struct net_route *route,
                                uint8_t tag, const uint8_t *data, size_t len_bytes)
{
    struct net_message *found = NULL;
    uint32_t number;

    if (len_bytes >= NET_NUMBERED_BYTES) {
        memcpy(&number, data, NET_NUMBERED_BYTES);
        return number < ledger->count ? ledger->messages[number] : NULL;
    }
    for (number = ledger->first_unsettled; number < ledger->count; number++) {
        struct net_message *message = ledger->messages[number];
        /* Skip messages that the engine has not accepted yet, even with equal bytes. */
        if (!message->delivered && message->turn != 0 && is_for(route, message) &&
            is_exact(message, tag, data, len_bytes)) {
            /* Among several messages with equal bytes, prefer one that cannot have been lost. */
            found = message;
            if (!message->excused) {
                break;
            }
        }
    }
    return found;
}

/** Return true if the message is complete, its memory is free, and it can no longer arrive. */
static bool is_settled(const struct net_message *message)
{
    return message->completed && !message->held &&
           (message->delivered || message->put || !message->submitted);
}

static void skip_settled(struct net_ledger *ledger)
{
    while (ledger->first_unsettled < ledger->count &&
           is_settled(ledger->messages[ledger->first_unsettled])) {
        ledger->first_unsettled++;
    }
}

/** Check that the message may be delivered on this route, with these bytes, for the first time. */
static void check_due(const struct net_route *route, const struct net_message *message, uint8_t tag,
                      const uint8_t *data, size_t len_bytes)
{
    if (message->delivered) {
        net_fail("exactly once", "n%u gets message %u from n%u again", route->to.index,
                 message->number, route->from.index);
    }
    if (!is_for(route, message)) {
        net_fail("no cross-talk",
                 "n%u (life %u) gets message %u of n%u (life %u) for n%u (life %u) on lane %u from "
                 "n%u (life %u)",
                 route->to.index, route->to.life, message->number, message->from.index,
                 message->from.life, message->to.index, message->to.life, route->lane,
                 route->from.index, route->from.life);
    }
    if (!is_exact(message, tag, data, len_bytes)) {
        net_fail("byte-exact",
                 "n%u gets message %u from n%u with %zu of %u bytes, tag %u of %u, first "
                 "difference at %zu",
                 route->to.index, message->number, route->from.index, len_bytes, message->len_bytes,
                 tag, message->out.send.tag, same_bytes(message, data, len_bytes));
    }
}

/** Check the order on the bulk lane, whose messages are ordered or too long for a frame. */
static void check_order(const struct net_route *route, const struct net_message *message)
{
    if (route->lane != RAWE_LANE_BULK || message->may_overtake) {
        return;
    }
    if (message->number < *route->next_in_order) {
        net_fail("messages are in order", "n%u gets message %u from n%u after message %u",
                 route->to.index, message->number, route->from.index, *route->next_in_order - 1);
    }
    *route->next_in_order = message->number + 1;
}

/** Return true if the message was sent before `by`, to the same process, but has not arrived. */
static bool is_overtaken(const struct net_message *message, const struct net_message *by)
{
    return is_due(message) && message->turn != 0 && message->turn < by->turn &&
           same_process(message->from, by->from) && same_process(message->to, by->to);
}

/** Check how many messages were overtaken, over all interfaces and lanes. */
static void check_overtaken(const struct net_ledger *ledger, const struct net_message *by)
{
    uint32_t count = 0;

    for (uint32_t i = ledger->first_unsettled; i < ledger->count; i++) {
        count += is_overtaken(ledger->messages[i], by);
    }
    if (count >= by->overtaken_most) {
        net_fail("no message overtakes many", "n%u gets message %u from n%u before %u earlier ones",
                 by->to.index, by->number, by->from.index, count);
    }
}

struct net_message *net_ledger_deliver(struct net_ledger *ledger, const struct net_route *route,
                                       uint8_t tag, const uint8_t *data, size_t len_bytes)
{
    skip_settled(ledger);
    struct net_message *message = find(ledger, route, tag, data, len_bytes);
    if (ledger->lying && (message == NULL || message->delivered || !is_for(route, message) ||
                          !is_exact(message, tag, data, len_bytes))) {
        return NULL;
    }
    if (message == NULL) {
        net_fail("byte-exact", "n%u gets %zu bytes from n%u that were never sent", route->to.index,
                 len_bytes, route->from.index);
    }
    check_due(route, message, tag, data, len_bytes);
    if (!ledger->lying) {
        check_order(route, message);
        check_overtaken(ledger, message);
    }
    ledger->undelivered -= is_due(message);
    message->delivered = true;
    ledger->deliveries++;
    return message;
}

void net_ledger_closed(struct net_ledger *ledger, const struct net_route *route,
                       const struct rawe_peer *peer, bool drained)
{
    for (uint32_t i = ledger->first_unsettled; i < ledger->count; i++) {
        struct net_message *message = ledger->messages[i];
        if (!message->submitted || is_settled(message) || message->lane != route->lane) {
            continue;
        }
        if (message->peer == peer) {
            if (drained && is_due(message) && !net_ledger_may_be_deferred(message)) {
                net_fail("acknowledged means delivered",
                         "n%u: all is acknowledged by n%u, message %u is not delivered",
                         route->to.index, route->from.index, message->number);
            }
            net_ledger_excuse(message);
        } else if (message->from.index == route->from.index &&
                   message->to.index == route->to.index) {
            net_ledger_excuse(message);
        }
    }
}

void net_ledger_died(struct net_ledger *ledger, struct net_process process)
{
    for (uint32_t i = ledger->first_unsettled; i < ledger->count; i++) {
        struct net_message *message = ledger->messages[i];
        bool to_it = message->to.index == process.index;
        if (!message->submitted || is_settled(message) ||
            (!to_it && message->from.index != process.index)) {
            continue;
        }
        net_ledger_excuse(message);
        if (to_it) {
            message->receiver = NULL;
        } else if (same_process(message->from, process)) {
            ledger->open -= !message->completed;
            ledger->held -= message->held;
            message->orphaned = true;
        }
    }
}

void net_ledger_finalizes(struct net_ledger *ledger, struct net_process process)
{
    for (uint32_t i = ledger->first_unsettled; i < ledger->count; i++) {
        struct net_message *message = ledger->messages[i];
        if (!message->submitted || is_settled(message)) {
            continue;
        }
        if (same_process(message->to, process)) {
            net_ledger_excuse(message);
            message->receiver = NULL;
        } else if (same_process(message->from, process) && !message->orphaned) {
            ledger->open -= !message->completed;
            ledger->held -= message->held;
            message->orphaned = true;
        }
    }
}

void net_ledger_check_departed(const struct net_ledger *ledger, struct net_process process)
{
    for (uint32_t i = ledger->first_unsettled; i < ledger->count; i++) {
        const struct net_message *message = ledger->messages[i];
        if (is_due(message) && same_process(message->from, process) &&
            !net_ledger_may_be_deferred(message)) {
            net_fail("a process that leaves has delivered all",
                     "message %u from n%u to n%u is not delivered", message->number,
                     message->from.index, message->to.index);
        }
    }
}

bool net_ledger_is_quiet(const struct net_ledger *ledger)
{
    return ledger->open == 0 && ledger->held == 0 && ledger->undelivered == 0;
}

void net_ledger_free(struct net_ledger *ledger, void (*give)(struct net_message *message))
{
    for (uint32_t i = 0; i < ledger->count; i++) {
        net_message_drop(ledger->messages[i]);
        if (give != NULL) {
            give(ledger->messages[i]);
        }
    }
    net_delete(ledger->messages);
}
