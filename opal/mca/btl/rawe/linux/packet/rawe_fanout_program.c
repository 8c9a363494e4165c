/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout programs. See rawe_fanout_program.h. The kernel's side: packet_rcv_fanout and
 * fanout_set_data_cbpf in net/packet/af_packet.c.
 */
#include "rawe_fanout_program.h"

#include <linux/if_packet.h>

/* Linux 4.12; older headers lack the name, and older kernels refuse it. */
#ifndef PACKET_FANOUT_FLAG_UNIQUEID
#define PACKET_FANOUT_FLAG_UNIQUEID 0x2000
#endif

/** Distance that a conditional jump of classic BPF reaches. */
#define JUMP_MAX 255u

/** Write the search among `places`; the key is in the accumulator. Returns its length. */
static unsigned write_search(struct sock_filter *program, const struct rawe_fanout_place *places,
                             unsigned count)
{
    if (count == 1) {
        program[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, places[0].place);
        return 1;
    }
    /* Smaller keys behind the jump, the others behind those. */
    const unsigned middle = count / 2;
    unsigned jumps = 1;
    unsigned smaller = write_search(program + jumps, places, middle);
    if (smaller > JUMP_MAX) {
        jumps = 2;
        smaller = write_search(program + jumps, places, middle);
        program[0] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, places[middle].key, 0, 1);
        program[1] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, smaller);
    } else {
        program[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, places[middle].key,
                                                  (uint8_t)smaller, 0);
    }
    return jumps + smaller +
           write_search(program + jumps + smaller, places + middle, count - middle);
}

unsigned rawe_fanout_program(struct sock_filter *program, const struct rawe_fanout_place *places,
                             unsigned count, uint32_t key_offset)
{
    /* Unlike a socket's filter, it sees the packet from behind the Ethernet header on. */
    program[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, key_offset);
    return 1 + write_search(program + 1, places, count);
}

int rawe_fanout_found(int fd, const struct rawe_port_config *config,
                      const struct rawe_fanout_place *places, unsigned count,
                      struct rawe_port_error *error)
{
    struct sock_filter refuse[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog filter = {.len = 1, .filter = refuse};
    struct sock_filter program[RAWE_FANOUT_PROGRAM_MAX(RAWE_FANOUT_PLACES_MAX)];
    const struct sock_fprog data = {
        .len = (unsigned short)rawe_fanout_program(program, places, count,
                                                   rawe_filter_key_offset(config->use)),
        .filter = program,
    };
    const unsigned new_group = (PACKET_FANOUT_CBPF | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
    const int one = 1;

    /* The lock last: it holds for the program, too. */
    return rawe_port_set_option(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter,
                                "setsockopt(SO_ATTACH_FILTER)", error) != 0 ||
                   rawe_filter_bind(fd, config, error) != 0 ||
                   rawe_port_set_option(fd, SOL_PACKET, PACKET_FANOUT, &new_group, sizeof new_group,
                                        "setsockopt(PACKET_FANOUT)", error) != 0 ||
                   rawe_port_set_option(fd, SOL_PACKET, PACKET_FANOUT_DATA, &data, sizeof data,
                                        "setsockopt(PACKET_FANOUT_DATA)", error) != 0 ||
                   rawe_port_set_option(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one,
                                        "setsockopt(SO_LOCK_FILTER)", error) != 0
               ? -1
               : 0;
}
