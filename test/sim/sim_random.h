/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The only source of randomness in the simulator: seeded generators, one per purpose, so that
 * removing one kind of fault from a run leaves the draws of all other kinds unchanged.
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

/** splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t sim_random_next(struct sim_random *random)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/** Return generator number `stream` of a run, independent of the seed's other generators. */
static inline struct sim_random sim_random_stream(uint64_t seed, uint64_t stream)
{
    struct sim_random mix = {seed ^ (stream + 1) * 0xD1B54A32D192ED03ull};
    return (struct sim_random){sim_random_next(&mix)};
}

/** Draw from 0 to bound - 1; bound is not 0. */
static inline uint64_t sim_random_below(struct sim_random *random, uint64_t bound)
{
    return sim_random_next(random) % bound;
}

/** Draw from least to most, both included. */
static inline uint64_t sim_random_between(struct sim_random *random, uint64_t least, uint64_t most)
{
    return least + sim_random_below(random, most - least + 1);
}

/** Return true with a probability of `ppm` per million. */
static inline bool sim_random_chance(struct sim_random *random, uint32_t ppm)
{
    return ppm != 0 && sim_random_below(random, 1000000) < ppm;
}

/** Draw from least to most, each power of two about equally likely; least is not 0. */
static inline uint64_t sim_random_scaled(struct sim_random *random, uint64_t least, uint64_t most)
{
    unsigned low_bits = 63u - (unsigned)__builtin_clzll(least);
    unsigned high_bits = 63u - (unsigned)__builtin_clzll(most);
    unsigned bits = (unsigned)sim_random_between(random, low_bits, high_bits);
    uint64_t low = 1ull << bits;
    uint64_t high = low * 2 - 1;
    return sim_random_between(random, low < least ? least : low, high > most ? most : high);
}

#endif
