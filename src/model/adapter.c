/* SPDX-License-Identifier: MIT
 * An adapter alone: what adapter_config.json says of it, and how many modules its tensors adapt.
 * Form: peft 0.17, config.py (PeftConfigMixin: peft_type, base_model_name_or_path) and tuners/lora/config.py
 * (LoraConfig: r, lora_alpha, target_modules a string or a list); names of tensors: tuners/lora/layer.py
 * (lora_A, lora_embedding_A). */
#include "model/reading.h"

#include <string.h>

#define SHOWN_TARGETS 12

static vram_status refuse(const vr_reading *r, const char *key, vr_json v, const char *expected)
{
    const vram_checkpoint *ck = r->ck;
    return vr_fail_at(r->ctx, VRAM_EFORMAT, ck->adapter_file, (uint64_t)(v.text.s - ck->adapter_text.s),
                      T(key), T(" is not "), T(expected));
}

static bool get(const vr_reading *r, const char *key, vr_json *out)
{
    return vr_json_get(r->ck->adapter_config, key, out) && out->type != VR_JSON_NULL;
}

static vram_status text_of(vr_reading *r, const char *key, vr_json v, const char **out)
{
    vr_str s;
    if (v.type != VR_JSON_STRING)
        return refuse(r, key, v, "a string");
    if (!vr_json_str(v, &r->m->arena, &s))
        return VRAM_ENOMEM;
    *out = vr_arena_copy(&r->m->arena, s);
    return *out != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status string(vr_reading *r, const char *key, const char **out)
{
    vr_json v;
    return get(r, key, &v) ? text_of(r, key, v, out) : VRAM_OK;
}

static vram_status read_rank(vr_reading *r, vr_adapter *a)
{
    vr_json v;
    double alpha;
    if (get(r, "r", &v) && !vr_json_u64(v, &a->rank))
        return refuse(r, "r", v, "a whole number");
    if (!get(r, "lora_alpha", &v))
        return VRAM_OK;
    if (!vr_json_double(v, &alpha) || v.text.n > 24)
        return refuse(r, "lora_alpha", v, "a number");
    a->alpha = vr_arena_copy(&r->m->arena, v.text);
    return a->alpha != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status add_target(vr_reading *r, vr_adapter *a, vr_json v)
{
    const char *word = NULL;
    VR_TRY(text_of(r, "target_modules", v, &word));
    if (++a->n_targets > SHOWN_TARGETS)
        return VRAM_OK;
    a->targets = vr_text(&r->m->arena, T(a->targets != NULL ? a->targets : ""),
                         T(a->targets != NULL ? " " : ""), T(word));
    return a->targets != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status read_targets(vr_reading *r, vr_adapter *a)
{
    vr_json v, one;
    if (!get(r, "target_modules", &v))
        return VRAM_OK;
    if (v.type == VR_JSON_STRING)
        return add_target(r, a, v);
    if (v.type != VR_JSON_ARRAY)
        return refuse(r, "target_modules", v, "a string or an array of strings");
    vr_json_iter it = vr_json_each(v);
    while (vr_json_next(&it, &one))
        VR_TRY(add_target(r, a, one));
    if (a->n_targets <= SHOWN_TARGETS)
        return VRAM_OK;
    a->targets =
        vr_text(&r->m->arena, T(a->targets), T(" and "), U(a->n_targets - SHOWN_TARGETS), T(" more"));
    return a->targets != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static void count_modules(const vram_checkpoint *ck, vr_adapter *a)
{
    for (size_t i = 0; i < ck->n_tensors; i++)
        a->n_modules += vr_str_find(ck->tensors[i].name, ".lora_A", NULL) ||
                        vr_str_find(ck->tensors[i].name, ".lora_embedding_A", NULL);
}

static vram_status read_config(vr_reading *r, vr_adapter *a)
{
    if (!r->ck->has_adapter)
        return VRAM_OK;
    VR_TRY(string(r, "peft_type", &a->type));
    VR_TRY(string(r, "base_model_name_or_path", &a->base));
    VR_TRY(read_rank(r, a));
    return read_targets(r, a);
}

vram_status vr_read_adapter(vr_reading *r)
{
    vram_model *m = r->m;
    vr_adapter *a = VR_NEW(&m->arena, vr_adapter);
    if (a == NULL)
        return VRAM_ENOMEM;
    m->adapter = a;
    VR_TRY(read_config(r, a));
    count_modules(r->ck, a);
    if (a->type != NULL && vr_str_is(vr_str_of(a->type), "LORA"))
        a->type = "LoRA";
    m->architecture = a->type == NULL ? "adapter" : vr_text(&m->arena, T(a->type), T(" adapter"));
    if (m->architecture == NULL)
        return VRAM_ENOMEM;
    if (a->base == NULL)
        return vr_not_understood(r, T("this is an adapter and no model, and it does not say of which"));
    return vr_not_understood(r, T("this is an adapter and no model: it is loaded on top of "), T(a->base));
}
