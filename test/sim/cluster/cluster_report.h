/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A line for each run.
 */
#ifndef CLUSTER_REPORT_H
#define CLUSTER_REPORT_H

#include <stdbool.h>

#include "cluster_run.h"

enum cluster_form { CLUSTER_FORM_TABLE, CLUSTER_FORM_CSV };

/** The names of the columns that runs like this one have, on standard output. */
void cluster_report_head(enum cluster_form form, const struct cluster_plan *plan);
void cluster_report_run(enum cluster_form form, const struct cluster_plan *plan,
                        const struct cluster_result *result);
/** What the columns mean, for --help. */
void cluster_report_explain(const struct cluster_plan *plan);

#endif
