/* SPDX-License-Identifier: MIT
 * The list of special kinds. To add one: a file here with its vr_special, a line in the list, and the word in
 * the column `special` of data/architectures.tsv. */
#include "model/special.h"

static const vr_special *const specials[] = {
    &vr_special_compressed,
    &vr_special_delta,
    &vr_special_encoder,
    &vr_special_granite_hybrid,
    &vr_special_granite_moe,
    &vr_special_kimi_linear,
    &vr_special_latent,
    &vr_special_lfm2,
    &vr_special_lfm2_moe,
    &vr_special_moe,
    &vr_special_nemotron_h,
    &vr_special_t5,
    &vr_special_gemma3n,
    &vr_special_gemma4,
    &vr_special_decilm,
    &vr_special_mimo,
    &vr_special_mimo_v2,
    &vr_special_minimax_m3,
    &vr_special_whisper,
    &vr_special_mamba,
    &vr_special_jamba,
    &vr_special_mamba2,
    &vr_special_bamba,
    &vr_special_falcon_h1,
    &vr_special_zamba2,
    &vr_special_recurrent_gemma,
    &vr_special_falcon,
    &vr_special_gptj,
    &vr_special_gpt_neo,
    NULL,
};

const vr_special *vr_special_of(const vr_family *f)
{
    for (size_t i = 0; f->special != NULL && specials[i] != NULL; i++)
        if (vr_str_is(vr_str_of(f->special), specials[i]->name))
            return specials[i];
    return NULL;
}

vram_status vr_read_special(vr_reading *r)
{
    const vr_special *s = vr_special_of(r->family);
    return s != NULL && s->read != NULL ? s->read(r) : VRAM_OK;
}

vr_layer *vr_layers_alike(const vr_reading *r, uint64_t n, vr_layer like)
{
    vr_layer *list = VR_ARRAY(&r->m->arena, vr_layer, (size_t)n);
    for (uint64_t i = 0; list != NULL && i < n; i++)
        list[i] = like;
    return list;
}
