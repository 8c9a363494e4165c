/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module and the endpoint of a peer: see unit_contact.h.
 */
#include "unit_contact.h"

#include <string.h>

#include "unit_callback.h"

mca_btl_rawe_module_t module, lo;
mca_btl_base_endpoint_t endpoint;
opal_proc_t peer_proc;
struct mca_btl_rawe_published theirs;
bool given_up;
unsigned opened, opened_address;
uint32_t opened_mtu_bytes;

bool mca_btl_rawe_proc_given_up(opal_process_name_t name)
{
    return given_up;
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_get(mca_btl_rawe_module_t *of, opal_proc_t *proc,
                                                   const struct mca_btl_rawe_address *address,
                                                   uint32_t path_mtu_bytes)
{
    assert_ptr_equal(of, &module);
    assert_ptr_equal(proc, endpoint.proc);
    assert_memory_equal(address, &theirs.addresses[opened_address], sizeof(*address));
    opened_mtu_bytes = path_mtu_bytes;
    opened++;
    return &endpoint;
}

void unit_contact_begin(void)
{
    fake_ompi_begin();
    memset(&module, 0, sizeof(module));
    memset(&lo, 0, sizeof(lo));
    OBJ_CONSTRUCT(&module.endpoints_lock, opal_mutex_t);
    OBJ_CONSTRUCT(&mca_btl_rawe_state.routes_lock, opal_mutex_t);
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &module;
    module.address = (struct mca_btl_rawe_address){.mac = {2, 0, 0, 0, 0, 9}, .mtu_bytes = 1500};
    theirs = (struct mca_btl_rawe_published){
        .host = THEIR_HOST,
        .count = 1,
        .addresses = {{.mac = {2, 0, 0, 0, 0, 1}, .mtu_bytes = 1500}},
    };
    given_up = false;
    opened = opened_address = 0;
    memset(&endpoint, 0, sizeof(endpoint));
    rawe_route_init(&endpoint.peer.route);
    endpoint.peer.owner = &endpoint;
    endpoint.module = &module;
    endpoint.in_use = true;
    unit_callback_begin();
}

void unit_contact_end(void)
{
    unit_callback_end();
    OBJ_DESTRUCT(&mca_btl_rawe_state.routes_lock);
    OBJ_DESTRUCT(&module.endpoints_lock);
}
