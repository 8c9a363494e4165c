/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `conn`: two engines whose bad day the fuzzer writes. See net.h for what must hold.
 *
 * Input: 4 bytes of settings, then records of 16 bytes, one step each:
 *
 *   0 operation | 1 bit 0: node, bit 1: lane, others: options | 2 a, 16 bits | 4 b | 8 c | 12 d
 */
#include "fuzz.h"
#include "net.h"

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

const struct fuzz_format fuzz_format = {
    .head_bytes = 4,
    .record_bytes = 16,
    .operations = OPERATIONS,
    .records_max = 160,
};

struct step {
    uint8_t operation;
    uint8_t where;
    uint16_t a;
    uint32_t b, c, d;
};

/** Sum of the lengths of what one script may send. */
#define SENT_BYTES_MAX 400000u

static void send_something(struct net *net, const struct step *step, uint32_t *sent_bytes)
{
    struct net_node *node = &net->node[step->where & 1];
    struct net_send_options options = {
        .ordered = (step->where & (2 | 8)) != 0,
        .early = (step->where & 16) != 0,
        .cut = (uint8_t)step->b,
    };
    if (*sent_bytes + step->a > SENT_BYTES_MAX) {
        return;
    }
    *sent_bytes += step->a;
    switch (step->operation) {
    case SEND_COPY:
        net_send_copy(node, step->a);
        break;
    case SEND:
        net_send_message(node, step->a, options);
        break;
    default:
        net_send_put(node, step->a, step->c, (uint8_t)step->b);
        break;
    }
}

/**
 * One bit or byte falls over: only with checksums does nobody take that for a frame of the peer's.
 */
static void corrupt(struct net *net, const struct step *step)
{
    if (net->wire_count == 0 || (step->b & 0xFF) == 0) {
        return;
    }
    struct net_frame *frame = net->wire[step->a % net->wire_count];
    if (frame->len_bytes <= RAWE_ETH_HEADER_BYTES) {
        return;
    }
    size_t at = RAWE_ETH_HEADER_BYTES + step->c % (frame->len_bytes - RAWE_ETH_HEADER_BYTES);
    frame->bytes[at] ^= (uint8_t)step->b;
    net->tainted = net->tainted || !net->config.checksum;
}

static void deliver_all(struct net *net, unsigned most, bool whole)
{
    for (unsigned left = net->wire_count; left != 0 && most != 0 && net->wire_count != 0;
         left--, most--) {
        net->sent_in_call = 0;
        net_deliver(net, 0, whole);
    }
}

static void put_again(struct net *net, struct net_frame *frame)
{
    if (frame != NULL) {
        net_put(net, frame);
    }
}

/** The path from a node carries less, or no batches; or the node learns what it carries. */
static void change_path(struct net_node *node, const struct step *step)
{
    uint32_t payload_bytes = RAWE_PAYLOAD_LEAST_BYTES + RAWE_CHECKSUM_ROOM_BYTES + step->a % 4096;
    if ((step->where & 8) != 0) {
        node->loses_batches = true;
    } else if ((step->where & 4) == 0) {
        rawe_peer_set_payload_max(net_peer(node), payload_bytes);
    } else if (node->path_bytes == 0 || payload_bytes < node->path_bytes) {
        node->path_bytes = payload_bytes;
    }
}

/** 0 to about 17 s, most values small. */
static uint64_t duration_ns(const struct step *step)
{
    return ((uint64_t)(step->b & 0xFFF) * 1000) << (step->a % 13);
}

static void take_step(struct net *net, const struct step *step, uint32_t *sent_bytes)
{
    struct net_node *node = &net->node[step->where & 1];
    enum rawe_lane lane = (step->where & 2) != 0 ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS;
    bool option = (step->where & 4) != 0;
    unsigned operation = step->operation % OPERATIONS;
    switch (operation) {
    case SEND_COPY:
    case SEND:
    case PUT:
        send_something(net, step, sent_bytes);
        break;
    case DELIVER:
        net_deliver(net, step->a, option);
        break;
    case DELIVER_ALL:
        deliver_all(net, step->a % 2048 + 1u, option);
        net_progress(node);
        if ((step->where & 8) == 0) {
            net_progress(&net->node[1 - node->index]);
        }
        break;
    case DROP:
        net_frame_free(net_take(net, step->a));
        break;
    case REPEAT:
        if (net->wire_count != 0) {
            put_again(net, net_frame_copy(net->wire[step->a % net->wire_count]));
        }
        break;
    case REORDER:
        put_again(net, net_take(net, step->a));
        break;
    case TIME:
        net->now_ns += duration_ns(step);
        if (option) {
            net_progress(node);
        }
        break;
    case PROGRESS:
        net_progress(node);
        break;
    case LINK_ROOM:
        node->link_room = option ? UINT32_MAX : step->a % 64;
        break;
    case CLOSE:
        net_close(node, lane);
        break;
    case RESTART:
        net_restart(node);
        break;
    case NO_MEMORY:
        fuzz_allocations_left = step->a % 16;
        break;
    case CORRUPT:
        corrupt(net, step);
        break;
    case MUTATE:
        net_mutate(net, step->a, step->where >> 2, step->b, step->c);
        break;
    case PATH:
        change_path(node, step);
        break;
    case DEFER: /* as the component's progress thread does outside MPI */
        rawe_engine_defer_begin(&node->engine);
        deliver_all(net, step->a % 256 + 1u, option);
        net_progress(node);
        rawe_engine_defer_end(&node->engine);
        break;
    default:
        net_forge(node, lane,
                  &(struct net_forgery){
                      .what = step->a,
                      .numbers = step->b,
                      .place = step->c,
                      .lengths = step->d,
                  });
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    static struct net net;
    struct fuzz_input input = {data, data + len_bytes};
    uint32_t sent_bytes = 0;
    net_start(&net, &input);
    fuzz_take(&input, fuzz_format.head_bytes - (unsigned)(input.at - data));
    for (unsigned i = 0; i < fuzz_format.records_max && fuzz_left(&input) != 0; i++) {
        struct step step;
        step.operation = (uint8_t)fuzz_take(&input, 1);
        step.where = (uint8_t)fuzz_take(&input, 1);
        step.a = (uint16_t)fuzz_take(&input, 2);
        step.b = (uint32_t)fuzz_take(&input, 4);
        step.c = (uint32_t)fuzz_take(&input, 4);
        step.d = (uint32_t)fuzz_take(&input, 4);
        take_step(&net, &step, &sent_bytes);
        net_check(&net);
    }
    net_settle(&net);
    net_stop(&net);
    return 0;
}
