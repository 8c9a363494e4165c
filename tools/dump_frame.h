/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rawe frame as one line of text. The frame is untrusted, and may be cut short by a capture.
 */
#ifndef DUMP_FRAME_H
#define DUMP_FRAME_H

#include <stddef.h>
#include <stdint.h>

/**
 * Describe the frame of `len_bytes` bytes behind its Ethernet header (or UDP header, in a
 * batch), of which the first `captured_bytes` are at `in`. Writes a text to `out`, cut off if
 * it does not fit. Returns how many bytes the frame takes with its checksum, 0 when it is
 * malformed.
 */
size_t dump_frame(char *out, size_t out_bytes, const uint8_t *in, size_t captured_bytes,
                  size_t len_bytes);

#endif
