/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Bcasts in many ways, each byte checked. Usage: bcasts WHAT [COUNT]
 *
 *   sizes     all roots, contiguous and not, up to beyond a frame
 *   loop      COUNT Bcasts of 64 bytes from one root, then from each by turns
 *   late      a rank enters seconds after the others; then another computes while it is a root
 *   dups      COUNT communicators: dup, split, Bcasts, free
 *   ten       ten communicators at once, in turns
 *   last      the last Bcast is followed by MPI_Finalize alone
 *   endless   until something ends it
 *   truncates the root sends more than the others take: MPI_ERR_TRUNCATE
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MAX 9000
#define WARM_UP 16 /* Bcasts before a communicator's go by multicast */

static int rank, ranks;

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
        bcast(MPI_COMM_WORLD, root, BYTES_MAX, (unsigned)root);
        for (int count = 1; count < 200; count += 13) {
            bcast_vector(MPI_COMM_WORLD, root, count, (unsigned)count * 1000u);
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

static void late(void)
{
    warm_up(MPI_COMM_WORLD);
    if (rank == ranks - 1) {
        sleep(5);
    }
    for (unsigned i = 0; i < 300; i++) {
        bcast(MPI_COMM_WORLD, (int)(i / 200), 1000, i);
    }
    if (rank == 2) {
        bcast(MPI_COMM_WORLD, 2, 100, 1);
        sleep(3); /* outside of MPI: what got lost has to be repaired all the same */
    } else {
        bcast(MPI_COMM_WORLD, 2, 100, 1);
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
            bcast(dup, (int)j % ranks, 40, j + (unsigned)i);
            bcast(part, 0, 40, j + 1000u * (unsigned)i + (i % 2 == 0 ? 0 : (unsigned)rank % 2));
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
            bcast(comms[i], (int)(round + (unsigned)i) % ranks, 200 + i, round * 10 + (unsigned)i);
        }
    }
    for (int i = 0; i < 10; i++) {
        MPI_Comm_free(&comms[i]);
    }
}

static void truncates(void)
{
    char buffer[200] = {0};

    warm_up(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status = MPI_Bcast(buffer, rank == 0 ? 200 : 100, MPI_BYTE, 0, MPI_COMM_WORLD);
    int class = MPI_SUCCESS;
    MPI_Error_class(status, &class);
    if (class != (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE)) {
        fail("class of the error", class);
    }
    bcast(MPI_COMM_WORLD, 1, 100, 5);
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
    } else if (strcmp(what, "loop") == 0) {
        loop(count);
    } else if (strcmp(what, "late") == 0) {
        late();
    } else if (strcmp(what, "dups") == 0) {
        dups(count);
    } else if (strcmp(what, "ten") == 0) {
        ten();
    } else if (strcmp(what, "truncates") == 0) {
        truncates();
    } else if (strcmp(what, "last") == 0) {
        warm_up(MPI_COMM_WORLD);
        for (int i = 0; i < 40; i++) {
            bcast(MPI_COMM_WORLD, 0, 100, (unsigned)i);
        }
        MPI_Finalize();
        return 0;
    } else {
        warm_up(MPI_COMM_WORLD);
        printf("rank %d pid %d works\n", rank, (int)getpid());
        fflush(stdout);
        for (unsigned i = 0;; i++) {
            bcast(MPI_COMM_WORLD, (int)(i % (unsigned)ranks), 100, i);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("all right\n");
    }
    MPI_Finalize();
    return 0;
}
