/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Run collectives of many kinds, and check every byte. Usage: bcasts WHAT [COUNT]
 *
 *   sizes     Bcasts from all roots, contiguous or with gaps, up to more than a frame
 *   long [N]  Bcasts above the limit of multicast. Up to N bytes [all], members receive the root's
 *             data with another datatype, which Open MPI's own algorithms split differently
 *   scatters  Scatters from all roots in all shapes, above the limit of multicast; also Allgathers
 *   loop      COUNT Bcasts of 64 bytes from one root, then from each root in turn
 *   types     reductions with all types and operations, in place or not; also user-defined ones
 *   handles   reductions with operations and types whose handles differ between ranks
 *   sums      only COUNT Allreduces
 *   barriers  only COUNT Barriers
 *   shares    only COUNT Reduce_scatters of both kinds
 *   parts COUNT BYTES   only COUNT Scatters of this many bytes to each rank
 *   wholes COUNT BYTES  only COUNT Allgathers of this many bytes from each rank
 *   late [N]  Bcasts of N bytes [1000]: a rank enters seconds after the others; then another root
 *             computes first
 *   dups      COUNT communicators: dup, split, all three calls, free
 *   frees     COUNT communicators, which rank 0 frees before the others vote; another with each id
 *   ten       ten communicators at the same time, used in turn
 *   last      the last call before MPI_Finalize is a collective
 *   ends      the last call before MPI_Finalize is a Bcast from rank 0
 *   steady FILE BYTES  Bcasts until FILE exists
 *   endless [N] endless Bcasts of N bytes [100]
 *   away FILE many Bcasts, then the root stays outside MPI until the last member has received them
 *             all and creates FILE
 *   truncates N  the root sends N bytes, and the others expect half as many: MPI_ERR_TRUNCATE
 */
#include "bcasts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX (5 << 20)
#define SCATTERED_BYTES_MOST 1468 /* limit of multicast */
#define GATHERED_BYTES_MOST 8192
#define WARM_UP 16 /* calls before a communicator uses multicast */
#define VOTE 8     /* the call in which its members vote */

int rank, ranks;
static int number, part_bytes; /* from the command line, or defaults */
static const char *file;

void fail(const char *what, int at)
{
    printf("rank %d: wrong: %s %d\n", rank, what, at);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static unsigned char byte_of(unsigned salt, int i)
{
    return (unsigned char)(salt * 31u + (unsigned)i * 7u + ((unsigned)i >> 8));
}

/** Broadcast bytes generated from the salt; check them, and the byte after the buffer. */
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

/** Check, by the clock that all hosts share, that no rank leaves before all have entered. */
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

void warm_up(void)
{
    for (unsigned i = 0; i < WARM_UP; i++) {
        bcast(MPI_COMM_WORLD, 0, 8, i);
    }
}

/** Broadcast every second int of a vector that starts inside its buffer. */
static void bcast_vector(int root, int count, unsigned salt)
{
    int *buffer = malloc((size_t)(2 * count + 2) * sizeof(int));
    MPI_Datatype type;

    for (int i = 0; i < 2 * count + 2; i++) {
        buffer[i] = rank == root ? (int)salt + i : -1;
    }
    MPI_Type_vector(count, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Bcast(buffer + 1, 1, type, root, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * count - 1; i++) {
        int wanted = i % 2 == 0 || rank == root ? (int)salt + i + 1 : -1;
        if (buffer[i + 1] != wanted) {
            fail("vector element", i);
        }
    }
    MPI_Type_free(&type);
    /* The other ranks receive the data with another datatype. */
    if (number != 0 && 2 * count * (int)sizeof(int) > number) {
        /* han of 5.0 fails here, over btl/tcp too */
    } else if (rank == root) {
        MPI_Bcast(buffer, 2 * count, MPI_INT, root, MPI_COMM_WORLD);
    } else {
        int *shape = malloc((size_t)(4 * count) * sizeof(int));
        MPI_Type_vector(2 * count, 1, 2, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Bcast(shape, 1, type, root, MPI_COMM_WORLD);
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

    warm_up();
    for (int root = 0; root < ranks; root++) {
        for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++) {
            bcast(MPI_COMM_WORLD, root, some[i], i + (unsigned)root);
        }
        for (int bytes = 1440; bytes < 1520; bytes++) {
            bcast(MPI_COMM_WORLD, root, bytes, (unsigned)bytes);
        }
        bcast(MPI_COMM_WORLD, root, 9000, (unsigned)root);
        for (int count = 1; count < 200; count += 13) {
            bcast_vector(root, count, (unsigned)count * 1000u);
        }
    }
}

/** Broadcast a message of each size from all roots in turn, then several times from one root. */
static void long_ones(void)
{
    static const int some[] = {1500,    2000,    2841,    4096,    8192,          16384,
                               63900,   65536,   100000,  262144,  500001,        730000,
                               1000000, 1 << 20, 2 << 20, 4 << 20, (4 << 20) + 1, BYTES_MAX};

    warm_up();
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
        bcast_vector(count % ranks, count, (unsigned)count);
    }
}

/** Bits that select variants of Scatter. */
enum { ROOT_HAS_GAPS = 1, OTHERS_HAVE_GAPS = 2, IN_PLACE = 4, SHAPES = 8 };

/** Create and commit a vector of `count` ints. */
static MPI_Datatype vector_of(int count, int stride)
{
    MPI_Datatype type;

    MPI_Type_vector(count, 1, stride, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/** Scatter `count` ints to each rank; check them, the gaps, and the int after the buffer. */
static void scatter(MPI_Comm comm, int root, int count, unsigned shape, unsigned salt)
{
    const int from_stride = (shape & ROOT_HAS_GAPS) != 0 ? 2 : 1;
    const int to_stride = (shape & OTHERS_HAVE_GAPS) != 0 ? 2 : 1;
    const int from_extent = count == 0 ? 0 : from_stride * (count - 1) + 1;
    int self, members;

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
    MPI_Datatype from_type = vector_of(count, from_stride), to_type = vector_of(count, to_stride);
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

/** Allgather `count` ints from each rank; check the result as in scatter(). */
static void allgather(MPI_Comm comm, int count, unsigned shape, unsigned salt)
{
    const int from_stride = (shape & ROOT_HAS_GAPS) != 0 ? 2 : 1;
    const int to_stride = (shape & OTHERS_HAVE_GAPS) != 0 ? 2 : 1;
    const int to_extent = count == 0 ? 0 : to_stride * (count - 1) + 1;
    const bool in_place = (shape & IN_PLACE) != 0;
    int self, members;

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
    MPI_Datatype from_type = vector_of(count, from_stride), to_type = vector_of(count, to_stride);
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

    warm_up();
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

/** Only scatter or allgather bytes; they differ from call to call. */
static void spread(bool gathers)
{
    const int whole_bytes = ranks * part_bytes, at = rank * part_bytes;
    unsigned char *whole = malloc((size_t)whole_bytes), *part = malloc((size_t)part_bytes);

    for (int i = 0; i < number; i++) {
        for (int k = 0; k < whole_bytes; k++) {
            whole[k] = gathers ? 0 : byte_of((unsigned)i, k);
        }
        for (int k = 0; k < part_bytes; k++) {
            part[k] = gathers ? byte_of((unsigned)i, at + k) : 0;
        }
        if (gathers) {
            MPI_Allgather(part, part_bytes, MPI_BYTE, whole, part_bytes, MPI_BYTE, MPI_COMM_WORLD);
        } else {
            MPI_Scatter(whole, part_bytes, MPI_BYTE, part, part_bytes, MPI_BYTE, i % ranks,
                        MPI_COMM_WORLD);
        }
        for (int k = 0; k < whole_bytes; k++) {
            const bool mine = k >= at && k < at + part_bytes;
            const unsigned char got = gathers ? whole[k] : mine ? part[k - at] : 0;
            if ((gathers || mine) && got != byte_of((unsigned)i, k)) {
                fail("byte of the whole", k);
            }
        }
    }
    free(whole);
    free(part);
}

static void parts(void)
{
    spread(false);
}

static void wholes(void)
{
    spread(true);
}

/** Alternate between the two kinds of Reduce_scatter. */
static void shares(void)
{
    int ones[RANKS_MAX], in[RANKS_MAX], out = -1;

    for (int i = 0; i < ranks; i++) {
        ones[i] = in[i] = 1;
    }
    for (int i = 0; i < number; i++) {
        if (i / 8 % 2 == 0) { /* first, because Open MPI's other one is a Reduce and a Scatter */
            MPI_Reduce_scatter(in, &out, ones, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Reduce_scatter_block(in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        if (out != ranks) {
            fail("part of a sum", out);
        }
    }
}

static void loop(void)
{
    warm_up();
    for (int i = 0; i < number; i++) {
        bcast(MPI_COMM_WORLD, 1, 64, (unsigned)i);
    }
    if (rank == 0) {
        printf("half\n");
        fflush(stdout);
    }
    for (int i = 0; i < number; i++) {
        bcast(MPI_COMM_WORLD, i % ranks, 64, (unsigned)i);
    }
}

static void late(void)
{
    warm_up();
    if (rank == ranks - 1) {
        sleep(5);
    }
    for (unsigned i = 0; i < 300; i++) {
        all_three(MPI_COMM_WORLD, (int)(i / 200), number, i);
    }
    if (rank == 2) {
        bcast(MPI_COMM_WORLD, 2, number / 10, 1);
        sleep(3); /* outside MPI: losses must still be repaired */
    } else {
        bcast(MPI_COMM_WORLD, 2, number / 10, 1);
    }
    bcast(MPI_COMM_WORLD, 3, 100, 2);
}

static void dups(void)
{
    for (int i = 0; i < number; i++) {
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

static void frees(void)
{
    for (int i = 0; i < number; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (unsigned j = 0; j < VOTE; j++) {
            if (rank != 0 && j + 1 == VOTE) {
                usleep(2000);
            }
            bcast(comm, 0, 40, j);
        }
        MPI_Comm_free(&comm);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        int mine = i + rank, all[RANKS_MAX];
        MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
        for (int j = 0; rank == 0 && j < ranks; j++) {
            if (all[j] != i + j) {
                fail("MPI_Gather: a rank's contribution", j);
            }
        }
        MPI_Comm_free(&comm);
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

static void away(void)
{
    warm_up();
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

static void truncates(void)
{
    char *buffer = calloc(1, (size_t)number);

    warm_up();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status = MPI_Bcast(buffer, rank == 0 ? number : number / 2, MPI_BYTE, 0, MPI_COMM_WORLD);
    int class = MPI_SUCCESS;
    MPI_Error_class(status, &class);
    if (class != (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE)) {
        fail("class of the error", class);
    }
    bcast(MPI_COMM_WORLD, 1, 100, 5);
    bcast(MPI_COMM_WORLD, 0, number / 2, 6);
    free(buffer);
}

static void sums(void)
{
    for (int i = 0; i < number; i++) {
        sum(MPI_COMM_WORLD, (unsigned)i);
    }
}

static void barriers(void)
{
    for (int i = 0; i < number; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void last(void)
{
    warm_up();
    for (int i = 0; i < 40; i++) {
        all_three(MPI_COMM_WORLD, 0, 100, (unsigned)i);
    }
}

/** Make a Bcast of rank 0 the last call of each rank. */
static void ends(void)
{
    warm_up();
    for (unsigned i = 0; i < 40; i++) {
        bcast(MPI_COMM_WORLD, (int)(i % (unsigned)ranks), 4, i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    bcast(MPI_COMM_WORLD, 0, 4, 77);
}

/** Broadcast until the file exists; each second, rank 0 prints that Bcasts continue. */
static void steady(void)
{
    double said = MPI_Wtime();
    int stop = 0;

    warm_up();
    for (unsigned i = 0; !stop; i++) {
        bcast(MPI_COMM_WORLD, (int)(i % (unsigned)ranks), part_bytes, i);
        if (rank == 0 && MPI_Wtime() - said >= 1) {
            printf("goes on\n");
            fflush(stdout);
            said = MPI_Wtime();
        }
        stop = rank == 0 && i % 64 == 0 && access(file, F_OK) == 0;
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static void endless(void)
{
    warm_up();
    printf("rank %d pid %d works\n", rank, (int)getpid());
    fflush(stdout);
    for (unsigned i = 0;; i++) {
        all_three(MPI_COMM_WORLD, (int)(i % (unsigned)ranks), number, i);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        int number; /* default */
    } all[] = {
        {"sizes", sizes, 0},      {"long", long_ones, 0},   {"scatters", scatters, 0},
        {"loop", loop, 1000},     {"types", types, 0},      {"sums", sums, 1000},
        {"shares", shares, 1000}, {"parts", parts, 1000},   {"barriers", barriers, 1000},
        {"late", late, 1000},     {"wholes", wholes, 1000}, {"truncates", truncates, 1000},
        {"dups", dups, 1000},     {"ten", ten, 0},          {"endless", endless, 100},
        {"away", away, 0},        {"last", last, 0},        {"ends", ends, 0},
        {"steady", steady, 0},    {"handles", handles, 0},  {"frees", frees, 20},
    };
    const size_t most = sizeof all / sizeof all[0];
    size_t i = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    while (i < most && (argc < 2 || strcmp(argv[1], all[i].name) != 0)) {
        i++;
    }
    if (i == most) {
        fail("usage: see bcasts.c", argc);
    }
    file = argc > 2 ? argv[2] : NULL;
    number = argc > 2 ? atoi(argv[2]) : all[i].number;
    part_bytes = argc > 3 ? atoi(argv[3]) : 0;
    all[i].run();
    MPI_Finalize();
    return 0;
}
