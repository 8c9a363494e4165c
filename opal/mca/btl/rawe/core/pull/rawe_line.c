/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_line.h"

/** The rate of a line whose interface reports none. */
#define UNKNOWN_MBPS 10000u

/** Minimum and maximum duration of a window (a longer one has pauses), and minimum frames. */
#define WINDOW_LEAST_NS 2000000u
#define WINDOW_MOST_NS 50000000u
#define WINDOW_FRAMES 32u

/** One frame in rawe_line_host.arrived; a window has fewer bytes than this. */
#define ONE_FRAME (1ull << 40)

/** A window that starts further in the future than this was started with a wrong clock. */
#define BEGIN_AHEAD_MOST_NS 10000000000u

/** Losses of up to one frame in this many are tolerated. */
#define TOLERATED 64u
/** Losses are excessive if they exceed the tolerated number by this many. */
#define LOST_FRAMES 8u

/** Time for the retransmission of frames lost in the port, including queue and probes. */
#define OVERFULL_NS 50000000u

/** Try a higher rate each time this many bytes have arrived. */
#define RETRY_BYTES (1u << 25)

/**
 * A rate below half the old one is on probation. It fails if losses do not halve, because then
 * something else loses frames. It also fails if less than three quarters of it is delivered: then
 * the path needs more in flight. Frames granted at the old rate arrive first; ignore their losses.
 */
#define PROBATION_DRAIN_FRAMES 2048u
#define PROBATION_FRAMES 1024u
/** After a failed probation, losses do not count until this many bytes have arrived. */
#define SPARED_BYTES (1u << 27)

static uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

static void add_shared(_Atomic uint64_t *value, uint64_t more)
{
    set(value, get(value) + more);
}

void rawe_line_init(struct rawe_line *line, uint32_t reported_mbps)
{
    *line = (struct rawe_line){.reported_mbps = reported_mbps != 0 ? reported_mbps : UNKNOWN_MBPS};
    line->host = &line->own;
}

void rawe_line_join(struct rawe_line *line, struct rawe_line_host *host)
{
    line->host = host;
}

uint64_t rawe_line_mbps(const struct rawe_line *line)
{
    const uint64_t learned_mbps = get(&line->host->mbps);
    const uint64_t mbps = learned_mbps != 0 ? learned_mbps : line->reported_mbps;
    return mbps < RAWE_LINE_MBPS_MAX ? mbps : RAWE_LINE_MBPS_MAX;
}

void rawe_line_overfull(struct rawe_line *line, uint64_t now_ns)
{
    set(&line->host->overfull_ns, now_ns);
}

static void set_rate(struct rawe_line *line, uint64_t mbps)
{
    set(&line->host->mbps, mbps != 0 ? mbps : 1);
    set(&line->host->excess_frames, 0);
    set(&line->host->clean_bytes, 0);
}

static void clear_sample(struct rawe_line_host *host)
{
    set(&host->sample_frames, 0);
    set(&host->sample_lost, 0);
}

static void begin_probation(struct rawe_line_host *host, uint64_t mbps, uint64_t delivered_mbps)
{
    set(&host->probation_mbps, mbps);
    set(&host->least_mbps, delivered_mbps * 3 / 4);
    set(&host->probation_lost, get(&host->sample_lost) * 1024 / (get(&host->sample_frames) | 1));
    clear_sample(host);
}

/** End probation. If it failed, return to the old rate unless the line has delivered more since. */
static void end_probation(struct rawe_line *line, bool failed)
{
    struct rawe_line_host *host = line->host;
    const uint64_t mbps = get(&host->probation_mbps);
    if (failed && mbps > rawe_line_mbps(line)) {
        set_rate(line, mbps);
        set(&host->spared_bytes, SPARED_BYTES);
    }
    set(&host->probation_mbps, 0);
    clear_sample(host);
}

/** Lower the rate to what is delivered, because the line loses frames. */
static void slow_down(struct rawe_line *line, uint64_t delivered_mbps)
{
    struct rawe_line_host *host = line->host;
    const uint64_t mbps = rawe_line_mbps(line);
    const bool on_probation = get(&host->probation_mbps) != 0;
    if (!on_probation && delivered_mbps < mbps / 2) {
        begin_probation(host, mbps, delivered_mbps);
    }
    set_rate(line, delivered_mbps);
    if (on_probation && delivered_mbps < get(&host->least_mbps)) {
        end_probation(line, true);
    }
}

/** End probation after enough frames. It fails unless losses have halved. */
static void judge_probation(struct rawe_line *line)
{
    struct rawe_line_host *host = line->host;
    if (get(&host->probation_mbps) != 0 &&
        get(&host->sample_frames) >= PROBATION_DRAIN_FRAMES + PROBATION_FRAMES) {
        const uint64_t lost = get(&host->sample_lost) * 1024 / PROBATION_FRAMES;
        end_probation(line, lost > get(&host->probation_lost) / 2);
    }
}

/** Adjust the rate to the throughput of a window. */
static void learn_rate(struct rawe_line *line, uint64_t delivered_mbps)
{
    struct rawe_line_host *host = line->host;
    const uint64_t last_mbps = get(&host->last_mbps);
    const uint64_t less_mbps = delivered_mbps < last_mbps ? delivered_mbps : last_mbps;
    const uint64_t more_mbps = delivered_mbps < last_mbps ? last_mbps : delivered_mbps;
    const uint64_t mbps = rawe_line_mbps(line), next_mbps = mbps + mbps / 8;
    set(&host->last_mbps, delivered_mbps);
    if (less_mbps > mbps) {
        set_rate(line, less_mbps);
    } else if (get(&host->excess_frames) >= TOLERATED * LOST_FRAMES && more_mbps < mbps &&
               (mbps != line->reported_mbps || more_mbps < mbps / 2)) {
        slow_down(line, more_mbps);
    } else if (mbps < line->reported_mbps && get(&host->clean_bytes) >= RETRY_BYTES) {
        set_rate(line, next_mbps < line->reported_mbps ? next_mbps : line->reported_mbps);
    }
    judge_probation(line);
}

static void count_losses(struct rawe_line_host *host, uint64_t bytes, uint32_t frames,
                         uint32_t lost, uint64_t arrived_ns)
{
    const bool on_probation = get(&host->probation_mbps) != 0;
    const uint64_t spared_bytes = get(&host->spared_bytes);
    const uint64_t overfull_ns = get(&host->overfull_ns);
    const bool overfull = overfull_ns != 0 && arrived_ns < overfull_ns + OVERFULL_NS;
    const uint64_t excess =
        get(&host->excess_frames) + (overfull && spared_bytes == 0 ? lost * TOLERATED : 0);
    set(&host->excess_frames, excess > frames ? excess - frames : 0);
    if (spared_bytes != 0) {
        set(&host->spared_bytes, spared_bytes > bytes ? spared_bytes - bytes : 0);
    }
    add_shared(&host->sample_frames, frames);
    if (!on_probation || get(&host->sample_frames) >= PROBATION_DRAIN_FRAMES) {
        add_shared(&host->sample_lost, lost);
    }
    if (!on_probation && get(&host->sample_frames) >= 2 * PROBATION_FRAMES) {
        set(&host->sample_frames, get(&host->sample_frames) / 2);
        set(&host->sample_lost, get(&host->sample_lost) / 2);
    }
}

void rawe_line_arrived(struct rawe_line *line, uint64_t bytes, uint32_t frames, uint32_t lost,
                       uint64_t arrived_ns)
{
    struct rawe_line_host *host = line->host;
    uint64_t begin_ns = get(&host->begin_ns);
    add_shared(&host->clean_bytes, bytes);
    count_losses(host, bytes, frames, lost, arrived_ns);
    if (arrived_ns < begin_ns && begin_ns - arrived_ns < BEGIN_AHEAD_MOST_NS) {
        return; /* the frame arrived in an earlier window but waited here */
    }
    const bool astray = arrived_ns < begin_ns;
    const uint64_t more = bytes + frames * ONE_FRAME;
    const uint64_t arrived =
        atomic_fetch_add_explicit(&host->arrived, more, memory_order_relaxed) + more;
    if (!astray &&
        (arrived_ns < begin_ns + WINDOW_LEAST_NS || arrived < WINDOW_FRAMES * ONE_FRAME)) {
        return;
    }
    const uint64_t window_ns = arrived_ns - begin_ns;
    if (atomic_compare_exchange_strong(&host->begin_ns, &begin_ns, arrived_ns)) {
        const uint64_t window_bytes = atomic_exchange(&host->arrived, 0) % ONE_FRAME;
        if (begin_ns != 0 && !astray && window_ns < WINDOW_MOST_NS) {
            learn_rate(line, window_bytes * 8000 / window_ns);
        }
    }
}
