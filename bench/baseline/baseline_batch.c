/* SPDX-License-Identifier: BSD-3-Clause */
/* What both kinds of GSO batches share: socket with filter, IPv4 header, checksums, sending. */
#include "baseline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baseline_batch.h"

/* The receiver's IP stack drops packets from there without an answer. */
#define SOURCE_ADDRESS 0xFFFFFFFFu
#define DESTINATION_ADDRESS 0x00000002u
#define QUEUE_BYTES (32 << 20) /* receive queue; one message may be 4 MB */

static int give_up(const struct baseline_link *link, int fd, const char *what)
{
    fprintf(stderr, "baseline: %s: GSO batches left out: %s: %s\n", link->name, what,
            strerror(errno));
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

int baseline_batch_socket(const struct baseline_link *link, uint8_t protocol)
{
    /* Only our own: IPv4, the protocol, from SOURCE_ADDRESS, to our port; counted from the MAC. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETHERTYPE_IP, 0, 7),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, protocol, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 26),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOURCE_ADDRESS, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BASELINE_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0x7FFFFFFF),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE_IP), .sll_ifindex = link->ifindex};
    int on = 1;
    int queue = QUEUE_BYTES;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) {
        return give_up(link, fd, "opening another packet socket");
    }
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
        return give_up(link, fd, "attaching the filter");
    }
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0) {
        return give_up(link, fd, "PACKET_VNET_HDR");
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof(queue)) != 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &queue, sizeof(queue)) != 0) {
        return give_up(link, fd, "enlarging the receive queue");
    }
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        return give_up(link, fd, "binding to the interface");
    }
    return fd;
}

static uint32_t sum_words(const void *data, size_t bytes, uint32_t sum)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        sum += (uint32_t)byte[i] << 8 | byte[i + 1];
    }
    return sum;
}

static uint16_t fold(uint32_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    return htons((uint16_t)sum);
}

uint16_t baseline_batch_headers(const struct baseline_link *link, uint8_t *mac, struct iphdr *ip,
                                uint8_t protocol, size_t bytes)
{
    uint16_t ethertype = htons(ETHERTYPE_IP);
    memcpy(mac, link->peer, BASELINE_MAC_BYTES);
    memcpy(mac + 6, link->mac, BASELINE_MAC_BYTES);
    memcpy(mac + 12, &ethertype, 2);
    *ip = (struct iphdr){.version = 4,
                         .ihl = 5,
                         .ttl = 1,
                         .protocol = protocol,
                         .tot_len = htons((uint16_t)(sizeof(*ip) + bytes)),
                         .frag_off = htons(IP_DF),
                         .saddr = htonl(SOURCE_ADDRESS),
                         .daddr = htonl(DESTINATION_ADDRESS)};
    ip->check = (uint16_t)~fold(sum_words(ip, sizeof(*ip), 0));
    return fold(sum_words(&ip->saddr, 8, protocol + (uint32_t)bytes));
}

ssize_t baseline_batch_sendmsg(int fd, const struct msghdr *message)
{
    ssize_t sent;
    do {
        sent = sendmsg(fd, message, 0);
    } while (sent < 0 && (errno == ENOBUFS || errno == EINTR));
    return sent;
}
