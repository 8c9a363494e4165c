/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `helper`: requests to rawe-socket-helper, and its access list.
 *
 * Input: one byte with the kind of the others. REQUEST: 2 bytes with the received length, then the
 * request, whose missing rest is 0. LIST: the text of an access list.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <syslog.h>

/* No name service and no log, so that inputs mean the same everywhere. */
#define getpwnam(name) fuzz_no_user(name)
#define getgrnam(name) fuzz_no_group(name)
#define syslog fuzz_log

static struct passwd *fuzz_no_user(const char *name)
{
    return NULL;
}

static struct group *fuzz_no_group(const char *name)
{
    return NULL;
}

static void fuzz_log(int priority, const char *format, ...)
{
}

int helper_main(int argc, char **argv);
#define main helper_main
#define RAWE_HELPER_LIST "/the/list"
#include "../../tools/rawe-socket-helper.c"
#undef main

#include "fuzz.h"

enum subject { REQUEST, LIST, SUBJECTS };

#define UID 4711
#define GID 4712
/** Of no user: no list can contain it. */
#define NO_ID UINT32_MAX

/** Check that each jump of a program ends within it, and each path with an answer. */
static void check_program(const struct sock_filter *program, unsigned length)
{
    FUZZ_CHECK(length > 0 && length <= BPF_MAXINSNS &&
                   program[length - 1].code == (BPF_RET | BPF_K),
               "a program does not end with an answer");
    for (unsigned i = 0; i < length; i++) {
        const struct sock_filter *at = &program[i];
        const unsigned rest = length - i - 1;
        if (BPF_CLASS(at->code) == BPF_JMP) {
            FUZZ_CHECK(BPF_OP(at->code) == BPF_JA ? at->k < rest : at->jt < rest && at->jf < rest,
                       "a jump leads out of the program");
        } else if (BPF_CLASS(at->code) == BPF_RET) {
            FUZZ_CHECK(at->k < RAWE_FANOUT_MEMBERS_MAX, "an answer that is no place");
        }
    }
}

/** Check that a valid request is safe to use and to log. */
static void check_good(const struct rawe_helper_request *request)
{
    struct sock_filter program[RAWE_FANOUT_PROGRAM_MAX(RAWE_FANOUT_PLACES_MAX)];
    const char *name = request->interface;

    FUZZ_CHECK(request->what < RAWE_PORT_USES, "an unknown kind of socket was taken");
    FUZZ_CHECK(name[0] != '\0' && name[sizeof request->interface - 1] == '\0',
               "a name without end was taken");
    for (; *name != '\0'; name++) {
        FUZZ_CHECK(*name > ' ' && *name < 127 && *name != '/', "a name to be wary of was taken");
    }
    FUZZ_CHECK(request->place_count <= RAWE_FANOUT_PLACES_MAX, "more places than there are");
    for (unsigned i = 1; i < request->place_count; i++) {
        FUZZ_CHECK(request->places[i].key > request->places[i - 1].key, "keys that do not rise");
    }
    if (request->place_count != 0) {
        const unsigned length =
            rawe_fanout_program(program, request->places, request->place_count, 4);
        FUZZ_CHECK(length <= RAWE_FANOUT_PROGRAM_MAX(request->place_count), "a program too long");
        check_program(program, length);
    }
}

static void check_request_bytes(const uint8_t *bytes, size_t len_bytes)
{
    struct rawe_helper_request *request = fuzz_new(sizeof *request);
    size_t received_bytes = 0;

    if (len_bytes >= 2) {
        received_bytes = (size_t)bytes[0] | (size_t)bytes[1] << 8;
        bytes += 2;
        len_bytes -= 2;
    }
    memset(request, 0, sizeof *request);
    memcpy(request, bytes, len_bytes < sizeof *request ? len_bytes : sizeof *request);
    const enum rawe_helper_status status = check_request(request, received_bytes);
    FUZZ_CHECK(status == RAWE_HELPER_GRANTED || status == RAWE_HELPER_BAD_REQUEST ||
                   status == RAWE_HELPER_OTHER_VERSION,
               "a request can only be good, bad or another version's");
    if (status == RAWE_HELPER_GRANTED) {
        FUZZ_CHECK(received_bytes == sizeof *request && request->version == RAWE_HELPER_VERSION,
                   "another length or version was taken");
        check_good(request);
    }
    fuzz_delete(request);
}

/** Return the decision of an access list about a caller. */
static enum rawe_helper_status permitted(uint8_t *text, size_t len_bytes, uid_t uid, gid_t gid)
{
    const struct rawe_helper_request request = {
        .what = RAWE_PORT_EXPRESS, .interface = "eth1", .ethertype = ETHERTYPE_DEFAULT};
    struct permission permission = {false};
    FILE *list = fmemopen(text, len_bytes, "r");

    if (list == NULL) {
        abort();
    }
    caller = (struct caller){.uid = uid, .gid = gid, .groups = {gid}, .group_count = 1};
    const enum rawe_helper_status status = read_list(list, &request, &permission);
    fclose(list);
    return status == RAWE_HELPER_GRANTED ? decide_request(&request, &permission) : status;
}

static void check_list(const uint8_t *bytes, size_t len_bytes)
{
    uint8_t *text = fuzz_copy(bytes, len_bytes);
    const enum rawe_helper_status status = permitted(text, len_bytes, UID, GID);

    if (status == RAWE_HELPER_GRANTED) {
        FUZZ_CHECK(memmem(bytes, len_bytes, "interface", 9) != NULL &&
                       (memmem(bytes, len_bytes, "user", 4) != NULL ||
                        memmem(bytes, len_bytes, "group", 5) != NULL) &&
                       (memmem(bytes, len_bytes, "4711", 4) != NULL ||
                        memmem(bytes, len_bytes, "4712", 4) != NULL),
                   "granted to a user that is not listed");
    }
    const enum rawe_helper_status nobody = permitted(text, len_bytes, NO_ID, NO_ID);
    FUZZ_CHECK(nobody == (status == RAWE_HELPER_BAD_LIST ? status : RAWE_HELPER_USER_REFUSED),
               "granted to no user");
    fuzz_delete(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    if (len_bytes < 2) {
        return 0;
    }
    if (data[0] % SUBJECTS == REQUEST) {
        check_request_bytes(data + 1, len_bytes - 1);
    } else {
        check_list(data + 1, len_bytes - 1);
    }
    return 0;
}

/** Change a field of a request, mostly with the right length; or anything in a list. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len_bytes, size_t max_bytes, unsigned seed)
{
    static const struct {
        uint8_t offset, bytes;
    } fields[] = {{0, 4},  {4, 4},  {8, 1},  {9, 1},  {23, 1}, {24, 2}, {26, 2},
                  {28, 2}, {30, 2}, {32, 4}, {36, 4}, {40, 4}, {44, 4}, {48, 4}};
    static const uint32_t edges[] = {0, 1, 2, 3, 254, 255, 509, 510, 511, 0x88B5, UINT32_MAX};
    uint64_t random = seed;

    if (len_bytes < 4 || data[0] % SUBJECTS != REQUEST || fuzz_random(&random) % 4 == 0) {
        return LLVMFuzzerMutate(data, len_bytes, max_bytes);
    }
    const unsigned field = fuzz_random(&random) % (sizeof fields / sizeof fields[0]);
    const uint32_t value = fuzz_random(&random) % 2 != 0
                               ? edges[fuzz_random(&random) % (sizeof edges / sizeof edges[0])]
                               : fuzz_random(&random);
    for (unsigned i = 0; i < fields[field].bytes; i++) {
        const size_t at = 3u + fields[field].offset + i;
        if (at < len_bytes) {
            data[at] = (uint8_t)(value >> (8 * i));
        }
    }
    if (fuzz_random(&random) % 8 != 0) {
        data[1] = (uint8_t)(sizeof(struct rawe_helper_request) & 0xFF);
        data[2] = (uint8_t)(sizeof(struct rawe_helper_request) >> 8);
    }
    return len_bytes;
}
