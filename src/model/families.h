/* SPDX-License-Identifier: MIT
 * Private to the room: the generated tables of data/architectures.tsv and data/namings.tsv. */
#ifndef VR_FAMILIES_H
#define VR_FAMILIES_H

#include "model/model.h"

extern const vr_family vr_family_table[];
extern const size_t vr_family_table_n;
extern const vr_naming vr_naming_table[];
extern const size_t vr_naming_table_n;

#endif
