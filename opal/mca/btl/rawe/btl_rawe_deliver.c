/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_deliver.h"

#include "btl_rawe_compat.h"
#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"

#include <stdlib.h>
#include <string.h>

/** A message that is deferred until the lock is released. */
struct mca_btl_rawe_message {
    struct mca_btl_rawe_message *next;
    mca_btl_base_endpoint_t *endpoint;
    size_t len_bytes;
    uint8_t tag;
    uint8_t data[];
};

/**
 * Defer a message; returns false if it must be delivered now. Later messages are deferred, too,
 * from any sender, while the list has messages or a thread is delivering them.
 */
static bool message_defer(mca_btl_base_endpoint_t *endpoint, uint8_t tag, const uint8_t *data,
                          size_t len_bytes)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (!state->defers &&
        (!opal_using_threads() || NULL != mca_btl_rawe_endpoint_in_order(endpoint->proc))) {
        return false;
    }
    if (state->finalizing) {
        return true; /* Open MPI no longer receives, so drop it */
    }
    struct mca_btl_rawe_message *message = malloc(sizeof(*message) + len_bytes);
    if (NULL == message) {
        return false;
    }
    message->next = NULL;
    message->endpoint = endpoint;
    message->tag = tag;
    message->len_bytes = len_bytes;
    memcpy(message->data, data, len_bytes);
    *(NULL == state->deferred ? &state->deferred : state->deferred_tail) = message;
    state->deferred_tail = &message->next;
    state->defers = true;
    return true;
}

struct mca_btl_rawe_message *mca_btl_rawe_take_deferred(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    struct mca_btl_rawe_message *messages = state->deferred;

    if (atomic_load_explicit(&state->delivers_deferred, memory_order_acquire)) {
        return NULL;
    }
    state->deferred = NULL;
    state->defers = NULL != messages;
    atomic_store_explicit(&state->delivers_deferred, state->defers, memory_order_relaxed);
    return messages;
}

/** Pass a message to Open MPI. Returns false if no callback is registered for the tag. */
static bool pass_to_open_mpi(mca_btl_base_endpoint_t *endpoint, uint8_t tag, const uint8_t *data,
                             size_t len_bytes)
{
    mca_btl_base_segment_t segment = {
        .seg_addr.pval = (void *)(uintptr_t)data,
        .seg_len = len_bytes,
    };

    if (OPAL_UNLIKELY(!endpoint->in_use)) {
        endpoint = mca_btl_rawe_endpoint_to_name(endpoint);
    }
    return mca_btl_rawe_compat_deliver(&endpoint->module->super, endpoint, tag, &segment);
}

void mca_btl_rawe_deliver_deferred(struct mca_btl_rawe_message *messages)
{
    bool any = NULL != messages;

    while (NULL != messages) {
        struct mca_btl_rawe_message *message = messages;
        messages = message->next;
        (void)pass_to_open_mpi(message->endpoint, message->tag, message->data, message->len_bytes);
        free(message);
    }
    if (any) {
        atomic_store_explicit(&mca_btl_rawe_state.delivers_deferred, false, memory_order_release);
    }
}

void mca_btl_rawe_deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                          size_t len_bytes)
{
    mca_btl_rawe_module_t *module = context;
    mca_btl_base_endpoint_t *endpoint = conn->owner;

    if (OPAL_UNLIKELY(!endpoint->in_use || mca_btl_rawe_state.defers) &&
        message_defer(endpoint, tag, data, len_bytes)) {
        return;
    }
    if (OPAL_UNLIKELY(!pass_to_open_mpi(endpoint, tag, data, len_bytes))) {
        module->engine.counters.dropped_type++;
    }
}
