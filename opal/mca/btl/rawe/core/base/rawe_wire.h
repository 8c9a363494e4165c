/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire format: every byte that rawe puts into an Ethernet frame, and the only code that reads
 * or writes these bytes. doc/protocol.md describes it in prose.
 *
 * All multi-byte fields are in network byte order. Decoders take untrusted bytes: they check each
 * length before reading, and never read past the given length.
 */
#ifndef RAWE_WIRE_H
#define RAWE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * Wire version, as published in the modex: processes refuse peers that have another one. After 15
 * came 17, because the low bits of 16 are 0, as in much that is no frame.
 */
#define RAWE_WIRE_VERSION 17u

/** Its low four bits, in each frame; other frames are dropped (by the kernel filter, then here). */
#define RAWE_FRAME_VERSION (RAWE_WIRE_VERSION & 0xFu)

/** Default EtherType: IEEE 802 local experimental 1. */
#define RAWE_ETHERTYPE_DEFAULT 0x88B5u

#define RAWE_MAC_BYTES 6u
#define RAWE_ETH_HEADER_BYTES 14u

/* Convert to network byte order. Byte by byte, inlined code takes three times as long (GCC 12). */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RAWE_BIG_ENDIAN(bits, value) __builtin_bswap##bits(value)
#else
#define RAWE_BIG_ENDIAN(bits, value) (value)
#endif

static inline void rawe_put16(uint8_t *out, uint16_t value)
{
    value = RAWE_BIG_ENDIAN(16, value);
    memcpy(out, &value, sizeof(value));
}

static inline void rawe_put32(uint8_t *out, uint32_t value)
{
    value = RAWE_BIG_ENDIAN(32, value);
    memcpy(out, &value, sizeof(value));
}

static inline void rawe_put64(uint8_t *out, uint64_t value)
{
    value = RAWE_BIG_ENDIAN(64, value);
    memcpy(out, &value, sizeof(value));
}

/** Return a MAC address as a number, which threads can read and write concurrently. */
static inline uint64_t rawe_mac_number(const uint8_t mac[RAWE_MAC_BYTES])
{
    uint64_t number = 0;
    memcpy(&number, mac, RAWE_MAC_BYTES);
    return number;
}

static inline void rawe_mac_of_number(uint64_t number, uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(mac, &number, RAWE_MAC_BYTES);
}

/** Write an Ethernet header. `ethertype` is in host order. */
void rawe_eth_header_encode(uint8_t *out, const uint8_t to[RAWE_MAC_BYTES],
                            const uint8_t from[RAWE_MAC_BYTES], uint16_t ethertype);

/*
 * Frame header, after the Ethernet header (offsets are relative to it):
 *
 *      0        1        2        3
 *  0 | version4 | flags  |   port of the receiver  |   byte 0: version << 4 | type
 *    |  type4   |        |                         |
 *  4 |             key of the receiver             |
 *  8 |       connection id of the receiver         |   index 20 bits | generation 12 bits
 * 12 |                sequence                     |   ACK: see protocol.md, section 3
 * 16 |          cumulative acknowledgement         |   next sequence expected
 * 20 |  payload bytes     |    credit (frames)     |
 * 24 | payload ... | CRC32C of header and payload 32
 *
 * An Ethernet NIC pads short frames to 60 bytes, so the header contains the payload length.
 */
#define RAWE_HEADER_BYTES 24u

/** Length of the checksum after the payload, not counted as payload. PING, PONG: see rawe_ping. */
#define RAWE_CHECKSUM_BYTES 4u

/** Frame bytes other than payload, without the Ethernet header. */
#define RAWE_FRAME_OVERHEAD_BYTES (RAWE_HEADER_BYTES + RAWE_CHECKSUM_BYTES)

/** Offset of the first payload byte from the start of the Ethernet header. */
#define RAWE_PAYLOAD_OFFSET (RAWE_ETH_HEADER_BYTES + RAWE_HEADER_BYTES)

/** Offsets of the frame-header fields that the kernel filter reads. */
#define RAWE_OFFSET_VERSION_TYPE 0u
#define RAWE_OFFSET_PORT 2u
#define RAWE_OFFSET_KEY 4u

/** The connections between two processes over one link: short messages never wait for long ones. */
enum rawe_lane {
    RAWE_LANE_EXPRESS, /**< messages that fit a frame */
    RAWE_LANE_BULK,    /**< longer messages and PUT data */
    RAWE_LANES
};

enum rawe_frame_type {
    RAWE_FRAME_DATA = 1,    /**< sequenced; payload is one or more fragments */
    RAWE_FRAME_BULK = 2,    /**< like DATA, on the bulk lane; in a batch header: see below */
    RAWE_FRAME_ACK = 3,     /**< not sequenced; payload is a SACK bitmap */
    RAWE_FRAME_PROBE = 4,   /**< requests an ACK at once; sequence = probe number; payload is
                                 rawe_connect, so that a CLOSE can answer it */
    RAWE_FRAME_CONNECT = 5, /**< connection request or reply; payload is rawe_connect */
    RAWE_FRAME_CLOSE = 6,   /**< orderly end; no payload */
    RAWE_FRAME_PING = 7,    /**< to the responder; payload is rawe_ping, then padding */
    RAWE_FRAME_PONG = 8,    /**< the responder's answer: same payload, same length */
    RAWE_FRAME_SLICE = 9,   /**< part of a sequenced frame that is now too long for the path;
                                 payload is rawe_slice, then bytes of the frame's payload */
    RAWE_FRAME_TYPE_END
};

/** The sender wants an acknowledgement at once (end of a burst, window nearly full). */
#define RAWE_FLAG_ACK_NOW 0x01u
/** On CLOSE, PONG: the sender has given up on the receiver, and no longer accepts its messages. */
#define RAWE_FLAG_GIVEN_UP 0x01u
/** On ACK: the credit field answers the probe whose number is in the sequence field. */
#define RAWE_FLAG_PROBE_ANSWER 0x02u
/** On CONNECT: a reply. On CLOSE: it answers PROBE or CONNECT, and its acknowledgement is void. */
#define RAWE_FLAG_REPLY 0x04u
/** The frame is a retransmission: its acknowledgement gives no RTT sample. */
#define RAWE_FLAG_RESENT 0x10u
/** On ACK: there was no memory for received frames, so the credit is 0. */
#define RAWE_FLAG_REFUSED 0x10u
/** On ACK: a duplicate of an accepted frame has arrived since the last ACK. */
#define RAWE_FLAG_DUPLICATE 0x20u
/** On PONG: the process is making progress, so its engine sees arriving frames. */
#define RAWE_FLAG_SERVICED 0x40u
/** On ACK, PROBE, CONNECT, CLOSE: the process is finalizing; it needs and accepts no more data. */
#define RAWE_FLAG_FINALIZING 0x40u
/** On BULK: the sender has more to send. */
#define RAWE_FLAG_MORE 0x40u
#define RAWE_FLAGS_KNOWN 0x77u

struct rawe_header {
    uint8_t type;           /**< enum rawe_frame_type */
    uint8_t flags;          /**< RAWE_FLAG_* */
    uint16_t port;          /**< receiver's port; PING, PONG: its responder's */
    uint32_t key;           /**< receiver's session key; PING, PONG: its responder's key */
    uint32_t connection_id; /**< receiver's id of the connection; 0: none yet; PING: rawe_ping */
    uint32_t sequence;
    uint32_t acknowledgement;
    uint16_t payload_bytes;
    uint16_t credit; /**< how many frames may be in flight to the sender */
};

/** Write the first eight bytes of a header. */
static inline void rawe_header_begin(uint8_t *out, uint8_t type, uint8_t flags, uint16_t number,
                                     uint32_t key)
{
    out[0] = (uint8_t)((RAWE_FRAME_VERSION << 4) | type);
    out[1] = flags;
    rawe_put16(out + 2, number);
    rawe_put32(out + 4, key);
}

/** Write the header to `out` (RAWE_HEADER_BYTES bytes). */
static inline void rawe_header_encode(uint8_t *out, const struct rawe_header *header)
{
    rawe_header_begin(out, header->type, header->flags, header->port, header->key);
    rawe_put32(out + 8, header->connection_id);
    rawe_put32(out + 12, header->sequence);
    rawe_put32(out + 16, header->acknowledgement);
    rawe_put16(out + 20, header->payload_bytes);
    rawe_put16(out + 22, header->credit);
}

enum rawe_decode_result {
    RAWE_DECODE_OK = 0,
    RAWE_DECODE_SHORT,   /**< fewer bytes than the structure needs */
    RAWE_DECODE_VERSION, /**< unknown wire version */
    RAWE_DECODE_TYPE,    /**< unknown frame or fragment type, or unknown flags */
    RAWE_DECODE_LENGTH,  /**< inconsistent lengths */
};

/** Read the header after an Ethernet header. On RAWE_DECODE_OK, `len_bytes` covers the payload. */
enum rawe_decode_result rawe_header_decode(struct rawe_header *header, const uint8_t *in,
                                           size_t len_bytes);

/*
 * Fragments: the payload of a DATA or BULK frame consists of one or more, each padded to 4 bytes
 * (the last one need not be). All begin with
 *
 *  0 | kind | tag | length of the data after the fragment header (16 bits) |
 *
 * and all except MESSAGE continue with
 *
 *  4 | kind specific (32 bits) |
 *
 *  MESSAGE  4 bytes. One whole message. (ob1's shortest messages, 16 bytes including its header,
 *          end in the cache line of the ring slot in which they begin.)
 *  PART    16 bytes: kind specific = message number, then offset (32), total length (32).
 *  BUNDLE  like PART. The message's content is MESSAGE fragments.
 *  VALIDATION  like PART, number 0. Tests whether batches pass; see rawe_conn_batch.c.
 *  PUT     24 bytes: kind specific = handle index, then handle key (64), offset (64).
 *  GET, ATOMIC  like PUT. The data is a rawe_request: what to read or do, and for which operation.
 *  REPLY   like PUT, but with the index and key of the operation that it answers, and the offset in
 *          its result; tag = enum rawe_refusal.
 *  CONTROL  like PUT: the key names the subject, the rest is 0. Not for the upper layer.
 *
 * MESSAGE fragments may share a frame, and so may records, the kinds that begin like PUT. Any other
 * fragment is alone in its frame.
 */
#define RAWE_FRAGMENT_ALIGN 4u
#define RAWE_FRAGMENT_MESSAGE_BYTES 4u
#define RAWE_FRAGMENT_PART_BYTES 16u
#define RAWE_FRAGMENT_PUT_BYTES 24u
#define RAWE_FRAGMENT_BYTES_MAX 24u

enum rawe_fragment_kind {
    RAWE_FRAGMENT_MESSAGE = 1,
    RAWE_FRAGMENT_PART = 2,
    RAWE_FRAGMENT_PUT = 3,
    RAWE_FRAGMENT_VALIDATION = 4, /**< the data is a known pattern, checked and discarded */
    RAWE_FRAGMENT_BUNDLE = 5,
    RAWE_FRAGMENT_GET = 6,
    RAWE_FRAGMENT_ATOMIC = 7,
    RAWE_FRAGMENT_REPLY = 8,
    RAWE_FRAGMENT_CONTROL = 9, /**< for the owner of the engine (rawe_callbacks.control) */
};

struct rawe_fragment {
    uint8_t kind;         /**< enum rawe_fragment_kind */
    uint8_t tag;          /**< MESSAGE, PART: the upper layer's tag; REPLY: enum rawe_refusal */
    uint16_t data_bytes;  /**< length of data */
    uint32_t id;          /**< PART: message number; records: index of handle or operation */
    uint32_t total_bytes; /**< PART: length of the whole message */
    uint64_t key;         /**< records: of the handle or the operation */
    uint64_t offset;      /**< PART, records: where to put or find the data */
    const uint8_t *data;  /**< decode only: points into the frame */
};

/** Return the length of a kind's fragment header; 0: unknown kind. */
static inline size_t rawe_fragment_header_bytes(uint8_t kind)
{
    static const uint8_t bytes[] = {
        [RAWE_FRAGMENT_MESSAGE] = RAWE_FRAGMENT_MESSAGE_BYTES,
        [RAWE_FRAGMENT_PART] = RAWE_FRAGMENT_PART_BYTES,
        [RAWE_FRAGMENT_PUT] = RAWE_FRAGMENT_PUT_BYTES,
        [RAWE_FRAGMENT_VALIDATION] = RAWE_FRAGMENT_PART_BYTES,
        [RAWE_FRAGMENT_BUNDLE] = RAWE_FRAGMENT_PART_BYTES,
        [RAWE_FRAGMENT_GET] = RAWE_FRAGMENT_PUT_BYTES,
        [RAWE_FRAGMENT_ATOMIC] = RAWE_FRAGMENT_PUT_BYTES,
        [RAWE_FRAGMENT_REPLY] = RAWE_FRAGMENT_PUT_BYTES,
        [RAWE_FRAGMENT_CONTROL] = RAWE_FRAGMENT_PUT_BYTES,
    };
    if (__builtin_expect(kind == RAWE_FRAGMENT_MESSAGE, 1)) {
        return RAWE_FRAGMENT_MESSAGE_BYTES; /* without a miss for the table */
    }
    return kind < sizeof(bytes) ? bytes[kind] : 0;
}

/** Write the fragment's header (not its data). Returns its length in bytes. */
static inline size_t rawe_fragment_encode(uint8_t *out, const struct rawe_fragment *fragment)
{
    size_t header_bytes = rawe_fragment_header_bytes(fragment->kind);
    out[0] = fragment->kind;
    out[1] = fragment->tag;
    rawe_put16(out + 2, fragment->data_bytes);
    if (header_bytes == RAWE_FRAGMENT_MESSAGE_BYTES) {
        return header_bytes;
    }
    rawe_put32(out + 4, fragment->id);
    if (header_bytes == RAWE_FRAGMENT_PART_BYTES) {
        rawe_put32(out + 8, (uint32_t)fragment->offset);
        rawe_put32(out + 12, fragment->total_bytes);
    } else if (header_bytes == RAWE_FRAGMENT_PUT_BYTES) {
        rawe_put64(out + 8, fragment->key);
        rawe_put64(out + 16, fragment->offset);
    }
    return header_bytes;
}

/** Read a fragment header that this process wrote. Does not set `data`. */
void rawe_fragment_reread(struct rawe_fragment *fragment, const uint8_t *in);

/** Return true for a kind that is part of a message and needs reassembly. */
static inline bool rawe_fragment_is_part(uint8_t kind)
{
    return kind == RAWE_FRAGMENT_PART || kind == RAWE_FRAGMENT_BUNDLE;
}

/** Return true for a kind that begins like PUT. Records are processed even while deferring. */
static inline bool rawe_fragment_is_record(uint8_t kind)
{
    return kind == RAWE_FRAGMENT_PUT || kind == RAWE_FRAGMENT_GET || kind == RAWE_FRAGMENT_ATOMIC ||
           kind == RAWE_FRAGMENT_REPLY || kind == RAWE_FRAGMENT_CONTROL;
}

/** Return true for a kind that requests a REPLY. */
static inline bool rawe_fragment_is_request(uint8_t kind)
{
    return kind == RAWE_FRAGMENT_GET || kind == RAWE_FRAGMENT_ATOMIC;
}

/**
 * Read the fragment at `*cursor`, before `end`, and advance the cursor past it and its padding.
 * Checks PART offsets; the code that places the data checks PUT offsets against the handle.
 */
enum rawe_decode_result rawe_fragment_decode(struct rawe_fragment *fragment, const uint8_t **cursor,
                                             const uint8_t *end);

/** Why an access to registered memory was refused. */
enum rawe_refusal {
    RAWE_REFUSAL_NONE = 0,       /**< not refused */
    RAWE_REFUSAL_UNKNOWN = 1,    /**< no memory is registered under that index and key */
    RAWE_REFUSAL_BOUNDS = 2,     /**< beyond the registered memory */
    RAWE_REFUSAL_ACCESS = 3,     /**< the memory is not registered for this kind of access */
    RAWE_REFUSAL_ALIGNMENT = 4,  /**< an atomic operation on an unaligned word */
    RAWE_REFUSAL_OPERATION = 5,  /**< unknown operation, or unknown width */
    RAWE_REFUSAL_FINALIZING = 6, /**< the process is in MPI_Finalize: its memory may be freed */
};

/** The operation of an ATOMIC on its target word. The REPLY contains the previous value. */
enum rawe_atomic {
    RAWE_ATOMIC_ADD = 1,
    RAWE_ATOMIC_AND = 2,
    RAWE_ATOMIC_OR = 3,
    RAWE_ATOMIC_XOR = 4,
    RAWE_ATOMIC_SWAP = 5,
    RAWE_ATOMIC_COMPARE_SWAP = 6, /**< store the operand if the word equals `compare` */
};

/*
 * Data of GET and ATOMIC.
 *
 *  0 | index of the operation 32 | enum rawe_atomic 8 | bytes of the word 8 | 0 16 |
 *  8 | key of the operation 64 |
 * 16 | GET: bytes to read; ATOMIC: operand 64 |
 * 24 | COMPARE_SWAP: value to compare with 64 |
 */
#define RAWE_REQUEST_BYTES 32u

struct rawe_request {
    uint32_t operation; /**< the REPLY's index... */
    uint64_t key;       /**< ... and key */
    uint8_t atomic;     /**< enum rawe_atomic; GET: 0 */
    uint8_t word_bytes; /**< 4 or 8; GET: 0 */
    uint64_t operand;   /**< GET: bytes to read */
    uint64_t compare;
};

void rawe_request_encode(uint8_t out[RAWE_REQUEST_BYTES], const struct rawe_request *request);

/** Read a request from a fragment's data of `len_bytes`. */
enum rawe_decode_result rawe_request_decode(struct rawe_request *request, const uint8_t *in,
                                            size_t len_bytes);

/** Data bytes, all zero, in a REPLY that refuses a request. */
#define RAWE_REFUSED_BYTES 8u

static inline size_t rawe_fragment_pad(size_t len_bytes)
{
    return (len_bytes + RAWE_FRAGMENT_ALIGN - 1) & ~(size_t)(RAWE_FRAGMENT_ALIGN - 1);
}

/*
 * Batch header: consecutive frames of the bulk lane are sent as one packet that looks like a TCP
 * segment, which NICs can split and GRO merges again (tcp_gso_segment, tcp_gro_receive). Both copy
 * or compare the header, except for the sequence number, which counts bytes. So the header
 * describes the whole batch, each packet cut from it is self-contained, and packets of two batches
 * do not merge.
 *
 *      0        1        2        3
 *  0 |  connection id, low   |  port of the receiver   |   TCP: ports
 *  4 |      offset of the packet in the batch's data   |   TCP: sequence number
 *  8 |            cumulative acknowledgement           |   TCP: acknowledgement number
 * 12 | 15 words | ACK        |      segment bytes       |   TCP: data offset, flags, window
 * 16 |      checksum (link)  |            0            |   TCP: checksum, urgent pointer
 * 20 |  254     |  40        |   experiment 0x5257      |   TCP option, RFC 6994
 * 24 | version4 | flags      |  kind      |    tag      |
 *    |  type4   |            |            |             |
 * 28 |               key of the receiver               |
 * 32 |  connection id, high  |         credit          |
 * 36 |      sequence number of the batch's first frame |
 * 40 |     message number; or index of the handle (PUT) or operation (REPLY)
 * 44 |     total length of the message, or the         |
 * 48 |     key (64) of the handle or operation         |
 * 52 |     offset (48) in the message, handle or result|
 * 56 |                       | frames     |     0       |
 * 60 data ...
 *
 * Each frame of a batch carries `segment bytes` of data, except that the last may carry less. Types
 * other than BULK are single frames: the data is the payload, the fields after `sequence` are 0.
 */
#define RAWE_BATCH_HEADER_BYTES 60u

/** Maximum number of frames in a batch. */
#define RAWE_BATCH_FRAMES_MAX 64u

/** Maximum number of data bytes in a batch. */
#define RAWE_BATCH_BYTES_MAX 64512u

/** Offsets of the batch header's fields that the kernel filter and the link access. */
#define RAWE_BATCH_OFFSET_PORT 2u
#define RAWE_BATCH_OFFSET_OFFSET 4u
#define RAWE_BATCH_OFFSET_CHECKSUM 16u
#define RAWE_BATCH_OFFSET_VERSION_TYPE 24u
#define RAWE_BATCH_OFFSET_KEY 28u
/** In a group's batch header: the last byte of the group's id. */
#define RAWE_BATCH_OFFSET_ID_BYTE 39u

/** A batch to be sent, or a received packet with all or part of a batch. */
struct rawe_batch {
    struct rawe_header header;     /**< `sequence` is that of the first frame */
    struct rawe_fragment fragment; /**< BULK: all frames together, as one fragment */
    uint32_t at_bytes;             /**< offset in the batch; 0: a whole batch */
    uint16_t segment_bytes;        /**< BULK: data of each frame except the batch's last */
    uint8_t frames;
    bool last; /**< decode only: includes the last frame of the batch */
};

/** Write the header of a packet that begins `at_bytes` into the data of a whole batch. */
void rawe_batch_encode(uint8_t out[RAWE_BATCH_HEADER_BYTES], const struct rawe_batch *batch);

/**
 * Read the header of a packet with `data_bytes` after it, which may be several frames of a batch.
 * Sets sequence, offset and number of frames to those of the packet. Does not set `fragment.data`.
 */
enum rawe_decode_result rawe_batch_decode(struct rawe_batch *batch, const uint8_t *in,
                                          size_t len_bytes, size_t data_bytes);

/*
 * SLICE payload: part of a sequenced frame's payload, and its position. The frame header is the
 * whole frame's, except for type and length.
 *
 *  0 | offset 16 | length of the whole payload 16 | type of the frame 8 | 0 24 |
 */
#define RAWE_SLICE_BYTES 8u

struct rawe_slice {
    uint16_t offset;
    uint16_t total_bytes;
    uint8_t type; /**< RAWE_FRAME_DATA or RAWE_FRAME_BULK */
};

void rawe_slice_encode(uint8_t *out, const struct rawe_slice *slice);

/** Read a slice from a payload of `len_bytes`. RAWE_DECODE_OK: the data fits the whole frame. */
enum rawe_decode_result rawe_slice_decode(struct rawe_slice *slice, const uint8_t *in,
                                          size_t len_bytes);

/*
 * SACK block, the payload of an ACK frame: a bitmap of the frames beyond the cumulative
 * acknowledgement. Bit 0 of byte 0 is frame acknowledgement + 1 (frame `acknowledgement` itself is
 * missing by definition). 0 to RAWE_SACK_BYTES_MAX bytes; trailing zero bytes are omitted.
 */
#define RAWE_SACK_BYTES_MAX 128u

/*
 * CONNECT and PROBE payload: the identity of the sender.
 *
 *  0 | jobid 32 | vpid 32 |
 *  8 | sender's connection id 32 | sender's key 32 |
 * 16 | sender's port 16 | lane 8 | choice 8 | largest frame payload it can receive 32 |
 * 24 | sender's incarnation 64 |
 */
#define RAWE_CONNECT_BYTES 32u

/**
 * Smallest frame payload that every peer must accept. It has room for a SACK block, and for any
 * fragment header with some data, even minus a batch header. A CONNECT that offers less, or more
 * than a frame's length field can hold, is refused, because lengths are computed from it.
 */
#define RAWE_PAYLOAD_LEAST_BYTES 128u

struct rawe_connect {
    uint32_t jobid;
    uint32_t vpid;
    uint32_t connection_id; /**< the receiver puts it into its frames */
    uint32_t key;
    uint16_t port;
    /** CONNECT: the intended interface, from 1. 0, and always in PROBE: the receiving interface. */
    uint8_t choice;
    uint8_t lane;               /**< which connection between the two processes */
    uint32_t payload_max_bytes; /**< RAWE_PAYLOAD_LEAST_BYTES to UINT16_MAX */
    uint64_t incarnation;       /**< grows with every connection the sender opens to this peer */
};

void rawe_connect_encode(uint8_t *out, const struct rawe_connect *connect);
enum rawe_decode_result rawe_connect_decode(struct rawe_connect *connect, const uint8_t *in,
                                            size_t len_bytes);

/*
 * PING payload. The rest of the frame, up to the length under test, is zero. PONG returns it
 * unchanged and with the same length, so that one exchange tests a size in both directions. A PING
 * to an address that no switch has learned is flooded. So responders have their own ports and keys,
 * and no PING or PONG contains a session key. Over UDP the header's connection id is the sender's
 * IPv4 address, or a hash of its IPv6 address (0: not given), so that the receiver notices NAT.
 *
 *  0 | responder's key to answer to 32 | responder's port 16 | 0 16 |
 *  8 | token 64 (meaningful to the sender only) |
 */
#define RAWE_PING_BYTES 16u

struct rawe_ping {
    uint32_t key;
    uint16_t port;
    uint64_t token;
};

void rawe_ping_encode(uint8_t *out, const struct rawe_ping *ping);
enum rawe_decode_result rawe_ping_decode(struct rawe_ping *ping, const uint8_t *in,
                                         size_t len_bytes);

/*
 * Frames of a group: messages multicast from one member, the root, to all others. The type
 * distinguishes their header from a frame header; connections reject it.
 *
 *      0        1        2        3
 *  0 | version4 | flags  |  member that sends it   |   byte 0: version << 4 | type
 *    |  type4   |        |                         |
 *  4 |             group id (64)                 |
 * 12 |                sequence                   |
 * 16 |         length of the message             |
 * 20 |  payload bytes      |          0          |
 * 24 | payload, then the CRC32C of all preceding bytes
 *
 * A root numbers its frames consecutively. Each carries the next part of a message; the next
 * message starts in a new frame. A SHARED frame instead contains whole messages, each after its
 * 16-bit length; the header's message length is then the payload's length.
 */
#define RAWE_GROUP_HEADER_BYTES 24u

/** Offset of the byte that the kernel filter reads: the last byte of the random id. */
#define RAWE_GROUP_OFFSET_ID_BYTE 11u

/*
 * Batch header of a group: consecutive DATA frames of one message are sent as one packet, like
 * those of a connection (see above), to 224.0.0.254. They are never resent as a batch.
 *
 *      0        1        2        3
 *  0 | member that sends it    |  id, its low 16 bits    |   TCP: ports
 *  4 |      offset of the packet in the batch's data     |   TCP: sequence number
 *  8 |                          0                        |   TCP: acknowledgement number
 * 12 | 15 words | ACK          |      segment bytes      |   TCP: data offset, flags, window
 * 16 |      checksum (link)    |            0            |   TCP: checksum, urgent pointer
 * 20 |  254     |  40          |   experiment 0x5257     |   TCP option, RFC 6994
 * 24 | version4 | flags        |            0            |
 *    |  type4   |              |                         |
 * 28 |                          0                        |
 * 32 |               group id (64)                       |
 * 40 |      sequence number of the batch's first frame   |
 * 44 |               length of the message               |
 * 48 | frames   |            0                           |
 * 60 data ...
 *
 * The flags are those of the last frame in the batch.
 */

/** The type field of group frames; their types are not in enum rawe_frame_type. */
enum { RAWE_GROUP_DATA = 10 };

/** All members acknowledge along the tree once they have all frames up to this one. */
#define RAWE_GROUP_FLAG_ASK 0x01u
/** The group's last message: its members communicate without the group afterwards. */
#define RAWE_GROUP_FLAG_LAST 0x02u
/** The payload consists of whole messages, each after its length. */
#define RAWE_GROUP_FLAG_SHARED 0x20u
#define RAWE_GROUP_FLAGS_KNOWN 0x23u

struct rawe_group_header {
    uint8_t flags;          /**< RAWE_GROUP_FLAG_* */
    uint16_t sender;        /**< a member */
    uint16_t payload_bytes; /**< for a batch: all its data */
    uint64_t id;            /**< of the group */
    uint32_t sequence;
    uint32_t total_bytes; /**< length of the message */
    /** Batch, or part of one: data of each frame except the message's last. 0: a single frame. */
    uint16_t segment_bytes;
};

/** Return how many frames the header describes, from `sequence` on. */
static inline uint32_t rawe_group_frames(const struct rawe_group_header *header)
{
    return header->segment_bytes == 0
               ? 1
               : (header->payload_bytes + header->segment_bytes - 1u) / header->segment_bytes;
}

void rawe_group_header_encode(uint8_t out[RAWE_GROUP_HEADER_BYTES],
                              const struct rawe_group_header *header);

/**
 * Read a header from the `len_bytes` bytes after the Ethernet header. RAWE_DECODE_OK: payload and
 * checksum are within `len_bytes`, and the lengths are consistent.
 */
enum rawe_decode_result rawe_group_header_decode(struct rawe_group_header *header,
                                                 const uint8_t *in, size_t len_bytes);

/** Write the header of a batch with `payload_bytes` of data. */
void rawe_group_batch_encode(uint8_t out[RAWE_BATCH_HEADER_BYTES],
                             const struct rawe_group_header *header);

/** Read the header of a packet with `data_bytes` after it, which may be only part of a batch. */
enum rawe_decode_result rawe_group_batch_decode(struct rawe_group_header *header, const uint8_t *in,
                                                size_t len_bytes, size_t data_bytes);

/*
 * Control messages of a group are sent in CONTROL records of connections. The record's key is the
 * group's id; its data is
 *
 *      0        1        2        3
 *  0 | type   | flags  |  root (a member)    |
 *  4 |                sequence               |
 *  8 |         length of the message         |   REPAIR: the frame's; otherwise 0
 * 12 |  payload bytes  |       piece         |   REPAIR: the frame's, and which piece this is
 * 16 | NACK: a bitmap of missing frames, bit 0 of byte 0 is `sequence`; REPAIR: the piece
 */
#define RAWE_GROUP_CONTROL_HEADER_BYTES 16u

enum rawe_group_control_type {
    RAWE_GROUP_ACK =
        1, /**< to the parent in the root's tree: the sender's subtree has all frames before it */
    RAWE_GROUP_NACK = 2,   /**< to the root: these frames are missing */
    RAWE_GROUP_STATUS = 3, /**< the root has sent all before `sequence`: acknowledge, and forward */
    RAWE_GROUP_REPAIR = 4, /**< from the root: a piece of a frame, with the frame's flags */
    RAWE_GROUP_WAIT = 5,   /**< to the root: the sender is waiting for its next frame */
    RAWE_GROUP_CONTROL_END
};

/** On STATUS: request missing frames again. */
#define RAWE_GROUP_FLAG_AGAIN 0x01u

/** Payload bytes in one REPAIR, which fits any path. */
#define RAWE_GROUP_PIECE_BYTES 384u
/** Limits on the number of pieces of a frame, and on its payload. */
#define RAWE_GROUP_PIECES_MAX 64u
#define RAWE_GROUP_PAYLOAD_MAX (RAWE_GROUP_PIECE_BYTES * RAWE_GROUP_PIECES_MAX)

/** The bitmap of a NACK covers a window of RAWE_WINDOW_FRAMES_MAX frames. */
#define RAWE_GROUP_NACK_BYTES_MAX 128u

#define RAWE_GROUP_CONTROL_BYTES_MAX (RAWE_GROUP_CONTROL_HEADER_BYTES + RAWE_GROUP_PIECE_BYTES)

struct rawe_group_control {
    uint8_t type; /**< enum rawe_group_control_type */
    uint8_t flags;
    uint16_t root;
    uint32_t sequence;
    uint32_t total_bytes;
    uint16_t payload_bytes;
    uint16_t piece;
    uint16_t data_bytes;
    const uint8_t *data; /**< decode only: points into the message */
};

/** Write the header; the caller appends the data. */
void rawe_group_control_encode(uint8_t out[RAWE_GROUP_CONTROL_HEADER_BYTES],
                               const struct rawe_group_control *control);

/** Read a control message. RAWE_DECODE_OK: its data has the length that its type requires. */
enum rawe_decode_result rawe_group_control_decode(struct rawe_group_control *control,
                                                  const uint8_t *in, size_t len_bytes);

/** Bytes before each message in a SHARED frame: its length. */
#define RAWE_GROUP_SHARED_BYTES 2u

/** Append a message to a SHARED payload. Returns the payload's new end. */
uint32_t rawe_group_shared_add(uint8_t *payload, uint32_t end_bytes, const void *message,
                               uint32_t len_bytes);

/** Return the message at `*at_bytes`, and advance past it. NULL: end of payload, or malformed. */
const uint8_t *rawe_group_shared_next(const uint8_t *payload, uint32_t payload_bytes,
                                      uint32_t *at_bytes, uint32_t *len_bytes);

/** Return true if the messages fill the payload exactly. */
bool rawe_group_shared_fits(const uint8_t *payload, uint32_t payload_bytes);

/** Write a CRC32C after the payload, in network byte order. */
void rawe_checksum_encode(uint8_t out[RAWE_CHECKSUM_BYTES], uint32_t crc);
uint32_t rawe_checksum_decode(const uint8_t in[RAWE_CHECKSUM_BYTES]);

/** Return true if a comes before b in 32-bit sequence space (RFC 1982). */
static inline bool rawe_sequence_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/** Maximum number of frames in flight on a connection; a SACK block covers all of them. */
#define RAWE_WINDOW_FRAMES_MAX 1024u

/** Fragmented messages that a sender may have in progress on a connection; a power of two. */
#define RAWE_REASSEMBLY_MESSAGES 64u

#endif
