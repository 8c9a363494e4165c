/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_pull.h"

#include <stddef.h>

/** Shorter GETs do not take turns, because it takes many of them to fill a port. */
#define TURNS_BYTES_MIN 4096u
/** Bounds of a piece, a quarter of the limit: shorter ones cost time, longer ones gain nothing. */
#define PIECE_BYTES_MIN 32768u
#define PIECE_BYTES_MAX 61440u
/** Limit on outstanding GET bytes from each peer, which may have stopped. */
#define PEER_BYTES_MAX 4194304u
/** GETs considered for each piece. With more peers, at least one is idle. */
#define CANDIDATES_MAX 16u

void rawe_pull_init(struct rawe_pull *pull, const struct rawe_pull_config *config, uint64_t now_ns)
{
    struct rawe_pull_host *host = config->host;
    pull->operations = config->operations;
    pull->limited = false;
    rawe_list_init(&pull->waiting);
    rawe_list_init(&pull->parked);
    rawe_credit_init(&pull->credit, config->ring_frames, config->window_frames, now_ns);
    rawe_line_init(&pull->line, config->link_mbps);
    rawe_budget_init(&pull->gets, config->port_bytes, &pull->line);
    rawe_grants_init(&pull->grants, config->port_bytes, &pull->line, config->frame_bytes,
                     &pull->credit.share[RAWE_LANE_BULK].active);
    if (host != NULL) {
        rawe_line_join(&pull->line, &host->line);
        rawe_budget_join(&pull->gets, &host->gets, config->host_index);
        rawe_budget_join(&pull->grants.budget, &host->grants, config->host_index);
    }
}

/** Outstanding data of all long GETs. */
struct asked {
    uint64_t bytes;
    struct rawe_budget_others others; /**< other processes of this host */
    uint64_t progress_ns; /**< last request or arrival, even if nothing is outstanding now */
    bool single;          /**< all from one peer, and no GET from another peer is waiting */
};

static struct asked sum_asked(const struct rawe_pull *pull, const struct rawe_peer *peer,
                              uint64_t now_ns)
{
    const struct rawe_link *all = &pull->operations->under_way;
    const struct rawe_link *queue = &pull->waiting;
    struct asked asked = {
        .bytes = pull->gets.asked_bytes,
        .others = rawe_budget_others(&pull->gets, now_ns),
        .single = rawe_list_empty(queue) || (rawe_operation_of(queue->next)->peer == peer &&
                                             rawe_operation_of(queue->before)->peer == peer),
    };
    for (struct rawe_link *link = all->next; link != all; link = link->next) {
        const struct rawe_operation *operation = rawe_operation_of(link);
        if (operation->budget != NULL) {
            asked.single = asked.single && operation->peer == peer;
            if (operation->progress_ns > asked.progress_ns) {
                asked.progress_ns = operation->progress_ns;
            }
        }
    }
    asked.single = asked.single && asked.others.count == 0;
    if (asked.bytes == 0) {
        asked.progress_ns = pull->gets.progress_ns;
    }
    return asked;
}

/** Return the length of a piece. */
static uint64_t piece_bytes(const struct rawe_pull *pull)
{
    uint64_t bytes = rawe_budget_limit_bytes(&pull->gets) / 4;
    bytes = bytes > PIECE_BYTES_MIN ? bytes : PIECE_BYTES_MIN;
    return bytes < PIECE_BYTES_MAX ? bytes : PIECE_BYTES_MAX;
}

static bool may_ask(struct rawe_pull *pull, const struct asked *asked, uint64_t now_ns)
{
    struct rawe_budget *gets = &pull->gets;
    /* Other processes get their turns before silence suggests that peers are not running. */
    const uint64_t patience_ns = (1 + asked->others.count) * rawe_budget_patience_ns(gets);
    return asked->single || asked->bytes + asked->others.bytes < rawe_budget_limit_bytes(gets) ||
           now_ns >= asked->progress_ns + patience_ns ||
           rawe_budget_idles(gets, piece_bytes(pull), now_ns);
}

/** Return the outstanding bytes of long GETs from a peer. */
static uint64_t owed_bytes(const struct rawe_pull *pull, const struct rawe_peer *peer)
{
    const struct rawe_link *all = &pull->operations->under_way;
    uint64_t bytes = 0;
    for (struct rawe_link *link = all->next; link != all; link = link->next) {
        const struct rawe_operation *operation = rawe_operation_of(link);
        if (operation->peer == peer && operation->budget != NULL) {
            bytes += operation->left_bytes;
        }
    }
    return bytes;
}

/** Return true if a peer owes as much as it may. */
static bool owes_most(const struct rawe_pull *pull, const struct rawe_peer *peer)
{
    return !rawe_operation_has_room(pull->operations, peer) ||
           owed_bytes(pull, peer) >= PEER_BYTES_MAX;
}

/** Move the GETs from peers that owe as much as they may, or from the others, to a list's end. */
static void move(const struct rawe_pull *pull, struct rawe_link *from, bool most,
                 struct rawe_link *to)
{
    const struct rawe_peer *peer = NULL;
    bool moves = false;
    struct rawe_link *next;
    for (struct rawe_link *link = from->next; link != from; link = next) {
        const struct rawe_operation *get = rawe_operation_of(link);
        next = link->next;
        if (get->peer != peer) {
            peer = get->peer;
            moves = owes_most(pull, peer) == most;
        }
        if (moves) {
            rawe_list_remove(link);
            rawe_list_append(to, link);
        }
    }
}

bool rawe_pull_may_begin(struct rawe_pull *pull, struct rawe_operation *operation, uint64_t now_ns)
{
    const bool counts =
        operation->kind == RAWE_FRAGMENT_GET && operation->len_bytes >= TURNS_BYTES_MIN;
    operation->budget = counts ? &pull->gets : NULL;
    if (!counts || rawe_budget_limit_bytes(&pull->gets) == 0) {
        return true;
    }
    const struct asked asked = sum_asked(pull, operation->peer, now_ns);
    return rawe_list_empty(&pull->waiting) && rawe_list_empty(&pull->parked) && asked.single &&
           !owes_most(pull, operation->peer);
}

void rawe_pull_wait(struct rawe_pull *pull, struct rawe_operation *operation, uint64_t now_ns)
{
    if (rawe_list_empty(&pull->waiting)) {
        rawe_budget_wait(&pull->gets, now_ns);
    }
    rawe_list_append(&pull->waiting, &operation->link);
}

/** Remove the GET whose peer owes the least data from the list, which must not be empty. */
static struct rawe_operation *choose_turn(struct rawe_pull *pull)
{
    struct rawe_link *link = pull->waiting.next;
    struct rawe_operation *best = rawe_operation_of(link);
    uint64_t least_bytes = owed_bytes(pull, best->peer);
    for (unsigned i = 1; i < CANDIDATES_MAX && least_bytes != 0 && link->next != &pull->waiting;
         i++) {
        link = link->next;
        uint64_t bytes = owed_bytes(pull, rawe_operation_of(link)->peer);
        if (bytes < least_bytes) {
            least_bytes = bytes;
            best = rawe_operation_of(link);
        }
    }
    rawe_list_remove(&best->link);
    return best;
}

struct rawe_operation *rawe_pull_next(struct rawe_pull *pull, uint64_t *len_bytes, uint64_t now_ns)
{
    move(pull, &pull->parked, false, &pull->waiting);
    if (rawe_list_empty(&pull->waiting)) {
        return NULL;
    }
    struct rawe_operation *next = choose_turn(pull);
    if (owes_most(pull, next->peer)) {
        rawe_list_prepend(&pull->waiting, &next->link);
        move(pull, &pull->waiting, true, &pull->parked);
        if (rawe_list_empty(&pull->waiting)) {
            return NULL;
        }
        next = choose_turn(pull);
    }
    const struct asked asked = sum_asked(pull, next->peer, now_ns);
    if (pull->limited && asked.bytes + asked.others.bytes == 0) {
        rawe_budget_ran_dry(&pull->gets);
    }
    pull->limited = !may_ask(pull, &asked, now_ns);
    if (pull->limited) {
        rawe_list_prepend(&pull->waiting, &next->link);
        return NULL;
    }
    const uint64_t left_bytes = next->len_bytes - next->asked_bytes, piece = piece_bytes(pull);
    *len_bytes = asked.single || left_bytes < piece * 3 / 2 ? left_bytes : piece;
    return next;
}
