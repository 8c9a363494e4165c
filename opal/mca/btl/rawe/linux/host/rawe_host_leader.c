/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The leader of a host group. See rawe_host_leader.h.
 */
#define _GNU_SOURCE
#include "rawe_host_leader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../packet/rawe_helper.h"
#include "rawe_host_message.h"

/** With sockets missing, wait this long for further ones before those that are there join. */
#define QUIET_MS 5000

/** Connections that wait to be accepted. */
#define BACKLOG 128

/** Any user of the host may connect: after refusing this many it accepts none for a while. */
#define REFUSALS_MAX 8u
#define PAUSE_MS 50u

/** The program itself needs descriptors, too: one part in this many is left to it. */
#define DESCRIPTORS_DIVISOR 8u

#define EVENTS_MAX 16
#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

/** A process. */
struct connection {
    int fd;
    bool joined; /**< sockets of it are in groups */
    bool done;   /**< it needs no more frames */
};

/** A socket that is to join; `member.fd` is our duplicate. */
struct entry {
    struct rawe_fanout_member member;
    int connection; /**< descriptor of the one it came through, -1: it is of this process */
};

/** A group that is being formed: its thread's, until `done`. */
struct forming {
    bool active;
    bool done; /**< atomic */
    pthread_t thread;
    const char *helper;
    struct rawe_service_source *source;                         /**< NULL: no thread */
    struct rawe_fanout_member members[RAWE_FANOUT_MEMBERS_MAX]; /**< duplicates, to be closed */
    int fds[RAWE_FANOUT_MEMBERS_MAX];                           /**< the same, in another order */
    int connections[RAWE_FANOUT_MEMBERS_MAX];
    unsigned count;
    bool joined;
    bool changed; /**< some joined, maybe not all */
};

struct rawe_host_leader {
    unsigned processes; /**< expected, this one included */
    unsigned joined;
    bool broken;
    int listen_fd; /**< -1: no process is let in any more */
    int epoll_fd;
    unsigned descriptors_max;
    struct entry *entries;
    unsigned entry_count;
    unsigned entry_capacity;
    struct connection *connections;
    unsigned connection_count;
    unsigned connection_capacity;
    uint64_t newest_ns; /**< when the newest entry came */
    uint64_t pause_ns;  /**< until then no process is let in; 0: there is no pause */
    struct forming forming;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static unsigned descriptors_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) {
        return INT32_MAX;
    }
    return (unsigned)(limit.rlim_cur - limit.rlim_cur / DESCRIPTORS_DIVISOR);
}

static bool watch(const struct rawe_host_leader *leader, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(leader->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void stop_listening(struct rawe_host_leader *leader)
{
    if (leader->listen_fd >= 0) {
        close(leader->listen_fd);
        leader->listen_fd = -1;
    }
}

/** Wait for the group that is being formed, if one is. */
static void await_formed(struct rawe_host_leader *leader)
{
    struct forming *forming = &leader->forming;

    if (forming->active && forming->source != NULL) {
        pthread_join(forming->thread, NULL);
    }
    for (unsigned i = 0; forming->active && i < forming->count; i++) {
        close(forming->fds[i]);
    }
    forming->active = false;
}

void rawe_host_leader_close(struct rawe_host_leader *leader)
{
    if (leader == NULL) {
        return;
    }
    await_formed(leader);
    stop_listening(leader);
    for (unsigned i = 0; i < leader->connection_count; i++) {
        close(leader->connections[i].fd);
    }
    for (unsigned i = 0; i < leader->entry_count; i++) {
        close(leader->entries[i].member.fd);
    }
    if (leader->epoll_fd >= 0) {
        close(leader->epoll_fd);
    }
    free(leader->connections);
    free(leader->entries);
    free(leader);
}

int rawe_host_leader_open(struct rawe_host_leader **out, const char *name, unsigned processes,
                          const char *helper, struct rawe_service_source *source,
                          struct rawe_port_error *error)
{
    struct rawe_host_leader *leader = calloc(1, sizeof *leader);
    struct sockaddr_un address;
    const socklen_t address_bytes = rawe_host_message_address(name, &address);

    *out = NULL;
    if (leader == NULL) {
        *error = (struct rawe_port_error){"malloc", ENOMEM};
        return -1;
    }
    leader->processes = processes;
    leader->forming.helper = helper;
    leader->forming.source = source;
    leader->descriptors_max = descriptors_max();
    leader->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    leader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (leader->listen_fd < 0 || leader->epoll_fd < 0 ||
        bind(leader->listen_fd, (const struct sockaddr *)&address, address_bytes) != 0 ||
        listen(leader->listen_fd, BACKLOG) != 0 || !watch(leader, leader->listen_fd)) {
        *error = (struct rawe_port_error){"listening to the processes of this host", errno};
        rawe_host_leader_close(leader);
        return -1;
    }
    *out = leader;
    return 0;
}

int rawe_host_leader_fd(const struct rawe_host_leader *leader)
{
    return leader->epoll_fd;
}

bool rawe_host_leader_broken(const struct rawe_host_leader *leader)
{
    return leader->broken;
}

bool rawe_host_leader_resume(struct rawe_host_leader *leader)
{
    leader->broken = leader->listen_fd < 0;
    return !leader->broken;
}

unsigned rawe_host_leader_joined(const struct rawe_host_leader *leader)
{
    return leader->joined;
}

/** Room for one more element of `bytes` bytes. Returns the array, NULL: no memory. */
static void *grown(void *array, unsigned *capacity, unsigned count, size_t bytes)
{
    if (count < *capacity) {
        return array;
    }
    const unsigned larger = *capacity == 0 ? 16 : *capacity * 2;
    void *result = realloc(array, larger * bytes);
    if (result != NULL) {
        *capacity = larger;
    }
    return result;
}

static bool has_room(const struct rawe_host_leader *leader, unsigned more)
{
    return leader->connection_count + leader->entry_count + more <= leader->descriptors_max;
}

/** Takes the member's descriptor over. */
static void add_entry(struct rawe_host_leader *leader, const struct rawe_fanout_member *member,
                      int connection)
{
    struct entry *entries = grown(leader->entries, &leader->entry_capacity, leader->entry_count,
                                  sizeof leader->entries[0]);

    if (entries == NULL || !has_room(leader, 1) || !rawe_fanout_joinable(member)) {
        close(member->fd);
    } else {
        entries[leader->entry_count++] =
            (struct entry){.member = *member, .connection = connection};
        leader->newest_ns = now_ns();
    }
    leader->entries = entries != NULL ? entries : leader->entries;
}

int rawe_host_leader_register(struct rawe_host_leader *leader,
                              const struct rawe_fanout_member *member)
{
    const unsigned before = leader->entry_count;
    struct rawe_fanout_member duplicate = *member;

    duplicate.fd = fcntl(member->fd, F_DUPFD_CLOEXEC, 0);
    if (duplicate.fd >= 0) {
        add_entry(leader, &duplicate, -1);
    }
    return leader->entry_count > before ? 0 : -1;
}

/** Rate-limit connects so that a flood cannot starve the thread. */
static void pause_listening(struct rawe_host_leader *leader)
{
    (void)epoll_ctl(leader->epoll_fd, EPOLL_CTL_DEL, leader->listen_fd, NULL);
    leader->pause_ns = now_ns() + PAUSE_MS * NS_PER_MS;
}

/** End a pause that is over. Returns the milliseconds it still takes, -1: there is none. */
static int pause_rest_ms(struct rawe_host_leader *leader)
{
    const uint64_t now = now_ns();

    if (leader->listen_fd < 0 || leader->pause_ns == 0) {
        return -1;
    }
    if (now < leader->pause_ns) {
        return (int)((leader->pause_ns - now + NS_PER_MS - 1) / NS_PER_MS);
    }
    leader->pause_ns = 0;
    if (!watch(leader, leader->listen_fd)) {
        stop_listening(leader);
    }
    return -1;
}

static void accept_all(struct rawe_host_leader *leader)
{
    for (unsigned refused = 0; refused < REFUSALS_MAX;) {
        const int fd = accept4(leader->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                stop_listening(leader); /* or it would be asked forever */
            }
            return;
        }
        struct connection *connections =
            grown(leader->connections, &leader->connection_capacity, leader->connection_count,
                  sizeof leader->connections[0]);
        leader->connections = connections != NULL ? connections : leader->connections;
        if (connections == NULL || !has_room(leader, 2) || !rawe_host_message_same_user(fd) ||
            !watch(leader, fd)) {
            close(fd);
            refused++;
        } else {
            leader->connections[leader->connection_count++] = (struct connection){.fd = fd};
        }
    }
    pause_listening(leader);
}

static struct connection *find_connection(struct rawe_host_leader *leader, int fd)
{
    for (unsigned i = 0; i < leader->connection_count; i++) {
        if (leader->connections[i].fd == fd) {
            return &leader->connections[i];
        }
    }
    return NULL;
}

/** Close our duplicate. The last entry takes its place. */
static void drop_entry(struct rawe_host_leader *leader, unsigned index)
{
    close(leader->entries[index].member.fd);
    leader->entries[index] = leader->entries[--leader->entry_count];
}

/** Returns true when sockets in groups are closed with it. */
static bool end_connection(struct rawe_host_leader *leader, struct connection *connection)
{
    const int fd = connection->fd;
    const bool joined = connection->joined;

    for (unsigned i = leader->entry_count; i-- > 0;) {
        if (leader->entries[i].connection == fd) {
            drop_entry(leader, i);
        }
    }
    *connection = leader->connections[--leader->connection_count];
    close(fd);
    return joined;
}

/** All must reopen their sockets: the ends of their connections let them know. */
static void dissolve(struct rawe_host_leader *leader)
{
    while (leader->connection_count > 0) {
        (void)end_connection(leader, &leader->connections[0]);
    }
    while (leader->entry_count > 0) {
        drop_entry(leader, 0);
    }
    leader->broken = true;
}

/**
 * Take a message: sockets, or, without any, that the process needs no more frames. Returns false
 * when the connection has ended, or sends anything else.
 */
static bool receive_message(struct rawe_host_leader *leader, struct connection *connection)
{
    struct rawe_host_message message;

    switch (rawe_host_message_receive(connection->fd, &message)) {
    case RAWE_HOST_MESSAGE_NONE:
        return true;
    case RAWE_HOST_MESSAGE_INVALID:
        return false;
    case RAWE_HOST_MESSAGE_TAKEN:
        break;
    }
    if (message.leaving != 0) {
        connection->done = true;
    } else {
        add_entry(leader, &message.member, connection->fd);
    }
    return true;
}

static void receive_all(struct rawe_host_leader *leader)
{
    struct epoll_event events[EVENTS_MAX];
    int count;

    while ((count = epoll_wait(leader->epoll_fd, events, EVENTS_MAX, 0)) > 0) {
        for (int i = 0; i < count; i++) {
            const int fd = events[i].data.fd;
            struct connection *connection = find_connection(leader, fd);
            if (fd == leader->listen_fd) {
                accept_all(leader);
            } else if (connection != NULL && !receive_message(leader, connection) &&
                       end_connection(leader, connection)) {
                dissolve(leader);
            }
        }
    }
}

/** The entries that can be in a group with this one. Returns how many; `indexes` rises. */
static unsigned collect(const struct rawe_host_leader *leader, unsigned first, unsigned *indexes)
{
    unsigned count = 0;

    for (unsigned i = first; i < leader->entry_count && count < RAWE_FANOUT_MEMBERS_MAX; i++) {
        if (rawe_fanout_compatible(&leader->entries[i].member, &leader->entries[first].member)) {
            indexes[count++] = i;
        }
    }
    return count;
}

static void *form(void *context)
{
    struct forming *forming = context;
    struct rawe_port_error error;

    forming->joined = rawe_fanout_form(forming->members, forming->count, forming->helper,
                                       &forming->changed, &error) == 0;
    rawe_helper_hang_up();
    __atomic_store_n(&forming->done, true, __ATOMIC_RELEASE);
    if (forming->source != NULL) {
        rawe_service_wake(forming->source);
    }
    return NULL;
}

/** Have a thread form a group of entries, which are entries no more; or form it here. */
static void begin_forming(struct rawe_host_leader *leader, const unsigned *indexes, unsigned count)
{
    struct forming *forming = &leader->forming;
    sigset_t all, before;

    for (unsigned i = count; i-- > 0;) {
        struct entry *entry = &leader->entries[indexes[i]];
        forming->members[i] = entry->member;
        forming->fds[i] = entry->member.fd;
        forming->connections[i] = entry->connection;
        *entry = leader->entries[--leader->entry_count];
    }
    forming->count = count;
    forming->active = true;
    forming->done = false;
    if (forming->source != NULL) {
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        const int code = pthread_create(&forming->thread, NULL, form, forming);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (code == 0) {
            return;
        }
        forming->source = NULL;
    }
    (void)form(forming);
}

/**
 * What the kernel did not take now it would not take later. Returns false when it took some members
 * and not all: they miss their frames.
 */
static bool end_forming(struct rawe_host_leader *leader)
{
    const struct forming *forming = &leader->forming;

    await_formed(leader);
    for (unsigned i = 0; forming->joined && i < forming->count; i++) {
        struct connection *connection = find_connection(leader, forming->connections[i]);
        if (connection != NULL) {
            connection->joined = true;
        }
    }
    leader->joined += forming->joined ? forming->count : 0;
    return forming->joined || !forming->changed;
}

bool rawe_host_leader_busy(const struct rawe_host_leader *leader)
{
    return leader->forming.active && !__atomic_load_n(&leader->forming.done, __ATOMIC_ACQUIRE);
}

/** Join what is complete, or as complete as it gets. Returns the milliseconds until it may be. */
static int form_groups(struct rawe_host_leader *leader)
{
    const uint64_t quiet_ns = now_ns() - leader->newest_ns;
    const bool quiet = quiet_ns >= QUIET_MS * NS_PER_MS;
    bool waiting = false;

    for (unsigned first = 0; first < leader->entry_count; first++) {
        unsigned indexes[RAWE_FANOUT_MEMBERS_MAX];
        const unsigned count = collect(leader, first, indexes);
        const bool complete = count >= leader->processes || count == RAWE_FANOUT_MEMBERS_MAX;
        if (count >= 2 && (complete || quiet)) {
            begin_forming(leader, indexes, count);
            return rawe_host_leader_busy(leader) ? -1 : 0;
        }
        waiting = waiting || count >= 2;
    }
    return waiting ? (int)(QUIET_MS - quiet_ns / NS_PER_MS) : -1;
}

int rawe_host_leader_serve(struct rawe_host_leader *leader)
{
    if (rawe_host_leader_busy(leader)) {
        return -1; /* whose connection ends meanwhile is seen afterwards: it may have joined */
    }
    if (leader->forming.active && !end_forming(leader)) {
        stop_listening(leader); /* another attempt would end in the same way */
        dissolve(leader);
        return -1;
    }
    (void)pause_rest_ms(leader);
    receive_all(leader);
    if (leader->broken) {
        return -1;
    }
    const int group_ms = form_groups(leader), pause_ms = pause_rest_ms(leader);
    return group_ms < 0 || (pause_ms >= 0 && pause_ms < group_ms) ? pause_ms : group_ms;
}

static bool all_done(const struct rawe_host_leader *leader)
{
    for (unsigned i = 0; i < leader->connection_count; i++) {
        if (!leader->connections[i].done) {
            return false;
        }
    }
    return true;
}

void rawe_host_leader_await_others(struct rawe_host_leader *leader, unsigned wait_ms)
{
    const uint64_t until_ns = now_ns() + wait_ms * NS_PER_MS;

    if (leader->forming.active) {
        (void)end_forming(leader);
    }
    for (;;) {
        receive_all(leader);
        const uint64_t now = now_ns();
        if (all_done(leader) || now >= until_ns) {
            return;
        }
        struct pollfd wait = {.fd = leader->epoll_fd, .events = POLLIN};
        (void)poll(&wait, 1, (int)((until_ns - now + NS_PER_MS - 1) / NS_PER_MS));
    }
}
