/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../sys/rawe_random.h"

#define INDEX_BITS 24u
#define INDEX_MASK ((1u << INDEX_BITS) - 1)

void rawe_watch_table_init(struct rawe_watch_table *table)
{
    (void)pthread_mutex_init(&table->lock, NULL);
}

void rawe_watch_table_destroy(struct rawe_watch_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        free(table->watches[i]);
    }
    free(table->watches);
    pthread_mutex_destroy(&table->lock);
}

/** Find an unused index with room in the table. False when out of memory. Lock held. */
static bool find_index(struct rawe_watch_table *table, uint32_t *out)
{
    uint32_t index = table->free_from;

    while (index < table->used && table->watches[index] != NULL) {
        index++;
    }
    if (index == table->used) {
        /* The capacity is a power of two. */
        const size_t room = index == 0 ? 1 : 2 * (size_t)index;
        struct rawe_watch **more = (index & (index - 1)) != 0 ? table->watches
                                   : index > INDEX_MASK
                                       ? NULL
                                       : realloc(table->watches, room * sizeof more[0]);
        if (more == NULL) {
            return false;
        }
        table->watches = more;
        table->used++;
    }
    table->free_from = index + 1;
    *out = index;
    return true;
}

struct rawe_watch *rawe_watch_begin(struct rawe_watch_table *table,
                                    const struct rawe_ping_address *to)
{
    struct rawe_watch *watch = calloc(1, sizeof *watch);
    uint64_t random;
    uint32_t index;

    while (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        if (errno != EINTR) {
            free(watch);
            return NULL;
        }
    }
    pthread_mutex_lock(&table->lock);
    if (watch != NULL && find_index(table, &index)) {
        watch->to = *to;
        watch->token = 1ull << 63 | (random & ~(uint64_t)INDEX_MASK) | index;
        table->watches[index] = watch;
    } else {
        free(watch);
        watch = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    return watch;
}

/** Take a watch out of the table; the caller frees it. Lock held. */
static void take_out(struct rawe_watch_table *table, const struct rawe_watch *watch)
{
    const uint32_t index = watch->token & INDEX_MASK;

    table->watches[index] = NULL;
    table->free_from = index < table->free_from ? index : table->free_from;
}

void rawe_watch_end(struct rawe_watch_table *table, struct rawe_watch *watch)
{
    if (watch != NULL) {
        pthread_mutex_lock(&table->lock);
        take_out(table, watch);
        pthread_mutex_unlock(&table->lock);
        free(watch);
    }
}

/** Return true if both are the same responder, whatever its MAC address is. */
static bool is_same(const struct rawe_ping_address *to, uint16_t port, uint32_t key)
{
    return to->port == port && to->key == key;
}

void rawe_watch_take_back(struct rawe_watch_table *table, const struct rawe_ping_address *to)
{
    if (__atomic_load_n(&table->given_up, __ATOMIC_RELAXED) == 0) {
        return;
    }
    pthread_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < table->used; i++) {
        struct rawe_watch *watch = table->watches[i];
        if (watch != NULL && watch->given_up && is_same(&watch->to, to->port, to->key)) {
            take_out(table, watch); /* before another thread finds it, too */
            __atomic_fetch_sub(&table->sought, 1, __ATOMIC_RELAXED);
            __atomic_fetch_sub(&table->given_up, 1, __ATOMIC_RELAXED);
            free(watch);
        }
    }
    pthread_mutex_unlock(&table->lock);
}

struct rawe_watch *rawe_watch_seek(struct rawe_watch_table *table,
                                   const struct rawe_ping_address *to)
{
    rawe_watch_take_back(table, to);
    struct rawe_watch *watch = rawe_watch_begin(table, to);
    __atomic_fetch_add(&table->sought, watch != NULL, __ATOMIC_RELAXED);
    return watch;
}

void rawe_watch_unseek(struct rawe_watch_table *table, struct rawe_watch *watch)
{
    __atomic_fetch_sub(&table->sought, watch != NULL, __ATOMIC_RELAXED);
    rawe_watch_end(table, watch);
}

void rawe_watch_give_up(struct rawe_watch_table *table, struct rawe_watch *watch)
{
    pthread_mutex_lock(&table->lock);
    watch->given_up = true; /* from now on, another thread may free it */
    __atomic_fetch_add(&table->given_up, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&table->lock);
}

bool rawe_watch_pinged(struct rawe_watch_table *table, const struct rawe_ping *ping)
{
    bool given_up = false;

    if (__atomic_load_n(&table->sought, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    pthread_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < table->used; i++) {
        struct rawe_watch *watch = table->watches[i];
        if (watch != NULL && is_same(&watch->to, ping->port, ping->key)) {
            __atomic_store_n(&watch->heard, true, __ATOMIC_RELAXED);
            given_up = given_up || watch->given_up;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return given_up;
}

/** Record a matching answer. Lock held. */
static void record(struct rawe_watch *watch, const uint8_t source[RAWE_MAC_BYTES],
                   const struct rawe_header *pong, uint64_t now_ns)
{
    const bool refused = (pong->flags & RAWE_FLAG_GIVEN_UP) != 0;

    __atomic_store_n(&watch->refused, refused, __ATOMIC_RELAXED);
    if (pong->payload_bytes > watch->pong_bytes && !refused) {
        __atomic_store_n(&watch->pong_bytes, pong->payload_bytes, __ATOMIC_RELEASE);
    }
    if ((pong->flags & RAWE_FLAG_SERVICED) == 0) {
        __atomic_store_n(&watch->absent_ns, now_ns, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&watch->from, rawe_mac_number(source), __ATOMIC_RELAXED);
    __atomic_store_n(&watch->pong_ns, now_ns, __ATOMIC_RELEASE);
}

bool rawe_watch_answered(struct rawe_watch_table *table, const uint8_t source[RAWE_MAC_BYTES],
                         uint16_t source_port, uint64_t token, const struct rawe_header *pong,
                         uint64_t now_ns)
{
    const uint32_t index = (uint32_t)token & INDEX_MASK;
    bool matched = false;

    pthread_mutex_lock(&table->lock);
    struct rawe_watch *watch = index < table->used ? table->watches[index] : NULL;
    if (watch != NULL) {
        /* An answer longer than every PING is forged. Over UDP the link below it answers. */
        matched = watch->token == token &&
                  (source_port == 0 || source_port + 1u == watch->to.port) &&
                  pong->payload_bytes <= __atomic_load_n(&watch->asked_bytes, __ATOMIC_RELAXED);
        if (matched) {
            record(watch, source, pong, now_ns);
        }
    }
    pthread_mutex_unlock(&table->lock);
    return matched;
}

uint64_t rawe_watch_last_pong_ns(const struct rawe_watch *watch)
{
    return __atomic_load_n(&watch->pong_ns, __ATOMIC_ACQUIRE);
}

uint64_t rawe_watch_last_absent_ns(const struct rawe_watch *watch)
{
    return __atomic_load_n(&watch->absent_ns, __ATOMIC_ACQUIRE);
}

bool rawe_watch_answered_from(const struct rawe_watch *watch, uint8_t mac[RAWE_MAC_BYTES])
{
    bool answered = rawe_watch_last_pong_ns(watch) != 0;

    rawe_mac_of_number(__atomic_load_n(&watch->from, __ATOMIC_RELAXED), mac);
    return answered;
}
