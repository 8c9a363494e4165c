/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Queries the kernel about interfaces, and listens for changes. Names, states and kinds come from
 * netlink, which covers this network namespace; /sys may show those of another.
 */
#include "rawe_interface.h"

#include <errno.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

/** Buffer for one part of a dump; the kernel writes up to 32 KB. */
#define ANSWER_BYTES (64u << 10)

/** Use less of lo's MTU of 65536: each slot of a receive ring holds a frame of the MTU. */
#define LOOPBACK_MTU_MAX_BYTES 16384u

/** Attempts at a dump, which fails if interfaces change meanwhile. */
#define DUMP_TRIES 10

/** IFLA_PARENT_DEV_NAME, unknown to headers older than Linux 5.14. */
#define ATTRIBUTE_PARENT_DEVICE 56

/** IFF_LOWER_UP from linux/if.h, which conflicts with net/if.h. */
#define FLAG_LOWER_UP (1u << 16)

/** The answer to a dump request. */
struct list {
    uint16_t request; /**< RTM_GETLINK or RTM_GETADDR, which the items belong to */
    union {
        void *items;
        struct rawe_interface *interfaces;
        struct rawe_interface_address *addresses;
    };
    unsigned count;
};

/** Copy an attribute's text, which may lack a terminator. */
static void copy_text(char *out, size_t out_bytes, const struct rtattr *attribute)
{
    snprintf(out, out_bytes, "%.*s", (int)RTA_PAYLOAD(attribute), (char *)RTA_DATA(attribute));
}

static uint32_t read_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (RTA_PAYLOAD(attribute) >= sizeof value) {
        memcpy(&value, RTA_DATA(attribute), sizeof value);
    }
    return value;
}

/** Return the next attribute. `left`, the number of remaining bytes, may become negative. */
static const struct rtattr *next_attribute(const struct rtattr *attribute, int *left)
{
    const int step = (int)RTA_ALIGN(attribute->rta_len);

    *left -= step;
    return (const void *)((const char *)attribute + step);
}

static void read_link_info(struct rawe_interface *interface, const struct rtattr *info)
{
    int left = (int)RTA_PAYLOAD(info);

    for (const struct rtattr *a = RTA_DATA(info); RTA_OK(a, left); a = next_attribute(a, &left)) {
        if (a->rta_type == IFLA_INFO_KIND) {
            copy_text(interface->kind, sizeof interface->kind, a);
        } else if (a->rta_type == IFLA_INFO_SLAVE_KIND) {
            copy_text(interface->slave_kind, sizeof interface->slave_kind, a);
        }
    }
}

static void read_attribute(struct rawe_interface *interface, const struct rtattr *attribute)
{
    switch (attribute->rta_type & NLA_TYPE_MASK) {
    case IFLA_IFNAME:
        copy_text(interface->name, sizeof interface->name, attribute);
        break;
    case IFLA_ADDRESS:
        if (RTA_PAYLOAD(attribute) == sizeof interface->mac) {
            memcpy(interface->mac, RTA_DATA(attribute), sizeof interface->mac);
        }
        break;
    case IFLA_MTU:
        interface->mtu_bytes = read_u32(attribute);
        break;
    case IFLA_MASTER:
        interface->has_master = read_u32(attribute) != 0;
        break;
    case IFLA_LINKINFO:
        read_link_info(interface, attribute);
        break;
    case ATTRIBUTE_PARENT_DEVICE:
        interface->physical = true;
        break;
    default:
        break;
    }
}

/**
 * Read an rtnetlink message about an interface; ethtool and rawe_interface_classify add the rest. A
 * deleted interface is reported as down. Returns false for other messages.
 */
static bool read_message(struct rawe_interface *interface, const struct nlmsghdr *message)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);

    memset(interface, 0, sizeof *interface);
    if ((message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) ||
        message->nlmsg_len < NLMSG_LENGTH(sizeof *info) || info->ifi_family != AF_UNSPEC) {
        return false;
    }
    int left = (int)IFLA_PAYLOAD(message);
    interface->index = info->ifi_index;
    interface->loopback = (info->ifi_flags & IFF_LOOPBACK) != 0;
    interface->ethernet = info->ifi_type == ARPHRD_ETHER || interface->loopback;
    interface->enabled = (info->ifi_flags & IFF_UP) != 0;
    interface->carrier = (info->ifi_flags & FLAG_LOWER_UP) != 0;
    interface->up = message->nlmsg_type == RTM_NEWLINK && interface->enabled &&
                    interface->carrier && (info->ifi_flags & IFF_RUNNING) != 0;
    for (const struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = next_attribute(a, &left)) {
        read_attribute(interface, a);
    }
    if (interface->loopback) {
        interface->mtu_bytes = MIN(interface->mtu_bytes, LOOPBACK_MTU_MAX_BYTES);
    }
    return true;
}

/** Flags of IPv6 addresses that may vanish, or do not work (yet). */
#define PASSING_FLAGS \
    ((unsigned)IFA_F_TEMPORARY | IFA_F_DEPRECATED | IFA_F_TENTATIVE | IFA_F_DADFAILED)

/** Read an rtnetlink message about an address. Returns false for other messages. */
static bool read_address(struct rawe_interface_address *address, const struct nlmsghdr *message)
{
    const struct ifaddrmsg *info = NLMSG_DATA(message);

    memset(address, 0, sizeof *address);
    if (message->nlmsg_type != RTM_NEWADDR || message->nlmsg_len < NLMSG_LENGTH(sizeof *info) ||
        (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)) {
        return false;
    }
    const size_t len_bytes = info->ifa_family == AF_INET ? 4 : 16;
    const struct rtattr *found = NULL;
    int left = (int)IFA_PAYLOAD(message);

    for (const struct rtattr *a = IFA_RTA(info); RTA_OK(a, left); a = next_attribute(a, &left)) {
        if (a->rta_type == IFA_LOCAL || (a->rta_type == IFA_ADDRESS && found == NULL)) {
            found = a; /* with a peer, IFA_ADDRESS is the peer's, and IFA_LOCAL ours */
        }
    }
    if (found == NULL || RTA_PAYLOAD(found) < len_bytes) {
        return false;
    }
    memcpy(address->bytes, RTA_DATA(found), len_bytes);
    address->interface_index = (int)info->ifa_index;
    address->ipv6 = info->ifa_family == AF_INET6;
    /* IPv4 has other flags with the same numbers. */
    address->passing = address->ipv6 && (info->ifa_flags & PASSING_FLAGS) != 0;
    return true;
}

/** Add the interface or address that a message describes. Returns 0, or -1 and errno. */
static int add_item(struct list *list, const struct nlmsghdr *message)
{
    const bool links = list->request == RTM_GETLINK;
    void *items = realloc(list->items, (list->count + 1) * (links ? sizeof list->interfaces[0]
                                                                  : sizeof list->addresses[0]));

    if (items == NULL) {
        return -1;
    }
    list->items = items;
    list->count += links ? read_message(&list->interfaces[list->count], message)
                         : read_address(&list->addresses[list->count], message);
    return 0;
}

/** Read the answers to a dump request. Returns 1: complete, 0: repeat the dump, -1 and errno. */
static int read_dump(int fd, struct list *list, char *answer)
{
    bool changed = false;

    for (;;) {
        const ssize_t got = recv(fd, answer, ANSWER_BYTES, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            errno = EPROTO;
            return -1;
        }
        size_t left = (size_t)got;
        for (struct nlmsghdr *m = (struct nlmsghdr *)(void *)answer; NLMSG_OK(m, left);
             m = NLMSG_NEXT(m, left)) {
            changed = changed || (m->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
            if (m->nlmsg_type == NLMSG_DONE) {
                return changed ? 0 : 1;
            }
            if (m->nlmsg_type == NLMSG_ERROR) {
                const struct nlmsgerr *failure = NLMSG_DATA(m);
                errno = failure->error != 0 ? -failure->error : EPROTO;
                return -1;
            }
            if (add_item(list, m) != 0) {
                return -1;
            }
        }
    }
}

static int request_dump(int fd, struct list *list)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg info;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = list->request,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .info = {.ifi_family = AF_UNSPEC},
    };
    char *answer = malloc(ANSWER_BYTES);
    int result = answer == NULL ? -1 : 0;

    for (unsigned tries = 0; result == 0; tries++) {
        if (tries == DUMP_TRIES) {
            errno = EAGAIN;
            result = -1;
            break;
        }
        request.header.nlmsg_seq++;
        list->count = 0;
        result = send(fd, &request, sizeof request, 0) < 0 ? -1 : read_dump(fd, list, answer);
    }
    free(answer);
    return result < 0 ? -1 : 0;
}

/** Query the driver for the speed; the first call yields the length of its link-mode bitmaps. */
static uint32_t ask_speed_mbps(int fd, const char *name)
{
    union {
        struct ethtool_link_settings settings;
        uint8_t room[sizeof(struct ethtool_link_settings) + 3 * SCHAR_MAX * sizeof(uint32_t)];
    } query = {.settings = {.cmd = ETHTOOL_GLINKSETTINGS}};
    struct ifreq request = {.ifr_data = (void *)&query};

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0 || query.settings.link_mode_masks_nwords >= 0) {
        return 0;
    }
    query.settings.cmd = ETHTOOL_GLINKSETTINGS;
    query.settings.link_mode_masks_nwords = (int8_t)-query.settings.link_mode_masks_nwords;
    if (ioctl(fd, SIOCETHTOOL, &request) != 0 || query.settings.speed == (uint32_t)SPEED_UNKNOWN) {
        return 0;
    }
    return query.settings.speed;
}

/**
 * Return true if sysfs has an entry for the interface: "device", because netlink in kernels before
 * 5.14 does not report it, or "phy80211", which cfg80211 adds to wireless ones.
 */
static bool sysfs_has(const char *name, const char *entry)
{
    char path[64];

    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, entry);
    return access(path, F_OK) == 0;
}

/** Add information that the kernel's answers lack. */
static void complete_interfaces(struct rawe_interface *interfaces, unsigned count)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool host_has_physical = false;

    for (unsigned i = 0; i < count; i++) {
        struct rawe_interface *one = &interfaces[i];
        /* A kind marks a virtual device, whatever another namespace's /sys shows. */
        one->physical = one->physical ||
                        (one->kind[0] == '\0' && !one->loopback && sysfs_has(one->name, "device"));
        one->wireless = one->physical && sysfs_has(one->name, "phy80211");
        /* Without IPv4 in the kernel there is no socket, so speeds are unknown. */
        one->speed_mbps = fd >= 0 ? ask_speed_mbps(fd, one->name) : 0;
        host_has_physical = host_has_physical || (one->physical && one->ethernet);
    }
    for (unsigned i = 0; i < count; i++) {
        rawe_interface_classify(&interfaces[i], host_has_physical);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/**
 * List all interfaces or addresses of this network namespace by rtnetlink, in the kernel's order.
 * Returns 0 and a malloc'ed array, or -1 and errno.
 */
static int list_all(struct list *list, uint16_t request)
{
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    *list = (struct list){.request = request};
    if (fd < 0) {
        return -1;
    }
    const int result = request_dump(fd, list);
    const int code = errno;
    close(fd);
    if (result != 0) {
        free(list->items);
        errno = code;
    }
    return result;
}

int rawe_interface_list(struct rawe_interface **interfaces, unsigned *count)
{
    struct list list;

    *interfaces = NULL;
    *count = 0;
    if (list_all(&list, RTM_GETLINK) != 0) {
        return -1;
    }
    complete_interfaces(list.interfaces, list.count);
    *interfaces = list.interfaces;
    *count = list.count;
    return 0;
}

/** Return true if the list may name addresses, which take the kernel's rtnl_lock to list. */
static bool may_name_address(const char *list)
{
    return list != NULL && strpbrk(list, ".:") != NULL;
}

/** List all addresses of this network namespace; NULL: none are known. */
static struct rawe_interface_address *list_addresses(unsigned *address_count)
{
    struct list list;
    const bool listed = list_all(&list, RTM_GETADDR) == 0;

    *address_count = listed ? list.count : 0;
    return listed ? list.addresses : NULL;
}

unsigned rawe_interface_select(struct rawe_interface *interfaces, unsigned count,
                               const char *include, const char *exclude, char *unknown,
                               size_t unknown_bytes)
{
    unsigned address_count = 0;
    struct rawe_interface_address *addresses =
        may_name_address(include) || may_name_address(exclude) ? list_addresses(&address_count)
                                                               : NULL;
    const unsigned chosen = rawe_interface_select_from(interfaces, count, addresses, address_count,
                                                       include, exclude, unknown, unknown_bytes);

    free(addresses);
    return chosen;
}

bool rawe_interface_ip(const struct rawe_interface *interface,
                       struct rawe_interface_address *address)
{
    unsigned count;
    struct rawe_interface_address *all = list_addresses(&count);
    const bool found = rawe_interface_ip_from(all, count, interface, address);

    free(all);
    return found;
}

bool rawe_interface_is_back(const struct rawe_interface *lost, const struct rawe_interface *now)
{
    char renamed[IF_NAMESIZE];

    return now->up && now->index != lost->index && strcmp(now->name, lost->name) == 0 &&
           memcmp(now->mac, lost->mac, RAWE_MAC_BYTES) == 0 &&
           if_indextoname((unsigned)lost->index, renamed) == NULL;
}

void rawe_interface_keep_mac(int fd, int index, const uint8_t mac[RAWE_MAC_BYTES])
{
    struct packet_mreq request = {
        .mr_ifindex = index, .mr_type = PACKET_MR_UNICAST, .mr_alen = RAWE_MAC_BYTES};

    memcpy(request.mr_address, mac, RAWE_MAC_BYTES);
    (void)setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request);
}

int rawe_interface_offload(const char *interface, uint32_t command)
{
    struct ethtool_value value = {.cmd = command};
    struct ifreq request = {.ifr_data = (void *)&value};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    const bool known = ioctl(fd, SIOCETHTOOL, &request) == 0;
    close(fd);
    return known ? value.data != 0 : -1;
}

bool rawe_interface_cuts_batches(const char *interface)
{
    return rawe_interface_offload(interface, ETHTOOL_GTSO) == 1;
}

/* ---- carrier ---- */

/** A message about one link takes a few kilobytes (statistics, virtual functions). */
#define MESSAGE_BYTES 32768u

/**
 * Delay before `changed` is called again at its request. After AGAIN_MAX requests in sequence, each
 * doubles the delay, because the call may start a helper, which writes to the system log.
 */
#define AGAIN_MS 100
#define AGAIN_MOST_MS 10000
#define AGAIN_MAX 100u

struct rawe_carrier {
    struct rawe_service_source source; /**< first */
    rawe_carrier_fn *changed;
    void *context;
    bool listed;       /**< all interfaces have been reported */
    bool again;        /**< `changed` has requested another report of all interfaces */
    unsigned requests; /**< such requests in sequence */
    int again_ms;      /**< the delay after the last one */
    _Alignas(struct nlmsghdr) uint8_t message[MESSAGE_BYTES];
};

static void report_carrier(struct rawe_carrier *carrier, const struct rawe_interface *interface)
{
    carrier->again = !carrier->changed(carrier->context, interface) || carrier->again;
}

/** Report every interface, because messages may have been missed. */
static void report_all(struct rawe_carrier *carrier)
{
    struct list list;

    if (list_all(&list, RTM_GETLINK) != 0) {
        carrier->again = true; /* e.g. no descriptor was free: `changed` may need one, too */
        return;
    }
    for (unsigned i = 0; i < list.count; i++) {
        report_carrier(carrier, &list.interfaces[i]);
    }
    free(list.interfaces);
}

/** Return the delay before the next report of all interfaces; -1: none was requested. */
static int rest_ms(struct rawe_carrier *carrier)
{
    if (!carrier->again) {
        carrier->requests = 0;
        return -1;
    }
    if (carrier->requests < AGAIN_MAX) {
        carrier->requests++;
        carrier->again_ms = AGAIN_MS;
    } else {
        carrier->again_ms =
            carrier->again_ms < AGAIN_MOST_MS / 2 ? 2 * carrier->again_ms : AGAIN_MOST_MS;
    }
    return carrier->again_ms;
}

/** rawe_service_source.serve */
static int serve_carrier(struct rawe_service_source *source, short events)
{
    struct rawe_carrier *carrier = (struct rawe_carrier *)source;
    bool all = !carrier->listed || carrier->again;

    carrier->listed = true;
    carrier->again = false;
    for (;;) {
        const ssize_t got =
            recv(source->fd, carrier->message, sizeof carrier->message, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == ENOBUFS) {
            all = true; /* the kernel dropped some messages */
            continue;
        }
        if (got <= 0) {
            break;
        }
        carrier->requests = 0; /* the next attempt may succeed */
        int left = (int)got;   /* NLMSG_NEXT may make it negative */
        for (const struct nlmsghdr *m = (const void *)carrier->message; NLMSG_OK(m, left);
             m = NLMSG_NEXT(m, left)) {
            struct rawe_interface interface;
            /* A bridge's messages about its ports do not describe the ports themselves. */
            if (read_message(&interface, m)) {
                report_carrier(carrier, &interface);
            }
        }
    }
    if (all) {
        report_all(carrier);
    }
    return rest_ms(carrier);
}

int rawe_carrier_start(struct rawe_carrier **out, struct rawe_service *service,
                       rawe_carrier_fn *changed, void *context, struct rawe_port_error *error)
{
    struct rawe_carrier *carrier = calloc(1, sizeof *carrier);
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};

    *out = NULL;
    if (carrier == NULL) {
        return rawe_port_failed(error, "malloc", ENOMEM);
    }
    carrier->changed = changed;
    carrier->context = context;
    carrier->source = (struct rawe_service_source){
        .serve = serve_carrier, .fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
    if (carrier->source.fd < 0 ||
        bind(carrier->source.fd, (const void *)&address, sizeof address) != 0) {
        *error = (struct rawe_port_error){"listening to rtnetlink (RTMGRP_LINK)", errno};
    } else if (rawe_service_add(service, &carrier->source, error) == 0) {
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
