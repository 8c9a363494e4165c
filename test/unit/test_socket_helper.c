/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe-socket-helper: which requests it accepts, and how it reads its access list.
 * test/lab/tests/test_privilege.py tests the whole program, with its capability.
 */

/* Included first, because it defines the C library's feature macros. */
int helper_main(int argc, char **argv);
#define main helper_main
#include "rawe-socket-helper.c"
#undef main

#include <poll.h>
#include <sys/wait.h>

#include "unit_test.h"

#define UID 4711
#define GID 4712
#define OTHER_GROUP 4713

static struct rawe_helper_request link_request(void)
{
    return (struct rawe_helper_request){
        .version = RAWE_HELPER_VERSION,
        .what = RAWE_PORT_EXPRESS,
        .interface = "eth1",
        .ethertype = 0x88B5,
        .port = 7,
        .key = 8,
    };
}

static struct rawe_helper_request bulk_request(void)
{
    struct rawe_helper_request request = link_request();

    request.what = RAWE_PORT_BULK;
    request.ethertype = 0;
    return request;
}

static struct rawe_helper_request middle_request(void)
{
    struct rawe_helper_request request = bulk_request();

    request.what = RAWE_PORT_MIDDLE;
    return request;
}

static struct rawe_helper_request responder_request(void)
{
    struct rawe_helper_request request = link_request();

    request.what = RAWE_PORT_RESPONDER;
    request.ping_port = 9;
    request.ping_key = 10;
    return request;
}

static struct rawe_helper_request founder_request(unsigned places)
{
    struct rawe_helper_request request = link_request();

    request.port = 0;
    request.key = 0;
    request.place_count = (uint16_t)places;
    for (unsigned i = 0; i < places && i < RAWE_FANOUT_PLACES_MAX; i++) {
        request.places[i] =
            (struct rawe_fanout_place){.key = 3 * i, .place = i % RAWE_FANOUT_MEMBERS_MAX};
    }
    return request;
}

static enum rawe_helper_status check(const struct rawe_helper_request *request)
{
    return check_request(request, sizeof *request);
}

TEST(check_request__takes_what_rawe_asks_for)
{
    const struct rawe_helper_request requests[] = {
        link_request(),
        bulk_request(),
        middle_request(),
        responder_request(),
        founder_request(1),
        founder_request(2),
        founder_request(RAWE_FANOUT_PLACES_MAX),
    };

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        assert_int_equal(check(&requests[i]), RAWE_HELPER_GRANTED);
    }
}

TEST(check_request__refuses_other_lengths)
{
    const struct rawe_helper_request request = link_request();

    for (size_t len = 1; len < sizeof request; len++) {
        assert_int_equal(check_request(&request, len), RAWE_HELPER_BAD_REQUEST);
    }
    assert_int_equal(check_request(&request, sizeof request + 1), RAWE_HELPER_BAD_REQUEST);
    assert_int_equal(check_request(&request, SIZE_MAX), RAWE_HELPER_BAD_REQUEST);
}

/** Requests from other versions may differ in length. */
TEST(check_request__recognizes_other_versions)
{
    struct rawe_helper_request request = link_request();

    request.version = RAWE_HELPER_VERSION + 1;
    assert_int_equal(check_request(&request, 4), RAWE_HELPER_OTHER_VERSION);
    assert_int_equal(check_request(&request, 100000), RAWE_HELPER_OTHER_VERSION);
    request.version = 0;
    assert_int_equal(check(&request), RAWE_HELPER_OTHER_VERSION);
}

TEST(check_request__refuses_what_is_no_kind_of_socket)
{
    static const uint32_t kinds[] = {RAWE_PORT_USES, 5,          255,       256,
                                     0x7FFFFFFF,     0x80000000, UINT32_MAX};
    struct rawe_helper_request request = link_request();

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        request.what = kinds[i];
        assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    }
}

TEST(check_request__refuses_names_that_no_list_could_have)
{
    static const char names[][RAWE_HELPER_NAME_BYTES + 1] = {
        "",        "eth 1",    "eth1\n",
        "\teth1",  "../eth1",  "eth1\0x",
        "eth\x7f", "\xff\xff", "eth1\0\0\0\0\0\0\0\0\0\0\0x",
    };
    struct rawe_helper_request request = link_request();

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        memcpy(request.interface, names[i], sizeof request.interface);
        assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    }
    memset(request.interface, 'e', sizeof request.interface); /* no 0 at the end */
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    request.interface[RAWE_HELPER_NAME_BYTES - 1] = '\0';
    assert_int_equal(check(&request), RAWE_HELPER_GRANTED);
}

TEST(check_request__bulk_alone_has_no_ethertype)
{
    struct rawe_helper_request request = bulk_request();

    request.ethertype = 0x0800;
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    request = link_request();
    request.ethertype = 0;
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
}

/** Set a bit in each field that a kind of socket does not use. */
TEST(check_request__refuses_bits_without_meaning)
{
    const struct rawe_helper_request requests[] = {link_request(), bulk_request(),
                                                   responder_request(), founder_request(2)};
    const size_t ping_port = offsetof(struct rawe_helper_request, ping_port);
    const size_t ping_key = offsetof(struct rawe_helper_request, ping_key);
    const size_t port = offsetof(struct rawe_helper_request, port);
    const size_t key = offsetof(struct rawe_helper_request, key);
    const size_t fields[][4] = {
        {ping_port, ping_port + 1, ping_key, ping_key + 3},
        {ping_port, ping_port + 1, ping_key, ping_key + 3},
        {0, 0, 0, 0},
        {ping_port, ping_key + 3, port, key + 3},
    };

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const size_t places = offsetof(struct rawe_helper_request, places) +
                              requests[i].place_count * sizeof(struct rawe_fanout_place);
        for (size_t at = places; at < sizeof requests[i]; at++) {
            struct rawe_helper_request request = requests[i];
            ((uint8_t *)&request)[at] = 1;
            assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
        }
        for (size_t j = 0; j < 4 && fields[i][j] != 0; j++) {
            struct rawe_helper_request request = requests[i];
            ((uint8_t *)&request)[fields[i][j]] = 0x80;
            assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
        }
    }
}

TEST(check_request__refuses_places_that_no_group_has)
{
    struct rawe_helper_request request = founder_request(3);

    request.places[1].key = request.places[0].key; /* a duplicate */
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    request = founder_request(3);
    request.places[2].key = 1; /* not sorted */
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    request = founder_request(3);
    request.places[2].place = RAWE_FANOUT_MEMBERS_MAX;
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    request = founder_request(RAWE_FANOUT_PLACES_MAX);
    request.place_count++;
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
    request.place_count = UINT16_MAX;
    assert_int_equal(check(&request), RAWE_HELPER_BAD_REQUEST);
}

/** Return the list's verdict on a request from the test's user. */
static enum rawe_helper_status permitted(const char *list,
                                         const struct rawe_helper_request *request)
{
    struct permission permission = {false};
    FILE *file = fmemopen((void *)(uintptr_t)list, strlen(list), "r");

    caller = (struct caller){.uid = UID, .gid = GID, .groups = {OTHER_GROUP}, .group_count = 1};
    assert_non_null(file);
    const enum rawe_helper_status status = read_list(file, request, &permission);
    fclose(file);
    return status == RAWE_HELPER_GRANTED ? decide_request(request, &permission) : status;
}

TEST(read_list__each_line_means_what_it_says)
{
    static const struct {
        enum rawe_helper_status status;
        const char *list;
    } lists[] = {
        {RAWE_HELPER_GRANTED, "user 4711\ninterface eth1\n"},
        {RAWE_HELPER_GRANTED, "group 4712\ninterface eth1"}, /* no newline at the end */
        {RAWE_HELPER_GRANTED, "group 4713\ninterface eth*\n"},
        {RAWE_HELPER_GRANTED, "interface *\n\n# all\n  user 1 4711 # us\n\tethertype 0x88B5\n"},
        {RAWE_HELPER_GRANTED, "user 4711\nuser 1\ninterface eth1\ninterface eth2\n"},
        {RAWE_HELPER_GRANTED, "user 4711\ninterface eth1\nethertype 0x88B6 34997\n"},
        {RAWE_HELPER_USER_REFUSED, "#\n"},
        {RAWE_HELPER_USER_REFUSED, "interface eth1\n"},
        {RAWE_HELPER_USER_REFUSED, "user 4712\ngroup 4711\ninterface eth1\n"},
        {RAWE_HELPER_USER_REFUSED, "user root\ngroup root\ninterface eth1\n"},
        {RAWE_HELPER_USER_REFUSED, "user 4294972007\ninterface eth1\n"}, /* 4711 + 2^32 */
        {RAWE_HELPER_USER_REFUSED, "user nobody-has-this-name\ninterface eth1\n"},
        {RAWE_HELPER_USER_REFUSED, "user *\ninterface eth1\n"},
        {RAWE_HELPER_USER_REFUSED, "# user 4711\ninterface eth1\n"},
        {RAWE_HELPER_INTERFACE_REFUSED, "user 4711\n"},
        {RAWE_HELPER_INTERFACE_REFUSED, "user 4711\ninterface eth10 eth eth2*\n"},
        {RAWE_HELPER_ETHERTYPE_REFUSED, "user 4711\ninterface eth1\nethertype 0x88B6\n"},
        {RAWE_HELPER_BAD_LIST, "user 4711\ninterface eth1\nallow all\n"},
        {RAWE_HELPER_BAD_LIST, "user 4711\ninterface eth1\nuser\n"},
        {RAWE_HELPER_BAD_LIST, "user 4711\ninterface eth1\nethertype IPv4\n"},
        {RAWE_HELPER_BAD_LIST, "user 4711\ninterface eth1\nethertype 0x188B5\n"},
        {RAWE_HELPER_BAD_LIST, "user 4711\ninterface eth1\nethertype -1\n"},
    };
    const struct rawe_helper_request request = link_request();

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (permitted(lists[i].list, &request) != lists[i].status) {
            fail_msg("not %s: %s", status_names[lists[i].status], lists[i].list);
        }
    }
}

TEST(read_list__names_are_those_of_the_system)
{
    struct permission permission = {false};
    const struct rawe_helper_request request = link_request();
    char text[] = "user root\ngroup root\n";
    FILE *file = fmemopen(text, strlen(text), "r");

    caller = (struct caller){.uid = 0, .gid = GID};
    assert_non_null(file);
    assert_int_equal(read_list(file, &request, &permission), RAWE_HELPER_GRANTED);
    fclose(file);
    assert_true(permission.user);
    caller = (struct caller){.uid = UID, .gid = GID, .groups = {0}, .group_count = 1};
    assert_true(is_in_group("root"));
    assert_false(is_user("root"));
}

/** If an overlong line were split, the end of a comment would become a rule. */
TEST(read_list__a_line_too_long_is_wrong)
{
    char list[LINE_BYTES + 64];
    const struct rawe_helper_request request = link_request();

    memset(list, '#', sizeof list);
    strcpy(list + LINE_BYTES - 1, "user 4711\ninterface eth1\n");
    assert_int_equal(permitted(list, &request), RAWE_HELPER_BAD_LIST);
}

TEST(decide__ethertypes_by_default_and_for_bulk)
{
    struct rawe_helper_request request = link_request();
    const struct rawe_helper_request bulk = bulk_request();

    request.ethertype = 0x88B6;
    assert_int_equal(permitted("user 4711\ninterface eth1\n", &request),
                     RAWE_HELPER_ETHERTYPE_REFUSED);
    assert_int_equal(permitted("user 4711\ninterface eth1\nethertype 0x88B6\n", &request),
                     RAWE_HELPER_GRANTED);
    assert_int_equal(permitted("user 4711\ninterface eth1\nethertype 0x88B6\n", &bulk),
                     RAWE_HELPER_GRANTED);
}

/** Descriptor that system log calls block on; -1: they do not block. */
static int log_gate = -1;

void syslog(int priority, const char *format, ...)
{
    char byte;

    if (log_gate >= 0) {
        (void)!read(log_gate, &byte, 1);
    }
}

/** Only grants wait for a busy log. */
TEST(converse__a_refusal_does_not_wait_for_the_log)
{
    const struct rawe_helper_request request = link_request();
    const struct offer none = {.fd = -1, .code = EPERM};
    struct rawe_helper_answer reply;
    int ends[2], gate[2], status;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(pipe(gate), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        log_gate = gate[0];
        close(gate[1]);
        close(ends[0]);
        (void)dup2(ends[1], STDIN_FILENO);
        _exit(serve_socket(&none, 1));
    }
    close(ends[1]);
    assert_int_equal(send(ends[0], &request, sizeof request, 0), sizeof request);
    struct pollfd wait = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 10000), 1);
    assert_int_equal(recv(ends[0], &reply, sizeof reply, 0), sizeof reply);
    assert_int_not_equal(reply.status, RAWE_HELPER_GRANTED);
    close(gate[0]);
    close(gate[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ends[0]);
}
