/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See driver.h.
 */
#include "driver/driver.h"

#include <inttypes.h>
#include <stdio.h>

#include "options.h"

static uint64_t first = 1, count = 1, failures_max = 10;
static bool trace, shrinks;

static bool read_seeds(const struct option_row *row, const char *value)
{
    const char *end = option_whole(row, value, ":", &first);

    return end != NULL && (*end == '\0' || option_whole(row, end + 1, "", &count) != NULL);
}

static const struct option_row rows[] = {
    {"seeds", "FIRST:COUNT", "COUNT runs from seed FIRST on (default 1:1)", read_seeds, .to = NULL,
     0, (double)(UINT64_MAX / 4)},
    {"failures", "N", "stop after N failing seeds (default 10)", option_u64, .to = &failures_max, 1,
     1u << 20},
    {"trace", NULL, "every event, one per line", option_on, .to = &trace},
    {"no-shrink", NULL, NULL, option_off, .to = &shrinks}, /* for test/sim/planted: nothing does */
};

static void end_help(void)
{
}

int main(int argc, char **argv)
{
    uint64_t failures = 0, counts[2] = {0, 0};

    options_read(argc, argv, simulator_help, rows, sizeof(rows) / sizeof(rows[0]), end_help);
    for (uint64_t seed = first; seed < first + count && failures < failures_max; seed++) {
        failures += simulator_run(seed, trace, count == 1, counts);
    }
    printf("%" PRIu64 " runs", count);
    for (unsigned i = 0; i < 2 && simulator_counted[i] != NULL; i++) {
        printf(", %" PRIu64 " %s", counts[i], simulator_counted[i]);
    }
    printf(", %" PRIu64 " failures\n", failures);
    return failures == 0 ? 0 : 1;
}
