/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints a line per run.
 */
#ifndef CLUSTER_REPORT_H
#define CLUSTER_REPORT_H

#include <stdbool.h>

#include "cluster_run.h"

enum cluster_form { CLUSTER_FORM_TABLE, CLUSTER_FORM_CSV };

/** Print the column names for runs like this one to standard output. */
void cluster_report_head(enum cluster_form form, const struct cluster_plan *plan);
void cluster_report_run(enum cluster_form form, const struct cluster_plan *plan,
                        const struct cluster_result *result);
/** Print the meaning of the columns, for --help. */
void cluster_report_explain(const struct cluster_plan *plan);

#endif
