/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See driver.h.
 */
#include "driver/driver.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int usage(FILE *out)
{
    fputs(simulator_help, out);
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'}, {"failures", required_argument, NULL, 'f'},
        {"trace", no_argument, NULL, 't'},       {"no-shrink", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    uint64_t first = 1, count = 1, failures = 0, failures_max = 10, counts[2] = {0, 0};
    bool trace = false;

    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case 's':
            if (sscanf(optarg, "%" SCNu64 ":%" SCNu64, &first, &count) < 1) {
                return usage(stderr);
            }
            break;
        case 'f':
            failures_max = strtoull(optarg, NULL, 10);
            break;
        case 't':
            trace = true;
            break;
        case 'n':
            break; /* for test/sim/planted: there is nothing to shrink */
        default:
            return usage(option == 'h' ? stdout : stderr);
        }
    }
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
