/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How messages and PUTs are sent, by the peer object as the component does it, and when they are
 * complete: then the program uses their memory for something else.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/** Behind the room for all of a message in its own memory: bytes that nobody may touch. */
#define TAIL_BYTES 8u

#define POISON 0xDBu

static uint8_t *get_memory(size_t len_bytes)
{
    uint8_t *memory = malloc(len_bytes);

    if (memory == NULL) {
        abort();
    }
    memset(memory, POISON, len_bytes);
    return memory;
}

/** Lay the message out in two pieces, either of which may be empty. */
static void fill_memory(struct sim_message *message)
{
    uint32_t len_bytes = message->len_bytes;
    bool is_put = message->kind == SIM_MESSAGE_PUT;
    uint32_t first = (uint32_t)(message->content_seed % (len_bytes + 1ull));
    uint8_t *memory = get_memory(len_bytes + TAIL_BYTES);
    struct rawe_send *send = &message->out.send;

    if (is_put || (message->content_seed >> 32) % 2 == 0) {
        first = len_bytes;
    }
    sim_content_fill(memory, is_put ? message->transfer->content_seed : message->content_seed,
                     message->transfer_offset, len_bytes);
    if (!is_put && len_bytes >= SIM_NUMBERED_BYTES) {
        memcpy(memory, &message->number, SIM_NUMBERED_BYTES);
    }
    message->memory = memory;
    send->pieces[0] = (struct rawe_bytes){memory, first};
    send->piece_count = 1;
    if (first != len_bytes) {
        message->second = get_memory(len_bytes - first);
        memcpy(message->second, memory + first, len_bytes - first);
        memset(memory + first, POISON, len_bytes - first);
        send->pieces[1] = (struct rawe_bytes){message->second, len_bytes - first};
        send->piece_count = 2;
    }
}

/** The engine must not read it any more. */
static void spoil_second(struct sim_message *message)
{
    if (message->second != NULL) {
        memset(message->second, POISON, message->len_bytes - message->out.send.pieces[0].len_bytes);
        free(message->second);
        message->second = NULL;
    }
}

static void spoil_own(struct sim_message *message)
{
    for (unsigned i = 0; i < TAIL_BYTES; i++) {
        if (message->memory[message->len_bytes + i] != POISON) {
            sim_violation(message->sim, "copies stay in their room",
                          "n%u: byte %u behind message %u was changed", message->source, i,
                          message->number);
        }
    }
    memset(message->memory, POISON, message->len_bytes + TAIL_BYTES);
    free(message->memory);
    message->memory = NULL;
}

static bool is_alive(const struct sim_message *message)
{
    const struct sim_node *node = &message->sim->nodes[message->source];
    return node->alive && message->source_life == node->life;
}

/** The program is told that it is complete. `early`: the peer object still needs its own memory. */
static void complete(struct sim_message *message, enum rawe_status status, bool early)
{
    struct sim *sim = message->sim;
    struct sim_node *node = &sim->nodes[message->source];

    if (message->completed) {
        sim_violation(sim, "completes once", "n%u: message %u is completed twice", message->source,
                      message->number);
    }
    message->completed = true;
    spoil_second(message);
    if (early) {
        message->held = true;
        sim->ledger.held += is_alive(message);
    } else {
        spoil_own(message);
    }
    if (!is_alive(message)) {
        return; /* the process has died */
    }
    sim->activity_ns = sim->now_ns;
    sim->ledger.open_sends--;
    node->app.open_sends--;
    sim_trace(sim, "n%u: message %u is %s", message->source, message->number,
              status != RAWE_STATUS_DONE ? "given up"
              : early                    ? "complete early"
                                         : "complete");
    if (status != RAWE_STATUS_DONE && !message->lossy && !sim->plan.lying) {
        sim_violation(sim, "sends to the living succeed", "n%u: message %u to n%u failed",
                      message->source, message->number, message->destination);
    }
    sim_app_completed(sim, message, status);
}

/** May it be complete before it has been delivered, because the engine has copied it? */
static bool can_be_copied(const struct sim_message *message)
{
    const struct rawe_conn *conn = message->channel->conn;
    return !message->out.send.ordered &&
           message->len_bytes <= conn->engine->config.copy_max_bytes &&
           message->len_bytes <= rawe_conn_frame_message_bytes(conn);
}

bool sim_submit_may_be_deferred(const struct sim_message *message)
{
    const struct sim *sim = message->sim;
    return sim->plan.lying || sim->nodes[message->destination].engine.deferral.bytes != 0 ||
           sim->nodes[message->destination].engine.deferral.fragments_wait;
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

static void check_delivered(const struct sim_message *message)
{
    if (!message->delivered && !can_be_copied(message) && !sim_submit_may_be_deferred(message)) {
        sim_violation(message->sim, "complete means delivered",
                      "n%u: message %u to n%u is complete, but not delivered", message->source,
                      message->number, message->destination);
    }
}

/** Complete early is only what has left: its program may make no progress for long. */
static void check_transmitted(const struct sim_message *message)
{
    const struct rawe_sendwin *window = &message->channel->conn->sendwin;
    const struct rawe_send *send = &message->out.send;
    bool waits = send->framed_bytes != send->total_bytes;

    for (uint32_t sequence = window->una; sequence != window->next; sequence++) {
        const struct rawe_txframe *frame = rawe_sendwin_at(window, sequence);
        waits |= frame->send == send && frame->sendings == 0;
    }
    if (waits) {
        sim_violation(message->sim, "complete means transmitted",
                      "n%u: message %u to n%u is complete, but not all of it has been sent",
                      message->source, message->number, message->destination);
    }
}

/** rawe_message.complete */
static void message_complete(struct rawe_message *out, enum rawe_status status)
{
    struct sim_message *message = (struct sim_message *)(void *)out;
    bool early = out->completed_early;

    if (early) {
        check_transmitted(message);
    } else if (status == RAWE_STATUS_DONE && must_be_delivered(message)) {
        check_delivered(message);
    }
    complete(message, status, early);
    if (early && is_alive(message)) {
        sim_app_completed_early(message->sim, &message->sim->nodes[message->source]);
    }
}

/** rawe_message.release: acknowledged, or never to be. */
static void message_release(struct rawe_message *out)
{
    struct sim_message *message = (struct sim_message *)(void *)out;

    if (!message->held) {
        sim_violation(message->sim, "released once", "n%u: message %u is released %s",
                      message->source, message->number,
                      message->completed ? "twice, or was not complete early" : "but not complete");
    }
    if (!message->lossy) {
        check_delivered(message);
    }
    message->held = false;
    message->sim->ledger.held -= is_alive(message);
    spoil_own(message);
}

/** rawe_send.done of a PUT. */
static void put_done(struct rawe_send *send, enum rawe_status status)
{
    struct sim_message *message = (struct sim_message *)(void *)send;

    if (status == RAWE_STATUS_DONE && !message->lossy) {
        sim_transfer_placed(message->sim, message);
    }
    complete(message, status, false);
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
        sim_ledger_excuse(sim, message);
    }
}

/** The message goes on this channel. */
static void note_channel(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    message->channel = channel;
    message->lane = channel->lane;
    if (!sim_channel_settled(channel) || channel->failed ||
        message->destination_life != channel->peer_life) {
        message->destination_life = channel->peer_life;
        sim_ledger_excuse(sim, message);
    }
}

/** As btl_sendi does it. True when that settles it. */
static bool submit_copy(struct sim_node *node, struct sim_message *message)
{
    const struct rawe_bytes *pieces = message->out.send.pieces;
    bool two = message->out.send.piece_count == 2;
    enum rawe_status status = rawe_peer_send_copy(
        &message->channel->via->peer, message->tag, pieces[0].base, pieces[0].len_bytes,
        two ? pieces[1].base : NULL, two ? pieces[1].len_bytes : 0);

    if (status != RAWE_STATUS_BUSY) {
        complete(message, status, false);
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

/** As btl_send does it. */
static void submit_in_place(struct sim *sim, struct sim_message *message)
{
    struct rawe_message *out = &message->out;
    bool ordered = out->send.ordered;

    out->send.tag = message->tag;
    out->own = (message->content_seed >> 33) % 4 != 0 ? message->memory : NULL;
    out->complete = message_complete;
    out->release = message_release;
    enum rawe_peer_result result = rawe_peer_send(&message->channel->via->peer, out);
    if (out->send.ordered && !ordered) { /* part of a streak */
        note_channel(sim, message, sim_channel_beside(message->channel, RAWE_LANE_BULK));
    }
    switch (result) {
    case RAWE_PEER_COMPLETE:
        if (out->completed_early) {
            check_transmitted(message);
        } else {
            check_delivered(message);
        }
        complete(message, RAWE_STATUS_DONE, out->completed_early);
        break;
    case RAWE_PEER_QUEUED:
        break;
    case RAWE_PEER_FAILED:
        complete(message, RAWE_STATUS_FAILED, false);
        break;
    default:
        abort(); /* no memory */
    }
}

static void submit_put(struct sim_message *message)
{
    struct rawe_send *send = &message->out.send;

    send->done = put_done;
    send->handle_index = message->transfer->handle_index;
    send->handle_key = message->transfer->handle_key;
    send->offset = message->transfer_offset;
    if (!rawe_peer_put(&message->channel->via->peer, send)) {
        abort();
    }
}

/** The peer is known to be lost. */
static void give_up(struct sim *sim, struct sim_node *node, struct sim_message *message)
{
    sim_ledger_excuse(sim, message);
    message->completed = true;
    if (message->submitted) {
        spoil_second(message);
        spoil_own(message);
        sim->ledger.open_sends--;
        node->app.open_sends--;
    }
}

void sim_submit(struct sim *sim, struct sim_message *message)
{
    struct sim_node *node = &sim->nodes[message->source];
    bool is_put = message->kind == SIM_MESSAGE_PUT;
    uint64_t bits = message->content_seed >> 48;
    struct sim_channel *channel =
        sim_channel_get(node, message->destination, is_put ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS);

    sim->activity_ns = sim->now_ns;
    if (channel == NULL) {
        give_up(sim, node, message);
        return;
    }
    /* Empty messages have no order: they are copied. */
    message->out.send.ordered = message->len_bytes != 0 && !is_put && bits / 4 % 8 == 0;
    bool fits = message->len_bytes <= rawe_conn_frame_message_bytes(channel->conn);
    if (!is_put && (message->out.send.ordered || !fits)) {
        channel = sim_channel_beside(channel, RAWE_LANE_BULK);
    }
    if (!message->submitted) {
        submit_first(sim, message, channel);
    }
    note_channel(sim, message, channel);
    /* The peer object would open it, without a channel. */
    (void)sim_channel_beside(channel, channel->lane ^ 1u);
    sim_trace(sim, "n%u: message %u, kind %u, %u bytes, to n%u on lane %u", message->source,
              message->number, message->kind, message->len_bytes, message->destination,
              message->lane);
    if (is_put) {
        submit_put(message);
        return;
    }
    bool copy = message->len_bytes == 0 || bits / 32 % 2 == 0;
    if (copy && channel->lane == RAWE_LANE_EXPRESS && submit_copy(node, message)) {
        return;
    }
    submit_in_place(sim, message);
}
