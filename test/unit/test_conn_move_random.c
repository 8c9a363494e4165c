/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Migration at random: rails are cut and mended while both hosts send. Nothing is lost, nothing
 * comes twice. RAWE_MOVE_SEEDS is how many seeds are tried.
 */
#include "unit_rails.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 400u

static unsigned long random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(random_state >> 33) % below;
}

/** What asks the peer's responder in a real process: the rail is dead, and another one is not. */
static void judge(struct rails_host *host, struct rawe_conn *conn)
{
    bool other = false;
    for (unsigned rail = 0; rail < RAILS; rail++) {
        other = other || !rails.cut[rail];
    }
    if (other && rails.cut[rails_used(conn)]) {
        rawe_peer_set_down(&host->nic[rails_used(conn)].peer, rails.now_ns);
    }
}

/** Pull and mend; hosts learn of it by their carrier, or not. */
static void trouble(void)
{
    unsigned rail = draw(RAILS);
    if (!rails.cut[rail]) {
        rails_cut(rail);
        for (unsigned i = 0; i < 2; i++) {
            if (draw(2) == 0) {
                rawe_peer_set_down(rails_peer(i, rail), rails.now_ns);
            }
        }
        return;
    }
    rails.cut[rail] = false;
}

/** Probes have found rails working again. */
static void recover(void)
{
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned rail = 0; rail < RAILS; rail++) {
            if (!rails.cut[rail] && rails_peer(i, rail)->route.down) {
                rawe_peer_set_up(rails_peer(i, rail), rails.now_ns);
            }
        }
    }
}

/** A message, somewhere from 0 to the length of several frames, numbered and copied. */
struct letter {
    struct unit_send send; /**< first */
    uint8_t *memory;
    size_t len_bytes;
};

/** Each message of host `from` is at the other once, and as it was sent. */
static void check_letters(const struct letter *letters, unsigned from)
{
    const struct unit_node *inbox = &rails.host[1 - from].inbox;
    static unsigned seen[ROUNDS];
    memset(seen, 0, sizeof(seen));
    assert_int_equal(inbox->message_count, ROUNDS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct unit_message *message = &inbox->messages[i];
        uint16_t number;
        memcpy(&number, message->data, sizeof(number));
        assert_true(number < ROUNDS);
        assert_int_equal(message->len_bytes, letters[number].len_bytes);
        assert_memory_equal(message->data, letters[number].memory, message->len_bytes);
        assert_int_equal(seen[number]++, 0);
        assert_int_equal(letters[i].send.done, 1);
        assert_int_equal(letters[i].send.status, RAWE_STATUS_DONE);
    }
}

static void write_letter(struct letter *letter, unsigned from, unsigned number)
{
    uint16_t written = (uint16_t)number;
    letter->len_bytes = 16 + draw(20000);
    letter->memory = malloc(letter->len_bytes);
    assert_non_null(letter->memory);
    unit_fill(letter->memory, letter->len_bytes, number);
    memcpy(letter->memory, &written, sizeof(written));
    enum rawe_lane lane = letter->len_bytes < 1000 ? RAWE_LANE_EXPRESS : RAWE_LANE_BULK;
    unit_send_message(rails_conn(from, draw(RAILS), lane), &letter->send, (uint8_t)number,
                      letter->memory, letter->len_bytes);
}

static void one_bad_day(unsigned seed)
{
    struct letter *letters[2];
    random_state = seed * 2654435761ul + 1;
    rails_init();
    rails_start(draw(2) != 0 ? 16 : 0);
    for (unsigned i = 0; i < 2; i++) {
        rails.host[i].on_silent = judge;
        letters[i] = calloc(ROUNDS, sizeof(*letters[i]));
        assert_non_null(letters[i]);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        write_letter(&letters[0][i], 0, i);
        write_letter(&letters[1][i], 1, i);
        if (draw(8) == 0) {
            trouble();
        }
        if (draw(16) == 0) {
            recover();
        }
        rails_run(draw(4) == 0 ? draw(20) * UNIT_MS : 200 * UNIT_US, 200 * UNIT_US);
    }
    memset(rails.cut, 0, sizeof(rails.cut));
    recover();
    rails_run(3 * UNIT_S, UNIT_MS);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rails.host[i].failed_calls, 0);
        assert_int_equal(rails.host[i].lost_calls, 0);
        check_letters(letters[i], i);
        for (unsigned rail = 0; rail < RAILS; rail++) {
            for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
                const struct rawe_conn *conn = rails_peer(i, rail)->conn[lane];
                assert_true(conn == NULL || rails_used(conn) == rail);
            }
        }
    }
    rails_stop();
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned j = 0; j < ROUNDS; j++) {
            free(letters[i][j].memory);
        }
        free(letters[i]);
    }
}

TEST(move__loses_nothing_and_doubles_nothing_at_random)
{
    const char *seeds = getenv("RAWE_MOVE_SEEDS");
    unsigned count = seeds != NULL ? (unsigned)strtoul(seeds, NULL, 10) : 20;
    for (unsigned seed = 1; seed <= count; seed++) {
        one_bad_day(seed);
    }
}
