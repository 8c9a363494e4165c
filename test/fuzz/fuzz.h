/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared parts of the fuzz targets: reading the fuzzer's bytes, failing, guarded memory, and the
 * input format from which the mutator knows the places of fields.
 *
 * A target is one function, LLVMFuzzerTestOneInput. Linked with libFuzzer, it is fuzzed (see
 * `run`); linked with fuzz_main.c, it is an ordinary program that replays files and needs no clang.
 */
#ifndef RAWE_FUZZ_H
#define RAWE_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/* libFuzzer's interface, as its documentation gives it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len_bytes, size_t max_bytes, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t len_bytes, size_t max_bytes);

/** Check an invariant: if violated, end the program with a message; libFuzzer keeps the input. */
#define FUZZ_CHECK(condition, text)                          \
    do {                                                     \
        if (!(condition)) {                                  \
            fuzz_fail(__FILE__, __LINE__, #condition, text); \
        }                                                    \
    } while (0)

_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *text);

/** The fuzzer's bytes, read from front to back; zeros when they are used up. */
struct fuzz_input {
    const uint8_t *at, *end;
};

static inline size_t fuzz_left(const struct fuzz_input *input)
{
    return (size_t)(input->end - input->at);
}

/** Take the next `bytes` (at most 8), least significant first. */
static inline uint64_t fuzz_take(struct fuzz_input *input, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && input->at != input->end; i++) {
        value |= (uint64_t)*input->at++ << (8 * i);
    }
    return value;
}

/**
 * Frames in inputs have their version XORed with the wire version: 0 is the current one, whatever
 * that is. So inputs need not be remade when the wire version changes.
 */
static inline void fuzz_set_version(uint8_t *version_type)
{
    *version_type ^= RAWE_FRAME_VERSION << 4;
}

/** A small random generator for mutators and for arbitrary bytes. */
static inline uint32_t fuzz_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

/*
 * Inputs of some targets are scripts: settings, then records of one step each:
 *
 *   0 operation | 1 options | 2 a, 16 bits | 4 b | 8 c | 12 d
 *
 * Every sequence of bytes is a script.
 */
#define FUZZ_HEAD_BYTES 4u
#define FUZZ_STEP_BYTES 16u

struct fuzz_step {
    uint8_t operation, options;
    uint16_t a;
    uint32_t b, c, d;
};

static inline struct fuzz_step fuzz_take_step(struct fuzz_input *input)
{
    struct fuzz_step step;
    step.operation = (uint8_t)fuzz_take(input, 1);
    step.options = (uint8_t)fuzz_take(input, 1);
    step.a = (uint16_t)fuzz_take(input, 2);
    step.b = (uint32_t)fuzz_take(input, 4);
    step.c = (uint32_t)fuzz_take(input, 4);
    step.d = (uint32_t)fuzz_take(input, 4);
    return step;
}

/** Number of inputs whose frame was accepted; counted by target `decode`. */
extern unsigned fuzz_accepted;

/** Defined by targets that are linked with fuzz_records.c. */
extern const unsigned fuzz_operations, fuzz_steps_max;

/** Allocate memory; never returns NULL. */
void *fuzz_new(size_t len_bytes);
void fuzz_delete(void *memory);

/** Copy bytes to memory of exactly that length, so that the address sanitizer sees reads beyond. */
uint8_t *fuzz_copy(const void *bytes, size_t len_bytes);

/** Allocate zeroed memory between guard bytes that nothing may write. */
uint8_t *fuzz_guarded_new(size_t len_bytes);
/** Check the guard bytes, and free the memory. */
void fuzz_guarded_delete(uint8_t *memory, size_t len_bytes);

#endif
