/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: what is received of batches, and their way into place. Sending is in rawe_bulk_send.c.
 *
 * A queue cannot be looked at without a system call, a ring can, but a ring's slots would have to
 * be 64 kB and everything would be copied twice. So one socket has both (PACKET_COPY_THRESH): what
 * fits a slot lies there whole; of what is longer the slot has the beginning, enough to tell where
 * it goes, and the packet waits in the socket's queue (tpacket_rcv queues it before it hands the
 * slot over), from where recvmsg copies it into place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rawe_bulk_internal.h"
#include "../packet/rawe_socket.h"

/** Receive buffer asked for. */
#define QUEUE_BYTES (8 << 20)

/** Part of the link's ring that bulk takes for its own beside it. */
#define RING_DIVISOR 4u

/** Packets up to this length behind the Ethernet header lie in the ring whole. */
#define SLOT_DATA_BYTES_MAX 2048u

/** Headers in front of a packet's data, from the Ethernet header on. */
#define HEAD_BYTES (RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_HEADER_BYTES)

static void widen_queue(struct rawe_bulk *bulk)
{
    const int bytes = QUEUE_BYTES;
    int granted = 0;
    socklen_t len_bytes = sizeof granted;

    /* FORCE passes rmem_max but needs CAP_NET_ADMIN. */
    if (setsockopt(bulk->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(bulk->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    (void)getsockopt(bulk->fd, SOL_SOCKET, SO_RCVBUF, &granted, &len_bytes);
    bulk->queue_bytes = granted > 0 ? (size_t)granted : 0;
}

static void point_head(struct rawe_bulk *bulk)
{
    bulk->head.next_status = &bulk->ring.next->tp_status;
}

static uint32_t slot_data_bytes(const struct rawe_link_config *config)
{
    const uint32_t mtu_bytes = config->mtu_bytes;

    return (mtu_bytes < SLOT_DATA_BYTES_MAX ? mtu_bytes : SLOT_DATA_BYTES_MAX) +
           (uint32_t)sizeof(struct virtio_net_hdr);
}

int rawe_bulk_open(struct rawe_bulk **out, const struct rawe_link_config *config,
                   struct rawe_link_error *error)
{
    struct rawe_bulk *bulk = calloc(1, sizeof *bulk);

    *out = NULL;
    if (bulk == NULL || (bulk->scratch = malloc(SCRATCH_BYTES)) == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        free(bulk);
        return -1;
    }
    bulk->mtu_bytes = config->mtu_bytes;
    bulk->fd = rawe_socket_open(&bulk->ring, config, RAWE_FILTER_FOR_BULK, slot_data_bytes(config),
                                config->ring_bytes / RING_DIVISOR, error);
    if (bulk->fd < 0) {
        free(bulk->scratch);
        free(bulk);
        return -1;
    }
    widen_queue(bulk);
    bulk->offloaded = config->loopback || rawe_bulk_device_offloads(config->interface);
    point_head(bulk);
    *out = bulk;
    return 0;
}

void rawe_bulk_close(struct rawe_bulk *bulk)
{
    if (bulk == NULL) {
        return;
    }
    rawe_ring_close(&bulk->ring);
    close(bulk->fd);
    free(bulk->scratch);
    free(bulk);
}

int rawe_bulk_reopen(struct rawe_bulk *bulk, const struct rawe_link_config *config,
                     struct rawe_link_error *error)
{
    if (rawe_socket_reopen(bulk->fd, &bulk->ring, config, RAWE_FILTER_FOR_BULK,
                           slot_data_bytes(config), config->ring_bytes / RING_DIVISOR,
                           error) != 0) {
        return -1;
    }
    widen_queue(bulk);
    point_head(bulk);
    return 0;
}

int rawe_bulk_fd(const struct rawe_bulk *bulk)
{
    return bulk->fd;
}

/** A received packet as its slot describes it. */
struct packet {
    const uint8_t *bytes; /**< from the Ethernet header on; as many as the slot has */
    size_t present_bytes; /**< of the data, in the slot */
    size_t data_bytes;    /**< behind the headers */
    unsigned frames;      /**< that the kernel has merged into it */
};

/** False when it is shorter than its headers, or its IPv4 header says something else. */
static bool describe(struct packet *packet, struct tpacket2_hdr *slot)
{
    const uint8_t *frame = rawe_ring_frame(slot);
    const uint8_t *ip = frame + RAWE_ETH_HEADER_BYTES;
    struct virtio_net_hdr vnet;

    if (slot->tp_snaplen < HEAD_BYTES) {
        return false;
    }
    /* Of a frame padded to Ethernet's 60 bytes, only the IPv4 header knows the length. */
    const size_t ip_bytes = (size_t)ip[2] << 8 | ip[3];
    if (ip_bytes < HEAD_BYTES - RAWE_ETH_HEADER_BYTES ||
        ip_bytes > slot->tp_len - RAWE_ETH_HEADER_BYTES) {
        return false;
    }
    memcpy(&vnet, frame - sizeof vnet, sizeof vnet);
    packet->bytes = frame;
    packet->data_bytes = ip_bytes - (HEAD_BYTES - RAWE_ETH_HEADER_BYTES);
    packet->present_bytes = slot->tp_snaplen - HEAD_BYTES;
    packet->frames = 1;
    if (vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE && vnet.gso_size != 0) {
        packet->frames = (unsigned)((packet->data_bytes + vnet.gso_size - 1) / vnet.gso_size);
    }
    return true;
}

/** recvmsg, which also returns what befell the interface (ENETDOWN), once. */
static bool dequeue(int fd, struct iovec *iov, size_t iov_count, size_t len_bytes)
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

/** Drop the packet that waits in the queue, so that the next one belongs to the next slot. */
static void drop_queued(struct rawe_bulk *bulk)
{
    struct iovec iov = {&bulk->envelope, sizeof bulk->envelope};

    (void)dequeue(bulk->fd, &iov, 1, 0);
}

static void hand_up(const struct packet *packet, const uint8_t *data,
                    const struct rawe_bulk_receiver *receiver, void *context)
{
    receiver->packet(context, packet->bytes + RAWE_MAC_BYTES,
                     packet->bytes + RAWE_FILTER_BULK_OFFSET, RAWE_BATCH_HEADER_BYTES, data,
                     packet->data_bytes);
}

/** Receive the packet that waits in the queue. False: there is none, or not this one. */
static bool receive_queued(struct rawe_bulk *bulk, const struct packet *packet,
                           const struct rawe_bulk_receiver *receiver, void *context)
{
    uint8_t *place = packet->data_bytes > SCRATCH_BYTES
                         ? NULL
                         : receiver->place(context, packet->bytes + RAWE_MAC_BYTES,
                                           packet->bytes + RAWE_FILTER_BULK_OFFSET,
                                           RAWE_BATCH_HEADER_BYTES, packet->data_bytes);
    uint8_t *data = place != NULL ? place : bulk->scratch;
    size_t room_bytes = packet->data_bytes < SCRATCH_BYTES ? packet->data_bytes : SCRATCH_BYTES;
    struct iovec iov[] = {{&bulk->envelope, sizeof bulk->envelope}, {data, room_bytes}};

    if (!dequeue(bulk->fd, iov, 2, sizeof bulk->envelope + packet->data_bytes) ||
        memcmp(bulk->envelope.packet, packet->bytes, HEAD_BYTES) != 0) {
        return false;
    }
    hand_up(packet, data, receiver, context);
    return true;
}

unsigned rawe_bulk_receive(struct rawe_bulk *bulk, unsigned budget,
                           const struct rawe_bulk_receiver *receiver, void *context)
{
    unsigned frames = 0;
    struct tpacket2_hdr *slot;

    for (unsigned packets = 0; packets < budget; packets++) {
        if ((slot = rawe_ring_take(&bulk->ring)) == NULL) {
            break;
        }
        point_head(bulk);
        struct packet packet;
        bool queued = (slot->tp_status & TP_STATUS_COPY) != 0;
        if (describe(&packet, slot)) {
            bool whole = queued ? receive_queued(bulk, &packet, receiver, context)
                                : packet.present_bytes >= packet.data_bytes;
            if (whole && !queued) {
                hand_up(&packet, packet.bytes + HEAD_BYTES, receiver, context);
            }
            frames += whole ? packet.frames : 0;
            bulk->counters.ring_drops += !whole; /* the queue had no room for the rest of it */
        } else if (queued) {
            drop_queued(bulk);
        }
        rawe_ring_give_back(slot);
    }
    bulk->counters.frames_received += frames;
    return frames;
}

unsigned rawe_bulk_queue_frames(const struct rawe_bulk *bulk)
{
    /*
     * What the kernel charges for a packet is more than its length: page fragments, and some
     * hundred bytes of struct sk_buff (measured: 1.1 to 1.5 times the length and 0.8 kB).
     */
    size_t charge_bytes = (size_t)bulk->mtu_bytes * 3 / 2 + 1024;
    size_t frames = bulk->queue_bytes / charge_bytes;
    const unsigned slots = rawe_ring_slots(&bulk->ring);

    frames = frames < slots ? frames : slots;
    return frames < 1 ? 1 : (unsigned)frames;
}

bool rawe_bulk_offloaded(const struct rawe_bulk *bulk)
{
    return bulk->offloaded;
}

void rawe_bulk_read_counters(struct rawe_bulk *bulk, struct rawe_link_counters *counters)
{
    struct tpacket_stats stats;
    socklen_t len_bytes = sizeof stats;

    if (getsockopt(bulk->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len_bytes) == 0) {
        bulk->counters.ring_drops += stats.tp_drops;
    }
    *counters = bulk->counters;
}
