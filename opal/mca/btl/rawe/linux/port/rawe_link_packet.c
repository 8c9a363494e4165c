/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The link over a packet socket: frames come out of a receive ring, frames go out one system call
 * each. Measured and not worth it: sendmmsg, a transmit ring, and a second socket to send through
 * (the same within 2 % in ping-pong and in streams both ways).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rawe_link.h"
#include "../packet/rawe_ring.h"
#include "../packet/rawe_socket.h"

_Static_assert(TP_STATUS_USER == RAWE_LINK_STATUS_USER, "rawe_link_pending tests this bit");
_Static_assert(offsetof(struct tpacket2_hdr, tp_status) == 0, "rawe_link_pending reads this word");
_Static_assert(sizeof(struct rawe_bytes) == sizeof(struct iovec) &&
                   offsetof(struct rawe_bytes, base) == offsetof(struct iovec, iov_base) &&
                   offsetof(struct rawe_bytes, len_bytes) == offsetof(struct iovec, iov_len),
               "a frame's pieces are handed to the kernel as they are");

struct rawe_link {
    struct rawe_link_head head; /**< first: see rawe_link_inline.h */
    struct rawe_ring ring;
    int fd;
    struct rawe_link_counters counters;
};

static void point_head(struct rawe_link *link)
{
    link->head.next_status = &link->ring.next->tp_status;
}

int rawe_link_open(struct rawe_link **link, const struct rawe_link_config *config,
                   struct rawe_link_error *error)
{
    struct rawe_link *l = calloc(1, sizeof *l);

    *link = NULL;
    if (l == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        return -1;
    }
    l->fd = rawe_socket_open(&l->ring, config, RAWE_FILTER_FOR_LINK, config->mtu_bytes,
                             config->ring_bytes, error);
    if (l->fd < 0) {
        free(l);
        return -1;
    }
    point_head(l);
    *link = l;
    return 0;
}

void rawe_link_close(struct rawe_link *link)
{
    if (link == NULL) {
        return;
    }
    rawe_ring_close(&link->ring);
    close(link->fd);
    free(link);
}

int rawe_link_reopen(struct rawe_link *link, const struct rawe_link_config *config,
                     struct rawe_link_error *error)
{
    if (rawe_socket_reopen(link->fd, &link->ring, config, RAWE_FILTER_FOR_LINK, config->mtu_bytes,
                           config->ring_bytes, error) != 0) {
        return -1;
    }
    point_head(link);
    return 0;
}

int rawe_link_fd(const struct rawe_link *link)
{
    return link->fd;
}

unsigned rawe_link_receive(struct rawe_link *link, unsigned budget, rawe_link_receive_fn *receive,
                           void *context)
{
    unsigned received = 0;

    while (received < budget) {
        struct tpacket2_hdr *slot = rawe_ring_take(&link->ring);
        if (slot == NULL) {
            break;
        }
        /* Before the callback, which may come back here. */
        point_head(link);
        link->counters.frames_received++;
        received++;
        receive(context, rawe_ring_frame(slot), slot->tp_snaplen);
        rawe_ring_give_back(slot);
    }
    return received;
}

static ssize_t send_frame(int fd, const struct rawe_frame *frame)
{
    if (frame->piece_count == 1) {
        return send(fd, frame->pieces[0].base, frame->pieces[0].len_bytes, MSG_DONTWAIT);
    }
    const struct msghdr message = {
        .msg_iov = (struct iovec *)(uintptr_t)frame->pieces,
        .msg_iovlen = frame->piece_count,
    };
    return sendmsg(fd, &message, MSG_DONTWAIT);
}

unsigned rawe_link_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct rawe_link *link = context;
    unsigned taken = 0;

    while (taken < count) {
        if (send_frame(link->fd, &frames[taken]) >= 0) {
            link->counters.frames_sent++;
            taken++;
            continue;
        }
        const int code = errno;
        if (code == EINTR) {
            continue;
        }
        if (code == EAGAIN || code == ENOBUFS) {
            link->counters.send_full++;
            break;
        }
        link->counters.send_errors++;
        link->counters.last_send_errno = (uint64_t)code;
        taken++;
    }
    return taken;
}

unsigned rawe_link_ring_frames(const struct rawe_link *link)
{
    return rawe_ring_slots(&link->ring);
}

void rawe_link_read_counters(struct rawe_link *link, struct rawe_link_counters *counters)
{
    struct tpacket_stats stats;
    socklen_t len_bytes = sizeof stats;

    /* Reading resets the kernel's figures. */
    if (getsockopt(link->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len_bytes) == 0) {
        link->counters.ring_drops += stats.tp_drops;
    }
    *counters = link->counters;
}
