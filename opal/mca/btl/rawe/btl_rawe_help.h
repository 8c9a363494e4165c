/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The messages to the user: the topics of help-mpi-btl-rawe.txt, each shown once by a process. For
 * MPI's threads only: Open MPI's output is not safe among others.
 *
 * A job that does not name rawe in its selection of BTLs did not ask for it: it sees only what ends
 * it. The rest is shown when it asks what the BTLs do (--mca btl_base_verbose 1).
 */
#ifndef MCA_BTL_RAWE_HELP_H
#define MCA_BTL_RAWE_HELP_H

#include "btl_rawe_compat.h"
#include "btl_rawe_help_text.h"
#include "core/base/rawe_wire.h"

#include <stdbool.h>
#include <stdint.h>

/** Show a topic, which ends the job: its arguments without the first one, this host's name. */
#define MCA_BTL_RAWE_HELP(topic, ...) MCA_BTL_RAWE_HELP_SHOW(topic, true, __VA_ARGS__)

/** The same where the job goes on, with other BTLs maybe. */
#define MCA_BTL_RAWE_HELP_IF_ASKED(topic, ...) MCA_BTL_RAWE_HELP_SHOW(topic, false, __VA_ARGS__)

#define MCA_BTL_RAWE_HELP_SHOW(topic, ends_job, ...)                                          \
    mca_btl_rawe_help_show(MCA_BTL_RAWE_HELP_TOPIC_##topic, ends_job, #topic,                 \
                           MCA_BTL_RAWE_HELP_TEXT_##topic, mca_btl_rawe_compat_my_hostname(), \
                           __VA_ARGS__)

void mca_btl_rawe_help_show(enum mca_btl_rawe_help_topic topic, bool ends_job, const char *name,
                            const char *text, ...) __attribute__((format(printf, 4, 5)));

/** Tell that something failed, as MCA_BTL_RAWE_HELP_IF_ASKED: by the limit that it met, or as ours. */
void mca_btl_rawe_help_failed(const char *doing, int code, const char *source);

/** The limit that an errno tells of; NULL: of none. */
const char *mca_btl_rawe_help_limit(int code);

/** A life of the component begins: nothing has been shown, and what the job asked for is read. */
void mca_btl_rawe_help_begin(void);

/** Why a peer refuses an access, in words. It may say anything. */
const char *mca_btl_rawe_refusal_text(enum rawe_refusal refusal);

/** Part of a message, in memory of the calling statement. */
struct mca_btl_rawe_words {
    char text[48];
};

/** A MAC address: "02:00:00:00:00:01". */
struct mca_btl_rawe_words mca_btl_rawe_mac_text(const uint8_t mac[6]);

/** "rank 3", or "rank 3 of job 7" for another job's process. */
struct mca_btl_rawe_words mca_btl_rawe_peer_text(const opal_proc_t *proc);

#endif
