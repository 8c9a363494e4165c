/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module with a fake link and fake group ports, for the tests of groups. Sent frames are
 * recorded; the test supplies the received ones. This process is member 0 of each group.
 */
#ifndef UNIT_MULTICAST_H
#define UNIT_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "fake_ompi.h"

#define MEMBERS 3u
#define ID 77u
#define PAYLOAD_BYTES 200u
#define SEGMENT_BYTES 100u
#define FRAME_BYTES_MAX 300u
#define FRAMES_MAX 100u
#define MS 1000000ull

/** A queue of frames; `taken` of them have been received. */
struct frames {
    unsigned count, taken;
    size_t len_bytes[FRAMES_MAX];
    uint8_t bytes[FRAMES_MAX][FRAME_BYTES_MAX];
};

/** A test's settings and records. */
struct fake {
    mca_btl_rawe_module_t net_module, second_module, lo_module;
    struct rawe_port link_port, group_port, bulk_port;
    uint32_t word, bulk_word; /**< the group ports' words: 1 if a frame or batch is queued */
    struct frames sent, waiting;
    struct frames batches_sent, batches_waiting; /**< stored from the batch header on */
    struct frames controls;                      /**< control messages sent */
    bool sent_deferring;                         /**< the last was sent with completions deferred */
    unsigned opened;                             /**< group ports opened */
    unsigned closed_full;                        /**< calls for which the link stays full */
    bool refuses_port, refuses_bulk, refuses_filter;
    bool refuses_control;  /**< there is no memory for control messages */
    bool gets[2][256];     /**< by last byte of group id: the ports accept frames, batches */
    unsigned placed;       /**< packets received directly into the buffer */
    unsigned batch_source; /**< member whose address batches are sent from */
    struct rawe_port_config opened_with, bulk_opened_with;
    opal_proc_t procs[MEMBERS];
    mca_btl_base_endpoint_t endpoints[MEMBERS + 1]; /**< other members, and an unknown process */
};
extern struct fake fake;

/** Add a module to the component. */
void unit_use_module(mca_btl_rawe_module_t *module, bool loopback);
void unit_multicast_set_up(void);
void unit_multicast_tear_down(void);

/** Set whether the module's path passes batches. */
void unit_allow_batches(bool allow);

/** Enter a group with these limits, common to all members. Returns NULL on failure. */
struct mca_btl_rawe_multicast *unit_group_open(uint64_t id, const struct mca_btl_rawe_place *all);
/** Enter a group with the limits of the fake ports. */
struct mca_btl_rawe_multicast *unit_group_enter(uint64_t id);
/** Enter group ID, with batches. */
struct mca_btl_rawe_multicast *unit_group_enter_with_batches(void);

struct rawe_group_header unit_group_header(uint64_t id, uint16_t from);
/** Queue a batch of two frames in the bulk port, filled with the first character of `text`. */
void unit_wait_batch(uint16_t from, uint32_t number, uint32_t total_bytes, const char *text);
/** Queue a frame with 8 bytes of `text` in the port, sent from the address of member `source`. */
void unit_wait_frame(const struct rawe_group_header *header, const char *text, unsigned source);
/** Queue `text`, 8 bytes of a member's message of `total_bytes`, in the port. */
void unit_wait_data(uint64_t id, uint16_t from, uint32_t number, const char *text,
                    uint32_t total_bytes);

/** Receive a control message from a member, while the engine defers completions if `deferring`. */
void unit_receive_control(uint64_t id, unsigned from, const struct rawe_group_control *control,
                          const char *data, bool deferring);
/** Receive an acknowledgement of our frames below number `next`. */
void unit_receive_ack(uint64_t id, unsigned from, uint32_t next);
/** Return the number of control messages of a type sent since the last call. */
unsigned unit_count_controls(uint8_t type);

/** Make progress. Returns true if anything was done. */
bool unit_progress(void);
/** Advance the clock, then make progress. */
void unit_progress_after(unsigned ms);
int unit_transfer_state(const struct mca_btl_rawe_transfer *message);

#endif
