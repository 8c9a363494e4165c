/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_monitor: what a client receives, and when.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "linux/sys/rawe_monitor.h"
#include "unit_test.h"

#define NAME_BYTES 64
#define WAIT_MS 10000

static struct rawe_service *service;
static struct rawe_monitor *monitor;
static char name[NAME_BYTES]; /**< of the monitor's socket, without the leading 0 */
static unsigned described;    /**< number of calls of describe(); atomic */

static char *describe(void *context)
{
    __atomic_fetch_add(&described, 1, __ATOMIC_SEQ_CST);
    return context == NULL ? NULL : strdup(context);
}

/** Return the content of /proc/net/unix; the caller frees it. */
static char *list_sockets(void)
{
    FILE *file = fopen("/proc/net/unix", "re");
    char *text = NULL;
    size_t size = 0;

    assert_non_null(file);
    assert_true(getdelim(&text, &size, '\0', file) > 0);
    fclose(file);
    return text;
}

/** Find `name` as a tool would, ignoring other jobs' sockets, which `before` lists. */
static void find_name(const char *before)
{
    char *now = list_sockets(), *line = now;

    name[0] = '\0';
    while (name[0] == '\0' && (line = strstr(line, "@" RAWE_MONITOR_PREFIX)) != NULL) {
        char *rest = strchr(line, '\n');
        *rest = '\0';
        if (strstr(before, line) == NULL) {
            snprintf(name, sizeof name, "%s", line + 1);
        }
        line = rest + 1;
    }
    free(now);
    assert_string_not_equal(name, "");
}

static void open_monitor(char *text)
{
    struct rawe_port_error error;
    char *before = list_sockets();

    assert_int_equal(rawe_monitor_open(&monitor, describe, text, service, &error), 0);
    find_name(before);
    free(before);
}

static void set_up(void)
{
    struct rawe_port_error error;

    described = 0;
    assert_int_equal(rawe_service_start(&service, &error), 0);
}

static void tear_down(void)
{
    rawe_monitor_close(monitor);
    monitor = NULL;
    rawe_service_stop(service);
}

/** Returns true if a process listens on `name`. */
static bool connect_to_it(int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);

    memcpy(address.sun_path + 1, name, strlen(name));
    return connect(fd, (const struct sockaddr *)&address, (socklen_t)bytes) == 0;
}

/** Returns true if the title, this text and then end of file are received. */
static bool receives(int fd, const char *text)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char expected[200], got[200], more;
    const int len = snprintf(expected, sizeof expected, RAWE_MONITOR_TITLE "%s", text);

    return poll(&wait, 1, WAIT_MS) == 1 && recv(fd, got, sizeof got, 0) == len &&
           memcmp(got, expected, (size_t)len) == 0 && recv(fd, &more, 1, 0) == 0;
}

static bool answers(const char *text)
{
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    const bool right = connect_to_it(fd) && receives(fd, text);

    close(fd);
    return right;
}

FIXTURE(set_up, tear_down);

TEST(answer__is_the_description)
{
    char text[] = "rank 7\n";

    open_monitor(text);
    assert_int_equal(described, 0);
    for (unsigned i = 0; i < 20; i++) { /* more requests than are answered without a pause */
        assert_true(answers(text));
    }
    assert_int_equal(described, 20);
}

TEST(answer__comes_when_there_are_descriptors_again)
{
    const int tool = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct rlimit before, none;
    char text[] = "rank 7\n";

    open_monitor(text);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool connected = connect_to_it(tool);
    usleep(200000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(connected);
    assert_true(receives(tool, text));
    close(tool);
}

TEST(close__no_socket_is_left)
{
    char text[] = "rank 7\n";

    open_monitor(text);
    rawe_monitor_close(monitor);
    monitor = NULL;
    assert_false(answers(text));
}
