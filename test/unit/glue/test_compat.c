/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of differences between Open MPI releases that no job reveals: whether the caller frees a
 * hostname, and when the fence has been passed. Open MPI's part is fake.
 */
#include "btl_rawe_compat.h"

#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

static char *name;     /**< returned by Open MPI */
static unsigned freed; /**< number of times `name` was freed */

void __wrap_free(void *memory);
void __real_free(void *memory);

static char *hostname_of(const opal_proc_t *proc)
{
    return name;
}

#if OPAL_MAJOR_VERSION >= 5
/** Since 5.0, opal_get_proc_hostname is a pointer to a function. */
extern char *(*__wrap_opal_get_proc_hostname)(const opal_proc_t *proc);
char *(*__wrap_opal_get_proc_hostname)(const opal_proc_t *proc) = hostname_of;
#else
char *__wrap_opal_get_proc_hostname(const opal_proc_t *proc);

char *__wrap_opal_get_proc_hostname(const opal_proc_t *proc)
{
    return hostname_of(proc);
}
#endif

void __wrap_free(void *memory)
{
    freed += NULL != memory && memory == name;
    __real_free(memory);
}

/** The hostname belongs to Open MPI up to 4.1, and to the caller since 5.0. */
TEST(mca_btl_rawe_compat_hostname__frees_what_is_its_own)
{
    name = strdup("host7");
    freed = 0;
    assert_string_equal(mca_btl_rawe_compat_hostname(NULL).text, "host7");
    assert_int_equal(freed, OPAL_MAJOR_VERSION >= 5 ? 1 : 0);
    if (0 == freed) {
        free(name);
    }
}

TEST(mca_btl_rawe_compat_hostname__unknown)
{
    name = NULL;
    assert_string_equal(mca_btl_rawe_compat_hostname(NULL).text, "unknown");
}

TEST(mca_btl_rawe_compat_hostname__cuts_what_is_long)
{
    struct mca_btl_rawe_compat_hostname out;

    name = malloc(1000);
    memset(name, 'x', 999);
    name[999] = '\0';
    freed = 0;
    out = mca_btl_rawe_compat_hostname(NULL);
    assert_int_equal(strlen(out.text), sizeof(out.text) - 1);
    if (0 == freed) {
        free(name);
    }
}

#if OPAL_MAJOR_VERSION >= 5
/** As ob1 does with a communicator's id, write the context id that would follow it. */
static void write_behind(mca_btl_base_module_t *module,
                         const mca_btl_base_receive_descriptor_t *descriptor)
{
    uint8_t *message = descriptor->des_segments[0].seg_addr.pval;

    assert_int_equal(message[0], 1);
    message[MCA_BTL_RAWE_COMPAT_CID_BYTES + 2] = message[MCA_BTL_RAWE_COMPAT_CID_BYTES + 3] = 2;
}

TEST(mca_btl_rawe_compat_deliver__protects_what_follows_a_communicators_id)
{
    uint8_t frame[MCA_BTL_RAWE_COMPAT_CID_BYTES + 4], before[sizeof frame];
    mca_btl_base_segment_t segment = {
        .seg_addr.pval = frame,
        .seg_len = MCA_BTL_RAWE_COMPAT_CID_BYTES,
    };

    memset(frame, 1, sizeof frame);
    memcpy(before, frame, sizeof frame);
    mca_btl_base_active_message_trigger[MCA_BTL_RAWE_COMPAT_CID_TAG].cbfunc = write_behind;
    assert_true(mca_btl_rawe_compat_deliver(NULL, NULL, MCA_BTL_RAWE_COMPAT_CID_TAG, &segment));
    assert_memory_equal(frame, before, sizeof frame);
}
#endif

mca_base_framework_t ompi_osc_base_framework;
extern bool ompi_mpi_thread_multiple;
bool ompi_mpi_thread_multiple;

/** Only osc/pt2pt implements windows by messages, and MPI_THREAD_MULTIPLE excludes it. */
TEST(mca_btl_rawe_compat_windows_by_messages__needs_pt2pt)
{
    static const mca_base_component_t rdma = {.mca_component_name = "rdma"};
    static const mca_base_component_t pt2pt = {.mca_component_name = "pt2pt"};
    mca_base_component_list_item_t items[] = {{.cli_component = &rdma}, {.cli_component = &pt2pt}};
    opal_list_t *components = &ompi_osc_base_framework.framework_components;

    OBJ_CONSTRUCT(components, opal_list_t);
    for (size_t i = 0; i < 2; i++) {
        OBJ_CONSTRUCT(&items[i].super, opal_list_item_t);
        opal_list_append(components, &items[i].super);
        assert_false(mca_btl_rawe_compat_windows_by_messages()); /* framework not open yet */
        ompi_osc_base_framework.framework_flags = MCA_BASE_FRAMEWORK_FLAG_OPEN;
        assert_int_equal(mca_btl_rawe_compat_windows_by_messages(), 1 == i);
        ompi_mpi_thread_multiple = true;
        assert_false(mca_btl_rawe_compat_windows_by_messages());
        ompi_mpi_thread_multiple = false;
        ompi_osc_base_framework.framework_flags = 0;
    }
}

/** Find no parameter: the job is not fault-tolerant. */
int mca_base_var_find(const char *project, const char *framework, const char *component,
                      const char *name_of_it)
{
    return -1;
}

extern volatile int32_t ompi_mpi_state;
volatile int32_t ompi_mpi_state;
extern bool ompi_async_mpi_finalize;
bool ompi_async_mpi_finalize;

TEST(mca_btl_rawe_compat_fenced__inside_of_mpi_finalize)
{
    for (ompi_mpi_state = 0; ompi_mpi_state < 6; ompi_mpi_state++) {
        assert_int_equal(mca_btl_rawe_compat_fenced(), 4 == ompi_mpi_state);
    }
    ompi_mpi_state = 4;
    ompi_async_mpi_finalize = true;
    assert_false(mca_btl_rawe_compat_fenced());
}
