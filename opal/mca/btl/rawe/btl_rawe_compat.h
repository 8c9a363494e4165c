/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything that differs between Open MPI 4.1, 5.0 and 6.0, behind common names. The rest of the
 * component includes this file first, and no version number appears elsewhere.
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
#include <string.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/* 5.0 asks whether local completion implies remote completion. It does; 4.1 has no such flag. */
#ifdef MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
#define MCA_BTL_RAWE_COMPAT_FLAGS_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
#else
#define MCA_BTL_RAWE_COMPAT_FLAGS_REMOTE_COMPLETION 0
#endif

/* Makes a component's symbol visible to the loader; since 5.0 only the general macro exists. */
#ifndef OPAL_MODULE_DECLSPEC
#define OPAL_MODULE_DECLSPEC OPAL_DECLSPEC
#endif

/* Since 6.0 a component names itself with this macro, without a semicolon. */
#ifndef MCA_BASE_COMPONENT_INIT
#define MCA_BASE_COMPONENT_INIT(project, framework, name)
#endif

/** Declare a module function with the type of Open MPI's function pointer for its KIND. */
#define MCA_BTL_RAWE_DECLARE(KIND, NAME) __typeof__(*(mca_btl_base_module_##KIND##_fn_t)NULL) NAME

/* Tell the thread sanitizer about the fences of Open MPI's free lists, which it does not see. */
#ifdef __SANITIZE_THREAD__
#define NOTIFY_SANITIZER(call) (call)
#else
#define NOTIFY_SANITIZER(call) ((void)0)
#endif

/** Take an item from a free list. Returns NULL when out of memory. */
static inline opal_free_list_item_t *mca_btl_rawe_compat_take(opal_free_list_t *list)
{
    opal_free_list_item_t *item = opal_free_list_get(list);
    NOTIFY_SANITIZER(__tsan_acquire(item));
    return item;
}

/** Return an item to its free list. */
static inline void mca_btl_rawe_compat_give(opal_free_list_t *list, opal_free_list_item_t *item)
{
    NOTIFY_SANITIZER(__tsan_release(item));
    opal_free_list_return(list, item);
}

/** Return true if the convertor must pack: the data is scattered, or in an accelerator's memory. */
static inline bool mca_btl_rawe_compat_must_pack(const opal_convertor_t *convertor)
{
#if OPAL_MAJOR_VERSION >= 5
    return opal_convertor_need_buffers(convertor) || opal_convertor_on_device(convertor);
#else
    /* The headers test for CUDA only if Open MPI was built with it, but such builds may load us. */
    return opal_convertor_need_buffers(convertor) ||
           0 != (convertor->flags & (CONVERTOR_CUDA | CONVERTOR_CUDA_UNIFIED));
#endif
}

/**
 * A message with this tag and length tells ob1 a communicator's id, and nothing else. It does not
 * exist before 5.0.
 */
#define MCA_BTL_RAWE_COMPAT_CID_TAG (MCA_BTL_TAG_PML + 10)
#define MCA_BTL_RAWE_COMPAT_CID_BYTES 32u

/**
 * Pass one received fragment to the callback registered for its tag. The segment must stay valid
 * only until the call returns. `endpoint` is the sender's; 5.0 and later insist on it.
 *
 * On receiving a communicator's id, ob1 also fills in the context id of a match header, which such
 * a message need not contain (pml_ob1_recvfrag.c, mca_pml_ob1_recv_frag_callback_cid): two bytes
 * behind the message change. In a frame they belong to the next message, so ob1 gets a copy.
 *
 * Returns false if no callback is registered for the tag. Tags come from the wire, so this is bad
 * input, which the caller counts and drops.
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
    uint8_t copy[2 * MCA_BTL_RAWE_COMPAT_CID_BYTES];
    if (OPAL_UNLIKELY(MCA_BTL_RAWE_COMPAT_CID_TAG == tag &&
                      MCA_BTL_RAWE_COMPAT_CID_BYTES == segment->seg_len)) {
        memcpy(copy, segment->seg_addr.pval, MCA_BTL_RAWE_COMPAT_CID_BYTES);
        segment->seg_addr.pval = copy;
    }
    const mca_btl_base_receive_descriptor_t descriptor = {
        .endpoint = endpoint,
        .des_segments = segment,
        .des_segment_count = 1,
        .tag = (mca_btl_base_tag_t)tag,
        .cbdata = receiver->cbdata,
    };
    receiver->cbfunc(module, &descriptor);
#else
    /* Receivers read only the segment; clearing the whole descriptor would cost more. */
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

/** Called once, in any thread, with the data that a process has published, or with NULL and 0. */
typedef void mca_btl_rawe_compat_modex_answer_fn(void *context, const void *data, size_t len_bytes);

/**
 * Request a process's published data, without waiting; the runtime gives up after `limit_s`. Unless
 * this returns OPAL_SUCCESS, no answer follows.
 */
int mca_btl_rawe_compat_modex_request(const mca_base_component_t *component,
                                      const opal_process_name_t *name, int limit_s,
                                      mca_btl_rawe_compat_modex_answer_fn *answer, void *context);

/** A host's name, truncated if too long; lives in the calling statement's block. */
struct mca_btl_rawe_compat_hostname {
    char text[256];
};

/** Return the name of a process's host, or "unknown" if the runtime does not know it. */
struct mca_btl_rawe_compat_hostname mca_btl_rawe_compat_hostname(const opal_proc_t *proc);

/** Return the number of this job's processes on this host, including this one; 1 if unknown. */
unsigned mca_btl_rawe_compat_local_ranks(void);

/** Return the number of processes in this job; 1 if unknown. */
unsigned mca_btl_rawe_compat_ranks(void);

/** Return this process's index among the job's processes on this host. */
unsigned mca_btl_rawe_compat_local_rank(void);

/** Return this job's directory on this host, which the runtime removes. NULL: none. */
const char *mca_btl_rawe_compat_job_directory(void);

/** Return true if there is a shared-memory BTL, which a job's processes on one host prefer. */
bool mca_btl_rawe_compat_shared_memory(void);

/** Return true if only rawe connects hosts. Known once all BTLs are initialized. */
bool mca_btl_rawe_compat_alone(void);

/** Return true if there may be a shared-memory BTL. Known before all BTLs are initialized. */
bool mca_btl_rawe_compat_shared_memory_expected(void);

/**
 * Return true if this job has a component that implements windows with messages. Only 4.1 has one
 * (osc/pt2pt), and only without MPI_THREAD_MULTIPLE. Known when processes are introduced to BTLs.
 */
bool mca_btl_rawe_compat_windows_by_messages(void);

/** Return this host's name. Never NULL. */
const char *mca_btl_rawe_compat_my_hostname(void);

/** Return true in the major.minor we were built for. In others, structs differ: only report it. */
bool mca_btl_rawe_compat_version_matches(void);

/** Return true if the job's selection of BTLs names rawe. Calls nothing version-dependent. */
bool mca_btl_rawe_compat_asked_for(void);

/** Return true if a selection of components, such as "tcp,self" or "^tcp", names `component`. */
bool mca_btl_rawe_compat_names(const char *selection, const char *component);

/** Return true if the job wants its BTLs to be verbose. Calls nothing version-dependent. */
bool mca_btl_rawe_compat_verbose(void);

/**
 * Return true in a fault-tolerant job (ULFM: mpirun --with-ft). There the PML's error callback
 * returns, and turns any error with a process into MPI_ERR_PROC_FAILED.
 */
bool mca_btl_rawe_compat_fault_tolerant(void);

/** The program's stage. Programs that only use sessions never leave the first. */
enum mca_btl_rawe_compat_stage {
    MCA_BTL_RAWE_COMPAT_BEGINS, /**< MPI_Init has not returned */
    MCA_BTL_RAWE_COMPAT_WORKS,
    MCA_BTL_RAWE_COMPAT_ENDS, /**< MPI_Finalize has been called */
};
enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void);

/** Return true if this process is in MPI_Finalize and all others of the job have entered it. */
bool mca_btl_rawe_compat_fenced(void);

/** Called by the runtime's thread with the name of a process that ended without MPI_Finalize. */
typedef void mca_btl_rawe_compat_departed_fn(const opal_process_name_t *name);

/**
 * Have the runtime report departed processes until departures_end; Open MPI's own notification is
 * unaffected. If the runtime refuses, or cannot report them (4.1), there are no notifications.
 * MPI's threads only.
 */
void mca_btl_rawe_compat_departures_begin(mca_btl_rawe_compat_departed_fn *notify);

/** Stop the notifications: none is running when this returns. May be called without a begin. */
void mca_btl_rawe_compat_departures_end(void);

/** Write a line for users who set btl_base_verbose. Arguments as for printf. */
void mca_btl_rawe_compat_say(const char *text, ...) __attribute__((format(printf, 1, 2)));

/** Show a message to the user. With a topic, mpirun merges the messages of all processes. */
void mca_btl_rawe_compat_show(const char *topic, const char *message);

#endif
