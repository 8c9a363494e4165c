/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes of the whole component, joined by rails: see unit_processes.h.
 */
#include "unit_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "btl_rawe_lifecycle.h"
#include "btl_rawe_offer.h"
#include "btl_rawe_params.h"
#include "btl_rawe_routes.h"
#include "btl_rawe_thread.h"
#include "linux/packet/rawe_packet.h"
#include "net_harness.h"
#include "net_packet.h"

#define MTU_BYTES 1500u
#define LATENCY_NS (10 * US)
/** A transmit queue is full when the link needs this long to drain it. */
#define QUEUE_NS (200 * US)
#define RING_FRAMES 4096u
#define ENDS 2u /**< ports of an interface: link, bulk */

struct packet {
    struct packet *next;
    uint64_t arrives_ns;
    uint32_t len_bytes;
    unsigned frames;
    uint8_t bytes[];
};

/** A port, and the packets in flight to it. */
struct end {
    struct rawe_port port; /**< must be the first member */
    uint32_t waits;        /**< something has arrived */
    unsigned process, rail, bulk;
    struct packet *first, **last;
};

static struct {
    struct end ends[PROCESSES][ENDS];
    uint32_t speed_mbps;
    unsigned sent;               /**< packets sent */
    uint64_t free_ns[PROCESSES]; /**< when the link becomes idle */
    uint64_t stalled_until_ns;
    bool cut;
    uint64_t answered_ns[PROCESSES]; /**< a process's last PONG on the wire; 0: never */
} wires[RAILS_MAX];

struct unit_process processes[PROCESSES];
unsigned rails, rails_lose_each;
static struct unit_process *entered;

extern struct mca_btl_rawe_component mca_btl_rawe_component;

void net_fail(const char *invariant, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    fail_msg("violates \"%s\": %s", invariant, what);
    abort(); /* not reached, but the compiler does not know */
}

/* ---- ports ---- */

static void end_poll(struct end *end)
{
    end->waits = end->first != NULL && end->first->arrives_ns <= fake_ompi.now_ns &&
                 wires[end->rail].stalled_until_ns <= fake_ompi.now_ns;
}

static int end_open(struct rawe_port **port, const struct rawe_port_config *config,
                    struct rawe_port_error *error)
{
    if (config->use == RAWE_PORT_RESPONDER) {
        static struct rawe_port unused;
        *port = &unused;
        return 0;
    }
    unsigned number = (unsigned)config->interface_index - 1, bulk = config->use == RAWE_PORT_BULK;
    unsigned process = number / RAILS_MAX, rail = number % RAILS_MAX;
    struct end *end = &wires[rail].ends[process][bulk];
    *end = (struct end){
        .port = {.word = &end->waits,
                 .mask = UINT32_MAX,
                 .kind = config->kind,
                 .fd = -1,
                 .receive_frames = RING_FRAMES,
                 .overhead_bytes = bulk ? NET_BATCH_OVERHEAD_BYTES : 0,
                 .batch_bytes = RAWE_BATCH_BYTES_MAX,
                 .offloaded = bulk},
        .process = process,
        .rail = rail,
        .bulk = bulk,
        .last = &end->first,
    };
    *port = &end->port;
    return 0;
}

static struct packet *end_take(struct end *end)
{
    struct packet *packet = end->first;

    end->first = packet->next;
    if (end->first == NULL) {
        end->last = &end->first;
    }
    end_poll(end);
    return packet;
}

static void end_close(struct rawe_port *port)
{
    struct end *end = (struct end *)port;

    while (end->first != NULL) {
        free(end_take(end));
    }
}

static void hand_over_batch(struct packet *packet, const struct rawe_port_receiver *receiver,
                            void *context)
{
    const uint8_t *source_mac = packet->bytes + RAWE_MAC_BYTES;
    const uint8_t *head = packet->bytes + RAWE_ETH_HEADER_BYTES;
    const uint8_t *data = packet->bytes + NET_BATCH_HEAD_BYTES;
    uint32_t data_bytes = packet->len_bytes - NET_BATCH_HEAD_BYTES;
    uint8_t *place =
        receiver->place(context, source_mac, head, RAWE_BATCH_HEADER_BYTES, data_bytes);

    if (place != NULL) {
        memcpy(place, data, data_bytes);
        data = place;
    }
    receiver->packet(context, source_mac, head, RAWE_BATCH_HEADER_BYTES, data, data_bytes);
}

static unsigned end_receive(struct rawe_port *port, unsigned budget,
                            const struct rawe_port_receiver *receiver, void *context)
{
    struct end *end = (struct end *)port;
    unsigned frames = 0;

    for (; budget != 0 && end->waits; budget--) {
        struct packet *packet = end_take(end); /* the receiver may call this function again */
        frames += packet->frames;
        if (end->bulk) {
            hand_over_batch(packet, receiver, context);
        } else {
            receiver->frame(context, packet->bytes, packet->len_bytes);
        }
        free(packet);
    }
    return frames;
}

/** Return a packet for the other end, or NULL if the transmit queue is full. */
static struct packet *packet_new(const struct end *from, uint32_t len_bytes)
{
    if (wires[from->rail].free_ns[from->process] > fake_ompi.now_ns + QUEUE_NS) {
        return NULL;
    }
    struct packet *packet = malloc(sizeof(*packet) + len_bytes);
    assert_non_null(packet);
    *packet = (struct packet){.len_bytes = len_bytes, .frames = 1};
    return packet;
}

static void packet_send(const struct end *from, struct packet *packet)
{
    struct end *to = &wires[from->rail].ends[1 - from->process][from->bulk];
    uint64_t *free_ns = &wires[from->rail].free_ns[from->process];
    uint64_t begins_ns = *free_ns > fake_ompi.now_ns ? *free_ns : fake_ompi.now_ns;

    *free_ns = begins_ns + 8000ull * packet->len_bytes / wires[from->rail].speed_mbps;
    packet->arrives_ns = *free_ns + LATENCY_NS;
    if (wires[from->rail].cut ||
        (rails_lose_each != 0 && ++wires[from->rail].sent % rails_lose_each == 0)) {
        free(packet);
        return;
    }
    *to->last = packet;
    to->last = &packet->next;
}

static const struct rawe_engine *engine_of(const struct end *end)
{
    return &processes[end->process].modules[end->rail]->engine;
}

static unsigned end_transmit(void *port, const struct rawe_frame *frames, unsigned count)
{
    unsigned taken = 0;

    for (; taken < count; taken++) {
        struct packet *packet = packet_new(port, frames[taken].len_bytes);
        struct rawe_header header;
        if (packet == NULL) {
            break;
        }
        net_frame_linearize(engine_of(port), &frames[taken], packet->bytes, &header);
        packet_send(port, packet);
    }
    return taken;
}

/** Transmit a batch as one packet. */
static bool end_transmit_batch(void *port, const struct rawe_frame *frame, uint32_t segment_bytes)
{
    struct packet *packet = packet_new(port, frame->len_bytes);

    if (packet != NULL) {
        struct net_batch batch =
            net_batch_linearize(engine_of(port), frame, segment_bytes, packet->bytes);
        packet->frames = net_batch_frames(&batch);
        packet_send(port, packet);
    }
    return packet != NULL;
}

static void end_read_counters(struct rawe_port *port, struct rawe_port_counters *counters)
{
    *counters = (struct rawe_port_counters){.frames_sent = 0};
}

/** Replaces packet sockets by fake ports. */
const struct rawe_port_kind rawe_packet_port = {
    .open = end_open,
    .close = end_close,
    .receive = end_receive,
    .transmit = end_transmit,
    .transmit_batch = end_transmit_batch,
    .read_counters = end_read_counters,
};

/* ---- the responder, and waits in real time ---- */

int rawe_responder_start(struct rawe_responder **responder, struct rawe_port *wire,
                         const struct rawe_port_config *config, const uint8_t mac[RAWE_MAC_BYTES],
                         const struct rawe_responder_duty *duty, struct rawe_service *service,
                         struct rawe_port_error *error)
{
    *responder = NULL;
    return 0;
}

struct rawe_port *rawe_responder_stop(struct rawe_responder *responder)
{
    return NULL;
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
}

void rawe_responder_listen(struct rawe_responder *responder,
                           const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX])
{
}

bool rawe_responder_shared(const struct rawe_responder *responder)
{
    return false;
}

/** Return the entered process's watch on a rail. A PONG arrives at once or never. */
struct rawe_watch *rawe_responder_watch(struct rawe_responder *responder,
                                        const struct rawe_ping_address *to)
{
    return (struct rawe_watch *)&wires[to->mac[RAWE_MAC_BYTES - 1]].answered_ns[entered->index];
}

void rawe_responder_unwatch(struct rawe_responder *responder, struct rawe_watch *watch)
{
}

void rawe_responder_ping(struct rawe_responder *responder, struct rawe_watch *watch)
{
    for (unsigned rail = 0; rail < rails; rail++) {
        uint64_t *answered_ns = &wires[rail].answered_ns[entered->index];
        if ((uint64_t *)watch == answered_ns && !wires[rail].cut &&
            wires[rail].stalled_until_ns <= fake_ompi.now_ns) {
            *answered_ns = fake_ompi.now_ns;
        }
    }
}

uint64_t rawe_watch_last_pong_ns(const struct rawe_watch *watch)
{
    return *(const uint64_t *)watch;
}

uint64_t rawe_watch_last_absent_ns(const struct rawe_watch *watch)
{
    return 0;
}

bool rawe_watch_answered_from(const struct rawe_watch *watch, uint8_t mac[RAWE_MAC_BYTES])
{
    return false; /* no answer from another address */
}

struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns)
{
    return NULL;
}

void rawe_validation_end(struct rawe_responder *responder, struct rawe_validation *validation)
{
}

void mca_btl_rawe_linger(void)
{
}

static uint8_t drawn; /**< last random byte */

ssize_t __wrap_getrandom(void *buffer, size_t len_bytes, unsigned flags);
int __wrap_nanosleep(const struct timespec *duration, struct timespec *left);

/** Draw the same ports and keys in each run of a program. */
ssize_t __wrap_getrandom(void *buffer, size_t len_bytes, unsigned flags)
{
    for (size_t i = 0; i < len_bytes; i++) {
        drawn = (uint8_t)(drawn * 5 + 77);
        ((uint8_t *)buffer)[i] = drawn;
    }
    return (ssize_t)len_bytes;
}

/** Return at once: MPI never enters while the progress thread waits for it to. */
int __wrap_nanosleep(const struct timespec *duration, struct timespec *left)
{
    return 0;
}

/* ---- processes ---- */

/** Set the defaults of all parameters. */
static void set_defaults(void)
{
    mca_btl_rawe_params = (struct mca_btl_rawe_params){
#define X(name, default_, ...) .name = default_,
        MCA_BTL_RAWE_NUMBER_LIST(X) MCA_BTL_RAWE_FLAG_LIST(X)
#undef X
            .congestion = (char *)(uintptr_t) "cubic",
    };
}

struct unit_process *process_enter(unsigned index)
{
    if (entered != &processes[index]) {
        if (entered != NULL) {
            memcpy(&entered->state, &mca_btl_rawe_state, sizeof(mca_btl_rawe_state));
        }
        entered = &processes[index];
        memcpy(&mca_btl_rawe_state, &entered->state, sizeof(mca_btl_rawe_state));
    }
    return entered;
}

static void open_module(struct unit_process *process, unsigned rail)
{
    struct rawe_interface interface = {
        .index = (int)(1 + process->index * RAILS_MAX + rail),
        .mac = {2, 0, 0, 0, (uint8_t)process->index, (uint8_t)rail},
        .mtu_bytes = MTU_BYTES,
        .speed_mbps = wires[rail].speed_mbps,
    };

    snprintf(interface.name, sizeof(interface.name), "n%ueth%u", process->index, rail);
    mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(&interface, false);
    assert_non_null(module);
    process->modules[rail] = module;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = module;
    assert_true(module->open_sockets(module));
    module->engine.config.jobid = 7;
    module->engine.config.vpid = process->index;
}

static void start(unsigned index)
{
    struct unit_process *process = process_enter(index);

    process->index = index;
    assert_int_equal(mca_btl_rawe_component.super.btl_version.mca_open_component(), OPAL_SUCCESS);
    rawe_handle_table_init(&mca_btl_rawe_state.handles, index + 1);
    mca_btl_rawe_routes_init();
    for (unsigned rail = 0; rail < rails; rail++) {
        open_module(process, rail);
    }
    process->other = OBJ_NEW(opal_proc_t);
    process->other->proc_name = (opal_process_name_t){.jobid = 7, .vpid = 1 - index};
}

/** Do what add_procs does once all paths are known. */
static void introduce(unsigned index)
{
    struct unit_process *process = process_enter(index);

    for (unsigned rail = 0; rail < rails; rail++) {
        const struct mca_btl_rawe_address *there = &processes[1 - index].modules[rail]->address;
        process->endpoints[rail] =
            mca_btl_rawe_endpoint_get(process->modules[rail], process->other, there, MTU_BYTES);
        assert_non_null(process->endpoints[rail]);
        mca_btl_rawe_endpoint_introduce(process->endpoints[rail]);
    }
}

void processes_start(const uint32_t *speeds_mbps, unsigned count)
{
    fake_ompi_begin();
    fake_ompi.now_ns = 5000 * MS;
    set_defaults();
    memset(wires, 0, sizeof(wires));
    memset(processes, 0, sizeof(processes));
    entered = NULL;
    rails_lose_each = 0;
    rails = count;
    for (unsigned rail = 0; rail < rails; rail++) {
        wires[rail].speed_mbps = speeds_mbps[rail];
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        start(i);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        introduce(i);
    }
}

/** Drop the packets on a wire. */
static void rail_clear(unsigned rail)
{
    for (unsigned i = 0; i < PROCESSES * ENDS; i++) {
        end_close(&wires[rail].ends[i / ENDS][i % ENDS].port);
    }
}

void processes_stop(void)
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        struct unit_process *process = process_enter(i);
        for (unsigned rail = 0; rail < rails; rail++) {
            assert_int_equal(mca_btl_rawe_finalize(&process->modules[rail]->super), OPAL_SUCCESS);
        }
    }
    for (unsigned rail = 0; rail < rails; rail++) {
        rail_clear(rail); /* frames sent to closed ports */
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        OBJ_RELEASE(process_enter(i)->other);
        assert_int_equal(mca_btl_rawe_component.super.btl_version.mca_close_component(),
                         OPAL_SUCCESS);
    }
    assert_int_equal(fake_ompi.shown, 0);
}

void process_progress(void)
{
    (void)mca_btl_rawe_component.super.btl_progress();
}

void process_serve(const struct unit_process *process)
{
    for (unsigned rail = 0; rail < rails; rail++) {
        (void)mca_btl_rawe_thread_service(process->modules[rail], false);
    }
}

/* ---- time ---- */

static void poll_all(void)
{
    for (unsigned i = 0; i < rails * PROCESSES * ENDS; i++) {
        end_poll(&wires[i / (PROCESSES * ENDS)].ends[i / ENDS % PROCESSES][i % ENDS]);
    }
}

void time_pass(uint64_t duration_ns)
{
    fake_ompi.now_ns += duration_ns;
    poll_all();
}

void rail_stall(unsigned rail, uint64_t duration_ns)
{
    wires[rail].stalled_until_ns = fake_ompi.now_ns + duration_ns;
    poll_all();
}

void rail_set_carrier(unsigned rail, bool carrier)
{
    wires[rail].cut = !carrier;
    rail_clear(rail);
    for (unsigned i = 0; i < PROCESSES; i++) {
        struct mca_btl_rawe_state *state =
            entered == &processes[i] ? &mca_btl_rawe_state : &processes[i].state;
        atomic_store(&processes[i].modules[rail]->carrier, carrier);
        atomic_store(&state->interfaces_changed, true);
    }
}
