/* SPDX-License-Identifier: MIT
 * Which multimodal models have which tower, and where its tensors lie: beside the decoder of a checkpoint of
 * transformers before 4.52 ("visual.", "vision_tower."), under "model." since. */
#include "model/tower.h"

#include <string.h>

static const struct {
    const char *model_type; /* of the whole */
    const char *vision;     /* of its vision_config; NULL: any */
    const vr_tower_kind *kind;
} towers[] = {
    { "qwen2_5_vl", NULL, &vr_tower_qwen2_5_vl },     { "qwen3_vl", NULL, &vr_tower_qwen3_vl },
    { "qwen3_vl_moe", NULL, &vr_tower_qwen3_vl },     { "qwen3_5", NULL, &vr_tower_qwen3_5 },
    { "qwen3_5_moe", NULL, &vr_tower_qwen3_5 },       { "gemma3", NULL, &vr_tower_siglip },
    { "llava", "clip_vision_model", &vr_tower_clip }, { "llava", "pixtral", &vr_tower_pixtral_llava },
    { "mistral3", "pixtral", &vr_tower_pixtral },     { "gemma4", "gemma4_vision", &vr_tower_gemma4 },
    { "kimi_k25", NULL, &vr_tower_kimi_k25 },         { "llama4", NULL, &vr_tower_llama4 },
    { "minimax_m3_vl", NULL, &vr_tower_minimax_m3 },
};

static const vr_tower_kind *kind_of(const vr_reading *r, vr_json vision)
{
    vr_json own;
    bool says = vr_json_get(vision, "model_type", &own);
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (vr_str_is(vr_str_of(r->m->model_type), towers[i].model_type) &&
            (towers[i].vision == NULL || (says && vr_json_str_is(own, towers[i].vision))))
            return towers[i].kind;
    return NULL;
}

vram_status vr_read_tower(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json vision;
    if (!vr_family_wrapped(r->family, vr_str_of(m->model_type)) ||
        !vr_json_get(r->root, "vision_config", &vision) || vision.type == VR_JSON_NULL)
        return VRAM_OK;
    if (vision.type != VR_JSON_OBJECT)
        return vr_config_refuse(r, "vision_config", vision, "an object");
    const vr_tower_kind *kind = kind_of(r, vision);
    if (kind == NULL)
        return VRAM_OK;
    vr_tower *t = VR_NEW(&m->arena, vr_tower);
    if (t == NULL)
        return VRAM_ENOMEM;
    vr_reading inner = *r;
    inner.text = vision;
    t->kind = kind;
    VR_TRY(kind->read(&inner, t));
    m->tower = t;
    m->uncounted_part = NULL;
    return VRAM_OK;
}

/* "model." of "model.language_model.", "" of "language_model.model." and of "model.": there it is beside. */
static const char *around(const vram_model *m)
{
    return vr_str_is(vr_str_of(m->prefix), "model.language_model.") ? "model." : "";
}

/* transformers 5 saves SigLIP and CLIP without the "vision_model." that they had before. */
static const char *inside(const vr_declaring *d, const char *outside)
{
    static const char later[] = "vision_tower.", first[] = "vision_tower.embeddings.patch_embedding.weight";
    const char *own = d->m->tower->kind->inside, *name = vr_text(&d->m->arena, T(outside), T(first));
    if (name == NULL)
        return own;
    return vr_checkpoint_find(d->m->checkpoint, vr_str_of(name)) != NULL ? later : own;
}

void vr_declare_tower(vr_declaring *d)
{
    const vr_tower *t = d->m->tower;
    const char *outside = around(d->m);
    d->part = VR_PART_VISION;
    vr_declare_under(d, T(outside), T(inside(d, outside)));
    t->kind->declare(d, t);
    d->part = VR_PART_PROJECTOR;
    d->path = outside;
    if (t->kind->declare_projector != NULL)
        t->kind->declare_projector(d, t);
    d->path = "";
}

void vr_declare_tower_layers(vr_declaring *d, const vr_tower *t, const char *stack,
                             void (*layer)(vr_declaring *, const vr_tower *))
{
    const char *path = d->path;
    for (uint64_t i = 0; i < t->layers && d->status == VRAM_OK; i++) {
        d->layer = (uint32_t)i;
        vr_declare_under(d, T(path), T(stack), U(i), T("."));
        layer(d, t);
    }
    d->layer = VR_NO_LAYER;
    d->path = path;
}

void vr_declare_tower_mlp(vr_declaring *d, const vr_tower *t)
{
    vr_declare_linear(d, "mlp.fc1", t->hidden, t->ffn, true);
    vr_declare_linear(d, "mlp.fc2", t->ffn, t->hidden, true);
}
