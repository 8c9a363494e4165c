/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "rawe_random.h"
#include "rawe_shared.h"

/** Any user of the host may connect, so pause after this many answers (1 % of a CPU). */
#define ANSWERS_MAX 8u
#define PAUSE_MS 50

/** Maximum number of tools waiting for an answer. */
#define BACKLOG 16

struct rawe_monitor {
    struct rawe_service_source source; /**< first */
    rawe_monitor_describe_fn *describe;
    void *context;
};

static void answer_monitor(struct rawe_monitor *monitor, int fd)
{
    static char title[] = RAWE_MONITOR_TITLE, refusal[] = "refused\n";
    char *text = rawe_descriptor_is_ours(fd, true) ? monitor->describe(monitor->context) : refusal;
    struct iovec pieces[] = {{title, sizeof title - 1}, {text, text == NULL ? 0 : strlen(text)}};
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

    (void)sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (text != refusal) {
        free(text);
    }
}

/** rawe_service_source.serve */
static int serve_monitor(struct rawe_service_source *source, short events)
{
    struct rawe_monitor *monitor = (struct rawe_monitor *)source;

    source->deaf = false;
    for (unsigned i = 0; i < ANSWERS_MAX; i++) {
        const int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno == EAGAIN) {
            return -1;
        }
        if (fd < 0) {
            break; /* e.g. no descriptor is free: accept would fail again immediately */
        }
        answer_monitor(monitor, fd);
        close(fd);
    }
    source->deaf = true;
    return PAUSE_MS;
}

/** Listen under an unused name. */
static bool listen_somewhere(int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        return false;
    }
    const int len = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                             RAWE_MONITOR_PREFIX "%016" PRIx64, number);
    const size_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len;

    return bind(fd, (const struct sockaddr *)&address, (socklen_t)bytes) == 0 &&
           listen(fd, BACKLOG) == 0;
}

int rawe_monitor_open(struct rawe_monitor **out, rawe_monitor_describe_fn *describe, void *context,
                      struct rawe_service *service, struct rawe_port_error *error)
{
    struct rawe_monitor *monitor = calloc(1, sizeof *monitor);

    *out = NULL;
    if (monitor == NULL) {
        return rawe_port_failed(error, "malloc", ENOMEM);
    }
    monitor->describe = describe;
    monitor->context = context;
    monitor->source.serve = serve_monitor;
    monitor->source.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (monitor->source.fd < 0 || !listen_somewhere(monitor->source.fd)) {
        *error = (struct rawe_port_error){"listening to tools", errno};
    } else if (rawe_service_add(service, &monitor->source, error) == 0) {
        *out = monitor;
        return 0;
    }
    rawe_monitor_close(monitor);
    return -1;
}

void rawe_monitor_close(struct rawe_monitor *monitor)
{
    if (monitor == NULL) {
        return;
    }
    rawe_service_remove(&monitor->source);
    if (monitor->source.fd >= 0) {
        close(monitor->source.fd);
    }
    free(monitor);
}
