/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_crc32c.h"

#include <stdbool.h>
#include <string.h>

/** The polynomial 0x1EDC6F41, bits reversed. */
#define POLYNOMIAL 0x82F63B78u

static uint32_t table[256];
static bool table_filled;

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        table[i] = crc;
    }
    __atomic_store_n(&table_filled, true, __ATOMIC_RELEASE);
}

static uint32_t by_table(uint32_t crc, const uint8_t *bytes, size_t len_bytes)
{
    if (!__atomic_load_n(&table_filled, __ATOMIC_ACQUIRE)) {
        fill_table(); /* threads that do this at the same time write the same values */
    }
    for (size_t i = 0; i < len_bytes; i++) {
        crc = (crc >> 8) ^ table[(crc ^ bytes[i]) & 0xFF];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *bytes,
                                                                 size_t len_bytes)
{
    uint64_t wide = crc;
    for (; len_bytes >= 8; bytes += 8, len_bytes -= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len_bytes != 0; bytes++, len_bytes--) {
        crc = __builtin_ia32_crc32qi(crc, *bytes);
    }
    return crc;
}
#endif

uint32_t rawe_crc32c(uint32_t crc, const void *bytes, size_t len_bytes)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return ~by_instruction(crc, bytes, len_bytes);
    }
#endif
    return ~by_table(crc, bytes, len_bytes);
}
