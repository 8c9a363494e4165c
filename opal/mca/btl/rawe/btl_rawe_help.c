/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_help.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/** Topics already shown, by whether they ended the job. Atomic: any of MPI's threads may report. */
static atomic_bool shown[MCA_BTL_RAWE_HELP_TOPICS][2];

static bool asked_for; /**< see mca_btl_rawe_help_begin */
static bool verbose;

void mca_btl_rawe_help_begin(void)
{
    for (unsigned i = 0; i < MCA_BTL_RAWE_HELP_TOPICS; ++i) {
        atomic_store(&shown[i][false], false);
        atomic_store(&shown[i][true], false);
    }
    asked_for = mca_btl_rawe_compat_asked_for();
    verbose = mca_btl_rawe_compat_verbose();
}

void mca_btl_rawe_help_show(enum mca_btl_rawe_help_topic topic, bool ends_job, const char *name,
                            const char *text, ...)
{
    bool wanted = ends_job || asked_for;
    char message[4096];
    va_list arguments;

    if (wanted ? atomic_exchange(&shown[topic][ends_job], true) : !verbose) {
        return;
    }
    va_start(arguments, text);
    vsnprintf(message, sizeof(message), text, arguments);
    va_end(arguments);
    /* Users who did not ask for rawe but for verbose BTLs see each message unmerged. */
    mca_btl_rawe_compat_show(wanted ? name : NULL, message);
}

const char *mca_btl_rawe_refusal_text(enum rawe_refusal refusal)
{
    static const char *const reasons[] = {
        [RAWE_REFUSAL_NONE] = "for no reason given",
        [RAWE_REFUSAL_UNKNOWN] = "the memory is not registered, or no longer",
        [RAWE_REFUSAL_BOUNDS] = "it reaches beyond the registered memory",
        [RAWE_REFUSAL_ACCESS] = "the memory is not registered for such accesses",
        [RAWE_REFUSAL_ALIGNMENT] = "an atomic operation needs an aligned address",
        [RAWE_REFUSAL_OPERATION] = "the operation is not known there",
    };

    return reasons[refusal < sizeof(reasons) / sizeof(reasons[0]) ? refusal : RAWE_REFUSAL_NONE];
}

struct mca_btl_rawe_words mca_btl_rawe_peer_text(const opal_proc_t *proc)
{
    unsigned rank = (unsigned)proc->proc_name.vpid, job = (unsigned)proc->proc_name.jobid;
    struct mca_btl_rawe_words out;

    if (job == OPAL_PROC_MY_NAME.jobid) {
        snprintf(out.text, sizeof(out.text), "rank %u", rank);
    } else {
        snprintf(out.text, sizeof(out.text), "rank %u of job %u", rank, job);
    }
    return out;
}

const char *mca_btl_rawe_help_limit(int code)
{
    switch (code) {
    case EMFILE:
        return "descriptors of a process (RLIMIT_NOFILE, ulimit -n)";
    case ENFILE:
        return "descriptors of the host (sysctl fs.file-max)";
    case EAGAIN:
        return "processes and threads of the user (RLIMIT_NPROC, ulimit -u, or the cgroup's pids.max)";
    case ENOMEM:
        return "memory (RLIMIT_AS, ulimit -v; RLIMIT_MEMLOCK, ulimit -l; or the cgroup's)";
    default:
        return NULL;
    }
}

void mca_btl_rawe_help_failed(const char *doing, int code, const char *source)
{
    const char *limit = mca_btl_rawe_help_limit(code);

    if (NULL != limit) {
        MCA_BTL_RAWE_HELP_IF_ASKED(limit_reached, doing, strerror(code), limit);
    } else {
        MCA_BTL_RAWE_HELP_IF_ASKED(internal_error, doing, strerror(code), source);
    }
}
