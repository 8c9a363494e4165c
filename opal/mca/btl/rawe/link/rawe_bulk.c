/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: the queue, its doorbell, and what is received from them. Sending is in rawe_bulk_send.c.
 *
 * A queue cannot be looked at without a system call, a ring can, but a ring's slots would have to
 * be 64 kB and everything would be copied twice. So there are both: the doorbell ring's filter
 * passes the first bytes of each packet only. It is bound first: the kernel delivers to the socket
 * bound last before the others (dev_add_pack puts it at the head of its list), and so the packet
 * is in the queue when the bell rings.
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

/** Memory of the doorbell ring: 1000 and more bells. */
#define DOORBELL_BYTES (192u << 10)

/** Looks into an empty queue after a bell: the packet may have been dropped for lack of room. */
#define LOOKS 64u

/** How much of the beginning of a packet is peeked at: enough for every chunk's header. */
#define PEEK_HEAD_BYTES 64u

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

int rawe_bulk_open(struct rawe_bulk **out, const struct rawe_link_config *config,
                   struct rawe_link_error *error)
{
    struct rawe_bulk *bulk = calloc(1, sizeof *bulk);
    struct rawe_link_config doorbell = *config;

    *out = NULL;
    if (bulk == NULL || (bulk->scratch = malloc(SCRATCH_BYTES)) == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        free(bulk);
        return -1;
    }
    bulk->mtu_bytes = config->mtu_bytes;
    bulk->fd = -1;
    doorbell.mtu_bytes = RAWE_FILTER_DOORBELL_BYTES;
    bulk->doorbell_fd = rawe_socket_open(&bulk->doorbell, &doorbell, RAWE_FILTER_FOR_DOORBELL,
                                         DOORBELL_BYTES, error);
    if (bulk->doorbell_fd < 0) {
        free(bulk->scratch);
        free(bulk);
        return -1;
    }
    bulk->fd = rawe_socket_open(NULL, config, RAWE_FILTER_FOR_BULK, 0, error);
    if (bulk->fd < 0) {
        rawe_bulk_close(bulk);
        return -1;
    }
    widen_queue(bulk);
    bulk->offloaded = config->loopback || rawe_bulk_device_offloads(config->interface);
    bulk->head.next_status = &bulk->doorbell.next->tp_status;
    *out = bulk;
    return 0;
}

void rawe_bulk_close(struct rawe_bulk *bulk)
{
    if (bulk == NULL) {
        return;
    }
    rawe_ring_close(&bulk->doorbell);
    close(bulk->doorbell_fd);
    if (bulk->fd >= 0) {
        close(bulk->fd);
    }
    free(bulk->scratch);
    free(bulk);
}

/** Take the bells that have rung. Returns how many. */
static unsigned answer_bells(struct rawe_bulk *bulk)
{
    unsigned bells = 0;
    struct tpacket2_hdr *slot;

    while ((slot = rawe_ring_take(&bulk->doorbell)) != NULL) {
        rawe_ring_give_back(slot);
        bells++;
    }
    bulk->head.next_status = &bulk->doorbell.next->tp_status;
    return bells;
}

/** Lay out the buffers for a packet. Returns how many there are; `planned` tells which way. */
static size_t lay_out(struct rawe_bulk *bulk, struct iovec *iov, size_t total_bytes,
                      size_t segment_bytes, bool planned, const struct rawe_placement *placement)
{
    size_t used = 0;

    iov[used++] = (struct iovec){&bulk->envelope, sizeof bulk->envelope};
    if (!planned) {
        iov[used++] = (struct iovec){bulk->scratch, SCRATCH_BYTES};
        return used;
    }
    uint8_t *data = placement->base;
    for (size_t at = 0, i = 0; at < total_bytes; at += segment_bytes, i++) {
        size_t left = total_bytes - at < segment_bytes ? total_bytes - at : segment_bytes;
        iov[used++] = (struct iovec){bulk->heads + i * PEEK_HEAD_BYTES, placement->head_bytes};
        iov[used++] = (struct iovec){data, left - placement->head_bytes};
        data += placement->data_bytes;
    }
    return used;
}

/** Hand the segments of a received packet up. Returns their number. */
static unsigned hand_up(struct rawe_bulk *bulk, size_t total_bytes, size_t segment_bytes,
                        bool planned, const struct rawe_placement *placement,
                        const struct rawe_bulk_receiver *receiver, void *context)
{
    const uint8_t *source_mac = bulk->envelope.packet + RAWE_MAC_BYTES;
    unsigned count = 0;

    for (size_t at = 0; at < total_bytes; at += segment_bytes, count++) {
        size_t left = total_bytes - at < segment_bytes ? total_bytes - at : segment_bytes;
        if (planned) {
            receiver->segment(context, source_mac, bulk->heads + count * PEEK_HEAD_BYTES,
                              placement->head_bytes,
                              placement->base + (size_t)count * placement->data_bytes,
                              left - placement->head_bytes);
        } else {
            receiver->segment(context, source_mac, bulk->scratch + at, left, NULL, 0);
        }
    }
    return count;
}

/** Receive one packet. Returns the number of its segments, 0 when the queue is empty. */
static unsigned receive_packet(struct rawe_bulk *bulk, const struct rawe_bulk_receiver *receiver,
                               void *context)
{
    struct {
        struct rawe_bulk_envelope envelope;
        uint8_t head[PEEK_HEAD_BYTES];
    } peek;
    ssize_t len_bytes = recv(bulk->fd, &peek, sizeof peek, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

    if (len_bytes < 0) {
        return 0;
    }
    size_t total_bytes = (size_t)len_bytes > sizeof peek.envelope
                             ? (size_t)len_bytes - sizeof peek.envelope
                             : 0;
    size_t segment_bytes = peek.envelope.vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE
                               ? peek.envelope.vnet.gso_size
                               : total_bytes;
    size_t head_bytes = total_bytes < sizeof peek.head ? total_bytes : sizeof peek.head;
    struct rawe_placement placement;
    struct iovec iov[1 + 2 * PLACED_SEGMENTS_MAX];
    bool planned = segment_bytes != 0 && total_bytes <= SCRATCH_BYTES &&
                   (total_bytes + segment_bytes - 1) / segment_bytes <= PLACED_SEGMENTS_MAX &&
                   receiver->plan(context, peek.envelope.packet + RAWE_MAC_BYTES, peek.head,
                                  head_bytes, segment_bytes, total_bytes, &placement) &&
                   placement.head_bytes <= PEEK_HEAD_BYTES;
    struct msghdr message = {
        .msg_iov = iov,
        .msg_iovlen = lay_out(bulk, iov, total_bytes, segment_bytes, planned, &placement),
    };

    if (recvmsg(bulk->fd, &message, MSG_DONTWAIT) < 0) {
        return 0;
    }
    if (segment_bytes == 0 || total_bytes > SCRATCH_BYTES) {
        return 1; /* no packet of ours is like that */
    }
    unsigned count = hand_up(bulk, total_bytes, segment_bytes, planned, &placement, receiver,
                             context);
    bulk->counters.frames_received += count;
    return count;
}

unsigned rawe_bulk_receive(struct rawe_bulk *bulk, unsigned budget,
                           const struct rawe_bulk_receiver *receiver, void *context)
{
    unsigned frames = 0;
    bool rung = answer_bells(bulk) != 0;

    for (unsigned packets = 0; packets < budget; packets++) {
        unsigned count = receive_packet(bulk, receiver, context);
        if (count == 0) {
            if (packets == 0 && rung) {
                bulk->head.look_again = LOOKS;
            } else if (packets == 0 && bulk->head.look_again != 0) {
                bulk->head.look_again--;
            } else {
                bulk->head.look_again = 0;
            }
            return frames;
        }
        frames += count;
    }
    bulk->head.look_again = 1; /* there may be more */
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
