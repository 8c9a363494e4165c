/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of rawe-verify share: the state of a run, the message contents that can be told
 * apart byte by byte, buffers, checks, and the table of test groups.
 *
 * Every received byte is compared with a generator that both sides compute from (seed, step,
 * source, destination, tag, sequence, offset). So a byte in the wrong place, from another message,
 * left over from an earlier one or flipped on the way cannot pass. Receive buffers are filled with VERIFY_POISON first and carry guard zones.
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

/** What receive buffers and guard zones hold before anything arrives. */
#define VERIFY_POISON 0xB5

/** Guard bytes before and behind the data of a buffer. */
#define VERIFY_GUARD_BYTES 128u

/** Tag of a test that has no reason to choose another one. */
#define VERIFY_TAG 11

/** What --plant falsifies. */
enum verify_plant_kind { VERIFY_PLANT_BYTE, VERIFY_PLANT_GUARD, VERIFY_PLANT_VALUE };

/** State of the run: options, then who we are. Written by main before the groups start. */
struct verify_run {
    uint64_t seed;
    size_t max_bytes;       /**< largest message of the size tests */
    double scale;           /**< multiplies the repetitions */
    double compute_seconds; /**< how long a late receiver computes */
    double timeout_seconds; /**< watchdog, for one group; 0 is off */
    bool quick;
    bool progress;
    bool list;
    bool thread_level_said; /**< on the command line */
    int thread_level;       /**< asked for: MPI_THREAD_SINGLE or MPI_THREAD_MULTIPLE; -1 not said */
    const char *only;       /**< comma list, NULL is all */
    const char *skip;       /**< comma list, NULL is none */
    const char *child;      /**< set in a process that a test has spawned: its part */
    uint64_t plant;         /**< falsify the nth check, from 1; 0 is none */
    enum verify_plant_kind plant_kind;

    double soak_seconds; /**< --soak; 0: the groups */
    double soak_interval;
    unsigned soak_threads;
    const char *soak_until;   /**< and until there is such a file; or NULL */
    const char *soak_started; /**< made by rank 0 when all ranks have met; or NULL */

    int rank;
    int size;
    int thread_level_given;
    const char *program; /**< absolute path of this executable, for MPI_Comm_spawn */
    MPI_Comm comm;       /**< duplicate of MPI_COMM_WORLD that the groups use */
};

extern struct verify_run verify;

/** One test group. run is called on every rank; unfit returns why it cannot run, or NULL. */
struct verify_group {
    const char *name;
    const char *summary;
    int min_ranks;
    void (*run)(void);
    const char *(*unfit)(void);
};

extern const struct verify_group verify_groups[];
extern const size_t verify_group_count;

/* --- options (verify_options.c) ------------------------------------------------------------- */

/** Reads the command line into `verify`; prints usage or an error and exits when it must. */
void verify_options_read(int argc, char **argv);

/** True when --only and --skip leave the group of this name in. */
bool verify_options_selected(const char *name);

/* --- repetition and sizes (verify_sizes.c) -------------------------------------------------- */

/** base repetitions multiplied by --scale, at least 1. */
int verify_repeat(int base);

/** All sizes around typical limits up to min(limit, --max-bytes), ascending. */
const size_t *verify_sizes(size_t limit, size_t *count);

/** A dozen of them, for tests where the size is not the point. */
const size_t *verify_few_sizes(size_t limit, size_t *count);

/** Counter-based random number: the same arguments give the same number on every rank. */
uint64_t verify_random(uint64_t stream, uint64_t index);

/** A random size up to limit (and --max-bytes), small ones most often, limits now and then. */
size_t verify_random_size(uint64_t stream, uint64_t index, size_t limit);

/* --- contents (verify_content.c) ------------------------------------------------------------ */

/** Names a message: all ranks that know it can compute its bytes. */
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

/** Writes len bytes of the message, starting at its byte `offset`. */
void verify_fill(void *data, size_t len, struct verify_id id, size_t offset);

/** Returns len when data holds the message's bytes, else the first offset that differs. */
size_t verify_compare(const void *data, size_t len, struct verify_id id);

/** The message's byte at an offset. */
unsigned char verify_byte(struct verify_id id, size_t offset);

/** Says in words what the bytes at data+bad are instead of those of the message. */
void verify_diagnose(const void *data, size_t len, size_t bad, struct verify_id id, char *text,
                     size_t text_bytes);

/* --- steps, failure, counters (verify_report.c) --------------------------------------------- */

/** Starts a named step of a group; all ranks pass the same steps. Part of the contents' key. */
void verify_step(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** As verify_step, with a number of the caller's: for processes that joined in later. */
void verify_step_at(uint64_t number, const char *name);

uint64_t verify_step_number(void);

/** Prints one line with rank, group and step, and ends the job with exit code 1. */
_Noreturn void verify_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** One check of a number that is not message content: a status field, a count, a flag. */
void verify_equal(long long got, long long expected, const char *what);

/** Checks source, tag and byte count of a status; source or tag -1: do not look at it. */
void verify_status(const MPI_Status *status, int source, int tag, size_t len);

/** Counts one verified message of len bytes. */
void verify_count_message(size_t len);

/** Sums up and resets the counters of this process. */
struct verify_counters {
    uint64_t checks;
    uint64_t messages;
    uint64_t bytes;
};
struct verify_counters verify_counters_take(void);

/** True when the check being made now is the one --plant wants falsified. */
bool verify_planted(enum verify_plant_kind kind);

/** How many checks this process made that --plant could have falsified. */
uint64_t verify_plant_chances(void);

/** Error handlers that turn an MPI error into a failure line. */
void verify_errors_install(void);
void verify_errors_window(MPI_Win window);

/** From now on SIGALRM, which comes when a group hangs, ends the process. */
void verify_watchdog_install(void);

/** A group begins: its time runs from now. */
void verify_group_enter(const char *name);

/** --soak (verify_soak.c). */
void verify_soak(void);

/* --- buffers (verify_buffer.c) -------------------------------------------------- */

/** A buffer of len bytes between two guard zones; data is deliberately not always aligned. */
struct verify_buffer {
    unsigned char *data;
    size_t len;
    unsigned char *allocation;
};

/** A receive buffer full of poison. */
struct verify_buffer verify_buffer_new(size_t len);

/** The same with data aligned to 16 bytes, for typed values. */
struct verify_buffer verify_buffer_aligned(size_t len);

/** A send buffer that holds the message. */
struct verify_buffer verify_buffer_filled(size_t len, struct verify_id id);

/** Checks bytes that are in no buffer of ours. Counts one message. */
void verify_check(const void *data, size_t len, struct verify_id id);

/** Checks that the first len bytes are the message, what follows untouched, the guards whole. */
void verify_buffer_check(struct verify_buffer *buffer, size_t len, struct verify_id id);

/** Checks the whole buffer against given bytes, and the guards. Counts one message. */
void verify_buffer_expect(struct verify_buffer *buffer, const void *expected);

/** Checks a part of the buffer that holds a message of its own (all-to-all blocks). */
void verify_buffer_check_part(struct verify_buffer *buffer, size_t at, size_t len,
                              struct verify_id id);

/** Checks that a part of the buffer is still poison. */
void verify_buffer_check_untouched(struct verify_buffer *buffer, size_t at, size_t len);

/** Checks the guards only. */
void verify_buffer_check_guards(const struct verify_buffer *buffer);

void verify_buffer_free(struct verify_buffer *buffer);

/** Checks that MPI did not change the send buffer, then frees it. */
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

/** What a spawned child does (group_dynamic.c). */
void group_spawn_child(void);

#endif
