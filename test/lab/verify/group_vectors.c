/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group vectors: gatherv, scatterv, allgatherv, alltoallv, alltoallw. Block lengths are random, 0
 * among them, and gaps between the blocks must stay untouched.
 */
#include "group_collectives.h"

#include <stdlib.h>
#include <string.h>

#define EVERYBODY 0

/* The blocks of one buffer: lengths, places and the gap behind each. */
struct blocks {
    int *counts;
    int *places;
    size_t total;
};

/* Length of the block that source sends to dest, the same on both. */
static int length(uint64_t stream, int source, int dest, size_t limit)
{
    return (int)verify_random_size(stream, (uint64_t)source * 4096 + (uint64_t)dest, limit);
}

/* Blocks in reversed order of ranks with gaps between; what each one's length is says `sender`. */
static struct blocks blocks_new(uint64_t stream, size_t limit, int source, int dest)
{
    struct blocks blocks;

    blocks.counts = malloc(sizeof *blocks.counts * (size_t)verify.size);
    blocks.places = malloc(sizeof *blocks.places * (size_t)verify.size);
    blocks.total = 5;
    for (int i = verify.size - 1; i >= 0; i--) {
        blocks.counts[i] = length(stream, source < 0 ? i : source, dest < 0 ? i : dest, limit);
        blocks.places[i] = (int)blocks.total;
        blocks.total += (size_t)blocks.counts[i] + 3 + (size_t)i % 7;
    }
    return blocks;
}

static void blocks_free(struct blocks *blocks)
{
    free(blocks->counts);
    free(blocks->places);
}

/* Fills the block of each dest. */
static struct verify_buffer send_blocks(const struct blocks *blocks, int tag)
{
    struct verify_buffer buffer = verify_buffer_new(blocks->total);

    for (int dest = 0; dest < verify.size; dest++) {
        verify_fill(buffer.data + blocks->places[dest], (size_t)blocks->counts[dest],
                    verify_id(verify.rank, dest, tag, 0), 0);
    }
    return buffer;
}

/* Checks the block of each source and every gap. dest: whom the blocks are named after. */
static void check_blocks(struct verify_buffer *buffer, const struct blocks *blocks, int dest,
                         int tag)
{
    unsigned char *expected = malloc(blocks->total);

    memset(expected, VERIFY_POISON, blocks->total);
    for (int source = 0; source < verify.size; source++) {
        struct verify_id id = verify_id(source, dest, tag, 0);
        size_t at = (size_t)blocks->places[source], len = (size_t)blocks->counts[source];

        verify_buffer_check_part(buffer, at, len, id);
        verify_fill(expected + at, len, id, 0);
    }
    verify_buffer_expect(buffer, expected);
    free(expected);
}

static void gatherv(bool async, int root, size_t limit, bool in_place)
{
    uint64_t stream = verify_step_number();
    struct blocks blocks = blocks_new(stream, limit, -1, root);
    struct verify_id id = verify_id(verify.rank, root, 0, 0);
    size_t len = (size_t)length(stream, verify.rank, root, limit);
    struct verify_buffer send = verify_buffer_filled(len, id);
    struct verify_buffer all = verify_buffer_new(blocks.total);
    bool placed = in_place && verify.rank == root;

    if (placed) {
        verify_fill(all.data + blocks.places[root], len, id, 0);
    }
    COLLECTIVE(async, MPI_Gatherv, MPI_Igatherv, placed ? MPI_IN_PLACE : send.data, (int)len,
               MPI_BYTE, all.data, blocks.counts, blocks.places, MPI_BYTE, root, verify.comm);
    if (verify.rank == root) {
        check_blocks(&all, &blocks, root, 0);
    } else {
        verify_buffer_check_untouched(&all, 0, all.len);
    }
    verify_buffer_free(&all);
    verify_buffer_sent(&send, id);
    blocks_free(&blocks);
}

static void scatterv(bool async, int root, size_t limit, bool in_place)
{
    uint64_t stream = verify_step_number();
    struct blocks blocks = blocks_new(stream, limit, root, -1);
    size_t len = (size_t)length(stream, root, verify.rank, limit);
    struct verify_buffer send = send_blocks(&blocks, 1), receive = verify_buffer_new(len);
    bool placed = in_place && verify.rank == root;

    COLLECTIVE(async, MPI_Scatterv, MPI_Iscatterv, send.data, blocks.counts, blocks.places,
               MPI_BYTE, placed ? MPI_IN_PLACE : receive.data, (int)len, MPI_BYTE, root,
               verify.comm);
    if (!placed) {
        verify_buffer_check(&receive, len, verify_id(root, verify.rank, 1, 0));
    }
    verify_buffer_free(&send);
    verify_buffer_free(&receive);
    blocks_free(&blocks);
}

static void allgatherv(bool async, size_t limit, bool in_place)
{
    uint64_t stream = verify_step_number();
    struct blocks blocks = blocks_new(stream, limit, -1, EVERYBODY);
    struct verify_id id = verify_id(verify.rank, EVERYBODY, 2, 0);
    size_t len = (size_t)length(stream, verify.rank, EVERYBODY, limit);
    struct verify_buffer send = verify_buffer_filled(len, id);
    struct verify_buffer all = verify_buffer_new(blocks.total);

    if (in_place) {
        verify_fill(all.data + blocks.places[verify.rank], len, id, 0);
    }
    COLLECTIVE(async, MPI_Allgatherv, MPI_Iallgatherv, in_place ? MPI_IN_PLACE : send.data,
               (int)len, MPI_BYTE, all.data, blocks.counts, blocks.places, MPI_BYTE, verify.comm);
    check_blocks(&all, &blocks, EVERYBODY, 2);
    verify_buffer_free(&all);
    verify_buffer_sent(&send, id);
    blocks_free(&blocks);
}

static void alltoallv(bool async, size_t limit)
{
    uint64_t stream = verify_step_number();
    struct blocks out = blocks_new(stream, limit, verify.rank, -1);
    struct blocks in = blocks_new(stream, limit, -1, verify.rank);
    struct verify_buffer send = send_blocks(&out, 3), all = verify_buffer_new(in.total);

    COLLECTIVE(async, MPI_Alltoallv, MPI_Ialltoallv, send.data, out.counts, out.places, MPI_BYTE,
               all.data, in.counts, in.places, MPI_BYTE, verify.comm);
    check_blocks(&all, &in, verify.rank, 3);
    verify_buffer_free(&send);
    verify_buffer_free(&all);
    blocks_free(&out);
    blocks_free(&in);
}

/* In place: both directions of a pair have the same length, as MPI demands. */
static void alltoallv_in_place(bool async, size_t limit)
{
    uint64_t stream = verify_step_number();
    struct blocks blocks = blocks_new(stream, limit, verify.rank, -1);
    struct verify_buffer all;

    blocks.total = 5;
    for (int i = 0; i < verify.size; i++) {
        int low = i < verify.rank ? i : verify.rank, high = i < verify.rank ? verify.rank : i;

        blocks.counts[i] = length(stream, low, high, limit);
        blocks.places[i] = (int)blocks.total;
        blocks.total += (size_t)blocks.counts[i] + 4;
    }
    all = send_blocks(&blocks, 4);
    COLLECTIVE(async, MPI_Alltoallv, MPI_Ialltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL,
               all.data, blocks.counts, blocks.places, MPI_BYTE, verify.comm);
    check_blocks(&all, &blocks, verify.rank, 4);
    verify_buffer_free(&all);
    blocks_free(&blocks);
}

/* A datatype of its own for each peer; odd sources' bytes land with a hole behind each. */
static void alltoallw(bool async, size_t limit)
{
    uint64_t stream = verify_step_number();
    size_t ranks = (size_t)verify.size;
    struct blocks out = blocks_new(stream, limit, verify.rank, -1);
    struct blocks in = blocks_new(stream, limit, -1, verify.rank);
    struct verify_buffer send = send_blocks(&out, 5), all = verify_buffer_new(2 * in.total);
    unsigned char *expected = malloc(all.len);
    MPI_Datatype *bytes = malloc(sizeof *bytes * ranks), *types = malloc(sizeof *types * ranks);
    MPI_Datatype spread;

    MPI_Type_create_resized(MPI_BYTE, 0, 2, &spread);
    MPI_Type_commit(&spread);
    memset(expected, VERIFY_POISON, all.len);
    for (int source = 0; source < verify.size; source++) {
        struct verify_id id = verify_id(source, verify.rank, 5, 0);
        int stride = source % 2 == 1 ? 2 : 1;

        bytes[source] = MPI_BYTE;
        types[source] = stride == 2 ? spread : MPI_BYTE;
        in.places[source] *= 2; /* room for the holes */
        for (int i = 0; i < in.counts[source]; i++) {
            expected[in.places[source] + i * stride] = verify_byte(id, (size_t)i);
        }
    }
    COLLECTIVE(async, MPI_Alltoallw, MPI_Ialltoallw, send.data, out.counts, out.places, bytes,
               all.data, in.counts, in.places, types, verify.comm);
    verify_buffer_expect(&all, expected);
    MPI_Type_free(&spread);
    free(expected);
    free(bytes);
    free(types);
    verify_buffer_free(&send);
    verify_buffer_free(&all);
    blocks_free(&out);
    blocks_free(&in);
}

void collectives_unequal(bool async)
{
    static const size_t limits[] = {0, 20, 1500, 10000, 200000, 1000000};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        size_t limit = limits[i] / (limits[i] > 10000 ? (size_t)verify.size : 1);

        if (verify.quick && limits[i] > 200000) {
            break;
        }
        for (int root = 0; root < verify.size; root++) {
            if (limits[i] <= 1500 || root == (int)i % verify.size) {
                verify_step("rooted, blocks up to %zu, root %d%s", limit, root,
                            async ? ", non-blocking" : "");
                gatherv(async, root, limit, false);
                gatherv(async, root, limit, true);
                scatterv(async, root, limit, false);
                scatterv(async, root, limit, true);
            }
        }
        for (int k = 0; k < verify_repeat(3); k++) {
            verify_step("blocks up to %zu%s", limit, async ? ", non-blocking" : "");
            allgatherv(async, limit, false);
            allgatherv(async, limit, true);
            alltoallv(async, limit);
            if (!async) {
                alltoallv_in_place(async, limit);
            }
            alltoallw(async, limit);
        }
    }
}

void group_collectives_vector(void)
{
    collectives_unequal(false);
}
