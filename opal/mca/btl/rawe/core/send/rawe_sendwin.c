/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_sendwin.h"

#include "rawe_sendqueue.h"

#include <assert.h>
#include <stdlib.h>

#define SLAB_FRAMES 64u
#define CACHE_LINE 64u

/* Buffers begin 2 bytes past a cache line, which aligns the data after the Ethernet header. */
#define BUFFER_SHIFT 2u

/** The pool is checked once a second. After this many consecutive calm checks, it frees memory. */
#define TRIM_INTERVAL_NS 1000000000ull
#define CALM_ROUNDS 3u

/** The pool is calm if less than 1/CALM_PART of its frames are in use. It keeps one window. */
#define CALM_PART 4u
#define TRIM_LEAST_FRAMES 1024u

/** Header of a slab: frames that are allocated together and follow it. */
struct rawe_txframe_slab {
    struct rawe_txframe_slab *next;
    unsigned free_frames; /**< used only by rawe_txframe_pool_check */
    bool large;
};

void rawe_txframe_pool_init(struct rawe_txframe_pool *pool, uint32_t copy_max_bytes, unsigned limit)
{
    *pool = (struct rawe_txframe_pool){.large_bytes = copy_max_bytes, .limit = limit};
}

void rawe_txframe_pool_free(struct rawe_txframe_pool *pool)
{
    while (pool->slabs != NULL) {
        struct rawe_txframe_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    rawe_txframe_pool_init(pool, (uint32_t)pool->large_bytes, pool->limit);
}

/** Remove the frames of entirely free slabs from a list. */
static void drop_free(struct rawe_txframe **list)
{
    for (const struct rawe_txframe *frame = *list; frame != NULL; frame = frame->next) {
        frame->slab->free_frames++;
    }
    while (*list != NULL) {
        if ((*list)->slab->free_frames == SLAB_FRAMES) {
            *list = (*list)->next;
        } else {
            list = &(*list)->next;
        }
    }
}

void rawe_txframe_pool_check(struct rawe_txframe_pool *pool, uint64_t now_ns)
{
    pool->trim_ns = now_ns + TRIM_INTERVAL_NS;
    bool calm = pool->allocated > TRIM_LEAST_FRAMES && pool->taken < pool->allocated / CALM_PART;
    pool->calm = calm ? pool->calm + 1 : 0;
    if (pool->calm < CALM_ROUNDS) {
        return;
    }
    pool->calm = 0;
    drop_free(&pool->free[0]);
    drop_free(&pool->free[1]);
    for (struct rawe_txframe_slab **link = &pool->slabs; *link != NULL;) {
        struct rawe_txframe_slab *slab = *link;
        if (slab->free_frames == SLAB_FRAMES) {
            *link = slab->next;
            pool->slab_count[slab->large]--;
            pool->allocated -= SLAB_FRAMES;
            free(slab);
        } else {
            slab->free_frames = 0;
            link = &slab->next;
        }
    }
}

bool rawe_txframe_pool_grow(struct rawe_txframe_pool *pool, bool large)
{
    if (pool->allocated >= pool->limit && pool->slab_count[large] != 0) {
        return false;
    }
    size_t payload_bytes = large ? pool->large_bytes : RAWE_TXFRAME_SMALL_BYTES;
    size_t head_bytes = (sizeof(struct rawe_txframe) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    size_t stride =
        head_bytes + BUFFER_SHIFT + RAWE_PAYLOAD_OFFSET + payload_bytes + RAWE_CHECKSUM_BYTES;
    stride = (stride + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    /* An odd number of lines spreads the headers over the cache's sets. */
    stride |= CACHE_LINE;
    uint8_t *memory = aligned_alloc(CACHE_LINE, CACHE_LINE + SLAB_FRAMES * stride);
    if (memory == NULL) {
        return false;
    }
    struct rawe_txframe_slab *slab = (struct rawe_txframe_slab *)(void *)memory;
    *slab = (struct rawe_txframe_slab){.next = pool->slabs, .large = large};
    pool->slabs = slab;
    for (unsigned i = 0; i < SLAB_FRAMES; i++) {
        uint8_t *place = memory + CACHE_LINE + i * stride;
        struct rawe_txframe *frame = (struct rawe_txframe *)(void *)place;
        frame->buffer = place + head_bytes + BUFFER_SHIFT;
        frame->large = large;
        frame->slab = slab;
        frame->next = pool->free[large];
        pool->free[large] = frame;
    }
    pool->slab_count[large]++;
    pool->allocated += SLAB_FRAMES;
    pool->calm = 0;
    return true;
}

void rawe_sendwin_init(struct rawe_sendwin *window, uint32_t frames, uint32_t first_sequence)
{
    *window = (struct rawe_sendwin){.frames = (uint16_t)frames};
    rawe_sendwin_reset(window, first_sequence);
}

void rawe_sendwin_reset(struct rawe_sendwin *window, uint32_t first_sequence)
{
    assert(rawe_sendwin_empty(window));
    window->una = window->next = window->transmit_from = first_sequence;
    window->in_flight = window->to_transmit = window->sacked = 0;
    window->newest_delivered = first_sequence;
    window->newest_delivered_ns = window->evidence_ns = 0;
    window->evidence_is_probe = false;
    window->loss_deadline_ns = 0;
}

/** Note when segments are sent. `missing`: earlier ones in `times` that may yet arrive. */
static void note_time(struct rawe_txframe_times *times, uint64_t missing, uint64_t sent_ns)
{
    times->newest_ns = sent_ns;
    if (missing == 0) {
        times->oldest_ns = sent_ns;
    }
}

void rawe_sendwin_note_again(struct rawe_txframe *frame, uint64_t segments, uint64_t sent_ns)
{
    uint64_t missing = frame->sent & ~(frame->arrived | segments);
    uint64_t again = segments & frame->sent;
    if (frame->sendings < UINT8_MAX) {
        frame->sendings++;
    }
    if (again != segments) {
        note_time(&frame->first, missing & ~frame->resent, sent_ns);
    }
    if (again != 0) {
        note_time(&frame->again, missing & frame->resent, sent_ns);
    }
    frame->resent |= again;
}

struct rawe_txframe *rawe_sendwin_next(struct rawe_sendwin *window)
{
    if (window->to_transmit == 0) {
        return NULL;
    }
    if (rawe_sequence_before(window->transmit_from, window->una)) {
        rawe_sendwin_rewind(window, window->oldest);
    }
    while (window->transmit_from != window->next) {
        struct rawe_txframe *frame = window->cursor;
        window->transmit_from = frame->sequence + frame->segments;
        window->cursor = frame->next;
        if (frame->to_send != 0) {
            return frame;
        }
    }
    return NULL;
}

bool rawe_sendwin_delivered(struct rawe_sendwin *window, uint64_t sent_ns, uint32_t sequence,
                            uint64_t now_ns)
{
    if (sent_ns < window->newest_delivered_ns ||
        (sent_ns == window->newest_delivered_ns &&
         !rawe_sequence_before(window->newest_delivered, sequence))) {
        return false;
    }
    window->newest_delivered_ns = sent_ns;
    window->newest_delivered = sequence;
    window->evidence_ns = now_ns;
    window->evidence_is_probe = false;
    return true;
}

/** Return the segments from una on, which are not cumulatively acknowledged. */
static uint64_t not_acknowledged(const struct rawe_sendwin *window,
                                 const struct rawe_txframe *frame)
{
    uint32_t before = window->una - frame->sequence;
    return before < frame->segments ? rawe_txframe_all(frame) & UINT64_MAX << before
                                    : rawe_txframe_all(frame);
}

static uint64_t passed_ns(uint64_t now_ns, uint64_t sent_ns)
{
    return now_ns > sent_ns ? now_ns - sent_ns : 1;
}

/** Note arrived segments, sent at `sent_ns` or later, as evidence of losses. */
static void note_evidence(struct rawe_sendwin *window, const struct rawe_txframe *frame,
                          uint64_t segments, uint64_t sent_ns, const struct rawe_ack *ack)
{
    if (ack->evidence) {
        uint32_t last = frame->sequence + 63 - (uint32_t)__builtin_clzll(segments);
        (void)rawe_sendwin_delivered(window, sent_ns, last, ack->now_ns);
    }
}

/** Note the arrival of segments. Returns the round trip of those sent once, or 0. */
static uint64_t note_segments_arrived(struct rawe_sendwin *window, struct rawe_txframe *frame,
                                      uint64_t segments, struct rawe_ack *ack)
{
    uint64_t once = segments & frame->sent & ~frame->resent;
    uint64_t again = segments & frame->resent;
    uint64_t rtt_ns = 0;
    uint32_t waiting = rawe_sendwin_count(segments & frame->to_send);
    uint32_t count = rawe_sendwin_count(segments);
    /*
     * Resent segments give no RTT (Karn). An answer that follows the newest resend by less than the
     * minimum RTT may belong to the first transmission, so it is no evidence.
     */
    if (again != 0 && passed_ns(ack->now_ns, frame->again.newest_ns) >= ack->minimum_rtt_ns) {
        note_evidence(window, frame, again, frame->again.oldest_ns, ack);
    }
    if (once != 0) {
        note_evidence(window, frame, once, frame->first.oldest_ns, ack);
        rtt_ns = passed_ns(ack->now_ns, frame->first.oldest_ns);
    }
    window->to_transmit -= waiting;
    window->in_flight -= count - waiting;
    frame->to_send &= ~segments;
    frame->arrived |= segments;
    ack->arrived += count;
    return rtt_ns;
}

/** Remove and return the oldest frame of the window. */
static struct rawe_txframe *take_oldest(struct rawe_sendwin *window)
{
    struct rawe_txframe *frame = window->oldest;
    window->oldest = frame->next;
    window->una = frame->sequence + frame->segments;
    return frame;
}

struct rawe_txframe *rawe_sendwin_remove(struct rawe_sendwin *window)
{
    const struct rawe_txframe *frame = window->oldest;
    window->in_flight -= rawe_sendwin_count(rawe_txframe_in_flight(frame));
    window->to_transmit -= rawe_sendwin_count(frame->to_send);
    window->sacked -= rawe_sendwin_count(frame->arrived & not_acknowledged(window, frame));
    return take_oldest(window);
}

struct rawe_txframe *rawe_sendwin_acknowledge_some(struct rawe_sendwin *window,
                                                   uint32_t acknowledgement, struct rawe_ack *ack)
{
    struct rawe_txframe *frame = window->oldest;
    uint64_t segments = not_acknowledged(window, frame);
    uint32_t before = acknowledgement - frame->sequence;
    bool whole = before >= frame->segments;
    if (!whole) {
        segments &= ~(UINT64_MAX << before);
    }
    window->sacked -= rawe_sendwin_count(segments & frame->arrived);
    segments &= ~frame->arrived;
    if (segments != 0) {
        uint64_t rtt_ns = note_segments_arrived(window, frame, segments, ack);
        if (rtt_ns != 0) {
            ack->rtt_ns = rtt_ns;
        }
    }
    if (whole) {
        return take_oldest(window);
    }
    window->una = acknowledgement;
    return NULL;
}

void rawe_sendwin_sack(struct rawe_sendwin *window, uint32_t acknowledgement, const uint8_t *bitmap,
                       size_t bitmap_bytes, struct rawe_ack *ack)
{
    struct rawe_txframe *frame = window->oldest;
    for (size_t i = 0; i < bitmap_bytes; i++) {
        for (uint8_t bits = bitmap[i]; bits != 0; bits &= (uint8_t)(bits - 1)) {
            uint32_t sequence =
                acknowledgement + 1 + (uint32_t)i * 8 + (uint32_t)__builtin_ctz(bits);
            if (!rawe_sequence_before(sequence, window->next)) {
                return; /* never sent: the rest of the bitmap is invalid, too */
            }
            while (sequence - frame->sequence >= frame->segments) {
                frame = frame->next;
            }
            uint64_t segment = 1ull << (sequence - frame->sequence);
            if ((segment & frame->sent & ~frame->arrived) != 0) {
                (void)note_segments_arrived(window, frame, segment, ack);
                window->sacked++;
            }
        }
    }
}

void rawe_sendwin_probe_answered(struct rawe_sendwin *window, uint64_t sent_ns, uint64_t now_ns)
{
    /*
     * The probe was sent after the frames then in flight, and counts as the newest of them. One ns
     * is subtracted to exclude frames sent after the probe in the same turn.
     */
    if (rawe_sendwin_delivered(window, sent_ns - 1, window->next, now_ns)) {
        window->evidence_is_probe = true;
    }
}

/** Return the segments, sent by `sent_ns`, that later ones overtook; `*undecided`: may have. */
static uint64_t overtaken(const struct rawe_sendwin *window, const struct rawe_txframe *frame,
                          uint64_t segments, uint64_t sent_ns, uint64_t reorder_ns,
                          bool window_passed, bool *undecided)
{
    if (segments == 0) {
        return 0; /* `sent_ns` is not set */
    }
    if (sent_ns == window->newest_delivered_ns) {
        /* Within a turn, only first transmissions are known to be in order. */
        uint32_t ahead = window->newest_delivered - frame->sequence;
        segments &= ~frame->resent;
        if (rawe_sequence_before(window->newest_delivered, frame->sequence)) {
            segments = 0;
        } else if (ahead < frame->segments) {
            segments &= ~(UINT64_MAX << ahead);
        }
    } else if (sent_ns > window->newest_delivered_ns) {
        segments = 0;
    }
    if (segments != 0 && !window_passed && sent_ns + reorder_ns > window->newest_delivered_ns) {
        *undecided = true;
        segments = 0;
    }
    return segments;
}

/** Mark a segment in flight as lost. */
static void mark_lost(struct rawe_sendwin *window, struct rawe_txframe *frame, uint32_t sequence)
{
    frame->to_send |= 1ull << (sequence - frame->sequence);
    window->in_flight--;
    if (window->to_transmit == 0 || rawe_sequence_before(sequence, window->transmit_from)) {
        rawe_sendwin_rewind(window, frame);
    }
    window->to_transmit++;
}

bool rawe_sendwin_detect_losses(struct rawe_sendwin *window, uint64_t reorder_ns, uint64_t now_ns,
                                rawe_sendwin_lost_fn *lost, void *context)
{
    bool window_passed = now_ns - window->evidence_ns >= reorder_ns;
    bool undecided = false;
    for (struct rawe_txframe *frame = window->oldest; frame != NULL; frame = frame->next) {
        uint64_t in_flight = rawe_txframe_in_flight(frame);
        uint64_t lost_now = 0;
        if (in_flight != 0) {
            lost_now = overtaken(window, frame, in_flight & ~frame->resent, frame->first.newest_ns,
                                 reorder_ns, window_passed, &undecided) |
                       overtaken(window, frame, in_flight & frame->resent, frame->again.newest_ns,
                                 reorder_ns, window_passed, &undecided);
        }
        for (; lost_now != 0; lost_now &= lost_now - 1) {
            mark_lost(window, frame, frame->sequence + (uint32_t)__builtin_ctzll(lost_now));
            lost(context, frame, frame->sequence + (uint32_t)__builtin_ctzll(lost_now));
        }
    }
    return undecided;
}

/** Return the newest frame of a send, from `frame` backwards. There must be one. */
static struct rawe_txframe *frame_of(struct rawe_txframe *frame, const struct rawe_send *send)
{
    while (frame->send != send) {
        frame = frame->previous;
    }
    return frame;
}

void rawe_sendwin_rebase(const struct rawe_sendwin *window, struct rawe_send *send, uint8_t *copy)
{
    struct rawe_txframe *frame = window->newest;
    for (uint32_t left = send->frames; left != 0; left--, frame = frame->previous) {
        frame = frame_of(frame, send);
        for (uint32_t i = 0; i < frame->external_count; i++) {
            struct rawe_bytes *part = &frame->external[i];
            part->base = rawe_send_rebase(send, part->base, copy);
        }
    }
    for (unsigned i = 0; i < send->piece_count; i++) {
        send->pieces[i].base = copy;
        copy += send->pieces[i].len_bytes;
    }
}

void rawe_sendwin_revoke(const struct rawe_sendwin *window, const struct rawe_send *send,
                         enum rawe_refusal reason)
{
    static const uint8_t zeros[UINT16_MAX] = {0}; /* no frame or batch is longer */
    struct rawe_fragment fragment;
    struct rawe_txframe *frame = window->newest;
    for (uint32_t left = send->frames; left != 0; left--, frame = frame->previous) {
        frame = frame_of(frame, send);
        for (uint32_t i = 0; i < frame->external_count; i++) {
            frame->external[i].base = (void *)(uintptr_t)zeros;
        }
        rawe_fragment_reread(&fragment, frame->buffer + RAWE_PAYLOAD_OFFSET);
        fragment.tag = (uint8_t)reason;
        (void)rawe_fragment_encode(frame->buffer + RAWE_PAYLOAD_OFFSET, &fragment);
    }
}
