/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared parts of rawe-verify: the state of a run, message contents that differ byte by byte,
 * buffers, checks, and the table of test groups.
 *
 * Every received byte is compared with a value that both sides compute from (seed, step, source,
 * destination, tag, sequence, offset). This detects bytes that are misplaced, belong to another
 * message, are left over from an earlier one, or were changed. Receive buffers are filled with
 * VERIFY_POISON, and have guard zones.
 */
#ifndef VERIFY_H
#define VERIFY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Initial content of receive buffers and guard zones. */
#define VERIFY_POISON 0xB5

/** Guard bytes before and after the data of a buffer. */
#define VERIFY_GUARD_BYTES 128u

/** Tag of tests that need no particular tag. */
#define VERIFY_TAG 11

/** The value that --plant falsifies. */
enum verify_plant_kind { VERIFY_PLANT_BYTE, VERIFY_PLANT_GUARD, VERIFY_PLANT_VALUE };

/** State of the run: options, then identity. Written by main before the groups start. */
struct verify_run {
    uint64_t seed;
    size_t max_bytes;       /**< largest message of the size tests */
    double scale;           /**< multiplies the repetitions */
    double compute_seconds; /**< how long a late receiver computes */
    double timeout_seconds; /**< watchdog, for one group; 0 is off */
    bool quick;
    bool progress;
    bool list;
    bool thread_level_said; /**< given on the command line */
    int thread_level;       /**< requested: MPI_THREAD_SINGLE or MPI_THREAD_MULTIPLE; -1: none */
    const char *only;       /**< comma list, NULL is all */
    const char *skip;       /**< comma list, or NULL */
    const char *child;      /**< role of a process that a test has spawned, or NULL */
    uint64_t plant;         /**< falsify the nth check, from 1; 0: no check */
    enum verify_plant_kind plant_kind;

    double soak_seconds; /**< --soak; 0: the groups */
    double soak_interval;
    unsigned soak_threads;
    const char *soak_until;   /**< the soak also waits until this file exists; or NULL */
    const char *soak_started; /**< file that rank 0 creates once all ranks have started; or NULL */

    int rank;
    int size;
    int thread_level_given;
    const char *program; /**< absolute path of this executable, for MPI_Comm_spawn */
    MPI_Comm comm;       /**< duplicate of MPI_COMM_WORLD that the groups use */
};

extern struct verify_run verify;

/** A test group. Every rank calls `run`; `unfit` returns why the group cannot run, or NULL. */
struct verify_group {
    const char *name;
    const char *summary;
    int min_ranks;
    void (*run)(void);
    const char *(*unfit)(void);
};

extern const struct verify_group verify_groups[];
extern const size_t verify_group_count;

/* --- options (verify_main.c) ---------------------------------------------------------------- */

/** Read the command line into `verify`, or print usage or an error and exit. */
void verify_options_read(int argc, char **argv);

/** Return true if --only and --skip select the group of this name. */
bool verify_options_selected(const char *name);

/* --- repetition and sizes (verify_content.c) ------------------------------------------------ */

/** Keep the processor busy for `seconds`, without MPI calls. */
void verify_compute(double seconds);

/** Return `base` repetitions multiplied by --scale, at least 1. */
int verify_repeat(int base);

/** Return all sizes around typical limits up to min(limit, --max-bytes), ascending. */
const size_t *verify_sizes(size_t limit, size_t *count);

/** Return a dozen of the sizes of verify_sizes(), for tests in which size matters little. */
const size_t *verify_few_sizes(size_t limit, size_t *count);

/** Return a counter-based random number: the same on every rank for the same arguments. */
uint64_t verify_random(uint64_t stream, uint64_t index);

/** Return a random size up to `limit` and --max-bytes: mostly small, sometimes the limit. */
size_t verify_random_size(uint64_t stream, uint64_t index, size_t limit);

/* --- contents (verify_content.c) ------------------------------------------------------------ */

/** Identifies a message: any rank can compute its bytes from this. */
struct verify_id {
    int source;
    int dest;
    int tag;
    uint64_t sequence;
};

static inline struct verify_id verify_id(int source, int dest, int tag, uint64_t sequence)
{
    return (struct verify_id){source, dest, tag, sequence};
}

/** Write `len` bytes of the message, beginning with its byte `offset`. */
void verify_fill(void *data, size_t len, struct verify_id id, size_t offset);

/** Return the first offset at which `data` differs from the message, or `len`. */
size_t verify_compare(const void *data, size_t len, struct verify_id id);

/** Return the message's byte at an offset. */
unsigned char verify_byte(struct verify_id id, size_t offset);

/** Describe the bytes at data+bad, which are not the message's. */
void verify_diagnose(const void *data, size_t len, size_t bad, struct verify_id id, char *text,
                     size_t text_bytes);

/* --- steps, failure, counters (verify_report.c) --------------------------------------------- */

/**
 * Start a named step of a group; all ranks take the same steps. Returns its number, a part of the
 * contents' key.
 */
uint64_t verify_step(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Start a step with a number chosen by the caller, for processes that joined later. */
void verify_step_at(uint64_t number, const char *name);

uint64_t verify_step_number(void);

/** Print a line with rank, group and step, and end the job with exit code 1. */
_Noreturn void verify_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Check a number that is not message content: a status field, a count, a flag. */
void verify_equal(long long got, long long expected, const char *what);

/** Check source, tag and byte count of a status; a source or tag of -1 is ignored. */
void verify_status(const MPI_Status *status, int source, int tag, size_t len);

/** Count a verified message of `len` bytes. */
void verify_count_message(size_t len);

/** Counters of this process. */
struct verify_counters {
    uint64_t checks;
    uint64_t messages;
    uint64_t bytes;
};
/** Return and reset the sum of this process's counters. */
struct verify_counters verify_counters_take(void);

/** Return true if --plant falsifies the current check. */
bool verify_planted(enum verify_plant_kind kind);

/** Return how many checks of this process --plant could have falsified. */
uint64_t verify_plant_chances(void);

/** Install error handlers that report an MPI error as a failure. */
void verify_errors_install(void);
void verify_errors_window(MPI_Win window);

/** From now on, end the process on SIGALRM, which signals that a group hangs. */
void verify_watchdog_install(void);

/** Enter a group, and start its watchdog. */
void verify_group_enter(const char *name);

/** Run --soak (verify_soak.c). */
void verify_soak(void);

/* --- buffers (verify_content.c) ------------------------------------------------------------- */

/** A buffer of `len` bytes between two guard zones. Its data is deliberately not always aligned. */
struct verify_buffer {
    unsigned char *data;
    size_t len;
    unsigned char *allocation;
};

/** Create a receive buffer filled with poison. */
struct verify_buffer verify_buffer_new(size_t len);

/** Create a receive buffer with data aligned to 16 bytes, for typed values. */
struct verify_buffer verify_buffer_aligned(size_t len);

/** Create a send buffer that holds the message. */
struct verify_buffer verify_buffer_filled(size_t len, struct verify_id id);

/** Check bytes outside any verify_buffer. Counts one message. */
void verify_check(const void *data, size_t len, struct verify_id id);

/** Check that the first `len` bytes are the message, and that the rest and guards are untouched. */
void verify_buffer_check(struct verify_buffer *buffer, size_t len, struct verify_id id);

/** Compare the whole buffer with the given bytes, and check the guards. Counts one message. */
void verify_buffer_expect(struct verify_buffer *buffer, const void *expected);

/** Check a part of the buffer that holds a separate message (all-to-all blocks). */
void verify_buffer_check_part(struct verify_buffer *buffer, size_t at, size_t len,
                              struct verify_id id);

/** Check that a part of the buffer is still poison. */
void verify_buffer_check_untouched(struct verify_buffer *buffer, size_t at, size_t len);

/** Check only the guards. */
void verify_buffer_check_guards(const struct verify_buffer *buffer);

void verify_buffer_free(struct verify_buffer *buffer);

/** Check that MPI did not change the send buffer, then free it. */
void verify_buffer_sent(struct verify_buffer *buffer, struct verify_id id);

/* --- the groups, by file ---------------------------------------------------------------------- */

void group_pt2pt(void);
void group_large(void);
const char *group_large_unfit(void);
void group_outstanding(void);
void group_order(void);
void group_unexpected(void);
void group_datatypes(void);
void group_threads(void);
const char *group_threads_unfit(void);
void group_onesided(void);
const char *group_onesided_unfit(void);
void group_windows(void);
void group_spawn(void);
void group_connect(void);
void group_flood(void);
void group_random(void);
void group_late(void);

/** Run the tests of a spawned child (group_dynamic.c). */
void group_spawn_child(void);

#endif
