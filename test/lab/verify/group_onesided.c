/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group onesided: put, get and the accumulate calls on windows of each kind, synchronized by
 * fences, locks and flushes.
 */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

enum flavour { CREATED, ALLOCATED, DYNAMIC, FLAVOURS };

static const char *const flavour_names[] = {"created", "allocated", "dynamic"};

/* A window with a slot for each origin, and the addresses of the window's memory on all ranks. */
struct window {
    MPI_Win win;
    unsigned char *memory;
    struct verify_buffer buffer; /* memory of created and dynamic windows, with guards */
    size_t slot;
    size_t len;
    MPI_Aint *bases; /* displacement of the memory's first byte on each rank */
    enum flavour flavour;
};

static struct window window_new(enum flavour flavour, size_t slot)
{
    struct window window = {.slot = slot, .len = slot * (size_t)verify.size, .flavour = flavour};
    MPI_Aint base = 0;

    window.buffer = verify_buffer_aligned(window.len);
    window.memory = window.buffer.data;
    window.bases = malloc(sizeof *window.bases * (size_t)verify.size);
    if (flavour == CREATED) {
        MPI_Win_create(window.memory, (MPI_Aint)window.len, 1, MPI_INFO_NULL, verify.comm,
                       &window.win);
    } else if (flavour == ALLOCATED) {
        MPI_Win_allocate((MPI_Aint)window.len, 1, MPI_INFO_NULL, verify.comm, &window.memory,
                         &window.win);
        memset(window.memory, VERIFY_POISON, window.len);
    } else {
        MPI_Win_create_dynamic(MPI_INFO_NULL, verify.comm, &window.win);
        MPI_Win_attach(window.win, window.memory, (MPI_Aint)window.len);
        MPI_Get_address(window.memory, &base);
    }
    verify_errors_window(window.win);
    MPI_Allgather(&base, 1, MPI_AINT, window.bases, 1, MPI_AINT, verify.comm);
    return window;
}

static void window_free(struct window *window)
{
    if (window->flavour == DYNAMIC) {
        MPI_Barrier(verify.comm);
        MPI_Win_detach(window->win, window->memory);
    }
    MPI_Win_free(&window->win);
    verify_buffer_check_guards(&window->buffer);
    verify_buffer_free(&window->buffer);
    free(window->bases);
}

/* Return the displacement of an origin's slot on a rank. */
static MPI_Aint slot_at(const struct window *window, int rank, int origin)
{
    return window->bases[rank] + (MPI_Aint)(window->slot * (size_t)origin);
}

/* Check the slot in this rank's memory that an origin has written. */
static void check_slot(struct window *window, int origin, size_t len, struct verify_id id)
{
    struct verify_buffer copy = verify_buffer_new(window->slot);

    memcpy(copy.data, window->memory + window->slot * (size_t)origin, window->slot);
    verify_buffer_check(&copy, len, id);
    verify_buffer_free(&copy);
}

/* Wait for all ranks, and synchronize this rank's memory with its window. */
static void everybody_unlocked(struct window *window)
{
    MPI_Barrier(verify.comm);
    MPI_Win_lock(MPI_LOCK_SHARED, verify.rank, 0, window->win);
    MPI_Win_unlock(verify.rank, window->win);
}

static void clear(struct window *window)
{
    memset(window->memory, VERIFY_POISON, window->len);
    MPI_Barrier(verify.comm);
}

/* Let each rank write its slot on all ranks, then read slots back. */
static void fenced(struct window *window, size_t len)
{
    struct verify_buffer *out = malloc(sizeof *out * (size_t)verify.size);
    struct verify_buffer *back = malloc(sizeof *back * (size_t)verify.size);
    int count = (int)len;

    clear(window);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window->win);
    for (int rank = 0; rank < verify.size; rank++) {
        out[rank] = verify_buffer_filled(len, verify_id(verify.rank, rank, 0, len));
        MPI_Put(out[rank].data, count, MPI_BYTE, rank, slot_at(window, rank, verify.rank), count,
                MPI_BYTE, window->win);
    }
    MPI_Win_fence(0, window->win);
    for (int origin = 0; origin < verify.size; origin++) {
        check_slot(window, origin, len, verify_id(origin, verify.rank, 0, len));
    }
    MPI_Win_fence(0, window->win);
    for (int rank = 0; rank < verify.size; rank++) {
        int origin = (verify.rank + rank + 1) % verify.size;

        back[rank] = verify_buffer_new(len);
        MPI_Get(back[rank].data, count, MPI_BYTE, rank, slot_at(window, rank, origin), count,
                MPI_BYTE, window->win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win);
    for (int rank = 0; rank < verify.size; rank++) {
        int origin = (verify.rank + rank + 1) % verify.size;

        verify_buffer_check(&back[rank], len, verify_id(origin, rank, 0, len));
        verify_buffer_free(&back[rank]);
        verify_buffer_sent(&out[rank], verify_id(verify.rank, rank, 0, len));
    }
    free(out);
    free(back);
}

/* Lock one rank at a time; a get in the same epoch must see puts that were flushed. */
static void locked(struct window *window, size_t len, bool all_at_once)
{
    int count = (int)len;

    clear(window);
    if (all_at_once) {
        MPI_Win_lock_all(0, window->win);
    }
    for (int k = 0; k < verify.size; k++) {
        int rank = (verify.rank + k) % verify.size;
        MPI_Aint at = slot_at(window, rank, verify.rank);
        struct verify_id id = verify_id(verify.rank, rank, 2, len);
        struct verify_buffer out = verify_buffer_filled(len, id), back = verify_buffer_new(len);

        if (!all_at_once) {
            MPI_Win_lock(k % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, rank, 0, window->win);
        }
        MPI_Put(out.data, count, MPI_BYTE, rank, at, count, MPI_BYTE, window->win);
        /* In all releases, osc/rdma's flush_all omits accesses under a lock of a single rank. */
        if (k % 2 == 0 || !all_at_once) {
            MPI_Win_flush(rank, window->win);
        } else {
            MPI_Win_flush_all(window->win);
        }
        MPI_Get(back.data, count, MPI_BYTE, rank, at, count, MPI_BYTE, window->win);
        if (all_at_once) {
            MPI_Win_flush_local(rank, window->win);
        } else {
            MPI_Win_unlock(rank, window->win);
        }
        verify_buffer_check(&back, len, id);
        verify_buffer_free(&back);
        verify_buffer_sent(&out, id);
    }
    if (all_at_once) {
        MPI_Win_unlock_all(window->win);
    }
    everybody_unlocked(window);
    for (int origin = 0; origin < verify.size; origin++) {
        check_slot(window, origin, len, verify_id(origin, verify.rank, 2, len));
    }
    MPI_Barrier(verify.comm);
}

/* Put with a target type that has gaps; the bytes in the gaps must not change. */
static void spread(struct window *window)
{
    int to = (verify.rank + 1) % verify.size, from = (verify.rank + verify.size - 1) % verify.size;
    int blocks = (int)(window->slot / 16);
    struct verify_id id = verify_id(verify.rank, to, 4, 0);
    struct verify_id in = verify_id(from, verify.rank, 4, 0);
    struct verify_buffer out = verify_buffer_filled((size_t)blocks * 5, id);
    struct verify_buffer copy = verify_buffer_new(window->slot);
    unsigned char *expected = malloc(window->slot);
    MPI_Datatype type;

    if (blocks > 0) {
        MPI_Type_vector(blocks, 5, 16, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        clear(window);
        MPI_Win_fence(0, window->win);
        MPI_Put(out.data, blocks * 5, MPI_BYTE, to, slot_at(window, to, verify.rank), 1, type,
                window->win);
        MPI_Win_fence(0, window->win);
        memset(expected, VERIFY_POISON, window->slot);
        for (int i = 0; i < blocks; i++) {
            verify_fill(expected + i * 16, 5, in, (size_t)i * 5);
        }
        memcpy(copy.data, window->memory + window->slot * (size_t)from, window->slot);
        verify_buffer_expect(&copy, expected);
        MPI_Type_free(&type);
    }
    free(expected);
    verify_buffer_free(&copy);
    verify_buffer_sent(&out, id);
    MPI_Barrier(verify.comm);
}

/* Let all ranks add to the same numbers of every rank, then replace one number on each. */
static void accumulated(struct window *window)
{
    size_t count = window->len / sizeof(int64_t);
    struct verify_buffer result = verify_buffer_aligned(count * sizeof(int64_t));
    int64_t *mine = malloc(result.len), *expected = malloc(result.len);

    memset(window->memory, 0, window->len);
    MPI_Barrier(verify.comm);
    for (size_t i = 0; i < count; i++) {
        mine[i] = (int64_t)(i + 1) * (verify.rank + 1);
        expected[i] = (int64_t)(i + 1) * verify.size * (verify.size + 1) / 2;
    }
    MPI_Win_fence(0, window->win);
    for (int rank = 0; rank < verify.size; rank++) {
        MPI_Accumulate(mine, (int)count, MPI_INT64_T, rank, window->bases[rank], (int)count,
                       MPI_INT64_T, MPI_SUM, window->win);
    }
    MPI_Win_fence(0, window->win);
    memcpy(result.data, window->memory, result.len);
    verify_buffer_expect(&result, expected);

    MPI_Win_fence(0, window->win);
    for (int rank = 0; rank < verify.size && (size_t)verify.rank < count; rank++) {
        MPI_Accumulate(&mine[verify.rank], 1, MPI_INT64_T, rank,
                       window->bases[rank] + 8 * verify.rank, 1, MPI_INT64_T, MPI_REPLACE,
                       window->win);
    }
    MPI_Win_fence(0, window->win);
    for (int rank = 0; rank < verify.size && (size_t)rank < count; rank++) {
        expected[rank] = (int64_t)(rank + 1) * (rank + 1);
    }
    memcpy(result.data, window->memory, result.len);
    verify_buffer_expect(&result, expected);
    free(mine);
    free(expected);
    verify_buffer_free(&result);
    MPI_Barrier(verify.comm);
}

/* Increment counters on rank 0 with fetch_and_op and get_accumulate. */
static void counted(struct window *window, int rounds)
{
    int64_t *counters = (int64_t *)window->memory;
    int64_t one = 1, got, sum = 0, total = 0, n = (int64_t)rounds * verify.size;

    if (window->len < 2 * sizeof(int64_t)) {
        return;
    }
    memset(window->memory, 0, window->len);
    MPI_Barrier(verify.comm);
    MPI_Win_lock_all(0, window->win);
    for (int i = 0; i < rounds; i++) {
        MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, window->bases[0], MPI_SUM, window->win);
        MPI_Win_flush(0, window->win);
        sum += got;
        MPI_Get_accumulate(&one, 1, MPI_INT64_T, &got, 1, MPI_INT64_T, 0, window->bases[0] + 8, 1,
                           MPI_INT64_T, MPI_SUM, window->win);
        MPI_Win_flush(0, window->win);
        sum += got;
    }
    MPI_Win_unlock_all(window->win);
    everybody_unlocked(window);
    if (verify.rank == 0) {
        verify_equal(counters[0], n, "counter after fetch_and_op");
        verify_equal(counters[1], n, "counter after get_accumulate");
    }
    /* The values fetched from each counter are all different: 0 to n - 1. */
    MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, verify.comm);
    verify_equal(total, n * (n - 1), "sum of all values fetched");
}

/* Start many small puts to all ranks, each to its own slot, and complete them with one flush. */
static void many_small(struct window *window)
{
    size_t pieces = window->slot / 8;
    struct verify_buffer *out = malloc(sizeof *out * (size_t)verify.size);

    pieces = pieces > (size_t)verify_repeat(200) ? (size_t)verify_repeat(200) : pieces;
    clear(window);
    MPI_Win_lock_all(0, window->win);
    for (int rank = 0; rank < verify.size; rank++) {
        out[rank] = verify_buffer_filled(pieces * 8, verify_id(verify.rank, rank, 5, 0));
    }
    for (size_t i = 0; i < pieces; i++) {
        for (int rank = 0; rank < verify.size; rank++) {
            MPI_Put(out[rank].data + i * 8, 8, MPI_BYTE, rank,
                    slot_at(window, rank, verify.rank) + (MPI_Aint)(i * 8), 8, MPI_BYTE,
                    window->win);
        }
    }
    MPI_Win_flush_all(window->win);
    MPI_Win_unlock_all(window->win);
    everybody_unlocked(window);
    for (int rank = 0; rank < verify.size; rank++) {
        check_slot(window, rank, pieces * 8, verify_id(rank, verify.rank, 5, 0));
        verify_buffer_sent(&out[rank], verify_id(verify.rank, rank, 5, 0));
    }
    free(out);
    MPI_Barrier(verify.comm);
}

/* Returns true if Open MPI has a component for windows over the BTLs of this run. */
static bool windows_possible(void)
{
    MPI_Comm comm;
    MPI_Win win;
    char memory[8];
    int code;

    MPI_Comm_dup(verify.comm, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    code = MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
    if (code == MPI_SUCCESS) {
        MPI_Win_free(&win);
    }
    MPI_Comm_free(&comm);
    return code == MPI_SUCCESS;
}

static bool on_one_host(void)
{
    MPI_Comm node;
    int size;

    MPI_Comm_split_type(verify.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    return size == verify.size;
}

/* Returns true if Open MPI 4.1 may select osc/sm, which has no dynamic windows. */
static bool perhaps_osc_sm(void)
{
    const char *osc = getenv("OMPI_MCA_osc");

    return on_one_host() && (osc == NULL || strstr(osc, "pt2pt") == NULL);
}

const char *group_onesided_unfit(void)
{
    /* osc/pt2pt refuses, and osc/rdma crashes within a host. */
    if (verify.thread_level == MPI_THREAD_MULTIPLE && !verify.thread_level_said) {
        return "Open MPI has no windows under MPI_THREAD_MULTIPLE over some BTLs: run it with "
               "--only onesided,windows, or with --thread-level multiple";
    }
    return windows_possible() ? NULL
                              : "Open MPI has no component for windows here; Debian switches one "
                                "off: give mpirun --mca osc pt2pt";
}

/*
 * Returns true if dynamic windows hang: in 4.1.2 to 4.1.4, except with osc/pt2pt, a rank that looks
 * up a dynamic window's memory waits for a lock that it already holds.
 */
static bool dynamic_hangs(void)
{
    const char *osc = getenv("OMPI_MCA_osc");

    return OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION == 1 && OMPI_RELEASE_VERSION < 5 &&
           (osc == NULL || strstr(osc, "pt2pt") == NULL);
}

void group_onesided(void)
{
    static const size_t slots[] = {8, 100, 1504, 9000, 70000, 1000000};
    bool dynamic = !perhaps_osc_sm() && !dynamic_hangs();

    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
            struct window window;

            if ((flavour == DYNAMIC && !dynamic) || slots[i] > verify.max_bytes ||
                (verify.quick && slots[i] > 70000)) {
                continue;
            }
            verify_step("%s window, slots of %zu bytes: create", flavour_names[flavour], slots[i]);
            window = window_new((enum flavour)flavour, slots[i]);
            verify_step("%s window, slots of %zu bytes: fence", flavour_names[flavour], slots[i]);
            fenced(&window, slots[i]);
            fenced(&window, slots[i] / 2);
            verify_step("%s window, slots of %zu bytes: lock", flavour_names[flavour], slots[i]);
            locked(&window, slots[i], false);
            locked(&window, slots[i], true);
            verify_step("%s window, slots of %zu bytes: holes", flavour_names[flavour], slots[i]);
            spread(&window);
            verify_step("%s window, slots of %zu bytes: accumulate", flavour_names[flavour],
                        slots[i]);
            accumulated(&window);
            verify_step("%s window, slots of %zu bytes: atomics", flavour_names[flavour], slots[i]);
            counted(&window, verify_repeat(slots[i] > 2000 ? 5 : 40));
            verify_step("%s window, slots of %zu bytes: small puts", flavour_names[flavour],
                        slots[i]);
            many_small(&window);
            window_free(&window);
        }
    }
}
