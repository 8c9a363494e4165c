/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bundles: a batch costs its sender a system call and its receiver one entry, whatever is in it. So
 * short messages that wait on the bulk lane are copied one behind the other, as MESSAGE fragments,
 * and sent as one fragmented message.
 */
#include "rawe_conn_bundle.h"

#include <string.h>

#include "rawe_conn_life.h"

/** Bundles under way at most, over all connections: 16 MiB. Beyond it messages go singly. */
#define BUNDLES_MAX 256u

struct bundle {
    struct rawe_send send;
    struct rawe_engine *engine;
    struct rawe_send *messages; /**< that are in it; NULL once they are complete */
    uint8_t content[];
};

void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool)
{
    rawe_buffer_pool_init(pool, sizeof(struct bundle) + RAWE_BATCH_BYTES_MAX, BUNDLES_MAX);
}

/** rawe_send.transmitted: the messages have been copied, and nothing holds them back any more. */
static void bundle_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    struct bundle *bundle = (struct bundle *)(void *)send;
    struct rawe_send *messages = bundle->messages;
    bundle->messages = NULL;
    rawe_conn_complete(conn->engine, messages, RAWE_STATUS_DONE);
}

/** rawe_send.done */
static void bundle_done(struct rawe_send *send, enum rawe_status status)
{
    struct bundle *bundle = (struct bundle *)(void *)send;
    struct rawe_send *messages = bundle->messages;
    struct rawe_engine *engine = bundle->engine;
    rawe_buffer_give(&engine->bundles, bundle);
    rawe_conn_complete(engine, messages, status);
}

/** What a message takes in a bundle that has `used_bytes`; 0: it does not go into one. */
static size_t needed_bytes(const struct rawe_send *send, size_t used_bytes)
{
    if (send == NULL || send->kind != RAWE_FRAGMENT_MESSAGE || send->fragmented ||
        send->total_bytes > RAWE_CONN_BUNDLED_BYTES_MAX) {
        return 0;
    }
    size_t pad_bytes = rawe_fragment_pad(used_bytes) - used_bytes;
    return pad_bytes + RAWE_FRAGMENT_MESSAGE_BYTES + (size_t)send->total_bytes;
}

/** Copy a message behind what is there. */
static void append(struct bundle *bundle, size_t used_bytes, const struct rawe_send *send)
{
    size_t begin = rawe_fragment_pad(used_bytes);
    uint8_t *out = bundle->content + begin;
    memset(bundle->content + used_bytes, 0, begin - used_bytes);
    out += rawe_fragment_encode(out,
                                &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                        .tag = send->tag,
                                                        .data_bytes = (uint16_t)send->total_bytes});
    for (unsigned i = 0; i < send->piece_count; i++) {
        memcpy(out, send->pieces[i].base, send->pieces[i].len_bytes);
        out += send->pieces[i].len_bytes;
    }
}

void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_sendqueue *queue = &conn->queue;
    uint32_t message_max_bytes = engine->config.message_max_bytes;
    bytes_max = bytes_max < message_max_bytes ? bytes_max : message_max_bytes;
    size_t used_bytes = needed_bytes(queue->first, 0);
    size_t next_bytes = used_bytes == 0 ? 0 : needed_bytes(queue->first->next, used_bytes);
    if (next_bytes == 0 || used_bytes + next_bytes > bytes_max || !rawe_conn_may_hold_back(conn)) {
        return;
    }
    struct bundle *bundle = rawe_buffer_take(&engine->bundles);
    if (bundle == NULL) {
        return;
    }
    struct rawe_send **tail = &bundle->messages;
    size_t bytes;
    used_bytes = 0;
    while ((bytes = needed_bytes(queue->first, used_bytes)) != 0 &&
           used_bytes + bytes <= bytes_max) {
        struct rawe_send *send = queue->first;
        append(bundle, used_bytes, send);
        used_bytes += bytes;
        (void)rawe_sendqueue_framed(queue, send->total_bytes);
        engine->counters.messages_coalesced++;
        *tail = send;
        tail = &send->next;
    }
    *tail = NULL;
    bundle->engine = engine;
    bundle->send = (struct rawe_send){
        .done = bundle_done,
        .transmitted = bundle_transmitted,
        .pieces = {{bundle->content, used_bytes}},
        .piece_count = 1,
        .kind = RAWE_FRAGMENT_BUNDLE,
        .relaxed = true,
        .ordered = true,
    };
    rawe_sendqueue_push_first(queue, &bundle->send);
}
