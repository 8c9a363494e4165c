/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the handshake: each state with each kind of incarnation.
 */
#include "conn/rawe_handshake.h"
#include "unit_test.h"

#define STATES (RAWE_CONN_FAILED + 1u)

TEST(rawe_handshake_judge__each_state_and_incarnation)
{
    /* A CONNECT with an incarnation before, equal to, after the one known. */
    static const enum rawe_handshake_verdict expected[STATES][3] = {
        [RAWE_CONN_IDLE] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_SAME, RAWE_HANDSHAKE_SAME},
        [RAWE_CONN_CONNECTING] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_SAME,
                                  RAWE_HANDSHAKE_RENEW_ID},
        [RAWE_CONN_OPEN] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_SAME, RAWE_HANDSHAKE_RESTART},
        [RAWE_CONN_PEER_CLOSED] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_DROP,
                                   RAWE_HANDSHAKE_RESTART},
        [RAWE_CONN_FAILED] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_DROP},
    };
    static const uint64_t known = 1ull << 40;
    static const uint64_t distances[] = {1, 1000, 1ull << 33};
    for (uint8_t in = 0; in < STATES; in++) {
        for (unsigned i = 0; i < 3; i++) {
            for (unsigned d = 0; d < 3; d++) {
                uint64_t incarnation = i == 0   ? known - distances[d]
                                       : i == 1 ? known
                                                : known + distances[d];
                struct rawe_handshake handshake = {.local_incarnation = 5,
                                                   .peer_incarnation = known,
                                                   .local_id = 6,
                                                   .peer_id = 7,
                                                   .state = in};
                enum rawe_handshake_verdict verdict = rawe_handshake_judge(&handshake, incarnation);
                assert_int_equal(verdict, expected[in][i]);
                assert_true(handshake.peer_incarnation ==
                            (verdict == RAWE_HANDSHAKE_DROP ? known : incarnation));
                /* The rest is for the connection to change. */
                assert_int_equal(handshake.state, in);
                assert_int_equal(handshake.local_id, 6);
                assert_int_equal(handshake.peer_id, 7);
                assert_true(handshake.local_incarnation == 5);
            }
        }
    }
}

TEST(rawe_handshake_judge__the_first_one_seen)
{
    static const enum rawe_handshake_verdict expected[STATES] = {
        [RAWE_CONN_IDLE] = RAWE_HANDSHAKE_SAME,
        [RAWE_CONN_CONNECTING] = RAWE_HANDSHAKE_SAME, /* both ask: no new life */
        [RAWE_CONN_OPEN] = RAWE_HANDSHAKE_RESTART,
        [RAWE_CONN_PEER_CLOSED] = RAWE_HANDSHAKE_RESTART,
        [RAWE_CONN_FAILED] = RAWE_HANDSHAKE_DROP,
    };
    for (uint8_t in = 0; in < STATES; in++) {
        struct rawe_handshake handshake = {.state = in};
        assert_int_equal(rawe_handshake_judge(&handshake, 3), expected[in]);
        assert_true(handshake.peer_incarnation == (in == RAWE_CONN_FAILED ? 0 : 3));
    }
}

TEST(rawe_handshake_reply__opens_a_connection_that_asked)
{
    for (uint8_t in = 0; in < STATES; in++) {
        struct rawe_handshake handshake = {.peer_incarnation = 3, .peer_id = 7, .state = in};
        bool asked = in == RAWE_CONN_CONNECTING;
        assert_int_equal(rawe_handshake_reply(&handshake, 8), asked);
        assert_int_equal(handshake.state, asked ? RAWE_CONN_OPEN : in);
        assert_int_equal(handshake.peer_id, asked ? 8 : 7);
        assert_true(handshake.peer_incarnation == 3);
    }
}

TEST(rawe_handshake_receives__when_open_or_about_to_be)
{
    for (uint8_t in = 0; in < STATES; in++) {
        struct rawe_handshake handshake = {.state = in};
        assert_int_equal(rawe_handshake_receives(&handshake),
                         in == RAWE_CONN_OPEN || in == RAWE_CONN_CONNECTING);
    }
}
