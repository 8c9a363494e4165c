/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping --listen: answers, and prints the addresses that asked.
 */
#include <stdio.h>
#include <string.h>

#include "ping.h"

/** Interval of looking for batches and group frames, which arrive at other sockets. */
#define LOOK_EVERY_NS 20000000ull

/** Number of hosts remembered; beyond that, the oldest is forgotten. */
#define ASKERS_MAX 64u

struct listener {
    struct ping_asker askers[ASKERS_MAX];
    unsigned known; /**< in use, from the first on */
    unsigned oldest;
    unsigned long answered;
};

/** Remember where to send this host's answers; print it the first time. */
static void note_asker(struct listener *listener, const struct ping_frame *frame)
{
    struct ping_asker *asker = NULL;
    char mac[18];

    for (unsigned i = 0; i < listener->known && asker == NULL; i++) {
        if (memcmp(listener->askers[i].mac, frame->source, RAWE_MAC_BYTES) == 0) {
            asker = &listener->askers[i];
        }
    }
    if (asker == NULL) {
        printf("asked by %s\n", ping_mac_text(frame->source, mac));
        if (listener->known < ASKERS_MAX) {
            asker = &listener->askers[listener->known++];
        } else {
            asker = &listener->askers[listener->oldest++ % ASKERS_MAX];
        }
        memcpy(asker->mac, frame->source, RAWE_MAC_BYTES);
    }
    asker->port = frame->ping.port;
    asker->key = frame->ping.key;
}

static void answer(struct listener *listener, struct ping_socket *one,
                   const struct ping_frame *frame)
{
    /* No host sends from a group address; an answer to one would reach all hosts. */
    if (frame->header.type != RAWE_FRAME_PING || (frame->source[0] & 1) != 0 ||
        !ping_padding_right(frame)) {
        return;
    }
    const struct rawe_header header = {
        .type = RAWE_FRAME_PONG,
        .port = frame->ping.port,
        .key = frame->ping.key,
        .payload_bytes = frame->header.payload_bytes,
    };
    if (ping_send(one, frame->source, &header, &frame->ping)) {
        listener->answered++;
    }
    note_asker(listener, frame);
}

enum ping_status ping_listen(const struct ping_options *options)
{
    const struct rawe_interface interface = ping_interface(options);
    const uint64_t end_ns = options->seconds == 0
                                ? UINT64_MAX
                                : rawe_port_clock_ns() + options->seconds * 1000000000ull;
    struct listener listener = {.answered = 0};
    struct ping_socket one, group;
    struct ping_frame frame;
    char mac[18];

    ping_catch_stop();
    ping_open(&one, &interface, options, NULL);
    ping_open(&group, &interface, options, ping_group);
    struct ping_batch_listener *batches = ping_batch_listen(&one, NULL);
    struct ping_batch_listener *group_batches = ping_batch_listen(&one, ping_group);
    printf("listening on %s, MTU %u, EtherType 0x%04x; on another host: rawe-ping %s\n",
           interface.name, interface.mtu_bytes, options->ethertype,
           ping_mac_text(interface.mac, mac));
    while (!ping_stopped && rawe_port_clock_ns() < end_ns) {
        uint64_t look_ns = rawe_port_clock_ns() + LOOK_EVERY_NS;
        if (ping_receive(&one, &frame, look_ns < end_ns ? look_ns : end_ns, options->poll)) {
            answer(&listener, &one, &frame);
        }
        while (ping_receive(&group, &frame, 0, false)) {
            answer(&listener, &one, &frame);
        }
        ping_batch_answer(batches, listener.askers, listener.known);
        ping_batch_answer(group_batches, listener.askers, listener.known);
    }
    printf("%lu frames answered, of %u hosts\n", listener.answered, listener.known);
    ping_batch_close(group_batches);
    ping_batch_close(batches);
    ping_close(&group);
    ping_close(&one);
    return listener.answered != 0 ? PING_GOOD : PING_TROUBLE;
}
