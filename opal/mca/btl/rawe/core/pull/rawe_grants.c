/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_grants.h"

#include <stddef.h>

#include "base/rawe_wire.h"

/** Bounds of a grant: small grants cause many small batches; more than one batch gains nothing. */
#define LEAST_FRAMES 6u
#define MOST_FRAMES 48u
/** A peer's first grant when many are waiting: most of them may need no more. */
#define FIRST_FRAMES 3u

/** Length of a PROBE on the link, without headers. */
#define PROBE_BYTES 100u

/** A peer that does not use its grant for this long gets no turn until it sends again. */
#define UNUSED_NS 20000000u

/** Waiting times are remembered for one to two periods, which is a few scheduler time slices. */
#define PERIOD_NS 4000000u
/** Shorter waits are part of the round trip that the limit allows for. */
#define WAITED_LEAST_NS 10000u
/** Longer waits do not matter, because the ring fills up first. */
#define WAITED_MOST_NS 10000000u

void rawe_grants_init(struct rawe_grants *grants, uint64_t port_bytes, struct rawe_line *line,
                      uint32_t frame_bytes, const uint16_t *ring_frames)
{
    *grants = (struct rawe_grants){
        .frame_bytes = frame_bytes,
        .ranks = 1,
        .ring_frames = ring_frames,
    };
    rawe_budget_init(&grants->budget, port_bytes, line);
    rawe_list_init(&grants->peers);
}

/**
 * Return how many frames arrive in the time that a frame waits in this host because the program is
 * computing or has no processor.
 */
static uint32_t waiting_frames(const struct rawe_grants *grants)
{
    const uint64_t *waited_ns = grants->waited_ns;
    const uint64_t longest_ns = waited_ns[0] > waited_ns[1] ? waited_ns[0] : waited_ns[1];
    const uint64_t bytes = longest_ns * rawe_line_mbps(grants->budget.line) / 8000;
    return (uint32_t)(bytes / grants->frame_bytes / grants->ranks);
}

/** Return how many granted frames are in flight or in the port. The rest wait in this host. */
static uint32_t frames_under_way(const struct rawe_grants *grants)
{
    const uint32_t waiting = waiting_frames(grants);
    return grants->frames > waiting ? grants->frames - waiting : 0;
}

/** Add to a member's grant. To subtract, pass the negative number modulo 2^32. */
static void add(struct rawe_grants *grants, struct rawe_grants_member *member, uint32_t frames)
{
    member->frames += frames;
    grants->frames += frames;
    rawe_budget_set_asked(&grants->budget,
                          (uint64_t)frames_under_way(grants) * grants->frame_bytes);
}

void rawe_grants_forget(struct rawe_grants *grants, struct rawe_grants_member *member)
{
    if (rawe_list_has(&member->link)) {
        rawe_list_remove(&member->link);
        grants->senders--;
        add(grants, member, 0 - member->frames);
        grants->waits = grants->senders != 0; /* the other peers have more to send */
    }
}

void rawe_grants_reset(struct rawe_grants *grants, struct rawe_grants_member *member,
                       uint32_t first_sequence)
{
    rawe_grants_forget(grants, member);
    *member = (struct rawe_grants_member){.newest = first_sequence - 1};
}

/** Return true if several peers have more to send to us. */
static bool has_several_senders(const struct rawe_grants *grants)
{
    return grants->senders >= 2;
}

/**
 * Return how many frames fill the port and the path. Half of them are held back at first, because
 * the first grants are used in a single burst.
 */
static uint32_t path_frames(const struct rawe_grants *grants)
{
    const uint32_t frames =
        (uint32_t)(rawe_budget_limit_bytes(&grants->budget) / grants->frame_bytes);
    return frames > grants->held_back ? frames - grants->held_back : 0;
}

/** Give turns to a peer that has more to send. */
static void give_turn(struct rawe_grants *grants, struct rawe_grants_member *member,
                      uint64_t now_ns)
{
    if (!rawe_list_has(&member->link)) {
        rawe_list_append(&grants->peers, &member->link);
        member->begins = true;
        if (++grants->senders == 2) {
            grants->held_back = 0;
            grants->held_back = path_frames(grants) / 2;
            rawe_budget_wait(&grants->budget, now_ns);
        }
    }
}

/** Note that frames have waited for `waited_ns` in this host. */
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
    if (grants->budget.port_bytes == 0) {
        return;
    }
    if (!more && grants->senders == 0) {
        member->newest = rawe_sequence_before(newest, member->newest) ? member->newest : newest;
        return;
    }
    member->heard_ns = now_ns;
    note_wait(grants, waited_ns, now_ns);
    /* rawe_budget adds a tenth for headers. */
    rawe_budget_arrived(&grants->budget, (uint64_t)frames * grants->frame_bytes * 10 / 11, now_ns);
    grants->held_back -= used < grants->held_back ? used : grants->held_back;
    add(grants, member, 0 - used);                       /* 0 if the member has no grant */
    if (!rawe_sequence_before(newest, member->newest)) { /* a resent frame has an old flag */
        member->newest = newest;
        if (more) {
            member->begins = member->begins && used == 0;
            give_turn(grants, member, now_ns);
        } else {
            rawe_grants_forget(grants, member);
        }
    }
    grants->waits = grants->waits || has_several_senders(grants);
}

void rawe_grants_probed(struct rawe_grants *grants, uint64_t now_ns)
{
    if (has_several_senders(grants)) {
        rawe_budget_arrived(&grants->budget, PROBE_BYTES, now_ns);
    }
}

/** Return each peer's grant while several share the port. */
static uint32_t share_frames(const struct rawe_grants *grants)
{
    const uint32_t path = path_frames(grants) / grants->senders / grants->ranks;
    uint32_t frames =
        (path < MOST_FRAMES ? path : MOST_FRAMES) + waiting_frames(grants) / grants->senders;
    frames = frames > LEAST_FRAMES ? frames : LEAST_FRAMES;
    return frames < *grants->ring_frames ? frames : *grants->ring_frames;
}

/** Return the peer whose turn is next. */
static struct rawe_grants_member *find_first_in_turn(const struct rawe_grants *grants)
{
    return RAWE_OWNER(rawe_list_first(&grants->peers), struct rawe_grants_member, link);
}

/** Return a peer that must learn that other senders no longer limit it; NULL: none. */
static struct rawe_grants_member *find_released(struct rawe_grants *grants)
{
    struct rawe_grants_member *member = grants->senders != 0 ? find_first_in_turn(grants) : NULL;
    grants->waits = false;
    if (member == NULL || !member->limited) {
        return NULL;
    }
    member->limited = false;
    return member;
}

/**
 * Return true if the grants of the host's other processes leave room below the limit. Each process
 * may use an equal part. If this is less than a share, a process without grants has the next turn.
 */
static bool has_room(const struct rawe_grants *grants, const struct rawe_budget_others *others)
{
    const uint64_t most = path_frames(grants);
    const uint64_t under_way = frames_under_way(grants);
    return under_way + others->bytes / grants->frame_bytes < most &&
           under_way * grants->ranks < most && !others->first;
}

/** Return the number of frames to grant a peer in its turn. */
static uint32_t wanted_frames(const struct rawe_grants *grants,
                              const struct rawe_grants_member *member)
{
    const uint32_t share = share_frames(grants);
    const bool first = member->begins && share <= LEAST_FRAMES && share > FIRST_FRAMES;
    return first ? FIRST_FRAMES : share;
}

/** Grant a peer its share, by which an idle link raises the limit. False: there is no room. */
static bool give_share(struct rawe_grants *grants, const struct rawe_budget_others *others,
                       struct rawe_grants_member *member, uint64_t now_ns)
{
    const uint32_t share = wanted_frames(grants, member);
    if (!has_room(grants, others) &&
        !rawe_budget_idles(&grants->budget, (uint64_t)share * grants->frame_bytes, now_ns)) {
        if (grants->frames == 0) {
            rawe_budget_await_turn(&grants->budget, now_ns);
        }
        return false;
    }
    rawe_budget_asked(&grants->budget, 0, now_ns);
    add(grants, member, share - member->frames);
    member->heard_ns = now_ns;
    return true;
}

/** Read the grants of the host's other processes, and count the processes. */
static struct rawe_budget_others poll_others(struct rawe_grants *grants, uint64_t now_ns)
{
    const struct rawe_budget_others others = rawe_budget_others(&grants->budget, now_ns);
    grants->ranks = 1 + others.count;
    return others;
}

void rawe_grants_expect(struct rawe_grants *grants, struct rawe_grants_member *member,
                        uint64_t now_ns)
{
    if (grants->budget.port_bytes == 0) {
        return;
    }
    member->heard_ns = now_ns;
    give_turn(grants, member, now_ns);
    if (has_several_senders(grants)) {
        const struct rawe_budget_others others = poll_others(grants, now_ns);
        (void)give_share(grants, &others, member, now_ns);
        grants->waits = true;
    }
}

struct rawe_grants_member *rawe_grants_next(struct rawe_grants *grants, uint64_t now_ns)
{
    const struct rawe_budget_others others = poll_others(grants, now_ns);
    for (uint32_t turns = grants->senders; turns != 0 && has_several_senders(grants); turns--) {
        struct rawe_grants_member *member = find_first_in_turn(grants);
        if (member->frames != 0 && now_ns > member->heard_ns + UNUSED_NS) {
            rawe_grants_forget(grants, member);
            continue;
        }
        const bool needs = member->frames <= wanted_frames(grants, member) / 2;
        if (needs && !give_share(grants, &others, member, now_ns)) {
            return NULL; /* `waits` stays set */
        }
        rawe_list_remove(&member->link);
        rawe_list_append(&grants->peers, &member->link);
        if (needs) {
            return member;
        }
    }
    if (!has_several_senders(grants)) {
        return find_released(grants);
    }
    grants->waits = false;
    return NULL;
}

uint16_t rawe_grants_credit(const struct rawe_grants *grants, struct rawe_grants_member *member,
                            uint16_t frames)
{
    if (!has_several_senders(grants)) {
        member->limited = false;
        return frames;
    }
    const bool waits = rawe_list_has(&member->link);
    const uint32_t most = waits ? member->frames : share_frames(grants);
    member->limited = most < frames;
    return member->limited ? (uint16_t)most : frames;
}
