/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_host_group over a veth pair, in their own network namespace. The host's processes
 * are objects in a single process; they exchange the same messages as real processes.
 */
#define _GNU_SOURCE
#include <linux/if_packet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/host/rawe_host_group.h"

#define PROCESSES 4u
#define NAME "rawe-test"
#define WAIT_MS 10000u

struct process {
    struct fixture_end end;
    struct rawe_port *link;
    struct rawe_host_group *group;
    unsigned broken;   /**< atomic: calls of broken() */
    unsigned failures; /**< calls of broken() that fail and must be repeated */
    bool reopens;      /**< broken() reopens the link */
};

static struct rawe_service *service;
static struct rawe_port *sender;
static struct process processes[PROCESSES];
static const char *helper;

static int broken(void *context)
{
    struct process *process = context;
    struct rawe_port_error error;

    __atomic_fetch_add(&process->broken, 1, __ATOMIC_SEQ_CST);
    if (process->failures > 0) {
        process->failures--;
        return 1;
    }
    if (process->reopens) {
        assert_int_equal(rawe_port_reopen(process->link, net.b.index, &error), 0);
    }
    return -1;
}

static bool open_group(struct process *process, bool leader, unsigned count)
{
    const struct rawe_host_group_config config = {
        .name = NAME,
        .leader = leader,
        .processes = count,
        .helper = helper,
        .broken = broken,
        .context = process,
    };
    struct rawe_port_error error;

    return rawe_host_group_open(&process->group, &config, service, &error) == 0;
}

static void begin(struct process *process, bool leader, unsigned count)
{
    assert_true(open_group(process, leader, count));
    rawe_host_group_register(process->group, process->link);
}

/** Let the first `count` of `expected` processes begin; process 0 leads. */
static void open_groups(unsigned count, unsigned expected)
{
    for (unsigned i = 0; i < count; i++) {
        begin(&processes[i], i == 0, expected);
    }
}

static void open_links(void)
{
    struct rawe_port_error error;

    assert_int_equal(rawe_service_start(&service, &error), 0);
    sender = fixture_open(&net, &net.a, 1 << 18);
    for (unsigned i = 0; i < PROCESSES; i++) {
        processes[i] = (struct process){.end = net.b};
        processes[i].end.key += i;
        processes[i].link = fixture_open(&net, &processes[i].end, 1 << 18);
    }
}

static void end_process(struct process *process)
{
    rawe_port_close(process->link);
    process->link = NULL;
    rawe_host_group_close(process->group, 0);
    process->group = NULL;
}

static void close_links(void)
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        end_process(&processes[i]);
    }
    rawe_port_close(sender);
    rawe_service_stop(service);
}

FIXTURE(open_links, close_links);

static bool in_group(const struct process *process)
{
    int group = 0;
    socklen_t group_bytes = sizeof group;

    assert_int_equal(getsockopt(process->link->fd, SOL_PACKET, PACKET_FANOUT, &group, &group_bytes),
                     0);
    return group != 0;
}

static bool all_in_group(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (processes[i].link != NULL && !in_group(&processes[i])) {
            return false;
        }
    }
    return true;
}

/** Wait until all remaining processes among the first `count` have joined. */
static void await_joined(unsigned count)
{
    AWAIT(all_in_group(count));
    assert_true(all_in_group(count));
}

static void await_calls(struct process *process, unsigned count)
{
    AWAIT(__atomic_load_n(&process->broken, __ATOMIC_SEQ_CST) >= count);
    assert_int_equal(__atomic_load_n(&process->broken, __ATOMIC_SEQ_CST), count);
}

/** Assert that the process receives a frame. */
static void assert_reached(struct process *process)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_DATA, .port = process->end.port, .key = process->end.key};
    uint8_t frame[RAWE_PAYLOAD_OFFSET] = {0};
    unsigned count = 0;

    fixture_write_head(frame, &net.a, &net.b, &header);
    for (unsigned i = 0; i < WAIT_MS && count == 0; i++) {
        fixture_send(sender, frame, sizeof frame);
        usleep(1000);
        count = fixture_receive(process->link);
    }
    assert_true(count > 0);
}

static void form_group(void)
{
    open_groups(PROCESSES, PROCESSES);
    await_joined(PROCESSES);
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_reached(&processes[i]);
    }
}

TEST(open__the_leader_may_be_the_last)
{
    for (unsigned i = PROCESSES; i-- > 0;) {
        begin(&processes[i], i == 0, PROCESSES);
        usleep(50000);
    }
    await_joined(PROCESSES);
}

TEST(register__those_that_came_join_without_the_missing_one)
{
    open_groups(PROCESSES - 1, PROCESSES);
    await_joined(PROCESSES - 1);
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_reached(&processes[i]);
    }
    /* The late process does not join the group. */
    struct process *late = &processes[PROCESSES - 1];
    begin(late, false, PROCESSES);
    assert_reached(late);
    assert_false(in_group(late));
}

static void reopen(struct process *process)
{
    struct rawe_port_error error;

    await_calls(process, 1);
    assert_int_equal(rawe_port_reopen(process->link, net.b.index, &error), 0);
}

/** The remaining processes lose their places; after reopening, they receive all their frames. */
TEST(leader__that_ends_breaks_the_group)
{
    form_group();
    end_process(&processes[0]);
    for (unsigned i = 1; i < PROCESSES; i++) {
        reopen(&processes[i]);
    }
    for (unsigned i = 1; i < PROCESSES; i++) {
        assert_false(in_group(&processes[i]));
        assert_reached(&processes[i]);
    }
}

/** MPI programs may fork: a child's copies of the descriptors must not keep connections open. */
TEST(leader__that_ends_breaks_the_group_although_a_child_lives)
{
    form_group();
    const pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    end_process(&processes[0]);
    for (unsigned i = 1; i < PROCESSES; i++) {
        AWAIT(__atomic_load_n(&processes[i].broken, __ATOMIC_SEQ_CST) == 1);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (unsigned i = 1; i < PROCESSES; i++) {
        await_calls(&processes[i], 1);
    }
}

/** The remaining processes reopen their sockets, after any number of failures, and join again. */
TEST(member__that_ends_leaves_the_others_to_form_another_group)
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        processes[i].reopens = true;
        processes[i].failures = i;
    }
    form_group();
    end_process(&processes[1]);
    for (unsigned i = 0; i < PROCESSES; i++) {
        if (i != 1) {
            await_calls(&processes[i], 1 + i);
        }
    }
    await_joined(PROCESSES);
    assert_reached(&processes[0]);
    assert_reached(&processes[2]);
    assert_reached(&processes[3]);
    /* The second group breaks just as the first did. */
    end_process(&processes[2]);
    await_calls(&processes[0], 2);
    await_calls(&processes[3], 5);
    await_joined(PROCESSES);
    assert_reached(&processes[0]);
    assert_reached(&processes[3]);
}

/** If a process ends before it has joined, the other processes are not affected. */
TEST(member__that_ends_early_is_forgotten)
{
    open_groups(2, PROCESSES - 1);
    usleep(50000);
    end_process(&processes[1]);
    usleep(50000);
    for (unsigned i = 2; i < PROCESSES; i++) {
        begin(&processes[i], false, PROCESSES - 1);
    }
    await_joined(PROCESSES);
    assert_reached(&processes[0]);
    assert_reached(&processes[2]);
    assert_reached(&processes[3]);
    assert_int_equal(processes[0].broken, 0);
}

TEST(quiesce__the_end_of_the_leader_is_of_no_interest)
{
    form_group();
    rawe_host_group_quiesce(processes[1].group);
    end_process(&processes[0]);
    await_calls(&processes[2], 1);
    await_calls(&processes[3], 1);
    end_process(&processes[1]);
    assert_int_equal(processes[1].broken, 0);
}

/** Close the group after a delay: each process must wait for all others to close it as well. */
static void *close_slowly(void *context)
{
    const unsigned i = (unsigned)((struct process *)context - processes);

    usleep(20000 * i);
    rawe_host_group_close(processes[i].group, WAIT_MS);
    processes[i].group = NULL;
    return NULL;
}

TEST(close__all_wait_for_the_last)
{
    pthread_t threads[PROCESSES];

    form_group();
    for (unsigned i = 0; i + 1 < PROCESSES; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, close_slowly, &processes[i]), 0);
    }
    /* The last process has not closed yet, and must still receive its frames. */
    usleep(200000);
    assert_reached(&processes[PROCESSES - 1]);
    (void)close_slowly(&processes[PROCESSES - 1]);
    for (unsigned i = 0; i + 1 < PROCESSES; i++) {
        pthread_join(threads[i], NULL);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_int_equal(processes[i].broken, 0);
        assert_true(in_group(&processes[i]));
    }
}

/** A process that closes without waiting for the other processes breaks their group. */
TEST(close__without_waiting_breaks_the_group)
{
    form_group();
    rawe_host_group_close(processes[2].group, 0);
    processes[2].group = NULL;
    await_calls(&processes[0], 1);
    await_calls(&processes[1], 1);
    await_calls(&processes[3], 1);
}

/** A process passes no socket to a process of another user, and a leader accepts none from one. */
TEST(open__processes_of_other_users_stay_out)
{
    assert_int_equal(seteuid(65534), 0);
    assert_true(open_group(&processes[0], true, 2));
    assert_int_equal(seteuid(0), 0);
    rawe_host_group_register(processes[0].group, processes[0].link);
    begin(&processes[1], false, 2);
    assert_reached(&processes[1]);
    sleep(6); /* longer than the leader waits for absent processes */
    assert_false(in_group(&processes[0]) || in_group(&processes[1]));
    assert_int_equal(processes[1].broken, 0);
}

static int open_by_hand(struct sockaddr_un *address, socklen_t *address_bytes)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, NAME, strlen(NAME));
    *address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(NAME));
    return socket(AF_UNIX, SOCK_SEQPACKET, 0);
}

static int connect_by_hand(void)
{
    struct sockaddr_un address;
    socklen_t address_bytes;
    const int fd = open_by_hand(&address, &address_bytes);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, address_bytes), 0);
    return fd;
}

TEST(leader__ends_connections_that_send_anything_else)
{
    const uint8_t message[sizeof(struct rawe_fanout_member) + 1] = {0};
    const size_t len_bytes[] = {3, sizeof message - 1, sizeof message};
    char byte;

    assert_true(open_group(&processes[0], true, 2));
    for (unsigned i = 0; i < 3; i++) {
        const int fd = connect_by_hand();
        assert_true(send(fd, message, len_bytes[i], 0) > 0); /* without passing a socket */
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        close(fd);
    }
    rawe_host_group_register(processes[0].group, processes[0].link);
    begin(&processes[1], false, 2);
    await_joined(2);
}

TEST(leader__refuses_other_users)
{
    enum { REFUSED = 30 };
    int refused[REFUSED];
    char byte;

    assert_true(open_group(&processes[0], true, 2));
    assert_int_equal(syscall(SYS_setresuid, -1, 65534, -1), 0); /* this thread only */
    for (unsigned i = 0; i < REFUSED; i++) {
        refused[i] = connect_by_hand();
    }
    assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
    rawe_host_group_register(processes[0].group, processes[0].link);
    begin(&processes[1], false, 2);
    await_joined(2);
    for (unsigned i = 0; i < REFUSED; i++) {
        assert_int_equal(recv(refused[i], &byte, 1, 0), 0);
        close(refused[i]);
    }
}

/** Open the listening socket of a leader whose part the test itself plays. */
static int listen_by_hand(void)
{
    struct sockaddr_un address;
    socklen_t address_bytes;
    const int fd = open_by_hand(&address, &address_bytes);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, address_bytes), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/** There are four sockets per interface: link, responder, bulk and middle bulk. */
TEST(register__all_sockets_of_sixteen_interfaces)
{
    const struct timeval most = {.tv_sec = WAIT_MS / 1000};
    const int leader = listen_by_hand();
    struct rawe_fanout_member message;

    assert_true(open_group(&processes[1], false, 2));
    for (unsigned i = 0; i < 4 * 16; i++) {
        rawe_host_group_register(processes[1].group, processes[1].link);
    }
    const int fd = accept(leader, NULL, NULL);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most), 0);
    for (unsigned i = 0; i < 4 * 16; i++) {
        assert_int_equal(recv(fd, &message, sizeof message, 0), sizeof message);
    }
    close(fd);
    close(leader);
}

/** A leader with no room for a member closes the connection, and the member does not retry. */
TEST(member__that_is_refused_stays_by_itself)
{
    struct rawe_fanout_member message;
    struct pollfd wait = {.fd = listen_by_hand(), .events = POLLIN};

    begin(&processes[1], false, 2);
    const int fd = accept(wait.fd, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(recv(fd, &message, sizeof message, 0), sizeof message);
    close(fd);
    assert_int_equal(poll(&wait, 1, 1000), 0);
    assert_int_equal(processes[1].broken, 0);
    assert_reached(&processes[1]);
    close(wait.fd);
}

TEST(open__a_name_has_one_leader)
{
    assert_true(open_group(&processes[0], true, 2));
    assert_false(open_group(&processes[1], true, 2));
    assert_null(processes[1].group);
}

struct counted {
    struct rawe_service_source source; /**< first */
    unsigned calls;                    /**< atomic */
};

static int count_call(struct rawe_service_source *source, short events)
{
    __atomic_fetch_add(&((struct counted *)source)->calls, 1, __ATOMIC_SEQ_CST);
    return -1;
}

/** Wait until a helper has written its process id to this file, and return it. */
static pid_t await_helper(const char *said)
{
    for (unsigned i = 0; i < WAIT_MS; i++) {
        FILE *file = fopen(said, "re");
        int pid = 0;
        if (file != NULL && fscanf(file, "%d\n", &pid) == 1) {
            fclose(file);
            return pid;
        }
        if (file != NULL) {
            fclose(file);
        }
        usleep(1000);
    }
    fail_msg("no helper was started");
    return 0;
}

/** The service thread answers PINGs while a helper opens a group's first socket. */
TEST(leader__does_not_keep_the_service_thread_waiting)
{
    char folder[] = "/tmp/rawe-test-XXXXXX", path[64], said[64];
    struct counted counted = {.source = {.serve = count_call, .fd = -1}};
    struct rawe_port_error error;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/helper", folder);
    snprintf(said, sizeof said, "%s/said", folder);
    FILE *script = fopen(path, "we");
    assert_non_null(script);
    fprintf(script, "#!/bin/sh\necho $$ >%s\nexec tail\n", said);
    assert_int_equal(fclose(script), 0);
    assert_int_equal(chmod(path, 0755), 0);
    helper = path;
    assert_int_equal(rawe_service_add(service, &counted.source, &error), 0);
    assert_int_equal(seteuid(65534), 0); /* without CAP_NET_RAW */
    open_groups(PROCESSES, PROCESSES);
    const pid_t pid = await_helper(said);
    const unsigned calls = __atomic_load_n(&counted.calls, __ATOMIC_SEQ_CST);
    rawe_service_wake(&counted.source, 0);
    AWAIT(__atomic_load_n(&counted.calls, __ATOMIC_SEQ_CST) != calls);
    assert_true(__atomic_load_n(&counted.calls, __ATOMIC_SEQ_CST) > calls);
    assert_false(in_group(&processes[0]));
    assert_int_equal(kill(pid, SIGKILL), 0);
    rawe_service_remove(&counted.source);
    assert_int_equal(seteuid(0), 0);
    helper = NULL;
    fixture_run("rm -r %s", folder);
    assert_reached(&processes[0]);
}
