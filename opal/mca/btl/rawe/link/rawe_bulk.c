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
#include "rawe_socket.h"

/** Receive buffer asked for. */
#define QUEUE_BYTES (8 << 20)

/** Part of the link's ring that bulk takes for its own beside it. */
#define RING_DIVISOR 4u

/** Packets up to this length behind the Ethernet header lie in the ring whole. */
#define SLOT_DATA_BYTES_MAX 2048u

/** Header of one frame and one fragment at most. */
#define HEAD_BYTES 64u

/** Segments of one packet at most; more are received into scratch memory. */
#define PLACED_SEGMENTS_MAX 64u

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

int rawe_bulk_open(struct rawe_bulk **out, const struct rawe_link_config *config,
                   struct rawe_link_error *error)
{
    struct rawe_bulk *bulk = calloc(1, sizeof *bulk);
    uint32_t slot_data_bytes =
        config->mtu_bytes < SLOT_DATA_BYTES_MAX ? config->mtu_bytes : SLOT_DATA_BYTES_MAX;

    *out = NULL;
    if (bulk == NULL || (bulk->scratch = malloc(SCRATCH_BYTES)) == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        free(bulk);
        return -1;
    }
    bulk->mtu_bytes = config->mtu_bytes;
    bulk->fd = rawe_socket_open(&bulk->ring, config, RAWE_FILTER_FOR_BULK,
                                slot_data_bytes + (uint32_t)sizeof(struct virtio_net_hdr),
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

/** A received packet as its slot describes it. */
struct packet {
    const uint8_t *source_mac;
    const uint8_t *bytes; /**< behind the envelope */
    size_t present_bytes; /**< as many are in the slot */
    size_t total_bytes;
    size_t segment_bytes; /**< it is cut each time after as many */
};

/** False when it is shorter than its envelope. */
static bool describe(struct packet *packet, struct tpacket2_hdr *slot)
{
    const uint8_t *frame = rawe_ring_frame(slot);
    struct virtio_net_hdr vnet;

    if (slot->tp_snaplen <= RAWE_FILTER_BULK_OFFSET) {
        return false;
    }
    memcpy(&vnet, frame - sizeof vnet, sizeof vnet);
    packet->source_mac = frame + RAWE_MAC_BYTES;
    packet->bytes = frame + RAWE_FILTER_BULK_OFFSET;
    packet->present_bytes = slot->tp_snaplen - RAWE_FILTER_BULK_OFFSET;
    packet->total_bytes = slot->tp_len - RAWE_FILTER_BULK_OFFSET;
    packet->segment_bytes = packet->total_bytes;
    if (vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE && vnet.gso_size != 0 &&
        vnet.gso_size < packet->total_bytes) {
        packet->segment_bytes = vnet.gso_size;
    }
    return true;
}

/** Hand the segments of a packet up that lies in one piece. Returns their number. */
static unsigned hand_up(const struct packet *packet, const uint8_t *bytes,
                        const struct rawe_bulk_receiver *receiver, void *context)
{
    unsigned count = 0;

    for (size_t at = 0; at < packet->total_bytes; at += packet->segment_bytes, count++) {
        size_t left = packet->total_bytes - at;
        receiver->segment(context, packet->source_mac, bytes + at,
                          left < packet->segment_bytes ? left : packet->segment_bytes, NULL, 0);
    }
    return count;
}

/** The same where headers and data have been received apart. */
static unsigned hand_up_placed(const struct rawe_bulk *bulk, const struct packet *packet,
                               const struct rawe_placement *placement,
                               const struct rawe_bulk_receiver *receiver, void *context)
{
    const unsigned full = (unsigned)(packet->total_bytes / packet->segment_bytes);
    const unsigned count =
        (unsigned)((packet->total_bytes + packet->segment_bytes - 1) / packet->segment_bytes);

    for (unsigned i = 0; i < count;) {
        size_t left = packet->total_bytes - i * packet->segment_bytes;
        left = left < packet->segment_bytes ? left : packet->segment_bytes;
        receiver->segment(
            context, packet->source_mac, bulk->heads + i * HEAD_BYTES, placement->head_bytes,
            placement->base + (size_t)i * placement->data_bytes, left - placement->head_bytes);
        i++;
        if (receiver->predicted != NULL && i < full) {
            i += receiver->predicted(context, packet->source_mac, bulk->heads + i * HEAD_BYTES,
                                     HEAD_BYTES, placement,
                                     placement->base + (size_t)i * placement->data_bytes, full - i);
        }
    }
    return count;
}

/** Lay out the buffers for a packet whose place is known. Returns how many there are. */
static size_t lay_out(struct rawe_bulk *bulk, struct iovec *iov, const struct packet *packet,
                      const struct rawe_placement *placement)
{
    size_t used = 0;
    uint8_t *data = placement->base;
    uint8_t *heads = bulk->heads;

    for (size_t at = 0; at < packet->total_bytes; at += packet->segment_bytes) {
        size_t left = packet->total_bytes - at;
        left = left < packet->segment_bytes ? left : packet->segment_bytes;
        iov[used++] = (struct iovec){heads, placement->head_bytes};
        iov[used++] = (struct iovec){data, left - placement->head_bytes};
        heads += HEAD_BYTES;
        data += placement->data_bytes;
    }
    return used;
}

/** recvmsg, which also returns what befell the interface (ENETDOWN), once. */
static bool dequeue(int fd, struct iovec *iov, size_t iov_count)
{
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = iov_count};

    for (;;) {
        struct msghdr received = message;
        if (recvmsg(fd, &received, MSG_DONTWAIT) >= 0) {
            return true;
        }
        if (errno != EINTR && errno != ENETDOWN) {
            return false;
        }
    }
}

/** Receive the packet that waits in the queue. Returns the number of its segments. */
static unsigned receive_queued(struct rawe_bulk *bulk, const struct packet *packet,
                               const struct rawe_bulk_receiver *receiver, void *context)
{
    struct rawe_placement placement;
    struct iovec iov[1 + 2 * PLACED_SEGMENTS_MAX];
    size_t segments = (packet->total_bytes + packet->segment_bytes - 1) / packet->segment_bytes;
    bool planned = packet->total_bytes <= SCRATCH_BYTES && segments <= PLACED_SEGMENTS_MAX &&
                   receiver->plan(context, packet->source_mac, packet->bytes, packet->present_bytes,
                                  packet->segment_bytes, packet->total_bytes, &placement) &&
                   placement.head_bytes <= HEAD_BYTES;
    size_t used = 1;

    iov[0] = (struct iovec){&bulk->envelope, sizeof bulk->envelope};
    if (planned) {
        used += lay_out(bulk, iov + 1, packet, &placement);
    } else {
        iov[used++] = (struct iovec){bulk->scratch, SCRATCH_BYTES};
    }
    if (!dequeue(bulk->fd, iov, used) || packet->total_bytes > SCRATCH_BYTES) {
        return 0;
    }
    return planned ? hand_up_placed(bulk, packet, &placement, receiver, context)
                   : hand_up(packet, bulk->scratch, receiver, context);
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
            if (queued) {
                frames += receive_queued(bulk, &packet, receiver, context);
            } else if (packet.present_bytes == packet.total_bytes) {
                frames += hand_up(&packet, packet.bytes, receiver, context);
            } else {
                bulk->counters.ring_drops++; /* the queue had no room for the rest of it */
            }
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
