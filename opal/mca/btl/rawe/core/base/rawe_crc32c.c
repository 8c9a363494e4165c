/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_crc32c.h"

#include <stdbool.h>
#include <string.h>

/** The polynomial 0x1EDC6F41, bit-reversed. */
#define POLYNOMIAL 0x82F63B78u

/** Bytes per step of by_table. */
#define SLICES 8u

/** `table[i][b]`: the contribution of byte b to the CRC if i bytes follow it. */
static uint32_t table[SLICES][256];
static bool table_filled;

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (unsigned slice = 0; slice < SLICES; slice++) {
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
            }
            table[slice][i] = crc;
        }
    }
    __atomic_store_n(&table_filled, true, __ATOMIC_RELEASE);
}

/** For processors without a CRC32C instruction: slicing by 8 (Kounavis and Berry, 2005). */
static uint32_t by_table(uint32_t crc, const uint8_t *bytes, size_t len_bytes)
{
    if (!__atomic_load_n(&table_filled, __ATOMIC_ACQUIRE)) {
        fill_table(); /* concurrent threads write the same values */
    }
    for (; len_bytes >= SLICES; bytes += SLICES, len_bytes -= SLICES) {
        uint32_t next = 0;
        for (unsigned i = 0; i < SLICES; i++) {
            uint8_t byte = bytes[i] ^ (uint8_t)(i < 4 ? crc >> 8 * i : 0);
            next ^= table[SLICES - 1 - i][byte];
        }
        crc = next;
    }
    for (; len_bytes != 0; bytes++, len_bytes--) {
        crc = (crc >> 8) ^ table[0][(crc ^ *bytes) & 0xFF];
    }
    return crc;
}

#if defined(__x86_64__)
/** The instruction belongs to SSE 4.2. clang 14 and later also require its own name. */
#if defined(__clang__) && __clang_major__ >= 14
#define WITH_CRC32 "sse4.2,crc32"
#else
#define WITH_CRC32 "sse4.2"
#endif

__attribute__((hot)) __attribute__((target(WITH_CRC32))) static uint32_t by_instruction(
    uint32_t crc, const uint8_t *bytes, size_t len_bytes)
{
    uint64_t wide = crc;
    for (; len_bytes >= 8; bytes += 8, len_bytes -= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    if ((len_bytes & 4) != 0) {
        uint32_t word;
        memcpy(&word, bytes, sizeof(word));
        crc = __builtin_ia32_crc32si(crc, word);
        bytes += sizeof(word);
    }
    if ((len_bytes & 2) != 0) {
        uint16_t word;
        memcpy(&word, bytes, sizeof(word));
        crc = __builtin_ia32_crc32hi(crc, word);
        bytes += sizeof(word);
    }
    return (len_bytes & 1) != 0 ? __builtin_ia32_crc32qi(crc, *bytes) : crc;
}

/*
 * The CRC32C instruction takes three cycles for 8 bytes, and each one depends on the previous one.
 * Therefore long data is folded (Gopal et al., "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ", Intel 2009): multiplying 16 bytes by x^n modulo the polynomial moves them forward
 * onto later bytes, without changing the remainder. Four lanes are processed independently. The
 * constants are x^n for the two halves of a lane, bit-reversed.
 */
#define LANES 4u
#define LANE_BYTES 16u
#define FOLD_BYTES (LANES * LANE_BYTES)

/** Shorter data gains nothing from folding. */
#define FOLD_FROM_BYTES 192u

typedef long long lane __attribute__((vector_size(16)));

#define FOLDING __attribute__((target(WITH_CRC32 ",pclmul")))

FOLDING static inline lane load_lane(const uint8_t *bytes)
{
    lane loaded;
    memcpy(&loaded, bytes, sizeof(loaded));
    return loaded;
}

/** Move a lane forward by the distance that the constants encode, and add it to `onto`. */
FOLDING static inline lane fold_lane(lane from, lane constants, lane onto)
{
    return __builtin_ia32_pclmulqdq128(from, constants, 0x00) ^
           __builtin_ia32_pclmulqdq128(from, constants, 0x11) ^ onto;
}

FOLDING static uint32_t by_folding(uint32_t crc, const uint8_t *bytes, size_t len_bytes)
{
    const lane far = {0x740EEF02, 0x9E4ADDF8};  /* FOLD_BYTES: x^543, x^479 */
    const lane near = {0xF20C0DFE, 0x493C7D27}; /* LANE_BYTES: x^159, x^95 */
    lane lanes[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i] = load_lane(bytes + i * LANE_BYTES);
    }
    lanes[0] ^= (lane){crc, 0};
    bytes += FOLD_BYTES;
    len_bytes -= FOLD_BYTES;
    for (; len_bytes >= FOLD_BYTES; bytes += FOLD_BYTES, len_bytes -= FOLD_BYTES) {
        for (unsigned i = 0; i < LANES; i++) {
            lanes[i] = fold_lane(lanes[i], far, load_lane(bytes + i * LANE_BYTES));
        }
    }
    lane last = lanes[0];
    for (unsigned i = 1; i < LANES; i++) {
        last = fold_lane(last, near, lanes[i]);
    }
    uint64_t wide = __builtin_ia32_crc32di(0, (uint64_t)last[0]);
    wide = __builtin_ia32_crc32di(wide, (uint64_t)last[1]);
    return by_instruction((uint32_t)wide, bytes, len_bytes);
}
#endif

__attribute__((hot)) uint32_t rawe_crc32c(uint32_t crc, const void *bytes, size_t len_bytes)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return ~(len_bytes >= FOLD_FROM_BYTES && __builtin_cpu_supports("pclmul")
                     ? by_folding(crc, bytes, len_bytes)
                     : by_instruction(crc, bytes, len_bytes));
    }
#endif
    return ~by_table(crc, bytes, len_bytes);
}
