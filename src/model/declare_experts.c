/* SPDX-License-Identifier: MIT
 * What a block of experts declares, in the order of transformers 4 and with the names of checkpoints; from
 * version 5 on the engine merges what is here of each expert (modeling_*.py, conversion_mapping.py). */
#include "model/experts.h"

static void linear(vr_declaring *d, const char *block, const char *module, uint64_t in, uint64_t out,
                   bool bias)
{
    const char *path = d->path;
    vr_declare_under(d, T(path), T(block));
    vr_declare_linear(d, module, in, out, bias);
    d->path = path;
}

static void role_of(vr_declaring *d, vr_expert_role role)
{
    d->role = (uint8_t)role;
}

static void expert(vr_declaring *d, const vr_layer *l)
{
    const vr_moe *moe = l->moe;
    uint64_t h = d->m->hidden, f = l->expert_ffn;
    for (unsigned i = 0; i < 3; i++) {
        bool down = i == (moe->down_second ? 1 : 2);
        role_of(d, down ? VR_EXPERT_DOWN : i == 0 ? VR_EXPERT_GATE : VR_EXPERT_UP);
        const char *name = down ? moe->down : i == 0 ? moe->gate : moe->up;
        vr_declare_linear(d, name, down ? f : h, down ? h : f, moe->biased);
    }
    role_of(d, VR_EXPERT_NONE);
}

static void listed(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    for (uint32_t i = 0; i < l->experts && d->status == VRAM_OK; i++) {
        vr_declare_under(d, T(path), T("experts."), U(i), T("."));
        expert(d, l);
    }
    d->path = path;
}

/* GptOssExperts, Llama4TextExperts: parameters of the module itself */
static void fused(vr_declaring *d, const vr_layer *l)
{
    const vr_moe *moe = l->moe;
    const char *path = d->path;
    uint64_t e = l->experts, h = d->m->hidden, f = l->expert_ffn;
    bool transposed = moe->form == VR_EXPERTS_TRANSPOSED;
    vr_declare_under(d, T(path), T("experts."));
    vr_declare_experts(d, moe->gate, e, transposed ? h : 2 * f, transposed ? 2 * f : h);
    if (moe->biased)
        vr_declare_matrix(d, "gate_up_proj_bias", e, 2 * f);
    vr_declare_experts(d, moe->down, e, transposed ? f : h, transposed ? h : f);
    if (moe->biased)
        vr_declare_matrix(d, "down_proj_bias", e, h);
    d->path = path;
}

static void router(vr_declaring *d, const vr_layer *l)
{
    const vr_moe *moe = l->moe;
    uint64_t e = l->experts;
    role_of(d, VR_EXPERT_ROUTER);
    if (moe->correction == VR_CORRECTION_FIRST)
        vr_declare_matrix(d, moe->correction_name, 1, e);
    vr_declare_linear(d, moe->router_name, d->m->hidden, e, moe->biased);
    if (moe->correction == VR_CORRECTION_OF_ROUTER)
        vr_declare(d, moe->correction_name, VR_PARAM_STATE_F32, &e, 1);
    role_of(d, VR_EXPERT_NONE);
}

static void all_experts(vr_declaring *d, const vr_layer *l)
{
    if (l->moe->form == VR_EXPERTS_LIST)
        listed(d, l);
    else
        fused(d, l);
}

static void gated_mlp(vr_declaring *d, const char *block, uint64_t ffn, bool bias)
{
    uint64_t h = d->m->hidden;
    linear(d, block, "gate_proj", h, ffn, bias);
    linear(d, block, "up_proj", h, ffn, bias);
    linear(d, block, "down_proj", ffn, h, bias);
}

static void shared(vr_declaring *d, const vr_layer *l)
{
    const vr_moe *moe = l->moe;
    const char *path = d->path;
    if (moe->shared == NULL || l->shared_ffn == 0)
        return;
    vr_declare_under(d, T(path), T(moe->shared), T("."));
    gated_mlp(d, "", l->shared_ffn, false);
    d->path = path;
    if (moe->shared_gate != NULL)
        vr_declare_linear(d, moe->shared_gate, d->m->hidden, 1, false);
}

void vr_declare_experts_block(vr_declaring *d, const vr_layer *l)
{
    const vr_moe *moe = l->moe;
    const char *path = d->path;
    uint64_t e = l->experts;
    vr_declare_under(d, T(path), T(moe->block));
    if (!moe->router_last)
        router(d, l);
    all_experts(d, l);
    if (moe->router_last)
        router(d, l);
    shared(d, l);
    if (moe->correction == VR_CORRECTION_LAST) {
        role_of(d, VR_EXPERT_ROUTER);
        vr_declare(d, moe->correction_name, VR_PARAM_STATE, &e, 1);
        role_of(d, VR_EXPERT_NONE);
    }
    d->path = path;
}

void vr_declare_any_mlp(vr_declaring *d, const vr_layer *l)
{
    if (l->mlp == VR_MLP_EXPERTS)
        vr_declare_experts_block(d, l);
    else
        vr_declare_mlp(d, l);
}
