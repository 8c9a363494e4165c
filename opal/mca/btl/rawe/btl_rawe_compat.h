/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything that differs between Open MPI 4.1, 5.0 and 6.0, behind names that do not differ.
 * The rest of the component includes this file first, and no version number appears elsewhere.
 */
#ifndef MCA_BTL_RAWE_COMPAT_H
#define MCA_BTL_RAWE_COMPAT_H

#include "opal_config.h"

#include "opal/version.h"

#include "opal/class/opal_free_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#if OPAL_MAJOR_VERSION >= 5
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"
#include "opal/mca/threads/thread_usage.h"
#include "opal/mca/threads/threads.h"
#else
#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"
#include "opal/threads/thread_usage.h"
#include "opal/threads/threads.h"
#endif

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/* 5.0 asks whether a local completion is a remote one. It is; before, there was no flag. */
#ifdef MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
#define MCA_BTL_RAWE_COMPAT_FLAGS_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
#else
#define MCA_BTL_RAWE_COMPAT_FLAGS_REMOTE_COMPLETION 0
#endif

/* What the loader is to see of a component; since 5.0 there is only the general word for it. */
#ifndef OPAL_MODULE_DECLSPEC
#define OPAL_MODULE_DECLSPEC OPAL_DECLSPEC
#endif

/* Since 6.0 a component names itself by this macro, without a semicolon. */
#ifndef MCA_BASE_COMPONENT_INIT
#define MCA_BASE_COMPONENT_INIT(project, framework, name)
#endif

/** Declare a function that modules have, by Open MPI's type of pointers to functions of its KIND. */
#define MCA_BTL_RAWE_DECLARE(KIND, NAME) __typeof__(*(mca_btl_base_module_##KIND##_fn_t)NULL) NAME

/* The thread sanitizer does not see the fences of Open MPI's free lists: it is told. */
#ifdef __SANITIZE_THREAD__
#define NOTIFY_SANITIZER(call) (call)
#else
#define NOTIFY_SANITIZER(call) ((void)0)
#endif

/** An item of a free list; NULL without memory. */
static inline opal_free_list_item_t *mca_btl_rawe_compat_take(opal_free_list_t *list)
{
    opal_free_list_item_t *item = opal_free_list_get(list);
    NOTIFY_SANITIZER(__tsan_acquire(item));
    return item;
}

/** Give it back. */
static inline void mca_btl_rawe_compat_give(opal_free_list_t *list, opal_free_list_item_t *item)
{
    NOTIFY_SANITIZER(__tsan_release(item));
    opal_free_list_return(list, item);
}

/** Must the convertor pack: is the data scattered, or in an accelerator's memory? */
static inline bool mca_btl_rawe_compat_must_pack(const opal_convertor_t *convertor)
{
#if OPAL_MAJOR_VERSION >= 5
    return opal_convertor_need_buffers(convertor) || opal_convertor_on_device(convertor);
#else
    /* The headers test for CUDA only if Open MPI was built with it; a build with it may run us. */
    return opal_convertor_need_buffers(convertor) ||
           0 != (convertor->flags & (CONVERTOR_CUDA | CONVERTOR_CUDA_UNIFIED));
#endif
}

/**
 * Give one received fragment to the callback registered for its tag. The segment needs to stay
 * valid until the call returns, no longer. `endpoint` is the sender's; 5.0 and later insist on it.
 *
 * Returns false when no callback is registered for the tag: tags come from the wire, so that is bad
 * input, to be counted and dropped.
 */
static inline bool mca_btl_rawe_compat_deliver(struct mca_btl_base_module_t *module,
                                               struct mca_btl_base_endpoint_t *endpoint,
                                               unsigned tag, mca_btl_base_segment_t *segment)
{
    if (OPAL_UNLIKELY(tag >= MCA_BTL_TAG_MAX)) {
        return false;
    }

    mca_btl_active_message_callback_t *receiver = &mca_btl_base_active_message_trigger[tag];
    if (OPAL_UNLIKELY(NULL == receiver->cbfunc)) {
        return false;
    }

#if BTL_VERSION >= 330
    const mca_btl_base_receive_descriptor_t descriptor = {
        .endpoint = endpoint,
        .des_segments = segment,
        .des_segment_count = 1,
        .tag = (mca_btl_base_tag_t)tag,
        .cbdata = receiver->cbdata,
    };
    receiver->cbfunc(module, &descriptor);
#else
    /* Receivers read the segment only; clearing the whole descriptor would cost more than it. */
    mca_btl_base_descriptor_t descriptor;
    descriptor.des_segments = segment;
    descriptor.des_segment_count = 1;
    descriptor.des_cbfunc = NULL;
    descriptor.des_cbdata = NULL;
    descriptor.des_context = NULL;
    descriptor.des_flags = 0;
    receiver->cbfunc(module, (mca_btl_base_tag_t)tag, &descriptor, receiver->cbdata);
#endif
    return true;
}

/** Keep the component loaded when Open MPI closes it: PMIx may still call it. */
void mca_btl_rawe_compat_stay_loaded(void);

/** Publish bytes for all peers, under the component's name and version. */
int mca_btl_rawe_compat_modex_send(const mca_base_component_t *component, const void *data,
                                   size_t len_bytes);

/** Takes what a process has published, until it returns; or NULL and 0. Once, by any thread. */
typedef void mca_btl_rawe_compat_modex_answer_fn(void *context, const void *data, size_t len_bytes);

/**
 * Ask what a process has published, without waiting; the runtime gives up after `limit_s`. If not
 * OPAL_SUCCESS, no answer follows.
 */
int mca_btl_rawe_compat_modex_request(const mca_base_component_t *component,
                                      const opal_process_name_t *name, int limit_s,
                                      mca_btl_rawe_compat_modex_answer_fn *answer, void *context);

/** The name of a host, in memory of the calling statement's block; cut when it is longer. */
struct mca_btl_rawe_compat_hostname {
    char text[256];
};

/** Name of the host a process runs on, "unknown" where the runtime does not tell. */
struct mca_btl_rawe_compat_hostname mca_btl_rawe_compat_hostname(const opal_proc_t *proc);

/** How many processes of this job are on this host, this one included; 1 where it is unknown. */
unsigned mca_btl_rawe_compat_local_ranks(void);

/** How many processes this job has; 1 where it is unknown. */
unsigned mca_btl_rawe_compat_ranks(void);

/** This process's place among them. */
unsigned mca_btl_rawe_compat_local_rank(void);

/** The directory of this job's files on this host, which the runtime removes; NULL: there is none. */
const char *mca_btl_rawe_compat_job_directory(void);

/** Is there a BTL for shared memory, which processes of a job on a host prefer to others? */
bool mca_btl_rawe_compat_shared_memory(void);

/** Does no other BTL than rawe carry messages between hosts? Known when all are initialized. */
bool mca_btl_rawe_compat_alone(void);

/** May there be one for shared memory? Known before all BTLs are initialized. */
bool mca_btl_rawe_compat_shared_memory_expected(void);

/**
 * Has this job a component that makes messages of what is done to windows? 4.1 alone has one
 * (osc/pt2pt), and without MPI_THREAD_MULTIPLE. Known when processes are introduced to BTLs.
 */
bool mca_btl_rawe_compat_windows_by_messages(void);

/** Name of this host. Never NULL. */
const char *mca_btl_rawe_compat_my_hostname(void);

/** Is this the major.minor we were built for? If not, only say so: structures differ. */
bool mca_btl_rawe_compat_version_matches(void);

/** Does the job's selection of BTLs name rawe? Calls nothing that differs between versions. */
bool mca_btl_rawe_compat_asked_for(void);

/** Is a selection of components, such as "tcp,self" or "^tcp", one that names this one? */
bool mca_btl_rawe_compat_names(const char *selection, const char *component);

/** Does the job ask what its BTLs do? Calls nothing that differs between versions. */
bool mca_btl_rawe_compat_verbose(void);

/**
 * Is this a fault-tolerant job (ULFM: mpirun --with-ft)? Then the PML's error
 * callback returns, and makes MPI_ERR_PROC_FAILED of any error with a process.
 */
bool mca_btl_rawe_compat_fault_tolerant(void);

/** Where the program is. Programs that use sessions alone never get beyond the first. */
enum mca_btl_rawe_compat_stage {
    MCA_BTL_RAWE_COMPAT_BEGINS, /**< MPI_Init has not returned */
    MCA_BTL_RAWE_COMPAT_WORKS,
    MCA_BTL_RAWE_COMPAT_ENDS, /**< MPI_Finalize has been called */
};
enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void);

/** Have all processes of the job entered MPI_Finalize, and is this one in it? */
bool mca_btl_rawe_compat_fenced(void);

/** Takes the name of a process that ended without MPI_Finalize; called by the runtime's thread. */
typedef void mca_btl_rawe_compat_departed_fn(const opal_process_name_t *name);

/**
 * Have the runtime tell of such processes, until departures_end; Open MPI hears of them as before.
 * If it does not want to, or cannot (4.1), no notification ever comes. MPI's threads only.
 */
void mca_btl_rawe_compat_departures_begin(mca_btl_rawe_compat_departed_fn *notify);

/** No call is made, or under way, when it returns. May be called without a beginning. */
void mca_btl_rawe_compat_departures_end(void);

/** Write a line for users who set btl_base_verbose; as printf. */
void mca_btl_rawe_compat_say(const char *text, ...) __attribute__((format(printf, 1, 2)));

/** Show a message to the user. With a topic, mpirun merges those of all processes. */
void mca_btl_rawe_compat_show(const char *topic, const char *message);

#endif
