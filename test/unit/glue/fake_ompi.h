/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI and the clock, as the glue's tests have them: a test says what Open MPI answers, and
 * reads what the user would. All else of the component is its own, unless the test defines it.
 */
#ifndef FAKE_OMPI_H
#define FAKE_OMPI_H

#include <stdbool.h>
#include <stdint.h>

#include "unit_test.h"

#define FAKE_OMPI_SHOWN_MAX 64u

struct fake_ompi {
    uint64_t now_ns;
    bool fault_tolerant; /**< the job goes on without lost processes */
    bool unasked;        /**< the job has not named rawe; as of mca_btl_rawe_help_begin */
    unsigned said;       /**< lines of mca_btl_rawe_compat_say */
    unsigned shown;      /**< messages of the help file; they are not held back as repetitions */
    char topic[FAKE_OMPI_SHOWN_MAX][32];
    char text[4096]; /**< of the last line or message */
};
extern struct fake_ompi fake_ompi;

/** For set_up: all of it, and the component's state and parameters, as they are in the beginning. */
void fake_ompi_begin(void);
/** How many messages of a topic were shown. */
unsigned fake_ompi_shown(const char *topic);
/** The last message has this topic, and a text in it. */
void fake_ompi_assert_shown(const char *topic, const char *text);

#endif
