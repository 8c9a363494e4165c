/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of peers that connect before add_procs, or send from an interface without a path, and of
 * del_procs. bml/r2 calls del_procs with its lock held, while a callback inside an engine may be
 * waiting for it.
 */
#include "btl_rawe_contact.h"

#include <string.h>

#include "unit_callback.h"
#include "unit_contact.h"

bool mca_btl_rawe_endpoint_process_lost(opal_process_name_t name)
{
    return false;
}

static unsigned peers_given_up;

void rawe_peer_give_up(struct rawe_peer *peer)
{
    assert_ptr_equal(peer, &endpoint.peer);
    peers_given_up++;
}

static mca_btl_base_endpoint_t *known; /**< the existing endpoint; NULL: none */

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_find(const mca_btl_rawe_module_t *of,
                                                    opal_process_name_t name, uint16_t port,
                                                    uint32_t key)
{
    return known != NULL && of == &module && known->address.port == port &&
                   known->address.key == key
               ? known
               : NULL;
}

static unsigned followed;
static uint8_t followed_to[RAWE_MAC_BYTES];
static const mca_btl_base_endpoint_t *follower;

void mca_btl_rawe_endpoint_follow(mca_btl_base_endpoint_t *of, const uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(followed_to, mac, RAWE_MAC_BYTES);
    follower = of;
    followed++;
}

static unsigned searched_for;

unsigned mca_btl_rawe_proc_find(opal_process_name_t name, struct mca_btl_rawe_published *out)
{
    *out = theirs;
    searched_for++;
    return theirs.count;
}

static uint32_t heard_mtu_bytes; /**< of the path over which a process was heard */

void mca_btl_rawe_proc_note_heard(uint64_t host, unsigned module_index,
                                  const uint8_t mac[RAWE_MAC_BYTES], uint32_t mtu_bytes)
{
    assert_int_equal(host, THEIR_HOST);
    heard_mtu_bytes = mtu_bytes;
}

static void set_up(void)
{
    unit_contact_begin();
    theirs.count = 0; /* unknown, unless a test sets otherwise */
    searched_for = 0;
}

FIXTURE(set_up, unit_contact_end);

/** Endpoints stay until finalize because a peer may still be waiting for an acknowledgement. */
TEST(mca_btl_rawe_del_procs__leaves_connections_to_finalize)
{
    mca_btl_base_endpoint_t *endpoints[] = {NULL, &endpoint};

    endpoint.peer.takes_part = true;
    assert_int_equal(mca_btl_rawe_del_procs(&module.super, 2, NULL, endpoints), OPAL_SUCCESS);
    assert_false(endpoint.in_use);
    assert_false(endpoint.peer.takes_part);
}

static void del(void)
{
    mca_btl_base_endpoint_t *endpoints[] = {&endpoint};

    assert_int_equal(mca_btl_rawe_del_procs(&module.super, 1, NULL, endpoints), OPAL_SUCCESS);
}

TEST(mca_btl_rawe_del_procs__does_not_wait_for_a_callback)
{
    unit_callback_beside(del);
    assert_false(endpoint.in_use);
}

/** Return true if a CONNECT from a process makes rawe give up its connections. */
static bool is_refused(void)
{
    static struct rawe_conn conn;
    const struct rawe_connect from = {.vpid = 1, .lane = RAWE_LANE_EXPRESS};

    known = &endpoint;
    endpoint.peer.conn[RAWE_LANE_EXPRESS] = &conn;
    peers_given_up = 0;
    (void)mca_btl_rawe_accept(&module, &from, module.address.mac);
    known = NULL;
    return 0 != peers_given_up;
}

TEST(mca_btl_rawe_accept__refuses_who_was_searched_for_in_vain)
{
    assert_false(is_refused());
    given_up = true;
    assert_true(is_refused());
    given_up = false; /* it can be reached after all */
    assert_false(is_refused());
}

/** Receive, through this module, a CONNECT meant for another one. */
static void call(mca_btl_rawe_module_t *through)
{
    static const uint8_t mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
    const struct rawe_connect from = {.choice = (uint8_t)(module.address.index + 1)};

    assert_null(mca_btl_rawe_accept(through, &from, mac));
}

/** The progress thread must not call Open MPI, whichever module it serves. */
TEST(mca_btl_rawe_accept__no_search_outside_of_mpi)
{
    static mca_btl_rawe_module_t through;

    memset(&through, 0, sizeof(through));
    module.open = true;
    call(&through);
    assert_int_equal(searched_for, 1);
    mca_btl_rawe_state.deferral.active = true;
    call(&through);
    mca_btl_rawe_state.deferral.active = false;
    assert_int_equal(searched_for, 1);
}

static opal_proc_t *find_peer(const opal_process_name_t name)
{
    return &peer_proc;
}

/** Receive the first CONNECT of an unknown process, over its only path. */
static void connect_from_unknown(uint32_t payload_max_bytes)
{
    static struct rawe_conn conn;
    const struct rawe_connect from = {.payload_max_bytes = (uint16_t)payload_max_bytes,
                                      .lane = RAWE_LANE_EXPRESS};

    endpoint.peer.conn[RAWE_LANE_EXPRESS] = &conn;
    theirs.count = 1;
    opal_proc_for_name = find_peer;
    endpoint.proc = &peer_proc;
    (void)mca_btl_rawe_accept(&module, &from, theirs.addresses[0].mac);
}

/** Payloads are rounded down, but a path that carries the whole MTU is not taken for a worse one. */
TEST(mca_btl_rawe_accept__learns_what_the_path_carries)
{
    theirs.addresses[0].mtu_bytes = module.address.mtu_bytes = 1472; /* 1500 over UDP */
    connect_from_unknown((1472 - RAWE_FRAME_OVERHEAD_BYTES) & ~7u);
    assert_int_equal(opened, 1);
    assert_int_equal(opened_mtu_bytes, 1472);
    assert_int_equal(heard_mtu_bytes, 1472);
    for (uint32_t mtu_bytes = 1392; mtu_bytes <= 1408; mtu_bytes++) {
        connect_from_unknown((mtu_bytes - RAWE_FRAME_OVERHEAD_BYTES) & ~7u);
        assert_in_range(opened_mtu_bytes, mtu_bytes - 7, mtu_bytes);
    }
}

static const uint8_t second_mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 2};

/** The sending interface named in the frame. */
static struct rawe_connect through_second = {.port = 2, .key = 20};

/** Receive a frame from a connected process that has published two interfaces and lo. */
static void come_from(const uint8_t mac[RAWE_MAC_BYTES])
{
    const struct rawe_conn conn = {.owner = &endpoint};

    endpoint.proc = &peer_proc;
    theirs.count = 3;
    theirs.addresses[1].mtu_bytes = 1400;
    theirs.addresses[1].port = 2;
    theirs.addresses[1].key = 20;
    memcpy(theirs.addresses[1].mac, second_mac, RAWE_MAC_BYTES);
    theirs.addresses[2].mtu_bytes = 65536;
    mca_btl_rawe_unknown_source(&module, &conn, &through_second, mac);
}

TEST(mca_btl_rawe_unknown_source__opens_what_the_peer_has_published)
{
    opened_address = 1;
    come_from(second_mac);
    assert_int_equal(opened, 1);
    assert_int_equal(opened_mtu_bytes, 1400);
    /* Our own interface's MTU also limits the frames. */
    module.address.mtu_bytes = 1300;
    come_from(second_mac);
    assert_int_equal(opened_mtu_bytes, 1300);
}

TEST(mca_btl_rawe_unknown_source__opens_nothing_that_is_forged)
{
    static const uint8_t forged[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 3};

    come_from(forged);
    assert_int_equal(searched_for, 1);
    assert_int_equal(opened, 0);
}

/** A known interface's new address is adopted both inside and outside MPI. */
TEST(mca_btl_rawe_unknown_source__follows_a_known_interface)
{
    static const uint8_t elsewhere[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 9};
    static const uint8_t group[RAWE_MAC_BYTES] = {3, 0, 0, 0, 0, 9};

    known = &endpoint;
    endpoint.address.port = 2;
    endpoint.address.key = 20;
    followed = 0;
    mca_btl_rawe_state.deferral.active = true;
    come_from(elsewhere);
    mca_btl_rawe_state.deferral.active = false;
    assert_int_equal(followed, 1);
    assert_ptr_equal(follower, known);
    assert_memory_equal(followed_to, elsewhere, RAWE_MAC_BYTES);
    /* Not followed: a group address, a wrong key, a frame that asks for another interface. */
    come_from(group);
    endpoint.address.key = 21;
    come_from(elsewhere);
    endpoint.address.key = 20;
    through_second.choice = 1;
    come_from(elsewhere);
    through_second.choice = 0;
    assert_int_equal(followed, 1);
    assert_int_equal(opened, 0);
    known = NULL;
}

/** The frame may come from any interface that this module reaches, except the requesting one. */
TEST(mca_btl_rawe_unknown_source__follows_one_that_asks_for_another)
{
    static const uint8_t elsewhere[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 9};
    static mca_btl_base_endpoint_t others[3];

    followed = 0;
    for (unsigned i = 0; i < 3; i++) { /* one belongs to another module, one is lost */
        others[i].module = i == 1 ? &lo : &module;
        others[i].lost = i == 2;
        others[i].peer.owner = &others[i];
        rawe_route_init(&others[i].peer.route);
        rawe_peer_join(&others[i].peer, &endpoint.peer);
    }
    through_second.choice = 1;
    mca_btl_rawe_state.deferral.active = true;
    come_from(elsewhere);
    mca_btl_rawe_state.deferral.active = false;
    through_second.choice = 0;
    assert_int_equal(followed, 1);
    assert_ptr_equal(follower, &others[0]);
    assert_memory_equal(followed_to, elsewhere, RAWE_MAC_BYTES);
}

/** No path leads from the loopback interface to another host, or back. */
TEST(mca_btl_rawe_unknown_source__keeps_lo_apart)
{
    static const uint8_t zero[RAWE_MAC_BYTES];

    come_from(zero);
    module.interface.loopback = true;
    come_from(second_mac);
    module.interface.loopback = false;
    lo.interface.loopback = true;
    endpoint.module = &lo;
    come_from(second_mac);
    assert_int_equal(opened, 0);
}

TEST(mca_btl_rawe_unknown_source__not_of_a_process_that_is_lost)
{
    endpoint.lost = true;
    come_from(second_mac);
    endpoint.lost = false;
    assert_int_equal(searched_for, 0);
    assert_int_equal(opened, 0);
}

TEST(mca_btl_rawe_unknown_source__no_search_outside_of_mpi)
{
    mca_btl_rawe_state.deferral.active = true;
    come_from(second_mac);
    mca_btl_rawe_state.deferral.active = false;
    assert_int_equal(searched_for, 0);
    assert_int_equal(opened, 0);
}
