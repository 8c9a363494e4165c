/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_filter over a veth pair: which frames a socket receives after its owner has bound
 * it to all EtherTypes, as any owner can. test_link.c tests sockets bound to one EtherType.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/packet/rawe_filter.h"

#define FRAME_BYTES 120u
#define FRAME_BYTES_MAX 18000u

/** Last byte of the id of the group whose frames the filter passes. */
#define GROUP_ID 0x44

static const uint32_t groups[RAWE_PORT_GROUP_WORDS] = {[GROUP_ID / 32] = 1u << GROUP_ID % 32};
static const uint8_t group_address[6] = {0x03, 0x72, 0x61, 1, 2, 3};

/** The uses of sockets that serve connections. */
static const enum rawe_port_use uses[] = {RAWE_PORT_EXPRESS, RAWE_PORT_RESPONDER, RAWE_PORT_BULK,
                                          RAWE_PORT_MIDDLE};

/** Return a frame length that the filter of this use passes. */
static size_t length_for(enum rawe_port_use use)
{
    return use == RAWE_PORT_MIDDLE ? RAWE_FILTER_MIDDLE_MIN : FRAME_BYTES;
}

/** Open a socket on end `b`, bound to all EtherTypes. */
static int open_for(enum rawe_port_use use)
{
    struct rawe_port_config config = fixture_config(&net, &net.b);
    const struct sockaddr_ll all = {.sll_family = AF_PACKET,
                                    .sll_protocol = htons(ETH_P_ALL),
                                    .sll_ifindex = config.interface_index};
    const struct timeval patience = {.tv_sec = 10};
    struct rawe_port_error error;
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    config.use = use;
    if (use == RAWE_PORT_GROUP) {
        config.groups = groups;
        memcpy(config.group, group_address, sizeof group_address);
    }
    assert_int_equal(rawe_filter_attach(fd, &config, &error), 0);
    assert_int_equal(rawe_filter_bind(fd, &config, &error), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&all, sizeof all), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

/** Make a frame to `b`, with port, key and type at the offsets that this use expects. */
static void make(uint8_t *frame, enum rawe_port_use use)
{
    const bool bulk = rawe_port_use_is_bulk(use);
    uint8_t *head = frame + (bulk ? RAWE_FILTER_BULK_OFFSET : RAWE_ETH_HEADER_BYTES);
    const uint32_t key = htonl(net.b.key);
    const uint16_t port = htons(net.b.port);
    const uint16_t ethertype = htons(bulk ? ETHERTYPE_IPV4 : 0x88B5);

    memset(frame, 0, FRAME_BYTES_MAX);
    memcpy(frame, use == RAWE_PORT_GROUP ? group_address : net.b.mac, 6);
    memcpy(frame + 6, net.a.mac, 6);
    memcpy(frame + 12, &ethertype, sizeof ethertype);
    if (bulk) {
        memset(frame + RAWE_ETH_HEADER_BYTES + 12, 0xFF, 4);
    }
    if (use == RAWE_PORT_GROUP) {
        head[RAWE_GROUP_OFFSET_ID_BYTE] = GROUP_ID;
        head[RAWE_OFFSET_VERSION_TYPE] = RAWE_FRAME_VERSION << 4 | RAWE_GROUP_DATA;
        return;
    }
    memcpy(head + (bulk ? RAWE_BATCH_OFFSET_PORT : RAWE_OFFSET_PORT), &port, sizeof port);
    memcpy(head + (bulk ? RAWE_BATCH_OFFSET_KEY : RAWE_OFFSET_KEY), &key, sizeof key);
    head[bulk ? RAWE_BATCH_OFFSET_VERSION_TYPE : RAWE_OFFSET_VERSION_TYPE] =
        (uint8_t)(RAWE_FRAME_VERSION << 4 |
                  (use == RAWE_PORT_RESPONDER ? RAWE_FRAME_PROBE : RAWE_FRAME_BULK));
}

static void assert_gets(int fd, const uint8_t *frame, size_t frame_bytes)
{
    uint8_t got[FRAME_BYTES_MAX];

    assert_int_equal(recv(fd, got, sizeof got, 0), frame_bytes);
    assert_memory_equal(got, frame, frame_bytes);
}

/** Check whether the socket receives a frame, by sending after it one that always passes. */
static void check(enum rawe_port_use use, const uint8_t *frame, size_t frame_bytes, bool passes)
{
    const size_t good_bytes = length_for(use);
    const int from = fixture_socket(net.a.index, 0), to = open_for(use);
    uint8_t good[FRAME_BYTES_MAX];

    make(good, use);
    assert_int_equal(send(from, frame, frame_bytes, 0), frame_bytes);
    assert_int_equal(send(from, good, good_bytes, 0), good_bytes);
    if (passes) {
        assert_gets(to, frame, frame_bytes);
    }
    assert_gets(to, good, good_bytes);
    assert_int_equal(recv(to, good, sizeof good, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(from);
    close(to);
}

static void check_refused(enum rawe_port_use use, const uint8_t *frame, size_t frame_bytes)
{
    check(use, frame, frame_bytes, false);
}

TEST(attach__bound_anew_it_still_refuses_other_ethertypes)
{
    static const enum rawe_port_use kinds[] = {RAWE_PORT_EXPRESS, RAWE_PORT_RESPONDER,
                                               RAWE_PORT_BULK, RAWE_PORT_MIDDLE, RAWE_PORT_GROUP};
    uint8_t bad[FRAME_BYTES_MAX];

    fixture_renew(&net, 20000);
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        make(bad, kinds[i]);
        bad[13] ^= 1;
        check_refused(kinds[i], bad, length_for(kinds[i]));
    }
}

/** A socket on a tunnel sees packets without an Ethernet header, which may resemble frames. */
TEST(attach__refuses_what_has_no_ethernet_header)
{
    struct ifreq request = {.ifr_name = "tun0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    uint8_t packet[FRAME_BYTES_MAX], got[FRAME_BYTES_MAX];
    const int tunnel = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    if (tunnel < 0) {
        skip();
    }
    assert_int_equal(ioctl(tunnel, TUNSETIFF, &request), 0);
    fixture_run("ip link set tun0 up");
    const struct sockaddr_ll all = {.sll_family = AF_PACKET,
                                    .sll_protocol = htons(ETH_P_ALL),
                                    .sll_ifindex = (int)if_nametoindex("tun0")};
    const int filtered = open_for(RAWE_PORT_EXPRESS);
    const int unfiltered = fixture_socket(all.sll_ifindex, ETH_P_ALL);
    assert_int_equal(bind(filtered, (const struct sockaddr *)&all, sizeof all), 0);
    make(packet, RAWE_PORT_EXPRESS);
    packet[0] = 0x45; /* IPv4: tunnels carry nothing else */
    assert_int_equal(write(tunnel, packet, FRAME_BYTES), FRAME_BYTES);
    do { /* skip packets that the kernel itself sends on a new interface */
        assert_true(recv(unfiltered, got, sizeof got, 0) > 0);
    } while (memcmp(got, packet, FRAME_BYTES) != 0);
    assert_int_equal(recv(filtered, got, sizeof got, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(filtered);
    close(unfiltered);
    close(tunnel);
}

/** Sockets of connections receive no multicast frames. */
TEST(attach__refuses_frames_to_groups)
{
    static const uint8_t group[6] = {0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE};
    uint8_t bad[FRAME_BYTES_MAX];

    fixture_renew(&net, 20000);
    for (unsigned i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        make(bad, uses[i]);
        memcpy(bad, group, sizeof group);
        check_refused(uses[i], bad, length_for(uses[i]));
    }
}

/** Reject unicast frames of group types or unknown types, even if port and key match. */
TEST(attach__refuses_types_of_groups_and_what_there_is_not)
{
    uint8_t frame[FRAME_BYTES_MAX];

    fixture_renew(&net, 20000);
    for (unsigned i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        const bool bulk = i >= 2;
        for (uint8_t type = 0; type < 16; type++) {
            make(frame, uses[i]);
            frame[bulk ? RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_OFFSET_VERSION_TYPE
                       : RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_VERSION_TYPE] =
                (uint8_t)(RAWE_FRAME_VERSION << 4 | type);
            const bool ping = type == RAWE_FRAME_PING || type == RAWE_FRAME_PONG;
            const bool passes = uses[i] == RAWE_PORT_RESPONDER ? type == RAWE_FRAME_PROBE
                                : bulk ? type == RAWE_FRAME_BULK || type == RAWE_FRAME_PROBE
                                       : type != 0 && type < RAWE_FRAME_TYPE_END && !ping;
            check(uses[i], frame, length_for(uses[i]), passes);
        }
    }
}

/** A multicast socket receives only multicast frames sent to its own groups. */
TEST(attach__of_a_group_passes_frames_to_its_groups_alone)
{
    static const uint8_t broadcast[6] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    static const uint8_t unicast[6] = {0x02, 0x72, 0x61, 1, 2, 3};
    static const struct {
        const uint8_t *to;
        uint8_t version, type, id_byte;
        bool passes;
    } cases[] = {
        {group_address, RAWE_FRAME_VERSION, RAWE_GROUP_DATA, GROUP_ID, true},
        {group_address, RAWE_FRAME_VERSION, RAWE_GROUP_DATA, GROUP_ID + 1, false},
        {group_address, RAWE_FRAME_VERSION, 11, GROUP_ID, false},
        {group_address, RAWE_FRAME_VERSION, RAWE_FRAME_SLICE, GROUP_ID, false},
        {group_address, RAWE_FRAME_VERSION + 1, RAWE_GROUP_DATA, GROUP_ID, false},
        {broadcast, RAWE_FRAME_VERSION, RAWE_GROUP_DATA, GROUP_ID, false},
        {unicast, RAWE_FRAME_VERSION, RAWE_GROUP_DATA, GROUP_ID, false},
    };
    uint8_t frame[FRAME_BYTES_MAX];

    fixture_renew(&net, 20000);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make(frame, RAWE_PORT_GROUP);
        memcpy(frame, cases[i].to, 6);
        frame[RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_VERSION_TYPE] =
            (uint8_t)(cases[i].version << 4 | cases[i].type);
        frame[RAWE_ETH_HEADER_BYTES + RAWE_GROUP_OFFSET_ID_BYTE] = cases[i].id_byte;
        check(RAWE_PORT_GROUP, frame, FRAME_BYTES, cases[i].passes);
    }
}

/** The bytes of a foreign TCP segment may match the port, key and type of a batch. */
TEST(attach__bulk_refuses_other_ipv4_packets)
{
    uint8_t bad[FRAME_BYTES_MAX];

    for (unsigned i = 0; i < 4; i++) {
        make(bad, RAWE_PORT_BULK);
        bad[RAWE_ETH_HEADER_BYTES + 12 + i] = 10;
        check_refused(RAWE_PORT_BULK, bad, FRAME_BYTES);
    }
}

/** Each length of batch is received by exactly one of the bulk and middle bulk sockets. */
TEST(attach__bulk_and_middle_share_by_length)
{
    static const size_t of_bulk[] = {FRAME_BYTES, RAWE_FILTER_MIDDLE_MIN - 1,
                                     RAWE_FILTER_MIDDLE_MAX + 1, FRAME_BYTES_MAX};
    static const size_t of_middle[] = {RAWE_FILTER_MIDDLE_MIN, RAWE_FILTER_MIDDLE_MAX};
    uint8_t frame[FRAME_BYTES_MAX];

    fixture_renew(&net, 20000); /* an MTU that allows frames as long as merged packets */
    make(frame, RAWE_PORT_BULK);
    for (unsigned i = 0; i < sizeof of_bulk / sizeof of_bulk[0]; i++) {
        check_refused(RAWE_PORT_MIDDLE, frame, of_bulk[i]);
    }
    for (unsigned i = 0; i < sizeof of_middle / sizeof of_middle[0]; i++) {
        check_refused(RAWE_PORT_BULK, frame, of_middle[i]);
    }
}

TEST(attach__cannot_be_undone)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
    const struct sock_fprog program = {.len = 1, .filter = all};
    const int fd = open_for(RAWE_PORT_EXPRESS), zero = 0;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof zero), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &zero, sizeof zero), -1);
    assert_int_equal(errno, EPERM);
    close(fd);
}
