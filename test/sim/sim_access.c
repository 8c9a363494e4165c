/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided accesses: each node has a window of memory for PUTs, GETs and atomic operations of all
 * other nodes. The expected results are known: a counter returns each value once, each source's
 * words have the values that it gave them, and the rest of the window never changes.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "conn/rawe_conn_record.h"
#include "rawe_engine.h"

/** One in this many runs has accesses; their maximum number. */
#define RUNS_WITHOUT 4u
#define ACCESSES_MOST 1024u

/** Words to which all nodes add one; the second half have four bytes. */
#define COUNTERS 8u
/** Words per source, which has at most one access to each word at a time. */
#define WORDS 4u

#define CONSTANT_BYTES 200000u /* long enough for replies to be split among routes */
#define BEHIND_BYTES 16u
#define UNTOUCHED 0xC3u
/** Content of memory that was deregistered and then reused. */
#define REUSED 0xA7

/** Expected state of a word. */
struct word {
    // cppcheck-suppress unusedStructMember // it does not see through the array of arrays
    uint64_t value;
    // cppcheck-suppress unusedStructMember // it does not see through the array of arrays
    bool busy;
    // cppcheck-suppress unusedStructMember // it does not see through the array of arrays
    bool unknown; /**< a failed access may have been executed */
};

/** The window of a process. */
struct sim_window {
    uint64_t counters[COUNTERS];
    uint64_t words[SIM_NODES_MAX][WORDS];
    uint8_t constant[CONSTANT_BYTES];
    struct word model[SIM_NODES_MAX][WORDS]; /**< expected state of `words` */
    bool given[COUNTERS][ACCESSES_MOST];     /**< values fetched so far */
    uint64_t added[COUNTERS];
    uint32_t handle_index;
    uint64_t handle_key;
};

static struct word *model_of(struct sim_window *window, uint32_t source, uint32_t word)
{
    return &window->model[source][word];
}

/** Length of the registered memory. */
#define REGISTERED_BYTES (offsetof(struct sim_window, model))

struct sim_access {
    struct sim_access *next;
    struct sim *sim;
    struct net_process from, to;
    struct sim_window *window; /**< the window of `to`, while that process lives */
    struct rawe_operation operation;
    uint32_t counter, word; /**< index of either; UINT32_MAX: not accessed */
    uint64_t before, after; /**< of a word */
    uint64_t result;
    uint8_t *got; /**< GET of constant memory */
    bool excused; /**< the access may fail */
    bool revoked; /**< the memory was deregistered: a PUT may complete without effect */
    bool ended;
};

/** Register the window's memory for all kinds of access. */
static void grant(struct sim_node *node, struct sim_window *window)
{
    if (!rawe_handle_register(&node->handles, window, REGISTERED_BYTES, &window->handle_index,
                              &window->handle_key,
                              RAWE_ACCESS_READ | RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC)) {
        abort();
    }
    node->window = window;
}

void sim_access_start(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct sim_random random = sim_random_stream(sim->options.seed, 19);

    node->accesses = sim_random_stream(sim->options.seed, 1005 + 8ull * node->index);
    if (sim_random_below(&random, RUNS_WITHOUT) != 0) {
        return;
    }
    struct sim_window *window = net_zeroed(sizeof(*window));
    net_content_fill(window->constant, sim->options.seed, 0, CONSTANT_BYTES);
    grant(node, window);
}

static void fail(const struct sim_access *access, const char *what, uint64_t got, uint64_t wanted_)
{
    net_fail("accesses are executed once", "n%u to n%u: %s is %llu, not %llu", access->from.index,
             access->to.index, what, (unsigned long long)got, (unsigned long long)wanted_);
}

/** Check the value fetched from a counter. */
static void check_counter(struct sim_access *access)
{
    struct sim_window *window = access->window;
    uint64_t value = access->result;

    if (value >= ACCESSES_MOST || window->given[access->counter][value]) {
        fail(access, "a value fetched twice, or never there,", value,
             window->added[access->counter]);
    }
    window->given[access->counter][value] = true;
    window->added[access->counter]++;
}

static void check_word(struct sim_access *access)
{
    struct sim_window *window = access->window;
    uint32_t source = access->from.index;

    if (access->result != access->before) {
        fail(access, "a word", access->result, access->before);
    }
    if (window->words[source][access->word] != access->after) {
        fail(access, "a word afterwards", window->words[source][access->word], access->after);
    }
    model_of(window, source, access->word)->value = access->after;
}

static void check_constant(const struct sim_access *access)
{
    uint64_t offset = access->operation.offset - offsetof(struct sim_window, constant);
    uint64_t len_bytes = access->operation.len_bytes;
    size_t same = net_content_compare(access->got, access->sim->options.seed, offset, len_bytes);

    if (same != len_bytes) {
        fail(access, "the first wrong byte of a GET", same, len_bytes);
    }
    for (unsigned i = 0; i < BEHIND_BYTES; i++) {
        if (access->got[len_bytes + i] != UNTOUCHED) {
            fail(access, "a byte behind a GET", access->got[len_bytes + i], UNTOUCHED);
        }
    }
}

static void ended(struct sim_access *access, enum rawe_status status)
{
    struct sim *sim = access->sim;
    const struct sim_node *to = &sim->nodes[access->to.index];
    bool there = to->window == access->window && to->life == access->to.life;

    if (access->ended) {
        net_fail("completes once", "an access of n%u is completed twice", access->from.index);
    }
    access->ended = true;
    sim->activity_ns = sim->now_ns;
    sim->accesses_open -= !access->excused;
    if (status != RAWE_STATUS_DONE && !access->excused && !sim->plan.lying && !sim->finishing) {
        net_fail("accesses succeed", "one of n%u to n%u has failed, refusal %u", access->from.index,
                 access->to.index, access->operation.refusal);
    }
    if (there && access->word != UINT32_MAX) {
        model_of(access->window, access->from.index, access->word)->busy = false;
        model_of(access->window, access->from.index, access->word)->unknown |=
            status != RAWE_STATUS_DONE;
    }
    if (!there || status != RAWE_STATUS_DONE || sim->plan.lying) {
        return;
    }
    if (access->counter != UINT32_MAX) {
        check_counter(access);
    } else if (access->word != UINT32_MAX) {
        check_word(access);
    } else {
        check_constant(access);
    }
}

/** rawe_operation.done */
static void operation_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct sim_access *access =
        (struct sim_access *)(void *)((char *)operation - offsetof(struct sim_access, operation));

    if (operation->kind == RAWE_FRAGMENT_PUT) {
        access->result = access->before; /* this operation returns no value */
        status = access->revoked ? RAWE_STATUS_FAILED : status;
    }
    ended(access, status);
}

static void excuse(struct sim_access *access)
{
    if (!access->excused && !access->ended) {
        access->sim->accesses_open--;
    }
    access->excused = true;
}

/** Return true if the node has given up a channel to the peer, or a channel's close is pending. */
static bool doubtful(const struct sim_node *node, uint32_t peer)
{
    bool found = false;

    for (struct sim_channel *channel = node->channels; channel != NULL && !found;
         channel = channel->next) {
        found = channel->peer == peer && (channel->failed || !sim_channel_settled(channel));
    }
    return found;
}

static void submit(struct sim_access *access, struct sim_channel *channel)
{
    struct sim *sim = access->sim;
    const struct sim_node *to = &sim->nodes[access->to.index];

    (void)sim_channel_beside(channel, RAWE_LANE_BULK);
    sim->activity_ns = sim->now_ns;
    sim->accesses_open++;
    if (!to->alive || to->life != channel->peer_life || sim->finishing ||
        doubtful(channel->node, access->to.index) || doubtful(to, access->from.index)) {
        excuse(access);
    }
    access->operation.done = operation_done;
    access->operation.handle_index = access->window->handle_index;
    access->operation.handle_key = access->window->handle_key;
    if (!rawe_peer_operate(&channel->via->peer, &access->operation)) {
        access->ended = true;
        sim->accesses_open -= !access->excused;
        if (access->word != UINT32_MAX) {
            model_of(access->window, access->from.index, access->word)->busy = false;
        }
    }
}

static void use_counter(struct sim_access *access, struct sim_random *random)
{
    struct rawe_operation *operation = &access->operation;

    access->counter = (uint32_t)sim_random_below(random, COUNTERS);
    operation->offset = offsetof(struct sim_window, counters) + access->counter * sizeof(uint64_t);
    operation->len_bytes = access->counter < COUNTERS / 2 ? 8 : 4;
    operation->kind = RAWE_FRAGMENT_ATOMIC;
    operation->atomic = RAWE_ATOMIC_ADD;
    operation->operand = 1;
    operation->local = (uint8_t *)&access->result;
}

static void use_word(struct sim_access *access, struct sim_random *random)
{
    struct rawe_operation *operation = &access->operation;
    static const enum rawe_atomic atomics[] = {
        RAWE_ATOMIC_ADD, RAWE_ATOMIC_AND,  RAWE_ATOMIC_OR,
        RAWE_ATOMIC_XOR, RAWE_ATOMIC_SWAP, RAWE_ATOMIC_COMPARE_SWAP,
    };
    const uint64_t style = sim_random_below(random, 8);
    const uint64_t operand = sim_random_next(random), before = access->before;
    const uint64_t after[] = {before + operand, before & operand,
                              before | operand, before ^ operand,
                              operand,          operand % 2 != 0 ? before : operand,
                              before,           /* GET */ operand /* PUT */};

    access->after = after[style];
    operation->offset = offsetof(struct sim_window, words) +
                        (access->from.index * WORDS + access->word) * sizeof(uint64_t);
    operation->len_bytes = sizeof(uint64_t);
    operation->operand = operand;
    operation->local = (uint8_t *)(style < 7 ? &access->result : &access->after);
    if (style < 6) {
        operation->kind = RAWE_FRAGMENT_ATOMIC;
        operation->atomic = atomics[style];
        operation->compare = style == 5 ? before + operand % 2 : 0;
    } else {
        operation->kind = style == 6 ? RAWE_FRAGMENT_GET : RAWE_FRAGMENT_PUT;
    }
}

static void use_constant(struct sim_access *access, struct sim_random *random)
{
    uint64_t len_bytes = sim_random_scaled(random, 1, CONSTANT_BYTES);

    access->got = net_new(len_bytes + BEHIND_BYTES);
    memset(access->got, UNTOUCHED, len_bytes + BEHIND_BYTES);
    access->operation.offset = offsetof(struct sim_window, constant) +
                               sim_random_below(random, CONSTANT_BYTES - len_bytes + 1);
    access->operation.len_bytes = len_bytes;
    access->operation.kind = RAWE_FRAGMENT_GET;
    access->operation.local = access->got;
}

/** Deregister the window's memory, overwrite and free it. */
static void take_back(struct sim_node *node)
{
    struct sim_window *window = node->window;

    for (unsigned i = 0; i < node->nic_count; i++) {
        rawe_conn_serve_forget(&node->nics[i].engine, window->handle_index);
    }
    if (!rawe_handle_deregister(&node->handles, window->handle_index, window->handle_key)) {
        abort();
    }
    memset(window, REUSED, sizeof(*window));
    free(window);
    node->window = NULL;
}

/** Move the window to other memory while accesses are pending. */
static void revoke(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct sim_window *old = node->window;
    struct sim_window *window = net_new(sizeof(*window));
    *window = *old;
    sim->incidents.revoked++;
    sim_trace(sim, "n%u takes its window back", node->index);
    for (struct sim_access *access = sim->accesses; access != NULL; access = access->next) {
        if (access->window == old) {
            access->window = window;
            access->revoked = access->revoked || !access->ended;
            excuse(access);
        }
    }
    take_back(node);
    grant(node, window);
}

void sim_access_begin(struct sim_node *node, uint32_t peer)
{
    struct sim *sim = node->sim;
    struct sim_random *random = &node->accesses;
    struct sim_node *target = &sim->nodes[peer];

    if (node->window == NULL || target->window == NULL || sim->accesses_count == ACCESSES_MOST) {
        return;
    }
    if (sim->plan.revoke_ppm != 0 && sim_faults_on(sim) &&
        sim_strikes(sim, random, sim->plan.revoke_ppm)) {
        revoke(node);
    }
    struct sim_channel *channel =
        sim_channel_get(node, peer, sim_channel_in_order(node, peer), RAWE_LANE_EXPRESS);
    if (channel == NULL || channel->peer_life != target->life) {
        return;
    }
    uint64_t style = sim_random_below(random, 3);
    uint32_t word = (uint32_t)sim_random_below(random, WORDS);
    if (style == 1 && (model_of(target->window, node->index, word)->busy ||
                       model_of(target->window, node->index, word)->unknown)) {
        style = 0;
    }
    struct sim_access *access = net_zeroed(sizeof(*access));
    access->sim = sim;
    access->next = sim->accesses;
    sim->accesses = access;
    sim->accesses_count++;
    access->from = sim_node_process(node);
    access->to = sim_node_process(target);
    access->window = target->window;
    access->counter = access->word = UINT32_MAX;
    if (style == 0) {
        use_counter(access, random);
    } else if (style == 1) {
        access->word = word;
        access->before = model_of(target->window, node->index, word)->value;
        model_of(target->window, node->index, word)->busy = true;
        use_word(access, random);
    } else {
        use_constant(access, random);
    }
    submit(access, channel);
}

void sim_access_closed(struct sim *sim, uint32_t one, uint32_t other)
{
    for (struct sim_access *access = sim->accesses; access != NULL; access = access->next) {
        if ((access->from.index == one && access->to.index == other) ||
            (access->from.index == other && access->to.index == one)) {
            excuse(access);
        }
    }
}

/** Mark as unknown the words that a dead source's accesses may still write. */
static void forget_source(struct sim_node *node)
{
    struct sim *sim = node->sim;

    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        struct sim_window *window = sim->nodes[i].window;
        for (unsigned word = 0; window != NULL && word < WORDS; word++) {
            struct word *known = model_of(window, node->index, word);
            known->unknown |= known->busy;
        }
    }
}

void sim_access_died(struct sim_node *node)
{
    for (struct sim_access *access = node->sim->accesses; access != NULL; access = access->next) {
        if (access->from.index == node->index || access->to.index == node->index) {
            excuse(access);
        }
    }
    forget_source(node);
}

void sim_access_end(struct sim_node *node)
{
    if (node->window != NULL) {
        take_back(node);
    }
}

void sim_access_progress(const struct sim_node *node, uint64_t *progress)
{
    for (const struct sim_access *access = node->sim->accesses; access != NULL;
         access = access->next) {
        const struct rawe_operation *operation = &access->operation;
        if (!access->ended && operation->kind == RAWE_FRAGMENT_GET &&
            access->from.index == node->index && access->from.life == node->life) {
            progress[access->to.index] += 1 + operation->left_bytes + 3 * operation->asked_bytes -
                                          ((uint64_t)operation->parts << 40);
        }
    }
}

void sim_access_check(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        const struct sim_window *window = sim->nodes[i].window;
        for (unsigned counter = 0; window != NULL && counter < COUNTERS; counter++) {
            uint64_t least = window->added[counter], most = least;
            for (const struct sim_access *access = sim->accesses; access != NULL;
                 access = access->next) {
                most += access->window == window && access->counter == counter && access->excused;
            }
            if (window->counters[counter] < least || window->counters[counter] > most) {
                net_fail("accesses are executed once",
                         "n%u: counter %u is %llu after %llu to %llu additions", i, counter,
                         (unsigned long long)window->counters[counter], (unsigned long long)least,
                         (unsigned long long)most);
            }
        }
    }
}

void sim_access_free(struct sim *sim)
{
    while (sim->accesses != NULL) {
        struct sim_access *access = sim->accesses;
        sim->accesses = access->next;
        free(access->got);
        free(access);
    }
}
