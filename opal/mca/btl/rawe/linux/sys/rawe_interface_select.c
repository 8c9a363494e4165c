/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The choice of interfaces, by default and by the users' lists, and of their addresses. No system
 * calls.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rawe_interface.h"

struct rawe_mac_text rawe_mac_text(const uint8_t mac[RAWE_MAC_BYTES])
{
    struct rawe_mac_text out;

    snprintf(out.text, sizeof out.text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
             mac[3], mac[4], mac[5]);
    return out;
}

/** Longest list entry that can match: an IPv6 subnet. */
#define ENTRY_BYTES 64u

enum entry_form { ENTRY_INVALID, ENTRY_NAME, ENTRY_PREFIX, ENTRY_MAC, ENTRY_SUBNET };

/** One entry of an include or exclude list, parsed. */
struct entry {
    enum entry_form form;
    char text[ENTRY_BYTES]; /**< NAME: the name; PREFIX: the part before the '*' */
    uint8_t mac[RAWE_MAC_BYTES];
    struct rawe_subnet subnet;
};

/** Kinds that never lead to another host by themselves, and an explanation for the user. */
static const struct {
    const char *kind;
    const char *why;
} excluded_kinds[] = {
    {"bridge", "it is a bridge"},
    {"openvswitch", "it is a port of a virtual switch"},
    {"tun", "it is a tun or tap device"},
    {"dummy", "it is a dummy interface"},
    {"ifb", "it only redirects frames of other interfaces"},
    {"ipvlan", "it carries IP only"},
    {"vxlan", "it is a tunnel over other interfaces"},
    {"geneve", "it is a tunnel over other interfaces"},
    {"gretap", "it is a tunnel over other interfaces"},
    {"ip6gretap", "it is a tunnel over other interfaces"},
    {"erspan", "it is a tunnel over other interfaces"},
    {"ip6erspan", "it is a tunnel over other interfaces"},
};

/** On hosts with physical ports, these lead to containers; on others, out of a container. */
static const char *const container_kinds[] = {"veth", "macvlan", "macvtap"};

static const char *reason_to_exclude(const struct rawe_interface *interface, bool host_has_physical)
{
    if (interface->loopback) {
        return "it is the loopback interface";
    }
    if (!interface->ethernet) {
        return "it is not Ethernet";
    }
    if (interface->enslaved) {
        return "it belongs to a bridge, bond or team";
    }
    if (interface->wireless) {
        return "it is wireless";
    }
    for (size_t i = 0; i < sizeof excluded_kinds / sizeof excluded_kinds[0]; i++) {
        if (strcmp(interface->kind, excluded_kinds[i].kind) == 0) {
            return excluded_kinds[i].why;
        }
    }
    if (strncmp(interface->name, "docker", 6) == 0) {
        return "it belongs to Docker";
    }
    for (size_t i = 0; i < sizeof container_kinds / sizeof container_kinds[0]; i++) {
        if (host_has_physical && strcmp(interface->kind, container_kinds[i]) == 0) {
            return "it is virtual and this host has physical ports";
        }
    }
    return NULL;
}

void rawe_interface_classify(struct rawe_interface *interface, bool host_has_physical)
{
    /* Members of a VRF keep their frames; every other master takes its members' frames. */
    interface->enslaved = interface->has_master && strcmp(interface->slave_kind, "vrf") != 0;
    interface->excluded_why = reason_to_exclude(interface, host_has_physical);
}

/** Parse six pairs of hexadecimal digits, separated either by ':' or by '-'. */
static bool parse_mac(uint8_t mac[RAWE_MAC_BYTES], const char *text)
{
    if (strlen(text) != RAWE_MAC_BYTES * 3 - 1 || (text[2] != ':' && text[2] != '-')) {
        return false;
    }
    for (size_t i = 0; i < RAWE_MAC_BYTES; i++) {
        const char pair[3] = {text[3 * i], text[3 * i + 1], '\0'};

        if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]) ||
            (i + 1 < RAWE_MAC_BYTES && text[3 * i + 2] != text[2])) {
            return false;
        }
        mac[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

/** Parse an address, optionally followed by '/' and the number of significant bits. */
static bool parse_subnet(struct rawe_subnet *subnet, const char *text)
{
    char address[ENTRY_BYTES];
    const char *slash = strchr(text, '/');

    snprintf(address, sizeof address, "%.*s", (int)strcspn(text, "/"), text);
    if (inet_pton(AF_INET, address, subnet->address) == 1) {
        subnet->ipv6 = false;
        subnet->prefix_bits = 32;
    } else if (inet_pton(AF_INET6, address, subnet->address) == 1) {
        subnet->ipv6 = true;
        subnet->prefix_bits = 128;
    } else {
        return false;
    }
    if (slash != NULL) {
        char *end;

        if (!isdigit((unsigned char)slash[1])) {
            return false;
        }
        const unsigned long bits = strtoul(slash + 1, &end, 10);
        if (*end != '\0' || bits > subnet->prefix_bits) {
            return false;
        }
        subnet->prefix_bits = (unsigned)bits;
    }
    return true;
}

static struct entry parse_entry(const char *text, size_t len_bytes)
{
    struct entry entry = {.form = ENTRY_INVALID};

    if (len_bytes >= sizeof entry.text) {
        return entry;
    }
    memcpy(entry.text, text, len_bytes);
    if (parse_mac(entry.mac, entry.text)) {
        entry.form = ENTRY_MAC;
    } else if (parse_subnet(&entry.subnet, entry.text)) {
        entry.form = ENTRY_SUBNET;
    } else if (strcspn(entry.text, "*/") == len_bytes) {
        entry.form = ENTRY_NAME;
    } else if (strcspn(entry.text, "*/") == len_bytes - 1 && entry.text[len_bytes - 1] == '*') {
        entry.text[len_bytes - 1] = '\0';
        entry.form = ENTRY_PREFIX;
    }
    return entry;
}

static bool subnet_contains(const struct rawe_subnet *subnet,
                            const struct rawe_interface_address *address)
{
    const unsigned whole_bytes = subnet->prefix_bits / 8;
    const unsigned rest_bits = subnet->prefix_bits % 8;

    return subnet->ipv6 == address->ipv6 &&
           memcmp(subnet->address, address->bytes, whole_bytes) == 0 &&
           (rest_bits == 0 ||
            (subnet->address[whole_bytes] ^ address->bytes[whole_bytes]) >> (8 - rest_bits) == 0);
}

static bool entry_matches(const struct entry *entry, const struct rawe_interface *interface,
                          const struct rawe_interface_address *addresses, unsigned address_count)
{
    switch (entry->form) {
    case ENTRY_NAME:
        return strcmp(entry->text, interface->name) == 0;
    case ENTRY_PREFIX:
        return strncmp(entry->text, interface->name, strlen(entry->text)) == 0;
    case ENTRY_MAC:
        return memcmp(entry->mac, interface->mac, RAWE_MAC_BYTES) == 0;
    case ENTRY_SUBNET:
        for (unsigned i = 0; i < address_count; i++) {
            if (addresses[i].interface_index == interface->index &&
                subnet_contains(&entry->subnet, &addresses[i])) {
                return true;
            }
        }
        return false;
    case ENTRY_INVALID:
        break;
    }
    return false;
}

/** Return true if an include entry that matches the interface also chooses it. */
static bool entry_chooses(const struct entry *entry, const struct rawe_interface *interface)
{
    const bool usable = interface->up && !interface->enslaved;

    return entry->form == ENTRY_NAME || (entry->form == ENTRY_MAC && !interface->enslaved) ||
           (entry->form == ENTRY_SUBNET && usable) ||
           (entry->form == ENTRY_PREFIX && usable && interface->ethernet && !interface->loopback);
}

/** Let an include entry choose an interface. */
static void choose(struct rawe_interface *interface, const struct entry *entry)
{
    interface->chosen = true;
    if (entry->form == ENTRY_SUBNET && !interface->has_subnet) {
        interface->has_subnet = true;
        interface->subnet = entry->subnet;
    }
}

/** Characters ignored at the beginning of an entry. */
#define BLANKS ", \t\n\v\f\r"

/** Find a list's next entry, without surrounding blanks; false at the end. */
static bool next_entry(const char **list, const char **text, size_t *len_bytes)
{
    const char *at = *list;

    at += strspn(at, BLANKS);
    *text = at;
    *len_bytes = strcspn(at, ",");
    *list = at + *len_bytes;
    while (*len_bytes > 0 && isspace((unsigned char)at[*len_bytes - 1])) {
        (*len_bytes)--;
    }
    return *len_bytes > 0;
}

unsigned rawe_interface_select_from(struct rawe_interface *interfaces, unsigned count,
                                    const struct rawe_interface_address *addresses,
                                    unsigned address_count, const char *include,
                                    const char *exclude, char *unknown, size_t unknown_bytes)
{
    const struct {
        const char *list;
        bool choose; /**< whether a match chooses an interface */
    } passes[] = {{include, true}, {exclude, false}};
    const bool by_default = include == NULL || include[strspn(include, BLANKS)] == '\0';
    unsigned chosen = 0;

    if (unknown_bytes > 0) {
        unknown[0] = '\0';
    }
    for (unsigned i = 0; i < count; i++) {
        struct rawe_interface *interface = &interfaces[i];
        interface->chosen = by_default && interface->up && interface->excluded_why == NULL;
        interface->has_subnet = false;
    }
    for (unsigned pass = 0; pass < 2; pass++) {
        const char *list = passes[pass].list;
        const char *text;
        size_t len_bytes;

        while (list != NULL && next_entry(&list, &text, &len_bytes)) {
            const struct entry entry = parse_entry(text, len_bytes);
            bool known = false;

            for (unsigned i = 0; i < count; i++) {
                if (!entry_matches(&entry, &interfaces[i], addresses, address_count)) {
                    continue;
                }
                known = true;
                if (!passes[pass].choose) {
                    interfaces[i].chosen = false;
                } else if (entry_chooses(&entry, &interfaces[i])) {
                    choose(&interfaces[i], &entry);
                }
            }
            if (!known && unknown_bytes > 0 && unknown[0] == '\0') {
                snprintf(unknown, unknown_bytes, "%.*s", (int)len_bytes, text);
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (interfaces[i].chosen) {
            const struct rawe_interface choice = interfaces[i];
            memmove(&interfaces[chosen + 1], &interfaces[chosen],
                    (i - chosen) * sizeof interfaces[0]);
            interfaces[chosen] = choice;
            chosen++;
        }
    }
    return chosen;
}

const char *rawe_interface_refusal(const struct rawe_interface *interface)
{
    if (!interface->ethernet) {
        return "not Ethernet";
    }
    if (interface->loopback) {
        return "loopback";
    }
    if (!interface->up) {
        return "down or without carrier";
    }
    if (interface->chosen) {
        return NULL;
    }
    return interface->excluded_why != NULL ? interface->excluded_why : "not chosen";
}

/** Return true for a global (2000::/3) or unique-local (fc00::/7) IPv6 address that lasts. */
static bool is_usable_ipv6(const struct rawe_interface_address *address)
{
    const bool routed = (address->bytes[0] & 0xE0) == 0x20 || (address->bytes[0] & 0xFE) == 0xFC;

    return routed && !address->passing;
}

/** Return true if this address of the interface is preferred to another one. */
static bool is_preferred(const struct rawe_interface *interface,
                         const struct rawe_interface_address *one,
                         const struct rawe_interface_address *other)
{
    if (interface->has_subnet &&
        subnet_contains(&interface->subnet, one) != subnet_contains(&interface->subnet, other)) {
        return subnet_contains(&interface->subnet, one);
    }
    /* The kernel's order of IPv6 addresses depends on when they were set. */
    return other->ipv6 && (!one->ipv6 || memcmp(one->bytes, other->bytes, sizeof one->bytes) < 0);
}

bool rawe_interface_ip_from(const struct rawe_interface_address *all, unsigned count,
                            const struct rawe_interface *interface,
                            struct rawe_interface_address *address)
{
    const struct rawe_interface_address *best = NULL;

    for (unsigned i = 0; i < count; i++) {
        const struct rawe_interface_address *one = &all[i];
        if (one->interface_index == interface->index && (!one->ipv6 || is_usable_ipv6(one)) &&
            (best == NULL || is_preferred(interface, one, best))) {
            best = one;
        }
    }
    if (best != NULL) {
        *address = *best;
    }
    return best != NULL;
}
