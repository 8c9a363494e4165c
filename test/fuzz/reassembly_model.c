/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Model of reassembly: see reassembly_model.h.
 */
#include "reassembly_model.h"

#include <string.h>

#include "fuzz.h"
#include "receive/rawe_reassembly.h"

#define MESSAGE_BYTES_MAX 512u

/** What a message should look like: only bytes that came can be compared. */
struct expected {
    uint8_t bytes[MESSAGE_BYTES_MAX];
    bool came[MESSAGE_BYTES_MAX];
    uint8_t kind; /**< of its first part */
    uint32_t received_bytes;
};

struct reassembly_model {
    struct rawe_reassembly reassembly;
    struct rawe_buffer_pool pool;
    struct expected expected[RAWE_REASSEMBLY_MESSAGES];
};

struct reassembly_model *reassembly_model_new(unsigned limit)
{
    struct reassembly_model *model = fuzz_new(sizeof(*model));
    rawe_buffer_pool_init(&model->pool, sizeof(struct rawe_partial) + MESSAGE_BYTES_MAX, limit);
    return model;
}

void reassembly_model_free(struct reassembly_model *model)
{
    rawe_reassembly_clear(&model->reassembly, &model->pool, 0);
    rawe_buffer_pool_free(&model->pool);
    FUZZ_CHECK(model->pool.allocated == 0, "a buffer did not go back to its pool");
    fuzz_delete(model);
}

static struct expected *expected_of(struct reassembly_model *model, uint32_t number)
{
    return &model->expected[number % RAWE_REASSEMBLY_MESSAGES];
}

static void add(struct reassembly_model *model, const struct rawe_fragment *fragment)
{
    uint32_t ahead = fragment->id - model->reassembly.next;
    enum rawe_reassembly_result result =
        rawe_reassembly_add(&model->reassembly, &model->pool, fragment);
    FUZZ_CHECK(result != RAWE_REASSEMBLY_NO_BUFFER || ahead != 0,
               "the message all others wait for was put off");
    if (result == RAWE_REASSEMBLY_REFUSED || result == RAWE_REASSEMBLY_NO_BUFFER) {
        return;
    }
    FUZZ_CHECK(ahead < RAWE_REASSEMBLY_MESSAGES && fragment->total_bytes <= MESSAGE_BYTES_MAX,
               "a part was taken that no honest sender sends");
    struct expected *expected = expected_of(model, fragment->id);
    FUZZ_CHECK(expected->received_bytes == 0 || expected->kind == fragment->kind,
               "parts of two kinds make up a message");
    expected->kind = fragment->kind;
    expected->received_bytes += fragment->data_bytes;
    memcpy(expected->bytes + fragment->offset, fragment->data, fragment->data_bytes);
    memset(expected->came + fragment->offset, true, fragment->data_bytes);
}

static void take(struct reassembly_model *model)
{
    struct rawe_partial *whole;
    uint32_t number = model->reassembly.next;
    while ((whole = rawe_reassembly_take(&model->reassembly)) != NULL) {
        FUZZ_CHECK(whole->number == number++, "messages are not taken out in order");
        FUZZ_CHECK(whole->received_bytes == whole->total_bytes, "a message is not whole");
        struct expected *expected = expected_of(model, whole->number);
        FUZZ_CHECK(whole->kind == expected->kind &&
                       whole->received_bytes == expected->received_bytes,
                   "a message is of another kind or length than its parts");
        for (uint32_t i = 0; i < whole->total_bytes; i++) {
            FUZZ_CHECK(!expected->came[i] || whole->content[i] == expected->bytes[i],
                       "a message was put together wrongly");
        }
        memset(expected, 0, sizeof(*expected));
        rawe_buffer_give(&model->pool, whole);
    }
}

void reassembly_model_step(struct reassembly_model *model, uint8_t options, uint16_t a, uint32_t b,
                           uint32_t c, uint32_t d)
{
    uint8_t data[MESSAGE_BYTES_MAX];
    struct rawe_fragment fragment = {
        .kind = (options & 8) != 0 ? RAWE_FRAGMENT_BUNDLE : RAWE_FRAGMENT_PART,
        .tag = (uint8_t)(a >> 14),
        .data_bytes = (uint16_t)(c % MESSAGE_BYTES_MAX),
        .id = model->reassembly.next + (uint32_t)(int8_t)a,
        .total_bytes = d % (MESSAGE_BYTES_MAX + 8),
        .offset = b % MESSAGE_BYTES_MAX,
        .data = data,
    };
    if (fragment.offset + fragment.data_bytes > fragment.total_bytes) {
        fragment.total_bytes =
            (uint32_t)fragment.offset + fragment.data_bytes; /* the decoder sees to that */
    }
    memset(data, (int)(a ^ b ^ c), sizeof(data));
    switch (options % 8) {
    case 0:
        take(model);
        break;
    case 1: {
        uint8_t *place =
            rawe_reassembly_place(&model->reassembly, &model->pool, &fragment, fragment.data_bytes);
        if (place != NULL) { /* received there, then given in: nothing has to be moved */
            memcpy(place, data, fragment.data_bytes);
            fragment.data = place;
            add(model, &fragment);
        }
        break;
    }
    case 2:
        rawe_reassembly_clear(&model->reassembly, &model->pool, 0);
        memset(model->expected, 0, sizeof(model->expected));
        break;
    default:
        add(model, &fragment);
        break;
    }
    FUZZ_CHECK(model->pool.allocated <= model->pool.limit + 1, "more buffers than the limit");
}
