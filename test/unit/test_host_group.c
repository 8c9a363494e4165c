/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_host_group without sockets that can join a group. test/lab/link/test_host_group.c
 * has the others.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "linux/host/rawe_host_group.h"
#include "linux/packet/rawe_packet.h"
#include "unit_test.h"

#define WAIT_MS 300u
#define NS_PER_MS 1000000u

static char name[32];

/** Return a socket that listens where a group's processes look for their leader. */
static int listen_as_leader(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(name, sizeof(name), "rawe-test-%d", (int)getpid());
    memcpy(address.sun_path + 1, name, strlen(name));
    assert_int_equal(bind(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void ignore(int number)
{
}

/** Have a signal interrupt the program's system calls every `ms`; 0: no longer. */
static void interrupt_every(unsigned ms)
{
    const struct sigaction action = {.sa_handler = ignore};
    const struct timeval interval = {.tv_usec = 1000 * (suseconds_t)ms};
    const struct itimerval timer = {interval, interval};

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/** Profilers set such timers: other processes must not lose frames because this one ends early. */
TEST(rawe_host_group_close__signals_do_not_end_the_wait)
{
    struct rawe_packet packet = {.port = {.kind = &rawe_packet_port, .fd = STDIN_FILENO}};
    const struct rawe_host_group_config config = {.name = name, .processes = 2};
    const int leader = listen_as_leader();
    struct rawe_host_group *group;
    struct rawe_service *service;
    struct rawe_port_error error;

    assert_int_equal(rawe_service_start(&service, &error), 0);
    assert_int_equal(rawe_host_group_open(&group, &config, service, &error), 0);
    rawe_host_group_register(group, &packet.port);
    const int connection = accept(leader, NULL, NULL);
    assert_true(connection >= 0);
    interrupt_every(20);
    const uint64_t began_ns = rawe_port_clock_ns();
    rawe_host_group_close(group, WAIT_MS);
    assert_true(rawe_port_clock_ns() - began_ns >= (uint64_t)(WAIT_MS - 1) * NS_PER_MS);
    interrupt_every(0);
    rawe_service_stop(service);
    close(connection);
    close(leader);
}
