/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The messages to the user: turns typed arguments into the strings of help-mpi-btl-rawe.txt.
 */
#include "btl_rawe_help.h"

#include "btl_rawe_compat.h"
#include "btl_rawe_help_text.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum topic {
    TOPIC_no_capability,
    TOPIC_no_usable_interface,
    TOPIC_unknown_interface,
    TOPIC_include_and_exclude,
    TOPIC_parameter_out_of_range,
    TOPIC_interface_down,
    TOPIC_not_ethernet,
    TOPIC_link_failed,
    TOPIC_ring_not_allocated,
    TOPIC_ring_dropped_frames,
    TOPIC_mtu_mismatch,
    TOPIC_full_size_lost,
    TOPIC_peer_unreachable,
    TOPIC_peer_lost,
    TOPIC_connection_stalled,
    TOPIC_peer_incompatible,
    TOPIC_wrong_version,
    TOPIC_window_unreachable,
    TOPIC_access_refused,
    TOPIC_put_refused,
    TOPIC_finalize_incomplete,
    TOPIC_internal_error,
    TOPIC_link_lost,  /* the text of link_failed */
    TOPIC_not_opened, /* the text of internal_error */
    TOPICS,
};

/** Atomic, because any of MPI's threads may be the one that tells. */
static atomic_bool shown[TOPICS];

static bool asked_for; /**< see mca_btl_rawe_help_begin */
static bool verbose;

/* Show a text of the help file once in a process for a topic, this host's name being the first
   argument. */
#define SHOW_TEXT_ONCE(topic, text, ...)                                                   \
    do {                                                                                   \
        if (!atomic_exchange(&shown[TOPIC_##topic], true)) {                               \
            MCA_BTL_RAWE_COMPAT_SHOW_HELP(#text, MCA_BTL_RAWE_HELP_TEXT_##text,            \
                                          mca_btl_rawe_compat_my_hostname(), __VA_ARGS__); \
        }                                                                                  \
    } while (0)
#define SHOW_ONCE(topic, ...) SHOW_TEXT_ONCE(topic, topic, __VA_ARGS__)

/* The same where the job goes on, with other BTLs maybe: users who did not ask are not bothered. */
#define SHOW_TEXT_IF_ASKED(topic, text, ...)                                                \
    do {                                                                                    \
        if (asked_for) {                                                                    \
            SHOW_TEXT_ONCE(topic, text, __VA_ARGS__);                                       \
        } else if (verbose) {                                                               \
            mca_btl_rawe_compat_help_print(MCA_BTL_RAWE_HELP_TEXT_##text,                   \
                                           mca_btl_rawe_compat_my_hostname(), __VA_ARGS__); \
        }                                                                                   \
    } while (0)
#define SHOW_IF_ASKED(topic, ...) SHOW_TEXT_IF_ASKED(topic, topic, __VA_ARGS__)

void mca_btl_rawe_help_begin(void)
{
    for (unsigned i = 0; i < TOPICS; ++i) {
        atomic_store(&shown[i], false);
    }
    mca_btl_rawe_compat_help_file_forget();
    asked_for = mca_btl_rawe_compat_asked_for();
    verbose = mca_btl_rawe_compat_verbose();
}

static const char *known(const char *text)
{
    return NULL == text || '\0' == *text ? "unknown" : text;
}

/** A number as text, in memory of the calling statement's block. */
struct decimal {
    char text[24];
};

static struct decimal decimal(uint64_t value)
{
    struct decimal out;
    snprintf(out.text, sizeof(out.text), "%" PRIu64, value);
    return out;
}

void mca_btl_rawe_help_no_capability(const char *interface, const char *helper, const char *reason)
{
    SHOW_IF_ASKED(no_capability, known(interface),
                  NULL == helper || '\0' == *helper ? "none" : helper, known(reason));
}

void mca_btl_rawe_help_no_usable_interface(const char *tried)
{
    SHOW_IF_ASKED(no_usable_interface, NULL == tried || '\0' == *tried ? "there are none" : tried);
}

void mca_btl_rawe_help_unknown_interface(const char *parameter, const char *entry)
{
    SHOW_IF_ASKED(unknown_interface, known(parameter), known(entry));
}

void mca_btl_rawe_help_include_and_exclude(const char *include, const char *exclude)
{
    SHOW_IF_ASKED(include_and_exclude, known(include), known(exclude));
}

void mca_btl_rawe_help_parameter_out_of_range(const char *name, const char *value,
                                              const char *range)
{
    SHOW_IF_ASKED(parameter_out_of_range, known(name), known(value), known(range));
}

void mca_btl_rawe_help_interface_down(const char *interface)
{
    SHOW_IF_ASKED(interface_down, known(interface));
}

void mca_btl_rawe_help_not_ethernet(const char *interface)
{
    SHOW_IF_ASKED(not_ethernet, known(interface));
}

void mca_btl_rawe_help_link_failed(const char *interface, const char *step, int code)
{
    SHOW_IF_ASKED(link_failed, known(interface), known(step), strerror(code));
}

void mca_btl_rawe_help_link_lost(const char *interface, const char *step, int code)
{
    SHOW_TEXT_ONCE(link_lost, link_failed, known(interface), known(step), strerror(code));
}

void mca_btl_rawe_help_ring_not_allocated(const char *interface, uint64_t ring_bytes, int code)
{
    struct decimal ring = decimal(ring_bytes);
    SHOW_IF_ASKED(ring_not_allocated, known(interface), ring.text, strerror(code));
}

void mca_btl_rawe_help_ring_dropped(const char *interface, uint64_t frames, uint64_t ring_bytes)
{
    struct decimal dropped = decimal(frames);
    struct decimal ring = decimal(ring_bytes);
    SHOW_IF_ASKED(ring_dropped_frames, known(interface), dropped.text, ring.text);
}

void mca_btl_rawe_help_mtu_mismatch(const char *interface, unsigned mtu_bytes,
                                    const char *peer_host, unsigned peer_mtu_bytes)
{
    struct decimal ours = decimal(mtu_bytes);
    struct decimal theirs = decimal(peer_mtu_bytes);
    SHOW_IF_ASKED(mtu_mismatch, known(interface), ours.text, known(peer_host), theirs.text);
}

void mca_btl_rawe_help_full_size_lost(const char *interface, const char *peer_host,
                                      const char *peer_mac, unsigned mtu_bytes,
                                      unsigned passed_bytes)
{
    struct decimal wanted = decimal(mtu_bytes);
    struct decimal passed = decimal(passed_bytes);
    SHOW_IF_ASKED(full_size_lost, known(interface), known(peer_host), known(peer_mac), wanted.text,
                  passed.text);
}

void mca_btl_rawe_help_peer_unreachable(const char *interface, const char *peer,
                                        const char *peer_host, const char *peer_mac,
                                        uint64_t timeout_ms)
{
    struct decimal timeout = decimal(timeout_ms);
    SHOW_IF_ASKED(peer_unreachable, known(interface), known(peer), known(peer_host),
                  known(peer_mac), timeout.text);
}

void mca_btl_rawe_help_peer_lost(const char *interface, const char *peer, const char *peer_host,
                                 const char *peer_mac, uint64_t silent_s)
{
    struct decimal silent = decimal(silent_s);
    SHOW_ONCE(peer_lost, known(interface), known(peer), known(peer_host), known(peer_mac),
              silent.text);
}

void mca_btl_rawe_help_connection_stalled(const char *interface, const char *peer,
                                          const char *peer_host, const char *peer_mac,
                                          const char *seen, uint64_t stalled_s, uint64_t timeout_s)
{
    struct decimal stalled = decimal(stalled_s);
    struct decimal timeout = decimal(timeout_s);
    SHOW_ONCE(connection_stalled, known(interface), known(peer), known(peer_host), known(peer_mac),
              known(seen), stalled.text, timeout.text);
}

void mca_btl_rawe_help_peer_incompatible(const char *peer, const char *peer_host, const char *what,
                                         const char *ours, const char *theirs)
{
    SHOW_IF_ASKED(peer_incompatible, known(peer), known(peer_host), known(what), known(ours),
                  known(theirs));
}

void mca_btl_rawe_help_wrong_version(const char *built, const char *running)
{
    SHOW_IF_ASKED(wrong_version, known(built), known(running));
}

static const char *file_name(const char *path)
{
    const char *slash = NULL == path ? NULL : strrchr(path, '/');
    return known(NULL == slash ? path : slash + 1);
}

void mca_btl_rawe_help_not_opened(const char *doing, const char *detail, const char *file, int line)
{
    struct decimal number = decimal(line < 0 ? 0 : (uint64_t)line);
    SHOW_TEXT_IF_ASKED(not_opened, internal_error, known(doing), known(detail), file_name(file),
                       number.text);
}

/** Why, in words. A peer may say anything. */
static const char *refusal_text(enum rawe_refusal refusal)
{
    static const char *const reasons[] = {
        [RAWE_REFUSAL_NONE] = "for no reason given",
        [RAWE_REFUSAL_UNKNOWN] = "the memory is not registered, or not any more",
        [RAWE_REFUSAL_BOUNDS] = "it reaches beyond the registered memory",
        [RAWE_REFUSAL_ACCESS] = "the memory is not registered for such accesses",
        [RAWE_REFUSAL_ALIGNMENT] = "an atomic operation needs an aligned address",
        [RAWE_REFUSAL_OPERATION] = "the operation is not known there",
    };

    return reasons[refusal < sizeof(reasons) / sizeof(reasons[0]) ? refusal : RAWE_REFUSAL_NONE];
}

void mca_btl_rawe_help_window_unreachable(const char *peer)
{
    SHOW_ONCE(window_unreachable, known(peer));
}

void mca_btl_rawe_help_access_refused(const char *peer, const char *peer_host,
                                      enum rawe_refusal refusal)
{
    SHOW_ONCE(access_refused, known(peer), known(peer_host), refusal_text(refusal));
}

void mca_btl_rawe_help_put_refused(enum rawe_refusal refusal)
{
    SHOW_ONCE(put_refused, refusal_text(refusal));
}

void mca_btl_rawe_help_finalize_incomplete(const char *interface, const char *peer,
                                           const char *peer_mac)
{
    SHOW_ONCE(finalize_incomplete, known(interface), known(peer), known(peer_mac));
}

void mca_btl_rawe_help_internal_error(const char *doing, const char *detail, const char *file,
                                      int line)
{
    struct decimal number = decimal(line < 0 ? 0 : (uint64_t)line);
    SHOW_ONCE(internal_error, known(doing), known(detail), file_name(file), number.text);
}

const char *mca_btl_rawe_mac_text(const uint8_t mac[6], char out[18])
{
    snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
    return out;
}
