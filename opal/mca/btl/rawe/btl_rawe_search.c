/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_search.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/** An interface of a process, and one of ours that may reach it. */
struct candidate {
    size_t proc_index;
    const mca_btl_rawe_module_t *module;
    uint64_t host;
    struct mca_btl_rawe_address address;
};

/** A search for paths from a module to processes. The paths to a process are adjacent. */
struct search {
    mca_btl_rawe_module_t *module;
    opal_proc_t **procs;
    struct mca_btl_base_endpoint_t **endpoints; /**< the processes' endpoints; NULL: not reached */
    unsigned listed;                            /**< length of each of the following arrays */
    struct candidate *candidates;
    struct rawe_path *paths;
    struct rawe_path_target *targets;
    bool first_contact; /**< the program sends; MPI_Init passes `reachable`, and reports the rest */
    uint64_t silence_ms; /**< how long a process may leave all PINGs unanswered */
    uint64_t timeout_ms; /**< how long all of it may take */
};

/**
 * Return true if both hosts have one of the path's MAC addresses. Then the path is probably not on
 * a shared network: NICs of BMCs and containers have the same addresses on many hosts.
 */
static bool has_common_mac(const mca_btl_rawe_module_t *module,
                           const struct mca_btl_rawe_address *address,
                           const struct mca_btl_rawe_published *published)
{
    bool found = false;

    for (unsigned i = 0; i < published->count && !found; ++i) {
        found = 0 == memcmp(published->addresses[i].mac, module->address.mac, RAWE_MAC_BYTES);
    }
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count && !found; ++i) {
        const mca_btl_rawe_module_t *ours = mca_btl_rawe_state.modules[i];
        found = 0 == memcmp(ours->address.mac, address->mac, RAWE_MAC_BYTES);
    }
    return found && !module->interface.loopback;
}

/** List a process's interfaces that a module may reach, most likely first. */
static void list_candidates(struct search *search, const mca_btl_rawe_module_t *module,
                            size_t proc_index, const struct mca_btl_rawe_published *published)
{
    bool local = mca_btl_rawe_proc_is_local(published);

    for (unsigned i = 0; i < published->count; ++i) {
        /* Interfaces with the same index are probably on the same segment. */
        const struct mca_btl_rawe_address *address =
            &published->addresses[(i + module->address.index) % published->count];
        if (local == module->interface.loopback && mca_btl_rawe_is_loopback(address) == local &&
            address->udp == module->address.udp) {
            search->targets[search->listed] = (struct rawe_path_target){
                .to = mca_btl_rawe_ping_address(address),
                .through = module->responder,
            };
            search->candidates[search->listed++] = (struct candidate){
                .proc_index = proc_index,
                .module = module,
                .host = published->host,
                .address = *address,
            };
        }
    }
}

static void report_mtu(const mca_btl_rawe_module_t *module, const opal_proc_t *proc,
                       const struct mca_btl_rawe_address *address, const struct rawe_path *path)
{
    struct mca_btl_rawe_compat_hostname host = mca_btl_rawe_compat_hostname(proc);

    if (address->mtu_bytes != module->address.mtu_bytes) {
        MCA_BTL_RAWE_HELP_IF_ASKED(mtu_mismatch, module->interface.name,
                                   module->address.mtu_bytes + path->overhead_bytes, host.text,
                                   address->mtu_bytes + path->overhead_bytes);
    }
    if (path->mtu_passed_bytes < path->mtu_bytes) {
        MCA_BTL_RAWE_HELP_IF_ASKED(full_size_lost, module->interface.name, host.text,
                                   mca_btl_rawe_address_text(address).text,
                                   path->mtu_bytes + path->overhead_bytes,
                                   path->mtu_passed_bytes + path->overhead_bytes);
    }
}

/**
 * End the job if no module reaches a process that the program sends to, and no other BTL is left:
 * Open MPI would keep an endpoint without BTLs (bml_r2.c, mca_bml_r2_add_proc), and ob1 would
 * follow a null pointer at the first message. Name no process, or a fault-tolerant job would go on.
 */
static void end_job_if_unreachable(mca_btl_rawe_module_t *module, const opal_proc_t *proc)
{
    char text[400];

    if (mca_btl_rawe_proc_given_up(proc->proc_name) && mca_btl_rawe_compat_alone()) {
        snprintf(text, sizeof(text), "rawe cannot reach %s on %s, and no other BTL is in use",
                 mca_btl_rawe_peer_text(proc).text, mca_btl_rawe_compat_hostname(proc).text);
        mca_btl_rawe_end_job(&module->super, text);
    }
}

/**
 * After this many failures without a success, an interface gets little time to search for processes
 * that others reach: it may be on a separate network, such as a bridge for containers.
 */
#define DEPRIORITIZE_FAILURES 4u

/** List the module's paths and, if the process is unknown, others' paths as indirect checks. */
static void list_paths(struct search *search, size_t proc_index,
                       const struct mca_btl_rawe_published *published)
{
    const mca_btl_rawe_module_t *module = search->module;
    const opal_process_name_t name = search->procs[proc_index]->proc_name;
    bool elsewhere = mca_btl_rawe_endpoint_elsewhere(module, name);
    const unsigned first = search->listed;

    /* Peers that raw frames reach need no UDP. Modules for raw frames search first, and send PINGs
       over UDP only if nothing answers. */
    if (module->address.udp && mca_btl_rawe_endpoint_is_raw(name)) {
        return;
    }
    list_candidates(search, module, proc_index, published);
    const bool others = first != search->listed && !elsewhere;
    /* For a host's first process, raw frames get 100 ms alone, and 500 ms after UDP's answer. */
    const bool beyond = mca_btl_rawe_proc_host_beyond(published->host, module->address.index);
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count && others; ++i) {
        const mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        if (other != module && other->interface.loopback == module->interface.loopback) {
            list_candidates(search, other, proc_index, published);
        }
    }
    for (unsigned i = first; i < search->listed; ++i) {
        const struct candidate *candidate = &search->candidates[i];
        search->paths[i] = (struct rawe_path){
            .mtu_bytes = MIN(candidate->address.mtu_bytes, module->address.mtu_bytes),
            .same_process = first != i,
            .process_known = elsewhere,
            .deprioritized = beyond ||
                             (!module->reached_any && module->failures >= DEPRIORITIZE_FAILURES) ||
                             has_common_mac(module, &candidate->address, published),
            .indirect = candidate->module != module,
            .fallback = candidate->address.udp && !module->address.udp && !beyond,
            .mtu_certain = module->interface.loopback,
        };
    }
}

/** Return a path's MTU as measured with any process on the host; 0: never heard. */
static uint32_t heard_mtu_bytes(const struct candidate *candidate)
{
    const mca_btl_rawe_module_t *module = candidate->module;

    return module->interface.loopback
               ? MIN(candidate->address.mtu_bytes, module->address.mtu_bytes)
               : mca_btl_rawe_proc_heard_mtu(candidate->host, module->address.index,
                                             candidate->address.mac);
}

/** Return the index after the last path to the process of path `first`. */
static unsigned process_end(const struct search *search, unsigned first)
{
    unsigned end = first;

    while (end < search->listed &&
           search->candidates[end].proc_index == search->candidates[first].proc_index) {
        ++end;
    }
    return end;
}

/** A host that answers nothing for this long is left to another BTL, unless the user says more. */
#define SILENCE_MS 1000u

/** A process that is stopped, or cut off for a while, has this long at first contact, at most. */
#define FIRST_CONTACT_S 30u

/**
 * Set the limits of a search. A job that needs rawe must not end at once: the process is more
 * likely stopped, or cut off for a while, than unreachable. So is one behind an interface that has
 * reached others; if it were left to another BTL and then connected over rawe, the job would end.
 * But a network that never passes our frames is found at a job's start, and must be reported soon.
 */
static void set_limits(struct search *search)
{
    const struct mca_btl_rawe_params *params = &mca_btl_rawe_params;
    const bool alone = mca_btl_rawe_compat_alone();
    const bool patient = search->first_contact && (alone || search->module->reached_any);
    const bool brief = !alone && !patient && 0 == params->connect_timeout_ms;

    const uint64_t patience_ms =
        1000 *
        (0 == params->peer_timeout ? FIRST_CONTACT_S : MIN(params->peer_timeout, FIRST_CONTACT_S));

    search->timeout_ms = MAX(patient ? patience_ms : 0, mca_btl_rawe_params_connect_timeout_ms());
    search->silence_ms = brief ? SILENCE_MS : search->timeout_ms;
}

/** Return true if a process on the host of these paths' process was heard over one of them. */
static bool is_heard(const struct search *search, unsigned first, unsigned end)
{
    bool heard = false;

    for (unsigned i = first; i < end && !heard; ++i) {
        const struct candidate *candidate = &search->candidates[i];
        heard = candidate->module == search->module && 0 != heard_mtu_bytes(candidate);
    }
    return heard;
}

/** Return how long a process may be silent: briefly if its host is known to be silent, or heard. */
static uint64_t silence_ms(const struct search *search, unsigned first, unsigned end)
{
    const unsigned index = search->module->address.index;
    bool brief = mca_btl_rawe_proc_host_silent(search->candidates[first].host, index) ||
                 is_heard(search, first, end);

    return brief ? MIN(MCA_BTL_RAWE_BRIEF_MS, search->silence_ms) : search->silence_ms;
}

/** Return true if a process was found, or refused us, over these paths or by another module. */
static bool is_present(const struct search *search, unsigned first, unsigned end)
{
    bool present = search->paths[first].refused;

    for (unsigned i = first; i < end && !present; ++i) {
        present = search->paths[i].reachable || search->paths[i].process_known;
    }
    return present;
}

/**
 * Use a process's paths although it did not answer, with the MTU measured with other processes on
 * its host: it is late, stopped or cut off for a while, and gets the peer timeout like any peer.
 */
static void trust_heard(struct search *search, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; ++i) {
        if (search->candidates[i].module == search->module) {
            search->paths[i].mtu_passed_bytes = heard_mtu_bytes(&search->candidates[i]);
            search->paths[i].reachable = 0 != search->paths[i].mtu_passed_bytes;
        }
    }
}

/** Return true if a search by raw frames found a process over UDP only. */
static bool is_beyond(const struct search *search, unsigned first, unsigned end)
{
    bool udp = false, raw = search->module->address.udp;

    for (unsigned i = first; i < end; ++i) {
        const bool over_udp = search->candidates[i].address.udp;
        udp = udp || (search->paths[i].reachable && over_udp);
        raw = raw || (search->paths[i].reachable && !over_udp);
    }
    return udp && !raw;
}

/** Note which hosts answered. If only another module reached a host, the search was cut short. */
static void note_host(const struct search *search, unsigned first, unsigned end)
{
    bool present = is_present(search, first, end);

    if (is_beyond(search, first, end)) {
        mca_btl_rawe_proc_note_beyond(search->candidates[first].host,
                                      search->module->address.index);
    }
    for (unsigned i = first; i < end; ++i) {
        const struct candidate *candidate = &search->candidates[i];
        uint32_t passed_bytes = search->paths[i].mtu_passed_bytes;
        /* Other modules' paths were searched as well, so an absent host costs one timeout. */
        if (!present) {
            mca_btl_rawe_proc_note_silent(candidate->host, candidate->module->address.index);
        }
        if (passed_bytes >= MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES) {
            mca_btl_rawe_proc_note_heard(candidate->host, search->module->address.index,
                                         candidate->address.mac, passed_bytes);
        }
    }
}

/** Note which hosts answered, by the processes that did, or by those that did not. */
static void note_answers(struct search *search, bool present)
{
    for (unsigned first = 0, end; first < search->listed; first = end) {
        end = process_end(search, first);
        if (present != is_present(search, first, end)) {
            continue;
        }
        if (!present && !search->paths[first].last_chance) {
            trust_heard(search, first, end);
        }
        if (!search->module->interface.loopback) {
            note_host(search, first, end);
        }
    }
}

/** Return the last module that has, or will, search for the process of these paths. */
static const mca_btl_rawe_module_t *last_module(const struct search *search, unsigned first,
                                                unsigned end)
{
    const mca_btl_rawe_module_t *last = search->module;

    for (unsigned i = first; i < end; ++i) {
        const mca_btl_rawe_module_t *module = search->candidates[i].module;
        last = module->address.index > last->address.index ? module : last;
    }
    return last;
}

/**
 * Return true if a process that this search does not find is left to another BTL, because no search
 * follows, and it is not used without an answer. The responder tells that process to use the other BTL.
 */
static bool is_last_chance(const struct search *search, unsigned first, unsigned end)
{
    const opal_proc_t *proc = search->procs[search->candidates[first].proc_index];

    return !mca_btl_rawe_compat_alone() && !is_heard(search, first, end) &&
           NULL == mca_btl_rawe_endpoint_named(search->module, proc->proc_name) &&
           last_module(search, first, end) == search->module;
}

/** Search for all listed paths at once. */
static void search_perform(struct search *search)
{
    set_limits(search);
    for (unsigned first = 0, end; first < search->listed; first = end) {
        end = process_end(search, first);
        search->paths[first].silence_ns = silence_ms(search, first, end) * 1000000;
        search->paths[first].last_chance = is_last_chance(search, first, end);
    }
    rawe_responder_discover(search->module->responder, search->paths, search->targets,
                            search->listed, search->timeout_ms * 1000000);
    note_answers(search, true);
    note_answers(search, false); /* by now, others of its host may have answered */
}

/** A path that was measured while another thread held the lock. */
struct measured_path {
    struct mca_btl_rawe_work work; /**< first member: its address is also the path's */
    mca_btl_base_endpoint_t *endpoint;
    uint32_t mtu_bytes;
};

/** Implement mca_btl_rawe_work.perform: limit frames to the measured MTU. */
static void heed_measured(struct mca_btl_rawe_work *work)
{
    struct measured_path *path = (struct measured_path *)work;

    mca_btl_rawe_endpoint_limit_mtu(path->endpoint, path->mtu_bytes);
    free(path);
}

/** Limit an endpoint to a measured MTU, perhaps by another thread: add_procs must not wait. */
static void heed_mtu(mca_btl_base_endpoint_t *endpoint, uint32_t mtu_bytes)
{
    if (mca_btl_rawe_enter()) {
        mca_btl_rawe_endpoint_limit_mtu(endpoint, mtu_bytes);
        mca_btl_rawe_unlock();
        return;
    }
    struct measured_path *path = malloc(sizeof(*path));
    if (NULL != path) { /* if NULL, long frames stall, and the path is measured again */
        path->work.perform = heed_measured;
        path->endpoint = endpoint;
        path->mtu_bytes = mtu_bytes;
        mca_btl_rawe_lock_hand_over(&path->work);
    }
}

/** Create the endpoints of the processes that were reached, each with its first path. */
static void enter_reached(struct search *search, opal_bitmap_t *reachable)
{
    mca_btl_rawe_module_t *module = search->module;

    for (unsigned i = 0; i < search->listed; ++i) {
        const struct candidate *candidate = &search->candidates[i];
        const uint32_t passed_bytes = search->paths[i].mtu_passed_bytes;
        opal_proc_t *proc = search->procs[candidate->proc_index];
        mca_btl_base_endpoint_t **endpoint = &search->endpoints[candidate->proc_index];
        if (passed_bytes < MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES || NULL != *endpoint) {
            continue; /* always so for indirect checks */
        }
        *endpoint = mca_btl_rawe_endpoint_get(module, proc, &candidate->address, passed_bytes);
        if (NULL != *endpoint) {
            heed_mtu(*endpoint, passed_bytes);
            mca_btl_rawe_endpoint_introduce(*endpoint);
            if (module->address.udp && !module->reached_any && !module->interface.loopback &&
                RAWE_PORT_KIND_BOTH == mca_btl_rawe_params_kinds()) {
                mca_btl_rawe_compat_say("%s reaches %s by UDP, because raw frames do not",
                                        module->interface.name, mca_btl_rawe_peer_text(proc).text);
            }
            module->reached_any = true;
            report_mtu(module, proc, &candidate->address, &search->paths[i]);
            if (NULL != reachable) {
                opal_bitmap_set_bit(reachable, (int)candidate->proc_index);
            }
        }
    }
}

/** Return true for other processes, unless a shared-memory BTL takes them anyway. */
static bool is_our_proc(const opal_proc_t *proc)
{
    return proc != opal_proc_local_get() && !(OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
                                              proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid &&
                                              mca_btl_rawe_compat_shared_memory());
}

/** Have the responders no longer tell a process that it was given up. */
static void take_back(const struct search *search, size_t proc_index)
{
    for (unsigned i = 0; i < search->listed; ++i) {
        if (search->candidates[i].proc_index == proc_index) {
            rawe_responder_take_back(search->candidates[i].module->responder,
                                     &search->targets[i].to);
        }
    }
}

/** Introduce the processes that have sent messages through the module: see endpoint.h. */
static void enter_named(const struct search *search, size_t count, opal_bitmap_t *reachable)
{
    for (size_t i = 0; i < count; ++i) {
        mca_btl_base_endpoint_t **endpoint = &search->endpoints[i];
        if (NULL != *endpoint || !is_our_proc(search->procs[i])) {
            continue;
        }
        *endpoint = mca_btl_rawe_endpoint_named(search->module, search->procs[i]->proc_name);
        if (NULL != *endpoint) {
            take_back(search, i);
            mca_btl_rawe_endpoint_introduce(*endpoint);
            if (NULL != reachable) {
                opal_bitmap_set_bit(reachable, (int)i);
            }
        }
    }
}

static void report_unreachable(const struct search *search, const opal_proc_t *proc,
                               const struct mca_btl_rawe_address *address, uint64_t tried_ms)
{
    const struct mca_btl_rawe_params *params = &mca_btl_rawe_params;
    const char *interface = search->module->interface.name;
    const struct mca_btl_rawe_words peer = mca_btl_rawe_peer_text(proc);
    const struct mca_btl_rawe_compat_hostname host = mca_btl_rawe_compat_hostname(proc);
    const struct rawe_mac_text text = mca_btl_rawe_address_text(address);

    if (address->udp) {
        MCA_BTL_RAWE_HELP_IF_ASKED(peer_unreachable_udp, interface, peer.text, host.text, text.text,
                                   tried_ms, params->udp_port_min,
                                   params->udp_port_min + params->udp_port_range - 1);
    } else {
        MCA_BTL_RAWE_HELP_IF_ASKED(peer_unreachable, interface, peer.text, host.text, text.text,
                                   tried_ms);
    }
}

/** Count the paths to processes that were not reached; the last module's failure reports them. */
static void count_unreachable(const struct search *search)
{
    mca_btl_rawe_module_t *module = search->module;

    for (unsigned first = 0, end; first < search->listed; first = end) {
        end = process_end(search, first);
        const size_t proc_index = search->candidates[first].proc_index;
        const opal_proc_t *proc = search->procs[proc_index];
        const bool last = last_module(search, first, end) == module;
        const uint64_t tried_ms = search->paths[first].silence_ns / 1000000;
        for (unsigned i = first; i < end && NULL == search->endpoints[proc_index]; ++i) {
            const struct candidate *candidate = &search->candidates[i];
            if (candidate->module != module) {
                continue;
            }
            ++module->failures;
            if (search->paths[first].refused) {
                mca_btl_rawe_compat_say("%s reaches %s, which uses another BTL because it did not "
                                        "reach this process",
                                        module->interface.name, mca_btl_rawe_peer_text(proc).text);
            } else if (!search->paths[i].process_known && last) {
                report_unreachable(search, proc, &candidate->address, tried_ms);
            } else {
                mca_btl_rawe_compat_say("%s does not lead to %s at %s", module->interface.name,
                                        mca_btl_rawe_peer_text(proc).text,
                                        mca_btl_rawe_address_text(&candidate->address).text);
            }
        }
    }
}

int mca_btl_rawe_search(mca_btl_rawe_module_t *module, size_t count, opal_proc_t **procs,
                        struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable,
                        bool shared_too)
{
    struct search search = {
        .module = module,
        .procs = procs,
        .endpoints = endpoints,
        .first_contact = NULL == reachable && 1 == count,
    };
    const size_t most = count * mca_btl_rawe_state.module_count * MCA_BTL_RAWE_MODULES_MAX + 1;
    struct mca_btl_rawe_published published;

    search.candidates =
        calloc(most, sizeof(*search.candidates) + sizeof(*search.paths) + sizeof(*search.targets));
    if (NULL == search.candidates) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    search.paths = (struct rawe_path *)(search.candidates + most);
    search.targets = (struct rawe_path_target *)(search.paths + most);
    for (size_t i = 0; i < count; ++i) {
        endpoints[i] = NULL;
        if ((is_our_proc(procs[i]) || (shared_too && procs[i] != opal_proc_local_get())) &&
            0 != mca_btl_rawe_proc_wait(procs[i], &published)) {
            list_paths(&search, i, &published);
        }
    }
    if (0 != search.listed && !mca_btl_rawe_module_open_if_needed(module)) {
        mca_btl_rawe_failures_report();
        search.listed = 0;
    }
    if (0 != search.listed) {
        search_perform(&search);
        enter_reached(&search, reachable);
    }
    enter_named(&search, count, reachable);
    count_unreachable(&search);
    for (size_t i = 0; i < count; ++i) {
        if (is_our_proc(procs[i])) {
            mca_btl_rawe_proc_note_tried(procs[i]->proc_name, module->address.index,
                                         NULL != endpoints[i]);
        }
    }
    if (search.first_contact && NULL == endpoints[0] && !shared_too && is_our_proc(procs[0])) {
        end_job_if_unreachable(module, procs[0]);
    }
    free(search.candidates);
    return OPAL_SUCCESS;
}
