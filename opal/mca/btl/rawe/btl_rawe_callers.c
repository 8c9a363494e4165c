/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Callers and what the modex says of them. A slot belongs to the callers' side (under the
 * component's lock) unless it is ASKED or FORGOTTEN: then it belongs to the thread that brings the
 * answer.
 */
#include "btl_rawe_callers.h"

#include "btl_rawe_modex.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"

#include <stdlib.h>
#include <string.h>

/** Callers that are remembered at the same time. */
#define SLOTS 64u

/**
 * An answer is kept for this number of the longest intervals at which its caller asks. If it made
 * room for newer callers before, none of more callers than slots that ask in turn would ever find
 * its own.
 */
#define ANSWER_INTERVALS 2u
#define NS_PER_MS 1000000u

/**
 * Names that turned out to be nobody's, before no further one is looked up: the runtime may
 * remember each name it was asked about, so that invented ones would fill the memory.
 */
#define UNKNOWN_MAX 65536u

enum slot_state {
    SLOT_FREE,
    SLOT_ASKED,     /**< the answer has not come */
    SLOT_ANSWERED,  /**< `data` is what was published, NULL: nothing */
    SLOT_FORGOTTEN, /**< asked in an earlier life of the component; the answer frees it */
};

struct slot {
    atomic_uint state; /**< enum slot_state */
    opal_process_name_t name;
    void *data;
    size_t len_bytes;
    uint64_t answered_ns;
};

static struct slot slots[SLOTS];
static unsigned unknown; /**< look-ups that brought nothing */

static void release(struct slot *slot)
{
    free(slot->data);
    slot->data = NULL;
    slot->len_bytes = 0;
    atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_release);
}

/** Called by a thread of the runtime, or by our own inside of the question. */
static void answered(void *context, const void *data, size_t len_bytes)
{
    struct slot *slot = context;
    unsigned state = SLOT_ASKED;

    slot->data = 0 != len_bytes ? malloc(len_bytes) : NULL;
    slot->len_bytes = NULL != slot->data ? len_bytes : 0;
    if (NULL != slot->data) {
        memcpy(slot->data, data, len_bytes);
    }
    slot->answered_ns = mca_btl_rawe_now_ns();
    if (!atomic_compare_exchange_strong(&slot->state, &state, SLOT_ANSWERED)) {
        release(slot);
    }
}

static unsigned state_of(struct slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire);
}

/** Is a slot's answer waited for no longer, or none at all? */
static bool is_abandoned(struct slot *slot)
{
    /* The clock is read after the state: the answer may be coming just now. */
    return SLOT_ANSWERED == state_of(slot) &&
           (NULL == slot->data ||
            mca_btl_rawe_now_ns() - slot->answered_ns >=
                ANSWER_INTERVALS * mca_btl_rawe_params.probe_max_ms * NS_PER_MS);
}

/** A slot for a new caller; NULL: there is none for now. */
static struct slot *take_slot(void)
{
    for (unsigned i = 0; i < SLOTS; ++i) {
        if (SLOT_FREE == state_of(&slots[i])) {
            return &slots[i];
        }
    }
    for (unsigned i = 0; i < SLOTS; ++i) {
        if (is_abandoned(&slots[i])) {
            unknown += NULL == slots[i].data;
            release(&slots[i]);
            return &slots[i];
        }
    }
    return NULL;
}

static void ask(opal_process_name_t name)
{
    struct slot *slot = unknown < UNKNOWN_MAX ? take_slot() : NULL;

    if (NULL == slot) {
        return;
    }
    slot->name = name;
    atomic_store_explicit(&slot->state, SLOT_ASKED, memory_order_relaxed);
    if (OPAL_SUCCESS != mca_btl_rawe_compat_modex_request(
                            &mca_btl_rawe_state.component->btl_version, &name, answered, slot)) {
        ++unknown;
        release(slot);
    }
}

void mca_btl_rawe_callers_begin(void)
{
    for (unsigned i = 0; i < SLOTS; ++i) {
        unsigned state = SLOT_ASKED;
        if (!atomic_compare_exchange_strong(&slots[i].state, &state, SLOT_FORGOTTEN) &&
            SLOT_ANSWERED == state) {
            release(&slots[i]);
        }
    }
    unknown = 0;
}

unsigned mca_btl_rawe_callers_find(opal_process_name_t name, struct mca_btl_rawe_address *addresses)
{
    unsigned count = 0;
    struct slot *slot = NULL;

    for (unsigned i = 0; i < SLOTS && NULL == slot; ++i) {
        unsigned state = state_of(&slots[i]);
        if ((SLOT_ASKED == state || SLOT_ANSWERED == state) && slots[i].name.jobid == name.jobid &&
            slots[i].name.vpid == name.vpid) {
            slot = &slots[i];
        }
    }
    if (NULL == slot) {
        ask(name);
    } else if (SLOT_ANSWERED == state_of(slot)) {
        count = mca_btl_rawe_modex_parse(NULL, slot->data, slot->len_bytes, addresses);
        unknown += 0 == count;
        release(slot);
    }
    return count;
}
