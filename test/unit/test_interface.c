/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of choosing interfaces: classification and selection on a simulated host, and notification
 * of changes on the real one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../opal/mca/btl/rawe/linux/sys/rawe_interface.h"
#include "unit_test.h"

/** Indices of the simulated host's interfaces, also used as kernel indices. */
enum { LO, ETH0, ETH1, ETH2, BOND0, BR0, VETH7, IB0, COUNT };

static struct rawe_interface host[COUNT];
static char unknown[32];

#define IPV4(index, ...)                                     \
    {                                                        \
        .interface_index = (index), .bytes = { __VA_ARGS__ } \
    }

static const struct rawe_interface_address addresses[] = {
    IPV4(LO, 127, 0, 0, 1),
    IPV4(ETH0, 10, 1, 2, 3),
    {.interface_index = ETH0, .ipv6 = true, .bytes = {0xFE, 0x80, [15] = 5}},
    IPV4(ETH1, 10, 1, 130, 3),
    IPV4(ETH2, 10, 9, 0, 1),
    IPV4(BR0, 192, 168, 7, 1),
    IPV4(IB0, 10, 1, 7, 7),
};

static void add(unsigned index, const char *name, const char *kind, const char *slave_kind)
{
    struct rawe_interface *interface = &host[index];
    memset(interface, 0, sizeof *interface);
    strcpy(interface->name, name);
    strcpy(interface->kind, kind);
    strcpy(interface->slave_kind, slave_kind);
    interface->has_master = slave_kind[0] != '\0';
    interface->index = (int)index;
    interface->up = index != ETH2;
    interface->loopback = index == LO;
    interface->ethernet = index != IB0;
    interface->physical = kind[0] == '\0' && index != LO;
    if (index != LO) {
        memcpy(interface->mac, (uint8_t[6]){2, 0xAB, 0, 0, 0, (uint8_t)index}, 6);
    }
    rawe_interface_classify(interface, true);
}

/**
 * Create lo, NICs (eth1 in a bond, eth2 down), the bond, a bridge and a container's veth.
 */
static void set_up(void)
{
    add(LO, "lo", "", "");
    add(ETH0, "eth0", "", "");
    add(ETH1, "eth1", "", "bond");
    add(ETH2, "eth2", "", "");
    add(BOND0, "bond0", "bond", "");
    add(BR0, "br0", "bridge", "");
    add(VETH7, "veth7", "veth", "");
    add(IB0, "ib0", "", "");
    memcpy(host[BOND0].mac, host[ETH1].mac, 6);
}

/** Select interfaces. Assert that `names` come first, in order, and which entry is unknown. */
static void expect_unknown(const char *include, const char *exclude, const char *names,
                           const char *unknown_entry)
{
    char chosen[COUNT * 20] = "";
    const unsigned count =
        rawe_interface_select_from(host, COUNT, addresses, sizeof addresses / sizeof addresses[0],
                                   include, exclude, unknown, sizeof unknown);
    unsigned seen = 0;

    assert_true(count <= COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(host[i].chosen, i < count);
        if (i < count) {
            strcat(strcat(chosen, i == 0 ? "" : " "), host[i].name);
        }
        seen |= 1u << host[i].index;
    }
    /* No interface was lost or duplicated. */
    assert_int_equal(seen, (1u << COUNT) - 1);
    assert_string_equal(chosen, names);
    assert_string_equal(unknown, unknown_entry);
}

static void expect(const char *include, const char *exclude, const char *names)
{
    expect_unknown(include, exclude, names, "");
}

FIXTURE(set_up, NULL);

TEST(rawe_interface_classify__by_kind_and_membership)
{
    static const struct {
        const char *name, *kind, *slave_kind;
        bool host_has_physical, excluded, enslaved;
    } cases[] = {
        {"x0", "bridge", "", false, true, false},
        {"x0", "tun", "", false, true, false},
        {"x0", "dummy", "", false, true, false},
        {"x0", "ifb", "", false, true, false},
        {"x0", "vxlan", "", false, true, false},
        {"x0", "openvswitch", "", false, true, false},
        {"x0", "ipvlan", "", false, true, false},
        {"docker0", "", "", false, true, false},
        {"wlan0", "", "", true, true, false},
        {"bond0", "bond", "", true, false, false},
        {"eth0.7", "vlan", "", true, false, false},
        /* A container may have no other interface. */
        {"eth0", "veth", "", true, true, false},
        {"eth0", "veth", "", false, false, false},
        {"eth0", "macvlan", "", false, false, false},
        /* A bridge's member carries no traffic of its own, but a VRF's member does. */
        {"eth0", "", "bridge", true, true, true},
        {"eth0", "", "vrf", true, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rawe_interface interface = {.ethernet = true, .wireless = cases[i].name[0] == 'w'};
        strcpy(interface.name, cases[i].name);
        strcpy(interface.kind, cases[i].kind);
        strcpy(interface.slave_kind, cases[i].slave_kind);
        interface.has_master = cases[i].slave_kind[0] != '\0';
        rawe_interface_classify(&interface, cases[i].host_has_physical);
        assert_int_equal(interface.excluded_why != NULL, cases[i].excluded);
        assert_int_equal(interface.enslaved, cases[i].enslaved);
    }
}

TEST(rawe_interface_select__default)
{
    expect(NULL, NULL, "eth0 bond0");
    expect("", "", "eth0 bond0");
    expect(" ,, ", NULL, "eth0 bond0");
}

TEST(rawe_interface_select__exact_names_choose_anything)
{
    expect("eth0", NULL, "eth0");
    set_up();
    expect("ib0,eth1, eth2 ,lo,br0,veth7", NULL, "lo eth1 eth2 br0 veth7 ib0");
}

TEST(rawe_interface_select__order_stays_across_selections)
{
    expect("br0", NULL, "br0");
    expect("eth0,br0", NULL, "br0 eth0");
    expect(NULL, NULL, "eth0 bond0");
}

TEST(rawe_interface_select__patterns_choose_what_works)
{
    expect("eth*", NULL, "eth0");
    expect("b*", NULL, "bond0 br0");
    set_up();
    expect("*", NULL, "eth0 bond0 br0 veth7");
    /* The pattern matches ib0, so it is not reported as unknown, but ib0 does not work. */
    expect("ib*", NULL, "");
    expect("eth0*", NULL, "eth0");
}

TEST(rawe_interface_select__mac_addresses)
{
    expect("02:ab:00:00:00:01", NULL, "eth0");
    expect("02-AB-00-00-00-03", NULL, "eth2");
    set_up();
    /* The bond and its member share this MAC. */
    expect("02:AB:00:00:00:02", NULL, "bond0");
    expect_unknown("02:ab:00:00:00:99", NULL, "", "02:ab:00:00:00:99");
    expect_unknown("02:ab-00:00:00:01", NULL, "", "02:ab-00:00:00:01");
    expect_unknown("02:ab:00:00:00:0g", NULL, "", "02:ab:00:00:00:0g");
}

TEST(rawe_interface_select__subnets)
{
    expect("10.1.0.0/16", NULL, "eth0 ib0"); /* ib0 for UDP */
    expect("10.1.2.3", NULL, "eth0");
    expect("10.1.2.3/32", NULL, "eth0");
    expect("10.1.3.0/23", NULL, "eth0");
    expect("fe80::/10", NULL, "eth0");
    expect("192.168.0.0/16", NULL, "br0");
    set_up();
    expect("127.0.0.0/8", NULL, "lo");
    set_up();
    expect("0.0.0.0/0", NULL, "lo eth0 br0 ib0");
    /* The subnet's only interface is down. */
    expect("10.9.0.0/24", NULL, "");
}

TEST(rawe_interface_select__subnet_bounds)
{
    expect_unknown("10.1.2.2/32", NULL, "", "10.1.2.2/32");
    expect_unknown("10.1.0.0/23", NULL, "", "10.1.0.0/23");
    expect_unknown("fe80::6/127", NULL, "", "fe80::6/127");
    expect("fe80::4/127", NULL, "eth0");
}

TEST(rawe_interface_select__nonsense_is_unknown)
{
    static const char *const entries[] = {"10.1.0.0/33", "10.1.0.0/", "10.1.0.0/1x", "10.1/16",
                                          "10.1.0.0/-1", "e*h0",      "**",          "eth9",
                                          "fe80::/129",  "/8",        "eth0/8"};

    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        expect_unknown(entries[i], NULL, "", entries[i]);
        set_up();
        expect_unknown(NULL, entries[i], "eth0 bond0", entries[i]);
        set_up();
    }
}

TEST(rawe_interface_select__first_unknown_is_reported_and_cut)
{
    expect_unknown("eth0,nix,nox", NULL, "eth0", "nix");
    expect_unknown("abcdefghijklmnopqrstuvwxyz0123456789", NULL, "",
                   "abcdefghijklmnopqrstuvwxyz01234");
    assert_int_equal(rawe_interface_select_from(host, COUNT, NULL, 0, "nix", NULL, NULL, 0), 0);
}

/** An address of an interface, in text. */
static struct rawe_interface_address address_of(int index, const char *text)
{
    struct rawe_interface_address address = {.interface_index = index,
                                             .ipv6 = strchr(text, ':') != NULL};

    assert_int_equal(inet_pton(address.ipv6 ? AF_INET6 : AF_INET, text, address.bytes), 1);
    return address;
}

TEST(rawe_interface_ip__ipv6_stands_in_for_ipv4)
{
    static const struct {
        const char *name;
        const char *has[3]; /**< of the interface, in the kernel's order */
        const char *chosen;
    } cases[] = {
        {"no address", {NULL}, NULL},
        {"the first of IPv4", {"10.2.0.1", "10.1.0.1"}, "10.2.0.1"},
        {"IPv4, although it is last", {"2001:db8::1", "fd00::1", "10.1.0.1"}, "10.1.0.1"},
        {"global", {"fe80::1", "2001:db8::1"}, "2001:db8::1"},
        {"unique-local", {"fe80::1", "fd00::1"}, "fd00::1"},
        {"global before unique-local", {"fd00::1", "2001:db8::1"}, "2001:db8::1"},
        {"the lowest", {"fd00::2", "fd00::1", "fd00::3"}, "fd00::1"},
        {"link-local alone", {"fe80::1", "fe80::2"}, NULL},
        {"loopback, mapped, multicast", {"::1", "::ffff:10.1.0.1", "ff05::1"}, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rawe_interface_address all[5] = {address_of(7, "10.9.0.1"), address_of(7, "2000::")};
        struct rawe_interface_address found;
        unsigned count = 2;
        unit_case(cases[i].name);
        while (count < 5 && cases[i].has[count - 2] != NULL) {
            all[count] = address_of(3, cases[i].has[count - 2]);
            count++;
        }
        assert_int_equal(
            rawe_interface_ip_from(all, count, &(struct rawe_interface){.index = 3}, &found),
            cases[i].chosen != NULL);
        if (cases[i].chosen != NULL) {
            const struct rawe_interface_address wanted = address_of(3, cases[i].chosen);
            assert_int_equal(found.ipv6, wanted.ipv6);
            assert_memory_equal(found.bytes, wanted.bytes, sizeof found.bytes);
        }
    }
}

/** The address in the subnet that chose an interface is used, if there is one. */
TEST(rawe_interface_ip__in_the_subnet_that_was_named)
{
    const struct {
        const char *include, *address;
    } cases[] = {
        {"eth0", "10.1.2.3"},
        {"10.1.0.0/16", "10.1.2.3"},
        {"172.16.0.0/12", "172.16.0.5"},
        {"fd00:5::/64", "fd00:5::7"},
        {"10.1.0.0/16,fd00:5::/64", "10.1.2.3"},
        {"eth0,fd00:5::/64", "fd00:5::7"},
        {"fe80::/10", "10.1.2.3"}, /* link-local ones are not used */
        {"eth0", "10.1.2.3"},      /* the subnets above no longer count */
    };
    const struct rawe_interface_address all[] = {
        address_of(ETH0, "10.1.2.3"),  address_of(ETH0, "172.16.0.5"),
        address_of(ETH0, "fe80::5"),   address_of(ETH0, "fd00:4::1"),
        address_of(ETH0, "fd00:5::7"), address_of(ETH0, "fd00:5::8"),
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rawe_interface_address wanted = address_of(ETH0, cases[i].address);
        struct rawe_interface_address found;
        unit_case(cases[i].include);
        assert_int_equal(rawe_interface_select_from(host, COUNT, all, sizeof all / sizeof all[0],
                                                    cases[i].include, NULL, unknown,
                                                    sizeof unknown),
                         1);
        assert_true(rawe_interface_ip_from(all, sizeof all / sizeof all[0], &host[0], &found));
        assert_int_equal(found.ipv6, wanted.ipv6);
        assert_memory_equal(found.bytes, wanted.bytes, sizeof found.bytes);
    }
}

TEST(rawe_interface_ip__passes_by_addresses_that_do_not_last)
{
    struct rawe_interface_address all[] = {address_of(3, "fd00::1"), address_of(3, "fd00::2")};
    struct rawe_interface_address found;

    all[0].passing = true;
    assert_true(rawe_interface_ip_from(all, 2, &(struct rawe_interface){.index = 3}, &found));
    assert_memory_equal(found.bytes, all[1].bytes, sizeof found.bytes);
    all[1].passing = true;
    assert_false(rawe_interface_ip_from(all, 2, &(struct rawe_interface){.index = 3}, &found));
}

TEST(rawe_interface_ip__of_the_real_host)
{
    struct rawe_interface *interfaces;
    struct rawe_interface_address found;
    unsigned count;

    assert_int_equal(rawe_interface_list(&interfaces, &count), 0);
    for (unsigned i = 0; i < count; i++) {
        if (rawe_interface_ip(&interfaces[i], &found)) {
            assert_int_equal(found.interface_index, interfaces[i].index);
            assert_true(!interfaces[i].loopback || found.ipv6 || found.bytes[0] == 127);
        }
    }
    free(interfaces);
}

TEST(rawe_interface_select__exclude)
{
    expect(NULL, "bond*", "eth0");
    expect(NULL, "10.1.0.0/16,bond0", "");
    set_up();
    expect(NULL, "02:ab:00:00:00:01", "bond0");
    set_up();
    /* An exclude list does not add interfaces that are excluded by default. */
    expect(NULL, "lo", "eth0 bond0");
    expect("eth0,bond0", "eth0", "bond0");
}

static const char *refusal(const char *name)
{
    for (unsigned i = 0; i < COUNT; i++) {
        if (strcmp(host[i].name, name) == 0) {
            return rawe_interface_refusal(&host[i]);
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

TEST(rawe_interface_refusal__by_default)
{
    expect(NULL, NULL, "eth0 bond0");
    assert_null(refusal("eth0"));
    assert_null(refusal("bond0"));
    assert_string_equal(refusal("lo"), "loopback");
    assert_string_equal(refusal("eth2"), "down or without carrier");
    assert_string_equal(refusal("ib0"), "not Ethernet");
    assert_string_equal(refusal("eth1"), "it belongs to a bridge, bond or team");
    assert_string_equal(refusal("br0"), "it is a bridge");
}

TEST(rawe_interface_refusal__choice_does_not_make_it_fit)
{
    expect("ib0,eth1,eth2,lo", NULL, "lo eth1 eth2 ib0");
    assert_null(refusal("eth1"));
    assert_string_equal(refusal("lo"), "loopback");
    assert_string_equal(refusal("eth2"), "down or without carrier");
    assert_string_equal(refusal("ib0"), "not Ethernet");
    assert_string_equal(refusal("eth0"), "not chosen");
}

TEST(rawe_interface_list__tells_loopback)
{
    struct rawe_interface *interfaces;
    unsigned count, loopbacks = 0;

    assert_int_equal(rawe_interface_list(&interfaces, &count), 0);
    for (unsigned i = 0; i < count; i++) {
        assert_true(interfaces[i].index > 0);
        assert_true(interfaces[i].name[0] != '\0');
        assert_true(interfaces[i].mtu_bytes > 0);
        assert_true(!interfaces[i].loopback || interfaces[i].mtu_bytes <= 16384);
        assert_true(interfaces[i].enabled || !interfaces[i].carrier);
        assert_true(!interfaces[i].up || (interfaces[i].enabled && interfaces[i].carrier));
        loopbacks += interfaces[i].loopback;
        if (interfaces[i].loopback) {
            assert_non_null(interfaces[i].excluded_why);
            assert_false(interfaces[i].physical);
        }
    }
    assert_int_equal(loopbacks, 1);
    free(interfaces);
}

TEST(rawe_interface_is_back__under_another_index_only)
{
    struct rawe_interface lost = {.name = "eth1", .index = 1 << 24, .mac = {2, 0, 0, 0, 0, 1}};
    struct rawe_interface now = lost;

    now.up = true;
    assert_false(rawe_interface_is_back(&lost, &now));
    now.index++;
    assert_true(rawe_interface_is_back(&lost, &now));
    now.up = false;
    assert_false(rawe_interface_is_back(&lost, &now));
    now.up = true;
    now.mac[5] = 2; /* peers still use the old MAC */
    assert_false(rawe_interface_is_back(&lost, &now));
    now.mac[5] = 1;
    strcpy(now.name, "eth2");
    assert_false(rawe_interface_is_back(&lost, &now));
    strcpy(now.name, "eth1");
    lost.index = 1; /* the interface exists under another name */
    assert_false(rawe_interface_is_back(&lost, &now));
}

static unsigned refused; /**< number of sockets still to refuse; atomic */

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
    unsigned left = __atomic_load_n(&refused, __ATOMIC_SEQ_CST);

    if (left != 0) {
        __atomic_store_n(&refused, left - 1, __ATOMIC_SEQ_CST);
        errno = EMFILE;
        return -1;
    }
    return __real_socket(domain, type, protocol);
}

/** rawe_carrier_fn: fail the first call, as if out of descriptors, and refuse two more sockets. */
static bool changed(void *context, const struct rawe_interface *interface)
{
    unsigned *calls = context;

    assert_true(interface->index > 0);
    if (!interface->loopback || __atomic_fetch_add(calls, 1, __ATOMIC_SEQ_CST) != 0) {
        return true;
    }
    __atomic_store_n(&refused, 2, __ATOMIC_SEQ_CST);
    return false;
}

TEST(rawe_carrier__calls_again_when_there_are_descriptors_again)
{
    struct rawe_service *service;
    struct rawe_carrier *carrier;
    struct rawe_port_error error;
    unsigned calls = 0;

    assert_int_equal(rawe_service_start(&service, &error), 0);
    assert_int_equal(rawe_carrier_start(&carrier, service, changed, &calls, &error), 0);
    for (unsigned waited_ms = 0; __atomic_load_n(&calls, __ATOMIC_SEQ_CST) < 2 && waited_ms < 10000;
         waited_ms++) {
        usleep(1000);
    }
    rawe_carrier_stop(carrier);
    rawe_service_stop(service);
    assert_int_equal(calls, 2);
}

static struct rawe_service_source *added; /**< the source that was to be added to no service */

int __real_rawe_service_add(struct rawe_service *service, struct rawe_service_source *source,
                            struct rawe_port_error *error);
int __wrap_rawe_service_add(struct rawe_service *service, struct rawe_service_source *source,
                            struct rawe_port_error *error);

int __wrap_rawe_service_add(struct rawe_service *service, struct rawe_service_source *source,
                            struct rawe_port_error *error)
{
    if (service == NULL) {
        added = source;
        return 0;
    }
    return __real_rawe_service_add(service, source, error);
}

static bool dropped; /**< tell the next receiver that messages were dropped */

ssize_t __real_recv(int fd, void *buffer, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t bytes, int flags);

ssize_t __wrap_recv(int fd, void *buffer, size_t bytes, int flags)
{
    if (dropped) {
        dropped = false;
        errno = ENOBUFS;
        return -1;
    }
    return __real_recv(fd, buffer, bytes, flags);
}

static bool succeeds;

/** rawe_carrier_fn: request another call unless `succeeds` is set. */
static bool reopen(void *context, const struct rawe_interface *interface)
{
    return succeeds;
}

/** Sockets that cannot be reopened for hours must not start ten helpers per second. */
TEST(rawe_carrier__calls_again_at_longer_intervals)
{
    struct rawe_carrier *carrier;
    struct rawe_port_error error;

    assert_int_equal(rawe_carrier_start(&carrier, NULL, reopen, NULL, &error), 0);
    for (unsigned turn = 0; turn < 2; turn++) {
        int rest_ms = 100;
        succeeds = false;
        dropped = true; /* after a success, interfaces are only reported for a reason */
        for (unsigned i = 0; i < 110; i++) {
            rest_ms = i < 100 ? 100 : rest_ms < 5000 ? 2 * rest_ms : 10000;
            assert_int_equal(added->serve(added, 0), rest_ms);
        }
        assert_int_equal(rest_ms, 10000);
        succeeds = true;
        assert_int_equal(added->serve(added, 0), -1);
    }
    rawe_carrier_stop(carrier);
}
