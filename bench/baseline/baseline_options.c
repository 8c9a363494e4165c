/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line and clock of the baseline programs. */
#include "baseline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static void print_help(const char *program, const struct baseline_usage *usage)
{
    printf("Usage: %s [options], started on %s at about the same time\n"
           "%s\n"
           "\n"
           "  --interface NAME  network interface (the first Ethernet one that is up)\n"
           "%s"
           "  --sizes A,B,...   message sizes in bytes\n"
           "  --seconds S       time for each size (0.1)\n"
           "  --wait S          how long to wait for other hosts (20)\n"
           "  --help            this text\n"
           "\n"
           "Needs CAP_NET_RAW. The hosts find each other by a broadcast on the interface; one of\n"
           "them prints a line of name=value pairs for each size and way.\n",
           program, usage->hosts, usage->purpose,
           usage->has_receivers
               ? "  --receivers N     send to N hosts, where it runs without this option\n"
               : "  --way WAY         frames, tcp-gso, tcp-ring or all: what to send (all)\n");
}

static bool parse_sizes(struct baseline_options *options, const char *text)
{
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

static bool parse_way(struct baseline_options *options, const char *text)
{
    bool all = strcmp(text, "all") == 0;
    bool any = false;
    for (int way = 0; way < BASELINE_WAYS; way++) {
        options->ways[way] = all || strcmp(text, baseline_way_name((enum baseline_way)way)) == 0;
        any = any || options->ways[way];
    }
    return any;
}

static bool parse_receivers(const char *text, unsigned *receivers)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    *receivers = (unsigned)number;
    return end != text && *end == '\0' && number >= 1 && number <= BASELINE_RECEIVERS_MAX;
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;
    *seconds = strtod(text, &end);
    return end != text && *end == '\0' && *seconds > 0 && *seconds <= 3600;
}

bool baseline_options_parse(struct baseline_options *options, int argc, char **argv,
                            const struct baseline_usage *usage, int *status)
{
    *options =
        (struct baseline_options){.seconds = 0.1, .wait_seconds = 20, .ways = {true, true, true}};
    parse_sizes(options, "1,4,16,64,256,1024,2048,4096,8192,16384,65536,262144,1048576,4194304");
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool good = true;
        if (strcmp(name, "--help") == 0) {
            print_help(argv[0], usage);
            *status = 0;
            return false;
        }
        if (value == NULL) {
            good = false;
        } else if (strcmp(name, "--interface") == 0) {
            options->interface = value;
        } else if (!usage->has_receivers && strcmp(name, "--way") == 0) {
            good = parse_way(options, value);
        } else if (strcmp(name, "--sizes") == 0) {
            good = parse_sizes(options, value);
        } else if (strcmp(name, "--seconds") == 0) {
            good = parse_seconds(value, &options->seconds);
        } else if (strcmp(name, "--wait") == 0) {
            good = parse_seconds(value, &options->wait_seconds);
        } else if (usage->has_receivers && strcmp(name, "--receivers") == 0) {
            good = parse_receivers(value, &options->receivers);
        } else {
            good = false;
        }
        if (!good) {
            fprintf(stderr, "%s: '%s %s' is no option with a valid value; see --help\n", argv[0],
                    name, value == NULL ? "" : value);
            *status = 2;
            return false;
        }
    }
    return true;
}
