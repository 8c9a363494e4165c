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

/*
 * Show a topic of the help file once in a process, this host's name being the first argument.
 * Atomic, because the responder's thread may be the one that tells.
 */
#define SHOW_ONCE(topic, ...)                                                              \
    do {                                                                                   \
        static atomic_flag shown = ATOMIC_FLAG_INIT;                                       \
        if (!atomic_flag_test_and_set(&shown)) {                                           \
            MCA_BTL_RAWE_COMPAT_SHOW_HELP(#topic, MCA_BTL_RAWE_HELP_TEXT_##topic,          \
                                          mca_btl_rawe_compat_my_hostname(), __VA_ARGS__); \
        }                                                                                  \
    } while (0)

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

void mca_btl_rawe_help_no_capability(const char *interface)
{
    SHOW_ONCE(no_capability, known(interface));
}

void mca_btl_rawe_help_no_usable_interface(const char *tried)
{
    SHOW_ONCE(no_usable_interface, NULL == tried || '\0' == *tried ? "there are none" : tried);
}

void mca_btl_rawe_help_unknown_interface(const char *parameter, const char *entry)
{
    SHOW_ONCE(unknown_interface, known(parameter), known(entry));
}

void mca_btl_rawe_help_include_and_exclude(const char *include, const char *exclude)
{
    SHOW_ONCE(include_and_exclude, known(include), known(exclude));
}

void mca_btl_rawe_help_parameter_out_of_range(const char *name, const char *value,
                                              const char *range)
{
    SHOW_ONCE(parameter_out_of_range, known(name), known(value), known(range));
}

void mca_btl_rawe_help_interface_down(const char *interface)
{
    SHOW_ONCE(interface_down, known(interface));
}

void mca_btl_rawe_help_not_ethernet(const char *interface)
{
    SHOW_ONCE(not_ethernet, known(interface));
}

void mca_btl_rawe_help_link_failed(const char *interface, const char *step, int code)
{
    SHOW_ONCE(link_failed, known(interface), known(step), strerror(code));
}

void mca_btl_rawe_help_ring_not_allocated(const char *interface, uint64_t ring_bytes, int code)
{
    struct decimal ring = decimal(ring_bytes);
    SHOW_ONCE(ring_not_allocated, known(interface), ring.text, strerror(code));
}

void mca_btl_rawe_help_ring_dropped(const char *interface, uint64_t frames, uint64_t ring_bytes)
{
    struct decimal dropped = decimal(frames);
    struct decimal ring = decimal(ring_bytes);
    SHOW_ONCE(ring_dropped_frames, known(interface), dropped.text, ring.text);
}

void mca_btl_rawe_help_mtu_mismatch(const char *interface, unsigned mtu_bytes,
                                    const char *peer_host, unsigned peer_mtu_bytes)
{
    struct decimal ours = decimal(mtu_bytes);
    struct decimal theirs = decimal(peer_mtu_bytes);
    SHOW_ONCE(mtu_mismatch, known(interface), ours.text, known(peer_host), theirs.text);
}

void mca_btl_rawe_help_full_size_lost(const char *interface, const char *peer_host,
                                      const char *peer_mac, unsigned mtu_bytes,
                                      unsigned passed_bytes)
{
    struct decimal wanted = decimal(mtu_bytes);
    struct decimal passed = decimal(passed_bytes);
    SHOW_ONCE(full_size_lost, known(interface), known(peer_host), known(peer_mac), wanted.text,
              passed.text);
}

void mca_btl_rawe_help_peer_unreachable(const char *interface, const char *peer,
                                        const char *peer_host, const char *peer_mac,
                                        uint64_t timeout_ms)
{
    struct decimal timeout = decimal(timeout_ms);
    SHOW_ONCE(peer_unreachable, known(interface), known(peer), known(peer_host), known(peer_mac),
              timeout.text);
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
    SHOW_ONCE(peer_incompatible, known(peer), known(peer_host), known(what), known(ours),
              known(theirs));
}

void mca_btl_rawe_help_wrong_version(const char *built, const char *running)
{
    SHOW_ONCE(wrong_version, known(built), known(running));
}

void mca_btl_rawe_help_internal_error(const char *doing, const char *detail, const char *file,
                                      int line)
{
    const char *slash = NULL == file ? NULL : strrchr(file, '/');
    struct decimal number = decimal(line < 0 ? 0 : (uint64_t)line);
    SHOW_ONCE(internal_error, known(doing), known(detail), known(NULL == slash ? file : slash + 1),
              number.text);
}

const char *mca_btl_rawe_mac_text(const uint8_t mac[6], char out[18])
{
    snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
    return out;
}
