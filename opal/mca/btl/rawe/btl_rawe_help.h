/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages to the user: the topics of help-mpi-btl-rawe.txt, each shown once per process. For MPI's
 * threads only, because Open MPI's output is not safe in others.
 *
 * A job that does not name rawe in its selection of BTLs did not ask for it, and sees only messages
 * that end it. Others are shown if the job makes its BTLs verbose (--mca btl_base_verbose 1).
 */
#ifndef MCA_BTL_RAWE_HELP_H
#define MCA_BTL_RAWE_HELP_H

#include "btl_rawe_compat.h"
#include "btl_rawe_help_text.h"
#include "core/base/rawe_wire.h"

#include <stdbool.h>
#include <stdint.h>

/** Show a topic that ends the job. Omit the first argument, this host's name. */
#define MCA_BTL_RAWE_HELP(topic, ...) MCA_BTL_RAWE_HELP_SHOW(topic, true, __VA_ARGS__)

/** Show a topic after which the job goes on, perhaps with other BTLs. */
#define MCA_BTL_RAWE_HELP_IF_ASKED(topic, ...) MCA_BTL_RAWE_HELP_SHOW(topic, false, __VA_ARGS__)

#define MCA_BTL_RAWE_HELP_SHOW(topic, ends_job, ...)                                          \
    mca_btl_rawe_help_show(MCA_BTL_RAWE_HELP_TOPIC_##topic, ends_job, #topic,                 \
                           MCA_BTL_RAWE_HELP_TEXT_##topic, mca_btl_rawe_compat_my_hostname(), \
                           __VA_ARGS__)

void mca_btl_rawe_help_show(enum mca_btl_rawe_help_topic topic, bool ends_job, const char *name,
                            const char *text, ...) __attribute__((format(printf, 4, 5)));

/** Report a failure, like MCA_BTL_RAWE_HELP_IF_ASKED: as a limit reached, or as our own error. */
void mca_btl_rawe_help_failed(const char *doing, int code, const char *source);

/** Return the limit that an errno value indicates; NULL: none. */
const char *mca_btl_rawe_help_limit(int code);

/** Reset when the component opens: forget the topics shown, and read what the job asked for. */
void mca_btl_rawe_help_begin(void);

/** Return a text that says why a peer refuses an access. The peer may send any value. */
const char *mca_btl_rawe_refusal_text(enum rawe_refusal refusal);

/** Part of a message; lives in the calling statement. */
struct mca_btl_rawe_words {
    char text[48];
};

/** Return "rank 3", or "rank 3 of job 7" for another job's process. */
struct mca_btl_rawe_words mca_btl_rawe_peer_text(const opal_proc_t *proc);

#endif
