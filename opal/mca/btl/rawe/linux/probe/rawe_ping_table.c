/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of pings under way.
 */
#include "rawe_ping_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define INDEX_MASK ((1u << RAWE_PING_INDEX_BITS) - 1)

int rawe_ping_table_init(struct rawe_ping_table *table)
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

void rawe_ping_table_destroy(struct rawe_ping_table *table)
{
    for (unsigned i = 0; i < RAWE_PING_BLOCKS; i++) {
        free(table->blocks[i]);
    }
    pthread_cond_destroy(&table->answered);
    pthread_mutex_destroy(&table->lock);
}

/** Block of an index and place in it: 0..63 lie in block 0, 64..191 in block 1, and so on. */
static unsigned block_of(uint32_t index, uint32_t *place)
{
    const uint32_t shifted = index + RAWE_PING_BLOCK_MIN;
    const unsigned block = 31u - (unsigned)__builtin_clz(shifted) - 6u;

    *place = shifted - (RAWE_PING_BLOCK_MIN << block);
    return block;
}

struct rawe_ping_entry *rawe_ping_table_at(const struct rawe_ping_table *table, int index)
{
    uint32_t place;
    const unsigned block = block_of((uint32_t)index, &place);

    return &__atomic_load_n(&table->blocks[block], __ATOMIC_ACQUIRE)[place];
}

/** A ping not in use, under the lock; -1 when there is no memory. */
static int take_unused(struct rawe_ping_table *table)
{
    uint32_t place;

    if (table->free_head >= 0) {
        const int index = table->free_head;
        table->free_head = rawe_ping_table_at(table, index)->next_free;
        return index;
    }
    const unsigned block = block_of(table->used, &place);
    if (block >= RAWE_PING_BLOCKS) {
        return -1;
    }
    if (table->blocks[block] == NULL) {
        struct rawe_ping_entry *fresh =
            calloc((size_t)RAWE_PING_BLOCK_MIN << block, sizeof(struct rawe_ping_entry));
        if (fresh == NULL) {
            return -1;
        }
        __atomic_store_n(&table->blocks[block], fresh, __ATOMIC_RELEASE);
    }
    return (int)table->used++;
}

int rawe_ping_table_add(struct rawe_ping_table *table, const struct rawe_ping_address *to)
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
        struct rawe_ping_entry *ping = rawe_ping_table_at(table, index);
        ping->to = *to;
        __atomic_store_n(&ping->asked_bytes, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&ping->pong_bytes, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&ping->absent_ns, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&ping->pong_ns, 0, __ATOMIC_RELAXED);
        ping->token = (random & ~(uint64_t)INDEX_MASK) | (uint32_t)index;
    }
    pthread_mutex_unlock(&table->lock);
    return index;
}

void rawe_ping_table_remove(struct rawe_ping_table *table, int index)
{
    pthread_mutex_lock(&table->lock);
    struct rawe_ping_entry *ping = rawe_ping_table_at(table, index);
    ping->token = 0;
    ping->next_free = table->free_head;
    table->free_head = index;
    pthread_mutex_unlock(&table->lock);
}

void rawe_ping_table_asked(struct rawe_ping_table *table, int index, uint32_t payload_bytes)
{
    struct rawe_ping_entry *ping = rawe_ping_table_at(table, index);

    if (payload_bytes > __atomic_load_n(&ping->asked_bytes, __ATOMIC_RELAXED)) {
        __atomic_store_n(&ping->asked_bytes, payload_bytes, __ATOMIC_RELAXED);
    }
}

uint64_t rawe_ping_table_pong_ns(const struct rawe_ping_table *table, int index)
{
    return __atomic_load_n(&rawe_ping_table_at(table, index)->pong_ns, __ATOMIC_ACQUIRE);
}

uint64_t rawe_ping_table_absent_ns(const struct rawe_ping_table *table, int index)
{
    return __atomic_load_n(&rawe_ping_table_at(table, index)->absent_ns, __ATOMIC_ACQUIRE);
}

uint32_t rawe_ping_table_pong_bytes(const struct rawe_ping_table *table, int index)
{
    return __atomic_load_n(&rawe_ping_table_at(table, index)->pong_bytes, __ATOMIC_ACQUIRE);
}

bool rawe_ping_table_answer(struct rawe_ping_table *table, uint64_t token, uint32_t payload_bytes,
                            bool serviced, uint64_t now_ns)
{
    const uint32_t index = (uint32_t)token & INDEX_MASK;
    bool matched = false;

    pthread_mutex_lock(&table->lock);
    if (token != 0 && index < table->used) {
        struct rawe_ping_entry *ping = rawe_ping_table_at(table, (int)index);
        /* An answer longer than all that was asked is made up. */
        if (ping->token == token &&
            payload_bytes <= __atomic_load_n(&ping->asked_bytes, __ATOMIC_RELAXED)) {
            if (payload_bytes > ping->pong_bytes) {
                __atomic_store_n(&ping->pong_bytes, payload_bytes, __ATOMIC_RELEASE);
            }
            if (!serviced) {
                __atomic_store_n(&ping->absent_ns, now_ns, __ATOMIC_RELEASE);
            }
            __atomic_store_n(&ping->pong_ns, now_ns, __ATOMIC_RELEASE);
            __atomic_fetch_add(&table->answers, 1, __ATOMIC_RELEASE);
            pthread_cond_broadcast(&table->answered);
            matched = true;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return matched;
}

uint64_t rawe_ping_table_answers(const struct rawe_ping_table *table)
{
    return __atomic_load_n(&table->answers, __ATOMIC_ACQUIRE);
}

void rawe_ping_table_wait(struct rawe_ping_table *table, uint64_t seen, uint64_t until_ns)
{
    const struct timespec until = {
        .tv_sec = (time_t)(until_ns / 1000000000u),
        .tv_nsec = (long)(until_ns % 1000000000u),
    };

    pthread_mutex_lock(&table->lock);
    while (rawe_ping_table_answers(table) == seen) {
        if (pthread_cond_timedwait(&table->answered, &table->lock, &until) == ETIMEDOUT) {
            break;
        }
    }
    pthread_mutex_unlock(&table->lock);
}
