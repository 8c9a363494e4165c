/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly driven directly, beside a model of it that keeps what was put where.
 */
#ifndef RAWE_FUZZ_REASSEMBLY_MODEL_H
#define RAWE_FUZZ_REASSEMBLY_MODEL_H

#include <stdint.h>

struct reassembly_model;

/** `limit`: buffers of its pool. */
struct reassembly_model *reassembly_model_new(unsigned limit);
void reassembly_model_free(struct reassembly_model *model);

/** One call into reassembly: which one, `options` say, with what, the others. */
void reassembly_model_step(struct reassembly_model *model, uint8_t options, uint16_t a, uint32_t b,
                           uint32_t c, uint32_t d);

#endif
