/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: what it finds out about a host. Nothing is freed: the program shows it and exits.
 */
#ifndef INFO_H
#define INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include "linux/sys/rawe_interface.h"

#define INFO_OMPI_MAX 8u
#define INFO_FILES_MAX 8u
#define INFO_REASON_BYTES 192u

/** Exit statuses. */
enum info_status {
    INFO_GOOD = 0,
    INFO_INCOMPLETE = 1, /**< something could not be found out; standard error says what */
    INFO_CANNOT = 2,     /**< wrong usage */
};

/** The component's parameters that determine interfaces and sockets. */
struct info_params {
    const char *source; /**< ompi_info that showed them; NULL: none did, these are defaults */
    const char *if_include;
    const char *if_exclude;
    const char *helper;
    uint16_t ethertype;
    uint8_t socket_priority;
    bool loopback;
    char refusal[INFO_REASON_BYTES]; /**< why the component rejects them; or empty */
};

/** An Open MPI, as described by its ompi_info; NULL: unknown. */
struct info_ompi {
    const char *program;
    const char *version;
    const char *component_version; /**< of the BTL rawe it loads: the Open MPI it is for */
    const char *wire_version;
    const char *pkglibdir;
    const char *component_path;        /**< component directories, the first wins */
    const char *files[INFO_FILES_MAX]; /**< each mca_btl_rawe.so found, in that order */
    unsigned file_count;
    struct info_params params;
};

/** The component's use for an interface. */
enum info_use { INFO_USE_NONE, INFO_USE_REMOTE, INFO_USE_LOCAL };

/** How a socket on an interface can be opened. */
enum info_socket { INFO_SOCKET_NONE, INFO_SOCKET_OWN, INFO_SOCKET_HELPER, INFO_SOCKET_REFUSED };

/** An offload as the driver reports it. */
enum info_offload { INFO_OFFLOAD_UNKNOWN, INFO_OFFLOAD_OFF, INFO_OFFLOAD_ON };

struct info_interface {
    struct rawe_interface interface;
    enum info_use use;
    const char *why; /**< why it is not used; NULL: it is */
    enum info_socket socket;
    char socket_why[INFO_REASON_BYTES]; /**< if refused */
    enum info_offload tso, gso, gro;
};

struct info_privileges {
    bool cap_net_raw;        /**< effective */
    bool bounding_set;       /**< a file capability may grant CAP_NET_RAW */
    bool no_new_privs;       /**< nothing may be granted */
    int packet_socket_errno; /**< from opening one without the helper; 0: it can be opened */
    bool helper_found;
    bool helper_executable; /**< by this user */
};

struct info {
    struct utsname system;
    uid_t user;
    const char *user_name; /**< NULL: it has none */
    struct info_params params;
    struct info_privileges privileges;
    struct info_interface *interfaces; /**< the ones that the component chooses come first */
    unsigned interface_count;
    struct info_ompi ompi[INFO_OMPI_MAX]; /**< in the order they were asked */
    unsigned ompi_count;
    bool incomplete;
};

/* info.c */

/** Report on standard error what could not be found out, and set `incomplete`. */
void info_fail(struct info *info, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Copy a text; exits the program when out of memory. */
char *info_copy(const char *text);
const char *info_mac_text(const struct rawe_interface *interface, char out[18]);

/* info_ompi.c */

/** Find each Open MPI in $OMPI_INFO, PATH and pkg-config; parameters are of the first with rawe. */
void info_find_ompi(struct info *info);

/* info_host.c */

/** Fill in system, user and privileges; needs the parameters. */
void info_look_at_host(struct info *info);
/** Find out what the component would do with each interface. Needs parameters and privileges. */
void info_look_at_interfaces(struct info *info);

/* info_text.c */

void info_show_text(const struct info *info);

#endif
