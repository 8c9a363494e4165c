/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-socket-helper: opens packet sockets for a process of rawe that may not open any itself. It
 * is installed with the file capability cap_net_raw=ep, executable for a group. Read from main() at
 * the end upwards; apart from this file it consists of rawe_filter.c and rawe_shared.c.
 *
 *   1. It opens a few sockets, which receive nothing yet, and permanently gives up its capability.
 *      The remaining steps need none.
 *   2. It receives a request of fixed size on its standard input, and checks each field.
 *   3. It looks the user, the interface and the EtherType up in the access list.
 *   4. It builds a socket's filter from the request's numbers (never from code it is given), locks
 *      the filter, and binds the socket, unless it is for batches: the process binds those.
 *   5. It logs its decision, and answers, with the socket or without. It grants nothing that is not
 *      logged, whatever limits and scheduling it inherits from the caller.
 *   6. It continues with 2 until the caller hangs up or sends no request for five seconds, or no
 *      socket is left. After a refusal it ends.
 *
 * An alarm limits its lifetime, because name services may be slow while hundreds of ranks start.
 * It does not use its environment. Its only argument, --access-list, makes it print the list's path
 * instead of all the above.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "linux/packet/rawe_filter.h"
#include "linux/packet/rawe_helper.h"
#include "linux/sys/rawe_shared.h"

/** The access list, set by configure; the tests build a helper with a list of their own. */
#ifndef RAWE_HELPER_LIST
#error "RAWE_HELPER_LIST has to name the access list"
#endif

/** The helper is killed after this time, even while it waits for a name service or the log. */
#define LIFETIME_S 60

/** How long the helper waits for each request. */
#define IDLE_MS 5000

/** The system log's socket. If its queue is full, only a grant waits, for this long. */
#define LOG_PATH "/dev/log"
#define LOG_WAIT_MS 5000

/** The EtherType allowed if the list names none. */
#define ETHERTYPE_DEFAULT 0x88B5

#define LINE_BYTES 512u
#define GROUPS_MAX 65536 /* NGROUPS_MAX of the kernel */

/** The caller: the real user, whatever the caller claims. */
struct caller {
    uid_t uid;
    gid_t gid;
    gid_t groups[GROUPS_MAX];
    int group_count;
    bool listed; /**< found in the list for an earlier request: skip the name services */
};

/** The parts of a caller's request that the access list allows. */
struct permission {
    bool user;
    bool interface;
    bool ethertype;
    bool ethertypes_listed;
};

static struct caller caller;

/* ---- the log ---- */

static struct {
    int fd;          /**< -1: not connected */
    bool absent;     /**< this host has no log */
    bool ends_lines; /**< each line must end with a 0 */
    int wait_ms;     /**< how long the next line may wait for room */
    struct {
        int priority;
        char text[LINE_BYTES];
    } deferred[2]; /**< lines not logged yet: a decision, and its reason */
    unsigned deferred_count;
} journal = {.fd = -1};

/** Connect to the log through a socket of this type. Returns 0, or errno. */
static int log_connect(int type)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = LOG_PATH};

    journal.fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (journal.fd < 0) {
        return errno;
    }
    if (connect(journal.fd, (const void *)&address, sizeof address) == 0) {
        return 0;
    }
    const int code = errno;
    close(journal.fd);
    journal.fd = -1;
    return code;
}

static void log_open(void)
{
    int code = log_connect(SOCK_DGRAM);

    openlog("rawe-socket-helper", LOG_PID, LOG_AUTHPRIV);
    if (code == EPROTOTYPE) { /* some logs listen on stream sockets, where a 0 ends a line */
        code = log_connect(SOCK_STREAM);
        journal.ends_lines = code == 0;
    }
    journal.absent = code == ENOENT || code == ECONNREFUSED;
}

/** Send a line to the log. Returns true if the log accepted it. */
static bool log_takes(const char *line, size_t length)
{
    struct pollfd room = {.fd = journal.fd, .events = POLLOUT};

    while (send(journal.fd, line, length, MSG_NOSIGNAL) < 0) {
        if (errno != EAGAIN || poll(&room, 1, journal.wait_ms) <= 0) {
            return false;
        }
    }
    return true;
}

/** Log a line like syslog(3), or defer it if it may not wait. Returns true if it is logged. */
__attribute__((format(printf, 2, 3))) static bool log_line(int priority, const char *format, ...)
{
    char text[LINE_BYTES], line[LINE_BYTES + 80], stamp[32] = "";
    const time_t now = time(NULL);
    struct tm parts;
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (localtime_r(&now, &parts) != NULL) {
        (void)strftime(stamp, sizeof stamp, "%b %e %T ", &parts);
    }
    const int length = snprintf(line, sizeof line, "<%d>%srawe-socket-helper[%d]: %s",
                                LOG_AUTHPRIV | priority, stamp, (int)getpid(), text);
    const bool taken = log_takes(line, (size_t)length + journal.ends_lines);
    if (!taken && journal.wait_ms == 0 && journal.deferred_count < 2) {
        journal.deferred[journal.deferred_count].priority = priority;
        memcpy(journal.deferred[journal.deferred_count++].text, text, sizeof text);
    }
    return taken || journal.absent;
}

/** Log the deferred lines after the answer, however long the log takes. */
static void log_deferred(void)
{
    for (unsigned i = 0; i < journal.deferred_count; i++) {
        syslog(journal.deferred[i].priority, "%s", journal.deferred[i].text);
    }
    journal.deferred_count = 0;
}

/* ---- the request ---- */

/** Return true if the name is printable and 0-terminated, padded with zeros. */
static bool name_valid(const char *name)
{
    const size_t length = strnlen(name, RAWE_HELPER_NAME_BYTES);

    if (length == 0 || length == RAWE_HELPER_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < RAWE_HELPER_NAME_BYTES; i++) {
        const bool part = i < length;
        if (part ? name[i] <= ' ' || name[i] > '~' || name[i] == '/' : name[i] != '\0') {
            return false;
        }
    }
    return true;
}

/** Return true if the places are sorted by key, without duplicates, valid, and zero-padded. */
static bool places_valid(const struct rawe_helper_request *request)
{
    for (unsigned i = 0; i < RAWE_FANOUT_PLACES_MAX; i++) {
        const struct rawe_fanout_place *place = &request->places[i];
        if (i >= request->place_count) {
            if (place->key != 0 || place->place != 0) {
                return false;
            }
        } else if (place->place >= RAWE_FANOUT_MEMBERS_MAX ||
                   (i > 0 && place->key <= request->places[i - 1].key)) {
            return false;
        }
    }
    return true;
}

/** Check a received request of `len_bytes`; `request` has the part that fits. */
static enum rawe_helper_status check_request(const struct rawe_helper_request *request,
                                             size_t len_bytes)
{
    const bool bulk = rawe_port_use_is_bulk((enum rawe_port_use)request->what);
    const bool responder = request->what == RAWE_PORT_RESPONDER;
    const bool founder = request->place_count != 0;

    if (len_bytes < sizeof request->version) {
        return RAWE_HELPER_BAD_REQUEST;
    }
    if (request->version != RAWE_HELPER_VERSION) {
        return RAWE_HELPER_OTHER_VERSION;
    }
    if (len_bytes != sizeof *request || request->what >= RAWE_PORT_USES ||
        !name_valid(request->interface) || (request->ethertype == 0) != bulk ||
        request->place_count > RAWE_FANOUT_PLACES_MAX || !places_valid(request)) {
        return RAWE_HELPER_BAD_REQUEST;
    }
    if ((founder && (request->port != 0 || request->key != 0)) ||
        ((founder || !responder) && (request->ping_port != 0 || request->ping_key != 0))) {
        return RAWE_HELPER_BAD_REQUEST;
    }
    return RAWE_HELPER_GRANTED;
}

/* ---- the access list ---- */

/** Parse a word that is a number. Returns false if it is not, or above `most`. */
static bool read_number(const char *word, int base, unsigned long most, unsigned long *number)
{
    char *end;

    if (!isdigit((unsigned char)word[0])) {
        return false;
    }
    errno = 0;
    *number = strtoul(word, &end, base);
    return errno == 0 && *end == '\0' && *number <= most;
}

static bool is_user(const char *word)
{
    unsigned long number;
    const struct passwd *entry;

    if (read_number(word, 10, UINT32_MAX - 1, &number)) {
        return caller.uid == (uid_t)number;
    }
    entry = getpwnam(word);
    return entry != NULL && entry->pw_uid == caller.uid;
}

static bool is_in_group(const char *word)
{
    unsigned long number;
    const struct group *entry;

    if (!read_number(word, 10, UINT32_MAX - 1, &number)) {
        entry = getgrnam(word);
        if (entry == NULL) {
            return false;
        }
        number = entry->gr_gid;
    }
    for (int i = 0; i < caller.group_count; i++) {
        if (caller.groups[i] == (gid_t)number) {
            return true;
        }
    }
    return caller.gid == (gid_t)number;
}

/** Return true if the word is the name, or a prefix of it followed by *. */
static bool is_interface(const char *word, const char *name)
{
    const size_t length = strlen(word);

    if (word[length - 1] == '*') {
        return strncmp(word, name, length - 1) == 0;
    }
    return strcmp(word, name) == 0;
}

/** Apply a keyword and the word after it. Returns false if they are invalid. */
static bool apply_keyword(const char *keyword, const char *word,
                          const struct rawe_helper_request *request, struct permission *permission)
{
    unsigned long number;

    if (strcmp(keyword, "user") == 0) {
        permission->user = permission->user || is_user(word);
    } else if (strcmp(keyword, "group") == 0) {
        permission->user = permission->user || is_in_group(word);
    } else if (strcmp(keyword, "interface") == 0) {
        permission->interface = permission->interface || is_interface(word, request->interface);
    } else if (strcmp(keyword, "ethertype") == 0 && read_number(word, 0, UINT16_MAX, &number)) {
        permission->ethertypes_listed = true;
        permission->ethertype = permission->ethertype || number == request->ethertype;
    } else {
        return false;
    }
    return true;
}

/** Read a line: empty, or a keyword and at least one word. The rest after a # is a comment. */
static bool read_line(char *line, const struct rawe_helper_request *request,
                      struct permission *permission)
{
    static const char blanks[] = " \t\r\n";
    char *rest = NULL;

    line[strcspn(line, "#")] = '\0';
    const char *keyword = strtok_r(line, blanks, &rest);
    const char *word = strtok_r(NULL, blanks, &rest);
    if (keyword == NULL) {
        return true;
    }
    if (word == NULL) {
        return false;
    }
    for (; word != NULL; word = strtok_r(NULL, blanks, &rest)) {
        if (!apply_keyword(keyword, word, request, permission)) {
            return false;
        }
    }
    return true;
}

/** Read the whole list, even if it has already allowed the request. */
static enum rawe_helper_status read_list(FILE *list, const struct rawe_helper_request *request,
                                         struct permission *permission)
{
    char line[LINE_BYTES];

    for (unsigned number = 1; fgets(line, sizeof line, list) != NULL; number++) {
        const bool whole = strchr(line, '\n') != NULL || feof(list);
        if (!whole || !read_line(line, request, permission)) {
            (void)log_line(LOG_ERR, "%s: line %u is wrong", RAWE_HELPER_LIST, number);
            return RAWE_HELPER_BAD_LIST;
        }
    }
    return ferror(list) ? RAWE_HELPER_NO_LIST : RAWE_HELPER_GRANTED;
}

static enum rawe_helper_status decide_request(const struct rawe_helper_request *request,
                                              const struct permission *permission)
{
    const bool ethertype =
        rawe_port_use_is_bulk((enum rawe_port_use)request->what) ||
        (permission->ethertypes_listed ? permission->ethertype
                                       : request->ethertype == ETHERTYPE_DEFAULT);

    if (!permission->user) {
        return RAWE_HELPER_USER_REFUSED;
    }
    if (!permission->interface) {
        return RAWE_HELPER_INTERFACE_REFUSED;
    }
    return ethertype ? RAWE_HELPER_GRANTED : RAWE_HELPER_ETHERTYPE_REFUSED;
}

static bool is_safe(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == 0 &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/** Return GRANTED if the list allows the caller's request. */
static enum rawe_helper_status check_permission(const struct rawe_helper_request *request)
{
    struct permission permission = {.user = caller.listed};
    FILE *list = fopen(RAWE_HELPER_LIST, "re");

    if (list == NULL) {
        return RAWE_HELPER_NO_LIST;
    }
    const enum rawe_helper_status status =
        is_safe(fileno(list)) ? read_list(list, request, &permission) : RAWE_HELPER_UNSAFE_LIST;
    fclose(list);
    caller.listed = permission.user;
    return status == RAWE_HELPER_GRANTED ? decide_request(request, &permission) : status;
}

/* ---- the socket ---- */

/** Configure the socket as requested, without using any capability. */
static enum rawe_helper_status prepare_socket(int fd, const struct rawe_helper_request *request,
                                              int32_t *code)
{
    const struct rawe_port_config config = {
        .use = (enum rawe_port_use)request->what,
        .interface_index = (int)if_nametoindex(request->interface),
        .ethertype = request->ethertype,
        .port = request->port,
        .key = request->key,
        .ping_port = request->ping_port,
        .ping_key = request->ping_key,
    };
    struct rawe_port_error error = {0};

    if (config.interface_index == 0) {
        return RAWE_HELPER_INTERFACE_UNKNOWN;
    }
    if (request->place_count != 0
            ? rawe_fanout_found(fd, &config, request->places, request->place_count, &error) != 0
            : rawe_filter_attach(fd, &config, &error) != 0 ||
                  /* The process binds the ports for batches itself, in a certain order. */
                  (!rawe_port_use_is_bulk(config.use) &&
                   rawe_filter_bind(fd, &config, &error) != 0)) {
        (void)log_line(LOG_ERR, "%s: %s", error.step, strerror(error.code));
        *code = error.code;
        return RAWE_HELPER_FAILED;
    }
    return RAWE_HELPER_GRANTED;
}

/* ---- the conversation ---- */

static bool is_conversation(int fd)
{
    int domain, type;
    socklen_t domain_bytes = sizeof domain, type_bytes = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) == 0 &&
           domain == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 &&
           type == SOCK_SEQPACKET;
}

/** Send the answer, with the socket if granted. */
static void answer_request(enum rawe_helper_status status, int32_t code, int socket_fd)
{
    struct rawe_helper_answer out = {
        .version = RAWE_HELPER_VERSION, .status = status, .code = code};

    (void)rawe_descriptor_send(STDIN_FILENO, &out, sizeof out,
                               status == RAWE_HELPER_GRANTED ? socket_fd : -1);
}

static const char *const status_names[RAWE_HELPER_STATUS_COUNT] = {
    [RAWE_HELPER_GRANTED] = "granted",
    [RAWE_HELPER_OTHER_VERSION] = "refused: the request is another release's",
    [RAWE_HELPER_BAD_REQUEST] = "refused: the request is malformed",
    [RAWE_HELPER_NO_LIST] = "refused: cannot read " RAWE_HELPER_LIST,
    [RAWE_HELPER_UNSAFE_LIST] = "refused: not root's alone to write: " RAWE_HELPER_LIST,
    [RAWE_HELPER_BAD_LIST] = "refused: a wrong line in " RAWE_HELPER_LIST,
    [RAWE_HELPER_USER_REFUSED] = "refused: user not listed",
    [RAWE_HELPER_INTERFACE_REFUSED] = "refused: interface not listed",
    [RAWE_HELPER_ETHERTYPE_REFUSED] = "refused: EtherType not listed",
    [RAWE_HELPER_INTERFACE_UNKNOWN] = "refused: no such interface",
    [RAWE_HELPER_NO_CAPABILITY] = "failed: CAP_NET_RAW is missing",
    [RAWE_HELPER_FAILED] = "failed",
    [RAWE_HELPER_NO_LOG] = "refused: the log takes no line",
};

/** Log a decision, without quoting malformed requests. Returns true if it is logged. */
static bool log_decision(enum rawe_helper_status status, const struct rawe_helper_request *request)
{
    static const char *const kinds[] = {
        [RAWE_PORT_EXPRESS] = "link",
        [RAWE_PORT_RESPONDER] = "responder",
        [RAWE_PORT_BULK] = "bulk",
        [RAWE_PORT_MIDDLE] = "middle bulk",
    };

    if (status == RAWE_HELPER_OTHER_VERSION || status == RAWE_HELPER_BAD_REQUEST) {
        return log_line(LOG_WARNING, "%s (uid %lu, gid %lu)", status_names[status],
                        (unsigned long)caller.uid, (unsigned long)caller.gid);
    }
    return log_line(status == RAWE_HELPER_GRANTED ? LOG_INFO : LOG_WARNING,
                    "%s (uid %lu, gid %lu): %s%s on %s, EtherType 0x%04X", status_names[status],
                    (unsigned long)caller.uid, (unsigned long)caller.gid,
                    request->place_count != 0 ? "group of " : "", kinds[request->what],
                    request->interface,
                    request->ethertype != 0 ? request->ethertype : (unsigned)ETHERTYPE_IPV4);
}

/** Log a grant. Returns true if the log accepted the line, or this host has no log. */
static bool log_grant(const struct rawe_helper_request *request)
{
    journal.wait_ms = LOG_WAIT_MS;
    const bool logged = log_decision(RAWE_HELPER_GRANTED, request);
    journal.wait_ms = 0;
    return logged;
}

/**
 * Give up all capabilities for good: the file's, or a root caller's. Also returns false if it runs
 * as another user than its caller: it was not installed that way.
 */
static bool drop_privileges(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return geteuid() == caller.uid && getegid() == caller.gid &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &header, none) == 0;
}

/** Close the caller's descriptors, and raise its limit to make room for ours. */
static void begin_with_room(void)
{
    struct rlimit limit;

#ifdef SYS_close_range
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, UINT_MAX, 0); /* in glibc since 2.34 */
#endif
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/** Undo the caller's settings: blocked and ignored signals, environment. */
static void begin_afresh(void)
{
    sigset_t none;

    (void)clearenv();
    (void)signal(SIGALRM, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)alarm(LIFETIME_S);
}

/** Decide on one request. Returns the status, and errno in `code`. */
static enum rawe_helper_status handle_request(int socket_fd, int32_t socket_code,
                                              const struct rawe_helper_request *request,
                                              size_t len_bytes, int32_t *code)
{
    enum rawe_helper_status status = check_request(request, len_bytes);

    if (status == RAWE_HELPER_GRANTED) {
        status = check_permission(request);
    }
    if (status == RAWE_HELPER_GRANTED && socket_fd < 0) {
        *code = socket_code;
        status = socket_code == EPERM ? RAWE_HELPER_NO_CAPABILITY : RAWE_HELPER_FAILED;
    }
    return status == RAWE_HELPER_GRANTED ? prepare_socket(socket_fd, request, code) : status;
}

/** A packet socket that receives nothing yet, or -1 and errno in `code`. */
struct offer {
    int fd;
    int32_t code;
};

/** Receive and answer requests. Returns the exit status. */
static int serve_socket(const struct offer *offers, unsigned count)
{
    struct rawe_helper_request request = {0};
    enum rawe_helper_status status = RAWE_HELPER_BAD_REQUEST;

    if (!is_conversation(STDIN_FILENO)) {
        fprintf(stderr, "rawe-socket-helper is started by Open MPI's BTL rawe; see its man page\n");
        return 2;
    }
    log_open();
    caller.group_count = getgroups(GROUPS_MAX, caller.groups);
    for (unsigned i = 0; i < count; i++) {
        struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
        int32_t code = 0;
        if (poll(&wait, 1, IDLE_MS) <= 0) {
            break;
        }
        const ssize_t got = recv(STDIN_FILENO, &request, sizeof request, MSG_TRUNC);
        if (got <= 0) {
            break; /* the caller has hung up */
        }
        status = handle_request(offers[i].fd, offers[i].code, &request, (size_t)got, &code);
        if (status == RAWE_HELPER_GRANTED && !log_grant(&request)) {
            status = RAWE_HELPER_NO_LOG;
        }
        if (status != RAWE_HELPER_GRANTED) {
            (void)log_decision(status, &request);
        }
        answer_request(status, code, offers[i].fd);
        log_deferred();
        if (status != RAWE_HELPER_GRANTED) {
            break;
        }
    }
    return status == RAWE_HELPER_GRANTED ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char list[] = RAWE_HELPER_LIST "\n";
    struct offer offers[RAWE_HELPER_SOCKETS_MAX];
    int status = 1;

    if (argc == 2 && strcmp(argv[1], "--access-list") == 0) {
        return write(STDOUT_FILENO, list, sizeof list - 1) == (ssize_t)(sizeof list - 1) ? 0 : 1;
    }
    /* Do this before opening any: once the helper has no capability, its user could take them. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return 1;
    }
    begin_with_room();
    for (unsigned i = 0; i < RAWE_HELPER_SOCKETS_MAX; i++) {
        /* With protocol 0 a packet socket receives nothing until it is bound. */
        offers[i].fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
        offers[i].code = errno;
    }
    caller.uid = getuid();
    caller.gid = getgid();
    if (drop_privileges()) {
        begin_afresh();
        status = serve_socket(offers, RAWE_HELPER_SOCKETS_MAX);
    }
    for (unsigned i = 0; i < RAWE_HELPER_SOCKETS_MAX; i++) {
        if (offers[i].fd >= 0) {
            close(offers[i].fd);
        }
    }
    return status;
}
