/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of an engine that defers: peers that are silent meanwhile.
 */
#include "unit_defer.h"

static struct unit_send sending;

/** While node 0 defers, node 1 does not answer it: it computes, and only its responder would. */
static void wait_deferring(void)
{
    sending = (struct unit_send){0};
    unit_connect(&net, RAWE_LANE_BULK);
    unit_send_message(end(0), &sending, 1, data, 3000);
    rawe_engine_defer_begin(engine(0));
    net.node[1].paused = true;
    unit_run(&net, 3 * net.config.liveness.peer_timeout_ns, 10 * UNIT_MS);
}

FIXTURE(unit_set_up, unit_tear_down);

TEST(rawe_engine_defer_begin__no_peer_is_given_up)
{
    wait_deferring();
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(net.node[0].failed_calls + net.node[0].silent_calls, 0);
    assert_true(engine(0)->counters.probes_sent > 10); /* it did ask */
    net.node[1].paused = false;
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    resume(0);
    assert_int_equal(sending.done, 1);
    assert_int_equal(sending.status, RAWE_STATUS_DONE);
}

TEST(rawe_engine_defer_end__the_responder_is_asked_before_a_peer_is_given_up)
{
    wait_deferring();
    resume(0);
    for (unsigned i = 0; i < 100; i++) {
        unsigned asked = net.node[0].silent_calls;
        unit_run(&net, net.config.liveness.peer_timeout_ns / 10, 10 * UNIT_MS);
        assert_int_equal(net.node[0].failed_calls, 0);
        if (net.node[0].silent_calls != asked) {
            rawe_conn_alive(end(0), net.now_ns);
        }
    }
    assert_true(net.node[0].silent_calls > 0);
    net.node[1].paused = false;
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(sending.done, 1);
}

TEST(rawe_engine_defer_end__a_dead_peer_is_given_up_then)
{
    wait_deferring();
    resume(0);
    unit_run(&net, 2 * net.config.liveness.peer_timeout_ns, 10 * UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_in_range(net.node[0].silent_ns, net.config.liveness.peer_timeout_ns,
                    2 * net.config.liveness.peer_timeout_ns);
    assert_int_equal(sending.done, 1);
    assert_int_equal(sending.status, RAWE_STATUS_FAILED);
}

TEST(rawe_engine_defer_end__short_absences_do_not_keep_the_dead_alive)
{
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_BULK);
    unit_send_message(end(0), &send, 1, data, 3000);
    net.node[1].paused = true;
    for (unsigned i = 0; i < 20 && net.node[0].failed_calls == 0; i++) {
        unit_run(&net, net.config.liveness.peer_timeout_ns / 4, 5 * UNIT_MS);
        rawe_engine_defer_begin(engine(0));
        unit_run(&net, net.config.liveness.peer_timeout_ns / 20, 5 * UNIT_MS);
        resume(0);
    }
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_int_equal(send.done, 1);
}
