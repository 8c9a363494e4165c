/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches over UDP, and the bulk port, which sends them. A batch's segments each have the batch
 * header, whose offset field differs, as if TCP's segmentation had cut them; the marker tells them
 * from frames. Segments that the receiver's kernel merged become one packet again.
 */
#include "rawe_udp_batch.h"

#include <stdlib.h>
#include <string.h>

/** A bulk port. It sends through its link's socket, and the link receives batches itself. */
struct bulk_port {
    struct rawe_port port; /**< first */
    struct rawe_udp *link;
};

/* ---- received ---- */

bool rawe_udp_is_batch(const struct rawe_udp *udp, const uint8_t *bytes, size_t len_bytes)
{
    uint8_t key[4];

    if (len_bytes < RAWE_BATCH_HEADER_BYTES || bytes[0] != RAWE_UDP_BATCH_MARKER ||
        udp->config.use != RAWE_PORT_EXPRESS) {
        return false;
    }
    rawe_put32(key, udp->config.key);
    return memcmp(bytes + RAWE_BATCH_OFFSET_KEY, key, sizeof key) == 0;
}

/** Return the number of bytes before this segment in its batch. */
static uint32_t batch_offset(const uint8_t *head)
{
    const uint8_t *at = head + RAWE_BATCH_OFFSET_OFFSET;

    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/** Return true if a segment follows `before_bytes` of data of the batch that begins at `head`. */
static bool continues(const uint8_t *head, size_t before_bytes, const uint8_t *segment)
{
    const size_t after = RAWE_BATCH_OFFSET_OFFSET + sizeof(uint32_t);

    return memcmp(segment, head, RAWE_BATCH_OFFSET_OFFSET) == 0 &&
           batch_offset(segment) == batch_offset(head) + before_bytes &&
           memcmp(segment + after, head + after, RAWE_BATCH_HEADER_BYTES - after) == 0;
}

size_t rawe_udp_packet_bytes(const uint8_t *bytes, size_t left_bytes, size_t segment_bytes)
{
    size_t len_bytes = left_bytes < segment_bytes ? left_bytes : segment_bytes;
    size_t data_bytes = len_bytes - RAWE_BATCH_HEADER_BYTES;

    while (len_bytes % segment_bytes == 0 && left_bytes - len_bytes >= RAWE_BATCH_HEADER_BYTES &&
           continues(bytes, data_bytes, bytes + len_bytes)) {
        const size_t more_bytes =
            left_bytes - len_bytes < segment_bytes ? left_bytes - len_bytes : segment_bytes;
        len_bytes += more_bytes;
        data_bytes += more_bytes - RAWE_BATCH_HEADER_BYTES;
    }
    return len_bytes;
}

unsigned rawe_udp_hand_over_packet(const struct rawe_udp *udp, const struct rawe_udp_received *from,
                                   uint8_t *bytes, size_t len_bytes,
                                   const struct rawe_port_receiver *receiver, void *context)
{
    const unsigned frames = (unsigned)((len_bytes + from->segment_bytes - 1) / from->segment_bytes);
    const size_t data_bytes = len_bytes - frames * RAWE_BATCH_HEADER_BYTES;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];

    memcpy(head, bytes, sizeof head);
    memcpy(head, bytes + 2, 2); /* low half of the connection id */
    rawe_put16(head + RAWE_BATCH_OFFSET_PORT, udp->config.port);
    if (receiver->arrived != NULL) {
        receiver->arrived(context, from->arrived_ns, from->source_port);
    }
    uint8_t *place =
        frames == 1 ? NULL : receiver->place(context, from->source, head, sizeof head, data_bytes);
    uint8_t *data = place != NULL ? place : bytes + RAWE_BATCH_HEADER_BYTES;
    size_t copied_bytes = 0;

    for (size_t at = 0; at < len_bytes; at += from->segment_bytes) {
        const size_t left_bytes = len_bytes - at;
        const size_t part_bytes =
            (left_bytes < from->segment_bytes ? left_bytes : from->segment_bytes) -
            RAWE_BATCH_HEADER_BYTES;
        memmove(data + copied_bytes, bytes + at + RAWE_BATCH_HEADER_BYTES, part_bytes);
        copied_bytes += part_bytes;
    }
    receiver->packet(context, from->source, head, sizeof head, data, data_bytes);
    return frames;
}

/* ---- batches, sent ---- */

/** Segments of a batch, as one system call sends them. */
struct outgoing {
    union rawe_udp_address to;
    unsigned count;
    uint8_t heads[RAWE_UDP_SEGMENTS_MAX][RAWE_BATCH_HEADER_BYTES];
    size_t iov_count;
    struct iovec iov[RAWE_UDP_SEGMENTS_MAX * RAWE_FRAME_PIECES_MAX];
};

/** Add the segment of `len_bytes` that begins `at_bytes` into the packet's data. */
static void add_segment(struct outgoing *out, const struct rawe_frame *packet, uint32_t at_bytes,
                        size_t len_bytes)
{
    const uint8_t *batch = (const uint8_t *)packet->pieces[0].base + RAWE_ETH_HEADER_BYTES;
    uint8_t *head = out->heads[out->count++];
    struct rawe_bytes parts[RAWE_FRAME_PIECES_MAX];
    const unsigned part_count =
        rawe_bytes_range(&packet->pieces[1], packet->piece_count - 1, at_bytes, len_bytes, parts);

    memcpy(head, batch, RAWE_BATCH_HEADER_BYTES);
    head[0] = RAWE_UDP_BATCH_MARKER;
    head[1] = 0;
    memcpy(head + 2, batch, 2); /* low half of the connection id */
    rawe_put32(head + RAWE_BATCH_OFFSET_OFFSET, batch_offset(batch) + at_bytes);
    out->iov[out->iov_count++] = (struct iovec){head, RAWE_BATCH_HEADER_BYTES};
    for (unsigned i = 0; i < part_count; i++) {
        out->iov[out->iov_count++] = (struct iovec){parts[i].base, parts[i].len_bytes};
    }
}

/** rawe_port_kind.transmit_batch; the context is the bulk port. */
static bool udp_transmit_batch(void *context, const struct rawe_frame *packet,
                               uint32_t segment_bytes)
{
    struct rawe_udp *udp = ((struct bulk_port *)context)->link;
    const uint8_t *head = packet->pieces[0].base;
    const uint32_t data_bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES - RAWE_BATCH_HEADER_BYTES;
    const uint32_t each_bytes = segment_bytes != 0 ? segment_bytes : data_bytes;
    const uint16_t cut_bytes = (uint16_t)(RAWE_BATCH_HEADER_BYTES + each_bytes);
    const unsigned most = rawe_udp_cuts(udp) ? rawe_udp_segments_max(cut_bytes) : 1;
    struct outgoing out;
    uint32_t at_bytes = 0;

    out.to = rawe_udp_address_of(
        head, rawe_udp_port_of(head + RAWE_ETH_HEADER_BYTES + RAWE_BATCH_OFFSET_PORT));
    do {
        const uint32_t before_bytes = at_bytes;
        out.count = 0;
        out.iov_count = 0;
        do {
            const uint32_t left_bytes = data_bytes - at_bytes;
            const uint32_t len_bytes = left_bytes < each_bytes ? left_bytes : each_bytes;
            add_segment(&out, packet, at_bytes, len_bytes);
            at_bytes += len_bytes;
        } while (at_bytes < data_bytes && out.count < most);
        if (rawe_udp_send(udp, udp->port.fd, &out.to, out.iov, out.iov_count,
                          out.count > 1 ? cut_bytes : 0, out.count) != RAWE_UDP_TAKEN) {
            return before_bytes != 0; /* the rest counts as lost, and is resent */
        }
    } while (at_bytes < data_bytes);
    return true;
}

/* ---- the bulk port ---- */

static int bulk_reopen(struct rawe_port *port, int interface_index, struct rawe_port_error *error)
{
    (void)port;
    (void)interface_index;
    (void)error;
    return 0; /* the link's socket stays */
}

static int bulk_interface(const struct rawe_port *port)
{
    return ((const struct bulk_port *)port)->link->config.interface_index;
}

static void bulk_close(struct rawe_port *port)
{
    free(port);
}

static unsigned bulk_receive(struct rawe_port *port, unsigned budget,
                             const struct rawe_port_receiver *receiver, void *context)
{
    (void)port;
    (void)budget;
    (void)receiver;
    (void)context;
    return 0;
}

/** The link counts. */
static void bulk_read_counters(struct rawe_port *port, struct rawe_port_counters *counters)
{
    (void)port;
    *counters = (struct rawe_port_counters){.frames_sent = 0};
}

static const struct rawe_port_kind bulk_kind = {
    .reopen = bulk_reopen,
    .interface = bulk_interface,
    .close = bulk_close,
    .receive = bulk_receive,
    .transmit_batch = udp_transmit_batch,
    .read_counters = bulk_read_counters,
};

struct rawe_port *rawe_udp_bulk(struct rawe_port *link)
{
    static const uint32_t nothing = 0;
    struct bulk_port *bulk = calloc(1, sizeof *bulk);
    struct rawe_udp *udp = (struct rawe_udp *)link;

    if (bulk == NULL) {
        return NULL;
    }
    const uint32_t frames = rawe_udp_segments_max((uint16_t)udp->config.mtu_bytes);
    bulk->link = udp;
    bulk->port = (struct rawe_port){
        .word = &nothing,
        .mask = UINT32_MAX,
        .kind = &bulk_kind,
        .fd = -1,
        .receive_frames = link->receive_frames,
        .batch_bytes = frames * (udp->config.mtu_bytes - RAWE_BATCH_HEADER_BYTES),
        .offloaded = true,
    };
    return &bulk->port;
}
