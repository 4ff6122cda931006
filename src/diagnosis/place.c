/* SPDX-License-Identifier: MIT
 *
 * The place in a rehearsal of the model whose figures are those of the message. Here: what the figures are,
 * and who looks for which message.
 */
#include "diagnosis/place.h"

#define MOST_EVENTS 3000000 /* about a tenth of a second */
#define LITTLE (2 * VR_MIB) /* PyTorch's segment of small blocks */

vr_bounds vr_bounds_of(const vr_finding *f, vr_fact_id id)
{
    const vr_fact *x = f->event != NULL ? vr_fact_of(&f->event->sign.facts, id) : NULL;
    if (x == NULL || x->negative)
        return (vr_bounds){ .known = false };
    return (vr_bounds){ true, vr_sub_floor(x->value, x->slack), vr_add_sat(x->value, x->slack) };
}

vr_bounds vr_bounds_finest(const vr_finding *f, vr_fact_id id)
{
    vr_bounds best = { .known = false };
    for (size_t i = 0; f->event != NULL && i < f->event->sign.facts.n; i++) {
        const vr_fact *x = &f->event->sign.facts.f[i];
        vr_bounds b = { true, vr_sub_floor(x->value, x->slack), vr_add_sat(x->value, x->slack) };
        if (x->id == id && !x->negative && (!best.known || b.high - b.low < best.high - best.low))
            best = b;
    }
    return best;
}

void vr_lead_with(struct vram_diagnosis *d, vr_finding *f, const char *text)
{
    size_t had = f->n_evidence;
    if (had == VR_MAX_EVIDENCE)
        f->n_evidence--; /* the last is the least */
    vr_add_evidence(d, f, 0, text);
    for (size_t i = f->n_evidence; i > 1; i--) {
        vr_reason moved = f->evidence[i - 1];
        f->evidence[i - 1] = f->evidence[i - 2];
        f->evidence[i - 2] = moved;
    }
}

bool vr_bounds_have(vr_bounds s, uint64_t x)
{
    return !s.known || (s.low <= x && x <= s.high);
}

uint64_t vr_bounds_middle(vr_bounds s)
{
    return s.low + (s.high - s.low) / 2;
}

vr_bounds vr_bounds_sum(vr_bounds a, vr_bounds b)
{
    return (vr_bounds){ a.known && b.known, vr_add_sat(a.low, b.low), vr_add_sat(a.high, b.high) };
}

/* a - b, not below 0. */
static vr_bounds difference(vr_bounds a, vr_bounds b)
{
    return (vr_bounds){ a.known && b.known, vr_sub_floor(a.low, b.high), vr_sub_floor(a.high, b.low) };
}

/* Idle is printed, or reserved, of which it is the rest. */
bool vr_torch_figures_of(vr_torch_figures *out, const vr_finding *f, vr_bounds named)
{
    *out = (vr_torch_figures){ .total = vr_bounds_of(f, VR_FACT_TOTAL),
                               .left = vr_bounds_of(f, VR_FACT_FREE),
                               .allocated = vr_bounds_of(f, VR_FACT_ALLOCATED),
                               .idle = vr_bounds_of(f, VR_FACT_IDLE),
                               .reserved = vr_bounds_of(f, VR_FACT_RESERVED),
                               .request = vr_bounds_of(f, VR_FACT_REQUEST),
                               .allowed = vr_bounds_of(f, VR_FACT_ALLOWED) };
    if (!out->total.known)
        out->total = named;
    if (!out->idle.known)
        out->idle = difference(out->reserved, out->allocated);
    if (!out->reserved.known)
        out->reserved = vr_bounds_sum(out->allocated, out->idle);
    return vr_is_size_of_card(out->total) && out->allocated.known && out->reserved.known &&
           out->request.known;
}

/* Engines that do not run the model as transformers does: other tensors, in another order. */
bool vr_runs_otherwise(const vr_finding *f)
{
    static const uint8_t others[] = { VR_PROGRAM_VLLM,     VR_PROGRAM_SGLANG,    VR_PROGRAM_TENSORRT_LLM,
                                      VR_PROGRAM_TGI,      VR_PROGRAM_LMDEPLOY,  VR_PROGRAM_MLC,
                                      VR_PROGRAM_EXLLAMA,  VR_PROGRAM_DEEPSPEED, VR_PROGRAM_FSDP,
                                      VR_PROGRAM_MEGATRON, VR_PROGRAM_DIFFUSERS, VR_PROGRAM_COMFYUI,
                                      VR_PROGRAM_A1111 };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (f->program == others[i])
            return true;
    return false;
}

/* A program may have small tensors of its own on the card, which lie in a segment of 2 MiB with those of the
 * model: then all agrees but what is idle. Of a load only, as it was given, and of a request whose size says
 * something. */
static vram_status seek_near(vr_hit *hit, vr_seeker *s)
{
    vr_torch_figures *g = &s->figures;
    if (g->request.low <= VR_SAYS_NOTHING)
        return VRAM_OK;
    g->idle = (vr_bounds){ true, vr_sub_floor(g->idle.low, LITTLE), vr_add_sat(g->idle.high, LITTLE) };
    g->reserved =
        (vr_bounds){ true, vr_sub_floor(g->reserved.low, LITTLE), vr_add_sat(g->reserved.high, LITTLE) };
    s->near = true;
    VR_TRY(vr_seek_given(hit, s));
    if (hit->places != 0 && hit->run.failure.next_moment > VR_AT_LOADED)
        hit->places = 0;
    return VRAM_OK;
}

static vram_status seek_run(vr_hit *hit, vr_seeker *s)
{
    vr_tokens likely = { 0, 0 };
    VR_TRY(vr_seek_given(hit, s));
    if (hit->places == 0)
        VR_TRY(vr_seek_cards(hit, s));
    if (hit->places == 0)
        VR_TRY(vr_seek_variants(hit, s));
    if (hit->places == 0)
        VR_TRY(vr_seek_tokens(hit, &likely, s));
    s->tokens_low = likely.low;
    s->tokens_high = likely.high;
    return hit->places == 0 ? seek_near(hit, s) : VRAM_OK;
}

/* Once for all plans. What the engine refuses is told when the run itself is planned. */
static vram_status prepare(vr_seeker *s)
{
    vram_workload *w;
    vram_status status = vr_workload_resolve(&w, s->asked, s->model, &s->d->arena);
    if (status == VRAM_OK)
        s->prepared = w->prepared;
    return vr_is_refusal(status) ? VRAM_OK : status;
}

static vram_status seek_torch(vr_seeker *s)
{
    vr_hit hit = { .places = 0 };
    bool is_one = false;
    VR_TRY(prepare(s));
    VR_TRY(vr_card_of_text(s, s->figures.total));
    VR_TRY(vr_seek_training(&is_one, s));
    if (is_one)
        return VRAM_OK;
    if ((!vr_runs_otherwise(s->f) || s->asked->engine_given))
        VR_TRY(seek_run(&hit, s));
    return hit.places != 0 ? vr_tell_place(s, &hit) : vr_tell_no_place(s);
}

static vram_status look(vr_seeker *s)
{
    vr_finding *f = s->f;
    bool is_one;
    if (s->model->foreign)
        return VRAM_OK;
    if (f->event == NULL) /* words alone have no figures */
        return vr_foresee(s);
    VR_TRY(vr_seek_pool(&is_one, s));
    if (!is_one)
        VR_TRY(vr_seek_buffer(&is_one, s));
    if (is_one)
        return VRAM_OK;
    if (!vr_torch_figures_of(&s->figures, f, vr_named_total(s)))
        return vr_foresee(s);
    f->spot.tried = true;
    return seek_torch(s);
}

/* A run that the engine refuses has no places, but the text is explained all the same. */
static vram_status tell_refusal(vr_seeker *s, vram_status status)
{
    vr_spot *spot = &s->f->spot;
    if (!vr_is_refusal(status) || spot->found)
        return vr_is_refusal(status) ? VRAM_OK : status;
    spot->tried = true;
    spot->not_found =
        vr_text(&s->d->arena, T("such a run is refused: "), T(vram_last_error(s->d->ctx)->text));
    return spot->not_found != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* What comes after the first that has figures is mostly of the same run. */
static bool is_told(const struct vram_diagnosis *d, const vr_finding *f)
{
    for (const vr_finding *x = d->list; x < f; x++)
        if (x->spot.tried)
            return true;
    return false;
}

/* Warnings are about what was asked for, not about what could have been. */
vram_status vr_diagnose_place(struct vram_diagnosis *d, vr_finding *f, const vram_model *m,
                              const vram_workload *w)
{
    vr_seeker s = { .d = d, .f = f, .model = m, .asked = w, .cards = 1, .budget = MOST_EVENTS };
    size_t warned = d->ctx->n_warnings;
    if (is_told(d, f))
        return VRAM_OK;
    vr_arena_init(&s.plans, d->ctx);
    vr_hall_open(&s.hall, d->ctx);
    vram_status status = tell_refusal(&s, look(&s));
    vr_hall_close(&s.hall);
    vr_arena_free(&s.plans);
    d->ctx->n_warnings = warned;
    if (status == VRAM_OK && s.warning != NULL)
        status = vr_warn(d->ctx, NULL, T(s.warning));
    return status;
}
