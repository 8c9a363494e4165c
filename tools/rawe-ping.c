/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: finds out whether raw frames get from one host to another, how long they take, and how
 * long they may be. It works without MPI, with the same wire format and sockets.
 */
#include <stdio.h>

#include "ping.h"

int main(int argc, char **argv)
{
    const struct ping_options options = ping_options(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (options.multicast) {
        return ping_multicast(&options);
    }
    return options.listen ? ping_listen(&options) : ping_ask(&options);
}
