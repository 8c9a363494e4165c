/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The faults of one direction, in the order in which they apply to a frame.
 */
#include "wire.h"

#include <string.h>

#define BUFFER_BYTES (128u << 10) /* default for a port with a rate */
#define GROWTH_BYTES_MAX 64u
#define HEADERS_BYTES 120u /* no frame or batch has longer headers */
#define LINE_OVERHEAD 24u  /* additional bytes on the line: preamble, checksum, gap */
#define LINE_BYTES_MIN 60u /* shorter frames are padded */

const struct wire_settings wire_settings_none = {.buffer_bytes = BUFFER_BYTES};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Returns true with this probability. A share of 0 draws no random number. */
static bool happens(struct wire_direction *direction, double share)
{
    return share > 0 && (double)(random_next(&direction->random) >> 11) * 0x1p-53 < share;
}

void wire_direction_seed(struct wire_direction *direction, uint64_t seed, uint64_t stream)
{
    uint64_t mix = seed ^ (stream + 1) * 0xD1B54A32D192ED03ull;

    direction->random = random_next(&mix);
}

void wire_direction_reset(struct wire_direction *direction, uint64_t seed, uint64_t stream)
{
    memset(direction, 0, sizeof *direction);
    direction->settings = wire_settings_none;
    wire_direction_seed(direction, seed, stream);
}

void wire_direction_change(struct wire_direction *direction, const struct wire_settings *settings,
                           bool blackout_begins, uint64_t now_ns)
{
    direction->settings = *settings;
    if (blackout_begins) {
        direction->blackout_from = now_ns;
    }
    if (settings->burst == 0) {
        direction->burst_left = 0;
        direction->burst_until = 0;
    }
}

static bool in_blackout(const struct wire_direction *direction, uint64_t now_ns)
{
    const struct wire_settings *settings = &direction->settings;
    uint64_t since = now_ns - direction->blackout_from;

    if (settings->blackout_every_ns != 0) {
        since %= (uint64_t)settings->blackout_every_ns;
    }
    return since < (uint64_t)settings->blackout_ns;
}

static bool in_burst(struct wire_direction *direction, uint64_t now_ns)
{
    if (direction->burst_left > 0) {
        direction->burst_left--;
        return true;
    }
    if (now_ns < direction->burst_until) {
        return true;
    }
    if (!happens(direction, direction->settings.burst)) {
        return false;
    }
    if (direction->settings.burst_frames > 0) {
        direction->burst_left = (uint32_t)direction->settings.burst_frames - 1;
    } else {
        direction->burst_until = now_ns + (uint64_t)direction->settings.burst_ns;
    }
    return true;
}

static bool is_too_long(const struct wire_direction *direction, const struct wire_frame *frame)
{
    size_t mtu_bytes = (size_t)direction->settings.mtu_bytes;

    return mtu_bytes != 0 && frame->len_bytes > mtu_bytes + WIRE_ETH_HEADER_BYTES;
}

/*
 * Compute when a frame that arrives now will leave the line. Returns false if the buffer is full.
 *
 *         now                              busy_until        busy_until + its own time
 *     ─────┼────────────────────────────────────┼────────────────────┼──────>
 *          |<-- backlog: bytes in the buffer -->|
 */
static bool pass_line(struct wire_direction *direction, size_t len_bytes, uint64_t now_ns,
                      uint64_t *release_ns)
{
    const struct wire_settings *settings = &direction->settings;
    size_t line_bytes = (len_bytes < LINE_BYTES_MIN ? LINE_BYTES_MIN : len_bytes) + LINE_OVERHEAD;
    double ns_per_byte = 8e9 / settings->rate_bits;
    uint64_t start_ns = direction->busy_until > now_ns ? direction->busy_until : now_ns;
    double backlog_bytes = (double)(start_ns - now_ns) / ns_per_byte;

    /* A frame that arrives while the line is idle needs no buffer. */
    if (start_ns > now_ns && backlog_bytes + (double)line_bytes > settings->buffer_bytes) {
        return false;
    }
    direction->busy_until = start_ns + (uint64_t)((double)line_bytes * ns_per_byte);
    *release_ns = direction->busy_until;
    return true;
}

enum damage { NONE, CHANGE, CUT, ZEROS, BYTES };

static enum damage draw_damage(struct wire_direction *direction)
{
    const struct wire_settings *settings = &direction->settings;

    return happens(direction, settings->corrupt)    ? CHANGE
           : happens(direction, settings->truncate) ? CUT
           : happens(direction, settings->pad)      ? ZEROS
           : happens(direction, settings->lengthen) ? BYTES
                                                    : NONE;
}

/* Damage a copy, because other ports may receive the original. Checksums are not updated. */
static void damage(struct wire_direction *direction, struct wire_frame *frame, enum damage kind)
{
    static uint8_t copy[WIRE_FRAME_BYTES_MAX + GROWTH_BYTES_MAX];
    const size_t len_bytes = frame->len_bytes;
    const uint64_t random = random_next(&direction->random);
    size_t most_bytes = direction->longest_bytes - len_bytes;

    most_bytes = most_bytes < GROWTH_BYTES_MAX ? most_bytes : GROWTH_BYTES_MAX;
    if (kind == NONE || (kind > CUT && most_bytes == 0)) {
        return;
    }
    memcpy(copy, frame->bytes, len_bytes);
    frame->bytes = copy;
    direction->counters.corrupted++;
    if (kind == CHANGE) { /* half of all changes are in the headers */
        const size_t range =
            random % 2 == 0 && len_bytes > HEADERS_BYTES ? HEADERS_BYTES : len_bytes;
        copy[(random >> 16) % range] ^= (uint8_t)(1 + (random >> 1) % 255);
    } else if (kind == CUT) {
        frame->len_bytes -= 1 + random % (len_bytes - WIRE_ETH_HEADER_BYTES);
    } else {
        const size_t more_bytes = 1 + random % most_bytes;
        for (size_t i = 0; i < more_bytes; i++) {
            copy[len_bytes + i] = kind == ZEROS ? 0 : (uint8_t)random_next(&direction->random);
        }
        frame->len_bytes += more_bytes;
    }
}

static void pass_copy(struct wire_direction *direction, const struct wire_frame *frame,
                      enum damage kind, uint64_t now_ns, wire_deliver_fn *deliver, void *context)
{
    const struct wire_settings *settings = &direction->settings;
    struct wire_frame copy = *frame;
    uint64_t release_ns = now_ns;

    if (settings->rate_bits != 0 && !pass_line(direction, frame->len_bytes, now_ns, &release_ns)) {
        direction->counters.buffer_full++;
        return;
    }
    release_ns += (uint64_t)settings->delay_ns;
    if (happens(direction, settings->reorder)) {
        direction->counters.reordered++;
        release_ns += 1 + random_next(&direction->random) % (uint64_t)settings->reorder_ns;
    }
    damage(direction, &copy, kind);
    deliver(context, &copy, release_ns);
}

void wire_direction_pass(struct wire_direction *direction, struct wire_frame *frame,
                         uint64_t now_ns, wire_deliver_fn *deliver, void *context)
{
    direction->counters.frames++;
    direction->counters.bytes += frame->len_bytes;
    if (direction->longest_bytes < frame->len_bytes) {
        direction->longest_bytes = frame->len_bytes;
    }
    if (in_blackout(direction, now_ns)) {
        direction->counters.blackout_lost++;
    } else if (is_too_long(direction, frame)) {
        direction->counters.too_long++;
    } else if (in_burst(direction, now_ns)) {
        direction->counters.burst_lost++;
    } else if (happens(direction, direction->settings.loss)) {
        direction->counters.lost++;
    } else {
        bool twice = happens(direction, direction->settings.duplicate);
        bool echo = happens(direction, direction->settings.repeat_changed);

        pass_copy(direction, frame, draw_damage(direction), now_ns, deliver, context);
        if (twice) {
            direction->counters.duplicated++;
            pass_copy(direction, frame, draw_damage(direction), now_ns, deliver, context);
        }
        if (echo) {
            direction->counters.duplicated++;
            pass_copy(direction, frame, CHANGE, now_ns, deliver, context);
        }
    }
}
