/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The mutator of scripts: it moves, repeats and removes whole records and changes single fields, so
 * that scripts mostly keep their meaning.
 */
#include "fuzz.h"

#include <string.h>

/** Numbers at the edges of windows, lengths and sequence space. */
static const uint32_t edges[] = {
    0,           1,           2,           3,           4,           7,           8,
    15,          16,          17,          24,          31,          32,          63,
    64,          65,          127,         128,         255,         256,         511,
    512,         1023,        1024,        1025,        1454,        1462,        4095,
    4096,        32767,       32768,       65507,       65528,       65535,       65536,
    1u << 20,    0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFF0000u, 0xFFFFFFF0u, 0xFFFFFFFEu,
    0xFFFFFFFFu,
};

struct script {
    uint8_t *data;
    size_t records;
    size_t records_max;
};

static uint8_t *record_at(const struct script *script, size_t index)
{
    return script->data + FUZZ_HEAD_BYTES + index * FUZZ_STEP_BYTES;
}

/** Make room for `count` records at `index`. */
static void open_gap(struct script *script, size_t index, size_t count)
{
    memmove(record_at(script, index + count), record_at(script, index),
            (script->records - index) * FUZZ_STEP_BYTES);
    script->records += count;
}

static void change_field(uint8_t *record, uint64_t *random)
{
    unsigned at = 1 + fuzz_random(random) % (FUZZ_STEP_BYTES - 1);
    unsigned room = FUZZ_STEP_BYTES - at;
    uint32_t value = edges[fuzz_random(random) % (sizeof(edges) / sizeof(edges[0]))];
    switch (fuzz_random(random) % 6) {
    case 0:
        record[at] = (uint8_t)fuzz_random(random);
        break;
    case 1:
        record[at] ^= (uint8_t)(1u << fuzz_random(random) % 8);
        break;
    case 2:
        record[at] = (uint8_t)(record[at] + fuzz_random(random) % 9 - 4);
        break;
    case 3: /* a field of 16 bits, which has an even offset */
        at &= ~1u;
        room = FUZZ_STEP_BYTES - at;
        memcpy(record + at, &value, room < 2 ? room : 2);
        break;
    default: /* a field of 32 bits */
        at &= ~3u;
        at = at < 4 ? 4 : at;
        room = FUZZ_STEP_BYTES - at;
        memcpy(record + at, &value, room < 4 ? room : 4);
        break;
    }
}

static void new_record(uint8_t *record, uint64_t *random)
{
    memset(record, 0, FUZZ_STEP_BYTES);
    record[0] = (uint8_t)(fuzz_random(random) % fuzz_operations);
    record[1] = (uint8_t)fuzz_random(random);
    record[2] = (uint8_t)fuzz_random(random);
    for (unsigned i = fuzz_random(random) % 4; i != 0; i--) {
        change_field(record, random);
    }
}

static void insert_record(struct script *script, uint64_t *random)
{
    size_t index = fuzz_random(random) % (script->records + 1);
    open_gap(script, index, 1);
    new_record(record_at(script, index), random);
}

/** Copy a run of records to another place. */
static void repeat_records(struct script *script, uint64_t *random)
{
    uint8_t copy[8 * FUZZ_STEP_BYTES];
    size_t from = fuzz_random(random) % script->records;
    size_t count = 1 + fuzz_random(random) % 8;
    count = count < script->records - from ? count : script->records - from;
    count = count < script->records_max - script->records ? count
                                                          : script->records_max - script->records;
    memcpy(copy, record_at(script, from), count * FUZZ_STEP_BYTES);
    size_t to = fuzz_random(random) % (script->records + 1);
    open_gap(script, to, count);
    memcpy(record_at(script, to), copy, count * FUZZ_STEP_BYTES);
}

static void remove_records(struct script *script, uint64_t *random)
{
    size_t from = fuzz_random(random) % script->records;
    size_t count = 1 + fuzz_random(random) % 4;
    count = count < script->records - from ? count : script->records - from;
    memmove(record_at(script, from), record_at(script, from + count),
            (script->records - from - count) * FUZZ_STEP_BYTES);
    script->records -= count;
}

static void swap_records(struct script *script, uint64_t *random)
{
    uint8_t keep[FUZZ_STEP_BYTES];
    uint8_t *a = record_at(script, fuzz_random(random) % script->records);
    uint8_t *b = record_at(script, fuzz_random(random) % script->records);
    memcpy(keep, a, FUZZ_STEP_BYTES);
    memmove(a, b, FUZZ_STEP_BYTES);
    memcpy(b, keep, FUZZ_STEP_BYTES);
}

static void mutate_once(struct script *script, uint64_t *random)
{
    bool room = script->records < script->records_max;
    unsigned choice = fuzz_random(random) % 16;
    if (script->records == 0 || (choice < 4 && room)) {
        if (room) {
            insert_record(script, random);
        }
    } else if (choice < 6 && room) {
        repeat_records(script, random);
    } else if (choice < 8) {
        remove_records(script, random);
    } else if (choice < 9) {
        swap_records(script, random);
    } else if (choice < 10) {
        script->data[fuzz_random(random) % FUZZ_HEAD_BYTES] = (uint8_t)fuzz_random(random);
    } else {
        change_field(record_at(script, fuzz_random(random) % script->records), random);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len_bytes, size_t max_bytes, unsigned seed)
{
    uint64_t random = seed;
    if (max_bytes < FUZZ_HEAD_BYTES + FUZZ_STEP_BYTES || fuzz_random(&random) % 16 == 0) {
        return LLVMFuzzerMutate(data, len_bytes, max_bytes);
    }
    if (len_bytes < FUZZ_HEAD_BYTES) {
        memset(data + len_bytes, 0, FUZZ_HEAD_BYTES - len_bytes);
        len_bytes = FUZZ_HEAD_BYTES;
    }
    struct script script = {
        .data = data,
        .records = (len_bytes - FUZZ_HEAD_BYTES) / FUZZ_STEP_BYTES,
        .records_max = (max_bytes - FUZZ_HEAD_BYTES) / FUZZ_STEP_BYTES,
    };
    if (script.records_max > fuzz_steps_max) {
        script.records_max = fuzz_steps_max;
    }
    if (script.records > script.records_max) {
        script.records = script.records_max;
    }
    for (unsigned i = 1 + fuzz_random(&random) % 4; i != 0; i--) {
        mutate_once(&script, &random);
    }
    return FUZZ_HEAD_BYTES + script.records * FUZZ_STEP_BYTES;
}
