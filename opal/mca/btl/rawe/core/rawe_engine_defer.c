/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine while its owner cannot be called: it goes on acknowledging, probing and sending again.
 * What would have been delivered or completed is kept (rawe_deferral.c) until the owner is back.
 */
#include "conn/rawe_conn_finalize.h"
#include "conn/rawe_conn_life.h"
#include "conn/rawe_conn_receive.h"
#include "conn/rawe_conn_record.h"
#include "rawe_engine.h"

void rawe_engine_defer_begin(struct rawe_engine *engine)
{
    engine->deferral.active = true;
}

void rawe_engine_defer_end(struct rawe_engine *engine)
{
    engine->deferral.active = engine->finalizing;
}

void rawe_engine_finalizing(struct rawe_engine *engine)
{
    engine->finalizing = engine->deferral.active = true;
    engine->losses_wait = false;
    rawe_engine_complete_deferred(engine);
    rawe_conn_serve_forget(engine);
    rawe_deferral_discard(&engine->deferral, &engine->reassembly_buffers);
    for (uint32_t i = 0; i < engine->table->size; i++) {
        struct rawe_conn *conn = engine->table->entries[i];
        if (conn != NULL && conn->engine == engine) {
            rawe_conn_announce_finalizing(conn);
        }
    }
}

static void report_losses(struct rawe_engine *engine)
{
    engine->losses_wait = false;
    for (uint32_t i = 0; i < engine->table->size; i++) {
        struct rawe_conn *conn = engine->table->entries[i];
        if (conn != NULL && conn->engine == engine && conn->data_lost) {
            conn->data_lost = false;
            if (engine->callbacks.lost != NULL) {
                engine->callbacks.lost(engine->context, conn);
            }
        }
    }
}

void rawe_engine_complete_deferred(struct rawe_engine *engine)
{
    struct rawe_deferral *deferral = &engine->deferral;
    rawe_conn_complete(engine, rawe_deferral_take_completed(deferral, RAWE_STATUS_DONE),
                       RAWE_STATUS_DONE);
    rawe_conn_complete(engine, rawe_deferral_take_completed(deferral, RAWE_STATUS_FAILED),
                       RAWE_STATUS_FAILED);
}

void rawe_engine_deliver_deferred(struct rawe_engine *engine)
{
    struct rawe_deferral *deferral = &engine->deferral;
    struct rawe_deferred *entry;
    deferral->pending = false;
    if (engine->losses_wait) {
        report_losses(engine);
    }
    rawe_engine_complete_deferred(engine);
    while ((entry = rawe_deferral_take(deferral)) != NULL) {
        const uint8_t *content = entry->buffer != NULL ? entry->buffer : entry->payload;
        if (entry->fragmented) {
            rawe_conn_deliver(entry->conn, entry->tag, content, entry->len_bytes);
        } else {
            rawe_conn_deliver_messages(entry->conn, content, content + entry->len_bytes);
        }
        rawe_deferral_drop(deferral, &engine->reassembly_buffers, entry);
    }
    if (deferral->fragments_wait) {
        deferral->fragments_wait = false;
        for (uint32_t i = 0; i < engine->table->size; i++) {
            struct rawe_conn *conn = engine->table->entries[i];
            if (conn != NULL && conn->engine == engine) {
                rawe_conn_deliver_fragmented(conn);
            }
        }
    }
}
