/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of probes under way.
 */
#include "rawe_probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define INDEX_MASK ((1u << RAWE_PROBE_INDEX_BITS) - 1)

int rawe_probe_table_init(struct rawe_probe_table *table)
{
    pthread_condattr_t attributes;
    int code;

    memset(table, 0, sizeof *table);
    table->free_head = -1;
    code = pthread_condattr_init(&attributes);
    if (code != 0) {
        return code;
    }
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (code == 0) {
        code = pthread_cond_init(&table->answered, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    if (code == 0) {
        code = pthread_mutex_init(&table->lock, NULL);
        if (code != 0) {
            pthread_cond_destroy(&table->answered);
        }
    }
    return code;
}

void rawe_probe_table_destroy(struct rawe_probe_table *table)
{
    for (unsigned i = 0; i < RAWE_PROBE_CHUNKS; i++) {
        free(table->chunks[i]);
    }
    pthread_cond_destroy(&table->answered);
    pthread_mutex_destroy(&table->lock);
}

/** Chunk of an index and place in it: 0..63 lie in chunk 0, 64..191 in chunk 1, and so on. */
static unsigned chunk_of(uint32_t index, uint32_t *place)
{
    const uint32_t shifted = index + RAWE_PROBE_CHUNK_MIN;
    const unsigned chunk = 31u - (unsigned)__builtin_clz(shifted) - 6u;

    *place = shifted - (RAWE_PROBE_CHUNK_MIN << chunk);
    return chunk;
}

struct rawe_probe *rawe_probe_at(const struct rawe_probe_table *table, int index)
{
    uint32_t place;
    const unsigned chunk = chunk_of((uint32_t)index, &place);

    return &__atomic_load_n(&table->chunks[chunk], __ATOMIC_ACQUIRE)[place];
}

/** A probe not in use, under the lock; -1 when there is no memory. */
static int take_unused(struct rawe_probe_table *table)
{
    uint32_t place;

    if (table->free_head >= 0) {
        const int index = table->free_head;
        table->free_head = rawe_probe_at(table, index)->next_free;
        return index;
    }
    const unsigned chunk = chunk_of(table->used, &place);
    if (chunk >= RAWE_PROBE_CHUNKS) {
        return -1;
    }
    if (table->chunks[chunk] == NULL) {
        struct rawe_probe *fresh =
            calloc((size_t)RAWE_PROBE_CHUNK_MIN << chunk, sizeof(struct rawe_probe));
        if (fresh == NULL) {
            return -1;
        }
        __atomic_store_n(&table->chunks[chunk], fresh, __ATOMIC_RELEASE);
    }
    return (int)table->used++;
}

int rawe_probe_add(struct rawe_probe_table *table, const uint8_t mac[RAWE_MAC_BYTES],
                   uint16_t port, uint32_t key, uint32_t payload_bytes)
{
    uint64_t random;

    while (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        if (errno != EINTR) {
            return -1;
        }
    }
    random |= 1ull << 63; /* never 0, which means "not in use" */

    pthread_mutex_lock(&table->lock);
    const int index = take_unused(table);
    if (index >= 0) {
        struct rawe_probe *probe = rawe_probe_at(table, index);
        memcpy(probe->mac, mac, RAWE_MAC_BYTES);
        probe->port = port;
        probe->key = key;
        probe->payload_bytes = payload_bytes;
        __atomic_store_n(&probe->pong_ns, 0, __ATOMIC_RELAXED);
        probe->token = (random & ~(uint64_t)INDEX_MASK) | (uint32_t)index;
    }
    pthread_mutex_unlock(&table->lock);
    return index;
}

void rawe_probe_remove(struct rawe_probe_table *table, int index)
{
    pthread_mutex_lock(&table->lock);
    struct rawe_probe *probe = rawe_probe_at(table, index);
    probe->token = 0;
    probe->next_free = table->free_head;
    table->free_head = index;
    pthread_mutex_unlock(&table->lock);
}

uint64_t rawe_probe_pong_ns(const struct rawe_probe_table *table, int index)
{
    return __atomic_load_n(&rawe_probe_at(table, index)->pong_ns, __ATOMIC_ACQUIRE);
}

bool rawe_probe_answer(struct rawe_probe_table *table, uint64_t token, uint32_t payload_bytes,
                       uint64_t now_ns)
{
    const uint32_t index = (uint32_t)token & INDEX_MASK;
    bool matched = false;

    pthread_mutex_lock(&table->lock);
    if (token != 0 && index < table->used) {
        struct rawe_probe *probe = rawe_probe_at(table, (int)index);
        /* An answer cut short on the way, or made up, proves nothing about the probe's length. */
        if (probe->token == token && probe->payload_bytes == payload_bytes) {
            __atomic_store_n(&probe->pong_ns, now_ns, __ATOMIC_RELEASE);
            __atomic_fetch_add(&table->answers, 1, __ATOMIC_RELEASE);
            pthread_cond_broadcast(&table->answered);
            matched = true;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return matched;
}

uint64_t rawe_probe_answers(const struct rawe_probe_table *table)
{
    return __atomic_load_n(&table->answers, __ATOMIC_ACQUIRE);
}

void rawe_probe_wait(struct rawe_probe_table *table, uint64_t seen, uint64_t until_ns)
{
    const struct timespec until = {
        .tv_sec = (time_t)(until_ns / 1000000000u),
        .tv_nsec = (long)(until_ns % 1000000000u),
    };

    pthread_mutex_lock(&table->lock);
    while (rawe_probe_answers(table) == seen) {
        if (pthread_cond_timedwait(&table->answered, &table->lock, &until) == ETIMEDOUT) {
            break;
        }
    }
    pthread_mutex_unlock(&table->lock);
}
