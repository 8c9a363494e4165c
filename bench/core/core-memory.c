/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core-memory: memory per peer in each state of its connection. Heap is memory from malloc,
 * including overhead, measured around each call of the hub's engine. Resident is the growth of the
 * process, measured in states that need no other node.
 */
#include "core_net.h"

#include "btl_rawe_endpoint.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

#define MESSAGE_BYTES 1024
#define MESSAGES_IN_FLIGHT 64

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static size_t resident_bytes(void)
{
    unsigned long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &size, &resident) != 2) {
        core_net_fail("cannot read /proc/self/statm");
    }
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void print(const char *state, double heap, double resident)
{
    printf("core memory state=%s heap_bytes=%.0f", state, heap);
    if (resident >= 0) {
        printf(" resident_bytes=%.0f", resident);
    }
    printf("\n");
}

/* Measure an opened but unused connection of one lane. */
static double measure_opened(struct core_net *net)
{
    size_t heap = heap_bytes();
    size_t resident = resident_bytes();
    for (uint32_t peer = 1; peer <= net->peers; peer++) {
        core_net_open(net, peer);
    }
    double each = (double)(heap_bytes() - heap) / net->peers;
    print("opened", each, (double)(resident_bytes() - resident) / net->peers);
    return each;
}

/* Run hub and peers until nothing changes. Returns the growth of the hub's heap. */
static double settle(struct core_net *net)
{
    double grown = 0;
    do {
        core_net_run_peers(net);
        size_t before = heap_bytes();
        core_net_run_hub(net);
        grown += (double)heap_bytes() - (double)before;
    } while (net->to_peers.count != 0 || net->to_hub.count != 0);
    return grown;
}

static double measure_connected(struct core_net *net, unsigned lane)
{
    double grown = 0;
    for (uint32_t peer = 1; peer <= net->peers; peer++) {
        size_t before = heap_bytes();
        struct rawe_conn *conn = rawe_peer_conn(&net->peer[peer], lane);
        if (conn == NULL) {
            core_net_fail("no memory");
        }
        rawe_conn_connect(conn, net->now_ns);
        grown += (double)heap_bytes() - (double)before + settle(net);
    }
    return grown / net->peers;
}

/* Measure unacknowledged messages to all peers at once, on a lane that has just been used. */
static double measure_active(struct core_net *net)
{
    for (uint32_t peer = 1; peer <= net->peers; peer++) {
        core_net_open(net, peer);
    }
    size_t before = heap_bytes();
    for (uint32_t peer = 1; peer <= net->peers; peer++) {
        for (unsigned i = 0; i < MESSAGES_IN_FLIGHT; i++) {
            core_net_send(&net->peer[peer], MESSAGE_BYTES);
        }
        net->to_peers.count = 0; /* the messages stay in flight to the end */
    }
    return (double)(heap_bytes() - before) / net->peers;
}

int main(int argc, char **argv)
{
    unsigned long peers = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    if (peers < 1 || peers > 40000) {
        fprintf(stderr, "Usage: core-memory PEERS\nMeant to be run by bench/memory.\n");
        return 2;
    }
    struct core_net net;
    core_net_init(&net, (uint32_t)peers);
    const struct rawe_engine_config *config = &net.nodes[0].engine.config;
    printf("core memory peers=%lu window_frames=%u frames_limit=%u in_flight=%u bytes=%u\n", peers,
           config->window_frames, config->frames_limit, (unsigned)MESSAGES_IN_FLIGHT,
           (unsigned)MESSAGE_BYTES);
    print("endpoint", (double)sizeof(mca_btl_base_endpoint_t), -1);
    double opened = measure_opened(&net);
    double connected = opened + measure_connected(&net, RAWE_LANE_EXPRESS);
    print("connected", connected, -1);
    double both = connected + measure_connected(&net, RAWE_LANE_BULK);
    print("both", both, -1);
    double active = connected + measure_active(&net);
    print("active", active, -1);
    printf("core memory frames_allocated=%u\n", net.nodes[0].engine.frames.allocated);
    return 0; /* exit frees everything */
}
