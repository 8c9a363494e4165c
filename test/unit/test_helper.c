/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_helper: its handling of each answer, and that the process does not notice the
 * started program, which is this program again, answering as the request's key says. For the real
 * helper, see test_socket_helper.c and test/lab/tests/test_privilege.py.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "linux/packet/rawe_helper.h"
#include "linux/sys/rawe_service.h"
#include "unit_descriptors.h"

#define SELF "/proc/self/exe"
/** Holds one byte for each started GRANT_FOUR helper. */
#define STARTED_FILE "/tmp/rawe-test-helper-started-%u"
/** Exists until the failing helper of FAIL_FIRST has been started. */
#define FIRST_FILE "/tmp/rawe-test-helper-first-%u"
#define PATIENCE_MS 30000
#define THREADS 8u

/** Behavior of the started program. */
enum conduct {
    GRANT,
    GRANT_NOTHING,
    GRANT_TWO,
    REFUSE,
    REFUSE_BUT_SEND,
    FAIL,
    ANSWER_OTHERWISE,
    ANSWER_OTHER_VERSION,
    ANSWER_SHORT,
    END,
    WAIT,
    GRANT_FOUR, /**< grants four sockets one by one, like the real helper */
    FAIL_FIRST, /**< a test's first helper ends without an answer, the next one grants */
};

/* ---- in the started program ---- */

extern char **environ;

/** Returns true if this process has one descriptor, blocked signals and no environment. */
static bool is_alone(void)
{
    sigset_t mask;
    const bool closed = fcntl(STDERR_FILENO + 1, F_GETFD) == -1;

    return closed && (environ == NULL || *environ == NULL) &&
           pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1) == 1;
}

/** Send the answer, with up to two descriptors of a pipe. */
static void send_answer(struct rawe_helper_answer answer, size_t answer_bytes, unsigned descriptors)
{
    int ends[2];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof ends)];
    } control = {.header = {CMSG_LEN(descriptors * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec piece = {&answer, answer_bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (descriptors != 0 && pipe(ends) == 0) {
        memcpy(CMSG_DATA(&control.header), ends, descriptors * sizeof(int));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    }
    (void)sendmsg(STDIN_FILENO, &message, MSG_NOSIGNAL);
}

/** Return the path of a file that belongs to the test in process `owner`. */
static const char *file_of(const char *format, uint32_t owner)
{
    static char path[PATH_MAX];

    (void)snprintf(path, sizeof path, format, (unsigned)owner);
    return path;
}

static void note_start(uint32_t owner)
{
    const int fd =
        open(file_of(STARTED_FILE, owner), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, "x", 1) != 1) {
        _exit(1);
    }
    close(fd);
}

static int act(void)
{
    struct rawe_helper_request request;
    struct rawe_helper_answer answer = {.version = RAWE_HELPER_VERSION};
    const bool alone = is_alone();

    if (recv(STDIN_FILENO, &request, sizeof request, 0) != (ssize_t)sizeof request || !alone) {
        return 1;
    }
    switch ((enum conduct)request.key) {
    case GRANT:
        send_answer(answer, sizeof answer, 1);
        break;
    case GRANT_NOTHING:
        send_answer(answer, sizeof answer, 0);
        break;
    case GRANT_TWO:
        send_answer(answer, sizeof answer, 2);
        break;
    case REFUSE:
    case REFUSE_BUT_SEND:
        answer.status = RAWE_HELPER_USER_REFUSED;
        send_answer(answer, sizeof answer, request.key == REFUSE_BUT_SEND);
        break;
    case FAIL:
        answer.status = RAWE_HELPER_FAILED;
        answer.code = ENOBUFS;
        send_answer(answer, sizeof answer, 0);
        break;
    case ANSWER_OTHERWISE:
        answer.status = RAWE_HELPER_STATUS_COUNT;
        send_answer(answer, sizeof answer, 0);
        break;
    case ANSWER_OTHER_VERSION:
        answer.version++;
        send_answer(answer, sizeof answer, 1);
        break;
    case ANSWER_SHORT:
        send_answer(answer, 4, 1);
        break;
    case END:
        break;
    case GRANT_FOUR:
        note_start(request.ping_key);
        for (unsigned i = 0; i < RAWE_HELPER_SOCKETS_MAX; i++) {
            send_answer(answer, sizeof answer, 1);
            if (recv(STDIN_FILENO, &request, sizeof request, 0) != (ssize_t)sizeof request) {
                break;
            }
        }
        break;
    case FAIL_FIRST:
        if (unlink(file_of(FIRST_FILE, request.ping_key)) != 0) {
            send_answer(answer, sizeof answer, 1);
        }
        break;
    case WAIT: /* until the other end is closed */
        (void)recv(STDIN_FILENO, &request, sizeof request, 0);
        break;
    }
    return 0;
}

/* ---- in the test ---- */

#ifdef __SANITIZE_THREAD__
/** The thread sanitizer mistakes the helper's start for a fork, and allows no threads after one. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

static struct rawe_helper_request request_for(enum conduct conduct)
{
    return (struct rawe_helper_request){.version = RAWE_HELPER_VERSION, .key = (uint32_t)conduct};
}

/** Assert that a request is refused with `code` and `words`, and that no descriptor stays open. */
static void check_refused(const char *path, enum conduct conduct, int timeout_ms, int code,
                          const char *words)
{
    const struct rawe_helper_request request = request_for(conduct);
    const unsigned before = unit_open_descriptors();
    struct rawe_port_error error;

    assert_int_equal(rawe_helper_ask(path, &request, timeout_ms, &error), -1);
    assert_int_equal(error.code, code);
    assert_non_null(strstr(error.step, words));
    assert_int_equal(unit_open_descriptors(), before);
}

/** Act as the helper if started as one: the C library passes main's arguments to constructors. */
__attribute__((constructor)) static void act_as_helper(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "rawe-socket-helper") == 0) {
        _exit(act());
    }
}

TEST(ask__returns_the_granted_descriptor)
{
    const struct rawe_helper_request request = request_for(GRANT);
    const unsigned before = unit_open_descriptors();
    struct rawe_port_error error;
    struct stat status;
    const int fd = rawe_helper_ask(SELF, &request, PATIENCE_MS, &error);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    rawe_helper_hang_up();
    assert_int_equal(unit_open_descriptors(), before);
}

/** Request more sockets than one helper grants; the file's size counts the started helpers. */
TEST(ask__one_helper_grants_several)
{
    struct rawe_helper_request request = request_for(GRANT_FOUR);
    const unsigned before = unit_open_descriptors();
    struct rawe_port_error error;

    request.ping_key = (uint32_t)getpid();
    for (unsigned i = 0; i < 2 * RAWE_HELPER_SOCKETS_MAX; i++) {
        const int fd = rawe_helper_ask(SELF, &request, PATIENCE_MS, &error);
        struct stat started;
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(stat(file_of(STARTED_FILE, request.ping_key), &started), 0);
        assert_int_equal(started.st_size, i < RAWE_HELPER_SOCKETS_MAX ? 1 : 2);
    }
    rawe_helper_hang_up();
    rawe_helper_hang_up(); /* the second call does nothing */
    assert_int_equal(unit_open_descriptors(), before);
    assert_int_equal(unlink(file_of(STARTED_FILE, request.ping_key)), 0);
}

/** A helper may fail when all ranks of a host start at once and reach the process limit. */
TEST(open__tries_again_when_a_helper_fails)
{
    const struct rawe_port_config config = {
        .use = RAWE_PORT_RESPONDER,
        .helper = SELF,
        .interface_index = 1,
        .key = FAIL_FIRST,
        .ping_key = (uint32_t)getpid(),
    };
    const char *path = file_of(FIRST_FILE, config.ping_key);
    const int first = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    struct rawe_port_error error;

    assert_true(first >= 0);
    close(first);
    const int fd = rawe_helper_open(&config, NULL, 0, &error);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(access(path, F_OK), -1);
    rawe_helper_hang_up();
}

/** The service thread reopens sockets with `once` set: a hanging helper must not block it. */
TEST(open__of_a_caller_that_comes_again_does_not_wait_long)
{
    const struct rawe_port_config config = {.use = RAWE_PORT_RESPONDER,
                                            .helper = SELF,
                                            .interface_index = 1,
                                            .key = WAIT,
                                            .once = true};
    struct rawe_port_error error;

    alarm(PATIENCE_MS / 1000); /* a helper may take a minute */
    assert_int_equal(rawe_helper_open(&config, NULL, 0, &error), -1);
    alarm(0);
    usleep(100000);
}

/** With several ports to reopen, the service thread must answer PINGs in between. */
TEST(open__of_a_caller_that_comes_again_fails_slowly_once_at_a_time)
{
    struct rawe_port_config config = {.use = RAWE_PORT_RESPONDER,
                                      .helper = SELF,
                                      .interface_index = 1,
                                      .key = WAIT,
                                      .once = true};
    struct rawe_port_error error;

    assert_int_equal(rawe_helper_open(&config, NULL, 0, &error), -1);
    assert_int_equal(error.code, EPERM);
    config.key = GRANT;
    assert_int_equal(rawe_helper_open(&config, NULL, 0, &error), -1);
    assert_int_equal(error.code, EBUSY);
    usleep(100000);
    const int fd = rawe_helper_open(&config, NULL, 0, &error);
    assert_true(fd >= 0);
    close(fd);
    rawe_helper_hang_up();
}

/** Make a request that takes as long as it may. */
static void *ask_a_silent_one(void *timeout_ms)
{
    const struct rawe_helper_request request = request_for(WAIT);
    struct rawe_port_error error;

    (void)rawe_helper_ask(SELF, &request, *(const int *)timeout_ms, &error);
    return NULL;
}

/** Another thread's request may take a minute, and the service thread must answer PINGs. */
TEST(open__of_a_caller_that_comes_again_does_not_wait_for_other_threads)
{
    const struct rawe_port_config config = {.use = RAWE_PORT_RESPONDER,
                                            .helper = SELF,
                                            .interface_index = 1,
                                            .key = GRANT,
                                            .once = true};
    int timeout_ms = 8000;
    struct rawe_port_error error;
    struct timespec began, ended;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, ask_a_silent_one, &timeout_ms), 0);
    usleep(500000);
    clock_gettime(CLOCK_MONOTONIC, &began);
    assert_int_equal(rawe_helper_open(&config, NULL, 0, &error), -1);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_int_equal(error.code, EBUSY);
    assert_in_range(ended.tv_sec - began.tv_sec, 0, 5);
    pthread_join(thread, NULL);
}

TEST(ask__says_why_nothing_is_granted)
{
    check_refused(SELF, REFUSE, PATIENCE_MS, EPERM, "neither this user nor a group");
    check_refused(SELF, REFUSE_BUT_SEND, PATIENCE_MS, EPERM, "neither this user nor a group");
    check_refused(SELF, FAIL, PATIENCE_MS, ENOBUFS, "system call");
    check_refused(SELF, GRANT_NOTHING, PATIENCE_MS, EPERM, "makes no sense");
    check_refused(SELF, GRANT_TWO, PATIENCE_MS, EPERM, "without an answer");
    check_refused(SELF, ANSWER_OTHERWISE, PATIENCE_MS, EPERM, "makes no sense");
    check_refused(SELF, ANSWER_OTHER_VERSION, PATIENCE_MS, EPERM, "another release");
    check_refused(SELF, ANSWER_SHORT, PATIENCE_MS, EPERM, "without an answer");
    check_refused(SELF, END, PATIENCE_MS, EPERM, "without an answer");
    check_refused("/bin/true", END, PATIENCE_MS, EPERM, "without an answer");
}

TEST(ask__does_not_wait_for_ever)
{
    check_refused(SELF, WAIT, 50, EPERM, "in time");
}

TEST(ask__says_why_it_cannot_be_started)
{
    char too_long[NAME_MAX + 3] = "/";

    memset(too_long + 1, 'a', NAME_MAX + 1);
    check_refused(NULL, END, PATIENCE_MS, EPERM, "btl_rawe_helper is empty");
    check_refused("", END, PATIENCE_MS, EPERM, "btl_rawe_helper is empty");
    check_refused("/nowhere/helper", END, PATIENCE_MS, EPERM, "not installed");
    check_refused("/bin/true/helper", END, PATIENCE_MS, EPERM, "not installed");
    check_refused("/dev/null", END, PATIENCE_MS, EPERM, "only its group");
    check_refused(too_long, END, PATIENCE_MS, EPERM, "could not be started");
}

/*
 * clone() of glibc before 2.24 writes -1 to the id of the calling thread if the new process uses the
 * caller's memory (bug 19957). pthread_join() then no longer waits for that thread.
 */
static const char *library_version; /* NULL: this library's */
static int clone_flags;             /* of all calls */

const char *__real_gnu_get_libc_version(void);
const char *__wrap_gnu_get_libc_version(void);
int __real_clone(int (*function)(void *), void *stack, int flags, void *argument);
int __wrap_clone(int (*function)(void *), void *stack, int flags, void *argument);

const char *__wrap_gnu_get_libc_version(void)
{
    return library_version != NULL ? library_version : __real_gnu_get_libc_version();
}

int __wrap_clone(int (*function)(void *), void *stack, int flags, void *argument)
{
    clone_flags |= flags;
    return __real_clone(function, stack, flags, argument);
}

TEST(ask__shares_memory_unless_the_library_is_too_old)
{
    static const struct {
        const char *version;
        bool shares;
    } cases[] = {{"2.17", false}, {"2.23", false}, {"2.24", true}, {"2.36", true}, {"3.0", true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct rawe_helper_request request = request_for(GRANT);
        struct rawe_port_error error;
        library_version = cases[i].version;
        clone_flags = 0;
        const int fd = rawe_helper_ask(SELF, &request, PATIENCE_MS, &error);
        assert_true(fd >= 0);
        close(fd);
        rawe_helper_hang_up();
        assert_int_equal((clone_flags & CLONE_VM) != 0, cases[i].shares);
        check_refused("/nowhere/helper", END, PATIENCE_MS, EPERM, "not installed");
    }
    library_version = NULL;
}

static volatile sig_atomic_t children_ended;

static void count_child(int number)
{
    children_ended++;
}

/** A program that handles SIGCHLD or waits for any child must not see the helper. */
TEST(ask__is_not_noticed_by_the_program)
{
    const struct sigaction count = {.sa_handler = count_child};
    struct sigaction before;
    sigset_t mask, mask_after;

    memset(&mask, 0, sizeof mask); /* the C library fills only part of a mask */
    memset(&mask_after, 0, sizeof mask_after);
    assert_int_equal(sigaction(SIGCHLD, &count, &before), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    ask__returns_the_granted_descriptor();
    check_refused(SELF, END, PATIENCE_MS, EPERM, "without an answer");
    check_refused("/nowhere/helper", END, PATIENCE_MS, EPERM, "not installed");
    assert_int_equal(children_ended, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask_after), 0);
    assert_memory_equal(&mask, &mask_after, sizeof mask);
    assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
}

/** The program's own children remain for the program to wait for. */
TEST(ask__leaves_other_children_alone)
{
    int status;
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        _exit(7);
    }
    ask__returns_the_granted_descriptor();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
}

TEST(ask__works_without_standard_input)
{
    const int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);

    assert_true(saved >= 0);
    close(STDIN_FILENO);
    ask__returns_the_granted_descriptor();
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void *ask_often(void *granted)
{
    const struct rawe_helper_request request = request_for(GRANT);

    for (unsigned i = 0; i < 8; i++) {
        struct rawe_port_error error;
        const int fd = rawe_helper_ask(SELF, &request, PATIENCE_MS, &error);
        if (fd >= 0) {
            close(fd);
            (*(unsigned *)granted)++;
        }
    }
    return NULL;
}

TEST(ask__from_many_threads_at_once)
{
    pthread_t threads[THREADS];
    unsigned granted[THREADS] = {0};

    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &granted[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(granted[i], 8);
    }
}

/** OpenMP and Fortran programs use this much, which shrinks each thread's stack. */
static __thread char thread_local_storage[100 << 10];

struct asking {
    struct rawe_service_source source; /**< must be first: cast back from it */
    bool asked;                        /**< atomic */
    int fd;
};

static int ask_from_service(struct rawe_service_source *source, short events)
{
    const struct rawe_port_config config = {
        .use = RAWE_PORT_EXPRESS, .helper = SELF, .interface_index = 1};
    struct asking *asking = (struct asking *)source;
    struct rawe_port_error error;

    if (!asking->asked) {
        thread_local_storage[0]++;
        asking->fd = rawe_helper_open(&config, NULL, 0, &error);
        __atomic_store_n(&asking->asked, true, __ATOMIC_RELEASE);
    }
    return -1;
}

TEST(open__beside_much_thread_local_storage)
{
    struct asking asking = {.source = {.serve = ask_from_service, .fd = -1}, .fd = -1};
    struct rawe_service *service;
    struct rawe_port_error error;

    assert_int_equal(rawe_service_start(&service, &error), 0);
    assert_int_equal(rawe_service_add(service, &asking.source, &error), 0);
    for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&asking.asked, __ATOMIC_ACQUIRE); i++) {
        usleep(1000);
    }
    rawe_service_remove(&asking.source);
    rawe_service_stop(service);
    assert_true(asking.asked);
    if (asking.fd >= 0) {
        close(asking.fd);
    }
}

TEST(open__an_interface_that_is_gone_is_an_error)
{
    const struct rawe_port_config config = {
        .use = RAWE_PORT_EXPRESS, .helper = SELF, .interface_index = INT32_MAX};
    const struct rawe_fanout_place place = {.key = 1};
    struct rawe_port_error error;

    assert_int_equal(rawe_helper_open(&config, NULL, 0, &error), -1);
    assert_int_equal(error.code, ENXIO);
    assert_int_equal(rawe_helper_open(&config, &place, 1, &error), -1);
    assert_int_equal(error.code, ENXIO);
}
