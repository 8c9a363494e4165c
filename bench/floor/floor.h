/* SPDX-License-Identifier: BSD-3-Clause */
/* What the floor programs share: frames over AF_PACKET between two hosts, with nothing on top. */
#ifndef RAWE_FLOOR_H
#define RAWE_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOOR_ETHERTYPE 0x88B6 /* IEEE local experimental 2; rawe itself uses 0x88B5 */
#define FLOOR_UDP_PORT 34998   /* of superframes, both directions */
#define FLOOR_SIZES_MAX 32
#define FLOOR_MAC_BYTES 6
#define FLOOR_HEADER_BYTES 24
#define FLOOR_FRAME_HEADERS (14 + FLOOR_HEADER_BYTES) /* MAC header and ours */

/* Frame types and what the fields of floor_frame mean in each. Only DATA carries payload. */
enum floor_type {
    FLOOR_HELLO = 1, /* broadcast; number: own nonce, offset: the nonce heard, 0 for none */
    FLOOR_START,     /* number: test; offset: enum floor_way; length: bytes of a message;
                        value: enum floor_test */
    FLOOR_STARTED,   /* number: test */
    FLOOR_END,       /* number: test */
    FLOOR_ENDED,     /* number: test; value: payload bytes received */
    FLOOR_PROBE,     /* asks a stream's receiver for a credit; value: pieces sent so far;
                        length: the window in pieces */
    FLOOR_CREDIT,    /* value: the first piece not seen yet; offset: 1 when some were lost */
    FLOOR_DATA,      /* number: message; offset and length: the piece; value: its count */
    FLOOR_BYE        /* no more tests */
};

enum floor_test { FLOOR_PINGPONG, FLOOR_STREAM, FLOOR_STREAM_CREDIT };

/* How data travels. */
enum floor_way {
    FLOOR_FRAMES, /* one send() a frame, received from a TPACKET_V2 ring */
    FLOOR_GSO     /* superframes cut by segmentation offload, received by recvmsg() */
};

/*
 * A header in host byte order. On the wire, in network byte order, it follows the MAC header; in a
 * superframe it stands at the start of each segment, behind the one UDP header:
 *
 *   0        2      3      4        8        12       16              24
 *   +--------+------+------+--------+--------+--------+---------------+
 *   | magic  | type | 0    | number | offset | length | value         | payload
 *   +--------+------+------+--------+--------+--------+---------------+
 */
struct floor_frame {
    enum floor_type type;
    uint32_t number;
    uint32_t offset;
    uint32_t length;
    uint64_t value;
    uint8_t from[FLOOR_MAC_BYTES]; /* received plain frames only */
};

struct floor_link {
    int fd;     /* plain frames, with the ring */
    int gso_fd; /* superframes; -1: not available */
    int ifindex;
    char name[16];
    int mtu; /* bytes */
    uint8_t mac[FLOOR_MAC_BYTES];
    uint8_t peer[FLOOR_MAC_BYTES];
    bool initiator; /* runs the tests and prints; the other end answers */
    uint8_t *ring;
    size_t ring_bytes;
    unsigned slot_bytes;
    unsigned slot_count;
    unsigned slot_next;
    uint8_t *scratch;         /* a frame being built */
    uint32_t frame_payload;   /* most payload bytes in a plain frame */
    uint32_t segment_payload; /* payload bytes in a full segment of a superframe */
    uint32_t segments_max;    /* segments in a full superframe */
    uint64_t ended_bytes;     /* payload received in the last test, told again when asked again */
};

struct floor_options {
    const char *interface;           /* NULL: the first Ethernet interface that is up */
    int cpu;                         /* core to run on; -1: as started */
    double seconds;                  /* for each size */
    double wait_seconds;             /* for the other end to appear or to answer */
    uint32_t sizes[FLOOR_SIZES_MAX]; /* bytes */
    int size_count;
    bool frames; /* ways to measure: plain frames, superframes */
    bool gso;
    bool credit; /* streams with a window, and without */
    bool unlimited;
};

/* A message on its way in. */
struct floor_inbox {
    uint32_t number;   /* the newest message of which something arrived */
    uint32_t received; /* its bytes so far */
    uint32_t next;     /* its offset expected next */
    uint64_t pieces;   /* first piece count not seen yet */
    uint64_t bytes;    /* payload received since the start of the test */
};

/* --- floor_options.c --- */

/* Reads the command line; false after a message or the help text, *status is the exit code. */
bool floor_options_parse(struct floor_options *options, int argc, char **argv, const char *purpose,
                         const uint32_t *sizes, int size_count, int *status);
/* Seconds on the monotonic clock. */
double floor_now(void);
/* The name of a way in output lines. */
const char *floor_way_name(enum floor_way way);

/* --- floor_link.c --- */

/* Opens interface, socket and ring, and pins the process; exits with a message on failure. */
void floor_link_open(struct floor_link *link, const struct floor_options *options);
void floor_link_close(struct floor_link *link);
/* Header to and from FLOOR_HEADER_BYTES on the wire; decoding is false for what is not ours. */
void floor_header_encode(uint8_t *wire, const struct floor_frame *frame);
bool floor_header_decode(const uint8_t *wire, struct floor_frame *frame);
/* Sends one plain frame, DATA with frame->length bytes of payload. `to` NULL: broadcast.
 * Returns 0 or -errno. */
int floor_frame_send(struct floor_link *link, const struct floor_frame *frame,
                     const uint8_t *payload, const uint8_t *to);
/* Takes the next frame off the ring; the payload of DATA is copied to buffer + offset where it fits
 * into `size` bytes. False: no frame there. */
bool floor_frame_receive(struct floor_link *link, struct floor_frame *frame, uint8_t *buffer,
                         uint32_t size);

/* --- floor_gso.c --- */

/* Opens the superframes' socket; leaves gso_fd -1 and says why when it cannot be had. */
void floor_gso_open(struct floor_link *link);
/* Sends the next superframe of a message, from first->offset on and at most `left` bytes. Returns
 * the bytes it took or -errno; *pieces is the number of segments they filled. */
int64_t floor_gso_send(struct floor_link *link, const struct floor_frame *first,
                       const uint8_t *message, uint32_t left, uint32_t *pieces);
/* Receives a superframe or a single segment straight into buffer + expected. frame tells the first
 * segment's header but the payload length of all, *pieces how many there were. False: nothing
 * there. */
bool floor_gso_receive(struct floor_link *link, struct floor_frame *frame, uint8_t *buffer,
                       uint32_t size, uint32_t expected, uint32_t *pieces);
/* Takes everything that waits in the superframes' queue; returns its payload bytes. After an END on
 * the ring there may be some, and the next test must not see it. */
uint64_t floor_gso_drain(struct floor_link *link);

/* --- floor_peer.c --- */

/* Finds the other end by broadcasts and settles who initiates; exits with a message when nobody
 * answers in time. */
void floor_peer_find(struct floor_link *link, const struct floor_options *options);
/* Initiator: repeats a request until its reply arrives; exits with a message when none does. */
void floor_peer_request(struct floor_link *link, const struct floor_options *options,
                        const struct floor_frame *request, enum floor_type reply_type,
                        struct floor_frame *reply);
/* Other end: waits for the next test; false when there is none. */
bool floor_peer_serve(struct floor_link *link, const struct floor_options *options,
                      struct floor_frame *start);
/* Ends a test: tells the payload bytes received. */
void floor_peer_ended(struct floor_link *link, uint32_t number, uint64_t bytes);
/* Sends a frame without payload, most often the answer to a request of the same number. */
void floor_peer_answer(struct floor_link *link, enum floor_type type, uint32_t number,
                       uint64_t value);
/* Initiator: tells the other end that there are no more tests. */
void floor_peer_bye(struct floor_link *link);
/* Ends the program when the other end has been silent for too long; says so. */
void floor_peer_gone(const struct floor_link *link, const struct floor_options *options);

/* --- floor_message.c --- */

/* Sends the next frame or superframe of a message of `length` bytes. cursor is a DATA header whose
 * offset and value (count of pieces) move on. Returns 0 or -errno. */
int floor_piece_send(struct floor_link *link, enum floor_way way, struct floor_frame *cursor,
                     const uint8_t *message, uint32_t length);
/* Takes the next piece of data or control frame, if one is there. Returns its type, 0 for none;
 * *done is set when it completed message inbox->number of `length` bytes. */
int floor_message_poll(struct floor_link *link, enum floor_way way, struct floor_inbox *inbox,
                       uint8_t *buffer, uint32_t length, struct floor_frame *frame, bool *done);
/* A buffer with its pages touched; exits when there is no memory. */
uint8_t *floor_buffer_new(size_t bytes);

#endif
