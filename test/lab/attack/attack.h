/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-attack: what the attacker knows (captured frames), and what it makes of that.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ATTACK_FRAME_BYTES_MAX 9014u
#define ATTACK_ETH_BYTES 14u
#define ATTACK_IPV4_BYTES 20u /* in front of batch headers */
#define ATTACK_HEADER_BYTES 24u
#define ATTACK_BATCH_HEADER_BYTES 60u

/** A captured frame: a plain one, or one of a batch, as a cable carries it. */
struct attack_frame {
    size_t len_bytes;
    size_t header_at; /* where the frame header or batch header begins */
    size_t header_bytes;
    uint8_t bytes[ATTACK_FRAME_BYTES_MAX];
};

struct attack_capture {
    struct attack_frame *frames;
    size_t count;
};

/** Kinds of hostile frames; doc/security.md says what each attacker knows. */
#define ATTACK_KINDS(X)                                                 \
    X(random, "random bytes behind the addresses of victim and peer")   \
    X(replay, "captured frames as they were")                           \
    X(blind, "valid headers with hostile fields, port and key guessed") \
    X(forged, "valid headers with hostile fields, port and key known")

enum attack_kind {
#define ATTACK_KIND_NAME(name, text) ATTACK_##name,
    ATTACK_KINDS(ATTACK_KIND_NAME)
#undef ATTACK_KIND_NAME
        ATTACK_KIND_COUNT
};

/** What is wrong with a frame whose header is forged; all other fields may be anything. */
#define ATTACK_WAYS(X)                         \
    X(sequence, "number far off")              \
    X(acknowledgement, "of frames never sent") \
    X(type, "that does not exist")             \
    X(flags, "that do not exist")              \
    X(connection, "that does not exist")       \
    X(length, "beyond the frame")              \
    X(truncated, "header")                     \
    X(source, "address is not the peer's")

enum attack_way {
#define ATTACK_WAY_NAME(name, text) ATTACK_WAY_##name,
    ATTACK_WAYS(ATTACK_WAY_NAME)
#undef ATTACK_WAY_NAME
        ATTACK_WAY_COUNT /* any */
};

/** Reads the rawe frames of a pcap file, batches cut; exits with a message when it has none. */
struct attack_capture attack_capture_read(const char *file);

/** Makes the next hostile frame of a kind, wrong in this way, in `out`; returns its length. */
size_t attack_make(enum attack_kind kind, enum attack_way way, const struct attack_capture *capture,
                   uint64_t *random, uint8_t out[ATTACK_FRAME_BYTES_MAX]);

/** splitmix64. */
uint64_t attack_random(uint64_t *state);

#endif
