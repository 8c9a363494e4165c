/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From the PML to a peer: descriptors, send, sendi, put, get, and memory that peers may access.
 */
#ifndef MCA_BTL_RAWE_SEND_H
#define MCA_BTL_RAWE_SEND_H

#include "btl_rawe_compat.h"

#include "opal/class/opal_free_list.h"

#include "btl_rawe_lock.h"
#include "core/routes/rawe_peer.h"

/** Room for data in a small fragment: control messages, and data that is copied when sent. */
#define MCA_BTL_RAWE_SMALL_BYTES 4096u

/** One of Open MPI's descriptors, with the message or operation made from it. */
typedef struct mca_btl_rawe_fragment {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segments[2];
    struct mca_btl_base_endpoint_t *endpoint;
    opal_free_list_t *list;
    union {
        struct rawe_message message;
        struct rawe_operation operation;
    };
    struct mca_btl_rawe_work work; /**< sends the fragment if another thread is inside */
    struct rawe_link complete;     /**< in the list of mca_btl_rawe_send_complete_deferred */
    int status;                    /**< completion status */
    struct {
        mca_btl_base_module_t *btl; /**< NULL: a message. The callback gets all but `before` */
        const opal_proc_t *proc;
        void *local_address;
        mca_btl_base_registration_handle_t *local_handle;
        mca_btl_base_rdma_completion_fn_t callback; /**< NULL: none */
        void *context;
        void *cbdata;
        uint64_t before; /**< result of an atomic operation, if the caller wants none */
    } rdma;
    uint8_t data[];
} mca_btl_rawe_fragment_t;
OBJ_CLASS_DECLARATION(mca_btl_rawe_fragment_t);

/** Identifies registered memory; sent in the PML's messages, in the sender's byte order. */
struct mca_btl_base_registration_handle_t {
    uint64_t base; /**< address at which the handle begins; meaningful only to its owner */
    uint64_t key;
    uint32_t index;
    uint32_t zero;
};

typedef struct mca_btl_rawe_registration {
    opal_free_list_item_t super;
    mca_btl_base_registration_handle_t handle;
} mca_btl_rawe_registration_t;
OBJ_CLASS_DECLARATION(mca_btl_rawe_registration_t);

/** btl_alloc, btl_free, btl_prepare_src, btl_send, btl_sendi, btl_put, btl_get. */
MCA_BTL_RAWE_DECLARE(alloc, mca_btl_rawe_alloc);
MCA_BTL_RAWE_DECLARE(free, mca_btl_rawe_free);
MCA_BTL_RAWE_DECLARE(prepare, mca_btl_rawe_prepare_src);
MCA_BTL_RAWE_DECLARE(send, mca_btl_rawe_send);
MCA_BTL_RAWE_DECLARE(sendi, mca_btl_rawe_sendi);
MCA_BTL_RAWE_DECLARE(put, mca_btl_rawe_put);
MCA_BTL_RAWE_DECLARE(get, mca_btl_rawe_get);

/** Create an operation; NULL when out of memory. The callback is passed `endpoint`. */
mca_btl_rawe_fragment_t *mca_btl_rawe_rdma_new(mca_btl_base_module_t *btl,
                                               struct mca_btl_base_endpoint_t *endpoint,
                                               const opal_proc_t *proc, void *local_address,
                                               mca_btl_base_registration_handle_t *local_handle,
                                               mca_btl_base_rdma_completion_fn_t callback,
                                               void *context, void *cbdata);
/** Set the fields common to all operations on a peer's memory. */
void mca_btl_rawe_rdma_aim(mca_btl_rawe_fragment_t *fragment, uint8_t kind, uint64_t remote_address,
                           const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                           void *local);
/** Report a completed operation, tell the user if it was refused, and free it. */
void mca_btl_rawe_rdma_report(mca_btl_rawe_fragment_t *fragment, enum rawe_refusal refusal,
                              int status);

/**
 * btl_register_mem and btl_deregister_mem of all modules: a peer may access the memory through
 * an interface other than the one that delivered its handle.
 */
MCA_BTL_RAWE_DECLARE(register_mem, mca_btl_rawe_register_mem);
MCA_BTL_RAWE_DECLARE(deregister_mem, mca_btl_rawe_deregister_mem);

/** Report the sends that completed while Open MPI could not be called. Lock held. */
void mca_btl_rawe_send_complete_deferred(void);

#endif
