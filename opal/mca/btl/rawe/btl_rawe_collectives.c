/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions offered to coll/rawe: those of btl_rawe_multicast.h, called with the lock of the
 * engines held. See btl_rawe_offer.h.
 */
#include "btl_rawe_collectives.h"

#include "btl_rawe_compat.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_thread.h"

/** 4.1 has initialized BTLs before; PMIx replaces what was published under the same name. */
static void announce(void)
{
    mca_btl_rawe_state.collectives = true;
    mca_btl_rawe_compat_ignore_messages();
    if (mca_btl_rawe_state.multicast_possible) {
        (void)mca_btl_rawe_proc_publish(); /* if it fails, the process takes no part */
    }
}

static bool takes_part(opal_process_name_t name, uint64_t *host)
{
    return name.jobid == OPAL_PROC_MY_NAME.jobid &&
           0 != (MCA_BTL_RAWE_CAPABILITY_MULTICAST & mca_btl_rawe_proc_capabilities(name, host));
}

static struct mca_btl_rawe_place place(void)
{
    mca_btl_rawe_lock();
    struct mca_btl_rawe_place place = mca_btl_rawe_multicast_place();
    mca_btl_rawe_unlock();
    return place;
}

static struct mca_btl_rawe_multicast *open_group(uint64_t id, uint32_t members, uint32_t self,
                                                 const struct mca_btl_rawe_place *all,
                                                 const struct mca_btl_rawe_place *places)
{
    mca_btl_rawe_lock();
    struct mca_btl_rawe_multicast *group =
        mca_btl_rawe_multicast_open(id, members, self, all, places);
    mca_btl_rawe_unlock();
    return group;
}

/** What others still need is sent by the progress thread if the program leaves MPI. Lock held. */
static void watch(void)
{
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        if (mca_btl_rawe_multicast_busy(mca_btl_rawe_state.modules[i])) {
            mca_btl_rawe_thread_watch_for(mca_btl_rawe_state.modules[i],
                                          mca_btl_rawe_multicast_holding());
        }
    }
}

static bool send_message(struct mca_btl_rawe_multicast *group,
                         struct mca_btl_rawe_transfer *message)
{
    mca_btl_rawe_lock();
    bool taken = mca_btl_rawe_multicast_send(group, message);
    watch();
    mca_btl_rawe_unlock();
    return taken;
}

static void expect(struct mca_btl_rawe_multicast *group, uint32_t root,
                   struct mca_btl_rawe_transfer *message)
{
    mca_btl_rawe_lock();
    mca_btl_rawe_multicast_expect(group, root, message);
    mca_btl_rawe_unlock();
}

static unsigned awaited(const struct mca_btl_rawe_multicast *group, uint32_t *members,
                        unsigned most)
{
    mca_btl_rawe_lock();
    unsigned count = mca_btl_rawe_multicast_awaited(group, members, most);
    mca_btl_rawe_unlock();
    return count;
}

static void ask(const opal_proc_t *proc)
{
    static const uint8_t nothing[8];

    mca_btl_rawe_lock();
    mca_btl_base_endpoint_t *endpoint = mca_btl_rawe_endpoint_in_order(proc);
    if (NULL != endpoint && !endpoint->lost) {
        (void)rawe_peer_send_copy(&endpoint->peer, MCA_BTL_RAWE_COMPAT_TAG_IGNORED, nothing,
                                  sizeof(nothing), NULL, 0);
        mca_btl_rawe_thread_watch(endpoint->module);
    }
    mca_btl_rawe_unlock();
}

static void close_group(struct mca_btl_rawe_multicast *group, bool complete)
{
    mca_btl_rawe_lock();
    mca_btl_rawe_multicast_close(group, complete);
    watch();
    mca_btl_rawe_unlock();
}

const struct mca_btl_rawe_offer mca_btl_rawe_offer = {
    .version = MCA_BTL_RAWE_OFFER_VERSION,
    .announce = announce,
    .takes_part = takes_part,
    .place = place,
    .open = open_group,
    .send = send_message,
    .expect = expect,
    .awaited = awaited,
    .ask = ask,
    .close = close_group,
};
