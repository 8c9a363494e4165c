/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the settings of one direction: a table of keys, and one function for each form of value.
 */
#include "wire_settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_NS (3600ull * 1000000000ull)
#define REORDER_NS 1000000ull     /* when only a share is given */
#define BUFFER_BYTES (128u << 10) /* of a port whose rate is limited, unless it says more */
#define FASTEST_BITS 1e12
#define LARGEST_BUFFER (256.0 * (1 << 20))

const struct wire_settings wire_settings_none = {.buffer_bytes = BUFFER_BYTES};

struct unit {
    const char *name;
    double scale;
};

static const struct unit time_units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const struct unit rate_units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {NULL, 0}};
static const struct unit byte_units[] = {{"", 1}, {"k", 1024}, {"M", 1 << 20}, {NULL, 0}};

bool wire_settings_read_number(const char *text, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *text >= '0' && *text <= '9';
}

/* A number with one of the units behind it, from 0 to `most`. `len` bytes of text are looked at. */
static bool read_scaled(const char *text, size_t len, const struct unit *units, double most,
                        uint64_t *result)
{
    char copy[32], *end;
    double number;

    if (len == 0 || len >= sizeof copy || text[0] < '0' || text[0] > '9') {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    number = strtod(copy, &end);
    if (strcmp(copy, "0") == 0) {
        *result = 0;
        return true;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(end, units->name) == 0 && number * units->scale <= most) {
            *result = (uint64_t)(number * units->scale);
            return *result > 0;
        }
    }
    return false;
}

static bool read_time(const char *text, size_t len, uint64_t *ns)
{
    return read_scaled(text, len, time_units, (double)LONGEST_NS, ns);
}

/* `1%` or `1`, as a share. */
static bool read_share(const char *text, size_t len, double *share)
{
    char copy[32], *end;

    if (len == 0 || len >= sizeof copy || text[0] < '0' || text[0] > '9') {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    *share = strtod(copy, &end) / 100.0;
    return (*end == '\0' || strcmp(end, "%") == 0) && *share <= 1.0;
}

/* SHARE:TIME, SHARE:FRAMES; what stands behind the colon is returned, or NULL without colon. */
static const char *read_share_before_colon(const char *value, double *share, bool *good)
{
    size_t len = strcspn(value, ":");

    *good = read_share(value, len, share);
    return value[len] == ':' ? value + len + 1 : NULL;
}

static bool read_loss(struct wire_settings *settings, const char *value)
{
    return read_share(value, strlen(value), &settings->loss);
}

static bool read_duplicate(struct wire_settings *settings, const char *value)
{
    return read_share(value, strlen(value), &settings->duplicate);
}

static bool read_corrupt(struct wire_settings *settings, const char *value)
{
    return read_share(value, strlen(value), &settings->corrupt);
}

static bool read_burst(struct wire_settings *settings, const char *value)
{
    bool good;
    const char *length = read_share_before_colon(value, &settings->burst, &good);
    uint64_t frames;

    settings->burst_frames = 0;
    settings->burst_ns = 0;
    if (!good || length == NULL) {
        return good && settings->burst == 0;
    }
    if (wire_settings_read_number(length, &frames)) {
        settings->burst_frames = (uint32_t)frames;
        return frames >= 1 && frames <= 1000000;
    }
    return read_time(length, strlen(length), &settings->burst_ns) && settings->burst_ns > 0;
}

static bool read_reorder(struct wire_settings *settings, const char *value)
{
    bool good;
    const char *longest = read_share_before_colon(value, &settings->reorder, &good);

    settings->reorder_ns = REORDER_NS;
    return good &&
           (longest == NULL || (read_time(longest, strlen(longest), &settings->reorder_ns) &&
                                settings->reorder_ns > 0));
}

static bool read_delay(struct wire_settings *settings, const char *value)
{
    return read_time(value, strlen(value), &settings->delay_ns);
}

static bool read_rate(struct wire_settings *settings, const char *value)
{
    return read_scaled(value, strlen(value), rate_units, FASTEST_BITS, &settings->rate_bits);
}

static bool read_buffer(struct wire_settings *settings, const char *value)
{
    return read_scaled(value, strlen(value), byte_units, LARGEST_BUFFER, &settings->buffer_bytes);
}

static bool read_mtu(struct wire_settings *settings, const char *value)
{
    return wire_settings_read_number(value, &settings->mtu_bytes) && settings->mtu_bytes <= 65535;
}

static bool read_blackout(struct wire_settings *settings, const char *value)
{
    size_t len = strcspn(value, "/");

    settings->blackout_every_ns = 0;
    if (!read_time(value, len, &settings->blackout_ns)) {
        return false;
    }
    return value[len] == '\0' ||
           (read_time(value + len + 1, strlen(value + len + 1), &settings->blackout_every_ns) &&
            settings->blackout_every_ns > settings->blackout_ns);
}

static const struct {
    const char *key, *form;
    bool (*read)(struct wire_settings *settings, const char *value);
} keys[] = {
    {"loss", "a percentage as 1%", read_loss},
    {"burst", "PERCENTAGE:FRAMES or PERCENTAGE:TIME, as 0.1%:20 or 0.1%:50ms", read_burst},
    {"duplicate", "a percentage as 5%", read_duplicate},
    {"corrupt", "a percentage as 1%", read_corrupt},
    {"reorder", "PERCENTAGE or PERCENTAGE:TIME, as 20%:1ms", read_reorder},
    {"delay", "a time of at most an hour, as 100us, 1ms or 2s", read_delay},
    {"rate", "a rate as 100mbit or 1gbit, or 0", read_rate},
    {"buffer", "bytes as 65536 or 64k, at most 256M", read_buffer},
    {"mtu", "bytes, at most 65535; 0 lets everything pass", read_mtu},
    {"blackout", "TIME or TIME/EVERY, as 5s or 50ms/1s, the latter the longer one", read_blackout},
};

bool wire_settings_read(struct wire_settings *settings, const char *key, const char *value,
                        char why[WIRE_WHY_BYTES])
{
    int used;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i].key) == 0) {
            snprintf(why, WIRE_WHY_BYTES, "%s=%.40s: wanted is %s", key, value, keys[i].form);
            return keys[i].read(settings, value);
        }
    }
    used = snprintf(why, WIRE_WHY_BYTES, "there is no setting '%.40s'; there are", key);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        used += snprintf(why + used, WIRE_WHY_BYTES - (size_t)used, " %s", keys[i].key);
    }
    return false;
}
