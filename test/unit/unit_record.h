/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of node 1 that is registered, and accesses to it by the peer object of node 0.
 */
#ifndef UNIT_RECORD_H
#define UNIT_RECORD_H

#include "unit_peer.h"

#define RECORD_MEMORY_BYTES 200000u
#define RECORD_ACCESSES 300u

/** A PUT, GET or atomic operation, with what is known of it. */
struct access {
    struct rawe_operation operation; /**< first: cast back from it */
    unsigned done;
    enum rawe_status status;
    uint64_t before; /**< atomic: the word as it was */
};

extern uint8_t record_memory[RECORD_MEMORY_BYTES];
/** Where GETs bring it, to the same offset; elsewhere it is 0xEE. */
extern uint8_t record_result[RECORD_MEMORY_BYTES];
extern uint32_t record_index;
extern uint64_t record_key;

/** Those made since the memory was registered, in order. */
extern struct access record_accesses[RECORD_ACCESSES];

/** rawe_operation.done of a struct access. */
void record_operation_done(struct rawe_operation *operation, enum rawe_status status);
/**
 * Fill the memory again, and register it for `access`: bits of RAWE_ACCESS_. Nothing is made yet.
 */
void record_grant(unsigned access);
/** Deregister it, if it is registered. */
void record_revoke(void);
/** A peer whose express lane is connected and whose path carries batches or not; its memory. */
void record_start(bool batches);
/** A fixture: record_start with batches; the memory is deregistered at the end. */
void record_set_up(void);
void record_tear_down(void);
/** The next access: a GET that its caller may change before it is made. */
struct access *record_next(uint64_t offset, uint64_t len_bytes);
/** Make a GET. */
struct access *record_get(uint64_t offset, uint64_t len_bytes);
/** Let time pass until nothing is under way any more. */
void record_run(void);
void record_assert_ended(const struct access *access, enum rawe_status status);

#endif
