/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel filter, as a classic BPF program. Every socket bound to our EtherType on an interface
 * runs its filter over every such frame, so the test that fails most often comes first: the key.
 */
#include "rawe_filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include "../../core/base/rawe_wire.h"

/** A SOCK_RAW socket's filter sees the Ethernet header in front. */
#define AT(offset) (RAWE_ETH_HEADER_BYTES + (offset))

/** Distance from the statement `here` to the statement `there`; jumps count from the next one. */
#define TO(here, there) ((uint8_t)((there) - (here)-1))

/** First byte of a frame header. */
#define VERSION_TYPE(type) ((uint32_t)(RAWE_WIRE_VERSION << 4 | (type)))

static int attach(int fd, struct sock_filter *program, unsigned short length,
                  struct rawe_port_error *error)
{
    const struct sock_fprog filter = {.len = length, .filter = program};
    const int one = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
        return rawe_port_failed(error, "setsockopt(SO_ATTACH_FILTER)", errno);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one) != 0) {
        return rawe_port_failed(error, "setsockopt(SO_LOCK_FILTER)", errno);
    }
    return 0;
}

/** As the kernel classes what the socket is to be given. */
static uint32_t packet_type(const struct rawe_port_config *config)
{
    return (config->group[0] & 1) != 0 ? PACKET_MULTICAST : PACKET_HOST;
}

/*
 * In both programs a load beyond the end of a short frame ends the program with "drop". HOST: to
 * this interface's own address (a group's socket: to a group); not OTHERHOST (promiscuous, or a VLAN
 * that this host is not in), not broadcast, not a copy of what was sent. The EtherType is that of the
 * binding, and is checked because the descriptor's holder can bind it again.
 */

/** Where the EtherType lies. */
#define ETHERTYPE_OFFSET 12u

/** The IPv4 source address of batches: no other packet has it, whatever key and port look like. */
#define BATCH_SOURCE_OFFSET (RAWE_ETH_HEADER_BYTES + 12u)
#define BATCH_SOURCE UINT32_MAX

/** Where a header has what the program looks at, from the Ethernet header on. */
struct offsets {
    uint32_t key, port, version_type;
};

struct program {
    struct sock_filter statements[32];
    unsigned short length;
};

static void append(struct program *program, struct sock_filter statement)
{
    program->statements[program->length++] = statement;
}

/** Drop what has not this value there; `size` is BPF_B, BPF_H or BPF_W. */
static void demand(struct program *program, uint16_t size, uint32_t at, uint32_t value)
{
    append(program, (struct sock_filter)BPF_STMT((uint16_t)(BPF_LD | size | BPF_ABS), at));
    append(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    append(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
}

/** Drop the packets of the other port for batches, by their length: no load, so it comes first. */
static void demand_length(struct program *program, bool middle)
{
    append(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0));
    append(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, RAWE_FILTER_MIDDLE_MIN,
                                                 0, middle ? 1 : 2));
    append(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, RAWE_FILTER_MIDDLE_MAX,
                                                 middle ? 0 : 1, middle ? 1 : 0));
    append(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
}

/** Everything for the session's port and key but PING and PONG. */
static int attach_for_session(int fd, const struct offsets *at,
                              const struct rawe_port_config *config, struct rawe_port_error *error)
{
    enum { ACCEPT = 6, DROP = 7, LENGTH = 8 };
    const struct sock_filter types[LENGTH] = {
        /* 0 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, at->version_type),
        /* 1 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, VERSION_TYPE(0), 0, TO(1, DROP)),
        /* 2 */ BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, VERSION_TYPE(0xF), TO(2, DROP), 0),
        /* 3 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xF),
        /* 4 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAWE_FRAME_PING, TO(4, DROP), 0),
        /* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAWE_FRAME_PONG, TO(5, DROP), 0),
        [ACCEPT] = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        [DROP] = BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct program program = {.length = 0};

    if (rawe_port_use_is_bulk(config->use)) {
        demand_length(&program, config->use == RAWE_PORT_MIDDLE);
    }
    demand(&program, BPF_W, at->key, config->key);
    demand(&program, BPF_H, at->port, config->port);
    demand(&program, BPF_B, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE), packet_type(config));
    demand(&program, BPF_H, ETHERTYPE_OFFSET, rawe_filter_ethertype(config));
    if (rawe_port_use_is_bulk(config->use)) {
        demand(&program, BPF_W, BATCH_SOURCE_OFFSET, BATCH_SOURCE);
    }
    for (unsigned i = 0; i < LENGTH; i++) {
        append(&program, types[i]);
    }
    return attach(fd, program.statements, program.length, error);
}

/** PING and PONG for the responder's port and key, PROBE for the session's. */
static int attach_for_responder(int fd, const struct rawe_port_config *config,
                                struct rawe_port_error *error)
{
    enum { SESSION = 7, HOST = 12, ACCEPT = 16, DROP = 17, LENGTH = 18 };
    struct sock_filter program[LENGTH] = {
        /* 0 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(RAWE_OFFSET_KEY)),
        /* 1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config->ping_key, 0, TO(1, SESSION)),
        /* 2 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT(RAWE_OFFSET_PORT)),
        /* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config->ping_port, 0, TO(3, DROP)),
        /* 4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT(RAWE_OFFSET_VERSION_TYPE)),
        /* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VERSION_TYPE(RAWE_FRAME_PING), TO(5, HOST), 0),
        /* 6 */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VERSION_TYPE(RAWE_FRAME_PONG), TO(6, HOST),
                 TO(6, DROP)),
        [SESSION] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config->key, 0, TO(SESSION, DROP)),
        /* 8 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT(RAWE_OFFSET_PORT)),
        /* 9 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config->port, 0, TO(9, DROP)),
        /* 10 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT(RAWE_OFFSET_VERSION_TYPE)),
        /* 11 */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VERSION_TYPE(RAWE_FRAME_PROBE), 0, TO(11, DROP)),
        [HOST] = BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        /* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, packet_type(config), 0, TO(13, DROP)),
        /* 14 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETHERTYPE_OFFSET),
        /* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config->ethertype, 0, TO(15, DROP)),
        [ACCEPT] = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        [DROP] = BPF_STMT(BPF_RET | BPF_K, 0),
    };

    return attach(fd, program, LENGTH, error);
}

/** What is sent to the members of a group with the key, to all of them or to this one. */
static int attach_for_group(int fd, const struct rawe_port_config *config,
                            struct rawe_port_error *error)
{
    enum { ACCEPT = 6, DROP = 7, LENGTH = 8 };
    const struct sock_filter rest[LENGTH] = {
        /* 0 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT(RAWE_OFFSET_VERSION_TYPE)),
        /* 1 */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, VERSION_TYPE(RAWE_GROUP_DATA), 0, TO(1, DROP)),
        /* 2 */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, VERSION_TYPE(RAWE_GROUP_TYPE_END), TO(2, DROP), 0),
        /* 3 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        /* 4 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, TO(4, ACCEPT), 0),
        /* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_MULTICAST, 0, TO(5, DROP)),
        [ACCEPT] = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        [DROP] = BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct program program = {.length = 0};

    demand(&program, BPF_W, AT(RAWE_OFFSET_KEY), config->key);
    demand(&program, BPF_H, ETHERTYPE_OFFSET, config->ethertype);
    for (unsigned i = 0; i < LENGTH; i++) {
        append(&program, rest[i]);
    }
    return attach(fd, program.statements, program.length, error);
}

uint16_t rawe_filter_ethertype(const struct rawe_port_config *config)
{
    return rawe_port_use_is_bulk(config->use) ? ETHERTYPE_IPV4 : config->ethertype;
}

uint32_t rawe_filter_key_offset(enum rawe_port_use use)
{
    return rawe_port_use_is_bulk(use)
               ? RAWE_FILTER_BULK_OFFSET - RAWE_ETH_HEADER_BYTES + RAWE_BATCH_OFFSET_KEY
               : RAWE_OFFSET_KEY;
}

int rawe_filter_attach(int fd, const struct rawe_port_config *config, struct rawe_port_error *error)
{
    static const struct offsets frame = {
        AT(RAWE_OFFSET_KEY),
        AT(RAWE_OFFSET_PORT),
        AT(RAWE_OFFSET_VERSION_TYPE),
    };
    static const struct offsets batch = {
        RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_KEY,
        RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_PORT,
        RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_VERSION_TYPE,
    };

    if (config->use == RAWE_PORT_RESPONDER) {
        return attach_for_responder(fd, config, error);
    }
    if (config->use == RAWE_PORT_GROUP) {
        return attach_for_group(fd, config, error);
    }
    return attach_for_session(fd, rawe_port_use_is_bulk(config->use) ? &batch : &frame, config,
                              error);
}

int rawe_filter_bind(int fd, const struct rawe_port_config *config, struct rawe_port_error *error)
{
    const struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(rawe_filter_ethertype(config)),
        .sll_ifindex = config->interface_index,
    };

    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        return rawe_port_failed(error, "bind(packet socket)", errno);
    }
    return 0;
}
