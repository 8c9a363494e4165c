/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of a run: the trace, with a line for each event, and violations.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

static const char *const type_names[] = {"?",       "DATA",  "BULK", "ACK",  "PROBE",
                                         "CONNECT", "CLOSE", "PING", "PONG", "SLICE"};

void sim_trace_line(struct sim *sim, const char *format, ...)
{
    va_list arguments;

    printf("%6llu.%09llu  ", (unsigned long long)(sim->now_ns / 1000000000u),
           (unsigned long long)(sim->now_ns % 1000000000u));
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

const char *sim_trace_frame(const struct sim_packet *packet, char *out, size_t out_bytes)
{
    struct rawe_header header;
    char ends[64];

    snprintf(ends, sizeof(ends), "n%u.%u -> n%u.%u", packet->source, packet->source_nic,
             packet->destination, packet->destination_nic);
    if (!sim_packet_header(packet, &header)) {
        snprintf(out, out_bytes, "%s a broken frame of %u bytes", ends, packet->len_bytes);
        return out;
    }
    snprintf(out, out_bytes, "%s %s %08x seq %u ack %u credit %u%s%s%s%s%s %u bytes", ends,
             type_names[header.type], header.connection_id, header.sequence, header.acknowledgement,
             header.credit, header.flags & RAWE_FLAG_ACK_NOW ? " ACK_NOW" : "",
             header.flags & RAWE_FLAG_PROBE_ANSWER ? " ANSWER" : "",
             header.flags & RAWE_FLAG_REPLY ? " REPLY" : "",
             header.flags & RAWE_FLAG_RESENT ? " RESENT" : "", packet->batch ? ", batch of" : ",",
             packet->len_bytes);
    return out;
}

struct sim *sim_running;

void net_fail(const char *invariant, const char *format, ...)
{
    struct sim *sim = sim_running;
    char what[320], text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(text, sizeof(text), "violates \"%s\" at %llu.%09llu s, event %llu: %s", invariant,
             (unsigned long long)(sim->now_ns / 1000000000u),
             (unsigned long long)(sim->now_ns % 1000000000u), (unsigned long long)sim->event_count,
             what);
    sim_trace(sim, "%s", text);
    sim->on_violation(sim, text);
    exit(EXIT_FAILURE);
}
