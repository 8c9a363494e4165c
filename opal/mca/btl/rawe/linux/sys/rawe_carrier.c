/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Carrier: see rawe_carrier.h.
 */
#include "rawe_carrier.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/** A message about one link has a few kilobytes (statistics, virtual functions). */
#define MESSAGE_BYTES 32768u

/** When `changed` wants to be called again. */
#define AGAIN_MS 100

struct rawe_carrier {
    struct rawe_service_source source;
    rawe_carrier_fn *changed;
    void *context;
    bool listed; /**< all interfaces have been reported */
    bool again;  /**< `changed` wants that again */
    uint8_t message[MESSAGE_BYTES];
};

static void report(struct rawe_carrier *carrier, const struct rawe_interface *interface)
{
    carrier->again = !carrier->changed(carrier->context, interface) || carrier->again;
}

/** Report every interface: messages may have been missed. */
static void report_all(struct rawe_carrier *carrier)
{
    struct rawe_interface *interfaces;
    unsigned count;

    if (rawe_interface_list(&interfaces, &count) != 0) {
        return; /* what is down shows as silence, too */
    }
    for (unsigned i = 0; i < count; i++) {
        report(carrier, &interfaces[i]);
    }
    free(interfaces);
}

/** rawe_service_source.serve */
static int serve(struct rawe_service_source *source, short events)
{
    struct rawe_carrier *carrier =
        (struct rawe_carrier *)((char *)source - offsetof(struct rawe_carrier, source));
    bool all = !carrier->listed || carrier->again;

    (void)events;
    carrier->listed = true;
    carrier->again = false;
    for (;;) {
        const ssize_t got =
            recv(source->fd, carrier->message, sizeof carrier->message, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == ENOBUFS) {
            all = true; /* the kernel had no room for some */
            continue;
        }
        if (got <= 0) {
            break;
        }
        int left = (int)got; /* NLMSG_NEXT may take it below 0 */
        for (const struct nlmsghdr *m = (const void *)carrier->message; NLMSG_OK(m, left);
             m = NLMSG_NEXT(m, left)) {
            struct rawe_interface interface;
            /* A bridge's messages about its ports say nothing of the port itself. */
            if (rawe_interface_read(&interface, m)) {
                report(carrier, &interface);
            }
        }
    }
    if (all) {
        report_all(carrier);
    }
    return carrier->again ? AGAIN_MS : -1;
}

int rawe_carrier_start(struct rawe_carrier **out, struct rawe_service *service,
                       rawe_carrier_fn *changed, void *context, struct rawe_port_error *error)
{
    struct rawe_carrier *carrier = calloc(1, sizeof *carrier);
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};

    *out = NULL;
    if (carrier == NULL) {
        *error = (struct rawe_port_error){"malloc", ENOMEM};
        return -1;
    }
    carrier->changed = changed;
    carrier->context = context;
    carrier->source = (struct rawe_service_source){
        .serve = serve, .fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
    if (carrier->source.fd < 0 ||
        bind(carrier->source.fd, (const void *)&address, sizeof address) != 0) {
        *error = (struct rawe_port_error){"listening to rtnetlink (RTMGRP_LINK)", errno};
    } else if (rawe_service_add(service, &carrier->source) != 0) {
        *error = (struct rawe_port_error){"epoll_ctl", errno};
    } else {
        *out = carrier;
        return 0;
    }
    rawe_carrier_stop(carrier);
    return -1;
}

void rawe_carrier_stop(struct rawe_carrier *carrier)
{
    if (carrier == NULL) {
        return;
    }
    rawe_service_remove(&carrier->source);
    if (carrier->source.fd >= 0) {
        close(carrier->source.fd);
    }
    free(carrier);
}
