/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads requests, changes settings all at once or not at all, prints counters.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_BYTES (64u << 10)
#define PATIENCE_MS 1000 /* with a client that has connected and says nothing, or does not read */

int wire_control_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "rawe-wire: --control: a path has at most %zu characters, not %s\n",
                sizeof address.sun_path - 1, path);
        exit(2);
    }
    strcpy(address.sun_path, path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 16) != 0) {
        fprintf(stderr, "rawe-wire: cannot listen at %s: %s\n", path, strerror(errno));
        exit(1);
    }
    return fd;
}

static char *format(const char *pattern, ...)
{
    char *text = NULL;
    va_list values;

    va_start(values, pattern);
    if (vasprintf(&text, pattern, values) < 0) {
        text = NULL;
    }
    va_end(values);
    return text;
}

static void print_direction(FILE *out, const struct wire_port *port, const char *name,
                            const struct wire_direction *direction)
{
    fprintf(out, "port=%s direction=%s", port->name, name);
#define WIRE_COUNTER_PRINT(name) \
    fprintf(out, " " #name "=%llu", (unsigned long long)direction->counters.name);
    WIRE_COUNTERS(WIRE_COUNTER_PRINT)
#undef WIRE_COUNTER_PRINT
    fputc('\n', out);
}

static char *show(struct wire_switch *wire)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out, "wire seed=%llu held=%zu held_bytes=%zu\n", (unsigned long long)wire->seed,
            wire->held.count, wire->held.bytes);
    for (unsigned i = 0; i < wire->count; i++) {
        struct wire_port *port = &wire->ports[i];

        port->out.counters.refused += wire_port_overrun(port);
        print_direction(out, port, "in", &port->in);
        print_direction(out, port, "out", &port->out);
    }
    fputs("ok\n", out);
    fclose(out);
    return text;
}

/* What a `set` asks for. */
struct change {
    char *words[64];
    unsigned count;
    bool in, out;
};

/* NAME=NUMBER: the number, and where NAME ends; false when the word has another form. */
static bool read_number(const char *word, size_t *name_len, double *number)
{
    char *end;

    *name_len = strcspn(word, "=");
    if (word[*name_len] != '=') {
        return false;
    }
    *number = strtod(word + *name_len + 1, &end);
    return end != word + *name_len + 1 && *end == '\0' && *number >= 0;
}

static bool is_name(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && strncmp(word, name, len) == 0;
}

/* Where a setting of this name is, or NULL. */
static double *find_setting(struct wire_settings *settings, const char *word, size_t len)
{
    const struct {
        const char *name;
        double *value;
    } all[] = {
#define WIRE_SETTING_ENTRY(name) {#name, &settings->name},
        WIRE_SETTINGS(WIRE_SETTING_ENTRY)
#undef WIRE_SETTING_ENTRY
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (is_name(word, len, all[i].name)) {
            return all[i].value;
        }
    }
    return NULL;
}

/* Adds the words to these settings. Returns the one that it does not know, or NULL. */
static const char *read_words(const struct change *change, struct wire_settings *settings,
                              bool *blackout_begins)
{
    for (unsigned i = 0; i < change->count; i++) {
        const char *word = change->words[i];
        double number, *setting;
        size_t len;

        if (strcmp(word, "none") == 0) {
            *settings = wire_settings_none;
            continue;
        }
        if (!read_number(word, &len, &number) ||
            (setting = find_setting(settings, word, len)) == NULL) {
            return word;
        }
        *setting = number;
        *blackout_begins = *blackout_begins || setting == &settings->blackout_ns;
    }
    return NULL;
}

static void change_direction(struct wire_direction *direction, const struct change *change)
{
    struct wire_settings settings = direction->settings;
    bool blackout_begins = false;

    (void)read_words(change, &settings, &blackout_begins); /* has succeeded before */
    wire_direction_change(direction, &settings, blackout_begins, wire_now_ns());
}

static bool is_named(const char *names, const char *name)
{
    size_t len = strlen(name);

    if (strcmp(names, "*") == 0) {
        return true;
    }
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += len) {
        if ((at == names || at[-1] == ',') && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

/* What concerns the whole wire; true when the word was one of those. */
static bool change_wire(struct wire_switch *wire, const char *word)
{
    double number;
    size_t len;

    if (!read_number(word, &len, &number) || !is_name(word, len, "seed")) {
        return false;
    }
    wire_switch_seed(wire, (uint64_t)number);
    return true;
}

static char *set(struct wire_switch *wire, char *words)
{
    const char *names = strtok(words, " ");
    const char *direction = strtok(NULL, " ");
    struct change change = {.count = 0};
    struct wire_settings tried = wire_settings_none;
    const char *unknown;
    bool ignored = false;
    unsigned found = 0;

    if (direction == NULL) {
        return format("error: set PORTS in|out|both NAME=NUMBER...\n");
    }
    change.in = strcmp(direction, "out") != 0;
    change.out = strcmp(direction, "in") != 0;
    if (change.in && change.out && strcmp(direction, "both") != 0) {
        return format("error: the direction is in, out or both, not '%.40s'\n", direction);
    }
    for (char *word; (word = strtok(NULL, " ")) != NULL;) {
        if (change_wire(wire, word)) {
            continue;
        }
        if (change.count == sizeof change.words / sizeof change.words[0]) {
            return format("error: more than %u settings at once\n", change.count);
        }
        change.words[change.count++] = word;
    }
    unknown = read_words(&change, &tried, &ignored);
    if (unknown != NULL) {
        return format("error: '%.60s' is no setting\n", unknown);
    }
    for (unsigned i = 0; i < wire->count; i++) {
        struct wire_port *port = &wire->ports[i];

        if (!is_named(names, port->name)) {
            continue;
        }
        found++;
        if (change.in) {
            change_direction(&port->in, &change);
        }
        if (change.out) {
            change_direction(&port->out, &change);
        }
    }
    return found > 0 ? format("ok\n") : format("error: there is no port '%.60s'\n", names);
}

char *wire_control_answer(struct wire_switch *wire, char *request)
{
    request[strcspn(request, "\n")] = '\0';
    if (strcmp(request, "show") == 0) {
        return show(wire);
    }
    if (strncmp(request, "set ", 4) == 0) {
        return set(wire, request + 4);
    }
    return format("error: requests are show and set, not '%.40s'\n", request);
}

/* Waits for a client, but not for long: frames wait meanwhile. */
static bool wait_for(int fd, short events)
{
    struct pollfd pollfd = {fd, events, 0};

    return poll(&pollfd, 1, PATIENCE_MS) == 1;
}

static void serve_client(int fd, struct wire_switch *wire)
{
    static char request[REQUEST_BYTES];
    size_t len = 0;
    char *answer;

    while (len == 0 || request[len - 1] != '\n') {
        ssize_t got = wait_for(fd, POLLIN) ? read(fd, request + len, sizeof request - 1 - len) : 0;

        if (got <= 0) {
            return; /* gone, silent, or too long */
        }
        len += (size_t)got;
    }
    request[len] = '\0';
    answer = wire_control_answer(wire, request);
    if (answer == NULL) {
        return;
    }
    for (size_t sent = 0; sent < strlen(answer);) {
        ssize_t done = wait_for(fd, POLLOUT) ? send(fd, answer + sent, strlen(answer + sent),
                                                    MSG_NOSIGNAL | MSG_DONTWAIT)
                                             : -1;

        if (done <= 0) {
            break;
        }
        sent += (size_t)done;
    }
    free(answer);
}

void wire_control_serve(int listener, struct wire_switch *wire)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        serve_client(fd, wire);
        close(fd);
    }
}
