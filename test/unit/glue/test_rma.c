/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the module for windows: accesses to this process's own memory, refused accesses, and
 * accesses that outlive the endpoint of their process.
 */

#include <string.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lifecycle.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_contact.h"
#include "btl_rawe_send.h"
#include "btl_rawe_thread.h"
#include "fake_ompi.h"

static mca_btl_base_module_t *btl;
static struct mca_btl_base_endpoint_t *self;
static unsigned done;
static int done_status;
static opal_proc_t *other;                    /**< another process, or NULL */
static struct mca_btl_base_endpoint_t *named; /**< osc/rdma's endpoint for `other` */
static mca_btl_rawe_module_t module;          /**< reaches `other`, over an unconnected wire */
static mca_btl_base_endpoint_t reached;
static bool local; /**< `other` is on this host, and only lo could reach it */

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_in_order(const opal_proc_t *proc)
{
    assert_ptr_equal(proc, other);
    return local ? NULL : &reached;
}

bool mca_btl_rawe_contact_on_this_host(const opal_proc_t *proc)
{
    assert_ptr_equal(proc, other);
    assert_true(local);
    return true;
}

mca_btl_base_endpoint_t *mca_btl_rawe_contact_open_local(opal_proc_t *proc)
{
    assert_ptr_equal(proc, other);
    assert_true(local);
    return NULL; /* lo cannot be opened */
}

mca_btl_base_registration_handle_t *mca_btl_rawe_register_mem(mca_btl_base_module_t *of,
                                                              mca_btl_base_endpoint_t *endpoint,
                                                              void *base, size_t size,
                                                              uint32_t flags)
{
    fail_msg("registers %zu bytes", size);
    return NULL;
}

int mca_btl_rawe_deregister_mem(mca_btl_base_module_t *of,
                                mca_btl_base_registration_handle_t *handle)
{
    fail_msg("deregisters %u", handle->index);
    return OPAL_ERROR;
}

void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *of, unsigned how)
{
    assert_ptr_equal(of, &module);
    of->thread_mode = how;
}

static void note_done(mca_btl_base_module_t *of, struct mca_btl_base_endpoint_t *endpoint,
                      void *local_address, mca_btl_base_registration_handle_t *local_handle,
                      void *context, void *cbdata, int status)
{
    assert_ptr_equal(of, btl);
    assert_ptr_equal(endpoint, NULL != other ? named : self);
    done++;
    done_status = status;
}

static void set_up(void)
{
    opal_proc_t *proc = OBJ_NEW(opal_proc_t);

    fake_ompi_begin();
    opal_proc_local_set(proc);
    OBJ_RELEASE(proc);
    rawe_handle_table_init(&mca_btl_rawe_state.handles, 1);
    done = 0;
    assert_true(mca_btl_rawe_free_list_init(&mca_btl_rawe_state.operations,
                                            OBJ_CLASS(mca_btl_rawe_fragment_t),
                                            sizeof(mca_btl_rawe_fragment_t)));
    btl = mca_btl_rawe_rma_open();
    assert_int_equal(btl->btl_register_error(btl, fake_ompi_error), OPAL_SUCCESS);
    assert_int_equal(btl->btl_add_procs(btl, 1, &proc, &self, NULL), OPAL_SUCCESS);
    assert_non_null(self);
}

static void tear_down(void)
{
    assert_null(fake_ompi.blamed); /* 5.0 may go on without a blamed process */
    opal_proc_t *proc = opal_proc_local_get();

    assert_int_equal(btl->btl_del_procs(btl, 1, &proc, &self), OPAL_SUCCESS);
    opal_proc_local_set(NULL);
    mca_btl_rawe_rma_close();
    OBJ_DESTRUCT(&mca_btl_rawe_state.operations);
    rawe_handle_table_free(&mca_btl_rawe_state.handles);
}

FIXTURE(set_up, tear_down);

TEST(put__to_itself)
{
    mca_btl_base_registration_handle_t handle = {.base = 1000};
    char from[8] = "1234567", to[16] = "";

    assert_true(rawe_handle_register(&mca_btl_rawe_state.handles, to, sizeof(to), &handle.index,
                                     &handle.key, RAWE_ACCESS_WRITE));
    assert_int_equal(btl->btl_put(btl, self, from, 1004, NULL, &handle, sizeof(from), 0,
                                  MCA_BTL_NO_ORDER, note_done, NULL, NULL),
                     OPAL_SUCCESS);
    assert_int_equal(done, 1);
    assert_int_equal(done_status, OPAL_SUCCESS);
    assert_string_equal(to + 4, from);
    assert_int_equal(fake_ompi.errors, 0);
}

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

static int fetch_and_add(struct mca_btl_base_endpoint_t *endpoint, void *before, const void *word,
                         uint64_t operand, int flags)
{
    return btl->btl_atomic_fop(btl, endpoint, before, address_of(word), NULL, NULL,
                               MCA_BTL_ATOMIC_ADD, operand, flags, MCA_BTL_NO_ORDER, note_done,
                               NULL, NULL);
}

static int compare_and_swap(struct mca_btl_base_endpoint_t *endpoint, void *before,
                            const void *word, uint64_t compare, uint64_t value, int flags)
{
    return btl->btl_atomic_cswap(btl, endpoint, before, address_of(word), NULL, NULL, compare,
                                 value, flags, MCA_BTL_NO_ORDER, note_done, NULL, NULL);
}

/** Access memory that this process can reach itself: osc/rdma passes no handle for it. */
static void access_without_handle(struct mca_btl_base_endpoint_t *endpoint)
{
    uint64_t word = 5, before = 0;
    uint32_t narrow[2] = {7, 8}, narrow_before = 0;
    char from[8] = "1234567", to[8] = "";

    assert_int_equal(btl->btl_put(btl, endpoint, from, address_of(to), NULL, NULL, 8, 0,
                                  MCA_BTL_NO_ORDER, note_done, NULL, NULL),
                     OPAL_SUCCESS);
    assert_string_equal(to, "1234567");
    assert_int_equal(btl->btl_get(btl, endpoint, from, address_of(to + 1), NULL, NULL, 7, 0,
                                  MCA_BTL_NO_ORDER, note_done, NULL, NULL),
                     OPAL_SUCCESS);
    assert_string_equal(from, "234567");
    assert_int_equal(fetch_and_add(endpoint, &before, &word, 10, 0), OPAL_SUCCESS);
    assert_int_equal(before, 5);
    assert_int_equal(word, 15);
    assert_int_equal(compare_and_swap(endpoint, &before, &word, 15, 1ull << 40, 0), OPAL_SUCCESS);
    assert_int_equal(before, 15);
    assert_int_equal(word, 1ull << 40);
    assert_int_equal(compare_and_swap(endpoint, &before, &word, 15, 3, 0), OPAL_SUCCESS);
    assert_int_equal(before, 1ull << 40);
    assert_int_equal(word, 1ull << 40);
    assert_int_equal(fetch_and_add(endpoint, &narrow_before, narrow, 1, MCA_BTL_ATOMIC_FLAG_32BIT),
                     OPAL_SUCCESS);
    assert_int_equal(narrow_before, 7);
    assert_int_equal(narrow[0], 8);
    assert_int_equal(narrow[1], 8);
    assert_int_equal(btl->btl_atomic_op(btl, endpoint, address_of(&word), NULL, MCA_BTL_ATOMIC_SWAP,
                                        2, 0, MCA_BTL_NO_ORDER, note_done, NULL, NULL),
                     OPAL_SUCCESS);
    assert_int_equal(word, 2);
    assert_int_equal(done, 7);
    assert_int_equal(done_status, OPAL_SUCCESS);
    assert_int_equal(fake_ompi.errors, 0);
}

TEST(access__to_itself_without_a_handle)
{
    access_without_handle(self);
}

/** Start a PUT to unregistered memory. */
static int put_wrongly(struct mca_btl_base_endpoint_t *endpoint, void *from, size_t bytes)
{
    mca_btl_base_registration_handle_t handle = {.index = 5, .key = 6};

    return btl->btl_put(btl, endpoint, from, 0, NULL, &handle, bytes, 0, MCA_BTL_NO_ORDER,
                        note_done, NULL, NULL);
}

/** Start a GET from unregistered memory. */
static int get_wrongly(struct mca_btl_base_endpoint_t *endpoint, void *to, size_t bytes)
{
    mca_btl_base_registration_handle_t handle = {.index = 5, .key = 6};

    return btl->btl_get(btl, endpoint, to, 0, NULL, &handle, bytes, 0, MCA_BTL_NO_ORDER, note_done,
                        NULL, NULL);
}

/** The program is at fault; no process has failed. */
TEST(access__refused_ends_the_job_and_blames_no_process)
{
    char data[8] = "1234567";

    assert_int_equal(put_wrongly(self, data, sizeof(data)), OPAL_SUCCESS);
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("access_refused", "there");
    assert_int_equal(fake_ompi.errors, 1);
    assert_int_equal(done, 1);
    assert_int_equal(done_status, OPAL_ERR_UNREACH);
    done_status = OPAL_SUCCESS;
    assert_int_equal(get_wrongly(self, data, sizeof(data)), OPAL_SUCCESS);
    assert_int_equal(fake_ompi.errors, 2);
    assert_int_equal(done_status, OPAL_ERR_UNREACH);
}

/** Set up with another process, `other`. */
static void set_up_other(void)
{
    const struct rawe_peer_config peer = {
        .payload_max_bytes = 1472,
        .owner = &reached,
    };

    set_up();
    fake_ompi.now_ns = 1000;
    memset(&module, 0, sizeof(module));
    memset(&reached, 0, sizeof(reached));
    unit_engine_start(&module.engine, &mca_btl_rawe_state.handles, &module);
    reached.module = &module;
    reached.in_order = &reached;
    rawe_peer_init(&reached.peer, &module.engine, &peer);
    other = OBJ_NEW(opal_proc_t);
    other->proc_name = OPAL_PROC_MY_NAME;
    other->proc_name.vpid = 4;
    assert_int_equal(btl->btl_add_procs(btl, 1, &other, &named, NULL), OPAL_SUCCESS);
    assert_non_null(named);
}

static void tear_down_other(void)
{
    rawe_peer_close(&reached.peer);
    rawe_engine_free(&module.engine);
    tear_down();
    local = false;
    assert_int_equal(((opal_object_t *)other)->obj_reference_count, 1); /* our own reference */
    OBJ_RELEASE(other);
    other = NULL;
}

static const struct unit_fixture with_other = {set_up_other, tear_down_other};

/** Access memory that the other process shares with this one. */
TEST_WITH(with_other, access__to_a_peer_without_a_handle)
{
    access_without_handle(named);
    assert_int_equal(module.engine.operations.in_use, 0);
    assert_int_equal(btl->btl_del_procs(btl, 1, &other, &named), OPAL_SUCCESS);
}

static struct rawe_operation *read_from_other(void *to, size_t bytes)
{
    assert_int_equal(get_wrongly(named, to, bytes), OPAL_SUCCESS);
    assert_int_equal(done, 0);
    assert_int_equal(module.engine.operations.in_use, 1);
    return module.engine.operations.entries[0];
}

/** The window was not freed, so an access may still be refused; the report names the process. */
TEST_WITH(with_other, del_procs__what_is_under_way_may_be_refused_yet)
{
    char to[8];
    struct rawe_operation *operation = read_from_other(to, sizeof(to));

    assert_int_equal(btl->btl_del_procs(btl, 1, &other, &named), OPAL_SUCCESS);
    operation->refusal = RAWE_REFUSAL_UNKNOWN;
    rawe_peer_close(&reached.peer);
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("access_refused", "there");
    assert_int_equal(fake_ompi.errors, 1);
    assert_int_equal(done, 1);
    assert_int_equal(done_status, OPAL_ERR_UNREACH);
}

static void set_up_local(void)
{
    local = true;
    set_up_other();
}

static const struct unit_fixture with_local = {set_up_local, tear_down_other};

/** osc/rdma retries failed accesses forever, so the job has to end. */
TEST_WITH(with_local, access__without_a_way_ends_the_job)
{
    char data[8] = "";

    assert_int_equal(put_wrongly(named, data, sizeof(data)), OPAL_ERR_UNREACH);
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("window_unreachable", "rank 4");
    assert_int_equal(fake_ompi.errors, 1);
    assert_int_equal(get_wrongly(named, data, sizeof(data)), OPAL_ERR_UNREACH);
    assert_int_equal(fake_ompi.errors, 2);
    assert_int_equal(done, 0);
    assert_int_equal(btl->btl_del_procs(btl, 1, &other, &named), OPAL_SUCCESS);
}
