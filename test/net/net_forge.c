/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Forged frames: see net_forge.h.
 */
#include "net_forge.h"

#include <string.h>

#include "net_engine.h"
#include "net_message.h"
#include "net_packet.h"
#include "base/rawe_crc32c.h"
#include "conn/rawe_conn_path.h"

/** EtherType of IPv4. */
#define BATCH_ETHERTYPE 0x0800u

static void write_number(uint8_t *out, unsigned bytes, uint64_t value)
{
    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
}

static bool has(const struct net_forgery *forgery, unsigned bit)
{
    return (forgery->what & bit) != 0;
}

static bool deceives(const struct net_forgery *forgery, enum net_deceit deceit)
{
    return forgery->deceit % NET_DECEITS == deceit;
}

static void fill(uint8_t *out, const struct net_forgery *forgery, size_t len_bytes)
{
    if (deceives(forgery, NET_DECEIT_NOISE)) {
        net_content_fill(out, forgery->place, 0, len_bytes);
    } else {
        memset(out, (int)forgery->place & 0xFF, len_bytes);
    }
}

/** Return the bit of a number to flip. */
static uint64_t flipped(const struct net_forgery *forgery, unsigned bits)
{
    return 1ull << (forgery->place ^ forgery->numbers) % bits;
}

/** Return a fragment that the victim may accept, at least in part. */
static struct rawe_fragment describe(const struct rawe_conn *victim,
                                     const struct net_memory *memory,
                                     const struct net_forgery *forgery)
{
    struct rawe_fragment fragment = {
        .kind = (uint8_t)(forgery->what >> 4 & 7),
        .tag = (uint8_t)(forgery->lengths >> 24),
        .data_bytes = (uint16_t)(forgery->lengths & 0x7FF),
        .offset = forgery->place & 0xFFFFFF,
        .total_bytes = (forgery->lengths >> 11 & 0x7FF) * 8,
    };

    if (deceives(forgery, NET_DECEIT_TOTAL)) {
        fragment.total_bytes = victim->engine->config.message_max_bytes + forgery->place % 3 - 1;
    }
    if (rawe_fragment_is_record(fragment.kind)) {
        fragment.id = memory->handle_index;
        fragment.key = memory->handle_key;
        if (deceives(forgery, NET_DECEIT_HANDLE)) {
            fragment.id ^= (uint32_t)flipped(forgery, 32);
        }
        if (has(forgery, NET_FORGE_EDGE)) {
            fragment.offset = 0ull - fragment.offset;
        }
        if (has(forgery, NET_FORGE_MORE)) {
            fragment.key += 1ull << (forgery->place >> 24) % 64;
        }
    } else if (rawe_fragment_is_part(fragment.kind)) {
        fragment.id = victim->rx.reassembly.next + (uint32_t)(int8_t)(forgery->place >> 24);
        fragment.offset &= 0xFFFF;
        if (has(forgery, NET_FORGE_EDGE)) {
            fragment.total_bytes = (uint32_t)fragment.offset + fragment.data_bytes; /* final part */
        }
    }
    return fragment;
}

static size_t forge_fragment(const struct rawe_conn *victim, const struct net_memory *memory,
                             const struct net_forgery *forgery, uint8_t *out)
{
    struct rawe_fragment fragment = describe(victim, memory, forgery);
    size_t data_bytes = fragment.data_bytes;

    if (deceives(forgery, NET_DECEIT_LENGTH)) {
        fragment.data_bytes = (uint16_t)(data_bytes + (uint32_t)(int8_t)(forgery->numbers >> 8));
    }
    size_t len_bytes = rawe_fragment_encode(out, &fragment);
    len_bytes = len_bytes != 0 ? len_bytes : RAWE_FRAGMENT_MESSAGE_BYTES;
    fill(out + len_bytes, forgery, data_bytes);
    len_bytes += data_bytes;
    if (fragment.kind == RAWE_FRAGMENT_MESSAGE && has(forgery, NET_FORGE_MORE)) {
        /* Append a second message, whose length the forgery chooses. */
        len_bytes = rawe_fragment_pad(len_bytes);
        fragment.data_bytes = (uint16_t)(forgery->place % 300);
        len_bytes += rawe_fragment_encode(out + len_bytes, &fragment);
        len_bytes += forgery->place / 300 % 300;
    }
    return len_bytes;
}

static size_t forge_slice(const struct net_forgery *forgery, uint8_t *out)
{
    const struct rawe_slice slice = {
        .offset = (uint16_t)(has(forgery, NET_FORGE_EDGE) ? forgery->place : 0),
        .total_bytes = (uint16_t)(forgery->lengths >> 11),
        .type = (uint8_t)(forgery->what >> 4 & 3),
    };
    size_t data_bytes = forgery->lengths & 0x7FF;

    rawe_slice_encode(out, &slice);
    fill(out + RAWE_SLICE_BYTES, forgery, data_bytes);
    return RAWE_SLICE_BYTES + data_bytes;
}

size_t net_forge_connect(const struct rawe_conn *victim, uint32_t connection_id, bool reply,
                         uint8_t out[NET_CONNECT_BYTES])
{
    const struct rawe_engine_config *config = &victim->engine->config;
    const struct rawe_header header = {
        .type = RAWE_FRAME_CONNECT,
        .flags = reply ? RAWE_FLAG_REPLY : 0,
        .port = config->port,
        .key = config->key,
        .connection_id = reply ? victim->handshake.local_id : 0,
        .payload_bytes = RAWE_CONNECT_BYTES,
        .credit = 64,
    };
    const struct rawe_connect connect = {
        .connection_id = connection_id,
        .key = victim->path.peer_key,
        .port = victim->path.peer_port,
        .lane = victim->lane,
        .payload_max_bytes = config->payload_max_bytes,
        .incarnation = 5,
    };

    memcpy(out, config->mac, RAWE_MAC_BYTES);
    memcpy(out + RAWE_MAC_BYTES, victim->path.eth_header, RAWE_MAC_BYTES);
    rawe_connect_encode(out + RAWE_PAYLOAD_OFFSET, &connect);
    return rawe_frame_seal(out, &header);
}

/** Write a CONNECT from the connection's peer, or from a similar peer. */
static size_t forge_identity(const struct rawe_conn *victim, const struct net_forgery *forgery,
                             uint8_t *out)
{
    struct rawe_connect connect = {
        .jobid = victim->engine->config.jobid,
        .vpid = net_index_of(victim->path.eth_header),
        .connection_id = forgery->place,
        .key = victim->path.peer_key,
        .port = victim->path.peer_port,
        .lane = victim->lane,
        .payload_max_bytes = forgery->lengths & 0x7FF,
        .incarnation = victim->handshake.peer_incarnation,
    };

    connect.incarnation += (uint64_t)(int64_t)(int8_t)(forgery->lengths >> 24);
    if (has(forgery, NET_FORGE_EDGE)) {
        connect.lane = (uint8_t)(forgery->place & 3);
    }
    if (has(forgery, NET_FORGE_MORE)) {
        connect.incarnation = UINT64_MAX - (forgery->place & 1);
    }
    if (deceives(forgery, NET_DECEIT_VPID)) {
        connect.vpid ^= (uint32_t)flipped(forgery, 32);
    } else if (deceives(forgery, NET_DECEIT_KEY)) {
        connect.key ^= (uint32_t)flipped(forgery, 32);
    } else if (deceives(forgery, NET_DECEIT_PORT)) {
        connect.port ^= (uint16_t)flipped(forgery, 16);
    } else if (deceives(forgery, NET_DECEIT_LENGTH)) {
        connect.payload_max_bytes = forgery->lengths;
    }
    rawe_connect_encode(out, &connect);
    return RAWE_CONNECT_BYTES;
}

static size_t forge_sack(const struct net_forgery *forgery, uint8_t *out)
{
    size_t len_bytes = forgery->lengths % 160;

    net_content_fill(out, forgery->place, 0, len_bytes);
    for (size_t i = 0; has(forgery, NET_FORGE_EDGE) && i < len_bytes; i++) {
        out[i] &= (uint8_t)(out[i] >> 4); /* set only a few bits */
    }
    return len_bytes;
}

/** Write the payload of a frame of this type. Returns its length. */
static size_t forge_payload(const struct rawe_conn *victim, const struct net_memory *memory,
                            const struct net_forgery *forgery, uint8_t type, uint8_t *out)
{
    size_t len_bytes;

    if (deceives(forgery, NET_DECEIT_NOISE) && has(forgery, NET_FORGE_EDGE)) {
        len_bytes = forgery->lengths & 0x1FF;
        fill(out, forgery, len_bytes);
        return len_bytes;
    }
    switch (type) {
    case RAWE_FRAME_ACK:
        len_bytes = forge_sack(forgery, out);
        break;
    case RAWE_FRAME_CONNECT:
    case RAWE_FRAME_PROBE:
        len_bytes = forge_identity(victim, forgery, out);
        break;
    case RAWE_FRAME_SLICE:
        len_bytes = forge_slice(forgery, out);
        break;
    case RAWE_FRAME_CLOSE:
        return 0;
    default:
        len_bytes = forge_fragment(victim, memory, forgery, out);
        break;
    }
    if (has(forgery, NET_FORGE_PARTLY) && type != RAWE_FRAME_DATA) {
        len_bytes = len_bytes * (forgery->numbers & 7) / 8;
    }
    return len_bytes;
}

/**
 * Write a packet with a batch header and some or all frames of a batch. Returns its length.
 */
static uint32_t forge_batch(const struct rawe_conn *victim, const struct net_memory *memory,
                            const struct net_forgery *forgery, const struct rawe_header *header,
                            uint8_t *out)
{
    uint8_t *data = out + NET_BATCH_HEAD_BYTES;
    struct rawe_batch batch = {
        .header = *header,
        .fragment = describe(victim, memory, forgery),
        .segment_bytes = (uint16_t)(1 + (forgery->lengths >> 22)),
    };
    size_t data_bytes = batch.fragment.data_bytes;

    if (header->type == RAWE_FRAME_BULK) {
        bool part = has(forgery, NET_FORGE_PARTLY);
        uint32_t first = part ? 1 + (forgery->place & 3) : 0;
        uint32_t behind = part ? forgery->place >> 2 & 3 : 0;
        uint32_t frames = ((uint32_t)data_bytes + batch.segment_bytes - 1) / batch.segment_bytes;
        batch.at_bytes = first * batch.segment_bytes;
        batch.frames = (uint8_t)(first + frames + behind);
        if (deceives(forgery, NET_DECEIT_LENGTH)) {
            batch.frames = (uint8_t)(forgery->numbers >> 8);
        }
        fill(data, forgery, data_bytes);
    } else {
        data_bytes = forge_payload(victim, memory, forgery, header->type, data);
    }
    net_frame_address(out, victim->engine->config.mac, victim->path.eth_header);
    write_number(out + 2 * RAWE_MAC_BYTES, 2, BATCH_ETHERTYPE);
    rawe_batch_encode(out + RAWE_ETH_HEADER_BYTES, &batch);
    return NET_BATCH_HEAD_BYTES + (uint32_t)data_bytes;
}

/** Return flags chosen by five bits. Control frames get FINALIZING instead of RESENT. */
static uint8_t choose_flags(const struct net_forgery *forgery, uint8_t type)
{
    uint8_t flags = (uint8_t)(forgery->what >> 7 & 31 & RAWE_FLAGS_KNOWN);

    if (type >= RAWE_FRAME_ACK && type <= RAWE_FRAME_CLOSE && (flags & RAWE_FLAG_RESENT) != 0) {
        flags ^= RAWE_FLAG_RESENT | RAWE_FLAG_FINALIZING;
    }
    return flags;
}

uint32_t net_forge(const struct rawe_conn *victim, const struct net_memory *memory,
                   const struct net_forgery *forgery, uint8_t *out)
{
    const struct rawe_engine *engine = victim->engine;
    uint32_t expected = victim->rx.window.next;
    struct rawe_header header = {
        .type = (uint8_t)(forgery->what & 15),
        .flags = choose_flags(forgery, (uint8_t)(forgery->what & 15)),
        .port = engine->config.port,
        .key = engine->config.key,
        .connection_id = victim->handshake.local_id,
        .credit = (uint16_t)(forgery->lengths >> 22),
        .acknowledgement =
            (has(forgery, NET_FORGE_UNSENT) ? victim->tx.window.next : victim->tx.window.una) +
            (uint32_t)(int16_t)(forgery->numbers >> 16),
    };
    uint32_t len_bytes;

    memset(out, 0, NET_FORGED_BYTES_MAX);
    header.sequence =
        (header.type == RAWE_FRAME_ACK ? victim->path.liveness.probe_number : expected) +
        (uint32_t)(int16_t)forgery->numbers;
    if (deceives(forgery, NET_DECEIT_CONNECTION)) {
        header.connection_id ^= (uint32_t)flipped(forgery, 32);
    }
    if (has(forgery, NET_FORGE_BATCH)) {
        len_bytes = forge_batch(victim, memory, forgery, &header, out);
    } else {
        header.payload_bytes = (uint16_t)forge_payload(victim, memory, forgery, header.type,
                                                       out + RAWE_PAYLOAD_OFFSET);
        len_bytes = net_frame_forge(out, engine, victim->path.eth_header, &header);
    }
    if (deceives(forgery, NET_DECEIT_UNKNOWN_PEER)) {
        net_forge_strange(out, len_bytes, engine, forgery->place % 48);
    }
    return len_bytes;
}

/** Correct the checksum, if the frame has room for one. */
static void set_checksum(uint8_t *bytes, uint32_t len_bytes)
{
    struct rawe_header header;
    uint8_t *head = bytes + RAWE_ETH_HEADER_BYTES;

    if (len_bytes < RAWE_PAYLOAD_OFFSET ||
        rawe_header_decode(&header, head, len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK) {
        return;
    }
    size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header.payload_bytes;
    if (covered_bytes + RAWE_CHECKSUM_BYTES <= len_bytes - RAWE_ETH_HEADER_BYTES) {
        rawe_checksum_encode(head + covered_bytes, rawe_crc32c(0, head, covered_bytes));
    }
}

/** A field, given by its offset after the Ethernet header and its length. */
struct field {
    uint8_t offset, bytes;
    bool relative; /**< `value` is added, not set */
};

/** Fields of a frame; those of the header come first. */
static const struct field frame_fields[] = {
    {0, 1, false},  {1, 1, false},  {8, 4, true},   {12, 4, true},  {16, 4, true},  {20, 2, false},
    {22, 2, false}, {24, 1, false}, {25, 1, false}, {26, 2, false}, {28, 4, true},  {32, 4, true},
    {36, 4, true},  {32, 8, false}, {40, 8, true},  {40, 2, false}, {42, 1, false}, {44, 4, false},
    {48, 8, true},  {26, 2, true},  {20, 2, true},  {2, 2, true},   {4, 4, true},
};

/** Fields of a batch header. */
static const struct field batch_fields[] = {
    {0, 2, true},  {2, 2, true},   {4, 4, true},   {8, 4, true},   {14, 2, false}, {14, 2, true},
    {20, 2, true}, {24, 1, false}, {25, 1, false}, {26, 1, false}, {27, 1, true},  {28, 4, true},
    {32, 2, true}, {34, 2, false}, {36, 4, true},  {40, 4, true},  {44, 4, true},  {44, 8, false},
    {48, 4, true}, {52, 2, false}, {54, 4, true},  {58, 1, false}, {58, 1, true},
};

#define FIELDS (sizeof(frame_fields) / sizeof(frame_fields[0]))
_Static_assert(sizeof(batch_fields) == sizeof(frame_fields), "a field number means one in either");
_Static_assert(FIELDS == NET_FORGE_CUT && FIELDS + 2 == NET_FORGE_CHANGES, "cut, and data");

static void change_data(uint8_t *data, uint32_t len_bytes, uint32_t value, uint32_t more)
{
    for (unsigned i = 0; i < 4 && len_bytes != 0; i++) {
        data[(more + i) % len_bytes] ^= (uint8_t)(value >> (8 * i));
    }
}

static void change_field(uint8_t *at, const struct field *field, bool has_version, uint32_t value,
                         uint32_t more)
{
    uint64_t number = (uint64_t)more << 32 | value;

    if (field->relative) {
        uint64_t before = 0;
        for (unsigned i = 0; i < field->bytes; i++) {
            before = before << 8 | at[i];
        }
        number = before + value;
    }
    if (has_version) { /* keep the version */
        number = RAWE_FRAME_VERSION << 4 | (value & 0x0F);
    }
    write_number(at, field->bytes, number);
}

uint32_t net_forge_change(uint8_t *bytes, uint32_t len_bytes, unsigned change, uint32_t value,
                          uint32_t more)
{
    bool batch = net_is_batch(bytes, len_bytes);
    uint32_t data_at = batch ? NET_BATCH_HEAD_BYTES : RAWE_PAYLOAD_OFFSET;

    change %= NET_FORGE_CHANGES;
    if (change == NET_FORGE_CUT) {
        len_bytes = value % (len_bytes + 1);
    } else if (change > NET_FORGE_CUT) {
        change_data(bytes + data_at, len_bytes > data_at ? len_bytes - data_at : 0, value, more);
    } else {
        const struct field *changed = batch ? &batch_fields[change] : &frame_fields[change];
        uint8_t version_at = batch ? RAWE_BATCH_OFFSET_VERSION_TYPE : RAWE_OFFSET_VERSION_TYPE;
        uint32_t at = RAWE_ETH_HEADER_BYTES + changed->offset;
        if (at + changed->bytes <= len_bytes) {
            change_field(bytes + at, changed, changed->offset == version_at, value, more);
        }
    }
    if (!batch) {
        set_checksum(bytes, len_bytes);
    }
    return len_bytes;
}

void net_forge_strange(uint8_t *bytes, uint32_t len_bytes, const struct rawe_engine *victim,
                       unsigned bit)
{
    bool batch = net_is_batch(bytes, len_bytes);
    uint8_t *header = bytes + RAWE_ETH_HEADER_BYTES;
    uint64_t wrong = 1ull << bit;

    if (len_bytes >= RAWE_PAYLOAD_OFFSET) {
        write_number(header + (batch ? RAWE_BATCH_OFFSET_KEY : RAWE_OFFSET_KEY), 4,
                     victim->config.key ^ (uint32_t)wrong);
        write_number(header + (batch ? RAWE_BATCH_OFFSET_PORT : RAWE_OFFSET_PORT), 2,
                     victim->config.port ^ wrong >> 32);
        if (!batch) {
            set_checksum(bytes, len_bytes);
        }
    }
}

void net_forge_noise(uint8_t *out, uint32_t len_bytes, bool batch, uint64_t seed)
{
    uint8_t version_type = (uint8_t)(RAWE_FRAME_VERSION << 4 | seed % 10);

    net_content_fill(out, seed, 0, len_bytes);
    if (batch && len_bytes >= NET_BATCH_HEAD_BYTES) {
        write_number(out + 2 * RAWE_MAC_BYTES, 2, BATCH_ETHERTYPE);
        out[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_OFFSET_VERSION_TYPE] = version_type;
    } else if (len_bytes > RAWE_ETH_HEADER_BYTES) {
        out[RAWE_ETH_HEADER_BYTES] = version_type;
    }
}
