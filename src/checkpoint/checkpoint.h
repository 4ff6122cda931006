/* SPDX-License-Identifier: MIT
 * A checkpoint: the tensors of a model over all its files, from their headers alone. */
#ifndef VR_CHECKPOINT_H
#define VR_CHECKPOINT_H

#include "base/base.h"
#include "base/json.h"
#include "checkpoint/dtype.h"
#include "checkpoint/metadata.h"
#include "checkpoint/names.h"

#define VR_MAX_DIMS 16

typedef struct vr_format vr_format;

typedef struct vr_tensor {
    vr_str name;
    const uint64_t *dims;
    uint8_t n_dims;
    uint8_t dtype;       /* vr_dtype */
    bool shared;         /* its bytes are another tensor's, and counted there: begin == end */
    uint32_t file;       /* index into files */
    uint64_t begin, end; /* offsets in the file's data section; bytes = end - begin */
    uint64_t elements;
} vr_tensor;

typedef struct vr_file {
    const char *name;
    uint64_t size;           /* bytes on the source, 0 when missing */
    const vr_format *format; /* NULL when missing */
    uint64_t header_bytes;   /* all that stands before, between and behind the data of tensors and is read */
    uint64_t tensor_bytes;
    uint32_t n_tensors;
    uint32_t part;               /* number in parts, when there are any */
    const vr_metadata *metadata; /* keys and values in the file, or NULL */
    bool missing; /* said to be there by the index, or by the numbers of the others, and is not */
} vr_file;

/* A file with weights, or what somebody could take for such, that is not counted. */
#define VR_WHY_PROJECTOR "vision projector"
typedef struct vr_left_out {
    const char *name, *why;
    uint64_t size;
} vr_left_out;

/* Of a model that consists of several in folders of their own: a pipeline of diffusers, modules of
 * sentence-transformers. */
typedef struct vr_part {
    const char *name;       /* "unet"; "" is the model in the root */
    const char *class_name; /* "UNet2DConditionModel", or NULL */
    const char *prefix;     /* of its tensors' and its files' names: "unet/" */
    const char *variant;    /* its files are of this precision only: "fp16"; NULL: the plain ones */
    uint64_t bytes, elements;
    uint32_t n_tensors;
    bool missing; /* it should have weights, and its folder has none */
} vr_part;

struct vram_checkpoint {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const char *name;
    const char *place;     /* directory for the file of an error, or NULL */
    const char *read_from; /* in words, or NULL: its name says it */
    /* complete after vram_checkpoint_step returned VRAM_OK: */
    vr_tensor *tensors; /* in order of files, then of offset */
    size_t n_tensors;
    vr_file *files; /* weight files only, sorted by part, then by name */
    size_t n_files;
    uint64_t tensor_bytes; /* sum over tensors that are there */
    uint64_t elements;     /* idem */
    bool has_index;
    uint64_t promised_bytes;  /* metadata.total_size of the index; 0: none */
    size_t n_missing_tensors; /* named by the index, their file is missing */
    bool incomplete;          /* files are missing: tensor_bytes is not the whole */
    bool has_config;
    bool config_only;         /* there is no weight file: no tensors, no files */
    const char *config_file;  /* its name: "config.json", or what the user named */
    bool quantised_elsewhere; /* a file of its own says how, which is not read: hf_quant_config.json */
    const struct vr_catalogue_row *catalogue; /* a row of the built-in one, or NULL */
    vr_str config_raw;                        /* as it came */
    vr_str config_text;                       /* strict JSON of the same length, see config.c */
    vr_json config;                           /* valid when has_config; in config_text */
    vr_left_out *left_out;                    /* sorted by name */
    size_t n_left_out;
    vram_choice *choices; /* smallest first, where one was chosen by size */
    size_t n_choices;
    vr_part *parts; /* sorted by name; n_parts 0: the checkpoint is one model */
    size_t n_parts;
    const char *pipeline;   /* _class_name of model_index.json, or NULL */
    bool adapter_only;      /* the weights are an adapter's */
    bool has_adapter;       /* adapter_config.json is there: */
    vr_json adapter_config; /* an object */
    vr_str adapter_text;
    const char *adapter_file;    /* its name */
    const vr_metadata *metadata; /* of the first file that has some, or NULL */
    vr_names names;              /* see vr_checkpoint_find */
    struct vr_loading *loading;  /* state of the steps; private to this folder */
};

/* "NaN", "Infinity" or "-Infinity" where config.json has one of these at that offset, otherwise empty. */
vr_str vr_config_word(const vram_checkpoint *ck, uint64_t offset);

/* Puts the place before the file of the error that s is the status of, and returns s. */
vram_status vr_checkpoint_placed(const vram_checkpoint *ck, vram_status s);

/* "safetensors"; NULL when the file is missing. */
const char *vr_file_format(const vr_file *f);

/* In place of files: `from`, a configuration alone, with tensors that somebody worked out from it, all in one
 * file that is not listed. The tensors lie in `a` and become its own; their names are different. */
vram_status vr_checkpoint_declare(vram_checkpoint *out, const vram_checkpoint *from, vr_arena *a,
                                  vr_tensor *tensors, size_t n);

/* NULL when there is none of that name. */
const vr_tensor *vr_checkpoint_find(const vram_checkpoint *ck, vr_str name);

#endif
