/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Data to send, as lists of pieces: whole frames and batches, which core hands to a port (otherwise
 * the two layers share only the wire layouts), and the sends of core's callers.
 */
#ifndef RAWE_OUTPUT_H
#define RAWE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes in memory, laid out like struct iovec, which core does not use. */
struct rawe_bytes {
    void *base;
    size_t len_bytes;
};

/** Write to `out` the pieces of `len_bytes` bytes from `at_bytes` on. Returns their number. */
static inline unsigned rawe_bytes_range(const struct rawe_bytes *pieces, unsigned count,
                                        uint64_t at_bytes, size_t len_bytes, struct rawe_bytes *out)
{
    unsigned parts = 0;
    for (unsigned i = 0; i < count && len_bytes != 0; i++) {
        if (at_bytes >= pieces[i].len_bytes) {
            at_bytes -= pieces[i].len_bytes;
            continue;
        }
        size_t part = pieces[i].len_bytes - at_bytes;
        part = part < len_bytes ? part : len_bytes;
        out[parts++] = (struct rawe_bytes){(uint8_t *)pieces[i].base + at_bytes, part};
        len_bytes -= part;
        at_bytes = 0;
    }
    return parts;
}

#define RAWE_FRAME_PIECES_MAX 4u

/** A complete frame, from its Ethernet header on. The memory belongs to core. */
struct rawe_frame {
    struct rawe_bytes pieces[RAWE_FRAME_PIECES_MAX];
    unsigned piece_count;
    uint32_t len_bytes; /**< sum over the pieces, Ethernet header included */
};

struct rawe_output {
    /**
     * Send `count` frames, all to the same peer and on the same lane. The link copies them, or
     * hands them to the kernel, before it returns.
     *
     * Returns how many were accepted: fewer than `count` while the send queue is full (core keeps
     * the rest and retries at the next progress). A frame that the link cannot send for another
     * reason counts as accepted and is lost: core provides reliability.
     */
    unsigned (*transmit)(void *context, const struct rawe_frame *frames, unsigned count);
    void *context;
};

struct rawe_batch_output {
    /**
     * Send a packet: Ethernet header and batch header (rawe_wire.h) in one piece, then data. If
     * `segment_bytes` is not 0, the data is longer and is cut into segments of that length.
     *
     * Returns false while the send queue is full. A packet that cannot be sent for another reason
     * counts as accepted and is lost.
     */
    bool (*transmit)(void *context, const struct rawe_frame *packet, uint32_t segment_bytes);
    void *context;
    /** Current limit on a batch's data: a longer one blocks the queue for too long. NULL: none. */
    const uint32_t *longest_bytes;
};

struct rawe_conn;
struct rawe_sendqueue;

/** Result of an operation, reported to its caller. */
enum rawe_status {
    RAWE_STATUS_DONE = 0,
    RAWE_STATUS_FAILED = -1,  /**< the connection failed or closed before the peer had all data */
    RAWE_STATUS_BUSY = -2,    /**< no room now; nothing was accepted */
    RAWE_STATUS_DROPPED = -3, /**< the process is finalizing: only free memory, report nothing */
};

/** Data to send from the caller's memory. The caller owns it until `done`. */
struct rawe_send {
    struct rawe_send *next;
    /** The peer has all the data or, if `status` says so, never will. May run in the send call. */
    void (*done)(struct rawe_send *send, enum rawe_status status);
    /**
     * All data has been handed to the link or copied to a frame, but not acknowledged. Not called
     * after `done` or while the engine is deferring. NULL: no report.
     */
    void (*transmitted)(struct rawe_send *send, struct rawe_conn *conn);
    /**
     * For a PUT or REPLY in one piece: return a send for a part that uses another connection, and
     * whose `done` is also called; or NULL. If this pointer is NULL, the send must not be split.
     */
    struct rawe_send *(*split)(struct rawe_send *send);
    struct rawe_bytes pieces[2];
    uint8_t piece_count;
    uint8_t kind;  /**< RAWE_FRAGMENT_MESSAGE or a record; internal: BUNDLE */
    uint8_t tag;   /**< MESSAGE; REPLY: enum rawe_refusal */
    bool relaxed;  /**< no caller waits for `done`: other frames may carry its acknowledgement */
    bool internal; /**< in the engine's memory: `done` frees it, even while finalizing */
    bool ordered;  /**< MESSAGE: delivered in order with other ordered messages */
    bool copies;   /**< record: copied into a frame (rawe_conn_send_record) */
    bool prompt;   /**< record: never held back so that others can join it */
    uint32_t handle_index; /**< record: index of the handle; REPLY: of the operation */
    uint64_t handle_key;   /**< record: key of the handle; REPLY: of the operation */
    uint64_t offset;       /**< record: in the handle; REPLY: in the result */
    /* the connection's */
    struct rawe_sendqueue *queue; /**< its current queue, or its last one */
    uint64_t number; /**< message number (send/rawe_order.h); BUNDLE: its first one; record: 0 */
    uint64_t total_bytes;
    uint64_t framed_bytes;   /**< bytes put into frames */
    uint32_t frames;         /**< frames in the window that refer to this send */
    uint32_t message_number; /**< valid if fragmented */
    bool fragmented;         /**< sent in PART fragments: too long for a frame, or ordered */
    bool to_report;          /**< in the queue's list of sends to report */
};

/** A list of sends, in order. All zero: empty. */
struct rawe_sends {
    struct rawe_send *first, **end; /**< `end` is NULL until the first append */
};

static inline void rawe_sends_append(struct rawe_sends *sends, struct rawe_send *send)
{
    send->next = NULL;
    *(sends->first == NULL ? &sends->first : sends->end) = send;
    sends->end = &send->next;
}

/** Append `list`, linked by `next`. */
static inline void rawe_sends_append_all(struct rawe_sends *sends, struct rawe_send *list)
{
    while (list != NULL) {
        struct rawe_send *next = list->next;
        rawe_sends_append(sends, list);
        list = next;
    }
}

#endif
