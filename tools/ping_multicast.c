/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping --multicast: finds out which hosts receive plain frames and batches to a group. First
 * each host is sent a PING of its own, to tell apart those that are absent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

/** An unanswered PING is repeated after this time. */
#define ROUND_NS 100000000ull

const uint8_t ping_group[RAWE_MAC_BYTES] = {0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE};

struct inquiry {
    const struct ping_options *options;
    struct rawe_interface interface;
    struct ping_host *hosts;
    unsigned count;
    struct ping_socket one;
};

/** PING all hosts whose flag is not set, each or as a group, until all have answered. */
static void ask_all(struct inquiry *inquiry, bool as_group)
{
    const uint64_t end_ns = rawe_port_clock_ns() + inquiry->options->timeout_ms * 1000000ull;
    const uint32_t key = inquiry->options->key;
    unsigned missing = inquiry->count;
    struct ping_frame frame;
    uint64_t token;

    ping_random(&token, sizeof token);
    while (missing != 0 && rawe_port_clock_ns() < end_ns && !ping_stopped) {
        for (unsigned i = 0; i < inquiry->count && !as_group; i++) {
            if (!inquiry->hosts[i].answers) {
                ping_question(&inquiry->one, inquiry->hosts[i].mac, key, token, RAWE_PING_BYTES);
            }
        }
        if (as_group) {
            ping_question(&inquiry->one, ping_group, key, token, RAWE_PING_BYTES);
        }
        const uint64_t round_ns = rawe_port_clock_ns() + ROUND_NS;
        while (missing != 0 && ping_receive(&inquiry->one, &frame, round_ns, false)) {
            for (unsigned i = 0; i < inquiry->count; i++) {
                struct ping_host *host = &inquiry->hosts[i];
                bool *flag = as_group ? &host->gets_frame : &host->answers;
                if (frame.header.type == RAWE_FRAME_PONG && frame.ping.token == token && !*flag &&
                    memcmp(host->mac, frame.source, RAWE_MAC_BYTES) == 0) {
                    *flag = true;
                    missing--;
                }
            }
        }
    }
}

static enum ping_status report(const struct inquiry *inquiry, bool offered)
{
    enum ping_status status = PING_GOOD;
    bool lost = false;
    char mac[18];

    for (unsigned i = 0; i < inquiry->count; i++) {
        const struct ping_host *host = &inquiry->hosts[i];
        ping_mac_text(host->mac, mac);
        if (!host->answers) {
            printf("%s: NO ANSWER to a frame of its own. Does `rawe-ping --listen` run there?\n"
                   "  `rawe-ping %s` tells what else to check.\n",
                   mac, mac);
        } else {
            printf("%s: plain frames %s, batches %s\n", mac,
                   host->gets_frame ? "pass" : "DO NOT PASS",
                   host->gets_batch ? "pass"
                   : offered        ? "DO NOT PASS"
                                    : "cannot be tried: the kernel refuses the socket");
            lost = lost || !host->gets_frame || !host->gets_batch;
        }
        if (!host->answers || !host->gets_frame || !host->gets_batch) {
            status = PING_TROUBLE;
        }
    }
    if (lost) {
        printf(
            "  - On Linux bridges `bridge -d link` shows ports with mcast_flood off; on switches\n"
            "    look for storm control, and for ports where unknown multicast is blocked.\n"
            "  - A --listen of an earlier release does not answer multicast.\n");
    }
    return status;
}

enum ping_status ping_multicast(const struct ping_options *options)
{
    struct inquiry inquiry = {.options = options,
                              .interface = ping_interface(options),
                              .count = options->peer_count,
                              .hosts = calloc(options->peer_count, sizeof(struct ping_host))};
    char mac[18];

    if (inquiry.hosts == NULL) {
        ping_die("there is no memory for %u hosts", inquiry.count);
    }
    for (unsigned i = 0; i < inquiry.count; i++) {
        ping_peer(options->peers[i], &inquiry.interface, inquiry.hosts[i].mac);
    }
    ping_catch_stop();
    ping_open(&inquiry.one, &inquiry.interface, options, NULL);
    printf("%s, MTU %" PRIu32 ", EtherType 0x%04x, to the group %s\n", inquiry.interface.name,
           inquiry.interface.mtu_bytes, options->ethertype, ping_mac_text(ping_group, mac));
    ask_all(&inquiry, false);
    ask_all(&inquiry, true);
    const enum ping_batch batch =
        ping_batch_try(&inquiry.one, ping_group, options->key, inquiry.interface.mtu_bytes,
                       inquiry.hosts, inquiry.count);
    const enum ping_status status = report(&inquiry, batch != PING_BATCH_NOT_OFFERED);
    ping_close(&inquiry.one);
    free(inquiry.hosts);
    return status;
}
