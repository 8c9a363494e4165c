/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_progress.h"

#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_routes.h"

/** Frames taken from a ring before bulk and other components get their turn. */
#define RING_BUDGET 64u

/** Batch packets, of up to 64 kB, taken before the ring gets its turn again: some 0.5 ms. */
#define BULK_BUDGET 16u

/** Damage is reported if more frames than this are damaged within this time. */
#define DAMAGED_MOST 10u
#define DAMAGED_WITHIN_NS (10ull * 1000 * 1000 * 1000)

/** Timers this late expire even if there is more to receive. */
#define TIMERS_LATE_NS 200000u

/**
 * Deliver what a callback's progress deferred, before the next frame is taken from the port: these
 * callbacks may receive as well, and would overtake a frame that was taken.
 */
static void deliver_earlier(struct rawe_engine *engine)
{
    if (OPAL_UNLIKELY(rawe_engine_has_deferred(engine)) && !engine->deferral->active) {
        rawe_engine_deliver_deferred(engine);
    }
}

static void note_arrival(void *context, uint64_t arrived_ns, uint16_t source_port)
{
    rawe_engine_arriving(context, arrived_ns);
    rawe_engine_sent_from(context, source_port);
}

/** Pass a frame from the ring to the engine. */
static void receive_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    struct rawe_engine *engine = context;

    rawe_engine_receive(engine, frame, len_bytes, engine->now_ns);
    deliver_earlier(engine);
}

static uint8_t *place_batch(void *context, const uint8_t *source_mac, const uint8_t *head,
                            size_t head_bytes, size_t data_bytes)
{
    return rawe_engine_place(context, source_mac, head, head_bytes, data_bytes);
}

static void receive_batch(void *context, const uint8_t *source_mac, const uint8_t *head,
                          size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct rawe_engine *engine = context;

    rawe_engine_receive_batch(engine, source_mac, head, head_bytes, data, data_bytes,
                              engine->now_ns);
    deliver_earlier(engine);
}

static const struct rawe_port_receiver to_engine = {
    .arrived = note_arrival,
    .frame = receive_frame,
    .place = place_batch,
    .packet = receive_batch,
};

/** Return the number of PROBEs received through the engine's link, for any engine. */
static uint64_t probes_received(const struct rawe_engine *engine)
{
    return engine->counters.probes_received + engine->probes_passed_on;
}

unsigned mca_btl_rawe_module_receive(mca_btl_rawe_module_t *module)
{
    struct rawe_engine *engine = &module->engine;
    unsigned received = 0;

    if (mca_btl_rawe_module_receivable(module)) {
        uint64_t probes = probes_received(engine);
        engine->now_ns = mca_btl_rawe_now_ns();
        received = rawe_port_receive(module->link, RING_BUDGET, &to_engine, engine);
        if (NULL != module->bulk && rawe_port_pending(module->bulk)) {
            /* A PROBE asks about earlier batches: receive all of them before answering. */
            unsigned budget =
                probes == probes_received(engine) ? BULK_BUDGET : engine->batches.receive_frames;
            received += rawe_port_receive(module->bulk, budget, &to_engine, engine);
        }
    }
    return received;
}

/** Expire timers and send what was postponed, as of the engine's now_ns. Lock held. */
static void timers_service(mca_btl_rawe_module_t *module)
{
    struct rawe_engine *engine = &module->engine;

    /* Receive first, because a timer may be waiting for a frame; but timers must not starve. */
    if (rawe_engine_reclaims_credit(engine) ||
        (rawe_timer_wheel_due(&engine->timers, engine->now_ns) &&
         (!mca_btl_rawe_module_receivable(module) ||
          rawe_timer_wheel_due(&engine->timers, engine->now_ns - TIMERS_LATE_NS)))) {
        rawe_engine_advance(engine, engine->now_ns);
    }
    if (rawe_engine_pending(engine)) {
        rawe_engine_flush(engine, engine->now_ns);
    }
}

/**
 * Return true if data from a peer was acknowledged but dropped: it names unregistered memory, or is
 * part of a message that was not accepted. Neither the PML nor the peer would notice, so the job
 * must not continue. The progress thread may have received it, or another module over its link.
 */
static bool data_is_missing(const mca_btl_rawe_module_t *module)
{
    const struct rawe_engine *engine = &module->engine;

    return 0 != (engine->counters.dropped_handle | engine->counters.dropped_fragment) &&
           !module->refusal_reported && !engine->finalizing;
}

static void data_refused(mca_btl_rawe_module_t *module)
{
    module->refusal_reported = true;
    if (0 != module->engine.counters.dropped_handle) {
        MCA_BTL_RAWE_HELP(put_refused, mca_btl_rawe_refusal_text(module->engine.put_refusal));
    } else {
        MCA_BTL_RAWE_HELP(
            internal_error, "receiving a message",
            "a part fits none that is taken here, or memory is exhausted: data is missing",
            __func__);
    }
    mca_btl_rawe_end_job(&module->super, "rawe: data is missing");
}

void mca_btl_rawe_module_check_damage(mca_btl_rawe_module_t *module)
{
    struct rawe_port_counters bulk, group_bulk;

    rawe_port_read_counters(module->bulk, &bulk);
    rawe_port_read_counters(module->group_bulk, &group_bulk);
    uint64_t damaged = module->engine.counters.dropped_checksum + bulk.damaged + group_bulk.damaged;
    if (damaged - module->damaged_before > DAMAGED_MOST) {
        const char *name = module->interface.name;
        MCA_BTL_RAWE_HELP_IF_ASKED(frames_damaged, name, damaged, name, name);
    }
    module->damaged_before = damaged;
    module->damage_poll_ns = module->engine.now_ns + DAMAGED_WITHIN_NS;
}

bool mca_btl_rawe_module_defer(mca_btl_rawe_module_t *module, unsigned frames_max)
{
    struct rawe_engine *engine = &module->engine;
    unsigned received = 0, count;

    rawe_engine_defer_begin(engine);
    do {
        count = mca_btl_rawe_module_receive(module);
        received += count;
    } while (0 != count && received < frames_max);
    bool pending = rawe_engine_pending(engine);
    engine->now_ns = mca_btl_rawe_now_ns();
    timers_service(module);
    rawe_engine_defer_end(engine);
    return 0 != received || pending;
}

/** Make progress in a callback (osc/pt2pt sends there, and waits), deferring messages in order. */
static unsigned progress_nested(mca_btl_rawe_module_t *module)
{
    bool useful = mca_btl_rawe_module_defer(module, 0);

    rawe_engine_complete_deferred(&module->engine);
    return useful;
}

static unsigned progress_outside(mca_btl_rawe_module_t *module)
{
    struct rawe_engine *engine = &module->engine;

    if (OPAL_UNLIKELY(rawe_engine_has_deferred(engine))) {
        rawe_engine_deliver_deferred(engine);
    }
    unsigned received = mca_btl_rawe_module_receive(module);
    if (0 == received) {
        engine->now_ns = mca_btl_rawe_now_ns();
    }
    timers_service(module);
    if (OPAL_UNLIKELY(data_is_missing(module))) {
        data_refused(module);
    }
    if (OPAL_UNLIKELY(engine->now_ns >= module->damage_poll_ns)) {
        mca_btl_rawe_module_check_damage(module);
    }
    return received;
}

unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock)
{
    struct rawe_engine *engine = &module->engine;

    if (OPAL_LIKELY(!mca_btl_rawe_module_receivable(module) && !rawe_engine_pending(engine) &&
                    !rawe_engine_has_deferred(engine) &&
                    (!poll_clock || (0 == engine->timers.armed && !data_is_missing(module) &&
                                     !rawe_credit_has_senders(&engine->pull.credit))))) {
        return 0;
    }
    if (OPAL_UNLIKELY(mca_btl_rawe_state.progressing)) {
        return progress_nested(module);
    }
    /* A thread is delivering earlier messages without the lock: defer the rest, up to a limit. */
    bool behind = atomic_load_explicit(&mca_btl_rawe_state.delivers_deferred, memory_order_acquire);
    mca_btl_rawe_state.progressing = true;
    unsigned received = OPAL_UNLIKELY(behind) ? progress_nested(module) : progress_outside(module);
    mca_btl_rawe_state.progressing = false;
    return received;
}

void mca_btl_rawe_progress_repair(bool may_say)
{
    if (OPAL_UNLIKELY(
            atomic_load_explicit(&mca_btl_rawe_state.fanout_repair, memory_order_acquire))) {
        mca_btl_rawe_fanout_repair();
    }
    if (OPAL_UNLIKELY(mca_btl_rawe_routes_pending())) {
        mca_btl_rawe_routes_check(may_say);
    }
}

bool mca_btl_rawe_progress_mpi_absent(uint32_t *entries)
{
    uint32_t before = *entries;

    *entries = mca_btl_rawe_lock_entries();
    return *entries == before;
}

bool mca_btl_rawe_progress_idle(const mca_btl_rawe_module_t *module)
{
    return rawe_engine_idle(&module->engine) && 0 == mca_btl_rawe_multicast_busy(module);
}
