/* SPDX-License-Identifier: MIT
 * Private to the room: the generated table of data/architectures.tsv. */
#ifndef VR_FAMILIES_H
#define VR_FAMILIES_H

#include "model/model.h"

extern const vr_family vr_family_table[];
extern const size_t vr_family_table_n;

#endif
