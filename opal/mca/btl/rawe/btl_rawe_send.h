/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From the PML to a peer: descriptors, send, sendi, put, get; memory that peers may access.
 */
#ifndef MCA_BTL_RAWE_SEND_H
#define MCA_BTL_RAWE_SEND_H

#include "btl_rawe_compat.h"

#include "opal/class/opal_free_list.h"

#include "btl_rawe_lock.h"
#include "core/routes/rawe_peer.h"

/** Room for data in a small fragment: control messages, and what is copied when it is sent. */
#define MCA_BTL_RAWE_SMALL_BYTES 4096u

/** A descriptor of Open MPI's, with the message or operation that is made of it. */
typedef struct mca_btl_rawe_fragment {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segments[2];
    struct mca_btl_base_endpoint_t *endpoint;
    opal_free_list_t *list;
    union {
        struct rawe_message message;
        struct rawe_operation operation;
    };
    struct mca_btl_rawe_work work; /**< to send it, when another thread is inside */
    struct rawe_link complete;     /**< in the list of mca_btl_rawe_send_complete_deferred */
    int status;                    /**< ... with which it is complete */
    struct {
        mca_btl_base_module_t *btl; /**< NULL: a message. All but `before` is for the callback */
        const opal_proc_t *proc;
        void *local_address;
        mca_btl_base_registration_handle_t *local_handle;
        mca_btl_base_rdma_completion_fn_t callback; /**< NULL: none */
        void *context;
        void *cbdata;
        uint64_t before; /**< result of an atomic operation without a place for it */
    } rdma;
    uint8_t data[];
} mca_btl_rawe_fragment_t;
OBJ_CLASS_DECLARATION(mca_btl_rawe_fragment_t);

/** Travels inside the PML's messages, in the sender's byte order. */
struct mca_btl_base_registration_handle_t {
    uint64_t base; /**< address the handle begins at; only its owner gives it a meaning */
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
mca_btl_base_descriptor_t *mca_btl_rawe_alloc(struct mca_btl_base_module_t *btl,
                                              struct mca_btl_base_endpoint_t *endpoint,
                                              uint8_t order, size_t size, uint32_t flags);
int mca_btl_rawe_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
mca_btl_base_descriptor_t *mca_btl_rawe_prepare_src(struct mca_btl_base_module_t *btl,
                                                    struct mca_btl_base_endpoint_t *endpoint,
                                                    struct opal_convertor_t *convertor,
                                                    uint8_t order, size_t reserve, size_t *size,
                                                    uint32_t flags);
int mca_btl_rawe_send(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                      mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int mca_btl_rawe_sendi(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       struct opal_convertor_t *convertor, void *header, size_t header_size,
                       size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                       mca_btl_base_descriptor_t **descriptor);
int mca_btl_rawe_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     void *local_address, uint64_t remote_address,
                     mca_btl_base_registration_handle_t *local_handle,
                     mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                     int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                     void *cbdata);
int mca_btl_rawe_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     void *local_address, uint64_t remote_address,
                     mca_btl_base_registration_handle_t *local_handle,
                     mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                     int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                     void *cbdata);

/** An operation; NULL without memory. The callback is given `endpoint`. */
mca_btl_rawe_fragment_t *mca_btl_rawe_rdma_new(mca_btl_base_module_t *btl,
                                               struct mca_btl_base_endpoint_t *endpoint,
                                               const opal_proc_t *proc, void *local_address,
                                               mca_btl_base_registration_handle_t *local_handle,
                                               mca_btl_base_rdma_completion_fn_t callback,
                                               void *context, void *cbdata);
/** What all kinds of operations on the memory of a peer have in common. */
void mca_btl_rawe_rdma_aim(mca_btl_rawe_fragment_t *fragment, uint8_t kind, uint64_t remote_address,
                           const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                           void *local);
/** Report it, and tell the user if it was refused. It is given back. */
void mca_btl_rawe_rdma_report(mca_btl_rawe_fragment_t *fragment, enum rawe_refusal refusal,
                              int status);

/**
 * btl_register_mem and btl_deregister_mem of all modules: a peer may access the memory through another
 * interface than the one that its handle came through.
 */
struct mca_btl_base_registration_handle_t *mca_btl_rawe_register_mem(
    struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *base,
    size_t size, uint32_t flags);
int mca_btl_rawe_deregister_mem(struct mca_btl_base_module_t *btl,
                                struct mca_btl_base_registration_handle_t *handle);

/** Report the sends that have completed while Open MPI could not be called. Lock held. */
void mca_btl_rawe_send_complete_deferred(void);

#endif
