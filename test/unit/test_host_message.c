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

#define MOST RAWE_HOST_MESSAGE_SOCKETS_MAX

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
    struct rawe_host_message message = {.version = RAWE_HOST_MESSAGE_VERSION, .count = count};

    for (unsigned i = 0; i < count && i < MOST; i++) {
        message.members[i].fd = ends[0];
    }
    return message;
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

    for (unsigned i = 0; i < descriptors; i++) {
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &ends[0], sizeof(int));
    }
    assert_true(sendmsg(ends[0], &header, 0) > 0);
}

FIXTURE(set_up, tear_down);

TEST(receive__what_was_sent)
{
    struct rawe_host_message message = message_of(MOST);

    assert_int_equal(rawe_host_message_receive(ends[1], &message), RAWE_HOST_MESSAGE_NONE);
    message = message_of(MOST);
    assert_true(rawe_host_message_send(ends[0], &message));
    assert_int_equal(rawe_host_message_receive(ends[1], &message), RAWE_HOST_MESSAGE_TAKEN);
    assert_int_equal(message.count, MOST);
    for (unsigned i = 0; i < MOST; i++) {
        assert_int_equal(fcntl(message.members[i].fd, F_GETFD), FD_CLOEXEC);
        close(message.members[i].fd);
    }
}

TEST(receive__other_numbers_of_descriptors)
{
    const int unused = dup(ends[0]); /* the lowest that is free */

    close(unused);
    for (unsigned said = 0; said <= MOST + 1; said++) {
        for (unsigned sent = 1; sent <= MOST + 1; sent++) {
            struct rawe_host_message message = message_of(said);
            send_with(&message, sent);
            /* The kernel may deliver one more than there is room for: that one is closed. */
            const bool taken = said == sent ? said <= MOST : said == MOST && sent == MOST + 1;
            const enum rawe_host_message_result result =
                rawe_host_message_receive(ends[1], &message);
            if (result == RAWE_HOST_MESSAGE_TAKEN) {
                assert_true(taken);
                for (unsigned i = 0; i < message.count; i++) {
                    close(message.members[i].fd);
                }
            } else {
                assert_int_equal(result, RAWE_HOST_MESSAGE_INVALID);
            }
            const int next = dup(ends[0]);
            assert_int_equal(next, unused); /* none has stayed open */
            close(next);
        }
    }
}
