/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group datatypes: data with holes or plain bytes, received into holes or plain bytes, so that rawe
 * packs each message in pieces.
 *
 * Each layout is described twice, independently: as an MPI datatype, and as a list of byte
 * displacements in packing order. The expected buffer is computed from the list and has poison in
 * all other places, so that a write to a hole is a failure.
 *
 * The basic types of sender and receiver need not agree (ints arrive as bytes), because Open MPI
 * does not convert data between hosts of the same architecture. Each way of cutting a message is
 * therefore tested with all layouts of holes.
 */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

/* A datatype and its properties. */
struct layout {
    const char *name;
    MPI_Datatype type;
    size_t size;       /* bytes of data of one element */
    ptrdiff_t extent;  /* bytes from one element to the next */
    ptrdiff_t *places; /* displacement of each data byte, in packing order */
    ptrdiff_t lowest, highest;
};

static void layout_begin(struct layout *layout, const char *name, size_t size, ptrdiff_t extent)
{
    layout->name = name;
    layout->size = 0;
    layout->extent = extent;
    layout->places = malloc(sizeof *layout->places * (size > 0 ? size : 1));
    layout->lowest = 0;
    layout->highest = 0;
}

/* Append a run of `len` bytes at a displacement. */
static void layout_run(struct layout *layout, ptrdiff_t at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        layout->places[layout->size++] = at + (ptrdiff_t)i;
    }
    layout->lowest = at < layout->lowest ? at : layout->lowest;
    if (at + (ptrdiff_t)len > layout->highest) {
        layout->highest = at + (ptrdiff_t)len;
    }
}

static void layout_commit(struct layout *layout)
{
    MPI_Aint low, extent;
    int size;

    MPI_Type_commit(&layout->type);
    MPI_Type_size(layout->type, &size);
    verify_equal(size, (long long)layout->size, "size of a datatype");
    MPI_Type_get_extent(layout->type, &low, &extent);
    verify_equal(extent, layout->extent, "extent of a datatype");
}

static void make_vector(struct layout *layout)
{
    enum { COUNT = 5, BLOCK = 3, STRIDE = 7 };

    layout_begin(layout, "vector", COUNT * BLOCK * 4, ((COUNT - 1) * STRIDE + BLOCK) * 4);
    MPI_Type_vector(COUNT, BLOCK, STRIDE, MPI_INT, &layout->type);
    for (int i = 0; i < COUNT; i++) {
        layout_run(layout, i * STRIDE * 4, BLOCK * 4);
    }
}

static void make_indexed(struct layout *layout)
{
    int lengths[] = {2, 1, 0, 4}, places[] = {10, 0, 5, 20};

    layout_begin(layout, "indexed, unordered", 7 * 2, 24 * 2);
    MPI_Type_indexed(4, lengths, places, MPI_SHORT, &layout->type);
    for (int i = 0; i < 4; i++) {
        if (lengths[i] > 0) {
            layout_run(layout, places[i] * 2, (size_t)lengths[i] * 2);
        }
    }
}

/* The extent is smaller than the span of the data, so consecutive elements interleave. */
static void make_interleaved(struct layout *layout)
{
    MPI_Datatype bare;

    layout_begin(layout, "vector, interleaved by resizing", 4, 1);
    MPI_Type_create_hvector(4, 1, 5000, MPI_BYTE, &bare);
    MPI_Type_create_resized(bare, 0, 1, &layout->type);
    MPI_Type_free(&bare);
    for (int i = 0; i < 4; i++) {
        layout_run(layout, i * 5000, 1);
    }
}

/* Data before the address passed to MPI, and a hole at each end. */
static void make_negative(struct layout *layout)
{
    int lengths[] = {4, 6};
    MPI_Aint places[] = {-12, 3};
    MPI_Datatype bare;

    layout_begin(layout, "negative lower bound", 10, 40);
    MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &bare);
    MPI_Type_create_resized(bare, -20, 40, &layout->type);
    MPI_Type_free(&bare);
    layout_run(layout, -12, 4);
    layout_run(layout, 3, 6);
}

/* A vector of struct-like elements, with holes in the vector and in the elements. */
static void make_nested(struct layout *layout)
{
    int lengths[] = {3, 2};
    MPI_Aint places[] = {0, 6};
    MPI_Datatype inner, padded;

    layout_begin(layout, "vector of resized hindexed", 3 * 2 * 5, (2 * 5 + 2) * 11);
    MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &inner);
    MPI_Type_create_resized(inner, 0, 11, &padded);
    MPI_Type_vector(3, 2, 5, padded, &layout->type);
    MPI_Type_free(&inner);
    MPI_Type_free(&padded);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            layout_run(layout, (i * 5 + k) * 11, 3);
            layout_run(layout, (i * 5 + k) * 11 + 6, 2);
        }
    }
}

static void (*const makers[])(struct layout *) = {
    make_vector, make_indexed, make_interleaved, make_negative, make_nested,
};

/* Return how many bytes before the address passed to MPI the elements occupy. */
static size_t room_before(const struct layout *layout)
{
    return (size_t)-layout->lowest;
}

/* Return how many bytes `count` elements span, from the lowest to the highest. */
static size_t room(const struct layout *layout, size_t count)
{
    return (size_t)((ptrdiff_t)(count - 1) * layout->extent + layout->highest - layout->lowest);
}

/* Write the message's bytes to their positions in the layout. */
static void scatter(const struct layout *layout, size_t count, unsigned char *buffer,
                    struct verify_id id)
{
    unsigned char *packed = malloc(count * layout->size);
    unsigned char *origin = buffer + room_before(layout);

    verify_fill(packed, count * layout->size, id, 0);
    for (size_t element = 0, k = 0; element < count; element++) {
        for (size_t i = 0; i < layout->size; i++, k++) {
            origin[(ptrdiff_t)element * layout->extent + layout->places[i]] = packed[k];
        }
    }
    free(packed);
}

/* Check a receive buffer: the message's bytes in position, and poison everywhere else. */
static void check_scattered(const struct layout *layout, size_t count, struct verify_buffer *buffer,
                            struct verify_id id)
{
    unsigned char *expected = malloc(buffer->len);

    memset(expected, VERIFY_POISON, buffer->len);
    scatter(layout, count, expected, id);
    verify_buffer_expect(buffer, expected);
    free(expected);
}

static struct verify_buffer scattered_buffer(const struct layout *layout, size_t count,
                                             struct verify_id id)
{
    struct verify_buffer buffer = verify_buffer_aligned(room(layout, count));

    scatter(layout, count, buffer.data, id);
    return buffer;
}

/* Check that the status of a typed receive reports the number of elements. */
static void check_count(const MPI_Status *status, const struct layout *layout, size_t count)
{
    int n;

    MPI_Get_count((MPI_Status *)status, layout->type, &n);
    verify_equal(n, (long long)count, "elements in the status of a typed receive");
}

/* Send layout to layout around the ring, then layout to bytes, then bytes to layout. */
static void transfer(const struct layout *layout, size_t count, uint64_t sequence)
{
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    size_t packed = count * layout->size, before = room_before(layout);
    int elements = (int)count, tag;

    for (tag = 0; tag < 3; tag++) {
        struct verify_id out = verify_id(verify.rank, to, tag, sequence);
        struct verify_id in = verify_id(from, verify.rank, tag, sequence);
        bool typed_send = tag != 2, typed_receive = tag != 1;
        struct verify_buffer send =
            typed_send ? scattered_buffer(layout, count, out) : verify_buffer_filled(packed, out);
        struct verify_buffer receive =
            verify_buffer_aligned(typed_receive ? room(layout, count) : packed);
        MPI_Request request;
        MPI_Status status;

        if (typed_receive) {
            MPI_Irecv(receive.data + before, elements, layout->type, from, tag, verify.comm,
                      &request);
        } else {
            MPI_Irecv(receive.data, (int)packed, MPI_BYTE, from, tag, verify.comm, &request);
        }
        if (typed_send) {
            MPI_Send(send.data + before, elements, layout->type, to, tag, verify.comm);
        } else {
            MPI_Send(send.data, (int)packed, MPI_BYTE, to, tag, verify.comm);
        }
        MPI_Wait(&request, &status);
        verify_equal(status.MPI_SOURCE, from, "source in the status");
        if (typed_receive) {
            check_count(&status, layout, count);
            check_scattered(layout, count, &receive, in);
        } else {
            verify_status(&status, from, tag, packed);
            verify_buffer_check(&receive, packed, in);
        }
        verify_buffer_free(&send);
        verify_buffer_free(&receive);
    }
}

void group_datatypes(void)
{
    static const size_t totals[] = {1, 100, 1500, 4096, 20000, 70000, 500000};

    for (size_t kind = 0; kind < sizeof makers / sizeof makers[0]; kind++) {
        struct layout layout;

        makers[kind](&layout);
        verify_step("%s", layout.name);
        layout_commit(&layout);
        for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
            size_t count = 1 + totals[i] / layout.size;

            if (layout.extent == 1 && count > 4900) {
                count = 4900; /* with 5000, elements would overlap */
            }
            if (totals[i] <= verify.max_bytes && (!verify.quick || totals[i] <= 70000)) {
                transfer(&layout, count, i);
            }
        }
        MPI_Type_free(&layout.type);
        free(layout.places);
    }
}
