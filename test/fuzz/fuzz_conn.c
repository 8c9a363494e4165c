/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `conn`: two engines whose bad day the fuzzer writes. See pair.h for what must hold.
 *
 * Input: a script, see fuzz.h. Bit 0 of the options is the node, bit 1 the lane.
 */
#include "fuzz.h"

#include <string.h>

#include "net_forge.h"
#include "pair.h"

enum operation {
    SEND_COPY,
    SEND,
    PUT,
    DELIVER,
    DELIVER_ALL,
    DROP,
    REPEAT,
    REORDER,
    TIME,
    PROGRESS,
    LINK_ROOM,
    CLOSE,
    RESTART,
    NO_MEMORY,
    CORRUPT,
    MUTATE,
    FORGE,
    DEFER,
    PATH,
    OPERATIONS
};

const unsigned fuzz_operations = OPERATIONS, fuzz_steps_max = 160;

/** Sum of the lengths of what one script may send. */
#define SENT_BYTES_MAX 400000u

static void send_something(struct pair *pair, const struct fuzz_step *step, uint32_t *sent_bytes)
{
    struct pair_node *node = &pair->node[step->options & 1];
    struct pair_send_options options = {
        .ordered = (step->options & (2 | 8)) != 0,
        .early = (step->options & 16) != 0,
        .cut = (uint8_t)step->b,
    };
    if (*sent_bytes + step->a > SENT_BYTES_MAX) {
        return;
    }
    *sent_bytes += step->a;
    switch (step->operation) {
    case SEND_COPY:
        pair_send_copy(node, step->a);
        break;
    case SEND:
        pair_send_message(node, step->a, options);
        break;
    default:
        pair_send_put(node, step->a, step->c);
        break;
    }
}

/**
 * One bit or byte falls over: only checksums tell it from a frame of the peer's.
 */
static void corrupt(struct pair *pair, const struct fuzz_step *step)
{
    if (pair->wire_count == 0 || (step->b & 0xFF) == 0) {
        return;
    }
    struct net_frame *frame = pair->wire[step->a % pair->wire_count];
    if (frame->len_bytes <= RAWE_ETH_HEADER_BYTES) {
        return;
    }
    size_t at = RAWE_ETH_HEADER_BYTES + step->c % (frame->len_bytes - RAWE_ETH_HEADER_BYTES);
    frame->bytes[at] ^= (uint8_t)step->b;
    pair->ledger.lying |= !pair->config.checksum;
}

/** Change a frame that lies on the wire, in memory of exactly its new length. */
static void mutate(struct pair *pair, const struct fuzz_step *step)
{
    if (pair->wire_count == 0) {
        return;
    }
    struct net_frame *frame = pair->wire[step->a % pair->wire_count];
    pair->ledger.lying = true;
    uint32_t len_bytes = net_forge_change(frame->bytes, (uint32_t)frame->len_bytes,
                                          step->options >> 2, step->b, step->c);
    if (len_bytes != frame->len_bytes) {
        uint8_t *bytes = fuzz_copy(frame->bytes, len_bytes);
        fuzz_delete(frame->bytes);
        frame->bytes = bytes;
        frame->len_bytes = len_bytes;
    }
}

/** A handle that is valid at the victim, or was. */
static struct net_memory some_memory(const struct pair *pair, unsigned victim, unsigned choice)
{
    for (unsigned i = 0; i < pair->ledger.count; i++) {
        const struct net_message *message =
            &pair->entries[(choice + i) % pair->ledger.count].message;
        if (message->put && message->to.index == victim) {
            return (struct net_memory){message->operation.handle_index,
                                       message->operation.handle_key};
        }
    }
    return (struct net_memory){choice, 0};
}

/** A frame as if the peer had sent it on that lane; an unknown peer's is not to be believed. */
static void forge(struct pair_node *victim, enum rawe_lane lane, const struct fuzz_step *step)
{
    const struct rawe_conn *conn = victim->peer.conn[lane];
    const struct net_memory memory = some_memory(victim->pair, victim->index, step->c >> 24);
    const struct net_forgery forgery = {
        .what = step->a,
        .numbers = step->b,
        .place = step->c,
        .lengths = step->d,
        .deceit = step->options >> 2,
    };
    uint8_t buffer[NET_FORGED_BYTES_MAX];
    if (conn == NULL) {
        return;
    }
    victim->pair->ledger.lying |= forgery.deceit % NET_DECEITS != NET_DECEIT_UNKNOWN_PEER;
    struct net_frame *frame = net_frame_new(net_forge(conn, &memory, &forgery, buffer));
    frame->from = 1 - victim->index;
    memcpy(frame->bytes, buffer, frame->len_bytes);
    pair_put(victim->pair, frame);
}

static void deliver_all(struct pair *pair, unsigned most, bool whole)
{
    for (unsigned left = pair->wire_count; left != 0 && most != 0 && pair->wire_count != 0;
         left--, most--) {
        pair->sent_in_call = 0;
        pair_deliver(pair, 0, whole);
    }
}

static void put_again(struct pair *pair, struct net_frame *frame)
{
    if (frame != NULL) {
        pair_put(pair, frame);
    }
}

/** The path from a node carries less, or no batches; or the node learns what it carries. */
static void change_path(struct pair_node *node, const struct fuzz_step *step)
{
    uint32_t payload_bytes = RAWE_PAYLOAD_LEAST_BYTES + RAWE_CHECKSUM_ROOM_BYTES + step->a % 4096;
    if ((step->options & 8) != 0) {
        node->loses_batches = true;
    } else if ((step->options & 4) == 0) {
        rawe_peer_set_payload_max(pair_peer(node), payload_bytes);
    } else if (node->path_bytes == 0 || payload_bytes < node->path_bytes) {
        node->path_bytes = payload_bytes;
    }
}

/** 0 to about 17 s, most values small. */
static uint64_t duration_ns(const struct fuzz_step *step)
{
    return ((uint64_t)(step->b & 0xFFF) * 1000) << (step->a % 13);
}

static void take_step(struct pair *pair, const struct fuzz_step *step, uint32_t *sent_bytes)
{
    struct pair_node *node = &pair->node[step->options & 1];
    enum rawe_lane lane = (step->options & 2) != 0 ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS;
    bool option = (step->options & 4) != 0;
    unsigned operation = step->operation % OPERATIONS;
    switch (operation) {
    case SEND_COPY:
    case SEND:
    case PUT:
        send_something(pair, step, sent_bytes);
        break;
    case DELIVER:
        pair_deliver(pair, step->a, option);
        break;
    case DELIVER_ALL:
        deliver_all(pair, step->a % 2048 + 1u, option);
        pair_progress(node);
        if ((step->options & 8) == 0) {
            pair_progress(&pair->node[1 - node->index]);
        }
        break;
    case DROP:
        net_frame_free(pair_take(pair, step->a));
        break;
    case REPEAT:
        if (pair->wire_count != 0) {
            put_again(pair, net_frame_copy(pair->wire[step->a % pair->wire_count]));
        }
        break;
    case REORDER:
        put_again(pair, pair_take(pair, step->a));
        break;
    case TIME:
        pair->now_ns += duration_ns(step);
        if (option) {
            pair_progress(node);
        }
        break;
    case PROGRESS:
        pair_progress(node);
        break;
    case LINK_ROOM:
        node->link_room = option ? UINT32_MAX : step->a % 64;
        break;
    case CLOSE:
        pair_close(node, lane);
        break;
    case RESTART:
        pair_restart(node);
        break;
    case NO_MEMORY:
        fuzz_allocations_left = step->a % 16;
        break;
    case CORRUPT:
        corrupt(pair, step);
        break;
    case MUTATE:
        mutate(pair, step);
        break;
    case PATH:
        change_path(node, step);
        break;
    case DEFER: /* as the component's progress thread does outside MPI */
        rawe_engine_defer_begin(&node->engine);
        deliver_all(pair, step->a % 256 + 1u, option);
        pair_progress(node);
        rawe_engine_defer_end(&node->engine);
        break;
    default:
        forge(node, lane, step);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    static struct pair pair;
    struct fuzz_input input = {data, data + len_bytes};
    uint32_t sent_bytes = 0;
    pair_start(&pair, &input);
    fuzz_take(&input, FUZZ_HEAD_BYTES - (unsigned)(input.at - data));
    for (unsigned i = 0; i < fuzz_steps_max && fuzz_left(&input) != 0; i++) {
        const struct fuzz_step step = fuzz_take_step(&input);
        take_step(&pair, &step, &sent_bytes);
        pair_check(&pair);
    }
    pair_settle(&pair);
    pair_stop(&pair);
    return 0;
}
