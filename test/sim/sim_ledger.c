/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ledger: every message and PUT of a run, what its bytes are, what has become of it, and
 * whether what happens to it is allowed.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/**
 * Messages from this length on begin with their number; shorter ones are found by their content.
 */
#define NUMBERED_BYTES 4u

/** Between the two pieces of a message: bytes that must not be sent. */
#define GAP_BYTES 8u

#define POISON 0xDBu

static uint64_t content_word(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed + index) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93ull;
    return z ^ (z >> 32);
}

void sim_content_fill(uint8_t *out, uint64_t seed, uint64_t offset, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes;) {
        uint64_t at = offset + i;
        uint64_t word = content_word(seed, at / 8);
        size_t skip = at % 8;
        size_t part = 8 - skip < len_bytes - i ? 8 - skip : len_bytes - i;
        memcpy(out + i, (uint8_t *)&word + skip, part);
        i += part;
    }
}

size_t sim_content_compare(const uint8_t *data, uint64_t seed, uint64_t offset, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes;) {
        uint64_t at = offset + i;
        uint64_t word = content_word(seed, at / 8);
        size_t skip = at % 8;
        size_t part = 8 - skip < len_bytes - i ? 8 - skip : len_bytes - i;
        if (memcmp(data + i, (uint8_t *)&word + skip, part) != 0) {
            while (data[i] == ((uint8_t *)&word)[(offset + i) % 8]) {
                i++;
            }
            return i;
        }
        i += part;
    }
    return len_bytes;
}

/** Lay the message out in two pieces, either of which may be empty. */
static void fill_memory(struct sim_message *message)
{
    uint32_t len_bytes = message->len_bytes;
    bool is_put = message->kind == SIM_MESSAGE_PUT;
    uint32_t first = (uint32_t)(message->content_seed % (len_bytes + 1ull));
    uint8_t *memory;

    message->memory_bytes = len_bytes + GAP_BYTES;
    memory = message->memory = malloc(message->memory_bytes);
    if (memory == NULL) {
        abort();
    }
    if ((message->content_seed >> 32) % 2 == 0) {
        first = len_bytes;
    }
    sim_content_fill(memory, is_put ? message->transfer->content_seed : message->content_seed,
                     message->transfer_offset, len_bytes);
    if (!is_put && len_bytes >= NUMBERED_BYTES) {
        memcpy(memory, &message->number, NUMBERED_BYTES);
    }
    memmove(memory + first + GAP_BYTES, memory + first, len_bytes - first);
    memset(memory + first, POISON, GAP_BYTES);
    message->send.pieces[0] = (struct rawe_bytes){memory, first};
    message->send.pieces[1] = (struct rawe_bytes){memory + first + GAP_BYTES, len_bytes - first};
    message->send.piece_count = first == len_bytes ? 1 : 2;
}

/** The engine must not look at it any more. */
static void spoil_memory(struct sim_message *message)
{
    memset(message->memory, POISON, message->memory_bytes);
    free(message->memory);
    message->memory = NULL;
}

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
    message->len_bytes = len_bytes;
    message->number = ledger->count;
    message->content_seed = content_word(sim->options.seed, message->number);
    message->tag = (uint8_t)(message->content_seed >> 40);
    ledger->messages[ledger->count++] = message;
    return message;
}

/** From now on it may be lost, but still not arrive twice. */
static void excuse(struct sim *sim, struct sim_message *message)
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

static void complete(struct sim_message *message, enum rawe_status status)
{
    struct sim *sim = message->sim;
    struct sim_node *node = &sim->nodes[message->source];

    if (message->completed) {
        sim_violation(sim, "completes once", "n%u: message %u is completed twice", message->source,
                      message->number);
    }
    message->completed = true;
    spoil_memory(message);
    if (!node->alive || message->source_life != node->life) {
        return; /* the process has died */
    }
    sim->activity_ns = sim->now_ns;
    sim->ledger.open_sends--;
    node->app.open_sends--;
    sim_trace(sim, "n%u: message %u is %s", message->source, message->number,
              status == RAWE_STATUS_DONE ? "complete" : "given up");
    if (status != RAWE_STATUS_DONE && !message->lossy && !sim->plan.lying) {
        sim_violation(sim, "sends to the living succeed", "n%u: message %u to n%u failed",
                      message->source, message->number, message->destination);
    }
    sim_app_completed(sim, message, status);
}

/** May the engine complete it before it has been delivered, because it has a copy? */
static bool can_be_copied(const struct sim_message *message)
{
    const struct rawe_conn *conn = message->channel->conn;
    return !message->send.ordered && message->len_bytes <= conn->engine->config.copy_max_bytes &&
           message->len_bytes <= rawe_conn_frame_message_bytes(conn);
}

/** Has the peer's engine perhaps kept it for a program that is away? Or has somebody lied? */
static bool may_be_deferred(const struct sim_message *message)
{
    const struct sim *sim = message->sim;
    return sim->plan.lying || sim->nodes[message->destination].engine.deferral.bytes != 0 ||
           sim->nodes[message->destination].engine.deferral.fragments_wait;
}

/** It has left: the engine may be given a copy of the memory, and the program its memory back. */
static void left(struct rawe_send *send, struct rawe_conn *conn)
{
    struct sim_message *message = (struct sim_message *)(void *)send;
    struct sim_node *node = &message->sim->nodes[message->source];

    if (message->content_seed % 2 == 0) {
        uint8_t *copy = malloc(message->memory_bytes);
        uint8_t *out = copy;
        if (copy == NULL) {
            abort();
        }
        for (unsigned i = 0; i < send->piece_count; i++) {
            memcpy(out, send->pieces[i].base, send->pieces[i].len_bytes);
            out += send->pieces[i].len_bytes;
        }
        rawe_conn_send_rebased(conn, send, copy);
        spoil_memory(message);
        message->memory = copy;
    }
    sim_app_left(message->sim, node);
}

/**
 * Does "done" mean that it has been delivered? Also where connections were closed meanwhile; but a
 * process that has died, or that keeps messages for its program, may have had it and lost it.
 */
static bool must_be_delivered(const struct sim_message *message)
{
    const struct sim *sim = message->sim;
    const struct sim_node *to = &sim->nodes[message->destination];
    return !message->lossy ||
           (!sim->plan.lying && sim->plan.thread_ns == 0 && to->alive &&
            to->life == message->destination_life && message->kind != SIM_MESSAGE_PUT);
}

static void done(struct rawe_send *send, enum rawe_status status)
{
    struct sim_message *message = (struct sim_message *)(void *)send;

    if (status == RAWE_STATUS_DONE && must_be_delivered(message)) {
        if (message->kind == SIM_MESSAGE_PUT) {
            sim_transfer_placed(message->sim, message);
        } else if (!message->delivered && !can_be_copied(message) && !may_be_deferred(message)) {
            sim_violation(message->sim, "complete means delivered",
                          "n%u: message %u to n%u is complete, but not delivered", message->source,
                          message->number, message->destination);
        }
    }
    complete(message, status);
}

/** First attempt: who will it be delivered to, and must it be? */
static void submit_first(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    const struct sim_node *to = &sim->nodes[message->destination];

    message->source_life = channel->node->life;
    message->destination_life = channel->peer_life;
    fill_memory(message);
    message->submitted = true;
    sim->ledger.open_sends++;
    channel->node->app.open_sends++;
    if (message->kind != SIM_MESSAGE_PUT) {
        sim->ledger.undelivered++;
    }
    /* Late frames of what was excused may still set something off when all else is settled. */
    if (!to->alive || to->life != channel->peer_life || channel->failed || sim->finishing) {
        excuse(sim, message);
    }
}

/** Try rawe_conn_send_copy. True when that settles it. */
static bool submit_copy(struct sim_node *node, struct sim_message *message)
{
    const struct rawe_bytes *pieces = message->send.pieces;
    struct rawe_conn *conn = message->channel->conn;
    const void *second = message->send.piece_count == 2 ? pieces[1].base : NULL;

    if ((message->content_seed >> 17) % 2 == 0 && rawe_conn_coalesce(conn, message->tag, pieces[0].base,
                                                               pieces[0].len_bytes, second,
                                                               pieces[1].len_bytes)) {
        message->copied = true;
        complete(message, RAWE_STATUS_DONE);
        return true;
    }
    bool later = (message->content_seed >> 18) % 2 == 0 && rawe_conn_stamps_later(conn);
    enum rawe_status status = rawe_conn_send_copy(
        conn, message->tag, pieces[0].base, pieces[0].len_bytes, second, pieces[1].len_bytes,
        later ? RAWE_TIME_LATER : sim_node_clock(node));
    if (later) {
        rawe_conn_stamp(conn, sim_node_clock(node));
    }

    if (status == RAWE_STATUS_DONE || status == RAWE_STATUS_FAILED) {
        message->copied = status == RAWE_STATUS_DONE;
        complete(message, status);
        return true;
    }
    if (message->len_bytes == 0) { /* the engine queues no empty ones */
        message->channel = NULL;
        message->next_retry = node->app.retry;
        node->app.retry = message;
        return true;
    }
    return false;
}

/** The ways in which a message may be sent, each now and then. Empty ones have no choice. */
static void choose_manner(struct sim_message *message)
{
    uint64_t bits = message->content_seed >> 48;

    message->send.ordered =
        message->len_bytes != 0 && message->kind != SIM_MESSAGE_PUT && bits / 4 % 8 == 0;
    message->send.relaxed = bits / 32 % 4 == 0;
}

void sim_ledger_submit(struct sim *sim, struct sim_message *message)
{
    struct sim_node *node = &sim->nodes[message->source];
    struct sim_channel *channel = sim_channel_get(node, message->destination, message->lane);

    sim->activity_ns = sim->now_ns;
    if (channel == NULL) { /* the peer is known to be lost */
        bool submitted = message->submitted;
        excuse(sim, message);
        message->completed = true;
        if (submitted) {
            spoil_memory(message);
            sim->ledger.open_sends--;
            node->app.open_sends--;
        }
        return;
    }
    if (!message->submitted) {
        submit_first(sim, message, channel);
    }
    message->channel = channel;
    choose_manner(message);
    if (!sim_channel_settled(channel) || channel->failed ||
        message->destination_life != channel->peer_life) {
        message->destination_life = channel->peer_life;
        excuse(sim, message);
    }
    sim_trace(sim, "n%u: message %u, kind %u, %u bytes, to n%u on lane %u", message->source,
              message->number, message->kind, message->len_bytes, message->destination,
              message->lane);
    bool copy = message->len_bytes == 0 || (message->content_seed >> 16) % 2 == 0;
    if (message->kind != SIM_MESSAGE_PUT && copy && can_be_copied(message) &&
        submit_copy(node, message)) {
        return;
    }
    message->send.done = done;
    message->send.transmitted =
        message->kind != SIM_MESSAGE_PUT && message->content_seed / 2 % 4 == 0 ? left : NULL;
    message->send.tag = message->tag;
    message->send.kind = RAWE_FRAGMENT_MESSAGE;
    if (message->kind == SIM_MESSAGE_PUT) {
        message->send.kind = RAWE_FRAGMENT_PUT;
        message->send.handle_index = message->transfer->handle_index;
        message->send.handle_key = message->transfer->handle_key;
        message->send.offset = message->transfer_offset;
    }
    rawe_conn_send(channel->conn, &message->send, sim_node_clock(node));
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

    if (len_bytes >= NUMBERED_BYTES) {
        memcpy(&number, data, NUMBERED_BYTES);
        return number < ledger->count ? ledger->messages[number] : NULL;
    }
    struct sim_message *found = NULL;
    for (number = ledger->first_open; number < ledger->count; number++) {
        struct sim_message *message = ledger->messages[number];
        if (!message->delivered && message->len_bytes == len_bytes && message->tag == tag &&
            is_for(channel, message) &&
            sim_content_compare(data, message->content_seed, 0, len_bytes) == len_bytes) {
            /* Of several with the same few bytes it is rather not one that may have been lost. */
            found = message;
            if (!message->lossy) {
                break;
            }
        }
    }
    return found;
}

/** Neither arrives any more nor waits for completion. */
static bool is_settled(const struct sim_message *message)
{
    return message->completed && (message->delivered || message->kind == SIM_MESSAGE_PUT);
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

    if (!message->send.ordered &&
        message->len_bytes <= from->payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES) {
        return;
    }
    if (message->number < channel->fragmented_next) {
        sim_violation(channel->node->sim, "fragmented messages are in order",
                      "n%u gets message %u from n%u after message %u", channel->node->index,
                      message->number, channel->peer, channel->fragmented_next - 1);
    }
    channel->fragmented_next = message->number + 1;
}

/** The message may be delivered here, and now for the first time. */
static void check_due(struct sim_channel *channel, const struct sim_message *message)
{
    const struct sim_node *node = channel->node;

    if (message->delivered) {
        sim_violation(node->sim, "exactly once", "n%u gets message %u from n%u again", node->index,
                      message->number, channel->peer);
    }
    if (!is_for(channel, message)) {
        sim_violation(node->sim, "no cross-talk",
                      "n%u (life %u) gets message %u of n%u (life %u) for n%u (life %u) on lane %u "
                      "from n%u (life %u)",
                      node->index, node->life, message->number, message->source,
                      message->source_life, message->destination, message->destination_life,
                      channel->lane, channel->peer, channel->peer_life);
    }
}

/** How many of the bytes are as they were sent. */
static size_t same_bytes(const struct sim_message *message, const uint8_t *data, size_t len_bytes)
{
    size_t skip = len_bytes >= NUMBERED_BYTES ? NUMBERED_BYTES : 0;
    return skip + sim_content_compare(data + skip, message->content_seed, skip, len_bytes - skip);
}

/** Bit for bit a message that is due. */
static bool is_true(struct sim_channel *channel, const struct sim_message *message, uint8_t tag,
                    const uint8_t *data, size_t len_bytes)
{
    return message != NULL && is_for(channel, message) && !message->delivered &&
           message->len_bytes == len_bytes && message->tag == tag &&
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
    if (len_bytes != message->len_bytes || tag != message->tag || same != len_bytes) {
        sim_violation(sim, "byte-exact",
                      "n%u gets message %u from n%u with %zu of %u bytes, tag %u of %u, first "
                      "difference at %zu",
                      node->index, message->number, channel->peer, len_bytes, message->len_bytes,
                      tag, message->tag, same);
    }
    if (!sim->plan.lying) {
        check_order(channel, message);
    }
    sim_trace(sim, "n%u: message %u is delivered", node->index, message->number);
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
            if (drained && !may_be_deferred(message) && !message->lossy && !message->delivered &&
                message->kind != SIM_MESSAGE_PUT) {
                sim_violation(sim, "acknowledged means delivered",
                              "n%u: all is acknowledged by n%u, message %u is not delivered",
                              node->index, channel->peer, message->number);
            }
            message->channel = NULL;
            excuse(sim, message);
        } else if (message->source == channel->peer && message->destination == node->index &&
                   message->lane == channel->lane) {
            excuse(sim, message);
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
            excuse(sim, message);
            if (message->source == node->index && message->source_life == node->life &&
                !message->completed) {
                sim->ledger.open_sends--;
            }
        }
    }
}

void sim_ledger_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->ledger.count; i++) {
        free(sim->ledger.messages[i]->memory);
        free(sim->ledger.messages[i]);
    }
    free(sim->ledger.messages);
}
