/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is offered to coll/rawe.
 */
#ifndef MCA_BTL_RAWE_COLLECTIVES_H
#define MCA_BTL_RAWE_COLLECTIVES_H

#include "btl_rawe_offer.h"

extern const struct mca_btl_rawe_offer mca_btl_rawe_offer;

#endif
