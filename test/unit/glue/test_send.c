/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sending from several MPI threads: a thread that enters with an Open MPI lock held must
 * not wait for one whose callback waits for that lock. The functions that send are fake.
 */
#include "btl_rawe_send.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_lock.h"
#include "core/conn/rawe_conn.h"

#include "btl_rawe_module.h"
#include "btl_rawe_thread.h"
#include "fake_ompi.h"
#include "unit_callback.h"
#include "unit_test.h"

#define SENDS 3u

#ifdef CONVERTOR_ACCELERATOR
#define ON_DEVICE CONVERTOR_ACCELERATOR
#else
#define ON_DEVICE CONVERTOR_CUDA
#endif

/* The rest of the component that sending needs. */
struct mca_btl_rawe_state mca_btl_rawe_state;
static mca_btl_rawe_module_t module;
static mca_btl_base_endpoint_t endpoint;
static mca_btl_base_endpoint_t other; /**< another endpoint of the same process */
static bool deferred;                 /**< callbacks were deferred during the last PUT or GET */
static mca_btl_rawe_module_t other_module;
static struct rawe_handle_table handles;

static enum rawe_peer_result result;
static unsigned sent;
static const struct rawe_send *sent_in_order[SENDS];
static unsigned reported;
static int reported_status;
static const void *sent_copy;
static size_t sent_copy_bytes;
static unsigned conversions;
static bool conversions_fail;
static struct rawe_operation *operation; /**< the PUT or GET in progress */
static bool reported_inside;             /**< a callback ran while the other thread did the work */

void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *which, unsigned how)
{
    atomic_store(&which->thread_mode, how);
}

static void note(const struct rawe_send *send)
{
    assert_in_range(sent, 0, SENDS - 1);
    sent_in_order[sent++] = send;
}

enum rawe_peer_result __wrap_rawe_peer_send(struct rawe_peer *peer, struct rawe_message *message);
enum rawe_status __wrap_rawe_peer_send_copy(struct rawe_peer *peer, uint8_t tag, const void *first,
                                            size_t first_bytes, const void *second,
                                            size_t second_bytes);
bool __wrap_rawe_balance_operate(struct rawe_peer *peer, struct rawe_operation *operation);

enum rawe_peer_result __wrap_rawe_peer_send(struct rawe_peer *peer, struct rawe_message *message)
{
    assert_ptr_equal(peer, &endpoint.in_order->peer);
    message->completed_early = false;
    note(&message->send);
    return result;
}

enum rawe_status __wrap_rawe_peer_send_copy(struct rawe_peer *peer, uint8_t tag, const void *first,
                                            size_t first_bytes, const void *second,
                                            size_t second_bytes)
{
    sent_copy = second;
    sent_copy_bytes = second_bytes;
    sent++;
    return RAWE_STATUS_DONE;
}

bool __wrap_rawe_balance_operate(struct rawe_peer *peer, struct rawe_operation *taken)
{
    assert_ptr_equal(peer, &endpoint.peer);
    deferred = module.engine.deferral->active;
    operation = taken;
    operation->refusal = RAWE_REFUSAL_NONE;
    return RAWE_PEER_NO_MEMORY != result;
}

/** Pretend to copy from the device, as opal_convertor_t.fAdvance. */
static int32_t convert(opal_convertor_t *convertor, struct iovec *iov, uint32_t *count,
                       size_t *bytes)
{
    assert_int_equal(*count, 1);
    memset(iov->iov_base, 'd', iov->iov_len);
    *bytes = iov->iov_len;
    conversions++;
    return conversions_fail ? -1 : 1;
}

static mca_btl_rawe_fragment_t *fragments[SENDS];

static void on_sent(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *to,
                    struct mca_btl_base_descriptor_t *descriptor, int status)
{
    assert_ptr_equal(btl, &module.super);
    assert_ptr_equal(to, &endpoint);
    assert_non_null(descriptor);
    reported++;
    reported_status = status;
    reported_inside = reported_inside || unit_callback_leaving();
}

static void set_up(void)
{
    const struct rawe_peer_config peer = {.key = 1, .owner = &endpoint};

    fake_ompi_begin();
    fake_ompi.now_ns = 1;
    memset(&module, 0, sizeof(module));
    memset(&other_module, 0, sizeof(other_module));
    memset(&endpoint, 0, sizeof(endpoint));
    rawe_handle_table_init(&handles, 1);
    unit_engine_start(&module.engine, &handles, &module);
    unit_engine_start(&other_module.engine, &handles, &other_module);
    other_module.engine.deferral = module.engine.deferral; /* one process's modules share it */
    rawe_peer_init(&endpoint.peer, &module.engine, &peer);
    module.super.btl_max_send_size = 65536;
    OBJ_CONSTRUCT(&module.fragments_small, opal_free_list_t);
    OBJ_CONSTRUCT(&mca_btl_rawe_state.operations, opal_free_list_t);
    endpoint.module = &module;
    endpoint.in_order = &endpoint;
    sent = reported = conversions = 0;
    operation = NULL;
    reported_inside = false;
    result = RAWE_PEER_COMPLETE;
    for (unsigned i = 0; i < SENDS; ++i) {
        fragments[i] = malloc(sizeof(*fragments[i]) + MCA_BTL_RAWE_SMALL_BYTES);
        OBJ_CONSTRUCT(fragments[i], mca_btl_rawe_fragment_t);
        fragments[i]->list = &mca_btl_rawe_state.operations;
        fragments[i]->base.des_flags = 0;
        fragments[i]->base.des_cbfunc = on_sent;
        fragments[i]->segments[0].seg_addr.pval = fragments[i]->data;
        fragments[i]->segments[0].seg_len = 100;
    }
    unit_callback_begin();
}

static void tear_down(void)
{
    unit_callback_end();
    for (unsigned i = 0; i < SENDS; ++i) {
        OBJ_DESTRUCT(fragments[i]);
        free(fragments[i]);
    }
    OBJ_DESTRUCT(&module.fragments_small);
    OBJ_DESTRUCT(&mca_btl_rawe_state.operations);
    rawe_engine_free(&module.engine);
    rawe_engine_free(&other_module.engine);
    rawe_handle_table_free(&handles);
}

static void on_put(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *to,
                   void *local_address, mca_btl_base_registration_handle_t *local_handle,
                   void *context, void *cbdata, int status)
{
    reported++;
    reported_status = status;
    reported_inside = reported_inside || unit_callback_leaving();
}

static void send_all(void)
{
    for (unsigned i = 0; i < SENDS; ++i) {
        int status = mca_btl_rawe_send(&module.super, &endpoint, &fragments[i]->base, 1);
        assert_int_equal(status, OPAL_SUCCESS);
    }
    assert_int_equal(sent, 0); /* only the other thread may be in the engine */
}

static void deliver(void)
{
    mca_btl_rawe_lock();
    mca_btl_rawe_send_complete_deferred();
    rawe_engine_deliver_deferred(&module.engine);
    mca_btl_rawe_unlock();
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_send__does_not_wait_for_a_callback)
{
    unit_callback_beside(send_all);
    assert_int_equal(sent, SENDS);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    for (unsigned i = 0; i < SENDS; ++i) {
        assert_ptr_equal(sent_in_order[i], &fragments[i]->message.send);
    }
    assert_int_equal(reported, 0);
    deliver();
    assert_int_equal(reported, SENDS);
    assert_int_equal(reported_status, OPAL_SUCCESS);
    assert_false(reported_inside);
    assert_false(module.engine.deferral->active);
}

/** Messages that must keep their order all use one endpoint of the process. */
TEST(mca_btl_rawe_send__by_the_endpoint_that_keeps_the_order)
{
    endpoint.in_order = &other;
    other.module = &module;
    unit_callback_beside(send_all);
    deliver();
    assert_int_equal(reported, SENDS);
}

TEST(mca_btl_rawe_send__reports_later_what_failed_meanwhile)
{
    static const struct {
        enum rawe_peer_result result;
        int status;
    } cases[] = {
        {RAWE_PEER_FAILED, OPAL_ERR_UNREACH},
        {RAWE_PEER_NO_MEMORY, OPAL_ERR_OUT_OF_RESOURCE}, /* the peer is not lost */
    };
    for (unsigned i = 0; i < 2; ++i) {
        sent = reported = 0;
        result = cases[i].result;
        unit_callback_beside(send_all);
        deliver();
        assert_int_equal(reported, SENDS);
        assert_int_equal(reported_status, cases[i].status);
    }
}

TEST(mca_btl_rawe_send__behind_what_was_handed_over)
{
    result = RAWE_PEER_QUEUED;
    fragments[0]->endpoint = &endpoint;
    unit_callback_beside(send_all);
    assert_int_equal(sent, SENDS);
    sent = 0;
    /* With no other thread in the engine, the fragment is sent at once. */
    assert_int_equal(mca_btl_rawe_send(&module.super, &endpoint, &fragments[0]->base, 1),
                     OPAL_SUCCESS);
    assert_int_equal(sent, 1);
    assert_int_equal(reported, 0);
}

/** Waited for twice: when a thread is inside, and when another one has handed over a part. */
static pthread_barrier_t steps;

/** Act as the thread inside, whose callback sends the next part. */
static void *send_next_main(void *context)
{
    mca_btl_rawe_lock();
    pthread_barrier_wait(&steps);
    pthread_barrier_wait(&steps);
    mca_btl_rawe_lock(); /* in the callback */
    assert_int_equal(mca_btl_rawe_send(&module.super, &endpoint, &fragments[1]->base, 1),
                     OPAL_SUCCESS);
    mca_btl_rawe_unlock();
    mca_btl_rawe_unlock();
    return context;
}

/** The parts of a long message have no PRIORITY: their order matters. */
TEST(mca_btl_rawe_send__in_a_callback_behind_what_was_handed_over)
{
    pthread_t thread;

    result = RAWE_PEER_QUEUED;
    pthread_barrier_init(&steps, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, send_next_main, NULL), 0);
    pthread_barrier_wait(&steps);
    assert_int_equal(mca_btl_rawe_send(&module.super, &endpoint, &fragments[0]->base, 1),
                     OPAL_SUCCESS);
    assert_int_equal(sent, 0);
    pthread_barrier_wait(&steps);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&steps);
    assert_int_equal(sent, 2);
    assert_ptr_equal(sent_in_order[0], &fragments[0]->message.send);
    assert_ptr_equal(sent_in_order[1], &fragments[1]->message.send);
    assert_int_equal(reported, 0);
}

static void sendi(void)
{
    mca_btl_base_descriptor_t *descriptor = NULL;
    char header[8] = {0};

    assert_int_equal(mca_btl_rawe_sendi(&module.super, &endpoint, NULL, header, sizeof(header), 0,
                                        MCA_BTL_NO_ORDER, MCA_BTL_DES_FLAGS_PRIORITY, 1, NULL),
                     OPAL_ERR_OUT_OF_RESOURCE);
    assert_null(descriptor);
    assert_int_equal(sent, 0);
}

TEST(mca_btl_rawe_sendi__does_not_wait_for_a_callback)
{
    unit_callback_beside(sendi);
    assert_int_equal(sent, 0);
}

static mca_btl_base_registration_handle_t handle;

static void put(void)
{
    static char memory[64];
    opal_free_list_return(&mca_btl_rawe_state.operations, (opal_free_list_item_t *)fragments[0]);

    assert_int_equal(mca_btl_rawe_put(&module.super, &endpoint, memory, 0, NULL, &handle,
                                      sizeof(memory), 0, MCA_BTL_NO_ORDER, on_put, NULL, NULL),
                     OPAL_SUCCESS);
    assert_null(operation);
}

TEST(mca_btl_rawe_put__does_not_wait_for_a_callback)
{
    result = RAWE_PEER_QUEUED;
    unit_callback_beside(put);
    assert_non_null(operation);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(reported, 0);
}

TEST(mca_btl_rawe_put__reports_later_what_failed_meanwhile)
{
    result = RAWE_PEER_NO_MEMORY;
    unit_callback_beside(put);
    assert_int_equal(reported, 0);
    deliver();
    assert_int_equal(reported, 1);
    assert_int_equal(reported_status, OPAL_ERR_OUT_OF_RESOURCE); /* the peer is alive */
    assert_false(reported_inside);
    assert_ptr_equal(opal_free_list_get(&mca_btl_rawe_state.operations),
                     fragments[0]); /* given back */
}

/** Prepare a PUT to a process with two reachable interfaces. */
static void two_routes(void)
{
    const struct rawe_peer_config config = {.key = 2, .owner = &other};

    opal_free_list_return(&mca_btl_rawe_state.operations, (opal_free_list_item_t *)fragments[0]);
    memset(&other, 0, sizeof(other));
    other.module = &other_module;
    rawe_peer_init(&other.peer, &other_module.engine, &config);
    rawe_peer_join(&other.peer, &endpoint.peer);
    result = RAWE_PEER_QUEUED;
}

/** Assert that the PUT's fragment was given back, and close the second route. */
static void two_routes_over(void)
{
    assert_ptr_equal(opal_free_list_get(&mca_btl_rawe_state.operations), fragments[0]);
    rawe_peer_close(&other.peer);
}

static char spread_memory[5000];

static void put_spread(void)
{
    assert_int_equal(mca_btl_rawe_put(&module.super, &endpoint, spread_memory, 7, NULL, &handle,
                                      sizeof(spread_memory), 0, MCA_BTL_NO_ORDER, on_put, NULL,
                                      NULL),
                     OPAL_SUCCESS);
}

TEST(mca_btl_rawe_put__writes_to_what_the_handle_names_by_all_routes)
{
    two_routes();
    put_spread();
    assert_int_equal(operation->kind, RAWE_FRAGMENT_PUT);
    assert_true(operation->spreads);
    assert_ptr_equal(operation->local, spread_memory);
    assert_int_equal(operation->len_bytes, sizeof(spread_memory));
    assert_int_equal(operation->offset, 7);
    assert_int_equal(reported, 0);
    operation->done(operation, RAWE_STATUS_FAILED);
    assert_int_equal(reported, 1);
    assert_int_equal(reported_status, OPAL_ERR_UNREACH);
    two_routes_over();
}

static void put_spread_beside(void)
{
    put_spread();
    assert_null(operation);
}

/** While another thread is inside, no engine that sends part of the PUT calls Open MPI. */
TEST(mca_btl_rawe_put__handed_over_goes_by_several_routes)
{
    two_routes();
    unit_callback_beside(put_spread_beside);
    assert_non_null(operation);
    assert_true(deferred);
    assert_false(module.engine.deferral->active);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(other_module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    operation->done(operation, RAWE_STATUS_DONE);
    assert_int_equal(reported, 1);
    two_routes_over();
}

enum { DEVICE_BYTES = 300 };

static opal_convertor_t convertor;
static opal_datatype_t bytes_of_device;

/** Map memory that only the convertor can read, like an accelerator's. */
static void device_new(void)
{
    memset(&convertor, 0, sizeof(convertor));
    convertor.flags = CONVERTOR_HOMOGENEOUS | OPAL_DATATYPE_FLAG_NO_GAPS |
                      OPAL_DATATYPE_FLAG_CONTIGUOUS | ON_DEVICE;
    convertor.pDesc = &bytes_of_device;
    convertor.count = 1;
    convertor.fAdvance = convert;
    convertor.local_size = DEVICE_BYTES;
    // cppcheck-suppress invalidFunctionArg
    convertor.pBaseBuf = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(convertor.pBaseBuf, MAP_FAILED);
}

static void device_free(void)
{
    munmap(convertor.pBaseBuf, 4096);
}

TEST(mca_btl_rawe_prepare_src__has_device_memory_packed)
{
    size_t size = DEVICE_BYTES;

    device_new();
    assert_int_equal(opal_free_list_init(&module.fragments_small,
                                         sizeof(mca_btl_rawe_fragment_t) + MCA_BTL_RAWE_SMALL_BYTES,
                                         64, OBJ_CLASS(mca_btl_rawe_fragment_t), 0, 64, 1, -1, 1,
                                         NULL, 0, NULL, NULL, NULL),
                     OPAL_SUCCESS);
    mca_btl_base_descriptor_t *descriptor = mca_btl_rawe_prepare_src(
        &module.super, &endpoint, &convertor, MCA_BTL_NO_ORDER, 14, &size, 0);
    assert_non_null(descriptor);
    assert_int_equal(conversions, 1);
    assert_int_equal(size, DEVICE_BYTES);
    assert_int_equal(descriptor->des_segment_count, 1);
    assert_int_equal(descriptor->des_segments[0].seg_len, 14 + DEVICE_BYTES);
    const char *data = descriptor->des_segments[0].seg_addr.pval;
    assert_int_equal(data[14], 'd');
    assert_int_equal(data[14 + DEVICE_BYTES - 1], 'd');
    mca_btl_rawe_free(&module.super, descriptor);
    device_free();
}

TEST(mca_btl_rawe_sendi__has_device_memory_packed)
{
    char header[14] = "";

    device_new();
    assert_int_equal(mca_btl_rawe_sendi(&module.super, &endpoint, &convertor, header,
                                        sizeof(header), DEVICE_BYTES, MCA_BTL_NO_ORDER, 0, 1, NULL),
                     OPAL_SUCCESS);
    assert_int_equal(conversions, 1);
    assert_int_equal(sent, 1);
    assert_ptr_not_equal(sent_copy, convertor.pBaseBuf);
    assert_int_equal(sent_copy_bytes, DEVICE_BYTES);
    device_free();
}

/** The PML then packs the data into a descriptor, and itself finds that packing fails. */
TEST(mca_btl_rawe_sendi__does_not_send_what_could_not_be_packed)
{
    char header[14] = "";

    device_new();
    conversions_fail = true;
    assert_int_equal(mca_btl_rawe_sendi(&module.super, &endpoint, &convertor, header,
                                        sizeof(header), DEVICE_BYTES, MCA_BTL_NO_ORDER, 0, 1, NULL),
                     OPAL_ERR_OUT_OF_RESOURCE);
    conversions_fail = false;
    assert_int_equal(conversions, 1);
    assert_int_equal(sent, 0);
    device_free();
}

static int get(void)
{
    static char memory[5000];
    const mca_btl_base_registration_handle_t from = {.base = 1000, .key = 9, .index = 3};

    return mca_btl_rawe_get(&module.super, &endpoint, memory, 1007, NULL,
                            (mca_btl_base_registration_handle_t *)(uintptr_t)&from, sizeof(memory),
                            0, MCA_BTL_NO_ORDER, on_put, NULL, NULL);
}

/** Provide memory for one GET, and set the result of handing it to the peer. */
static void one_route(enum rawe_peer_result of_the_call)
{
    opal_free_list_return(&mca_btl_rawe_state.operations, (opal_free_list_item_t *)fragments[0]);
    result = of_the_call;
}

static void assert_over(int expected_status)
{
    assert_int_equal(reported, 1);
    assert_int_equal(reported_status, expected_status);
    assert_ptr_equal(opal_free_list_get(&mca_btl_rawe_state.operations),
                     fragments[0]); /* given back */
}

TEST(mca_btl_rawe_get__reads_what_the_handle_names_or_fails_with_the_connection)
{
    for (unsigned fails = 0; fails < 2; fails++) {
        one_route(RAWE_PEER_QUEUED);
        assert_int_equal(get(), OPAL_SUCCESS);
        assert_int_equal(operation->handle_index, 3);
        assert_int_equal(operation->handle_key, 9);
        assert_int_equal(operation->offset, 7);
        assert_int_equal(operation->len_bytes, 5000);
        assert_int_equal(operation->kind, RAWE_FRAGMENT_GET);
        assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
        assert_int_equal(reported, 0);
        operation->done(operation, fails ? RAWE_STATUS_FAILED : RAWE_STATUS_DONE);
        assert_over(fails ? OPAL_ERR_UNREACH : OPAL_SUCCESS);
        reported = 0;
    }
}

/** An empty GET completes at once: the engines do not support empty accesses. */
TEST(mca_btl_rawe_get__of_nothing_is_complete)
{
    one_route(RAWE_PEER_QUEUED);
    assert_int_equal(mca_btl_rawe_get(&module.super, &endpoint, NULL, 0, NULL, &handle, 0, 0,
                                      MCA_BTL_NO_ORDER, on_put, NULL, NULL),
                     OPAL_SUCCESS);
    assert_null(operation);
    assert_over(OPAL_SUCCESS);
}

TEST(mca_btl_rawe_get__without_memory_nothing_is_taken)
{
    one_route(RAWE_PEER_NO_MEMORY);
    assert_int_equal(get(), OPAL_ERR_OUT_OF_RESOURCE);
    assert_int_equal(reported, 0);
    assert_ptr_equal(opal_free_list_get(&mca_btl_rawe_state.operations),
                     fragments[0]); /* given back */
}

TEST(mca_btl_rawe_get__refused_ends_the_job_and_blames_no_process)
{
    one_route(RAWE_PEER_QUEUED);
    endpoint.proc = OBJ_NEW(opal_proc_t);
    assert_int_equal(get(), OPAL_SUCCESS);
    operation->refusal = RAWE_REFUSAL_UNKNOWN;
    operation->done(operation, RAWE_STATUS_FAILED);
    fake_ompi_assert_shown("access_refused", "not registered");
    assert_int_equal(fake_ompi.errors, 1);
    assert_ptr_equal(fake_ompi.failed, &module.super);
    assert_null(fake_ompi.blamed);
    OBJ_RELEASE(endpoint.proc);
    assert_over(OPAL_ERR_UNREACH);
}

static void get_beside(void)
{
    assert_int_equal(get(), OPAL_SUCCESS);
    assert_null(operation);
}

TEST(mca_btl_rawe_get__does_not_wait_for_a_callback)
{
    one_route(RAWE_PEER_QUEUED);
    unit_callback_beside(get_beside);
    assert_true(deferred);
    assert_false(module.engine.deferral->active);
    operation->done(operation, RAWE_STATUS_DONE);
    assert_over(OPAL_SUCCESS);
}

TEST(mca_btl_rawe_get__reports_later_that_memory_was_short)
{
    one_route(RAWE_PEER_NO_MEMORY);
    unit_callback_beside(get_beside);
    assert_int_equal(reported, 0);
    deliver();
    assert_false(reported_inside);
    assert_over(OPAL_ERR_OUT_OF_RESOURCE);
}
