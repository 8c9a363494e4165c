/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: code shared by its parts.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"

void info_fail(struct info *info, const char *format, ...)
{
    va_list arguments;

    fputs("rawe-info: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    info->incomplete = true;
}

char *info_copy(const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        fputs("rawe-info: there is no memory left\n", stderr);
        exit(INFO_INCOMPLETE);
    }
    return copy;
}

const char *info_mac_text(const struct rawe_interface *interface, char out[18])
{
    const uint8_t *mac = interface->mac;

    snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
    return out;
}
