/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernel does with frames to a group of hosts, plain ones and batches: which sockets get
 * them, what a membership needs and how long it lasts, which bridges pass them; and ports of a group.
 * Over a veth pair, and over a bridge between two of them, in a network namespace of their own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/packet/rawe_fanout.h"
#include "../../../opal/mca/btl/rawe/linux/packet/rawe_filter.h"

#define FRAME_BYTES 120u
#define IPV4_BYTES 20u
#define MEMBERS 3u
#define NOBODY 65534u

/** What is sent to a group. */
enum kind {
    FRAME,  /**< EtherType 0x88B5, any group address */
    BATCH,  /**< IPv4, 224.0.0.254: of the link only */
    ROUTED, /**< IPv4, 239.1.2.3: a group that routers may pass on */
    KINDS
};

static const struct {
    uint8_t mac[6];
    uint8_t address[4];
    uint16_t ethertype;
} kinds[KINDS] = {
    [FRAME] = {{0x03, 0x72, 0x61, 0x77, 0x65, 0x01}, {0}, 0x88B5},
    [BATCH] = {{0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE}, {224, 0, 0, 254}, ETHERTYPE_IPV4},
    [ROUTED] = {{0x01, 0x00, 0x5E, 0x01, 0x02, 0x03}, {239, 1, 2, 3}, ETHERTYPE_IPV4},
};

static uint16_t ipv4_checksum(const uint8_t *header)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < IPV4_BYTES; i += 2) {
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    }
    sum = (sum & 0xFFFF) + (sum >> 16);
    return (uint16_t) ~(sum + (sum >> 16));
}

/** A frame to the group, or with the same content to all hosts. */
static void make(uint8_t *frame, enum kind kind, bool broadcast)
{
    const uint16_t ethertype = htons(kinds[kind].ethertype);
    uint8_t *ip = frame + RAWE_ETH_HEADER_BYTES;

    memset(frame, 0, FRAME_BYTES);
    memset(frame, 0xFF, 6);
    if (!broadcast) {
        memcpy(frame, kinds[kind].mac, 6);
    }
    memcpy(frame + 6, net.a.mac, 6);
    memcpy(frame + 12, &ethertype, sizeof ethertype);
    memset(ip + 12, 0xFF, 4);
    if (kind != FRAME) {
        const uint8_t begin[] = {
            0x45, 0, 0, FRAME_BYTES - RAWE_ETH_HEADER_BYTES, 0, 0, 0x40, 0, 1, IPPROTO_TCP};
        memcpy(ip, begin, sizeof begin);
        memcpy(ip + 16, kinds[kind].address, 4);
        const uint16_t checksum = htons(ipv4_checksum(ip));
        memcpy(ip + 10, &checksum, sizeof checksum);
    }
}

static void send_frame(int interface_index, const uint8_t *frame)
{
    const int fd = fixture_socket(interface_index, 0, NULL);

    assert_int_equal(send(fd, frame, FRAME_BYTES, 0), FRAME_BYTES);
    close(fd);
}

/** A socket that is given what is sent to more than one host, of the EtherType of this kind. */
static int open_socket(int interface_index, enum kind kind)
{
    struct sock_filter program[] = {
        /* The source address of batches: the bridge's own IGMP has another. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, RAWE_ETH_HEADER_BYTES + 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 4),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_MULTICAST, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_BROADCAST, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = {.len = sizeof program / sizeof program[0], .filter = program};

    return fixture_socket(interface_index, kinds[kind].ethertype, &filter);
}

/** PACKET_ADD_MEMBERSHIP or PACKET_DROP_MEMBERSHIP for the group of this kind; as setsockopt(). */
static int membership(int fd, int option, int interface_index, enum kind kind)
{
    struct packet_mreq request = {
        .mr_ifindex = interface_index, .mr_type = PACKET_MR_MULTICAST, .mr_alen = 6};

    memcpy(request.mr_address, kinds[kind].mac, 6);
    return setsockopt(fd, SOL_PACKET, option, &request, sizeof request);
}

/** The next frame is this one. */
static bool gets(int fd, const uint8_t *frame)
{
    uint8_t got[2 * FRAME_BYTES];

    return recv(fd, got, sizeof got, 0) == FRAME_BYTES && memcmp(got, frame, FRAME_BYTES) == 0;
}

static bool gets_nothing(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, sizeof byte, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* ---- sockets ---- */

/** Those outside the fanout group get each frame, those inside, whose filters demand PACKET_HOST, none. */
TEST(socket__each_outside_a_fanout_group_gets_the_frame)
{
    struct rawe_fanout_member members[MEMBERS];
    struct rawe_port *links[MEMBERS];
    struct rawe_port_error error;
    uint8_t frame[FRAME_BYTES];
    unsigned in_group = 0;
    bool changed;

    for (unsigned i = 0; i < MEMBERS; i++) {
        struct fixture_end end = net.b;
        end.key += i;
        links[i] = fixture_open(&net, &end, 1 << 18);
        const struct rawe_port_config config = fixture_config(&net, &end);
        members[i] = rawe_fanout_member(links[i]->fd, &config);
    }
    assert_int_equal(rawe_fanout_form(members, MEMBERS, NULL, &changed, &error), 0);
    const int joined = open_socket(net.b.index, FRAME), other = open_socket(net.b.index, FRAME);
    assert_int_equal(membership(joined, PACKET_ADD_MEMBERSHIP, net.b.index, FRAME), 0);
    make(frame, FRAME, false);
    send_frame(net.a.index, frame);
    assert_true(gets(joined, frame));
    /* A veth passes up what no socket has joined; a NIC need not. */
    assert_true(gets(other, frame));
    assert_true(gets_nothing(joined) && gets_nothing(other));
    for (unsigned i = 0; i < MEMBERS; i++) {
        in_group += fixture_receive(links[i]);
        rawe_port_close(links[i]);
    }
    assert_int_equal(in_group, 0);
    close(joined);
    close(other);
}

/** Other sockets of the host that sends are not given its frame, joined or not. */
TEST(socket__of_the_sending_host_gets_nothing)
{
    uint8_t frame[FRAME_BYTES], from_b[FRAME_BYTES];

    for (enum kind kind = FRAME; kind < KINDS; kind++) {
        const int fd = open_socket(net.a.index, kind);
        assert_int_equal(membership(fd, PACKET_ADD_MEMBERSHIP, net.a.index, kind), 0);
        make(frame, kind, false);
        make(from_b, kind, true);
        send_frame(net.a.index, frame);
        send_frame(net.b.index, from_b);
        assert_true(gets(fd, from_b) && gets_nothing(fd));
        close(fd);
    }
}

/** Send a batch to the group, whose id ends so, cut into `frames` by the kernel. */
static void send_batch(unsigned frames, uint16_t segment_bytes, uint8_t id)
{
    static uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    static uint8_t data[RAWE_BATCH_BYTES_MAX] = {0};
    const uint32_t data_bytes = frames * segment_bytes;
    const struct rawe_batch batch = {
        .header = {.type = RAWE_FRAME_BULK, .port = net.b.port, .key = net.b.key},
        .fragment = {.kind = RAWE_FRAGMENT_PART, .total_bytes = data_bytes},
        .segment_bytes = segment_bytes,
        .frames = (uint8_t)frames};
    const struct rawe_frame packet = {.pieces = {{head, sizeof head}, {data, data_bytes}},
                                      .piece_count = 2,
                                      .len_bytes = (uint32_t)sizeof head + data_bytes};
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error;
    struct rawe_port *bulk;

    config.use = RAWE_PORT_BULK;
    assert_int_equal(rawe_port_open(&bulk, &config, &error), 0);
    memcpy(head, kinds[BATCH].mac, 6);
    memcpy(head + 6, net.a.mac, 6);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &batch);
    head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_OFFSET_ID_BYTE] = id;
    assert_true(rawe_port_transmit_batch(bulk, &packet, frames > 1 ? segment_bytes : 0));
    rawe_port_close(bulk);
}

/** The kernel merges the frames of a batch to a group as those to one host (GRO). */
TEST(socket__gets_a_batch_in_few_packets)
{
    enum { FRAMES = 40, SEGMENT_BYTES = 1400, HEAD_BYTES = 14 + 20 + RAWE_BATCH_HEADER_BYTES };
    const int fd = open_socket(net.b.index, BATCH), one = 1;
    uint8_t packet[65536];
    unsigned packets = 0;

    assert_int_equal(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one), 0);
    fixture_run("ethtool -K ra0 tso off gso off && ethtool -K rb0 gro on");
    send_batch(FRAMES, SEGMENT_BYTES, 0);
    for (ssize_t left_bytes = FRAMES * SEGMENT_BYTES; left_bytes > 0; packets++) {
        const ssize_t bytes = recv(fd, packet, sizeof packet, 0);
        assert_true(bytes > HEAD_BYTES);
        left_bytes -= bytes - (ssize_t)sizeof(struct virtio_net_hdr) - HEAD_BYTES;
    }
    assert_in_range(packets, 1, FRAMES / 2);
    close(fd);
    fixture_renew(&net, 1500);
}

/* ---- membership ---- */

/** Is the group of this kind in the interface's list, from which its NIC makes its filter? */
static bool is_listed(const struct fixture_end *end, enum kind kind)
{
    char line[256], name[32], address[64], wanted[13];
    FILE *list = fopen("/proc/self/net/dev_mcast", "re");
    bool found = false;

    assert_non_null(list);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(wanted + 2 * i, 3, "%02x", kinds[kind].mac[i]);
    }
    while (fgets(line, sizeof line, list) != NULL) {
        found = found || (sscanf(line, "%*d %31s %*d %*d %63s", name, address) == 2 &&
                          strcmp(name, end->name) == 0 && strcmp(address, wanted) == 0);
    }
    fclose(list);
    return found;
}

/** Hand the socket over to a process without any capability; wait until that has ended. */
static void hand_over(int fd, int (*body)(int fd))
{
    int closed[2], status = -1;
    char byte = 0;

    assert_int_equal(pipe(closed), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const bool alone = read(closed[0], &byte, 1) == 1;
        _exit(!alone || setgid(NOBODY) != 0 || setuid(NOBODY) != 0 ? 100 : body(fd));
    }
    close(fd);
    assert_int_equal(write(closed[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(closed[0]);
    close(closed[1]);
}

/** In that process: 0 when all is as it should be. */
static int join_both(int fd)
{
    for (enum kind kind = FRAME; kind <= BATCH; kind++) {
        if (is_listed(&net.b, kind) ||
            membership(fd, PACKET_ADD_MEMBERSHIP, net.b.index, kind) != 0 ||
            !is_listed(&net.b, kind)) {
            return 1;
        }
    }
    return 0;
}

static int leave_one(int fd)
{
    return !is_listed(&net.b, FRAME) || !is_listed(&net.b, BATCH) ||
           membership(fd, PACKET_DROP_MEMBERSHIP, net.b.index, FRAME) != 0 ||
           is_listed(&net.b, FRAME) || !is_listed(&net.b, BATCH);
}

/** A process that was handed a socket may join with it, although it could not open one. */
TEST(membership__needs_no_privilege_behind_the_handover)
{
    hand_over(open_socket(net.b.index, FRAME), join_both);
    assert_false(is_listed(&net.b, FRAME) || is_listed(&net.b, BATCH));
}

/** It belongs to the socket, and lasts until the last process has closed it. */
TEST(membership__is_handed_over_with_the_socket)
{
    const int fd = open_socket(net.b.index, FRAME);

    assert_int_equal(membership(fd, PACKET_ADD_MEMBERSHIP, net.b.index, FRAME), 0);
    assert_int_equal(membership(fd, PACKET_ADD_MEMBERSHIP, net.b.index, BATCH), 0);
    hand_over(fd, leave_one);
    assert_false(is_listed(&net.b, FRAME) || is_listed(&net.b, BATCH));
}

/** It needs no binding, is lost with the interface, but not when that goes down and up. */
TEST(membership__lasts_as_long_as_the_interface)
{
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    assert_int_equal(membership(fd, PACKET_ADD_MEMBERSHIP, net.b.index, FRAME), 0);
    fixture_run("ip link set rb0 down && ip link set rb0 up");
    assert_true(is_listed(&net.b, FRAME));
    fixture_renew(&net, 1500);
    assert_false(is_listed(&net.b, FRAME));
    close(fd);
}

/* ---- ports of a group ---- */

struct tally {
    unsigned frames, packets;
};

static void count_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    ((struct tally *)context)->frames++;
}

static uint8_t *place_nowhere(void *context, const uint8_t *source_mac, const uint8_t *head,
                              size_t head_bytes, size_t data_bytes)
{
    return NULL;
}

static void count_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                         size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    ((struct tally *)context)->packets++;
}

/** Receive until `wanted` frames or packets have come, and what else waits by then. */
static struct tally receive(struct rawe_port *port, unsigned wanted)
{
    static const struct rawe_port_receiver receiver = {
        .frame = count_frame, .place = place_nowhere, .packet = count_packet};
    struct tally tally = {0};

    AWAIT((rawe_port_receive(port, 10, &receiver, &tally), tally.frames + tally.packets >= wanted));
    return tally;
}

static void send_data(const uint8_t *mac)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_DATA, .port = net.b.port, .key = net.b.key, .payload_bytes = 10};
    uint8_t frame[FRAME_BYTES];

    make(frame, FRAME, false);
    memcpy(frame, mac, 6);
    rawe_header_encode(frame + RAWE_ETH_HEADER_BYTES, &header);
    send_frame(net.a.index, frame);
}

TEST(port__of_a_group_gets_what_is_sent_to_it_alone)
{
    struct rawe_port_config config = fixture_config(&net, &net.b);
    struct rawe_port_error error;
    struct rawe_port *express, *bulk;

    memcpy(config.group, kinds[BATCH].mac, sizeof config.group);
    assert_int_equal(rawe_port_open(&express, &config, &error), 0);
    config.use = RAWE_PORT_BULK;
    assert_int_equal(rawe_port_open(&bulk, &config, &error), 0);
    assert_true(is_listed(&net.b, BATCH));
    send_data(net.b.mac);
    send_data(kinds[BATCH].mac);
    assert_int_equal(receive(express, 1).frames, 1);
    send_batch(40, 1400, 0);
    assert_int_equal(receive(bulk, 1).packets, 1);
    assert_int_equal(receive(express, 0).frames, 0);
    rawe_port_close(express);
    rawe_port_close(bulk);
    assert_false(is_listed(&net.b, BATCH));
}

/** Send DATA of a group to this address. */
static void send_group_data(const uint8_t *mac, uint64_t id)
{
    const struct rawe_group_header header = {
        .type = RAWE_GROUP_DATA, .key = net.b.key, .id = id, .payload_bytes = 10};
    uint8_t frame[FRAME_BYTES];

    make(frame, FRAME, false);
    memcpy(frame, mac, 6);
    rawe_group_header_encode(frame + RAWE_ETH_HEADER_BYTES, &header);
    send_frame(net.a.index, frame);
}

/** Group delivery sends repairs and acknowledgements to one member alone. */
TEST(port__of_group_delivery_gets_what_is_sent_to_the_group_or_to_the_host)
{
    struct rawe_port_config config = fixture_config(&net, &net.b);
    struct rawe_port_error error;
    struct rawe_port *port;

    config.use = RAWE_PORT_GROUP;
    memcpy(config.group, kinds[FRAME].mac, sizeof config.group);
    assert_int_equal(rawe_port_open(&port, &config, &error), 0);
    assert_true(is_listed(&net.b, FRAME));
    send_data(net.b.mac);
    send_group_data(net.b.mac, 1);
    send_group_data(kinds[FRAME].mac, 2);
    assert_int_equal(receive(port, 2).frames, 2);
    fixture_run("ip link set rb0 down && ip link set rb0 up");
    assert_int_equal(rawe_port_reopen(port, net.b.index, &error), 0);
    assert_true(is_listed(&net.b, FRAME));
    send_group_data(kinds[FRAME].mac, 3);
    assert_int_equal(receive(port, 1).frames, 1);
    rawe_port_close(port);
    assert_false(is_listed(&net.b, FRAME));
}

/** A frame to a group whose id ends so, or a batch of as many. */
static void send_to_group(unsigned frames, uint8_t id)
{
    if (frames == 0) {
        send_group_data(kinds[FRAME].mac, 0x1234567890ABCD00u | id);
    } else {
        send_batch(frames, 1400, id);
    }
}

/** The last byte of the group's id decides, until the filter is renewed. */
TEST(port__of_certain_groups_gets_no_others)
{
    static const struct {
        enum kind kind;
        enum rawe_port_use use;
        unsigned frames; /* of a batch: of 2 it comes by the middle port */
    } cases[] = {{FRAME, RAWE_PORT_GROUP, 0},
                 {BATCH, RAWE_PORT_BULK, 1},
                 {BATCH, RAWE_PORT_BULK, 2},
                 {BATCH, RAWE_PORT_BULK, 40}};
    static const uint8_t ids[] = {0, 31, 32, 77, 255};

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rawe_port_config config = fixture_config(&net, &net.b);
        uint32_t groups[RAWE_PORT_GROUP_WORDS] = {0};
        struct rawe_port_error error;
        struct rawe_port *port;

        config.use = cases[i].use;
        config.groups = groups;
        memcpy(config.group, kinds[cases[i].kind].mac, sizeof config.group);
        assert_int_equal(rawe_port_open(&port, &config, &error), 0);
        for (unsigned k = 0; k < sizeof ids; k++) {
            send_to_group(cases[i].frames, ids[k]);
            groups[ids[k] / 32] |= UINT32_C(1) << ids[k] % 32;
            assert_int_equal(rawe_port_renew_filter(port, &error), 0);
            send_to_group(cases[i].frames, ids[k] ^ 1);
            send_to_group(cases[i].frames, ids[k]);
            const struct tally tally = receive(port, 1);
            assert_int_equal(tally.frames + tally.packets, 1);
        }
        assert_int_equal(rawe_port_reopen(port, net.b.index, &error), 0);
        send_to_group(cases[i].frames, 76);
        send_to_group(cases[i].frames, 77);
        struct tally tally = receive(port, 1);
        assert_int_equal(tally.frames + tally.packets, 1);
        memset(groups, 0xFF, sizeof groups);
        assert_int_equal(rawe_port_renew_filter(port, &error), 0);
        send_to_group(cases[i].frames, 76);
        tally = receive(port, 1);
        assert_int_equal(tally.frames + tally.packets, 1);
        tally = receive(port, 0);
        assert_int_equal(tally.frames + tally.packets, 0);
        rawe_port_close(port);
    }
}

/* ---- bridges ---- */

/** Between the hosts g and h. */
static struct {
    int sender; /**< index of g's interface */
    int frames; /**< sockets of h */
    int batches;
} bridge;

static void plug(const char *host, const char *port)
{
    fixture_run("ip link add %s type veth peer name %s", host, port);
    fixture_run("ip link set %s addrgenmode none up", host);
    fixture_run("ip link set %s addrgenmode none master rbr up", port);
}

/** Does what is sent to all hosts come? It does once the bridge has let both ports forward. */
static bool forwards(int fd)
{
    uint8_t frame[FRAME_BYTES];

    make(frame, FRAME, true);
    send_frame(bridge.sender, frame);
    usleep(1000);
    return !gets_nothing(fd);
}

static void build_bridge(void)
{
    fixture_run("ip link add rbr type bridge stp_state 0 forward_delay 0");
    fixture_run("ip link set rbr addrgenmode none up");
    plug("rg0", "rgp");
    plug("rh0", "rhp");
    bridge.sender = (int)if_nametoindex("rg0");
    bridge.frames = open_socket((int)if_nametoindex("rh0"), FRAME);
    bridge.batches = open_socket((int)if_nametoindex("rh0"), BATCH);
    AWAIT(forwards(bridge.frames));
    while (!gets_nothing(bridge.frames)) {
    }
}

/** A bridge that does not snoop; it is built once and vanishes with the namespace. */
static void reset_bridge(void)
{
    if (bridge.sender == 0) {
        build_bridge();
    }
    fixture_run("ip link set rbr type bridge mcast_snooping 0 mcast_querier 0");
    fixture_run("bridge link set dev rhp mcast_flood on");
}

static const struct unit_fixture bridged = {reset_bridge, NULL};

/** Does the frame come through? One to all hosts follows it, which does in any case. */
static bool passes(enum kind kind, const uint8_t *frame)
{
    uint8_t got[2 * FRAME_BYTES], to_all[FRAME_BYTES];
    const int fd = kind == FRAME ? bridge.frames : bridge.batches;

    make(to_all, kind, true);
    send_frame(bridge.sender, frame);
    send_frame(bridge.sender, to_all);
    assert_int_equal(recv(fd, got, sizeof got, 0), FRAME_BYTES);
    if (memcmp(got, to_all, FRAME_BYTES) == 0) {
        return false;
    }
    assert_memory_equal(got, frame, FRAME_BYTES);
    assert_true(gets(fd, to_all));
    return true;
}

static bool passes_kind(enum kind kind)
{
    uint8_t frame[FRAME_BYTES];

    make(frame, kind, false);
    return passes(kind, frame);
}

/** The bridge asks for members: what no host has joined is passed to routers only. */
static void start_querier(void)
{
    /* It waits for answers to its first query before it withholds anything: 0.1 s instead of 10. */
    fixture_run("ip link set rbr type bridge mcast_query_response_interval 10");
    fixture_run("ip link set rbr type bridge mcast_snooping 1 mcast_querier 1");
    AWAIT(!passes_kind(ROUTED));
}

TEST_WITH(bridged, bridge__passes_both_kinds)
{
    assert_true(passes_kind(FRAME) && passes_kind(BATCH) && passes_kind(ROUTED));
    fixture_run("ip link set rbr type bridge mcast_snooping 1");
    assert_true(passes_kind(FRAME) && passes_kind(BATCH) && passes_kind(ROUTED));
    start_querier();
    assert_true(passes_kind(FRAME) && passes_kind(BATCH) && !passes_kind(ROUTED));
}

/** An entry of the administrator's helps frames; the kernel refuses one for 224.0.0.x. */
TEST_WITH(bridged, bridge__a_port_without_flooding_passes_neither)
{
    const uint8_t *mac = kinds[FRAME].mac;

    fixture_run("bridge link set dev rhp mcast_flood off");
    assert_false(passes_kind(FRAME) || passes_kind(BATCH) || passes_kind(ROUTED));
    fixture_run("bridge link set dev rhp mcast_flood on");
    start_querier();
    fixture_run("bridge link set dev rhp mcast_flood off");
    assert_false(passes_kind(FRAME) || passes_kind(BATCH) || passes_kind(ROUTED));
    fixture_run("bridge mdb add dev rbr port rhp grp %02x:%02x:%02x:%02x:%02x:%02x permanent",
                mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    fixture_run("! bridge mdb add dev rbr port rhp grp 224.0.0.254 permanent 2>/dev/null");
    assert_true(passes_kind(FRAME));
    fixture_run("bridge mdb del dev rbr port rhp grp %02x:%02x:%02x:%02x:%02x:%02x permanent",
                mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

/** One that snoops looks into what is sent to a group. */
TEST_WITH(bridged, bridge__snooping_drops_a_wrong_ipv4_checksum)
{
    uint8_t frame[FRAME_BYTES];

    /* Where netfilter sees what bridges pass, it drops such a packet anyway. */
    fixture_run("cd /proc/sys/net/bridge 2>/dev/null || exit 0; echo 0 >bridge-nf-call-iptables");
    make(frame, BATCH, false);
    frame[RAWE_ETH_HEADER_BYTES + 10] ^= 1;
    assert_true(passes(BATCH, frame));
    fixture_run("ip link set rbr type bridge mcast_snooping 1");
    assert_false(passes(BATCH, frame));
}
