/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of groups: ports, entering, and the messages that this process sends.
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
    assert_true((fake.opened_with.group[0] & 3) == 3); /* a group, administered locally */
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

/** The ports receive frames of groups that are open, or were closed just now. */
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

/** In quick succession, messages after the eighth wait until the next progress sends them. */
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

/** Frames of messages that are sent before one waits for acknowledgements: `waits`. */
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

/** Each second, awaited members, and a receiver's next member, are sent a message. */
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

/** A control message may send and complete waiting messages: MPI's callbacks run later. */
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

/** In finalize, modules without a port for groups, such as lo's, are asked as well. */
TEST(mca_btl_rawe_multicast_progress__of_a_module_without_groups)
{
    (void)unit_group_enter(ID);
    assert_null(fake.lo_module.group_port);
    assert_int_equal(mca_btl_rawe_multicast_progress(&fake.lo_module, true, true), 0);
}

/** Without multicast, all frames are repaired; the sender says that the message is the last. */
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

/** What another host sends in a member's place is dropped, and does not take its place. */
