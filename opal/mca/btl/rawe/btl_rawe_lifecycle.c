/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_lifecycle.h"

#include "btl_rawe_contact.h"
#include "btl_rawe_deliver.h"
#include "btl_rawe_endpoint.h"
#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "btl_rawe_async.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_thread.h"
#include "btl_rawe_routes.h"
#include "btl_rawe_send.h"
#include "core/routes/rawe_balance.h"
#include "linux/host/rawe_host_group.h"
#include "linux/packet/rawe_helper.h"
#include "linux/packet/rawe_packet.h"
#include "linux/sys/rawe_random.h"
#include "linux/sys/rawe_shared.h"
#include "linux/udp/rawe_udp.h"
#include "linux/udp/rawe_udp_batch.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/** Messages up to this length are copied when sent, and complete at once. */
#define COPY_MAX_BYTES 4096u

/** Maximum number of frames kept for retransmission, over all peers of a module. */
#define FRAMES_LIMIT (1u << 17)

/** Items allocated when a free list is empty. */
#define ITEMS_AT_A_TIME 64

/** Fault-tolerant jobs probe idle peers ten times per peer_timeout. */
#define IDLE_PROBES_PER_TIMEOUT 10u

#define MEGA 1000000u

static int register_error(struct mca_btl_base_module_t *btl,
                          mca_btl_base_module_error_cb_fn_t callback)
{
    mca_btl_rawe_state.error_callback = callback; /* the same one for all modules */
    return OPAL_SUCCESS;
}

/** 64 KiB, the least that btl/tcp buffers, plus the PML's header: a handshake would not pay off. */
#define EAGER_BYTES (64 * 1024 + 64)

/** Bandwidth of an interface that does not report its own, in Mb/s. */
#define UNKNOWN_MBPS 1000

/* Limits: eager messages are sent at once; longer ones are announced, then read into place. */
mca_btl_base_module_t mca_btl_rawe_module_template = {
    .btl_eager_limit = EAGER_BYTES,
    .btl_rndv_eager_limit = 1024,
    .btl_max_send_size = EAGER_BYTES,
    .btl_rdma_pipeline_send_length = 1024,
    .btl_rdma_pipeline_frag_size = 4 * 1024 * 1024,
    .btl_min_rdma_pipeline_size = 64 * 1024,
    .btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT,
    .btl_latency = 10,
    .btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET,
    .btl_registration_handle_size = sizeof(struct mca_btl_base_registration_handle_t),
    .btl_get_limit = SIZE_MAX,
    .btl_put_limit = SIZE_MAX,
    .btl_add_procs = mca_btl_rawe_add_procs,
    .btl_del_procs = mca_btl_rawe_del_procs,
    .btl_finalize = mca_btl_rawe_finalize,
    .btl_alloc = mca_btl_rawe_alloc,
    .btl_free = mca_btl_rawe_free,
    .btl_prepare_src = mca_btl_rawe_prepare_src,
    .btl_send = mca_btl_rawe_send,
    .btl_sendi = mca_btl_rawe_sendi,
    .btl_put = mca_btl_rawe_put,
    .btl_get = mca_btl_rawe_get,
    .btl_dump = mca_btl_rawe_dump,
    .btl_register_mem = mca_btl_rawe_register_mem,
    .btl_deregister_mem = mca_btl_rawe_deregister_mem,
    .btl_register_error = register_error,
};

/**
 * Longest message that the user may allow. The wire format has 32 bits for its length, and memory
 * is allocated for 64 messages at a time.
 */
#define MESSAGE_BYTES_MAX ((size_t)16 << 20)

static size_t bound_bytes(size_t bytes, size_t least, size_t most)
{
    return bytes < least ? least : bytes < most ? bytes : most;
}

/** Put the limits in order, whatever the user has set. */
static void order_limits(mca_btl_base_module_t *btl)
{
    btl->btl_eager_limit = bound_bytes(btl->btl_eager_limit, 256, MESSAGE_BYTES_MAX);
    btl->btl_max_send_size =
        bound_bytes(btl->btl_max_send_size, btl->btl_eager_limit, MESSAGE_BYTES_MAX);
    btl->btl_rndv_eager_limit = bound_bytes(btl->btl_rndv_eager_limit, 0, btl->btl_eager_limit);
}

bool mca_btl_rawe_free_list_init(opal_free_list_t *list, opal_class_t *class, size_t item_bytes)
{
    OBJ_CONSTRUCT(list, opal_free_list_t);
    return OPAL_SUCCESS == opal_free_list_init(list, item_bytes, opal_cache_line_size, class, 0,
                                               opal_cache_line_size, 0, -1, ITEMS_AT_A_TIME, NULL,
                                               0, NULL, NULL, NULL);
}

/** Initialize both lists, even if one runs out of memory. */
static bool free_lists_init(mca_btl_rawe_module_t *module)
{
    opal_class_t *class = OBJ_CLASS(mca_btl_rawe_fragment_t);
    size_t head_bytes = sizeof(mca_btl_rawe_fragment_t);
    size_t large_bytes = head_bytes + module->super.btl_max_send_size;
    bool large = mca_btl_rawe_free_list_init(&module->fragments_large, class, large_bytes);

    return mca_btl_rawe_free_list_init(&module->fragments_small, class,
                                       head_bytes + MCA_BTL_RAWE_SMALL_BYTES) &&
           large;
}

/** Return the configuration of one of the module's ports. */
static struct rawe_port_config port_config(const mca_btl_rawe_module_t *module,
                                           enum rawe_port_use use)
{
    const struct rawe_interface *interface = &module->interface;
    struct rawe_port_config config = {
        .kind = module->address.udp ? &rawe_udp_port : &rawe_packet_port,
        .use = use,
        .interface = interface->name,
        .interface_index = interface->index,
        .loopback = interface->loopback,
        .ethertype = (uint16_t)mca_btl_rawe_params.ethertype,
        .port = module->address.port,
        .key = module->address.key,
        .ping_port = module->address.ping_port,
        .ping_key = module->address.ping_key,
        .mtu_bytes = interface->mtu_bytes,
        .ring_bytes = mca_btl_rawe_state.ring_bytes,
        .middle_ring_bytes = mca_btl_rawe_state.middle_ring_bytes,
        .priority = (uint8_t)mca_btl_rawe_params.socket_priority,
        .helper = mca_btl_rawe_params.helper,
        .pinned = mca_btl_rawe_state.several_interfaces && !interface->loopback,
    };
    if (module->address.udp) {
        memcpy(config.address, module->address.mac, RAWE_MAC_BYTES);
    }
    return config;
}

/** Start the responder on its port. */
static bool start_responder(mca_btl_rawe_module_t *module, struct rawe_port_opening *opening)
{
    const struct rawe_responder_duty duty = {
        .serviced = mca_btl_rawe_thread_serviced,
        .service = mca_btl_rawe_thread_service,
        .context = module,
    };
    struct rawe_port *wire = rawe_port_open_end(opening);

    if (NULL == wire ||
        0 != rawe_responder_start(&module->responder, wire, &opening->config, module->address.mac,
                                  &duty, mca_btl_rawe_state.service, &opening->error)) {
        mca_btl_rawe_failure_note(false, module->interface.name, &opening->error);
        return false;
    }
    return true;
}

/**
 * Use batches even if the device does not cut them: then the kernel does, which is faster than a
 * system call per frame (1.3 to 1.6 times the bandwidth).
 */
static void use_batches(mca_btl_rawe_module_t *module)
{
    const struct rawe_batches batches = {
        .output = {.transmit = module->bulk->kind->transmit_batch,
                   .context = module->bulk,
                   .longest_bytes = &module->bulk->batch_bytes},
        .bytes_max = RAWE_BATCH_BYTES_MAX,
        .overhead_bytes = module->bulk->overhead_bytes,
        .receive_frames = module->bulk->receive_frames,
    };

    rawe_engine_use_batches(&module->engine, &batches);
}

/** Share limits with this host's ranks, which use one switch port. Containers have other MACs. */
static struct rawe_pull_host *share_host(const mca_btl_rawe_module_t *module)
{
    const char *directory = mca_btl_rawe_compat_job_directory();
    const uint8_t *mac = module->address.mac;
    char path[PATH_MAX];

    if (NULL == directory || module->interface.loopback || mca_btl_rawe_compat_local_ranks() < 2 ||
        mca_btl_rawe_compat_local_rank() >= RAWE_BUDGET_SHARES ||
        sizeof(path) <= (size_t)snprintf(path, sizeof(path), "%s/rawe-%02x%02x%02x%02x%02x%02x",
                                         directory, mac[0], mac[1], mac[2], mac[3], mac[4],
                                         mac[5])) {
        return NULL;
    }
    return rawe_shared_map(path, sizeof(struct rawe_pull_host)); /* NULL: each rank has a limit */
}

/** Implement rawe_engine_config.arrival_clock_ns. */
static uint64_t arrival_clock_ns(void *context)
{
    (void)context;
    return rawe_port_arrival_clock_ns();
}

static void open_engine(mca_btl_rawe_module_t *module)
{
    const struct mca_btl_rawe_params *params = &mca_btl_rawe_params;
    module->host = NULL != module->host ? module->host : share_host(module);
    struct rawe_engine_config config = {
        .ethertype = (uint16_t)params->ethertype,
        .port = module->address.port,
        .key = module->address.key,
        .jobid = OPAL_PROC_MY_NAME.jobid,
        .vpid = OPAL_PROC_MY_NAME.vpid,
        /* The length field has 16 bits; a multiple of 8 keeps a batch's data aligned. */
        .payload_max_bytes =
            MIN(module->interface.mtu_bytes - RAWE_FRAME_OVERHEAD_BYTES, UINT16_MAX) & ~(uint32_t)7,
        .message_max_bytes = (uint32_t)module->super.btl_max_send_size,
        .window_frames = (uint32_t)params->window_frames,
        .receive_frames = module->link->receive_frames,
        .copy_max_bytes = COPY_MAX_BYTES,
        /* Completed sends may be held back only if they are sent without MPI's help. */
        .coalesce_from_frames =
            0 != params->progress_thread_ms ? (uint32_t)params->coalesce_from : 0,
        .frames_limit = FRAMES_LIMIT,
        .ack_delay_ns = params->ack_delay_us * 1000,
        .liveness.probe_least_ns = params->probe_min_us * 1000,
        .liveness.probe_most_ns = params->probe_max_ms * MEGA,
        .reorder_ns = params->reorder_us * 1000,
        .inflow_bytes = module->interface.loopback ? 0 : params->inflow_bytes, /* no switch port */
        .host = module->host,
        .host_index = mca_btl_rawe_compat_local_rank(),
        .congestion = mca_btl_rawe_params_congestion(),
        .link_mbps = module->address.speed_mbps,
        .checksummed = module->address.udp,
        .liveness.peer_timeout_ns = params->peer_timeout * 1000 * MEGA,
        .liveness.idle_ns = module->idle_ns,
        .streak_ns = 1000 * params->streak_us,
        .clock_ns = mca_btl_rawe_peer_now_ns,
        .arrival_clock_ns = arrival_clock_ns,
        .handles = &mca_btl_rawe_state.handles,
        .table = &mca_btl_rawe_state.connections,
        .deferral = &mca_btl_rawe_state.deferral,
    };
    static const struct rawe_callbacks callbacks = {
        .long_reply = rawe_balance_reply,
        .deliver = mca_btl_rawe_deliver,
        .accept = mca_btl_rawe_accept,
        .unknown_source = mca_btl_rawe_unknown_source,
        .lossy = mca_btl_rawe_lossy,
        .silent = mca_btl_rawe_silent,
        .stalled = mca_btl_rawe_stalled,
        .failed = mca_btl_rawe_failed,
        .given_up = mca_btl_rawe_given_up,
        .lost = mca_btl_rawe_lost,
        .control = mca_btl_rawe_multicast_control,
    };
    struct rawe_output output = {.transmit = module->link->kind->transmit, .context = module->link};

    rawe_mac_of_number(atomic_load_explicit(&module->mac, memory_order_relaxed), config.mac);
    rawe_engine_init(&module->engine, &config, &callbacks, module, &output, mca_btl_rawe_now_ns());
    if (NULL != module->bulk) {
        use_batches(module);
    }
}

/** Return true if the interface's MTU is usable; otherwise note the failure. */
static bool has_room(const mca_btl_rawe_module_t *module)
{
    const struct rawe_port_error error = {"using an MTU below 512 bytes", EINVAL};
    bool enough = module->interface.mtu_bytes >= MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES;

    if (!enough) {
        mca_btl_rawe_failure_note(false, module->interface.name, &error);
    }
    return enough;
}

/** Implement mca_btl_rawe_module_t.open_sockets. */
static bool open_sockets(mca_btl_rawe_module_t *module)
{
    struct rawe_port_opening link = {.config = port_config(module, RAWE_PORT_EXPRESS)};
    struct rawe_port_opening bulk = {.config = port_config(module, RAWE_PORT_BULK)};
    struct rawe_port_opening responder = {.config = port_config(module, RAWE_PORT_RESPONDER)};
    const bool responds = NULL != module->responder;

    if (!has_room(module)) {
        return false;
    }
    rawe_port_open_begin(&link);
    if (mca_btl_rawe_params.batches) {
        rawe_port_open_begin(&bulk);
    }
    if (!responds) {
        rawe_port_open_begin(&responder);
    }
    module->link = rawe_port_open_end(&link);
    module->bulk = rawe_port_open_end(&bulk); /* NULL: everything also works without batches */
    if (NULL == module->link) {
        mca_btl_rawe_failure_note(false, module->interface.name, &link.error);
        rawe_port_close(module->bulk); /* the next attempt reopens it */
        module->bulk = NULL;
        rawe_port_close(rawe_port_open_end(&responder));
        return false;
    }
    open_engine(module);
    /* Start the responder last, because it may be pinged at once. */
    if (!responds && !start_responder(module, &responder)) {
        return false;
    }
    atomic_store_explicit(&module->open, true, memory_order_release);
    mca_btl_rawe_fanout_register_links(module);
    return true;
}

/** Identifies the frames for this process on an interface. */
struct identity {
    struct rawe_interface interface;
    uint32_t key, ping_key;
    uint16_t port, ping_port;
    uint16_t udp_port; /**< UDP uses this port instead; 0: not chosen yet */
};

/** Each interface has two identities: by its MAC address, and for UDP by its IP address. */
#define IDENTITIES_MAX (2u * MCA_BTL_RAWE_MODULES_MAX)

/**
 * Return an interface's identity, drawn on first use and kept for the life of the process. Open MPI
 * may be initialized again (MPI 4 sessions), but PMIx still gives peers the first published one.
 */
static struct identity *identity_of(const struct rawe_interface *interface)
{
    static struct identity identities[IDENTITIES_MAX];
    static unsigned count;
    struct identity drawn;

    for (unsigned i = 0; i < count; ++i) {
        if (0 == strcmp(identities[i].interface.name, interface->name) &&
            0 == memcmp(identities[i].interface.mac, interface->mac, RAWE_MAC_BYTES)) {
            return &identities[i];
        }
    }
    /* Unpredictable: keys keep other jobs' frames out. */
    if (sizeof(drawn) != getrandom(&drawn, sizeof(drawn), 0)) {
        return NULL;
    }
    drawn.interface = *interface;
    drawn.udp_port = 0;
    /* The responder's filter must distinguish the two keys. */
    drawn.ping_key = drawn.ping_key != drawn.key ? drawn.ping_key : ~drawn.key;
    unsigned place = count < IDENTITIES_MAX ? count++ : count - 1;
    identities[place] = drawn;
    return &identities[place];
}

/** Attempts to find two adjacent UDP ports that no other process uses. */
#define UDP_ATTEMPTS_MAX 64u

/** Open both of the module's UDP ports, the responder's above the other. Returns errno. */
static int open_udp_pair(mca_btl_rawe_module_t *module, struct rawe_port_opening *responder)
{
    struct rawe_port_config config = port_config(module, RAWE_PORT_EXPRESS);

    responder->config = port_config(module, RAWE_PORT_RESPONDER);
    if (0 != rawe_port_open(&module->link, &config, &responder->error)) {
        return responder->error.code;
    }
    responder->config.link = module->link;
    if (0 != rawe_port_open(&responder->port, &responder->config, &responder->error)) {
        rawe_port_close(module->link);
        module->link = NULL;
        return responder->error.code;
    }
    return 0;
}

/** Find UDP ports for a module, and open them. Ports once published are kept. */
static bool find_udp_pair(mca_btl_rawe_module_t *module, struct rawe_port_opening *responder)
{
    const struct mca_btl_rawe_params *params = &mca_btl_rawe_params;
    struct identity *identity = identity_of(&module->interface);
    bool published = 0 != identity->udp_port;
    int code = EADDRINUSE;

    if (!has_room(module)) {
        return false;
    }
    for (unsigned i = 0; EADDRINUSE == code && i < (published ? 1u : UDP_ATTEMPTS_MAX); ++i) {
        /* Any sequence that differs by process, and tells nothing about the key. */
        uint32_t number = identity->port + 2654435769u * i;
        module->address.port =
            published ? identity->udp_port
                      : (uint16_t)(params->udp_port_min + number % (params->udp_port_range - 1));
        module->address.ping_port = (uint16_t)(module->address.port + 1);
        code = open_udp_pair(module, responder);
    }
    if (0 != code) {
        mca_btl_rawe_failure_note(false, module->interface.name, &responder->error);
        return false;
    }
    identity->udp_port = module->address.port;
    return true;
}

/** Implement mca_btl_rawe_module_t.open_sockets for UDP. */
static bool open_udp(mca_btl_rawe_module_t *module)
{
    struct rawe_port_opening responder = {.port = NULL};

    /* If the responder was opened before, so was the other port. */
    if (NULL == module->responder && !find_udp_pair(module, &responder)) {
        return false;
    }
    module->bulk = mca_btl_rawe_params.batches ? rawe_udp_bulk(module->link) : NULL;
    open_engine(module);
    if (NULL == module->responder && !start_responder(module, &responder)) {
        return false;
    }
    atomic_store_explicit(&module->open, true, memory_order_release);
    return true;
}

bool mca_btl_rawe_module_open_responder(mca_btl_rawe_module_t *module)
{
    struct rawe_port_opening opening = {.config = port_config(module, RAWE_PORT_RESPONDER)};

    if (!module->address.udp) {
        rawe_port_open_begin(&opening);
    } else if (!find_udp_pair(module, &opening)) {
        return false;
    }
    return start_responder(module, &opening);
}

/** Return the speed set by the user (btl_rawe_bandwidth), or the driver's. 0: unknown. */
static uint32_t speed_mbps(const struct rawe_interface *interface)
{
    const uint32_t set_mbps = mca_btl_rawe_module_template.btl_bandwidth;
    return 0 != set_mbps && !interface->loopback ? set_mbps : interface->speed_mbps;
}

mca_btl_rawe_module_t *mca_btl_rawe_module_new(const struct rawe_interface *found, bool udp)
{
    struct rawe_interface interface_used = *found, *interface = &interface_used;

    if (udp && !rawe_udp_use(interface)) {
        const struct rawe_port_error error = {
            "using UDP without an IPv4 address, or a global or unique-local IPv6 address",
            EADDRNOTAVAIL};
        mca_btl_rawe_failure_note(false, interface->name, &error);
        return NULL;
    }
    mca_btl_rawe_module_t *module = aligned_alloc(_Alignof(mca_btl_rawe_module_t), sizeof(*module));
    const struct identity *identity = identity_of(interface);

    if (NULL == module || NULL == identity) {
        mca_btl_rawe_help_failed("opening a module", errno, __func__);
        free(module);
        return NULL;
    }
    memset(module, 0, sizeof(*module));
    module->super = mca_btl_rawe_module_template;
    module->super.btl_component = mca_btl_rawe_state.component;
    if (udp) {
        module->address.udp =
            rawe_udp_is_ipv6(interface->mac) ? MCA_BTL_RAWE_UDP_IPV6 : MCA_BTL_RAWE_UDP_IPV4;
    }
    module->open_sockets = udp ? open_udp : open_sockets;
    module->interface = *interface;
    module->address.port = identity->port;
    module->address.key = identity->key;
    module->address.ping_port = identity->ping_port;
    module->address.ping_key = identity->ping_key;
    module->address.mtu_bytes = interface->mtu_bytes;
    module->address.speed_mbps = speed_mbps(interface);
    module->address.index = (uint8_t)mca_btl_rawe_state.module_count;
    if (mca_btl_rawe_compat_fault_tolerant()) {
        module->idle_ns = mca_btl_rawe_params.peer_timeout * 1000 * MEGA / IDLE_PROBES_PER_TIMEOUT;
    }
    atomic_init(&module->carrier, true);
    if (!interface->loopback) {
        memcpy(module->address.mac, interface->mac, RAWE_MAC_BYTES);
    }
    atomic_init(&module->mac, rawe_mac_number(module->address.mac));
    module->super.btl_bandwidth =
        0 != module->address.speed_mbps ? module->address.speed_mbps : UNKNOWN_MBPS;
    order_limits(&module->super);
    OBJ_CONSTRUCT(&module->endpoints, opal_list_t);
    OBJ_CONSTRUCT(&module->endpoints_lock, opal_mutex_t);
    if (!free_lists_init(module)) {
        mca_btl_rawe_help_failed("allocating memory", ENOMEM, __func__);
        mca_btl_rawe_finalize(&module->super);
        return NULL;
    }
    return module;
}

/** Per module: link, responder, bulk and middle port; and two ports for groups in all. */
#define CLOSINGS_MAX (4u * MCA_BTL_RAWE_MODULES_MAX + 2u)

/** Threads that each close a port. */
static pthread_t closings[CLOSINGS_MAX];
static unsigned closing_count;

static void *closing_main(void *port)
{
    rawe_port_close(port);
    return NULL;
}

/**
 * Close a port, which may be NULL, in parallel with others. close(2) of a packet socket waits until
 * no processor uses the socket (packet_release, synchronize_net), 28 ms each: six sockets
 * take 167 ms in sequence, but 29 ms with a thread each (Linux 6.18, two busy cores).
 */
static void close_beside(struct rawe_port *port)
{
    if (NULL != port && closing_count < CLOSINGS_MAX &&
        0 == rawe_service_create_thread(&closings[closing_count], closing_main, port,
                                        "rawe-close")) {
        ++closing_count;
    } else {
        rawe_port_close(port);
    }
}

/** Wait until the ports are closed, because the component may be unloaded. */
static void close_end(void)
{
    while (0 != closing_count) {
        pthread_join(closings[--closing_count], NULL);
    }
}

/** Close a bulk port, which also closes its middle port. */
static void close_bulk(struct rawe_port **bulk)
{
    while (NULL != *bulk) {
        struct rawe_port *port = *bulk;
        *bulk = port->beside;
        port->beside = NULL;
        close_beside(port);
    }
}

/** Make the service thread release the module, and close the module's sockets in this thread. */
static void close_sockets(mca_btl_rawe_module_t *module)
{
    close_beside(rawe_responder_stop(module->responder));
    close_bulk(&module->bulk);
    close_bulk(&module->group_bulk);
    close_beside(module->group_port);
    close_beside(module->link);
}

/** Report the engine's counters, and close all connections. Lock held. */
static void end_engine(mca_btl_rawe_module_t *module)
{
    bool begun = NULL != module->link && 0 != module->engine.config.window_frames;

    if (begun) {
        mca_btl_rawe_metrics_check_ring(module);
        mca_btl_rawe_module_check_damage(module);
    }
    if (mca_btl_rawe_params.stats &&
        (module->open || (module->interface.loopback && !module->address.udp))) {
        mca_btl_rawe_metrics_report(module, "rawe");
    }
    mca_btl_rawe_multicast_end(module);
    while (begun && !opal_list_is_empty(&module->endpoints)) {
        mca_btl_rawe_endpoint_close(
            (mca_btl_base_endpoint_t *)opal_list_get_first(&module->endpoints));
    }
    if (begun) {
        rawe_engine_free(&module->engine);
    }
    rawe_shared_unmap(module->host, sizeof(*module->host));
    module->host = NULL;
    module->open = false;
}

static void module_free(mca_btl_rawe_module_t *module)
{
    close_sockets(module);
    OBJ_DESTRUCT(&module->endpoints);
    OBJ_DESTRUCT(&module->endpoints_lock);
    OBJ_DESTRUCT(&module->fragments_small);
    OBJ_DESTRUCT(&module->fragments_large);
    free(module);
}

/** Close the module. Memory is freed with the last one: other engines may send parts of a PUT. */
int mca_btl_rawe_finalize(struct mca_btl_base_module_t *btl)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *)btl;
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    unsigned index = 0;

    while (index < state->module_count && state->modules[index] != module) {
        ++index;
    }
    bool listed = index < state->module_count;
    /* A module that could not be opened is not listed and does not affect the others. */
    if (listed) {
        mca_btl_rawe_async_stop();
        mca_btl_rawe_linger();
        /* Lingering needed the group's sockets; now they may be closed. */
        rawe_host_group_quiesce(state->fanout);
        mca_btl_rawe_routes_end();
    }
    mca_btl_rawe_lock();
    end_engine(module);
    if (listed) {
        state->modules[index] = state->modules[--state->module_count];
        module->next_finalized = state->finalized;
        state->finalized = module;
    }
    unsigned modules_left = state->module_count;
    mca_btl_rawe_unlock();
    if (0 == modules_left) {
        mca_btl_rawe_fanout_close();
        rawe_helper_hang_up(); /* a helper may still be waiting for requests */
    }
    if (!listed) {
        module_free(module);
    }
    while (0 == modules_left && NULL != state->finalized) {
        module = state->finalized;
        state->finalized = module->next_finalized;
        module_free(module);
    }
    close_end();
    return OPAL_SUCCESS;
}
