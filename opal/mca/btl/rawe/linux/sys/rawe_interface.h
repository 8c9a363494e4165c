/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interfaces of this host, what is known of them, and which of them the user wants. Their carrier:
 * the kernel says by rtnetlink when one loses it or has it again.
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

struct rawe_interface {
    char name[RAWE_INTERFACE_NAME_BYTES];
    int index;
    uint8_t mac[RAWE_MAC_BYTES];
    uint32_t mtu_bytes;
    uint32_t speed_mbps; /**< from ethtool; 0: unknown */
    bool enabled;        /**< IFF_UP */
    bool carrier;        /**< IFF_LOWER_UP; never without `enabled` */
    bool up;             /**< both, and IFF_RUNNING */
    bool loopback;
    bool ethernet; /**< ARPHRD_ETHER (or loopback) */
    bool physical; /**< has a device behind it, not only software */
    bool enslaved; /**< a bridge, bond or team takes its frames away */
    /** Why it is not used unless asked for: static text for messages; NULL when it is. */
    const char *excluded_why;
    bool chosen; /**< result of the last selection */
    /* The kernel's texts (IFLA_LINKINFO), or empty. */
    char kind[RAWE_INTERFACE_KIND_BYTES];       /**< "bridge", "veth", "tun", ... */
    char slave_kind[RAWE_INTERFACE_KIND_BYTES]; /**< "bridge", "bond": its master's */
    bool has_master;
};

/** An address of an interface, as subnets are matched against. */
struct rawe_interface_address {
    int interface_index;
    bool ipv6;
    uint8_t bytes[16]; /**< network order; 4 bytes of it for IPv4 */
};

/** Does the device cut batches, or pass them whole (ethtool's tcp-segmentation-offload)? */
bool rawe_interface_cuts_batches(const char *interface);

/**
 * Have the device pass frames to an address that it had before, as long as a packet socket is open:
 * peers may know no other. Drivers that cannot do without it.
 */
void rawe_interface_keep_mac(int fd, int index, const uint8_t mac[RAWE_MAC_BYTES]);

/** All interfaces of this network namespace. Returns 0 and a malloc'ed array, or -1 and errno. */
int rawe_interface_list(struct rawe_interface **interfaces, unsigned *count);

/** Is `now` the interface `lost` under another index, as its driver was reloaded? */
bool rawe_interface_is_back(const struct rawe_interface *lost, const struct rawe_interface *now);

/**
 * Set enslaved and excluded_why of an interface, of which the rest is known. `host_has_physical`: some
 * Ethernet interface of this namespace is; where none is, virtual ones are what there is. Pure.
 */
void rawe_interface_classify(struct rawe_interface *interface, bool host_has_physical);

/**
 * Choose: `include` and `exclude` are comma-separated lists (either may be NULL or empty; what both
 * name is not chosen) of names (exact, or with a trailing '*'), MAC addresses, and IPv4/IPv6
 * addresses or CIDR subnets. Moves the chosen ones to the front of `interfaces`, and returns how many.
 * `unknown` gets the first entry that matched none, or cannot be parsed; or an empty text.
 *
 * What an entry of `include` chooses among the interfaces it matches:
 *
 *      name, exact   every one, also one that is down or no Ethernet: the caller tells the user
 *      MAC           those that are not enslaved (bonds and bridges bear their member's address)
 *      name with *   those that are up, Ethernet and neither enslaved nor loopback
 *      subnet        those that are up, Ethernet and not enslaved
 *
 * Without `include`: those that are up, Ethernet and not excluded by default.
 */
unsigned rawe_interface_select(struct rawe_interface *interfaces, unsigned count,
                               const char *include, const char *exclude, char *unknown,
                               size_t unknown_bytes);

/** The same with the addresses given instead of asked from the kernel. Pure. */
unsigned rawe_interface_select_from(struct rawe_interface *interfaces, unsigned count,
                                    const struct rawe_interface_address *addresses,
                                    unsigned address_count, const char *include,
                                    const char *exclude, char *unknown, size_t unknown_bytes);

/** Why an interface is not used after a selection, for messages. NULL: it is tried. */
const char *rawe_interface_refusal(const struct rawe_interface *interface);

struct rawe_carrier;

/**
 * Takes the state of an interface, of which name, index, MAC and `up` are set: with each change, or
 * without one, in the service thread, and of every interface at the beginning. Returns false to be
 * called for every interface again, soon.
 */
typedef bool rawe_carrier_fn(void *context, const struct rawe_interface *interface);

/** Begin to watch. Returns 0, or -1 and the error. */
int rawe_carrier_start(struct rawe_carrier **carrier, struct rawe_service *service,
                       rawe_carrier_fn *changed, void *context, struct rawe_port_error *error);

/** `changed` is not called any more when this returns. NULL is nothing to stop. */
void rawe_carrier_stop(struct rawe_carrier *carrier);

#endif
