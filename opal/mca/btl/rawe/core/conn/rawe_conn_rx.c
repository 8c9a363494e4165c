/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_rx.h"

/*
 * Delayed acknowledgements. Nearly all are carried by data in time, and all wait equally long. So
 * they share a timer and a list ordered by deadline; one that was carried stays in the list.
 */

static void append_owing(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    rawe_list_remove(&conn->rx.owing);
    rawe_list_append(&engine->owing, &conn->rx.owing);
    rawe_timer_arm_by(&engine->timers, &engine->owing_timer, conn->rx.window.ack_deadline_ns);
}

/** Return the connection whose deadline is next; NULL: none. */
static struct rawe_conn *first_owing(const struct rawe_engine *engine)
{
    struct rawe_link *first = rawe_list_first(&engine->owing);
    return first == NULL ? NULL : RAWE_OWNER(first, struct rawe_conn, rx.owing);
}

/** Handle expiry of the list's timer. */
static void owing_expired(struct rawe_timer *timer, uint64_t now_ns)
{
    struct rawe_engine *engine = RAWE_OWNER(timer, struct rawe_engine, owing_timer);
    struct rawe_conn *conn;
    while ((conn = first_owing(engine)) != NULL && conn->rx.window.ack_deadline_ns <= now_ns) {
        rawe_list_remove(&conn->rx.owing);
        if (rawe_recvwin_expire(&conn->rx.window, now_ns)) {
            rawe_conn_make_pending(conn);
        }
    }
    if (conn != NULL) {
        rawe_timer_arm(&engine->timers, timer, conn->rx.window.ack_deadline_ns);
    }
}

void rawe_conn_owing_init(struct rawe_engine *engine)
{
    rawe_list_init(&engine->owing);
    rawe_timer_init(&engine->owing_timer, owing_expired);
}

void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns)
{
    bool owed = conn->rx.window.ack_deadline_ns != 0;
    if (rawe_recvwin_owe(&conn->rx.window, at_once, conn->rx.credit.advertised,
                         conn->engine->config.ack_delay_ns, now_ns)) {
        rawe_conn_make_pending(conn);
    } else if (!owed) {
        append_owing(conn);
    }
}

void rawe_conn_owe_nothing(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    rawe_recvwin_stop(&conn->rx.window);
    rawe_grants_forget(&conn->path.into->pull.grants, &conn->rx.grant);
    rawe_list_remove(&conn->rx.owing);
    if (rawe_list_empty(&engine->owing)) {
        rawe_timer_cancel(&engine->timers, &engine->owing_timer);
    }
}

void rawe_conn_report_credit(struct rawe_conn *conn)
{
    conn->engine->counters.credit_updates++;
    rawe_recvwin_owe_now(&conn->rx.window);
    rawe_conn_make_pending(conn);
}
