/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_shared: memory shared through a file, and descriptors sent in messages.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linux/sys/rawe_shared.h"
#include "unit_test.h"

#define BYTES 8192u
#define MOST 2u /* descriptors per message */

static char directory[32];
static char path[64];
static int ends[2];

static void set_up(void)
{
    snprintf(directory, sizeof(directory), "/tmp/rawe-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/shared", directory);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void tear_down(void)
{
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
    close(ends[0]);
    close(ends[1]);
}

static ssize_t receive(size_t len_bytes, int *fd)
{
    char message[8];

    return rawe_descriptor_receive(ends[1], message, len_bytes, fd);
}

FIXTURE(set_up, tear_down);

TEST(map__processes_see_what_others_write)
{
    volatile unsigned *ours = rawe_shared_map(path, BYTES);
    assert_non_null(ours);
    for (size_t i = 0; i < BYTES / sizeof(*ours); i++) {
        assert_int_equal(ours[i], 0);
    }
    ours[0] = 17;
    const pid_t child = fork();
    if (child == 0) {
        volatile unsigned *theirs = rawe_shared_map(path, BYTES);
        if (theirs == NULL || theirs[0] != 17) {
            _exit(1);
        }
        theirs[BYTES / sizeof(*theirs) - 1] = 18;
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ours[BYTES / sizeof(*ours) - 1], 18);
    rawe_shared_unmap((void *)ours, BYTES);
}

TEST(map__only_its_user_may_open_it)
{
    struct stat status;
    void *memory = rawe_shared_map(path, BYTES);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    rawe_shared_unmap(memory, BYTES);
}

TEST(map__refuses_what_it_did_not_make)
{
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_null(rawe_shared_map(path, BYTES));
    unlink(path);
    rawe_shared_unmap(rawe_shared_map(path, BYTES / 2), BYTES / 2);
    assert_null(rawe_shared_map(path, BYTES));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_null(rawe_shared_map(path, BYTES));
    assert_int_equal(rmdir(path), 0);
    assert_null(rawe_shared_map("/tmp/rawe-there-is-no-such-directory/shared", BYTES));
}

/** Mount a one-page file system on the directory, for this process only. */
static bool mount_page(void)
{
    return unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0 &&
           mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", directory, "tmpfs", 0, "size=4096") == 0;
}

/** A mapping without room would raise SIGBUS in the first process that writes to it. */
TEST(map__not_where_there_is_no_room)
{
    enum { REFUSED, MAPPED, NO_MOUNT };
    const pid_t child = fork();
    if (child == 0) {
        _exit(!mount_page() ? NO_MOUNT : rawe_shared_map(path, BYTES) == NULL ? REFUSED : MAPPED);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_MOUNT) {
        skip(); /* mounting is not permitted */
    }
    assert_int_equal(WEXITSTATUS(status), REFUSED);
}

TEST(is_ours__of_this_user)
{
    assert_true(rawe_descriptor_is_ours(ends[0], false));
    assert_true(rawe_descriptor_is_ours(ends[0], true));
    assert_false(rawe_descriptor_is_ours(-1, true));
}

TEST(receive__what_was_sent)
{
    int fd;

    assert_int_equal(receive(4, &fd), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(rawe_descriptor_send(ends[0], "text", 4, ends[0]));
    assert_true(rawe_descriptor_send(ends[0], "t", 1, -1));
    assert_int_equal(receive(4, &fd), 4);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    assert_int_equal(receive(4, &fd), 1);
    assert_int_equal(fd, -1);
    shutdown(ends[0], SHUT_WR);
    assert_int_equal(receive(4, &fd), 0);
}

/** A refused message leaves no descriptor open. */
TEST(receive__too_much)
{
    const int unused = dup(ends[0]); /* the lowest free descriptor */
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MOST * sizeof(int))];
    } control = {.header = {CMSG_LEN(MOST * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    char text[] = "text";
    struct iovec piece = {text, 4};
    const struct msghdr many = {.msg_iov = &piece,
                                .msg_iovlen = 1,
                                .msg_control = control.bytes,
                                .msg_controllen = sizeof control.bytes};
    int fd;

    close(unused);
    memcpy(CMSG_DATA(&control.header), ends, sizeof ends);
    assert_true(sendmsg(ends[0], &many, 0) > 0);
    assert_true(rawe_descriptor_send(ends[0], "text", 4, ends[0]));
    for (size_t len_bytes = 4; len_bytes >= 3; len_bytes--) {
        assert_int_equal(receive(len_bytes, &fd), -1);
        assert_int_equal(errno, EBADMSG);
        assert_int_equal(fd, -1);
        fd = dup(ends[0]);
        assert_int_equal(fd, unused);
        close(fd);
    }
}
