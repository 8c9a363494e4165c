/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module of the glue over a link that says of itself how much waits, for the tests of its
 * progress and of the progress thread. What else they need of the component is made up.
 */
#ifndef UNIT_MODULE_H
#define UNIT_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "btl_rawe_module.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_state.h"
#include "btl_rawe_thread.h"
#include "fake_ompi.h"

#define US 1000ull
#define MS 1000000ull

/** Frames of each packet of bulk. */
#define PACKET_FRAMES 44u
/** What bulk's queue has room for. */
#define QUEUE_PACKETS 500u

/** The module under test; open. */
extern mca_btl_rawe_module_t module;

/** The test's settings, and what is noted for it. All of it is 0 when a test begins, or -1. */
struct fake {
    unsigned link_waits, bulk_waits;       /**< frames, packets: see fake_wait_in_link */
    unsigned link_refill;                  /**< as many wait again after each reception */
    unsigned link_received, bulk_received; /**< frames, packets */
    bool ring_has_probe;
    void (*on_receive)(void); /**< a callback into the PML, from inside reception; NULL: none */
    void (*on_bulk)(void);    /**< the same before the second packet of bulk, once */
    unsigned expired_calls;   /**< of the timer of fake_arm */
    unsigned routes_checks;
    unsigned repairs;         /**< of the group */
    bool listens;             /**< frames wake the thread */
    bool listens_for_room;    /**< so does room for a batch */
    bool shared;              /**< others use the processor */
    int wake_us;              /**< when the thread was to be woken last; -1: it was not */
    uint64_t damaged;         /**< packets of bulk */
    unsigned internal_errors; /**< messages that are to be shown */
};
extern struct fake fake;

/** A fixture: an open module whose ports are empty. */
void fake_set_up(void);
void fake_tear_down(void);
void fake_wait_in_link(unsigned frames);
void fake_wait_in_bulk(unsigned packets);
/** Arm the one timer there is, among those of an engine. */
void fake_arm(struct rawe_engine *engine, uint64_t after_ns);

#endif
