/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rounds of the soak: all-to-all in several manners, of sizes drawn anew each time.
 */
#include "soak.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64, as a function of its arguments: the same on all ranks. */
static uint64_t draw(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t z = seed + a * 0x9E3779B97F4A7C15ull + b * 0xD1B54A32D192ED03ull;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Every power of two about as likely as any other, so that small messages are the most. */
static size_t draw_size(const struct soak *soak, int source, int dest)
{
    uint64_t random =
        draw(soak->seed, soak->round * 2 + 1, (uint64_t)(source * soak->size + dest) + 1);
    unsigned bits = 0;

    while (((size_t)2 << bits) <= soak->max_bytes) {
        bits++;
    }
    return (size_t)(random >> 32) % (((size_t)1 << random % (bits + 1)) + 1);
}

/* What a message holds: its words are drawn from who, to whom, when and where. */
static uint64_t word_at(const struct soak *soak, int source, int dest, size_t at)
{
    return draw(soak->seed ^ 0xC0FFEE, soak->round,
                ((uint64_t)source << 52) + ((uint64_t)dest << 40) + at);
}

static void fill(const struct soak *soak, unsigned char *message, size_t len, int dest)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = word_at(soak, soak->rank, dest, at);
        memcpy(message + at, &word, len - at < 8 ? len - at : 8);
    }
}

static void check(struct soak *soak, const unsigned char *message, size_t len, int source)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = word_at(soak, source, soak->rank, at);

        if (memcmp(message + at, &word, len - at < 8 ? len - at : 8) != 0) {
            fprintf(stderr,
                    "rawe-soak: FAIL round %llu: message of %zu bytes from rank %d to rank %d is "
                    "wrong in the 8 bytes from %zu on\n",
                    (unsigned long long)soak->round, len, source, soak->rank, at);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    soak->bytes += len;
}

/* Who sends how much to whom in a round. */
struct exchange {
    int *out_bytes, *in_bytes, *out_at, *in_at;
};

static struct exchange plan(struct soak *soak, int is_even)
{
    struct exchange e;
    int *all = malloc(4 * sizeof(int) * (size_t)soak->size);

    if (all == NULL) {
        fprintf(stderr, "rawe-soak: no memory for the plan of a round\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    e.out_bytes = all;
    e.in_bytes = all + soak->size;
    e.out_at = all + 2 * soak->size;
    e.in_at = all + 3 * soak->size;
    for (int peer = 0; peer < soak->size; peer++) {
        int even = (int)draw_size(soak, 0, 0);

        e.out_bytes[peer] = is_even ? even : (int)draw_size(soak, soak->rank, peer);
        e.in_bytes[peer] = is_even ? even : (int)draw_size(soak, peer, soak->rank);
        e.out_at[peer] = is_even ? peer * even : (int)(soak->max_bytes + 1) * peer;
        e.in_at[peer] = e.out_at[peer];
        fill(soak, soak->out + e.out_at[peer], (size_t)e.out_bytes[peer], peer);
    }
    memset(soak->in, 0xEE, (soak->max_bytes + 1) * (size_t)soak->size);
    return e;
}

static void run_messages(struct soak *soak, const struct exchange *e)
{
    MPI_Request *requests = malloc(2 * sizeof(MPI_Request) * (size_t)soak->size);

    for (int i = 0; i < soak->size; i++) {
        int peer = (soak->rank + i) % soak->size;

        MPI_Irecv(soak->in + e->in_at[peer], e->in_bytes[peer], MPI_BYTE, peer, 1, soak->comm,
                  &requests[2 * i]);
        MPI_Isend(soak->out + e->out_at[peer], e->out_bytes[peer], MPI_BYTE, peer, 1, soak->comm,
                  &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * soak->size, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

void soak_round(struct soak *soak)
{
    unsigned manner = (unsigned)(draw(soak->seed, soak->round, 0) % 4);
    struct exchange e = plan(soak, manner == 0);

    switch (manner) {
    case 0:
        MPI_Alltoall(soak->out, e.out_bytes[0], MPI_BYTE, soak->in, e.in_bytes[0], MPI_BYTE,
                     soak->comm);
        break;
    case 1:
        MPI_Alltoallv(soak->out, e.out_bytes, e.out_at, MPI_BYTE, soak->in, e.in_bytes, e.in_at,
                      MPI_BYTE, soak->comm);
        break;
    default:
        run_messages(soak, &e);
        break;
    }
    for (int peer = 0; peer < soak->size; peer++) {
        check(soak, soak->in + e.in_at[peer], (size_t)e.in_bytes[peer], peer);
    }
    free(e.out_bytes);
    soak->round++;
}
