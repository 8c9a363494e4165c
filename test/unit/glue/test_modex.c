/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the modex: what a process publishes, another one reads; and who publishes nothing is waited
 * for once. The runtime is the test's own.
 */
#include "btl_rawe_modex.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "unit_test.h"

#define THREADS 4u
#define PROCESSES 300u /**< of each thread */

struct mca_btl_rawe_params mca_btl_rawe_params;
struct mca_btl_rawe_state mca_btl_rawe_state;
static mca_btl_base_component_3_0_0_t component;
static mca_btl_rawe_module_t modules[2];
static uint8_t published[1024]; /**< by the process asked about */
static size_t published_bytes;  /**< 0: nothing */
static atomic_uint waited;      /**< questions in which a process was waited for */
static unsigned incompatible;
static char differs[64];

int mca_btl_rawe_compat_modex_send(const mca_base_component_t *of, const void *data,
                                   size_t len_bytes)
{
    assert_ptr_equal(of, &component.btl_version);
    assert_in_range(len_bytes, 1, sizeof(published));
    memcpy(published, data, len_bytes);
    published_bytes = len_bytes;
    return OPAL_SUCCESS;
}

int mca_btl_rawe_compat_modex_receive(const mca_base_component_t *of,
                                      const opal_process_name_t *name, int wait_s, void **data,
                                      size_t *len_bytes)
{
    if (0 == published_bytes) {
        waited++;
        return OPAL_ERR_TIMEOUT;
    }
    *data = malloc(published_bytes);
    *len_bytes = published_bytes;
    assert_non_null(*data);
    memcpy(*data, published, published_bytes);
    return OPAL_SUCCESS;
}

struct mca_btl_rawe_compat_hostname mca_btl_rawe_compat_hostname(const opal_proc_t *proc)
{
    return (struct mca_btl_rawe_compat_hostname){.text = "other"};
}

void mca_btl_rawe_help_peer_incompatible(const char *peer, const char *peer_host, const char *what,
                                         const char *ours, const char *theirs)
{
    assert_string_equal(peer, "rank 5");
    assert_string_equal(peer_host, "other");
    assert_string_not_equal(ours, theirs);
    snprintf(differs, sizeof(differs), "%s", what);
    incompatible++;
}

static void set_up(void)
{
    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    memset(modules, 0, sizeof(modules));
    mca_btl_rawe_state.component = &component;
    mca_btl_rawe_params = (struct mca_btl_rawe_params){.ethertype = 0x88B5};
    for (unsigned i = 0; i < 2; ++i) {
        modules[i].super.btl_max_send_size = 65536;
        modules[i].address = (struct mca_btl_rawe_address){
            .mac = {2, 0, 0, 0, 0, (uint8_t)i},
            .port = (uint16_t)(100 + i),
            .key = 0x12345678 + i,
            .ping_port = (uint16_t)(200 + i),
            .ping_key = 0x87654321 + i,
            .mtu_bytes = 9000,
            .speed_mbps = 25000,
        };
        mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &modules[i];
    }
    published_bytes = 0;
    waited = incompatible = 0;
}

static void tear_down(void)
{
    mca_btl_rawe_modex_forget();
}

static unsigned receive(uint32_t vpid, struct mca_btl_rawe_address *addresses)
{
    opal_proc_t *proc = OBJ_NEW(opal_proc_t);

    proc->proc_name = (opal_process_name_t){.jobid = 1, .vpid = vpid};
    unsigned count = mca_btl_rawe_modex_receive(proc, addresses);
    OBJ_RELEASE(proc);
    return count;
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_modex_receive__what_was_sent)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];

    assert_int_equal(mca_btl_rawe_modex_send(), OPAL_SUCCESS);
    assert_int_equal(receive(5, addresses), 2);
    for (unsigned i = 0; i < 2; ++i) {
        const struct mca_btl_rawe_address *sent = &modules[i].address;
        assert_memory_equal(addresses[i].mac, sent->mac, RAWE_MAC_BYTES);
        assert_int_equal(addresses[i].port, sent->port);
        assert_int_equal(addresses[i].key, sent->key);
        assert_int_equal(addresses[i].ping_port, sent->ping_port);
        assert_int_equal(addresses[i].ping_key, sent->ping_key);
        assert_int_equal(addresses[i].mtu_bytes, 9000);
        assert_int_equal(addresses[i].speed_mbps, 25000);
        assert_int_equal(addresses[i].index, i);
    }
    assert_int_equal(incompatible, 0);
}

/** No more than there is: what another process has published may be anything. */
TEST(mca_btl_rawe_modex_parse__what_is_cut)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];

    assert_int_equal(mca_btl_rawe_modex_send(), OPAL_SUCCESS);
    assert_int_equal(mca_btl_rawe_modex_parse(NULL, published, published_bytes, addresses), 2);
    assert_int_equal(mca_btl_rawe_modex_parse(NULL, published, published_bytes - 1, addresses), 1);
    for (size_t bytes = 0; bytes < 8; ++bytes) {
        assert_int_equal(mca_btl_rawe_modex_parse(NULL, published, bytes, addresses), 0);
    }
}

TEST(mca_btl_rawe_modex_receive__says_what_differs)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];

    assert_int_equal(mca_btl_rawe_modex_send(), OPAL_SUCCESS);
    mca_btl_rawe_params.ethertype = 0x88B6;
    assert_int_equal(receive(5, addresses), 0);
    assert_int_equal(incompatible, 1);
    assert_string_equal(differs, "EtherType");
    mca_btl_rawe_params.ethertype = 0x88B5;
    mca_btl_rawe_params.checksum = true;
    assert_int_equal(receive(5, addresses), 0);
    assert_string_equal(differs, "btl_rawe_checksum");
    mca_btl_rawe_params.checksum = false;
    modules[0].super.btl_max_send_size = 4096;
    assert_int_equal(receive(5, addresses), 0);
    assert_int_equal(incompatible, 3);
}

static void *introduce_main(void *context)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    uint32_t first = *(uint32_t *)context;

    for (uint32_t i = 0; i < PROCESSES; ++i) {
        assert_int_equal(receive(first + i, addresses), 0);
    }
    return NULL;
}

/** Whichever threads introduce them. */
static void introduce_all(void)
{
    pthread_t threads[THREADS];
    uint32_t firsts[THREADS];

    for (unsigned i = 0; i < THREADS; ++i) {
        firsts[i] = i * PROCESSES;
        assert_int_equal(pthread_create(&threads[i], NULL, introduce_main, &firsts[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

TEST(mca_btl_rawe_modex_receive__waits_for_nobody_twice)
{
    introduce_all();
    assert_int_equal(waited, THREADS * PROCESSES);
    introduce_all();
    assert_int_equal(waited, THREADS * PROCESSES);
    mca_btl_rawe_modex_forget();
    introduce_all();
    assert_int_equal(waited, 2 * THREADS * PROCESSES);
}
