/* SPDX-License-Identifier: MIT
 * Private to the room: writing down what a class declares, in the order in which torch.nn.Module._apply walks
 * it: children in the order of their assignment in __init__, then a module's own.
 *
 * A name is put together from the class's prefix, a path ("layers.3.") and the module's own words. Failure
 * (out of memory, too many) is kept until vr_declare_all returns. */
#ifndef VR_DECLARE_H
#define VR_DECLARE_H

#include "model/model.h"

typedef struct vr_declaring {
    vram_model *m;
    vr_declared *list;
    size_t n, room;
    const char *path;   /* with the class's prefix, ends with a dot or is empty */
    const char *stored; /* what the checkpoint's names have in front of the class's, or NULL */
    size_t skip;        /* bytes at the front of names that the checkpoint's lack */
    uint32_t layer;     /* of what comes next, or VR_NO_LAYER */
    uint8_t part;       /* vr_model_part */
    uint8_t role;       /* vr_expert_role */
    vram_status status;
} vr_declaring;

/* What comes next lies under these words, e.g. T(prefix), T("layers."), U(3), T("."). */
void vr_declare_under_pieces(vr_declaring *d, const vr_piece *p, size_t n);
#define vr_declare_under(d, ...)                                                                             \
    vr_declare_under_pieces((d), (const vr_piece[]){ __VA_ARGS__ },                                          \
                            sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))

/* One parameter or buffer; dims as PyTorch has them, [out, in] of a linear layer. */
void vr_declare(vr_declaring *d, const char *name, vr_param_kind kind, const uint64_t *dims, uint8_t n_dims);
void vr_declare_vector(vr_declaring *d, const char *name, uint64_t n); /* VR_PARAM_WEIGHT */
void vr_declare_matrix(vr_declaring *d, const char *name, uint64_t rows, uint64_t columns);
void vr_declare_experts(vr_declaring *d, const char *name, uint64_t n, uint64_t rows, uint64_t columns);
/* torch.nn.Linear: "module.weight" [out, in] and, when it has one, "module.bias" [out] */
void vr_declare_linear(vr_declaring *d, const char *module, uint64_t in, uint64_t out, bool bias);
/* torch.nn.LayerNorm, whatever the family's norms are: "module.weight" and "module.bias" */
void vr_declare_layer_norm(vr_declaring *d, const char *module, uint64_t n);
/* A norm of the family's kind over n: weight, bias, or neither */
void vr_declare_norm(vr_declaring *d, const char *module, uint64_t n);

/* What plain decoders are made of, in the order and with the names of the family's naming, for special kinds
 * that have some of it. In the layer at d->path. */
void vr_declare_attention(vr_declaring *d, const vr_layer *l);
void vr_declare_mlp(vr_declaring *d, const vr_layer *l);
void vr_declare_norms(vr_declaring *d);
void vr_declare_plain_layer(vr_declaring *d, const vr_layer *l);

/* Fills m->declared and its sums. VRAM_ENOMEM, VRAM_ELIMIT. */
vram_status vr_declare_all(vram_model *m);

#endif
