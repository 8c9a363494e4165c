/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what ends with one life of a connection, and what begins with the next.
 */
#include "unit_pair.h"

#include <string.h>

/* rawe_conn_renew */

static void rawe_conn_renew__numbers_begin_where_the_configuration_says(void **state)
{
    (void)state;
    unit_stop(&net);
    unit_init(&net);
    net.config.first_sequence = UINT32_MAX - 2;
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned life = 0; life < 2; life++) {
        assert_int_equal(end(0)->sendwin.next, UINT32_MAX - 2);
        assert_int_equal(end(0)->queue.message_number, UINT32_MAX - 2);
        assert_works_both_ways();
        assert_true(end(0)->sendwin.next < 100); /* has gone round */
        unit_close(&net, 1, RAWE_LANE_EXPRESS);
        unit_settle(&net);
        unit_open(&net, 1, RAWE_LANE_EXPRESS);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_set_up, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_conn_renew__numbers_begin_where_the_configuration_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
