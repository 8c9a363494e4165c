/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_port_opening.h"

#include "../sys/rawe_service.h"

static void open_now(struct rawe_port_opening *opening)
{
    if (rawe_port_open(&opening->port, &opening->config, &opening->error) != 0) {
        opening->port = NULL;
    }
}

static void *thread_main(void *opening)
{
    open_now(opening);
    return NULL;
}

void rawe_port_open_begin(struct rawe_port_opening *opening)
{
    opening->threaded =
        rawe_service_create_thread(&opening->thread, thread_main, opening, "rawe-open") == 0;
    if (!opening->threaded) {
        open_now(opening);
    }
}

struct rawe_port *rawe_port_open_end(struct rawe_port_opening *opening)
{
    if (opening->threaded) {
        pthread_join(opening->thread, NULL);
    }
    return opening->port;
}
