/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fake Open MPI and clock for the glue's tests: a test sets Open MPI's answers and reads the
 * messages shown to the user. The rest of the component is real, unless the test replaces it. Also
 * provides an engine whose frames are discarded.
 */
#ifndef FAKE_OMPI_H
#define FAKE_OMPI_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_rawe_compat.h"
#include "btl_rawe_module.h"
#include "rawe_engine.h"
#include "unit_test.h"

#define FAKE_OMPI_SHOWN_MAX 64u

struct fake_ompi {
    uint64_t now_ns;
    bool fault_tolerant; /**< the job continues without lost processes */
    bool alone;          /**< no other BTL is in use */
    bool unasked;        /**< the job does not name rawe; read by mca_btl_rawe_help_begin */
    unsigned said;       /**< lines printed by mca_btl_rawe_compat_say */
    unsigned shown;      /**< help-file messages; repeats are not suppressed */
    char topic[FAKE_OMPI_SHOWN_MAX][32];
    char text[4096]; /**< the last line or message */
    unsigned errors; /**< calls to the PML's error callback; each ends the job */
    const mca_btl_base_module_t *failed; /**< the last error's module, ... */
    const opal_proc_t *blamed; /**< ... process (5.0 may go on without it; NULL: none) ... */
    char error[128];           /**< ... and text */
    const mca_btl_base_module_t *received_on;  /**< the last message's module */
    mca_btl_rawe_compat_departed_fn *departed; /**< to be told of deaths; NULL: not registered */
};
extern struct fake_ompi fake_ompi;

/** For set_up: reset the fakes, and the component's state and parameters. */
void fake_ompi_begin(void);
/** Return the number of messages shown for a topic. */
unsigned fake_ompi_shown(const char *topic);
/** Assert that the last message has this topic and contains this text. */
void fake_ompi_assert_shown(const char *topic, const char *text);
/** The PML's error callback, which fake_ompi_begin registers. */
void fake_ompi_error(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *proc, char *text);
/** Call `note` with each message received for a tag; NULL: no further message is expected. */
void fake_ompi_receive(unsigned tag, void (*note)(const uint8_t *data, size_t len_bytes));

/**
 * Start an engine without callbacks, whose link discards all frames and whose clock is the fake.
 * `context` is for callbacks that the test adds. The caller owns the handle table, and calls
 * rawe_engine_free at the end.
 */
void unit_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles,
                       void *context);
/** List a module, which is zero, with such an engine and no endpoints. */
void unit_module_start(mca_btl_rawe_module_t *module, struct rawe_handle_table *handles);
/** Free what unit_module_start has allocated. Forget endpoints that are left; do not close them. */
void unit_module_stop(mca_btl_rawe_module_t *module);

#endif
