/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes, and what they publish about themselves:
 *
 *    0 | wire version 8 | count 8 | EtherType, or 0 for UDP 16 | 0 8 | capabilities 8 | 0 16 |
 *    8 | host 64 |
 *   16 | per module: MAC 6 bytes | port 16 | key 32 | MTU 32 | speed Mb/s 32 | longest message 32 |
 *      |             responder's key 32 | responder's port 16 | kind 16 |
 *      |             kind 2: IPv6 address 16 bytes |
 *
 * In network byte order. The loopback module's MAC is 0. See btl_rawe_proc.h.
 */
#include "btl_rawe_proc.h"

#include "opal/class/opal_hash_table.h"

#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"

#include "linux/udp/rawe_udp_address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct head {
    uint8_t wire_version;
    uint8_t count;
    uint16_t ethertype;
    uint8_t unused;       /**< 0 */
    uint8_t capabilities; /**< MCA_BTL_RAWE_CAPABILITY_* */
    uint8_t zero[2];
    uint64_t host;
};

struct published_interface {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps;
    uint32_t message_max_bytes; /**< longest message received, except by PUT */
    uint32_t ping_key;
    uint16_t ping_port;
    uint16_t kind; /**< 0: raw frames, 1: UDP over IPv4, 2: over IPv6; its address follows */
};

_Static_assert(sizeof(struct head) == 16 && sizeof(struct published_interface) == 32, "no padding");

/** The record of a process, in `records.table` and in a list of all records. */
struct record {
    opal_process_name_t name;
    struct record *next;
    struct mca_btl_base_endpoint_t *endpoints; /**< see mca_btl_rawe_proc_endpoints */
    void *data;                                /**< its published data; NULL: unknown */
    size_t len_bytes;
    uint32_t tried; /**< bit i: module i searched without success */
    bool asked;     /**< the runtime has yet to answer */
    bool waited;    /**< MPI's thread has waited for the answer, or got it */
    bool reported;  /**< the user was told why rawe does not use the process */
    bool died;
};

/** Limit on unanswered names: the runtime may remember each, and CONNECTs can be forged. */
#define UNKNOWN_MAX 65536u

/** Jobs, and processes per job, that the table holds before it grows. */
#define JOBS_EXPECTED 2u
#define PROCESSES_EXPECTED 64u

/** Hosts that the table of paths holds before it grows. */
#define HOSTS_EXPECTED 16u

/** Time limit if another BTL exists: PRRTE waits forever for data that is not published. */
#define ANSWER_MS 2000u

/** Guarded by `lock`; nothing is called while it is held. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool open;
    uint64_t life; /**< differs each time the component is opened */
    opal_proc_table_t table;
    struct record *first;
    unsigned unknown;        /**< records without data */
    atomic_uint died;        /**< records of processes that died */
    uint64_t host;           /**< this process's host */
    unsigned capabilities;   /**< that this process has published */
    opal_hash_table_t paths; /**< values noted for paths to hosts: see path_key */
} records = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

void mca_btl_rawe_proc_open(void)
{
    mca_btl_rawe_proc_close();
    OBJ_CONSTRUCT(&records.table, opal_proc_table_t);
    OBJ_CONSTRUCT(&records.paths, opal_hash_table_t);
    records.open =
        OPAL_SUCCESS == opal_proc_table_init(&records.table, JOBS_EXPECTED, PROCESSES_EXPECTED) &&
        OPAL_SUCCESS == opal_hash_table_init(&records.paths, HOSTS_EXPECTED);
}

void mca_btl_rawe_proc_close(void)
{
    mca_btl_rawe_compat_departures_end();
    pthread_mutex_lock(&records.lock);
    if (records.open) {
        OBJ_DESTRUCT(&records.table);
        OBJ_DESTRUCT(&records.paths);
    }
    while (NULL != records.first) {
        struct record *record = records.first;
        records.first = record->next;
        free(record->data);
        free(record);
    }
    records.unknown = 0;
    atomic_store(&records.died, 0);
    records.open = false;
    records.life++;
    pthread_mutex_unlock(&records.lock);
}

/** Return the record of a process, or NULL. Lock held. */
static struct record *record_find(opal_process_name_t name)
{
    void *found;

    return records.open && OPAL_SUCCESS == opal_proc_table_get_value(&records.table, name, &found)
               ? found
               : NULL;
}

/** Return the record of a process, creating it if needed; NULL when out of memory. Lock held. */
static struct record *record_get(opal_process_name_t name)
{
    struct record *record = record_find(name);

    if (NULL != record || !records.open) {
        return record;
    }
    record = calloc(1, sizeof(*record));
    if (NULL == record || OPAL_SUCCESS != opal_proc_table_set_value(&records.table, name, record)) {
        free(record);
        return NULL;
    }
    record->name = name;
    record->next = records.first;
    records.first = record;
    ++records.unknown;
    return record;
}

/** A request to the runtime. */
struct question {
    opal_process_name_t name;
    uint64_t life;
};

/** Record the runtime's answer. Called in a thread of the runtime, or inside the request. */
static void note_modex(void *context, const void *data, size_t len_bytes)
{
    struct question question = *(struct question *)context;
    void *copy = 0 != len_bytes ? malloc(len_bytes) : NULL;

    free(context);
    if (NULL != copy) {
        memcpy(copy, data, len_bytes);
    }
    pthread_mutex_lock(&records.lock);
    struct record *record = question.life == records.life ? record_find(question.name) : NULL;
    if (NULL != record) {
        record->asked = false;
        if (NULL == record->data && NULL != copy) {
            record->data = copy;
            record->len_bytes = len_bytes;
            copy = NULL;
            --records.unknown;
        }
        pthread_cond_broadcast(&records.answered);
    }
    pthread_mutex_unlock(&records.lock);
    free(copy);
}

/** Request the process's published data. Lock held, but released during the request. */
static void request_modex(struct record *record)
{
    struct question *question = malloc(sizeof(*question));
    uint64_t limit_ms =
        mca_btl_rawe_compat_alone() ? mca_btl_rawe_params_connect_timeout_ms() : ANSWER_MS;
    int status = OPAL_ERR_OUT_OF_RESOURCE;

    if (NULL != question) {
        *question = (struct question){.name = record->name, .life = records.life};
        record->asked = true;
        pthread_mutex_unlock(&records.lock);
        status = mca_btl_rawe_compat_modex_request(&mca_btl_rawe_state.component->btl_version,
                                                   &record->name, (int)((limit_ms + 999) / 1000),
                                                   note_modex, question);
        pthread_mutex_lock(&records.lock);
    }
    if (OPAL_SUCCESS != status) {
        record->asked = false;
        pthread_cond_broadcast(&records.answered); /* no answer will come: wake other threads */
        free(question);
    }
}

/** Return an address's bit in the sum that messages show: raw frames, UDP over IPv4, or IPv6. */
static unsigned carrier_of(const struct mca_btl_rawe_address *address)
{
    return 1u << address->udp;
}

/** Return the bits of all modules, except for lo if they are to reach another host. */
static unsigned own_carriers(bool other_host)
{
    unsigned carriers = 0;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        const struct mca_btl_rawe_address *address = &mca_btl_rawe_state.modules[i]->address;
        carriers |= other_host && mca_btl_rawe_is_loopback(address) ? 0 : carrier_of(address);
    }
    return carriers;
}

/** Return what `head.ethertype` has. UDP datagrams have no EtherType. */
static uint16_t own_ethertype(void)
{
    return 0 != (RAWE_PORT_KIND_PACKET & own_carriers(false))
               ? (uint16_t)mca_btl_rawe_params.ethertype
               : 0;
}

/** A parameter that must be equal on both sides, but is not. */
struct difference {
    const char *what; /**< NULL: none */
    unsigned ours, theirs;
};

/** Parse an entry of at most `left_bytes`. Returns its length; 0: it is incomplete. */
static size_t entry_parse(const char *data, size_t left_bytes, struct mca_btl_rawe_address *out,
                          uint32_t *message_max_bytes)
{
    struct published_interface interface;
    size_t len_bytes = sizeof(interface);

    if (left_bytes < len_bytes) {
        return 0;
    }
    memcpy(&interface, data, sizeof(interface));
    memcpy(out->mac, interface.mac, RAWE_MAC_BYTES);
    out->port = ntohs(interface.port);
    out->key = ntohl(interface.key);
    out->mtu_bytes = ntohl(interface.mtu_bytes);
    out->speed_mbps = ntohl(interface.speed_mbps);
    out->ping_key = ntohl(interface.ping_key);
    out->ping_port = ntohs(interface.ping_port);
    out->udp = (uint8_t)MIN(ntohs(interface.kind), MCA_BTL_RAWE_UDP_IPV6);
    *message_max_bytes = ntohl(interface.message_max_bytes);
    if (MCA_BTL_RAWE_UDP_IPV6 == out->udp) {
        len_bytes += RAWE_UDP_IPV6_BYTES;
        if (left_bytes < len_bytes) {
            return 0;
        }
        /* If too many addresses are known, no PING to this one is sent: it is unreachable. */
        (void)rawe_udp_ipv6_mac(out->mac, (const uint8_t *)data + sizeof(interface),
                                RAWE_UDP_GIVEN);
    }
    return len_bytes;
}

/** Parse the published bytes, which may be anything. */
static struct difference modex_parse(const char *data, size_t len_bytes,
                                     struct mca_btl_rawe_published *out)
{
    uint32_t message_max_bytes = (uint32_t)mca_btl_rawe_state.modules[0]->super.btl_max_send_size;
    struct head head = {.wire_version = 0};
    unsigned carriers = 0;

    /* Other versions share at most the first bytes. */
    memcpy(&head, data, len_bytes < sizeof(head) ? len_bytes : sizeof(head));
    struct difference difference = {.what = NULL};
    if (RAWE_WIRE_VERSION != head.wire_version) {
        difference = (struct difference){"wire version", RAWE_WIRE_VERSION, head.wire_version};
    } else if (0 != head.ethertype && 0 != own_ethertype() &&
               ntohs(head.ethertype) != own_ethertype()) {
        difference = (struct difference){"EtherType", own_ethertype(), ntohs(head.ethertype)};
    }
    out->host = be64toh(head.host);
    out->capabilities = head.capabilities;
    const bool other_host = out->host != records.host;
    size_t at = sizeof(head);
    for (unsigned i = 0; i < head.count && i < MCA_BTL_RAWE_MODULES_MAX &&
                         NULL == difference.what && at < len_bytes;
         ++i) {
        struct mca_btl_rawe_address *address = &out->addresses[i];
        uint32_t theirs_bytes;
        const size_t entry_bytes = entry_parse(data + at, len_bytes - at, address, &theirs_bytes);
        if (0 == entry_bytes) {
            break;
        }
        if (theirs_bytes != message_max_bytes) {
            /* Otherwise a process that accepts less would be sent messages that it cannot take. */
            difference =
                (struct difference){"btl_rawe_max_send_size, or btl_rawe_eager_limit above it",
                                    message_max_bytes, theirs_bytes};
            break;
        }
        address->index = (uint8_t)i;
        carriers |= other_host && mca_btl_rawe_is_loopback(address) ? 0 : carrier_of(address);
        out->count = i + 1;
        at += entry_bytes;
    }
    const unsigned ours = own_carriers(other_host);
    if (NULL == difference.what && 0 != carriers && 0 != ours && 0 == (carriers & ours)) {
        difference = (struct difference){
            "btl_rawe_kind or IP version (sum of 1: packet, 2: udp over IPv4, 4: udp over IPv6)",
            ours, carriers};
        out->count = 0;
    }
    return difference;
}

unsigned mca_btl_rawe_proc_find(opal_process_name_t name, struct mca_btl_rawe_published *out)
{
    out->count = 0;
    pthread_mutex_lock(&records.lock);
    struct record *record = records.unknown < UNKNOWN_MAX ? record_get(name) : record_find(name);
    if (NULL != record && NULL == record->data && !record->asked) {
        request_modex(record);
    }
    if (NULL != record && NULL != record->data) {
        (void)modex_parse(record->data, record->len_bytes, out);
    }
    pthread_mutex_unlock(&records.lock);
    return out->count;
}

/** Wait for the answer, and repeat a request that was too early. Lock held, except to wait. */
static void modex_await(struct record *record)
{
    for (unsigned questions = record->asked ? 2 : 1; NULL == record->data && 0 != questions;
         --questions) {
        if (!record->asked) {
            request_modex(record);
        }
        while (record->asked) {
            pthread_cond_wait(&records.answered, &records.lock);
        }
    }
    record->waited = true; /* only now, because a second thread may wait for the same answer */
}

/** Return the record of a process that has published something, or NULL. Lock held. */
static struct record *record_known(opal_process_name_t name, bool wait)
{
    struct record *record = record_get(name);

    if (NULL != record && NULL == record->data && !record->waited && wait) {
        modex_await(record);
    }
    return NULL != record && NULL != record->data ? record : NULL;
}

unsigned mca_btl_rawe_proc_wait(const opal_proc_t *proc, struct mca_btl_rawe_published *out)
{
    struct difference difference = {.what = NULL};
    bool unreported = false;

    out->count = 0;
    pthread_mutex_lock(&records.lock);
    struct record *record = record_known(proc->proc_name, true);
    if (NULL != record) {
        difference = modex_parse(record->data, record->len_bytes, out);
        unreported = NULL != difference.what && !record->reported;
        record->reported = record->reported || unreported;
    }
    pthread_mutex_unlock(&records.lock);
    if (unreported) {
        char ours[32], theirs[32];
        snprintf(ours, sizeof(ours), "%u (0x%X)", difference.ours, difference.ours);
        snprintf(theirs, sizeof(theirs), "%u (0x%X)", difference.theirs, difference.theirs);
        MCA_BTL_RAWE_HELP_IF_ASKED(peer_incompatible, mca_btl_rawe_peer_text(proc).text,
                                   mca_btl_rawe_compat_hostname(proc).text, difference.what, ours,
                                   theirs);
    }
    return out->count;
}

unsigned mca_btl_rawe_proc_capabilities(opal_process_name_t name, bool wait, uint64_t *host)
{
    struct mca_btl_rawe_published published = {.count = 0};

    if (0 == opal_compare_proc(name, OPAL_PROC_MY_NAME)) { /* certain, without the runtime */
        *host = records.host;
        return records.capabilities;
    }
    pthread_mutex_lock(&records.lock);
    const struct record *record = record_known(name, wait);
    bool usable =
        NULL != record && NULL == modex_parse(record->data, record->len_bytes, &published).what;
    pthread_mutex_unlock(&records.lock);
    *host = published.host;
    return usable && 0 != published.count ? published.capabilities : 0;
}

void mca_btl_rawe_proc_note_tried(opal_process_name_t name, unsigned module_index, bool reached)
{
    const uint32_t bit = 1u << module_index;

    pthread_mutex_lock(&records.lock);
    struct record *record = record_get(name);
    if (NULL != record) {
        record->tried = reached ? record->tried & ~bit : record->tried | bit;
    }
    pthread_mutex_unlock(&records.lock);
}

bool mca_btl_rawe_proc_given_up(opal_process_name_t name)
{
    pthread_mutex_lock(&records.lock);
    const struct record *record = record_find(name);
    /* In finalize, modules that reached it may have been closed already. */
    bool all = NULL != record && !mca_btl_rawe_state.finalizing &&
               record->tried == (1u << mca_btl_rawe_state.module_count) - 1;
    pthread_mutex_unlock(&records.lock);
    return all;
}

struct mca_btl_base_endpoint_t **mca_btl_rawe_proc_endpoints(opal_process_name_t name, bool make)
{
    pthread_mutex_lock(&records.lock);
    struct record *record = make ? record_get(name) : record_find(name);
    pthread_mutex_unlock(&records.lock);
    return NULL == record ? NULL : &record->endpoints;
}

/** FNV-1a: identities must differ, but need not be hard to forge. */
static uint64_t hash_bytes(uint64_t seed, const void *data, size_t len_bytes)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len_bytes; ++i) {
        seed = (seed ^ bytes[i]) * 0x100000001B3ull;
    }
    return seed;
}

/**
 * Identify the network namespace by the kernel's boot id and the namespace's inode. MAC addresses
 * are not unique: NICs of BMCs and containers have the same addresses on many hosts.
 */
static uint64_t find_host(void)
{
    uint64_t host = 0xCBF29CE484222325ull;
    char boot_id[64];
    struct stat namespace;
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len_bytes = file < 0 ? -1 : read(file, boot_id, sizeof(boot_id));

    if (file >= 0) {
        close(file);
    }
    if (len_bytes > 0 && 0 == stat("/proc/self/ns/net", &namespace)) {
        host = hash_bytes(host, boot_id, (size_t)len_bytes);
        return hash_bytes(host, &namespace.st_ino, sizeof(namespace.st_ino));
    }
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) { /* without /proc */
        host = hash_bytes(host, mca_btl_rawe_state.modules[i]->address.mac, RAWE_MAC_BYTES);
    }
    return host;
}

/** Write a module's entry. Returns its length. */
static size_t entry_write(uint8_t *out, const mca_btl_rawe_module_t *module)
{
    const struct mca_btl_rawe_address *address = &module->address;
    struct published_interface interface = {
        .port = htons(address->port),
        .key = htonl(address->key),
        .mtu_bytes = htonl(address->mtu_bytes),
        .speed_mbps = htonl(address->speed_mbps),
        .message_max_bytes = htonl((uint32_t)module->super.btl_max_send_size),
        .ping_key = htonl(address->ping_key),
        .ping_port = htons(address->ping_port),
        .kind = htons(address->udp),
    };

    memcpy(interface.mac, address->mac, RAWE_MAC_BYTES);
    memcpy(out, &interface, sizeof(interface));
    if (MCA_BTL_RAWE_UDP_IPV6 != address->udp) {
        return sizeof(interface);
    }
    const union rawe_udp_address own = rawe_udp_address_of(address->mac, 0);
    memcpy(out + sizeof(interface), &own.ipv6.sin6_addr, RAWE_UDP_IPV6_BYTES);
    return sizeof(interface) + RAWE_UDP_IPV6_BYTES;
}

int mca_btl_rawe_proc_publish(void)
{
    const unsigned count = mca_btl_rawe_state.module_count;
    struct head head = {
        .wire_version = RAWE_WIRE_VERSION,
        .count = (uint8_t)count,
        .ethertype = htons(own_ethertype()),
    };
    uint8_t modex[sizeof(head) + MCA_BTL_RAWE_MODULES_MAX *
                                     (sizeof(struct published_interface) + RAWE_UDP_IPV6_BYTES)];
    size_t len_bytes = sizeof(head);

    records.host = find_host();
    if (mca_btl_rawe_state.collectives && mca_btl_rawe_state.multicast_possible) {
        head.capabilities = MCA_BTL_RAWE_CAPABILITY_MULTICAST;
    }
    head.host = htobe64(records.host);
    memcpy(modex, &head, sizeof(head));
    for (unsigned i = 0; i < count; ++i) {
        len_bytes += entry_write(modex + len_bytes, mca_btl_rawe_state.modules[i]);
    }
    int status = mca_btl_rawe_compat_modex_send(&mca_btl_rawe_state.component->btl_version, modex,
                                                len_bytes);
    records.capabilities = OPAL_SUCCESS == status ? head.capabilities : 0;
    return status;
}

bool mca_btl_rawe_proc_is_local(const struct mca_btl_rawe_published *published)
{
    return 0 != published->count && published->host == records.host;
}

/** Stands for a path's MAC address in the entry that tells what is known of a host. */
static const uint8_t any_mac[RAWE_MAC_BYTES] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

/** Values of that entry: see btl_rawe_proc.h. */
enum { HOST_HEARD = 0, HOST_SILENT, HOST_BEYOND };

/** Return the key of a module's path to an interface of a host. The value is the MTU. */
static uint64_t path_key(uint64_t host, unsigned module_index, const uint8_t mac[RAWE_MAC_BYTES])
{
    uint64_t key = hash_bytes(hash_bytes(0, &host, sizeof(host)), mac, RAWE_MAC_BYTES);

    return hash_bytes(key, &module_index, sizeof(module_index));
}

/** Return the value noted for a path; 0: none. */
static uintptr_t path_value(uint64_t host, unsigned module_index, const uint8_t mac[RAWE_MAC_BYTES])
{
    void *value = NULL;

    pthread_mutex_lock(&records.lock);
    if (records.open) {
        (void)opal_hash_table_get_value_uint64(&records.paths, path_key(host, module_index, mac),
                                               &value);
    }
    pthread_mutex_unlock(&records.lock);
    return (uintptr_t)value;
}

/** Note a path's value. Without memory, the next process takes as long as the first. */
static void path_note(uint64_t host, unsigned module_index, const uint8_t mac[RAWE_MAC_BYTES],
                      uintptr_t value)
{
    if (value == path_value(host, module_index, mac)) {
        return;
    }
    pthread_mutex_lock(&records.lock);
    if (records.open) {
        (void)opal_hash_table_set_value_uint64(&records.paths, path_key(host, module_index, mac),
                                               (void *)value);
    }
    pthread_mutex_unlock(&records.lock);
}

bool mca_btl_rawe_proc_host_silent(uint64_t host, unsigned module_index)
{
    return HOST_SILENT == path_value(host, module_index, any_mac);
}

void mca_btl_rawe_proc_note_silent(uint64_t host, unsigned module_index)
{
    path_note(host, module_index, any_mac, HOST_SILENT);
}

bool mca_btl_rawe_proc_host_beyond(uint64_t host, unsigned module_index)
{
    return HOST_BEYOND == path_value(host, module_index, any_mac);
}

void mca_btl_rawe_proc_note_beyond(uint64_t host, unsigned module_index)
{
    path_note(host, module_index, any_mac, HOST_BEYOND);
}

void mca_btl_rawe_proc_note_heard(uint64_t host, unsigned module_index,
                                  const uint8_t mac[RAWE_MAC_BYTES], uint32_t mtu_bytes)
{
    path_note(host, module_index, any_mac, HOST_HEARD);
    path_note(host, module_index, mac, mtu_bytes);
}

uint32_t mca_btl_rawe_proc_heard_mtu(uint64_t host, unsigned module_index,
                                     const uint8_t mac[RAWE_MAC_BYTES])
{
    return (uint32_t)path_value(host, module_index, mac);
}

/** Record that a process died. Called in the runtime's thread. */
static void note_death(const opal_process_name_t *name)
{
    pthread_mutex_lock(&records.lock);
    struct record *record = record_get(*name);
    if (NULL != record && !record->died) { /* out of memory: rely on the silence timeout */
        record->died = true;
        atomic_fetch_add(&records.died, 1);
    }
    pthread_mutex_unlock(&records.lock);
}

void mca_btl_rawe_proc_listen(void)
{
    if (mca_btl_rawe_compat_fault_tolerant()) {
        mca_btl_rawe_compat_departures_begin(note_death);
    }
}

unsigned mca_btl_rawe_proc_deaths(void)
{
    return atomic_load_explicit(&records.died, memory_order_acquire);
}

bool mca_btl_rawe_proc_died(opal_process_name_t name)
{
    if (0 == mca_btl_rawe_proc_deaths()) {
        return false; /* the usual case: this is called often, so do not lock */
    }
    pthread_mutex_lock(&records.lock);
    const struct record *record = record_find(name);
    bool died = NULL != record && record->died;
    pthread_mutex_unlock(&records.lock);
    return died;
}
