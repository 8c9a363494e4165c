/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives messages as plain frames and as TCP-shaped batches over AF_PACKET. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "baseline.h"
#include "linux/sys/rawe_interface.h"

/* Plain frames: AF_PACKET socket, the component's receive ring, one send() per frame. */

#define BASELINE_MAGIC 0xF100
#define RING_BYTES (2u << 20) /* small enough to stay in the cache */
/* Up to this size, copying the payload behind the headers is cheaper than a two-part sendmsg(). */
#define COPY_LIMIT_BYTES 2048u

static void fail(const struct baseline_link *link, const char *what, const char *remedy)
{
    fprintf(stderr, "baseline: %s: %s failed: %s%s%s\n",
            link->name[0] ? link->name : "no interface", what, strerror(errno),
            remedy[0] ? "; " : "", remedy);
    exit(1);
}

/* Choose the named interface, or the first Ethernet interface that is up. Waits, because an
 * interface may be reported as running only a second after it has a carrier. */
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

/* Convert a header to and from its BASELINE_HEADER_BYTES on the wire. Decoding returns false if the
 * frame is not ours. */
static void encode_header(uint8_t *wire, const struct baseline_frame *frame)
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

static bool decode_header(const uint8_t *wire, struct baseline_frame *frame)
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
    return magic == htons(BASELINE_MAGIC) && wire[2] >= BASELINE_PROBE && wire[2] <= BASELINE_DATA;
}

int baseline_frame_send(struct baseline_link *link, const struct baseline_frame *frame,
                        const uint8_t *payload)
{
    uint8_t *head = link->scratch;
    uint16_t ethertype = htons(BASELINE_ETHERTYPE);
    size_t length = frame->type == BASELINE_DATA ? frame->length : 0;
    ssize_t sent;
    memcpy(head, link->peer, BASELINE_MAC_BYTES);
    memcpy(head + 6, link->mac, BASELINE_MAC_BYTES);
    memcpy(head + 12, &ethertype, 2);
    encode_header(head + 14, frame);
    do {
        if (length <= COPY_LIMIT_BYTES) {
            memcpy(head + BASELINE_FRAME_HEADERS, payload, length);
            sent = send(link->fd, head, BASELINE_FRAME_HEADERS + length, 0);
        } else {
            struct iovec parts[2] = {{head, BASELINE_FRAME_HEADERS}, {(void *)payload, length}};
            struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
            sent = sendmsg(link->fd, &message, 0);
        }
    } while (sent < 0 && (errno == ENOBUFS || errno == EINTR)); /* the device queue is full */
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
    bool good = bytes >= BASELINE_FRAME_HEADERS && decode_header(data + 14, frame);
    if (good && frame->type == BASELINE_DATA) {
        good = frame->length <= bytes - BASELINE_FRAME_HEADERS && frame->offset <= size &&
               frame->length <= size - frame->offset;
    }
    if (good && frame->type == BASELINE_DATA) {
        memcpy(buffer + frame->offset, data + BASELINE_FRAME_HEADERS, frame->length);
    }
    rawe_ring_give_back(slot);
    return good;
}

/*
 * TCP-shaped batches: up to 64 kB of a message as one packet that looks like a TCP packet, so that
 * the NIC's TCP segmentation offload cuts it, and GRO merges the slices. Segmentation repeats all
 * headers and increments the sequence number: each slice has our header in a TCP option, and the
 * slice's offset in the message as its sequence number.
 */

#define PORT 34998          /* of all batches, both directions; batches for the ring use the next */
#define OPTION_KIND 253     /* RFC 4727: for experiments; RFC 6994: followed by an identifier */
#define OPTION_BYTES 40     /* all the space for options in a TCP header */
#define OPTION_EXID 0xF100u /* same value as the magic of plain frames */
#define HEADERS_BYTES (sizeof(struct iphdr) + sizeof(struct tcphdr) + OPTION_BYTES)
/* The kernel itself cuts packets longer than this, with Ethernet header (gso_max_size). */
#define PACKET_BYTES_MAX 65535u

/* The receiver's IP stack drops packets from this address without an answer. */
#define SOURCE_ADDRESS 0xFFFFFFFFu
#define DESTINATION_ADDRESS 0x00000002u
#define QUEUE_BYTES (32 << 20) /* receive queue; one message may be 4 MB */

/* The longest message whose batch fits a slot, and the memory for all slots. */
#define RING_MESSAGE_MAX 16384u
#define BATCH_RING_BYTES (4u << 20)

static int give_up(const struct baseline_link *link, int fd, const char *what)
{
    fprintf(stderr, "baseline: %s: batches left out: %s: %s\n", link->name, what, strerror(errno));
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static uint16_t port_of(enum baseline_way way)
{
    return way == BASELINE_RING ? PORT + 1 : PORT;
}

/* Open a packet socket for the batches of a way. Returns -1 after printing why it failed. */
static int open_socket(const struct baseline_link *link, enum baseline_way which,
                       struct baseline_way_state *way)
{
    /* Pass only ours: IPv4, TCP, from SOURCE_ADDRESS, to our port; offsets from the MAC header. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETHERTYPE_IP, 0, 7),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 26),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOURCE_ADDRESS, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port_of(which), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0x7FFFFFFF),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE_IP), .sll_ifindex = link->ifindex};
    struct rawe_port_error error;
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
    if (which == BASELINE_RING &&
        rawe_ring_open(&way->ring, fd,
                       sizeof(struct virtio_net_hdr) + HEADERS_BYTES + RING_MESSAGE_MAX,
                       BATCH_RING_BYTES, &error) != 0) {
        errno = error.code;
        return give_up(link, fd, error.step);
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

/* Write the Ethernet (14 bytes) and IPv4 headers of a packet with `bytes` behind them. Returns the
 * checksum of the pseudo-header, which the device completes for each segment. */
static uint16_t write_headers(const struct baseline_link *link, uint8_t *mac, struct iphdr *ip,
                              size_t bytes)
{
    uint16_t ethertype = htons(ETHERTYPE_IP);
    memcpy(mac, link->peer, BASELINE_MAC_BYTES);
    memcpy(mac + 6, link->mac, BASELINE_MAC_BYTES);
    memcpy(mac + 12, &ethertype, 2);
    *ip = (struct iphdr){.version = 4,
                         .ihl = 5,
                         .ttl = 1,
                         .protocol = IPPROTO_TCP,
                         .tot_len = htons((uint16_t)(sizeof(*ip) + bytes)),
                         .frag_off = htons(IP_DF),
                         .saddr = htonl(SOURCE_ADDRESS),
                         .daddr = htonl(DESTINATION_ADDRESS)};
    ip->check = (uint16_t)~fold(sum_words(ip, sizeof(*ip), 0));
    return fold(sum_words(&ip->saddr, 8, IPPROTO_TCP + (uint32_t)bytes));
}

/* The headers before the data. */
struct __attribute__((packed)) envelope {
    struct virtio_net_hdr offload;
    uint8_t mac[14];
    struct iphdr ip;
    struct tcphdr tcp;
    uint8_t option_kind;
    uint8_t option_bytes;
    uint16_t option_exid;
    uint8_t header[BASELINE_HEADER_BYTES]; /* of the whole batch */
    uint8_t option_rest[OPTION_BYTES - 4 - BASELINE_HEADER_BYTES];
};

void baseline_batch_open(struct baseline_link *link, enum baseline_way which)
{
    struct baseline_way_state *way = &link->ways[which];
    bool ring = which == BASELINE_RING;
    way->payload = (uint32_t)link->mtu - HEADERS_BYTES;
    way->pieces_max = ring ? (RING_MESSAGE_MAX + way->payload - 1) / way->payload
                           : (PACKET_BYTES_MAX - 14 - HEADERS_BYTES) / way->payload;
    way->message_max = ring ? RING_MESSAGE_MAX : UINT32_MAX;
    if (way->pieces_max < 2) {
        fprintf(stderr, "baseline: %s: TCP-shaped batches left out: MTU %d already fills one\n",
                link->name, link->mtu);
        return;
    }
    way->fd = open_socket(link, which, way);
}

/* Send the next batch of a message, from first->offset on and at most `left` bytes. Returns the
 * bytes sent, or -errno; sets *pieces to the number of segments. */
static int64_t send_batch(struct baseline_link *link, enum baseline_way which,
                          const struct baseline_frame *first, const uint8_t *message, uint32_t left,
                          uint32_t *pieces)
{
    const struct baseline_way_state *way = &link->ways[which];
    struct envelope envelope = {.option_kind = OPTION_KIND,
                                .option_bytes = OPTION_BYTES,
                                .option_exid = htons(OPTION_EXID)};
    struct baseline_frame batch = *first;
    struct iphdr ip;
    uint32_t most = way->payload * way->pieces_max;
    batch.length = left < most ? left : most;
    encode_header(envelope.header, &batch);
    size_t tcp_bytes = sizeof(struct tcphdr) + OPTION_BYTES + batch.length;
    uint16_t check = write_headers(link, envelope.mac, &ip, tcp_bytes);
    envelope.ip = ip;
    envelope.tcp = (struct tcphdr){.source = htons(port_of(which)),
                                   .dest = htons(port_of(which)),
                                   .seq = htonl(batch.offset),
                                   .doff = (sizeof(struct tcphdr) + OPTION_BYTES) / 4,
                                   .ack = 1,
                                   .check = check};
    envelope.offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    envelope.offload.csum_start = 14 + sizeof(struct iphdr);
    envelope.offload.csum_offset = offsetof(struct tcphdr, check);
    if (batch.length > way->payload) { /* the kernel refuses a batch of one slice */
        envelope.offload.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
        envelope.offload.hdr_len = 14 + HEADERS_BYTES;
        envelope.offload.gso_size = (uint16_t)way->payload;
    }
    struct iovec parts[2] = {{&envelope, sizeof(envelope)},
                             {(void *)(message + batch.offset), batch.length}};
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 2};
    *pieces = (batch.length + way->payload - 1) / way->payload;
    ssize_t sent;
    do {
        sent = sendmsg(way->fd, &head, 0);
    } while (sent < 0 && (errno == ENOBUFS || errno == EINTR)); /* the device is full */
    return sent < 0 ? -errno : (int64_t)batch.length;
}

/* Read the headers of merged slices, whose total length GRO has set. Returns false if the packet is
 * not ours, or exceeds the buffer. */
static bool describe(const struct baseline_way_state *way, const struct envelope *envelope,
                     size_t data_bytes, uint32_t size, struct baseline_frame *frame)
{
    if (envelope->option_kind != OPTION_KIND || envelope->option_exid != htons(OPTION_EXID) ||
        !decode_header(envelope->header, frame)) {
        return false;
    }
    uint32_t place = ntohl(envelope->tcp.seq);
    frame->value += (place - frame->offset) / way->payload;
    frame->offset = place;
    frame->length = ntohs(envelope->ip.tot_len) - (uint32_t)HEADERS_BYTES;
    return frame->length <= data_bytes && place <= size && frame->length <= size - place;
}

/* Receive a batch from the queue into buffer + guess. If an earlier batch was lost, move this one
 * to its proper offset; return false if it does not fit there. */
static bool receive_queued(const struct baseline_way_state *way, struct baseline_frame *frame,
                           uint8_t *buffer, uint32_t size, uint32_t guess)
{
    struct envelope envelope;
    struct iovec parts[2] = {{&envelope, sizeof(envelope)}, {buffer + guess, size - guess}};
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t received = recvmsg(way->fd, &head, MSG_DONTWAIT);
    if (received < (ssize_t)sizeof(envelope) ||
        !describe(way, &envelope, (size_t)received - sizeof(envelope), size, frame)) {
        return false;
    }
    if (frame->offset != guess) {
        memmove(buffer + frame->offset, buffer + guess, frame->length);
    }
    return true;
}

static bool receive_from_ring(struct baseline_way_state *way, struct baseline_frame *frame,
                              uint8_t *buffer, uint32_t size)
{
    struct envelope envelope;
    const size_t front = sizeof(envelope.offload);
    struct tpacket2_hdr *slot = rawe_ring_take(&way->ring);
    if (slot == NULL) {
        return false;
    }
    const uint8_t *packet = rawe_ring_frame(slot);
    const size_t bytes = slot->tp_snaplen;
    bool good = bytes >= sizeof(envelope) - front;
    if (good) {
        memcpy(&envelope, packet - front, sizeof(envelope));
        good = describe(way, &envelope, bytes + front - sizeof(envelope), size, frame);
    }
    if (good) {
        memcpy(buffer + frame->offset, packet + sizeof(envelope) - front, frame->length);
    }
    rawe_ring_give_back(slot);
    return good;
}

/* Receive a batch or a single segment; without a ring, straight into buffer + expected. Sets *frame
 * to the header of the first segment with the payload length of all, and *pieces to their number.
 * Returns false if the queue is empty. */
static bool receive_batch(struct baseline_link *link, enum baseline_way which,
                          struct baseline_frame *frame, uint8_t *buffer, uint32_t size,
                          uint32_t expected, uint32_t *pieces)
{
    struct baseline_way_state *way = &link->ways[which];
    bool good = way->ring.memory != NULL
                    ? receive_from_ring(way, frame, buffer, size)
                    : receive_queued(way, frame, buffer, size, expected < size ? expected : 0);
    if (good) {
        *pieces = (frame->length + way->payload - 1) / way->payload;
    }
    return good;
}

void baseline_drain(struct baseline_link *link)
{
    int fd = link->ways[BASELINE_BATCHES].fd;
    uint8_t byte;
    while (fd >= 0 && recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0) {
    }
    for (int way = 0; way < BASELINE_WAYS; way++) {
        struct rawe_ring *ring = &link->ways[way].ring;
        for (struct tpacket2_hdr *slot;
             ring->memory != NULL && (slot = rawe_ring_take(ring)) != NULL;) {
            rawe_ring_give_back(slot);
        }
    }
}

/* Messages of any size as plain frames or batches. */

/* Return the contents of a word of a message. All words are different. */
static uint32_t pattern_word(uint32_t index)
{
    return (index + 1) * 2654435761u;
}

uint8_t *baseline_pattern_new(uint32_t bytes)
{
    uint8_t *buffer = baseline_buffer_new(bytes);
    for (uint32_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t word = pattern_word(at / sizeof(uint32_t));
        memcpy(buffer + at, &word, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
    }
    return buffer;
}

uint32_t baseline_pattern_wrong(const uint8_t *buffer, uint32_t bytes)
{
    uint32_t wrong = 0;
    for (uint32_t at = 0; at < bytes; at++) {
        uint32_t word = pattern_word(at / sizeof(uint32_t));
        wrong += buffer[at] != ((const uint8_t *)&word)[at % sizeof(word)];
    }
    return wrong;
}

int baseline_piece_send(struct baseline_link *link, enum baseline_way way,
                        struct baseline_frame *cursor, const uint8_t *message, uint32_t length)
{
    uint32_t left = length - cursor->offset;
    if (way != BASELINE_FRAMES) {
        uint32_t count = 0;
        int64_t taken = send_batch(link, way, cursor, message, left, &count);
        if (taken < 0) {
            return (int)taken;
        }
        cursor->value += count;
        cursor->offset += (uint32_t)taken;
        return 0;
    }
    uint32_t most = link->ways[BASELINE_FRAMES].payload;
    cursor->length = left < most ? left : most;
    int error = baseline_frame_send(link, cursor, message + cursor->offset);
    if (error == 0) {
        cursor->value++;
        cursor->offset += cursor->length;
    }
    return error;
}

/* Record a piece of `length` payload bytes and `pieces` segments. Returns true if it completed its
 * message. */
static bool inbox_book(struct baseline_inbox *inbox, const struct baseline_frame *frame,
                       uint32_t pieces, uint32_t length)
{
    if ((int32_t)(frame->number - inbox->number) < 0) {
        return false; /* a late piece of an abandoned message */
    }
    if (frame->number != inbox->number) {
        inbox->number = frame->number;
        inbox->received = 0;
    }
    inbox->received += frame->length;
    inbox->bytes += frame->length;
    inbox->next = frame->offset + frame->length;
    if (inbox->next >= length) {
        inbox->next = 0;
    }
    if (frame->value + pieces > inbox->pieces) {
        inbox->pieces = frame->value + pieces;
    }
    return inbox->received == length;
}

uint64_t baseline_batches_poll(struct baseline_link *link, enum baseline_way way,
                               struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length)
{
    struct baseline_frame frame;
    uint32_t pieces = 1;
    uint64_t before = inbox->bytes;
    while (way != BASELINE_FRAMES &&
           receive_batch(link, way, &frame, buffer, length, inbox->next, &pieces)) {
        inbox_book(inbox, &frame, pieces, length);
    }
    return inbox->bytes - before;
}

int baseline_message_poll(struct baseline_link *link, enum baseline_way way,
                          struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length,
                          struct baseline_frame *frame, bool *done)
{
    uint32_t pieces = 1;
    *done = false;
    if (way != BASELINE_FRAMES &&
        receive_batch(link, way, frame, buffer, length, inbox->next, &pieces)) {
        *done = inbox_book(inbox, frame, pieces, length);
        return (int)frame->type;
    }
    if (!baseline_frame_receive(link, frame, buffer, length)) {
        return 0;
    }
    if (frame->type == BASELINE_DATA) {
        *done = inbox_book(inbox, frame, 1, length);
    }
    return (int)frame->type;
}
