/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that peers write into: each node has an arena filled with one value, in which transfers
 * get regions with guards between them. This reveals writes outside a region, too early, or late.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define BACKGROUND 0xA5u
#define GUARD_BYTES 64u
/** Number of the largest transfers that fit the arena side by side. */
#define ARENA_TRANSFERS 4u

static void make_arena(struct sim_node *node)
{
    node->arena_bytes = (node->sim->plan.transfer_max_bytes + GUARD_BYTES) * ARENA_TRANSFERS;
    node->arena = net_new(node->arena_bytes);
    memset(node->arena, BACKGROUND, node->arena_bytes);
}

/** Return the offset of the first changed byte of the arena in [from, to), or `to`. */
static uint32_t first_changed(const struct sim_node *node, uint32_t from, uint32_t to)
{
    const uint8_t *arena = node->arena;

    if (from < to && arena[from] == BACKGROUND &&
        memcmp(arena + from, arena + from + 1, to - from - 1) == 0) {
        return to;
    }
    while (from < to && arena[from] == BACKGROUND) {
        from++;
    }
    return from;
}

static void check_untouched(const struct sim_node *node, uint32_t from, uint32_t to)
{
    uint32_t at = first_changed(node, from, to);

    if (at != to) {
        net_fail("PUT writes only where it may",
                 "n%u: byte %u of its memory was changed outside any handle", node->index, at);
    }
}

void sim_transfer_check_arena(struct sim_node *node)
{
    uint32_t from = 0;

    if (node->arena == NULL) {
        return;
    }
    for (const struct sim_transfer *region = node->regions; region != NULL;
         region = region->next_region) {
        check_untouched(node, from, region->offset);
        from = region->offset + region->len_bytes;
    }
    check_untouched(node, from, node->arena_bytes);
}

bool sim_transfer_grant(struct sim *sim, struct sim_transfer *transfer)
{
    struct sim_node *node = &sim->nodes[transfer->target];
    struct sim_transfer **link = &node->regions;
    uint32_t from = GUARD_BYTES;

    if (node->arena == NULL) {
        make_arena(node);
    }
    while (*link != NULL && (*link)->offset - from < transfer->len_bytes + GUARD_BYTES) {
        from = (*link)->offset + (*link)->len_bytes + GUARD_BYTES;
        link = &(*link)->next_region;
    }
    if (*link == NULL && (from > node->arena_bytes ||
                          node->arena_bytes - from < transfer->len_bytes + GUARD_BYTES)) {
        return false;
    }
    check_untouched(node, from, from + transfer->len_bytes);
    if (!rawe_handle_register(&node->handles, node->arena + from, transfer->len_bytes,
                              &transfer->handle_index, &transfer->handle_key, RAWE_ACCESS_WRITE)) {
        abort();
    }
    transfer->offset = from;
    transfer->registered = true;
    transfer->next_region = *link;
    *link = transfer;
    return true;
}

/** Deregister memory and restore its initial value, so that later writes are detected. */
static void drop(struct sim_node *node, struct sim_transfer *transfer)
{
    struct sim_transfer **link = &node->regions;

    while (*link != transfer) {
        link = &(*link)->next_region;
    }
    *link = transfer->next_region;
    transfer->registered = false;
    memset(node->arena + transfer->offset, BACKGROUND, transfer->len_bytes);
    if (!rawe_handle_deregister(&node->handles, transfer->handle_index, transfer->handle_key)) {
        net_fail("handles are found again", "n%u: handle %u is unknown", node->index,
                 transfer->handle_index);
    }
}

void sim_transfer_put(struct sim *sim, struct sim_transfer *transfer)
{
    struct sim_app *app = &sim->nodes[transfer->source].app;
    unsigned parts = (unsigned)sim_random_between(&app->random, 1, 4);
    uint32_t offset = 0;

    if (parts > transfer->len_bytes) {
        parts = 1;
    }
    transfer->parts_open = parts;
    for (unsigned part = 0; part < parts; part++) {
        uint32_t left = transfer->len_bytes - offset;
        uint32_t spare = left - (parts - 1 - part);
        uint32_t len_bytes =
            part == parts - 1 ? left : (uint32_t)sim_random_between(&app->random, 1, spare);
        struct sim_message *message = sim_message_new(sim, SIM_MESSAGE_PUT, transfer->source,
                                                      transfer->target, transfer, len_bytes);
        message->transfer_offset = offset;
        offset += len_bytes;
        sim_submit(sim, message);
    }
}

static void check_content(struct sim *sim, const struct sim_transfer *transfer, uint32_t offset,
                          uint32_t len_bytes, const char *when)
{
    const struct sim_node *node = &sim->nodes[transfer->target];
    size_t same = net_content_compare(node->arena + transfer->offset + offset,
                                      transfer->content_seed, offset, len_bytes);

    if (same != len_bytes) {
        net_fail("complete PUTs are placed",
                 "transfer %u from n%u to n%u: byte %zu is wrong when %s", transfer->number,
                 transfer->source, transfer->target, offset + same, when);
    }
}

static bool must_be_right(const struct sim *sim, const struct sim_transfer *transfer)
{
    const struct sim_node *target = &sim->nodes[transfer->target];
    return !sim->plan.lying && transfer->registered && !transfer->revoked && !transfer->lossy &&
           target->alive && target->life == transfer->target_life;
}

void sim_transfer_placed(struct sim *sim, struct sim_message *message)
{
    sim->puts++;
    if (must_be_right(sim, message->transfer)) {
        check_content(sim, message->transfer, message->transfer_offset, message->net.len_bytes,
                      "the PUT is complete");
    }
}

void sim_transfer_finish(struct sim *sim, struct sim_transfer *transfer)
{
    struct sim_node *node = &sim->nodes[transfer->target];

    transfer->finished = true;
    if (!transfer->registered) {
        return; /* the memory was revoked */
    }
    if (must_be_right(sim, transfer)) {
        check_content(sim, transfer, 0, transfer->len_bytes, "the message that follows arrives");
        check_untouched(node, transfer->offset - GUARD_BYTES, transfer->offset);
        check_untouched(node, transfer->offset + transfer->len_bytes,
                        transfer->offset + transfer->len_bytes + GUARD_BYTES);
    }
    drop(node, transfer);
}

void sim_transfer_revoke(struct sim *sim, struct sim_transfer *transfer)
{
    sim_trace(sim, "n%u revokes transfer %u", transfer->target, transfer->number);
    sim->incidents.revoked++;
    transfer->revoked = true;
    drop(&sim->nodes[transfer->target], transfer);
}

void sim_transfer_drop_all(struct sim_node *node)
{
    sim_transfer_check_arena(node);
    while (node->regions != NULL) {
        drop(node, node->regions);
    }
}

void sim_transfer_free(struct sim *sim)
{
    while (sim->transfers != NULL) {
        struct sim_transfer *transfer = sim->transfers;
        sim->transfers = transfer->next;
        free(transfer);
    }
}
