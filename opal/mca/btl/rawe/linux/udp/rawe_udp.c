/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rawe_udp_batch.h"

#ifndef IP_UNICAST_IF
#define IP_UNICAST_IF 50
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

/** Send and receive buffers requested. Without CAP_NET_ADMIN, the system's limits apply. */
#define SEND_BUFFER_BYTES (4 << 20)
#define RECEIVE_BUFFER_BYTES (8 << 20)

/* ---- opening ---- */

/** Enlarge a buffer as far as permitted. Returns the size granted. */
static unsigned widen_buffer(int fd, int option_force, int option, int bytes)
{
    unsigned granted_bytes = 0;
    socklen_t len_bytes = sizeof granted_bytes;

    if (setsockopt(fd, SOL_SOCKET, option_force, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes);
    }
    (void)getsockopt(fd, SOL_SOCKET, option, &granted_bytes, &len_bytes);
    return granted_bytes;
}

/** Return the UDP port on which a port with this use receives. */
static uint16_t port_number(const struct rawe_port_config *config)
{
    return config->use == RAWE_PORT_RESPONDER ? config->ping_port : config->port;
}

/**
 * Let the kernel drop datagrams without our key, so that foreign ones neither use up the buffer nor
 * wake the responder's thread. Of datagrams that GRO has merged it checks the first, and without
 * memory for the filter none: is_ours decides.
 */
static void attach_filter(int fd, const struct rawe_port_config *config)
{
    const uint32_t at = sizeof(struct udphdr); /* a filter sees the UDP header first */
    const uint32_t other_key =
        config->use == RAWE_PORT_RESPONDER ? config->ping_key : config->key; /* PROBE: the key */
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, at),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAWE_UDP_BATCH_MARKER, 2, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + RAWE_OFFSET_KEY),
        BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + RAWE_BATCH_OFFSET_KEY),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config->key, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other_key, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = {.len = sizeof program / sizeof program[0], .filter = program};

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

/**
 * Send through the port's interface. Otherwise the kernel's first route to the receiver decides, and
 * of two interfaces in one subnet only one is used. No privilege is needed, except with IPv6 before
 * Linux 5.7, and to follow an interface whose driver was reloaded.
 */
static void pin_to_interface(int fd, const struct rawe_port_config *config, bool ipv6)
{
    const uint32_t index = htonl((uint32_t)config->interface_index);

    if (config->pinned && ipv6) { /* IPV6_UNICAST_IF would not prevail over a route's metric */
        (void)setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &config->interface_index,
                         sizeof config->interface_index);
    } else if (config->pinned) {
        (void)setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &index, sizeof index);
    }
}

/** Open a bound socket. Returns the descriptor, or -1 and the error. */
static int open_socket(const struct rawe_port_config *config, struct rawe_port_error *error)
{
    const union rawe_udp_address own = rawe_udp_address_of(config->address, port_number(config));
    const bool ipv6 = own.any.sa_family == AF_INET6;
    const int priority = config->priority, one = 1;
    /*
     * Never fragment, and let path discovery find the MTU instead of trusting ICMP (RFC 8899). IPv6
     * has the same value, and then sends nothing longer than the interface's MTU.
     */
    const int discover = IP_PMTUDISC_PROBE;
    const int fd = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return rawe_port_failed(error, "socket(SOCK_DGRAM)", errno);
    }
    /* Without UDP_GRO (Linux 5.0) each datagram takes a system call. */
    if (config->use != RAWE_PORT_RESPONDER) {
        (void)setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
    }
    if ((priority != 0 &&
         rawe_port_set_option(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority,
                              "setsockopt(SO_PRIORITY)", error) != 0) ||
        rawe_port_set_option(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                             ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &discover, sizeof discover,
                             "setsockopt(MTU_DISCOVER)", error) != 0) {
        close(fd);
        return -1;
    }
    attach_filter(fd, config);
    pin_to_interface(fd, config, ipv6);
    if (bind(fd, &own.any, sizeof own) != 0) {
        (void)rawe_port_failed(error, "bind to a UDP port", errno);
        close(fd);
        return -1;
    }
    return fd;
}

static bool poll_socket(struct rawe_port *port);

static int udp_open(struct rawe_port **out, const struct rawe_port_config *config,
                    struct rawe_port_error *error)
{
    struct rawe_udp *udp = calloc(1, sizeof *udp);
    const int fd = udp != NULL ? open_socket(config, error) : -1;

    *out = NULL;
    if (udp == NULL) {
        return rawe_port_failed(error, "malloc", ENOMEM);
    }
    if (fd < 0) {
        free(udp);
        return -1;
    }
    (void)widen_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER_BYTES);
    /*
     * The kernel also charges page fragments and struct sk_buff (1.1 to 1.5 times, and 0.8 kB). One
     * half is for frames, the other for batches.
     */
    const unsigned frames = widen_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RECEIVE_BUFFER_BYTES) / 2 /
                            (config->mtu_bytes * 3 / 2 + 1024);
    udp->config = *config;
    udp->port = (struct rawe_port){
        .word = &udp->waits,
        .mask = UINT32_MAX,
        .poll = poll_socket,
        .kind = config->kind,
        .fd = fd,
        .receive_frames = frames < 1 ? 1 : frames,
        .overhead_bytes = rawe_udp_overhead_bytes(config->address),
    };
    *out = &udp->port;
    return 0;
}

/** The socket is bound to an address, so it outlives the interface. */
static int udp_reopen(struct rawe_port *port, int interface_index, struct rawe_port_error *error)
{
    struct rawe_port_config *config = &((struct rawe_udp *)port)->config;

    (void)error;
    config->interface_index = interface_index;
    pin_to_interface(port->fd, config,
                     rawe_udp_address_of(config->address, 0).any.sa_family == AF_INET6);
    return 0;
}

static int udp_interface(const struct rawe_port *port)
{
    return ((const struct rawe_udp *)port)->config.interface_index;
}

static void udp_close(struct rawe_port *port)
{
    struct rawe_udp *udp = (struct rawe_udp *)port;

    close(port->fd);
    free(udp->current);
    while (udp->spare != NULL) {
        struct rawe_udp_received *next = udp->spare->next;
        free(udp->spare);
        udp->spare = next;
    }
    free(udp);
}

static void udp_read_counters(struct rawe_port *port, struct rawe_port_counters *counters)
{
    struct rawe_udp *udp = (struct rawe_udp *)port;
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t len_bytes = sizeof memory;

    if (getsockopt(port->fd, SOL_SOCKET, SO_MEMINFO, memory, &len_bytes) == 0) {
        udp->counters.ring_drops = memory[SK_MEMINFO_DROPS] + udp->refused;
    }
    *counters = udp->counters;
}

/* ---- received ---- */

void rawe_udp_note_source(struct rawe_udp_received *to)
{
    to->source_port = ntohs(to->from.ipv4.sin_port); /* IPv6 has it at the same place */
    to->unknown = false;
    if (to->from.any.sa_family == AF_INET) {
        rawe_udp_mac(to->source, (const uint8_t *)&to->from.ipv4.sin_addr);
    } else {
        to->unknown =
            !rawe_udp_ipv6_mac(to->source, to->from.ipv6.sin6_addr.s6_addr, RAWE_UDP_UNCHECKED);
    }
}

/** Receive into `to`. Returns false if no datagram is waiting. */
static bool receive_datagrams(const struct rawe_udp *udp, struct rawe_udp_received *to)
{
    struct iovec iov = {to->bytes + RAWE_ETH_HEADER_BYTES, RAWE_UDP_DATAGRAM_BYTES_MAX};
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
    ssize_t got_bytes;

    do {
        message = (struct msghdr){
            .msg_name = &to->from,
            .msg_namelen = sizeof to->from,
            .msg_iov = &iov,
            .msg_iovlen = 1,
            .msg_control = control,
            .msg_controllen = sizeof control,
        };
        got_bytes = recvmsg(udp->port.fd, &message, MSG_DONTWAIT);
    } while (got_bytes < 0 && errno == EINTR);
    if (got_bytes < 0) {
        return false;
    }
    to->len_bytes = to->segment_bytes = (size_t)got_bytes;
    to->at_bytes = 0;
    to->arrived_ns = rawe_port_arrival_clock_ns();
    rawe_udp_note_source(to);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        int segment_bytes;
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            memcpy(&segment_bytes, CMSG_DATA(c), sizeof segment_bytes);
            to->segment_bytes = segment_bytes > 0 ? (size_t)segment_bytes : to->segment_bytes;
        }
    }
    return true;
}

/** rawe_port.poll */
static bool poll_socket(struct rawe_port *port)
{
    struct rawe_udp *udp = (struct rawe_udp *)port;
    struct rawe_udp_received *to = udp->spare;

    if (udp->current != NULL) {
        return true;
    }
    if (to == NULL) {
        to = malloc(sizeof *to);
        if (to == NULL) {
            return false;
        }
        to->users = 0;
        to->next = NULL;
    }
    udp->spare = to->next;
    if (!receive_datagrams(udp, to)) {
        to->next = udp->spare;
        udp->spare = to;
        return false;
    }
    udp->current = to;
    __atomic_store_n(&udp->waits, 1, __ATOMIC_RELEASE);
    return true;
}

/** Return true if a port with this use takes a frame: what the filter decides for raw frames. */
static bool is_ours(const struct rawe_udp *udp, const uint8_t *header, size_t len_bytes)
{
    const struct rawe_port_config *config = &udp->config;
    uint8_t session[6], responder[6];

    if (len_bytes < RAWE_HEADER_BYTES || header[0] >> 4 != RAWE_FRAME_VERSION) {
        return false;
    }
    rawe_put16(session, config->port);
    rawe_put32(session + 2, config->key);
    rawe_put16(responder, config->ping_port);
    rawe_put32(responder + 2, config->ping_key);
    const uint8_t type = header[0] & 0xF;
    const bool ping = type == RAWE_FRAME_PING || type == RAWE_FRAME_PONG;
    const uint8_t *wanted = ping ? responder : session;
    const bool for_responder = ping || type == RAWE_FRAME_PROBE;
    const bool for_session = !ping && type != 0 && type < RAWE_FRAME_TYPE_END;

    return memcmp(header + RAWE_OFFSET_PORT, wanted, sizeof session) == 0 &&
           (config->use == RAWE_PORT_RESPONDER ? for_responder : for_session);
}

/**
 * Hand a datagram over as a frame. Its Ethernet header takes the place of bytes before it, which
 * may be in use by the callback that led to this one.
 */
static void hand_over_frame(const struct rawe_udp *udp, const struct rawe_udp_received *from,
                            uint8_t *frame, size_t len_bytes,
                            const struct rawe_port_receiver *receiver, void *context)
{
    uint8_t before[RAWE_ETH_HEADER_BYTES];

    memcpy(before, frame, sizeof before);
    rawe_eth_header_encode(frame, udp->config.address, from->source, udp->config.ethertype);
    if (receiver->arrived != NULL) {
        receiver->arrived(context, from->arrived_ns, from->source_port);
    }
    receiver->frame(context, frame, RAWE_ETH_HEADER_BYTES + len_bytes);
    memcpy(frame, before, sizeof before);
}

/** Make a MAC address stand for a sender that has the key. Returns false if there are too many. */
static bool admit_sender(struct rawe_udp *udp, struct rawe_udp_received *from)
{
    from->unknown =
        !rawe_udp_ipv6_mac(from->source, from->from.ipv6.sin6_addr.s6_addr, RAWE_UDP_HEARD);
    udp->refused += from->unknown;
    return !from->unknown;
}

/** Hand over what begins at `frame`: a frame or a packet. Returns the number of frames. */
static unsigned hand_over(struct rawe_udp *udp, struct rawe_udp_received *from, uint8_t *frame,
                          size_t len_bytes, const struct rawe_port_receiver *receiver,
                          void *context)
{
    uint8_t *bytes = frame + RAWE_ETH_HEADER_BYTES;
    const bool batch = receiver->packet != NULL && rawe_udp_is_batch(udp, bytes, len_bytes);

    if ((!batch && !is_ours(udp, bytes, len_bytes)) ||
        (from->unknown && !admit_sender(udp, from))) {
        return 0;
    }
    if (batch) {
        return rawe_udp_hand_over_packet(udp, from, bytes, len_bytes, receiver, context);
    }
    hand_over_frame(udp, from, frame, len_bytes, receiver, context);
    return 1;
}

/** Return the length of the next datagram, or of all that form one packet of a batch with it. */
static size_t next_bytes(const struct rawe_udp *udp, const struct rawe_udp_received *from)
{
    const uint8_t *bytes = from->bytes + RAWE_ETH_HEADER_BYTES + from->at_bytes;
    const size_t left_bytes = from->len_bytes - from->at_bytes;
    const size_t len_bytes = left_bytes < from->segment_bytes ? left_bytes : from->segment_bytes;

    return rawe_udp_is_batch(udp, bytes, len_bytes)
               ? rawe_udp_packet_bytes(bytes, left_bytes, from->segment_bytes)
               : len_bytes;
}

static unsigned udp_receive(struct rawe_port *port, unsigned budget,
                            const struct rawe_port_receiver *receiver, void *context)
{
    struct rawe_udp *udp = (struct rawe_udp *)port;
    unsigned frames = 0;

    /* One system call at most: frames already received must not wait for another. */
    for (unsigned taken = 0;
         taken < budget && (taken == 0 ? poll_socket(port) : udp->current != NULL); taken++) {
        struct rawe_udp_received *from = udp->current;
        uint8_t *frame = from->bytes + from->at_bytes;
        const size_t len_bytes = next_bytes(udp, from);
        /* Do this before the callback, which may receive from this port. */
        from->users++;
        from->at_bytes += len_bytes;
        if (from->at_bytes == from->len_bytes) {
            udp->current = NULL;
            udp->waits = 0;
        }
        const unsigned handed = hand_over(udp, from, frame, len_bytes, receiver, context);
        udp->counters.frames_received += handed;
        frames += handed;
        if (--from->users == 0 && from->at_bytes == from->len_bytes) {
            from->next = udp->spare;
            udp->spare = from;
        }
    }
    return frames;
}

/* ---- sent ---- */

/** Return how many frames the kernel can cut from one datagram: all but the last of one length. */
static unsigned segment_count(const struct rawe_frame *frames, unsigned count)
{
    const unsigned most = rawe_udp_segments_max(frames[0].len_bytes - RAWE_ETH_HEADER_BYTES);
    unsigned segments = 1;

    while (segments < count && segments < most &&
           frames[segments].len_bytes <= frames[0].len_bytes &&
           frames[segments - 1].len_bytes == frames[0].len_bytes) {
        segments++;
    }
    return segments;
}

static uint8_t frame_type(const struct rawe_frame *frame)
{
    const uint8_t *header = (const uint8_t *)frame->pieces[0].base + RAWE_ETH_HEADER_BYTES;

    return header[RAWE_OFFSET_VERSION_TYPE] & 0xF;
}

/**
 * Return the socket for a frame: the link's for a PONG, although PINGs go to the responder's port. A
 * firewall that only lets answers pass drops such a PONG, so path discovery finds no path. It would
 * drop data after a pause.
 */
static int socket_for(const struct rawe_udp *udp, const struct rawe_frame *frame)
{
    const bool by_link = udp->config.link != NULL && frame_type(frame) == RAWE_FRAME_PONG;

    return by_link ? udp->config.link->fd : udp->port.fd;
}

/** Send frames in one system call, to the first one's port or `above` it. */
static enum rawe_udp_sent send_segments(struct rawe_udp *udp, const struct rawe_frame *frames,
                                        unsigned count, uint16_t above)
{
    const uint8_t *head = frames[0].pieces[0].base;
    const uint16_t port = rawe_udp_port_of(head + RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_PORT);
    union rawe_udp_address to = rawe_udp_address_of(head, (uint16_t)(port + above));
    struct iovec iov[RAWE_UDP_SEGMENTS_MAX * RAWE_FRAME_PIECES_MAX];
    size_t iov_count = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct rawe_bytes *pieces = frames[i].pieces;
        iov[iov_count++] = (struct iovec){(uint8_t *)pieces[0].base + RAWE_ETH_HEADER_BYTES,
                                          pieces[0].len_bytes - RAWE_ETH_HEADER_BYTES};
        for (unsigned j = 1; j < frames[i].piece_count; j++) {
            iov[iov_count++] = (struct iovec){pieces[j].base, pieces[j].len_bytes};
        }
    }
    return rawe_udp_send(udp, socket_for(udp, frames), &to, iov, iov_count,
                         count > 1 ? (uint16_t)(frames[0].len_bytes - RAWE_ETH_HEADER_BYTES) : 0,
                         above == 0 ? count : 0);
}

static unsigned udp_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct rawe_udp *udp = context;
    unsigned taken = 0;

    while (taken < count) {
        const unsigned segments =
            rawe_udp_cuts(udp) ? segment_count(frames + taken, count - taken) : 1;
        const enum rawe_udp_sent sent = send_segments(udp, frames + taken, segments, 0);
        if (sent == RAWE_UDP_FULL) {
            break;
        }
        if (sent == RAWE_UDP_UNCUT) {
            continue;
        }
        if (count == 1 && frame_type(frames) == RAWE_FRAME_PROBE) {
            (void)send_segments(udp, frames, 1, 1);
        }
        taken += segments;
    }
    return taken;
}

const struct rawe_port_kind rawe_udp_port = {
    .open = udp_open,
    .reopen = udp_reopen,
    .interface = udp_interface,
    .close = udp_close,
    .receive = udp_receive,
    .transmit = udp_transmit,
    .read_counters = udp_read_counters,
};
