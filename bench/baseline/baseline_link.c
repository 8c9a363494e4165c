/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain frames: AF_PACKET socket, the component's receive ring, one send() a frame. */
#include "baseline.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "linux/sys/rawe_interface.h"

#define BASELINE_MAGIC 0xF100
#define RING_BYTES (2u << 20) /* small enough to stay in the cache */
/* Up to here copying the payload behind the headers is cheaper than sendmsg() with two parts. */
#define COPY_LIMIT_BYTES 2048u

static void fail(const struct baseline_link *link, const char *what, const char *remedy)
{
    fprintf(stderr, "baseline: %s: %s failed: %s%s%s\n",
            link->name[0] ? link->name : "no interface", what, strerror(errno),
            remedy[0] ? "; " : "", remedy);
    exit(1);
}

/* The interface that is named, or the first Ethernet one that is up. It counts as running up to a
 * second after its carrier came: hence the patience. */
static void choose_interface(struct baseline_link *link, const struct baseline_options *options)
{
    struct rawe_interface *list;
    char unknown[sizeof(link->name)];
    unsigned count;
    double start = baseline_now();
    for (;;) {
        if (rawe_interface_list(&list, &count) != 0) {
            fail(link, "listing the interfaces", "");
        }
        if (rawe_interface_select(list, count, options->interface, NULL, unknown, sizeof(unknown)) >
            0) {
            break;
        }
        free(list);
        if (options->interface != NULL || baseline_now() - start > options->wait_seconds) {
            fprintf(stderr,
                    "baseline: this host has no %s%s; bring one up (ip link set NAME up) or name "
                    "one with --interface ('ip link' lists them)\n",
                    options->interface != NULL ? "interface " : "Ethernet interface that is up",
                    options->interface != NULL ? options->interface : "");
            exit(1);
        }
        usleep(50000);
    }
    snprintf(link->name, sizeof(link->name), "%s", list[0].name);
    link->ifindex = list[0].index;
    link->mtu = (int)list[0].mtu_bytes;
    memcpy(link->mac, list[0].mac, BASELINE_MAC_BYTES);
    free(list);
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
    *link = (struct baseline_link){.fd = -1};
    for (int way = 0; way < BASELINE_WAYS; way++) {
        link->ways[way].fd = -1;
    }
    link->fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (link->fd < 0) {
        fail(link, "opening a packet socket",
             "run as root or give the program CAP_NET_RAW (setcap cap_net_raw+ep)");
    }
    choose_interface(link, options);
    struct baseline_way_state *frames = &link->ways[BASELINE_FRAMES];
    struct rawe_port_error error;
    *frames = (struct baseline_way_state){
        .fd = link->fd,
        .payload = (uint32_t)link->mtu - BASELINE_HEADER_BYTES,
        .pieces_max = 1,
        .message_max = UINT32_MAX,
    };
    if (rawe_ring_open(&frames->ring, link->fd, (uint32_t)link->mtu, RING_BYTES, &error) != 0) {
        errno = error.code;
        fail(link, error.step, "free memory or lower the MTU");
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
        rawe_ring_close(&link->ways[way].ring);
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
    struct tpacket2_hdr *slot = rawe_ring_take(&link->ways[BASELINE_FRAMES].ring);
    if (slot == NULL) {
        return false;
    }
    const uint8_t *data = rawe_ring_frame(slot);
    const size_t bytes = slot->tp_snaplen;
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
    rawe_ring_give_back(slot);
    return good;
}
