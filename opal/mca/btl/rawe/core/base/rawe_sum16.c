/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_sum16.h"

#include <string.h>

#define TCP_PROTOCOL 6u

void rawe_pseudo_encode(uint8_t out[RAWE_PSEUDO_BYTES], const uint8_t addresses[8],
                        uint16_t tcp_bytes)
{
    memcpy(out, addresses, 8);
    out[8] = 0;
    out[9] = TCP_PROTOCOL;
    out[10] = (uint8_t)(tcp_bytes >> 8);
    out[11] = (uint8_t)tcp_bytes;
}

/*
 * Add 32-bit words in the processor's byte order. The order only affects the byte order of the
 * folded sum (RFC 1071 section 2). A 64-bit sum has room for 16 GiB.
 */
uint64_t rawe_sum16_add(uint64_t sum, const void *bytes, size_t len_bytes)
{
    const uint8_t *at = bytes;
    uint64_t low = sum, high = 0;
    for (; len_bytes >= 16; at += 16, len_bytes -= 16) {
        uint64_t words[2];
        memcpy(words, at, sizeof(words));
        low += (words[0] & UINT32_MAX) + (words[1] & UINT32_MAX);
        high += (words[0] >> 32) + (words[1] >> 32);
    }
    sum = low + high;
    for (; len_bytes >= 2; at += 2, len_bytes -= 2) {
        uint16_t word;
        memcpy(&word, at, sizeof(word));
        sum += word;
    }
    if (len_bytes != 0) {
        uint16_t word = 0;
        memcpy(&word, at, 1);
        sum += word;
    }
    return sum;
}

uint16_t rawe_sum16_fold(uint64_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & UINT16_MAX) + (sum >> 16);
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    sum = (sum & 0xFF) << 8 | sum >> 8;
#endif
    return (uint16_t)sum;
}

bool rawe_sum16_right(const uint8_t addresses[8], const uint8_t *head, size_t head_bytes,
                      const uint8_t *data, size_t data_bytes)
{
    uint8_t pseudo[RAWE_PSEUDO_BYTES];
    rawe_pseudo_encode(pseudo, addresses, (uint16_t)(head_bytes + data_bytes));
    uint64_t sum = rawe_sum16_add(0, pseudo, sizeof(pseudo));
    sum = rawe_sum16_add(sum, head, head_bytes);
    return rawe_sum16_fold(rawe_sum16_add(sum, data, data_bytes)) == UINT16_MAX;
}
