/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-wire: emulates the cables and the switch of a lab, with their faults. One process serves all
 * ports. It sleeps while no frame arrives, and runs until the lab ends it.
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
#include <unistd.h>

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
    /* A cable does not wait for a processor: wake up on time, and before spinning ranks. */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    setpriority(PRIO_PROCESS, 0, -10);
    puts("ready");
    fflush(stdout);
    run(&wire, listener);
}
