/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of groups: the messages that others send, and how a group ends.
 */
#include "unit_multicast.h"

#include <string.h>

FIXTURE(unit_multicast_set_up, unit_multicast_tear_down);

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

/** Control messages are for an open group, and from a member. */
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

/** While the engine defers, nothing is written into the program's memory. */
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

/** Whatever comes first. */
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

/** Long messages arrive in several frames, even if a batch was lost. */
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

/** Batches stay in the port until a call waits for them, and are then received into its buffer. */
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
    assert_int_equal(data[0], 'a');
    assert_int_equal(data[sizeof(data) - 1], 'b');
    assert_int_equal(fake.placed, 1); /* the first frames of a root have no stream yet */
    assert_int_equal(fake.batches_waiting.taken, 2);
}

/** A frame tells of others that are in the bulk port: they are not asked for. */
TEST(mca_btl_rawe_multicast_progress__asks_for_nothing_that_is_in_the_port)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter_with_batches();
    char data[4 * SEGMENT_BYTES];
    struct mca_btl_rawe_transfer message = {.data = data, .len_bytes = sizeof(data)};

    unit_wait_batch(1, 0, sizeof(data), "a");
    unit_wait_data(ID, 1, 4, "8 bytes", 8); /* shows that there are four before it */
    for (unsigned i = 0; i < 100; i++) {
        unit_progress_after(1);
    }
    assert_int_equal(fake.controls.count, 0);
    mca_btl_rawe_multicast_expect(group, 1, &message);
    unit_progress_after(1);
    assert_int_equal(fake.batches_waiting.taken, 1);
    assert_int_equal(unit_count_controls(RAWE_GROUP_NACK), 1); /* for the other two */
}

/** The progress thread writes nothing into the program's memory; MPI's next progress does. */
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
    fake.batches_waiting.bytes[0][32] ^= 1; /* the id */
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

/** The group stays as long as a member lacks a message. */
TEST(mca_btl_rawe_multicast_close__lasts_until_all_have_everything)
{
    struct mca_btl_rawe_multicast *group = unit_group_enter(ID);
    struct mca_btl_rawe_transfer message = {.data = "8 bytes", .len_bytes = 8};

    assert_true(mca_btl_rawe_multicast_send(group, &message));
    mca_btl_rawe_multicast_close(group, false); /* the communicator was not made */
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
    unit_receive_ack(ID, 2, 1); /* of no group */
    assert_int_equal(mca_btl_rawe_multicast_counters(&fake.net_module).messages_sent,
                     2); /* stays */
}

/** The program was away, and more has come than is read at a time. */
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

/** Its root waits for it else, and neither group would ever go. */
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
