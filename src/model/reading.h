/* SPDX-License-Identifier: MIT
 * Private to the room: a model while it is being read, from config.json to the shapes of the tensors. */
#ifndef VR_READING_H
#define VR_READING_H

#include "model/model.h"

#define VR_CONFIG_FILE "config.json"

/* Far above any model, low enough that products of three stay within 64 bits. */
#define VR_MAX_LAYERS 4096
#define VR_MAX_HEADS 65536
#define VR_MAX_WIDTH (UINT64_C(1) << 24)
#define VR_MAX_VOCAB (UINT64_C(1) << 28)
#define VR_MAX_HEAD_DIM 65536
#define VR_MAX_CONTEXT (UINT64_C(1) << 40)

typedef struct vr_reading {
    vram_model *m;
    const vram_checkpoint *ck;
    vram_ctx *ctx;
    vr_json root; /* the whole config.json */
    vr_json text; /* where the decoder's settings stand: root, or its text_config */
    const vr_family *family;
} vr_reading;

/* Every step returns VRAM_OK also when it finds that the model is not understood; m->not_understood then says
 * why and the later steps are left out. */
vram_status vr_read_identity(vr_reading *r); /* architecture, model_type, family, dtype */
vram_status vr_read_counts(vr_reading *r);   /* layers, heads, sizes, flags */
vram_status vr_read_layers(vr_reading *r);   /* attention kind of each layer */
vram_status vr_check_shapes(vr_reading *r);  /* against the tensors, which may change sizes */
vram_status vr_read_rotary(vr_reading *r);
/* The rotated part of a head, made even. */
uint64_t vr_in_pairs(uint64_t rotated, uint64_t head);
vram_status vr_read_special(vr_reading *r); /* what makes it more than a plain decoder */
vram_status vr_read_adapter(vr_reading *r); /* of a checkpoint that is one */
vram_status vr_count_ahead(vr_reading *r);  /* after all is declared: m->ahead */

/* In place of all these: a model whose settings stand in its GGUF file. */
vram_status vr_read_gguf(vr_reading *r);

/* Roles of the tensors, before the shapes are checked; sums, and quantised matrices against the shapes,
 * after. */
vram_status vr_read_quantised(vram_model *m);
vram_status vr_sum_parameters(vram_model *m);

/* Says in m->weights_unknown why a configuration alone does not tell them. */
vram_status vr_weights_unknown(vram_model *m);
/* Of a configuration alone: the checkpoint that it means. *out NULL: m->weights_unknown says why not. */
vram_status vr_as_declared(vram_checkpoint **out, vram_model *m);

vram_status vr_not_understood_pieces(vr_reading *r, const vr_piece *p, size_t n);
#define vr_not_understood(r, ...)                                                                            \
    vr_not_understood_pieces((r), (const vr_piece[]){ __VA_ARGS__ },                                         \
                             sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))

/* A vr_activation by its name in transformers (activations.py, ACT2FN). */
uint8_t vr_activation_named(vr_str word);

/* The decoder's setting, whatever the class calls it; false when it is absent. */
bool vr_config_says(const vr_reading *r, const char *key, vr_json *out);
/* The same; false also when it is null. */
bool vr_config_get(const vr_reading *r, const char *key, vr_json *out);
/* A whole number from 1 to max; `fallback` (which may be 0) when the config is silent or says null. Refuses
 * anything else. */
vram_status vr_config_count(const vr_reading *r, const char *key, uint64_t max, uint64_t fallback,
                            uint64_t *out);
/* The same, and 0 is a value. */
vram_status vr_config_count_or_none(const vr_reading *r, const char *key, uint64_t max, uint64_t fallback,
                                    uint64_t *out);
/* The configuration is silent, and this was taken: kept when others state such a size (silent.c). */
void vr_note_silent(const vr_reading *r, const char *key, uint64_t taken);
void vr_forget_silent(const vr_reading *r, const char *key); /* another setting says it */
vram_status vr_tell_silent(const vr_reading *r); /* a warning that names them, if there are any */
typedef struct vr_config_row {
    const char *key;
    uint64_t most, silent, *to;
} vr_config_row;
/* Many of them, one after another. */
vram_status vr_config_count_each(const vr_reading *r, const vr_config_row *rows, size_t n);
#define vr_config_counts(r, rows) vr_config_count_each((r), (rows), sizeof(rows) / sizeof *(rows))
/* Under `over` where it is there, else under `key`. */
vram_status vr_config_count_over(const vr_reading *r, const char *over, const char *key, uint64_t max,
                                 uint64_t fallback, uint64_t *out);
/* *out keeps its value when the config is silent or says null. */
vram_status vr_config_flag(const vr_reading *r, const char *key, bool *out);
/* A word that config.json has for a kind of layer; the last of a list is NULL. */
typedef struct vr_layer_word {
    const char *word;
    uint8_t kind; /* whatever the architecture makes of it */
} vr_layer_word;
/* The kinds of m->n_layers layers in this list; *n: how many it has. Words that are not known are not
 * understood. */
vram_status vr_config_words(vr_reading *r, const char *key, vr_json list, const vr_layer_word *words,
                            uint8_t *kinds, uint64_t *n);
/* The same of the first of the keys that is there, which must list all layers and no more; *given false: none
 * is. */
vram_status vr_config_layer_kinds(vr_reading *r, const char *const *keys, const vr_layer_word *words,
                                  uint8_t *kinds, bool *given);
/* Says that a list of n layers is not the model's. */
vram_status vr_config_wrong_length(vr_reading *r, const char *key, uint64_t n);
/* "config.json: KEY is VALUE, not EXPECTED", with the value's place. */
vram_status vr_config_refuse(const vr_reading *r, const char *key, vr_json value, const char *expected);

/* Is this a tensor of something that sees pictures? */
bool vr_name_is_vision(vr_str name);

#endif
