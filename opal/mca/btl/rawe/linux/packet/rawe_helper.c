/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_helper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "../sys/rawe_shared.h"

/** Slightly longer than the lifetime of a helper. */
#define TIMEOUT_MS 65000

/** Timeout for a caller that retries: the service thread, which must also answer PINGs. */
#define TIMEOUT_ONCE_MS 5000

/**
 * Such a caller may have several ports to reopen. After a request that failed slowly, its others
 * fail at once for AFTER_SLOW_MS, so that it returns and answers PINGs before it comes again.
 */
#define SLOW_MS 1000u
#define AFTER_SLOW_MS 50u

/**
 * Processes, memory and descriptors are scarce while all ranks on a host start helpers, but soon
 * available again: retry with pauses that double, for ten seconds in all.
 */
#define ATTEMPTS_MAX 16u
#define PAUSE_FIRST_MS 20u
#define PAUSE_MOST_MS 1000u

#define STACK_BYTES 16384u
#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u

/** rawe_port_error.step; compared by address. */
static const char NO_ANSWER[] = "rawe-socket-helper ended without an answer";

/** A helper that has granted a socket and may grant more. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t released; /**< init_released initializes it */
    bool in_use;             /**< by one thread, which then owns the other members */
    int fd;                  /**< -1: none */
    char path[PATH_MAX];
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/** A helper being started, in a mapping that three processes share briefly. */
struct start {
    const char *path;
    int fd;     /**< the helper's end of the socket pair */
    int code;   /**< errno, if the program cannot be executed */
    int memory; /**< CLONE_VM if both processes use our memory, or 0 */
    _Alignas(16) char first_stack[STACK_BYTES];
    _Alignas(16) char second_stack[STACK_BYTES];
};

/** Stack frames that end in execve would remain poisoned, so exempt them from the sanitizer. */
#define NOT_SANITIZED __attribute__((no_sanitize_address))

/**
 * The second process: become the helper. This runs in the application's memory, so its wrappers of
 * these calls (tracers, preloaded libraries) must not run: use syscall().
 */
NOT_SANITIZED static int become_helper(void *argument)
{
    struct start *start = argument;
    char name[] = "rawe-socket-helper";
    char *const arguments[] = {name, NULL};
    char *const environment[] = {NULL};

    if (start->fd == STDIN_FILENO ? syscall(SYS_fcntl, start->fd, F_SETFD, 0) == 0
                                  : syscall(SYS_dup3, start->fd, STDIN_FILENO, 0) >= 0) {
#ifdef SYS_close_range
        /* The helper must not inherit the application's descriptors; old kernels lack the call. */
        (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
#endif
        (void)syscall(SYS_execve, start->path, arguments, environment);
    }
    start->code = errno;
    return 1;
}

/** The first process: start the second and exit, so that the helper is not our child. */
NOT_SANITIZED static int start_and_end(void *argument)
{
    struct start *start = argument;
    const pid_t pid = clone(become_helper, start->second_stack + STACK_BYTES,
                            start->memory | CLONE_VFORK | SIGCHLD, start);

    if (pid < 0) {
        start->code = errno;
    } else if (start->code != 0) {
        (void)waitpid(pid, NULL, 0);
    }
    return 0;
}

/**
 * Return CLONE_VM, unless the C library's clone() then overwrites the id of the calling thread, as
 * glibc's did before 2.24 (bug 19957): pthread_join() would no longer wait for that thread.
 */
static int memory_to_use(void)
{
#ifdef __GLIBC__
    unsigned major = 2, minor = 0;
    if (sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor) == 2 && major == 2 && minor < 24) {
        return 0;
    }
#endif
    return CLONE_VM;
}

/**
 * Start a helper. Both processes use our memory while we wait (CLONE_VFORK), so its size does not
 * matter. The first sends no signal when it exits; execve would change that, hence the second.
 * Signals are blocked in both, and in the helper until it unblocks them, because the application's
 * handlers would run in it. Returns 0, or errno.
 */
static int start_helper(const char *path, int fd)
{
    sigset_t all, before;
    const int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
    // cppcheck-suppress invalidFunctionArg; MAP_ANONYMOUS requires -1
    struct start *start = mmap(NULL, sizeof *start, access, flags, -1, 0);

    if (start == MAP_FAILED) {
        return errno;
    }
    start->path = path;
    start->fd = fd;
    start->memory = memory_to_use();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid =
        clone(start_and_end, start->first_stack + STACK_BYTES, start->memory | CLONE_VFORK, start);
    if (pid < 0) {
        start->code = errno;
    } else {
        (void)waitpid(pid, NULL, __WCLONE);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    const int code = start->code;
    (void)munmap(start, sizeof *start);
    return code;
}

static const char *start_reason(int code)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
        return "rawe-socket-helper is not installed";
    case EPERM: /* the file's capability exceeds what programs started here may have */
        return "this process may start no program with CAP_NET_RAW (bounding set)";
    case EACCES:
        return "this user may not run rawe-socket-helper: only its group may";
    default:
        return "rawe-socket-helper could not be started";
    }
}

/** Return true if a resource is scarce, but may soon be available. */
static bool start_is_scarce(int code)
{
    return code == EAGAIN || code == EBUSY || code == ENOMEM || code == EMFILE || code == ENFILE;
}

static const char *status_reason(uint32_t status)
{
    static const char *const reasons[RAWE_HELPER_STATUS_COUNT] = {
        [RAWE_HELPER_OTHER_VERSION] = "rawe-socket-helper belongs to another release of rawe",
        [RAWE_HELPER_BAD_REQUEST] = "rawe-socket-helper does not accept the request",
        [RAWE_HELPER_NO_LIST] = "the helper's access list is missing, or cannot be read",
        [RAWE_HELPER_UNSAFE_LIST] = "the helper's access list can be written by others than root",
        [RAWE_HELPER_BAD_LIST] =
            "the helper's access list has a wrong line; the system log has its number",
        [RAWE_HELPER_USER_REFUSED] =
            "the helper's access list names neither this user nor a group of it",
        [RAWE_HELPER_INTERFACE_REFUSED] = "the helper's access list does not name this interface",
        [RAWE_HELPER_ETHERTYPE_REFUSED] = "the helper's access list does not name this EtherType",
        [RAWE_HELPER_INTERFACE_UNKNOWN] = "rawe-socket-helper finds no interface of this name",
        [RAWE_HELPER_NO_CAPABILITY] =
            "rawe-socket-helper itself got no CAP_NET_RAW (setcap, nosuid, no_new_privs)",
        [RAWE_HELPER_NO_LOG] =
            "the system log is full or out of reach, and the helper grants nothing unlogged",
    };
    const char *reason = status < RAWE_HELPER_STATUS_COUNT ? reasons[status] : NULL;

    return reason != NULL ? reason : "rawe-socket-helper's answer makes no sense";
}

static uint64_t after_ms(int ms)
{
    return rawe_port_clock_ns() + (uint64_t)ms * NS_PER_MS;
}

/** Send the request and receive the answer. Returns the socket, or -1 and the error. */
static int request_socket(int fd, const struct rawe_helper_request *request, uint64_t until_ns,
                          struct rawe_port_error *error)
{
    struct rawe_helper_answer answer;
    int socket_fd;

    if (!rawe_descriptor_send(fd, request, sizeof *request, -1)) {
        return rawe_port_failed(error, NO_ANSWER, EPERM);
    }
    if (!rawe_descriptor_await(fd, until_ns)) {
        return rawe_port_failed(error, "rawe-socket-helper did not answer in time", EPERM);
    }
    if (rawe_descriptor_receive(fd, &answer, sizeof answer, &socket_fd) != sizeof answer) {
        *error = (struct rawe_port_error){NO_ANSWER, EPERM};
    } else if (answer.version != RAWE_HELPER_VERSION) {
        *error = (struct rawe_port_error){status_reason(RAWE_HELPER_OTHER_VERSION), EPERM};
    } else if (answer.status == RAWE_HELPER_FAILED) {
        *error = (struct rawe_port_error){"a system call of rawe-socket-helper", answer.code};
    } else if (answer.status != RAWE_HELPER_GRANTED || socket_fd < 0) {
        *error = (struct rawe_port_error){status_reason(answer.status), EPERM};
    } else {
        return socket_fd;
    }
    if (socket_fd >= 0) {
        close(socket_fd);
    }
    return -1;
}

static void init_released(void)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waiting.released, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

/**
 * Wait for our turn: ports opened in parallel use the same helper in turn. No lock is
 * held meanwhile, because starting a helper is a kind of fork. Returns false if it is not our turn
 * by `until_ns`.
 */
static bool use_waiting(uint64_t until_ns)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                   .tv_nsec = (long)(until_ns % NS_PER_S)};
    int code = 0;

    (void)pthread_once(&once, init_released);
    pthread_mutex_lock(&waiting.lock);
    while (waiting.in_use && code == 0) {
        code = pthread_cond_timedwait(&waiting.released, &waiting.lock, &until);
    }
    const bool ours = !waiting.in_use;
    waiting.in_use = true;
    pthread_mutex_unlock(&waiting.lock);
    return ours;
}

static void release_waiting(void)
{
    pthread_mutex_lock(&waiting.lock);
    waiting.in_use = false;
    pthread_cond_signal(&waiting.released);
    pthread_mutex_unlock(&waiting.lock);
}

static void hang_up_helper(void)
{
    if (waiting.fd >= 0) {
        close(waiting.fd);
        waiting.fd = -1;
    }
}

void rawe_helper_hang_up(void)
{
    if (use_waiting(after_ms(TIMEOUT_MS))) { /* otherwise another thread needs the helper */
        hang_up_helper();
        release_waiting();
    }
}

/** Send a request to the waiting helper, which exits after a refusal. */
static int ask_waiting(const struct rawe_helper_request *request, uint64_t until_ns,
                       struct rawe_port_error *error)
{
    const int socket_fd = request_socket(waiting.fd, request, until_ns, error);

    if (socket_fd < 0) {
        hang_up_helper();
    }
    return socket_fd;
}

/** Implement rawe_helper_ask, with `waiting` in use. */
static int ask_helper(const char *path, const struct rawe_helper_request *request,
                      uint64_t until_ns, struct rawe_port_error *error)
{
    int ends[2];

    if (waiting.fd >= 0 && strcmp(waiting.path, path) == 0) {
        const int socket_fd = ask_waiting(request, until_ns, error);
        if (socket_fd >= 0 || error->step != NO_ANSWER) {
            return socket_fd;
        } /* the helper has granted all its sockets, or exited */
    }
    hang_up_helper();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return rawe_port_failed(error, "socketpair", errno);
    }
    const int code = start_helper(path, ends[1]);
    close(ends[1]);
    if (code != 0) {
        *error = (struct rawe_port_error){start_reason(code), start_is_scarce(code) ? code : EPERM};
        close(ends[0]);
        return -1;
    }
    assert(strlen(path) < sizeof waiting.path); /* otherwise the helper would not have started */
    strcpy(waiting.path, path);
    waiting.fd = ends[0];
    return ask_waiting(request, until_ns, error);
}

int rawe_helper_ask(const char *path, const struct rawe_helper_request *request, int timeout_ms,
                    struct rawe_port_error *error)
{
    if (path == NULL || *path == '\0') {
        return rawe_port_failed(error, "btl_rawe_helper is empty", EPERM);
    }
    const uint64_t until_ns = after_ms(timeout_ms);
    if (!use_waiting(after_ms(timeout_ms / 2))) { /* leave the helper time to answer */
        return rawe_port_failed(error, "other threads' requests to rawe-socket-helper", EBUSY);
    }
    const int socket_fd = ask_helper(path, request, until_ns, error);
    release_waiting();
    return socket_fd;
}

static int ask_patiently(const struct rawe_port_config *config,
                         const struct rawe_helper_request *request, struct rawe_port_error *error)
{
    unsigned pause_ms = PAUSE_FIRST_MS;

    for (unsigned attempt = 1;; attempt++) {
        const int fd = rawe_helper_ask(config->helper, request, TIMEOUT_MS, error);
        if (fd >= 0 || config->once || attempt == ATTEMPTS_MAX ||
            !(start_is_scarce(error->code) || error->code == ENOBUFS || error->step == NO_ANSWER)) {
            return fd;
        }
        (void)poll(NULL, 0, (int)pause_ms);
        pause_ms = pause_ms < PAUSE_MOST_MS / 2 ? pause_ms * 2 : PAUSE_MOST_MS;
    }
}

/** Ask for a caller that retries, and must answer PINGs between requests that fail slowly. */
static int ask_briefly(const char *path, const struct rawe_helper_request *request,
                       struct rawe_port_error *error)
{
    static uint64_t slow_ns; /* when the last request failed slowly; atomic */
    const uint64_t began_ns = rawe_port_clock_ns();

    if (began_ns - __atomic_load_n(&slow_ns, __ATOMIC_RELAXED) < AFTER_SLOW_MS * NS_PER_MS) {
        return rawe_port_failed(error, "another request to rawe-socket-helper timed out", EBUSY);
    }
    const int fd = rawe_helper_ask(path, request, TIMEOUT_ONCE_MS, error);
    const uint64_t now_ns = rawe_port_clock_ns();
    if (fd < 0 && now_ns - began_ns >= SLOW_MS * NS_PER_MS) {
        __atomic_store_n(&slow_ns, now_ns, __ATOMIC_RELAXED);
    }
    return fd;
}

int rawe_helper_open(const struct rawe_port_config *config, const struct rawe_fanout_place *places,
                     unsigned place_count, struct rawe_port_error *error)
{
    const bool responder = config->use == RAWE_PORT_RESPONDER;
    /* Founders are opened in a thread that does not answer PINGs. */
    const bool waits = !config->once || place_count != 0;
    struct rawe_helper_request request = {
        .version = RAWE_HELPER_VERSION,
        .what = config->use,
        .ethertype = rawe_port_use_is_bulk(config->use) ? 0 : config->ethertype,
        .port = config->port,
        .ping_port = responder ? config->ping_port : 0,
        .place_count = (uint16_t)place_count,
        .key = config->key,
        .ping_key = responder ? config->ping_key : 0,
    };

    _Static_assert(RAWE_HELPER_NAME_BYTES == IF_NAMESIZE, "as the kernel has it");
    if (if_indextoname((unsigned)config->interface_index, request.interface) == NULL) {
        return rawe_port_failed(error, "if_indextoname", errno);
    }
    if (place_count != 0) {
        memcpy(request.places, places, place_count * sizeof places[0]);
    }
    return waits ? ask_patiently(config, &request, error)
                 : ask_briefly(config->helper, &request, error);
}
