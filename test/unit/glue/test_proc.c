/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the records of processes: published data, requests to the runtime and its answers,
 * deaths, silent hosts. The runtime and its clock are fake.
 */
#include "btl_rawe_proc.h"

#include <pthread.h>
#include <unistd.h>
#include <string.h>

#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "fake_ompi.h"
#include "linux/udp/rawe_udp_address.h"

#define CALLERS_MOST 10000u
#define QUESTIONS_MAX (2 * CALLERS_MOST)
#define THREADS 4u
#define PROCESSES 300u /**< processes per thread */
#define CONNECT_TIMEOUT_MS 10000u

static mca_btl_base_component_3_0_0_t component;
static mca_btl_rawe_module_t modules[2];

/* The runtime. */
static uint8_t
    published[1024]; /**< data of each process; the first entry's port is the process's rank */
static size_t published_bytes; /**< 0: nothing is published */
static struct {
    opal_process_name_t name;
    mca_btl_rawe_compat_modex_answer_fn *answer;
    void *context;
} questions[QUESTIONS_MAX];
static unsigned question_count;
static bool at_once;               /**< the runtime answers before the request returns */
static bool refuses;               /**< the runtime refuses requests */
static atomic_uint asked;          /**< requests answered at once or refused */
static int limit_s;                /**< time limit of the last request */
static void (*while_asking)(void); /**< called by the next request */

int mca_btl_rawe_compat_modex_send(const mca_base_component_t *of, const void *data,
                                   size_t len_bytes)
{
    assert_ptr_equal(of, &component.btl_version);
    assert_in_range(len_bytes, 1, sizeof(published));
    memcpy(published, data, len_bytes);
    published_bytes = len_bytes;
    return OPAL_SUCCESS;
}

static void answer(const opal_process_name_t *name, mca_btl_rawe_compat_modex_answer_fn *call,
                   void *context)
{
    uint8_t data[sizeof(published)];

    memcpy(data, published, published_bytes);
    if (published_bytes >= 24) {
        data[22] = (uint8_t)(name->vpid >> 8);
        data[23] = (uint8_t)name->vpid;
    }
    call(context, 0 == published_bytes ? NULL : data, published_bytes);
}

static void answer_question(unsigned i)
{
    answer(&questions[i].name, questions[i].answer, questions[i].context);
}

int mca_btl_rawe_compat_modex_request(const mca_base_component_t *of,
                                      const opal_process_name_t *name, int seconds,
                                      mca_btl_rawe_compat_modex_answer_fn *call, void *context)
{
    assert_ptr_equal(of, &component.btl_version);
    limit_s = seconds;
    if (while_asking != NULL) {
        void (*call_once)(void) = while_asking;
        while_asking = NULL;
        call_once();
    }
    if (refuses || at_once) {
        asked++;
        if (refuses) {
            return OPAL_ERR_NOT_FOUND;
        }
        answer(name, call, context);
        return OPAL_SUCCESS;
    }
    assert_in_range(question_count, 0, QUESTIONS_MAX - 1);
    questions[question_count].name = *name;
    questions[question_count].answer = call;
    questions[question_count].context = context;
    question_count++;
    return OPAL_SUCCESS;
}

static void set_up(void)
{
    fake_ompi_begin();
    memset(modules, 0, sizeof(modules));
    mca_btl_rawe_state.component = &component;
    mca_btl_rawe_params = (struct mca_btl_rawe_params){
        .ethertype = 0x88B5,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
    };
    for (unsigned i = 0; i < 2; ++i) {
        modules[i].super.btl_max_send_size = 65536;
        modules[i].address = (struct mca_btl_rawe_address){
            .mac = {2, 0, 0, 0, 0, (uint8_t)i},
            .port = (uint16_t)(100 + i),
            .key = 0x12345678 + i,
            .ping_port = (uint16_t)(200 + i),
            .ping_key = 0x87654321 + i,
            .mtu_bytes = 9000,
            .speed_mbps = 25000,
            .index = (uint8_t)i,
        };
        mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &modules[i];
    }
    question_count = asked = 0;
    at_once = refuses = false;
    published_bytes = 0;
    mca_btl_rawe_proc_open();
}

static void tear_down(void)
{
    mca_btl_rawe_proc_close();
    assert_null(fake_ompi.departed);
}

FIXTURE(set_up, tear_down);

static opal_process_name_t name(uint32_t vpid)
{
    return (opal_process_name_t){.jobid = 1, .vpid = vpid};
}

static unsigned wait_for_into(uint32_t vpid, struct mca_btl_rawe_published *out)
{
    opal_proc_t *proc = OBJ_NEW(opal_proc_t);

    proc->proc_name = name(vpid);
    unsigned count = mca_btl_rawe_proc_wait(proc, out);
    OBJ_RELEASE(proc);
    return count;
}

static struct mca_btl_rawe_published found; /**< result of the last wait_for() */

static unsigned wait_for(uint32_t vpid)
{
    return wait_for_into(vpid, &found);
}

/** Return true if the data that the process itself has published is found. */
static bool find(uint32_t vpid)
{
    struct mca_btl_rawe_published of;
    unsigned count = mca_btl_rawe_proc_find(name(vpid), &of);

    assert_int_equal(of.count, count);
    if (0 != count) {
        assert_int_equal(of.addresses[0].port, vpid);
    }
    return 0 != count;
}

/** Publish this process's data, which the fake runtime returns for every process. */
static void publish(void)
{
    assert_int_equal(mca_btl_rawe_proc_publish(), OPAL_SUCCESS);
}

TEST(mca_btl_rawe_proc_wait__has_what_was_published)
{
    publish();
    at_once = true;
    assert_int_equal(wait_for(100), 2);
    for (unsigned i = 0; i < 2; ++i) {
        const struct mca_btl_rawe_address *sent = &modules[i].address;
        assert_memory_equal(found.addresses[i].mac, sent->mac, RAWE_MAC_BYTES);
        assert_int_equal(found.addresses[i].port, sent->port);
        assert_int_equal(found.addresses[i].key, sent->key);
        assert_int_equal(found.addresses[i].ping_port, sent->ping_port);
        assert_int_equal(found.addresses[i].ping_key, sent->ping_key);
        assert_int_equal(found.addresses[i].mtu_bytes, 9000);
        assert_int_equal(found.addresses[i].speed_mbps, 25000);
        assert_int_equal(found.addresses[i].index, i);
    }
    assert_int_equal(fake_ompi.shown, 0);
    assert_int_equal(wait_for(100), 2);
    assert_int_equal(asked, 1);
}

/** Another process may have published anything, such as truncated data. */
TEST(mca_btl_rawe_proc_wait__takes_no_more_than_there_is)
{
    publish();
    at_once = true;
    size_t whole_bytes = published_bytes;
    for (uint32_t vpid = 0; vpid <= whole_bytes; ++vpid) {
        published_bytes = vpid;
        assert_int_equal(wait_for(vpid), vpid < 16 ? 0 : (vpid - 16) / 32);
    }
}

static const uint8_t ipv6_address[] = {0xFD, [14] = 3, 7};

/** Make a module's frames UDP over IPv6. */
static void use_ipv6(unsigned module)
{
    modules[module].address.udp = MCA_BTL_RAWE_UDP_IPV6;
    assert_true(rawe_udp_ipv6_mac(modules[module].address.mac, ipv6_address, RAWE_UDP_GIVEN));
}

/** An IPv6 address does not fit into a MAC address, so the process publishes both. */
TEST(mca_btl_rawe_proc_wait__has_ipv6_addresses)
{
    uint8_t peer_mac[RAWE_MAC_BYTES];
    const uint8_t theirs[] = {0xFD, [13] = 1, 2, 3};

    use_ipv6(0);
    publish();
    assert_memory_equal(published + 48, ipv6_address, 16);
    memcpy(published + 48, theirs, 16);
    at_once = true;
    assert_false(rawe_udp_ipv6_mac(peer_mac, theirs, RAWE_UDP_UNCHECKED));
    assert_int_equal(wait_for(7), 2);
    assert_true(rawe_udp_ipv6_mac(peer_mac, theirs, RAWE_UDP_UNCHECKED));
    assert_memory_equal(found.addresses[0].mac, peer_mac, RAWE_MAC_BYTES);
    assert_int_equal(found.addresses[0].udp, MCA_BTL_RAWE_UDP_IPV6);
    assert_int_equal(found.addresses[1].udp, 0);
    assert_int_equal(found.addresses[1].port, 101);
    size_t whole_bytes = published_bytes;
    for (uint32_t vpid = 16; vpid <= whole_bytes; ++vpid) {
        published_bytes = vpid;
        assert_int_equal(wait_for(vpid), (vpid >= 64) + (vpid >= 96));
    }
}

/** Assert that the user is told once how a process differs, however often Open MPI asks. */
static void assert_differs(uint32_t vpid, const char *what)
{
    fake_ompi.shown = 0;
    assert_int_equal(wait_for(vpid), 0);
    assert_int_equal(wait_for(vpid), 0);
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("peer_incompatible", what);
    assert_false(find(vpid));
    assert_int_equal(fake_ompi.shown, 1);
}

TEST(mca_btl_rawe_proc_wait__says_once_what_differs)
{
    publish();
    at_once = true;
    mca_btl_rawe_params.ethertype = 0x88B6;
    assert_differs(1, "EtherType");
    mca_btl_rawe_params.ethertype = 0x88B5;
    modules[0].super.btl_max_send_size = 4096;
    assert_differs(3, "btl_rawe_max_send_size, or btl_rawe_eager_limit above it");
}

/** Frames to another host need one kind of port, and with UDP one version of IP. */
TEST(mca_btl_rawe_proc_wait__refuses_another_version_of_ip)
{
    memset(modules[1].address.mac, 0, RAWE_MAC_BYTES);
    modules[0].address.udp = modules[1].address.udp = MCA_BTL_RAWE_UDP_IPV4;
    publish();
    at_once = true;
    use_ipv6(0);
    assert_int_equal(wait_for(4), 2); /* on this host over lo */
    published[8] ^= 1;
    assert_differs(5, "IP version");
    modules[0].address.udp = 0;
    assert_differs(6, "btl_rawe_kind");
    modules[0].address.udp = MCA_BTL_RAWE_UDP_IPV4;
    assert_int_equal(wait_for(7), 2);
}

/** In wire version 5, the published data had an 8-byte head. */
TEST(mca_btl_rawe_proc_wait__refuses_an_older_release)
{
    static const uint8_t older[8 + 32] = {5, 1, 0x88, 0xB5};

    memcpy(published, older, sizeof(older));
    published_bytes = sizeof(older);
    at_once = true;
    assert_differs(4, "wire version");
}

/** The runtime's thread: answer the first `*context` requests. */
static void *answer_main(void *context)
{
    for (unsigned i = 0; i < *(unsigned *)context; ++i) {
        while (i >= __atomic_load_n(&question_count, __ATOMIC_ACQUIRE)) {
            sched_yield();
        }
        answer_question(i);
    }
    return NULL;
}

TEST(mca_btl_rawe_proc_wait__waits_for_another_thread)
{
    unsigned answers = 1;
    pthread_t thread;

    publish();
    assert_int_equal(pthread_create(&thread, NULL, answer_main, &answers), 0);
    assert_int_equal(wait_for(7), 2);
    assert_int_equal(found.addresses[0].port, 7);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/** Answer a request made before the process has published: rawe must request the data again. */
static void *publish_late_main(void *context)
{
    answer_question(0);
    publish();
    while (2 != __atomic_load_n(&question_count, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    answer_question(1);
    return NULL;
}

TEST(mca_btl_rawe_proc_wait__asks_again_what_was_asked_too_early)
{
    pthread_t thread;

    assert_false(find(7));
    assert_int_equal(pthread_create(&thread, NULL, publish_late_main, NULL), 0);
    assert_int_equal(wait_for(7), 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/** If no other BTL can be used, the runtime gets as much time as the search for paths. */
TEST(mca_btl_rawe_proc_wait__gives_the_runtime_time)
{
    at_once = true;
    assert_int_equal(wait_for(1), 0);
    assert_int_equal(limit_s, 2);
    fake_ompi.alone = true;
    assert_int_equal(wait_for(2), 0);
    assert_int_equal(limit_s, CONNECT_TIMEOUT_MS / 1000);
}

/** The failure of a request that timed out is not final. */
TEST(mca_btl_rawe_proc_wait__has_what_was_answered_late)
{
    at_once = true;
    assert_int_equal(wait_for(7), 0); /* the runtime has given up */
    publish();
    assert_true(find(7)); /* the process connects to us */
    assert_int_equal(wait_for(7), 2);
}

static void *introduce_main(void *context)
{
    struct mca_btl_rawe_published own;
    uint32_t first = *(uint32_t *)context;

    for (uint32_t i = 0; i < PROCESSES; ++i) {
        assert_int_equal(wait_for_into(first + i, &own), 0);
    }
    return NULL;
}

/** Introduce all processes from several threads. */
static void introduce_all(void)
{
    pthread_t threads[THREADS];
    uint32_t firsts[THREADS];

    for (unsigned i = 0; i < THREADS; ++i) {
        firsts[i] = i * PROCESSES;
        assert_int_equal(pthread_create(&threads[i], NULL, introduce_main, &firsts[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

TEST(mca_btl_rawe_proc_wait__waits_for_each_process_once)
{
    at_once = true;
    introduce_all();
    assert_int_equal(asked, THREADS * PROCESSES);
    introduce_all();
    assert_int_equal(asked, THREADS * PROCESSES);
    mca_btl_rawe_proc_open();
    introduce_all();
    assert_int_equal(asked, 2 * THREADS * PROCESSES);
}

TEST(mca_btl_rawe_proc_wait__does_without_a_runtime)
{
    refuses = true;
    assert_int_equal(wait_for(7), 0);
    assert_false(find(7));
    assert_int_equal(asked, 2);
}

static pthread_t waiter;

static void *wait_main(void *context)
{
    struct mca_btl_rawe_published own;
    (void)wait_for_into(7, &own);
    return NULL;
}

static void begin_to_wait(void)
{
    assert_int_equal(pthread_create(&waiter, NULL, wait_main, NULL), 0);
    usleep(50000); /* let the thread find that the request has been made */
}

TEST(mca_btl_rawe_proc_wait__ends_when_another_threads_question_fails)
{
    refuses = true;
    while_asking = begin_to_wait;
    assert_false(find(7));
    alarm(30);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    alarm(0);
}

TEST(mca_btl_rawe_proc_find__asks_once_and_knows_from_then_on)
{
    publish();
    assert_false(find(3));
    assert_false(find(3));
    assert_int_equal(question_count, 1);
    assert_int_equal(questions[0].name.vpid, 3);
    answer_question(0);
    assert_true(find(3));
    assert_true(find(3));
    assert_int_equal(question_count, 1);
}

TEST(mca_btl_rawe_proc_find__asks_again_what_was_not_there)
{
    assert_false(find(3));
    answer_question(0);
    publish();
    assert_false(find(3));
    answer_question(1);
    assert_true(find(3));
}

/**
 * Have all processes of a job connect at once to one that is computing. Each CONNECT from an
 * unknown process is repeated after 1 ms, then at intervals that double up to a second. The runtime
 * answers one request at a time, in 0.2 ms. Returns the time until all are known, in ms.
 */
static unsigned ms_until_all_are_known(unsigned callers)
{
    static unsigned next_ms[CALLERS_MOST];
    static bool known[CALLERS_MOST];
    unsigned left = callers, answered = 0, now_ms = 0;

    memset(next_ms, 0, sizeof(next_ms));
    memset(known, 0, sizeof(known));
    for (; 0 != left; ++now_ms) {
        assert_in_range(now_ms, 0, 1000000);
        for (unsigned i = 0; i < callers; ++i) {
            if (!known[i] && next_ms[i] <= now_ms) {
                unsigned interval_ms = 0 == now_ms ? 1 : now_ms;
                known[i] = find(i);
                left -= known[i];
                next_ms[i] = now_ms + (interval_ms < 1000 ? interval_ms : 1000);
            }
        }
        for (unsigned i = 0; i < 5 && answered < question_count; ++i) {
            answer_question(answered++);
        }
    }
    return now_ms;
}

TEST(mca_btl_rawe_proc_find__serves_any_number_of_callers_in_step)
{
    publish();
    assert_in_range(ms_until_all_are_known(1000), 1, 300);
    mca_btl_rawe_proc_open();
    question_count = 0;
    assert_in_range(ms_until_all_are_known(CALLERS_MOST), 1, 3000); /* the runtime takes 2 s */
    assert_int_equal(question_count, CALLERS_MOST);
}

/** The runtime may remember each requested name: forged names must not fill its memory. */
TEST(mca_btl_rawe_proc_find__gives_up_on_invented_names)
{
    const uint32_t most = 65536;

    at_once = true;
    for (uint32_t vpid = 0; vpid < most + 100; ++vpid) {
        assert_false(find(vpid));
    }
    assert_int_equal(asked, most);
    /* The data of a process that Open MPI introduces is still requested. */
    publish();
    assert_int_equal(wait_for(most + 200), 2);
}

TEST(mca_btl_rawe_proc_close__forgets_answers_and_drops_late_ones)
{
    publish();
    assert_false(find(3));
    assert_false(find(4));
    answer_question(0);
    mca_btl_rawe_proc_close();
    answer_question(1); /* after the component has closed */
    mca_btl_rawe_proc_open();
    assert_false(find(3));
    assert_false(find(4));
    assert_int_equal(question_count, 4);
    answer_question(3);
    assert_true(find(4));
}

TEST(mca_btl_rawe_proc_close__drops_answers_of_an_earlier_life)
{
    assert_false(find(3));
    mca_btl_rawe_proc_open();
    assert_false(find(3));
    publish();
    answer_question(0);
    assert_false(find(3));
    answer_question(1);
    assert_true(find(3));
}

TEST(mca_btl_rawe_proc_is_local__by_the_host_not_by_macs)
{
    publish();
    at_once = true;
    assert_int_equal(wait_for(1), 2);
    assert_true(mca_btl_rawe_proc_is_local(&found));
    published[15] ^= 1; /* another host with our MACs */
    assert_int_equal(wait_for(2), 2);
    assert_false(mca_btl_rawe_proc_is_local(&found));
    published[15] ^= 1;
    published_bytes = 0;
    assert_int_equal(wait_for(3), 0);
    assert_false(mca_btl_rawe_proc_is_local(&found));
}

TEST(mca_btl_rawe_proc_capabilities__of_processes_that_rawe_reaches)
{
    uint64_t host;

    at_once = true;
    mca_btl_rawe_state.multicast_possible = true;
    publish();
    assert_int_equal(mca_btl_rawe_proc_capabilities(name(5), true, &host), 0);
    mca_btl_rawe_state.collectives = true;
    publish();
    assert_int_equal(mca_btl_rawe_proc_capabilities(name(1), true, &host),
                     MCA_BTL_RAWE_CAPABILITY_MULTICAST);
    assert_int_equal(wait_for(1), 2);
    assert_true(host == found.host);
    mca_btl_rawe_params.ethertype = 0x88B6;
    assert_int_equal(mca_btl_rawe_proc_capabilities(name(2), true, &host), 0);
    mca_btl_rawe_params.ethertype = 0x88B5;
    published_bytes = 16; /* no interfaces */
    assert_int_equal(mca_btl_rawe_proc_capabilities(name(3), true, &host), 0);
    published_bytes = 0;
    assert_int_equal(mca_btl_rawe_proc_capabilities(name(4), true, &host), 0);
    assert_int_equal(fake_ompi.shown, 0);
}

/** A process that sends no vote, although others know that it takes part, would make them wait. */
TEST(mca_btl_rawe_proc_capabilities__of_this_process_without_the_runtime)
{
    uint64_t host;

    at_once = true;
    mca_btl_rawe_state.multicast_possible = mca_btl_rawe_state.collectives = true;
    publish();
    asked = 0;
    assert_int_equal(mca_btl_rawe_proc_capabilities(OPAL_PROC_MY_NAME, true, &host),
                     MCA_BTL_RAWE_CAPABILITY_MULTICAST);
    assert_int_equal(mca_btl_rawe_proc_capabilities(name(1), false, &host), 0);
    assert_int_equal(asked, 0);
}

TEST(mca_btl_rawe_proc_given_up__when_no_module_reaches_it)
{
    assert_false(mca_btl_rawe_proc_given_up(name(1)));
    mca_btl_rawe_proc_note_tried(name(1), 1, false);
    mca_btl_rawe_proc_note_tried(name(1), 1, false);
    mca_btl_rawe_proc_note_tried(name(2), 0, false);
    assert_false(mca_btl_rawe_proc_given_up(name(1)));
    mca_btl_rawe_proc_note_tried(name(1), 0, false);
    assert_true(mca_btl_rawe_proc_given_up(name(1)));
    assert_false(mca_btl_rawe_proc_given_up(name(2)));
    mca_btl_rawe_state.finalizing = true; /* the module that reached it may be closed */
    assert_false(mca_btl_rawe_proc_given_up(name(1)));
    mca_btl_rawe_state.finalizing = false;
    mca_btl_rawe_proc_note_tried(name(1), 1, true);
    assert_false(mca_btl_rawe_proc_given_up(name(1)));
}

static const uint8_t mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};

TEST(mca_btl_rawe_proc_note_silent__until_it_is_heard)
{
    for (uint64_t host = 0; host < 100; ++host) {
        assert_false(mca_btl_rawe_proc_host_silent(host, 0));
        mca_btl_rawe_proc_note_silent(host, 0);
        mca_btl_rawe_proc_note_silent(host, 0); /* again, for another process */
    }
    for (uint64_t host = 0; host < 100; ++host) {
        assert_true(mca_btl_rawe_proc_host_silent(host, 0));
        assert_false(mca_btl_rawe_proc_host_silent(host, 1));
    }
    mca_btl_rawe_proc_note_heard(7, 0, mac, 1500);
    mca_btl_rawe_proc_note_heard(700, 0, mac, 1500); /* this host was never silent */
    assert_false(mca_btl_rawe_proc_host_silent(7, 0));
    assert_true(mca_btl_rawe_proc_host_silent(8, 0));
    assert_false(mca_btl_rawe_proc_host_silent(700, 0));
    mca_btl_rawe_proc_open();
    assert_false(mca_btl_rawe_proc_host_silent(8, 0));
}

TEST(mca_btl_rawe_proc_note_beyond__until_it_is_heard)
{
    assert_false(mca_btl_rawe_proc_host_beyond(7, 0));
    mca_btl_rawe_proc_note_silent(7, 0);
    mca_btl_rawe_proc_note_beyond(7, 0);
    assert_true(mca_btl_rawe_proc_host_beyond(7, 0));
    assert_false(mca_btl_rawe_proc_host_silent(7, 0)); /* another module has heard it */
    assert_false(mca_btl_rawe_proc_host_beyond(7, 1));
    mca_btl_rawe_proc_note_heard(7, 0, mac, 1500);
    assert_false(mca_btl_rawe_proc_host_beyond(7, 0));
}

/** A measured MTU holds for one pair of interfaces. */
TEST(mca_btl_rawe_proc_note_heard__of_a_path)
{
    static const uint8_t other[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 2};

    mca_btl_rawe_proc_note_heard(7, 0, mac, 9000);
    mca_btl_rawe_proc_note_heard(7, 0, mac, 1500);
    assert_int_equal(mca_btl_rawe_proc_heard_mtu(7, 0, mac), 1500);
    assert_int_equal(mca_btl_rawe_proc_heard_mtu(7, 1, mac), 0);
    assert_int_equal(mca_btl_rawe_proc_heard_mtu(7, 0, other), 0);
    assert_int_equal(mca_btl_rawe_proc_heard_mtu(8, 0, mac), 0);
    mca_btl_rawe_proc_open();
    assert_int_equal(mca_btl_rawe_proc_heard_mtu(7, 0, mac), 0);
}

static void die(uint32_t vpid)
{
    opal_process_name_t dead = name(vpid);
    fake_ompi.departed(&dead);
}

/** A host dies with all its ranks; each death is reported several times. */
TEST(mca_btl_rawe_proc_died__only_those_that_were_named)
{
    fake_ompi.fault_tolerant = true;
    mca_btl_rawe_proc_listen();
    assert_false(mca_btl_rawe_proc_died(name(3)));
    for (unsigned i = 0; i < 200; ++i) {
        die(i / 2 * 3);
    }
    assert_int_equal(mca_btl_rawe_proc_deaths(), 100);
    for (unsigned i = 0; i < 300; ++i) {
        assert_int_equal(mca_btl_rawe_proc_died(name(i)), i % 3 == 0);
    }
    assert_false(mca_btl_rawe_proc_died((opal_process_name_t){.jobid = 2, .vpid = 3}));
    mca_btl_rawe_proc_open(); /* Open MPI may be initialized again in this process (sessions) */
    assert_null(fake_ompi.departed);
    mca_btl_rawe_proc_listen();
    assert_false(mca_btl_rawe_proc_died(name(3)));
}

/** A job that is not fault-tolerant ends with the first death; its BTLs have nothing to add. */
TEST(mca_btl_rawe_proc_listen__not_where_a_loss_ends_the_job)
{
    mca_btl_rawe_proc_listen();
    assert_null(fake_ompi.departed);
}
