/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout groups: sockets of many processes on one interface, behind a single hook in the kernel,
 * where a program chooses which member is offered a frame (doc/architecture.md, "Many ranks on a
 * host"). The member's own filter still applies, so no frame reaches the wrong process.
 *
 * The program returns an index into the kernel's list of members, which changes when a member is
 * closed or the interface goes down and up. So sockets join in the order of their creation, and
 * none may be closed while other sockets are in use.
 *
 * The kernel's side: fanout_add, __fanout_unlink and packet_notifier in net/packet/af_packet.c.
 */
#include "rawe_host_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../packet/rawe_helper.h"

/** Lists open packet sockets in order of creation. */
#define ORDER_FILE "/proc/net/packet"
#define ORDER_READS_MAX 8u

struct rawe_fanout_member rawe_fanout_member(int fd, const struct rawe_port_config *config)
{
    struct rawe_fanout_member member = {
        .fd = fd,
        .use = config->use,
        .interface_index = config->interface_index,
        .ethertype = rawe_filter_ethertype(config),
        .key_count = 1,
        .keys = {config->key},
    };

    if (config->use == RAWE_PORT_RESPONDER) {
        member.keys[member.key_count++] = config->ping_key;
    }
    return member;
}

bool rawe_fanout_joinable(const struct rawe_fanout_member *member)
{
    struct sockaddr_ll address;
    socklen_t address_bytes = sizeof address;
    int domain;
    socklen_t domain_bytes = sizeof domain;

    return member->key_count >= 1 && member->key_count <= RAWE_FANOUT_KEYS_MAX &&
           getsockopt(member->fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) == 0 &&
           domain == AF_PACKET &&
           getsockname(member->fd, (struct sockaddr *)&address, &address_bytes) == 0 &&
           address.sll_protocol == htons(member->ethertype) &&
           address.sll_ifindex == member->interface_index && !rawe_fanout_is_member(member->fd);
}

bool rawe_fanout_is_member(int fd)
{
    int group = 0;
    socklen_t group_bytes = sizeof group;

    return getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, &group_bytes) == 0 && group != 0;
}

bool rawe_fanout_compatible(const struct rawe_fanout_member *a, const struct rawe_fanout_member *b)
{
    return a->use == b->use && a->interface_index == b->interface_index &&
           a->ethertype == b->ethertype;
}

static int compare_places(const void *a, const void *b)
{
    const struct rawe_fanout_place *left = a, *right = b;

    return left->key < right->key ? -1 : left->key > right->key;
}

/** Write the members' sorted keys and places. Returns their number; 0, error: two are equal. */
static unsigned collect_places(struct rawe_fanout_place *places,
                               const struct rawe_fanout_member *members, unsigned count,
                               struct rawe_port_error *error)
{
    unsigned used = 0;

    for (unsigned i = 0; i < count; i++) {
        for (unsigned j = 0; j < members[i].key_count; j++) {
            places[used++] = (struct rawe_fanout_place){.key = members[i].keys[j], .place = i};
        }
    }
    qsort(places, used, sizeof places[0], compare_places);
    for (unsigned i = 1; i < used; i++) {
        if (places[i - 1].key == places[i].key) {
            *error = (struct rawe_port_error){"two sockets with the same key", EEXIST};
            return 0;
        }
    }
    return used;
}

/** Sort the members by when their sockets were created. Returns how many were found. */
static unsigned sort_by(FILE *file, struct rawe_fanout_member *members, unsigned count)
{
    char line[256];
    unsigned sorted = 0;
    uintmax_t inode;

    while (fgets(line, sizeof line, file) != NULL) {
        /* sk RefCnt Type Proto Iface R Rmem User Inode; the title line has no number at the end. */
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %ju", &inode) != 1) {
            continue;
        }
        for (unsigned i = sorted; i < count; i++) {
            struct stat status;
            if (fstat(members[i].fd, &status) == 0 && status.st_ino == inode) {
                const struct rawe_fanout_member next = members[i];
                members[i] = members[sorted];
                members[sorted++] = next;
                break;
            }
        }
    }
    return sorted;
}

/** Sort by creation. If sockets are closed between two reads, the kernel skips some: retry. */
static int sort_by_creation(struct rawe_fanout_member *members, unsigned count,
                            struct rawe_port_error *error)
{
    FILE *file = fopen(ORDER_FILE, "re");
    unsigned sorted = 0;

    for (unsigned i = 0; file != NULL && sorted != count && i < ORDER_READS_MAX; i++) {
        rewind(file);
        sorted = sort_by(file, members, count);
    }
    if (file != NULL) {
        fclose(file);
    }
    *error = (struct rawe_port_error){"reading " ORDER_FILE, ENOENT};
    return sorted == count ? 0 : -1;
}

/** Open the founding socket of the members' group. Returns the descriptor, or -1 and the error. */
static int open_founder(const struct rawe_fanout_member *members, unsigned count,
                        const char *helper, struct rawe_port_error *error)
{
    const struct rawe_port_config config = {
        .use = members[0].use,
        .once = true,
        .helper = helper,
        .interface_index = members[0].interface_index,
        .ethertype = members[0].ethertype,
    };
    struct rawe_fanout_place places[RAWE_FANOUT_PLACES_MAX] = {{0}};
    const unsigned used = collect_places(places, members, count, error);

    if (used == 0) {
        return -1;
    }
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *error = (struct rawe_port_error){"socket(AF_PACKET)", errno};
        return errno == EPERM ? rawe_helper_open(&config, places, used, error) : -1;
    }
    if (rawe_fanout_found(fd, &config, places, used, error) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/**
 * Join the members to the group. The founder is first, because the filters of the members, and with
 * them the program, are locked. When the founder is closed, the last member to join moves to place
 * 0, which is its own.
 */
static int join_all(int founder, const struct rawe_fanout_member *members, unsigned count,
                    bool *changed, struct rawe_port_error *error)
{
    unsigned id;
    socklen_t id_bytes = sizeof id;

    if (getsockopt(founder, SOL_PACKET, PACKET_FANOUT, &id, &id_bytes) != 0) {
        return rawe_port_failed(error, "getsockopt(PACKET_FANOUT)", errno);
    }
    id = (id & 0xFFFF) | PACKET_FANOUT_CBPF << 16;
    for (unsigned i = 1; i <= count; i++) {
        if (rawe_port_set_option(members[i % count].fd, SOL_PACKET, PACKET_FANOUT, &id, sizeof id,
                                 "setsockopt(PACKET_FANOUT)", error) != 0) {
            return -1;
        }
        *changed = true;
    }
    return 0;
}

int rawe_fanout_form(struct rawe_fanout_member *members, unsigned count, const char *helper,
                     bool *changed, struct rawe_port_error *error)
{
    *changed = false;
    if (sort_by_creation(members, count, error) != 0) {
        return -1;
    }
    const int founder = open_founder(members, count, helper, error);
    if (founder < 0) {
        return -1;
    }
    const int status = join_all(founder, members, count, changed, error);
    close(founder);
    return status;
}
