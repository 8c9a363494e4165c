/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_params.h"

#include "btl_rawe_help.h"
#include "core/base/rawe_wire.h"
#include "linux/port/rawe_port.h"

#include "opal/mca/base/mca_base_var.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct mca_btl_rawe_params mca_btl_rawe_params;

static const struct mca_btl_rawe_params defaults = {
#define X(name, initial, ...) .name = initial,
    MCA_BTL_RAWE_NUMBER_LIST(X) MCA_BTL_RAWE_FLAG_LIST(X)
#undef X
#define X(name, initial, ...) .name = (char *)initial,
        MCA_BTL_RAWE_TEXT_LIST(X)
#undef X
};

/**
 * Default of peer_timeout, in seconds, if the job survives lost processes: the same as Open MPI's
 * own detector (mpi_ft_detector_timeout). On a starved host, 5 s was too short.
 */
#define PEER_TIMEOUT_FAULT_TOLERANT 10u

/** A parameter; `min` to `rule` are for numbers. */
struct parameter {
    const char *name;
    void *value;
    mca_base_var_type_t type;
    mca_base_var_info_lvl_t level;
    const char *sentence;
    uint64_t min;
    uint64_t max;
    const char *unit;
    const char *rule;
};

#define PARAMETER(name, type, level, ...)                                                  \
    {                                                                                      \
#name, &mca_btl_rawe_params.name, MCA_BASE_VAR_TYPE_##type, OPAL_INFO_LVL_##level, \
            __VA_ARGS__                                                                    \
    }

static const struct parameter parameters[] = {
#define X(name, initial, min, max, unit, rule, level, text) \
    PARAMETER(name, UINT64_T, level, text, min, max, unit, rule),
    MCA_BTL_RAWE_NUMBER_LIST(X)
#undef X
#define X(name, initial, level, text) PARAMETER(name, BOOL, level, text, 0, 0, "", ""),
        MCA_BTL_RAWE_FLAG_LIST(X)
#undef X
#define X(name, initial, level, text) PARAMETER(name, STRING, level, text, 0, 0, "", ""),
            MCA_BTL_RAWE_TEXT_LIST(X)
#undef X
};

/** Only used to show in ompi_info which releases this component understands. */
static unsigned wire_version = RAWE_WIRE_VERSION;

#define PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))

/** Format a value as the user would type it: EtherTypes are hexadecimal everywhere. */
static void number_format(const struct parameter *number, uint64_t value, char *out,
                          size_t out_bytes)
{
    if (value > INT64_MAX) {
        /* Open MPI reads -1 as the largest number. */
        snprintf(out, out_bytes, "%" PRId64, (int64_t)value);
    } else if (0 == strcmp("ethertype", number->name)) {
        snprintf(out, out_bytes, "0x%04" PRIX64, value);
    } else {
        snprintf(out, out_bytes, "%" PRIu64, value);
    }
}

/** Room for a number's range, with its unit and remark, and for its sentence with the range. */
#define RANGE_BYTES 384
#define SENTENCE_BYTES 768

static void number_range(const struct parameter *number, char *out, size_t out_bytes)
{
    char min[24], max[24];

    number_format(number, number->min, min, sizeof(min));
    number_format(number, number->max, max, sizeof(max));
    snprintf(out, out_bytes, "%s to %s%s%s%s", min, max, '\0' == *number->unit ? "" : " ",
             number->unit, number->rule);
}

int mca_btl_rawe_params_register(const mca_base_component_t *component)
{
    int status = mca_base_component_var_register(
        component, "wire_version",
        "Version of the frames, which all hosts of a job have in common; it cannot be set",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, MCA_BASE_VAR_FLAG_DEFAULT_ONLY, OPAL_INFO_LVL_4,
        MCA_BASE_VAR_SCOPE_CONSTANT, &wire_version);

    mca_btl_rawe_params = defaults; /* Open MPI copies the texts */
    if (mca_btl_rawe_compat_fault_tolerant()) {
        mca_btl_rawe_params.peer_timeout = PEER_TIMEOUT_FAULT_TOLERANT;
    }
    for (size_t i = 0; i < PARAMETERS && status >= 0; ++i) {
        const struct parameter *one = &parameters[i];
        char range[RANGE_BYTES], sentence[SENTENCE_BYTES];

        if (MCA_BASE_VAR_TYPE_UINT64_T == one->type) {
            number_range(one, range, sizeof(range));
            snprintf(sentence, sizeof(sentence), "%s (%s)", one->sentence, range);
        } else {
            snprintf(sentence, sizeof(sentence), "%s", one->sentence);
        }
        status =
            mca_base_component_var_register(component, one->name, sentence, one->type, NULL, 0, 0,
                                            one->level, MCA_BASE_VAR_SCOPE_READONLY, one->value);
    }
    return status < 0 ? status : OPAL_SUCCESS;
}

static bool is_set(const char *text)
{
    return NULL != text && '\0' != *text;
}

unsigned mca_btl_rawe_params_kinds(void)
{
    const unsigned kinds = rawe_port_kinds(mca_btl_rawe_params.kind);

    return RAWE_PORT_KIND_BOTH == kinds && !mca_btl_rawe_compat_asked_for() ? RAWE_PORT_KIND_PACKET
                                                                            : kinds;
}

/** Default of connect_timeout_ms. */
#define CONNECT_TIMEOUT_MS 10000u

uint64_t mca_btl_rawe_params_connect_timeout_ms(void)
{
    const uint64_t set_ms = mca_btl_rawe_params.connect_timeout_ms;

    return 0 != set_ms ? set_ms : CONNECT_TIMEOUT_MS;
}

const struct rawe_cc_type *mca_btl_rawe_params_congestion(void)
{
    const char *name = mca_btl_rawe_params.congestion;
    const struct rawe_cc_type *const *type = rawe_cc_types;

    while (NULL != *type && (NULL == name || 0 != strcmp((*type)->name, name))) {
        ++type;
    }
    return *type;
}

int mca_btl_rawe_params_check(void)
{
    for (size_t i = 0; i < PARAMETERS; ++i) {
        const struct parameter *number = &parameters[i];
        const bool is_number = MCA_BASE_VAR_TYPE_UINT64_T == number->type;
        uint64_t value = is_number ? *(const uint64_t *)number->value : 0;
        char range[RANGE_BYTES], text[32];

        if (!is_number ||
            (value >= number->min && value <= number->max &&
             (number->value != &mca_btl_rawe_params.window_frames || 0 == (value & (value - 1))))) {
            continue;
        }
        number_format(number, value, text, sizeof(text));
        number_range(number, range, sizeof(range));
        MCA_BTL_RAWE_HELP_IF_ASKED(parameter_out_of_range, number->name, text, range);
        return OPAL_ERR_BAD_PARAM;
    }

    if (0 == rawe_port_kinds(mca_btl_rawe_params.kind)) {
        MCA_BTL_RAWE_HELP_IF_ASKED(parameter_out_of_range, "kind", mca_btl_rawe_params.kind,
                                   "packet, udp, auto");
        return OPAL_ERR_BAD_PARAM;
    }
    if (mca_btl_rawe_params.udp_port_min + mca_btl_rawe_params.udp_port_range > 65536) {
        MCA_BTL_RAWE_HELP_IF_ASKED(parameter_out_of_range, "udp_port_range", "beyond port 65535",
                                   "at most 65536 less btl_rawe_udp_port_min");
        return OPAL_ERR_BAD_PARAM;
    }
    if (NULL == mca_btl_rawe_params_congestion()) {
        char names[128] = "";

        for (const struct rawe_cc_type *const *type = rawe_cc_types; NULL != *type; ++type) {
            strncat(names, type == rawe_cc_types ? "" : ", ", sizeof(names) - strlen(names) - 1);
            strncat(names, (*type)->name, sizeof(names) - strlen(names) - 1);
        }
        MCA_BTL_RAWE_HELP_IF_ASKED(
            parameter_out_of_range, "congestion",
            NULL == mca_btl_rawe_params.congestion ? "" : mca_btl_rawe_params.congestion, names);
        return OPAL_ERR_BAD_PARAM;
    }
    if (is_set(mca_btl_rawe_params.if_include) && is_set(mca_btl_rawe_params.if_exclude)) {
        MCA_BTL_RAWE_HELP_IF_ASKED(include_and_exclude, mca_btl_rawe_params.if_include,
                                   mca_btl_rawe_params.if_exclude);
        return OPAL_ERR_BAD_PARAM;
    }
    return OPAL_SUCCESS;
}
