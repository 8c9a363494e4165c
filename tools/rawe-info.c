/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: shows which interfaces the component would use on this host, for raw frames or UDP,
 * and why; what this user may do; which Open MPI has which component. Facts only; rawe-advise says
 * what to change. It frees no memory, because it exits once it has shown its findings.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <pwd.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linux/packet/rawe_packet.h"
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
    const char *kind;
    unsigned kinds; /**< kinds of port that may be used; 0: the value is unknown */
    const char *if_include;
    const char *if_exclude;
    const char *helper;
    uint16_t ethertype;
    uint8_t socket_priority;
    bool loopback;
    char refusal[INFO_REASON_BYTES]; /**< why the component rejects them, or empty */
};

/** An Open MPI, as described by its ompi_info; NULL: unknown. */
struct info_ompi {
    const char *program;
    const char *version;
    const char *component_version; /**< the Open MPI that its BTL rawe was built for */
    const char *wire_version;
    const char *pkglibdir;
    const char *component_path;        /**< component directories, the first wins */
    const char *files[INFO_FILES_MAX]; /**< each mca_btl_rawe.so found, in that order */
    unsigned file_count;
    struct info_params params;
};

/** The component's use for an interface. */
enum info_use { INFO_USE_NONE, INFO_USE_REMOTE, INFO_USE_LOCAL };

/** How a packet socket on an interface can be opened; NONE: not tried. */
enum info_socket { INFO_SOCKET_NONE, INFO_SOCKET_OWN, INFO_SOCKET_HELPER, INFO_SOCKET_REFUSED };

struct info_interface {
    struct rawe_interface interface;
    enum info_use use;
    const char *why; /**< why it is not used; NULL: it is */
    unsigned kinds;  /**< kinds of port that it would be used for */
    enum info_socket socket;
    char socket_why[INFO_REASON_BYTES]; /**< if refused */
    int tso, gso, gro;                  /**< 1: on, 0: off, -1: unknown */
};

struct info_privileges {
    bool cap_net_raw;        /**< effective */
    bool bounding_set;       /**< a file capability may grant CAP_NET_RAW */
    bool no_new_privs;       /**< nothing may be granted */
    int packet_socket_errno; /**< from opening one without the helper; 0: success */
    bool helper_found;
    bool helper_executable; /**< by this user */
};

struct info {
    struct utsname system;
    uid_t user;
    const char *user_name; /**< NULL: the user has none */
    struct info_params params;
    struct info_privileges privileges;
    struct info_interface *interfaces; /**< the ones that the component chooses come first */
    unsigned interface_count;
    struct info_ompi ompi[INFO_OMPI_MAX]; /**< in the order they were asked */
    unsigned ompi_count;
    bool incomplete;
};

/** Report missing information on standard error, and set `incomplete`. */
static void __attribute__((format(printf, 2, 3))) fail(struct info *info, const char *format, ...)
{
    va_list arguments;

    fputs("rawe-info: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    info->incomplete = true;
}

/** Copy a text; exits the program when out of memory. */
static char *copy_field(const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        fputs("rawe-info: there is no memory left\n", stderr);
        exit(INFO_INCOMPLETE);
    }
    return copy;
}

#define COMPONENT "mca_btl_rawe.so"
#define RAWE "mca:btl:rawe:param:btl_rawe_"

extern char **environ;

/** Called with each line, without its end; the memory is reused. */
typedef void take_line_fn(void *context, char *line);

/** Run a program found in PATH, and pass on each line of its output. Returns 0, or errno. */
static int run(char *const arguments[], take_line_fn *take, void *context)
{
    posix_spawn_file_actions_t actions;
    char *line = NULL;
    size_t room = 0;
    int ends[2], status = 0;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int code = posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = code == 0 ? fdopen(ends[0], "r") : NULL;
    while (output != NULL && getline(&line, &room, output) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        take(context, line);
    }
    free(line);
    if (output != NULL) {
        fclose(output);
    } else {
        close(ends[0]);
    }
    if (code != 0) {
        return code;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

/** Return the value after `key`; values with a colon are quoted. NULL: another line. */
static char *value_of(char *line, const char *key)
{
    const size_t key_len = strlen(key);

    if (strncmp(line, key, key_len) != 0) {
        return NULL;
    }
    char *value = line + key_len;
    const size_t len = strlen(value);
    if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
        value[len - 1] = '\0';
        value++;
    }
    return value;
}

static void take_ompi_line(void *context, char *line)
{
    struct info_ompi *ompi = context;
    const struct {
        const char *key;
        const char **out;
    } texts[] = {
        {"ompi:version:full:", &ompi->version},
        {"path:pkglibdir:", &ompi->pkglibdir},
        {"mca:mca:base:param:mca_base_component_path:value:", &ompi->component_path},
        {RAWE "wire_version:value:", &ompi->wire_version},
        {RAWE "kind:value:", &ompi->params.kind},
        {RAWE "if_include:value:", &ompi->params.if_include},
        {RAWE "if_exclude:value:", &ompi->params.if_exclude},
        {RAWE "helper:value:", &ompi->params.helper},
    };
    char *value;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if ((value = value_of(line, texts[i].key)) != NULL) {
            *texts[i].out = copy_field(value);
            return;
        }
    }
    if ((value = value_of(line, "mca:btl:rawe:version:")) != NULL) {
        if (strncmp(value, "component:", strlen("component:")) == 0) {
            ompi->component_version = copy_field(value + strlen("component:"));
        }
    } else if ((value = value_of(line, RAWE "ethertype:value:")) != NULL) {
        ompi->params.ethertype = (uint16_t)strtoul(value, NULL, 0);
    } else if ((value = value_of(line, RAWE "socket_priority:value:")) != NULL) {
        ompi->params.socket_priority = (uint8_t)strtoul(value, NULL, 0);
    } else if ((value = value_of(line, RAWE "loopback:value:")) != NULL) {
        ompi->params.loopback = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    }
}

/** Expand Open MPI's names for two directories. */
static char *expand(const struct info_ompi *ompi, const char *directory)
{
    const bool of_user = strcmp(directory, "USER_DEFAULT") == 0;
    const char *base = of_user                                    ? getenv("HOME")
                       : strcmp(directory, "SYSTEM_DEFAULT") == 0 ? ompi->pkglibdir
                                                                  : directory;
    char *path;

    return asprintf(&path, "%s%s/" COMPONENT, base != NULL ? base : "",
                    of_user ? "/.openmpi/components" : "") < 0
               ? NULL
               : path;
}

static void find_files(struct info_ompi *ompi)
{
    char *rest = NULL;
    char *directories = copy_field(ompi->component_path != NULL ? ompi->component_path
                                   : ompi->pkglibdir != NULL    ? ompi->pkglibdir
                                                                : "");

    for (char *directory = strtok_r(directories, ":", &rest); directory != NULL;
         directory = strtok_r(NULL, ":", &rest)) {
        char *path = expand(ompi, directory);
        if (path != NULL && access(path, F_OK) == 0 && ompi->file_count < INFO_FILES_MAX) {
            ompi->files[ompi->file_count++] = path;
        } else {
            free(path);
        }
    }
    free(directories);
}

/** Query an ompi_info, unless it was queried under another name. */
static void ask_ompi_info(struct info *info, const char *program)
{
    char *const arguments[] = {(char *)program, "--parsable", "--all", "--level", "9", NULL};
    char *real = realpath(program, NULL);

    for (unsigned i = 0; i < info->ompi_count && real != NULL; i++) {
        char *other = realpath(info->ompi[i].program, NULL);
        const bool same = other != NULL && strcmp(real, other) == 0;
        free(other);
        if (same) {
            free(real);
            return;
        }
    }
    free(real);
    if (info->ompi_count == INFO_OMPI_MAX) {
        return;
    }
    struct info_ompi *ompi = &info->ompi[info->ompi_count++];
    ompi->program = copy_field(program);
    const int code = run(arguments, take_ompi_line, ompi);
    if (code != 0) {
        fail(info, "%s --parsable --all: %s", program, code == EIO ? "it failed" : strerror(code));
    }
    find_files(ompi);
}

static void ask_in_path(struct info *info)
{
    const char *path = getenv("PATH");
    char *directories = copy_field(path != NULL ? path : "");
    char *rest = NULL;

    for (char *directory = strtok_r(directories, ":", &rest); directory != NULL;
         directory = strtok_r(NULL, ":", &rest)) {
        char program[PATH_MAX];
        snprintf(program, sizeof program, "%s/ompi_info", directory);
        if (access(program, X_OK) == 0) {
            ask_ompi_info(info, program);
        }
    }
    free(directories);
}

static void take_prefix(void *context, char *line)
{
    snprintf(context, PATH_MAX, "%s/bin/ompi_info", line);
}

static void ask_pkg_config(struct info *info)
{
    char *const arguments[] = {"pkg-config", "--variable=prefix", "ompi", NULL};
    char program[PATH_MAX] = "";

    if (run(arguments, take_prefix, program) == 0 && access(program, X_OK) == 0) {
        ask_ompi_info(info, program);
    }
}

/**
 * Find each Open MPI in $OMPI_INFO, PATH and pkg-config. Its ompi_info loads the component and shows
 * its parameters as a job started here would have them: from environment, files and defaults. The
 * parameters are those of the first one that has rawe.
 */
static void find_ompi(struct info *info)
{
    const char *named = getenv("OMPI_INFO");

    if (named != NULL && *named != '\0') {
        ask_ompi_info(info, named);
    }
    ask_in_path(info);
    ask_pkg_config(info);

    const struct info_params defaults = {
        .kind = "auto",
        .if_include = "",
        .if_exclude = "",
        .helper = RAWE_HELPER_PROGRAM,
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .loopback = true,
    };
    info->params = defaults;
    for (unsigned i = 0; i < info->ompi_count; i++) {
        const struct info_ompi *ompi = &info->ompi[i];
        if (ompi->params.kind != NULL && ompi->params.if_include != NULL &&
            ompi->params.if_exclude != NULL && ompi->params.helper != NULL) {
            info->params = ompi->params;
            info->params.source = ompi->program;
            break;
        }
    }
    if (*info->params.kind == '\0') {
        info->params.kind = defaults.kind;
    }
    info->params.kinds = rawe_port_kinds(info->params.kind);
}

/** Enough for a ring on any interface; released at once. */
#define RING_BYTES (1u << 20)

static bool has_net_raw(struct info *info)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, data) != 0) {
        fail(info, "capget: %s", strerror(errno));
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

/** Fill in system, user and privileges; needs the parameters. */
static void look_at_host(struct info *info)
{
    struct info_privileges *privileges = &info->privileges;
    /* The program has one thread. */
    // cppcheck-suppress getpwuidCalled
    const struct passwd *entry = getpwuid(geteuid());

    if (uname(&info->system) != 0) {
        fail(info, "uname: %s", strerror(errno));
    }
    info->user = geteuid();
    info->user_name = entry != NULL ? copy_field(entry->pw_name) : NULL;
    privileges->cap_net_raw = has_net_raw(info);
    privileges->bounding_set = prctl(PR_CAPBSET_READ, CAP_NET_RAW, 0, 0, 0) == 1;
    privileges->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    privileges->packet_socket_errno = try_packet_socket();
    privileges->helper_found =
        *info->params.helper != '\0' && access(info->params.helper, F_OK) == 0;
    privileges->helper_executable =
        privileges->helper_found && access(info->params.helper, X_OK) == 0;
}

/** Open a link's packet socket like the component, and close it. */
static void try_packet(const struct info *info, struct info_interface *one)
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
    one->kinds |= RAWE_PORT_KIND_PACKET;
}

/** Find out for which kinds of port the component would use an interface. */
static void try_kinds(const struct info *info, struct info_interface *one)
{
    struct rawe_interface_address address;

    if ((info->params.kinds & RAWE_PORT_KIND_PACKET) != 0 && one->interface.ethernet) {
        try_packet(info, one);
    }
    if ((info->params.kinds & RAWE_PORT_KIND_UDP) != 0 &&
        (one->interface.loopback || rawe_interface_ip(&one->interface, &address))) {
        one->kinds |= RAWE_PORT_KIND_UDP;
    }
}

/** Find out what keeps the component from using any interface. */
static void check_params(struct info_params *params, const char *unknown)
{
    const bool including = *params->if_include != '\0';

    if (including && *params->if_exclude != '\0') {
        snprintf(params->refusal, sizeof params->refusal,
                 "btl_rawe_if_include and btl_rawe_if_exclude are both set");
    } else if (params->kinds == 0) {
        snprintf(params->refusal, sizeof params->refusal,
                 "btl_rawe_kind is %s; it may be packet, udp, auto", params->kind);
    } else if (*unknown != '\0') {
        snprintf(params->refusal, sizeof params->refusal,
                 "btl_rawe_if_%s: no interface of this host matches %s",
                 including ? "include" : "exclude", unknown);
    }
}

/** Return why the component would not reach other hosts through an interface; NULL: it would. */
static const char *refusal_of(const struct info *info, const struct rawe_interface *interface)
{
    const bool named = interface->chosen && interface->up && !interface->ethernet;

    if (*info->params.refusal != '\0') {
        return "the parameters are refused";
    }
    /* UDP uses named interfaces of any type; see open_chosen in the component's source. */
    return named && (info->params.kinds & RAWE_PORT_KIND_UDP) != 0
               ? NULL
               : rawe_interface_refusal(interface);
}

#define NO_IP "it has no IPv4 or global IPv6 address for UDP"

/** Decide about lo, for ranks on this host: after the others, if there are any. */
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

/** Decide on each interface, in the component's order; see open_modules in its source. */
static void decide_interfaces(struct info *info)
{
    bool others = false;

    for (unsigned i = 0; i < info->interface_count; i++) {
        struct info_interface *one = &info->interfaces[i];
        one->why = refusal_of(info, &one->interface);
        if (one->why == NULL) {
            one->use = INFO_USE_REMOTE;
            try_kinds(info, one);
            others = others || one->kinds != 0;
        }
    }
    for (unsigned i = 0; i < info->interface_count && *info->params.refusal == '\0'; i++) {
        struct info_interface *one = &info->interfaces[i];
        if (one->interface.loopback) {
            decide_on_loopback(info, one, others);
            if (one->use == INFO_USE_LOCAL) {
                try_kinds(info, one);
            }
        }
    }
    for (unsigned i = 0; i < info->interface_count; i++) {
        struct info_interface *one = &info->interfaces[i];
        if (one->use != INFO_USE_NONE && one->kinds == 0) {
            one->use = INFO_USE_NONE;
            one->why = info->params.kinds == RAWE_PORT_KIND_PACKET ? "no socket can be opened"
                       : info->params.kinds == RAWE_PORT_KIND_UDP  ? NO_IP
                                                                   : NO_IP
                           ", and no socket for raw frames can be opened";
        }
    }
}

/**
 * Find out what the component would do with each interface; needs parameters and privileges. Its own
 * code (rawe_interface, rawe_packet) decides which are used, and whether a socket can be opened.
 */
static void look_at_interfaces(struct info *info)
{
    struct rawe_interface *list;
    unsigned count;
    char unknown[128];

    if (rawe_interface_list(&list, &count) != 0) {
        fail(info, "cannot list the network interfaces: %s", strerror(errno));
        return;
    }
    (void)rawe_interface_select(list, count, info->params.if_include, info->params.if_exclude,
                                unknown, sizeof unknown);
    check_params(&info->params, unknown);
    info->interfaces = calloc(count + 1, sizeof info->interfaces[0]);
    if (info->interfaces == NULL) {
        fail(info, "there is no memory left");
        free(list);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        struct info_interface *one = &info->interfaces[i];
        one->interface = list[i];
        /* This is the component's own function, which does not distinguish "unknown". */
        one->tso = rawe_interface_cuts_batches(list[i].name);
        one->gso = rawe_interface_offload(list[i].name, ETHTOOL_GGSO);
        one->gro = rawe_interface_offload(list[i].name, ETHTOOL_GGRO);
    }
    info->interface_count = count;
    free(list);
    decide_interfaces(info);
}

static const char *yes(bool value)
{
    return value ? "yes" : "no";
}

static const char *offload(int state)
{
    return state < 0 ? "unknown" : state != 0 ? "on" : "off";
}

static void show_params(const struct info_params *params)
{
    if (params->source == NULL) {
        puts("  no ompi_info shows the component's parameters: these are defaults");
    } else {
        printf("  as %s shows them\n", params->source);
    }
    printf("  kind %s, if_include %s, if_exclude %s, loopback %s, EtherType 0x%04X, "
           "socket priority %u\n",
           params->kind, *params->if_include != '\0' ? params->if_include : "(empty)",
           *params->if_exclude != '\0' ? params->if_exclude : "(empty)",
           params->loopback ? "on" : "off", params->ethertype, params->socket_priority);
    if (*params->refusal != '\0') {
        printf("  refused: %s\n", params->refusal);
    }
}

/** Print how an interface is used, or why not; `wanted` are the kinds of port that may be used. */
static void show_use(const struct info_interface *one, unsigned wanted)
{
    if (one->use == INFO_USE_NONE) {
        printf("not used: %s%s%s\n", one->why, *one->socket_why != '\0' ? ": " : "",
               one->socket_why);
        return;
    }
    printf("used %sfor %s%s%s", one->use == INFO_USE_LOCAL ? "between ranks of this host " : "",
           one->kinds == RAWE_PORT_KIND_UDP ? "UDP" : "raw frames",
           one->kinds == RAWE_PORT_KIND_BOTH ? ", and UDP to peers that these do not reach" : "",
           one->socket == INFO_SOCKET_HELPER ? "; socket by rawe-socket-helper" : "");
    if ((wanted & ~one->kinds) == RAWE_PORT_KIND_PACKET) {
        printf("; no raw frames: %s", one->interface.ethernet ? one->socket_why : "not Ethernet");
    } else if ((wanted & ~one->kinds) == RAWE_PORT_KIND_UDP) {
        printf("; no UDP: " NO_IP);
    }
    putchar('\n');
}

static void show_interface(const struct info_interface *one, unsigned wanted)
{
    const struct rawe_interface *interface = &one->interface;
    char speed[24] = "speed unknown";

    printf("  %-15s ", interface->name);
    show_use(one, wanted);
    if (interface->speed_mbps != 0) {
        snprintf(speed, sizeof speed, "%" PRIu32 " Mb/s", interface->speed_mbps);
    }
    printf("  %15s %s, MTU %" PRIu32 ", %s, TSO %s, GSO %s, GRO %s, %s\n", "",
           !interface->enabled   ? "down"
           : !interface->carrier ? "no carrier"
                                 : "up",
           interface->mtu_bytes, speed, offload(one->tso), offload(one->gso), offload(one->gro),
           rawe_mac_text(interface->mac).text);
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

/** Print the findings, about a screenful. */
static void show(const struct info *info)
{
    printf("%s: Linux %s, user %s (%lu), rawe-info %s with wire version %u\n",
           info->system.nodename, info->system.release,
           info->user_name != NULL ? info->user_name : "without a name", (unsigned long)info->user,
           PACKAGE_VERSION, RAWE_WIRE_VERSION);
    puts("\nParameters");
    show_params(&info->params);
    puts("\nInterfaces");
    for (unsigned i = 0; i < info->interface_count; i++) {
        show_interface(&info->interfaces[i], info->params.kinds);
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

static void print_info_usage(FILE *out)
{
    fputs("Usage: rawe-info\n"
          "Shows what rawe finds on this host: for each interface whether the component would use\n"
          "it, for raw frames or UDP, or why not; what this user may do; which Open MPI has which\n"
          "component.\n"
          "\n"
          "  -V, --version  release and wire version of rawe-info\n"
          "  -h, --help     this text\n"
          "\n"
          "Run it in a job, as the user of the job. Parameters of rawe apply as they do there:\n"
          "OMPI_MCA_btl_rawe_if_include=eth1 rawe-info. Exit status: 0 success;\n"
          "1 something could not be found out; 2 wrong usage.\n",
          out);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    static struct info info;
    int option;

    while ((option = getopt_long(argc, argv, "Vh", names, NULL)) != -1) {
        switch (option) {
        case 'V':
            printf("rawe-info %s, wire version %u\n", PACKAGE_VERSION, RAWE_WIRE_VERSION);
            return INFO_GOOD;
        case 'h':
            print_info_usage(stdout);
            return INFO_GOOD;
        default:
            print_info_usage(stderr);
            return INFO_CANNOT;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "rawe-info: %s: it takes no arguments, and looks at all interfaces\n",
                argv[optind]);
        print_info_usage(stderr);
        return INFO_CANNOT;
    }
    find_ompi(&info);
    look_at_host(&info);
    look_at_interfaces(&info);
    show(&info);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fail(&info, "standard output cannot be written");
    }
    return info.incomplete ? INFO_INCOMPLETE : INFO_GOOD;
}
