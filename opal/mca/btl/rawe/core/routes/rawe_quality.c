/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_quality.h"

/**
 * A measurement has at least this many frames or PINGs. With 12, a route that loses 19 % would show
 * at most one loss in three of ten measurements. With fewer in MOST_NS, the measurement restarts.
 */
#define FRAMES_MIN 40u
#define MOST_NS 5000000000ull

/** A poor route loses at least this many times as many frames as another. */
#define POOR_TIMES 4u

/** A route is abandoned after this many consecutive poor measurements. */
#define POOR_MEASUREMENTS 2u

void rawe_quality_begin(struct rawe_quality *quality, uint32_t arrived, uint32_t lost,
                        uint64_t now_ns)
{
    *quality = (struct rawe_quality){.since_ns = now_ns, .arrived = arrived, .lost = lost};
}

/** Frames and PINGs since the measurement began. */
struct frames {
    uint64_t arrived, lost;
};

static struct frames since(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost)
{
    return (struct frames){
        .arrived = (uint64_t)(arrived - quality->arrived) + quality->answered,
        .lost = (uint64_t)(lost - quality->lost) + quality->unanswered,
    };
}

static uint32_t permille(struct frames frames)
{
    uint64_t all = frames.arrived + frames.lost;
    return all == 0 ? 0 : (uint32_t)(frames.lost * 1000 / all);
}

bool rawe_quality_wants_ping(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost)
{
    struct frames frames = since(quality, arrived, lost);
    return frames.arrived + frames.lost < FRAMES_MIN;
}

void rawe_quality_note_ping(struct rawe_quality *quality, bool answered)
{
    quality->answered += answered;
    quality->unanswered += !answered;
    quality->asked_ns = 0;
}

bool rawe_quality_is_poor(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost)
{
    struct frames frames = since(quality, arrived, lost);
    return quality->since_ns != 0 && frames.arrived != 0 &&
           permille(frames) >= RAWE_QUALITY_POOR_PERMILLE;
}

bool rawe_quality_measure(struct rawe_quality *quality, uint32_t arrived, uint32_t lost,
                          uint64_t now_ns)
{
    uint64_t passed_ns = now_ns - quality->since_ns;
    struct frames frames = since(quality, arrived, lost);
    bool few = frames.arrived + frames.lost < FRAMES_MIN;
    if (passed_ns < RAWE_QUALITY_TIME_NS || (few && passed_ns < MOST_NS)) {
        return false;
    }
    struct rawe_quality next = {
        .since_ns = now_ns,
        .arrived = arrived,
        .lost = lost,
        .permille = few ? 0 : (uint16_t)permille(frames),
        .poor = quality->poor,
        .measured = true,
    };
    *quality = next;
    return true;
}

uint32_t rawe_quality_permille(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost)
{
    return quality->measured || quality->since_ns == 0 ? quality->permille
                                                       : permille(since(quality, arrived, lost));
}

bool rawe_quality_judge(struct rawe_quality *quality, uint32_t other_permille)
{
    bool poor = quality->permille >= RAWE_QUALITY_POOR_PERMILLE &&
                quality->permille >= POOR_TIMES * other_permille;
    quality->poor = poor ? (uint8_t)(quality->poor + 1) : 0;
    return quality->poor >= POOR_MEASUREMENTS;
}
