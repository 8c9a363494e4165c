/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the peer has: acknowledgements of our frames, and which of them are lost.
 *
 * A frame is lost when one that was sent later has arrived, and the reordering window has passed
 * since (RACK, RFC 8985 section 6). Time alone is no evidence: silence leads to a probe, and the
 * answer to the probe is the later frame that has arrived.
 */
#include "rawe_conn.h"

static struct rawe_txframe *frame_at(const struct rawe_conn *conn, uint32_t sequence)
{
    return conn->slots[sequence & (conn->engine->config.window_frames - 1)];
}

/** Frame arrived at the peer: newest one so far? */
static void delivered(struct rawe_conn *conn, uint64_t sent_ns, uint32_t sequence, uint64_t now_ns)
{
    if (sent_ns > conn->newest_delivered_ns ||
        (sent_ns == conn->newest_delivered_ns &&
         rawe_sequence_before(conn->newest_delivered, sequence))) {
        conn->newest_delivered_ns = sent_ns;
        conn->newest_delivered = sequence;
        conn->evidence_ns = now_ns;
        conn->evidence_is_probe = false;
    }
}

/**
 * Note one frame, SENT or LOST or WAITING until now, as arrived. Returns its RTT sample or 0. It is
 * `evidence` against frames sent before it only when the peer told at the same time what else it
 * has.
 */
static uint64_t arrived(struct rawe_conn *conn, const struct rawe_txframe *frame, bool evidence,
                        uint64_t now_ns)
{
    if (frame->sendings == 0) {
        return 0;
    }
    uint64_t rtt_ns = now_ns > frame->sent_ns ? now_ns - frame->sent_ns : 1;
    /*
     * Sent more than once, the acknowledgement may be for the first sending (Karn): no sample,
     * and no evidence when it comes sooner than any round trip.
     */
    if (frame->sendings > 1) {
        if (evidence && rtt_ns >= conn->rtt.minimum_ns) {
            delivered(conn, frame->sent_ns, frame->sequence, now_ns);
        }
        return 0;
    }
    if (evidence) {
        delivered(conn, frame->sent_ns, frame->sequence, now_ns);
    }
    return rtt_ns;
}

/** Mark the frames of a SACK bitmap. Returns how many are newly known to have arrived. */
static uint32_t take_sack(struct rawe_conn *conn, uint32_t acknowledgement, const uint8_t *sack,
                          size_t sack_bytes, uint64_t now_ns)
{
    uint32_t count = 0;
    for (size_t i = 0; i < sack_bytes; i++) {
        for (uint8_t bits = sack[i]; bits != 0; bits &= (uint8_t)(bits - 1)) {
            uint32_t sequence =
                acknowledgement + 1 + (uint32_t)i * 8 + (uint32_t)__builtin_ctz(bits);
            if (!rawe_sequence_before(sequence, conn->next)) {
                return count; /* claims what was never sent: the rest is no better */
            }
            struct rawe_txframe *frame = frame_at(conn, sequence);
            if (frame->state == RAWE_TXFRAME_SACKED || frame->sendings == 0) {
                continue;
            }
            arrived(conn, frame, true, now_ns);
            if (frame->state == RAWE_TXFRAME_SENT) {
                conn->in_flight--;
            } else {
                conn->to_transmit--;
            }
            frame->state = RAWE_TXFRAME_SACKED;
            conn->sacked++;
            count++;
        }
    }
    return count;
}

void rawe_conn_acknowledged(struct rawe_conn *conn, const struct rawe_header *header,
                            const uint8_t *sack, size_t sack_bytes, uint64_t now_ns)
{
    uint32_t acknowledgement = header->acknowledgement;
    if (rawe_sequence_before(acknowledgement, conn->una)) {
        return; /* overtaken by a later acknowledgement */
    }
    conn->peer_credit = header->credit > RAWE_CC_LEAST_FRAMES
                            ? header->credit
                            : RAWE_CC_LEAST_FRAMES;
    bool probe_answered = header->type == RAWE_FRAME_ACK &&
                          (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0 &&
                          header->sequence != 0 &&
                          conn->probe_number - header->sequence < RAWE_CONN_PROBES &&
                          conn->probe_number - header->sequence < conn->probe_number;
    if (acknowledgement == conn->una && sack_bytes == 0 && !probe_answered) {
        if (conn->queue != NULL || conn->to_transmit != 0) {
            rawe_conn_output(conn, now_ns); /* the credit may have grown */
        }
        return;
    }
    uint32_t in_flight_before = conn->in_flight;
    bool limited = conn->queue != NULL || in_flight_before >= conn->cc.window;
    struct rawe_send *complete = NULL;
    struct rawe_send **tail = &complete;
    /* Other frames carry no SACK: the peer may have frames beyond that it has not told of yet. */
    bool has_sack = header->type == RAWE_FRAME_ACK;
    uint64_t rtt_ns = 0;
    uint32_t count = 0;
    while (conn->una != acknowledgement) {
        struct rawe_txframe *frame = frame_at(conn, conn->una);
        if (frame->state != RAWE_TXFRAME_SACKED) {
            uint64_t sample_ns = arrived(conn, frame, has_sack, now_ns);
            rtt_ns = sample_ns != 0 ? sample_ns : rtt_ns;
            count++;
        }
        struct rawe_send *send = rawe_conn_release(conn, conn->una);
        conn->una++;
        if (send != NULL) {
            *tail = send;
            tail = &send->next;
        }
    }
    *tail = NULL;
    count += take_sack(conn, acknowledgement, sack, sack_bytes, now_ns);
    conn->engine->counters.frames_acknowledged += count;
    if (rtt_ns != 0) {
        rawe_rtt_sample(&conn->rtt, rtt_ns);
        rawe_histogram_add(&conn->engine->round_trips, rtt_ns);
    }
    if (probe_answered) {
        /*
         * The probe was sent after the frames in flight then, and stands for the newest of them;
         * 1 ns earlier, so that frames sent in the same turn, behind the probe, are not meant.
         */
        delivered(conn, conn->probe_sent_ns[header->sequence % RAWE_CONN_PROBES] - 1, conn->next,
                  now_ns);
        conn->evidence_is_probe = conn->newest_delivered == conn->next;
        conn->engine->counters.probes_answered++;
    }
    rawe_cc_acked(&conn->cc, count, limited);
    if (conn->batch == RAWE_BATCH_VALIDATING) {
        rawe_conn_batch_conclude(conn, NULL);
    }
    if (conn->una == conn->next) {
        conn->loss_deadline_ns = 0;
        conn->probe_deadline_ns = 0;
    } else {
        if (conn->sacked != 0 || probe_answered) {
            rawe_conn_detect_losses(conn, now_ns);
        }
        if (count != 0 || probe_answered) {
            rawe_conn_expect_ack(conn, now_ns);
        }
    }
    if (conn->queue != NULL || conn->to_transmit != 0) {
        rawe_conn_output(conn, now_ns);
    }
    rawe_conn_complete(conn->engine, complete, RAWE_STATUS_DONE);
}

static void count_loss(struct rawe_conn *conn, bool trying)
{
    struct rawe_counters *counters = &conn->engine->counters;
    if (trying) {
        counters->losses_validation++;
    } else if (conn->evidence_is_probe) {
        counters->losses_probed++;
    } else {
        counters->losses_overtaken++;
    }
}

void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    uint64_t reorder_ns = engine->config.reorder_ns;
    bool window_passed = now_ns - conn->evidence_ns >= reorder_ns;
    bool undecided = false;
    bool trying = conn->batch == RAWE_BATCH_VALIDATING; /* losses then tell nothing of congestion */
    for (uint32_t sequence = conn->una; sequence != conn->next; sequence++) {
        struct rawe_txframe *frame = frame_at(conn, sequence);
        if (frame->state != RAWE_TXFRAME_SENT) {
            continue;
        }
        /* Of frames sent in the same turn, only first sendings are known to be in order. */
        bool overtaken = frame->sent_ns < conn->newest_delivered_ns ||
                         (frame->sent_ns == conn->newest_delivered_ns && frame->sendings == 1 &&
                          rawe_sequence_before(sequence, conn->newest_delivered));
        if (!overtaken) {
            continue;
        }
        if (!window_passed && frame->sent_ns + reorder_ns > conn->newest_delivered_ns) {
            undecided = true;
            continue;
        }
        frame->state = RAWE_TXFRAME_LOST;
        conn->in_flight--;
        if (conn->to_transmit == 0 || rawe_sequence_before(sequence, conn->transmit_from)) {
            conn->transmit_from = sequence;
        }
        conn->to_transmit++;
        count_loss(conn, trying);
        if (trying) {
            if (conn->batch == RAWE_BATCH_VALIDATING) {
                rawe_conn_batch_conclude(conn, frame);
            }
        } else if (rawe_cc_lost(&conn->cc, sequence, conn->next)) {
            engine->counters.congestion_events++;
        }
    }
    if (undecided && conn->loss_deadline_ns == 0) {
        conn->loss_deadline_ns = now_ns + reorder_ns;
        rawe_conn_arm(conn);
    } else if (!undecided) {
        conn->loss_deadline_ns = 0;
    }
}
