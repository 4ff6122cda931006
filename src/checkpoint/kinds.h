/* SPDX-License-Identifier: MIT
 * What a file of a listing is, by its name alone. */
#ifndef VR_KINDS_H
#define VR_KINDS_H

#include "base/base.h"

typedef enum vr_file_role {
    VR_ROLE_WEIGHTS,
    VR_ROLE_INDEX,    /* of a set's weights: which tensor is in which file */
    VR_ROLE_CONFIG,   /* config.json */
    VR_ROLE_PIPELINE, /* model_index.json of diffusers */
    VR_ROLE_MODULES,  /* modules.json of sentence-transformers */
    VR_ROLE_ADAPTER,  /* adapter_config.json of PEFT */
    VR_ROLE_OTHER     /* what is left out whatever else there is; `why` says what it is */
} vr_file_role;

typedef enum vr_family_of_files {
    VR_FILES_SAFETENSORS,
    VR_FILES_BIN,
    VR_FILES_PT, /* .pt, .pth, .ckpt */
    VR_FILES_GGUF
} vr_family_of_files;

#define VR_WHY_TRAINING "state of a training, no weights"

/* The slices are of the name. */
typedef struct vr_kind {
    uint8_t role, ext;   /* vr_file_role, vr_family_of_files */
    bool numbered;       /* one of several files, or the index of such */
    uint32_t number, of; /* 0: no name says */
    const char *digits;  /* where the number stands in the name */
    vr_str folder;       /* "", or with the slash behind it: "unet/" */
    vr_str stem;         /* "model", "consolidated", "Qwen2.5-7B-Instruct-Q4_K_M" */
    vr_str variant;      /* "fp16" or "" */
    const char *why;
} vr_kind;

/* False: a file of no interest. */
bool vr_kind_of(vr_str name, vr_kind *k);
/* The same of a file that the user named: a JSON file that is no index is a configuration; all else that
 * would hold no weights, or be of no interest, is weights. */
void vr_kind_of_named(vr_str name, vr_kind *k);
bool vr_kind_is(const vr_kind *k, const char *stem);
/* Not a plain way down: "..", ".", an absolute path, an empty part. */
bool vr_name_leads_out(vr_str name);

#endif
