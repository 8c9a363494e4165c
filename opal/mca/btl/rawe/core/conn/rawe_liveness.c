/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_liveness.h"

#include <stdlib.h>
#include <string.h>

#include "base/rawe_wire.h"

/** Longest wait before the first probe, because computing ranks cause huge RTT samples. */
#define FIRST_PROBE_MOST_NS 10000000ull

/** Number of unanswered probes after which the peer may be dead. */
#define DOUBT_PROBES 3u

/** While our process runs, answered probes are closer together than this. */
#define OWN_PAUSE_NS 100000000ull

/** More doublings than any limit on the interval needs. */
#define DOUBLINGS_MAX 16u

uint64_t rawe_liveness_interval_ns(const struct rawe_liveness *liveness)
{
    const struct rawe_liveness_limits *limits = liveness->limits;
    const struct rawe_rtt *rtt = liveness->rtt;
    uint64_t most_ns = limits->probe_most_ns;
    uint64_t first_most_ns = most_ns < FIRST_PROBE_MOST_NS ? most_ns : FIRST_PROBE_MOST_NS;
    uint64_t interval_ns = rtt->smoothed_ns == 0
                               ? RAWE_LIVENESS_FIRST_INTERVAL_NS
                               : rawe_rtt_overdue(rtt, limits->probe_least_ns, first_most_ns);
    uint32_t doublings =
        liveness->probes_unanswered < DOUBLINGS_MAX ? liveness->probes_unanswered : DOUBLINGS_MAX;
    interval_ns <<= doublings;
    return interval_ns < most_ns ? interval_ns : most_ns;
}

void rawe_liveness_alive(struct rawe_liveness *liveness, uint64_t alive_ns)
{
    if (liveness->silent_since_ns != 0 && liveness->silent_since_ns < alive_ns) {
        liveness->silent_since_ns = alive_ns;
    }
    if (liveness->stalled_since_ns != 0 && liveness->stalled_since_ns < alive_ns) {
        liveness->stalled_since_ns = alive_ns;
    }
}

/** Exclude from the peer's silence the time in which we deferred or did not run. */
static void discount_absence(struct rawe_liveness *liveness, bool deferring, uint64_t now_ns)
{
    uint64_t interval_ns = rawe_liveness_interval_ns(liveness);
    uint64_t passed_ns = now_ns - liveness->asked_ns;
    if (deferring) {
        liveness->silent_since_ns += passed_ns;
    } else if (passed_ns > 2 * interval_ns) {
        liveness->silent_since_ns += passed_ns - interval_ns;
    }
}

enum rawe_liveness_verdict rawe_liveness_expire(struct rawe_liveness *liveness, bool deferring,
                                                uint64_t now_ns, uint64_t *silent_ns)
{
    const uint64_t timeout_ns = liveness->limits->peer_timeout_ns;
    liveness->probe_deadline_ns = 0;
    if (liveness->silent_since_ns == 0) {
        liveness->silent_since_ns = now_ns;
    } else {
        discount_absence(liveness, deferring, now_ns);
    }
    *silent_ns = now_ns > liveness->silent_since_ns ? now_ns - liveness->silent_since_ns : 0;
    return timeout_ns != 0 && *silent_ns >= timeout_ns && !deferring ? RAWE_LIVENESS_GIVE_UP
                                                                     : RAWE_LIVENESS_ASK;
}

void rawe_liveness_migrate(struct rawe_liveness *liveness, bool deferring, uint64_t now_ns)
{
    if (liveness->silent_since_ns != 0) {
        discount_absence(liveness, deferring, now_ns);
    }
    liveness->probes_unanswered = 0;
}

uint64_t rawe_liveness_stalled_ns(struct rawe_liveness *liveness, uint32_t una, unsigned sendings,
                                  bool deferring, uint64_t now_ns)
{
    if (sendings < RAWE_LIVENESS_STALL_SENDINGS || una != liveness->stalled_una ||
        liveness->stalled_since_ns == 0) {
        liveness->stalled_una = una;
        liveness->stalled_since_ns = now_ns;
        return 0;
    }
    uint64_t interval_ns = rawe_liveness_interval_ns(liveness);
    uint64_t passed_ns = now_ns - liveness->asked_ns;
    if (deferring || passed_ns > 2 * interval_ns + OWN_PAUSE_NS) {
        liveness->stalled_since_ns += passed_ns;
        return 0;
    }
    return now_ns > liveness->stalled_since_ns ? now_ns - liveness->stalled_since_ns : 0;
}

/** Forget all unanswered probes. */
static void forget_probes(struct rawe_liveness *liveness)
{
    free(liveness->probes);
    liveness->probes = NULL;
    liveness->probes_remembered = 0;
}

void rawe_liveness_reset(struct rawe_liveness *liveness)
{
    liveness->probe_deadline_ns = liveness->waits_since_ns = 0;
    liveness->stalled_since_ns = 0;
    forget_probes(liveness);
    rawe_liveness_heard(liveness);
}

void rawe_liveness_probe_sent(struct rawe_liveness *liveness, uint64_t now_ns)
{
    uint32_t at = liveness->probes_remembered;
    liveness->probe_number = rawe_liveness_next_probe(liveness);
    if (liveness->probes == NULL) {
        liveness->probes = malloc(sizeof(*liveness->probes));
        if (liveness->probes == NULL) {
            return;
        }
    }
    if (at == RAWE_LIVENESS_PROBES) {
        at--;
    } else {
        liveness->probes_remembered++;
    }
    liveness->probes->numbers[at] = liveness->probe_number;
    liveness->probes->sent_ns[at] = now_ns;
}

bool rawe_liveness_asked(struct rawe_liveness *liveness, uint64_t now_ns)
{
    liveness->asked_ns = now_ns;
    liveness->probes_unanswered++;
    liveness->probe_deadline_ns = now_ns + rawe_liveness_interval_ns(liveness);
    return liveness->probes_unanswered >= DOUBT_PROBES;
}

uint64_t rawe_liveness_probe_answered(struct rawe_liveness *liveness, uint32_t number)
{
    struct rawe_liveness_probes *probes = liveness->probes;
    uint32_t count = 0;
    uint64_t sent_ns = 0;
    if (probes == NULL || number == 0 || rawe_sequence_before(liveness->probe_number, number)) {
        return 0; /* never sent, or answered before */
    }
    while (count < liveness->probes_remembered &&
           !rawe_sequence_before(number, probes->numbers[count])) {
        sent_ns = probes->numbers[count] == number ? probes->sent_ns[count] : 0;
        count++;
    }
    uint32_t left = liveness->probes_remembered - count;
    if (left == 0) {
        forget_probes(liveness);
        return sent_ns;
    }
    liveness->probes_remembered = (uint8_t)left;
    memmove(probes->numbers, probes->numbers + count, left * sizeof(*probes->numbers));
    memmove(probes->sent_ns, probes->sent_ns + count, left * sizeof(*probes->sent_ns));
    return sent_ns;
}
