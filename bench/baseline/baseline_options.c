/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line and clock of the baseline programs. */
#include "baseline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"

#define SIZE_LIMIT (64u << 20)

double baseline_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

const char *baseline_way_name(enum baseline_way way)
{
    static const char *const names[BASELINE_WAYS] = {"frames", "tcp-gso", "tcp-ring"};
    return names[way];
}

static bool read_sizes(const struct option_row *row, const char *text)
{
    struct baseline_options *options = row->to;

    options->size_count = 0;
    while (options->size_count < BASELINE_SIZES_MAX) {
        char *end;
        errno = 0;
        unsigned long size = strtoul(text, &end, 10);
        if (end == text || errno != 0 || size < 1 || size > SIZE_LIMIT) {
            return false;
        }
        options->sizes[options->size_count++] = (uint32_t)size;
        if (*end == '\0') {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
    return false;
}

static bool read_way(const struct option_row *row, const char *text)
{
    struct baseline_options *options = row->to;
    bool all = strcmp(text, "all") == 0;
    bool any = false;
    for (int way = 0; way < BASELINE_WAYS; way++) {
        options->ways[way] = all || strcmp(text, baseline_way_name((enum baseline_way)way)) == 0;
        any = any || options->ways[way];
    }
    return any;
}

static void end_help(void)
{
    puts(
        "Needs CAP_NET_RAW. Started on both hosts at about the same time: they find each other by a\n"
        "broadcast on the interface; one prints a line of name=value pairs for each size and way.");
}

void baseline_options_read(struct baseline_options *options, int argc, char **argv,
                           const char *purpose)
{
    const struct option_row rows[] = {
        {"interface", "NAME", "network interface (the first Ethernet one that is up)", option_text,
         .to = &options->interface},
        {"sizes", "A,B,...", "message sizes in bytes", read_sizes, .to = options,
         .want = "sizes from 1 to 67108864"},
        {"seconds", "S", "time for each size (0.1)", option_number, .to = &options->seconds, 1e-9,
         3600},
        {"wait", "S", "how long to wait for other hosts (20)", option_number,
         .to = &options->wait_seconds, 1e-9, 3600},
        {"way", "WAY", "frames, tcp-gso, tcp-ring or all: what to send (all)", read_way,
         .to = options, .want = "frames, tcp-gso, tcp-ring or all"},
    };
    const struct option_row sizes = {.to = options};

    *options =
        (struct baseline_options){.seconds = 0.1, .wait_seconds = 20, .ways = {true, true, true}};
    read_sizes(&sizes, "1,4,16,64,256,1024,2048,4096,8192,16384,65536,262144,1048576,4194304");
    options_read(argc, argv, purpose, rows, sizeof(rows) / sizeof(rows[0]), end_help);
}
