/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: does a batch pass? The asker sends a batch of VALIDATION frames, the listener counts
 * those that arrive as they were sent, and answers when it has all of them. In each frame's header:
 *
 *   connection id = number of the batch, acknowledgement = frames of the batch
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ping.h"
#include "rawe_bulk.h"

#define TRIES 4u
#define ANSWER_WAIT_NS 500000000ull
#define LOOK_EVERY_US 200u

#define HEAD_BYTES (RAWE_PAYLOAD_OFFSET + RAWE_FRAGMENT_MESSAGE_BYTES)

/** Byte of a VALIDATION fragment's data, as doc/protocol.md section 2 has it. */
static uint8_t pattern(uint32_t i)
{
    return (uint8_t)(i ^ 29u * (i / 256u));
}

/** Frames under construction: their heads, and the data they all share. */
struct batch {
    uint8_t heads[PING_BATCH_FRAMES][HEAD_BYTES];
    struct rawe_frame frames[PING_BATCH_FRAMES];
    unsigned count;
    uint8_t data[UINT16_MAX];
};

static void build_batch(struct batch *batch, const struct ping_socket *one,
                        const uint8_t to[RAWE_MAC_BYTES], uint32_t key, uint32_t mtu_bytes,
                        uint32_t number)
{
    uint32_t payload_bytes = (mtu_bytes - RAWE_BULK_OVERHEAD_BYTES - RAWE_HEADER_BYTES) & ~7u;
    uint32_t count = RAWE_BULK_BYTES_MAX / (payload_bytes + RAWE_HEADER_BYTES);

    batch->count = count < PING_BATCH_FRAMES ? count : PING_BATCH_FRAMES;
    const struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_VALIDATION,
        .data_bytes = (uint16_t)(payload_bytes - RAWE_FRAGMENT_MESSAGE_BYTES),
    };
    for (uint32_t i = 0; i < fragment.data_bytes; i++) {
        batch->data[i] = pattern(i);
    }
    for (unsigned i = 0; i < batch->count; i++) {
        const struct rawe_header header = {
            .type = RAWE_FRAME_BULK,
            .port = PING_PORT,
            .key = key,
            .connection_id = number,
            .sequence = i,
            .acknowledgement = batch->count,
            .payload_bytes = (uint16_t)payload_bytes,
        };
        ping_headers(one, batch->heads[i], to, &header);
        rawe_fragment_encode(batch->heads[i] + RAWE_PAYLOAD_OFFSET, &fragment);
        batch->frames[i] = (struct rawe_frame){
            .pieces = {{batch->heads[i], HEAD_BYTES}, {batch->data, fragment.data_bytes}},
            .piece_count = 2,
            .len_bytes = RAWE_PAYLOAD_OFFSET + payload_bytes,
        };
    }
}

/** What the asker waits for. */
struct answer {
    uint32_t number;
    bool came;
};

static void take_answer(void *context, const uint8_t *frame, size_t len_bytes)
{
    struct answer *answer = context;
    struct rawe_header header;

    if (len_bytes >= RAWE_ETH_HEADER_BYTES &&
        rawe_header_decode(&header, frame + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) == RAWE_DECODE_OK &&
        header.type == RAWE_FRAME_ACK && header.connection_id == answer->number) {
        answer->came = true;
    }
}

static bool exchange(const struct ping_socket *one, struct rawe_bulk *bulk, struct rawe_link *link,
                     const uint8_t to[RAWE_MAC_BYTES], uint32_t key, uint32_t mtu_bytes)
{
    struct batch *batch = calloc(1, sizeof *batch);
    struct answer answer = {.came = false};

    for (unsigned i = 0; i < TRIES && batch != NULL && !answer.came && !ping_stopped; i++) {
        ping_random(&answer.number, sizeof answer.number);
        build_batch(batch, one, to, key, mtu_bytes, answer.number);
        (void)rawe_bulk_transmit(bulk, batch->frames, batch->count);
        const uint64_t until_ns = ping_now_ns() + ANSWER_WAIT_NS;
        while (!answer.came && ping_now_ns() < until_ns && !ping_stopped) {
            if (rawe_link_receive(link, 16, take_answer, &answer) == 0) {
                usleep(LOOK_EVERY_US);
            }
        }
    }
    free(batch);
    return answer.came;
}

enum ping_batch ping_batch_try(const struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
                               uint32_t key, uint32_t mtu_bytes)
{
    struct rawe_link_error error;
    struct rawe_bulk *bulk;
    struct rawe_link *link;
    enum ping_batch result = PING_BATCH_NOT_OFFERED;

    if (rawe_bulk_open(&bulk, &one->config, &error) != 0) {
        return PING_BATCH_NOT_OFFERED;
    }
    if (rawe_bulk_offloaded(bulk)) {
        if (rawe_link_open(&link, &one->config, &error) != 0) {
            ping_open_failed(one->config.interface, &error);
        }
        result =
            exchange(one, bulk, link, to, key, mtu_bytes) ? PING_BATCH_PASSES : PING_BATCH_LOST;
        rawe_link_close(link);
    }
    rawe_bulk_close(bulk);
    return result;
}

struct ping_batch_listener {
    struct ping_socket *one;
    struct rawe_bulk *bulk;
    const struct ping_asker *askers; /**< during ping_batch_answer */
    unsigned asker_count;
    uint32_t number;  /**< the batch that comes in */
    uint32_t arrived; /**< frames of it, as they were sent */
};

struct ping_batch_listener *ping_batch_listen(struct ping_socket *one)
{
    struct ping_batch_listener *listener = calloc(1, sizeof *listener);
    struct rawe_link_error error;

    if (listener == NULL || rawe_bulk_open(&listener->bulk, &one->config, &error) != 0) {
        free(listener);
        return NULL;
    }
    listener->one = one;
    return listener;
}

void ping_batch_close(struct ping_batch_listener *listener)
{
    if (listener != NULL) {
        rawe_bulk_close(listener->bulk);
        free(listener);
    }
}

static bool plan_nothing(void *context, const uint8_t *source_mac, const uint8_t *head,
                         size_t head_bytes, size_t segment_bytes, size_t total_bytes,
                         struct rawe_placement *placement)
{
    (void)context;
    (void)source_mac;
    (void)head;
    (void)head_bytes;
    (void)segment_bytes;
    (void)total_bytes;
    (void)placement;
    return false;
}

/** Is it a VALIDATION frame whose data is as it was sent? */
static bool validation_right(const struct rawe_header *header, const uint8_t *payload)
{
    const uint8_t *cursor = payload;
    struct rawe_fragment fragment;

    if (header->type != RAWE_FRAME_BULK ||
        rawe_fragment_decode(&fragment, &cursor, payload + header->payload_bytes) !=
            RAWE_DECODE_OK ||
        fragment.kind != RAWE_FRAGMENT_VALIDATION) {
        return false;
    }
    for (uint32_t i = 0; i < fragment.data_bytes; i++) {
        if (fragment.data[i] != pattern(i)) {
            return false;
        }
    }
    return true;
}

static void take_segment(void *context, const uint8_t *source_mac, const uint8_t *head,
                         size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct ping_batch_listener *listener = context;
    struct rawe_header header;

    (void)data; /* nothing was planned: all of the frame is at `head` */
    (void)data_bytes;
    if (rawe_header_decode(&header, head, head_bytes) != RAWE_DECODE_OK ||
        !validation_right(&header, head + RAWE_HEADER_BYTES)) {
        return;
    }
    if (header.connection_id != listener->number) {
        listener->number = header.connection_id;
        listener->arrived = 0;
    }
    if (++listener->arrived != header.acknowledgement) {
        return;
    }
    for (unsigned i = 0; i < listener->asker_count; i++) {
        const struct ping_asker *asker = &listener->askers[i];
        if (memcmp(asker->mac, source_mac, RAWE_MAC_BYTES) == 0) {
            const struct rawe_header answer = {
                .type = RAWE_FRAME_ACK,
                .port = asker->port,
                .key = asker->key,
                .connection_id = header.connection_id,
                .acknowledgement = listener->arrived,
            };
            (void)ping_send(listener->one, source_mac, &answer, NULL);
        }
    }
}

void ping_batch_answer(struct ping_batch_listener *listener, const struct ping_asker *askers,
                       unsigned count)
{
    static const struct rawe_bulk_receiver receiver = {
        .plan = plan_nothing,
        .segment = take_segment,
    };

    if (listener == NULL || !rawe_bulk_pending(listener->bulk)) {
        return;
    }
    listener->askers = askers;
    listener->asker_count = count;
    (void)rawe_bulk_receive(listener->bulk, 64, &receiver, listener);
}
