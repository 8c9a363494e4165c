/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Accesses to registered memory through a peer object, for their tests: node 1 has registered
 * memory, node 0 reads and changes it by GET, atomic operations and short PUTs.
 */
#ifndef UNIT_RECORD_H
#define UNIT_RECORD_H

#include "unit_peer.h"

#include "conn/rawe_conn_record.h"

#define RECORD_MEMORY_BYTES 200000u
#define RECORD_ACCESSES 300u

/** What node 1 has registered: unit_fill with seed 1. */
extern uint8_t record_memory[RECORD_MEMORY_BYTES];
extern uint32_t record_index;
extern uint64_t record_key;
/** Where GETs bring it, to the same offset; elsewhere it is 0xEE. */
extern uint8_t record_result[RECORD_MEMORY_BYTES];

/** A GET or an atomic operation, with what is known of it. */
struct access {
    struct rawe_operation operation; /**< first: cast back from it */
    unsigned done;
    enum rawe_status status;
    uint64_t before; /**< atomic: the word as it was */
};
/** Those made since the memory was registered, in order. */
extern struct access record_accesses[RECORD_ACCESSES];
/** Short PUTs, by their number. */
extern struct unit_send record_puts[RECORD_ACCESSES];

/** A fixture: record_start with batches; the memory is deregistered at the end. */
void record_set_up(void);
void record_tear_down(void);
/** A peer whose express lane is connected and whose path carries batches or not; its memory. */
void record_start(bool batches);
/** Register the memory, filled anew, for `access`: bits of RAWE_ACCESS_. Nothing is made yet. */
void record_grant(unsigned access);
/** Deregister it, if it is registered. */
void record_revoke(void);

/** The next access: a GET that its caller may change before it is made. */
struct access *record_next(uint64_t offset, uint64_t len_bytes);
/** Make a GET. */
struct access *record_get(uint64_t offset, uint64_t len_bytes);
/** Make an atomic operation. */
struct access *record_atomic(enum rawe_atomic what, uint64_t offset, uint64_t word_bytes,
                             uint64_t operand, uint64_t compare);
/** rawe_operation.done of a struct access. */
void record_operation_done(struct rawe_operation *operation, enum rawe_status status);
/** Make short PUT `number`; false when it is too long for that. */
bool record_put(unsigned number, void *data, size_t len_bytes, uint64_t offset);
/** Let time pass until nothing is under way any more. */
void record_run(void);
/** A GET is complete, and brought what is there. */
void record_assert_got(const struct access *access, uint64_t offset, size_t len_bytes);
/** A filter: every third data frame is lost, the first time it is sent. */
bool record_lose_some(struct unit_net *unused, const struct net_frame *frame);

#endif
