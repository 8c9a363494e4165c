/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of an attacker who knows keys, ports and connection ids: see net.h.
 */
#include "net.h"

#include <string.h>

#include "net_packet.h"
#include "rawe_crc32c.h"

/** Longest payload that is forged. */
#define FORGED_BYTES_MAX 4096u

/** Of IPv4, as behind the link. */
#define BATCH_ETHERTYPE 0x0800u

static void write_number(uint8_t *out, unsigned bytes, uint64_t value)
{
    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
}

/** Make the checksum fit again, if there is one and room for it. */
static void set_checksum(struct net_frame *frame)
{
    struct rawe_header header;
    uint8_t *head = frame->bytes + RAWE_ETH_HEADER_BYTES;
    if (frame->len_bytes < RAWE_PAYLOAD_OFFSET ||
        rawe_header_decode(&header, head, frame->len_bytes - RAWE_ETH_HEADER_BYTES) !=
            RAWE_DECODE_OK ||
        (header.flags & RAWE_FLAG_CHECKSUM) == 0) {
        return;
    }
    size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header.payload_bytes;
    if (covered_bytes + RAWE_CHECKSUM_BYTES <= frame->len_bytes - RAWE_ETH_HEADER_BYTES) {
        rawe_checksum_encode(head + covered_bytes, rawe_crc32c(0, head, covered_bytes));
    }
}

/** Where a field lies behind the Ethernet header. */
struct field {
    uint8_t offset, bytes;
    bool relative; /**< `value` is added, not set */
};

/** Of a frame; the first ones are the header's. */
static const struct field frame_fields[] = {
    {0, 1, false},  {1, 1, false},  {8, 4, true},   {12, 4, true},  {16, 4, true},  {20, 2, false},
    {22, 2, false}, {24, 1, false}, {25, 1, false}, {26, 2, false}, {28, 4, true},  {32, 4, true},
    {36, 4, true},  {32, 8, false}, {40, 8, true},  {40, 2, false}, {42, 1, false}, {44, 4, false},
    {48, 8, true},  {26, 2, true},  {20, 2, true},  {2, 2, true},   {4, 4, true},
};

/** Of a batch header. */
static const struct field batch_fields[] = {
    {0, 2, true},  {2, 2, true},   {4, 4, true},   {8, 4, true},   {14, 2, false}, {14, 2, true},
    {20, 2, true}, {24, 1, false}, {25, 1, false}, {26, 1, false}, {27, 1, true},  {28, 4, true},
    {32, 2, true}, {34, 2, false}, {36, 4, true},  {40, 4, true},  {44, 4, true},  {44, 8, false},
    {48, 4, true}, {52, 2, false}, {54, 4, true},  {58, 1, false}, {58, 1, true},
};

#define FIELDS (sizeof(frame_fields) / sizeof(frame_fields[0]))
_Static_assert(sizeof(batch_fields) == sizeof(frame_fields), "a field number means one in either");

static void cut_short(struct net_frame *frame, size_t len_bytes)
{
    uint8_t *bytes = fuzz_copy(frame->bytes, len_bytes);
    fuzz_delete(frame->bytes);
    frame->bytes = bytes;
    frame->len_bytes = len_bytes;
}

static void change_data(struct net_frame *frame, size_t data_at, uint32_t value, uint32_t more)
{
    for (unsigned i = 0; i < 4 && frame->len_bytes > data_at; i++) {
        size_t at = data_at + (more + i) % (frame->len_bytes - data_at);
        frame->bytes[at] ^= (uint8_t)(value >> (8 * i));
    }
}

static void change_field(struct net_frame *frame, const struct field *field, bool has_version,
                         uint32_t value, uint32_t more)
{
    uint8_t *at = frame->bytes + RAWE_ETH_HEADER_BYTES + field->offset;
    uint64_t number = (uint64_t)more << 32 | value;
    if (frame->len_bytes < RAWE_ETH_HEADER_BYTES + field->offset + field->bytes) {
        return;
    }
    if (field->relative) {
        uint64_t before = 0;
        for (unsigned i = 0; i < field->bytes; i++) {
            before = before << 8 | at[i];
        }
        number = before + value;
    }
    if (has_version) { /* the version stays */
        number = RAWE_WIRE_VERSION << 4 | (value & 0x0F);
    }
    write_number(at, field->bytes, number);
}

void net_mutate(struct net *net, unsigned position, unsigned field, uint32_t value, uint32_t more)
{
    if (net->wire_count == 0) {
        return;
    }
    struct net_frame *frame = net->wire[position % net->wire_count];
    bool batch = net_is_batch(frame->bytes, (uint32_t)frame->len_bytes);
    net->tainted = true;
    field %= FIELDS + 2;
    if (field == FIELDS) {
        cut_short(frame, value % (frame->len_bytes + 1));
    } else if (field == FIELDS + 1) {
        change_data(frame, batch ? NET_BATCH_HEAD_BYTES : RAWE_PAYLOAD_OFFSET, value, more);
    } else {
        const struct field *changed = batch ? &batch_fields[field] : &frame_fields[field];
        uint8_t version_at = batch ? RAWE_BATCH_OFFSET_VERSION_TYPE : RAWE_OFFSET_VERSION_TYPE;
        change_field(frame, changed, changed->offset == version_at, value, more);
    }
    if (!batch) {
        set_checksum(frame);
    }
}

/** A handle that is valid at the victim, or was. */
static const struct net_entry *some_put(const struct net *net, unsigned victim, unsigned choice)
{
    for (unsigned i = 0; i < net->entry_count; i++) {
        const struct net_entry *entry = &net->entries[(choice + i) % net->entry_count];
        if (entry->put && entry->from != victim) {
            return entry;
        }
    }
    return NULL;
}

/** A fragment of which the victim may take some. */
static struct rawe_fragment describe(const struct net_node *victim, const struct rawe_conn *conn,
                                     const struct net_forgery *forgery)
{
    struct rawe_fragment fragment = {
        .kind = (uint8_t)(forgery->what >> 4 & 7),
        .tag = (uint8_t)(forgery->lengths >> 24),
        .data_bytes = (uint16_t)(forgery->lengths & 0x7FF),
        .offset = forgery->place & 0xFFFFFF,
        .total_bytes = (forgery->lengths >> 11 & 0x7FF) * 8,
    };
    if (fragment.kind == RAWE_FRAGMENT_PUT) {
        const struct net_entry *put = some_put(victim->net, victim->index, forgery->place >> 24);
        fragment.id = put != NULL ? put->handle_index : forgery->place >> 24;
        fragment.key = put != NULL ? put->handle_key : 0;
        if ((forgery->what & 0x1000) != 0) {
            fragment.offset = 0ull - fragment.offset;
        }
        if ((forgery->what & 0x2000) != 0) {
            fragment.key += 1ull << (forgery->place >> 24) % 64;
        }
    } else if (rawe_fragment_is_part(fragment.kind)) {
        uint32_t next = conn->reassembly != NULL ? conn->reassembly->next : 0;
        fragment.id = next + (uint32_t)(int8_t)(forgery->place >> 24);
        fragment.offset &= 0xFFFF;
        if ((forgery->what & 0x1000) != 0) {
            fragment.total_bytes = (uint32_t)fragment.offset + fragment.data_bytes; /* its end */
        }
    }
    return fragment;
}

static size_t forge_fragment(const struct net_node *victim, const struct rawe_conn *conn,
                             const struct net_forgery *forgery, uint8_t *out)
{
    struct rawe_fragment fragment = describe(victim, conn, forgery);
    size_t len_bytes = rawe_fragment_encode(out, &fragment);
    len_bytes = len_bytes != 0 ? len_bytes : RAWE_FRAGMENT_MESSAGE_BYTES;
    memset(out + len_bytes, (int)forgery->place & 0xFF, fragment.data_bytes);
    len_bytes += fragment.data_bytes;
    if (fragment.kind == RAWE_FRAGMENT_MESSAGE && (forgery->what & 0x2000) != 0) {
        /* A second one behind it, as long as the numbers say. */
        len_bytes = rawe_fragment_pad(len_bytes);
        fragment.data_bytes = (uint16_t)(forgery->place % 300);
        len_bytes += rawe_fragment_encode(out + len_bytes, &fragment);
        len_bytes += forgery->place / 300 % 300;
    }
    return len_bytes;
}

static size_t forge_identity(const struct net_node *attacker, const struct rawe_conn *conn,
                             const struct net_forgery *forgery, uint8_t *out)
{
    struct rawe_connect connect = {
        .jobid = attacker->net->config.jobid,
        .vpid = attacker->index,
        .connection_id = forgery->place,
        .key = attacker->key,
        .port = attacker->engine.config.port,
        .lane = conn->lane,
        .payload_max_bytes = forgery->lengths & 0x7FF,
        .incarnation = conn->handshake.peer_incarnation,
    };
    connect.incarnation += (uint64_t)(int64_t)(int8_t)(forgery->lengths >> 24);
    if ((forgery->what & 0x1000) != 0) {
        connect.lane = (uint8_t)(forgery->place & 3);
    }
    if ((forgery->what & 0x2000) != 0) {
        connect.incarnation = UINT64_MAX - (forgery->place & 1);
    }
    rawe_connect_encode(out, &connect);
    return RAWE_CONNECT_BYTES;
}

static size_t forge_sack(const struct net_forgery *forgery, uint8_t *out)
{
    uint64_t random = forgery->place;
    size_t len_bytes = forgery->lengths % 160;
    for (size_t i = 0; i < len_bytes; i++) {
        uint32_t bits = fuzz_random(&random);
        out[i] = (uint8_t)((forgery->what & 0x1000) != 0 ? bits & bits >> 8 & bits >> 16 : bits);
    }
    return len_bytes;
}

/** What follows the header in a frame of that type. Returns its length. */
static size_t forge_payload(const struct net_node *victim, const struct rawe_conn *conn,
                            const struct net_forgery *forgery, uint8_t type, uint8_t *out)
{
    size_t len_bytes;
    switch (type) {
    case RAWE_FRAME_ACK:
        len_bytes = forge_sack(forgery, out);
        break;
    case RAWE_FRAME_CONNECT:
    case RAWE_FRAME_PROBE:
        len_bytes = forge_identity(&victim->net->node[1 - victim->index], conn, forgery, out);
        break;
    case RAWE_FRAME_CLOSE:
        return 0;
    default:
        len_bytes = forge_fragment(victim, conn, forgery, out);
        break;
    }
    if ((forgery->what & 0x8000) != 0 && type != RAWE_FRAME_DATA) {
        len_bytes = len_bytes * (forgery->numbers & 7) / 8; /* not all of it */
    }
    return len_bytes;
}

static size_t forge_frame(const struct net_node *victim, const struct rawe_conn *conn,
                          const struct net_forgery *forgery, struct rawe_header *header,
                          uint8_t *out)
{
    size_t len_bytes =
        forge_payload(victim, conn, forgery, header->type, out + RAWE_PAYLOAD_OFFSET);
    header->payload_bytes = (uint16_t)len_bytes;
    return net_frame_forge(out, &victim->engine,
                           victim->net->node[1 - victim->index].engine.config.mac, header);
}

/** The same with a batch header: some frames of a batch, which need not be all of it. */
static size_t forge_batch(const struct net_node *victim, const struct rawe_conn *conn,
                          const struct net_forgery *forgery, const struct rawe_header *header,
                          uint8_t *out)
{
    uint8_t *data = out + NET_BATCH_HEAD_BYTES;
    struct rawe_batch batch = {
        .header = *header,
        .fragment = describe(victim, conn, forgery),
        .segment_bytes = (uint16_t)(1 + (forgery->lengths >> 22)),
    };
    size_t data_bytes = batch.fragment.data_bytes;
    if (header->type == RAWE_FRAME_BULK) {
        bool part = (forgery->what & 0x8000) != 0;
        uint32_t first = part ? 1 + (forgery->place & 3) : 0;
        uint32_t behind = part ? forgery->place >> 2 & 3 : 0;
        uint32_t frames = ((uint32_t)data_bytes + batch.segment_bytes - 1) / batch.segment_bytes;
        batch.at_bytes = first * batch.segment_bytes;
        batch.frames = (uint8_t)(first + frames + behind);
        memset(data, (int)forgery->place & 0xFF, data_bytes);
    } else {
        data_bytes = forge_payload(victim, conn, forgery, header->type, data);
    }
    net_frame_address(out, victim->engine.config.mac,
                      victim->net->node[1 - victim->index].engine.config.mac);
    write_number(out + 2 * RAWE_MAC_BYTES, 2, BATCH_ETHERTYPE);
    rawe_batch_encode(out + RAWE_ETH_HEADER_BYTES, &batch);
    return NET_BATCH_HEAD_BYTES + data_bytes;
}

void net_forge(struct net_node *victim, enum rawe_lane lane, const struct net_forgery *forgery)
{
    struct net *net = victim->net;
    struct net_node *attacker = &net->node[1 - victim->index];
    const struct rawe_conn *conn = victim->peer.conn[lane];
    if (conn == NULL) {
        return;
    }
    net->tainted = true;
    uint8_t buffer[NET_BATCH_HEAD_BYTES + 2 * FORGED_BYTES_MAX] = {0};
    struct rawe_header header = {
        .type = (uint8_t)(forgery->what & 15),
        .flags = (uint8_t)(forgery->what >> 7 & 31 & ~RAWE_FLAG_CHECKSUM),
        .port = victim->engine.config.port,
        .key = victim->key,
        .connection_id = conn->handshake.local_id,
        .credit = (uint16_t)(forgery->lengths >> 22),
    };
    uint32_t expected = conn->recvwin.acktr != NULL ? conn->recvwin.acktr->next : 0;
    header.sequence = expected + (uint32_t)(int16_t)forgery->numbers;
    header.acknowledgement =
        ((forgery->what & 0x4000) != 0 ? conn->sendwin.next : conn->sendwin.una) +
        (uint32_t)(int16_t)(forgery->numbers >> 16);
    if (header.type == RAWE_FRAME_ACK) {
        header.sequence = conn->liveness.probe_number + (uint32_t)(int16_t)forgery->numbers;
    }
    size_t len_bytes = (forgery->what & NET_FORGE_BATCH) != 0
                           ? forge_batch(victim, conn, forgery, &header, buffer)
                           : forge_frame(victim, conn, forgery, &header, buffer);
    struct net_frame *frame = net_frame_new(len_bytes);
    frame->from = attacker->index;
    memcpy(frame->bytes, buffer, len_bytes);
    net_put(net, frame);
}
