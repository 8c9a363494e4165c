/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_fanout's program: which member it selects. test/lab/link/test_fanout.c tests it in
 * the kernel.
 */
#include "linux/host/rawe_host_group.h"
#include "base/rawe_wire.h"
#include "unit_test.h"

#define KEYS_MAX (RAWE_FANOUT_KEYS_MAX * RAWE_FANOUT_MEMBERS_MAX)
#define KEY_OFFSET 4u

/** Run the program as the kernel would, and count the executed instructions in `steps`. */
static uint32_t run(const struct sock_filter *program, unsigned length, uint32_t key,
                    unsigned *steps)
{
    uint32_t accumulator = 0;

    *steps = 0;
    for (unsigned at = 0; at < length; at++) {
        const struct sock_filter *statement = &program[at];
        ++*steps;
        switch (statement->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_int_equal(statement->k, KEY_OFFSET);
            accumulator = key;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += accumulator >= statement->k ? statement->jt : statement->jf;
            break;
        case BPF_JMP | BPF_JA:
            at += statement->k;
            break;
        case BPF_RET | BPF_K:
            return statement->k;
        default:
            fail_msg("unexpected instruction 0x%x", statement->code);
        }
    }
    fail_msg("ran off the end");
    return 0;
}

static unsigned log2_up(unsigned count)
{
    unsigned result = 0;

    while (1u << result < count) {
        result++;
    }
    return result;
}

TEST(program__finds_each_key_in_few_steps)
{
    static struct rawe_fanout_place places[KEYS_MAX];
    static struct sock_filter program[RAWE_FANOUT_PROGRAM_MAX(KEYS_MAX)];

    for (unsigned count = 1; count <= KEYS_MAX; count++) {
        for (unsigned i = 0; i < count; i++) {
            /* Keys cover the whole range, including both ends; places are not in order. */
            places[i].key = count == 1 ? 77 : (uint32_t)((uint64_t)UINT32_MAX * i / (count - 1));
            places[i].place = i * 7 % count;
        }
        const unsigned length = rawe_fanout_program(program, places, count, KEY_OFFSET);
        assert_true(length <= RAWE_FANOUT_PROGRAM_MAX(count));
        assert_true(length <= BPF_MAXINSNS);
        for (unsigned i = 0; i < count; i++) {
            unsigned steps;
            assert_int_equal(run(program, length, places[i].key, &steps), places[i].place);
            assert_true(steps <= 2 + 2 * log2_up(count));
        }
    }
}

TEST(program__answers_with_a_member_for_any_key)
{
    const struct rawe_fanout_place places[] = {{10, 2}, {20, 0}, {30, 1}};
    static const uint32_t keys[] = {0, 9, 11, 19, 21, 31, 0x7FFFFFFF, 0x80000000, UINT32_MAX};
    struct sock_filter program[RAWE_FANOUT_PROGRAM_MAX(3)];
    const unsigned length = rawe_fanout_program(program, places, 3, KEY_OFFSET);

    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        unsigned steps;
        assert_true(run(program, length, keys[i], &steps) <= 2);
    }
}

TEST(member__has_the_keys_of_its_frames)
{
    struct rawe_port_config config = {
        .interface_index = 3, .ethertype = 0x88B5, .key = 11, .ping_key = 12};
    const struct rawe_fanout_member link = rawe_fanout_member(5, &config);
    config.use = RAWE_PORT_BULK;
    const struct rawe_fanout_member bulk = rawe_fanout_member(6, &config);
    config.use = RAWE_PORT_RESPONDER;
    const struct rawe_fanout_member responder = rawe_fanout_member(7, &config);

    assert_int_equal(link.key_count, 1);
    assert_int_equal(link.keys[0], 11);
    assert_int_equal(link.ethertype, 0x88B5);
    assert_int_equal(bulk.key_count, 1);
    assert_int_equal(bulk.keys[0], 11);
    assert_int_equal(bulk.ethertype, 0x0800);
    assert_int_equal(responder.key_count, 2);
    assert_int_equal(responder.keys[0] + responder.keys[1], 23);
    assert_true(rawe_fanout_compatible(&link, &link));
    assert_false(rawe_fanout_compatible(&link, &bulk));
    assert_false(rawe_fanout_compatible(&link, &responder));
}

/** Read the key where the program reads it; `packet` begins after the Ethernet header. */
static uint32_t key_in(const uint8_t *packet, enum rawe_port_use use)
{
    const uint8_t *at = packet + rawe_filter_key_offset(use);

    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

TEST(key_offset__where_frames_and_batches_have_it)
{
    const struct rawe_header header = {.type = RAWE_FRAME_BULK, .key = 0x89ABCDEF};
    const struct rawe_batch batch = {
        .header = header,
        .fragment = {.kind = RAWE_FRAGMENT_PUT, .data_bytes = 1000},
        .segment_bytes = 1000,
        .frames = 1,
    };
    uint8_t frame[RAWE_HEADER_BYTES];
    uint8_t packet[RAWE_FILTER_BULK_OFFSET - RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES] = {0};

    rawe_header_encode(frame, &header);
    rawe_batch_encode(packet + RAWE_FILTER_BULK_OFFSET - RAWE_ETH_HEADER_BYTES, &batch);
    assert_int_equal(key_in(frame, RAWE_PORT_EXPRESS), 0x89ABCDEF);
    assert_int_equal(key_in(frame, RAWE_PORT_RESPONDER), 0x89ABCDEF);
    assert_int_equal(key_in(packet, RAWE_PORT_BULK), 0x89ABCDEF);
}

TEST(compatible__only_on_the_same_interface)
{
    struct rawe_port_config config = {.interface_index = 3, .ethertype = 0x88B5, .key = 11};
    const struct rawe_fanout_member one = rawe_fanout_member(5, &config);

    config.interface_index = 4;
    const struct rawe_fanout_member other = rawe_fanout_member(6, &config);
    assert_false(rawe_fanout_compatible(&one, &other));
}
