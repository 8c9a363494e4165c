/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The modex: what each process publishes of itself at start.
 *
 *   0 | wire version 8 | count 8 | EtherType 16 | checksums 8 | 0 24 |
 *   8 | per module: MAC 6 bytes | port 16 | key 32 | MTU 32 | speed Mb/s 32 | longest message 32 |
 *     |             responder's key 32 | responder's port 16 | 0 16 |
 *
 * Network byte order. The loopback module has the MAC 0.
 */
#include "btl_rawe_modex.h"

#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct head {
    uint8_t wire_version;
    uint8_t count;
    uint16_t ethertype;
    uint8_t checksums; /**< 1: frames carry one, and must */
    uint8_t zero[3];
};

struct entry {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps;
    uint32_t message_max_bytes; /**< what is received at most, PUT aside */
    uint32_t ping_key;
    uint16_t ping_port;
    uint16_t zero;
};

_Static_assert(sizeof(struct head) == 8 && sizeof(struct entry) == 32, "no padding");

int mca_btl_rawe_modex_send(void)
{
    struct {
        struct head head;
        struct entry entries[MCA_BTL_RAWE_MODULES_MAX];
    } modex;
    unsigned count = mca_btl_rawe_state.module_count;

    memset(&modex, 0, sizeof(modex));
    modex.head.wire_version = RAWE_WIRE_VERSION;
    modex.head.count = (uint8_t)count;
    modex.head.ethertype = htons((uint16_t)mca_btl_rawe_params.ethertype);
    modex.head.checksums = mca_btl_rawe_params.checksum ? 1 : 0;
    for (unsigned i = 0; i < count; ++i) {
        const mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        const struct mca_btl_rawe_address *address = &module->address;
        struct entry *entry = &modex.entries[i];
        memcpy(entry->mac, address->mac, RAWE_MAC_BYTES);
        entry->port = htons(address->port);
        entry->key = htonl(address->key);
        entry->mtu_bytes = htonl(address->mtu_bytes);
        entry->speed_mbps = htonl(address->speed_mbps);
        entry->message_max_bytes = htonl((uint32_t)module->super.btl_max_send_size);
        entry->ping_key = htonl(address->ping_key);
        entry->ping_port = htons(address->ping_port);
    }
    return mca_btl_rawe_compat_modex_send(&mca_btl_rawe_state.component->btl_version, &modex,
                                          sizeof(modex.head) + count * sizeof(struct entry));
}

static void incompatible(const opal_proc_t *proc, const char *what, unsigned ours, unsigned theirs)
{
    char peer[32], ours_text[32], theirs_text[32];

    if (NULL == proc) {
        return;
    }
    snprintf(peer, sizeof(peer), "rank %u", (unsigned)proc->proc_name.vpid);
    snprintf(ours_text, sizeof(ours_text), "%u (0x%X)", ours, ours);
    snprintf(theirs_text, sizeof(theirs_text), "%u (0x%X)", theirs, theirs);
    mca_btl_rawe_help_peer_incompatible(peer, mca_btl_rawe_compat_hostname(proc).text, what,
                                        ours_text, theirs_text);
}

unsigned mca_btl_rawe_modex_parse(const opal_proc_t *proc, const void *data, size_t len_bytes,
                                  struct mca_btl_rawe_address *addresses)
{
    struct head head;
    unsigned count = 0;

    if (len_bytes < sizeof(head)) {
        return 0;
    }
    memcpy(&head, data, sizeof(head));
    if (RAWE_WIRE_VERSION != head.wire_version) {
        incompatible(proc, "wire version", RAWE_WIRE_VERSION, head.wire_version);
    } else if (ntohs(head.ethertype) != mca_btl_rawe_params.ethertype) {
        incompatible(proc, "EtherType", (unsigned)mca_btl_rawe_params.ethertype,
                     ntohs(head.ethertype));
    } else if ((0 != head.checksums) != mca_btl_rawe_params.checksum) {
        incompatible(proc, "btl_rawe_checksum", mca_btl_rawe_params.checksum, head.checksums);
    } else {
        for (unsigned i = 0; i < head.count && i < MCA_BTL_RAWE_MODULES_MAX &&
                             sizeof(head) + (i + 1) * sizeof(struct entry) <= len_bytes;
             ++i) {
            struct entry entry;
            memcpy(&entry, (const char *)data + sizeof(head) + i * sizeof(entry), sizeof(entry));
            uint32_t message_max_bytes =
                (uint32_t)mca_btl_rawe_state.modules[0]->super.btl_max_send_size;
            if (ntohl(entry.message_max_bytes) != message_max_bytes) {
                /* A process that takes less would be sent what it cannot take. */
                incompatible(proc, "btl_rawe_max_send_size, or btl_rawe_eager_limit above it",
                             message_max_bytes, ntohl(entry.message_max_bytes));
                break;
            }
            memcpy(addresses[i].mac, entry.mac, RAWE_MAC_BYTES);
            addresses[i].port = ntohs(entry.port);
            addresses[i].key = ntohl(entry.key);
            addresses[i].mtu_bytes = ntohl(entry.mtu_bytes);
            addresses[i].speed_mbps = ntohl(entry.speed_mbps);
            addresses[i].ping_key = ntohl(entry.ping_key);
            addresses[i].ping_port = ntohs(entry.ping_port);
            addresses[i].index = (uint8_t)i;
            ++count;
        }
    }
    return count;
}

/**
 * Before MPI_Init lets a process go on, all have published: what is not there after that time will
 * not come.
 */
#define WAIT_S 2

/**
 * Processes that have published nothing for us: nobody is waited for twice. Several threads may
 * introduce processes at the same time.
 */
static struct {
    pthread_mutex_t lock;
    opal_process_name_t *names;
    size_t count;
} without = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool known_without(const opal_process_name_t *name)
{
    bool known = false;

    pthread_mutex_lock(&without.lock);
    for (size_t i = 0; i < without.count && !known; ++i) {
        known = without.names[i].jobid == name->jobid && without.names[i].vpid == name->vpid;
    }
    pthread_mutex_unlock(&without.lock);
    return known;
}

static void remember_without(const opal_process_name_t *name)
{
    pthread_mutex_lock(&without.lock);
    opal_process_name_t *more =
        realloc(without.names, (without.count + 1) * sizeof(*without.names));
    if (NULL != more) {
        more[without.count++] = *name;
        without.names = more;
    }
    pthread_mutex_unlock(&without.lock);
}

unsigned mca_btl_rawe_modex_receive(const opal_proc_t *proc, struct mca_btl_rawe_address *addresses)
{
    void *data;
    size_t len_bytes;

    if (known_without(&proc->proc_name)) {
        return 0;
    }
    int status = mca_btl_rawe_compat_modex_receive(&mca_btl_rawe_state.component->btl_version,
                                                   &proc->proc_name, WAIT_S, &data, &len_bytes);
    if (OPAL_ERR_TIMEOUT == status) {
        remember_without(&proc->proc_name);
    }
    if (OPAL_SUCCESS != status) {
        return 0;
    }
    unsigned count = mca_btl_rawe_modex_parse(proc, data, len_bytes, addresses);
    free(data);
    return count;
}

void mca_btl_rawe_modex_forget(void)
{
    free(without.names);
    without.names = NULL;
    without.count = 0;
}
