/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames and batches as bytes: see net_packet.h.
 */
#include "net_packet.h"

#include <string.h>

#include "base/rawe_sum16.h"
#include "conn/rawe_conn_tx.h"
#include "net_harness.h"

/** Offset of TCP's sequence number in a batch header. */
#define AT_SEQUENCE 4u

/** Concatenate the pieces, and check that their lengths add up to the frame's. */
static void copy_pieces(const struct rawe_engine *engine, const struct rawe_frame *view,
                        uint8_t *out)
{
    uint32_t vpid = engine->config.vpid;
    size_t left = view->len_bytes;

    if (view->piece_count < 1 || view->piece_count > RAWE_FRAME_PIECES_MAX) {
        net_fail("frames add up", "n%u sends a frame of %u pieces", vpid, view->piece_count);
    }
    for (unsigned i = 0; i < view->piece_count; i++) {
        if (view->pieces[i].len_bytes > left) {
            net_fail("frames add up", "n%u: pieces are longer than the frame", vpid);
        }
        memcpy(out, view->pieces[i].base, view->pieces[i].len_bytes);
        out += view->pieces[i].len_bytes;
        left -= view->pieces[i].len_bytes;
    }
    if (left != 0) {
        net_fail("frames add up", "n%u: pieces are shorter than the frame", vpid);
    }
}

void net_frame_linearize(const struct rawe_engine *engine, const struct rawe_frame *view,
                         uint8_t *out, struct rawe_header *header)
{
    const struct rawe_engine_config *config = &engine->config;
    uint32_t len_bytes = view->len_bytes;

    if (len_bytes < RAWE_PAYLOAD_OFFSET + RAWE_CHECKSUM_BYTES ||
        len_bytes > RAWE_PAYLOAD_OFFSET + config->payload_max_bytes + RAWE_CHECKSUM_BYTES) {
        net_fail("frames fit the link", "n%u sends a frame of %u bytes", config->vpid, len_bytes);
    }
    copy_pieces(engine, view, out);
    if (rawe_header_decode(header, out + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK ||
        RAWE_PAYLOAD_OFFSET + header->payload_bytes + RAWE_CHECKSUM_BYTES != len_bytes) {
        net_fail("frames add up", "n%u sends a frame of %u bytes whose lengths are wrong",
                 config->vpid, len_bytes);
    }
    if (memcmp(out + RAWE_MAC_BYTES, config->mac, RAWE_MAC_BYTES) != 0 ||
        out[12] != config->ethertype >> 8 || out[13] != (config->ethertype & 0xFF)) {
        net_fail("frames are addressed", "n%u sends a frame that is not from its own address",
                 config->vpid);
    }
}

void net_frame_address(uint8_t *out, const uint8_t *destination, const uint8_t *source)
{
    memcpy(out, destination, RAWE_MAC_BYTES);
    memcpy(out + RAWE_MAC_BYTES, source, RAWE_MAC_BYTES);
    out[12] = RAWE_ETHERTYPE_DEFAULT >> 8;
    out[13] = RAWE_ETHERTYPE_DEFAULT & 0xFF;
}

uint32_t net_frame_forge(uint8_t *out, const struct rawe_engine *victim, const uint8_t *source,
                         struct rawe_header *header)
{
    net_frame_address(out, victim->config.mac, source);
    header->port = victim->config.port;
    header->key = victim->config.key;
    return (uint32_t)rawe_frame_seal(out, header);
}

/** Check that a batch is valid and respects the limits of engine and link. */
static void check_batch(const struct rawe_engine *engine, const struct net_batch *batch)
{
    const struct rawe_engine_config *config = &engine->config;
    uint32_t data_bytes = batch->len_bytes - NET_BATCH_HEAD_BYTES;
    uint32_t room_bytes = RAWE_HEADER_BYTES + config->payload_max_bytes - RAWE_BATCH_HEADER_BYTES -
                          engine->batches.overhead_bytes;
    struct rawe_batch decoded;

    if (rawe_batch_decode(&decoded, batch->bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES,
                          data_bytes) != RAWE_DECODE_OK ||
        (decoded.header.type != RAWE_FRAME_BULK && decoded.header.type != RAWE_FRAME_PROBE)) {
        net_fail("batches add up", "n%u sends %u bytes that are no batch", config->vpid,
                 data_bytes);
    }
    if (data_bytes > engine->batches.bytes_max ||
        (batch->segment_bytes == 0 ? data_bytes > room_bytes
                                   : data_bytes <= batch->segment_bytes)) {
        net_fail("batches keep to their limits", "n%u sends %u bytes, cut every %u", config->vpid,
                 data_bytes, batch->segment_bytes);
    }
    if (decoded.header.type == RAWE_FRAME_BULK &&
        (decoded.segment_bytes > room_bytes ||
         (batch->segment_bytes != 0 && batch->segment_bytes != decoded.segment_bytes) ||
         decoded.frames != net_batch_frames(batch))) {
        net_fail("batches keep to their limits", "n%u: frames of %u bytes, cut every %u",
                 config->vpid, (unsigned)decoded.segment_bytes, batch->segment_bytes);
    }
}

struct net_batch net_batch_describe(const struct rawe_engine *engine,
                                    const struct rawe_frame *packet, uint32_t segment_bytes,
                                    uint8_t *head)
{
    uint32_t vpid = engine->config.vpid;
    struct net_batch batch = {head, packet->len_bytes, segment_bytes};

    if (packet->pieces[0].len_bytes != NET_BATCH_HEAD_BYTES) {
        net_fail("batches add up", "n%u: the headers of a batch are not in one piece", vpid);
    }
    memcpy(head, packet->pieces[0].base, NET_BATCH_HEAD_BYTES);
    if (memcmp(head + RAWE_MAC_BYTES, engine->config.mac, RAWE_MAC_BYTES) != 0) {
        net_fail("frames are addressed", "n%u sends a batch that is not from its own address",
                 vpid);
    }
    head[12] = 0x08;
    head[13] = 0x00;
    check_batch(engine, &batch);
    return batch;
}

struct net_batch net_batch_linearize(const struct rawe_engine *engine,
                                     const struct rawe_frame *packet, uint32_t segment_bytes,
                                     uint8_t *out)
{
    copy_pieces(engine, packet, out);
    return net_batch_describe(engine, packet, segment_bytes, out);
}

bool net_is_batch(const uint8_t *bytes, uint32_t len_bytes)
{
    return len_bytes >= NET_BATCH_HEAD_BYTES && bytes[12] == 0x08 && bytes[13] == 0x00;
}

uint32_t net_batch_frames(const struct net_batch *batch)
{
    uint32_t data_bytes = batch->len_bytes - NET_BATCH_HEAD_BYTES;
    return batch->segment_bytes == 0
               ? 1
               : (data_bytes + batch->segment_bytes - 1) / batch->segment_bytes;
}

uint32_t net_batch_frame_bytes(const struct net_batch *batch, uint32_t index)
{
    uint32_t left = batch->len_bytes - NET_BATCH_HEAD_BYTES - index * batch->segment_bytes;
    bool cut = batch->segment_bytes != 0 && left > batch->segment_bytes;
    return NET_BATCH_HEAD_BYTES + (cut ? batch->segment_bytes : left);
}

static uint32_t sequence_of(const uint8_t *packet)
{
    const uint8_t *at = packet + RAWE_ETH_HEADER_BYTES + AT_SEQUENCE;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void net_batch_cut_head(const struct net_batch *batch, uint32_t index, uint8_t *head)
{
    uint32_t sequence = sequence_of(batch->bytes) + index * batch->segment_bytes;
    uint8_t *tcp = head + RAWE_ETH_HEADER_BYTES + AT_SEQUENCE;

    memcpy(head, batch->bytes, NET_BATCH_HEAD_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        tcp[i] = (uint8_t)(sequence >> (24 - 8 * i));
    }
}

void net_batch_cut(const struct net_batch *batch, uint32_t index, uint8_t *out)
{
    net_batch_cut_head(batch, index, out);
    memcpy(out + NET_BATCH_HEAD_BYTES,
           batch->bytes + NET_BATCH_HEAD_BYTES + index * batch->segment_bytes,
           net_batch_frame_bytes(batch, index) - NET_BATCH_HEAD_BYTES);
}

bool net_batch_header(const uint8_t *bytes, uint32_t len_bytes, struct rawe_header *header)
{
    struct rawe_batch batch;

    if (!net_is_batch(bytes, len_bytes) ||
        rawe_batch_decode(&batch, bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES,
                          len_bytes - NET_BATCH_HEAD_BYTES) != RAWE_DECODE_OK) {
        return false;
    }
    *header = batch.header;
    return true;
}

static const uint8_t addresses[8] = {255, 255, 255, 255, 0, 0, 0, 2};

bool net_batch_sum_right(const uint8_t *bytes, uint32_t len_bytes)
{
    return rawe_sum16_right(addresses, bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES,
                            bytes + NET_BATCH_HEAD_BYTES, len_bytes - NET_BATCH_HEAD_BYTES);
}

void net_batch_sum(uint8_t *bytes, uint32_t len_bytes)
{
    uint8_t *checksum = bytes + RAWE_ETH_HEADER_BYTES + RAWE_BATCH_OFFSET_CHECKSUM;
    uint8_t pseudo[RAWE_PSEUDO_BYTES];

    rawe_pseudo_encode(pseudo, addresses, (uint16_t)(len_bytes - RAWE_ETH_HEADER_BYTES));
    memset(checksum, 0, 2);
    uint16_t sum = (uint16_t)~rawe_sum16_fold(
        rawe_sum16_add(rawe_sum16_add(0, pseudo, sizeof(pseudo)), bytes + RAWE_ETH_HEADER_BYTES,
                       len_bytes - RAWE_ETH_HEADER_BYTES));
    checksum[0] = (uint8_t)(sum >> 8);
    checksum[1] = (uint8_t)sum;
}

bool net_batch_joins(const uint8_t *packet, uint32_t len_bytes, uint32_t first_bytes,
                     const uint8_t *frame, uint32_t frame_bytes)
{
    const uint32_t before = RAWE_ETH_HEADER_BYTES + AT_SEQUENCE;
    const uint32_t behind = before + 4;
    uint32_t segment_bytes = first_bytes - NET_BATCH_HEAD_BYTES;

    return net_is_batch(packet, len_bytes) && net_is_batch(frame, frame_bytes) &&
           segment_bytes != 0 && (len_bytes - NET_BATCH_HEAD_BYTES) % segment_bytes == 0 &&
           frame_bytes > NET_BATCH_HEAD_BYTES && frame_bytes <= first_bytes &&
           len_bytes + frame_bytes <= UINT16_MAX && memcmp(packet, frame, before) == 0 &&
           memcmp(packet + behind, frame + behind, NET_BATCH_HEAD_BYTES - behind) == 0 &&
           sequence_of(frame) == sequence_of(packet) + len_bytes - NET_BATCH_HEAD_BYTES;
}

uint32_t net_batch_join(uint8_t *packet, uint32_t len_bytes, const uint8_t *frame,
                        uint32_t frame_bytes)
{
    memcpy(packet + len_bytes, frame + NET_BATCH_HEAD_BYTES, frame_bytes - NET_BATCH_HEAD_BYTES);
    return len_bytes + frame_bytes - NET_BATCH_HEAD_BYTES;
}
