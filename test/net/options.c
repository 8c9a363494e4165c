/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Column of the help's sentences; a longer option pushes its sentence to the right. */
#define COLUMN 23

static const char *program;

bool option_on(const struct option_row *row, const char *value)
{
    *(bool *)row->to = true;
    return true;
}

bool option_off(const struct option_row *row, const char *value)
{
    *(bool *)row->to = false;
    return true;
}

bool option_text(const struct option_row *row, const char *value)
{
    *(const char **)row->to = value;
    return true;
}

const char *option_whole(const struct option_row *row, const char *value, const char *end,
                         uint64_t *number)
{
    char *stop;

    errno = 0;
    *number = strtoull(value, &stop, 0);
    return errno == 0 && stop != value && *value != '-' && strchr(end, *stop) != NULL &&
                   (double)*number >= row->least && (double)*number <= row->most
               ? stop
               : NULL;
}

bool option_u64(const struct option_row *row, const char *value)
{
    return option_whole(row, value, "", row->to) != NULL;
}

bool option_unsigned(const struct option_row *row, const char *value)
{
    uint64_t number;

    if (option_whole(row, value, "", &number) == NULL) {
        return false;
    }
    *(unsigned *)row->to = (unsigned)number;
    return true;
}

bool option_number(const struct option_row *row, const char *value)
{
    double *number = row->to;
    char *end;

    *number = strtod(value, &end);
    return end != value && *end == '\0' && *number >= row->least && *number <= row->most;
}

bool option_bytes(const struct option_row *row, const char *value)
{
    uint64_t number;
    const char *unit = option_whole(row, value, "kKmM", &number);

    if (unit == NULL || (*unit != '\0' && unit[1] != '\0')) {
        return false;
    }
    number <<= *unit == '\0' ? 0 : *unit == 'k' || *unit == 'K' ? 10 : 20;
    *(size_t *)row->to = (size_t)number;
    return (double)number <= row->most;
}

static void show_help(const char *head, const struct option_row *rows, size_t count)
{
    printf("%s\n", head);
    for (size_t i = 0; i < count; i++) {
        const char *line = rows[i].help;
        int used = line == NULL ? 0
                                : printf("  --%s%s%s", rows[i].name, rows[i].value ? " " : "",
                                         rows[i].value ? rows[i].value : "");
        while (line != NULL && *line != '\0') {
            size_t len = strcspn(line, "\n");
            printf("%*s%.*s\n", used < COLUMN ? COLUMN - used : 1, "", (int)len, line);
            line += len + (line[len] == '\n');
            used = 0;
        }
    }
    printf("  --help%*sthis text\n\n", COLUMN - 8, "");
}

void options_reject(const struct option_row *row, const char *value)
{
    fprintf(stderr, "%s: --%s: '%s' is not ", program, row->name, value);
    if (row->want != NULL) {
        fprintf(stderr, "%s; see --help\n", row->want);
    } else {
        fprintf(stderr, "a number from %.15g to %.15g; see --help\n", row->least, row->most);
    }
    exit(2);
}

void options_read(int argc, char **argv, const char *head, const struct option_row *rows,
                  size_t count, void (*tail)(void))
{
    struct option known[64] = {{NULL, 0, NULL, 0}};

    program = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    for (size_t i = 0; i < count; i++) {
        known[i] = (struct option){.name = rows[i].name, .has_arg = rows[i].value != NULL};
    }
    known[count] = (struct option){.name = "help"};
    for (int found, at; (found = getopt_long(argc, argv, "", known, &at)) != -1;) {
        if (found != 0) {
            fprintf(stderr, "%s: see --help\n", program); /* getopt has printed the error */
            exit(2);
        }
        if ((size_t)at == count) {
            show_help(head, rows, count);
            tail();
            exit(0);
        }
        if (!rows[at].read(&rows[at], optarg)) {
            options_reject(&rows[at], optarg);
        }
    }
    if (optind != argc) {
        fprintf(stderr, "%s: '%s' is not an option; see --help\n", program, argv[optind]);
        exit(2);
    }
}
