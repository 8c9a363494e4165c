/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The module for windows: osc/rdma needs one that reaches every process, including this one. It
 * sends nothing itself; its endpoints use those of the interfaces' modules.
 */
#include "btl_rawe_lifecycle.h"

#include "btl_rawe_contact.h"
#include "btl_rawe_endpoint.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_send.h"
#include "btl_rawe_thread.h"

#include "core/rma/rawe_handle.h"
#include "core/routes/rawe_balance.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/** A process, as osc/rdma's endpoint. */
struct rma_endpoint {
    opal_proc_t *proc;
    bool self;
    mca_btl_base_endpoint_t *via; /**< NULL: not looked up yet */
    struct rma_endpoint *next;
};

static struct {
    mca_btl_base_module_t super;
    _Atomic(struct rma_endpoint *) endpoints; /**< all of them, including deleted ones */
} rma;

static struct rma_endpoint *rma_endpoint(struct mca_btl_base_endpoint_t *endpoint)
{
    return (struct rma_endpoint *)(void *)endpoint;
}

static int rma_add_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                         struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    memset(endpoints, 0, count * sizeof(endpoints[0]));
    if (!mca_btl_rawe_params.windows && !mca_btl_rawe_params.async_progress &&
        mca_btl_rawe_compat_windows_by_messages()) {
        return OPAL_SUCCESS; /* otherwise osc/rdma would take windows from osc/pt2pt */
    }
    for (size_t i = 0; i < count; ++i) {
        bool self = procs[i] == opal_proc_local_get();
        mca_btl_base_endpoint_t *through = self ? NULL : mca_btl_rawe_endpoint_in_order(procs[i]);
        struct rma_endpoint *endpoint = NULL;
        /* With shared memory, this module gets few accesses; the first one opens lo. */
        if (self || NULL != through || mca_btl_rawe_contact_on_this_host(procs[i])) {
            endpoint = calloc(1, sizeof(*endpoint));
        }
        endpoints[i] = (struct mca_btl_base_endpoint_t *)(void *)endpoint;
        if (NULL == endpoint) {
            continue;
        }
        OBJ_RETAIN(procs[i]);
        endpoint->proc = procs[i];
        endpoint->self = self;
        endpoint->via = through;
        endpoint->next = atomic_load(&rma.endpoints);
        while (!atomic_compare_exchange_weak(&rma.endpoints, &endpoint->next, endpoint)) {
        }
        if (NULL != reachable) {
            opal_bitmap_set_bit(reachable, (int)i);
        }
    }
    return OPAL_SUCCESS;
}

/** Keep endpoints, like connections: windows that were not freed may have accesses in flight. */
static int rma_del_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                         struct mca_btl_base_endpoint_t **endpoints)
{
    return OPAL_SUCCESS;
}

/** Return true for this process's memory. osc/rdma passes no handle for memory it can reach. */
static bool is_local(const struct rma_endpoint *endpoint,
                     const mca_btl_base_registration_handle_t *remote_handle)
{
    return endpoint->self || NULL == remote_handle;
}

/** Return this process's memory, or NULL and a reason if its registration forbids the access. */
static void *local_memory(const mca_btl_base_registration_handle_t *handle, uint64_t address,
                          size_t size, unsigned right, enum rawe_refusal *refusal)
{
    const struct rawe_handle_table *handles = &mca_btl_rawe_state.handles;

    *refusal = RAWE_REFUSAL_NONE;
    if (NULL == handle) {
        return (void *)(uintptr_t)address;
    }
    mca_btl_rawe_lock();
    void *memory = rawe_handle_resolve(handles, handle->index, handle->key, address - handle->base,
                                       size, right);
    if (OPAL_UNLIKELY(NULL == memory)) {
        *refusal = rawe_handle_refusal(handles, handle->index, handle->key, right);
    }
    mca_btl_rawe_unlock();
    return memory;
}

/** Report an access to this process's memory. Returns OPAL_SUCCESS: the callback has the status. */
static int report_local(mca_btl_rawe_fragment_t *access, enum rawe_refusal refusal)
{
    mca_btl_rawe_rdma_report(access, refusal,
                             RAWE_REFUSAL_NONE == refusal ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
    return OPAL_SUCCESS;
}

/** Begin an access to a peer's memory. The fields specific to its kind are already set. */
static int access_begin(mca_btl_rawe_fragment_t *access, uint8_t kind, uint64_t remote_address,
                        const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                        void *local)
{
    struct rma_endpoint *endpoint = rma_endpoint(access->endpoint);

    if (OPAL_UNLIKELY(NULL == endpoint->via)) {
        endpoint->via = mca_btl_rawe_contact_open_local(endpoint->proc);
    }
    if (OPAL_UNLIKELY(NULL == endpoint->via)) {
        /* End the job: osc/rdma does not expect this call to fail, and would retry forever. */
        MCA_BTL_RAWE_HELP(window_unreachable, mca_btl_rawe_peer_text(endpoint->proc).text);
        mca_btl_rawe_end_job(&rma.super, "rawe: no access to windows on this host");
        mca_btl_rawe_free(&rma.super, &access->base);
        return OPAL_ERR_UNREACH;
    }
    mca_btl_rawe_rdma_aim(access, kind, remote_address, remote_handle, size, local);
    mca_btl_rawe_lock();
    mca_btl_base_endpoint_t *base = endpoint->via->in_order;
    bool taken = rawe_balance_operate(&base->peer, &access->operation);
    mca_btl_rawe_thread_watch(base->module);
    mca_btl_rawe_unlock();
    if (OPAL_UNLIKELY(!taken)) {
        mca_btl_rawe_free(&rma.super, &access->base);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}

/** Perform a PUT or GET. */
static int access_transfer(struct mca_btl_base_endpoint_t *endpoint, uint8_t kind, void *local,
                           uint64_t remote_address,
                           mca_btl_base_registration_handle_t *local_handle,
                           const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                           mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_rawe_fragment_t *access =
        mca_btl_rawe_rdma_new(&rma.super, endpoint, rma_endpoint(endpoint)->proc, local,
                              local_handle, callback, context, cbdata);
    bool put = RAWE_FRAGMENT_PUT == kind;

    if (OPAL_UNLIKELY(NULL == access)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (0 == size) {
        return report_local(access, RAWE_REFUSAL_NONE);
    }
    if (is_local(rma_endpoint(endpoint), remote_handle)) {
        enum rawe_refusal refusal;
        void *remote = local_memory(remote_handle, remote_address, size,
                                    put ? RAWE_ACCESS_WRITE : RAWE_ACCESS_READ, &refusal);
        if (OPAL_LIKELY(NULL != remote)) {
            memmove(put ? remote : local, put ? local : remote, size);
        }
        return report_local(access, refusal);
    }
    return access_begin(access, kind, remote_address, remote_handle, size, local);
}

static int rma_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   mca_btl_base_registration_handle_t *local_handle,
                   mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                   void *cbdata)
{
    return access_transfer(endpoint, RAWE_FRAGMENT_PUT, local_address, remote_address, local_handle,
                           remote_handle, size, callback, context, cbdata);
}

static int rma_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   mca_btl_base_registration_handle_t *local_handle,
                   mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                   void *cbdata)
{
    return access_transfer(endpoint, RAWE_FRAGMENT_GET, local_address, remote_address, local_handle,
                           remote_handle, size, callback, context, cbdata);
}

/** Perform an atomic operation whose result goes to `result`, or nowhere. */
static int atomic_access(struct mca_btl_base_endpoint_t *endpoint, void *result,
                         uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
                         const mca_btl_base_registration_handle_t *remote_handle,
                         enum rawe_atomic atomic, uint64_t operand, uint64_t compare, int flags,
                         mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_rawe_fragment_t *access =
        mca_btl_rawe_rdma_new(&rma.super, endpoint, rma_endpoint(endpoint)->proc, result,
                              local_handle, callback, context, cbdata);

    if (OPAL_UNLIKELY(NULL == access)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    size_t size = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT) ? sizeof(uint32_t) : sizeof(uint64_t);
    void *before = NULL != result ? result : (void *)&access->rdma.before;
    if (is_local(rma_endpoint(endpoint), remote_handle)) {
        const struct rawe_request request = {
            .atomic = (uint8_t)atomic,
            .word_bytes = (uint8_t)size,
            .operand = operand,
            .compare = compare,
        };
        enum rawe_refusal refusal;
        void *word =
            local_memory(remote_handle, remote_address, size, RAWE_ACCESS_ATOMIC, &refusal);
        if (OPAL_LIKELY(NULL != word)) {
            refusal = rawe_access_word(word, &request, before);
        }
        return report_local(access, refusal);
    }
    access->operation.atomic = (uint8_t)atomic;
    access->operation.operand = operand;
    access->operation.compare = compare;
    return access_begin(access, RAWE_FRAGMENT_ATOMIC, remote_address, remote_handle, size, before);
}

/**
 * Translate Open MPI's operation; 0: unsupported, so Open MPI emulates it. MIN and MAX are
 * unsupported because Open MPI does not say whether words are signed; so is floating point.
 */
static enum rawe_atomic atomic_of(mca_btl_base_atomic_op_t op, int flags)
{
    if (0 != (flags & MCA_BTL_ATOMIC_FLAG_FLOAT)) {
        return 0;
    }
    switch (op) {
    case MCA_BTL_ATOMIC_ADD:
        return RAWE_ATOMIC_ADD;
    case MCA_BTL_ATOMIC_AND:
        return RAWE_ATOMIC_AND;
    case MCA_BTL_ATOMIC_OR:
        return RAWE_ATOMIC_OR;
    case MCA_BTL_ATOMIC_XOR:
        return RAWE_ATOMIC_XOR;
    case MCA_BTL_ATOMIC_SWAP:
        return RAWE_ATOMIC_SWAP;
    default:
        return 0;
    }
}

static int rma_atomic_fop(struct mca_btl_base_module_t *btl,
                          struct mca_btl_base_endpoint_t *endpoint, void *local_address,
                          uint64_t remote_address, mca_btl_base_registration_handle_t *local_handle,
                          mca_btl_base_registration_handle_t *remote_handle,
                          mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                          mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    enum rawe_atomic atomic = atomic_of(op, flags);

    return 0 == atomic
               ? OPAL_ERR_NOT_SUPPORTED
               : atomic_access(endpoint, local_address, remote_address, local_handle, remote_handle,
                               atomic, operand, 0, flags, callback, context, cbdata);
}

static int rma_atomic_op(struct mca_btl_base_module_t *btl,
                         struct mca_btl_base_endpoint_t *endpoint, uint64_t remote_address,
                         mca_btl_base_registration_handle_t *remote_handle,
                         mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                         mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    return rma_atomic_fop(btl, endpoint, NULL, remote_address, NULL, remote_handle, op, operand,
                          flags, order, callback, context, cbdata);
}

static int rma_atomic_cswap(struct mca_btl_base_module_t *btl,
                            struct mca_btl_base_endpoint_t *endpoint, void *local_address,
                            uint64_t remote_address,
                            mca_btl_base_registration_handle_t *local_handle,
                            mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                            uint64_t value, int flags, int order,
                            mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    return atomic_access(endpoint, local_address, remote_address, local_handle, remote_handle,
                         RAWE_ATOMIC_COMPARE_SWAP, value, compare, flags, callback, context,
                         cbdata);
}

/** btl_dump: do nothing, because the other modules' endpoints show the connections. */
static void rma_dump(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     int verbose)
{
}

/** btl_finalize: do nothing, because engines may refer to accesses until they are freed. */
static int rma_finalize(struct mca_btl_base_module_t *btl)
{
    return OPAL_SUCCESS;
}

mca_btl_base_module_t *mca_btl_rawe_rma_open(void)
{
    mca_btl_base_module_t *btl = &rma.super;

    *btl = mca_btl_rawe_module_template; /* limits, and registered memory */
    btl->btl_component = mca_btl_rawe_state.component;
    /* Open MPI introduces processes to this module after the others. */
    btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_LOW;
    /* The PML weighs all modules that can PUT by bandwidth, even those that it does not use. */
    btl->btl_bandwidth = 1;
    btl->btl_flags = MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS |
                     MCA_BTL_RAWE_COMPAT_FLAGS_REMOTE_COMPLETION;
    btl->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
                            MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
                            MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
                            MCA_BTL_ATOMIC_SUPPORTS_32BIT | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
    /* Local memory need not be registered. */
    btl->btl_get_local_registration_threshold = SIZE_MAX;
    btl->btl_put_local_registration_threshold = SIZE_MAX;
    btl->btl_add_procs = rma_add_procs;
    btl->btl_del_procs = rma_del_procs;
    btl->btl_finalize = rma_finalize;
    btl->btl_alloc = NULL;
    btl->btl_free = NULL;
    btl->btl_prepare_src = NULL;
    btl->btl_send = NULL;
    btl->btl_sendi = NULL;
    btl->btl_put = rma_put;
    btl->btl_get = rma_get;
    btl->btl_dump = rma_dump;
    btl->btl_atomic_op = rma_atomic_op;
    btl->btl_atomic_fop = rma_atomic_fop;
    btl->btl_atomic_cswap = rma_atomic_cswap;
    return btl;
}

void mca_btl_rawe_rma_close(void)
{
    struct rma_endpoint *next;

    for (struct rma_endpoint *each = atomic_exchange(&rma.endpoints, NULL); NULL != each;
         each = next) {
        next = each->next;
        OBJ_RELEASE(each->proc);
        free(each);
    }
}
