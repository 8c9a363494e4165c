/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of multicast groups: opening ports, entering, sending, receiving, and closing.
 */
#include "unit_multicast.h"

#include <string.h>

FIXTURE(unit_multicast_set_up, unit_multicast_tear_down);

TEST(mca_btl_rawe_multicast_possible__with_one_interface_without_threads)
{
    assert_true(mca_btl_rawe_multicast_possible(false));
    assert_false(mca_btl_rawe_multicast_possible(true));
    fake_ompi.fault_tolerant = true;
    assert_false(mca_btl_rawe_multicast_possible(false));
    fake_ompi.fault_tolerant = false;
    unit_use_module(&fake.second_module, false);
    assert_false(mca_btl_rawe_multicast_possible(false));
    mca_btl_rawe_state.module_count = 0;
    unit_use_module(&fake.lo_module, true);
    assert_false(mca_btl_rawe_multicast_possible(false));
}

TEST(mca_btl_rawe_multicast_place__opens_one_port_for_all_groups)
{
    const struct mca_btl_rawe_place place = mca_btl_rawe_multicast_place();

    assert_int_equal(place.payload_bytes, 1500 - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES);
    (void)mca_btl_rawe_multicast_place();
    assert_int_equal(fake.opened, 1);
    assert_int_equal(fake.opened_with.use, RAWE_PORT_GROUP);
    assert_true((fake.opened_with.group[0] & 3) == 3); /* a locally administered group address */
    fake.net_module.interface.mtu_bytes = 65535;
    assert_int_equal(mca_btl_rawe_multicast_place().payload_bytes, RAWE_GROUP_PAYLOAD_MAX);
}

TEST(mca_btl_rawe_multicast_place__says_that_there_is_none)
{
    fake.refuses_port = true;
    assert_int_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
    assert_null(fake.net_module.group_port);
    fake.refuses_port = false;
    assert_int_not_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
    atomic_store(&fake.net_module.open, false);
    assert_int_equal(mca_btl_rawe_multicast_place().payload_bytes, 0);
}

TEST(mca_btl_rawe_multicast_place__with_batches)
{
    static const struct {
        bool wanted, refused;
        uint32_t segment_bytes;
    } cases[] = {{true, false, 1420}, {false, false, 0}, {true, true, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_multicast_tear_down();
        unit_multicast_set_up();
        fake.net_module.group_bulk = NULL;
        unit_allow_batches(cases[i].wanted);
        fake.refuses_bulk = cases[i].refused;
        const struct mca_btl_rawe_place place = mca_btl_rawe_multicast_place();
        assert_int_not_equal(place.payload_bytes, 0);
        assert_int_equal(place.segment_bytes, cases[i].segment_bytes);
        assert_int_equal(place.batch_frames, cases[i].segment_bytes != 0 ? 500 : 0);
    }
    assert_ptr_equal(fake.bulk_opened_with.groups, fake.opened_with.groups);
    assert_memory_equal(fake.bulk_opened_with.group, "\x01\x00\x5E\x00\x00\xFE", 6);
}

/** The ports accept a group's frames until it is closed and its messages are acknowledged. */
TEST(mca_btl_rawe_multicast_open__has_the_ports_get_its_frames)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    struct mca_btl_rawe_multicast *other = unit_group_enter(0xABCD00FF);
    const struct mca_btl_rawe_place all = {.payload_bytes = PAYLOAD_BYTES};
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    for (unsigned i = 0; i < 256; i++) {
        assert_int_equal(fake.gets[0][i], i == ID || i == 0xFF);
        assert_int_equal(fake.gets[1][i], i == ID || i == 0xFF);
    }
    mca_btl_rawe_multicast_close(other, false);
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, true);
    unit_progress_after(5000);
    assert_true(fake.gets[0][ID] && fake.gets[1][ID] && !fake.gets[0][0xFF] && !fake.gets[1][0xFF]);
    unit_receive_ack(ID, 1, 1);
    unit_receive_ack(ID, 2, 1);
    unit_progress_after(1);
    assert_false(fake.gets[0][ID] || fake.gets[1][ID]);
    fake.refuses_filter = true;
    assert_null(unit_group_open(ID, &all));
    fake.refuses_filter = false;
    fake.endpoints[2].lost = true;
    assert_null(unit_group_open(ID, &all));
    fake.endpoints[2] = (mca_btl_base_endpoint_t){.proc = NULL, .module = &fake.net_module};
    assert_null(unit_group_open(ID, &all));
    fake.endpoints[2].proc = &fake.procs[2];
    fake.endpoints[2].module = &fake.lo_module;
    assert_null(unit_group_open(ID, &all));
    fake.endpoints[2].module = &fake.net_module;
    (void)unit_group_enter(ID + 1);
    assert_false(fake.gets[0][ID]);
}

TEST(mca_btl_rawe_multicast_send__to_the_group_in_a_frame_or_in_batches)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    char data[2 * SEGMENT_BYTES + 50];
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_int_equal(fake.sent.count, 1);
    assert_memory_equal(fake.sent.bytes[0], fake.opened_with.group, 6);
    assert_memory_equal(fake.sent.bytes[0] + 6, fake.net_module.engine.config.mac, 6);
    assert_memory_equal(fake.sent.bytes[0] + RAWE_ETH_HEADER_BYTES + RAWE_GROUP_HEADER_BYTES,
                        "8 bytes", 8);
    assert_true(mca_btl_rawe_multicast_busy(&fake.net_module));
    memset(data, 'x', sizeof(data));
    message =
        (struct mca_btl_rawe_transfer){.data = data, .len_bytes = sizeof(data), .batches = true};
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_int_equal(fake.sent.count, 1);
    assert_int_equal(fake.batches_sent.count, 2);
    assert_memory_equal(fake.batches_sent.bytes[0], fake.bulk_opened_with.group, 6);
    assert_memory_equal(fake.batches_sent.bytes[0] + 6, fake.net_module.engine.config.mac, 6);
    assert_int_equal(fake.batches_sent.len_bytes[0] + fake.batches_sent.len_bytes[1],
                     sizeof(data) + 2 * (RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES));
}

/** If messages follow each other quickly, those after the eighth share a frame, sent later. */
TEST(mca_btl_rawe_multicast_send__holds_back_one_of_many)
{
    static const struct {
        bool thread;       /* a thread sends held messages while the program computes */
        uint64_t pause_ns; /* pause before each message */
        bool progress;     /* make progress before each message */
        bool deferring;    /* the progress thread makes progress */
        bool by_turns;     /* alternate between groups */
        unsigned at_once, after_progress;
    } cases[] = {
        {true, 0, false, false, false, 8, 9},    {true, 0, false, true, false, 8, 9},
        {true, 1000, false, false, false, 8, 9}, {true, 100000, false, false, false, 10, 10},
        {true, 0, true, false, false, 10, 10},   {true, 0, false, false, true, 10, 10},
        {false, 0, false, false, false, 10, 10},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_multicast_tear_down();
        unit_multicast_set_up();
        mca_btl_rawe_params.progress_thread_ms = cases[i].thread;
        mca_btl_rawe_params.coalesce_from = 4;
        struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
        struct mca_btl_rawe_multicast *other = cases[i].by_turns ? unit_group_enter(ID + 1) : group;
        for (unsigned k = 0; k < 10; k++) {
            struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};
            fake_ompi.now_ns += cases[i].pause_ns;
            if (cases[i].progress) {
                (void)mca_btl_rawe_multicast_progress(&fake.net_module, false, false);
            }
            assert_true(mca_btl_rawe_multicast_send(k % 2 == 0 ? group : other, &message));
            assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
        }
        assert_int_equal(fake.sent.count, cases[i].at_once);
        const bool held = cases[i].at_once != cases[i].after_progress;
        assert_int_equal(
            MCA_BTL_RAWE_THREAD_POLLS_FAST == mca_btl_rawe_multicast_busy(&fake.net_module), held);
        (void)mca_btl_rawe_multicast_progress(&fake.net_module, false, cases[i].deferring);
        assert_int_equal(fake.sent.count, cases[i].after_progress);
        assert_false(MCA_BTL_RAWE_THREAD_POLLS_FAST ==
                     mca_btl_rawe_multicast_busy(&fake.net_module));
    }
}

/** Send messages until one, `*waits`, waits for acknowledgements. Returns the number sent. */
static unsigned sent_at_once(struct mca_btl_rawe_multicast *group,
                             struct mca_btl_rawe_transfer *waits)
{
    unsigned taken = 0;

    *waits = (struct mca_btl_rawe_transfer){.data = "8 bytes", .len_bytes = 8};
    while (assert_true(mca_btl_rawe_multicast_send(group, waits)),
           unit_transfer_state(waits) == MCA_BTL_RAWE_TRANSFER_DONE) {
        taken++;
        fake.sent.count = 0;
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

    mca_btl_rawe_multicast_close(unit_group_enter_with_batches(), false); /* opens the ports */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mca_btl_rawe_multicast *group = unit_group_open(ID, &cases[i].all);
        struct mca_btl_rawe_transfer waits;
        assert_int_equal(sent_at_once(group, &waits), cases[i].frames);
        mca_btl_rawe_multicast_close(group, false);
    }
}

TEST(mca_btl_rawe_multicast_send__waits_for_a_window_that_is_full)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message;

    assert_in_range(sent_at_once(group, &message), 16, 199);
    unit_receive_ack(ID, 1, 16);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    unit_receive_ack(ID, 2, 16);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_false(message.last);
}

/** Every second, a waiting receiver sends WAIT to the root and next member; a root sends STATUS. */
TEST(mca_btl_rawe_multicast_progress__asks_those_that_a_call_waits_for)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = NULL, .len_bytes = 0};

    mca_btl_rawe_multicast_expect(group, 2, &message);
    unit_progress_after(1);
    unit_progress_after(900);
    assert_int_equal(fake.controls.count, 0);
    unit_progress_after(200);
    assert_int_equal(unit_count_controls(RAWE_GROUP_WAIT), 2);
    unit_progress_after(900);
    assert_int_equal(fake.controls.count, 0);
    unit_progress_after(200);
    assert_int_equal(unit_count_controls(RAWE_GROUP_WAIT), 2);
    unit_receive_control(ID, 2,
                         &(struct rawe_group_control){
                             .type = RAWE_GROUP_REPAIR, .root = 2, .sequence = (uint32_t)ID},
                         "", false);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    unit_progress_after(2000);
    assert_int_equal(unit_count_controls(RAWE_GROUP_WAIT), 0);
    assert_in_range(sent_at_once(group, &message), 16, 199);
    unit_receive_ack(ID, 1, 1);
    unit_progress_after(1);
    fake.controls.count = 0;
    unit_progress_after(1100);
    assert_int_equal(unit_count_controls(RAWE_GROUP_STATUS), 2); /* down the tree */
}

/** Nothing else would replace an acknowledgement for which a member had no memory. */
TEST(mca_btl_rawe_multicast_progress__asks_those_that_a_closed_group_waits_for)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    unit_progress_after(1);
    assert_int_equal(unit_count_controls(RAWE_GROUP_STATUS), 2);
    unit_progress_after(5000);
    assert_int_equal(unit_count_controls(RAWE_GROUP_STATUS), 0); /* the next call will ask */
    mca_btl_rawe_multicast_close(group, true);
    unit_progress_after(1);
    unit_progress_after(900);
    assert_int_equal(unit_count_controls(RAWE_GROUP_STATUS), 0);
    for (unsigned i = 0; i < 3; i++) {
        unit_progress_after(1000);
        assert_int_equal(unit_count_controls(RAWE_GROUP_STATUS), 2);
    }
    unit_receive_ack(ID, 1, 1);
    unit_receive_ack(ID, 2, 1);
    unit_progress_after(1000);
    assert_int_equal(fake.controls.count, 0);
    assert_false(mca_btl_rawe_multicast_busy(&fake.net_module));
}

/** Sending a control message may complete waiting messages; MPI's callbacks are deferred. */
TEST(mca_btl_rawe_multicast_progress__defers_completions)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    fake.sent_deferring = false;
    unit_progress_after(2000);
    assert_int_not_equal(unit_count_controls(RAWE_GROUP_STATUS), 0);
    assert_true(fake.sent_deferring);
    assert_false(mca_btl_rawe_state.deferral.active);
}

/** Queue a message of 8 bytes from member 1 that asks for an acknowledgement, and refuse it. */
static void refuse_data(void)
{
    struct rawe_group_header header = unit_group_header(ID, 1);

    header.sequence = (uint32_t)ID;
    header.payload_bytes = 8;
    header.total_bytes = 8;
    header.flags = RAWE_GROUP_FLAG_ASK;
    unit_wait_frame(&header, "8 bytes", 1);
    assert_true(unit_progress());
    assert_int_equal(unit_count_controls(RAWE_GROUP_ACK), 0);
    fake.sent_deferring = false;
}

/** Assert that an acknowledgement was sent while completions were deferred. */
static void assert_acked_deferring(void)
{
    assert_int_equal(unit_count_controls(RAWE_GROUP_ACK), 1);
    assert_true(fake.sent_deferring);
    assert_false(mca_btl_rawe_state.deferral.active);
}

/** Wherever control messages are sent, MPI's progress must not free the group. */
TEST(mca_btl_rawe_multicast_expect__defers_completions)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    char data[8];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    refuse_data();
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_acked_deferring();
}

TEST(mca_btl_rawe_multicast_close__defers_completions)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);

    refuse_data();
    mca_btl_rawe_multicast_close(group, true);
    assert_acked_deferring();
}

TEST(mca_btl_rawe_multicast_control__defers_completions)
{
    (void)unit_group_enter(ID);
    unit_receive_control(ID, 1,
                         &(struct rawe_group_control){.type = RAWE_GROUP_STATUS,
                                                      .flags = RAWE_GROUP_FLAG_AGAIN,
                                                      .root = 1,
                                                      .sequence = (uint32_t)ID},
                         "", false);
    assert_acked_deferring();
}

/** In finalize, progress is also called for modules without a group port, such as lo's. */
TEST(mca_btl_rawe_multicast_progress__of_a_module_without_groups)
{
    (void)unit_group_enter(ID);
    assert_null(fake.lo_module.group_port);
    assert_int_equal(mca_btl_rawe_multicast_progress(&fake.lo_module, true, true), 0);
}

/** If no multicast frame arrives, all need repair, and the sender marks its last message. */
TEST(mca_btl_rawe_multicast_send__tells_that_a_member_hears_nothing)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    for (uint32_t i = 0; i < 20; i++) {
        assert_true(mca_btl_rawe_multicast_send(group, &message));
        assert_false(message.last);
        unit_receive_control(ID, 2,
                             &(struct rawe_group_control){.type = RAWE_GROUP_NACK,
                                                          .sequence = (uint32_t)ID + i,
                                                          .data_bytes = 1},
                             "\1", false);
        assert_int_equal(unit_count_controls(RAWE_GROUP_REPAIR), 1);
        unit_receive_ack(ID, 1, i + 1);
        unit_receive_ack(ID, 2, i + 1);
        fake_ompi.now_ns += (i == 19 ? 990 : 10) * MS;
    }
    unit_receive_control(ID, 2,
                         &(struct rawe_group_control){.type = RAWE_GROUP_NACK,
                                                      .sequence = (uint32_t)ID + 19,
                                                      .data_bytes = 1},
                         "\0", false);
    assert_int_equal(fake_ompi_shown("multicast_lost"), 0);
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_true(message.last);
    assert_int_equal(fake_ompi_shown("multicast_lost"), 1);
}

/** Drop frames sent in a member's name from another address; accept the member's own. */
TEST(mca_btl_rawe_multicast_progress__believes_the_members_addresses_alone)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    char data[2 * SEGMENT_BYTES] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};
    struct rawe_group_header header = unit_group_header(ID, 1);

    header.sequence = (uint32_t)ID;
    header.payload_bytes = 8;
    header.total_bytes = sizeof(data);
    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_wait_frame(&header, "forged!", 2);
    fake.batch_source = 2;
    unit_wait_batch(1, 0, sizeof(data), "f");
    assert_true(unit_progress());
    assert_int_equal(fake.placed, 0);
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).dropped_source, 2);
    header.sender = MEMBERS;
    unit_wait_frame(&header, "forged!", 2);
    assert_true(unit_progress());
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).dropped_member, 1);
    assert_string_equal(data, "nothing");
    fake.batch_source = 1;
    unit_wait_batch(1, 0, sizeof(data), "a");
    assert_true(unit_progress());
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_int_equal(data[0], 'a');
}

/** Control messages are accepted only from members of an open group. */
TEST(mca_btl_rawe_multicast_control__of_members_alone)
{
    const struct rawe_group_control wait = {.type = RAWE_GROUP_WAIT};
    opal_proc_t unknown;
    struct mca_btl_rawe_multicast *group;

    unit_receive_control(ID, 1, &wait, "", false); /* no port is open */
    group = unit_group_enter(ID);
    unit_receive_control(ID + 1, 1, &wait, "", false);
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).dropped_member, 0);
    fake.endpoints[MEMBERS].proc = &unknown;
    unit_receive_control(ID, MEMBERS, &wait, "", false);
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).dropped_member, 1);
    mca_btl_rawe_multicast_close(group, false);
}

/** A deferring engine writes nothing into the program's memory. */
TEST(mca_btl_rawe_multicast_control__while_the_engine_defers)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    char data[8] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 2, &message);
    unit_receive_control(ID, 2,
                         &(struct rawe_group_control){.type = RAWE_GROUP_REPAIR,
                                                      .root = 2,
                                                      .sequence = (uint32_t)ID,
                                                      .total_bytes = 8,
                                                      .payload_bytes = 8,
                                                      .data_bytes = 8},
                         "8 bytes", true);
    assert_string_equal(data, "nothing");
    unit_progress_after(1);
    assert_string_equal(data, "8 bytes");
    assert_false(message.heard);
}

/** A receive takes its root's next message, whatever the order in which frames arrive. */
TEST(mca_btl_rawe_multicast_expect__takes_the_next_of_that_root)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    char data[8] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    unit_wait_data(ID, 2, 0, "second!", 8);
    unit_wait_data(ID, 1, 0, "first!!", 8);
    unit_wait_data(ID, 1, 1, "third!!", 8);
    assert_true(unit_progress());
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "first!!");
    mca_btl_rawe_multicast_expect(group, 2, &message);
    assert_string_equal(data, "second!");
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_string_equal(data, "third!!");
    mca_btl_rawe_multicast_expect(group, 2, &message);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    unit_wait_data(ID, 2, 1, "fourth!", 8);
    assert_true(unit_progress());
    assert_string_equal(data, "fourth!");
    assert_true(message.heard);
}

/** A long message may arrive in several frames instead of batches. */
TEST(mca_btl_rawe_multicast_expect__takes_messages_of_several_frames)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    char data[16];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 16};
    struct mca_btl_rawe_transfer shorter = {.data = data, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_wait_data(ID, 1, 0, "part 1, ", 16);
    assert_true(unit_progress());
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    unit_wait_data(ID, 1, 1, "part 2.", 16);
    unit_wait_data(ID, 1, 2, "wrong!!", 16);
    unit_wait_data(ID, 1, 3, "wrong!!", 16);
    unit_wait_data(ID, 1, 4, "right!!", 8);
    assert_true(unit_progress());
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "part 1, part 2.");
    assert_false(message.batches);
    mca_btl_rawe_multicast_expect(group, 1, &shorter);
    assert_int_equal(unit_transfer_state(&shorter), MCA_BTL_RAWE_TRANSFER_LENGTH);
    assert_string_equal(data, "part 1, part 2.");
    mca_btl_rawe_multicast_expect(group, 1, &shorter);
    assert_int_equal(unit_transfer_state(&shorter), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "right!!");
}

/** Batches stay in the port until a call waits for them, then go into that call's buffer. */
TEST(mca_btl_rawe_multicast_progress__batches_go_where_they_belong)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    char data[4 * SEGMENT_BYTES];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};

    unit_wait_batch(1, 0, sizeof(data), "a");
    unit_wait_batch(1, 2, sizeof(data), "b");
    unit_wait_batch(1, 4, sizeof(data), "c");
    assert_false(unit_progress());
    mca_btl_rawe_multicast_expect(group, 1, &message);
    assert_int_equal(mca_btl_rawe_multicast_progress(&fake.net_module, true, true), 0);
    assert_int_equal(fake.batches_waiting.taken, 0);
    assert_true(unit_progress());
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_true(message.batches);
    assert_false(message.heard);
    assert_int_equal(data[0], 'a');
    assert_int_equal(data[sizeof(data) - 1], 'b');
    assert_int_equal(fake.placed, 1); /* there is no stream yet for a root's first frames */
    assert_int_equal(fake.batches_waiting.taken, 2);
}

/** Do not request missing frames while they may still be queued in the bulk port. */
TEST(mca_btl_rawe_multicast_progress__asks_for_nothing_that_is_in_the_port)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    char data[4 * SEGMENT_BYTES];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};

    unit_wait_batch(1, 0, sizeof(data), "a");
    unit_wait_data(ID, 1, 4, "8 bytes", 8); /* reveals four earlier frames */
    for (unsigned i = 0; i < 100; i++) {
        unit_progress_after(1);
    }
    assert_int_equal(fake.controls.count, 0);
    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_progress_after(1);
    assert_int_equal(fake.batches_waiting.taken, 1);
    assert_int_equal(unit_count_controls(RAWE_GROUP_NACK), 1); /* requests the other two */
}

/** The progress thread does not write to the program's memory: MPI's next progress call does. */
TEST(mca_btl_rawe_multicast_progress__defers_for_the_progress_thread)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    char data[8] = "nothing";
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_wait_data(ID, 1, 0, "8 bytes", 8);
    assert_int_equal(mca_btl_rawe_multicast_progress(&fake.net_module, true, true), 1);
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_WAITS);
    assert_string_equal(data, "nothing");
    assert_true(mca_btl_rawe_multicast_busy(&fake.net_module));
    (void)unit_progress();
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_DONE);
    assert_string_equal(data, "8 bytes");
}

TEST(mca_btl_rawe_multicast_progress__drops_what_belongs_to_no_group)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    struct mca_btl_rawe_transfer message = {.data = NULL, .len_bytes = 0};
    struct rawe_group_counters counters;

    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_wait_batch(1, 0, 2 * SEGMENT_BYTES, "a");
    fake.batches_waiting.bytes[0][32] ^= 1; /* the group's id */
    unit_wait_data(ID + 1, 1, 0, "8 bytes", 8);
    fake.waiting.len_bytes[fake.waiting.count] = 5;
    fake.waiting.count++;
    assert_true(unit_progress());
    counters = mca_btl_rawe_multicast_counters(&fake.net_module);
    assert_int_equal(counters.dropped_group, 2);
    assert_int_equal(counters.dropped_decode, 1);
    assert_int_equal(counters.messages_delivered, 0);
}

TEST(mca_btl_rawe_multicast_progress__sends_again_what_the_link_had_no_room_for)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    fake.closed_full = 1;
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    assert_int_equal(fake.sent.count, 0);
    (void)unit_progress();
    assert_int_equal(fake.sent.count, 1);
}

/** A closed group stays busy until all members have acknowledged all messages. */
TEST(mca_btl_rawe_multicast_close__lasts_until_all_have_everything)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, false); /* the communicator was not created */
    assert_false(mca_btl_rawe_multicast_busy(&fake.net_module));
    assert_true(mca_btl_rawe_multicast_done());
    group = unit_group_enter(ID);
    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, true);
    unit_progress_after(5000);
    assert_true(mca_btl_rawe_multicast_busy(&fake.net_module));
    unit_receive_ack(ID, 1, 1);
    assert_false(mca_btl_rawe_multicast_done());
    unit_receive_ack(ID, 2, 1);
    assert_true(mca_btl_rawe_multicast_done());
    (void)unit_progress();
    assert_false(mca_btl_rawe_multicast_busy(&fake.net_module));
    unit_receive_ack(ID, 2, 1); /* for a group that is gone */
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).messages_sent,
                     2); /* unchanged */
}

/** A root asks as long as it waits, so its group must be known here until it has its answer. */
TEST(mca_btl_rawe_multicast_close__lasts_until_there_is_memory_for_acknowledgements)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    const struct rawe_group_control status = {.type = RAWE_GROUP_STATUS,
                                              .flags = RAWE_GROUP_FLAG_AGAIN,
                                              .root = 1,
                                              .sequence = (uint32_t)ID + 1};

    refuse_data();
    fake.refuses_control = true;
    mca_btl_rawe_multicast_close(group, true);
    unit_progress_after(5000);
    assert_true(mca_btl_rawe_multicast_busy(&fake.net_module));
    fake.refuses_control = false;
    unit_receive_control(ID, 1, &status, "", false);
    assert_int_equal(unit_count_controls(RAWE_GROUP_ACK), 1);
    unit_progress_after(1);
    assert_false(mca_btl_rawe_multicast_busy(&fake.net_module));
}

/** While the program was outside MPI, more frames arrived than one progress call reads. */
TEST(mca_btl_rawe_multicast_close__lasts_until_all_that_waits_is_read)
{
    mca_btl_rawe_multicast_close(unit_group_enter(ID), true);
    (void)unit_group_enter(ID + 1);
    for (unsigned i = 0; i < 80; i++) {
        unit_wait_data(ID + 1, 1, i, "8 bytes", 8);
    }
    unit_wait_data(ID, 1, 0, "8 bytes", 8);
    unit_progress_after(5000);
    assert_int_equal(fake.waiting.count - fake.waiting.taken, 17);
    (void)unit_progress();
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).dropped_group, 0);
}

/** Unless the rest is received, the root waits for this member, and neither closes the group. */
TEST(mca_btl_rawe_multicast_close__takes_the_rest_of_a_message_of_another_length)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    char buffer[8] = {0};
    struct mca_btl_rawe_transfer message = {.data = buffer, .len_bytes = 8};

    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_wait_data(ID, 1, 0, "a part ", 16);
    unit_wait_data(ID, 1, 1, "a part ", 16);
    (void)unit_progress();
    assert_int_equal(unit_transfer_state(&message), MCA_BTL_RAWE_TRANSFER_LENGTH);
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).messages_delivered, 0);
    mca_btl_rawe_multicast_close(group, true);
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).messages_delivered, 1);
}
