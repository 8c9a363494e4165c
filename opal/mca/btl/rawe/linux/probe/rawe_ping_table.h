/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The pings this process has under way: to which responder, and which answers came. A ping is known
 * on the wire by its token alone, most of it random, so that a forged answer finds nothing. It may
 * be sent in several lengths.
 */
#ifndef RAWE_PING_TABLE_H
#define RAWE_PING_TABLE_H

#include <pthread.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"

/** Token: 40 random bits, then the index of the ping. */
#define RAWE_PING_INDEX_BITS 24u
#define RAWE_PING_BLOCK_MIN 64u
#define RAWE_PING_BLOCKS (RAWE_PING_INDEX_BITS - 6u)

/** Where a responder is reached. */
struct rawe_ping_address {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
};

struct rawe_ping_entry {
    uint64_t token;       /**< 0: not in use */
    uint64_t pong_ns;     /**< when the newest answer came (CLOCK_MONOTONIC); 0: never; atomic */
    uint64_t absent_ns;   /**< the same of answers without RAWE_FLAG_SERVICED; atomic */
    uint32_t asked_bytes; /**< payload of the longest PING sent; atomic */
    uint32_t pong_bytes;  /**< payload of the longest answer, 0: none; atomic */
    struct rawe_ping_address to;
    int next_free;
};

struct rawe_ping_table {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    uint64_t answers; /**< answers that matched so far; atomic */
    /** Block k holds 64 << k pings: they never move, so they are read without the lock. */
    struct rawe_ping_entry *blocks[RAWE_PING_BLOCKS];
    uint32_t used; /**< pings ever in use at the same time */
    int free_head; /**< list of those no longer in use; -1: none */
};

/** Returns 0 or an errno value. */
int rawe_ping_table_init(struct rawe_ping_table *table);
void rawe_ping_table_destroy(struct rawe_ping_table *table);

/** Returns the new ping's index, or -1 when there is no memory. */
int rawe_ping_table_add(struct rawe_ping_table *table, const struct rawe_ping_address *to);
void rawe_ping_table_remove(struct rawe_ping_table *table, int index);

/** The ping of an index that was added and not removed yet. */
struct rawe_ping_entry *rawe_ping_table_at(const struct rawe_ping_table *table, int index);

/** A PING of this length is about to be sent. */
void rawe_ping_table_asked(struct rawe_ping_table *table, int index, uint32_t payload_bytes);

/** When the newest answer came; 0: never. */
uint64_t rawe_ping_table_pong_ns(const struct rawe_ping_table *table, int index);

/** When the newest answer came of a process that makes no progress; 0: never. */
uint64_t rawe_ping_table_absent_ns(const struct rawe_ping_table *table, int index);

/** Payload of the longest answer; 0: none has come. */
uint32_t rawe_ping_table_pong_bytes(const struct rawe_ping_table *table, int index);

/** An answer came in: note it if it matches a PING, and wake the waiting threads. Returns whether it matches. */
bool rawe_ping_table_answer(struct rawe_ping_table *table, uint64_t token, uint32_t payload_bytes,
                            bool serviced, uint64_t now_ns);

/** How many answers have come in. */
uint64_t rawe_ping_table_answers(const struct rawe_ping_table *table);

/** Sleep until there are more answers than `seen`, or until `until_ns` (CLOCK_MONOTONIC). */
void rawe_ping_table_wait(struct rawe_ping_table *table, uint64_t seen, uint64_t until_ns);

#endif
