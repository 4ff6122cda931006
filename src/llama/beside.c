/* SPDX-License-Identifier: MIT
 * Beside a model: each part is measured as if it were alone, in what the parts before it leave.
 *
 * Source: llama.cpp b10470, tools/server/server-context.cpp (load_model), common/speculative.cpp
 * (common_speculative_init_result), tools/mtmd/clip.cpp (clip_ctx: the first GPU). */
#include "llama/beside.h"

/* Of what a model takes in the place of tokens. */
static uint64_t width(const vr_lm *lm)
{
    return vr_mul_sat(lm->n_embd, vr_add_sat(vr_lm_number(lm, "n_deepstack_layers", 0), 1));
}

static vram_status see(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_beside *b, const vr_lm_device *devices,
                       size_t n, vr_arena *a)
{
    vr_clip_params p = b->seeing;
    vr_clip_sizes *s = VR_NEW(a, vr_clip_sizes);
    if (s == NULL)
        return VRAM_ENOMEM;
    p.on_host = p.on_host || n == 0;
    p.cc = n > 0 ? devices[0].cc : 0;
    VR_TRY(vr_clip_measure(s, b->projector, &p, a));
    s->on_host = p.on_host;
    out->projector = s;
    if (s->width == 0 || s->width == width(lm))
        return VRAM_OK;
    out->refused = true;
    out->why = vr_text(a, T("the projector gives rows of "), GROUPED(s->width),
                       T(" numbers and the model takes "), GROUPED(width(lm)), T(": it is another model's"));
    return out->why != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* What the model itself leaves of a card; 0 is unknown, so 1 byte is the least. */
static vr_lm_device rest(const vr_lm_device *d, const vr_lm_memory *m)
{
    uint64_t taken = vr_add_sat(vr_add_sat(m->model, m->context), vr_add_sat(m->compute, m->adapter));
    vr_lm_device r = *d;
    if (r.free_bytes != 0)
        r.free_bytes = r.free_bytes > taken ? r.free_bytes - taken : 1;
    return r;
}

static vram_status draft(vr_lm_sizes *out, const vr_lm_beside *b, const vr_lm_device *devices, size_t n,
                         vr_arena *a)
{
    vr_lm_device left[VR_LM_MOST_DEVICES];
    vr_lm_sizes *s = VR_NEW(a, vr_lm_sizes);
    if (s == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        left[i] = b->predicts ? devices[i] : rest(&devices[i], &out->device[i]);
    VR_TRY(vr_lm_measure(s, b->draft, &b->drafting, left, n, a));
    out->draft = s;
    out->verified = out->verified && s->verified;
    out->refused = out->refused || s->refused;
    out->unknown = out->unknown || s->unknown;
    if (s->refused || s->unknown)
        out->why = vr_text(a, T(b->predicts ? "what predicts: " : "the draft model: "), T(s->why));
    return out->why == NULL && (s->refused || s->unknown) ? VRAM_ENOMEM : VRAM_OK;
}

#define DRAFTS_FROM 10212 /* builds before it loaded such layers in another way */

void vr_lm_beside_predict(const char **why, vr_lm_beside *b, vr_lm_params *p, const vr_lm *lm,
                          uint64_t drafts)
{
    *why = lm->n_layer_nextn == 0 ? "the model has no layers that predict further tokens" : NULL;
    if (*why != NULL)
        return;
    if (p->build < DRAFTS_FROM) {
        b->unknown = "what drafts of this kind take in builds before b10212 is not worked out";
        return;
    }
    p->load_mtp = true;
    p->n_rs_seq = drafts;
    b->draft = lm;
    b->predicts = true;
    b->drafting = *p;
    b->drafting.beside = NULL;
    b->drafting.type_k = b->drafting.type_v = VR_F16;
    b->drafting.predicts = b->drafting.chooses = true;
    b->drafting.n_rs_seq = 0;
    b->drafting.n_outputs_max = p->n_seq_max;
}

vram_status vr_lm_measure_beside(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p,
                                 const vr_lm_device *devices, size_t n, vr_arena *a)
{
    const vr_lm_beside *b = p->beside;
    if (b == NULL || out->refused || out->unknown)
        return VRAM_OK;
    n = n < VR_LM_MOST_DEVICES ? n : VR_LM_MOST_DEVICES;
    out->drafts_unknown = b->unknown;
    out->draft_unread = b->unread;
    if (b->draft != NULL)
        VR_TRY(draft(out, b, devices, n, a));
    return b->projector != NULL && !out->refused && !out->unknown ? see(out, lm, b, devices, n, a) : VRAM_OK;
}
