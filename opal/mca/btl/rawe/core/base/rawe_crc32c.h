/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CRC32C (Castagnoli; RFC 3720 appendix B.4). Uses the CRC32C instruction if available.
 */
#ifndef RAWE_CRC32C_H
#define RAWE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** Continue a CRC, which starts as 0, with another piece of data. Returns the new CRC. */
uint32_t rawe_crc32c(uint32_t crc, const void *bytes, size_t len_bytes);

#endif
