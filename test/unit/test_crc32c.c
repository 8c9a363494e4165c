/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of CRC32C: the vectors of RFC 3720 appendix B.4, and a slow bit-by-bit implementation.
 */
#include <string.h>

/* Include the source file: a processor with the instruction would never use the table. */
#include "base/rawe_crc32c.c"
#include "unit_test.h"

static uint32_t bit_by_bit(const uint8_t *bytes, size_t len_bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len_bytes; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            uint32_t differ = (crc ^ (uint32_t)(bytes[i] >> bit)) & 1;
            crc = (crc >> 1) ^ (differ != 0 ? 0x82F63B78u : 0);
        }
    }
    return ~crc;
}

TEST(rawe_crc32c__vectors_of_the_standard)
{
    uint8_t bytes[32] = {0};
    assert_int_equal(rawe_crc32c(0, bytes, sizeof(bytes)), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof(bytes));
    assert_int_equal(rawe_crc32c(0, bytes, sizeof(bytes)), 0x62A8AB43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(rawe_crc32c(0, bytes, sizeof(bytes)), 0x46DD794E);
    assert_int_equal(rawe_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(rawe_crc32c(0, bytes, 0), 0);
}

TEST(rawe_crc32c__every_length_and_alignment)
{
    uint8_t bytes[80];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 37 + 11);
    }
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t len_bytes = 0; begin + len_bytes <= sizeof(bytes); len_bytes++) {
            assert_int_equal(rawe_crc32c(0, bytes + begin, len_bytes),
                             bit_by_bit(bytes + begin, len_bytes));
        }
    }
}

TEST(rawe_crc32c__pieces_give_what_the_whole_gives)
{
    uint8_t bytes[60];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * i + 3);
    }
    uint32_t whole = rawe_crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        uint32_t crc = rawe_crc32c(0, bytes, cut);
        assert_int_equal(rawe_crc32c(crc, bytes + cut, sizeof(bytes) - cut), whole);
    }
}

TEST(by_table__gives_what_the_instruction_gives)
{
    uint8_t bytes[80];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 91 + 5);
    }
    for (size_t len_bytes = 0; len_bytes <= sizeof(bytes); len_bytes++) {
        assert_int_equal(~by_table(UINT32_MAX, bytes, len_bytes), bit_by_bit(bytes, len_bytes));
        assert_int_equal(~by_table(0x12345678, bytes, len_bytes),
                         rawe_crc32c(~0x12345678u, bytes, len_bytes));
    }
}

/** Try lengths from the shortest folded one to jumbo frames, at every alignment. */
TEST(by_folding__gives_what_the_table_gives)
{
    static uint8_t bytes[9100];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 131 + i / 256 * 17 + 1);
    }
    for (size_t len_bytes = 60; len_bytes < sizeof(bytes) - 16;
         len_bytes += len_bytes < 700 ? 1 : 211) {
        const uint8_t *from = bytes + len_bytes % 16;
        assert_int_equal(rawe_crc32c(0, from, len_bytes), bit_by_bit(from, len_bytes));
        assert_int_equal(rawe_crc32c(len_bytes * 77, from, len_bytes),
                         ~by_table(~(uint32_t)(len_bytes * 77), from, len_bytes));
    }
}
