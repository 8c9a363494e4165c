/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Members of a group on an in-memory wire: see unit_group.h.
 */
#include "unit_group.h"

#include <string.h>

#include "base/rawe_crc32c.h"
#include "group/rawe_group_stream.h"
#include "unit_alloc.h"

#define FRAMES_MAX 4096u

struct rawe_group_config config;
struct rawe_group group[MEMBERS_MAX];
struct rawe_group_counters counted[MEMBERS_MAX];
uint8_t data[DATA_BYTES];
struct group_net net;

static struct in_flight wire[FRAMES_MAX];
static const uint32_t batch_bytes = BATCH_BYTES;

static uint32_t self_of(const void *context)
{
    return (uint32_t)((const struct rawe_group *)context - group);
}

/** Return a frame on the wire by its index from the first. */
static struct in_flight *flight_at(unsigned index)
{
    return &wire[(net.wire_first + index) % FRAMES_MAX];
}

static struct in_flight *launch(uint32_t from, uint32_t to, const void *bytes, size_t len_bytes)
{
    struct in_flight *flight = flight_at(net.wire_count++);
    assert_true(net.wire_count <= FRAMES_MAX && len_bytes <= sizeof(flight->bytes));
    *flight = (struct in_flight){.from = from, .to = to, .len_bytes = len_bytes};
    memcpy(flight->bytes, bytes, len_bytes);
    return flight;
}

static bool multicast(void *context, const struct rawe_bytes *frame)
{
    if (net.link_room == 0) {
        return false;
    }
    struct in_flight *flight =
        launch(self_of(context), RAWE_GROUP_ALL, frame->base, frame->len_bytes);
    assert_int_equal(rawe_group_header_decode(&flight->header, flight->bytes, flight->len_bytes),
                     RAWE_DECODE_OK);
    net.frames++;
    net.link_room--;
    return true;
}

static bool send_control(void *context, uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    struct rawe_group_control control;
    assert_int_not_equal(to, self_of(context));
    assert_int_equal(rawe_group_control_decode(&control, bytes, len_bytes), RAWE_DECODE_OK);
    if (control.type == net.refused_type && net.refusals_left != 0) {
        net.refusals_left--;
        return false;
    }
    struct in_flight *flight = launch(self_of(context), to, bytes, len_bytes);
    assert_int_equal(rawe_group_control_decode(&flight->control, flight->bytes, len_bytes),
                     RAWE_DECODE_OK);
    net.sent[flight->control.type]++;
    return true;
}

static bool send_batch(void *context, uint8_t *head, const struct rawe_bytes *part,
                       uint32_t segment_bytes)
{
    struct in_flight *flight = flight_at(net.wire_count);
    if (net.link_room == 0) {
        return false;
    }
    assert_true(++net.wire_count <= FRAMES_MAX && part->len_bytes <= BATCH_BYTES);
    *flight = (struct in_flight){.from = self_of(context),
                                 .to = RAWE_GROUP_ALL,
                                 .batch = true,
                                 .len_bytes = RAWE_BATCH_HEADER_BYTES + part->len_bytes};
    memcpy(flight->bytes, head, RAWE_BATCH_HEADER_BYTES);
    memcpy(flight->bytes + RAWE_BATCH_HEADER_BYTES, part->base, part->len_bytes);
    assert_int_equal(
        rawe_group_batch_decode(&flight->header, head, RAWE_BATCH_HEADER_BYTES, part->len_bytes),
        RAWE_DECODE_OK);
    assert_int_equal(segment_bytes, part->len_bytes > SEGMENT_BYTES ? SEGMENT_BYTES : 0);
    net.link_room--;
    return true;
}

static uint8_t *place(void *context, const struct rawe_group_part *part)
{
    assert_int_equal(part->at_bytes + part->len_bytes <= part->total_bytes, true);
    return net.place;
}

static bool deliver(void *context, const struct rawe_group_part *part)
{
    const uint32_t self = self_of(context);
    if (net.refuses[self]) {
        return false;
    }
    uint32_t *bytes = &net.got_bytes[self][part->root];
    assert_true(!net.placed || part->data == net.place);
    assert_true(*bytes + part->len_bytes <= net.sent_bytes[part->root]);
    assert_true(part->len_bytes == 0 || memcmp(part->data, data + *bytes, part->len_bytes) == 0);
    *bytes += part->len_bytes;
    net.got_parts[self][part->root] +=
        net.batches ? (part->len_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES : 1;
    net.got_messages[self][part->root] += part->at_bytes + part->len_bytes == part->total_bytes;
    net.got_last[self] += part->last;
    net.heard[self] = part->heard;
    return true;
}

void set_up(void)
{
    memset(&net, 0, sizeof(net));
    memset(counted, 0, sizeof(counted));
    net.now_ns = MS;
    net.link_room = UINT32_MAX;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 29 ^ i >> 8);
    }
    config = (struct rawe_group_config){.id = ID,
                                        .payload_bytes = PAYLOAD_BYTES,
                                        .window_frames = 16,
                                        .deliver = deliver,
                                        .place = place,
                                        .output = {.multicast = multicast,
                                                   .batch = send_batch,
                                                   .control = send_control,
                                                   .batch_bytes = &batch_bytes}};
}

void start(uint32_t members)
{
    config.members = members;
    for (config.self = 0; config.self < members; config.self++) {
        config.context = config.output.context = &group[config.self];
        config.counters = &counted[config.self];
        rawe_group_init(&group[config.self], &config);
    }
}

void tear_down(void)
{
    unit_allocations_left = -1;
    for (uint32_t i = 0; i < config.members; i++) {
        rawe_group_free(&group[i]);
    }
}

/** Assert that all members have delivered every frame that the root has released. */
static void check(uint32_t root)
{
    for (uint32_t i = 0; i < config.members; i++) {
        assert_true(i == root || group[root].base - FIRST <= net.got_parts[i][root]);
    }
}

/** Deliver a frame or, if `is_batch`, a batch header with `payload_bytes` of data to a member. */
static void come(uint32_t to, bool is_batch, const uint8_t *bytes, size_t len_bytes,
                 const uint8_t *payload, size_t payload_bytes)
{
    struct rawe_group_header header;
    if (!is_batch) {
        payload = rawe_group_read(&header, bytes, len_bytes, &counted[to]);
    } else if (rawe_group_batch_decode(&header, bytes, len_bytes, payload_bytes) !=
               RAWE_DECODE_OK) {
        counted[to].dropped_decode++; /* as the owner does */
        payload = NULL;
    } else {
        uint8_t *where = rawe_group_place(&group[to], &header);
        net.placed = where != NULL;
        payload = net.placed ? memcpy(where, payload, payload_bytes) : payload;
    }
    if (payload != NULL) {
        rawe_group_receive(&group[to], &header, payload, net.now_ns);
    }
    net.placed = false;
}

void receive(uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    come(to, false, bytes, len_bytes, NULL, 0);
}

/** Deliver part of a batch as one packet. */
static void merge(const struct in_flight *flight, uint32_t at_bytes, uint32_t end_bytes,
                  uint32_t to)
{
    const uint8_t *data_of = flight->bytes + RAWE_BATCH_HEADER_BYTES + at_bytes;
    const uint32_t len_bytes = end_bytes - at_bytes;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];
    if (len_bytes == 0) {
        return;
    }
    memcpy(head, flight->bytes, sizeof(head));
    rawe_put32(head + 4, at_bytes);
    net.packets++;
    come(to, true, head, sizeof(head), data_of, len_bytes);
}

/** Cut a batch into frames, lose some, and merge the adjacent ones that remain. */
static void arrive_batch(const struct in_flight *flight, uint32_t to)
{
    const uint32_t total_bytes = flight->header.payload_bytes;
    uint32_t begin_bytes = 0;
    struct in_flight frame = *flight;
    for (uint32_t at_bytes = 0; at_bytes < total_bytes; at_bytes += SEGMENT_BYTES) {
        if (net.loses != NULL && net.loses(&frame, to)) {
            merge(flight, begin_bytes, at_bytes, to);
            begin_bytes = at_bytes + SEGMENT_BYTES;
        }
        frame.header.sequence++;
    }
    merge(flight, begin_bytes, begin_bytes < total_bytes ? total_bytes : begin_bytes, to);
}

void arrive_one(void)
{
    struct in_flight flight = *flight_at(0);
    net.wire_first++;
    net.wire_count--;
    for (uint32_t i = 0; i < config.members; i++) {
        if (!(flight.to == RAWE_GROUP_ALL ? i != flight.from : i == flight.to) || net.absent[i] ||
            net.absent[flight.from]) {
            continue;
        }
        if (flight.batch) {
            arrive_batch(&flight, i);
        } else if (net.loses != NULL && net.loses(&flight, i)) {
            continue;
        } else if (flight.to == RAWE_GROUP_ALL) {
            receive(i, flight.bytes, flight.len_bytes);
        } else {
            rawe_group_receive_control(&group[i], flight.from, flight.bytes, flight.len_bytes,
                                       net.now_ns);
        }
        check(i);
    }
}

void arrive(void)
{
    while (net.wire_count != 0) {
        arrive_one();
    }
}

void forge(uint32_t to, struct rawe_group_header header, const uint8_t *payload)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES + PAYLOAD_BYTES];
    const size_t covered_bytes = RAWE_GROUP_HEADER_BYTES + (size_t)header.payload_bytes;
    if (header.segment_bytes != 0) {
        rawe_group_batch_encode(bytes, &header);
        come(to, true, bytes, RAWE_BATCH_HEADER_BYTES, payload, header.payload_bytes);
        return;
    }
    rawe_group_header_encode(bytes, &header);
    memcpy(bytes + RAWE_GROUP_HEADER_BYTES, payload, header.payload_bytes);
    rawe_checksum_encode(bytes + covered_bytes, rawe_crc32c(0, bytes, covered_bytes));
    receive(to, bytes, covered_bytes + RAWE_CHECKSUM_BYTES);
}

void forge_control(uint32_t to, uint32_t from, struct rawe_group_control control,
                   const uint8_t *payload)
{
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];
    rawe_group_control_encode(bytes, &control);
    if (control.data_bytes != 0) {
        memcpy(bytes + RAWE_GROUP_CONTROL_HEADER_BYTES, payload, control.data_bytes);
    }
    rawe_group_receive_control(&group[to], from, bytes,
                               RAWE_GROUP_CONTROL_HEADER_BYTES + (size_t)control.data_bytes,
                               net.now_ns);
}

void progress(uint32_t member, uint64_t now_ns)
{
    net.now_ns = now_ns;
    rawe_group_progress(&group[member], now_ns);
}

void pass(uint64_t ns)
{
    const uint64_t end_ns = net.now_ns + ns;
    do {
        uint64_t next_ns = end_ns;
        arrive();
        for (uint32_t i = 0; i < config.members; i++) {
            const uint64_t due_ns = net.absent[i] ? UINT64_MAX : rawe_group_next_ns(&group[i]);
            next_ns = due_ns < next_ns ? due_ns : next_ns;
        }
        next_ns = next_ns > net.now_ns ? next_ns : net.now_ns;
        for (uint32_t i = 0; i < config.members; i++) {
            if (!net.absent[i]) {
                progress(i, next_ns);
            }
        }
        arrive();
    } while (net.now_ns < end_ns);
}

static void done(struct rawe_group_send *send)
{
    assert_in_range(send - net.send, 0, net.sends - 1);
    net.done_count++;
}

bool try_send(uint32_t root, uint32_t len_bytes)
{
    struct rawe_group_send *send = &net.send[net.sends++];
    *send = (struct rawe_group_send){
        .done = done,
        .data = data + net.sent_bytes[root],
        .len_bytes = len_bytes,
        .may_wait = net.may_wait,
        .batches = net.batches,
    };
    net.sent_bytes[root] += len_bytes;
    const bool taken = rawe_group_send(&group[root], send, net.now_ns);
    net.sent_bytes[root] -= taken ? 0 : len_bytes;
    return taken;
}

void send_bytes(uint32_t root, uint32_t len_bytes)
{
    assert_true(try_send(root, len_bytes));
}

void share(uint32_t members)
{
    config.share_from = 2;
    start(members);
    net.may_wait = true;
}

void batch(uint32_t members)
{
    config.segment_bytes = SEGMENT_BYTES;
    start(members);
    net.batches = true;
}

void send_many(unsigned messages)
{
    for (unsigned i = 0; i < messages; i++) {
        send_bytes(0, 10);
    }
}

void assert_got(uint32_t root, uint32_t messages)
{
    for (uint32_t i = 0; i < config.members; i++) {
        if (i != root && !net.absent[i]) {
            assert_int_equal(net.got_bytes[i][root], net.sent_bytes[root]);
            assert_int_equal(net.got_messages[i][root], messages);
        }
    }
}

void assert_quiet(void)
{
    for (uint32_t i = 0; i < config.members; i++) {
        assert_true(rawe_group_done(&group[i]));
        assert_int_equal(rawe_group_next_ns(&group[i]), UINT64_MAX);
        assert_null(group[i].window);
        for (uint32_t k = 0; group[i].members != NULL && k < config.members; k++) {
            const struct rawe_group_stream *stream = group[i].members[k].stream;
            assert_true(stream == NULL || stream->stored == NULL);
        }
    }
}

unsigned control_messages(void)
{
    return net.sent[RAWE_GROUP_NACK] + net.sent[RAWE_GROUP_ACK] + net.sent[RAWE_GROUP_STATUS] +
           net.sent[RAWE_GROUP_WAIT];
}

static bool lose_some(struct in_flight *flight, uint32_t receiver)
{
    const struct rawe_group_header *header = &flight->header;
    if (flight->to == RAWE_GROUP_ALL) {
        return receiver >= net.losing_low && receiver <= net.losing_high &&
               header->sequence - FIRST - net.losing_from < net.losing_count;
    }
    const bool lost = flight->control.type == net.losing_type && net.losses_left != 0;
    net.losses_left -= lost;
    return lost;
}

void lose(uint32_t from, uint32_t count, uint32_t low, uint32_t high)
{
    net.losing_from = from;
    net.losing_count = count;
    net.losing_low = low;
    net.losing_high = high;
    net.loses = lose_some;
}
