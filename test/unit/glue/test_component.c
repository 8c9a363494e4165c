/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the whole component between two processes with several interfaces, called as ob1 does.
 * Each message arrives once and overtakes fewer than 8192 others: ob1's numbers have 16 bits.
 */
#include "unit_processes.h"

#include <string.h>

#include "btl_rawe_offer.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_send.h"

#define TAG (MCA_BTL_TAG_USR + 1)

#define STEP_NS US
#define STEPS_MAX 2000000u
#define MESSAGES 300000u
/** Messages that the program sends per step. */
#define STEP_SENDS 8u
/** The program stops sending while this many descriptors are incomplete. */
#define OUTSTANDING_MAX 20000u
/** The callback replies to one message in 16, and makes progress for one in 23. */
#define REPLY_EACH 16u
#define WAIT_EACH 23u
/** A wire loses one packet in this many. */
#define LOST_EACH 1009u
#define SERVE_EACH_NS (100 * US)

#define TINY_BYTES 4u
#define SHORT_BYTES 200u
#define LONG_BYTES 100000u
#define LONG_FRAGMENTS 2u
#define NUMBERS 65536u /**< 16-bit message numbers */
/** RAWE_ORDER_MOST, which doc/protocol.md promises. */
#define OVERTAKEN_MOST 8192u

/** The PML's header of each message. */
struct header {
    uint32_t number;
    uint32_t fragment; /**< number within a long message, from 1; 0: not a fragment */
    uint32_t len_bytes;
};

/** A process's program. */
static struct program {
    uint32_t sent, fragments_sent;
    uint32_t expected, fragments_expected; /**< the next numbers to be received */
    bool came[NUMBERS];                    /**< by 16-bit number: the message arrived early */
    unsigned outstanding;
    unsigned deferred_outside, deferred_inside; /**< times messages were still deferred */
    unsigned turn;                              /**< the rail for the next message */
    bool computes;                              /**< the program is outside MPI */
    bool abandoned;                             /**< the program's sends fail */
    bool in_callback;
    uint64_t changes_ns; /**< when the program next leaves MPI or returns */
} programs[PROCESSES];

static struct unit_process *process; /**< the entered process */
static struct program *program;      /**< its program */
static uint32_t random_state;
static uint8_t pattern[251 + LONG_BYTES];
static opal_convertor_t convertor;
static opal_datatype_t bytes_type;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)random_state * below) >> 32);
}

/** Return content that depends on the message number. */
static uint8_t *content(uint32_t number)
{
    return &pattern[number % 251];
}

/* ---- sending, as ob1 does ---- */

static void on_sent(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *to,
                    struct mca_btl_base_descriptor_t *descriptor, int status)
{
    assert_int_equal(status == OPAL_SUCCESS, !program->abandoned);
    assert_false(program->computes);
    program->outstanding--;
}

static void send_descriptor(unsigned rail, mca_btl_base_descriptor_t *descriptor,
                            const struct header *header)
{
    assert_non_null(descriptor);
    uint8_t *data = descriptor->des_segments[0].seg_addr.pval;
    memcpy(data, header, sizeof(*header));
    memcpy(data + sizeof(*header), content(header->number), header->len_bytes);
    descriptor->des_cbfunc = on_sent;
    program->outstanding++;
    int result = mca_btl_rawe_send(&process->modules[rail]->super, process->endpoints[rail],
                                   descriptor, TAG);
    if (result == 1) {
        program->outstanding--;
    } else {
        assert_int_equal(result, OPAL_SUCCESS);
    }
}

static void send_eager(unsigned rail, uint32_t len_bytes)
{
    struct header header = {.number = program->sent++, .len_bytes = len_bytes};
    mca_btl_base_descriptor_t *descriptor = NULL;

    convertor.pBaseBuf = content(header.number);
    int result = mca_btl_rawe_sendi(
        &process->modules[rail]->super, process->endpoints[rail], &convertor, &header,
        sizeof(header), len_bytes, MCA_BTL_NO_ORDER,
        MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP, TAG, &descriptor);
    if (result != OPAL_SUCCESS) {
        assert_int_equal(result, OPAL_ERR_OUT_OF_RESOURCE);
        send_descriptor(rail, descriptor, &header);
    }
}

static void send_fragment(unsigned rail)
{
    struct header header = {.number = program->sent++,
                            .fragment = ++program->fragments_sent,
                            .len_bytes = LONG_BYTES / LONG_FRAGMENTS};

    send_descriptor(rail,
                    mca_btl_rawe_alloc(&process->modules[rail]->super, process->endpoints[rail],
                                       MCA_BTL_NO_ORDER, sizeof(header) + header.len_bytes,
                                       MCA_BTL_DES_FLAGS_BTL_OWNERSHIP),
                    &header);
}

/** Send the next message, which is usually tiny, on the rails in turn. */
static void send_next(void)
{
    unsigned kind = draw(2000), count = kind == 0 ? LONG_FRAGMENTS : 1;

    for (unsigned i = 0; i < count; i++) {
        unsigned rail = program->turn++ % rails;
        if (kind == 0) {
            send_fragment(rail);
        } else {
            send_eager(rail, kind < 40 ? SHORT_BYTES : TINY_BYTES);
        }
    }
}

/* ---- receiving, as ob1 does ---- */

/** Check a number. ob1 sees 16 bits, and would misplace a message overtaken by 32768 others. */
static void match(uint32_t number)
{
    assert_true(number >= program->expected); /* otherwise a duplicate */
    assert_true(number - program->expected < OVERTAKEN_MOST);
    assert_false(program->came[(uint16_t)number]);
    program->came[(uint16_t)number] = true;
    while (program->came[(uint16_t)program->expected]) {
        program->came[(uint16_t)program->expected++] = false;
    }
}

static void note_received(const uint8_t *data, size_t len_bytes)
{
    struct header header;

    assert_false(program->computes);
    assert_false(program->in_callback); /* messages wait until the callback returns */
    assert_true(len_bytes >= sizeof(header));
    memcpy(&header, data, sizeof(header));
    assert_int_equal(len_bytes, sizeof(header) + header.len_bytes);
    assert_memory_equal(data + sizeof(header), content(header.number), header.len_bytes);
    match(header.number);
    if (header.fragment != 0) {
        assert_int_equal(header.fragment, ++program->fragments_expected);
    }
    program->in_callback = true;
    if (process->index == 1 && header.number % REPLY_EACH == 0) {
        send_next();
    }
    if (header.number % WAIT_EACH == 0) {
        process_progress();
        program->deferred_inside += mca_btl_rawe_state.deferral.pending;
    }
    program->in_callback = false;
}

/* ---- the two programs ---- */

/** Have the entered program alternate between MPI and computing, for up to 3 ms each. */
static void come_and_go(void)
{
    if (fake_ompi.now_ns >= program->changes_ns) {
        program->deferred_outside += program->computes && mca_btl_rawe_state.deferral.pending;
        program->computes = !program->computes && program->changes_ns != 0;
        program->changes_ns = fake_ompi.now_ns + (1 + draw(3000)) * US;
    }
}

static void step(unsigned index)
{
    process = process_enter(index);
    program = &programs[index];
    come_and_go();
    if (program->computes) {
        if (fake_ompi.now_ns % SERVE_EACH_NS == 0) {
            process_serve(process);
        }
        return;
    }
    for (unsigned i = 0; index == 0 && i < STEP_SENDS && program->sent < MESSAGES &&
                         program->outstanding < OUTSTANDING_MAX;
         i++) {
        send_next();
    }
    process_progress();
}

static bool all_done(void)
{
    return programs[0].sent >= MESSAGES && programs[1].expected == programs[0].sent &&
           programs[0].expected == programs[1].sent && programs[0].outstanding == 0 &&
           programs[1].outstanding == 0;
}

/** Stall a rail for 10 ms every 20 ms; if `cuts`, also drop one rail's carrier for 5 ms. */
static void disturb(unsigned steps, bool cuts)
{
    unsigned at = steps % 20000;
    unsigned cut = steps / 20000 % rails;

    if (at == 5000) {
        rail_stall(draw(rails), 10 * MS);
    } else if (cuts && (at == 12000 || at == 17000)) {
        rail_set_carrier(cut, at == 17000);
    }
}

static bool any_has_migrated(void)
{
    uint64_t migrations = 0;

    for (unsigned rail = 0; rail < rails; rail++) {
        migrations += processes[0].modules[rail]->engine.counters.migrations;
    }
    return migrations != 0;
}

/** Send messages from process 0 to process 1, and replies, until all have arrived. */
static void run(const uint32_t *speeds_mbps, unsigned count, bool cuts)
{
    unsigned steps = 0;

    random_state = count;
    memset(programs, 0, sizeof(programs));
    processes_start(speeds_mbps, count);
    rails_lose_each = LOST_EACH;
    fake_ompi_receive(TAG, note_received);
    for (; !all_done() && steps < STEPS_MAX; steps++) {
        disturb(steps, cuts);
        time_pass(STEP_NS);
        step(0);
        step(1);
    }
    assert_true(all_done());
    assert_true(programs[1].deferred_outside != 0 && programs[1].deferred_inside != 0);
    assert_int_equal(any_has_migrated(), cuts);
    fake_ompi_receive(TAG, NULL);
    processes_stop();
}

static void set_up(void)
{
    for (size_t i = 0; i < sizeof(pattern); i++) {
        pattern[i] = (uint8_t)(i * i >> 3 ^ i);
    }
    convertor.flags =
        CONVERTOR_HOMOGENEOUS | OPAL_DATATYPE_FLAG_NO_GAPS | OPAL_DATATYPE_FLAG_CONTIGUOUS;
    convertor.pDesc = &bytes_type;
}

FIXTURE(set_up, NULL);

TEST(component_progress__messages_by_two_interfaces_overtake_few)
{
    run((const uint32_t[]){10000, 2500}, 2, false);
}

TEST(component_progress__messages_by_three_interfaces_overtake_few)
{
    run((const uint32_t[]){10000, 10000, 1000}, 3, false);
}

TEST(component_progress__messages_overtake_few_while_interfaces_lose_their_carrier)
{
    run((const uint32_t[]){10000, 2500}, 2, true);
    run((const uint32_t[]){10000, 10000, 1000}, 3, true);
}

/* ---- a live process that the others have given up ---- */

static unsigned heard[PROCESSES]; /**< error callbacks in each process */

static void note_loss(struct mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *of, char *text)
{
    assert_ptr_equal(of, process->other);
    heard[process->index]++;
}

static void pass(unsigned milliseconds)
{
    for (unsigned i = 0; i < milliseconds; i++) {
        time_pass(MS);
        for (unsigned index = 0; index < PROCESSES; index++) {
            process = process_enter(index);
            process_progress();
        }
    }
}

static void send_one(unsigned index, unsigned rail)
{
    process = process_enter(index);
    program = &programs[index];
    send_eager(rail, TINY_BYTES);
}

/** Give up process 1, which learns this by sending on rail `asks_by`, in use or not. */
static void be_given_up(unsigned asks_by)
{
    memset(programs, 0, sizeof(programs));
    memset(heard, 0, sizeof(heard));
    processes_start((const uint32_t[]){10000, 10000}, 2);
    fake_ompi.fault_tolerant = true;
    for (unsigned index = 0; index < PROCESSES; index++) {
        (void)process_enter(index);
        mca_btl_rawe_state.error_callback = note_loss;
    }
    send_one(0, 0);
    send_one(1, 0);
    pass(5);
    mca_btl_rawe_proc_listen();
    fake_ompi.departed(&processes[0].other->proc_name); /* process 0's runtime reports process 1 */
    pass(1000);
    assert_int_equal(heard[0] + heard[1], 0); /* nothing is in flight, and no probe is sent */
    programs[1].abandoned = true;
    send_one(1, asks_by);
    pass(2500);
    assert_int_equal(heard[0], 0); /* process 0's Open MPI already knows */
    assert_int_equal(heard[1], 1);
    processes_stop();
    mca_btl_rawe_proc_close();
}

TEST(component_progress__who_was_given_up_hears_of_it)
{
    be_given_up(0);
}

TEST(component_progress__who_was_given_up_hears_of_it_by_a_new_connection)
{
    be_given_up(1);
}

extern struct mca_btl_rawe_component mca_btl_rawe_component;

static unsigned yields;

int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
    yields++;
    return 0;
}

/** Progress yields the processor because the awaited rank may need it. */
TEST(component_progress__yields_where_others_use_the_processor)
{
    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    rawe_list_init(&mca_btl_rawe_state.complete);
    yields = 0;
    assert_int_equal(mca_btl_rawe_component.super.btl_progress(), 0);
    assert_int_equal(yields, 0);
    atomic_store(&mca_btl_rawe_state.shared, true);
    assert_int_equal(mca_btl_rawe_component.super.btl_progress(), 0);
    assert_int_equal(yields, 1);
    atomic_store(&mca_btl_rawe_state.shared, false);
}

static unsigned performed;

static void perform(struct mca_btl_rawe_work *work)
{
    performed++;
}

/** A callback may wait for what it sent: in order, behind what other threads handed over. */
TEST(component_progress__does_what_was_handed_over_for_a_callback_that_waits)
{
    struct mca_btl_rawe_work work = {.perform = perform};

    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    rawe_list_init(&mca_btl_rawe_state.complete);
    performed = 0;
    mca_btl_rawe_lock();
    mca_btl_rawe_lock(); /* in the callback */
    mca_btl_rawe_lock_hand_over(&work);
    mca_btl_rawe_unlock();
    assert_int_equal(performed, 0);
    assert_int_equal(mca_btl_rawe_component.super.btl_progress(), 0);
    assert_int_equal(performed, 1);
    mca_btl_rawe_unlock();
    assert_int_equal(performed, 1);
}

/* ---- the offer to coll/rawe: which processes take part ---- */

static unsigned published, capabilities;

int mca_btl_rawe_proc_publish(void)
{
    published++;
    return OPAL_SUCCESS;
}

unsigned mca_btl_rawe_proc_capabilities(opal_process_name_t name, bool wait, uint64_t *host)
{
    *host = name.vpid;
    return capabilities;
}

static void offer_set_up(void)
{
    fake_ompi_begin();
    published = capabilities = 0;
}

static const struct unit_fixture offer_fixture = {offer_set_up, NULL};

TEST_WITH(offer_fixture, announce_collectives__publishes_again_what_was_published_without_it)
{
    mca_btl_rawe_component.offer->announce(); /* 5.0: the modules are opened later */
    assert_true(mca_btl_rawe_state.collectives);
    assert_int_equal(published, 0);
    mca_btl_rawe_state.multicast_possible = true;
    mca_btl_rawe_component.offer->announce();
    assert_int_equal(published, 1);
}

TEST_WITH(offer_fixture, takes_part__as_published_by_processes_of_this_job)
{
    opal_process_name_t name = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = 7};
    uint64_t host = 0;

    assert_false(mca_btl_rawe_component.offer->takes_part(name, true, &host));
    capabilities = MCA_BTL_RAWE_CAPABILITY_MULTICAST;
    assert_true(mca_btl_rawe_component.offer->takes_part(name, true, &host));
    assert_int_equal(host, 7);
    name.jobid++;
    assert_false(mca_btl_rawe_component.offer->takes_part(name, true, &host));
}
