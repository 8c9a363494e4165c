/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the messages shown to the user, and of their number, which depends on Open MPI's own
 * parameters. Open MPI's output is intercepted.
 */
#include "btl_rawe_compat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_rawe_help.h"
#include "btl_rawe_params.h"
#include "send/rawe_cc.h"

#include "opal/runtime/opal.h"
#include "opal/util/output.h"
#include "unit_test.h"

static char *selection;
static int level;
static unsigned shown; /**< messages since begin() */
static char text[8192];

void __wrap_opal_output(int stream, const char *format, ...);

void __wrap_opal_output(int stream, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ++shown;
}

static bool takes_messages; /**< the runtime accepts messages */

#if OPAL_MAJOR_VERSION >= 5
static pmix_op_cbfunc_t answer;       /**< the newest message's callback ... */
static void *answer_context;          /**< ... and its argument */
static const pmix_info_t *in_transit; /**< read until the callback is called */

/* Visible, because --wrap also redirects the calls of Open MPI's shared libraries. */
#pragma GCC visibility push(default)
pmix_status_t __wrap_PMIx_Log(const pmix_info_t data[], size_t count,
                              const pmix_info_t directives[], size_t directive_count);
pmix_status_t __wrap_PMIx_Log_nb(const pmix_info_t data[], size_t count,
                                 const pmix_info_t directives[], size_t directive_count,
                                 pmix_op_cbfunc_t done, void *context);
#pragma GCC visibility pop

pmix_status_t __wrap_PMIx_Log(const pmix_info_t data[], size_t count,
                              const pmix_info_t directives[], size_t directive_count)
{
    fail_msg("waits for mpirun, maybe with a lock held");
    return PMIX_ERROR;
}

pmix_status_t __wrap_PMIx_Log_nb(const pmix_info_t data[], size_t count,
                                 const pmix_info_t directives[], size_t directive_count,
                                 pmix_op_cbfunc_t done, void *context)
{
    assert_int_equal(count, 1);
    assert_int_equal(directive_count, 3);
    if (!takes_messages) {
        return PMIX_ERR_INIT;
    }
    in_transit = data;
    answer = done;
    answer_context = context;
    ++shown;
    return PMIX_SUCCESS;
}
#else
/* Fakes of ORTE's functions. */
extern bool orte_show_help_is_available(void);
extern int orte_show_help_norender(const char *file, const char *topic, bool header,
                                   const char *message);

bool orte_show_help_is_available(void)
{
    return takes_messages;
}

int orte_show_help_norender(const char *file, const char *topic, bool header, const char *message)
{
    assert_string_equal(file, "help-mpi-btl-rawe.txt");
    snprintf(text, sizeof(text), "%s: %s", topic, message);
    ++shown;
    return OPAL_SUCCESS;
}
#endif

/** Restart the component in a job with this selection of BTLs. */
static void begin(char *selected, int verbose)
{
    selection = selected;
    level = verbose;
    mca_btl_rawe_help_begin();
    shown = 0;
    text[0] = '\0';
}

/** Register the two parameters of the BTL framework that decide about messages. */
static void set_up(void)
{
    assert_int_equal(opal_init_util(NULL, NULL), OPAL_SUCCESS);
    unsetenv("OMPI_MCA_btl");
    unsetenv("OMPI_MCA_btl_base_verbose");
    assert_true(mca_base_var_register("opal", "btl", NULL, NULL, "selection",
                                      MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_2,
                                      MCA_BASE_VAR_SCOPE_LOCAL, &selection) >= 0);
    assert_true(mca_base_var_register("opal", "btl", "base", "verbose", "verbosity",
                                      MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_2,
                                      MCA_BASE_VAR_SCOPE_LOCAL, &level) >= 0);
}

static void tear_down(void)
{
    selection = NULL;
    assert_int_equal(opal_finalize_util(), OPAL_SUCCESS);
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_help_begin__shows_again_what_an_earlier_life_has_shown)
{
    begin("rawe,self", 0);
    for (unsigned i = 0; i < 3; ++i) {
        MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, "eth0", "none", "why");
        MCA_BTL_RAWE_HELP(internal_error, "testing", "nothing", __func__);
    }
    assert_int_equal(shown, 2);
    begin("rawe,self", 0);
    MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, "eth0", "none", "why");
    assert_int_equal(shown, 1);
}

TEST(mca_btl_rawe_help_begin__reads_what_the_job_asked_for)
{
    begin("rawe,self", 0);
    begin("tcp,self", 0);
    MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, "eth0", "none", "why");
    assert_int_equal(shown, 0);
    begin("tcp,rawe", 0);
    MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, "eth0", "none", "why");
    assert_int_equal(shown, 1);
}

/** The administrator or user can raise a limit, so the message does not ask for a bug report. */
TEST(mca_btl_rawe_help_failed__names_the_limit)
{
    static const struct {
        int code;
        const char *word;
    } cases[] = {{EMFILE, "RLIMIT_NOFILE"},
                 {ENFILE, "fs.file-max"},
                 {EAGAIN, "RLIMIT_NPROC"},
                 {ENOMEM, "RLIMIT_AS"},
                 {EINVAL, "Please report it"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        begin("rawe,self", 0);
        mca_btl_rawe_help_failed("testing", cases[i].code, __func__);
        assert_int_equal(shown, 1);
        assert_non_null(strstr(text, cases[i].word));
    }
}

static void show_what_ends_nothing(void)
{
    MCA_BTL_RAWE_HELP_IF_ASKED(interface_down, "eth0");
    MCA_BTL_RAWE_HELP_IF_ASKED(link_failed, "eth0", "bind", "no device");
}

#define ENDS_NOTHING 2u

static void show_what_ends_the_job(void)
{
    MCA_BTL_RAWE_HELP(link_failed, "eth0", "bind", "no device");
    MCA_BTL_RAWE_HELP(window_unreachable, "rank 1");
    MCA_BTL_RAWE_HELP(internal_error, "testing", "nothing", __func__);
}

#define ENDS_THE_JOB 3u

TEST(mca_btl_rawe_help__what_ends_the_job_is_shown_and_the_rest_if_asked_for_or_verbose)
{
    static char by_name[] = "rawe,self", by_exclusion[] = "^tcp";
    static const struct {
        char *selected;
        int verbose;
        unsigned ends_nothing;
    } cases[] = {{by_name, 0, ENDS_NOTHING}, {NULL, 0, 0}, {by_exclusion, 1, ENDS_NOTHING}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        begin(cases[i].selected, cases[i].verbose);
        show_what_ends_nothing();
        assert_int_equal(shown, cases[i].ends_nothing);
        show_what_ends_the_job();
        assert_int_equal(shown, cases[i].ends_nothing + ENDS_THE_JOB);
    }
    MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, "eth3", "none", "why");
    assert_non_null(strstr(text, "eth3"));
    assert_non_null(strstr(text, "CAP_NET_RAW"));
}

/** A congestion control is selected by name; the message lists the valid names. */
TEST(mca_btl_rawe_params_check__knows_the_congestion_controls)
{
    static char cubic[] = "cubic", unknown[] = "cubi", empty[] = "";
    static const struct {
        char *name;
        const struct rawe_cc_type *type;
    } cases[] = {{cubic, &rawe_cc_cubic}, {unknown, NULL}, {empty, NULL}, {NULL, NULL}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const bool known = NULL != cases[i].type;
        mca_btl_rawe_params = (struct mca_btl_rawe_params){
#define X(name, default_, ...) .name = default_,
            MCA_BTL_RAWE_NUMBER_LIST(X) MCA_BTL_RAWE_FLAG_LIST(X)
#undef X
                .congestion = cases[i].name,
        };
        begin("rawe,self", 0);
        assert_ptr_equal(mca_btl_rawe_params_congestion(), cases[i].type);
        assert_int_equal(mca_btl_rawe_params_check(), known ? OPAL_SUCCESS : OPAL_ERR_BAD_PARAM);
        assert_int_equal(shown, !known);
        assert_true(known || NULL != strstr(text, "cubic"));
    }
}

/** The message about a number has all of its range and remark, of whatever length. */
TEST(mca_btl_rawe_params_check__shows_the_whole_range)
{
    static const struct {
        const char *name, *rule;
        uint64_t *value;
    } numbers[] = {
#define X(name, default_, least, most, unit, rule, ...) {#name, rule, &mca_btl_rawe_params.name},
        MCA_BTL_RAWE_NUMBER_LIST(X)
#undef X
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        mca_btl_rawe_params = (struct mca_btl_rawe_params){
#define X(name, default_, ...) .name = default_,
            MCA_BTL_RAWE_NUMBER_LIST(X) MCA_BTL_RAWE_FLAG_LIST(X)
#undef X
        };
        *numbers[i].value = UINT64_MAX;
        begin("rawe,self", 0);
        assert_int_equal(mca_btl_rawe_params_check(), OPAL_ERR_BAD_PARAM);
        assert_int_equal(shown, 1);
        assert_non_null(strstr(text, numbers[i].name));
        assert_non_null(strstr(text, numbers[i].rule));
    }
}

TEST(mca_btl_rawe_compat_names__by_name_and_not_by_exclusion)
{
    static const char *const yes[] = {"rawe", "rawe,self", "self,rawe", "tcp,rawe,self"};
    static const char *const no[] = {"",    "self",           "^rawe", "^tcp,rawe", "rawe2,self",
                                     "raw", "tcp,xrawe,self", ",",     "btl_rawe"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); ++i) {
        assert_true(mca_btl_rawe_compat_names(yes[i], "rawe"));
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); ++i) {
        assert_false(mca_btl_rawe_compat_names(no[i], "rawe"));
    }
    assert_false(mca_btl_rawe_compat_names(NULL, "rawe"));
}

TEST(mca_btl_rawe_compat_show__by_the_runtime)
{
    begin("rawe,self", 0);
    takes_messages = true;
    MCA_BTL_RAWE_HELP_IF_ASKED(no_capability, "eth3", "none", "why");
    takes_messages = false;
    assert_int_equal(shown, 1);
#if OPAL_MAJOR_VERSION >= 5
    /* The caller may hold the engines' lock, and the component may be closed before the answer. */
    begin("rawe,self", 0);
    assert_non_null(strstr(in_transit->value.data.string, "eth3"));
    answer(PMIX_SUCCESS, answer_context);
    assert_int_equal(shown, 0);
#else
    assert_non_null(strstr(text, "no_capability: ------"));
    assert_non_null(strstr(text, "eth3"));
#endif
}
