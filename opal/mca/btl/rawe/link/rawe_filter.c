/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel filter, as a classic BPF program. Every socket bound to our EtherType on an interface
 * runs its filter over every such frame, so the test that fails most often comes first: the key.
 */
#include "rawe_filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include "../core/rawe_wire.h"

/** A SOCK_RAW socket's filter sees the Ethernet header in front. */
#define AT(offset) (base + (offset))

/** Index of the two return statements in the program below. */
enum { ACCEPT = 13, DROP = 14, PROGRAM_LENGTH = 15 };

/** Distance from the statement `here` to the statement `there`; jumps count from the next one. */
#define TO(here, there) ((there) - (here) -1)

int rawe_filter_attach(int fd, enum rawe_filter_for what, uint16_t port, uint32_t key,
                       struct rawe_link_error *error)
{
    const uint8_t ping_pong_to = what == RAWE_FILTER_FOR_RESPONDER ? ACCEPT : DROP;
    const uint8_t others_to = what == RAWE_FILTER_FOR_RESPONDER ? DROP : ACCEPT;

    const uint32_t base =
        what == RAWE_FILTER_FOR_BULK ? RAWE_FILTER_BULK_OFFSET : RAWE_ETH_HEADER_BYTES;

    /* A load beyond the end of a short frame ends the program with "drop". */
    struct sock_filter program[PROGRAM_LENGTH] = {
        /* 0 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(RAWE_OFFSET_KEY)),
        /* 1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, key, 0, TO(1, DROP)),
        /* 2 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT(RAWE_OFFSET_PORT)),
        /* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, TO(3, DROP)),
        /* HOST: to this interface's own address; not OTHERHOST (promiscuous, or a VLAN that
         * nobody here is in), not broadcast, not a copy of what was sent. */
        /* 4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        /* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, TO(5, DROP)),
        /* 6 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT(RAWE_OFFSET_VERSION_TYPE)),
        /* 7 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, RAWE_WIRE_VERSION << 4, 0, TO(7, DROP)),
        /* 8 */ BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, RAWE_WIRE_VERSION << 4 | 0xF, TO(8, DROP), 0),
        /* 9 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xF),
        /* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAWE_FRAME_PING,
                          (uint8_t)TO(10, ping_pong_to), 0),
        /* 11 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAWE_FRAME_PONG,
                          (uint8_t)TO(11, ping_pong_to), 0),
        /* 12 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAWE_FRAME_PROBE, (uint8_t)TO(12, ACCEPT),
                          (uint8_t)TO(12, others_to)),
        [ACCEPT] = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        [DROP] = BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = {.len = PROGRAM_LENGTH, .filter = program};
    const int one = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
        *error = (struct rawe_link_error){"setsockopt(SO_ATTACH_FILTER)", errno};
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one) != 0) {
        *error = (struct rawe_link_error){"setsockopt(SO_LOCK_FILTER)", errno};
        return -1;
    }
    return 0;
}
