/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module with a fake link and fake ports for groups, for the tests of groups: sent frames are
 * recorded, and received frames come from the test. This process is member 0 of each group.
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

/** Frames in order. */
struct frames {
    unsigned count, taken;
    size_t len_bytes[FRAMES_MAX];
    uint8_t bytes[FRAMES_MAX][FRAME_BYTES_MAX];
};

/** A test's settings, and what is recorded for it. */
struct fake {
    mca_btl_rawe_module_t net_module, second_module, lo_module;
    struct rawe_port link_port, group_port, bulk_port;
    uint32_t word, bulk_word; /**< of the ports for groups: 1 if a frame, or a batch, waits */
    struct frames sent, waiting;
    struct frames batches_sent, batches_waiting; /**< from the batch header on */
    struct frames controls;                      /**< control messages sent */
    bool sent_deferring;                         /**< the last one, with completions deferred */
    unsigned opened;                             /**< ports for groups */
    unsigned closed_full;                        /**< times that the link has no room */
    bool refuses_port, refuses_bulk, refuses_filter;
    bool gets[2][256];     /**< the last bytes of the ids whose frames, and batches, pass */
    unsigned placed;       /**< packets received straight into place */
    unsigned batch_source; /**< member whose address batches come from */
    struct rawe_port_config opened_with, bulk_opened_with;
    opal_proc_t procs[MEMBERS];
    mca_btl_base_endpoint_t endpoints[MEMBERS + 1]; /**< of other members; of an unknown process */
};
extern struct fake fake;

/** Count a module among the component's. */
void unit_use_module(mca_btl_rawe_module_t *module, bool loopback);
void unit_multicast_set_up(void);
void unit_multicast_tear_down(void);

/** Have the module's path pass batches, or not. */
void unit_allow_batches(bool allow);

/** Enter a group with those common limits. Returns NULL if that is not possible. */
struct mca_btl_rawe_multicast *unit_group_open(uint64_t id, const struct mca_btl_rawe_place *all);
/** Enter a group with the limits of the fake ports. */
struct mca_btl_rawe_multicast *unit_group_enter(uint64_t id);
/** Enter group ID, with batches. */
struct mca_btl_rawe_multicast *unit_group_enter_with_batches(void);

struct rawe_group_header unit_group_header(uint64_t id, uint16_t from);
/** Have a batch of two frames wait in the bulk port, filled with the first character of `text`. */
void unit_wait_batch(uint16_t from, uint32_t number, uint32_t total_bytes, const char *text);
/** Have a frame with 8 bytes of `text` wait in the port; `source` is the member of its address. */
void unit_wait_frame(const struct rawe_group_header *header, const char *text, unsigned source);
/** Have 8 bytes, `text`, of a member's message of `total_bytes` wait in the port. */
void unit_wait_data(uint64_t id, uint16_t from, uint32_t number, const char *text,
                    uint32_t total_bytes);

/** Receive a control message from a member, in an engine that defers or not. */
void unit_receive_control(uint64_t id, unsigned from, const struct rawe_group_control *control,
                          const char *data, bool deferring);
/** Receive the acknowledgement of our frames before number `next`. */
void unit_receive_ack(uint64_t id, unsigned from, uint32_t next);
/** Return the number of control messages of a type sent since the last call. */
unsigned unit_count_controls(uint8_t type);

/** Make progress. Returns true if that was useful. */
bool unit_progress(void);
/** Let time pass, then make progress. */
void unit_progress_after(unsigned ms);
int unit_transfer_state(const struct mca_btl_rawe_transfer *message);

#endif
