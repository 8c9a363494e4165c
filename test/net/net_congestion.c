/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A fixed congestion window: see net_congestion.h.
 */
#include "net_congestion.h"

static uint32_t fixed_frames;

static void started(struct rawe_cc *cc)
{
    cc->first = cc->least = cc->most = fixed_frames;
    rawe_cc_set_window(cc, fixed_frames);
}

static void acknowledged(struct rawe_cc *cc, const struct rawe_ack *ack)
{
}

static void ignore(struct rawe_cc *cc)
{
}

static void idle(struct rawe_cc *cc, uint64_t periods)
{
}

static const struct rawe_cc_type fixed = {
    .name = "fixed",
    .started = started,
    .acknowledged = acknowledged,
    .lost = ignore,
    .timed_out = ignore,
    .idle = idle,
};

void net_fix_window(struct rawe_conn *conn, uint32_t frames)
{
    fixed_frames = frames;
    rawe_cc_start(&conn->cc, &fixed, frames, 0, 0, conn->engine->now_ns);
}
