/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared parts of the baseline programs: bare frames over AF_PACKET between hosts. */
#ifndef RAWE_BASELINE_H
#define RAWE_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linux/packet/rawe_ring.h"

#define BASELINE_ETHERTYPE 0x88B6 /* IEEE local experimental 2; rawe itself uses 0x88B5 */
#define BASELINE_SIZES_MAX 32
#define BASELINE_MAC_BYTES 6
#define BASELINE_HEADER_BYTES 24
#define BASELINE_FRAME_HEADERS (14 + BASELINE_HEADER_BYTES) /* MAC header and ours */

/* Frame types, and what the fields of baseline_frame mean in each. Only DATA carries payload. */
enum baseline_type {
    BASELINE_PROBE = 1, /* asks a stream's receiver for a credit; value: pieces sent so far;
                        length: the window in pieces */
    BASELINE_CREDIT,    /* value: the first piece not seen yet; offset: 1 when some were lost */
    BASELINE_DATA       /* number: message; offset and length: the piece; value: its count */
};

/* Ways to send data. */
enum baseline_way {
    BASELINE_FRAMES,  /* one send() per frame, received from a TPACKET_V2 ring */
    BASELINE_BATCHES, /* TCP-shaped, cut and merged like TCP's; received by recvmsg() */
    BASELINE_RING,    /* batches received from a ring with a slot for each: short messages */
    BASELINE_WAYS
};

struct baseline_way_state {
    int fd;                /* -1: not available */
    uint32_t payload;      /* most payload bytes in a piece: a frame, or a segment of a batch */
    uint32_t pieces_max;   /* in one system call */
    uint32_t message_max;  /* longest message, in bytes */
    struct rawe_ring ring; /* its `memory` is NULL if this way uses no ring */
};

/*
 * A header in host byte order. On the wire, in network byte order, it follows the MAC header; in a
 * batch it is in an option of the TCP header:
 *
 *   0        2      3      4        8        12       16              24
 *   +--------+------+------+--------+--------+--------+---------------+
 *   | magic  | type | 0    | number | offset | length | value         | payload
 *   +--------+------+------+--------+--------+--------+---------------+
 */
struct baseline_frame {
    enum baseline_type type;
    uint32_t number;
    uint32_t offset;
    uint32_t length;
    uint64_t value;
};

struct baseline_link {
    int fd; /* plain frames */
    int ifindex;
    char name[16];
    int mtu; /* bytes */
    uint8_t mac[BASELINE_MAC_BYTES];
    uint8_t peer[BASELINE_MAC_BYTES];
    bool initiator;   /* runs the tests and prints; the other end answers */
    uint8_t *scratch; /* a frame being built */
    struct baseline_way_state ways[BASELINE_WAYS];
};

/* The receiver's result of a test. */
struct baseline_ended {
    uint64_t bytes; /* payload received */
    uint32_t wrong; /* bytes of the last message that differ from those sent */
};

struct baseline_options {
    const char *interface;              /* NULL: the first Ethernet interface that is up */
    double seconds;                     /* for each size */
    double compute_us;                  /* before each message; 0: do not compute */
    double touch_bytes;                 /* read and written meanwhile */
    double wait_seconds;                /* for the interface, or for frames */
    uint32_t sizes[BASELINE_SIZES_MAX]; /* bytes */
    int size_count;
    bool ways[BASELINE_WAYS]; /* to measure */
};

/* A message that is being received. */
struct baseline_inbox {
    uint32_t number;   /* the newest message that has begun to arrive */
    uint32_t received; /* bytes of that message received so far */
    uint32_t next;     /* offset in that message expected next */
    uint64_t pieces;   /* first piece count not seen yet */
    uint64_t bytes;    /* payload received since the start of the test */
};

/* --- baseline_link.c --- */

/* Return a buffer with its pages touched. Exits if there is no memory. */
uint8_t *baseline_buffer_new(size_t bytes);
/* Open interface, socket and ring of plain frames. Exits with a message on failure. */
void baseline_link_open(struct baseline_link *link, const struct baseline_options *options);
/* Send one plain frame, DATA with frame->length bytes of payload. Returns 0 or -errno. */
int baseline_frame_send(struct baseline_link *link, const struct baseline_frame *frame,
                        const uint8_t *payload);
/* Take the next frame off the ring. The payload of DATA is copied to buffer + offset if it fits
 * into `size` bytes. Returns false if the ring is empty. */
bool baseline_frame_receive(struct baseline_link *link, struct baseline_frame *frame,
                            uint8_t *buffer, uint32_t size);

/* Open the socket for one way of sending batches. On failure, print why and leave its fd -1. */
void baseline_batch_open(struct baseline_link *link, enum baseline_way way);
/* Discard all queued frames and batches before the next test. */
void baseline_drain(struct baseline_link *link);

/* Return a buffer with the contents that every message has. */
uint8_t *baseline_pattern_new(uint32_t bytes);
/* Return the number of bytes that differ from the contents of a message. */
uint32_t baseline_pattern_wrong(const uint8_t *buffer, uint32_t bytes);

/* Send the next frame or batch of a message of `length` bytes. cursor is a DATA header; its offset
 * and value (count of pieces) are advanced. Returns 0 or -errno. */
int baseline_piece_send(struct baseline_link *link, enum baseline_way way,
                        struct baseline_frame *cursor, const uint8_t *message, uint32_t length);
/* Take all queued batches. Returns their payload bytes. */
uint64_t baseline_batches_poll(struct baseline_link *link, enum baseline_way way,
                               struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length);
/* Take the next piece of data or control frame. Returns its type, or 0 if nothing has arrived. Sets
 * *done if it completed message inbox->number of `length` bytes. */
int baseline_message_poll(struct baseline_link *link, enum baseline_way way,
                          struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length,
                          struct baseline_frame *frame, bool *done);

/* --- baseline_main.c --- */

/* Return the seconds of the monotonic clock. */
double baseline_now(void);
/* Compute for options->compute_us, reading and writing options->touch_bytes of memory. */
void baseline_compute(const struct baseline_options *options);
/* Return the name of a way in output lines. */
const char *baseline_way_name(enum baseline_way way);
/* Rank 0: prepare rank 1 for a test. */
void baseline_test_begin(struct baseline_link *link, enum baseline_way way, uint32_t length);
/* Rank 0: end the test. Returns rank 1's result. */
struct baseline_ended baseline_test_end(void);
/* End the job with a message that the other rank's frames do not arrive. */
void baseline_gone(const struct baseline_link *link, const struct baseline_options *options);

/* State of the answering end of a test. */
struct baseline_answer {
    struct baseline_link *link;
    const struct baseline_options *options;
    enum baseline_way way;
    uint32_t length; /* bytes of a message */
    struct baseline_inbox inbox;
    uint8_t *buffer;  /* all messages are received into */
    uint8_t *message; /* to send back */
    uint64_t pieces;  /* ping-pong: sent; stream: granted by credit */
    uint64_t quarter; /* a quarter of a stream's window, in pieces */
};

/* The measurements of a program. */
struct baseline_program {
    const char *purpose; /* for --help */
    bool skips_single;   /* do not send single-piece messages as batches */
    /* Initiator: measure messages of `length` bytes and print a line. */
    void (*initiate)(struct baseline_link *link, const struct baseline_options *options,
                     enum baseline_way way, uint32_t length);
    /* Other end: handle a piece or a control frame of `type`. `done`: it completed message
     * inbox.number. */
    void (*take)(struct baseline_answer *answer, int type, const struct baseline_frame *frame,
                 bool done);
};

/* Run a program. Returns its exit status. */
int baseline_main(const struct baseline_program *program, int argc, char **argv);
/* Sort samples in ascending order. */
void baseline_sort(double *samples, int count);

#endif
