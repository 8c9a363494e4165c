/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../sys/rawe_interface.h"
#include "../sys/rawe_service.h"
#include "rawe_helper.h"

/** Send buffer, for a long queue on a slow port. For bulk ports, see rawe_txqueue.c. */
#define SEND_BUFFER_BYTES (4 << 20)

/** Receive buffer requested for a bulk port. */
#define QUEUE_BYTES (8 << 20)

/** Batch packets of up to this length after the Ethernet header fit the bulk ring's slots. */
#define BULK_SLOT_BYTES_MAX (RAWE_FILTER_MIDDLE_MIN - 1 - RAWE_ETH_HEADER_BYTES)

/** Slots of the middle port hold every packet that passes its filter. */
#define MIDDLE_SLOT_BYTES (RAWE_FILTER_MIDDLE_MAX - RAWE_ETH_HEADER_BYTES)

/** Packets in the middle port's slots usually contain at least this many frames; some have two. */
#define MIDDLE_SLOT_FRAMES 3u

/** Number of bytes of a frame that a responder keeps: the rest of a PING is padding. */
#define RESPONDER_SLOT_BYTES (RAWE_HEADER_BYTES + RAWE_PING_BYTES)

_Static_assert(offsetof(struct tpacket2_hdr, tp_status) == 0, "rawe_port.word is this word");
_Static_assert(sizeof(struct rawe_bytes) == sizeof(struct iovec) &&
                   offsetof(struct rawe_bytes, base) == offsetof(struct iovec, iov_base) &&
                   offsetof(struct rawe_bytes, len_bytes) == offsetof(struct iovec, iov_len),
               "a frame's pieces are handed to the kernel as they are");

/* ---- opening ---- */

/** Enlarge a buffer, if possible. FORCE exceeds the system's limit but needs CAP_NET_ADMIN. */
static void widen_buffer(int fd, int option_force, int option, int bytes)
{
    if (setsockopt(fd, SOL_SOCKET, option_force, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes);
    }
}

static bool is_group(const uint8_t *mac)
{
    return (mac[0] & 1) != 0;
}

/** Make the NIC receive frames to the group until the socket is closed. */
static int join_group(int fd, const struct rawe_port_config *config, struct rawe_port_error *error)
{
    struct packet_mreq request = {.mr_ifindex = config->interface_index,
                                  .mr_type = PACKET_MR_MULTICAST,
                                  .mr_alen = sizeof config->group};

    memcpy(request.mr_address, config->group, sizeof config->group);
    return rawe_port_set_option(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request,
                                "setsockopt(PACKET_ADD_MEMBERSHIP)", error);
}

/**
 * Return true for a port that is bound after the other batch port. When packets arrive as a list,
 * the socket that was bound first gets its packets last (__netif_receive_skb_list_core). So the end
 * of a batch can arrive before its beginning, which the peer must acknowledge at once. With an MTU
 * of 1500, single frames are for the bulk port, and so are the ends of batches. Longer frames are
 * for the middle port.
 */
static bool is_bound_last(const struct rawe_port_config *config)
{
    return config->use ==
           (config->mtu_bytes <= BULK_SLOT_BYTES_MAX ? RAWE_PORT_MIDDLE : RAWE_PORT_BULK);
}

/** Open a socket with its filter, by the helper if we may not open one ourselves. */
static int open_filtered(const struct rawe_port_config *config, struct rawe_port_error *error)
{
    /* With protocol 0 a packet socket receives nothing until it is bound. */
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        *error = (struct rawe_port_error){"socket(AF_PACKET)", errno};
        /* The helper opens no sockets for groups. */
        return errno == EPERM && !is_group(config->group) ? rawe_helper_open(config, NULL, 0, error)
                                                          : -1;
    }
    if (rawe_filter_attach(fd, config, error) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int rawe_packet_open_socket(struct rawe_ring *ring, const struct rawe_port_config *config,
                            uint32_t slot_data_bytes, size_t ring_bytes,
                            struct rawe_port_error *error)
{
    const int fd = open_filtered(config, error);
    const int priority = config->priority, one = 1;

    ring->memory = NULL;
    if (fd < 0) {
        return -1;
    }
    widen_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER_BYTES);
    /*
     * Set up filter and ring before binding, so that the first frame already passes both. The
     * helper's socket is already bound; when it gets the ring, the frames in its queue are dropped
     * (packet_set_ring), except a bulk or middle port's. A priority up to 6 needs no privilege
     * (sk_setsockopt).
     */
    if ((priority != 0 &&
         rawe_port_set_option(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority,
                              "setsockopt(SO_PRIORITY)", error) != 0) ||
        /* A header before each packet of a batch, in and out, tells how the packet is cut. */
        (rawe_port_use_is_bulk(config->use) &&
         rawe_port_set_option(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one,
                              "setsockopt(PACKET_VNET_HDR)", error) != 0) ||
        /* Packets too long for their slot are also queued, for recvmsg. */
        (config->use == RAWE_PORT_BULK &&
         rawe_port_set_option(fd, SOL_PACKET, PACKET_COPY_THRESH, &one, sizeof one,
                              "setsockopt(PACKET_COPY_THRESH)", error) != 0) ||
        rawe_ring_open(ring, fd, slot_data_bytes, ring_bytes, error) != 0 ||
        (!is_bound_last(config) && rawe_filter_bind(fd, config, error) != 0) ||
        (is_group(config->group) && join_group(fd, config, error) != 0)) {
        rawe_ring_close(ring);
        close(fd);
        return -1;
    }
    return fd;
}

/** Return how many frames the ring can hold and, for bulk, the queue. */
static unsigned receive_frames(const struct rawe_packet *packet, int fd)
{
    const unsigned slots =
        packet->ring.geometry.slots_per_block * packet->ring.geometry.block_count;
    unsigned granted_bytes = 0;
    socklen_t len_bytes = sizeof granted_bytes;

    if (packet->config.use != RAWE_PORT_BULK) {
        return packet->config.use == RAWE_PORT_MIDDLE ? slots * MIDDLE_SLOT_FRAMES : slots;
    }
    /* The kernel also charges page fragments and struct sk_buff (1.1 to 1.5 times, and 0.8 kB). */
    const size_t charge_bytes = (size_t)packet->config.mtu_bytes * 3 / 2 + 1024;
    widen_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, QUEUE_BYTES);
    (void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted_bytes, &len_bytes);
    const size_t frames = granted_bytes / charge_bytes;
    const unsigned least = frames < slots ? (unsigned)frames : slots;
    return least < 1 ? 1 : least;
}

/** Set the send buffer, which the kernel doubles and charges until the NIC has sent the packet. */
static void fit_send_buffer(struct rawe_packet *packet)
{
    widen_buffer(packet->port.fd, SO_SNDBUFFORCE, SO_SNDBUF, (int)packet->txqueue.limit_bytes / 2);
    packet->port.batch_bytes = rawe_txqueue_batch_bytes(&packet->txqueue);
}

static void point_at_next(struct rawe_packet *packet)
{
    packet->port.word = &packet->ring.next->tp_status;
}

/** Open socket and ring for the port's use. Returns the descriptor, or -1 and the error. */
static int open_ring(struct rawe_ring *ring, const struct rawe_port_config *config,
                     struct rawe_port_error *error)
{
    const uint32_t mtu_bytes = config->mtu_bytes;
    uint32_t slot_bytes = mtu_bytes;
    size_t ring_bytes = config->ring_bytes;

    if (config->use == RAWE_PORT_RESPONDER) {
        slot_bytes = RESPONDER_SLOT_BYTES;
        ring_bytes = RAWE_RING_RESPONDER_BYTES;
    } else if (config->use == RAWE_PORT_BULK) {
        slot_bytes = mtu_bytes < BULK_SLOT_BYTES_MAX ? mtu_bytes : BULK_SLOT_BYTES_MAX;
    } else if (config->use == RAWE_PORT_MIDDLE) {
        slot_bytes = MIDDLE_SLOT_BYTES;
        ring_bytes = config->middle_ring_bytes != 0 ? config->middle_ring_bytes : ring_bytes;
    }
    if (rawe_port_use_is_bulk(config->use)) {
        slot_bytes += (uint32_t)sizeof(struct virtio_net_hdr);
    }
    return rawe_packet_open_socket(ring, config, slot_bytes, ring_bytes, error);
}

static void packet_close(struct rawe_port *port)
{
    struct rawe_packet *packet = (struct rawe_packet *)port;

    rawe_port_close(port->beside);
    rawe_ring_close(&packet->ring);
    close(port->fd);
    free(packet->scratch);
    free(packet);
}

static int open_one(struct rawe_port **out, const struct rawe_port_config *config,
                    struct rawe_port_error *error)
{
    const bool bulk = config->use == RAWE_PORT_BULK;
    struct rawe_packet *packet = calloc(1, sizeof *packet);

    *out = NULL;
    if (packet == NULL) {
        return rawe_port_failed(error, "malloc", ENOMEM);
    }
    packet->config = *config;
    const int fd = open_ring(&packet->ring, config, error);
    if (fd < 0) {
        free(packet);
        return -1;
    }
    packet->port = (struct rawe_port){
        .mask = TP_STATUS_USER,
        .kind = config->kind,
        .fd = fd,
        .receive_frames = receive_frames(packet, fd),
        .overhead_bytes = bulk ? RAWE_PACKET_OVERHEAD_BYTES : 0,
        .offloaded = bulk && (config->loopback || rawe_interface_cuts_batches(config->interface)),
    };
    point_at_next(packet);
    if (bulk) {
        rawe_txqueue_init(&packet->txqueue);
        fit_send_buffer(packet);
    }
    *out = &packet->port;
    return 0;
}

static void open_now(struct rawe_port_opening *opening)
{
    if (rawe_port_open(&opening->port, &opening->config, &opening->error) != 0) {
        opening->port = NULL;
    }
}

static void *opening_main(void *opening)
{
    open_now(opening);
    return NULL;
}

void rawe_port_open_begin(struct rawe_port_opening *opening)
{
    opening->threaded =
        rawe_service_create_thread(&opening->thread, opening_main, opening, "rawe-open") == 0;
    if (!opening->threaded) {
        open_now(opening);
    }
}

struct rawe_port *rawe_port_open_end(struct rawe_port_opening *opening)
{
    if (opening->threaded) {
        pthread_join(opening->thread, NULL);
    }
    return opening->port;
}

/** Bind whichever of an open bulk port and its middle port is bound last. */
static int bind_last(const struct rawe_port *bulk, struct rawe_port_error *error)
{
    const struct rawe_packet *packet = (const struct rawe_packet *)bulk;

    if (!is_bound_last(&packet->config)) {
        packet = (const struct rawe_packet *)bulk->beside;
    }
    return rawe_filter_bind(packet->port.fd, &packet->config, error);
}

/** Open a bulk port and its middle port. */
static int open_both(struct rawe_port **out, const struct rawe_port_config *config,
                     struct rawe_port_error *error)
{
    struct rawe_port_opening middle = {.config = *config};
    struct rawe_port *port;

    middle.config.use = RAWE_PORT_MIDDLE;
    rawe_port_open_begin(&middle);
    const int status = open_one(&port, config, error);
    struct rawe_port *beside = rawe_port_open_end(&middle);
    if (status != 0 || beside == NULL) {
        *error = status != 0 ? *error : middle.error;
        rawe_port_close(port);
        rawe_port_close(beside);
        return -1;
    }
    port->beside = beside;
    if (bind_last(port, error) != 0) {
        rawe_port_close(port);
        return -1;
    }
    if (beside->receive_frames < port->receive_frames) {
        port->receive_frames = beside->receive_frames;
    }
    *out = port;
    return 0;
}

static int packet_open(struct rawe_port **out, const struct rawe_port_config *config,
                       struct rawe_port_error *error)
{
    *out = NULL;
    return (config->use == RAWE_PORT_BULK ? open_both : open_one)(out, config, error);
}

static int reopen_one(struct rawe_port *port, int interface_index, struct rawe_port_error *error)
{
    struct rawe_packet *packet = (struct rawe_packet *)port;
    struct rawe_port_config config = packet->config;
    struct rawe_ring ring;

    config.interface_index = interface_index;
    config.once = true; /* the caller retries and must not be blocked */
    const int fd = open_ring(&ring, &config, error);
    if (fd < 0) {
        return -1;
    }
    if (dup3(fd, port->fd, O_CLOEXEC) < 0) {
        *error = (struct rawe_port_error){"dup3", errno};
        rawe_ring_close(&ring);
        close(fd);
        return -1;
    }
    close(fd);
    rawe_ring_close(&packet->ring);
    packet->ring = ring;
    packet->config = config;
    port->receive_frames = receive_frames(packet, port->fd);
    point_at_next(packet);
    if (config.use == RAWE_PORT_BULK) {
        fit_send_buffer(packet);
    }
    return 0;
}

static int packet_reopen(struct rawe_port *port, int interface_index, struct rawe_port_error *error)
{
    if (port->beside == NULL) {
        return reopen_one(port, interface_index, error);
    }
    /* Reopen the middle port first: if only this fails, the bulk port is unchanged. */
    if (reopen_one(port->beside, interface_index, error) != 0) {
        return -1;
    }
    const int status = reopen_one(port, interface_index, error);
    /* Even if that has failed, the new middle port receives beside the old bulk port. */
    return bind_last(port, error) != 0 ? -1 : status;
}

/** Replace the filter, keeping waiting frames. The kernel does it at once, without a gap. */
static int packet_renew_filter(struct rawe_port *port, struct rawe_port_error *error)
{
    const struct rawe_packet *packet = (const struct rawe_packet *)port;

    return port->beside != NULL && packet_renew_filter(port->beside, error) != 0
               ? -1
               : rawe_filter_attach(port->fd, &packet->config, error);
}

static int packet_interface(const struct rawe_port *port)
{
    struct sockaddr_ll address;
    socklen_t len_bytes = sizeof address;

    /* The kernel unbinds a socket from an interface that is unregistered (packet_notifier). */
    return getsockname(port->fd, (void *)&address, &len_bytes) == 0 ? address.sll_ifindex : -1;
}

static void packet_read_counters(struct rawe_port *port, struct rawe_port_counters *counters)
{
    struct rawe_packet *packet = (struct rawe_packet *)port;
    struct tpacket_stats stats;
    socklen_t len_bytes = sizeof stats;

    /* Reading resets the kernel's counters. */
    if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len_bytes) == 0) {
        packet->counters.ring_drops += stats.tp_drops;
    }
    *counters = packet->counters;
    if (port->beside != NULL) {
        struct rawe_port_counters beside;
        packet_read_counters(port->beside, &beside);
        counters->frames_received += beside.frames_received;
        counters->ring_drops += beside.ring_drops;
        counters->damaged += beside.damaged;
    }
}

/* ---- frames ---- */

/** Add to a counter. Several threads may transmit through a responder; lost counts are harmless. */
static void add_to_counter(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

static unsigned packet_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct rawe_packet *packet = context;
    unsigned taken = 0;

    while (taken < count) {
        const struct rawe_bytes *pieces = frames[taken].pieces;
        const struct msghdr message = {
            .msg_iov = (struct iovec *)(uintptr_t)pieces,
            .msg_iovlen = frames[taken].piece_count,
        };
        const ssize_t sent_bytes =
            frames[taken].piece_count == 1
                ? send(packet->port.fd, pieces[0].base, pieces[0].len_bytes, MSG_DONTWAIT)
                : sendmsg(packet->port.fd, &message, MSG_DONTWAIT);
        if (sent_bytes >= 0) {
            add_to_counter(&packet->counters.frames_sent, 1);
            taken++;
            continue;
        }
        const int code = errno;
        if (code == EINTR) {
            continue;
        }
        if (code == EAGAIN || code == ENOBUFS) {
            add_to_counter(&packet->counters.send_full, 1);
            break;
        }
        add_to_counter(&packet->counters.send_errors, 1);
        taken++;
    }
    return taken;
}

/* ---- batches, received ---- */

/** Call recvmsg. It also reports, once, that the interface went down (ENETDOWN). */
static bool dequeue_packet(int fd, struct iovec *iov, size_t iov_count, size_t len_bytes)
{
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = iov_count};

    for (;;) {
        struct msghdr received = message;
        const ssize_t got_bytes = recvmsg(fd, &received, MSG_DONTWAIT);
        if (got_bytes >= 0) {
            return (size_t)got_bytes == len_bytes;
        }
        if (errno != EINTR && errno != ENETDOWN) {
            return false;
        }
    }
}

/** The result of receiving a packet. */
enum outcome {
    TAKEN,
    DAMAGED,
    LOST /**< no room for the whole packet, or no memory */
};

/** Accept a packet whose data is at `data`. */
static enum outcome accept_packet(const struct rawe_enveloped *batch, const uint8_t *data,
                                  const struct rawe_port_receiver *receiver, void *context)
{
    if (!rawe_envelope_intact(batch, data)) {
        return DAMAGED;
    }
    receiver->packet(context, batch->bytes + RAWE_MAC_BYTES, batch->bytes + RAWE_FILTER_BULK_OFFSET,
                     RAWE_BATCH_HEADER_BYTES, data, batch->data_bytes);
    return TAKEN;
}

/**
 * Receive the queued packet; LOST also if that is a different packet. An unverified packet has no
 * place, because its header may be damaged.
 */
static enum outcome receive_queued(struct rawe_packet *packet, const struct rawe_enveloped *batch,
                                   const struct rawe_port_receiver *receiver, void *context)
{
    uint8_t *place = batch->data_bytes > RAWE_PACKET_SCRATCH_BYTES || !batch->verified
                         ? NULL
                         : receiver->place(context, batch->bytes + RAWE_MAC_BYTES,
                                           batch->bytes + RAWE_FILTER_BULK_OFFSET,
                                           RAWE_BATCH_HEADER_BYTES, batch->data_bytes);
    uint8_t *scratch = NULL, *data = place;
    size_t room_bytes = batch->data_bytes < RAWE_PACKET_SCRATCH_BYTES ? batch->data_bytes
                                                                      : RAWE_PACKET_SCRATCH_BYTES;

    if (place == NULL) {
        /* Callbacks may receive from the port, so it must not use this memory meanwhile. */
        scratch = packet->scratch != NULL ? packet->scratch : malloc(RAWE_PACKET_SCRATCH_BYTES);
        packet->scratch = NULL;
        data = scratch;
    }
    struct iovec iov[] = {{&packet->envelope, sizeof packet->envelope},
                          {data, data != NULL ? room_bytes : 0}};
    const bool whole =
        dequeue_packet(packet->port.fd, iov, 2, sizeof packet->envelope + batch->data_bytes) &&
        memcmp(packet->envelope.packet, batch->bytes, RAWE_ENVELOPE_HEAD_BYTES) == 0 &&
        data != NULL;
    const enum outcome outcome = whole ? accept_packet(batch, data, receiver, context) : LOST;

    if (scratch != NULL) {
        free(packet->scratch); /* returned by a callback */
        packet->scratch = scratch;
    }
    return outcome;
}

/** Drop a slot's queued packet, so that the next one belongs to the next slot. */
static void drop_queued(struct rawe_packet *packet, const struct tpacket2_hdr *slot)
{
    struct iovec iov = {&packet->envelope, sizeof packet->envelope};

    if ((slot->tp_status & TP_STATUS_COPY) != 0) {
        (void)dequeue_packet(packet->port.fd, &iov, 1, 0);
    }
}

/** Receive a packet. Returns its number of frames. */
static unsigned receive_slot(struct rawe_packet *packet, struct tpacket2_hdr *slot,
                             const struct rawe_port_receiver *receiver, void *context)
{
    const bool queued = (slot->tp_status & TP_STATUS_COPY) != 0;
    enum outcome outcome = LOST;
    struct rawe_enveloped batch;

    if (!rawe_envelope_read(&batch, rawe_ring_frame(slot), slot->tp_snaplen, slot->tp_len)) {
        drop_queued(packet, slot);
        packet->counters.damaged++;
        return 0;
    }
    if (queued) {
        outcome = receive_queued(packet, &batch, receiver, context);
    } else if (batch.present_bytes >= batch.data_bytes) {
        outcome = accept_packet(&batch, batch.bytes + RAWE_ENVELOPE_HEAD_BYTES, receiver, context);
    }
    if (outcome != TAKEN) {
        ++*(outcome == DAMAGED ? &packet->counters.damaged : &packet->counters.ring_drops);
        return 0;
    }
    packet->counters.frames_received += batch.frames;
    return batch.frames;
}

static bool is_earlier(const struct tpacket2_hdr *a, const struct tpacket2_hdr *b)
{
    return a->tp_sec < b->tp_sec || (a->tp_sec == b->tp_sec && a->tp_nsec < b->tp_nsec);
}

/**
 * Return whichever of the port and the middle port has the earliest packet; NULL: neither has one.
 * Once a packet is seen in one ring, all packets that arrived before it are visible in the other.
 */
static struct rawe_packet *find_earliest(struct rawe_packet *packet)
{
    struct rawe_packet *beside = (struct rawe_packet *)packet->port.beside;
    bool waits = rawe_port_pending_itself(&packet->port);

    if (beside == NULL || !rawe_port_pending_itself(&beside->port)) {
        return waits ? packet : NULL;
    }
    waits = rawe_port_pending_itself(&packet->port);
    return waits && is_earlier(packet->ring.next, beside->ring.next) ? packet : beside;
}

/**
 * Return true for a frame of a VLAN that this host is not in. The kernel has removed its tag and
 * marks it OTHERHOST, like frames to the interface's former address, which are ours.
 */
static bool is_of_other_vlan(const struct rawe_packet *packet, const struct tpacket2_hdr *slot)
{
    const uint8_t *bytes = (const uint8_t *)slot;
    const struct sockaddr_ll *from = (const void *)(bytes + TPACKET_ALIGN(sizeof *slot));
    struct sockaddr_ll own;
    socklen_t own_bytes = sizeof own;

    if (__builtin_expect(from->sll_pkttype != PACKET_OTHERHOST, 1)) {
        return false;
    }
    return getsockname(packet->port.fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
           memcmp(own.sll_addr, bytes + slot->tp_mac, RAWE_MAC_BYTES) == 0;
}

static unsigned packet_receive(struct rawe_port *port, unsigned budget,
                               const struct rawe_port_receiver *receiver, void *context)
{
    struct rawe_packet *packet = (struct rawe_packet *)port;
    const bool bulk = rawe_port_use_is_bulk(packet->config.use);
    unsigned frames = 0;

    for (unsigned taken = 0; taken < budget; taken++) {
        struct rawe_packet *from = find_earliest(packet);
        struct tpacket2_hdr *slot = from != NULL ? rawe_ring_take(&from->ring) : NULL;
        if (slot == NULL) {
            break;
        }
        /* Do this before the callbacks, which may reenter. */
        point_at_next(from);
        if (is_of_other_vlan(from, slot)) {
            drop_queued(from, slot);
            rawe_ring_give_back(slot);
            continue;
        }
        if (receiver->arrived != NULL) {
            receiver->arrived(context, (uint64_t)slot->tp_sec * 1000000000u + slot->tp_nsec, 0);
        }
        if (bulk) {
            frames += receive_slot(from, slot, receiver, context);
        } else {
            const bool whole = from->config.use == RAWE_PORT_RESPONDER;
            from->counters.frames_received++;
            receiver->frame(context, rawe_ring_frame(slot),
                            whole ? slot->tp_len : slot->tp_snaplen);
            frames++;
        }
        rawe_ring_give_back(slot);
    }
    return frames;
}

/* ---- batches, sent ---- */

/** Return the bytes charged for packets that the NIC has yet to report as sent. */
static uint32_t queued_bytes(int fd)
{
    int bytes = 0;

    return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint32_t)bytes : 0;
}

static bool packet_transmit_batch(void *context, const struct rawe_frame *packet,
                                  uint32_t segment_bytes)
{
    struct rawe_packet *port = context;
    const size_t bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES;
    const size_t data_bytes = bytes - RAWE_BATCH_HEADER_BYTES;
    const unsigned frames =
        segment_bytes == 0 ? 1 : (unsigned)((data_bytes + segment_bytes - 1) / segment_bytes);
    struct rawe_envelope envelope;
    struct iovec iov[RAWE_FRAME_PIECES_MAX] = {{&envelope, sizeof envelope}};

    rawe_envelope_write(&envelope, packet->pieces[0].base, bytes, segment_bytes);
    for (unsigned i = 1; i < packet->piece_count; i++) {
        iov[i] = (struct iovec){packet->pieces[i].base, packet->pieces[i].len_bytes};
    }
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = packet->piece_count};
    if (port->txqueue.refused &&
        rawe_txqueue_poll(&port->txqueue, queued_bytes(port->port.fd), rawe_port_clock_ns())) {
        fit_send_buffer(port);
    }
    while (sendmsg(port->port.fd, &message, MSG_DONTWAIT) < 0) {
        const int code = errno;
        if (code == EINTR) {
            continue;
        }
        if (code == EAGAIN) {
            port->counters.send_full++;
            if (!port->txqueue.refused) {
                rawe_txqueue_full(&port->txqueue, queued_bytes(port->port.fd),
                                  rawe_port_clock_ns());
            }
            return false;
        }
        if (code == ENOBUFS) {
            port->counters.send_full++;
            if (!rawe_txqueue_dropped(&port->txqueue, rawe_port_clock_ns())) {
                return false;
            }
        }
        port->counters.send_errors += frames;
        return true;
    }
    port->counters.frames_sent += frames;
    if (rawe_txqueue_taken(&port->txqueue)) {
        fit_send_buffer(port);
    }
    return true;
}

const struct rawe_port_kind rawe_packet_port = {
    .open = packet_open,
    .reopen = packet_reopen,
    .renew_filter = packet_renew_filter,
    .interface = packet_interface,
    .close = packet_close,
    .receive = packet_receive,
    .transmit = packet_transmit,
    .transmit_batch = packet_transmit_batch,
    .read_counters = packet_read_counters,
};
