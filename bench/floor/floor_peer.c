/* SPDX-License-Identifier: BSD-3-Clause */
/* Two floor programs find each other and agree on which test runs. */
#include "floor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HELLO_INTERVAL_S 0.01
#define REQUEST_INTERVAL_S 0.02
#define FAREWELLS 3 /* BYE has no reply; a lost one costs the other end its waiting time */

void floor_peer_gone(const struct floor_link *link, const struct floor_options *options)
{
    fprintf(stderr,
            "floor: %s: the other host has been silent for %.0f s; see there why it stopped\n",
            link->name, options->wait_seconds);
    exit(1);
}

void floor_peer_find(struct floor_link *link, const struct floor_options *options)
{
    struct floor_frame mine = {.type = FLOOR_HELLO};
    struct floor_frame heard = {0};
    bool is_known = false;
    bool is_mutual = false;
    double start = floor_now();
    double next = 0;
    if (getrandom(&mine.number, sizeof(mine.number), 0) != sizeof(mine.number)) {
        mine.number = (uint32_t)(start * 1e9);
    }
    mine.number |= 1; /* 0 means: heard nobody */
    while (!is_mutual) {
        double now = floor_now();
        if (now - start > options->wait_seconds) {
            fprintf(stderr,
                    "floor: %s: nobody answered for %.0f s; start the same program on a second "
                    "host of this Ethernet segment, on the interface that faces it (--interface)\n",
                    link->name, options->wait_seconds);
            exit(1);
        }
        if (now >= next) {
            int error = floor_frame_send(link, &mine, NULL, NULL);
            if (error != 0) {
                fprintf(stderr, "floor: %s: cannot send: %s; is the interface up?\n", link->name,
                        strerror(-error));
                exit(1);
            }
            next = now + HELLO_INTERVAL_S;
        }
        if (!floor_frame_receive(link, &heard, NULL, 0)) {
            struct timespec pause = {.tv_nsec = 100000};
            nanosleep(&pause, NULL);
            continue;
        }
        /* A START means that the other end has heard us and is ahead. */
        if (heard.type == FLOOR_HELLO && (!is_known || heard.offset == mine.number)) {
            memcpy(link->peer, heard.from, FLOOR_MAC_BYTES);
            mine.offset = heard.number;
            is_known = true;
            is_mutual = heard.offset == mine.number;
            next = 0;
        } else if (heard.type == FLOOR_START && is_known) {
            is_mutual = memcmp(heard.from, link->peer, FLOOR_MAC_BYTES) == 0;
        }
    }
    /* The last hello tells the other end that it was heard, should it not know yet. */
    floor_frame_send(link, &mine, NULL, NULL);
    link->initiator = memcmp(link->mac, link->peer, FLOOR_MAC_BYTES) < 0;
}

static bool is_from_peer(const struct floor_link *link, const struct floor_frame *frame)
{
    return memcmp(frame->from, link->peer, FLOOR_MAC_BYTES) == 0;
}

void floor_peer_request(struct floor_link *link, const struct floor_options *options,
                        const struct floor_frame *request, enum floor_type reply_type,
                        struct floor_frame *reply)
{
    double start = floor_now();
    double next = 0;
    for (;;) {
        double now = floor_now();
        if (now - start > options->wait_seconds) {
            floor_peer_gone(link, options);
        }
        if (now >= next) {
            floor_frame_send(link, request, NULL, link->peer);
            next = now + REQUEST_INTERVAL_S;
        }
        if (!floor_frame_receive(link, reply, NULL, 0)) {
            sched_yield();
            continue;
        }
        if (reply->type == reply_type && reply->number == request->number &&
            is_from_peer(link, reply)) {
            return;
        }
        if (reply->type == FLOOR_HELLO && is_from_peer(link, reply)) {
            /* It has not seen our last hello: tell again that it was heard. */
            struct floor_frame hello = {
                .type = FLOOR_HELLO, .offset = reply->number, .number = reply->offset};
            floor_frame_send(link, &hello, NULL, link->peer);
        }
    }
}

bool floor_peer_serve(struct floor_link *link, const struct floor_options *options,
                      struct floor_frame *start)
{
    double begin = floor_now();
    while (floor_now() - begin <= options->wait_seconds) {
        if (!floor_frame_receive(link, start, NULL, 0)) {
            sched_yield();
            continue;
        }
        if (!is_from_peer(link, start)) {
            continue;
        }
        if (start->type == FLOOR_START) {
            if (link->gso_fd >= 0) {
                floor_gso_drain(link);
            }
            floor_peer_answer(link, FLOOR_STARTED, start->number, 0);
            return true;
        }
        if (start->type == FLOOR_BYE) {
            return false;
        }
        if (start->type == FLOOR_END) {
            /* The answer to the end of the last test was lost. */
            floor_peer_answer(link, FLOOR_ENDED, start->number, link->ended_bytes);
        }
    }
    floor_peer_gone(link, options);
    return false;
}

void floor_peer_ended(struct floor_link *link, uint32_t number, uint64_t bytes)
{
    link->ended_bytes = bytes;
    floor_peer_answer(link, FLOOR_ENDED, number, bytes);
}

void floor_peer_answer(struct floor_link *link, enum floor_type type, uint32_t number,
                       uint64_t value)
{
    struct floor_frame answer = {.type = type, .number = number, .value = value};
    floor_frame_send(link, &answer, NULL, link->peer);
}

void floor_peer_bye(struct floor_link *link)
{
    for (int i = 0; i < FAREWELLS; i++) {
        floor_peer_answer(link, FLOOR_BYE, 0, 0);
    }
}
