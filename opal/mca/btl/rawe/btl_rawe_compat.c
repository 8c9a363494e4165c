/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of btl_rawe_compat.h that are not worth inlining: modex, host names, version, help.
 */
#define _GNU_SOURCE
#include "btl_rawe_compat.h"

#include "opal/runtime/opal.h"
#include "opal/util/output.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_LINE "--------------------------------------------------------------------------\n"

/** The name that mpirun shows for merged messages. */
#define HELP_FILE "help-mpi-btl-rawe.txt"

int mca_btl_rawe_compat_modex_send(const mca_base_component_t *component, const void *data,
                                   size_t len_bytes)
{
    int status;
    /* The macros take a non-const pointer, but only read through it. */
    void *bytes = (void *)(uintptr_t)data;

#if OPAL_MAJOR_VERSION >= 5
    OPAL_MODEX_SEND(status, PMIX_GLOBAL, component, bytes, len_bytes);
    return PMIX_SUCCESS == status ? OPAL_SUCCESS : OPAL_ERROR;
#else
    OPAL_MODEX_SEND(status, OPAL_PMIX_GLOBAL, component, bytes, len_bytes);
    return status;
#endif
}

/** A pending request to the runtime; PMIx may read all of it until the answer. */
struct modex_request {
    mca_btl_rawe_compat_modex_answer_fn *answer;
    void *context;
    char *key;
#if OPAL_MAJOR_VERSION >= 5
    pmix_proc_t peer;
    pmix_info_t limit;
#endif
};

static void modex_answer(void *context, bool good, const void *data, size_t len_bytes)
{
    struct modex_request request = *(struct modex_request *)context;

    free(request.key);
    free(context);
    request.answer(request.context, good ? data : NULL, good ? len_bytes : 0);
}

#if OPAL_MAJOR_VERSION >= 5
static void modex_value(pmix_status_t status, pmix_value_t *value, void *context)
{
    bool good = PMIX_SUCCESS == status && NULL != value && PMIX_BYTE_OBJECT == value->type;
    modex_answer(context, good, good ? value->data.bo.bytes : NULL, good ? value->data.bo.size : 0);
}

/**
 * PRRTE's daemons wait forever for a key that a process without rawe does not publish, and PMIx
 * queues all later requests for that process behind it. So each request has a time limit.
 */
static int modex_ask(const opal_process_name_t *name, int limit_s, struct modex_request *request)
{
    pmix_proc_t *peer = &request->peer;

    /* An unknown job gets the empty name, which would be ours. */
    if (OPAL_SUCCESS != OPAL_PMIX_CONVERT_JOBID(peer->nspace, name->jobid)) {
        return OPAL_ERR_NOT_FOUND;
    }
    OPAL_PMIX_CONVERT_VPID(peer->rank, name->vpid);
    PMIX_INFO_LOAD(&request->limit, PMIX_TIMEOUT, &limit_s, PMIX_INT);
    return PMIX_SUCCESS == PMIx_Get_nb(peer, request->key, &request->limit, 1, modex_value, request)
               ? OPAL_SUCCESS
               : OPAL_ERROR;
}
#else
static void modex_value(int status, opal_value_t *value, void *context)
{
    bool good = OPAL_SUCCESS == status && NULL != value && OPAL_BYTE_OBJECT == value->type;
    modex_answer(context, good, good ? value->data.bo.bytes : NULL,
                 good ? (size_t)value->data.bo.size : 0);
}

static int modex_ask(const opal_process_name_t *name, int limit_s, struct modex_request *request)
{
    opal_value_t *value = NULL;

    (void)limit_s; /* ORTE's daemons answer at once */
    if (NULL != opal_pmix.get_nb) {
        return opal_pmix.get_nb(name, request->key, NULL, modex_value, request);
    }
    /* Slurm's PMI-1 and PMI-2 have the data in memory. */
    int status = opal_pmix.get(name, request->key, NULL, &value);
    modex_value(status, value, request);
    if (NULL != value) {
        OBJ_RELEASE(value);
    }
    return OPAL_SUCCESS;
}
#endif

void mca_btl_rawe_compat_stay_loaded(void)
{
    static bool done;
    Dl_info self;

    if (!done && 0 != dladdr((void *)(uintptr_t)&modex_answer, &self)) {
        /* The handle is never closed, so the code stays loaded. */
        // cppcheck-suppress leakReturnValNotUsed
        (void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NODELETE);
    }
    done = true;
}

int mca_btl_rawe_compat_modex_request(const mca_base_component_t *component,
                                      const opal_process_name_t *name, int limit_s,
                                      mca_btl_rawe_compat_modex_answer_fn *answer, void *context)
{
    struct modex_request *request = calloc(1, sizeof(*request));
    int status = OPAL_ERR_OUT_OF_RESOURCE;

    if (NULL == request) {
        return status;
    }
    request->answer = answer;
    request->context = context;
    request->key = mca_base_component_to_string(component);
    if (NULL != request->key) {
        status = modex_ask(name, limit_s, request);
    }
    if (OPAL_SUCCESS != status) {
        free(request->key);
        free(request);
    }
    return status;
}

struct mca_btl_rawe_compat_hostname mca_btl_rawe_compat_hostname(const opal_proc_t *proc)
{
    struct mca_btl_rawe_compat_hostname out;
    char *hostname = opal_get_proc_hostname(proc);

    snprintf(out.text, sizeof(out.text), "%s", NULL == hostname ? "unknown" : hostname);
#if OPAL_MAJOR_VERSION >= 5
    free(hostname); /* each call makes a copy, despite Open MPI's own comment */
#endif
    return out;
}

unsigned mca_btl_rawe_compat_local_ranks(void)
{
    return opal_process_info.num_local_peers > 0 ? 1 + (unsigned)opal_process_info.num_local_peers
                                                 : 1;
}

unsigned mca_btl_rawe_compat_ranks(void)
{
    opal_process_name_t all = OPAL_PROC_MY_NAME;
    uint32_t ranks = 1, *value = &ranks;
    int status;

    all.vpid = OPAL_VPID_WILDCARD;
#if OPAL_MAJOR_VERSION >= 5
    OPAL_MODEX_RECV_VALUE_OPTIONAL(status, PMIX_JOB_SIZE, &all, &value, PMIX_UINT32);
    return PMIX_SUCCESS == status ? ranks : 1;
#else
    OPAL_MODEX_RECV_VALUE_OPTIONAL(status, OPAL_PMIX_JOB_SIZE, &all, &value, OPAL_UINT32);
    return OPAL_SUCCESS == status ? ranks : 1;
#endif
}

unsigned mca_btl_rawe_compat_local_rank(void)
{
    return (unsigned)opal_process_info.my_local_rank;
}

const char *mca_btl_rawe_compat_job_directory(void)
{
    return opal_process_info.job_session_dir;
}

/** Return true for the shared-memory BTL, which was renamed in 5.0. */
static bool is_shared_memory(const char *name)
{
    return 0 == strcmp(name, "vader") || 0 == strcmp(name, "sm");
}

bool mca_btl_rawe_compat_shared_memory(void)
{
    mca_btl_base_selected_module_t *selected;

    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (is_shared_memory(selected->btl_component->btl_version.mca_component_name)) {
            return true;
        }
    }
    return false;
}

bool mca_btl_rawe_compat_alone(void)
{
    mca_btl_base_selected_module_t *selected;

    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const char *name = selected->btl_component->btl_version.mca_component_name;
        if (!is_shared_memory(name) && 0 != strcmp(name, "self") && 0 != strcmp(name, "rawe")) {
            return false;
        }
    }
    return true;
}

/** Return true if the framework, which is open, has this component. */
static bool framework_has(mca_base_framework_t *framework, const char *name)
{
    mca_base_component_list_item_t *item;

    OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t)
    {
        if (0 == strcmp(name, item->cli_component->mca_component_name)) {
            return true;
        }
    }
    return false;
}

bool mca_btl_rawe_compat_shared_memory_expected(void)
{
    return framework_has(&opal_btl_base_framework, "vader") ||
           framework_has(&opal_btl_base_framework, "sm");
}

/* From libmpi, if loaded: ompi/mca/osc/base/base.h, ompi/runtime/mpiruntime.h. */
extern mca_base_framework_t ompi_osc_base_framework __attribute__((weak));
extern bool ompi_mpi_thread_multiple __attribute__((weak));

bool mca_btl_rawe_compat_windows_by_messages(void)
{
    return NULL != &ompi_mpi_thread_multiple && !ompi_mpi_thread_multiple &&
           NULL != &ompi_osc_base_framework &&
           mca_base_framework_is_open(&ompi_osc_base_framework) &&
           framework_has(&ompi_osc_base_framework, "pt2pt");
}

const char *mca_btl_rawe_compat_my_hostname(void)
{
    return NULL == opal_process_info.nodename ? "unknown" : opal_process_info.nodename;
}

/* Find the first "number.number" in Open MPI's ident string, which a packager may have changed. */
static bool version_parse(const char *text, unsigned *major, unsigned *minor)
{
    for (text += strcspn(text, "0123456789"); '\0' != *text; text += strcspn(text, "0123456789")) {
        if (2 == sscanf(text, "%u.%u", major, minor)) {
            return true;
        }
        text += strspn(text, "0123456789");
    }
    return false;
}

bool mca_btl_rawe_compat_version_matches(void)
{
    unsigned major, minor;

    /* Identical builds match, even without a number in their ident string. */
    if (0 == strcmp(opal_version_string, OPAL_IDENT_STRING)) {
        return true;
    }
    return version_parse(opal_version_string, &major, &minor) && OPAL_MAJOR_VERSION == major &&
           OPAL_MINOR_VERSION == minor;
}

/** Return the value of one of Open MPI's parameters; NULL: the name is unknown. */
static const void *find_parameter(const char *project, const char *framework, const char *component,
                                  const char *name)
{
    const void *value = NULL;
    int index = mca_base_var_find(project, framework, component, name);

    return index < 0 || OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL) ? NULL
                                                                                          : value;
}

bool mca_btl_rawe_compat_names(const char *selection, const char *component)
{
    size_t len = strlen(component);

    if (NULL == selection || '^' == *selection) {
        return false;
    }
    for (const char *at = selection; NULL != (at = strstr(at, component)); ++at) {
        if ((at == selection || ',' == at[-1]) && ('\0' == at[len] || ',' == at[len])) {
            return true;
        }
    }
    return false;
}

bool mca_btl_rawe_compat_asked_for(void)
{
    const char *const *selection = find_parameter("opal", "btl", NULL, NULL);
    return NULL != selection && mca_btl_rawe_compat_names(*selection, "rawe");
}

bool mca_btl_rawe_compat_verbose(void)
{
    const int *level = find_parameter("opal", "btl", "base", "verbose");
    return NULL != level && *level > 0;
}

bool mca_btl_rawe_compat_fault_tolerant(void)
{
    /* 4.1 lacks this parameter; in 5.0 without ULFM it is always off. */
    const bool *enabled = find_parameter("ompi", "mpi", "ft", "enable");
    return NULL != enabled && *enabled;
}

/* Also from libmpi, if loaded: ompi/runtime/mpiruntime.h, params.h. */
extern volatile int32_t ompi_mpi_state __attribute__((weak));
extern bool ompi_async_mpi_finalize __attribute__((weak));
#define MPI_STATE_INIT_COMPLETED 2
#define MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT 4

enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void)
{
    int32_t state = NULL == &ompi_mpi_state ? 0 : ompi_mpi_state;

    if (MPI_STATE_INIT_COMPLETED == state) {
        return MCA_BTL_RAWE_COMPAT_WORKS;
    }
    return state < MPI_STATE_INIT_COMPLETED ? MCA_BTL_RAWE_COMPAT_BEGINS : MCA_BTL_RAWE_COMPAT_ENDS;
}

bool mca_btl_rawe_compat_fenced(void)
{
    /* Sessions end without a fence, in another state; fault-tolerant jobs agree with messages. */
    return NULL != &ompi_mpi_state &&
           MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT == ompi_mpi_state &&
           (NULL == &ompi_async_mpi_finalize || !ompi_async_mpi_finalize) &&
           !mca_btl_rawe_compat_fault_tolerant();
}

#if OPAL_MAJOR_VERSION >= 5
static mca_btl_rawe_compat_departed_fn *departed;
static bool departures_begun;
static size_t departures_handler; /**< PMIx's reference to process_departed */

static void process_departed(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                             pmix_info_t info[], size_t info_count, pmix_info_t results[],
                             size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                             void *context)
{
    for (size_t i = 0; i < info_count; ++i) {
        opal_process_name_t name;
        int converted = OPAL_ERROR;
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && PMIX_PROC == info[i].value.type) {
            OPAL_PMIX_CONVERT_PROCT(converted, &name, info[i].value.data.proc);
        }
        if (OPAL_SUCCESS == converted) {
            departed(&name);
        }
    }
    if (NULL != done) {
        done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, context);
    }
}

static void handler_registered(pmix_status_t status, size_t reference, void *context)
{
    opal_pmix_lock_t *waiter = context;

    departures_begun = PMIX_SUCCESS == status;
    departures_handler = reference;
    OPAL_PMIX_WAKEUP_THREAD(waiter);
}

void mca_btl_rawe_compat_departures_begin(mca_btl_rawe_compat_departed_fn *notify)
{
    opal_pmix_lock_t waiter;
    pmix_status_t codes[] = {PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_ERR_PROC_ABORTED_BY_SIG,
                             PMIX_ERR_PROC_ABORTED};
    pmix_info_t first;

    /* Run before Open MPI's own handler (ompi/instance/instance.c), which ends the chain. */
    PMIX_INFO_LOAD(&first, PMIX_EVENT_HDLR_PREPEND, NULL, PMIX_BOOL);
    departed = notify;
    OPAL_PMIX_CONSTRUCT_LOCK(&waiter);
    /* Without a callback PMIx 4.2 registers in this thread, which races with PMIx's own. */
    if (PMIX_SUCCESS == PMIx_Register_event_handler(codes, sizeof(codes) / sizeof(codes[0]), &first,
                                                    1, process_departed, handler_registered,
                                                    &waiter)) {
        OPAL_PMIX_WAIT_THREAD(&waiter);
    }
    OPAL_PMIX_DESTRUCT_LOCK(&waiter);
    PMIX_INFO_DESTRUCT(&first);
}

void mca_btl_rawe_compat_departures_end(void)
{
    if (departures_begun) {
        (void)PMIx_Deregister_event_handler(departures_handler, NULL, NULL);
        departures_begun = false;
    }
}
#else
void mca_btl_rawe_compat_departures_begin(mca_btl_rawe_compat_departed_fn *notify)
{
}

void mca_btl_rawe_compat_departures_end(void)
{
}
#endif

void mca_btl_rawe_compat_say(const char *text, ...)
{
    char line[4096];
    va_list arguments;

    va_start(arguments, text);
    vsnprintf(line, sizeof(line), text, arguments);
    va_end(arguments);
    opal_output_verbose(1, opal_btl_base_framework.framework_output, "btl:rawe: %s", line);
}

#if OPAL_MAJOR_VERSION >= 5
/** A message being sent to mpirun; PMIx may read all of it until the answer. */
struct help_message {
    pmix_info_t text, merging[3];
};

static void help_free(struct help_message *log)
{
    PMIX_INFO_DESTRUCT(&log->text);
    for (unsigned i = 0; i < 3; ++i) {
        PMIX_INFO_DESTRUCT(&log->merging[i]);
    }
    free(log);
}

/** Print a message that mpirun did not take. Called in a PMIx thread: opal_output() is unsafe. */
static void help_logged(pmix_status_t status, void *context)
{
    struct help_message *log = context;

    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fputs(log->text.value.data.string, stderr);
    }
    help_free(log);
}

/**
 * Send a message like opal_show_help(), but without a file, and without waiting for mpirun's
 * answer, because the caller may hold the engines' lock. Returns false if PMIx does not accept it.
 */
static bool help_merge(const char *topic, const char *shown)
{
    const bool *wanted = find_parameter("opal", NULL, "base", "help_aggregate");
    bool merge = NULL == wanted || *wanted;
    struct help_message *log = calloc(1, sizeof(*log));

    if (NULL == log) {
        return false;
    }
    PMIX_INFO_LOAD(&log->text, PMIX_LOG_STDERR, shown, PMIX_STRING);
    PMIX_INFO_LOAD(&log->merging[0], PMIX_LOG_AGG, &merge, PMIX_BOOL);
    PMIX_INFO_LOAD(&log->merging[1], PMIX_LOG_KEY, HELP_FILE, PMIX_STRING);
    PMIX_INFO_LOAD(&log->merging[2], PMIX_LOG_VAL, topic, PMIX_STRING);
    mca_btl_rawe_compat_stay_loaded();
    pmix_status_t status = PMIx_Log_nb(&log->text, 1, log->merging, 3, help_logged, log);
    if (PMIX_SUCCESS != status) {
        help_free(log); /* there will be no answer */
    }
    return PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status;
}
#else
/* From ORTE, if loaded: orte/util/show_help.h. opal_show_help() calls these with a file's text. */
extern bool orte_show_help_is_available(void) __attribute__((weak));
extern int orte_show_help_norender(const char *file, const char *topic, bool header,
                                   const char *shown) __attribute__((weak));

static bool help_merge(const char *topic, const char *shown)
{
    return NULL != orte_show_help_is_available && orte_show_help_is_available() &&
           OPAL_SUCCESS == orte_show_help_norender(HELP_FILE, topic, true, shown);
}
#endif

void mca_btl_rawe_compat_show(const char *topic, const char *message)
{
    char *shown;

    if (asprintf(&shown, "%s%s%s", HELP_LINE, message, HELP_LINE) < 0) {
        return;
    }
    /* In another version of Open MPI there may be no runtime to call. */
    if (NULL == topic || !mca_btl_rawe_compat_version_matches() || !help_merge(topic, shown)) {
        opal_output(0, "%s", shown);
    }
    free(shown);
}
