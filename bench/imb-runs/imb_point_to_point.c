/* SPDX-License-Identifier: BSD-3-Clause */
/* Benchmarks between pairs and neighbours: ping-pong, exchange, window, send call. */
#include "imb.h"

#include <unistd.h>

#define TAG_DATA 1
#define TAG_REPLY 2
#define LINE_BYTES 64 /* length of a cache line */

void imb_space_one(struct imb_run *run, size_t *send, size_t *receive)
{
    *send = run->bytes;
    *receive = run->bytes;
}

static void space_two(struct imb_run *run, size_t *send, size_t *receive)
{
    *send = run->bytes;
    *receive = 2 * run->bytes;
}

/* Return the offset at which message `i` of a window is received in iteration `turn`. No two
 * buffers share a cache line. */
static size_t window_place(const struct imb_run *run, size_t turn, int i)
{
    size_t stride = (run->bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return (turn * IMB_WINDOW + (size_t)i) % (size_t)run->buffers * stride;
}

static void space_window(struct imb_run *run, size_t *send, size_t *receive)
{
    *send = run->bytes + (IMB_WINDOW - 1) * run->stride;
    *receive = window_place(run, 0, run->buffers - 1) + run->bytes;
}

void imb_fill_one(struct imb_run *run)
{
    imb_pattern_fill(run->send, run->bytes, run->rank, -1, run->round);
}

/* --- PingPong: one message there, one back ------------------------------------------------- */

static void ping_pong_from(struct imb_run *run, int source)
{
    int count = (int)run->bytes;
    if (run->rank == 0) {
        MPI_Send(run->send, count, MPI_BYTE, 1, TAG_DATA, run->comm);
    }
    MPI_Recv(run->receive, count, MPI_BYTE, source, TAG_DATA, run->comm, MPI_STATUS_IGNORE);
    if (run->rank != 0) {
        MPI_Send(run->send, count, MPI_BYTE, 0, TAG_DATA, run->comm);
    }
}

static void ping_pong(struct imb_run *run)
{
    ping_pong_from(run, 1 - run->rank);
}

static void ping_pong_any(struct imb_run *run)
{
    ping_pong_from(run, MPI_ANY_SOURCE);
}

static size_t verify_from_peer(const struct imb_run *run)
{
    return imb_pattern_compare(run->receive, run->bytes, 1 - run->rank, -1, run->round);
}

/* --- PingPing: both send at the same time --------------------------------------------------- */

static void ping_ping_from(struct imb_run *run, int source)
{
    int count = (int)run->bytes;
    int peer = 1 - run->rank;
    MPI_Isend(run->send, count, MPI_BYTE, peer, TAG_DATA, run->comm, &run->requests[0]);
    MPI_Recv(run->receive, count, MPI_BYTE, source, TAG_DATA, run->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&run->requests[0], MPI_STATUS_IGNORE);
}

static void ping_ping(struct imb_run *run)
{
    ping_ping_from(run, 1 - run->rank);
}

static void ping_ping_any(struct imb_run *run)
{
    ping_ping_from(run, MPI_ANY_SOURCE);
}

/* --- Sendrecv: a ring, each rank sends to the right and receives from the left ---------------- */

static int right_of(const struct imb_run *run)
{
    return (run->rank + 1) % run->size;
}

static int left_of(const struct imb_run *run)
{
    return (run->rank + run->size - 1) % run->size;
}

static void send_receive(struct imb_run *run)
{
    int count = (int)run->bytes;
    MPI_Sendrecv(run->send, count, MPI_BYTE, right_of(run), TAG_DATA, run->receive, count, MPI_BYTE,
                 left_of(run), TAG_DATA, run->comm, MPI_STATUS_IGNORE);
}

static size_t verify_from_left(const struct imb_run *run)
{
    return imb_pattern_compare(run->receive, run->bytes, left_of(run), -1, run->round);
}

/* --- Exchange: with both neighbours of the ring --------------------------------------------- */

static void exchange(struct imb_run *run)
{
    int count = (int)run->bytes;
    int left = left_of(run);
    int right = right_of(run);
    /* Use different tags: with two ranks, both neighbours are the same rank. */
    MPI_Isend(run->send, count, MPI_BYTE, right, TAG_DATA, run->comm, &run->requests[0]);
    MPI_Isend(run->send, count, MPI_BYTE, left, TAG_REPLY, run->comm, &run->requests[1]);
    MPI_Recv(run->receive, count, MPI_BYTE, left, TAG_DATA, run->comm, MPI_STATUS_IGNORE);
    MPI_Recv(run->receive + run->bytes, count, MPI_BYTE, right, TAG_REPLY, run->comm,
             MPI_STATUS_IGNORE);
    MPI_Waitall(2, run->requests, MPI_STATUSES_IGNORE);
}

static size_t verify_exchange(const struct imb_run *run)
{
    return verify_from_left(run) + imb_pattern_compare(run->receive + run->bytes, run->bytes,
                                                       right_of(run), -1, run->round);
}

/* --- Uniband, Biband: 64 messages in flight, then a reply ---------------------------------------
 * Ranks of the lower half send to the upper half. Without -check all messages of a window use one
 * buffer, as IMB's do. */

static int half_peer(const struct imb_run *run)
{
    return (run->rank + run->size / 2) % run->size;
}

static bool is_lower_half(const struct imb_run *run)
{
    return run->rank < run->size / 2;
}

static int window_send(struct imb_run *run, int first)
{
    for (int i = 0; i < IMB_WINDOW; i++) {
        MPI_Isend(run->send + (size_t)i * run->stride, (int)run->bytes, MPI_BYTE, half_peer(run),
                  TAG_DATA, run->comm, &run->requests[first + i]);
    }
    return first + IMB_WINDOW;
}

static int window_receive(struct imb_run *run)
{
    for (int i = 0; i < IMB_WINDOW; i++) {
        MPI_Irecv(run->receive + window_place(run, run->turn, i), (int)run->bytes, MPI_BYTE,
                  half_peer(run), TAG_DATA, run->comm, &run->requests[i]);
    }
    return IMB_WINDOW;
}

static void reply_send(struct imb_run *run)
{
    MPI_Send(NULL, 0, MPI_BYTE, half_peer(run), TAG_REPLY, run->comm);
}

static void reply_receive(struct imb_run *run)
{
    MPI_Recv(NULL, 0, MPI_BYTE, half_peer(run), TAG_REPLY, run->comm, MPI_STATUS_IGNORE);
}

static void one_way_band(struct imb_run *run)
{
    if (is_lower_half(run)) {
        MPI_Waitall(window_send(run, 0), run->requests, MPI_STATUSES_IGNORE);
        reply_receive(run);
    } else {
        MPI_Waitall(window_receive(run), run->requests, MPI_STATUSES_IGNORE);
        reply_send(run);
    }
}

static void two_way_band(struct imb_run *run)
{
    int receives = window_receive(run);
    MPI_Waitall(window_send(run, receives), run->requests, MPI_STATUSES_IGNORE);
    if (is_lower_half(run)) {
        reply_receive(run);
    } else {
        reply_send(run);
    }
}

static void fill_window(struct imb_run *run)
{
    for (int i = 0; i < IMB_WINDOW; i++) {
        imb_pattern_fill(run->send + (size_t)i * run->stride, run->bytes, run->rank, i, run->round);
    }
}

static size_t verify_window(const struct imb_run *run)
{
    size_t wrong = 0;
    for (int i = 0; i < IMB_WINDOW; i++) {
        wrong += imb_pattern_compare(run->receive + window_place(run, run->turn - 1, i), run->bytes,
                                     half_peer(run), i, run->round);
    }
    return wrong;
}

static size_t verify_one_way_window(const struct imb_run *run)
{
    return is_lower_half(run) ? 0 : verify_window(run);
}

/* --- Isend, SendCall: time inside MPI_Isend and MPI_Send ----------------------------------------
 * Because of the reply, each call starts on an idle connection, with the receive already posted. */

/* Time one call: MPI_Isend if `request` is not NULL, otherwise MPI_Send. */
static void timed_send(struct imb_run *run, MPI_Request *request)
{
    int count = (int)run->bytes;
    if (run->rank == 0) {
        double start = MPI_Wtime();
        if (request != NULL) {
            MPI_Isend(run->send, count, MPI_BYTE, 1, TAG_DATA, run->comm, request);
        } else {
            MPI_Send(run->send, count, MPI_BYTE, 1, TAG_DATA, run->comm);
        }
        run->call_seconds[run->iteration] = MPI_Wtime() - start;
        if (request != NULL) {
            MPI_Wait(request, MPI_STATUS_IGNORE);
        }
        reply_receive(run);
    } else {
        MPI_Recv(run->receive, count, MPI_BYTE, 0, TAG_DATA, run->comm, MPI_STATUS_IGNORE);
        reply_send(run);
    }
}

static void isend_call(struct imb_run *run)
{
    timed_send(run, &run->requests[0]);
}

static void send_call(struct imb_run *run)
{
    timed_send(run, NULL);
}

static size_t verify_one_way(const struct imb_run *run)
{
    return run->rank == 0 ? 0 : verify_from_peer(run);
}

/* --- MpBandwidth, MpLatency: MPBench's successive blocking sends, one reply at the end -------- */

static void send_one_way(struct imb_run *run)
{
    int count = (int)run->bytes;
    if (run->rank == 0) {
        MPI_Send(run->send, count, MPI_BYTE, 1, TAG_DATA, run->comm);
    } else {
        MPI_Recv(run->receive, count, MPI_BYTE, 0, TAG_DATA, run->comm, MPI_STATUS_IGNORE);
    }
}

static void reply_once(struct imb_run *run)
{
    if (run->rank == 0) {
        reply_receive(run);
    } else {
        reply_send(run);
    }
}

/* --- CacheCold: a ping-pong from and to uncached memory -----------------------------------------
 * Both buffers are larger than the caches, and each iteration uses the next place in them. */

#define COLD_GAP_BYTES (4096 + LINE_BYTES) /* beyond the reach of the processor's prefetching */
#define COLD_LEAST_BYTES ((size_t)32 << 20)
#define COLD_MOST_BYTES ((size_t)256 << 20)

static size_t cold_stride(const struct imb_run *run)
{
    return (run->bytes + COLD_GAP_BYTES) / LINE_BYTES * LINE_BYTES;
}

static void space_cold(struct imb_run *run, size_t *send, size_t *receive)
{
    long cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE); /* 0 or -1 where unknown */
    size_t pool_bytes = cache_bytes > 0 ? 2 * (size_t)cache_bytes : 0;
    if (pool_bytes < COLD_LEAST_BYTES) {
        pool_bytes = COLD_LEAST_BYTES;
    } else if (pool_bytes > COLD_MOST_BYTES) {
        pool_bytes = COLD_MOST_BYTES;
    }
    run->places = pool_bytes / cold_stride(run) + 2;
    *send = run->places * cold_stride(run);
    *receive = *send;
}

static void cold_ping_pong(struct imb_run *run)
{
    struct imb_run at_place = *run;
    run->place = run->turn % run->places * cold_stride(run);
    at_place.send += run->place;
    at_place.receive += run->place;
    ping_pong(&at_place);
}

static void fill_cold(struct imb_run *run)
{
    for (size_t i = 0; i < run->places; i++) {
        imb_pattern_fill(run->send + i * cold_stride(run), run->bytes, run->rank, -1, run->round);
    }
}

static size_t verify_cold(const struct imb_run *run)
{
    return imb_pattern_compare(run->receive + run->place, run->bytes, 1 - run->rank, -1,
                               run->round);
}

/* Columns: layout, traits, legs, traffic. */
#define PAIR(legs, traffic) IMB_LAYOUT_SINGLE, IMB_PAIR, legs, traffic
#define STREAM(traits, ways) IMB_LAYOUT_RATE, IMB_EVEN | (traits), 1, (ways)*IMB_WINDOW
#define CALL IMB_LAYOUT_CALL, IMB_PAIR, 1, 1

const struct imb_benchmark imb_point_to_point[] = {
    {"PingPong", PAIR(2, 1), imb_space_one, ping_pong, imb_fill_one, verify_from_peer, NULL},
    {"PingPing", PAIR(1, 1), imb_space_one, ping_ping, imb_fill_one, verify_from_peer, NULL},
    {"Sendrecv", IMB_LAYOUT_PARALLEL, 0, 1, 2, imb_space_one, send_receive, imb_fill_one,
     verify_from_left, NULL},
    {"Exchange", IMB_LAYOUT_PARALLEL, 0, 1, 4, space_two, exchange, imb_fill_one, verify_exchange,
     NULL},
    {"Uniband", STREAM(0, 1), space_window, one_way_band, fill_window, verify_one_way_window, NULL},
    {"Biband", STREAM(0, 2), space_window, two_way_band, fill_window, verify_window, NULL},
    {"UnibandCold", STREAM(IMB_COLD, 1), space_window, one_way_band, fill_window,
     verify_one_way_window, NULL},
    {"BibandCold", STREAM(IMB_COLD, 2), space_window, two_way_band, fill_window, verify_window,
     NULL},
    {"Isend", CALL, imb_space_one, isend_call, imb_fill_one, verify_one_way, NULL},
    {"SendCall", CALL, imb_space_one, send_call, imb_fill_one, verify_one_way, NULL},
    {"PingPongAnySource", PAIR(2, 1), imb_space_one, ping_pong_any, imb_fill_one, verify_from_peer,
     NULL},
    {"PingPingAnySource", PAIR(1, 1), imb_space_one, ping_ping_any, imb_fill_one, verify_from_peer,
     NULL},
    {"CacheHot", PAIR(2, 1), imb_space_one, ping_pong, imb_fill_one, verify_from_peer, NULL},
    {"CacheCold", PAIR(2, 1), space_cold, cold_ping_pong, fill_cold, verify_cold, NULL},
    {"MpBandwidth", PAIR(1, 1), imb_space_one, send_one_way, imb_fill_one, verify_one_way,
     reply_once},
    {"MpBidirectional", PAIR(1, 2), imb_space_one, ping_ping, imb_fill_one, verify_from_peer, NULL},
    {"MpRoundtrip", PAIR(1, 2), imb_space_one, ping_pong, imb_fill_one, verify_from_peer, NULL},
    {"MpLatency", IMB_LAYOUT_SINGLE, IMB_PAIR | IMB_CALLER, 1, 1, imb_space_one, send_one_way,
     imb_fill_one, verify_one_way, reply_once},
};
const int imb_point_to_point_count = sizeof(imb_point_to_point) / sizeof(imb_point_to_point[0]);
