/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel's programs, in classic BPF. Every socket bound to our EtherType on an interface runs
 * its filter on every such frame, so the test that fails most often comes first: the key.
 */
#include "rawe_filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../../core/base/rawe_wire.h"

/** A SOCK_RAW socket's filter sees the Ethernet header first. */
#define AT(offset) (RAWE_ETH_HEADER_BYTES + (offset))

/** First byte of a frame header. */
#define VERSION_TYPE(type) ((uint32_t)(RAWE_FRAME_VERSION << 4 | (type)))

/** Offset of the EtherType. */
#define ETHERTYPE_OFFSET 12u

/** Offset of the kernel's packet type. */
#define PACKET_TYPE_OFFSET ((uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE))

/** The EtherType that the kernel read (eth_type_trans) from the Ethernet header, if there was one. */
#define PROTOCOL_OFFSET ((uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL))

/** The kind of interface (ARPHRD_*) that received the packet. */
#define INTERFACE_TYPE_OFFSET ((uint32_t)(SKF_AD_OFF + SKF_AD_HATYPE))

/** The IPv4 source address of batches: no other packet has it, even with our key and port. */
#define BATCH_SOURCE_OFFSET (RAWE_ETH_HEADER_BYTES + 12u)
#define BATCH_SOURCE UINT32_MAX

/** Offsets of the fields that the program tests, from the Ethernet header on. */
struct offsets {
    uint32_t key, port, version_type;
};
static const struct offsets in_frames = {
    AT(RAWE_OFFSET_KEY),
    AT(RAWE_OFFSET_PORT),
    AT(RAWE_OFFSET_VERSION_TYPE),
};
static const struct offsets in_batches = {
    RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_KEY,
    RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_PORT,
    RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_VERSION_TYPE,
};

/*
 * A program consists of tests. Each loads a field, or uses the last one loaded, and either returns
 * "drop" or falls through. A load beyond the end of a short frame also drops the frame.
 */
struct program {
    struct sock_filter statements[64 + 2 * 32 * RAWE_PORT_GROUP_WORDS];
    unsigned short length;
    uint8_t mac[RAWE_MAC_BYTES]; /**< the interface's; zero: unknown, or lo's */
};

static void append(struct program *program, struct sock_filter statement)
{
    program->statements[program->length++] = statement;
}

static void finish_program(struct program *program, uint32_t accepted_bytes)
{
    append(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, accepted_bytes));
}

/** Load a field; `size` is BPF_B, BPF_H or BPF_W. */
static void load_field(struct program *program, uint16_t size, uint32_t at)
{
    append(program, (struct sock_filter)BPF_STMT((uint16_t)(BPF_LD | size | BPF_ABS), at));
}

/** Compare with a value (`how`: BPF_JEQ, BPF_JGE, BPF_JGT) and skip statements accordingly. */
static void compare_value(struct program *program, uint16_t how, uint32_t value, uint8_t skip_if,
                          uint8_t skip_if_not)
{
    append(program, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | how | BPF_K), value, skip_if,
                                                 skip_if_not));
}

static void demand_equal(struct program *program, uint32_t value)
{
    compare_value(program, BPF_JEQ, value, 1, 0);
    finish_program(program, 0);
}

static void demand_range(struct program *program, uint32_t least, uint32_t most)
{
    compare_value(program, BPF_JGE, least, 0, 1);
    compare_value(program, BPF_JGT, most, 0, 1);
    finish_program(program, 0);
}

static void demand_value(struct program *program, uint16_t size, uint32_t at, uint32_t value)
{
    load_field(program, size, at);
    demand_equal(program, value);
}

static void demand_either(struct program *program, uint16_t size, uint32_t at, uint32_t one,
                          uint32_t other)
{
    load_field(program, size, at);
    compare_value(program, BPF_JEQ, one, 2, 0);
    demand_equal(program, other);
}

static void refuse_value(struct program *program, uint32_t value)
{
    compare_value(program, BPF_JEQ, value, 0, 1);
    finish_program(program, 0);
}

/** Drop packets for the other batch port, by length. First test, because it loads nothing. */
static void demand_length(struct program *program, bool middle)
{
    append(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0));
    if (middle) {
        demand_range(program, RAWE_FILTER_MIDDLE_MIN, RAWE_FILTER_MIDDLE_MAX);
    } else {
        compare_value(program, BPF_JGE, RAWE_FILTER_MIDDLE_MIN, 0, 2);
        compare_value(program, BPF_JGT, RAWE_FILTER_MIDDLE_MAX, 1, 0);
        finish_program(program, 0);
    }
}

/**
 * Accept HOST: frames to the interface's address. Of OTHERHOST, accept frames to its address when
 * it was opened, because peers may know no other. The rest arrive in promiscuous mode, or belong to
 * a VLAN that this host is not in, with the tag no longer visible: rawe_packet.c tells them apart.
 */
static void demand_own(struct program *program)
{
    const uint8_t *mac = program->mac;

    load_field(program, BPF_B, PACKET_TYPE_OFFSET);
    const unsigned branch = program->length;
    compare_value(program, BPF_JEQ, PACKET_HOST, 0, 0); /* equal: accept */
    demand_equal(program, PACKET_OTHERHOST);
    demand_value(program, BPF_W, 0,
                 (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 | (uint32_t)mac[2] << 8 | mac[3]);
    demand_value(program, BPF_H, 4, (uint32_t)mac[4] << 8 | mac[5]);
    program->statements[branch].jt = (uint8_t)(program->length - branch - 1);
}

/**
 * Accept frames to this host (a group's socket: to a group), but neither broadcasts nor copies of
 * sent frames. The EtherType is checked although the socket is bound to it, because the holder of
 * the descriptor can rebind it, even to an interface without Ethernet headers, where other traffic
 * might look like a frame. Frames have their own EtherType, which no IP packet has. Batches use
 * IP's, so the kind of interface is tested. That takes 50 ns, because it is in an otherwise unused
 * cache line (measured by ping-pong, Xeon of the Sapphire Rapids family, Linux 6.18).
 */
static void demand_addressed(struct program *program, const struct rawe_port_config *config)
{
    if ((config->group[0] & 1) != 0) {
        demand_value(program, BPF_B, PACKET_TYPE_OFFSET, PACKET_MULTICAST);
    } else {
        demand_own(program);
    }
    if (rawe_port_use_is_bulk(config->use)) {
        demand_value(program, BPF_H, ETHERTYPE_OFFSET, rawe_filter_ethertype(config));
        demand_either(program, BPF_H, INTERFACE_TYPE_OFFSET, ARPHRD_ETHER, ARPHRD_LOOPBACK);
    } else {
        demand_value(program, BPF_H, PROTOCOL_OFFSET, rawe_filter_ethertype(config));
    }
}

/** Accept all for the session's port and key except PING and PONG; as batch: BULK, PROBE. */
static void write_for_session(struct program *program, const struct rawe_port_config *config)
{
    const bool bulk = rawe_port_use_is_bulk(config->use);
    const struct offsets *at = bulk ? &in_batches : &in_frames;

    if (bulk) {
        demand_length(program, config->use == RAWE_PORT_MIDDLE);
    }
    demand_value(program, BPF_W, at->key, config->key);
    demand_value(program, BPF_H, at->port, config->port);
    demand_addressed(program, config);
    if (bulk) {
        demand_value(program, BPF_W, BATCH_SOURCE_OFFSET, BATCH_SOURCE);
        demand_either(program, BPF_B, at->version_type, VERSION_TYPE(RAWE_FRAME_BULK),
                      VERSION_TYPE(RAWE_FRAME_PROBE));
    } else {
        load_field(program, BPF_B, at->version_type);
        demand_range(program, VERSION_TYPE(RAWE_FRAME_DATA), VERSION_TYPE(RAWE_FRAME_TYPE_END) - 1);
        refuse_value(program, VERSION_TYPE(RAWE_FRAME_PING));
        refuse_value(program, VERSION_TYPE(RAWE_FRAME_PONG));
    }
    finish_program(program, UINT32_MAX);
}

/** Accept PING and PONG for the responder's port and key, PROBE for the session's. */
static void write_for_responder(struct program *program, const struct rawe_port_config *config)
{
    load_field(program, BPF_W, AT(RAWE_OFFSET_KEY));
    const unsigned branch = program->length;
    compare_value(program, BPF_JEQ, config->ping_key, 0, 0); /* not equal: test for the session */
    demand_value(program, BPF_H, AT(RAWE_OFFSET_PORT), config->ping_port);
    demand_either(program, BPF_B, AT(RAWE_OFFSET_VERSION_TYPE), VERSION_TYPE(RAWE_FRAME_PING),
                  VERSION_TYPE(RAWE_FRAME_PONG));
    demand_addressed(program, config);
    finish_program(program, UINT32_MAX);
    program->statements[branch].jf = (uint8_t)(program->length - branch - 1);
    demand_equal(program, config->key);
    demand_value(program, BPF_H, AT(RAWE_OFFSET_PORT), config->port);
    demand_value(program, BPF_B, AT(RAWE_OFFSET_VERSION_TYPE), VERSION_TYPE(RAWE_FRAME_PROBE));
    demand_addressed(program, config);
    finish_program(program, UINT32_MAX);
}

/** Accept group DATA, in frames or batches, if the last byte of the group's id is wanted. */
static void write_for_group(struct program *program, const struct rawe_port_config *config)
{
    const bool bulk = rawe_port_use_is_bulk(config->use);

    if (bulk) {
        demand_length(program, config->use == RAWE_PORT_MIDDLE);
        demand_value(program, BPF_W, BATCH_SOURCE_OFFSET, BATCH_SOURCE);
    }
    demand_addressed(program, config);
    demand_value(program, BPF_B, (bulk ? &in_batches : &in_frames)->version_type,
                 VERSION_TYPE(RAWE_GROUP_DATA));
    load_field(program, BPF_B,
               bulk ? RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_ID_BYTE
                    : AT(RAWE_GROUP_OFFSET_ID_BYTE));
    for (uint32_t i = 0; i < 32 * RAWE_PORT_GROUP_WORDS; i++) {
        if ((config->groups[i / 32] >> i % 32 & 1) != 0) {
            compare_value(program, BPF_JEQ, i, 0, 1);
            finish_program(program, UINT32_MAX);
        }
    }
    finish_program(program, 0);
}

uint16_t rawe_filter_ethertype(const struct rawe_port_config *config)
{
    return rawe_port_use_is_bulk(config->use) ? ETHERTYPE_IPV4 : config->ethertype;
}

uint32_t rawe_filter_key_offset(enum rawe_port_use use)
{
    return (rawe_port_use_is_bulk(use) ? in_batches : in_frames).key - RAWE_ETH_HEADER_BYTES;
}

int rawe_filter_attach(int fd, const struct rawe_port_config *config, struct rawe_port_error *error)
{
    struct program program = {.length = 0};
    struct ifreq interface = {.ifr_name = ""};
    const int one = 1;

    if (if_indextoname((unsigned)config->interface_index, interface.ifr_name) != NULL &&
        ioctl(fd, SIOCGIFHWADDR, &interface) == 0) {
        memcpy(program.mac, interface.ifr_hwaddr.sa_data, RAWE_MAC_BYTES);
    }

    if (config->use == RAWE_PORT_RESPONDER) {
        write_for_responder(&program, config);
    } else if (config->groups != NULL) {
        write_for_group(&program, config);
    } else {
        write_for_session(&program, config);
    }
    const struct sock_fprog filter = {.len = program.length, .filter = program.statements};
    if (rawe_port_set_option(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter,
                             "setsockopt(SO_ATTACH_FILTER)", error) != 0) {
        return -1;
    }
    return config->groups != NULL
               ? 0
               : rawe_port_set_option(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one,
                                      "setsockopt(SO_LOCK_FILTER)", error);
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

/* ---- fanout groups: packet_rcv_fanout and fanout_set_data_cbpf in net/packet/af_packet.c ---- */

/* Since Linux 4.12; older headers lack the name, and older kernels refuse the flag. */
#ifndef PACKET_FANOUT_FLAG_UNIQUEID
#define PACKET_FANOUT_FLAG_UNIQUEID 0x2000
#endif

/** Maximum distance of a conditional jump in classic BPF. */
#define JUMP_MAX 255u

/** Write the search among `places`; the key is in the accumulator. Returns its length. */
static unsigned write_search(struct sock_filter *program, const struct rawe_fanout_place *places,
                             unsigned count)
{
    if (count == 1) {
        program[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, places[0].place);
        return 1;
    }
    /* Code for smaller keys follows the jump, then code for the larger ones. */
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
    /* Unlike a socket's filter, this program sees the packet without its Ethernet header. */
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

    /* Lock last, because the lock also applies to the fanout program. */
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
