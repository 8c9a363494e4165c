/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module over a fake link on which the test queues frames: see unit_module.h.
 */
#include "unit_module.h"

#include <poll.h>
#include <string.h>

#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_routes.h"
#include "fake_ompi.h"

mca_btl_rawe_module_t module;
struct fake fake;
static struct rawe_handle_table handles;

/* Count the route checks, and set the time of the next one. */
void mca_btl_rawe_routes_check(bool may_say)
{
    assert_false(may_say); /* called by the progress thread */
    fake.routes_checks++;
    mca_btl_rawe_state.failover.due_ns = fake_ompi.now_ns + 200 * MS;
    atomic_store(&mca_btl_rawe_state.interfaces_changed, false);
}

void mca_btl_rawe_fanout_repair(void)
{
    fake.repairs++;
    atomic_store(&mca_btl_rawe_state.fanout_repair, 0);
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
    fake.wake_us = (int)in_us;
}

void rawe_responder_listen(struct rawe_responder *responder,
                           const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX])
{
    fake.listens = wanted[0].fd >= 0;
    fake.listens_for_room = wanted[1].fd >= 0 && (wanted[1].events & POLLOUT) != 0;
    assert_int_equal(wanted[1].fd >= 0 && (wanted[1].events & POLLIN) != 0, fake.listens);
}

bool rawe_responder_shared(const struct rawe_responder *responder)
{
    return fake.shared;
}

void fake_wait_in_link(unsigned frames)
{
    fake.link_waits = frames;
}

void fake_wait_in_bulk(unsigned packets)
{
    fake.bulk_waits = packets;
}

static unsigned receive_link(struct rawe_port *link, unsigned budget,
                             const struct rawe_port_receiver *receiver, void *context)
{
    static uint8_t nothing[RAWE_ETH_HEADER_BYTES];
    struct rawe_engine *engine = context;
    unsigned count = 0;
    engine->counters.probes_received += fake.ring_has_probe && fake.link_waits != 0;
    while (count < budget && fake.link_waits != 0) {
        fake.link_waits--; /* before the callbacks, which may receive */
        receiver->arrived(context, 0, 0);
        if (fake.on_receive != NULL && count == 0) {
            fake.on_receive();
        }
        receiver->frame(context, nothing, 0);
        count++;
    }
    fake.link_received += count;
    fake.link_waits = fake.link_refill != 0 ? fake.link_refill : fake.link_waits;
    return count;
}

static unsigned receive_bulk(struct rawe_port *bulk, unsigned budget,
                             const struct rawe_port_receiver *receiver, void *context)
{
    unsigned count = 0;
    while (count < budget && fake.bulk_waits != 0) {
        fake.bulk_waits--;
        receiver->arrived(context, 0, 0);
        if (fake.on_bulk != NULL && count == 0) {
            fake.on_bulk();
            fake.on_bulk = NULL;
        }
        receiver->packet(context, NULL, NULL, 0, NULL, 0);
        count++;
    }
    fake.bulk_received += count;
    return count * PACKET_FRAMES;
}

static void read_counters(struct rawe_port *bulk, struct rawe_port_counters *counters)
{
    counters->damaged = fake.damaged;
}

static const struct rawe_port_kind link_kind = {.receive = receive_link};
static const struct rawe_port_kind bulk_kind = {.receive = receive_bulk,
                                                .read_counters = read_counters};
static struct rawe_port link_fake = {
    .word = &fake.link_waits, .mask = UINT32_MAX, .kind = &link_kind};
static struct rawe_port bulk_fake = {
    .word = &fake.bulk_waits, .mask = UINT32_MAX, .kind = &bulk_kind};

void fake_set_up(void)
{
    fake_ompi_begin();
    memset(&module, 0, sizeof(module));
    rawe_handle_table_init(&handles, 1);
    fake = (struct fake){.wake_us = -1};
    fake_ompi.now_ns = 1000 * MS;
    module.link = &link_fake;
    module.bulk = &bulk_fake;
    module.open = true;
    unit_engine_start(&module.engine, &handles, &module);
    module.engine.batches.receive_frames = QUEUE_PACKETS;
    mca_btl_rawe_params.progress_thread_ms = 1;
}

void fake_tear_down(void)
{
    assert_int_equal(fake_ompi_shown("internal_error"), fake.internal_errors);
    rawe_engine_free(&module.engine);
    rawe_handle_table_free(&handles);
}

static void expired(struct rawe_timer *timer, uint64_t now_ns)
{
    assert_true(now_ns >= timer->deadline_ns);
    fake.expired_calls++;
}

void fake_arm(struct rawe_engine *engine, uint64_t after_ns)
{
    static struct rawe_timer timer;
    rawe_timer_wheel_advance(&engine->timers, fake_ompi.now_ns);
    rawe_timer_init(&timer, expired);
    rawe_timer_arm(&engine->timers, &timer, fake_ompi.now_ns + after_ns);
}
