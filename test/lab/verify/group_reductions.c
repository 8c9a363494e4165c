/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group reductions: reduce, allreduce, reduce_scatter, scan, exscan, reduce_local with predefined
 * operations and with one of our own that does not commute.
 *
 * The expected result is folded locally, rank by rank in MPI's canonical order, with code that
 * does not use MPI. Doubles hold small whole numbers, so that any order of adding is exact.
 */
#include "group_collectives.h"

#include <stdlib.h>
#include <string.h>

/* The map x -> scale * x + shift modulo 2^32: composing is associative and does not commute. */
struct affine {
    uint32_t scale;
    uint32_t shift;
};

struct located {
    int value;
    int where;
};

enum kind { INT_SUM, INT64_XOR, DOUBLE_SUM, UNSIGNED_MAX, SHORT_MIN, INT_MINLOC, AFFINE, KINDS };

static const char *const kind_names[] = {"int sum",           "int64 xor", "double sum",
                                         "unsigned max",      "short min", "minloc",
                                         "own, not commuting"};
static const size_t widths[] = {4, 8, 8, 4, 2, sizeof(struct located), sizeof(struct affine)};

static MPI_Datatype affine_type;
static MPI_Op affine_op;

static MPI_Datatype type_of(enum kind kind)
{
    switch (kind) {
    case INT_SUM:
        return MPI_INT;
    case INT64_XOR:
        return MPI_INT64_T;
    case DOUBLE_SUM:
        return MPI_DOUBLE;
    case UNSIGNED_MAX:
        return MPI_UNSIGNED;
    case SHORT_MIN:
        return MPI_SHORT;
    case INT_MINLOC:
        return MPI_2INT;
    default:
        return affine_type;
    }
}

static MPI_Op op_of(enum kind kind)
{
    switch (kind) {
    case INT_SUM:
    case DOUBLE_SUM:
        return MPI_SUM;
    case INT64_XOR:
        return MPI_BXOR;
    case UNSIGNED_MAX:
        return MPI_MAX;
    case SHORT_MIN:
        return MPI_MIN;
    case INT_MINLOC:
        return MPI_MINLOC;
    default:
        return affine_op;
    }
}

/* left applied after right: left(right(x)). */
static struct affine compose(struct affine left, struct affine right)
{
    return (struct affine){left.scale * right.scale, left.scale * right.shift + left.shift};
}

static void affine_function(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct affine *left = in, *right = inout;

    (void)type;
    for (int i = 0; i < *len; i++) {
        right[i] = compose(left[i], right[i]);
    }
}

/* Element i of what a rank contributes. */
static void element_write(enum kind kind, void *at, int rank, size_t i)
{
    uint64_t r = verify_random(verify_step_number() * 64 + (uint64_t)rank, i);

    switch (kind) {
    case INT_SUM:
        *(int *)at = (int)(r % 2000001) - 1000000;
        break;
    case INT64_XOR:
        *(int64_t *)at = (int64_t)r;
        break;
    case DOUBLE_SUM:
        *(double *)at = (double)(r % 1000000) - 500000;
        break;
    case UNSIGNED_MAX:
        *(unsigned *)at = (unsigned)r;
        break;
    case SHORT_MIN:
        *(short *)at = (short)r;
        break;
    case INT_MINLOC:
        *(struct located *)at = (struct located){(int)(r % 5), rank};
        break;
    default:
        *(struct affine *)at = (struct affine){(uint32_t)r | 1, (uint32_t)(r >> 32)};
    }
}

/* total = total (op) next, for one element. */
static void element_fold(enum kind kind, void *total, const void *next)
{
    switch (kind) {
    case INT_SUM:
        *(int *)total += *(const int *)next;
        break;
    case INT64_XOR:
        *(int64_t *)total ^= *(const int64_t *)next;
        break;
    case DOUBLE_SUM:
        *(double *)total += *(const double *)next;
        break;
    case UNSIGNED_MAX:
        if (*(const unsigned *)next > *(unsigned *)total) {
            *(unsigned *)total = *(const unsigned *)next;
        }
        break;
    case SHORT_MIN:
        if (*(const short *)next < *(short *)total) {
            *(short *)total = *(const short *)next;
        }
        break;
    case INT_MINLOC:
        if (((const struct located *)next)->value < ((struct located *)total)->value) {
            *(struct located *)total = *(const struct located *)next;
        }
        break;
    default:
        *(struct affine *)total = compose(*(struct affine *)total, *(const struct affine *)next);
        break;
    }
}

static struct verify_buffer contribution(enum kind kind, size_t count)
{
    struct verify_buffer buffer = verify_buffer_aligned(count * widths[kind]);

    for (size_t i = 0; i < count; i++) {
        element_write(kind, buffer.data + i * widths[kind], verify.rank, i);
    }
    return buffer;
}

/* What ranks 0 to last make of elements first..first+count. */
static void *folded(enum kind kind, size_t first, size_t count, int last)
{
    size_t width = widths[kind];
    unsigned char *total = malloc(count * width + 16);
    uint64_t element[2];

    for (size_t i = 0; i < count; i++) {
        element_write(kind, total + i * width, 0, first + i);
        for (int rank = 1; rank <= last; rank++) {
            element_write(kind, element, rank, first + i);
            element_fold(kind, total + i * width, element);
        }
    }
    return total;
}

static void expect(enum kind kind, struct verify_buffer *got, size_t first, int last)
{
    void *expected = folded(kind, first, got->len / widths[kind], last);

    verify_buffer_expect(got, expected);
    free(expected);
}

static void reduce(bool async, enum kind kind, size_t count, int root, bool in_place)
{
    struct verify_buffer mine = contribution(kind, count);
    struct verify_buffer result = in_place && verify.rank == root
                                      ? contribution(kind, count)
                                      : verify_buffer_aligned(count * widths[kind]);
    const void *from = in_place && verify.rank == root ? MPI_IN_PLACE : mine.data;

    COLLECTIVE(async, MPI_Reduce, MPI_Ireduce, from, result.data, (int)count, type_of(kind),
               op_of(kind), root, verify.comm);
    if (verify.rank == root) {
        expect(kind, &result, 0, verify.size - 1);
    }
    verify_buffer_free(&mine);
    verify_buffer_free(&result);
}

static void allreduce(bool async, enum kind kind, size_t count, bool in_place)
{
    struct verify_buffer mine = contribution(kind, count);
    struct verify_buffer result =
        in_place ? contribution(kind, count) : verify_buffer_aligned(count * widths[kind]);

    COLLECTIVE(async, MPI_Allreduce, MPI_Iallreduce, in_place ? MPI_IN_PLACE : mine.data,
               result.data, (int)count, type_of(kind), op_of(kind), verify.comm);
    expect(kind, &result, 0, verify.size - 1);
    verify_buffer_free(&mine);
    verify_buffer_free(&result);
}

static void scan(bool async, enum kind kind, size_t count)
{
    struct verify_buffer mine = contribution(kind, count);
    struct verify_buffer result = verify_buffer_aligned(count * widths[kind]);

    COLLECTIVE(async, MPI_Scan, MPI_Iscan, mine.data, result.data, (int)count, type_of(kind),
               op_of(kind), verify.comm);
    expect(kind, &result, 0, verify.rank);
    verify_buffer_reset(&result);
    COLLECTIVE(async, MPI_Exscan, MPI_Iexscan, mine.data, result.data, (int)count, type_of(kind),
               op_of(kind), verify.comm);
    if (verify.rank > 0) {
        expect(kind, &result, 0, verify.rank - 1);
    }
    verify_buffer_free(&mine);
    verify_buffer_free(&result);
}

/* Equal shares, then unequal ones: rank r gets r % 3 * share elements, so some get nothing. */
static void reduce_scatter(bool async, enum kind kind, size_t share)
{
    int *counts = malloc(sizeof *counts * (size_t)verify.size);
    size_t total = 0, first = 0;
    struct verify_buffer mine = contribution(kind, share * (size_t)verify.size);
    struct verify_buffer result = verify_buffer_aligned(share * widths[kind]);

    COLLECTIVE(async, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, mine.data, result.data,
               (int)share, type_of(kind), op_of(kind), verify.comm);
    expect(kind, &result, share * (size_t)verify.rank, verify.size - 1);
    verify_buffer_free(&mine);
    verify_buffer_free(&result);

    for (int rank = 0; rank < verify.size; rank++) {
        counts[rank] = (int)((size_t)((rank + 1) % 3) * share);
        first += rank < verify.rank ? (size_t)counts[rank] : 0;
        total += (size_t)counts[rank];
    }
    mine = contribution(kind, total);
    result = verify_buffer_aligned((size_t)counts[verify.rank] * widths[kind]);
    COLLECTIVE(async, MPI_Reduce_scatter, MPI_Ireduce_scatter, mine.data, result.data, counts,
               type_of(kind), op_of(kind), verify.comm);
    expect(kind, &result, first, verify.size - 1);
    verify_buffer_free(&mine);
    verify_buffer_free(&result);
    free(counts);
}

static void reduce_local(enum kind kind, size_t count)
{
    struct verify_buffer mine = contribution(kind, count), other = contribution(kind, count);
    unsigned char *expected = malloc(other.len);

    memcpy(expected, mine.data, other.len);
    for (size_t i = 0; i < count; i++) {
        element_fold(kind, expected + i * widths[kind], other.data + i * widths[kind]);
    }
    MPI_Reduce_local(mine.data, other.data, (int)count, type_of(kind), op_of(kind));
    verify_buffer_expect(&other, expected);
    verify_buffer_free(&mine);
    verify_buffer_free(&other);
    free(expected);
}

void collectives_reducing(bool async)
{
    static const size_t counts[] = {1, 2, 37, 1000, 9000, 60000};

    MPI_Type_contiguous(2, MPI_UINT32_T, &affine_type);
    MPI_Type_commit(&affine_type);
    MPI_Op_create(affine_function, 0, &affine_op);
    for (int k = 0; k < KINDS; k++) {
        enum kind kind = (enum kind)k;

        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            size_t count = counts[i];

            if ((verify.quick && count > 1000) || (count > 1000 && async && kind % 2 == 1)) {
                break;
            }
            verify_step("%s, %zu elements%s", kind_names[k], count, async ? ", non-blocking" : "");
            for (int root = 0; root < verify.size; root++) {
                if (count < 100 || root == (int)(i + (size_t)k) % verify.size) {
                    reduce(async, kind, count, root, false);
                    reduce(async, kind, count, root, true);
                }
            }
            allreduce(async, kind, count, false);
            allreduce(async, kind, count, true);
            scan(async, kind, count);
            reduce_scatter(async, kind, 1 + count / (size_t)verify.size);
            if (!async) {
                reduce_local(kind, count);
            }
        }
    }
    MPI_Op_free(&affine_op);
    MPI_Type_free(&affine_type);
}

void group_reductions(void)
{
    collectives_reducing(false);
}
