/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes with several interfaces each: see unit_rails.h.
 */
#include "unit_rails.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "routes/rawe_balance.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

struct rails rails;

/** Return an interface's index for net_peer_config; indices number both hosts' interfaces. */
static uint32_t index_of(unsigned host, unsigned rail)
{
    return host * RAILS + rail;
}

static void put(void *context, struct net_frame *frame)
{
    const struct rails_nic *nic = context;
    frame->from = index_of(nic->host->index, nic->rail);
    assert_int_equal(frame->to, index_of(1 - nic->host->index, nic->rail));
    const size_t most = rails.mtu_payload_bytes[nic->rail];
    const size_t more = frame->batch != 0 ? NET_BATCH_OVERHEAD_BYTES : 0;
    const size_t frame_most = RAWE_PAYLOAD_OFFSET + most + RAWE_CHECKSUM_BYTES;
    assert_true(most == 0 || frame->len_bytes + more <= frame_most);
    if (rails.cut[nic->rail]) {
        net_frame_free(frame);
        return;
    }
    net_queue_put(&rails.net.queue, frame);
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    const struct rails_nic *nic = context;
    assert_ptr_equal(conn->engine, &nic->engine);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_false(nic->host->nic[rail].engine.deferral->active);
    }
    unit_note_message(&nic->host->inbox, tag, data, len_bytes);
}

static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    const struct rails_nic *nic = context;
    unsigned rail = from->choice != 0 ? from->choice - 1u : nic->rail;
    assert_int_equal(from->vpid, 1 - nic->host->index);
    assert_true(rail < RAILS);
    return rawe_peer_conn(&nic->host->nic[rail].peer, from->lane);
}

static void join(struct rails_nic *nic)
{
    rawe_peer_join(&nic->peer, &nic->host->nic[0].peer);
    nic->joined = true;
}

static void unknown_source(void *context, const struct rawe_conn *conn,
                           const struct rawe_connect *from,
                           const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct rails_nic *nic = context;
    assert_ptr_equal(conn->owner, &nic->host->inbox);
    nic->host->unknown_calls++;
    if (nic->joined && nic->host->follows && from->key == nic->peer.route.key) {
        rawe_peer_set_mac(&nic->peer, source_mac, rails.now_ns);
    }
    if (!nic->joined && !nic->host->refuses &&
        memcmp(source_mac, nic->peer.route.mac, RAWE_MAC_BYTES) == 0) {
        join(nic);
    }
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    ((const struct rails_nic *)context)->host->failed_calls++;
}

static void lost(void *context, struct rawe_conn *conn)
{
    ((const struct rails_nic *)context)->host->lost_calls++;
}

static uint64_t read_clock(void *context)
{
    return rails.now_ns;
}

static void start_nic(struct rails_host *host, unsigned rail, unsigned batch_frames)
{
    static const struct rawe_callbacks callbacks = {
        .deliver = deliver,
        .accept = accept_conn,
        .unknown_source = unknown_source,
        .failed = failed,
        .lost = lost,
        .long_reply = rawe_balance_reply,
    };
    struct rails_nic *nic = &host->nic[rail];
    struct rawe_engine_config config = rails.net.config;
    struct rawe_peer_config peer = net_peer_config(index_of(1 - host->index, rail));
    nic->host = host;
    nic->rail = rail;
    nic->room = UINT_MAX;
    net_identify(&config, index_of(host->index, rail));
    config.vpid = host->index;
    config.table = &host->table;
    config.deferral = &host->deferral;
    config.clock_ns = read_clock;
    nic->link = (struct net_link){
        .engine = &nic->engine,
        .room = &nic->room,
        .batch_number = &rails.net.batch_number,
        .put = put,
    };
    net_engine_start(&nic->engine, &host->handles, &config, &callbacks, net_link_transmit, nic,
                     rails.now_ns);
    if (batch_frames != 0) {
        uint32_t segment_bytes = config.payload_max_bytes + RAWE_HEADER_BYTES -
                                 RAWE_BATCH_HEADER_BYTES - NET_BATCH_OVERHEAD_BYTES;
        net_engine_use_batches(&nic->engine, batch_frames * segment_bytes, net_link_transmit_batch);
    }
    peer.payload_max_bytes = rails.mtu_payload_bytes[rail] != 0 ? rails.mtu_payload_bytes[rail]
                                                                : config.payload_max_bytes;
    peer.interface = (uint8_t)(rail + 1);
    peer.owner = &host->inbox;
    rawe_peer_init(&nic->peer, &nic->engine, &peer);
    nic->joined = rail == 0;
    if (rail != 0 && !host->late) {
        join(nic);
    }
}

static struct rails_nic *nic_of(unsigned index)
{
    return &rails.host[index / RAILS].nic[index % RAILS];
}

/** unit_net.engine_at */
static struct rawe_engine *nic_engine(struct unit_net *net, unsigned index)
{
    return &nic_of(index)->engine;
}

/** unit_net.on_frame */
static void carry(struct net_frame *frame)
{
    unsigned rail = frame->to % RAILS;
    rails.carried[rail]++;
    if (rails.on_frame != NULL) {
        rails.on_frame(frame, rail);
    }
}

void rails_init(void)
{
    memset(&rails, 0, sizeof(rails));
    unit_init(&rails.net);
    rails.net.engine_count = 2 * RAILS;
    rails.net.engine_at = nic_engine;
    rails.net.on_frame = carry;
}

void rails_start(unsigned batch_frames)
{
    for (unsigned i = 0; i < 2; i++) {
        rails.host[i].index = i;
        rails.host[i].inbox.net = &rails.net;
        rawe_deferral_init(&rails.host[i].deferral, rails.net.config.deferred_max_bytes);
        for (unsigned rail = 0; rail < RAILS; rail++) {
            start_nic(&rails.host[i], rail, batch_frames);
        }
    }
}

void rails_stop(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rails_host *host = &rails.host[i];
        /* Close the interfaces one by one, as in MPI_Finalize. */
        for (unsigned rail = 0; rail < RAILS; rail++) {
            rawe_peer_close(&host->nic[rail].peer);
            net_engine_stop(&host->nic[rail].engine);
        }
        for (unsigned rail = 0; rail < RAILS; rail++) {
            /* No memory was returned to an engine after it had stopped. */
            assert_true(rawe_list_empty(&host->nic[rail].engine.serving.free));
        }
        assert_null(host->deferral.first);
        rawe_conn_table_free(&host->table);
        unit_forget_messages(&host->inbox);
    }
    net_queue_clear(&rails.net.queue);
}

void rails_set_up(void)
{
    rails_init();
    rails_start(0);
}

struct rawe_peer *rails_peer(unsigned host, unsigned rail)
{
    return &rails.host[host].nic[rail].peer;
}

struct rawe_conn *rails_conn(unsigned host, unsigned rail, enum rawe_lane lane)
{
    return rawe_peer_conn(rails_peer(host, rail), lane);
}

struct rawe_conn *rails_connect(enum rawe_lane lane)
{
    struct rawe_conn *conn = rails_conn(0, 0, lane);
    rawe_conn_connect(conn, rails.now_ns);
    unit_settle(&rails.net);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(rails_conn(1, 0, lane)->handshake.state, RAWE_CONN_OPEN);
    return conn;
}

unsigned rails_used(const struct rawe_conn *conn)
{
    const struct rails_nic *nic = conn->path.via->context;
    return nic->rail;
}

void rails_cut(unsigned rail)
{
    struct net_queue left = {NULL};
    struct net_frame *frame;
    rails.cut[rail] = true;
    while ((frame = net_queue_take(&rails.net.queue)) != NULL) {
        if (frame->to % RAILS == rail) {
            net_frame_free(frame);
        } else {
            net_queue_put(&left, frame);
        }
    }
    rails.net.queue = left;
}
