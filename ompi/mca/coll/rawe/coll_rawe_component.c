/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Component and modules: which communicators get one, and what it needs of the one beneath it.
 */
#include "coll_rawe.h"

#include <stdlib.h>
#include <string.h>

/** tuned has 30, han 35 since 5.0, inter 40, sync 50. */
static int priority = 45;

static int component_register(void);
static int component_open(void);
static int init_query(bool progress_threads, bool mpi_threads);
static mca_coll_base_module_t *comm_query(struct ompi_communicator_t *comm, int *priority_out);

OMPI_MODULE_DECLSPEC extern const mca_coll_base_component_t mca_coll_rawe_component;

const mca_coll_base_component_t mca_coll_rawe_component = {
    .collm_version =
        {
            MCA_COLL_RAWE_COMPAT_VERSION,
            .mca_component_name = "rawe",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = component_open,
            .mca_register_component_params = component_register,
        },
    .collm_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

static int component_register(void)
{
    return mca_base_component_var_register(
               &mca_coll_rawe_component.collm_version, "priority",
               "Priority of coll/rawe, which multicasts Bcasts, small Scatters, results of other "
               "small collectives, and the end of Barriers; negative: disabled, in all processes",
               MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY,
               &priority) < 0
               ? OMPI_ERROR
               : OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads)
{
    return OMPI_SUCCESS;
}

/** Return the component's offer; NULL: another component, or another version of the table. */
static const struct mca_btl_rawe_offer *offer_of(const mca_base_component_t *component)
{
    const struct mca_btl_rawe_component *rawe = (const void *)component;

    return 0 == strcmp(component->mca_component_name, "rawe") &&
                   MCA_BTL_RAWE_OFFER_MAGIC == rawe->magic &&
                   MCA_BTL_RAWE_OFFER_VERSION == rawe->offer->version
               ? rawe->offer
               : NULL;
}

/** Open. Not called if the user excludes it. BTLs are open, and in 4.1 also initialized. */
static int component_open(void)
{
    mca_base_component_list_item_t *item;

    OPAL_LIST_FOREACH(item, &opal_btl_base_framework.framework_components,
                      mca_base_component_list_item_t)
    {
        const struct mca_btl_rawe_offer *offer = offer_of(item->cli_component);
        if (priority >= 0 && NULL != offer) {
            offer->announce();
        }
    }
    return OMPI_SUCCESS;
}

const struct mca_btl_rawe_offer *mca_coll_rawe_offer(void)
{
    mca_btl_base_selected_module_t *selected;

    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const struct mca_btl_rawe_offer *offer = offer_of(&selected->btl_component->btl_version);
        if (NULL != offer) {
            return offer;
        }
    }
    return NULL;
}

/** coll_module_enable: lower priorities are already installed. It must not communicate. */
static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const mca_coll_base_comm_coll_t *beneath = comm->c_coll;

#define SAVE(NAME)                                         \
    if (NULL == beneath->coll_##NAME) {                    \
        return OMPI_ERROR;                                 \
    }                                                      \
    module->NAME = beneath->coll_##NAME;                   \
    module->NAME##_module = beneath->coll_##NAME##_module; \
    OBJ_RETAIN(module->NAME##_module);
    MCA_COLL_RAWE_BENEATH(SAVE)
#undef SAVE
    return NULL != beneath->coll_reduce_local ? OMPI_SUCCESS : OMPI_ERROR;
}

/** Return a module in all processes, or in none, except those whose BTL publishes no part. */
static mca_coll_base_module_t *comm_query(struct ompi_communicator_t *comm, int *priority_out)
{
    const struct mca_btl_rawe_offer *offer = mca_coll_rawe_offer();

    if (priority < 0 || OMPI_COMM_IS_INTER(comm) ||
        ompi_comm_size(comm) < MCA_COLL_RAWE_HOSTS_MIN || NULL == offer) {
        return NULL;
    }
    mca_coll_rawe_module_t *module = OBJ_NEW(mca_coll_rawe_module_t);
    if (NULL == module) {
        return NULL;
    }
    module->super.coll_module_enable = module_enable;
#define INSTALL(NAME) module->super.coll_##NAME = mca_coll_rawe_##NAME;
    MCA_COLL_RAWE_OWN(INSTALL)
#undef INSTALL
    module->offer = offer;
    *priority_out = priority;
    return &module->super;
}

static void module_construct(mca_coll_rawe_module_t *module)
{
    memset((char *)module + sizeof(module->super), 0, sizeof(*module) - sizeof(module->super));
}

static void module_destruct(mca_coll_rawe_module_t *module)
{
    /* If the BTL has ended, so have its groups. */
    if (NULL != module->group && NULL != mca_coll_rawe_offer()) {
        module->offer->close(module->group, true);
    }
    free(module->hosts);
#define RELEASE(NAME)                       \
    if (NULL != module->NAME##_module) {    \
        OBJ_RELEASE(module->NAME##_module); \
    }
    MCA_COLL_RAWE_BENEATH(RELEASE)
#undef RELEASE
}

OBJ_CLASS_INSTANCE(mca_coll_rawe_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);
