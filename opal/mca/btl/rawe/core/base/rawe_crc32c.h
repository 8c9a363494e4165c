/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CRC32C (Castagnoli; RFC 3720 appendix B.4), by the processor's instruction where there is one.
 */
#ifndef RAWE_CRC32C_H
#define RAWE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** Begin with 0; feed the result of one piece into the next. */
uint32_t rawe_crc32c(uint32_t crc, const void *bytes, size_t len_bytes);

#endif
