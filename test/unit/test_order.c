/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_order, and of connections that keep to it: no message overtakes many.
 */
#include "unit_rails.h"

#include "conn/rawe_conn_connect.h"
#include "send/rawe_order.h"

#define MOST 64u

static struct rawe_order order;

static void set_up(void)
{
    rawe_order_init(&order, MOST);
}

FIXTURE(set_up, NULL);

TEST(rawe_order_allows__so_many_from_the_first)
{
    assert_int_equal(order.next, 1);
    assert_true(rawe_order_allows(&order, MOST));
    assert_false(rawe_order_allows(&order, MOST + 1));
}

TEST(rawe_order_raise__by_a_part_at_least)
{
    unsigned least = MOST / RAWE_ORDER_STEPS + 1;
    assert_false(rawe_order_raise(&order, least));
    assert_false(rawe_order_allows(&order, MOST + 1));
    assert_true(rawe_order_raise(&order, least + 1));
    assert_true(rawe_order_allows(&order, least + MOST));
    assert_false(rawe_order_allows(&order, least + MOST + 1));
}

TEST(rawe_order_merge__connections_go_on_with_the_higher_numbers)
{
    struct rawe_order other;
    struct rawe_order_member member = {0};
    rawe_order_init(&other, MOST);
    rawe_order_add(&other, &member);
    other.next = 40;
    rawe_order_merge(&order, &other);
    assert_int_equal(order.next, 40);
    assert_ptr_equal(member.order, &order);
    assert_ptr_equal(rawe_list_first(&order.members), &member.link);
    assert_true(rawe_list_empty(&other.members));
    rawe_order_remove(&member);
    assert_true(rawe_list_empty(&order.members));
}

static struct rawe_conn *conns[2];

/** Two rails, of which the second will lose what is sent there. */
static void set_up_rails(void)
{
    rails_init();
    rails.net.config.overtaken_most = MOST;
    rails_start(0);
    for (unsigned rail = 0; rail < 2; rail++) {
        conns[rail] = rails_conn(0, rail, RAWE_LANE_EXPRESS);
        rawe_conn_connect(conns[rail], rails.now_ns);
    }
    unit_settle(&rails.net);
}

static const struct unit_fixture by_rails = {set_up_rails, rails_stop};

/** Messages that follow one that is lost stop at the bound, and go on when it has come. */
TEST_WITH(by_rails, rawe_conn_must_wait__for_another_rail)
{
    static uint8_t data[100];
    static struct unit_send waits;
    unsigned copied = 0;
    rails.cut[1] = true;
    assert_int_equal(unit_copy_message(conns[1], 1, 100), RAWE_STATUS_DONE);
    while (unit_copy_message(conns[0], 2, 100) == RAWE_STATUS_DONE) {
        copied++;
        unit_settle(&rails.net);
        assert_true(copied < MOST);
    }
    assert_int_equal(copied, MOST - 1);
    assert_int_equal(rails.host[1].inbox.message_count, MOST - 1);
    unit_send_message(conns[0], &waits, 3, data, sizeof(data));
    unit_settle(&rails.net);
    assert_int_equal(waits.done, 0);
    assert_int_equal(rails.host[1].inbox.message_count, MOST - 1);
    rails.cut[1] = false;
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(waits.done, 1);
    assert_int_equal(rails.host[1].inbox.message_count, MOST + 1);
    assert_int_equal(rails.host[1].inbox.messages[MOST - 1].tag, 1);
    assert_int_equal(rails.host[1].inbox.messages[MOST].tag, 3);
}

/** One that is given up holds nobody up. */
TEST_WITH(by_rails, rawe_conn_must_wait__not_for_a_connection_that_was_closed)
{
    static uint8_t data[100];
    static struct unit_send waits;
    rails.cut[1] = true;
    assert_int_equal(unit_copy_message(conns[1], 1, 100), RAWE_STATUS_DONE);
    while (unit_copy_message(conns[0], 2, 100) == RAWE_STATUS_DONE) {
        unit_settle(&rails.net);
    }
    unit_send_message(conns[0], &waits, 3, data, sizeof(data));
    unit_settle(&rails.net);
    assert_int_equal(waits.done, 0);
    rawe_peer_close(rails_peer(0, 1));
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(waits.done, 1);
}

/** The first of the routes has the numbers of all; another goes on with them. */
TEST_WITH(by_rails, rawe_route_remove__hands_on_the_order_of_messages)
{
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(unit_copy_message(conns[1], 1, 100), RAWE_STATUS_DONE);
        unit_settle(&rails.net);
    }
    uint64_t next = conns[1]->ordered.order->next;
    assert_ptr_equal(conns[0]->ordered.order, conns[1]->ordered.order);
    rawe_peer_close(rails_peer(0, 0));
    assert_int_equal(conns[1]->ordered.order->next, next);
    assert_ptr_equal(conns[1]->ordered.order, rails_peer(0, 1)->route.order);
    assert_ptr_equal(conns[1]->ordered.order, rails_peer(0, 2)->route.order);
    assert_true(conns[1]->ordered.order != rails_peer(0, 0)->route.order);
    assert_int_equal(unit_copy_message(conns[1], 1, 100), RAWE_STATUS_DONE);
}
