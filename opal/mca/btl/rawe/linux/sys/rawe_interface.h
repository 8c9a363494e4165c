/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interfaces of this host, their properties, and which of them the user wants to use. Also
 * their carriers: the kernel reports over rtnetlink when an interface loses or regains its carrier.
 */
#ifndef RAWE_INTERFACE_H
#define RAWE_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "rawe_service.h"

#define RAWE_INTERFACE_NAME_BYTES 16u
#define RAWE_INTERFACE_KIND_BYTES 24u

struct rawe_subnet {
    bool ipv6;
    uint8_t address[16]; /**< in network order; IPv4: the first 4 bytes */
    unsigned prefix_bits;
};

struct rawe_interface {
    char name[RAWE_INTERFACE_NAME_BYTES];
    int index;
    uint8_t mac[RAWE_MAC_BYTES];
    uint32_t mtu_bytes;  /**< of a loopback interface at most 16384 */
    uint32_t speed_mbps; /**< from ethtool; 0: unknown */
    bool enabled;        /**< IFF_UP */
    bool carrier;        /**< IFF_LOWER_UP; never without `enabled` */
    bool up;             /**< enabled, carrier and IFF_RUNNING */
    bool loopback;
    bool ethernet; /**< ARPHRD_ETHER (or loopback) */
    bool physical; /**< has a device, rather than being only software */
    bool wireless; /**< that device is a radio */
    bool enslaved; /**< its frames go to a bridge, bond or team */
    /** Why it is not used by default: static text for messages. NULL: it is used by default. */
    const char *excluded_why;
    bool chosen;               /**< by the last selection */
    bool has_subnet;           /**< ... and by `subnet`, in which it has an address */
    struct rawe_subnet subnet; /**< the first one in the list that chose it */
    /* The kernel's texts (IFLA_LINKINFO), which may be empty. */
    char kind[RAWE_INTERFACE_KIND_BYTES];       /**< "bridge", "veth", "tun", ... */
    char slave_kind[RAWE_INTERFACE_KIND_BYTES]; /**< "bridge", "bond": its master's kind */
    bool has_master;
};

/** An address of an interface, to be matched against subnets. */
struct rawe_interface_address {
    int interface_index;
    bool ipv6;
    uint8_t bytes[16]; /**< in network order; IPv4: the first 4 bytes */
    bool passing;      /**< IPv6: temporary (RFC 8981), deprecated, tentative or a duplicate */
};

/** A MAC or IP address as text for messages; valid within the calling statement. */
struct rawe_mac_text {
    char text[46];
};

/** Format a MAC address: "02:00:00:00:00:01". */
struct rawe_mac_text rawe_mac_text(const uint8_t mac[RAWE_MAC_BYTES]);

/** Query an offload by ethtool's command for it. Returns 1: on, 0: off, -1: unknown. */
int rawe_interface_offload(const char *interface, uint32_t command);

/** Return true if the device cuts batches or passes them whole (tcp-segmentation-offload). */
bool rawe_interface_cuts_batches(const char *interface);

/**
 * Make the device accept frames to its former address while a packet socket is open: peers may know
 * no other address, and some drivers would drop these frames.
 */
void rawe_interface_keep_mac(int fd, int index, const uint8_t mac[RAWE_MAC_BYTES]);

/** List this network namespace's interfaces. Returns 0 and a malloc'ed array, or -1 and errno. */
int rawe_interface_list(struct rawe_interface **interfaces, unsigned *count);

/** Return true if `now` is the interface `lost` under a new index: its driver was reloaded. */
bool rawe_interface_is_back(const struct rawe_interface *lost, const struct rawe_interface *now);

/**
 * Set an interface's `enslaved` and `excluded_why` from its other members. `host_has_physical`:
 * this namespace has a physical Ethernet interface; without one, virtual ones are used. Pure.
 */
void rawe_interface_classify(struct rawe_interface *interface, bool host_has_physical);

/**
 * Choose interfaces by two comma-separated lists, `include` and `exclude`, of names (exact, or with
 * a trailing '*'), MAC addresses, and IPv4/IPv6 addresses or CIDR subnets. Either may be NULL or
 * empty; `exclude` prevails. Moves the chosen interfaces to the front, and returns their number.
 * `unknown` gets the first entry that matches no interface or cannot be parsed, or an empty string.
 *
 * Which of the matching interfaces an entry of `include` chooses:
 *
 *      name, exact   all, even if down or not Ethernet: the caller tells the user
 *      MAC           those that are not enslaved (bonds and bridges have their member's address)
 *      name with *   those that are up, Ethernet and neither enslaved nor loopback
 *      subnet        those that are up and not enslaved
 *
 * Without `include`: those that are up, Ethernet and not excluded by default.
 */
unsigned rawe_interface_select(struct rawe_interface *interfaces, unsigned count,
                               const char *include, const char *exclude, char *unknown,
                               size_t unknown_bytes);

/** Select with the given addresses, instead of the kernel's. Pure. */
unsigned rawe_interface_select_from(struct rawe_interface *interfaces, unsigned count,
                                    const struct rawe_interface_address *addresses,
                                    unsigned address_count, const char *include,
                                    const char *exclude, char *unknown, size_t unknown_bytes);

/**
 * Get an interface's first IPv4 address. Without one, its lowest global or unique-local IPv6
 * address that is not `passing`. Addresses in its `subnet` take precedence. Returns false if it has
 * none of these.
 */
bool rawe_interface_ip(const struct rawe_interface *interface,
                       struct rawe_interface_address *address);

/** Choose among the given addresses, instead of the kernel's. Pure. */
bool rawe_interface_ip_from(const struct rawe_interface_address *all, unsigned count,
                            const struct rawe_interface *interface,
                            struct rawe_interface_address *address);

/** Return why a selected interface is not used, for messages. NULL: it is used. */
const char *rawe_interface_refusal(const struct rawe_interface *interface);

struct rawe_carrier;

/**
 * Called in the service thread with an interface's name, index, MAC and `up`: for every interface
 * initially, then after changes, and sometimes without a change. Returns false to get another call
 * for every interface: after 100 ms, but if it returns false for ten seconds, after up to 10 s.
 */
typedef bool rawe_carrier_fn(void *context, const struct rawe_interface *interface);

/** Begin to watch carriers. Returns 0, or -1 and the error. */
int rawe_carrier_start(struct rawe_carrier **carrier, struct rawe_service *service,
                       rawe_carrier_fn *changed, void *context, struct rawe_port_error *error);

/** Stop watching; `changed` is not called after this returns. NULL is allowed. */
void rawe_carrier_stop(struct rawe_carrier *carrier);

#endif
