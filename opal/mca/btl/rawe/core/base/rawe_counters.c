/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Names and descriptions of the counters.
 */
#include "rawe_counters.h"

#include <stddef.h>

const struct rawe_counter_description rawe_counter_descriptions[] = {
#define X(name, text) {#name, text},
    RAWE_COUNTER_LIST(X)
#undef X
        {NULL, NULL},
};
