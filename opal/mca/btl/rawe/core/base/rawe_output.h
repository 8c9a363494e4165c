/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is sent, as lists of pieces: whole frames and batches of frames, which core hands to a port
 * (the two layers share nothing else but the layouts), and what core's callers hand to it.
 */
#ifndef RAWE_OUTPUT_H
#define RAWE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Some bytes in memory; same layout as struct iovec, which core does not know. */
struct rawe_bytes {
    void *base;
    size_t len_bytes;
};

/** Write the parts of `pieces` that hold `len_bytes` from `at_bytes` on. Returns how many. */
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

/** A frame, complete from its Ethernet header on. The memory stays the core's. */
struct rawe_frame {
    struct rawe_bytes pieces[RAWE_FRAME_PIECES_MAX];
    unsigned piece_count;
    uint32_t len_bytes; /**< sum over the pieces, Ethernet header included */
};

struct rawe_output {
    /**
     * Send `count` frames, all to the same peer and of the same lane. The link copies or hands them
     * to the kernel before it returns.
     *
     * Returns how many were taken: fewer than `count` when the send queue is full for the moment
     * (the core keeps the rest and tries again at the next progress), never negative. A frame
     * that the link cannot send for another reason counts as taken and lost: reliability is
     * the core's business.
     */
    unsigned (*transmit)(void *context, const struct rawe_frame *frames, unsigned count);
    void *context;
};

struct rawe_batch_output {
    /**
     * Send a packet: Ethernet header, batch header (rawe_wire.h), in one piece, then data. Where
     * `segment_bytes` is not 0 the data is longer, and is to be cut each time after as many.
     *
     * Returns false when the send queue is full for the moment. As above, a packet that cannot be
     * sent for another reason counts as taken and lost.
     */
    bool (*transmit)(void *context, const struct rawe_frame *packet, uint32_t segment_bytes);
    void *context;
    /** Data of a batch, now: a longer one keeps the queue busy for too long. NULL: any. */
    const uint32_t *longest_bytes;
};

struct rawe_conn;
struct rawe_sendqueue;

/** Result of an operation, for its caller. */
enum rawe_status {
    RAWE_STATUS_DONE = 0,
    RAWE_STATUS_FAILED = -1,  /**< connection failed or closed before the peer had it all */
    RAWE_STATUS_BUSY = -2,    /**< no room at the moment; nothing was taken */
    RAWE_STATUS_DROPPED = -3, /**< not reported, as the process finalizes: only free memory */
};

/** Something to send that stays in the caller's memory. The caller owns it until `done`. */
struct rawe_send {
    struct rawe_send *next;
    /** The peer has it all, or (status) never will. May be called before the send call returns. */
    void (*done)(struct rawe_send *send, enum rawe_status status);
    /**
     * All of it is at the link, or in a frame, unacknowledged; NULL: no report. Not called after
     * `done`, nor while the engine defers.
     */
    void (*transmitted)(struct rawe_send *send, struct rawe_conn *conn);
    /**
     * PUT or REPLY in one piece: a send for a part of it that goes by another connection, whose
     * `done` is called besides; or NULL. NULL: it may not be split.
     */
    struct rawe_send *(*split)(struct rawe_send *send);
    struct rawe_bytes pieces[2];
    uint8_t piece_count;
    uint8_t kind;  /**< RAWE_FRAGMENT_MESSAGE or a record; the connection's: BUNDLE */
    uint8_t tag;   /**< MESSAGE; REPLY: enum rawe_refusal */
    bool relaxed;  /**< no caller waits for `done`: its acknowledgement may ride on other frames */
    bool internal; /**< memory of the engine's: `done` frees it, also while the process finalizes */
    bool ordered;  /**< MESSAGE: delivered in the order of sending among its like */
    bool copies;   /**< record: copied into a frame, see rawe_conn_send_record */
    uint32_t handle_index; /**< record: of the handle; REPLY: of the operation */
    uint64_t handle_key;   /**< record: the same */
    uint64_t offset;       /**< record: in the handle; REPLY: in the result */
    /* the connection's */
    struct rawe_sendqueue *queue; /**< that it is in, or was in last */
    uint64_t number; /**< of the message in send/rawe_order.h; BUNDLE: of the first; record: 0 */
    uint64_t total_bytes;
    uint64_t framed_bytes;   /**< how much has been put into frames */
    uint32_t frames;         /**< frames in the window that refer to it */
    uint32_t message_number; /**< valid when fragmented */
    bool fragmented;         /**< goes in PART fragments: too long for a frame, or ordered */
    bool to_report;          /**< in the queue's list of reports */
};

/** A list of sends, in order. All zero: empty. */
struct rawe_sends {
    struct rawe_send *first, **end; /**< `end` is NULL before the first one */
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
