/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses as core writes them. An IPv4 address is part of the MAC address that stands for it. An
 * IPv6 address is longer, so the process keeps a table of known ones:
 *
 *    MAC address: 06 | number 8 | hash of the address 32
 *
 * The hash is the same in all processes (doc/protocol.md). The number tells addresses with the same
 * hash apart, in this process only, so a hash that is forged leads to no other host.
 *
 * Threads look up addresses without a lock: an entry never changes, and stays until the process
 * ends. Addresses that are only heard fill a part of the table, so those that the modex names find
 * room.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "rawe_udp_address.h"

/** First bytes of a MAC address that stands for an IPv4 address: locally administered. */
static const uint8_t mac_prefix[RAWE_MAC_BYTES - RAWE_UDP_ADDRESS_BYTES] = {0x02, 0x04};

static const uint8_t loopback_mac[RAWE_MAC_BYTES];

void rawe_udp_mac(uint8_t mac[RAWE_MAC_BYTES], const uint8_t address[RAWE_UDP_ADDRESS_BYTES])
{
    const uint32_t loopback = htonl(INADDR_LOOPBACK);

    if (memcmp(address, &loopback, sizeof loopback) == 0) {
        memcpy(mac, loopback_mac, RAWE_MAC_BYTES);
        return;
    }
    memcpy(mac, mac_prefix, sizeof mac_prefix);
    memcpy(mac + sizeof mac_prefix, address, RAWE_UDP_ADDRESS_BYTES);
}

/* ---- IPv6 ---- */

/** Places in the table, a power of two, and how many are used, so that searches end soon. */
#define PLACES 32768u
#define USED_MAX (PLACES / 2)

struct entry {
    uint8_t address[RAWE_UDP_IPV6_BYTES];
    uint8_t mac[RAWE_MAC_BYTES];
    bool used; /**< atomic; written last */
};

/** The entries of one hash begin at the place that it gives, up to the next unused place. */
static struct {
    pthread_mutex_t lock; /**< for adding */
    unsigned used;
    unsigned heard; /**< of these, the ones that only datagrams have named */
    struct entry entries[PLACES];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t hash_of(const uint8_t address[RAWE_UDP_IPV6_BYTES])
{
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    uint64_t halves[2];

    memcpy(halves, address, sizeof halves);
    const uint64_t high = be64toh(halves[0]) * factor;
    return (uint32_t)(((high ^ high >> 32 ^ be64toh(halves[1])) * factor) >> 32);
}

static bool is_used(const struct entry *entry)
{
    return __atomic_load_n(&entry->used, __ATOMIC_ACQUIRE);
}

static struct entry *entry_after(struct entry *entry)
{
    return entry + 1 < table.entries + PLACES ? entry + 1 : table.entries;
}

/** Return the entry of an address with this hash, or the unused one where it belongs. */
static struct entry *entry_find(uint32_t hash, const uint8_t address[RAWE_UDP_IPV6_BYTES])
{
    struct entry *entry = &table.entries[hash % PLACES];

    while (is_used(entry) && memcmp(entry->address, address, sizeof entry->address) != 0) {
        entry = entry_after(entry);
    }
    return entry;
}

/** Return the entry of a MAC address that stands for an IPv6 address; or an unused one. */
static struct entry *entry_find_mac(const uint8_t mac[RAWE_MAC_BYTES])
{
    uint32_t hash;

    memcpy(&hash, mac + 2, sizeof hash);
    struct entry *entry = &table.entries[ntohl(hash) % PLACES];
    while (is_used(entry) && memcmp(entry->mac, mac, sizeof entry->mac) != 0) {
        entry = entry_after(entry);
    }
    return entry;
}

/** Add an address unless the table has it by now. Returns false if there is no room for it. */
static bool entry_add(uint32_t hash, const uint8_t address[RAWE_UDP_IPV6_BYTES], bool heard)
{
    uint8_t mac[RAWE_MAC_BYTES] = {RAWE_UDP_IPV6_MARKER};
    bool room;

    rawe_put32(mac + 2, hash);
    pthread_mutex_lock(&table.lock);
    struct entry *entry = entry_find(hash, address);
    while (!entry->used && mac[1] < UINT8_MAX && entry_find_mac(mac)->used) {
        mac[1]++;
    }
    room = entry->used || (table.used < USED_MAX && mac[1] < UINT8_MAX &&
                           (!heard || table.heard < RAWE_UDP_HEARD_MAX));
    if (room && !entry->used) {
        memcpy(entry->address, address, sizeof entry->address);
        memcpy(entry->mac, mac, sizeof entry->mac);
        table.used++;
        table.heard += heard;
        __atomic_store_n(&entry->used, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table.lock);
    return room;
}

bool rawe_udp_ipv6_mac(uint8_t mac[RAWE_MAC_BYTES], const uint8_t address[RAWE_UDP_IPV6_BYTES],
                       enum rawe_udp_origin origin)
{
    const uint32_t hash = hash_of(address);
    const struct entry *entry = entry_find(hash, address);

    if (!is_used(entry)) {
        if (origin == RAWE_UDP_UNCHECKED || !entry_add(hash, address, origin == RAWE_UDP_HEARD)) {
            return false;
        }
        entry = entry_find(hash, address);
    }
    memcpy(mac, entry->mac, RAWE_MAC_BYTES);
    return true;
}

/* ---- both ---- */

union rawe_udp_address rawe_udp_address_of(const uint8_t mac[RAWE_MAC_BYTES], uint16_t port)
{
    union rawe_udp_address address = {.ipv4 = {.sin_family = AF_INET, .sin_port = htons(port)}};

    if (!rawe_udp_is_ipv6(mac)) {
        memcpy(&address.ipv4.sin_addr, mac + sizeof mac_prefix, sizeof address.ipv4.sin_addr);
        if (memcmp(mac, loopback_mac, RAWE_MAC_BYTES) == 0) {
            address.ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        }
        return address;
    }
    const struct entry *entry = entry_find_mac(mac);
    address = (union rawe_udp_address){.any = {.sa_family = AF_UNSPEC}};
    if (is_used(entry)) {
        address.ipv6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&address.ipv6.sin6_addr, entry->address, sizeof entry->address);
    }
    return address;
}

struct rawe_mac_text rawe_udp_text(const uint8_t mac[RAWE_MAC_BYTES])
{
    const union rawe_udp_address address = rawe_udp_address_of(mac, 0);
    struct rawe_mac_text out = {"unknown"};

    if (address.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &address.ipv6.sin6_addr, out.text, sizeof out.text);
    } else if (address.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &address.ipv4.sin_addr, out.text, sizeof out.text);
    }
    return out;
}

bool rawe_udp_use(struct rawe_interface *interface)
{
    struct rawe_interface_address found = {.bytes = {127, 0, 0, 1}};

    if (!interface->loopback && !rawe_interface_ip(interface, &found)) {
        return false;
    }
    if (!found.ipv6) {
        rawe_udp_mac(interface->mac, found.bytes);
    } else if (!rawe_udp_ipv6_mac(interface->mac, found.bytes, RAWE_UDP_GIVEN)) {
        return false;
    }
    const uint32_t overhead_bytes = rawe_udp_overhead_bytes(interface->mac);
    interface->mtu_bytes -=
        interface->mtu_bytes < overhead_bytes ? interface->mtu_bytes : overhead_bytes;
    return true;
}
