/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of the run (group and step), counters, simple checks, and the report of a failure or a
 * hang.
 */
#include "verify.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Exit code after a hang, as in timeout(1); a failed check exits with 1. */
#define EXIT_HANG 124

struct verify_run verify;

static const char *group_name = "start";
static char step_name[96] = "start";
static uint64_t step_number;

static atomic_ullong checks, messages, bytes;
static atomic_ullong plant_seen[3];

static MPI_Errhandler comm_errors = MPI_ERRHANDLER_NULL;
static MPI_Errhandler win_errors = MPI_ERRHANDLER_NULL;

void verify_group_enter(const char *name)
{
    group_name = name;
    verify_step("begin");
    alarm((unsigned)ceil(verify.timeout_seconds));
}

uint64_t verify_step(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(step_name, sizeof step_name, format, arguments);
    va_end(arguments);
    return ++step_number;
}

void verify_step_at(uint64_t number, const char *name)
{
    snprintf(step_name, sizeof step_name, "%s", name);
    step_number = number;
}

uint64_t verify_step_number(void)
{
    return step_number;
}

/*
 * Report a hang and exit. Without MPI_Finalize, mpirun ends the job. stdio is avoided because the
 * interrupted thread may be printing.
 */
static void end_hang(int signal_number)
{
    char line[400];
    int len = snprintf(line, sizeof line,
                       "rawe-verify: HANG rank %d of %d, pid %ld: no end within %.0f s (--timeout) "
                       "of group %s, step '%s', after %llu checks\n",
                       verify.rank, verify.size, (long)getpid(), verify.timeout_seconds, group_name,
                       step_name, (unsigned long long)atomic_load(&checks));

    (void)signal_number;
    _exit(write(STDERR_FILENO, line, (size_t)len) == len ? EXIT_HANG : 1);
}

void verify_watchdog_install(void)
{
    signal(SIGALRM, end_hang);
}

/* Only the first failing thread of a process reports; other failing threads wait for the exit. */
static void speak_once(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&once);
}

_Noreturn void verify_fail(const char *format, ...)
{
    char line[600];
    va_list arguments;

    speak_once();
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rawe-verify: FAIL group %s step '%s' rank %d of %d: %s\n", group_name,
            step_name, verify.rank, verify.size, line);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

bool verify_planted(enum verify_plant_kind kind)
{
    if (verify.plant == 0 || kind != verify.plant_kind) {
        return false;
    }
    return atomic_fetch_add(&plant_seen[kind], 1) + 1 == verify.plant;
}

uint64_t verify_plant_chances(void)
{
    return atomic_load(&plant_seen[verify.plant_kind]);
}

void verify_equal(long long got, long long expected, const char *what)
{
    atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
    if (verify_planted(VERIFY_PLANT_VALUE)) {
        got++;
    }
    if (got != expected) {
        verify_fail("%s: expected %lld got %lld", what, expected, got);
    }
}

void verify_status(const MPI_Status *status, int source, int tag, size_t len)
{
    MPI_Count count;

#if MPI_VERSION >= 4
    MPI_Get_elements_c(status, MPI_BYTE, &count);
#else
    MPI_Get_elements_x((MPI_Status *)status, MPI_BYTE, &count);
#endif
    if (source != -1) {
        verify_equal(status->MPI_SOURCE, source, "source in the status");
    }
    if (tag != -1) {
        verify_equal(status->MPI_TAG, tag, "tag in the status");
    }
    verify_equal((long long)count, (long long)len, "byte count in the status");
}

void verify_count_message(size_t len)
{
    atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&messages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes, len, memory_order_relaxed);
}

struct verify_counters verify_counters_take(void)
{
    struct verify_counters taken;

    taken.checks = atomic_exchange(&checks, 0);
    taken.messages = atomic_exchange(&messages, 0);
    taken.bytes = atomic_exchange(&bytes, 0);
    return taken;
}

static void fail_with_code(const char *object, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;

    MPI_Error_string(code, text, &len);
    verify_fail("MPI reported an error on a %s: %s", object, text);
}

/* MPI requires both handlers to be variadic. */
static void on_comm_error(MPI_Comm *comm, int *code, ...)
{
    fail_with_code("communicator", *code);
}

static void on_win_error(MPI_Win *window, int *code, ...)
{
    fail_with_code("window", *code);
}

void verify_errors_install(void)
{
    MPI_Comm_create_errhandler(on_comm_error, &comm_errors);
    MPI_Win_create_errhandler(on_win_error, &win_errors);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, comm_errors);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, comm_errors);
}

void verify_errors_window(MPI_Win window)
{
    MPI_Win_set_errhandler(window, win_errors);
}
