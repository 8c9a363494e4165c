/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads requests, changes settings, prints counters. rawelab/wire.py makes the requests and
 * validates them.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 1 /* with a client that neither writes nor reads */

int wire_control_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 16) != 0) {
        fprintf(stderr, "rawe-wire: cannot listen at %s: %s\n", path, strerror(errno));
        exit(1);
    }
    return fd;
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

static void show(struct wire_switch *wire, FILE *out)
{
    fprintf(out, "wire seed=%llu held=%zu held_bytes=%zu\n", (unsigned long long)wire->seed,
            wire->held.count, wire->held.bytes);
    for (unsigned i = 0; i < wire->count; i++) {
        struct wire_port *port = &wire->ports[i];

        port->out.counters.refused += wire_port_overrun(port);
        print_direction(out, port, "in", &port->in);
        print_direction(out, port, "out", &port->out);
    }
    fputs("ok\n", out);
}

/* Apply "none" or NAME=NUMBER. Returns false if there is no such setting. */
static bool change(struct wire_direction *direction, const char *word)
{
    struct wire_settings settings = direction->settings;
    const size_t len = strcspn(word, "=");
    double *setting = NULL;

    if (strcmp(word, "none") == 0) {
        settings = wire_settings_none;
    } else {
#define WIRE_SETTING_FIND(name)                                   \
    if (strlen(#name) == len && strncmp(word, #name, len) == 0) { \
        setting = &settings.name;                                 \
    }
        WIRE_SETTINGS(WIRE_SETTING_FIND)
#undef WIRE_SETTING_FIND
        if (setting == NULL) {
            return false;
        }
        *setting = strtod(word + len + 1, NULL);
    }
    wire_direction_change(direction, &settings, setting == &settings.blackout_ns, wire_now_ns());
    return true;
}

/* Serve "set": the rest of the request is read by strtok(). */
static void set(struct wire_switch *wire, FILE *out)
{
    const char *name = strtok(NULL, " \n"), *direction = strtok(NULL, " \n"), *word;

    while (name != NULL && direction != NULL && (word = strtok(NULL, " \n")) != NULL) {
        if (strncmp(word, "seed=", 5) == 0) {
            wire_switch_seed(wire, strtoull(word + 5, NULL, 10));
            continue;
        }
        for (unsigned i = 0; i < wire->count; i++) {
            struct wire_port *port = &wire->ports[i];
            const bool named = strcmp(name, "*") == 0 || strcmp(name, port->name) == 0;

            if ((named && strcmp(direction, "out") != 0 && !change(&port->in, word)) ||
                (named && strcmp(direction, "in") != 0 && !change(&port->out, word))) {
                fprintf(out, "error: '%s' is no setting\n", word);
                return;
            }
        }
    }
    fputs("ok\n", out);
}

void wire_control_serve(int listener, struct wire_switch *wire)
{
    static char request[4096];
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        return; /* the client has closed */
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    FILE *in = fdopen(dup(fd), "r"), *out = fdopen(fd, "w");
    if (in == NULL || out == NULL) {
        fprintf(stderr, "rawe-wire: %s\n", strerror(errno));
        exit(1);
    }
    const char *verb = fgets(request, sizeof request, in) != NULL ? strtok(request, " \n") : NULL;
    if (verb != NULL && strcmp(verb, "set") == 0) {
        set(wire, out);
    } else if (verb != NULL) {
        show(wire, out);
    }
    fclose(in);
    fclose(out);
}
