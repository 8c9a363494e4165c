/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: do raw frames get from one host to another, how long do they take, how long may they
 * be? Without MPI, with the same wire format and sockets.
 */
#include <stdio.h>

#include "ping.h"

volatile sig_atomic_t ping_stopped;

static void stop(int number)
{
    (void)number;
    ping_stopped = 1;
}

void ping_catch_stop(void)
{
    const struct sigaction action = {.sa_handler = stop};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int main(int argc, char **argv)
{
    const struct ping_options options = ping_options(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0);
    return options.listen ? ping_listen(&options) : ping_ask(&options);
}
