/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Carrier: see rawe_carrier.h.
 */
#include "rawe_carrier.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rawe_interface.h"

/** IFF_LOWER_UP, which <net/if.h> does not have. */
#define FLAG_LOWER_UP 0x10000u

/** A message about one link has a few kilobytes (statistics, virtual functions). */
#define MESSAGE_BYTES 32768u

struct rawe_carrier {
    struct rawe_service_source source;
    rawe_carrier_fn *changed;
    void *context;
    bool listed; /**< all interfaces have been reported once */
    uint8_t message[MESSAGE_BYTES];
};

/** Report every interface: messages may have been missed. */
static void report_all(struct rawe_carrier *carrier)
{
    struct rawe_interface *interfaces;
    unsigned count;

    if (rawe_interface_list(&interfaces, &count) != 0) {
        return; /* what is down shows as silence, too */
    }
    for (unsigned i = 0; i < count; i++) {
        carrier->changed(carrier->context, interfaces[i].index, interfaces[i].up);
    }
    free(interfaces);
}

static void report(struct rawe_carrier *carrier, const struct nlmsghdr *message)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);
    const unsigned wanted = IFF_UP | IFF_RUNNING | FLAG_LOWER_UP;

    /* A bridge says RTM_NEWLINK and RTM_DELLINK of its ports, which are about it, not the link. */
    if (info->ifi_family != AF_UNSPEC) {
        return;
    }
    if (message->nlmsg_type == RTM_NEWLINK) {
        carrier->changed(carrier->context, info->ifi_index, (info->ifi_flags & wanted) == wanted);
    } else if (message->nlmsg_type == RTM_DELLINK) {
        carrier->changed(carrier->context, info->ifi_index, false);
    }
}

/** rawe_service_source.serve */
static int serve(struct rawe_service_source *source, short events)
{
    struct rawe_carrier *carrier =
        (struct rawe_carrier *)((char *)source - offsetof(struct rawe_carrier, source));
    bool all = !carrier->listed;

    (void)events;
    carrier->listed = true;
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
            if (m->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifinfomsg))) {
                report(carrier, m);
            }
        }
    }
    if (all) {
        report_all(carrier);
    }
    return -1;
}

int rawe_carrier_start(struct rawe_carrier **out, struct rawe_service *service,
                       rawe_carrier_fn *changed, void *context, struct rawe_link_error *error)
{
    struct rawe_carrier *carrier = calloc(1, sizeof *carrier);
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};

    *out = NULL;
    if (carrier == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        return -1;
    }
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        *error = (struct rawe_link_error){"socket(AF_NETLINK)", errno};
        goto no_socket;
    }
    if (bind(fd, (const void *)&address, sizeof address) != 0) {
        *error = (struct rawe_link_error){"bind(RTMGRP_LINK)", errno};
        goto no_source;
    }
    carrier->changed = changed;
    carrier->context = context;
    carrier->source = (struct rawe_service_source){.serve = serve, .fd = fd};
    if (rawe_service_add(service, &carrier->source) != 0) {
        *error = (struct rawe_link_error){"epoll_ctl", errno};
        goto no_source;
    }
    *out = carrier;
    return 0;

no_source:
    close(fd);
no_socket:
    free(carrier);
    return -1;
}

void rawe_carrier_stop(struct rawe_carrier *carrier)
{
    if (carrier == NULL) {
        return;
    }
    rawe_service_remove(&carrier->source);
    close(carrier->source.fd);
    free(carrier);
}
