/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rawe frame, or packet of a batch, as one line of text. It is untrusted, and may be cut short
 * by a capture.
 */
#ifndef DUMP_FRAME_H
#define DUMP_FRAME_H

#include <stddef.h>
#include <stdint.h>

/**
 * Describe the frame of `len_bytes` bytes behind its Ethernet header, of which the first
 * `captured_bytes` are at `in`. Writes a text to `out`, cut off if it does not fit. Returns 1, or 0
 * when the frame is malformed.
 */
unsigned dump_frame(char *out, size_t out_bytes, const uint8_t *in, size_t captured_bytes,
                    size_t len_bytes);

/**
 * As dump_frame, for a packet that carries a batch or a part of one; `in` is behind its IPv4
 * header. Returns how many frames it carries.
 */
unsigned dump_batch(char *out, size_t out_bytes, const uint8_t *in, size_t captured_bytes,
                    size_t len_bytes);

#endif
