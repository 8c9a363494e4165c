/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All MCA parameters of rawe in one table: name, type, default, range, unit, level, one sentence.
 */
#include "btl_rawe_params.h"

#include "btl_rawe_help.h"
#include "core/base/rawe_wire.h"

#include "opal/mca/base/mca_base_var.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

struct mca_btl_rawe_params mca_btl_rawe_params;

/** A parameter that counts something. */
struct number {
    const char *name;
    uint64_t *value;
    uint64_t initial;
    uint64_t min;
    uint64_t max;
    const char *unit; /**< "" where the sentence says it */
    const char *rule; /**< what else holds: "" or words for the help text */
    bool power_of_two;
    mca_base_var_info_lvl_t level;
    const char *sentence;
};

static const struct number numbers[] = {
    {"ethertype", &mca_btl_rawe_params.ethertype, 0x88B5, 0x0600, 0xFFFF, "", "", false,
     OPAL_INFO_LVL_4,
     "EtherType of all frames, the same on all hosts; the default is the one IEEE 802 sets aside "
     "for local experiments"},
    {"socket_priority", &mca_btl_rawe_params.socket_priority, 0, 0, 6, "", ", 0: as other traffic",
     false, OPAL_INFO_LVL_5,
     "Priority (SO_PRIORITY) of all frames that are sent: queueing disciplines go by it, and the "
     "egress-qos-map of a VLAN interface makes it the priority code point of the tag"},
    {"ring_bytes", &mca_btl_rawe_params.ring_bytes, 0, 0, 1 * GIB, "bytes",
     ", 0: 16 MiB, or less where all ranks of the host would exceed 5 % of its memory", false,
     OPAL_INFO_LVL_4, "Memory of the receive ring of each interface and process"},
    {"window_frames", &mca_btl_rawe_params.window_frames, 512, 16, 1024, "frames",
     ", a power of two", true, OPAL_INFO_LVL_6,
     "Largest number of frames to one peer that may be unacknowledged at a time"},
    {"inflow_bytes", &mca_btl_rawe_params.inflow_bytes, 100000, 0, 1 << 25, "bytes",
     ", 0: no limit", false, OPAL_INFO_LVL_6,
     "What a host's switch port buffers: half of that, and what is on its way by the link's rate, is what its "
     "processes ask for of long messages at a time, over all peers that send them some, while the link is "
     "busy; where it idles they ask for more"},
    {"coalesce_from", &mca_btl_rawe_params.coalesce_from, 4, 0, 1024, "frames", ", 0: never", false,
     OPAL_INFO_LVL_6,
     "With this many frames in flight to a peer, or a group, short messages gather in frames that are held "
     "back until they are full or MPI makes progress; never without the progress thread"},
    {"free_list_num", &mca_btl_rawe_params.free_list_num, 64, 0, 1 << 20, "fragments", "", false,
     OPAL_INFO_LVL_5, "Number of fragments allocated at start"},
    {"free_list_max", &mca_btl_rawe_params.free_list_max, 0, 0, 1 << 30, "fragments",
     ", 0: no limit", false, OPAL_INFO_LVL_5, "Largest number of fragments allocated"},
    {"free_list_inc", &mca_btl_rawe_params.free_list_inc, 64, 1, 1 << 20, "fragments", "", false,
     OPAL_INFO_LVL_5, "Number of fragments allocated at a time when none is free"},
    {"ack_delay_us", &mca_btl_rawe_params.ack_delay_us, 50, 0, 100000, "microseconds", "", false,
     OPAL_INFO_LVL_8, "How long an acknowledgement waits for data that could carry it"},
    {"streak_us", &mca_btl_rawe_params.streak_us, 40, 0, 1000000, "microseconds", ", 0: never",
     false, OPAL_INFO_LVL_8,
     "Eight messages to a peer within this time begin a streak: of those that follow, the ones too "
     "long to share frames share batches"},
    {"reorder_us", &mca_btl_rawe_params.reorder_us, 50, 0, 100000, "microseconds", "", false,
     OPAL_INFO_LVL_8,
     "How much later than its successors a frame may arrive, at least, before it counts as lost"},
    {"probe_min_us", &mca_btl_rawe_params.probe_min_us, 200, 10, 1000000, "microseconds", "", false,
     OPAL_INFO_LVL_8, "Shortest silence after which a peer is asked for an acknowledgement"},
    {"probe_max_ms", &mca_btl_rawe_params.probe_max_ms, 1000, 1, 60000, "milliseconds", "", false,
     OPAL_INFO_LVL_8, "Longest interval between such questions to a peer that does not answer"},
    {"connect_timeout_ms", &mca_btl_rawe_params.connect_timeout_ms, 10000, 10, 600000,
     "milliseconds", "", false, OPAL_INFO_LVL_5,
     "How long to try to reach a peer at first contact before it is left to another BTL"},
    {"progress_thread_ms", &mca_btl_rawe_params.progress_thread_ms, 1, 0, 1000, "milliseconds",
     ", 0: never", false, OPAL_INFO_LVL_6,
     "How often a thread of its own serves frames that are held back, lost or to be acknowledged "
     "while the process is outside of MPI; while MPI makes progress it polls every 4 (messages are "
     "held back) or 16 such intervals whether it still does"},
    {"peer_timeout", &mca_btl_rawe_params.peer_timeout, 30, 0, 86400, "seconds",
     ", 0: wait forever", false, OPAL_INFO_LVL_3,
     "How long a peer may be utterly silent (computing is not silence: a thread of its own "
     "answers for it) before the job ends with an error. Jobs that go on without lost processes "
     "(mpirun --with-ft) ask idle peers as well, and have 10 as their default"},
};

/**
 * Default of peer_timeout, in seconds, where the job continues when a process is lost: the same as
 * that of Open MPI's own detector (mpi_ft_detector_timeout). On a starved host, 5 s were too short.
 */
#define PEER_TIMEOUT_FAULT_TOLERANT 10u

static uint64_t number_initial(const struct number *number)
{
    return number->value == &mca_btl_rawe_params.peer_timeout &&
                   mca_btl_rawe_compat_fault_tolerant()
               ? PEER_TIMEOUT_FAULT_TOLERANT
               : number->initial;
}

/** A parameter that is on or off. */
struct flag {
    const char *name;
    bool *value;
    bool initial;
    mca_base_var_info_lvl_t level;
    const char *sentence;
};

static const struct flag flags[] = {
    {"loopback", &mca_btl_rawe_params.loopback, true, OPAL_INFO_LVL_4,
     "Reach peers on the same host through the loopback interface; off leaves them to another BTL, "
     "such as vader"},
    {"async_progress", &mca_btl_rawe_params.async_progress, false, OPAL_INFO_LVL_4,
     "Let a thread of its own make MPI's progress while the program computes: messages are matched "
     "and fetched, collectives go on; Open MPI takes its locks then"},
    {"windows", &mca_btl_rawe_params.windows, false, OPAL_INFO_LVL_4,
     "Offer PUT, GET and atomic operations for windows even where Open MPI can make messages of "
     "them (osc/pt2pt of 4.1, if not excluded), which is faster for accumulates, but waits for "
     "targets that compute; where it cannot, they are always offered"},
    {"fanout", &mca_btl_rawe_params.fanout, true, OPAL_INFO_LVL_5,
     "Where a host has several ranks of a job, let their sockets receive as a group, in which the "
     "kernel offers a frame to one of them, not to all"},
    {"batches", &mca_btl_rawe_params.batches, true, OPAL_INFO_LVL_5,
     "Send bulk data as batches of up to 64 kB, which look like TCP and which devices cut into "
     "frames and merge again; they are tried with each peer before they are used"},
    {"checksum", &mca_btl_rawe_params.checksum, false, OPAL_INFO_LVL_5,
     "Put a CRC32C on each frame and demand one, for networks whose own checks are not trusted; the "
     "same on all hosts. Bulk data goes in plain frames then"},
    {"qdisc_bypass", &mca_btl_rawe_params.qdisc_bypass, false, OPAL_INFO_LVL_8,
     "Send past the queueing discipline of the interface, and past any shaping set there"},
    {"stats", &mca_btl_rawe_params.stats, false, OPAL_INFO_LVL_3,
     "Report the counters of each process when it finalizes"},
};

/** A parameter that is a text. */
struct text {
    const char *name;
    char **value;
    const char *initial; /**< NULL: empty */
    mca_base_var_info_lvl_t level;
    const char *sentence;
};

static const struct text texts[] = {
    {"if_include", &mca_btl_rawe_params.if_include, NULL, OPAL_INFO_LVL_1,
     "Comma-separated list of the interfaces to use: names (exact or with a trailing *), MAC "
     "addresses, or subnets such as 10.1.0.0/16; not together with btl_rawe_if_exclude. Empty: "
     "every Ethernet interface that is up, except lo, bridges, and virtual ones"},
    {"if_exclude", &mca_btl_rawe_params.if_exclude, NULL, OPAL_INFO_LVL_1,
     "Comma-separated list of the interfaces not to use, written as in btl_rawe_if_include; not "
     "together with it"},
    {"helper", &mca_btl_rawe_params.helper, MCA_BTL_RAWE_HELPER, OPAL_INFO_LVL_5,
     "The program that opens the sockets where the process may not (rawe-socket-helper); empty: "
     "none"},
    {"congestion", &mca_btl_rawe_params.congestion, "cubic", OPAL_INFO_LVL_6,
     "The congestion control: how many frames the network may hold; cubic, "
     "or delay, which yields to queues before anything is lost"},
};

/** For ompi_info alone: which releases this component understands. Nothing else reads it. */
static unsigned wire_version;

static int wire_version_register(const mca_base_component_t *component)
{
    wire_version = RAWE_WIRE_VERSION;
    return mca_base_component_var_register(
        component, "wire_version",
        "Version of the frames, which all hosts of a job have in common; it cannot be set",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, MCA_BASE_VAR_FLAG_DEFAULT_ONLY, OPAL_INFO_LVL_4,
        MCA_BASE_VAR_SCOPE_CONSTANT, &wire_version);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/** A value in the form the user would type it: EtherTypes are hexadecimal everywhere. */
static void number_format(const struct number *number, uint64_t value, char *out, size_t out_bytes)
{
    if (value > INT64_MAX) {
        /* Open MPI reads -1 as the largest number there is. */
        snprintf(out, out_bytes, "%" PRId64, (int64_t)value);
    } else if (0 == strcmp("ethertype", number->name)) {
        snprintf(out, out_bytes, "0x%04" PRIX64, value);
    } else {
        snprintf(out, out_bytes, "%" PRIu64, value);
    }
}

static void number_range(const struct number *number, char *out, size_t out_bytes)
{
    char min[24], max[24];

    number_format(number, number->min, min, sizeof(min));
    number_format(number, number->max, max, sizeof(max));
    snprintf(out, out_bytes, "%s to %s%s%s%s", min, max, '\0' == *number->unit ? "" : " ",
             number->unit, number->rule);
}

int mca_btl_rawe_params_register(const mca_base_component_t *component)
{
    int status = wire_version_register(component);

    for (size_t i = 0; i < COUNT(texts) && status >= 0; ++i) {
        *texts[i].value = (char *)texts[i].initial; /* copied by Open MPI */
        status = mca_base_component_var_register(
            component, texts[i].name, texts[i].sentence, MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0,
            texts[i].level, MCA_BASE_VAR_SCOPE_READONLY, texts[i].value);
    }
    for (size_t i = 0; i < COUNT(numbers) && status >= 0; ++i) {
        char range[128], sentence[512];

        *numbers[i].value = number_initial(&numbers[i]);
        number_range(&numbers[i], range, sizeof(range));
        snprintf(sentence, sizeof(sentence), "%s (%s)", numbers[i].sentence, range);
        status = mca_base_component_var_register(
            component, numbers[i].name, sentence, MCA_BASE_VAR_TYPE_UINT64_T, NULL, 0, 0,
            numbers[i].level, MCA_BASE_VAR_SCOPE_READONLY, numbers[i].value);
    }
    for (size_t i = 0; i < COUNT(flags) && status >= 0; ++i) {
        *flags[i].value = flags[i].initial;
        status = mca_base_component_var_register(component, flags[i].name, flags[i].sentence,
                                                 MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, flags[i].level,
                                                 MCA_BASE_VAR_SCOPE_READONLY, flags[i].value);
    }
    /* Registering returns the variable's index, or an error, which is negative. */
    return status < 0 ? status : OPAL_SUCCESS;
}

static bool is_set(const char *text)
{
    return NULL != text && '\0' != *text;
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
    for (size_t i = 0; i < COUNT(numbers); ++i) {
        const struct number *number = &numbers[i];
        uint64_t value = *number->value;
        char range[128], text[32];

        if (value >= number->min && value <= number->max &&
            (!number->power_of_two || 0 == (value & (value - 1)))) {
            continue;
        }
        number_format(number, value, text, sizeof(text));
        number_range(number, range, sizeof(range));
        MCA_BTL_RAWE_HELP_IF_ASKED(parameter_out_of_range, number->name, text, range);
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
