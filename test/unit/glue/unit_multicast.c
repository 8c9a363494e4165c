/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit_multicast.h"

#include <string.h>

#include "core/base/rawe_crc32c.h"
#include "linux/packet/rawe_packet.h"

struct fake fake;

static opal_proc_t *const proc_list[MEMBERS] = {&fake.procs[0], &fake.procs[1], &fake.procs[2]};
static const uint8_t macs[MEMBERS][6] = {
    {2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 3}};

static void note_frame(struct frames *frames, const struct rawe_bytes *pieces, unsigned count)
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

/* Record control messages instead of sending them. */
bool rawe_peer_send_control(struct rawe_peer *peer, uint64_t channel, const uint8_t *data,
                            size_t len_bytes)
{
    const struct rawe_bytes piece = {(void *)(uintptr_t)data, len_bytes};

    assert_true(peer == &fake.endpoints[1].peer || peer == &fake.endpoints[2].peer);
    assert_int_not_equal(channel, 0);
    fake.sent_deferring = mca_btl_rawe_state.deferral.active;
    if (!fake.refuses_control) {
        note_frame(&fake.controls, &piece, 1);
    }
    return !fake.refuses_control;
}

/* Return NULL for a process that Open MPI has not introduced. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_in_order(const opal_proc_t *proc)
{
    mca_btl_base_endpoint_t *endpoint = &fake.endpoints[proc - fake.procs];

    return NULL == endpoint->proc ? NULL : endpoint;
}

static unsigned transmit(void *port, const struct rawe_frame *frames, unsigned count)
{
    unsigned taken = 0;

    assert_ptr_equal(port, &fake.link_port);
    while (taken < count && fake.closed_full == 0) {
        note_frame(&fake.sent, frames[taken].pieces, frames[taken].piece_count);
        taken++;
    }
    fake.closed_full -= fake.closed_full != 0;
    return taken;
}

static unsigned receive(struct rawe_port *port, unsigned budget,
                        const struct rawe_port_receiver *receiver, void *context)
{
    unsigned received = 0;

    for (; received < budget && fake.waiting.taken != fake.waiting.count; received++) {
        receiver->frame(context, fake.waiting.bytes[fake.waiting.taken],
                        fake.waiting.len_bytes[fake.waiting.taken]);
        fake.waiting.taken++;
    }
    fake.word = fake.waiting.taken != fake.waiting.count;
    if (fake.word == 0) {
        fake.waiting.taken = fake.waiting.count = 0;
    }
    return received;
}

static int renew_filter(struct rawe_port *port, struct rawe_port_error *error)
{
    const uint32_t *bits =
        (port == &fake.bulk_port ? fake.bulk_opened_with : fake.opened_with).groups;

    for (unsigned i = 0; i < 256; i++) {
        fake.gets[port == &fake.bulk_port][i] = (bits[i / 32] & UINT32_C(1) << i % 32) != 0;
    }
    return fake.refuses_filter ? rawe_port_failed(error, "setsockopt(SO_ATTACH_FILTER)", ENOMEM)
                               : 0;
}

static bool transmit_batch(void *port, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    assert_ptr_equal(port, &fake.bulk_port);
    assert_int_equal(packet->piece_count, 2);
    assert_int_equal(segment_bytes,
                     packet->pieces[1].len_bytes > SEGMENT_BYTES ? SEGMENT_BYTES : 0);
    note_frame(&fake.batches_sent, packet->pieces, packet->piece_count);
    return true;
}

/** Receive one batch per call. */
static unsigned receive_batch(struct rawe_port *port, unsigned budget,
                              const struct rawe_port_receiver *receiver, void *context)
{
    uint8_t head[RAWE_BATCH_HEADER_BYTES], data[FRAME_BYTES_MAX];
    const uint8_t *source = macs[fake.batch_source];
    const uint8_t *packet = fake.batches_waiting.bytes[fake.batches_waiting.taken];
    const size_t data_bytes =
        fake.batches_waiting.len_bytes[fake.batches_waiting.taken++] - sizeof(head);

    assert_int_equal(budget, 1);
    memcpy(head, packet, sizeof(head));
    memcpy(data, packet + sizeof(head), data_bytes);
    fake.bulk_word = fake.batches_waiting.count != fake.batches_waiting.taken;
    uint8_t *place = receiver->place(context, source, head, sizeof(head), data_bytes);
    fake.placed += place != NULL;
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
        fake.bulk_opened_with = *config;
        *port = fake.refuses_bulk ? NULL : &fake.bulk_port;
        return fake.refuses_bulk ? rawe_port_failed(error, "socket(AF_PACKET)", ENOMEM) : 0;
    }
    fake.opened_with = *config;
    fake.opened += !fake.refuses_port;
    *port = fake.refuses_port ? NULL : &fake.group_port;
    return fake.refuses_port ? rawe_port_failed(error, "socket(AF_PACKET)", EPERM) : 0;
}

/* Replaces packet sockets by fake ports. */
const struct rawe_port_kind rawe_packet_port = {.open = open_port};

void unit_use_module(mca_btl_rawe_module_t *module, bool loopback)
{
    module->interface.loopback = loopback;
    module->interface.index = 5;
    module->interface.mtu_bytes = 1500;
    module->link = &fake.link_port;
    memcpy(module->engine.config.mac, macs[0], 6);
    module->engine.deferral = &mca_btl_rawe_state.deferral;
    atomic_init(&module->open, true);
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = module;
}

void unit_multicast_set_up(void)
{
    fake_ompi_begin();
    fake_ompi.now_ns = 1000 * MS;
    mca_btl_rawe_params.ethertype = 0x88B5;
    fake = (struct fake){.batch_source = 1, .link_port = {.kind = &link_kind}};
    fake.group_port = (struct rawe_port){.kind = &group_kind, .word = &fake.word, .mask = 1};
    fake.bulk_port = (struct rawe_port){.kind = &bulk_kind,
                                        .word = &fake.bulk_word,
                                        .mask = 1,
                                        .overhead_bytes = 20,
                                        .receive_frames = 500,
                                        .batch_bytes = 2 * SEGMENT_BYTES};
    for (unsigned i = 1; i < MEMBERS; i++) {
        fake.endpoints[i] =
            (mca_btl_base_endpoint_t){.proc = &fake.procs[i], .module = &fake.net_module};
        memcpy(fake.endpoints[i].address.mac, macs[i], 6);
    }
    mca_btl_rawe_params.progress_thread_ms = 1;
    mca_btl_rawe_params.coalesce_from = 0;
    unit_use_module(&fake.net_module, false);
    unit_use_module(&fake.lo_module, true);
}

void unit_multicast_tear_down(void)
{
    mca_btl_rawe_multicast_end(&fake.net_module);
}

struct mca_btl_rawe_multicast *unit_group_open(uint64_t id, const struct mca_btl_rawe_place *all)
{
    return mca_btl_rawe_multicast_open(id, MEMBERS, 0, all, proc_list);
}

struct mca_btl_rawe_multicast *unit_group_enter(uint64_t id)
{
    assert_int_not_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
    const struct mca_btl_rawe_place all = {
        .payload_bytes = PAYLOAD_BYTES,
        .segment_bytes = NULL == fake.net_module.group_bulk ? 0 : SEGMENT_BYTES,
        .batch_frames = 100,
    };
    struct mca_btl_rawe_multicast *group = unit_group_open(id, &all);
    assert_non_null(group);
    return group;
}

void unit_allow_batches(bool allow)
{
    fake.net_module.engine.batches.output.transmit = allow ? transmit_batch : NULL;
}

struct mca_btl_rawe_multicast *unit_group_enter_with_batches(void)
{
    unit_allow_batches(true);
    return unit_group_enter(ID);
}

struct rawe_group_header unit_group_header(uint64_t id, uint16_t from)
{
    return (struct rawe_group_header){.sender = from, .id = id};
}

void unit_wait_batch(uint16_t from, uint32_t number, uint32_t total_bytes, const char *text)
{
    uint8_t packet[RAWE_BATCH_HEADER_BYTES + 2 * SEGMENT_BYTES];
    struct rawe_group_header header = unit_group_header(ID, from);

    header.sequence = (uint32_t)ID + number;
    header.payload_bytes = 2 * SEGMENT_BYTES;
    header.total_bytes = total_bytes;
    header.segment_bytes = SEGMENT_BYTES;
    rawe_group_batch_encode(packet, &header);
    memset(packet + RAWE_BATCH_HEADER_BYTES, *text, 2 * SEGMENT_BYTES);
    note_frame(&fake.batches_waiting, &(struct rawe_bytes){packet, sizeof packet}, 1);
    fake.bulk_word = 1;
}

void unit_wait_frame(const struct rawe_group_header *header, const char *text, unsigned source)
{
    uint8_t frame[RAWE_ETH_HEADER_BYTES + RAWE_GROUP_HEADER_BYTES + 8 + RAWE_CHECKSUM_BYTES] = {0};
    uint8_t *head = frame + RAWE_ETH_HEADER_BYTES;
    const size_t covered_bytes = RAWE_GROUP_HEADER_BYTES + 8;

    memcpy(frame + RAWE_MAC_BYTES, macs[source], 6);
    rawe_group_header_encode(head, header);
    memcpy(head + RAWE_GROUP_HEADER_BYTES, text, 8);
    rawe_checksum_encode(head + covered_bytes, rawe_crc32c(0, head, covered_bytes));
    note_frame(&fake.waiting, &(struct rawe_bytes){frame, sizeof frame}, 1);
    fake.word = 1;
}

void unit_wait_data(uint64_t id, uint16_t from, uint32_t number, const char *text,
                    uint32_t total_bytes)
{
    struct rawe_group_header header = unit_group_header(id, from);

    header.sequence = (uint32_t)id + number;
    header.payload_bytes = 8;
    header.total_bytes = total_bytes;
    unit_wait_frame(&header, text, from);
}

void unit_receive_control(uint64_t id, unsigned from, const struct rawe_group_control *control,
                          const char *data, bool deferring)
{
    struct rawe_deferral *deferral = &mca_btl_rawe_state.deferral;
    struct rawe_engine engine = {.now_ns = fake_ompi.now_ns, .deferral = deferral};
    struct rawe_conn conn = {.engine = &engine, .owner = &fake.endpoints[from]};
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];

    rawe_group_control_encode(bytes, control);
    memcpy(bytes + RAWE_GROUP_CONTROL_HEADER_BYTES, data, control->data_bytes);
    deferral->active = deferring;
    mca_btl_rawe_multicast_control(NULL, &conn, id, bytes,
                                   RAWE_GROUP_CONTROL_HEADER_BYTES + control->data_bytes);
    assert_int_equal(deferral->active, deferring);
    deferral->active = false;
}

void unit_receive_ack(uint64_t id, unsigned from, uint32_t next)
{
    const struct rawe_group_control control = {.type = RAWE_GROUP_ACK,
                                               .sequence = (uint32_t)id + next};

    unit_receive_control(id, from, &control, "", false);
}

unsigned unit_count_controls(uint8_t type)
{
    unsigned count = 0;

    for (unsigned i = 0; i < fake.controls.count; i++) {
        count += fake.controls.bytes[i][0] == type;
    }
    fake.controls.count = 0;
    return count;
}

bool unit_progress(void)
{
    return 0 != mca_btl_rawe_multicast_progress(&fake.net_module, true, false);
}

void unit_progress_after(unsigned ms)
{
    fake_ompi.now_ns += ms * MS;
    (void)unit_progress();
}

int unit_transfer_state(const struct mca_btl_rawe_transfer *message)
{
    return atomic_load(&message->state);
}
