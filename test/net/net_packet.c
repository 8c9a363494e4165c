/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames and batches as bytes: see net_packet.h.
 */
#include "net_packet.h"

#include <string.h>

#include "net_harness.h"

/** A long message's last frame may be filled up by this part of the message. */
#define FILL_PART 16u

/** Copy the pieces one behind the other; they are as long as the frame says. */
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
    uint32_t checksum_bytes = config->checksum ? RAWE_CHECKSUM_BYTES : 0;
    uint32_t len_bytes = view->len_bytes;

    if (len_bytes < RAWE_PAYLOAD_OFFSET + checksum_bytes ||
        len_bytes > RAWE_PAYLOAD_OFFSET + config->payload_max_bytes + checksum_bytes) {
        net_fail("frames fit the link", "n%u sends a frame of %u bytes", config->vpid, len_bytes);
    }
    copy_pieces(engine, view, out);
    if (rawe_header_decode(header, out + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK ||
        RAWE_PAYLOAD_OFFSET + header->payload_bytes + checksum_bytes != len_bytes ||
        ((header->flags & RAWE_FLAG_CHECKSUM) != 0) != config->checksum) {
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
    return (uint32_t)rawe_frame_seal(out, header, victim->config.checksum);
}

uint32_t net_batch_measure(const struct rawe_engine *engine, const struct rawe_frame *frames,
                           unsigned count)
{
    const struct rawe_engine_config *config = &engine->config;
    const struct rawe_batches *batches = &engine->batches;

    if (count < 1 || count > batches->frames_max) {
        net_fail("batches keep to their limits", "n%u sends %u frames", engine->config.vpid, count);
    }
    uint32_t segment_bytes = frames[0].len_bytes - RAWE_ETH_HEADER_BYTES;
    uint32_t total_bytes =
        (count - 1) * segment_bytes + frames[count - 1].len_bytes - RAWE_ETH_HEADER_BYTES;
    uint32_t room_bytes = RAWE_HEADER_BYTES + config->payload_max_bytes +
                          (config->checksum ? RAWE_CHECKSUM_BYTES : 0) - batches->overhead_bytes;
    if (total_bytes > batches->bytes_max || segment_bytes > room_bytes) {
        net_fail("batches keep to their limits", "n%u sends %u frames, %u bytes, first %u",
                 engine->config.vpid, count, total_bytes, segment_bytes);
    }
    for (unsigned i = 1; i < count; i++) {
        if (frames[i].len_bytes > frames[0].len_bytes) {
            net_fail("batches keep to their limits", "n%u: frame %u is longer than the first",
                     engine->config.vpid, i);
        }
    }
    return RAWE_ETH_HEADER_BYTES + total_bytes;
}

/** May this frame, Ethernet header left out, be filled up by so much for others to follow? */
static bool may_fill(const struct rawe_engine *engine, const uint8_t *frame, uint32_t len_bytes,
                     uint32_t fill_bytes)
{
    const uint8_t *cursor = frame + RAWE_HEADER_BYTES;
    struct rawe_fragment fragment;

    if (fill_bytes == 0) {
        return true;
    }
    return engine->config.coalesce_from_frames != 0 && *cursor == RAWE_FRAGMENT_PART &&
           rawe_fragment_decode(&fragment, &cursor, frame + len_bytes) == RAWE_DECODE_OK &&
           (fill_bytes <= engine->batches.fill_max_bytes ||
            fill_bytes <= fragment.total_bytes / FILL_PART);
}

struct net_batch net_batch_linearize(const struct rawe_engine *engine,
                                     const struct rawe_frame *frames, unsigned count, uint8_t *out)
{
    uint32_t vpid = engine->config.vpid;
    struct net_batch batch = {
        .bytes = out,
        .len_bytes = net_batch_measure(engine, frames, count),
        .segment_bytes = frames[0].len_bytes - RAWE_ETH_HEADER_BYTES,
    };
    uint32_t first_sequence = 0;

    for (unsigned i = 0; i < count; i++) {
        uint8_t *at = out + (size_t)i * batch.segment_bytes;
        uint32_t len_bytes = frames[i].len_bytes - RAWE_ETH_HEADER_BYTES;
        uint32_t fill_bytes = i + 1 < count ? batch.segment_bytes - len_bytes : 0;
        uint8_t covered[RAWE_ETH_HEADER_BYTES]; /* by this frame's Ethernet header */
        struct rawe_header header;

        memcpy(covered, i == 0 ? frames[0].pieces[0].base : at, sizeof(covered));
        net_frame_linearize(engine, &frames[i], at, &header);
        if (memcmp(at, frames[0].pieces[0].base, sizeof(covered)) != 0) {
            net_fail("frames are addressed", "n%u: frame %u of a batch goes elsewhere", vpid, i);
        }
        memcpy(at, covered, sizeof(covered));
        first_sequence = i == 0 ? header.sequence : first_sequence;
        if (count > 1 &&
            (header.type != RAWE_FRAME_BULK || header.sequence != first_sequence + i)) {
            net_fail("batches are in order", "n%u: frame %u of a batch is out of place", vpid, i);
        }
        at += RAWE_ETH_HEADER_BYTES;
        if (!may_fill(engine, at, len_bytes, fill_bytes)) {
            net_fail("batches keep to their limits",
                     "n%u sends a batch of %u frames, number %u is %u bytes, the first %u", vpid,
                     count, i, len_bytes, batch.segment_bytes);
        }
        memset(at + len_bytes, 0, fill_bytes);
    }
    return batch;
}

uint32_t net_batch_frames(const struct net_batch *batch)
{
    if (batch->len_bytes <= RAWE_ETH_HEADER_BYTES) {
        return 0;
    }
    return (batch->len_bytes - RAWE_ETH_HEADER_BYTES + batch->segment_bytes - 1) /
           batch->segment_bytes;
}

uint32_t net_batch_frame_bytes(const struct net_batch *batch, uint32_t index)
{
    uint32_t left = batch->len_bytes - RAWE_ETH_HEADER_BYTES - index * batch->segment_bytes;
    return RAWE_ETH_HEADER_BYTES + (left < batch->segment_bytes ? left : batch->segment_bytes);
}

/** Where that frame begins, without an Ethernet header. */
static const uint8_t *frame_of(const struct net_batch *batch, uint32_t index)
{
    return batch->bytes + RAWE_ETH_HEADER_BYTES + (size_t)index * batch->segment_bytes;
}

bool net_batch_header(const struct net_batch *batch, uint32_t index, struct rawe_header *header)
{
    return rawe_header_decode(header, frame_of(batch, index),
                              net_batch_frame_bytes(batch, index) - RAWE_ETH_HEADER_BYTES) ==
           RAWE_DECODE_OK;
}

void net_batch_cut(const struct net_batch *batch, uint32_t index, uint8_t *out)
{
    memcpy(out, batch->bytes, RAWE_ETH_HEADER_BYTES);
    memcpy(out + RAWE_ETH_HEADER_BYTES, frame_of(batch, index),
           net_batch_frame_bytes(batch, index) - RAWE_ETH_HEADER_BYTES);
}

uint32_t net_batch_join(uint8_t *out, uint32_t len_bytes, const uint8_t *frame,
                        uint32_t frame_bytes)
{
    uint32_t skip_bytes = len_bytes == 0 ? 0 : RAWE_ETH_HEADER_BYTES;

    memcpy(out + len_bytes, frame + skip_bytes, frame_bytes - skip_bytes);
    return len_bytes + frame_bytes - skip_bytes;
}
