/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the IPv4 and TCP checksum, against the example of RFC 1071, a well-known header and a
 * slow implementation.
 */
#include <string.h>

#include "base/rawe_sum16.h"
#include "unit_test.h"

static const uint8_t addresses[8] = {255, 255, 255, 255, 0, 0, 0, 2};

static uint16_t word_by_word(const uint8_t *bytes, size_t len_bytes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < len_bytes; i += 2) {
        sum += (uint32_t)bytes[i] << 8 | (i + 1 < len_bytes ? bytes[i + 1] : 0);
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    return (uint16_t)sum;
}

TEST(rawe_sum16_fold__examples)
{
    static const uint8_t rfc_1071[] = {0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7};
    static const uint8_t ipv4[] = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                   0xB8, 0x61, 0xC0, 0xA8, 0x00, 0x01, 0xC0, 0xA8, 0x00, 0xC7};
    assert_int_equal(rawe_sum16_fold(rawe_sum16_add(0, rfc_1071, sizeof(rfc_1071))), 0xDDF2);
    assert_int_equal(rawe_sum16_fold(rawe_sum16_add(0, ipv4, sizeof(ipv4))), 0xFFFF);
    assert_int_equal(rawe_sum16_fold(0), 0);
}

TEST(rawe_sum16_add__every_length_alignment_and_cut)
{
    uint8_t bytes[100];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(255 - i * i * 7 % 90);
    }
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t len_bytes = 0; begin + len_bytes <= sizeof(bytes); len_bytes++) {
            const uint16_t expected = word_by_word(bytes + begin, len_bytes);
            for (size_t cut = 0; cut <= len_bytes; cut += 2) {
                uint64_t sum = rawe_sum16_add(0, bytes + begin, cut);
                sum = rawe_sum16_add(sum, bytes + begin + cut, len_bytes - cut);
                assert_int_equal(rawe_sum16_fold(sum), expected);
            }
        }
    }
}

TEST(rawe_sum16_right__finds_every_change_of_a_byte)
{
    uint8_t packet[60 + 77], changed_addresses[8];
    memset(packet, 0xFF, sizeof(packet));
    memset(packet + 40, 0, 50);
    packet[16] = packet[17] = 0;
    uint8_t pseudo[RAWE_PSEUDO_BYTES];
    rawe_pseudo_encode(pseudo, addresses, sizeof(packet));
    const uint16_t sum = (uint16_t)~rawe_sum16_fold(
        rawe_sum16_add(rawe_sum16_add(0, pseudo, sizeof(pseudo)), packet, sizeof(packet)));
    packet[16] = (uint8_t)(sum >> 8);
    packet[17] = (uint8_t)sum;
    assert_true(rawe_sum16_right(addresses, packet, 60, packet + 60, 77));
    for (size_t i = 0; i < sizeof(packet); i++) {
        for (unsigned change = 1; change < 256; change++) {
            packet[i] ^= (uint8_t)change;
            assert_false(rawe_sum16_right(addresses, packet, 60, packet + 60, 77));
            packet[i] ^= (uint8_t)change;
        }
    }
    memcpy(changed_addresses, addresses, sizeof(addresses));
    changed_addresses[7]++;
    assert_false(rawe_sum16_right(changed_addresses, packet, 60, packet + 60, 77));
    packet[sizeof(packet) - 1] = 0;
    assert_false(rawe_sum16_right(addresses, packet, 60, packet + 60, 76)); /* cut short */
}
