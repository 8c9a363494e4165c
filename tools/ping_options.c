/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: the command line, and the interface and peer that it names.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

static void usage(FILE *out)
{
    fputs(
        "Usage: rawe-ping --listen [-i INTERFACE]        on one host, then\n"
        "       rawe-ping [-i INTERFACE] MAC|IPV4        on the other, or\n"
        "       rawe-ping --multicast [-i INTERFACE] MAC|IPV4...\n"
        "Checks whether raw Ethernet frames pass between two hosts, in both directions, how long\n"
        "they take, which frame size passes, how many get lost, and whether batches pass.\n"
        "\n"
        "  -l, --listen          answer, until Ctrl-C\n"
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
        "passes; 1 something does not, or was lost; 2 could not try. Needs CAP_NET_RAW.\n",
        out);
}

void ping_die(const char *format, ...)
{
    va_list arguments;

    fputs("rawe-ping: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(PING_CANNOT);
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
        usage(stdout);
        exit(PING_GOOD);
    default:
        usage(stderr);
        exit(PING_CANNOT);
    }
}

struct ping_options ping_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"listen", no_argument, NULL, 'l'},
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

    while ((option = getopt_long(argc, argv, "lmi:c:w:ps:e:k:h", names, NULL)) != -1) {
        take_option(&options, option);
    }
    options.peers = argv + optind;
    options.peer_count = (unsigned)(argc - optind);
    if (options.listen && options.multicast) {
        ping_die("--listen answers multicast, too; leave --multicast to the host that asks");
    }
    if (options.multicast ? options.peer_count == 0
                          : options.peer_count != (options.listen ? 0 : 1)) {
        fputs(options.listen ? "rawe-ping: --listen takes no address\n"
                             : "rawe-ping: whom to ask? Give the address that --listen shows on "
                               "the other host\n",
              stderr);
        usage(stderr);
        exit(PING_CANNOT);
    }
    return options;
}

const char *ping_mac_text(const uint8_t mac[RAWE_MAC_BYTES], char out[18])
{
    snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
    return out;
}

/** Exit the program with the reason if the interface cannot send. */
static void check_usable(const struct rawe_interface *interface)
{
    if (!interface->ethernet || interface->loopback) {
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

struct rawe_interface ping_interface(const struct ping_options *options)
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
    check_usable(&chosen);
    return chosen;
}

/** Search the kernel's neighbor table: "IP, hardware type, flags, MAC, mask, device" a line. */
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

void ping_peer(const char *peer, const struct rawe_interface *interface,
               uint8_t mac[RAWE_MAC_BYTES])
{
    struct in_addr address;
    char end;

    if (inet_pton(AF_INET, peer, &address) == 1) {
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
