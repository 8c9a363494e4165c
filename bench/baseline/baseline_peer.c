/* SPDX-License-Identifier: BSD-3-Clause */
/* Two baseline programs find each other and agree on which test runs. */
#include "baseline.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HELLO_INTERVAL_S 0.01
#define REQUEST_INTERVAL_S 0.02

void baseline_peer_gone(const struct baseline_link *link, const struct baseline_options *options)
{
    fprintf(stderr,
            "baseline: %s: the other host has been silent for %.0f s; see there why it stopped\n",
            link->name, options->wait_seconds);
    exit(1);
}

void baseline_peer_find(struct baseline_link *link, const struct baseline_options *options)
{
    struct baseline_frame mine = {.type = BASELINE_HELLO};
    struct baseline_frame heard = {0};
    bool is_known = false;
    bool is_mutual = false;
    double start = baseline_now();
    double next = 0;
    if (getrandom(&mine.number, sizeof(mine.number), 0) != sizeof(mine.number)) {
        mine.number = (uint32_t)(start * 1e9);
    }
    mine.number |= 1; /* 0 means: no one heard yet */
    while (!is_mutual) {
        double now = baseline_now();
        if (now - start > options->wait_seconds) {
            fprintf(stderr,
                    "baseline: %s: no answer for %.0f s; start the same program on a second "
                    "host of this Ethernet segment, on the interface that faces it (--interface)\n",
                    link->name, options->wait_seconds);
            exit(1);
        }
        if (now >= next) {
            int error = baseline_frame_send(link, &mine, NULL, NULL);
            if (error != 0) {
                fprintf(stderr, "baseline: %s: cannot send: %s; is the interface up?\n", link->name,
                        strerror(-error));
                exit(1);
            }
            next = now + HELLO_INTERVAL_S;
        }
        if (!baseline_frame_receive(link, &heard, NULL, 0)) {
            struct timespec pause = {.tv_nsec = 100000};
            nanosleep(&pause, NULL);
            continue;
        }
        /* A START means that the other end has heard us and is ahead. */
        if (heard.type == BASELINE_HELLO && (!is_known || heard.offset == mine.number)) {
            memcpy(link->peer, heard.from, BASELINE_MAC_BYTES);
            mine.offset = heard.number;
            is_known = true;
            is_mutual = heard.offset == mine.number;
            next = 0;
        } else if (heard.type == BASELINE_START && is_known) {
            is_mutual = memcmp(heard.from, link->peer, BASELINE_MAC_BYTES) == 0;
        }
    }
    /* The last hello confirms to the other end that it was heard. */
    baseline_frame_send(link, &mine, NULL, NULL);
    link->initiator = memcmp(link->mac, link->peer, BASELINE_MAC_BYTES) < 0;
}

static bool is_from_peer(const struct baseline_link *link, const struct baseline_frame *frame)
{
    return memcmp(frame->from, link->peer, BASELINE_MAC_BYTES) == 0;
}

void baseline_peer_request(struct baseline_link *link, const struct baseline_options *options,
                           const struct baseline_frame *request, enum baseline_type reply_type,
                           struct baseline_frame *reply)
{
    double start = baseline_now();
    double next = 0;
    for (;;) {
        double now = baseline_now();
        if (now - start > options->wait_seconds) {
            baseline_peer_gone(link, options);
        }
        if (now >= next) {
            baseline_frame_send(link, request, NULL, link->peer);
            next = now + REQUEST_INTERVAL_S;
        }
        if (!baseline_frame_receive(link, reply, NULL, 0)) {
            sched_yield();
            continue;
        }
        if (reply->type == reply_type && reply->number == request->number &&
            is_from_peer(link, reply)) {
            return;
        }
        if (reply->type == BASELINE_HELLO && is_from_peer(link, reply)) {
            /* It has not seen our last hello: confirm it again. */
            struct baseline_frame hello = {
                .type = BASELINE_HELLO, .offset = reply->number, .number = reply->offset};
            baseline_frame_send(link, &hello, NULL, link->peer);
        }
    }
}

bool baseline_peer_serve(struct baseline_link *link, const struct baseline_options *options,
                         struct baseline_frame *start)
{
    double begin = baseline_now();
    while (baseline_now() - begin <= options->wait_seconds) {
        if (!baseline_frame_receive(link, start, NULL, 0)) {
            sched_yield();
            continue;
        }
        if (!is_from_peer(link, start)) {
            continue;
        }
        if (start->type == BASELINE_START) {
            baseline_batch_drain(link);
            baseline_peer_answer(link, BASELINE_STARTED, start->number, 0);
            return true;
        }
        if (start->type == BASELINE_BYE) {
            return false;
        }
        if (start->type == BASELINE_END) {
            /* The answer to the end of the last test was lost. */
            baseline_peer_ended(link, start->number, link->ended_bytes, link->ended_wrong);
        }
    }
    baseline_peer_gone(link, options);
    return false;
}

void baseline_peer_ended(struct baseline_link *link, uint32_t number, uint64_t bytes,
                         uint32_t wrong)
{
    struct baseline_frame answer = {
        .type = BASELINE_ENDED, .number = number, .offset = wrong, .value = bytes};
    link->ended_bytes = bytes;
    link->ended_wrong = wrong;
    baseline_frame_send(link, &answer, NULL, link->peer);
}

void baseline_peer_answer(struct baseline_link *link, enum baseline_type type, uint32_t number,
                          uint64_t value)
{
    struct baseline_frame answer = {.type = type, .number = number, .value = value};
    baseline_frame_send(link, &answer, NULL, link->peer);
}
