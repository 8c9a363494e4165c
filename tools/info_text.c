/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: the findings, about a screenful.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "info.h"

static const char *yes(bool value)
{
    return value ? "yes" : "no";
}

static const char *offload(enum info_offload state)
{
    return state == INFO_OFFLOAD_ON ? "on" : state == INFO_OFFLOAD_OFF ? "off" : "unknown";
}

static void show_params(const struct info_params *params)
{
    if (params->source == NULL) {
        puts("  no ompi_info shows the component's parameters: these are defaults");
    } else {
        printf("  as %s shows them\n", params->source);
    }
    printf("  if_include %s, if_exclude %s, loopback %s, EtherType 0x%04X, socket priority %u\n",
           *params->if_include != '\0' ? params->if_include : "(empty)",
           *params->if_exclude != '\0' ? params->if_exclude : "(empty)",
           params->loopback ? "on" : "off", params->ethertype, params->socket_priority);
    if (*params->refusal != '\0') {
        printf("  refused: %s\n", params->refusal);
    }
}

static void show_interface(const struct info_interface *one)
{
    const struct rawe_interface *interface = &one->interface;
    char mac[18], speed[24] = "speed unknown";

    printf("  %-15s ", interface->name);
    if (one->use == INFO_USE_REMOTE) {
        fputs("used", stdout);
    } else if (one->use == INFO_USE_LOCAL) {
        fputs("used, between ranks of this host", stdout);
    } else {
        printf("not used: %s%s%s", one->why, *one->socket_why != '\0' ? ": " : "", one->socket_why);
    }
    puts(one->socket == INFO_SOCKET_HELPER ? "; socket by rawe-socket-helper" : "");
    if (interface->speed_mbps != 0) {
        snprintf(speed, sizeof speed, "%" PRIu32 " Mb/s", interface->speed_mbps);
    }
    printf("  %15s %s, MTU %" PRIu32 ", %s, TSO %s, GSO %s, GRO %s, %s\n", "",
           !interface->enabled   ? "down"
           : !interface->carrier ? "no carrier"
                                 : "up",
           interface->mtu_bytes, speed, offload(one->tso), offload(one->gso), offload(one->gro),
           info_mac_text(interface, mac));
}

static void show_privileges(const struct info *info)
{
    const struct info_privileges *privileges = &info->privileges;

    printf("  CAP_NET_RAW %s, in the bounding set %s, no_new_privs %s\n",
           yes(privileges->cap_net_raw), yes(privileges->bounding_set),
           yes(privileges->no_new_privs));
    printf("  packet socket of its own: %s\n", privileges->packet_socket_errno == 0
                                                   ? "can be opened"
                                                   : strerror(privileges->packet_socket_errno));
    printf("  rawe-socket-helper %s%s\n",
           *info->params.helper != '\0' ? info->params.helper : "(none)",
           !privileges->helper_found        ? ": not found"
           : !privileges->helper_executable ? ": this user may not run it"
                                            : "");
}

static void show_ompi(const struct info_ompi *ompi)
{
    printf("  %s: Open MPI %s\n", ompi->program, ompi->version != NULL ? ompi->version : "unknown");
    if (ompi->component_version != NULL) {
        printf("    loads rawe for Open MPI %s, wire version %s\n", ompi->component_version,
               ompi->wire_version != NULL ? ompi->wire_version : "unknown");
    } else {
        puts("    loads no component rawe");
    }
    for (unsigned i = 0; i < ompi->file_count; i++) {
        printf("    %s\n", ompi->files[i]);
    }
}

void info_show_text(const struct info *info)
{
    printf("%s: Linux %s, user %s (%lu), rawe-info %s with wire version %u\n",
           info->system.nodename, info->system.release,
           info->user_name != NULL ? info->user_name : "without a name", (unsigned long)info->user,
           PACKAGE_VERSION, RAWE_WIRE_VERSION);
    puts("\nParameters");
    show_params(&info->params);
    puts("\nInterfaces");
    for (unsigned i = 0; i < info->interface_count; i++) {
        show_interface(&info->interfaces[i]);
    }
    puts("\nPrivileges");
    show_privileges(info);
    puts("\nOpen MPI");
    for (unsigned i = 0; i < info->ompi_count; i++) {
        show_ompi(&info->ompi[i]);
    }
    if (info->ompi_count == 0) {
        puts("  there is no ompi_info in PATH, none of pkg-config's ompi, and none in OMPI_INFO");
    }
}
