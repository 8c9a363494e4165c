/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of groups over a link and a port that are the test's own: what is sent is noted, and what the
 * test says is received. The other member of the group is a group of core's.
 */
#include "btl_rawe_multicast.h"

#include <string.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "core/base/rawe_crc32c.h"
#include "fake_ompi.h"
#include "linux/packet/rawe_packet.h"

#define MEMBERS 3u
#define ID 77u
#define PAYLOAD_BYTES 200u
#define SEGMENT_BYTES 100u
#define FRAME_BYTES_MAX 300u
#define FRAMES_MAX 100u
#define MS 1000000ull

/** Frames in order. */
struct frames {
    unsigned count, taken;
    size_t len_bytes[FRAMES_MAX];
    uint8_t bytes[FRAMES_MAX][FRAME_BYTES_MAX];
};

static mca_btl_rawe_module_t net_module, second_module, lo_module;
static struct rawe_port link_port, group_port, bulk_port;
static struct frames sent, waiting;
static struct frames batches_sent,
    batches_waiting; /**< behind the Ethernet header: batch headers */
static uint32_t word, bulk_word;
static unsigned opened, closed_full;
static bool refuses_port, refuses_bulk, refuses_filter;
static bool gets[2][256];     /**< the last bytes of the ids whose frames, and batches, pass */
static unsigned placed;       /**< packets received in their place */
static unsigned batch_source; /**< member whose address batches come from */
static struct rawe_port_config opened_with, bulk_opened_with;
static opal_proc_t procs[MEMBERS];
static opal_proc_t *const proc_list[MEMBERS] = {&procs[0], &procs[1], &procs[2]};
static mca_btl_base_endpoint_t
    endpoints[MEMBERS + 1];    /**< of the other members; an unknown process's */
static struct frames controls; /**< control messages sent */
static bool sent_deferring;    /**< the last one, with completions deferred */
static const uint8_t macs[MEMBERS][6] = {
    {2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 3}};

static void note(struct frames *frames, const struct rawe_bytes *pieces, unsigned count)
{
    const unsigned at = frames->count++;

    assert_true(at < FRAMES_MAX);
    frames->len_bytes[at] = 0;
    for (unsigned i = 0; i < count; i++) {
        assert_true(frames->len_bytes[at] + pieces[i].len_bytes <= FRAME_BYTES_MAX);
        memcpy(frames->bytes[at] + frames->len_bytes[at], pieces[i].base, pieces[i].len_bytes);
        frames->len_bytes[at] += pieces[i].len_bytes;
    }
}

/* In place of a connection's. */
bool rawe_peer_send_control(struct rawe_peer *peer, uint64_t channel, const uint8_t *data,
                            size_t len_bytes)
{
    const struct rawe_bytes piece = {(void *)(uintptr_t)data, len_bytes};

    assert_true(peer == &endpoints[1].peer || peer == &endpoints[2].peer);
    assert_int_not_equal(channel, 0);
    sent_deferring = mca_btl_rawe_state.deferral.active;
    note(&controls, &piece, 1);
    return true;
}

/* A process that Open MPI has not introduced has none. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_in_order(const opal_proc_t *proc)
{
    mca_btl_base_endpoint_t *endpoint = &endpoints[proc - procs];

    return NULL == endpoint->proc ? NULL : endpoint;
}

static unsigned transmit(void *port, const struct rawe_frame *frames, unsigned count)
{
    unsigned taken = 0;

    assert_ptr_equal(port, &link_port);
    while (taken < count && closed_full == 0) {
        note(&sent, frames[taken].pieces, frames[taken].piece_count);
        taken++;
    }
    closed_full -= closed_full != 0;
    return taken;
}

static unsigned receive(struct rawe_port *port, unsigned budget,
                        const struct rawe_port_receiver *receiver, void *context)
{
    unsigned received = 0;

    for (; received < budget && waiting.taken != waiting.count; received++) {
        receiver->frame(context, waiting.bytes[waiting.taken], waiting.len_bytes[waiting.taken]);
        waiting.taken++;
    }
    word = waiting.taken != waiting.count;
    if (word == 0) {
        waiting.taken = waiting.count = 0;
    }
    return received;
}

static int renew_filter(struct rawe_port *port, struct rawe_port_error *error)
{
    const uint32_t *bits = (port == &bulk_port ? bulk_opened_with : opened_with).groups;

    for (unsigned i = 0; i < 256; i++) {
        gets[port == &bulk_port][i] = (bits[i / 32] & UINT32_C(1) << i % 32) != 0;
    }
    return refuses_filter ? rawe_port_failed(error, "setsockopt(SO_ATTACH_FILTER)", ENOMEM) : 0;
}

static bool transmit_batch(void *port, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    assert_ptr_equal(port, &bulk_port);
    assert_int_equal(packet->piece_count, 2);
    assert_int_equal(segment_bytes,
                     packet->pieces[1].len_bytes > SEGMENT_BYTES ? SEGMENT_BYTES : 0);
    note(&batches_sent, packet->pieces, packet->piece_count);
    return true;
}

/** One at a time. */
static unsigned receive_batch(struct rawe_port *port, unsigned budget,
                              const struct rawe_port_receiver *receiver, void *context)
{
    uint8_t head[RAWE_BATCH_HEADER_BYTES], data[FRAME_BYTES_MAX];
    const uint8_t *source = macs[batch_source];
    const uint8_t *packet = batches_waiting.bytes[batches_waiting.taken];
    const size_t data_bytes = batches_waiting.len_bytes[batches_waiting.taken++] - sizeof(head);

    assert_int_equal(budget, 1);
    memcpy(head, packet, sizeof(head));
    memcpy(data, packet + sizeof(head), data_bytes);
    bulk_word = batches_waiting.count != batches_waiting.taken;
    uint8_t *place = receiver->place(context, source, head, sizeof(head), data_bytes);
    placed += place != NULL;
    if (place != NULL) {
        memcpy(place, data, data_bytes);
    }
    receiver->packet(context, source, head, sizeof(head), place != NULL ? place : data, data_bytes);
    return 1;
}

static const struct rawe_port_kind link_kind = {.transmit = transmit};
static const struct rawe_port_kind group_kind = {.receive = receive, .renew_filter = renew_filter};
static const struct rawe_port_kind bulk_kind = {
    .receive = receive_batch, .renew_filter = renew_filter, .transmit_batch = transmit_batch};

static int open_port(struct rawe_port **port, const struct rawe_port_config *config,
                     struct rawe_port_error *error)
{
    if (config->use == RAWE_PORT_BULK) {
        bulk_opened_with = *config;
        *port = refuses_bulk ? NULL : &bulk_port;
        return refuses_bulk ? rawe_port_failed(error, "socket(AF_PACKET)", ENOMEM) : 0;
    }
    opened_with = *config;
    opened += !refuses_port;
    *port = refuses_port ? NULL : &group_port;
    return refuses_port ? rawe_port_failed(error, "socket(AF_PACKET)", EPERM) : 0;
}

/* In place of packet sockets. */
const struct rawe_port_kind rawe_packet_port = {.open = open_port};

static void use(mca_btl_rawe_module_t *module, bool loopback)
{
    memset(module, 0, sizeof(*module));
    module->interface.loopback = loopback;
    module->interface.index = 5;
    module->interface.mtu_bytes = 1500;
    module->link = &link_port;
    memcpy(module->engine.config.mac, macs[0], 6);
    module->engine.deferral = &mca_btl_rawe_state.deferral;
    atomic_init(&module->open, true);
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = module;
}

static void set_up(void)
{
    fake_ompi_begin();
    fake_ompi.now_ns = 1000 * MS;
    mca_btl_rawe_params.ethertype = 0x88B5;
    link_port = (struct rawe_port){.kind = &link_kind};
    group_port = (struct rawe_port){.kind = &group_kind, .word = &word, .mask = 1};
    bulk_port = (struct rawe_port){.kind = &bulk_kind,
                                   .word = &bulk_word,
                                   .mask = 1,
                                   .overhead_bytes = 20,
                                   .receive_frames = 500,
                                   .batch_bytes = 2 * SEGMENT_BYTES};
    controls.count = 0;
    batch_source = 1;
    for (unsigned i = 1; i < MEMBERS; i++) {
        endpoints[i] = (mca_btl_base_endpoint_t){.proc = &procs[i], .module = &net_module};
        memcpy(endpoints[i].address.mac, macs[i], 6);
    }
    sent.count = waiting.count = waiting.taken = opened = closed_full = 0;
    batches_sent.count = batches_waiting.count = batches_waiting.taken = placed = 0;
    word = bulk_word = 0;
    refuses_port = refuses_bulk = refuses_filter = false;
    mca_btl_rawe_params.progress_thread_ms = 1;
    mca_btl_rawe_params.coalesce_from = 0;
    use(&net_module, false);
    use(&lo_module, true);
}

static void tear_down(void)
{
    mca_btl_rawe_multicast_end(&net_module);
}

FIXTURE(set_up, tear_down);

/** Enter a group as member 0 of three, with what all can do. NULL: not possible. */
static struct mca_btl_rawe_multicast *open_with(uint64_t id, const struct mca_btl_rawe_place *all)
{
    return mca_btl_rawe_multicast_open(id, MEMBERS, 0, all, proc_list);
}

static struct mca_btl_rawe_multicast *enter(uint64_t id)
{
    assert_int_not_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
    const struct mca_btl_rawe_place all = {
        .payload_bytes = PAYLOAD_BYTES,
        .segment_bytes = NULL == net_module.group_bulk ? 0 : SEGMENT_BYTES,
        .batch_frames = 100,
    };
    struct mca_btl_rawe_multicast *group = open_with(id, &all);
    assert_non_null(group);
    return group;
}

/** The same, with batches. */
static struct mca_btl_rawe_multicast *enter_with_batches(void)
{
    net_module.engine.batches.output.transmit = transmit_batch;
    return enter(ID);
}

static struct rawe_group_header header_of(uint64_t id, uint16_t from)
{
    return (struct rawe_group_header){.sender = from, .id = id};
}

/** Two frames of a batch of a member wait in the bulk port, all of `text`. */
static void batch_comes(uint16_t from, uint32_t number, uint32_t total_bytes, const char *text)
{
    uint8_t packet[RAWE_BATCH_HEADER_BYTES + 2 * SEGMENT_BYTES];
    struct rawe_group_header header = header_of(ID, from);

    header.sequence = (uint32_t)ID + number;
    header.payload_bytes = 2 * SEGMENT_BYTES;
    header.total_bytes = total_bytes;
    header.segment_bytes = SEGMENT_BYTES;
    rawe_group_batch_encode(packet, &header);
    memset(packet + RAWE_BATCH_HEADER_BYTES, *text, 2 * SEGMENT_BYTES);
    note(&batches_waiting, &(struct rawe_bytes){packet, sizeof packet}, 1);
    bulk_word = 1;
}

/** A frame of a group waits in the port, with 8 bytes of `text`, from the member of this address. */
static void frame_comes(const struct rawe_group_header *header, const char *text, unsigned source)
{
    uint8_t frame[RAWE_ETH_HEADER_BYTES + RAWE_GROUP_HEADER_BYTES + 8 + RAWE_CHECKSUM_BYTES] = {0};
    uint8_t *head = frame + RAWE_ETH_HEADER_BYTES;
    const size_t covered_bytes = RAWE_GROUP_HEADER_BYTES + 8;

    memcpy(frame + RAWE_MAC_BYTES, macs[source], 6);
    rawe_group_header_encode(head, header);
    memcpy(head + RAWE_GROUP_HEADER_BYTES, text, 8);
    rawe_checksum_encode(head + covered_bytes, rawe_crc32c(0, head, covered_bytes));
    note(&waiting, &(struct rawe_bytes){frame, sizeof frame}, 1);
    word = 1;
}

/** DATA of a member waits in the port: 8 bytes of a message of that many, `text`. */
static void data_comes(uint64_t id, uint16_t from, uint32_t number, const char *text,
                       uint32_t total_bytes)
{
    struct rawe_group_header header = header_of(id, from);

    header.sequence = (uint32_t)id + number;
    header.payload_bytes = 8;
    header.total_bytes = total_bytes;
    frame_comes(&header, text, from);
}

/** A control message of a member comes; the engine may defer. */
static void control_comes(uint64_t id, unsigned from, const struct rawe_group_control *control,
                          const char *data, bool deferring)
{
    struct rawe_deferral deferral = {.active = deferring};
    struct rawe_engine engine = {.now_ns = fake_ompi.now_ns, .deferral = &deferral};
    struct rawe_conn conn = {.engine = &engine, .owner = &endpoints[from]};
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];

    rawe_group_control_encode(bytes, control);
    memcpy(bytes + RAWE_GROUP_CONTROL_HEADER_BYTES, data, control->data_bytes);
    mca_btl_rawe_multicast_control(NULL, &conn, id, bytes,
                                   RAWE_GROUP_CONTROL_HEADER_BYTES + control->data_bytes);
}

/** An acknowledgement of what we have sent comes. */
static void ack_comes(uint64_t id, unsigned from, uint32_t next)
{
    const struct rawe_group_control control = {.type = RAWE_GROUP_ACK,
                                               .sequence = (uint32_t)id + next};

    control_comes(id, from, &control, "", false);
}

/** The types of the control messages sent since the last call. */
static unsigned controls_sent(uint8_t type)
{
    unsigned count = 0;

    for (unsigned i = 0; i < controls.count; i++) {
        count += controls.bytes[i][0] == type;
    }
    controls.count = 0;
    return count;
}

static bool progress(void)
{
    return 0 != mca_btl_rawe_multicast_progress(&net_module, true, false);
}

/** Time passes, and MPI makes progress. */
static void later(unsigned ms)
{
    fake_ompi.now_ns += ms * MS;
    (void)progress();
}

static int state_of(const struct mca_btl_rawe_transfer *message)
{
    return atomic_load(&message->state);
}

TEST(mca_btl_rawe_multicast_possible__with_one_interface_without_threads)
{
    assert_true(mca_btl_rawe_multicast_possible(false));
    assert_false(mca_btl_rawe_multicast_possible(true));
    fake_ompi.fault_tolerant = true;
    assert_false(mca_btl_rawe_multicast_possible(false));
    fake_ompi.fault_tolerant = false;
    use(&second_module, false);
    assert_false(mca_btl_rawe_multicast_possible(false));
    mca_btl_rawe_state.module_count = 0;
    use(&lo_module, true);
    assert_false(mca_btl_rawe_multicast_possible(false));
}

TEST(mca_btl_rawe_multicast_place__opens_one_port_for_all_groups)
{
    const struct mca_btl_rawe_place place = mca_btl_rawe_multicast_place();

    assert_int_equal(place.payload_bytes, 1500 - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES);
    (void)mca_btl_rawe_multicast_place();
    assert_int_equal(opened, 1);
    assert_int_equal(opened_with.use, RAWE_PORT_GROUP);
    assert_true((opened_with.group[0] & 3) == 3); /* a group, administered locally */
    net_module.interface.mtu_bytes = 65535;
    assert_int_equal(mca_btl_rawe_multicast_place().payload_bytes, RAWE_GROUP_PAYLOAD_MAX);
}

TEST(mca_btl_rawe_multicast_place__says_that_there_is_none)
{
    refuses_port = true;
    assert_int_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
    assert_null(net_module.group_port);
    refuses_port = false;
    assert_int_not_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
    atomic_store(&net_module.open, false);
    assert_int_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
}

TEST(mca_btl_rawe_multicast_place__with_batches)
{
    static const struct {
        bool wanted, refused;
        uint32_t segment_bytes;
    } cases[] = {{true, false, 1420}, {false, false, 0}, {true, true, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tear_down();
        set_up();
        net_module.group_bulk = NULL;
        net_module.engine.batches.output.transmit = cases[i].wanted ? transmit_batch : NULL;
        refuses_bulk = cases[i].refused;
        const struct mca_btl_rawe_place place = mca_btl_rawe_multicast_place();
        assert_int_not_equal(place.payload_bytes, 0);
        assert_int_equal(place.segment_bytes, cases[i].segment_bytes);
        assert_int_equal(place.batch_frames, cases[i].segment_bytes != 0 ? 500 : 0);
    }
    assert_ptr_equal(bulk_opened_with.groups, opened_with.groups);
    assert_memory_equal(bulk_opened_with.group, "\x01\x00\x5E\x00\x00\xFE", 6);
}

/** The ports get what is for groups that are open, or were closed just now. */
TEST(mca_btl_rawe_multicast_open__has_the_ports_get_its_frames)
{
    struct mca_btl_rawe_multicast *group = enter_with_batches();
    struct mca_btl_rawe_multicast *other = enter(0xABCD00FF);
    const struct mca_btl_rawe_place all = {.payload_bytes = PAYLOAD_BYTES};
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    for (unsigned i = 0; i < 256; i++) {
        assert_int_equal(gets[0][i], i == ID || i == 0xFF);
        assert_int_equal(gets[1][i], i == ID || i == 0xFF);
    }
    mca_btl_rawe_multicast_close(other, false);
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, true);
    later(5000);
    assert_true(gets[0][ID] && gets[1][ID] && !gets[0][0xFF] && !gets[1][0xFF]);
    ack_comes(ID, 1, 1);
    ack_comes(ID, 2, 1);
    later(1);
    assert_false(gets[0][ID] || gets[1][ID]);
    refuses_filter = true;
    assert_null(open_with(ID, &all));
    refuses_filter = false;
    endpoints[2].lost = true;
    assert_null(open_with(ID, &all));
    endpoints[2] = (mca_btl_base_endpoint_t){.proc = NULL, .module = &net_module};
    assert_null(open_with(ID, &all));
    endpoints[2].proc = &procs[2];
    endpoints[2].module = &lo_module;
    assert_null(open_with(ID, &all));
    endpoints[2].module = &net_module;
    (void)enter(ID + 1);
    assert_false(gets[0][ID]);
}

TEST(mca_btl_rawe_multicast_send__to_the_group_in_a_frame_or_in_batches)
{
    struct mca_btl_rawe_multicast *group = enter_with_batches();
    char data[2 * SEGMENT_BYTES + 50];
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_int_equal(sent.count, 1);
    assert_memory_equal(sent.bytes[0], opened_with.group, 6);
    assert_memory_equal(sent.bytes[0] + 6, net_module.engine.config.mac, 6);
    assert_memory_equal(sent.bytes[0] + RAWE_ETH_HEADER_BYTES + RAWE_GROUP_HEADER_BYTES, "8 bytes",
                        8);
    assert_true(mca_btl_rawe_multicast_busy(&net_module));
    memset(data, 'x', sizeof(data));
    message =
        (struct mca_btl_rawe_transfer){.data = data, .len_bytes = sizeof(data), .batches = true};
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_int_equal(sent.count, 1);
    assert_int_equal(batches_sent.count, 2);
    assert_memory_equal(batches_sent.bytes[0], bulk_opened_with.group, 6);
    assert_memory_equal(batches_sent.bytes[0] + 6, net_module.engine.config.mac, 6);
    assert_int_equal(batches_sent.len_bytes[0] + batches_sent.len_bytes[1],
                     sizeof(data) + 2 * (RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES));
}

/** Of messages sent one after the other those behind the eighth wait; the next progress sends them. */
TEST(mca_btl_rawe_multicast_send__holds_back_one_of_many)
{
    static const struct {
        bool thread;       /* sends what is held back when the program computes */
        uint64_t pause_ns; /* before each message */
        bool progress;     /* before each message */
        bool deferring;    /* the thread's progress */
        bool by_turns;     /* to another group each time */
        unsigned at_once, after_progress;
    } cases[] = {
        {true, 0, false, false, false, 8, 9},    {true, 0, false, true, false, 8, 9},
        {true, 1000, false, false, false, 8, 9}, {true, 100000, false, false, false, 10, 10},
        {true, 0, true, false, false, 10, 10},   {true, 0, false, false, true, 10, 10},
        {false, 0, false, false, false, 10, 10},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tear_down();
        set_up();
        mca_btl_rawe_params.progress_thread_ms = cases[i].thread;
        mca_btl_rawe_params.coalesce_from = 4;
        struct mca_btl_rawe_multicast *group = enter(ID);
        struct mca_btl_rawe_multicast *other = cases[i].by_turns ? enter(ID + 1) : group;
        for (unsigned k = 0; k < 10; k++) {
            struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};
            fake_ompi.now_ns += cases[i].pause_ns;
            if (cases[i].progress) {
                (void)mca_btl_rawe_multicast_progress(&net_module, false, false);
            }
            assert_true(mca_btl_rawe_multicast_send(k % 2 == 0 ? group : other, &message));
            assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
        }
        assert_int_equal(sent.count, cases[i].at_once);
        const bool held = cases[i].at_once != cases[i].after_progress;
        assert_int_equal(mca_btl_rawe_multicast_holding(), held);
        (void)mca_btl_rawe_multicast_progress(&net_module, false, cases[i].deferring);
        assert_int_equal(sent.count, cases[i].after_progress);
        assert_false(mca_btl_rawe_multicast_holding());
    }
}

/** Frames of messages that are sent before one waits for acknowledgements: `waits`. */
static unsigned sent_at_once(struct mca_btl_rawe_multicast *group,
                             struct mca_btl_rawe_transfer *waits)
{
    unsigned taken = 0;

    *waits = (struct mca_btl_rawe_transfer){.data = "8 bytes", .len_bytes = 8};
    while (assert_true(mca_btl_rawe_multicast_send(group, waits)),
           state_of(waits) == MCA_BTL_RAWE_TRANSFER_DONE) {
        taken++;
        sent.count = 0;
    }
    return taken;
}

TEST(mca_btl_rawe_multicast_open__has_a_window_for_batches_that_all_ports_hold)
{
    static const struct {
        struct mca_btl_rawe_place all;
        unsigned frames;
    } cases[] = {
        {{.payload_bytes = 1400}, 64},
        {{.payload_bytes = 1400, .segment_bytes = 1300, .batch_frames = 500}, 256}, /* 512 KiB */
        {{.payload_bytes = 1400, .segment_bytes = 1300, .batch_frames = 256}, 256},
        {{.payload_bytes = 1400, .segment_bytes = 1300, .batch_frames = 255}, 128},
        {{.payload_bytes = 1400, .segment_bytes = 1300, .batch_frames = 10}, 64},
        {{.payload_bytes = 8900, .segment_bytes = 8800, .batch_frames = 5000}, 64},
        {{.payload_bytes = 200, .segment_bytes = 100, .batch_frames = 5000},
         RAWE_WINDOW_FRAMES_MAX},
    };

    mca_btl_rawe_multicast_close(enter_with_batches(), false); /* opens the ports */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mca_btl_rawe_multicast *group = open_with(ID, &cases[i].all);
        struct mca_btl_rawe_transfer waits;
        assert_int_equal(sent_at_once(group, &waits), cases[i].frames);
        mca_btl_rawe_multicast_close(group, false);
    }
}

TEST(mca_btl_rawe_multicast_send__waits_for_a_window_that_is_full)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    struct mca_btl_rawe_transfer message;

    assert_in_range(sent_at_once(group, &message), 16, 199);
    ack_comes(ID, 1, 16);
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    ack_comes(ID, 2, 16);
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_false(message.last);
}

/** Those that a call waits for, and the member next to a receiver, are sent something each second. */
TEST(mca_btl_rawe_multicast_progress__asks_those_that_a_call_waits_for)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    struct mca_btl_rawe_transfer message = {.data = NULL, .len_bytes = 0};

    mca_btl_rawe_multicast_expect(group, 2, &message);
    later(1);
    later(900);
    assert_int_equal(controls.count, 0);
    later(200);
    assert_int_equal(controls_sent(RAWE_GROUP_WAIT), 2);
    later(900);
    assert_int_equal(controls.count, 0);
    later(200);
    assert_int_equal(controls_sent(RAWE_GROUP_WAIT), 2);
    control_comes(ID, 2,
                  &(struct rawe_group_control){
                      .type = RAWE_GROUP_REPAIR, .root = 2, .sequence = (uint32_t)ID},
                  "", false);
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    later(2000);
    assert_int_equal(controls_sent(RAWE_GROUP_WAIT), 0);
    assert_in_range(sent_at_once(group, &message), 16, 199);
    ack_comes(ID, 1, 1);
    later(1);
    controls.count = 0;
    later(1100);
    assert_int_equal(controls_sent(RAWE_GROUP_STATUS), 2); /* down the tree */
}

/** A control message may have messages sent that wait, and completed: no callback of MPI's in here. */
TEST(mca_btl_rawe_multicast_progress__defers_completions)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    sent_deferring = false;
    later(2000);
    assert_int_not_equal(controls_sent(RAWE_GROUP_STATUS), 0);
    assert_true(sent_deferring);
    assert_false(mca_btl_rawe_state.deferral.active);
}

/** One that has no port for groups, as lo's, is asked as well when the process finalizes. */
TEST(mca_btl_rawe_multicast_progress__of_a_module_without_groups)
{
    (void)enter(ID);
    assert_null(lo_module.group_port);
    assert_int_equal(mca_btl_rawe_multicast_progress(&lo_module, true, true), 0);
}

/** Where multicast does not pass, all comes by repairs; the one who sends says that it is the last. */
TEST(mca_btl_rawe_multicast_send__tells_that_a_member_hears_nothing)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    for (uint32_t i = 0; i < 20; i++) {
        assert_true(mca_btl_rawe_multicast_send(group, &message));
        assert_false(message.last);
        control_comes(ID, 2,
                      &(struct rawe_group_control){
                          .type = RAWE_GROUP_NACK, .sequence = (uint32_t)ID + i, .data_bytes = 1},
                      "\1", false);
        assert_int_equal(controls_sent(RAWE_GROUP_REPAIR), 1);
        ack_comes(ID, 1, i + 1);
        ack_comes(ID, 2, i + 1);
        fake_ompi.now_ns += (i == 19 ? 990 : 10) * MS;
    }
    control_comes(ID, 2,
                  &(struct rawe_group_control){
                      .type = RAWE_GROUP_NACK, .sequence = (uint32_t)ID + 19, .data_bytes = 1},
                  "\0", false);
    assert_int_equal(fake_ompi_shown("multicast_lost"), 0);
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_true(message.last);
    assert_int_equal(fake_ompi_shown("multicast_lost"), 1);
}

/** What another host sends in a member's place is dropped, and does not take its place. */
TEST(mca_btl_rawe_multicast_progress__believes_the_members_addresses_alone)
{
    struct mca_btl_rawe_multicast *group = enter_with_batches();
    char data[2 * SEGMENT_BYTES] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};
    struct rawe_group_header header = header_of(ID, 1);

    header.sequence = (uint32_t)ID;
    header.payload_bytes = 8;
    header.total_bytes = sizeof(data);
    mca_btl_rawe_multicast_expect(group, 1, &message);
    frame_comes(&header, "forged!", 2);
    batch_source = 2;
    batch_comes(1, 0, sizeof(data), "f");
    assert_true(progress());
    assert_int_equal(placed, 0);
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).dropped_source, 2);
    header.sender = MEMBERS;
    frame_comes(&header, "forged!", 2);
    assert_true(progress());
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).dropped_member, 1);
    assert_string_equal(data, "nothing");
    batch_source = 1;
    batch_comes(1, 0, sizeof(data), "a");
    assert_true(progress());
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_int_equal(data[0], 'a');
}

/** Control messages are for an open group, and from a member. */
TEST(mca_btl_rawe_multicast_control__of_members_alone)
{
    const struct rawe_group_control wait = {.type = RAWE_GROUP_WAIT};
    opal_proc_t unknown;
    struct mca_btl_rawe_multicast *group;

    control_comes(ID, 1, &wait, "", false); /* no port is open */
    group = enter(ID);
    control_comes(ID + 1, 1, &wait, "", false);
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).dropped_member, 0);
    endpoints[MEMBERS].proc = &unknown;
    control_comes(ID, MEMBERS, &wait, "", false);
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).dropped_member, 1);
    mca_btl_rawe_multicast_close(group, false);
}

/** While the engine defers, nothing is written into the program's memory. */
TEST(mca_btl_rawe_multicast_control__while_the_engine_defers)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    char data[8] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 2, &message);
    control_comes(ID, 2,
                  &(struct rawe_group_control){.type = RAWE_GROUP_REPAIR,
                                               .root = 2,
                                               .sequence = (uint32_t)ID,
                                               .total_bytes = 8,
                                               .payload_bytes = 8,
                                               .data_bytes = 8},
                  "8 bytes", true);
    assert_string_equal(data, "nothing");
    later(1);
    assert_string_equal(data, "8 bytes");
    assert_false(message.heard);
}

/** Whatever comes first. */
TEST(mca_btl_rawe_multicast_expect__takes_the_next_of_that_root)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    char data[8] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    data_comes(ID, 2, 0, "second!", 8);
    data_comes(ID, 1, 0, "first!!", 8);
    data_comes(ID, 1, 1, "third!!", 8);
    assert_true(progress());
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "first!!");
    mca_btl_rawe_multicast_expect(group, 2, &message);
    assert_string_equal(data, "second!");
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_string_equal(data, "third!!");
    mca_btl_rawe_multicast_expect(group, 2, &message);
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    data_comes(ID, 2, 1, "fourth!", 8);
    assert_true(progress());
    assert_string_equal(data, "fourth!");
    assert_true(message.heard);
}

/** What does not fit a frame comes in several, also if a batch was lost. */
TEST(mca_btl_rawe_multicast_expect__takes_messages_of_several_frames)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    char data[16];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 16};
    struct mca_btl_rawe_transfer shorter = {.data = data, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 1, &message);
    data_comes(ID, 1, 0, "part 1, ", 16);
    assert_true(progress());
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    data_comes(ID, 1, 1, "part 2.", 16);
    data_comes(ID, 1, 2, "wrong!!", 16);
    data_comes(ID, 1, 3, "wrong!!", 16);
    data_comes(ID, 1, 4, "right!!", 8);
    assert_true(progress());
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "part 1, part 2.");
    assert_false(message.batches);
    mca_btl_rawe_multicast_expect(group, 1, &shorter);
    assert_int_equal(state_of(&shorter), MCA_BTL_RAWE_TRANSFER_LENGTH);
    assert_string_equal(data, "part 1, part 2.");
    mca_btl_rawe_multicast_expect(group, 1, &shorter);
    assert_int_equal(state_of(&shorter), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "right!!");
}

/** Batches stay in the port until a call waits for them, and are then received into its buffer. */
TEST(mca_btl_rawe_multicast_progress__batches_go_where_they_belong)
{
    struct mca_btl_rawe_multicast *group = enter_with_batches();
    char data[4 * SEGMENT_BYTES];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};

    batch_comes(1, 0, sizeof(data), "a");
    batch_comes(1, 2, sizeof(data), "b");
    batch_comes(1, 4, sizeof(data), "c");
    assert_false(progress());
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_int_equal(mca_btl_rawe_multicast_progress(&net_module, true, true), 0);
    assert_int_equal(batches_waiting.taken, 0);
    assert_true(progress());
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_true(message.batches);
    assert_int_equal(data[0], 'a');
    assert_int_equal(data[sizeof(data) - 1], 'b');
    assert_int_equal(placed, 1); /* the first frames of a root have no stream yet */
    assert_int_equal(batches_waiting.taken, 2);
}

/** A frame tells of others that are in the bulk port: they are not asked for. */
TEST(mca_btl_rawe_multicast_progress__asks_for_nothing_that_is_in_the_port)
{
    struct mca_btl_rawe_multicast *group = enter_with_batches();
    char data[4 * SEGMENT_BYTES];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};

    batch_comes(1, 0, sizeof(data), "a");
    data_comes(ID, 1, 4, "8 bytes", 8); /* shows that there are four before it */
    for (unsigned i = 0; i < 100; i++) {
        later(1);
    }
    assert_int_equal(controls.count, 0);
    mca_btl_rawe_multicast_expect(group, 1, &message);
    later(1);
    assert_int_equal(batches_waiting.taken, 1);
    assert_int_equal(controls_sent(RAWE_GROUP_NACK), 1); /* for the other two */
}

/** The progress thread writes nothing into the program's memory; the next progress of MPI's does. */
TEST(mca_btl_rawe_multicast_progress__defers_for_the_progress_thread)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    char data[8] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 1, &message);
    data_comes(ID, 1, 0, "8 bytes", 8);
    assert_int_equal(mca_btl_rawe_multicast_progress(&net_module, true, true), 1);
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    assert_string_equal(data, "nothing");
    assert_true(mca_btl_rawe_multicast_busy(&net_module));
    (void)progress();
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "8 bytes");
}

TEST(mca_btl_rawe_multicast_progress__drops_what_belongs_to_no_group)
{
    struct mca_btl_rawe_multicast *group = enter_with_batches();
    struct mca_btl_rawe_transfer message = {.data = NULL, .len_bytes = 0};
    struct rawe_group_counters counters;

    mca_btl_rawe_multicast_expect(group, 1, &message);
    batch_comes(1, 0, 2 * SEGMENT_BYTES, "a");
    batches_waiting.bytes[0][32] ^= 1; /* the id */
    data_comes(ID + 1, 1, 0, "8 bytes", 8);
    waiting.len_bytes[waiting.count] = 5;
    waiting.count++;
    assert_true(progress());
    counters = mca_btl_rawe_multicast_counters(&net_module);
    assert_int_equal(counters.dropped_group, 2);
    assert_int_equal(counters.dropped_decode, 1);
    assert_int_equal(counters.messages_delivered, 0);
}

TEST(mca_btl_rawe_multicast_progress__sends_again_what_the_link_had_no_room_for)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    closed_full = 1;
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_int_equal(sent.count, 0);
    (void)progress();
    assert_int_equal(sent.count, 1);
}

/** It is there as long as a member lacks something. */
TEST(mca_btl_rawe_multicast_close__lasts_until_all_have_everything)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, false); /* the communicator was not made */
    assert_false(mca_btl_rawe_multicast_busy(&net_module));
    assert_true(mca_btl_rawe_multicast_done());
    group = enter(ID);
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, true);
    later(5000);
    assert_true(mca_btl_rawe_multicast_busy(&net_module));
    ack_comes(ID, 1, 1);
    assert_false(mca_btl_rawe_multicast_done());
    ack_comes(ID, 2, 1);
    assert_true(mca_btl_rawe_multicast_done());
    (void)progress();
    assert_false(mca_btl_rawe_multicast_busy(&net_module));
    ack_comes(ID, 2, 1); /* of no group */
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).messages_sent, 2); /* stays */
}

/** The program was away, and more has come than is read at a time. */
TEST(mca_btl_rawe_multicast_close__lasts_until_all_that_waits_is_read)
{
    mca_btl_rawe_multicast_close(enter(ID), true);
    (void)enter(ID + 1);
    for (unsigned i = 0; i < 80; i++) {
        data_comes(ID + 1, 1, i, "8 bytes", 8);
    }
    data_comes(ID, 1, 0, "8 bytes", 8);
    later(5000);
    assert_int_equal(waiting.count - waiting.taken, 17);
    (void)progress();
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).dropped_group, 0);
}

/** Its root waits for it else, and neither group would ever go. */
TEST(mca_btl_rawe_multicast_close__takes_the_rest_of_a_message_of_another_length)
{
    struct mca_btl_rawe_multicast *group = enter(ID);
    char buffer[8] = {0};
    struct mca_btl_rawe_transfer message = {.data = buffer, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 1, &message);
    data_comes(ID, 1, 0, "a part ", 16);
    data_comes(ID, 1, 1, "a part ", 16);
    (void)progress();
    assert_int_equal(state_of(&message), MCA_BTL_RAWE_TRANSFER_LENGTH);
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).messages_delivered, 0);
    mca_btl_rawe_multicast_close(group, true);
    assert_int_equal(mca_btl_rawe_multicast_counters(&net_module).messages_delivered, 1);
}
