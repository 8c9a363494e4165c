/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_ring_share, the default size of rings. For tests of dividing and using rings, which
 * need a socket, see test/lab/link/test_link.c.
 */
#include "linux/packet/rawe_ring.h"
#include "unit_test.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/** Return the memory of all modules' rings if the largest may have `ring_bytes`. */
static uint64_t all_rings(uint64_t ring_bytes, unsigned processes, unsigned links)
{
    return (3 * ring_bytes + RAWE_RING_RESPONDER_BYTES) * processes * links;
}

TEST(share__few_processes_get_all_that_helps)
{
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 16 * GIB, 1, 2, 2), 2 * MIB);
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 256 * GIB, 8, 8, 3), 2 * MIB);
    assert_int_equal(rawe_ring_share(RAWE_RING_MIDDLE_BYTES, 256 * GIB, 8, 8, 3), 4 * MIB);
}

TEST(share__many_processes_share_a_link)
{
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 256 * GIB, 16, 32, 3), 1 * MIB);
    assert_int_equal(rawe_ring_share(RAWE_RING_MIDDLE_BYTES, 256 * GIB, 16, 32, 3), 2 * MIB);
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 256 * GIB, 64, 128, 3), 1 * MIB);
}

TEST(share__each_idle_peer_has_a_part)
{
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 256 * GIB, 64, 1024, 3), 8 * MIB);
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 256 * GIB, 64, 1 << 20, 3), 16 * MIB);
}

TEST(share__all_together_have_five_percent)
{
    for (uint64_t memory = 16 * GIB; memory <= 1024 * GIB; memory *= 2) {
        for (unsigned processes = 1; processes <= 128; processes *= 2) {
            const size_t bytes =
                rawe_ring_share(RAWE_RING_MIDDLE_BYTES, memory, processes, 1 << 20, 2);
            assert_true(bytes >= 256 * KIB);
            assert_true(bytes <= 16 * MIB);
            if (bytes > 256 * KIB) {
                assert_true(all_rings(bytes, processes, 2) <= memory / 20);
            }
            if (bytes > 256 * KIB && bytes < 16 * MIB) {
                /* The rings also use most of that memory. */
                assert_true(all_rings(bytes, processes, 2) > memory / 20 * 9 / 10);
            }
        }
    }
}

TEST(share__no_less_than_works)
{
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 1 * GIB, 128, 128, 4), 256 * KIB);
    assert_int_equal(rawe_ring_share(RAWE_RING_USUAL_BYTES, 0, 1, 1, 1), 256 * KIB);
}
