/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain frames: interface, AF_PACKET socket, TPACKET_V2 receive ring, one send() a frame. */
#include "baseline.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BASELINE_MAGIC 0xF100
#define RING_BYTES (2u << 20) /* small enough to stay in the cache */
#define RING_SLOTS_MIN 32u
#define RING_BLOCK_BYTES (1u << 17)
#define PAGE_BYTES 4096u
#define SLOT_HEADER_BYTES 96 /* tpacket2_hdr, sockaddr_ll and padding in front of the frame */
/* Up to here copying the payload behind the headers is cheaper than sendmsg() with two parts. */
#define COPY_LIMIT_BYTES 2048u

static void fail(const struct baseline_link *link, const char *what, const char *remedy)
{
    fprintf(stderr, "baseline: %s: %s failed: %s%s%s\n",
            link->name[0] ? link->name : "no interface", what, strerror(errno),
            remedy[0] ? "; " : "", remedy);
    exit(1);
}

static bool is_ethernet(int fd, const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return ioctl(fd, SIOCGIFHWADDR, &request) == 0 && request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
}

/* Puts the first Ethernet interface that is up and running into link->name, if there is one. */
static void find_interface(struct baseline_link *link)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        fail(link, "listing the interfaces", "name one with --interface");
    }
    for (struct ifaddrs *i = list; i != NULL && link->name[0] == '\0'; i = i->ifa_next) {
        if ((i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING) &&
            !(i->ifa_flags & IFF_LOOPBACK) && is_ethernet(link->fd, i->ifa_name)) {
            snprintf(link->name, sizeof(link->name), "%s", i->ifa_name);
        }
    }
    freeifaddrs(list);
}

/* An interface counts as running up to a second after its carrier came: hence the patience. */
static void choose_interface(struct baseline_link *link, double wait_seconds)
{
    double start = baseline_now();
    for (;;) {
        find_interface(link);
        if (link->name[0] != '\0') {
            return;
        }
        if (baseline_now() - start > wait_seconds) {
            fprintf(stderr,
                    "baseline: this host has no Ethernet interface that is up; bring one up "
                    "(ip link set NAME up) or name one with --interface\n");
            exit(1);
        }
        usleep(50000);
    }
}

static void read_interface(struct baseline_link *link)
{
    struct ifreq request = {0};
    memcpy(request.ifr_name, link->name, sizeof(request.ifr_name));
    if (ioctl(link->fd, SIOCGIFINDEX, &request) != 0) {
        fail(link, "finding the interface", "'ip link' lists the names there are");
    }
    link->ifindex = request.ifr_ifindex;
    if (ioctl(link->fd, SIOCGIFMTU, &request) != 0) {
        fail(link, "reading the MTU", "");
    }
    link->mtu = request.ifr_mtu;
    if (ioctl(link->fd, SIOCGIFHWADDR, &request) != 0) {
        fail(link, "reading the MAC address", "");
    }
    memcpy(link->mac, request.ifr_hwaddr.sa_data, BASELINE_MAC_BYTES);
    link->ways[BASELINE_FRAMES] = (struct baseline_way_state){
        .fd = link->fd,
        .payload = (uint32_t)link->mtu - BASELINE_HEADER_BYTES,
        .pieces_max = 1,
        .message_max = UINT32_MAX,
    };
}

const char *baseline_ring_open(struct baseline_way_state *way, unsigned packet_bytes,
                               size_t ring_bytes)
{
    struct baseline_ring *ring = &way->ring;
    int version = TPACKET_V2;
    if (setsockopt(way->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0) {
        return "choosing TPACKET_V2";
    }
    /* Slots of a part of a page, or of whole pages: none is wasted at the end of a block. */
    unsigned slot = 2048;
    while (slot < packet_bytes + SLOT_HEADER_BYTES) {
        slot += slot < PAGE_BYTES ? slot : PAGE_BYTES;
    }
    unsigned block = slot > PAGE_BYTES ? slot : RING_BLOCK_BYTES;
    unsigned blocks = (unsigned)ring_bytes / block;
    while (blocks * (block / slot) < RING_SLOTS_MIN) {
        blocks++;
    }
    struct tpacket_req request = {.tp_block_size = block,
                                  .tp_block_nr = blocks,
                                  .tp_frame_size = slot,
                                  .tp_frame_nr = blocks * (block / slot)};
    if (setsockopt(way->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) != 0) {
        return "making the receive ring";
    }
    size_t bytes = (size_t)block * blocks;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, way->fd, 0);
    if (memory == MAP_FAILED) {
        return "mapping the receive ring";
    }
    *ring = (struct baseline_ring){
        .memory = memory, .bytes = bytes, .slot_bytes = slot, .slot_count = request.tp_frame_nr};
    return NULL;
}

static struct tpacket2_hdr *next_slot(const struct baseline_ring *ring)
{
    return (struct tpacket2_hdr *)(void *)(ring->memory + (size_t)ring->next * ring->slot_bytes);
}

const uint8_t *baseline_ring_packet(const struct baseline_ring *ring, size_t *bytes)
{
    const struct tpacket2_hdr *slot = next_slot(ring);
    if (!(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
        return NULL;
    }
    *bytes = slot->tp_snaplen;
    return (const uint8_t *)slot + slot->tp_mac;
}

void baseline_ring_release(struct baseline_ring *ring)
{
    __atomic_store_n(&next_slot(ring)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ring->next = ring->next + 1 == ring->slot_count ? 0 : ring->next + 1;
}

uint8_t *baseline_buffer_new(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0) {
        fprintf(stderr, "baseline: no memory for %zu bytes; ask for smaller --sizes\n", bytes);
        exit(1);
    }
    memset(memory, 0x5A, bytes);
    return memory;
}

void baseline_link_open(struct baseline_link *link, const struct baseline_options *options)
{
    *link = (struct baseline_link){.fd = -1, .peer_address = BASELINE_ADDRESS};
    for (int way = 0; way < BASELINE_WAYS; way++) {
        link->ways[way].fd = -1;
    }
    link->fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (link->fd < 0) {
        fail(link, "opening a packet socket",
             "run as root or give the program CAP_NET_RAW (setcap cap_net_raw+ep)");
    }
    if (options->interface != NULL) {
        snprintf(link->name, sizeof(link->name), "%s", options->interface);
    } else {
        choose_interface(link, options->wait_seconds);
    }
    read_interface(link);
    const char *failed =
        baseline_ring_open(&link->ways[BASELINE_FRAMES], (unsigned)link->mtu, RING_BYTES);
    if (failed != NULL) {
        fail(link, failed, "free memory or lower the MTU");
    }
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(BASELINE_ETHERTYPE),
                                  .sll_ifindex = link->ifindex};
    if (bind(link->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        fail(link, "binding to the interface", "");
    }
    link->scratch = baseline_buffer_new(BASELINE_FRAME_HEADERS + (size_t)link->mtu);
}

void baseline_link_close(struct baseline_link *link)
{
    free(link->scratch);
    for (int way = 0; way < BASELINE_WAYS; way++) {
        if (link->ways[way].ring.memory != NULL) {
            munmap(link->ways[way].ring.memory, link->ways[way].ring.bytes);
        }
        if (link->ways[way].fd >= 0) {
            close(link->ways[way].fd);
        }
    }
}

void baseline_header_encode(uint8_t *wire, const struct baseline_frame *frame)
{
    uint16_t magic = htons(BASELINE_MAGIC);
    uint32_t words[3] = {htonl(frame->number), htonl(frame->offset), htonl(frame->length)};
    uint64_t value = htobe64(frame->value);
    memcpy(wire, &magic, 2);
    wire[2] = (uint8_t)frame->type;
    wire[3] = 0;
    memcpy(wire + 4, words, 12);
    memcpy(wire + 16, &value, 8);
}

bool baseline_header_decode(const uint8_t *wire, struct baseline_frame *frame)
{
    uint16_t magic;
    uint32_t words[3];
    uint64_t value;
    memcpy(&magic, wire, 2);
    memcpy(words, wire + 4, 12);
    memcpy(&value, wire + 16, 8);
    frame->type = (enum baseline_type)wire[2];
    frame->number = ntohl(words[0]);
    frame->offset = ntohl(words[1]);
    frame->length = ntohl(words[2]);
    frame->value = be64toh(value);
    return magic == htons(BASELINE_MAGIC) && wire[2] >= BASELINE_HELLO && wire[2] <= BASELINE_BYE;
}

int baseline_frame_send(struct baseline_link *link, const struct baseline_frame *frame,
                        const uint8_t *payload, const uint8_t *to)
{
    uint8_t *head = link->scratch;
    uint16_t ethertype = htons(BASELINE_ETHERTYPE);
    size_t length = frame->type == BASELINE_DATA ? frame->length : 0;
    ssize_t sent;
    if (to != NULL) {
        memcpy(head, to, BASELINE_MAC_BYTES);
    } else {
        memset(head, 0xFF, BASELINE_MAC_BYTES);
    }
    memcpy(head + 6, link->mac, BASELINE_MAC_BYTES);
    memcpy(head + 12, &ethertype, 2);
    baseline_header_encode(head + 14, frame);
    do {
        if (length <= COPY_LIMIT_BYTES) {
            memcpy(head + BASELINE_FRAME_HEADERS, payload, length);
            sent = send(link->fd, head, BASELINE_FRAME_HEADERS + length, 0);
        } else {
            struct iovec parts[2] = {{head, BASELINE_FRAME_HEADERS}, {(void *)payload, length}};
            struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
            sent = sendmsg(link->fd, &message, 0);
        }
    } while (sent < 0 && (errno == ENOBUFS || errno == EINTR)); /* full device queue: again */
    return sent < 0 ? -errno : 0;
}

bool baseline_frame_receive(struct baseline_link *link, struct baseline_frame *frame,
                            uint8_t *buffer, uint32_t size)
{
    struct baseline_ring *ring = &link->ways[BASELINE_FRAMES].ring;
    size_t bytes;
    const uint8_t *data = baseline_ring_packet(ring, &bytes);
    if (data == NULL) {
        return false;
    }
    bool good = bytes >= BASELINE_FRAME_HEADERS && baseline_header_decode(data + 14, frame);
    if (good) {
        memcpy(frame->from, data + 6, BASELINE_MAC_BYTES);
        if (frame->type == BASELINE_DATA) {
            good = frame->length <= bytes - BASELINE_FRAME_HEADERS && frame->offset <= size &&
                   frame->length <= size - frame->offset;
            if (good) {
                memcpy(buffer + frame->offset, data + BASELINE_FRAME_HEADERS, frame->length);
            }
        }
    }
    baseline_ring_release(ring);
    return good;
}
