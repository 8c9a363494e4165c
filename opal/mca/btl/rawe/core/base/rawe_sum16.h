/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The IPv4 and TCP checksum, carried by the packets of a batch: the one's-complement sum of 16-bit
 * words (RFC 1071).
 */
#ifndef RAWE_SUM16_H
#define RAWE_SUM16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Length of the pseudo-header that TCP's checksum includes: addresses, protocol, length. */
#define RAWE_PSEUDO_BYTES 12u

/** Write the pseudo-header of `tcp_bytes` of TCP between these two IPv4 addresses. */
void rawe_pseudo_encode(uint8_t out[RAWE_PSEUDO_BYTES], const uint8_t addresses[8],
                        uint16_t tcp_bytes);

/** Add a piece to a sum, which starts as 0. Only the last piece may have an odd length. */
uint64_t rawe_sum16_add(uint64_t sum, const void *bytes, size_t len_bytes);

/** Fold the sum of all pieces. Returns 0xFFFF if the data, checksum included, is intact. */
uint16_t rawe_sum16_fold(uint64_t sum);

/** Return true if a TCP packet is intact; `head` begins with the TCP header. */
bool rawe_sum16_right(const uint8_t addresses[8], const uint8_t *head, size_t head_bytes,
                      const uint8_t *data, size_t data_bytes);

#endif
