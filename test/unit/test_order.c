/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_order: no message overtakes many.
 */
#include "send/rawe_order.h"
#include "unit_test.h"

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
