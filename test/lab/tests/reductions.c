/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bcasts types: reductions with all types and operations, compared with a reduction in rank order.
 * bcasts handles: reductions with handles that differ between ranks but are equivalent.
 */
#include "bcasts.h"

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool alone; /* each rank has its own host */

/**
 * Return real number `i`. Sums and products are rounded, which reveals the order of the operations.
 * If hosts have several ranks, this is not the rank order, so sums and products must be exact.
 */
static double real(int i)
{
    return alone ? 1.0 / (3 + i) : 1.0 / (1 << i);
}

static double imaginary(void)
{
    return alone ? 2 : 0;
}

/* The MPI types, each with the value of element i, where i is 0 to 7. */
#define TYPES(TYPE, PAIR)                                                           \
    TYPE(MPI_CHAR, char, i)                                                         \
    TYPE(MPI_SIGNED_CHAR, signed char, i)                                           \
    TYPE(MPI_UNSIGNED_CHAR, unsigned char, i)                                       \
    TYPE(MPI_BYTE, unsigned char, i)                                                \
    TYPE(MPI_SHORT, short, i)                                                       \
    TYPE(MPI_UNSIGNED_SHORT, unsigned short, i)                                     \
    TYPE(MPI_INT, int, i)                                                           \
    TYPE(MPI_UNSIGNED, unsigned, i)                                                 \
    TYPE(MPI_LONG, long, i)                                                         \
    TYPE(MPI_UNSIGNED_LONG, unsigned long, i)                                       \
    TYPE(MPI_LONG_LONG, long long, i)                                               \
    TYPE(MPI_UNSIGNED_LONG_LONG, unsigned long long, i)                             \
    TYPE(MPI_INT8_T, int8_t, i)                                                     \
    TYPE(MPI_INT16_T, int16_t, i)                                                   \
    TYPE(MPI_INT32_T, int32_t, i)                                                   \
    TYPE(MPI_INT64_T, int64_t, i)                                                   \
    TYPE(MPI_UINT8_T, uint8_t, i)                                                   \
    TYPE(MPI_UINT16_T, uint16_t, i)                                                 \
    TYPE(MPI_UINT32_T, uint32_t, i)                                                 \
    TYPE(MPI_UINT64_T, uint64_t, i)                                                 \
    TYPE(MPI_AINT, MPI_Aint, i)                                                     \
    TYPE(MPI_OFFSET, MPI_Offset, i)                                                 \
    TYPE(MPI_COUNT, MPI_Count, i)                                                   \
    TYPE(MPI_C_BOOL, bool, i % 2)                                                   \
    TYPE(MPI_CXX_BOOL, bool, i % 2)                                                 \
    TYPE(MPI_LOGICAL, int, i % 2)                                                   \
    TYPE(MPI_INTEGER, int, i)                                                       \
    TYPE(MPI_REAL, float, real(i))                                                  \
    TYPE(MPI_DOUBLE_PRECISION, double, real(i))                                     \
    TYPE(MPI_COMPLEX, float complex, real(i) + imaginary() * I)                     \
    TYPE(MPI_DOUBLE_COMPLEX, double complex, real(i) + imaginary() * I)             \
    TYPE(MPI_FLOAT, float, real(i))                                                 \
    TYPE(MPI_DOUBLE, double, real(i))                                               \
    TYPE(MPI_LONG_DOUBLE, long double, real(i))                                     \
    TYPE(MPI_C_FLOAT_COMPLEX, float complex, real(i) + imaginary() * I)             \
    TYPE(MPI_C_DOUBLE_COMPLEX, double complex, real(i) + imaginary() * I)           \
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, real(i) + imaginary() * I) \
    PAIR(MPI_2INT, int)                                                             \
    PAIR(MPI_SHORT_INT, short)                                                      \
    PAIR(MPI_LONG_INT, long)                                                        \
    PAIR(MPI_FLOAT_INT, float)                                                      \
    PAIR(MPI_DOUBLE_INT, double)                                                    \
    PAIR(MPI_LONG_DOUBLE_INT, long double)

#define VALUE_BYTES_MAX 32
#define COUNT_MAX 8 /* the most elements of the longest type that are multicast */

#define NUMBER(mpi, c, value) NUMBER_##mpi,
#define NUMBER_PAIR(mpi, c) NUMBER_##mpi,
enum { TYPES(NUMBER, NUMBER_PAIR) NUMBERS };

/** Write the elements that this rank contributes. */
static void put(void *to, int type, int count, int from)
{
    memset(to, 0, (size_t)count * VALUE_BYTES_MAX);
    for (int at = 0; at < count; at++) {
        const int i = (from + at) % 8;
#define PUT(mpi, c, value)          \
    case NUMBER_##mpi:              \
        ((c *)to)[at] = (c)(value); \
        break;
#define PUT_PAIR(mpi, c)          \
    case NUMBER_##mpi: {          \
        struct {                  \
            c first;              \
            int second;           \
        } *pairs = to;            \
        pairs[at].first = (c)i;   \
        pairs[at].second = 7 - i; \
        break;                    \
    }
        switch (type) {
            TYPES(PUT, PUT_PAIR)
        }
    }
}

/** Room for the elements of any call. */
typedef struct {
    _Alignas(16) char bytes[RANKS_MAX * VALUE_BYTES_MAX];
} elements_t;

/** Reductions of one type. */
struct reduction {
    int index;
    MPI_Datatype type;
    MPI_Op op;
    int count;
    bool in_place;
};

/** Reduce the contributions of the first `members` ranks in rank order. */
static void put_reduced(elements_t *to, const struct reduction *what, int count, int members)
{
    elements_t one;

    put(to, what->index, count, members - 1);
    for (int i = members - 2; i >= 0; i--) {
        put(&one, what->index, count, i);
        MPI_Reduce_local(&one, to, count, what->type, what->op);
    }
}

/** Compare all bits of `count` elements with those of `wanted`, starting at element `from`. */
static void compare(const struct reduction *what, elements_t *wanted, int from, elements_t *got,
                    int count, const char *call)
{
    char packed[2][sizeof(elements_t)];
    int bytes[2] = {0, 0};
    MPI_Aint lower, extent;

    MPI_Type_get_extent(what->type, &lower, &extent);
    MPI_Pack(wanted->bytes + from * extent, count, what->type, packed[0], sizeof packed[0],
             &bytes[0], MPI_COMM_WORLD);
    MPI_Pack(got, count, what->type, packed[1], sizeof packed[1], &bytes[1], MPI_COMM_WORLD);
    for (int i = 10; what->type == MPI_C_LONG_DOUBLE_COMPLEX && i < bytes[0]; i += 16) {
        memset(packed[0] + i, 0, 6); /* the value has 10 of the 16 bytes */
        memset(packed[1] + i, 0, 6);
    }
    if ((bytes[0] == 0 && count != 0) || memcmp(packed[0], packed[1], (size_t)bytes[0]) != 0) {
        fail(call, what->index);
    }
}

/** Write this rank's contribution; if in place, also to the result buffer. Returns the input. */
static const void *contribute(const struct reduction *what, int count, elements_t *mine,
                              elements_t *got)
{
    put(mine, what->index, count, rank);
    put(got, what->index, count, what->in_place ? rank : 5);
    return what->in_place ? MPI_IN_PLACE : mine;
}

static void reduce_scatters(const struct reduction *what)
{
    elements_t mine, got, wanted;
    int counts[RANKS_MAX];

    for (int i = 0; i < ranks; i++) {
        counts[i] = (i + 1) * what->count / ranks - i * what->count / ranks;
    }
    const void *from = contribute(what, what->count, &mine, &got);
    MPI_Reduce_scatter(from, &got, counts, what->type, what->op, MPI_COMM_WORLD);
    put_reduced(&wanted, what, what->count, ranks);
    compare(what, &wanted, rank * what->count / ranks, &got, counts[rank],
            "Reduce_scatter of type");
    from = contribute(what, ranks, &mine, &got);
    MPI_Reduce_scatter_block(from, &got, 1, what->type, what->op, MPI_COMM_WORLD);
    put_reduced(&wanted, what, ranks, ranks);
    compare(what, &wanted, rank, &got, 1, "Reduce_scatter_block of type");
}

/** Reduce with each kind of call, and compare with a reduction in rank order. */
static void reduce_type(int index, MPI_Datatype type, MPI_Op op, int count, bool in_place)
{
    const struct reduction what = {index, type, op, count, in_place};
    elements_t mine, got, wanted;

    const void *from = contribute(&what, count, &mine, &got);
    MPI_Allreduce(from, &got, count, type, op, MPI_COMM_WORLD);
    put_reduced(&wanted, &what, count, ranks);
    compare(&what, &wanted, 0, &got, count, "Allreduce of type");
    reduce_scatters(&what);
}

static bool each_has_a_host(void)
{
    MPI_Comm host;
    int here, most;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &here);
    MPI_Comm_free(&host);
    MPI_Allreduce(&here, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return most == 1;
}

/** Check that rounded sums are identical on all ranks and in every repetition. */
static void same_bits(void)
{
    double mine[COUNT_MAX], sums[2][COUNT_MAX], first[COUNT_MAX];

    for (int i = 0; i < COUNT_MAX; i++) {
        mine[i] = 1.0 / (3 + i + rank);
    }
    for (int time = 0; time < 20; time++) {
        double *sum = sums[time == 0 ? 0 : 1];
        MPI_Allreduce(mine, sum, COUNT_MAX, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        memcpy(first, sum, sizeof first);
        MPI_Bcast(first, COUNT_MAX, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (memcmp(sum, first, sizeof first) != 0 || memcmp(sum, sums[0], sizeof first) != 0) {
            fail("bits of a sum", time);
        }
    }
}

/** Compose functions x -> first * x + second, which does not commute. */
static void compose(void *earlier, void *later, int *count, MPI_Datatype *type)
{
    unsigned *a = earlier, *b = later;

    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        b[i + 1] += b[i] * a[i + 1];
        b[i] *= a[i];
    }
}

void types(void)
{
    const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                          MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    char one[VALUE_BYTES_MAX] = {0}, other[VALUE_BYTES_MAX] = {0};
    int pairs = 0;
    MPI_Datatype two;
    MPI_Op own;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    warm_up();
    alone = each_has_a_host();
#define TYPE_OF(mpi, c, value) mpi,
#define TYPE_OF_PAIR(mpi, c) mpi,
    const MPI_Datatype all[] = {TYPES(TYPE_OF, TYPE_OF_PAIR)};
    for (int type = 0; type < NUMBERS; type++) {
        for (unsigned op = 0; op < sizeof ops / sizeof ops[0]; op++) {
            if (MPI_Reduce_local(one, other, 1, all[type], ops[op]) != MPI_SUCCESS) {
                continue; /* no operation for this type */
            }
            pairs++;
            for (int count = 1; count <= COUNT_MAX; count += COUNT_MAX - 1) {
                reduce_type(type, all[type], ops[op], count, false);
                reduce_type(type, all[type], ops[op], count, true);
            }
        }
    }
    if (pairs < 200) {
        fail("number of types with an operation", pairs);
    }
    MPI_Op_create(compose, 0, &own);
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    reduce_type(NUMBER_MPI_2INT, MPI_2INT, own, 7, false);
    reduce_type(NUMBER_MPI_2INT, MPI_2INT, own, 7, true);
    reduce_type(NUMBER_MPI_2INT, two, own, 7, false);
    MPI_Type_free(&two);
    MPI_Op_free(&own);
    same_bits();
    for (int count = 0; count < 100; count++) { /* below and above the limit of multicast */
        int in[100], out[100];
        for (int i = 0; i < 100; i++) {
            in[i] = rank + i;
            out[i] = -1;
        }
        MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 100; i++) {
            if (out[i] != (i < count ? ranks * i + ranks * (ranks - 1) / 2 : -1)) {
                fail("sum of ints", i);
            }
        }
    }
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const int *from = in;
    int *to = inout;

    (void)type;
    for (int i = 0; i < *count; i++) {
        to[i] += from[i];
    }
}

static void assert_sums(const int *sums, int count, int first, const char *call)
{
    for (int i = 0; i < count; i++) {
        if (sums[i] != ranks * (first + i) + ranks * (ranks - 1) / 2) {
            fail(call, i);
        }
    }
}

/**
 * Reduce with handles that differ between ranks: odd ranks use another type of the same signature,
 * and an operation that is not declared commutative. Open MPI's components support such operations
 * only in Allreduce, and not with eight ranks.
 */
void handles(void)
{
    int mine[RANKS_MAX], sums[RANKS_MAX], counts[RANKS_MAX];
    MPI_Datatype type = MPI_INT;
    MPI_Op op, other;

    warm_up();
    if (rank % 2 == 1) {
        MPI_Type_contiguous(1, MPI_INT, &type);
        MPI_Type_commit(&type);
    }
    MPI_Op_create(add, 1, &op);
    MPI_Op_create(add, ranks > 4 || rank % 2 == 0, &other);
    for (int i = 0; i < ranks; i++) {
        mine[i] = rank + i;
        counts[i] = 1;
    }
    for (int time = 0; time < 20; time++) {
        MPI_Allreduce(mine, sums, ranks, type, other, MPI_COMM_WORLD);
        assert_sums(sums, ranks, 0, "Allreduce of other handles");
        MPI_Reduce_scatter(mine, sums, counts, type, op, MPI_COMM_WORLD);
        assert_sums(sums, 1, rank, "Reduce_scatter of other handles");
        MPI_Reduce_scatter_block(mine, sums, 1, type, op, MPI_COMM_WORLD);
        assert_sums(sums, 1, rank, "Reduce_scatter_block of other handles");
    }
    if (type != MPI_INT) {
        MPI_Type_free(&type);
    }
    MPI_Op_free(&op);
    MPI_Op_free(&other);
}
