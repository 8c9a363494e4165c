/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component's own objects: component, module (one a link), endpoint (one a peer and link),
 * fragment (a descriptor of Open MPI with the engine's send operation in it).
 *
 * Threads: every call into an engine is between mca_btl_rawe_lock and _unlock, also while the
 * engine calls back into Open MPI, which is why they nest. In a program with threads that is
 * `mca_btl_rawe_component.lock`, in others the biased lock of btl_rawe_thread.h. A module's
 * `endpoints_lock` guards its endpoints; nothing is called while it is held. add_procs
 * takes only that one: Open MPI may hold locks of its own then, for which a callback may be
 * waiting.
 */
#ifndef MCA_BTL_RAWE_H
#define MCA_BTL_RAWE_H

#include "btl_rawe_compat.h"

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"

#include "btl_rawe_thread.h"
#include "core/rawe_conn.h"
#include "core/rawe_engine.h"
#include "link/rawe_bulk.h"
#include "link/rawe_interface.h"
#include "link/rawe_link.h"
#include "link/rawe_responder.h"

#include <string.h>

/** Room for data in a small fragment: control messages, and what is copied when it is sent. */
#define MCA_BTL_RAWE_SMALL_BYTES 4096u

/** Messages up to this length are copied once they have left, and are complete then. */
#define MCA_BTL_RAWE_COPY_SENT_BYTES (16u * 1024u + 64u)

/** Modules at most: interfaces of a host, and lo. */
#define MCA_BTL_RAWE_MODULES_MAX 16u

struct mca_btl_rawe_module;

typedef struct mca_btl_rawe_component {
    mca_btl_base_component_3_0_0_t super;
    opal_recursive_mutex_t lock;
    struct mca_btl_rawe_module *modules[MCA_BTL_RAWE_MODULES_MAX];
    unsigned module_count;
    struct rawe_handle_table handles; /**< registered memory; `lock` guards it */
    bool opened;            /**< `lock` is constructed */
    bool progressing;       /**< inside mca_btl_rawe_component_progress */
    unsigned idle_count;    /**< progress calls that found nothing: the clock is looked at rarely */
} mca_btl_rawe_component_t;

OPAL_MODULE_DECLSPEC extern mca_btl_rawe_component_t mca_btl_rawe_component;

/** How to reach one interface of a process: what the modex says. */
struct mca_btl_rawe_address {
    uint8_t mac[RAWE_MAC_BYTES]; /**< zero: loopback */
    uint16_t port;
    uint32_t key;
    uint16_t ping_port; /**< the responder's, and its key */
    uint32_t ping_key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps; /**< 0: unknown */
};

/** Where the process's responder is reached. */
static inline struct rawe_ping_address
mca_btl_rawe_ping_address(const struct mca_btl_rawe_address *address)
{
    struct rawe_ping_address to = {.port = address->ping_port, .key = address->ping_key};

    memcpy(to.mac, address->mac, RAWE_MAC_BYTES);
    return to;
}

typedef struct mca_btl_rawe_module {
    mca_btl_base_module_t super;
    struct rawe_interface interface;
    struct mca_btl_rawe_address address; /**< ours, as published */
    struct rawe_link *link;
    struct rawe_bulk *bulk; /**< NULL: no batches here */
    struct rawe_responder *responder;
    struct rawe_engine engine;
    mca_btl_base_module_error_cb_fn_t error_callback;
    opal_free_list_t fragments_small; /**< hold MCA_BTL_RAWE_SMALL_BYTES */
    opal_free_list_t fragments_large; /**< hold a message of max_send_size */
    opal_free_list_t fragments_bare;  /**< hold nothing: PUT */
    opal_free_list_t registrations;
    opal_mutex_t endpoints_lock;
    opal_list_t endpoints;
    opal_proc_table_t endpoints_by_name; /**< the newest endpoint of each process */
    bool open;             /**< engine and link are there; changed with the lock held */
    atomic_uint thread_mode;   /**< how the progress thread looks after the engine */
    uint32_t thread_rounds; /**< the progress thread's: mca_btl_rawe_thread.rounds when it last looked */
    uint32_t thread_backoff; /**< the progress thread's: while MPI is away it sleeps so many intervals */
    uint32_t thread_polls;  /**< the progress thread's: it has looked closely so often */
    uint32_t serviced_rounds; /**< the responder's: see mca_btl_rawe_thread_serviced */
    uint64_t serviced_ns;     /**< the responder's: the same */
    unsigned failures;  /**< processes that could not be reached */
    bool reaches;       /**< some process can be reached */
    bool ring_warned; /**< the user knows that the ring dropped frames */
    bool refusal_reported; /**< ... and that data was refused */
} mca_btl_rawe_module_t;

/** A peer's interface, seen from one module. */
typedef struct mca_btl_base_endpoint_t {
    opal_list_item_t super; /**< in the module's list */
    struct mca_btl_base_endpoint_t *older; /**< for another interface of the same process */
    mca_btl_rawe_module_t *module;
    opal_proc_t *proc;
    struct mca_btl_rawe_address address;
    uint32_t path_mtu_bytes;
    struct rawe_conn *conn[RAWE_LANES]; /**< NULL until the lane is used */
    int watch;        /**< slot of the responder's liveness watch, -1: none */
    uint64_t watched_ns; /**< when the responder was asked last */
    struct rawe_validation *validation; /**< of the path's MTU, under way; NULL: none */
    uint64_t validated_ns; /**< when the last one ended; 0: never */
    bool stall_reported; /**< the user knows that the connection makes no progress */
    bool in_use;      /**< given to the PML by add_procs, and not taken back */
    /**
     * The one of the process's endpoints, of any module, that carries what must keep its order: the
     * PML hands the pieces of a long message to all of them.
     */
    struct mca_btl_base_endpoint_t *in_order;
    bool lost;        /**< the error callback has been called for it */
    bool streak;       /**< the bulk lane carries messages that fit a frame, and nothing longer */
    uint32_t streak_count; /**< such messages sent on the express lane... */
    uint64_t streak_since_ns;  /**< ... since then */
} mca_btl_base_endpoint_t;
OBJ_CLASS_DECLARATION(mca_btl_base_endpoint_t);

/** What a peer needs for a PUT; travels inside the PML's messages, in the sender's byte order. */
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

/** Which of the two ways out of the engine comes first: btl_send returning or the completion. */
enum mca_btl_rawe_send_phase {
    MCA_BTL_RAWE_SEND_CALLING,  /**< inside btl_send or btl_put */
    MCA_BTL_RAWE_SEND_QUEUED,   /**< returned; the completion is still to come */
    MCA_BTL_RAWE_SEND_FINISHED, /**< completed while inside the call */
};

typedef struct mca_btl_rawe_fragment {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segments[2];
    mca_btl_base_endpoint_t *endpoint;
    opal_free_list_t *list;
    struct rawe_send send;
    enum mca_btl_rawe_send_phase phase;
    bool completed_early; /**< the PML has been told that it is complete; only our memory is still in use */
    enum rawe_status status;
    struct {
        mca_btl_base_rdma_completion_fn_t callback;
        void *local_address;
        mca_btl_base_registration_handle_t *local_handle;
        void *context;
        void *cbdata;
    } put;
    size_t capacity_bytes;
    uint8_t data[];
} mca_btl_rawe_fragment_t;
OBJ_CLASS_DECLARATION(mca_btl_rawe_fragment_t);

static inline void mca_btl_rawe_lock(void)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        opal_mutex_lock(&mca_btl_rawe_component.lock);
    } else {
        mca_btl_rawe_thread_enter();
    }
}

static inline void mca_btl_rawe_unlock(void)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        opal_mutex_unlock(&mca_btl_rawe_component.lock);
    } else {
        mca_btl_rawe_thread_leave();
    }
}

/** Without waiting. False when somebody else is inside. */
static inline bool mca_btl_rawe_trylock(void)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        return 0 == opal_mutex_trylock(&mca_btl_rawe_component.lock);
    }
    return mca_btl_rawe_thread_try_enter();
}

/** Frames are under way: have the progress thread look after them. Lock held. */
static inline void mca_btl_rawe_thread_watch(mca_btl_rawe_module_t *module)
{
    unsigned how = rawe_engine_pending(&module->engine) ? MCA_BTL_RAWE_THREAD_POLLS_FAST
                                                        : MCA_BTL_RAWE_THREAD_POLLS;
    if (OPAL_UNLIKELY(atomic_load_explicit(&module->thread_mode, memory_order_relaxed) < how)) {
        mca_btl_rawe_thread_wake(module, how);
    }
}

/** CLOCK_MONOTONIC in nanoseconds: the engines' time. */
uint64_t mca_btl_rawe_now_ns(void);

/** Our half of "interface on host" for messages: "02:00:00:00:00:01" into `out` (18 bytes). */
const char *mca_btl_rawe_mac_text(const uint8_t mac[RAWE_MAC_BYTES], char out[18]);

/* btl_rawe_component.c */

/**
 * Receive what waits on a module: some frames of the ring, all of bulk. Lock held. Returns how
 * many.
 */
unsigned mca_btl_rawe_module_receive(mca_btl_rawe_module_t *module);
/** Let timers expire when nothing waits to be received, and send what was put off: now_ns of the
 * engine. Lock held. */
void mca_btl_rawe_module_service(mca_btl_rawe_module_t *module);
/**
 * Receive what waits on one module, flush, let timers expire. Lock held. Returns frames received.
 */
unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock);

/* btl_rawe_modex.c */

/** Publish the addresses of all modules. */
int mca_btl_rawe_modex_send(void);
/**
 * Addresses of a process: at most MCA_BTL_RAWE_MODULES_MAX. Returns their number, 0 when it has no
 * rawe or speaks another version.
 */
unsigned mca_btl_rawe_modex_receive(const opal_proc_t *proc,
                                    struct mca_btl_rawe_address *addresses);
/** The same from what a process published. `proc` is for messages; NULL: no messages. */
unsigned mca_btl_rawe_modex_parse(const opal_proc_t *proc, const void *data, size_t len_bytes,
                                  struct mca_btl_rawe_address *addresses);

/** Smallest path worth using: headers, and a fragment with some data. */
#define MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES 512u

/* btl_rawe_module.c */

/** A module for an opened interface. NULL, after a message, when that fails. */
mca_btl_rawe_module_t *mca_btl_rawe_module_open(const struct rawe_interface *interface);
int mca_btl_rawe_finalize(struct mca_btl_base_module_t *btl);
extern mca_btl_base_module_t mca_btl_rawe_module_template;

/* btl_rawe_procs.c */

int mca_btl_rawe_add_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable);
int mca_btl_rawe_del_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints);
/** rawe_callbacks.accept: somebody we may not have spoken to yet wants a connection. */
struct rawe_conn *mca_btl_rawe_accept(void *context, const struct rawe_connect *from,
                                      const uint8_t source_mac[RAWE_MAC_BYTES]);

/* btl_rawe_endpoint.c */

/** "rank 3", or with the job's number when it is another job's; in `out`. */
const char *mca_btl_rawe_peer_text(const opal_proc_t *proc, char out[48]);
/** The endpoint for a process's interface, if there is one. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_find(mca_btl_rawe_module_t *module,
                                                    opal_process_name_t name,
                                                    const uint8_t mac[RAWE_MAC_BYTES]);
/** The same, new if need be; NULL without memory. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_get(mca_btl_rawe_module_t *module,
                                                   opal_proc_t *proc,
                                                   const struct mca_btl_rawe_address *address,
                                                   uint32_t path_mtu_bytes);
/** Whether the PML has an endpoint of the module for this process. */
bool mca_btl_rawe_endpoint_in_use(mca_btl_rawe_module_t *module, opal_process_name_t name);
/** The endpoint goes to the PML; which one carries what must keep its order is settled here. */
void mca_btl_rawe_endpoint_introduce(mca_btl_base_endpoint_t *endpoint);
/** The endpoint's connection of a lane, opened if need be; NULL without memory. Lock held. */
struct rawe_conn *mca_btl_rawe_endpoint_conn(mca_btl_base_endpoint_t *endpoint, unsigned lane);
/** rawe_callbacks.deliver: a message, to whoever registered for its tag. */
void mca_btl_rawe_deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                          size_t len_bytes);
/** rawe_callbacks.silent, .stalled and .failed. */
void mca_btl_rawe_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns);
void mca_btl_rawe_stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
void mca_btl_rawe_failed(void *context, struct rawe_conn *conn, uint64_t silent_ns);
/** Close the endpoint's connections and forget it. Lock held. */
void mca_btl_rawe_endpoint_close(mca_btl_base_endpoint_t *endpoint);
/** True when nothing of the endpoint is queued or in flight. */
bool mca_btl_rawe_endpoint_drained(const mca_btl_base_endpoint_t *endpoint);

/* btl_rawe_send.c: from the PML to the engine */

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

/* btl_rawe_metrics.c */

/** Figures at most: room for the arrays that they are read into. */
#define MCA_BTL_RAWE_FIGURES_MAX 96u

/** One thing that is counted for a module. */
struct mca_btl_rawe_metric {
    const char *name;
    const char *text;
    bool watermark; /**< the most there was of something, instead of how often it happened */
};
unsigned mca_btl_rawe_metric_count(void);
struct mca_btl_rawe_metric mca_btl_rawe_metric(unsigned index);
/** The values of all figures as of now; system calls. Lock held. */
void mca_btl_rawe_metrics_read(mca_btl_rawe_module_t *module, uint64_t *values);

/* btl_rawe_stats.c */

/** Write the counters of a module to stderr, with `title` in front. */
void mca_btl_rawe_stats_report(mca_btl_rawe_module_t *module, const char *title);
/** Tell the user, once, when the kernel dropped frames for want of room in the ring. */
void mca_btl_rawe_stats_check_ring(mca_btl_rawe_module_t *module);

/* btl_rawe_dump.c */

/** btl_dump: endpoints and connections, one peer's or all, and (for all, or verbose) counters. */
void mca_btl_rawe_dump(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       int verbose);

/* btl_rawe_pvars.c */

/** Make the figures of the modules that are open MPI_T performance variables. */
int mca_btl_rawe_pvars_register(void);
/** A module is about to go: keep its last values. Lock held. */
void mca_btl_rawe_pvars_forget(mca_btl_rawe_module_t *module);

#endif
