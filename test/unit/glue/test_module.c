/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reporting sockets that cannot be opened. The service thread detects the failures, but
 * must not report them. The sockets are fake.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_thread.h"
#include "linux/host/rawe_host_group.h"
#include "fake_ompi.h"

/** An upper bound on rawe's attempts to reopen sockets. */
#define ATTEMPTS_MOST 100u

/** Descriptors of the fake sockets. */
#define LINK_FD 1
#define RESPONDER_FD 2

static mca_btl_rawe_module_t module;
static unsigned opened;   /**< attempts to open all sockets */
static unsigned reopened; /**< attempts to reopen one socket */
static int (*broken)(void *context);
static int bound_to;           /**< index of the interface that the sockets are bound to */
static bool links_are_members; /**< the fanout group includes the link's socket */
static bool listens;           /**< the service thread listens to the link */
static bool woken;             /**< the service thread was woken */
static bool reopened_in_use;   /**< a link was reopened while the thread listened to it */

/* This host's group and its sockets. */

unsigned mca_btl_rawe_compat_local_ranks(void)
{
    return 4;
}

unsigned mca_btl_rawe_compat_local_rank(void)
{
    return 1;
}

int rawe_host_group_open(struct rawe_host_group **group,
                         const struct rawe_host_group_config *config, struct rawe_service *service,
                         struct rawe_port_error *error)
{
    *group = (struct rawe_host_group *)(void *)&module;
    broken = config->broken;
    return 0;
}

void rawe_host_group_register(struct rawe_host_group *group, const struct rawe_port *port)
{
    assert_non_null(port);
}

static int refuse(struct rawe_port *port, int interface_index, struct rawe_port_error *error)
{
    reopened_in_use = reopened_in_use || (port->fd == LINK_FD && listens);
    *error = (struct rawe_port_error){"socket", EMFILE};
    ++reopened;
    return -1;
}

static int interface_of(const struct rawe_port *port)
{
    return bound_to;
}

static const struct rawe_port_kind kind = {.reopen = refuse, .interface = interface_of};
static struct rawe_port link_fake = {.kind = &kind, .fd = LINK_FD};
static struct rawe_port responder_fake = {.kind = &kind, .fd = RESPONDER_FD};

bool rawe_fanout_is_member(int fd)
{
    return links_are_members || fd == RESPONDER_FD;
}

struct rawe_port *rawe_responder_port(struct rawe_responder *responder)
{
    return &responder_fake;
}

int rawe_responder_reopen(struct rawe_responder *responder, int interface_index,
                          struct rawe_port_error *error)
{
    return refuse(&responder_fake, interface_index, error);
}

void rawe_responder_listen(struct rawe_responder *responder,
                           const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX])
{
    listens = wanted[0].fd >= 0;
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
    woken = in_us == 0;
}

/** Replaces the module's function that opens sockets, and fails. */
static bool open_sockets(mca_btl_rawe_module_t *of)
{
    const struct rawe_port_error error = {"mmap", ENOMEM};

    assert_ptr_equal(of, &module);
    ++opened;
    mca_btl_rawe_failure_note(false, of->interface.name, &error);
    return false;
}

static void set_up(void)
{
    fake_ompi_begin();
    memset(&module, 0, sizeof(module));
    OBJ_CONSTRUCT(&module.endpoints_lock, opal_mutex_t);
    strcpy(module.interface.name, "eth7");
    module.open_sockets = open_sockets;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &module;
    mca_btl_rawe_state.ring_bytes = 12345;
    mca_btl_rawe_params.fanout = true;
    opened = reopened = 0;
    fake_ompi.now_ns = 1000;
    links_are_members = listens = woken = reopened_in_use = false;
    bound_to = 0;
    broken = NULL;
}

static void tear_down(void)
{
    mca_btl_rawe_failures_report();
    OBJ_DESTRUCT(&module.endpoints_lock);
}

/** Run `what` in the service thread while MPI's thread waits. */
static void in_service_thread_with(void *(*what)(void *), void *context)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, what, context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void in_service_thread(void *(*what)(void *))
{
    in_service_thread_with(what, NULL);
}

static void assert_reported(const char *topic, int code)
{
    const struct rawe_port_error error = {"a step", code};

    assert_false(mca_btl_rawe_failures_wait());
    mca_btl_rawe_failure_note(false, "eth3", &error);
    assert_true(mca_btl_rawe_failures_wait());
    fake_ompi.shown = 0;
    mca_btl_rawe_failures_report();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown(topic, "eth3");
    mca_btl_rawe_failures_report();
    assert_int_equal(fake_ompi.shown, 1);
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_failures_report__what_to_do_about_it)
{
    assert_reported("no_capability", EPERM);
    assert_reported("no_capability", EACCES);
    assert_reported("interface_down", ENETDOWN);
    assert_reported("ring_not_allocated", ENOMEM);
    fake_ompi_assert_shown("ring_not_allocated", "12345");
    assert_reported("link_failed", ENODEV);
}

TEST(mca_btl_rawe_failures_report__the_first_of_each_kind)
{
    const struct rawe_port_error first = {"socket", EMFILE}, second = {"bind", ENETDOWN};

    mca_btl_rawe_failure_note(true, "eth1", &first);
    mca_btl_rawe_failure_note(true, "eth2", &second);
    fake_ompi.unasked = true; /* failures in use are shown even if rawe was not selected */
    mca_btl_rawe_help_begin();
    mca_btl_rawe_failures_report();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("reopen_failed", "eth1");
}

/** Have the service thread report a PING that arrived at the module. */
static void *ping_main(void *context)
{
    assert_false(mca_btl_rawe_thread_serviced(&module));
    return context;
}

/** UDP needs no privilege, so a job that did not choose rawe must not find itself using it. */
TEST(mca_btl_rawe_params_kinds__udp_only_where_rawe_was_asked_for)
{
    static const struct {
        char *value;
        unsigned asked, unasked;
    } cases[] = {
        {NULL, RAWE_PORT_KIND_BOTH, RAWE_PORT_KIND_PACKET},
        {"", RAWE_PORT_KIND_BOTH, RAWE_PORT_KIND_PACKET},
        {"auto", RAWE_PORT_KIND_BOTH, RAWE_PORT_KIND_PACKET},
        {"packet", RAWE_PORT_KIND_PACKET, RAWE_PORT_KIND_PACKET},
        {"udp", RAWE_PORT_KIND_UDP, RAWE_PORT_KIND_UDP},
        {"tcp", 0, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        mca_btl_rawe_params.kind = cases[i].value;
        fake_ompi.unasked = false;
        assert_int_equal(mca_btl_rawe_params_kinds(), cases[i].asked);
        fake_ompi.unasked = true;
        assert_int_equal(mca_btl_rawe_params_kinds(), cases[i].unasked);
    }
}

/** MPI's thread opens sockets: it may take a minute, and the service thread must answer PINGs. */
TEST(mca_btl_rawe_thread_serviced__mpi_opens_what_is_asked_for)
{
    in_service_thread(ping_main);
    assert_int_equal(opened, 0);
    assert_true(mca_btl_rawe_state.links_wanted);
    mca_btl_rawe_modules_open_wanted();
    assert_int_equal(opened, 1);
    assert_false(mca_btl_rawe_state.links_wanted);
    module.open_tried_ns = 0;
    mca_btl_rawe_modules_open_wanted(); /* another one was asked for */
    assert_int_equal(opened, 1);
    module.open = true;
    in_service_thread(ping_main);
    assert_false(mca_btl_rawe_state.links_wanted);
}

static void open_and_fail(void)
{
    assert_false(mca_btl_rawe_module_open_if_needed(&module));
}

/** The function is called for every PING, so it must not try to open sockets each time. */
TEST(mca_btl_rawe_module_open_if_needed__what_failed_is_not_tried_at_once)
{
    open_and_fail();
    open_and_fail();
    assert_int_equal(opened, 1);
    module.open_tried_ns -= 2000000000u; /* two seconds ago: time to try again */
    open_and_fail();
    assert_int_equal(opened, 2);
    assert_int_equal(fake_ompi.shown, 0);
    mca_btl_rawe_failures_report();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("ring_not_allocated", "eth7");
}

/** Nothing is opened while the process is finalizing, or once the module has a link. */
TEST(mca_btl_rawe_module_open_if_needed__not_what_has_ended)
{
    module.closing = true;
    open_and_fail();
    module.closing = false;
    module.link = &link_fake;
    open_and_fail();
    assert_int_equal(opened, 0);
    module.address.udp = true; /* the port of UDP is published, so its link is opened first */
    open_and_fail();
    assert_int_equal(opened, 1);
    module.open_tried_ns = 0;
    module.address.udp = false;
    module.link = NULL;
    open_and_fail();
    assert_int_equal(opened, 2);
}

static void *broken_main(void *context)
{
    unsigned attempts = 0;

    while (broken(NULL) >= 0) {
        assert_true(++attempts < ATTEMPTS_MOST);
    }
    return context;
}

TEST(repair_broken__the_service_thread_reports_nothing)
{
    mca_btl_rawe_fanout_open();
    assert_non_null(broken);
    in_service_thread(broken_main);
    assert_int_equal(fake_ompi.shown, 0);
    assert_true(mca_btl_rawe_failures_wait());
    mca_btl_rawe_failures_report();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("reopen_failed", "eth7");
}

/** The first thread to find the sockets of MPI's links broken reopens them. */
TEST(repair_broken__nor_does_it_of_links)
{
    module.open = links_are_members = true;
    module.link = &link_fake;
    mca_btl_rawe_fanout_open();
    in_service_thread(broken_main);
    assert_int_equal(fake_ompi.shown, 0);
    mca_btl_rawe_failures_report();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("reopen_failed", strerror(EMFILE));
}

static void *follow_main(void *context)
{
    *(bool *)context = mca_btl_rawe_fanout_follow(&module);
    return NULL;
}

TEST(mca_btl_rawe_group_follow__opens_what_is_bound_to_another_interface)
{
    bool followed = true;

    module.open = true;
    module.link = &link_fake;
    module.interface.index = 3;
    bound_to = -1;
    in_service_thread_with(follow_main, &followed);
    assert_false(followed);
    assert_int_equal(reopened, 2); /* responder and link */
    assert_int_equal(fake_ompi.shown, 0);
    bound_to = 3;
    in_service_thread_with(follow_main, &followed);
    assert_true(followed);
    assert_int_equal(reopened, 2);
}

/** The caller retries indefinitely, so the failure must be reported only once. */
TEST(mca_btl_rawe_group_follow__failing_for_long_is_reported_once)
{
    bool followed = true;

    bound_to = -1;
    for (unsigned i = 0; i < 3 * ATTEMPTS_MOST; ++i) {
        in_service_thread_with(follow_main, &followed);
        assert_false(followed);
        assert_false(i < ATTEMPTS_MOST / 2 && mca_btl_rawe_failures_wait());
        mca_btl_rawe_failures_report();
    }
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("reopen_failed", "eth7");
}

/** Reopen a link that the service thread listens to; MPI's thread does so if it holds the lock. */
static void assert_not_listening(bool mpi_is_inside)
{
    bool followed;

    module.open = module.thread_listens = listens = true;
    module.link = &link_fake;
    bound_to = -1;
    if (mpi_is_inside) {
        mca_btl_rawe_lock();
    }
    in_service_thread_with(follow_main, &followed);
    assert_int_equal(reopened, mpi_is_inside ? 1 : 2);
    if (mpi_is_inside) {
        mca_btl_rawe_fanout_repair();
        mca_btl_rawe_unlock();
    }
    assert_int_equal(reopened, 2);
    assert_false(reopened_in_use);
    /* The thread's state is as if it had never listened to the link. */
    assert_false(listens);
    assert_false(module.thread_listens);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    assert_true(woken);
}

TEST(mca_btl_rawe_group_follow__the_thread_does_not_listen_to_what_is_opened_again)
{
    assert_not_listening(false);
}

TEST(mca_btl_rawe_group_follow__nor_when_another_thread_opens_it)
{
    assert_not_listening(true);
}
