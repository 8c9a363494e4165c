/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group windows: all predefined operations, on types for which the BTL has atomics and types for
 * which it has none; a target that is computing; several threads. Results are exact.
 */
#include "verify.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 5, THREADS = 3, TYPE_BYTES_MOST = 8 };

static const struct {
    MPI_Datatype type;
    int bytes;
    bool integer;
} types[] = {
    {MPI_INT32_T, 4, true},
    {MPI_INT64_T, 8, true},
    {MPI_DOUBLE, 8, false},
};

static const struct {
    MPI_Op op;
    bool integers_only;
} operations[] = {
    {MPI_SUM, false}, {MPI_MAX, false}, {MPI_BAND, true},
    {MPI_BOR, true},  {MPI_BXOR, true}, {MPI_REPLACE, false},
};

/* Write a number as an element of the given type. */
static void set(unsigned char *at, size_t type, long long value)
{
    if (types[type].type == MPI_DOUBLE) {
        double number = (double)value;
        memcpy(at, &number, sizeof number);
    } else {
        memcpy(at, &value, (size_t)types[type].bytes); /* little endian */
    }
}

static void fill(unsigned char *out, size_t type, MPI_Op op, int rank)
{
    for (int i = 0; i < ELEMENTS; i++) {
        long long value = op == MPI_REPLACE ? 7 + i : (rank * 3 + i) % 11 - i;

        set(out + i * types[type].bytes, type, value);
    }
}

/* Compute the result of all ranks' operations on the initial values. */
static void expect(unsigned char *out, size_t type, MPI_Op op)
{
    unsigned char mine[ELEMENTS * TYPE_BYTES_MOST];

    for (int i = 0; i < ELEMENTS; i++) {
        set(out + i * types[type].bytes, type, 1 + i);
    }
    for (int rank = 0; rank < verify.size; rank++) {
        fill(mine, type, op, rank);
        if (op == MPI_REPLACE) {
            memcpy(out, mine, (size_t)(ELEMENTS * types[type].bytes));
        } else {
            MPI_Reduce_local(mine, out, ELEMENTS, types[type].type, op);
        }
    }
}

static void operate(MPI_Win win, unsigned char *memory, size_t type, MPI_Op op)
{
    int bytes = types[type].bytes;
    unsigned char mine[ELEMENTS * TYPE_BYTES_MOST], expected[ELEMENTS * TYPE_BYTES_MOST];
    unsigned char got[ELEMENTS * TYPE_BYTES_MOST], last[TYPE_BYTES_MOST];
    MPI_Aint second = ELEMENTS * TYPE_BYTES_MOST;

    fill(mine, type, op, verify.rank);
    expect(expected, type, op);
    for (int i = 0; verify.rank == 0 && i < ELEMENTS; i++) {
        set(memory + i * bytes, type, 1 + i);
        set(memory + second, type, 1);
    }
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, ELEMENTS, types[type].type, 0, 0, ELEMENTS, types[type].type, op, win);
    MPI_Fetch_and_op(mine, got, types[type].type, 0, second, op, win);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(mine, 0, types[type].type, got, ELEMENTS, types[type].type, 0, 0, ELEMENTS,
                       types[type].type, MPI_NO_OP, win);
    MPI_Get(last, bytes, MPI_BYTE, 0, second, bytes, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    verify_equal(memcmp(got, expected, (size_t)(ELEMENTS * bytes)), 0,
                 "elements that differ after accumulate");
    verify_equal(memcmp(last, expected, (size_t)bytes), 0,
                 "an element that differs after fetch_and_op");
}

static void every_operation(void)
{
    unsigned char *memory;
    MPI_Win win;

    MPI_Win_allocate(2 * ELEMENTS * TYPE_BYTES_MOST, 1, MPI_INFO_NULL, verify.comm, &memory, &win);
    verify_errors_window(win);
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
        verify_step("every operation on type %zu", type);
        for (size_t op = 0; op < sizeof operations / sizeof operations[0]; op++) {
            if (types[type].integer || !operations[op].integers_only) {
                operate(win, memory, type, operations[op].op);
            }
        }
    }
    MPI_Win_free(&win);
}

/* Let all ranks increment four- and eight-byte words with compare_and_swap. */
static void swapped(int rounds)
{
    int64_t *memory;
    MPI_Win win;

    verify_step("compare_and_swap");
    MPI_Win_allocate(2 * sizeof(int64_t), 1, MPI_INFO_NULL, verify.comm, &memory, &win);
    verify_errors_window(win);
    memset(memory, 0, 2 * sizeof(int64_t));
    MPI_Barrier(verify.comm);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < rounds; i++) {
        int64_t expected = 0, desired = 1, found;
        int32_t expected4 = 0, desired4 = 1, found4;

        for (;;) {
            MPI_Compare_and_swap(&desired, &expected, &found, MPI_INT64_T, 0, 0, win);
            MPI_Win_flush(0, win);
            if (found == expected) {
                break;
            }
            expected = found;
            desired = found + 1;
        }
        for (;;) {
            MPI_Compare_and_swap(&desired4, &expected4, &found4, MPI_INT32_T, 0, 8, win);
            MPI_Win_flush(0, win);
            if (found4 == expected4) {
                break;
            }
            expected4 = found4;
            desired4 = found4 + 1;
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(verify.comm);
    if (verify.rank == 0) {
        int32_t four;

        memcpy(&four, memory + 1, sizeof four);
        verify_equal(memory[0], (long long)rounds * verify.size, "word of eight bytes");
        verify_equal(four, (long long)rounds * verify.size, "word of four bytes");
    }
    MPI_Barrier(verify.comm);
    MPI_Win_free(&win);
}

/* Use a window on this process alone, in memory allocated by the program or by MPI. */
static void alone(bool allocate)
{
    int64_t *memory, own[2], value = 7, expected = 12, got = 0;
    MPI_Win win;

    verify_step("a window over MPI_COMM_SELF, %s", allocate ? "allocated" : "created");
    if (allocate) {
        MPI_Win_allocate(sizeof own, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
    } else {
        memory = own;
        MPI_Win_create(memory, sizeof own, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    }
    verify_errors_window(win);
    memset(memory, 0, sizeof own);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(0, win);
    value = 5;
    MPI_Fetch_and_op(&value, &got, MPI_INT64_T, 0, 0, MPI_SUM, win);
    MPI_Win_flush(0, win);
    verify_equal(got, 7, "what fetch_and_op has found");
    value = INT64_C(1) << 40;
    MPI_Compare_and_swap(&value, &expected, &got, MPI_INT64_T, 0, 0, win);
    MPI_Win_flush(0, win);
    verify_equal(got, 12, "what compare_and_swap has found");
    MPI_Get(&got, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(0, win);
    verify_equal(got, value, "what compare_and_swap has left");
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
}

/*
 * Let rank 0 compute and read its memory: the other ranks' accesses must complete although rank 0
 * makes no MPI calls. This needs the progress thread, and does not work with osc/pt2pt.
 */
static void passive(void)
{
    enum { ROUNDS = 3 };
    volatile int64_t *memory;
    const char *osc = getenv("OMPI_MCA_osc");
    int64_t one = 1, got;
    void *base;
    MPI_Win win;

    if (osc != NULL && strstr(osc, "pt2pt") != NULL) {
        return;
    }
    verify_step("a target that computes");
    MPI_Win_allocate(2 * sizeof(int64_t), 1, MPI_INFO_NULL, verify.comm, &base, &win);
    verify_errors_window(win);
    memory = base;
    memset(base, 0, 2 * sizeof(int64_t));
    MPI_Barrier(verify.comm);
    if (verify.rank == 0) {
        for (int i = 0; i < 20000 && memory[1] != verify.size - 1; i++) {
            verify_compute(0.001);
        }
        verify_equal(memory[1], verify.size - 1, "ranks that were done while the target computed");
        verify_equal(memory[0], ROUNDS * (verify.size - 1LL), "additions while it computed");
    } else {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, 0, MPI_SUM, win);
            MPI_Win_flush(0, win);
        }
        MPI_Get(&got, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        verify_equal(got >= ROUNDS, 1, "additions that are seen");
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(verify.comm);
    MPI_Win_free(&win);
}

/* The arguments of a thread. */
struct worker {
    pthread_t thread;
    MPI_Win win;
    int number, rounds;
    int64_t sum; /* sum of the fetched values */
};

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    int64_t one = 1;

    for (int i = 0; i < worker->rounds; i++) {
        int64_t got, value = i, back = -1;
        int to = (verify.rank + i) % verify.size;
        MPI_Aint at = (1 + verify.rank * THREADS + worker->number) * (MPI_Aint)sizeof value;

        MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, 0, MPI_SUM, worker->win);
        MPI_Win_flush(0, worker->win);
        worker->sum += got;
        MPI_Put(&value, 1, MPI_INT64_T, to, at, 1, MPI_INT64_T, worker->win);
        MPI_Win_flush(to, worker->win);
        MPI_Get(&back, 1, MPI_INT64_T, to, at, 1, MPI_INT64_T, worker->win);
        MPI_Win_flush(to, worker->win);
        verify_equal(back, value, "what a thread has put");
    }
    return NULL;
}

static void several_threads(int rounds)
{
    struct worker workers[THREADS];
    MPI_Aint words = 1 + (MPI_Aint)verify.size * THREADS;
    int64_t *memory, sum = 0, total = 0, n = (int64_t)rounds * THREADS * verify.size;
    MPI_Win win;

    if (verify.thread_level != MPI_THREAD_MULTIPLE) {
        return;
    }
    verify_step("several threads");
    MPI_Win_allocate(words * (MPI_Aint)sizeof *memory, 1, MPI_INFO_NULL, verify.comm, &memory,
                     &win);
    verify_errors_window(win);
    memset(memory, 0, (size_t)words * sizeof *memory);
    MPI_Barrier(verify.comm);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.win = win, .number = i, .rounds = rounds};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            verify_fail("cannot start thread %d: raise the limit of processes (ulimit -u)", i);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += workers[i].sum;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, verify.comm);
    verify_equal(total, n * (n - 1) / 2, "sum of all values that threads have fetched");
    MPI_Win_free(&win);
}

void group_windows(void)
{
    every_operation();
    alone(false);
    alone(true);
    swapped(verify_repeat(20));
    passive();
    several_threads(verify_repeat(50));
}
