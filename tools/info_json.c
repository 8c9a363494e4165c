/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: the findings as one JSON object, described in the man page.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"

/** True before the first member of an object or array. */
static bool first = true;
static unsigned depth;

static void put_text(const char *text)
{
    putchar('"');
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            printf("\\%c", byte);
        } else if (byte < ' ' || byte == 0x7F) {
            printf("\\u%04x", byte);
        } else {
            putchar(byte);
        }
    }
    putchar('"');
}

/** Begin a member; members of arrays have no name (NULL). */
static void begin_member(const char *name)
{
    if (depth > 0) {
        printf("%s\n%*s", first ? "" : ",", (int)(2 * depth), "");
    }
    first = false;
    if (name != NULL) {
        put_text(name);
        fputs(": ", stdout);
    }
}

static void begin(const char *name, char bracket)
{
    begin_member(name);
    putchar(bracket);
    depth++;
    first = true;
}

static void end(char bracket)
{
    depth--;
    if (!first) {
        printf("\n%*s", (int)(2 * depth), "");
    }
    putchar(bracket);
    first = false;
}

/** Write a member; a NULL text becomes null. */
static void put(const char *name, const char *text)
{
    begin_member(name);
    if (text != NULL) {
        put_text(text);
    } else {
        fputs("null", stdout);
    }
}

static void put_number(const char *name, uint64_t number)
{
    begin_member(name);
    printf("%" PRIu64, number);
}

static void put_bool(const char *name, bool value)
{
    begin_member(name);
    fputs(value ? "true" : "false", stdout);
}

static void put_null(const char *name)
{
    put(name, NULL);
}

static void put_offload(const char *name, enum info_offload state)
{
    if (state == INFO_OFFLOAD_UNKNOWN) {
        put_null(name);
    } else {
        put_bool(name, state == INFO_OFFLOAD_ON);
    }
}

static void put_params(const struct info_params *params)
{
    begin("parameters", '{');
    put("source", params->source);
    put("if_include", params->if_include);
    put("if_exclude", params->if_exclude);
    put_bool("loopback", params->loopback);
    put_number("ethertype", params->ethertype);
    put_number("socket_priority", params->socket_priority);
    put("helper", params->helper);
    put("refusal", *params->refusal != '\0' ? params->refusal : NULL);
    end('}');
}

static void put_interface(const struct info_interface *one)
{
    static const char *const uses[] = {
        [INFO_USE_NONE] = "none",
        [INFO_USE_REMOTE] = "remote",
        [INFO_USE_LOCAL] = "local",
    };
    static const char *const sockets[] = {
        [INFO_SOCKET_NONE] = NULL,
        [INFO_SOCKET_OWN] = "own",
        [INFO_SOCKET_HELPER] = "helper",
        [INFO_SOCKET_REFUSED] = "refused",
    };
    const struct rawe_interface *interface = &one->interface;
    char mac[18];

    begin(NULL, '{');
    put("name", interface->name);
    put("use", uses[one->use]);
    put("why_not", one->why);
    put("socket", sockets[one->socket]);
    put("socket_refusal", *one->socket_why != '\0' ? one->socket_why : NULL);
    put_bool("up", interface->enabled);
    if (interface->enabled) {
        put_bool("carrier", interface->carrier);
    } else {
        put_null("carrier");
    }
    put_number("mtu_bytes", interface->mtu_bytes);
    if (interface->speed_mbps != 0) {
        put_number("speed_mbps", interface->speed_mbps);
    } else {
        put_null("speed_mbps");
    }
    put_offload("tso", one->tso);
    put_offload("gso", one->gso);
    put_offload("gro", one->gro);
    put("mac", info_mac_text(interface, mac));
    end('}');
}

static void put_privileges(const struct info *info)
{
    const struct info_privileges *privileges = &info->privileges;

    begin("privileges", '{');
    put_bool("cap_net_raw", privileges->cap_net_raw);
    put_bool("bounding_set", privileges->bounding_set);
    put_bool("no_new_privs", privileges->no_new_privs);
    put_bool("packet_socket", privileges->packet_socket_errno == 0);
    put("packet_socket_error",
        privileges->packet_socket_errno != 0 ? strerror(privileges->packet_socket_errno) : NULL);
    put_bool("helper_found", privileges->helper_found);
    put_bool("helper_executable", privileges->helper_executable);
    end('}');
}

static void put_ompi(const struct info_ompi *ompi)
{
    begin(NULL, '{');
    put("ompi_info", ompi->program);
    put("version", ompi->version);
    put("component_version", ompi->component_version);
    if (ompi->wire_version != NULL) {
        put_number("wire_version", strtoul(ompi->wire_version, NULL, 10));
    } else {
        put_null("wire_version");
    }
    begin("component_files", '[');
    for (unsigned i = 0; i < ompi->file_count; i++) {
        put(NULL, ompi->files[i]);
    }
    end(']');
    end('}');
}

void info_show_json(const struct info *info)
{
    begin(NULL, '{');
    put("host", info->system.nodename);
    put("kernel", info->system.release);
    put_number("uid", info->user);
    put("user", info->user_name);
    put("rawe_info_version", PACKAGE_VERSION);
    put_number("rawe_info_wire_version", RAWE_WIRE_VERSION);
    put_params(&info->params);
    begin("interfaces", '[');
    for (unsigned i = 0; i < info->interface_count; i++) {
        put_interface(&info->interfaces[i]);
    }
    end(']');
    put_privileges(info);
    begin("open_mpi", '[');
    for (unsigned i = 0; i < info->ompi_count; i++) {
        put_ompi(&info->ompi[i]);
    }
    end(']');
    end('}');
    putchar('\n');
}
