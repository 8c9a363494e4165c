/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: the host, this process's privileges on it, and its interfaces. The component's own
 * code (rawe_interface, rawe_packet) decides which are used, and whether a socket can be opened.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "info.h"
#include "linux/packet/rawe_packet.h"

/** Enough for a ring of any interface; released at once. */
#define RING_BYTES (1u << 20)

static bool has_net_raw(struct info *info)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, data) != 0) {
        info_fail(info, "capget: %s", strerror(errno));
        return false;
    }
    return (data[0].effective >> CAP_NET_RAW & 1) != 0;
}

/** Open a packet socket without the helper, which receives nothing. Returns 0, or errno. */
static int try_packet_socket(void)
{
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return errno;
    }
    close(fd);
    return 0;
}

void info_look_at_host(struct info *info)
{
    struct info_privileges *privileges = &info->privileges;
    /* The program has one thread. */
    // cppcheck-suppress getpwuidCalled
    const struct passwd *entry = getpwuid(geteuid());

    if (uname(&info->system) != 0) {
        info_fail(info, "uname: %s", strerror(errno));
    }
    info->user = geteuid();
    info->user_name = entry != NULL ? info_copy(entry->pw_name) : NULL;
    privileges->cap_net_raw = has_net_raw(info);
    privileges->bounding_set = prctl(PR_CAPBSET_READ, CAP_NET_RAW, 0, 0, 0) == 1;
    privileges->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    privileges->packet_socket_errno = try_packet_socket();
    privileges->helper_found =
        *info->params.helper != '\0' && access(info->params.helper, F_OK) == 0;
    privileges->helper_executable =
        privileges->helper_found && access(info->params.helper, X_OK) == 0;
}

/** Return the state of an offload that ethtool queries by a command of its own. */
static enum info_offload ask_offload(int fd, const char *name, uint32_t command)
{
    struct ethtool_value value = {.cmd = command};
    struct ifreq request = {.ifr_data = (void *)&value};

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request) != 0) {
        return INFO_OFFLOAD_UNKNOWN;
    }
    return value.data != 0 ? INFO_OFFLOAD_ON : INFO_OFFLOAD_OFF;
}

/** Open a link's socket like the component, and close it. */
static void try_socket(const struct info *info, struct info_interface *one)
{
    const struct rawe_port_config config = {
        .kind = &rawe_packet_port,
        .interface = one->interface.name,
        .interface_index = one->interface.index,
        .loopback = one->interface.loopback,
        .ethertype = info->params.ethertype,
        .mtu_bytes = one->interface.mtu_bytes,
        .ring_bytes = RING_BYTES,
        .helper = info->params.helper,
    };
    struct rawe_port_error error = {0};
    struct rawe_port *port;

    if (rawe_port_open(&port, &config, &error) != 0) {
        one->socket = INFO_SOCKET_REFUSED;
        /* With EPERM the step is the helper's reason, see rawe_helper.h. */
        snprintf(one->socket_why, sizeof one->socket_why, "%s%s%s", error.step,
                 error.code == EPERM ? "" : ": ", error.code == EPERM ? "" : strerror(error.code));
        return;
    }
    rawe_port_close(port);
    one->socket = info->privileges.packet_socket_errno == 0 ? INFO_SOCKET_OWN : INFO_SOCKET_HELPER;
}

/** Find out what keeps the component from using any interface. */
static void check_params(struct info_params *params, const char *unknown)
{
    const bool including = *params->if_include != '\0';

    if (including && *params->if_exclude != '\0') {
        snprintf(params->refusal, sizeof params->refusal,
                 "btl_rawe_if_include and btl_rawe_if_exclude are both set");
    } else if (*unknown != '\0') {
        snprintf(params->refusal, sizeof params->refusal,
                 "btl_rawe_if_%s: no interface of this host matches %s",
                 including ? "include" : "exclude", unknown);
    }
}

/** Decide about lo, for ranks of this host: after the others, if there are any. */
static void decide_on_loopback(const struct info *info, struct info_interface *one, bool others)
{
    if (!info->params.loopback) {
        one->why = "btl_rawe_loopback is off";
    } else if (!one->interface.up) {
        one->why = "down";
    } else if (!others && !one->interface.chosen) {
        one->why = "no other interface can be used";
    } else {
        one->use = INFO_USE_LOCAL;
        one->why = NULL;
    }
}

/** Decide about each interface, in the component's order; see open_modules in its source. */
static void decide(struct info *info)
{
    bool others = false;

    for (unsigned i = 0; i < info->interface_count; i++) {
        struct info_interface *one = &info->interfaces[i];
        one->why = *info->params.refusal != '\0' ? "the parameters are refused"
                                                 : rawe_interface_refusal(&one->interface);
        if (one->why == NULL) {
            one->use = INFO_USE_REMOTE;
            try_socket(info, one);
            others = others || one->socket != INFO_SOCKET_REFUSED;
        }
    }
    for (unsigned i = 0; i < info->interface_count && *info->params.refusal == '\0'; i++) {
        struct info_interface *one = &info->interfaces[i];
        if (one->interface.loopback) {
            decide_on_loopback(info, one, others);
            if (one->use == INFO_USE_LOCAL) {
                try_socket(info, one);
            }
        }
    }
    for (unsigned i = 0; i < info->interface_count; i++) {
        struct info_interface *one = &info->interfaces[i];
        if (one->socket == INFO_SOCKET_REFUSED) {
            one->use = INFO_USE_NONE;
            one->why = "no socket can be opened";
        }
    }
}

void info_look_at_interfaces(struct info *info)
{
    struct rawe_interface *list;
    unsigned count;
    char unknown[128];

    if (rawe_interface_list(&list, &count) != 0) {
        info_fail(info, "cannot list the network interfaces: %s", strerror(errno));
        return;
    }
    (void)rawe_interface_select(list, count, info->params.if_include, info->params.if_exclude,
                                unknown, sizeof unknown);
    check_params(&info->params, unknown);
    info->interfaces = calloc(count + 1, sizeof info->interfaces[0]);
    if (info->interfaces == NULL) {
        info_fail(info, "there is no memory left");
        free(list);
        return;
    }
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; i < count; i++) {
        struct info_interface *one = &info->interfaces[i];
        one->interface = list[i];
        /* Asked by the component's function, which does not distinguish "unknown". */
        one->tso = rawe_interface_cuts_batches(list[i].name) ? INFO_OFFLOAD_ON : INFO_OFFLOAD_OFF;
        one->gso = ask_offload(fd, list[i].name, ETHTOOL_GGSO);
        one->gro = ask_offload(fd, list[i].name, ETHTOOL_GGRO);
    }
    if (fd >= 0) {
        close(fd);
    }
    info->interface_count = count;
    free(list);
    decide(info);
}
