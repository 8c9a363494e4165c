/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_descriptor: what one process of a host sends another, with descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "linux/sys/rawe_descriptor.h"
#include "unit_test.h"

#define MOST 2u /* descriptors */

static int ends[2];

static void set_up(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void tear_down(void)
{
    close(ends[0]);
    close(ends[1]);
}

static ssize_t receive(size_t len_bytes, int *fd)
{
    char message[8];

    return rawe_descriptor_receive(ends[1], message, len_bytes, fd);
}

FIXTURE(set_up, tear_down);

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
    const int unused = dup(ends[0]); /* the lowest that is free */
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
