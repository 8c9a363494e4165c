/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core-instructions: messages between a hub and its peers in memory. It runs under callgrind, which
 * counts the instructions in functions named counted_...
 *
 * Each peer receives or sends messages at an interval that does not depend on the number of peers,
 * so any growth with that number is due to the engine.
 */
#include "core_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 64
#define BURST 4        /* successive messages in one-way patterns */
#define ROUND_NS 40000 /* each peer has one turn per this interval */
#define WARM_ROUNDS 8  /* fill pools and measure the round-trip time */

#define NOT_INLINE __attribute__((noinline, noclone))
/* Prevents a tail call: callgrind must see the calling function return after the call. */
#define STAY __asm__ volatile("" ::: "memory")

/* callgrind toggles counting at each entry to and exit from these: off in the link's part ... */
NOT_INLINE static unsigned link_of_send(void *context, const struct rawe_frame *frames,
                                        unsigned count)
{
    unsigned taken = core_net_transmit(context, frames, count);
    STAY;
    return taken;
}

NOT_INLINE static unsigned link_of_receive(void *context, const struct rawe_frame *frames,
                                           unsigned count)
{
    unsigned taken = core_net_transmit(context, frames, count);
    STAY;
    return taken;
}

/* ... and on in these two functions. */
NOT_INLINE static void counted_send(struct core_net *net, uint32_t peer)
{
    net->nodes[0].engine.output.transmit = link_of_send;
    core_net_send(&net->peer[peer], MESSAGE_BYTES);
    STAY;
}

NOT_INLINE static void counted_receive(struct core_net *net)
{
    net->nodes[0].engine.output.transmit = link_of_receive;
    core_net_run_hub(net);
    STAY;
}

enum pattern { PINGPONG, OUT, IN };

static unsigned messages_in_turn(enum pattern pattern)
{
    return pattern == PINGPONG ? 1 : BURST;
}

static void turn(struct core_net *net, enum pattern pattern, uint32_t peer, bool counted)
{
    if (pattern == IN) {
        for (unsigned i = 0; i < BURST; i++) {
            core_net_send(&net->nodes[peer].hub, MESSAGE_BYTES);
        }
        core_net_finish_turn(&net->nodes[peer]);
    } else {
        for (unsigned i = 0; i < messages_in_turn(pattern); i++) {
            if (counted) {
                counted_send(net, peer);
            } else {
                core_net_send(&net->peer[peer], MESSAGE_BYTES);
            }
        }
        core_net_run_peers(net);
    }
    if (counted) {
        counted_receive(net);
    } else {
        core_net_run_hub(net);
    }
    core_net_run_peers(net); /* acknowledgements */
}

static void run_rounds(struct core_net *net, enum pattern pattern, unsigned rounds, bool counted)
{
    uint64_t start_ns = net->now_ns;
    for (unsigned round = 0; round < rounds; round++) {
        for (uint32_t peer = 1; peer <= net->peers; peer++) {
            uint64_t turns = (uint64_t)round * net->peers + peer;
            net->now_ns = start_ns + turns * ROUND_NS / net->peers;
            turn(net, pattern, peer, counted);
        }
    }
}

static uint64_t delivered(const struct core_net *net, enum pattern pattern)
{
    if (pattern != OUT) {
        return net->nodes[0].delivered;
    }
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= net->peers; i++) {
        sum += net->nodes[i].delivered;
    }
    return sum;
}

static uint64_t frames_sent(const struct core_net *net)
{
    return net->nodes[0].engine.counters.frames_sent + net->nodes[0].engine.counters.acks_sent;
}

/* Print where an object is: bench/instructions names what lackey's trace touches. */
static void print_object(const char *name, const void *object, size_t bytes)
{
    printf("core object name=%s address=%llx bytes=%zu\n", name,
           (unsigned long long)(uintptr_t)object, bytes);
}

#define PRINT_OBJECT(object) print_object(#object, &(object), sizeof(object))
#define PRINT_REST_OF(pointer) print_object(#pointer, pointer, sizeof(*(pointer)))

static void print_objects(struct core_net *net)
{
    struct rawe_engine *engine = &net->nodes[0].engine;
    PRINT_OBJECT(engine->config);
    PRINT_OBJECT(engine->callbacks);
    PRINT_OBJECT(engine->output);
    PRINT_OBJECT(engine->batches);
    PRINT_OBJECT(engine->counters);
    PRINT_OBJECT(engine->round_trips);
    PRINT_OBJECT(engine->timers);
    PRINT_OBJECT(engine->frames);
    PRINT_OBJECT(engine->pull);
    PRINT_REST_OF(engine);
    PRINT_REST_OF(engine->table);
    for (uint32_t i = 1; i <= net->peers; i++) {
        struct rawe_peer *peer = &net->peer[i];
        struct rawe_conn *conn = rawe_peer_conn(peer, RAWE_LANE_EXPRESS);
        PRINT_REST_OF(peer);
        PRINT_OBJECT(conn->handshake);
        PRINT_OBJECT(conn->tx);
        PRINT_OBJECT(conn->path);
        PRINT_OBJECT(conn->rx);
        PRINT_OBJECT(conn->end);
        PRINT_REST_OF(conn);
    }
    print_object("received", net->to_hub.frames, CORE_NET_QUEUE_FRAMES * sizeof(struct core_frame));
}

static bool parse(int argc, char **argv, enum pattern *pattern, uint32_t *peers, unsigned *rounds)
{
    static const char *const names[] = {"pingpong", "out", "in"};
    if (argc != 4) {
        return false;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(argv[1], names[i]) == 0) {
            *pattern = (enum pattern)i;
            *peers = (uint32_t)strtoul(argv[2], NULL, 10);
            *rounds = (unsigned)strtoul(argv[3], NULL, 10);
            return *peers >= 1 && *peers <= 40000 && *rounds >= 1;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    enum pattern pattern;
    uint32_t peers;
    unsigned rounds;
    if (!parse(argc, argv, &pattern, &peers, &rounds)) {
        fprintf(stderr, "Usage: core-instructions pingpong|out|in PEERS ROUNDS\n"
                        "Meant to be run by bench/instructions.\n");
        return 2;
    }
    struct core_net net;
    core_net_init(&net, peers);
    for (uint32_t peer = 1; peer <= peers; peer++) {
        core_net_connect(&net, peer);
        net.nodes[peer].answers = pattern == PINGPONG;
    }
    run_rounds(&net, pattern, WARM_ROUNDS, false);
    uint64_t before = delivered(&net, pattern);
    uint64_t frames = frames_sent(&net);
    print_object("main", (const void *)(uintptr_t)main, 1);
    print_objects(&net);
    run_rounds(&net, pattern, rounds, true);
    uint64_t messages = delivered(&net, pattern) - before;
    if (messages != (uint64_t)rounds * peers * messages_in_turn(pattern)) {
        core_net_fail("not every message was delivered");
    }
    printf("core messages pattern=%s peers=%u messages=%llu frames=%llu resent=%llu\n", argv[1],
           peers, (unsigned long long)messages, (unsigned long long)(frames_sent(&net) - frames),
           (unsigned long long)net.nodes[0].engine.counters.frames_resent);
    return 0; /* exit frees everything */
}
