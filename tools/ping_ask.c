/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping, asking: first do what an MPI process does at first contact (rawe_responder_discover),
 * then measure times and losses of each size, then try batches; and say what to check on failure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"
#include "linux/probe/rawe_responder.h"

/** How long to wait for an answer, once the peer is known to be there. */
#define ANSWER_WAIT_NS 500000000ull

struct ask {
    const struct ping_options *options;
    struct rawe_interface interface;
    uint8_t to[RAWE_MAC_BYTES];
    char to_text[18];
    struct rawe_path path; /**< result of path discovery */
};

/** Discover the path, like a process of rawe. */
static void discover(struct ask *ask)
{
    const struct rawe_interface *interface = &ask->interface;
    struct rawe_port_config config = {
        .kind = &rawe_packet_port,
        .use = RAWE_PORT_RESPONDER,
        .interface = interface->name,
        .interface_index = interface->index,
        .ethertype = ask->options->ethertype,
        .mtu_bytes = interface->mtu_bytes,
    };
    struct rawe_path_target target = {.to = {.port = PING_PORT, .key = ask->options->key}};
    struct rawe_responder *responder;
    struct rawe_service *service;
    struct rawe_port *port;
    struct rawe_port_error error;

    ping_random(&config.ping_port, sizeof config.ping_port);
    ping_random(&config.ping_key, sizeof config.ping_key);
    config.port = config.ping_port;
    config.key = config.ping_key;
    if (rawe_service_start(&service, &error) != 0 || rawe_port_open(&port, &config, &error) != 0 ||
        rawe_responder_start(&responder, port, &config, interface->mac, NULL, service, &error) !=
            0) {
        ping_open_failed(interface->name, &error);
    }
    memcpy(target.to.mac, ask->to, RAWE_MAC_BYTES);
    ask->path.mtu_bytes = interface->mtu_bytes;
    rawe_responder_discover(responder, &ask->path, &target, 1,
                            ask->options->timeout_ms * 1000000ull);
    rawe_port_close(rawe_responder_stop(responder));
    rawe_service_stop(service);
}

static void report_unreachable(const struct ask *ask)
{
    const char *name = ask->interface.name;

    printf("NO ANSWER from %s through %s within %u ms.\n"
           "  - Does `rawe-ping --listen` run there, on the interface with that address, and\n"
           "    with the same --ethertype and --key? If it printed \"asked by\", frames get\n"
           "    there, but do not come back.\n"
           "  - Are both in one Ethernet segment? Frames do not cross routers; ports of a switch\n"
           "    may be in different VLANs. If they have IP addresses: after a `ping` between the\n"
           "    two, `ip neigh show dev %s` shows %s.\n"
           "  - Does something drop EtherType 0x%04x? On hosts: `nft list ruleset`, tables of\n"
           "    the family netdev or bridge. On switches: access lists, port security. Virtual\n"
           "    machines and clouds often pass only IP.\n"
           "  - Cable and port: `ethtool %s`, `ip -s link show %s`.\n",
           ask->to_text, name, ask->options->timeout_ms, name, ask->to_text,
           ask->options->ethertype, name, name);
}

static void tell_mtu(const struct ask *ask)
{
    const struct rawe_path *path = &ask->path;

    if (path->mtu_passed_bytes == path->mtu_bytes) {
        printf("largest frames: MTU %" PRIu32 " passes\n", path->mtu_bytes);
        return;
    }
    printf("LARGE FRAMES DO NOT PASS: "
           "the MTU of %s is %" PRIu32 ", what passes is %" PRIu32 ".\n"
           "  - Is the MTU of the other host's interface smaller? `ip link show` there,\n"
           "    or --listen, shows it.\n"
           "  - A switch port on the path passes less: look for \"jumbo frames\", \"system mtu\"\n"
           "    or \"maximum frame size\", which must be at least %" PRIu32 ", on every port.\n"
           "  - Or set what passes on both hosts: `ip link set %s mtu %" PRIu32 "`.\n",
           ask->interface.name, path->mtu_bytes, path->mtu_passed_bytes, path->mtu_bytes + 18,
           ask->interface.name, path->mtu_passed_bytes);
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/** Send one PING and wait for its answer. Returns the round trip; 0: no answer. */
static uint64_t exchange(const struct ask *ask, struct ping_socket *one, uint16_t payload_bytes)
{
    struct ping_frame frame;
    uint64_t token;

    ping_random(&token, sizeof token);
    const uint64_t sent_ns = rawe_port_clock_ns();
    ping_question(one, ask->to, ask->options->key, token, payload_bytes);
    while (ping_receive(one, &frame, sent_ns + ANSWER_WAIT_NS, ask->options->poll)) {
        if (frame.header.type == RAWE_FRAME_PONG && frame.ping.token == token &&
            frame.header.payload_bytes == payload_bytes && ping_padding_right(&frame)) {
            const uint64_t now_ns = rawe_port_clock_ns();
            return now_ns > sent_ns ? now_ns - sent_ns : 1;
        }
    }
    return 0;
}

/** Send `count` PINGs of one size and print the result. Returns how many were lost. */
static unsigned measure(const struct ask *ask, struct ping_socket *one, const char *name,
                        uint16_t payload_bytes)
{
    uint64_t *times_ns = calloc(ask->options->count, sizeof *times_ns);
    unsigned asked = 0, answered = 0;

    if (times_ns == NULL) {
        ping_die("there is no memory for %u times", ask->options->count);
    }
    while (asked < ask->options->count && !ping_stopped) {
        const uint64_t time_ns = exchange(ask, one, payload_bytes);
        if (time_ns != 0) {
            times_ns[answered++] = time_ns;
        } else if (ping_stopped) {
            break;
        }
        asked++;
    }
    qsort(times_ns, answered, sizeof *times_ns, compare_times);
    printf("%s frames, %u bytes: %u of %u lost", name,
           (unsigned)RAWE_PAYLOAD_OFFSET + payload_bytes, asked - answered, asked);
    if (answered != 0) {
        printf("; round trip in us: least %.1f, median %.1f, most %.1f", (double)times_ns[0] / 1000,
               (double)times_ns[answered / 2] / 1000, (double)times_ns[answered - 1] / 1000);
    }
    putchar('\n');
    free(times_ns);
    return asked - answered;
}

static void tell_loss(const struct ask *ask)
{
    const char *name = ask->interface.name;

    printf("FRAMES GET LOST. rawe resends them, which costs time.\n"
           "  - Counters of both NICs: `ethtool -S %s | grep -iE 'err|drop|miss|crc'`,\n"
           "    `ip -s link show %s`.\n"
           "  - crc or symbol errors: cable or transceiver. missed, no_buffer, fifo: a larger\n"
           "    ring (`ethtool -g %s`, `ethtool -G %s rx N`). Nothing on the hosts: the counters\n"
           "    of the switch's ports.\n",
           name, name, name, name);
}

static void tell_batches(const struct ask *ask, enum ping_batch result)
{
    const char *name = ask->interface.name;

    switch (result) {
    case PING_BATCH_PASSES:
        printf("batches: pass\n");
        break;
    case PING_BATCH_CUT_BY_KERNEL:
        printf("batches: pass. The kernel cuts them into frames, since %s does not: if the driver\n"
               "  can, `ethtool -K %s tx on sg on tso on` saves processor time\n",
               name, name);
        break;
    case PING_BATCH_LOST:
        printf(
            "batches: do not pass, so rawe will use plain frames. They are IPv4 packets from\n"
            "  255.255.255.255 to 0.0.0.2 that look like TCP; a filter on a host or on the path\n"
            "  may drop them.\n");
        break;
    default:
        printf("batches: the kernel refuses the socket for them, so rawe will use plain frames.\n");
        break;
    }
}

static enum ping_status measure_all(struct ask *ask)
{
    const uint32_t mtu_bytes = ask->path.mtu_passed_bytes;
    struct ping_socket one;
    unsigned lost = 0;

    ping_open(&one, &ask->interface, ask->options, NULL);
    lost += measure(ask, &one, "small", RAWE_PING_BYTES);
    if (mtu_bytes > RAWE_HEADER_BYTES + RAWE_PING_BYTES) {
        lost += measure(ask, &one, "large", (uint16_t)(mtu_bytes - RAWE_HEADER_BYTES));
    }
    if (lost != 0) {
        tell_loss(ask);
    }
    if (!ping_stopped && mtu_bytes > RAWE_BATCH_HEADER_BYTES + RAWE_PACKET_OVERHEAD_BYTES + 64) {
        struct ping_host host = {.gets_batch = false};
        memcpy(host.mac, ask->to, RAWE_MAC_BYTES);
        tell_batches(ask, ping_batch_try(&one, ask->to, ask->options->key, mtu_bytes, &host, 1));
    }
    ping_close(&one);
    return lost == 0 && mtu_bytes == ask->path.mtu_bytes ? PING_GOOD : PING_TROUBLE;
}

enum ping_status ping_ask(const struct ping_options *options)
{
    struct ask ask = {.options = options, .interface = ping_interface(options)};
    char mac[18];

    ping_peer(options->peers[0], &ask.interface, ask.to);
    ping_mac_text(ask.to, ask.to_text);
    printf("%s (%s, MTU %" PRIu32 ") to %s, EtherType 0x%04x\n", ask.interface.name,
           ping_mac_text(ask.interface.mac, mac), ask.interface.mtu_bytes, ask.to_text,
           options->ethertype);
    discover(&ask); /* not interrupted by signals */
    if (!ask.path.reachable) {
        report_unreachable(&ask);
        return PING_TROUBLE;
    }
    ping_catch_stop();
    tell_mtu(&ask);
    return measure_all(&ask);
}
