/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: finds out whether raw frames reach another host, how long they take, and how long they
 * may be. It works without MPI, but with the same wire format and sockets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"
#include "linux/probe/rawe_responder.h"

/** The multicast destination: 224.0.0.254, for experiments (RFC 4727), also for plain frames. */
static const uint8_t group_mac[RAWE_MAC_BYTES] = {0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE};

/* ---- The command line, and the interface and peer that it names ---- */

static void print_ping_usage(FILE *out)
{
    fputs(
        "Usage: rawe-ping --listen [-i INTERFACE]        on one host, then\n"
        "       rawe-ping [-i INTERFACE] MAC|IP          on the other, or\n"
        "       rawe-ping --multicast [-i INTERFACE] MAC|IPV4...\n"
        "       rawe-ping --udp ...                      on both: UDP datagrams\n"
        "Checks whether raw Ethernet frames pass between two hosts, in both directions, how long\n"
        "they take, which frame size passes, how many get lost, and whether batches pass.\n"
        "\n"
        "  -l, --listen          answer, until Ctrl-C\n"
        "  -u, --udp             send UDP datagrams instead, to an IP address: no CAP_NET_RAW\n"
        "  -m, --multicast       do frames and batches to a group reach these hosts?\n"
        "  -i, --interface NAME  default: the only one that rawe would use\n"
        "  -c, --count N         frames of each size (default 20)\n"
        "  -w, --wait MS         how long to wait for a first answer (default 5000)\n"
        "  -p, --poll            spin instead of sleeping, as MPI does: use it on both sides to get\n"
        "                        round trips as MPI sees them; each side occupies a core\n"
        "  -s, --seconds N       --listen: end after N seconds\n"
        "  -e, --ethertype HEX   as btl_rawe_ethertype (default 0x88b5)\n"
        "  -k, --key HEX         32 bits, the same on both sides, if several users ping\n"
        "  -h, --help            this text\n"
        "\n"
        "An IPv4 address is looked up in the kernel's neighbor table. Exit status: 0 everything\n"
        "passes; 1 something does not, or was lost; 2 could not try. Raw frames need CAP_NET_RAW.\n",
        out);
}

static unsigned long number(const char *text, const char *option, int base, unsigned long least,
                            unsigned long most)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, base);
    if (*text == '\0' || *text == '-' || *end != '\0' || errno != 0 || value < least ||
        value > most) {
        ping_die(base == 16 ? "%s %s: a hexadecimal number from %lx to %lx is needed"
                            : "%s %s: a number from %lu to %lu is needed",
                 option, text, least, most);
    }
    return value;
}

static void take_option(struct ping_options *options, int option)
{
    switch (option) {
    case 'l':
        options->listen = true;
        break;
    case 'u':
        options->udp = true;
        break;
    case 'm':
        options->multicast = true;
        break;
    case 'i':
        options->interface = optarg;
        break;
    case 'c':
        options->count = (unsigned)number(optarg, "--count", 10, 1, 1000000);
        break;
    case 'w':
        options->timeout_ms = (unsigned)number(optarg, "--wait", 10, 10, 600000);
        break;
    case 'p':
        options->poll = true;
        break;
    case 's':
        options->seconds = (unsigned)number(optarg, "--seconds", 10, 1, 1000000);
        break;
    case 'e':
        options->ethertype = (uint16_t)number(optarg, "--ethertype", 16, 0x600, 0xFFFF);
        break;
    case 'k':
        options->key = (uint32_t)number(optarg, "--key", 16, 0, UINT32_MAX);
        break;
    case 'h':
        print_ping_usage(stdout);
        exit(PING_GOOD);
    default:
        print_ping_usage(stderr);
        exit(PING_CANNOT);
    }
}

/** Read the command line; exits the program if it is wrong, or on --help. */
static struct ping_options read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"listen", no_argument, NULL, 'l'},
        {"udp", no_argument, NULL, 'u'},
        {"multicast", no_argument, NULL, 'm'},
        {"interface", required_argument, NULL, 'i'},
        {"count", required_argument, NULL, 'c'},
        {"wait", required_argument, NULL, 'w'},
        {"poll", no_argument, NULL, 'p'},
        {"seconds", required_argument, NULL, 's'},
        {"ethertype", required_argument, NULL, 'e'},
        {"key", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct ping_options options = {
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .key = PING_KEY,
        .count = 20,
        .timeout_ms = 5000,
    };
    int option;

    while ((option = getopt_long(argc, argv, "lumi:c:w:ps:e:k:h", names, NULL)) != -1) {
        take_option(&options, option);
    }
    options.peers = argv + optind;
    options.peer_count = (unsigned)(argc - optind);
    if (options.listen && options.multicast) {
        ping_die("--listen answers multicast, too; leave --multicast to the host that asks");
    }
    if (options.udp && options.multicast) {
        ping_die("--multicast sends raw frames; leave out --udp");
    }
    if (options.multicast ? options.peer_count == 0
                          : options.peer_count != (options.listen ? 0 : 1)) {
        fputs(options.listen ? "rawe-ping: --listen takes no address\n"
                             : "rawe-ping: whom to ask? Give the address that --listen shows on "
                               "the other host\n",
              stderr);
        print_ping_usage(stderr);
        exit(PING_CANNOT);
    }
    return options;
}

/** Exit the program with the reason if the interface cannot send. */
static void check_usable(const struct rawe_interface *interface, bool udp)
{
    if (!udp && (!interface->ethernet || interface->loopback)) {
        ping_die("%s is not an Ethernet interface. `ip -brief link` lists them; name one with -i.",
                 interface->name);
    }
    if (!interface->up) {
        ping_die("%s is down or has no carrier.\n"
                 "`ip link show %s` shows which. `ip link set %s up` brings it up; if it says "
                 "NO-CARRIER\nthen, check the cable and the switch port.",
                 interface->name, interface->name, interface->name);
    }
}

/** Return the interface to use; exits the program if it is ambiguous or unusable. */
static struct rawe_interface choose_interface(const struct ping_options *options)
{
    struct rawe_interface *interfaces, chosen;
    unsigned count;
    char unknown[128];

    if (rawe_interface_list(&interfaces, &count) != 0) {
        ping_die("cannot list the network interfaces: %s", strerror(errno));
    }
    unsigned found =
        rawe_interface_select(interfaces, count, options->interface, NULL, unknown, sizeof unknown);
    if (options->interface != NULL && (unknown[0] != '\0' || found == 0)) {
        ping_die("%s is not an interface of this host. `ip -brief link` lists them.",
                 options->interface);
    }
    if (found == 0) {
        ping_die("there is no Ethernet interface that is up and has a carrier.\n"
                 "`ip -brief link` lists all; name one with -i if rawe passes over it.");
    }
    if (found > 1) {
        ping_die("there are several interfaces: %s, %s%s. Name one with -i.", interfaces[0].name,
                 interfaces[1].name, found > 2 ? ", ..." : "");
    }
    chosen = interfaces[0];
    free(interfaces);
    check_usable(&chosen, options->udp);
    if (options->udp && !rawe_udp_use(&chosen)) {
        ping_die("%s has no IPv4 or global IPv6 address, which UDP needs. `ip -brief address` "
                 "lists them.",
                 chosen.name);
    }
    return chosen;
}

/** Search the kernel's neighbor table, whose lines are "IP, hw type, flags, MAC, mask, device". */
static bool neighbour_mac(const char *address, const char *interface, uint8_t mac[RAWE_MAC_BYTES])
{
    FILE *table = fopen("/proc/net/arp", "r");
    char line[256], ip[64], hardware[32], device[64];
    unsigned flags;
    bool found = false;

    while (table != NULL && !found && fgets(line, sizeof line, table) != NULL) {
        found = sscanf(line, "%63s %*s 0x%x %31s %*s %63s", ip, &flags, hardware, device) == 4 &&
                strcmp(ip, address) == 0 && strcmp(device, interface) == 0 && flags != 0 &&
                sscanf(hardware, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &mac[0], &mac[1], &mac[2],
                       &mac[3], &mac[4], &mac[5]) == 6;
    }
    if (table != NULL) {
        fclose(table);
    }
    return found;
}

/** Find the MAC address that stands for a peer's IP address; exits the program on failure. */
static void find_ip_peer(const char *peer, const struct rawe_interface *interface,
                         uint8_t mac[RAWE_MAC_BYTES])
{
    const bool ipv6 = rawe_udp_is_ipv6(interface->mac);
    struct in6_addr address;

    if (inet_pton(ipv6 ? AF_INET6 : AF_INET, peer, &address) != 1) {
        ping_die("%s is not an IPv%d address, which --udp needs: it uses %s of %s.\n"
                 "As for rawe, IPv6 is for interfaces without an IPv4 address.",
                 peer, ipv6 ? 6 : 4, rawe_udp_text(interface->mac).text, interface->name);
    }
    if (ipv6) {
        (void)rawe_udp_ipv6_mac(mac, address.s6_addr, RAWE_UDP_GIVEN);
    } else {
        rawe_udp_mac(mac, address.s6_addr);
    }
}

/** Find the MAC address of a peer; exits the program on failure. */
static void find_peer(const struct ping_options *options, const char *peer,
                      const struct rawe_interface *interface, uint8_t mac[RAWE_MAC_BYTES])
{
    struct in_addr address;
    char end;

    if (options->udp) {
        find_ip_peer(peer, interface, mac);
    } else if (inet_pton(AF_INET, peer, &address) == 1) {
        if (!neighbour_mac(peer, interface->name, mac)) {
            ping_die("the kernel does not know the MAC address of %s on %s.\n"
                     "`ping -c 1 %s` makes it ask; or use the MAC address that --listen shows.",
                     peer, interface->name, peer);
        }
    } else if (sscanf(peer, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%c", &mac[0], &mac[1], &mac[2],
                      &mac[3], &mac[4], &mac[5], &end) != 6) {
        ping_die("%s is neither a MAC address (02:00:00:00:00:01) nor an IPv4 address.", peer);
    }
    if ((mac[0] & 1) != 0) {
        ping_die("%s is a group address; frames of rawe go to one host.", peer);
    }
    if (memcmp(mac, interface->mac, RAWE_MAC_BYTES) == 0) {
        ping_die("%s is this host's own interface %s: frames to itself do not come back.", peer,
                 interface->name);
    }
}

/*
 * ---- Asking: first do what an MPI process does at first contact (rawe_responder_discover), then
 * measure times and losses of each size, then try batches; and say what to check on failure ----
 */

/** How long to wait for an answer once the peer is known to be present. */
#define ANSWER_WAIT_NS 500000000ull

struct ask {
    const struct ping_options *options;
    struct rawe_interface interface;
    uint8_t to[RAWE_MAC_BYTES];
    struct rawe_mac_text to_text;
    struct rawe_path path; /**< result of path discovery */
};

/** Discover the path, like a process of rawe. */
static void discover(struct ask *ask)
{
    const struct rawe_interface *interface = &ask->interface;
    struct rawe_port_config config = ping_config(interface, ask->options);
    struct rawe_path_target target = {
        .to = {.port = ask->options->udp ? PING_UDP_PORT : PING_PORT, .key = ask->options->key}};
    struct rawe_responder *responder;
    struct rawe_service *service;
    struct rawe_port *port;
    struct rawe_port_error error;

    if (rawe_service_start(&service, &error) != 0 ||
        ping_open_port(&port, &config, ask->options, &error) != 0 ||
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

/** What carries the frames, for messages. */
struct protocol_text {
    char text[32];
};

static struct protocol_text protocol(const struct ping_options *options)
{
    struct protocol_text out;

    if (options->udp) {
        snprintf(out.text, sizeof out.text, "UDP port %u", PING_UDP_PORT);
    } else {
        snprintf(out.text, sizeof out.text, "EtherType 0x%04x", options->ethertype);
    }
    return out;
}

/** Return the interface's MTU in bytes, as shown by the system. */
static uint32_t mtu_of(const struct rawe_interface *interface, const struct ping_options *options)
{
    return interface->mtu_bytes + (options->udp ? rawe_udp_overhead_bytes(interface->mac) : 0);
}

static void print_unreachable(const struct ask *ask)
{
    const char *name = ask->interface.name;

    if (ask->options->udp) {
        printf("NO ANSWER from %s through %s within %u ms.\n"
               "  - Does `rawe-ping --udp --listen` run there, with the same --key? If it printed\n"
               "    \"asked by\", datagrams get there, but do not come back.\n"
               "  - Is there a route? `ip route get %s`, and `ping %s`.\n"
               "  - Does a firewall drop UDP ports %u to %u, here, there or between? rawe uses\n"
               "    this range (btl_rawe_udp_port_min, btl_rawe_udp_port_range). On hosts:\n"
               "    `nft list ruleset`; in clouds: security groups.\n"
               "  - Is an address translated (NAT) between them? rawe does not work across that.\n",
               ask->to_text.text, name, ask->options->timeout_ms, ask->to_text.text,
               ask->to_text.text, 32768u, PING_UDP_PORT);
        return;
    }
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
           ask->to_text.text, name, ask->options->timeout_ms, name, ask->to_text.text,
           ask->options->ethertype, name, name);
}

static void tell_mtu(const struct ask *ask)
{
    const uint32_t mtu_bytes = ask->path.mtu_bytes + ask->path.overhead_bytes;
    const uint32_t passed_bytes = ask->path.mtu_passed_bytes + ask->path.overhead_bytes;

    if (passed_bytes == mtu_bytes) {
        printf("largest frames: MTU %" PRIu32 " passes\n", mtu_bytes);
        return;
    }
    printf(
        "LARGE FRAMES DO NOT PASS: "
        "the MTU of %s is %" PRIu32 ", what passes is %" PRIu32 ".\n"
        "  - Is the MTU of the other host's interface smaller? `ip link show` there,\n"
        "    or --listen, shows it.\n"
        "  - A switch port or router on the path passes less: look for \"jumbo frames\", \"system mtu\"\n"
        "    or \"maximum frame size\", which must be at least %" PRIu32 ", on every port.\n"
        "  - Or set what passes on both hosts: `ip link set %s mtu %" PRIu32 "`.\n",
        ask->interface.name, mtu_bytes, passed_bytes, mtu_bytes + 18, ask->interface.name,
        passed_bytes);
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
static unsigned measure_size(const struct ask *ask, struct ping_socket *one, const char *name,
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
    lost += measure_size(ask, &one, "small", RAWE_PING_BYTES);
    if (mtu_bytes > RAWE_HEADER_BYTES + RAWE_PING_BYTES) {
        lost += measure_size(ask, &one, "large", (uint16_t)(mtu_bytes - RAWE_HEADER_BYTES));
    }
    if (lost != 0) {
        tell_loss(ask);
    }
    /* Over UDP, batches are datagrams like others: what passes is known. */
    if (!ask->options->udp && !ping_stopped &&
        mtu_bytes > RAWE_BATCH_HEADER_BYTES + RAWE_PACKET_OVERHEAD_BYTES + 64) {
        struct ping_host host = {.gets_batch = false};
        memcpy(host.mac, ask->to, RAWE_MAC_BYTES);
        tell_batches(ask, ping_batch_try(&one, ask->to, ask->options->key, mtu_bytes, &host, 1));
    }
    ping_close(&one);
    return lost == 0 && mtu_bytes == ask->path.mtu_bytes ? PING_GOOD : PING_TROUBLE;
}

static enum ping_status ask_listener(const struct ping_options *options)
{
    struct ask ask = {.options = options, .interface = choose_interface(options)};

    find_peer(options, options->peers[0], &ask.interface, ask.to);
    ask.to_text = ping_text(options, ask.to);
    printf("%s (%s, MTU %" PRIu32 ") to %s, %s\n", ask.interface.name,
           ping_text(options, ask.interface.mac).text, mtu_of(&ask.interface, options),
           ask.to_text.text, protocol(options).text);
    discover(&ask); /* not interrupted by signals */
    if (!ask.path.reachable) {
        print_unreachable(&ask);
        return PING_TROUBLE;
    }
    ping_catch_stop();
    tell_mtu(&ask);
    return measure_all(&ask);
}

/** Interval between polls for batches and group frames, which arrive at other sockets. */
#define LOOK_EVERY_NS 20000000ull

/** Number of hosts remembered; beyond that, the oldest is forgotten. */
#define ASKERS_MAX 64u

struct listener {
    struct ping_asker askers[ASKERS_MAX];
    unsigned known; /**< entries in use, from the first on */
    unsigned oldest;
    unsigned long answered;
    bool translated; /**< an address was */
};

/** Remember where to send this host's answers; print it the first time. */
static void note_asker(struct listener *listener, const struct ping_options *options,
                       const struct ping_frame *frame)
{
    struct ping_asker *asker = NULL;

    for (unsigned i = 0; i < listener->known && asker == NULL; i++) {
        if (memcmp(listener->askers[i].mac, frame->source, RAWE_MAC_BYTES) == 0) {
            asker = &listener->askers[i];
        }
    }
    if (asker == NULL) {
        printf("asked by %s\n", ping_text(options, frame->source).text);
        if (listener->known < ASKERS_MAX) {
            asker = &listener->askers[listener->known++];
        } else {
            asker = &listener->askers[listener->oldest++ % ASKERS_MAX];
        }
        memcpy(asker->mac, frame->source, RAWE_MAC_BYTES);
    }
    asker->port = frame->ping.port;
    asker->key = frame->ping.key;
}

/** Return true if a PING's sender has another address than its datagram; print it the first time. */
static bool is_translated(struct listener *listener, const struct ping_options *options,
                          const struct ping_socket *one, const struct ping_frame *frame)
{
    if (frame->header.connection_id == ping_named(one, frame->source)) {
        return false;
    }
    if (!listener->translated) {
        listener->translated = true;
        printf("asked by %s, which is another host's address: it was translated (NAT) on the way.\n"
               "rawe does not work across that, so there is no answer.\n",
               ping_text(options, frame->source).text);
    }
    return true;
}

static void answer_ping_frame(struct listener *listener, const struct ping_options *options,
                              struct ping_socket *one, const struct ping_frame *frame)
{
    /* No host sends from a group address; an answer to one would reach all hosts. */
    if (frame->header.type != RAWE_FRAME_PING || (frame->source[0] & 1) != 0 ||
        !ping_padding_right(frame) || is_translated(listener, options, one, frame)) {
        return;
    }
    const struct rawe_header header = {
        .type = RAWE_FRAME_PONG,
        .port = frame->ping.port,
        .key = frame->ping.key,
        .connection_id = ping_named(one, one->mac),
        .payload_bytes = frame->header.payload_bytes,
    };
    if (ping_send(one, frame->source, &header, &frame->ping)) {
        listener->answered++;
    }
    note_asker(listener, options, frame);
}

static enum ping_status listen_for_peers(const struct ping_options *options)
{
    const struct rawe_interface interface = choose_interface(options);
    const uint64_t end_ns = options->seconds == 0
                                ? UINT64_MAX
                                : rawe_port_clock_ns() + options->seconds * 1000000000ull;
    struct listener listener = {.answered = 0};
    struct ping_socket one, group;
    struct ping_batch_listener *batches = NULL, *group_batches = NULL;
    struct ping_frame frame;

    ping_catch_stop();
    ping_open(&one, &interface, options, NULL);
    if (!options->udp) {
        ping_open(&group, &interface, options, group_mac);
        batches = ping_batch_listen(&one, NULL);
        group_batches = ping_batch_listen(&one, group_mac);
    }
    printf("listening on %s, MTU %u, %s; on another host: rawe-ping %s%s\n", interface.name,
           mtu_of(&interface, options), protocol(options).text, options->udp ? "--udp " : "",
           ping_text(options, interface.mac).text);
    while (!ping_stopped && rawe_port_clock_ns() < end_ns) {
        uint64_t look_ns = rawe_port_clock_ns() + LOOK_EVERY_NS;
        if (ping_receive(&one, &frame, look_ns < end_ns ? look_ns : end_ns, options->poll)) {
            answer_ping_frame(&listener, options, &one, &frame);
        }
        while (!options->udp && ping_receive(&group, &frame, 0, false)) {
            answer_ping_frame(&listener, options, &one, &frame);
        }
        ping_batch_answer(batches, listener.askers, listener.known);
        ping_batch_answer(group_batches, listener.askers, listener.known);
    }
    printf("%lu frames answered, of %u hosts\n", listener.answered, listener.known);
    ping_batch_close(group_batches);
    ping_batch_close(batches);
    if (!options->udp) {
        ping_close(&group);
    }
    ping_close(&one);
    return listener.answered != 0 ? PING_GOOD : PING_TROUBLE;
}

/** An unanswered PING is repeated after this time. */
#define ROUND_NS 100000000ull

struct inquiry {
    const struct ping_options *options;
    struct rawe_interface interface;
    struct ping_host *hosts;
    unsigned count;
    struct ping_socket one;
};

/** PING all hosts whose flag is not set, one by one or as a group, until all have answered. */
static void ask_all(struct inquiry *inquiry, bool as_group)
{
    const uint64_t end_ns = rawe_port_clock_ns() + inquiry->options->timeout_ms * 1000000ull;
    const uint32_t key = inquiry->options->key;
    unsigned missing = inquiry->count;
    struct ping_frame frame;
    uint64_t token;

    ping_random(&token, sizeof token);
    while (missing != 0 && rawe_port_clock_ns() < end_ns && !ping_stopped) {
        for (unsigned i = 0; i < inquiry->count && !as_group; i++) {
            if (!inquiry->hosts[i].answers) {
                ping_question(&inquiry->one, inquiry->hosts[i].mac, key, token, RAWE_PING_BYTES);
            }
        }
        if (as_group) {
            ping_question(&inquiry->one, group_mac, key, token, RAWE_PING_BYTES);
        }
        const uint64_t round_ns = rawe_port_clock_ns() + ROUND_NS;
        while (missing != 0 && ping_receive(&inquiry->one, &frame, round_ns, false)) {
            for (unsigned i = 0; i < inquiry->count; i++) {
                struct ping_host *host = &inquiry->hosts[i];
                bool *flag = as_group ? &host->gets_frame : &host->answers;
                if (frame.header.type == RAWE_FRAME_PONG && frame.ping.token == token && !*flag &&
                    memcmp(host->mac, frame.source, RAWE_MAC_BYTES) == 0) {
                    *flag = true;
                    missing--;
                }
            }
        }
    }
}

static enum ping_status print_result(const struct inquiry *inquiry, bool offered)
{
    enum ping_status status = PING_GOOD;
    bool lost = false;

    for (unsigned i = 0; i < inquiry->count; i++) {
        const struct ping_host *host = &inquiry->hosts[i];
        const struct rawe_mac_text mac = rawe_mac_text(host->mac);
        if (!host->answers) {
            printf("%s: NO ANSWER to a frame of its own. Does `rawe-ping --listen` run there?\n"
                   "  `rawe-ping %s` tells what else to check.\n",
                   mac.text, mac.text);
        } else {
            printf("%s: plain frames %s, batches %s\n", mac.text,
                   host->gets_frame ? "pass" : "DO NOT PASS",
                   host->gets_batch ? "pass"
                   : offered        ? "DO NOT PASS"
                                    : "cannot be tried: the kernel refuses the socket");
            lost = lost || !host->gets_frame || !host->gets_batch;
        }
        if (!host->answers || !host->gets_frame || !host->gets_batch) {
            status = PING_TROUBLE;
        }
    }
    if (lost) {
        printf(
            "  - On Linux bridges `bridge -d link` shows ports with mcast_flood off; on switches\n"
            "    look for storm control, and for ports where unknown multicast is blocked.\n"
            "  - A --listen of an earlier release does not answer multicast.\n");
    }
    return status;
}

static enum ping_status ask_group(const struct ping_options *options)
{
    struct inquiry inquiry = {.options = options,
                              .interface = choose_interface(options),
                              .count = options->peer_count,
                              .hosts = calloc(options->peer_count, sizeof(struct ping_host))};

    if (inquiry.hosts == NULL) {
        ping_die("there is no memory for %u hosts", inquiry.count);
    }
    for (unsigned i = 0; i < inquiry.count; i++) {
        find_peer(options, options->peers[i], &inquiry.interface, inquiry.hosts[i].mac);
    }
    ping_catch_stop();
    ping_open(&inquiry.one, &inquiry.interface, options, NULL);
    printf("%s, MTU %" PRIu32 ", EtherType 0x%04x, to the group %s\n", inquiry.interface.name,
           inquiry.interface.mtu_bytes, options->ethertype, rawe_mac_text(group_mac).text);
    ask_all(&inquiry, false);
    ask_all(&inquiry, true);
    const enum ping_batch batch =
        ping_batch_try(&inquiry.one, group_mac, options->key, inquiry.interface.mtu_bytes,
                       inquiry.hosts, inquiry.count);
    const enum ping_status status = print_result(&inquiry, batch != PING_BATCH_NOT_OFFERED);
    ping_close(&inquiry.one);
    free(inquiry.hosts);
    return status;
}

int main(int argc, char **argv)
{
    const struct ping_options options = read_options(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (options.multicast) {
        return ask_group(&options);
    }
    return options.listen ? listen_for_peers(&options) : ask_listener(&options);
}
