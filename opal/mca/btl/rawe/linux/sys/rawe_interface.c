/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Asking the kernel about the interfaces. Names, states and kinds come by netlink, which speaks of
 * this network namespace; /sys may show another one's.
 */
#include "rawe_interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/** Room for one answer of the kernel's dump; it fills what it is given, up to 32 KB. */
#define ANSWER_BYTES (64u << 10)

/** Attempts at a dump, which fails when interfaces change meanwhile. */
#define DUMP_TRIES 10

/** IFLA_PARENT_DEV_NAME, which headers older than Linux 5.14 do not know. */
#define ATTRIBUTE_PARENT_DEVICE 56

/** IFF_LOWER_UP of linux/if.h, which cannot stand beside net/if.h. */
#define FLAG_LOWER_UP (1u << 16)

#define KIND_BYTES 24u

/** An interface and the texts that only classifying needs. */
struct found {
    struct rawe_interface interface;
    char kind[KIND_BYTES];
    char slave_kind[KIND_BYTES];
    bool has_master;
};

struct found_list {
    struct found *items;
    unsigned count;
    unsigned room;
};

/** Copy an attribute's text, which need not be terminated. */
static void copy_text(char *out, size_t out_bytes, const struct rtattr *attribute)
{
    size_t len = strnlen(RTA_DATA(attribute), RTA_PAYLOAD(attribute));

    if (len >= out_bytes) {
        len = out_bytes - 1;
    }
    memcpy(out, RTA_DATA(attribute), len);
    out[len] = '\0';
}

static uint32_t read_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (RTA_PAYLOAD(attribute) >= sizeof value) {
        memcpy(&value, RTA_DATA(attribute), sizeof value);
    }
    return value;
}

/** The attribute behind this one; `left`, the bytes from there on, may fall below zero. */
static const struct rtattr *next_attribute(const struct rtattr *attribute, int *left)
{
    const int step = (int)RTA_ALIGN(attribute->rta_len);

    *left -= step;
    return (const void *)((const char *)attribute + step);
}

static void read_link_info(struct found *found, const struct rtattr *info)
{
    int left = (int)RTA_PAYLOAD(info);

    for (const struct rtattr *a = RTA_DATA(info); RTA_OK(a, left); a = next_attribute(a, &left)) {
        if (a->rta_type == IFLA_INFO_KIND) {
            copy_text(found->kind, sizeof found->kind, a);
        } else if (a->rta_type == IFLA_INFO_SLAVE_KIND) {
            copy_text(found->slave_kind, sizeof found->slave_kind, a);
        }
    }
}

static void read_attribute(struct found *found, const struct rtattr *attribute)
{
    struct rawe_interface *interface = &found->interface;

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
        found->has_master = read_u32(attribute) != 0;
        break;
    case IFLA_LINKINFO:
        read_link_info(found, attribute);
        break;
    case ATTRIBUTE_PARENT_DEVICE:
        interface->physical = true;
        break;
    default:
        break;
    }
}

/** Add the interface that an RTM_NEWLINK message describes. Returns 0, or -1 and errno. */
static int add_link(struct found_list *list, const struct nlmsghdr *message)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);
    int left = (int)IFLA_PAYLOAD(message);

    if (list->count == list->room) {
        const unsigned room = list->room == 0 ? 16 : 2 * list->room;
        struct found *items = realloc(list->items, room * sizeof items[0]);
        if (items == NULL) {
            return -1;
        }
        list->items = items;
        list->room = room;
    }
    struct found *found = &list->items[list->count++];
    memset(found, 0, sizeof *found);
    found->interface.index = info->ifi_index;
    found->interface.loopback = (info->ifi_flags & IFF_LOOPBACK) != 0;
    found->interface.ethernet = info->ifi_type == ARPHRD_ETHER || found->interface.loopback;
    found->interface.enabled = (info->ifi_flags & IFF_UP) != 0;
    found->interface.carrier = (info->ifi_flags & FLAG_LOWER_UP) != 0;
    found->interface.up = found->interface.enabled && found->interface.carrier &&
                          (info->ifi_flags & IFF_RUNNING) != 0;
    for (const struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = next_attribute(a, &left)) {
        read_attribute(found, a);
    }
    return 0;
}

/**
 * Read the answers to one dump. Returns 1 when complete, 0 when it must be repeated, -1 and errno.
 */
static int read_dump(int fd, struct found_list *list, char *answer)
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
            if (m->nlmsg_type == RTM_NEWLINK && add_link(list, m) != 0) {
                return -1;
            }
        }
    }
}

static int dump_links(int fd, struct found_list *list)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg info;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = RTM_GETLINK,
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

/** Ask the driver; the first call finds out how long its three bitmaps of link modes are. */
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

/** For kernels before 5.14, which do not tell by netlink. */
static bool sysfs_has_device(const char *name)
{
    char path[sizeof "/sys/class/net//device" + RAWE_INTERFACE_NAME_BYTES];

    snprintf(path, sizeof path, "/sys/class/net/%s/device", name);
    return access(path, F_OK) == 0;
}

static int complete(const struct found_list *list, struct rawe_interface **interfaces)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct rawe_interface *out = calloc(list->count + 1, sizeof *out);
    bool host_has_physical = false;

    if (out == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        errno = ENOMEM;
        return -1;
    }
    for (unsigned i = 0; i < list->count; i++) {
        out[i] = list->items[i].interface;
        /* What the kernel names a kind for is software, whatever /sys of another namespace has. */
        if (!out[i].physical && list->items[i].kind[0] == '\0' && !out[i].loopback) {
            out[i].physical = sysfs_has_device(out[i].name);
        }
        /* A machine without IPv4 has no such socket; speeds are then unknown. */
        out[i].speed_mbps = fd >= 0 ? ask_speed_mbps(fd, out[i].name) : 0;
        host_has_physical = host_has_physical || (out[i].physical && out[i].ethernet);
    }
    for (unsigned i = 0; i < list->count; i++) {
        const struct found *found = &list->items[i];
        const struct rawe_interface_kind kind = {found->kind, found->slave_kind, found->has_master};
        rawe_interface_classify(&out[i], &kind, host_has_physical);
    }
    if (fd >= 0) {
        close(fd);
    }
    *interfaces = out;
    return 0;
}

int rawe_interface_list(struct rawe_interface **interfaces, unsigned *count)
{
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct found_list list = {0};

    *interfaces = NULL;
    *count = 0;
    if (fd < 0) {
        return -1;
    }
    int result = dump_links(fd, &list);
    if (result == 0) {
        result = complete(&list, interfaces);
    }
    if (result == 0) {
        *count = list.count;
    }
    const int code = errno;
    free(list.items);
    close(fd);
    errno = code;
    return result;
}

/** The index of the interface of that name; an old-style alias "eth0:1" is eth0's. */
static int index_of(const struct rawe_interface *interfaces, unsigned count, const char *name)
{
    const size_t len = strcspn(name, ":");

    for (unsigned i = 0; i < count; i++) {
        if (strlen(interfaces[i].name) == len && memcmp(interfaces[i].name, name, len) == 0) {
            return interfaces[i].index;
        }
    }
    return 0;
}

/** All addresses of the given interfaces, malloc'ed; none when the kernel does not tell. */
static struct rawe_interface_address *list_addresses(const struct rawe_interface *interfaces,
                                                     unsigned count, unsigned *address_count)
{
    struct ifaddrs *all = NULL;
    unsigned room = 0;

    *address_count = 0;
    if (getifaddrs(&all) != 0) {
        return NULL;
    }
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        room++;
    }
    struct rawe_interface_address *out = calloc(room + 1, sizeof *out);
    for (const struct ifaddrs *a = all; a != NULL && out != NULL; a = a->ifa_next) {
        struct rawe_interface_address *address = &out[*address_count];

        if (a->ifa_addr == NULL) {
            continue;
        }
        address->interface_index = index_of(interfaces, count, a->ifa_name);
        if (a->ifa_addr->sa_family == AF_INET) {
            const struct sockaddr_in *in = (const void *)a->ifa_addr;
            memcpy(address->bytes, &in->sin_addr, 4);
            address->ipv6 = false;
            (*address_count)++;
        } else if (a->ifa_addr->sa_family == AF_INET6) {
            const struct sockaddr_in6 *in = (const void *)a->ifa_addr;
            memcpy(address->bytes, &in->sin6_addr, 16);
            address->ipv6 = true;
            (*address_count)++;
        }
    }
    freeifaddrs(all);
    return out;
}

unsigned rawe_interface_select(struct rawe_interface *interfaces, unsigned count,
                               const char *include, const char *exclude, char *unknown,
                               size_t unknown_bytes)
{
    unsigned address_count;
    struct rawe_interface_address *addresses = list_addresses(interfaces, count, &address_count);
    const unsigned chosen = rawe_interface_select_from(interfaces, count, addresses, address_count,
                                                       include, exclude, unknown, unknown_bytes);

    free(addresses);
    return chosen;
}

bool rawe_interface_is_back(const struct rawe_interface *lost, const struct rawe_interface *now)
{
    char renamed[IF_NAMESIZE];

    return now->up && now->index != lost->index && strcmp(now->name, lost->name) == 0 &&
           memcmp(now->mac, lost->mac, RAWE_MAC_BYTES) == 0 &&
           if_indextoname((unsigned)lost->index, renamed) == NULL;
}

/** Index of a feature in the device's list, or -1. */
static int feature_index(int fd, struct ifreq *request, const char *name, uint32_t *features)
{
    struct {
        struct ethtool_sset_info info;
        uint32_t count;
    } set = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
    int index = -1;

    request->ifr_data = (char *)&set;
    if (ioctl(fd, SIOCETHTOOL, request) != 0 || set.info.sset_mask == 0 || set.count > 1024) {
        return -1;
    }
    memcpy(features, (char *)&set + offsetof(struct ethtool_sset_info, data), sizeof *features);
    struct ethtool_gstrings *strings =
        calloc(1, sizeof *strings + (size_t)*features * ETH_GSTRING_LEN);
    if (strings == NULL) {
        return -1;
    }
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_FEATURES;
    strings->len = *features;
    request->ifr_data = (char *)strings;
    if (ioctl(fd, SIOCETHTOOL, request) == 0) {
        for (uint32_t i = 0; i < *features && index < 0; i++) {
            if (strncmp((char *)strings->data + i * ETH_GSTRING_LEN, name, ETH_GSTRING_LEN) == 0) {
                index = (int)i;
            }
        }
    }
    free(strings);
    return index;
}

bool rawe_interface_cuts_batches(const char *interface)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {0};
    uint32_t features = 0;
    bool active = false;

    if (fd < 0) {
        return false;
    }
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    int index = feature_index(fd, &request, "tx-tcp-segmentation", &features);
    if (index >= 0) {
        size_t blocks = (features + 31) / 32;
        struct ethtool_gfeatures *state =
            calloc(1, sizeof *state + blocks * sizeof state->features[0]);
        if (state != NULL) {
            state->cmd = ETHTOOL_GFEATURES;
            state->size = (uint32_t)blocks;
            request.ifr_data = (char *)state;
            active = ioctl(fd, SIOCETHTOOL, &request) == 0 &&
                     (state->features[index / 32].active >> (index % 32) & 1) != 0;
            free(state);
        }
    }
    close(fd);
    return active;
}
