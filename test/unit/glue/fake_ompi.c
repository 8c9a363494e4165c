/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fake Open MPI and clock: see fake_ompi.h.
 */
#include "fake_ompi.h"

#include <stdio.h>
#include <string.h>

#include "btl_rawe_help.h"
#include "btl_rawe_params.h"

struct fake_ompi fake_ompi;

void fake_ompi_begin(void)
{
    memset(&fake_ompi, 0, sizeof(fake_ompi));
    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    rawe_list_init(&mca_btl_rawe_state.complete);
    memset(&mca_btl_rawe_params, 0, sizeof(mca_btl_rawe_params));
    mca_btl_rawe_state.error_callback = fake_ompi_error;
    mca_btl_rawe_help_begin();
}

void fake_ompi_error(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *proc, char *text)
{
    assert_int_equal(flags, MCA_BTL_ERROR_FLAGS_FATAL);
    assert_non_null(text);
    fake_ompi.errors++;
    fake_ompi.failed = btl;
    fake_ompi.blamed = proc;
    snprintf(fake_ompi.error, sizeof(fake_ompi.error), "%s", text);
}

static void (*note_received)(const uint8_t *data, size_t len_bytes);

#if BTL_VERSION >= 330
static void receive(mca_btl_base_module_t *btl, const mca_btl_base_receive_descriptor_t *descriptor)
#else
static void receive(mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t *descriptor, void *context)
#endif
{
    fake_ompi.received_on = btl;
    note_received(descriptor->des_segments->seg_addr.pval, descriptor->des_segments->seg_len);
}

void fake_ompi_receive(unsigned tag, void (*note)(const uint8_t *data, size_t len_bytes))
{
    note_received = note;
    mca_btl_base_active_message_trigger[tag].cbfunc = NULL == note ? NULL : receive;
}

unsigned fake_ompi_shown(const char *topic)
{
    unsigned count = 0;
    for (unsigned i = 0; i < fake_ompi.shown; ++i) {
        count += 0 == strcmp(fake_ompi.topic[i], topic);
    }
    return count;
}

void fake_ompi_assert_shown(const char *topic, const char *text)
{
    assert_in_range(fake_ompi.shown, 1, FAKE_OMPI_SHOWN_MAX);
    assert_string_equal(fake_ompi.topic[fake_ompi.shown - 1], topic);
    if (NULL == strstr(fake_ompi.text, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, fake_ompi.text);
    }
}

uint64_t mca_btl_rawe_now_ns(void)
{
    return fake_ompi.now_ns;
}

/** Fake, too: the compiler may have inlined mca_btl_rawe_now_ns into the real function. */
uint64_t mca_btl_rawe_peer_now_ns(void *context)
{
    return fake_ompi.now_ns;
}

bool mca_btl_rawe_compat_fault_tolerant(void)
{
    return fake_ompi.fault_tolerant;
}

bool mca_btl_rawe_compat_alone(void)
{
    return fake_ompi.alone;
}

void mca_btl_rawe_compat_departures_begin(mca_btl_rawe_compat_departed_fn *notify)
{
    fake_ompi.departed = notify;
}

void mca_btl_rawe_compat_departures_end(void)
{
    fake_ompi.departed = NULL;
}

struct mca_btl_rawe_compat_hostname mca_btl_rawe_compat_hostname(const opal_proc_t *proc)
{
    return (struct mca_btl_rawe_compat_hostname){.text = "there"};
}

const char *mca_btl_rawe_compat_my_hostname(void)
{
    return "here";
}

bool mca_btl_rawe_compat_asked_for(void)
{
    return !fake_ompi.unasked;
}

bool mca_btl_rawe_compat_verbose(void)
{
    return false;
}

void mca_btl_rawe_compat_say(const char *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(fake_ompi.text, sizeof(fake_ompi.text), text, arguments);
    va_end(arguments);
    fake_ompi.said++;
}

void mca_btl_rawe_compat_show(const char *topic, const char *message)
{
    assert_in_range(fake_ompi.shown, 0, FAKE_OMPI_SHOWN_MAX - 1);
    snprintf(fake_ompi.topic[fake_ompi.shown++], sizeof(fake_ompi.topic[0]), "%s", topic);
    snprintf(fake_ompi.text, sizeof(fake_ompi.text), "%s", message);
    mca_btl_rawe_help_begin(); /* no message counts as shown */
}

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    return count;
}

void unit_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles, void *context)
{
    static const struct rawe_callbacks none;
    const struct rawe_output output = {.transmit = transmit};
    const struct rawe_engine_config config = {
        .payload_max_bytes = 1472,
        .message_max_bytes = 65536,
        .window_frames = 64,
        .receive_frames = 256,
        .copy_max_bytes = 1024,
        .frames_limit = 256,
        .handles = handles,
        .clock_ns = mca_btl_rawe_peer_now_ns,
    };
    rawe_engine_init(engine, &config, &none, context, &output, fake_ompi.now_ns);
}

void unit_module_start(mca_btl_rawe_module_t *module, struct rawe_handle_table *handles)
{
    OBJ_CONSTRUCT(&module->endpoints_lock, opal_mutex_t);
    OBJ_CONSTRUCT(&module->endpoints, opal_list_t);
    unit_engine_start(&module->engine, handles, module);
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = module;
}

void unit_module_stop(mca_btl_rawe_module_t *module)
{
    while (NULL != opal_list_remove_first(&module->endpoints)) {
    }
    rawe_engine_free(&module->engine);
    OBJ_DESTRUCT(&module->endpoints);
    OBJ_DESTRUCT(&module->endpoints_lock);
}
