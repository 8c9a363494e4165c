/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The processes of a job on one host. See rawe_host_group.h.
 */
#include "rawe_host_group.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../packet/rawe_packet.h"
#include "rawe_host_leader.h"
#include "rawe_host_message.h"

/** The leader may start later: try to connect this often, at this interval. */
#define ATTEMPTS_MAX 500u
#define ATTEMPT_INTERVAL_MS 20

/** The leader's queue is full. */
#define SEND_INTERVAL_MS 5

/** Registrations of one process at most: three for each of its interfaces. */
#define REGISTRATIONS_MAX 48u

struct rawe_host_group {
    pthread_mutex_t lock; /**< guards all that follows but `source`, which the service has */
    struct rawe_service_source source; /**< fd: the connection; of the leader: epoll's */
    struct rawe_host_group_config config;
    char *name;                      /**< ours, of the configuration */
    struct rawe_host_leader *leader; /**< NULL: another process is */
    bool hushed;
    bool broken;       /**< until all sockets are reopened */
    unsigned attempts; /**< to connect */
    unsigned registration_count;
    unsigned registrations_sent;
    struct rawe_fanout_member registrations[REGISTRATIONS_MAX];
};

/** No connection, and none is tried any more. */
static void disconnect(struct rawe_host_group *group)
{
    if (group->source.fd >= 0) {
        rawe_service_unwatch(&group->source);
        close(group->source.fd);
        group->source.fd = -1;
    }
    group->attempts = ATTEMPTS_MAX;
}

/** Returns true when connected to a leader of the same user. */
static bool connect_to_leader(struct rawe_host_group *group)
{
    struct sockaddr_un address;
    const socklen_t address_bytes = rawe_host_message_address(group->name, &address);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    group->attempts++;
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)&address, address_bytes) != 0) {
        close(fd);
        return false;
    }
    group->source.fd = fd;
    if (!rawe_host_message_same_user(fd)) {
        disconnect(group);
        return false;
    }
    return true;
}

/** The leader is there, with sockets of its own: from now on others may come again. */
static bool lead_again(struct rawe_host_group *group)
{
    if (!rawe_host_leader_resume(group->leader)) {
        return false;
    }
    for (unsigned i = 0; i < group->registration_count; i++) {
        (void)rawe_host_leader_register(group->leader, &group->registrations[i]);
    }
    return true;
}

/**
 * Reopen the sockets that a group left behind, and then form another one. Returns the
 * milliseconds until the next attempt, -1: there is none.
 */
static int mend(struct rawe_host_group *group)
{
    int rest_ms = -1;

    group->broken = true;
    if (group->config.broken != NULL) {
        rest_ms = group->config.broken(group->config.context);
    }
    if (rest_ms >= 0) {
        return rest_ms;
    }
    if (group->leader != NULL) {
        group->broken = !lead_again(group);
        return group->broken ? -1 : 0;
    }
    group->broken = false;
    group->attempts = 0;
    group->registrations_sent = 0;
    return ATTEMPT_INTERVAL_MS;
}

/** The leader says nothing: what can be received is the end of the connection. */
static bool has_ended(int fd)
{
    char byte;
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/** Is a socket of ours in a group? Not if the leader had no room, or formed none. */
static bool is_grouped(const struct rawe_host_group *group)
{
    for (unsigned i = 0; i < group->registrations_sent; i++) {
        if (rawe_fanout_is_member(group->registrations[i].fd)) {
            return true;
        }
    }
    return false;
}

static int serve_member(struct rawe_host_group *group)
{
    if (group->source.fd < 0) {
        if (group->attempts >= ATTEMPTS_MAX || group->registration_count == 0) {
            return -1;
        }
        if (!connect_to_leader(group)) {
            return group->attempts < ATTEMPTS_MAX ? ATTEMPT_INTERVAL_MS : -1;
        }
    }
    if (has_ended(group->source.fd)) {
        disconnect(group);
        return is_grouped(group) ? mend(group) : -1; /* or it would be refused forever */
    }
    for (; group->registrations_sent < group->registration_count; group->registrations_sent++) {
        const struct rawe_host_message message = {
            .version = RAWE_HOST_MESSAGE_VERSION,
            .member = group->registrations[group->registrations_sent],
        };
        if (!rawe_host_message_send(group->source.fd, &message)) {
            /* Full, or too many descriptors of this user are on their way (ETOOMANYREFS). */
            return group->attempts++ < ATTEMPTS_MAX ? SEND_INTERVAL_MS : -1;
        }
    }
    return -1;
}

static int serve_leader(struct rawe_host_group *group)
{
    const int rest_ms = rawe_host_leader_serve(group->leader);

    return rawe_host_leader_broken(group->leader) ? mend(group) : rest_ms;
}

static int serve(struct rawe_service_source *source, short events)
{
    struct rawe_host_group *group =
        (struct rawe_host_group *)((char *)source - offsetof(struct rawe_host_group, source));
    int rest_ms = -1;

    (void)events;
    pthread_mutex_lock(&group->lock);
    if (group->hushed) {
        /* Nothing is to be done any more. */
    } else if (group->broken) {
        rest_ms = mend(group);
    } else if (group->leader != NULL) {
        rest_ms = serve_leader(group);
    } else {
        rest_ms = serve_member(group);
    }
    /* Or the thread would spin. */
    source->deaf = group->hushed || group->broken ||
                   (group->leader != NULL && rawe_host_leader_busy(group->leader));
    pthread_mutex_unlock(&group->lock);
    return rest_ms;
}

int rawe_host_group_open(struct rawe_host_group **out, const struct rawe_host_group_config *config,
                         struct rawe_service *service, struct rawe_port_error *error)
{
    struct rawe_host_group *group = calloc(1, sizeof *group);
    int code;

    *out = NULL;
    if (group == NULL || (group->name = strdup(config->name)) == NULL) {
        *error = (struct rawe_port_error){"malloc", ENOMEM};
        goto no_memory;
    }
    group->config = *config;
    group->config.name = group->name;
    group->source = (struct rawe_service_source){.serve = serve, .fd = -1};
    code = pthread_mutex_init(&group->lock, NULL);
    if (code != 0) {
        *error = (struct rawe_port_error){"pthread_mutex_init", code};
        goto no_memory;
    }
    if (config->leader) {
        if (rawe_host_leader_open(&group->leader, config->name, config->processes, config->helper,
                                  &group->source, error) != 0) {
            goto no_leader;
        }
        group->source.fd = rawe_host_leader_fd(group->leader);
    }
    if (rawe_service_add(service, &group->source) != 0) {
        *error = (struct rawe_port_error){"epoll_ctl", errno};
        goto no_source;
    }
    *out = group;
    return 0;

no_source:
    rawe_host_leader_close(group->leader);
no_leader:
    pthread_mutex_destroy(&group->lock);
no_memory:
    if (group != NULL) {
        free(group->name);
    }
    free(group);
    return -1;
}

bool rawe_host_group_has(const struct rawe_port *port)
{
    return rawe_fanout_is_member(port->fd);
}

int rawe_host_group_register(struct rawe_host_group *group, const struct rawe_port *port)
{
    const struct rawe_packet *packet = (const struct rawe_packet *)port;
    int status = -1;

    if (port->kind != &rawe_packet_port) {
        return -1;
    }
    pthread_mutex_lock(&group->lock);
    if (group->registration_count < REGISTRATIONS_MAX) {
        struct rawe_fanout_member *member = &group->registrations[group->registration_count++];
        *member = rawe_fanout_member(port->fd, &packet->config);
        status = group->leader == NULL || group->broken
                     ? 0
                     : rawe_host_leader_register(group->leader, member);
    }
    pthread_mutex_unlock(&group->lock);
    rawe_service_wake(&group->source);
    return status;
}

void rawe_host_group_hush(struct rawe_host_group *group)
{
    pthread_mutex_lock(&group->lock);
    group->hushed = true;
    pthread_mutex_unlock(&group->lock);
}

unsigned rawe_host_group_joined(struct rawe_host_group *group)
{
    pthread_mutex_lock(&group->lock);
    const unsigned joined = group->leader == NULL ? 0 : rawe_host_leader_joined(group->leader);
    pthread_mutex_unlock(&group->lock);
    return joined;
}

/** Say that no frames are needed any more, and wait until the leader knows that of all. */
static void await_leader(struct rawe_host_group *group, unsigned wait_ms)
{
    const struct rawe_host_message leaving = {.version = RAWE_HOST_MESSAGE_VERSION, .leaving = 1};
    struct pollfd wait = {.fd = group->source.fd, .events = POLLIN};

    if (group->registrations_sent > 0 && group->source.fd >= 0 &&
        rawe_host_message_send(group->source.fd, &leaving)) {
        (void)poll(&wait, 1, (int)wait_ms);
    }
}

void rawe_host_group_close(struct rawe_host_group *group, unsigned wait_ms)
{
    if (group == NULL) {
        return;
    }
    rawe_host_group_hush(group);
    rawe_service_remove(&group->source);
    if (group->leader != NULL) {
        rawe_host_leader_await_others(group->leader, wait_ms);
        rawe_host_leader_close(group->leader);
    } else {
        await_leader(group, wait_ms);
        disconnect(group);
    }
    pthread_mutex_destroy(&group->lock);
    free(group->name);
    free(group);
}
