/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the user can set with `--mca btl_rawe_<name> <value>`; names here are names there.
 */
#ifndef MCA_BTL_RAWE_PARAMS_H
#define MCA_BTL_RAWE_PARAMS_H

#include "btl_rawe_compat.h"
#include "core/send/rawe_cc.h"

#include <stdbool.h>
#include <stdint.h>

struct mca_btl_rawe_params {
    /* Interfaces */
    char *if_include;   /**< comma-separated names, MACs, CIDR subnets; NULL or empty: default */
    char *if_exclude;   /**< the same; not both */
    bool loopback;      /**< peers on this host go over lo */
    bool windows;       /**< offered even where Open MPI can make messages of the operations */
    uint64_t ethertype; /**< of all our frames, host order */
    char *helper;       /**< path of rawe-socket-helper; NULL or empty: none */

    /* Memory */
    uint64_t ring_bytes;    /**< receive ring of each link; 0: by ranks and memory of the host */
    uint64_t window_frames; /**< unacknowledged frames of a connection at most; power of two */
    uint64_t inflow_bytes;  /**< asked for by GETs of several peers, see rawe_inflow.h */
    uint64_t coalesce_from; /**< from this many frames in flight on, short messages share frames */
    uint64_t free_list_num; /**< fragments allocated at start */
    uint64_t free_list_max; /**< fragments at most; 0: no limit */
    uint64_t free_list_inc; /**< fragments allocated at a time later */

    /* Times */
    uint64_t ack_delay_us;       /**< an acknowledgement waits this long for data to ride on */
    uint64_t streak_us;          /**< eight messages within it begin a streak; 0: never */
    uint64_t reorder_us;         /**< least time a frame may arrive late before it counts as lost */
    uint64_t probe_min_us;       /**< least silence after which an acknowledgement is asked for */
    uint64_t probe_max_ms;       /**< longest interval between such questions */
    uint64_t connect_timeout_ms; /**< trying to reach a peer at first contact */
    uint64_t progress_thread_ms; /**< interval of the progress thread outside MPI; 0: off */
    uint64_t peer_timeout;       /**< seconds of utter silence until a peer is lost; 0: never */

    /* Behaviour */
    bool async_progress;      /**< a thread calls MPI's progress while the program computes */
    char *congestion;         /**< name of the congestion control */
    uint64_t socket_priority; /**< SO_PRIORITY of all sockets that send */
    bool fanout;              /**< ranks of a host receive as a group */
    bool batches;             /**< hand batches of frames to the device in one piece */
    bool checksum;            /**< CRC32C on each frame */
    bool qdisc_bypass;        /**< skip the administrator's traffic shaping */
    bool stats;               /**< report counters at finalize */
};

extern struct mca_btl_rawe_params mca_btl_rawe_params;

/** Register all of the above for `component` and read what the user set. OPAL_SUCCESS or error. */
int mca_btl_rawe_params_register(const mca_base_component_t *component);

/** The congestion control chosen; NULL: there is none of that name. */
const struct rawe_cc_type *mca_btl_rawe_params_congestion(void);

/** Check all values. OPAL_ERR_BAD_PARAM: the user was told of the first wrong one. */
int mca_btl_rawe_params_check(void);

#endif
