/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_grants.h"

#include <stddef.h>

#include "base/rawe_wire.h"

/** Granted for the path: fewer would be many small batches, more than a batch gains nothing. */
#define LEAST_FRAMES 6u
#define MOST_FRAMES 48u
/** Granted first, where many wait: most of them may need no more. */
#define FIRST_FRAMES 3u

/** What a PROBE takes of the link, without headers. */
#define PROBE_BYTES 100u

/** A peer that does not use its grant for that time has no turns until it sends again. */
#define UNUSED_NS 20000000u

/** How long frames waited is remembered for one to two of these: some turns of a scheduler. */
#define PERIOD_NS 4000000u
/** Shorter waits are part of the round trip that the limit allows for. */
#define WAITED_LEAST_NS 10000u
/** Of longer waits there is no need to know: the ring is full before. */
#define WAITED_MOST_NS 10000000u

void rawe_grants_init(struct rawe_grants *grants, uint64_t port_bytes, struct rawe_line *line,
                      uint32_t frame_bytes, const uint16_t *ring_frames)
{
    *grants = (struct rawe_grants){
        .frame_bytes = frame_bytes,
        .ranks = 1,
        .ring_frames = ring_frames,
    };
    rawe_inflow_init(&grants->inflow, port_bytes, line);
    rawe_list_init(&grants->peers);
}

/** As much as comes while frames wait here, as where the program computes, or has no processor. */
static uint32_t waiting_frames(const struct rawe_grants *grants)
{
    const uint64_t *waited_ns = grants->waited_ns;
    const uint64_t longest_ns = waited_ns[0] > waited_ns[1] ? waited_ns[0] : waited_ns[1];
    const uint64_t bytes = longest_ns * rawe_line_mbps(grants->inflow.line) / 8000;
    return (uint32_t)(bytes / grants->frame_bytes / grants->ranks);
}

/** Granted, and on its way or in the port: the rest waits here. */
static uint32_t frames_under_way(const struct rawe_grants *grants)
{
    const uint32_t waiting = waiting_frames(grants);
    return grants->frames > waiting ? grants->frames - waiting : 0;
}

/** Tell other processes of the host what has been granted here. */
static void publish(struct rawe_grants *grants)
{
    if (grants->inflow.share != NULL) {
        rawe_inflow_publish(&grants->inflow,
                            (uint64_t)frames_under_way(grants) * grants->frame_bytes);
    }
}

/** What a member is granted is so much more, or, modulo 2^32, less. */
static void add(struct rawe_grants *grants, struct rawe_grants_member *member, uint32_t frames)
{
    member->frames += frames;
    grants->frames += frames;
    publish(grants);
}

void rawe_grants_forget(struct rawe_grants *grants, struct rawe_grants_member *member)
{
    if (rawe_list_has(&member->link)) {
        rawe_list_remove(&member->link);
        grants->senders--;
        add(grants, member, 0 - member->frames);
        grants->waits = grants->senders != 0; /* others have more */
    }
}

void rawe_grants_reset(struct rawe_grants *grants, struct rawe_grants_member *member,
                       uint32_t first_sequence)
{
    rawe_grants_forget(grants, member);
    *member = (struct rawe_grants_member){.newest = first_sequence - 1};
}

/** Do several peers have more to send, into one port? */
static bool shares(const struct rawe_grants *grants)
{
    return grants->senders >= 2;
}

/** What fills port and path. What is granted first comes all at once: half of that. */
static uint32_t path_frames(const struct rawe_grants *grants)
{
    const uint32_t frames =
        (uint32_t)(rawe_inflow_limit_bytes(&grants->inflow) / grants->frame_bytes);
    return frames > grants->held_back ? frames - grants->held_back : 0;
}

/** The peer has more to send. */
static void enter(struct rawe_grants *grants, struct rawe_grants_member *member, uint64_t now_ns)
{
    if (!rawe_list_has(&member->link)) {
        rawe_list_append(&grants->peers, &member->link);
        member->begins = true;
        if (++grants->senders == 2) {
            grants->held_back = 0;
            grants->held_back = path_frames(grants) / 2;
            rawe_inflow_wait(&grants->inflow, now_ns);
        }
    }
}

/** Frames have waited that long in this host. */
static void note_wait(struct rawe_grants *grants, uint64_t waited_ns, uint64_t now_ns)
{
    if (now_ns - grants->period_ns >= PERIOD_NS) {
        grants->waited_ns[1] =
            now_ns - grants->period_ns < 2 * PERIOD_NS ? grants->waited_ns[0] : 0;
        grants->waited_ns[0] = 0;
        grants->period_ns = now_ns;
    }
    if (waited_ns >= WAITED_LEAST_NS && waited_ns > grants->waited_ns[0]) {
        grants->waited_ns[0] = waited_ns < WAITED_MOST_NS ? waited_ns : WAITED_MOST_NS;
    }
}

void rawe_grants_arrived(struct rawe_grants *grants, struct rawe_grants_member *member,
                         uint32_t sequence, uint32_t frames, bool more, uint64_t waited_ns,
                         uint64_t now_ns)
{
    const uint32_t newest = sequence + frames - 1;
    const uint32_t used = frames < member->frames ? frames : member->frames;
    if (grants->inflow.port_bytes == 0) {
        return;
    }
    if (!more && grants->senders == 0) {
        member->newest = rawe_sequence_before(newest, member->newest) ? member->newest : newest;
        return;
    }
    member->heard_ns = now_ns;
    note_wait(grants, waited_ns, now_ns);
    /* A tenth of headers is added there. */
    rawe_inflow_arrived(&grants->inflow, (uint64_t)frames * grants->frame_bytes * 10 / 11, now_ns);
    grants->held_back -= used < grants->held_back ? used : grants->held_back;
    add(grants, member, 0 - used); /* of a member without more, none are counted */
    if (!rawe_sequence_before(newest, member->newest)) { /* one that is sent again says less */
        member->newest = newest;
        if (more) {
            member->begins = member->begins && used == 0;
            enter(grants, member, now_ns);
        } else {
            rawe_grants_forget(grants, member);
        }
    }
    grants->waits = grants->waits || shares(grants);
}

void rawe_grants_probed(struct rawe_grants *grants, uint64_t now_ns)
{
    if (shares(grants)) {
        rawe_inflow_arrived(&grants->inflow, PROBE_BYTES, now_ns);
        publish(grants); /* nothing of what was granted has come */
    }
}

/** What each has in flight where several share. */
static uint32_t share_frames(const struct rawe_grants *grants)
{
    const uint32_t path = path_frames(grants) / grants->senders / grants->ranks;
    uint32_t frames =
        (path < MOST_FRAMES ? path : MOST_FRAMES) + waiting_frames(grants) / grants->senders;
    frames = frames > LEAST_FRAMES ? frames : LEAST_FRAMES;
    return frames < *grants->ring_frames ? frames : *grants->ring_frames;
}

/** The peer whose turn is next. */
static struct rawe_grants_member *first(const struct rawe_grants *grants)
{
    return RAWE_OWNER(rawe_list_first(&grants->peers), struct rawe_grants_member, link);
}

/** A peer that others no longer limit, and that does not know yet. */
static struct rawe_grants_member *released(struct rawe_grants *grants)
{
    struct rawe_grants_member *member = grants->senders != 0 ? first(grants) : NULL;
    grants->waits = false;
    if (member == NULL || !member->limited) {
        return NULL;
    }
    member->limited = false;
    return member;
}

/**
 * Is there room for more, beside what other processes of the host grant? Each has its part of it, and
 * where that is less than a share, one that has nothing granted has the next turn.
 */
static bool has_room(const struct rawe_grants *grants, const struct rawe_inflow_others *others)
{
    const uint64_t most = path_frames(grants);
    const uint64_t under_way = frames_under_way(grants);
    return under_way + others->bytes / grants->frame_bytes < most &&
           under_way * grants->ranks < most && !others->first;
}

/** What a peer is granted when it is its turn. */
static uint32_t wanted_frames(const struct rawe_grants *grants,
                              const struct rawe_grants_member *member)
{
    const uint32_t share = share_frames(grants);
    const bool first = member->begins && share <= LEAST_FRAMES && share > FIRST_FRAMES;
    return first ? FIRST_FRAMES : share;
}

/** Grant a peer its share. If the link idles, the limit grows by that. False: not now. */
static bool give(struct rawe_grants *grants, const struct rawe_inflow_others *others,
                 struct rawe_grants_member *member, uint64_t now_ns)
{
    const uint32_t share = wanted_frames(grants, member);
    if (!has_room(grants, others) &&
        !rawe_inflow_idles(&grants->inflow, (uint64_t)share * grants->frame_bytes, now_ns)) {
        if (grants->frames == 0) {
            rawe_inflow_await_turn(&grants->inflow, now_ns);
        }
        return false;
    }
    rawe_inflow_asked(&grants->inflow, 0, now_ns);
    add(grants, member, share - member->frames);
    member->heard_ns = now_ns;
    return true;
}

/** What other processes of the host grant. */
static struct rawe_inflow_others poll_others(struct rawe_grants *grants, uint64_t now_ns)
{
    const struct rawe_inflow_others others = rawe_inflow_others(&grants->inflow, now_ns);
    grants->ranks = 1 + others.count;
    return others;
}

void rawe_grants_expect(struct rawe_grants *grants, struct rawe_grants_member *member,
                        uint64_t now_ns)
{
    if (grants->inflow.port_bytes == 0) {
        return;
    }
    member->heard_ns = now_ns;
    enter(grants, member, now_ns);
    if (shares(grants)) {
        const struct rawe_inflow_others others = poll_others(grants, now_ns);
        (void)give(grants, &others, member, now_ns);
        grants->waits = true;
    }
}

struct rawe_grants_member *rawe_grants_next(struct rawe_grants *grants, uint64_t now_ns)
{
    const struct rawe_inflow_others others = poll_others(grants, now_ns);
    for (uint32_t turns = grants->senders; turns != 0 && shares(grants); turns--) {
        struct rawe_grants_member *member = first(grants);
        if (member->frames != 0 && now_ns > member->heard_ns + UNUSED_NS) {
            rawe_grants_forget(grants, member);
            continue;
        }
        const bool needs = member->frames <= wanted_frames(grants, member) / 2;
        if (needs && !give(grants, &others, member, now_ns)) {
            return NULL; /* waits */
        }
        rawe_list_remove(&member->link);
        rawe_list_append(&grants->peers, &member->link);
        if (needs) {
            return member;
        }
    }
    if (!shares(grants)) {
        return released(grants);
    }
    grants->waits = false;
    return NULL;
}

uint16_t rawe_grants_credit(const struct rawe_grants *grants, struct rawe_grants_member *member,
                            uint16_t frames)
{
    if (!shares(grants)) {
        member->limited = false;
        return frames;
    }
    const bool waits = rawe_list_has(&member->link);
    const uint32_t most = waits ? member->frames : share_frames(grants);
    member->limited = most < frames;
    return member->limited ? (uint16_t)most : frames;
}
