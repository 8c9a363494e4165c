/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_host_message: what one process of a host sends another, with descriptors.
 */
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "linux/host/rawe_host_message.h"
#include "unit_test.h"

#define MOST 1u /* descriptors */

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

static struct rawe_host_message message_of(unsigned count)
{
    return (struct rawe_host_message){
        .version = RAWE_HOST_MESSAGE_VERSION, .leaving = count == 0, .member.fd = ends[0]};
}

/** Send a message that has another number of descriptors than it says. */
static void send_with(const struct rawe_host_message *message, unsigned descriptors)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE((MOST + 1) * sizeof(int))];
    } control = {.header = {CMSG_LEN(descriptors * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec piece = {(void *)(uintptr_t)message, sizeof *message};
    const struct msghdr header = {
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = CMSG_SPACE(descriptors * sizeof(int)),
    };

    for (unsigned i = 0; i < descriptors && i <= MOST; i++) {
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &ends[0], sizeof(int));
    }
    assert_true(sendmsg(ends[0], &header, 0) > 0);
}

FIXTURE(set_up, tear_down);

TEST(receive__what_was_sent)
{
    struct rawe_host_message message = message_of(1);

    assert_int_equal(rawe_host_message_receive(ends[1], &message), RAWE_HOST_MESSAGE_NONE);
    message = message_of(1);
    assert_true(rawe_host_message_send(ends[0], &message));
    assert_int_equal(rawe_host_message_receive(ends[1], &message), RAWE_HOST_MESSAGE_TAKEN);
    assert_int_equal(message.leaving, 0);
    assert_int_equal(fcntl(message.member.fd, F_GETFD), FD_CLOEXEC);
    close(message.member.fd);
    message = message_of(0);
    assert_true(rawe_host_message_send(ends[0], &message));
    assert_int_equal(rawe_host_message_receive(ends[1], &message), RAWE_HOST_MESSAGE_TAKEN);
    assert_int_equal(message.leaving, 1);
    assert_int_equal(message.member.fd, -1);
}

TEST(receive__other_numbers_of_descriptors)
{
    const int unused = dup(ends[0]); /* the lowest that is free */

    close(unused);
    for (unsigned said = 0; said <= MOST; said++) {
        for (unsigned sent = 1; sent <= MOST + 1; sent++) {
            struct rawe_host_message message = message_of(said);
            send_with(&message, sent);
            const enum rawe_host_message_result result =
                rawe_host_message_receive(ends[1], &message);
            assert_int_equal(result,
                             said == sent ? RAWE_HOST_MESSAGE_TAKEN : RAWE_HOST_MESSAGE_INVALID);
            if (result == RAWE_HOST_MESSAGE_TAKEN) {
                close(message.member.fd);
            }
            const int next = dup(ends[0]);
            assert_int_equal(next, unused); /* none has stayed open */
            close(next);
        }
    }
}
