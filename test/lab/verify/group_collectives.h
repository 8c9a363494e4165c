/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the collective groups share: calling a collective either way.
 */
#ifndef GROUP_COLLECTIVES_H
#define GROUP_COLLECTIVES_H

#include "verify.h"

/** Completes a non-blocking collective, in turn by waiting and by testing. */
void collective_complete(MPI_Request *request);

/** Calls a collective, or its non-blocking form and completes that. */
#define COLLECTIVE(async, blocking, nonblocking, ...) \
    do {                                              \
        if (async) {                                  \
            MPI_Request request_;                     \
            nonblocking(__VA_ARGS__, &request_);      \
            collective_complete(&request_);           \
        } else {                                      \
            blocking(__VA_ARGS__);                    \
        }                                             \
    } while (0)

/** All collectives with equal blocks. */
void collectives_equal(bool async);

/** All collectives with unequal blocks, gaps between them. */
void collectives_unequal(bool async);

/** All reductions and scans. */
void collectives_reducing(bool async);

/** All neighbourhood collectives. */
void collectives_neighbouring(bool async);

#endif
