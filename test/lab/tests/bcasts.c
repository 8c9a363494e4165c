/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives in many ways, each byte checked. Usage: bcasts WHAT [COUNT]
 *
 *   sizes     all roots, contiguous and not, up to beyond a frame
 *   long      the same, up to beyond what goes by multicast; sharing no buffer
 *   scatters  all roots, of every shape, up to beyond what goes by multicast; Allgathers as well
 *   loop      COUNT Bcasts of 64 bytes from one root, then from each by turns
 *   types     Reductions of all types and operations, in place and not, of the user's own as well
 *   sums      COUNT Allreduces, and nothing else
 *   barriers  COUNT Barriers, and nothing else
 *   shares    COUNT Reduce_scatters of both kinds, and nothing else
 *   parts COUNT BYTES   COUNT Scatters of as many bytes to each rank, and nothing else
 *   wholes COUNT BYTES  COUNT Allgathers of as many bytes of each rank, and nothing else
 *   late [N]  a rank enters seconds after the others; then another computes while it is a root; Bcasts of
 *             N bytes [1000]
 *   dups      COUNT communicators: dup, split, all three calls, free
 *   ten       ten communicators at once, in turns
 *   last      the last Bcast is followed by MPI_Finalize alone
 *   endless [N] until something ends it; Bcasts of N bytes [100]
 *   away FILE many Bcasts, then the root is outside of MPI until the last member, which has them all,
 *             has made the file
 *   truncates N  the root sends N bytes, and the others take half of them: MPI_ERR_TRUNCATE
 */
#include <complex.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX (5 << 20)
#define SCATTERED_BYTES_MOST 1468 /* by multicast */
#define GATHERED_BYTES_MOST 8192
#define RANKS_MAX 32
#define WARM_UP 16 /* calls before a communicator's go by multicast */

static int rank, ranks;
static bool alone; /* each rank has a host of its own */

static void fail(const char *what, int at)
{
    printf("rank %d: wrong: %s %d\n", rank, what, at);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static unsigned char byte_of(unsigned salt, int i)
{
    return (unsigned char)(salt * 31u + (unsigned)i * 7u + ((unsigned)i >> 8));
}

/** Broadcast bytes that depend on the salt, and check them and what is behind. */
static void bcast(MPI_Comm comm, int root, int bytes, unsigned salt)
{
    static unsigned char buffer[BYTES_MAX + 8];
    int self;

    MPI_Comm_rank(comm, &self);
    for (int i = 0; i < bytes + 8; i++) {
        buffer[i] = self == root ? byte_of(salt, i) : 0xEE;
    }
    MPI_Bcast(buffer, bytes, MPI_BYTE, root, comm);
    for (int i = 0; i < bytes; i++) {
        if (buffer[i] != byte_of(salt, i)) {
            fail("byte", i);
        }
    }
    if (self != root && buffer[bytes] != 0xEE) {
        fail("behind", bytes);
    }
}

static void sum(MPI_Comm comm, unsigned salt)
{
    int self, members;

    MPI_Comm_rank(comm, &self);
    MPI_Comm_size(comm, &members);
    const double mine[] = {self + salt, self};
    double all[2] = {0, 0};
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, comm);
    const double ranks_sum = members * (members - 1) / 2;
    if (all[0] != members * (double)salt + ranks_sum || all[1] != ranks_sum) {
        fail("sum", (int)salt);
    }
}

/** Its hosts have one clock: nobody has left before all have entered. */
static void barrier(MPI_Comm comm)
{
    struct timespec time;
    long long entered, left, last;

    clock_gettime(CLOCK_MONOTONIC, &time);
    entered = time.tv_sec * 1000000000ll + time.tv_nsec;
    MPI_Barrier(comm);
    clock_gettime(CLOCK_MONOTONIC, &time);
    left = time.tv_sec * 1000000000ll + time.tv_nsec;
    MPI_Allreduce(&entered, &last, 1, MPI_LONG_LONG, MPI_MAX, comm);
    if (left < last) {
        fail("barrier", (int)(last - left));
    }
}

static void all_three(MPI_Comm comm, int root, int bytes, unsigned salt)
{
    bcast(comm, root, bytes, salt);
    sum(comm, salt);
    barrier(comm);
}

static void warm_up(MPI_Comm comm)
{
    for (unsigned i = 0; i < WARM_UP; i++) {
        bcast(comm, 0, 8, i);
    }
}

/** Every second int of a vector, from a buffer that does not begin with it. */
static void bcast_vector(MPI_Comm comm, int root, int count, unsigned salt)
{
    int *buffer = malloc((size_t)(2 * count + 2) * sizeof(int));
    MPI_Datatype type;

    for (int i = 0; i < 2 * count + 2; i++) {
        buffer[i] = rank == root ? (int)salt + i : -1;
    }
    MPI_Type_vector(count, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Bcast(buffer + 1, 1, type, root, comm);
    for (int i = 0; i < 2 * count - 1; i++) {
        int wanted = i % 2 == 0 || rank == root ? (int)salt + i + 1 : -1;
        if (buffer[i + 1] != wanted) {
            fail("vector element", i);
        }
    }
    MPI_Type_free(&type);
    /* The others take the same content in another shape. */
    if (rank == root) {
        MPI_Bcast(buffer, 2 * count, MPI_INT, root, comm);
    } else {
        int *shape = malloc((size_t)(4 * count) * sizeof(int));
        MPI_Type_vector(2 * count, 1, 2, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Bcast(shape, 1, type, root, comm);
        for (int i = 0; i < 2 * count; i++) {
            if (shape[2 * i] != (int)salt + i) {
                fail("element of another shape", i);
            }
        }
        MPI_Type_free(&type);
        free(shape);
    }
    free(buffer);
}

static void sizes(void)
{
    static const int some[] = {0, 1, 2, 7, 8, 63, 64, 100, 1000, 1023, 1024, 1025, 1400};

    warm_up(MPI_COMM_WORLD);
    for (int root = 0; root < ranks; root++) {
        for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++) {
            bcast(MPI_COMM_WORLD, root, some[i], i + (unsigned)root);
        }
        for (int bytes = 1440; bytes < 1520; bytes++) {
            bcast(MPI_COMM_WORLD, root, bytes, (unsigned)bytes);
        }
        bcast(MPI_COMM_WORLD, root, 9000, (unsigned)root);
        for (int count = 1; count < 200; count += 13) {
            bcast_vector(MPI_COMM_WORLD, root, count, (unsigned)count * 1000u);
        }
    }
}

/** Each size with roots by turns, and some in a row from one root. */
static void long_ones(void)
{
    static const int some[] = {1500,    2000,    2841,    4096,    8192,          16384,
                               63900,   65536,   100000,  262144,  500001,        730000,
                               1000000, 1 << 20, 2 << 20, 4 << 20, (4 << 20) + 1, BYTES_MAX};

    warm_up(MPI_COMM_WORLD);
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (int turn = 0; turn < ranks + 2; turn++) {
            bcast(MPI_COMM_WORLD, turn % ranks, some[i], i + (unsigned)turn);
            bcast(MPI_COMM_WORLD, turn % ranks, some[i] / 40 + 1, i + (unsigned)turn);
            all_three(MPI_COMM_WORLD, 0, 8, i);
        }
        for (unsigned k = 0; k < 5; k++) {
            bcast(MPI_COMM_WORLD, 1, some[i], i + k);
        }
    }
    for (int count = 400; count < 300000; count = count * 3 + 7) {
        bcast_vector(MPI_COMM_WORLD, count % ranks, count, (unsigned)count);
    }
}

/** What Scatters differ in, as bits. */
enum { ROOT_HAS_GAPS = 1, OTHERS_HAVE_GAPS = 2, IN_PLACE = 4, SHAPES = 8 };

/** Scatter `count` ints to each rank, and check them and what is between and behind. */
static void scatter(MPI_Comm comm, int root, int count, unsigned shape, unsigned salt)
{
    const int from_stride = (shape & ROOT_HAS_GAPS) != 0 ? 2 : 1;
    const int to_stride = (shape & OTHERS_HAVE_GAPS) != 0 ? 2 : 1;
    const int from_extent = count == 0 ? 0 : from_stride * (count - 1) + 1;
    int self, members;
    MPI_Datatype from_type, to_type;

    MPI_Comm_rank(comm, &self);
    MPI_Comm_size(comm, &members);
    const bool in_place = self == root && (shape & IN_PLACE) != 0;
    int *from = malloc((size_t)(members * from_extent + 1) * sizeof(int));
    int *to = malloc((size_t)(2 * count + 1) * sizeof(int));
    for (int i = 0; i < members; i++) {
        for (int k = 0; k < count; k++) {
            from[i * from_extent + k * from_stride] = (int)salt + i * count + k;
        }
    }
    memset(to, 0xEE, (size_t)(2 * count + 1) * sizeof(int));
    MPI_Type_vector(count, 1, from_stride, MPI_INT, &from_type);
    MPI_Type_vector(count, 1, to_stride, MPI_INT, &to_type);
    MPI_Type_commit(&from_type);
    MPI_Type_commit(&to_type);
    MPI_Scatter(self == root ? from : NULL, 1, from_type, in_place ? MPI_IN_PLACE : to, 1, to_type,
                root, comm);
    for (int i = 0; i < 2 * count + 1; i++) {
        const bool taken = !in_place && i % to_stride == 0 && i / to_stride < count;
        if (to[i] != (taken ? (int)salt + self * count + i / to_stride : (int)0xEEEEEEEE)) {
            fail("scattered int", i);
        }
    }
    MPI_Type_free(&from_type);
    MPI_Type_free(&to_type);
    free(from);
    free(to);
}

/** Allgather `count` ints of each rank; the rest as above. */
static void allgather(MPI_Comm comm, int count, unsigned shape, unsigned salt)
{
    const int from_stride = (shape & ROOT_HAS_GAPS) != 0 ? 2 : 1;
    const int to_stride = (shape & OTHERS_HAVE_GAPS) != 0 ? 2 : 1;
    const int to_extent = count == 0 ? 0 : to_stride * (count - 1) + 1;
    const bool in_place = (shape & IN_PLACE) != 0;
    int self, members;
    MPI_Datatype from_type, to_type;

    MPI_Comm_rank(comm, &self);
    MPI_Comm_size(comm, &members);
    int *from = malloc((size_t)(2 * count + 1) * sizeof(int));
    const int to_ints = members * to_extent + 1;
    int *to = malloc((size_t)to_ints * sizeof(int)),
        *wanted = malloc((size_t)to_ints * sizeof(int));
    memset(to, 0xEE, (size_t)to_ints * sizeof(int));
    memcpy(wanted, to, (size_t)to_ints * sizeof(int));
    for (int i = 0; i < members; i++) {
        for (int k = 0; k < count; k++) {
            const int value = (int)salt + i * count + k;
            wanted[i * to_extent + k * to_stride] = value;
            if (i == self) {
                from[k * from_stride] = value;
                if (in_place) {
                    to[i * to_extent + k * to_stride] = value;
                }
            }
        }
    }
    MPI_Type_vector(count, 1, from_stride, MPI_INT, &from_type);
    MPI_Type_vector(count, 1, to_stride, MPI_INT, &to_type);
    MPI_Type_commit(&from_type);
    MPI_Type_commit(&to_type);
    MPI_Allgather(in_place ? MPI_IN_PLACE : from, 1, from_type, to, 1, to_type, comm);
    for (int i = 0; i < to_ints; i++) {
        if (to[i] != wanted[i]) {
            fail("gathered int", i);
        }
    }
    MPI_Type_free(&from_type);
    MPI_Type_free(&to_type);
    free(from);
    free(to);
    free(wanted);
}

static void scatters(void)
{
    const int most = SCATTERED_BYTES_MOST / (int)sizeof(int) / ranks;
    const int most_of_all = GATHERED_BYTES_MOST / (int)sizeof(int) / ranks;
    const int some[] = {0, 1, 2, 30, most - 1, most, most + 1, most_of_all, most_of_all + 1, 20000};

    warm_up(MPI_COMM_WORLD);
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (int turn = 0; turn < ranks + 2; turn++) {
            const unsigned salt = i * 1000 + (unsigned)turn;
            scatter(MPI_COMM_WORLD, turn % ranks, some[i], (i + (unsigned)turn) % SHAPES, salt);
            bcast(MPI_COMM_WORLD, turn % ranks, 100, salt);
        }
        for (unsigned shape = 0; shape < SHAPES; shape++) {
            scatter(MPI_COMM_WORLD, 1, some[i], shape, shape);
            allgather(MPI_COMM_WORLD, some[i], shape, shape);
        }
    }
}

/** Scatters and nothing else, of bytes. */
static void parts(int count, int bytes)
{
    unsigned char *from = malloc((size_t)ranks * (size_t)bytes), *to = malloc((size_t)bytes);

    for (int i = 0; i < count; i++) {
        for (int k = 0; k < ranks * bytes; k++) {
            from[k] = byte_of((unsigned)i, k);
        }
        MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, i % ranks, MPI_COMM_WORLD);
        for (int k = 0; k < bytes; k++) {
            if (to[k] != byte_of((unsigned)i, rank * bytes + k)) {
                fail("part", k);
            }
        }
    }
    free(from);
    free(to);
}

/** Allgathers and nothing else, of bytes. */
static void wholes(int count, int bytes)
{
    unsigned char *to = malloc((size_t)ranks * (size_t)bytes), *from = malloc((size_t)bytes);

    for (int i = 0; i < count; i++) {
        for (int k = 0; k < bytes; k++) {
            from[k] = byte_of((unsigned)i, rank * bytes + k);
        }
        MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (int k = 0; k < ranks * bytes; k++) {
            if (to[k] != byte_of((unsigned)i, k)) {
                fail("byte of the whole", k);
            }
        }
    }
    free(from);
    free(to);
}

/** Reduce_scatters of both kinds by turns. */
static void shares(int count)
{
    int ones[RANKS_MAX], in[RANKS_MAX], out = -1;

    for (int i = 0; i < ranks; i++) {
        ones[i] = in[i] = 1;
    }
    for (int i = 0; i < count; i++) {
        if (i / 8 % 2 == 0) { /* Open MPI's of blocks is a Reduce and a Scatter: it comes later */
            MPI_Reduce_scatter(in, &out, ones, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Reduce_scatter_block(in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        if (out != ranks) {
            fail("part of a sum", out);
        }
    }
}

static void loop(int count)
{
    warm_up(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        bcast(MPI_COMM_WORLD, 1, 64, (unsigned)i);
    }
    if (rank == 0) {
        printf("half\n");
        fflush(stdout);
    }
    for (int i = 0; i < count; i++) {
        bcast(MPI_COMM_WORLD, i % ranks, 64, (unsigned)i);
    }
}

/**
 * Of real numbers: what needs rounding in sums and products, and so shows their order. Where hosts have
 * several ranks it is not that of ranks: then numbers whose sums and products are exact.
 */
static double real(int i)
{
    return alone ? 1.0 / (3 + i) : 1.0 / (1 << i);
}

static double imaginary(void)
{
    return alone ? 2 : 0;
}

/* A type of MPI's with how its element i is written: in 0 to 7. */
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
#define COUNT_MAX 8 /* of the longest type, as much as goes by multicast */

#define NUMBER(mpi, c, value) NUMBER_##mpi,
#define NUMBER_PAIR(mpi, c) NUMBER_##mpi,
enum { TYPES(NUMBER, NUMBER_PAIR) NUMBERS };

/** The elements that a rank contributes. */
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

/** As many elements of the longest type as any call has. */
typedef struct {
    _Alignas(16) char bytes[RANKS_MAX * VALUE_BYTES_MAX];
} elements_t;

/** Reductions of one type: with which operation, of how many elements, and how. */
struct reduction {
    int index;
    MPI_Datatype type;
    MPI_Op op;
    int count;
    bool in_place;
};

/** What reducing the first `members` ranks in their order gives. */
static void put_reduced(elements_t *to, const struct reduction *what, int count, int members)
{
    elements_t one;

    put(to, what->index, count, members - 1);
    for (int i = members - 2; i >= 0; i--) {
        put(&one, what->index, count, i);
        MPI_Reduce_local(&one, to, count, what->type, what->op);
    }
}

/** Compare all bits of elements, the wanted ones from the number `from` on. */
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
        memset(packed[0] + i, 0, 6); /* of 16 bytes the value has 10 */
        memset(packed[1] + i, 0, 6);
    }
    if ((bytes[0] == 0 && count != 0) || memcmp(packed[0], packed[1], (size_t)bytes[0]) != 0) {
        fail(call, what->index);
    }
}

/** What this rank contributes; as buffer for the result, in place or full of something else. */
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

/** Reduce elements by all calls, and compare with what reducing in order of ranks gives. */
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

/** Sums that need rounding have the same bits in all ranks, each time. */
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

/** x -> first * x + second: to compose such functions does not commute. */
static void compose(void *earlier, void *later, int *count, MPI_Datatype *type)
{
    unsigned *a = earlier, *b = later;

    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        b[i + 1] += b[i] * a[i + 1];
        b[i] *= a[i];
    }
}

static void types(void)
{
    const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                          MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    char one[VALUE_BYTES_MAX] = {0}, other[VALUE_BYTES_MAX] = {0};
    int pairs = 0;
    MPI_Datatype two;
    MPI_Op own;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    warm_up(MPI_COMM_WORLD);
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
    for (int count = 0; count < 100; count++) { /* on both sides of what goes by multicast */
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

static void late(int bytes)
{
    warm_up(MPI_COMM_WORLD);
    if (rank == ranks - 1) {
        sleep(5);
    }
    for (unsigned i = 0; i < 300; i++) {
        all_three(MPI_COMM_WORLD, (int)(i / 200), bytes, i);
    }
    if (rank == 2) {
        bcast(MPI_COMM_WORLD, 2, bytes / 10, 1);
        sleep(3); /* outside of MPI: what got lost has to be repaired all the same */
    } else {
        bcast(MPI_COMM_WORLD, 2, bytes / 10, 1);
    }
    bcast(MPI_COMM_WORLD, 3, 100, 2);
}

static void dups(int count)
{
    for (int i = 0; i < count; i++) {
        MPI_Comm dup, part;
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        MPI_Comm_split(MPI_COMM_WORLD, i % 2 == 0 ? 0 : rank % 2, -rank, &part);
        for (unsigned j = 0; j < WARM_UP; j++) {
            all_three(dup, (int)j % ranks, 40, j + (unsigned)i);
            all_three(part, 0, 40, j + 1000u * (unsigned)i + (i % 2 == 0 ? 0 : (unsigned)rank % 2));
        }
        MPI_Comm_free(&part);
        MPI_Comm_free(&dup);
    }
}

static void ten(void)
{
    MPI_Comm comms[10];

    for (int i = 0; i < 10; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (unsigned round = 0; round < 100; round++) {
        for (int i = 0; i < 10; i++) {
            all_three(comms[i], (int)(round + (unsigned)i) % ranks, 200 + i,
                      round * 10 + (unsigned)i);
        }
    }
    for (int i = 0; i < 10; i++) {
        MPI_Comm_free(&comms[i]);
    }
}

static void away(const char *file)
{
    warm_up(MPI_COMM_WORLD);
    for (unsigned i = 0; i < 50; i++) {
        bcast(MPI_COMM_WORLD, 0, 8, i);
    }
    if (rank == ranks - 1) {
        FILE *made = fopen(file, "w");
        if (made == NULL || fclose(made) != 0) {
            fail("file", 0);
        }
    }
    while (rank == 0 && access(file, F_OK) != 0) {
        usleep(1000);
    }
}

static void truncates(int bytes)
{
    char *buffer = calloc(1, (size_t)bytes);

    warm_up(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status = MPI_Bcast(buffer, rank == 0 ? bytes : bytes / 2, MPI_BYTE, 0, MPI_COMM_WORLD);
    int class = MPI_SUCCESS;
    MPI_Error_class(status, &class);
    if (class != (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE)) {
        fail("class of the error", class);
    }
    bcast(MPI_COMM_WORLD, 1, 100, 5);
    bcast(MPI_COMM_WORLD, 0, bytes / 2, 6);
    free(buffer);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *what = argc > 1 ? argv[1] : "sizes";
    int count = argc > 2 ? atoi(argv[2]) : 1000;
    if (strcmp(what, "sizes") == 0) {
        sizes();
    } else if (strcmp(what, "long") == 0) {
        long_ones();
    } else if (strcmp(what, "loop") == 0) {
        loop(count);
    } else if (strcmp(what, "types") == 0) {
        types();
    } else if (strcmp(what, "sums") == 0) {
        for (int i = 0; i < count; i++) {
            sum(MPI_COMM_WORLD, (unsigned)i);
        }
    } else if (strcmp(what, "barriers") == 0) {
        for (int i = 0; i < count; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else if (strcmp(what, "shares") == 0) {
        shares(count);
    } else if (strcmp(what, "scatters") == 0) {
        scatters();
    } else if (strcmp(what, "parts") == 0) {
        parts(count, atoi(argv[3]));
    } else if (strcmp(what, "wholes") == 0) {
        wholes(count, atoi(argv[3]));
    } else if (strcmp(what, "late") == 0) {
        late(argc > 2 ? count : 1000);
    } else if (strcmp(what, "dups") == 0) {
        dups(count);
    } else if (strcmp(what, "ten") == 0) {
        ten();
    } else if (strcmp(what, "away") == 0) {
        away(argv[2]);
    } else if (strcmp(what, "truncates") == 0) {
        truncates(count);
    } else if (strcmp(what, "last") == 0) {
        warm_up(MPI_COMM_WORLD);
        for (int i = 0; i < 40; i++) {
            all_three(MPI_COMM_WORLD, 0, 100, (unsigned)i);
        }
        MPI_Finalize();
        return 0;
    } else {
        warm_up(MPI_COMM_WORLD);
        printf("rank %d pid %d works\n", rank, (int)getpid());
        fflush(stdout);
        for (unsigned i = 0;; i++) {
            all_three(MPI_COMM_WORLD, (int)(i % (unsigned)ranks), argc > 2 ? count : 100, i);
        }
    }
    if (rank == 0) {
        printf("all right\n");
    }
    MPI_Finalize();
    return 0;
}
