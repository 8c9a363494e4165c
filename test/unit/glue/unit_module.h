/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module over a fake link on which a test queues frames, for the tests of module progress and of
 * the progress thread. The rest of the component that they call is fake.
 */
#ifndef UNIT_MODULE_H
#define UNIT_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "btl_rawe_module.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_thread.h"
#include "fake_ompi.h"

#define US 1000ull
#define MS 1000000ull

/** Frames per packet of the bulk queue. */
#define PACKET_FRAMES 44u
/** Capacity of the bulk queue. */
#define QUEUE_PACKETS 500u

/** The module under test, which is open. */
extern mca_btl_rawe_module_t module;

/** A test's settings and records. All fields start at 0 or -1. */
struct fake {
    unsigned link_waits, bulk_waits;       /**< queued frames, packets: see fake_wait_in_link */
    unsigned link_refill;                  /**< frames queued again after each reception */
    unsigned link_received, bulk_received; /**< frames, packets received */
    bool ring_has_probe;
    void (*on_receive)(void); /**< called while a reception receives its first frame; NULL: none */
    void (*on_bulk)(void);    /**< called once, while a batch is received; NULL: none */
    unsigned expired_calls;   /**< expirations of fake_arm's timer */
    unsigned routes_checks;
    unsigned repairs;         /**< calls to repair the fanout group */
    bool listens;             /**< frames wake the thread */
    bool listens_for_room;    /**< ... as does room for a batch */
    bool shared;              /**< other threads use the processor */
    int wake_us;              /**< wait last requested for the thread; -1: none */
    uint64_t damaged;         /**< damaged packets of the bulk port */
    unsigned internal_errors; /**< internal_error messages expected */
};
extern struct fake fake;

/** Fixture: open a module with empty ports. */
void fake_set_up(void);
void fake_tear_down(void);
void fake_wait_in_link(unsigned frames);
void fake_wait_in_bulk(unsigned packets);
/** Arm the engine's only timer. */
void fake_arm(struct rawe_engine *engine, uint64_t after_ns);

#endif
