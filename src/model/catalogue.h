/* SPDX-License-Identifier: MIT
 * Published models that are built in: data/catalogue.tsv. */
#ifndef VR_CATALOGUE_H
#define VR_CATALOGUE_H

#include "base/base.h"

typedef struct vr_catalogue_row {
    const char *name;    /* "qwen3-32b" */
    const char *repo;    /* "Qwen/Qwen3-32B" */
    const char *aliases; /* other names and repositories, blanks between, or NULL */
    const char *lacks;   /* what the model has and the row has not: "vision tower", or NULL */
    const char *note;    /* what was changed in it, or NULL */
    const char *config;  /* JSON, in whose lists *N(...) stands for N times what is in the brackets */
    const char *source;
} vr_catalogue_row;

const vr_catalogue_row *vr_catalogue(size_t *n);
/* By a name, an alias or a repository, in either case; NULL: none. */
const vr_catalogue_row *vr_catalogue_find(vr_str name);
/* The row's config.json; text.s NULL: no memory. */
vr_str vr_catalogue_config(const vr_catalogue_row *row, vr_arena *a);

#endif
