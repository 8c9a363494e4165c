/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_host_group.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../packet/rawe_helper.h"
#include "../packet/rawe_packet.h"
#include "../sys/rawe_shared.h"

/** How many times to try to connect to a leader that may start later, and the interval. */
#define ATTEMPTS_MAX 500u
#define ATTEMPT_INTERVAL_MS 20

/** Interval of retries if the leader's queue is full. */
#define SEND_INTERVAL_MS 5

/** Maximum number of sockets of a process: four for each interface. */
#define SOCKETS_MAX 64u

/** If sockets are missing, the leader waits this long for more before it joins those it has. */
#define QUIET_MS 5000

/** Maximum number of connections waiting to be accepted. */
#define BACKLOG 128

/** Any user of the host may connect, so the leader pauses after refusing a connection. */
#define PAUSE_MS 5

#define NS_PER_MS 1000000u

/** The program needs descriptors, too: leave it 1/DESCRIPTORS_DIVISOR of them. */
#define DESCRIPTORS_DIVISOR 8u

/** The leader's connection to a process. */
struct connection {
    int fd;       /**< -1: free for the next */
    bool joined;  /**< some of the process's sockets are in groups */
    bool leaving; /**< the process needs no more frames */
};

/** A socket that has yet to join a group. */
struct waiting {
    struct rawe_fanout_member member; /**< its descriptor is the leader's duplicate */
    struct connection *from;
};

struct leader {
    struct rawe_service_source source; /**< first; fd: epoll's */
    struct rawe_service *service;      /**< the leader's own: its thread may wait for the helper */
    const char *helper;
    unsigned processes;
    int descriptors_max;
    int listen_fd; /**< -1: no more processes are accepted */
    unsigned waiting_count;
    struct waiting *waiting;
    struct connection connections[]; /**< as many as processes */
};

struct rawe_host_group {
    struct rawe_service_source source; /**< first; fd: the connection. Belongs to the service */
    pthread_mutex_t lock;              /**< guards the members below */
    struct rawe_host_group_config config;
    struct sockaddr_un address;
    socklen_t address_bytes;
    struct leader *leader; /**< NULL: in another process */
    bool quiesced;
    bool broken;       /**< until all sockets are reopened */
    unsigned attempts; /**< to connect, or to send */
    unsigned socket_count;
    unsigned sockets_sent;
    struct rawe_fanout_member sockets[SOCKETS_MAX];
};

/* ---- the leader ---- */

static int descriptors_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) {
        return INT32_MAX;
    }
    return (int)(limit.rlim_cur - limit.rlim_cur / DESCRIPTORS_DIVISOR);
}

/** Watch a connection; NULL: the listening socket. */
static bool watch_fd(const struct leader *leader, int fd, struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

    return epoll_ctl(leader->source.fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/** End a connection, or stop listening, even if a forked child has a copy of the descriptor. */
static void hang_up(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void stop_listening(struct leader *leader)
{
    if (leader->listen_fd >= 0) {
        hang_up(leader->listen_fd);
        leader->listen_fd = -1;
    }
}

/** Close a connection, and its sockets that have not joined a group. */
static void drop_connection(struct leader *leader, struct connection *connection)
{
    unsigned left = 0;

    for (unsigned i = 0; i < leader->waiting_count; i++) {
        if (leader->waiting[i].from == connection) {
            close(leader->waiting[i].member.fd);
        } else {
            leader->waiting[left++] = leader->waiting[i];
        }
    }
    leader->waiting_count = left;
    if (connection->fd >= 0) {
        hang_up(connection->fd);
    }
    *connection = (struct connection){.fd = -1};
}

/** End all connections, which tells processes that sockets are no longer in a group, or needed. */
static void drop_all(struct leader *leader)
{
    for (unsigned i = 0; i < leader->processes; i++) {
        drop_connection(leader, &leader->connections[i]);
    }
}

/** Accept a connection. Returns false if it was refused. */
static bool let_in(struct leader *leader)
{
    const int fd = accept4(leader->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct connection *connection = leader->connections;
    const struct connection *end = connection + leader->processes;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            stop_listening(leader); /* otherwise epoll would report the socket forever */
        }
        return errno != ENOMEM && errno != ENOBUFS;
    }
    while (connection != end && connection->fd >= 0) {
        connection++;
    }
    if (connection == end || fd >= leader->descriptors_max || !rawe_descriptor_is_ours(fd, false) ||
        !watch_fd(leader, fd, connection)) {
        close(fd);
        return false;
    }
    *connection = (struct connection){.fd = fd};
    return true;
}

/** Receive a socket or a leaving notice. False: another message, or the connection has ended. */
static bool receive_socket(struct leader *leader, struct connection *connection)
{
    struct waiting next = {.from = connection};
    const ssize_t got =
        rawe_descriptor_receive(connection->fd, &next.member, sizeof next.member, &next.member.fd);

    if (got == (ssize_t)sizeof next.member && next.member.fd >= 0) {
        if (leader->waiting_count < leader->processes * SOCKETS_MAX &&
            next.member.fd < leader->descriptors_max && rawe_fanout_joinable(&next.member)) {
            leader->waiting[leader->waiting_count++] = next;
        } else {
            close(next.member.fd);
        }
        return true;
    }
    if (got >= 0 && next.member.fd >= 0) {
        close(next.member.fd);
    }
    connection->leaving = connection->leaving || got == 1;
    return got == 1 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/** Return true if no connected process needs frames. */
static bool all_done(const struct leader *leader)
{
    for (unsigned i = 0; i < leader->processes; i++) {
        if (leader->connections[i].fd >= 0 && !leader->connections[i].leaving) {
            return false;
        }
    }
    return true;
}

/** Form a group of `count` waiting sockets that are compatible with `like`. */
static void form_group(struct leader *leader, const struct rawe_fanout_member like, unsigned count)
{
    struct rawe_fanout_member members[RAWE_FANOUT_MEMBERS_MAX];
    struct connection *from[RAWE_FANOUT_MEMBERS_MAX];
    struct rawe_port_error error;
    unsigned taken = 0, left = 0;
    bool changed;

    for (unsigned i = 0; i < leader->waiting_count; i++) {
        const struct waiting *next = &leader->waiting[i];
        if (taken < count && rawe_fanout_compatible(&next->member, &like)) {
            members[taken] = next->member;
            from[taken++] = next->from;
        } else {
            leader->waiting[left++] = *next;
        }
    }
    leader->waiting_count = left;
    const bool joined = rawe_fanout_form(members, count, leader->helper, &changed, &error) == 0;
    rawe_helper_hang_up();
    for (unsigned i = 0; i < count; i++) {
        close(members[i].fd);
        from[i]->joined = from[i]->joined || joined;
    }
    if (changed && !joined) {
        /* The kernel accepted only some sockets, which miss their frames. Retrying is no help. */
        stop_listening(leader);
        drop_all(leader);
    }
}

/** Form complete groups and, if `quiet`, incomplete ones. Returns the ms to the next call. */
static int form_groups(struct leader *leader, bool quiet)
{
    int rest_ms = -1;

    for (unsigned first = 0; first < leader->waiting_count;) {
        const struct rawe_fanout_member like = leader->waiting[first].member;
        unsigned count = 0;
        for (unsigned i = first; i < leader->waiting_count; i++) {
            count += rawe_fanout_compatible(&leader->waiting[i].member, &like);
        }
        count = count < RAWE_FANOUT_MEMBERS_MAX ? count : RAWE_FANOUT_MEMBERS_MAX;
        if (count >= 2 &&
            (quiet || count >= leader->processes || count == RAWE_FANOUT_MEMBERS_MAX)) {
            form_group(leader, like, count);
            first = 0;
        } else {
            rest_ms = count >= 2 ? QUIET_MS : rest_ms;
            first++;
        }
    }
    return rest_ms;
}

/** rawe_service_source.serve */
static int serve_leader(struct rawe_service_source *source, short events)
{
    struct leader *leader = (struct leader *)source;
    const bool quiet = events == 0 && !source->deaf;
    struct epoll_event event;

    source->deaf = false;
    while (!source->deaf && epoll_wait(source->fd, &event, 1, 0) > 0) {
        struct connection *connection = event.data.ptr;
        if (connection == NULL) {
            source->deaf = !let_in(leader);
        } else if (!receive_socket(leader, connection)) {
            const bool joined = connection->joined;
            drop_connection(leader, connection);
            if (joined) {
                drop_all(leader); /* other members have lost their places */
            }
        }
    }
    if (all_done(leader)) {
        drop_all(leader);
    }
    const int rest_ms = form_groups(leader, quiet);
    return source->deaf ? PAUSE_MS : rest_ms;
}

static void close_leader(struct leader *leader)
{
    if (leader == NULL) {
        return;
    }
    rawe_service_remove(&leader->source);
    rawe_service_stop(leader->service);
    stop_listening(leader);
    drop_all(leader);
    if (leader->source.fd >= 0) {
        close(leader->source.fd);
    }
    free(leader->waiting);
    free(leader);
}

/** Listen in a thread. Returns 0, or -1 and the error. */
static int open_leader(struct rawe_host_group *group, struct rawe_port_error *error)
{
    const unsigned processes = group->config.processes;
    struct leader *leader = calloc(1, sizeof *leader + processes * sizeof leader->connections[0]);

    *error = (struct rawe_port_error){"malloc", ENOMEM};
    if (leader == NULL) {
        return -1;
    }
    leader->processes = processes;
    for (unsigned i = 0; i < processes; i++) {
        leader->connections[i].fd = -1;
    }
    leader->helper = group->config.helper;
    leader->descriptors_max = descriptors_max();
    leader->waiting = calloc((size_t)processes * SOCKETS_MAX, sizeof leader->waiting[0]);
    leader->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    leader->source =
        (struct rawe_service_source){.serve = serve_leader, .fd = epoll_create1(EPOLL_CLOEXEC)};
    if (leader->waiting == NULL) {
        goto failed;
    }
    if (leader->listen_fd < 0 || leader->source.fd < 0 ||
        bind(leader->listen_fd, (const struct sockaddr *)&group->address, group->address_bytes) !=
            0 ||
        listen(leader->listen_fd, BACKLOG) != 0 || !watch_fd(leader, leader->listen_fd, NULL)) {
        *error = (struct rawe_port_error){"listening to the processes of this host", errno};
        goto failed;
    }
    if (rawe_service_start(&leader->service, error) != 0 ||
        rawe_service_add(leader->service, &leader->source, error) != 0) {
        goto failed;
    }
    group->leader = leader;
    return 0;

failed:
    close_leader(leader);
    return -1;
}

/* ---- a process ---- */

static void disconnect_leader(struct rawe_host_group *group)
{
    if (group->source.fd >= 0) {
        rawe_service_unwatch(&group->source);
        hang_up(group->source.fd);
        group->source.fd = -1;
    }
}

/** Connect to the leader. Returns true if it belongs to the same user. */
static bool connect_to_leader(struct rawe_host_group *group)
{
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    group->attempts++;
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)&group->address, group->address_bytes) != 0) {
        close(fd);
        return false;
    }
    if (!rawe_descriptor_is_ours(fd, false)) {
        close(fd);
        group->attempts = ATTEMPTS_MAX;
        return false;
    }
    group->source.fd = fd;
    return true;
}

/** Return true if the connection has ended. The leader never sends data. */
static bool has_ended(int fd)
{
    char byte;
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/** Return true if one of our sockets is in a group: the leader had room, and formed a group. */
static bool is_grouped(const struct rawe_host_group *group)
{
    for (unsigned i = 0; i < group->sockets_sent; i++) {
        if (rawe_fanout_is_member(group->sockets[i].fd)) {
            return true;
        }
    }
    return false;
}

/** Take the next step: reopen broken sockets, connect, send sockets. Returns like `serve_group`. */
static int take_next_step(struct rawe_host_group *group)
{
    if (group->source.fd >= 0 && has_ended(group->source.fd)) {
        disconnect_leader(group);
        group->broken = is_grouped(group);
        group->attempts = ATTEMPTS_MAX; /* otherwise it would be refused forever */
    }
    if (group->quiesced) {
        return -1;
    }
    if (group->broken) {
        const int rest_ms = group->config.broken(group->config.context);
        if (rest_ms >= 0) {
            return rest_ms;
        }
        group->broken = false;
        group->attempts = 0;
        group->sockets_sent = 0;
    }
    if (group->source.fd < 0) {
        if (group->attempts >= ATTEMPTS_MAX || group->socket_count == 0) {
            return -1;
        }
        if (!connect_to_leader(group)) {
            return ATTEMPT_INTERVAL_MS;
        }
    }
    for (; group->sockets_sent < group->socket_count; group->sockets_sent++) {
        const struct rawe_fanout_member *next = &group->sockets[group->sockets_sent];
        if (!rawe_descriptor_send(group->source.fd, next, sizeof *next, next->fd)) {
            /* The queue is full, or this user has too many descriptors in flight (ETOOMANYREFS). */
            return group->attempts++ < ATTEMPTS_MAX ? SEND_INTERVAL_MS : -1;
        }
    }
    return -1;
}

/** rawe_service_source.serve */
static int serve_group(struct rawe_service_source *source, short events)
{
    struct rawe_host_group *group = (struct rawe_host_group *)source;

    pthread_mutex_lock(&group->lock);
    const int rest_ms = take_next_step(group);
    pthread_mutex_unlock(&group->lock);
    return rest_ms;
}

int rawe_host_group_open(struct rawe_host_group **out, const struct rawe_host_group_config *config,
                         struct rawe_service *service, struct rawe_port_error *error)
{
    struct rawe_host_group *group = calloc(1, sizeof *group);

    *out = NULL;
    if (group == NULL) {
        return rawe_port_failed(error, "malloc", ENOMEM);
    }
    group->source = (struct rawe_service_source){.serve = serve_group, .fd = -1};
    (void)pthread_mutex_init(&group->lock, NULL);
    group->config = *config;
    /* A name that begins with 0 is abstract: in no file system, and deleted with its socket. */
    const size_t len = strnlen(config->name, sizeof group->address.sun_path - 1);
    group->address.sun_family = AF_UNIX;
    memcpy(group->address.sun_path + 1, config->name, len);
    group->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    if ((config->leader && open_leader(group, error) != 0) ||
        rawe_service_add(service, &group->source, error) != 0) {
        rawe_host_group_close(group, 0);
        return -1;
    }
    *out = group;
    return 0;
}

void rawe_host_group_register(struct rawe_host_group *group, const struct rawe_port *port)
{
    const struct rawe_packet *packet = (const struct rawe_packet *)port;

    if (port->kind != &rawe_packet_port) {
        return;
    }
    pthread_mutex_lock(&group->lock);
    if (group->socket_count < SOCKETS_MAX) {
        group->sockets[group->socket_count++] = rawe_fanout_member(port->fd, &packet->config);
    }
    pthread_mutex_unlock(&group->lock);
    rawe_service_wake(&group->source, 0);
}

void rawe_host_group_quiesce(struct rawe_host_group *group)
{
    if (group != NULL) {
        pthread_mutex_lock(&group->lock);
        group->quiesced = true;
        pthread_mutex_unlock(&group->lock);
    }
}

void rawe_host_group_close(struct rawe_host_group *group, unsigned wait_ms)
{
    if (group == NULL) {
        return;
    }
    rawe_host_group_quiesce(group);
    rawe_service_remove(&group->source);
    const int fd = group->source.fd;
    if (fd >= 0 && rawe_descriptor_send(fd, "", 1, -1)) {
        (void)rawe_descriptor_await(fd, rawe_port_clock_ns() + (uint64_t)wait_ms * NS_PER_MS);
    }
    close_leader(group->leader); /* before it sees our own end */
    disconnect_leader(group);
    pthread_mutex_destroy(&group->lock);
    free(group);
}
