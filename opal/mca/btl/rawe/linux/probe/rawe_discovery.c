/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Path discovery over a responder: moves PINGs, PONGs and the time between the responder and the
 * state machine of core/rawe_path.h. Two drive it: a caller that waits for the result (first
 * contact), and the responder's thread (validation of a path in use).
 */
#include <stdlib.h>

#include "rawe_responder_internal.h"

#define NS_PER_MS 1000000ull

/** With indirect checks, answers come to other responders' tables as well: polled this often. */
#define INDIRECT_POLL_NS (2 * NS_PER_MS)

/** A path's entry in the ping table of the responder that asks. */
struct line {
    struct rawe_responder *through;
    int ping;            /**< -1: no memory for it */
    uint32_t seen_bytes; /**< the longest answer that was passed on */
};

static struct line line_open(struct rawe_responder *responder,
                             const struct rawe_path_target *target)
{
    struct line line = {.through = target->through != NULL ? target->through : responder};

    line.ping = rawe_ping_table_add(rawe_responder_ping_table(line.through), &target->to);
    return line;
}

static void line_close(struct line *line)
{
    if (line->ping >= 0) {
        rawe_ping_table_remove(rawe_responder_ping_table(line->through), line->ping);
    }
}

static void take_answers(struct rawe_path_search *search, struct line *lines)
{
    for (unsigned i = 0; i < search->count; i++) {
        struct line *line = &lines[i];
        if (line->ping < 0) {
            continue;
        }
        const uint32_t pong_bytes =
            rawe_ping_table_pong_bytes(rawe_responder_ping_table(line->through), line->ping);
        if (pong_bytes > line->seen_bytes) {
            line->seen_bytes = pong_bytes;
            rawe_path_search_answered(search, i, pong_bytes + RAWE_HEADER_BYTES);
        }
    }
}

/** One pass of a search. False: it is over. */
static bool step(struct rawe_path_search *search, struct line *lines)
{
    struct rawe_path_ping ping;

    take_answers(search, lines);
    if (!rawe_path_search_advance(search, rawe_responder_now_ns())) {
        return false;
    }
    while (rawe_path_search_next(search, &ping)) {
        const struct line *line = &lines[ping.path];
        if (line->ping >= 0) {
            rawe_responder_send_ping(line->through, line->ping, ping.mtu_bytes - RAWE_HEADER_BYTES);
        }
    }
    return true;
}

void rawe_responder_discover(struct rawe_responder *responder, struct rawe_path *paths,
                             const struct rawe_path_target *targets, unsigned count,
                             uint64_t timeout_ns)
{
    struct rawe_ping_table *table = rawe_responder_ping_table(responder);
    struct line *lines = calloc(count + 1, sizeof *lines);
    struct rawe_path_search search;
    bool indirect = false;

    /* Without memory nothing can be asked, and nobody is found. */
    rawe_path_search_begin(&search, paths, count, rawe_responder_paced_pings(responder),
                           rawe_responder_now_ns(), lines != NULL ? timeout_ns : 0);
    for (unsigned i = 0; i < count && lines != NULL; i++) {
        lines[i] = line_open(responder, &targets[i]);
        indirect = indirect || lines[i].through != responder;
    }
    while (lines != NULL) {
        const uint64_t seen = rawe_ping_table_answers(table);
        if (!step(&search, lines)) {
            break;
        }
        uint64_t wake_ns = search.wake_ns;
        if (indirect && search.now_ns + INDIRECT_POLL_NS < wake_ns) {
            wake_ns = search.now_ns + INDIRECT_POLL_NS;
        }
        rawe_ping_table_wait(table, seen, wake_ns);
    }
    for (unsigned i = 0; i < count && lines != NULL; i++) {
        line_close(&lines[i]);
    }
    free(lines);
}

struct rawe_validation {
    struct rawe_responder_task task; /**< first: a pointer to it is one to the validation */
    struct rawe_path path;
    struct rawe_path_search search;
    struct line line;
    bool over; /**< atomic: `path` holds the result */
};

static int validation_service(struct rawe_responder_task *task)
{
    struct rawe_validation *validation = (struct rawe_validation *)task;

    if (validation->over) {
        return -1;
    }
    if (!step(&validation->search, &validation->line)) {
        __atomic_store_n(&validation->over, true, __ATOMIC_RELEASE);
        return -1;
    }
    const uint64_t now_ns = rawe_responder_now_ns();
    const uint64_t wake_ns = validation->search.wake_ns;
    return wake_ns > now_ns ? (int)((wake_ns - now_ns) / NS_PER_MS) + 1 : 0;
}

static void validation_free(struct rawe_responder_task *task)
{
    struct rawe_validation *validation = (struct rawe_validation *)task;

    line_close(&validation->line);
    free(validation);
}

struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns)
{
    const struct rawe_path_target target = {.to = *to};
    struct rawe_validation *validation = calloc(1, sizeof *validation);

    if (validation == NULL) {
        return NULL;
    }
    validation->task.service = validation_service;
    validation->task.stop = validation_free;
    validation->path.mtu_bytes = mtu_bytes;
    validation->line = line_open(responder, &target);
    rawe_path_search_begin(&validation->search, &validation->path, 1,
                           rawe_responder_paced_pings(responder), rawe_responder_now_ns(),
                           timeout_ns);
    rawe_responder_task_add(responder, &validation->task);
    return validation;
}

bool rawe_validation_result(const struct rawe_validation *validation, struct rawe_path *path)
{
    if (!__atomic_load_n(&validation->over, __ATOMIC_ACQUIRE)) {
        return false;
    }
    *path = validation->path;
    return true;
}

void rawe_validation_end(struct rawe_responder *responder, struct rawe_validation *validation)
{
    if (validation != NULL) {
        rawe_responder_task_remove(responder, &validation->task);
        validation_free(&validation->task);
    }
}
