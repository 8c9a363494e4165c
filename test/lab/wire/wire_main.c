/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-wire: emulates the cables and the switch of a lab, with their faults. One process serves all
 * ports. It sleeps while no frame arrives, and runs until the lab ends it.
 *
 * rawelab/wire.py makes the requests on its control socket, and validates them.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 1 /* timeout for a client that neither writes nor reads */

/* Open the listening socket at this path, or exit with a message. */
static int wire_control_listen(const char *path)
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

/* Serve "set": strtok() yields the remaining words of the request. */
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

/* Serve a client that is waiting at the listening socket. */
static void wire_control_serve(int listener, struct wire_switch *wire)
{
    static char request[4096];
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        return; /* the client has closed the connection */
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

#define EVENTS_AT_ONCE 64
#define CONTROL UINT32_MAX /* the control socket, instead of the number of a port */

static const char usage[] =
    "usage: rawe-wire --control PATH --port NAME=MAC/GROUP [--port ...]\n"
    "\n"
    "Forwards Ethernet frames between network interfaces as a switch does, with faults.\n"
    "\n"
    "  --port NAME=MAC/GROUP  an interface, the address of the NIC behind it, and the number of\n"
    "                         the switch it is plugged into\n"
    "  --control PATH         a Unix socket for `set` and `show`, see wire.h\n"
    "\n"
    "Prints \"ready\" when it forwards. The lab (test/lab/lab --wire) starts it.\n";

static _Noreturn void reject(const char *what, const char *value)
{
    fprintf(stderr, "rawe-wire: %s%s\n\n%s", what, value, usage);
    exit(2);
}

static void read_port(struct wire_switch *wire, const char *text)
{
    struct wire_port *ports = realloc(wire->ports, (wire->count + 1) * sizeof *ports);
    struct wire_port *port;
    int used = 0;

    if (ports == NULL) {
        reject("no memory for port ", text);
    }
    wire->ports = ports;
    port = &ports[wire->count];
    memset(port, 0, sizeof *port);
    if (sscanf(text, "%15[^=]=%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx/%u%n", port->name, &port->mac[0],
               &port->mac[1], &port->mac[2], &port->mac[3], &port->mac[4], &port->mac[5],
               &port->group, &used) != 8 ||
        text[used] != '\0') {
        reject("--port wants NAME=MAC/GROUP, not ", text);
    }
    wire_direction_reset(&port->in, wire->seed, 2 * wire->count);
    wire_direction_reset(&port->out, wire->seed, 2 * wire->count + 1);
    wire->count++;
}

static void watch(int epoll, int fd, uint32_t what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        fprintf(stderr, "rawe-wire: epoll: %s\n", strerror(errno));
        exit(1);
    }
}

static _Noreturn void run(struct wire_switch *wire, int listener)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    watch(epoll, listener, CONTROL);
    for (unsigned i = 0; i < wire->count; i++) {
        watch(epoll, wire->ports[i].fd, i);
    }
    for (;;) {
        struct epoll_event events[EVENTS_AT_ONCE];
        uint64_t next_ns = wire_switch_release(wire);
        uint64_t now_ns = wire_now_ns();
        uint64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;
        struct timespec wait = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
        int count =
            epoll_pwait2(epoll, events, EVENTS_AT_ONCE, next_ns == WIRE_NEVER ? NULL : &wait, NULL);

        for (int i = 0; i < count; i++) {
            if (events[i].data.u32 == CONTROL) {
                wire_control_serve(listener, wire);
            } else {
                wire_switch_receive(wire, events[i].data.u32);
                wire_switch_release(wire);
            }
        }
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"control", required_argument, NULL, 'c'},
        {"port", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct wire_switch wire = {.seed = 1};
    const char *control = NULL;
    int option, listener;

    TAILQ_INIT(&wire.held.frames);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'c') {
            control = optarg;
        } else if (option == 'p') {
            read_port(&wire, optarg);
        } else {
            fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind < argc || control == NULL || wire.count == 0) {
        reject("--control and at least one --port are needed, and nothing else", "");
    }
    for (unsigned i = 0; i < wire.count; i++) {
        wire_port_open(&wire.ports[i]);
    }
    listener = wire_control_listen(control);
    signal(SIGPIPE, SIG_IGN); /* clients may close early */
    /* A cable needs no processor, so this process must wake on time, ahead of spinning ranks. */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    setpriority(PRIO_PROCESS, 0, -10);
    puts("ready");
    fflush(stdout);
    run(&wire, listener);
}
