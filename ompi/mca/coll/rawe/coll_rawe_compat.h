/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What differs between Open MPI 4.1 and 5.0. The rest of the component includes this file first.
 */
#ifndef MCA_COLL_RAWE_COMPAT_H
#define MCA_COLL_RAWE_COMPAT_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/bml/base/base.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "opal/mca/btl/rawe/btl_rawe_compat.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/version.h"

/* 5.0 has counted its interface's version. */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

/* What the loader is to see of a component; since 5.0 there is only the general word for it. */
#ifndef OMPI_MODULE_DECLSPEC
#define OMPI_MODULE_DECLSPEC OMPI_DECLSPEC
#endif

/** A line for users who set coll_base_verbose. */
#define MCA_COLL_RAWE_COMPAT_SAY(comm, text)                           \
    opal_output_verbose(10, ompi_coll_base_framework.framework_output, \
                        "coll:rawe: communicator %s: %s", (comm)->c_name, (text))

#endif
