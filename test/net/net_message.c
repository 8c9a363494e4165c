/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of a harness: see net_message.h.
 */
#include "net_message.h"

#include <string.h>

#include "net_harness.h"
#include "routes/rawe_balance.h"

/** Guard bytes after the memory for a whole message; nothing may write to them. */
#define GUARD_BYTES 8u

#define POISON 0xDBu

uint64_t net_content_seed(uint64_t seed, uint64_t number)
{
    uint64_t z = (seed + number) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93ull;
    return z ^ (z >> 32);
}

void net_content_fill(uint8_t *out, uint64_t seed, uint64_t offset, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes;) {
        uint64_t at = offset + i;
        uint64_t word = net_content_seed(seed, at / 8);
        size_t skip = at % 8;
        size_t part = 8 - skip < len_bytes - i ? 8 - skip : len_bytes - i;
        memcpy(out + i, (uint8_t *)&word + skip, part);
        i += part;
    }
}

size_t net_content_compare(const uint8_t *data, uint64_t seed, uint64_t offset, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes;) {
        uint64_t at = offset + i;
        uint64_t word = net_content_seed(seed, at / 8);
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

static uint8_t *get_memory(size_t len_bytes)
{
    uint8_t *memory = net_new(len_bytes);

    memset(memory, POISON, len_bytes);
    return memory;
}

void net_message_lay_out(struct net_message *message, uint32_t first_bytes, bool numbered,
                         bool early)
{
    uint32_t len_bytes = message->len_bytes;
    struct rawe_message *out = &message->out;
    uint8_t *whole = get_memory(len_bytes);

    net_content_fill(whole, message->content_seed, message->content_offset, len_bytes);
    if (numbered) {
        memcpy(whole, &message->number, sizeof(message->number));
    }
    message->own_bytes = early ? len_bytes : first_bytes;
    message->own = get_memory(early ? len_bytes + GUARD_BYTES : first_bytes);
    memcpy(message->own, whole, first_bytes);
    out->own = early ? message->own : NULL;
    out->send.pieces[0] = (struct rawe_bytes){message->own, first_bytes};
    out->send.piece_count = 1;
    if (first_bytes != len_bytes) {
        message->second = get_memory(len_bytes - first_bytes);
        memcpy(message->second, whole + first_bytes, len_bytes - first_bytes);
        out->send.pieces[1] = (struct rawe_bytes){message->second, len_bytes - first_bytes};
        out->send.piece_count = 2;
    }
    net_delete(whole);
}

/** Overwrite and free memory that the engine must no longer read. */
static void spoil(uint8_t **memory, size_t len_bytes)
{
    if (*memory != NULL) {
        memset(*memory, POISON, len_bytes);
        net_delete(*memory);
        *memory = NULL;
    }
}

static void spoil_second(struct net_message *message)
{
    spoil(&message->second, message->len_bytes - message->out.send.pieces[0].len_bytes);
}

static void spoil_own(struct net_message *message)
{
    bool room = message->out.own != NULL;

    for (unsigned i = 0; room && i < GUARD_BYTES; i++) {
        if (message->own[message->len_bytes + i] != POISON) {
            net_fail("copies stay in their room", "byte %u behind message %u was changed", i,
                     message->number);
        }
    }
    spoil(&message->own, message->own_bytes);
}

/**
 * Check that a message completed early was sent entirely: its sender may make no progress for long.
 */
static void check_transmitted(const struct net_message *message)
{
    const struct rawe_send *send = &message->out.send;
    bool waits = send->framed_bytes != send->total_bytes;

    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        const struct rawe_conn *conn = message->peer->conn[lane];
        for (const struct rawe_txframe *frame = conn == NULL ? NULL : conn->tx.window.oldest;
             frame != NULL; frame = frame->next) {
            waits |= frame->send == send && frame->sendings == 0;
        }
    }
    if (waits) {
        net_fail("complete means transmitted",
                 "message %u is complete, but not all of it has been sent", message->number);
    }
}

static void end(struct net_message *message, enum rawe_status status, bool early)
{
    if (message->completed) {
        net_fail("completes once", "message %u is completed twice", message->number);
    }
    if (status != RAWE_STATUS_DONE && status != RAWE_STATUS_FAILED) {
        net_fail("completes once", "message %u ends neither well nor badly", message->number);
    }
    if (early) {
        check_transmitted(message);
    }
    message->completed = true;
    message->held = early;
    spoil_second(message);
    if (!early) {
        spoil_own(message);
    }
    message->ended(message, status, early);
}

/** rawe_message.complete */
static void message_complete(struct rawe_message *out, enum rawe_status status)
{
    end((struct net_message *)(void *)out, status, out->completed_early);
}

/** rawe_message.release: the message is acknowledged, or never will be. */
static void message_release(struct rawe_message *out)
{
    struct net_message *message = (struct net_message *)(void *)out;

    if (!message->held) {
        net_fail("released once", "message %u is released %s", message->number,
                 message->completed ? "twice, or was not complete early" : "but not complete");
    }
    message->held = false;
    spoil_own(message);
    message->released(message);
}

/** rawe_operation.done of a PUT. */
static void put_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct net_message *message =
        (struct net_message *)(void *)((char *)operation - offsetof(struct net_message, operation));

    if (operation->parts != 0) {
        net_fail("completes once", "message %u is complete before all parts of it",
                 message->number);
    }
    end(message, status, false);
}

/** Record the turn of a message that was just accepted; a copied message got the newest number. */
static void note_turn(struct net_message *message)
{
    const struct rawe_order *order = message->peer->route.order;
    uint64_t number = message->out.send.number;

    message->turn = number != 0 ? number : order->next - 1;
    message->overtaken_most = order->most;
}

bool net_message_copy(struct net_message *message, struct rawe_peer *peer)
{
    const struct rawe_send *send = &message->out.send;
    const struct rawe_bytes *pieces = send->pieces;
    bool two = send->piece_count == 2;

    message->peer = peer;
    enum rawe_status status =
        rawe_peer_send_copy(peer, send->tag, pieces[0].base, pieces[0].len_bytes,
                            two ? pieces[1].base : NULL, two ? pieces[1].len_bytes : 0);

    if (status == RAWE_STATUS_BUSY) {
        message->peer = NULL;
        return false;
    }
    message->out.send.number = 0;
    note_turn(message);
    end(message, status, false);
    return true;
}

enum rawe_peer_result net_message_send(struct net_message *message, struct rawe_peer *peer)
{
    message->peer = peer;
    message->out.complete = message_complete;
    message->out.release = message_release;
    message->out.send.number = 0;
    enum rawe_peer_result result = rawe_peer_send(peer, &message->out);
    note_turn(message);
    return result;
}

void net_message_conclude(struct net_message *message, enum rawe_peer_result result)
{
    if (result == RAWE_PEER_COMPLETE || result == RAWE_PEER_FAILED) {
        end(message, result == RAWE_PEER_COMPLETE ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED,
            result == RAWE_PEER_COMPLETE && message->out.completed_early);
    }
}

bool net_message_put(struct net_message *message, struct rawe_peer *peer, bool spreads)
{
    struct rawe_operation *operation = &message->operation;

    message->peer = peer;
    operation->done = put_done;
    operation->kind = RAWE_FRAGMENT_PUT;
    operation->len_bytes = message->len_bytes;
    operation->local = message->own;
    operation->spreads = spreads;
    return rawe_balance_operate(peer, operation);
}

void net_message_drop(struct net_message *message)
{
    message->completed = true;
    spoil_second(message);
    if (message->own != NULL) {
        spoil_own(message);
    }
}
