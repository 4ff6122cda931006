/* SPDX-License-Identifier: MIT
 * Engine transformers: what from_pretrained, a forward pass over the prompt and further single tokens take on
 * one card.
 *
 * The calls rehearsed:  model = AutoModelForCausalLM.from_pretrained(...).to("cuda")
 *                       out = model(ids, use_cache=True[, logits_to_keep=1])      for each batch of sequences
 *                       out = model(ids[:, :1], past_key_values=out.past_key_values, ...)     for each token
 *                       del out, ids; torch.cuda.empty_cache()
 * under torch.no_grad(). Which of these tapes have been held against real runs is in `held` below. */
#include <string.h>

#include "engine/loading.h"
#include "engine/caches.h"
#include "engine/experts.h"
#include "engine/encdec.h"
#include "engine/experts.h"
#include "engine/packed_run.h"
#include "engine/words.h"

#define EVENTS_A_LAYER 100 /* at most; 55 in a qwen2 */
#define EVENTS_A_LATENT 60 /* more than that, of latent attention, and of its index */
#define EVENTS_AN_INDEX 90
#define EVENTS_AN_EXPERT 20
#define EVENTS_A_PACKING 80 /* of a quantised cache */
/* Of generated tokens; what is more is taken in larger steps, of which there are at least so many. Held
 * against every single step on Qwen2.5 of 0.5, 1.5 and 7 billion, up to 4,096 tokens: the driver figure
 * differs by one segment of 2 MiB at most with one batch of prompts; with 64 of them, against 128 steps, by
 * 2 %. */
#define MOST_STEP_EVENTS 100000
#define LEAST_STEPS 16
/* Of prompts and steps. Half of it gets on the tape, of small models two thirds: 60 MB. */
#define MOST_PASS_EVENTS 3600000
#define MOST_TAPE ((size_t)1 << 22) /* only a checkpoint of so many tensors gets there */
#define STREAMS 32 /* that PyTorch gives out in turn (c10/cuda/CUDAStream.cpp, kStreamsPerPool) */
#define UNCERTAIN_DENSE                                                                                      \
    100 /* permille of activations: same modules, other kernels; these differ by single storages */
#define UNCERTAIN_QUANTISED 300 /* what bitsandbytes takes while it runs is by formula */

/* ---- settings that the version decides ---- */

static bool is_family(const vram_model *m, const char *model_type)
{
    return m->family != NULL && vr_str_is(vr_str_of(m->family->model_type), model_type);
}

/* Nothing can be computed in whole numbers or 8 bits: torch.set_default_dtype refuses them, and so does
 * from_pretrained (modeling_utils.py, local_torch_dtype). */
static vram_status no_load_dtype(const vram_workload *w, const vram_model *m)
{
    const vram_checkpoint *ck = m->checkpoint;
    vr_str word, rest = vr_str_of(vr_dtype_name(m->dtype));
    if (m->dtype_at != 0) /* behind the quote */
        rest = (vr_str){ ck->config_text.s + m->dtype_at + 1, ck->config_text.n - (size_t)m->dtype_at - 1 };
    (void)vr_str_split(&rest, '"', &word);
    vram_status s =
        vr_fail_at(w->ctx, VRAM_EUNSUPPORTED, m->dtype_at != 0 ? ck->config_file : ck->name, m->dtype_at,
                   T("the dtype is "), S(word), T(", which weights cannot be loaded as"));
    vr_hint(w->ctx, "give --dtype bf16, fp16 or fp32");
    return vr_checkpoint_placed(ck, s);
}

static bool is_packed_as(const vram_model *m, const char *method)
{
    return m->packing.method != NULL && vr_str_is(vr_str_of(m->packing.method), method);
}

/* "auto": the config's dtype, or that of the first floating tensor; packed formats compute in 16 bits. */
static vram_status automatic_dtype(vram_workload *w, const vram_model *m)
{
    bool known = m->dtype == VR_BF16 || m->dtype == VR_F16 || m->dtype == VR_F32;
    if (m->dtype == VR_F64)
        return vr_fail(w->ctx, VRAM_EUNSUPPORTED, T("the checkpoint is in "), T(vr_dtype_name(m->dtype)),
                       T(", which is not rehearsed: give --dtype"));
    if (!known && !m->quantised && m->dtype != VR_DTYPE_NONE)
        return no_load_dtype(w, m);
    w->dtype = known ? m->dtype : m->quantised ? VR_BF16 : VR_F32;
    if (w->dtype == VR_BF16 && is_packed_as(m, "awq")) /* quantizer_awq.py, update_dtype */
        w->dtype = VR_F16;
    if (w->set_by[VR_SET_DTYPE] != VR_BY_USER)
        w->set_by[VR_SET_DTYPE] = VR_BY_MODEL;
    return VRAM_OK;
}

static vram_status default_dtype(vram_workload *w, const vram_model *m)
{
    bool set = w->set_by[VR_SET_DTYPE] == VR_BY_USER;
    if (set && !w->dtype_auto)
        return VRAM_OK;
    if (set || vr_rules_of(w)->dtype_auto || vr_can_unpack(m))
        return automatic_dtype(w, m);
    bool halves = w->weight_quant != VR_QUANT_NONE || is_packed_as(m, "gptq") || is_packed_as(m, "awq");
    w->dtype = halves ? VR_F16 : VR_F32; /* quantizer_*.py, update_dtype */
    return VRAM_OK;
}

/* What sdpa cannot compute, its class refuses. */
static const char *why_no_sdpa(const vram_workload *w, const vram_model *m)
{
    if (vr_rules_of(w)->gemma2_eager && is_family(m, "gemma2"))
        return ", whose scores are capped";
    if (m->family != NULL && m->family->alibi)
        return ", whose scores have a bias";
    for (uint64_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].sinks)
            return ", whose attention has sinks";
    return NULL;
}

static vram_status default_attention(vram_workload *w, const vram_model *m)
{
    const char *why = why_no_sdpa(w, m);
    if (why == NULL || w->attention != VR_IMPL_SDPA)
        return VRAM_OK;
    if (w->set_by[VR_SET_ATTENTION] != VR_BY_USER) {
        w->attention = VR_IMPL_EAGER;
        return VRAM_OK;
    }
    vram_status s =
        vr_fail(w->ctx, VRAM_ESETTING, T("--attention sdpa: transformers "), U(w->version_major), T("."),
                U(w->version_minor), T(" refuses it for "), T(m->family->model_type), T(why));
    vr_hint(w->ctx, "take --attention eager or flash");
    return s;
}

/* Cache.prefetch looks for a layer that goes to the host and finds none. */
static vram_status check_cache(const vram_workload *w, const vram_model *m)
{
    uint64_t sliding = 0;
    for (uint64_t i = 0; i < m->n_layers; i++)
        sliding += m->layers[i].attention == VR_ATTENTION_SLIDING;
    if (w->cache != VR_CACHE_OFFLOADED_STATIC || sliding == 0 || sliding != m->n_layers)
        return VRAM_OK;
    vram_status s = vr_fail(w->ctx, VRAM_ESETTING, T("--cache offloaded_static: all layers of "),
                            T(m->architecture), T(" slide, and these it does not offload"));
    vr_hint(w->ctx, "take --cache offloaded or static");
    return s;
}

static vram_status default_experts(vram_workload *w)
{
    if (vr_rules_of(w)->fused_experts)
        return VRAM_OK;
    if (w->set_by[VR_SET_EXPERTS] == VR_BY_USER && w->experts != VR_EXPERTS_EAGER)
        return vr_fail(
            w->ctx, VRAM_ESETTING,
            T("--experts-implementation: transformers before 5 runs its experts in a loop (eager)"));
    w->experts = VR_EXPERTS_EAGER;
    return VRAM_OK;
}

/* Its forward has no logits_to_keep (modeling_whisper.py). */
static vram_status default_logits(vram_workload *w, const vram_model *m)
{
    if (m->source_positions == 0 || w->logits == VR_LOGITS_ALL)
        return VRAM_OK;
    if (w->set_by[VR_SET_LOGITS] == VR_BY_USER)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--logits last: "), T(m->architecture),
                       T(" computes those of every token that it reads"));
    w->logits = VR_LOGITS_ALL;
    w->set_by[VR_SET_LOGITS] = VR_BY_MODEL;
    return VRAM_OK;
}

static vram_status defaults(vram_workload *w, const vram_model *m)
{
    VR_TRY(default_experts(w));
    VR_TRY(vr_check_unpacking(w, m));
    VR_TRY(default_dtype(w, m));
    if (m->structure == VR_ENCODER && (w->decode != 0 || vr_beams(w) > 1))
        return vr_fail(w->ctx, VRAM_ESETTING, T(w->decode != 0 ? "--decode: " : "--beams: "),
                       T(m->architecture), T(" is an encoder and generates nothing"));
    if (w->logits == VR_LOGITS_ALL && vr_beams(w) > 1)
        return vr_fail(w->ctx, VRAM_ESETTING,
                       T("--beams: generate() computes the last logits only, not --logits all"));
    VR_TRY(check_cache(w, m));
    VR_TRY(default_logits(w, m));
    VR_TRY(vr_quantized_defaults(w, m));
    VR_TRY(vr_drafts_defaults(w, m));
    return default_attention(w, m);
}

/* ---- sequences in groups ---- */

typedef struct groups {
    vr_group *list;
    uint64_t n;
    vr_block ids, pixels;
} groups;

static uint64_t events_of_all_layers(const vram_model *m, const vram_workload *w)
{
    uint64_t n = EVENTS_A_LAYER;
    if (w->cache == VR_CACHE_QUANTIZED)
        n += m->n_layers * EVENTS_A_PACKING;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        n += EVENTS_A_LAYER + (uint64_t)l->experts * EVENTS_AN_EXPERT;
        n += l->attention == VR_ATTENTION_LATENT ? EVENTS_A_LATENT : 0;
        n += l->index_topk != 0 ? EVENTS_AN_INDEX : 0;
    }
    if (w->assistant != NULL) /* the first and the last token of each draft */
        n += 2 * EVENTS_A_LAYER * (w->assistant->n_layers + 1);
    return n;
}

static const vr_search no_search = { VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE,
                                     VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE };

static vram_status make_groups(groups *g, const vr_pass *p)
{
    const vram_workload *w = p->w;
    uint64_t left = w->sequences, layers = p->m->n_layers;
    uint64_t passes = w->decode == 0 ? 1 : 1 + (w->decode < LEAST_STEPS ? w->decode : LEAST_STEPS);
    g->n = w->sequences / w->prefill_batch + (w->sequences % w->prefill_batch != 0);
    if (g->n > MOST_PASS_EVENTS / (events_of_all_layers(p->m, w) * passes) + 1) {
        vram_status s = vr_fail(p->m->ctx, VRAM_ELIMIT, GROUPED(g->n),
                                T(" batches of prompts one after the other are more than can be rehearsed"));
        vr_hint(p->m->ctx,
                w->decode == 0 ? "raise --prefill-batch" : "raise --prefill-batch, or leave --decode out");
        return s;
    }
    g->list = VR_ARRAY(p->arena, vr_group, (size_t)g->n);
    vr_kv *kv = VR_ARRAY(p->arena, vr_kv, (size_t)(g->n * layers));
    if (g->list == NULL || kv == NULL)
        return VRAM_ENOMEM;
    for (uint64_t i = 0; i < g->n; i++) {
        uint64_t n = left < w->prefill_batch ? left : w->prefill_batch;
        g->list[i] = (vr_group){ .sequences = n * vr_beams(w),
                                 .layers = kv + i * layers,
                                 .search = no_search,
                                 .scores = { VR_NONE, VR_NONE },
                                 .logits = VR_NONE,
                                 .stream = (uint8_t)(1 + i % STREAMS) };
        left -= n;
    }
    return VRAM_OK;
}

/* Room for `times` more of what was written since `from`, and for giving everything back. */
static void expect(vr_pass *p, const groups *g, size_t from, uint64_t times)
{
    uint64_t events = (p->tape->n - from) * times + g->n * (3 * p->m->n_layers + 1) + 2;
    vr_tape_reserve(p->tape, p->tape->n + (size_t)events, 0);
}

/* Of several batches, each one's logits are read and dropped before the next begins. */
static void pass_all(vr_pass *p, groups *g, uint64_t q)
{
    size_t from = p->tape->n;
    for (uint64_t i = 0; i < g->n && p->tape->status == VRAM_OK; i++) {
        vr_group *group = &g->list[i];
        vr_beams_feed(p, group, q);
        vr_assistant_draft(p, group);
        vr_forward(p, group, q);
        vr_beams_step(p, group);
        vr_drafts_step(p, group);
        if (i == 0 && q > 1)
            expect(p, g, from, g->n - 1);
        if (i + 1 < g->n) {
            vr_drop(p, group->logits);
            vr_forget_seen(p, group);
            group->logits = VR_NONE;
        }
    }
}

/* Steps of one token; the cache of so many that they would fill the tape grows by several at a time. */
static bool decode_all(vr_pass *p, groups *g)
{
    uint64_t n = p->w->decode,
             most = MOST_STEP_EVENTS / (g->n * events_of_all_layers(p->m, p->w)) + LEAST_STEPS;
    uint64_t steps = n < most ? n : most;
    size_t from = p->tape->n;
    for (uint64_t s = 0; s < steps && p->tape->status == VRAM_OK; s++) {
        uint64_t past = p->w->context + vr_mul_div(n, s + 1, steps) - 1;
        for (uint64_t i = 0; i < g->n; i++)
            g->list[i].past = past;
        pass_all(p, g, 1 + p->w->drafts);
        if (s == 0)
            expect(p, g, from, steps - 1);
    }
    return steps != n;
}

static void release_all(vr_pass *p, groups *g)
{
    for (uint64_t i = 0; i < g->n; i++) {
        vr_group *group = &g->list[i];
        vr_drop(p, group->logits);
        vr_forget_seen(p, group);
        vr_beams_end(p, group);
        vr_drop(p, group->scores[0]);
        vr_drop(p, group->scores[1]);
        for (uint64_t l = 0; l < p->m->n_layers; l++) {
            vr_drop(p, group->layers[l].window);
            vr_drop(p, group->layers[l].k);
            vr_drop(p, group->layers[l].v);
            vr_drop(p, group->layers[l].index);
            vr_drop(p, group->layers[l].conv);
            vr_drop(p, group->layers[l].state);
            vr_drop_packed(p, &group->layers[l]);
        }
    }
    vr_assistant_end(p);
    vr_drop(p, g->pixels);
    vr_drop(p, g->ids);
    vr_tape_empty_cache(p->tape);
    vr_tape_mark(p->tape, VR_AT_RELEASED);
}

/* Of several batches, each one's results are read and dropped before the next begins. */
static void run_encoder(vr_pass *p)
{
    uint64_t left = p->w->sequences;
    vr_encoded out = { VR_NONE, VR_NONE };
    vr_block ids = vr_take_at(p, left * p->w->context * 8, VR_ITEM_INPUTS, VR_PLACE_IDS);
    while (left != 0 && p->tape->status == VRAM_OK) {
        uint64_t n = left < p->w->prefill_batch ? left : p->w->prefill_batch;
        vr_drop(p, out.hidden);
        vr_drop(p, out.pooled);
        out = vr_encode(p, n, p->w->context);
        left -= n;
    }
    vr_tape_mark(p->tape, VR_AT_PREFILL);
    vr_drop(p, out.hidden);
    vr_drop(p, out.pooled);
    vr_drop(p, ids);
    vr_tape_empty_cache(p->tape);
    vr_tape_mark(p->tape, VR_AT_RELEASED);
}

static vram_status run(vr_pass *p, vr_facts *facts)
{
    groups g = { 0 };
    if (p->m->structure == VR_ENCODER) {
        run_encoder(p);
        return VRAM_OK;
    }
    if (p->m->structure == VR_ENCODER_DECODER)
        return vr_encdec_run(p, &facts->steps_skipped);
    VR_TRY(make_groups(&g, p));
    vr_pass_on(p, p->placement != NULL ? p->placement->embedding : 0);
    g.ids = vr_take_at(p, p->w->sequences * p->w->context * 8, VR_ITEM_INPUTS, VR_PLACE_IDS);
    g.pixels = p->w->images != 0 ? vr_pixels(p, p->w->sequences) : VR_NONE;
    pass_all(p, &g, p->w->context + p->w->drafts);
    vr_tape_mark(p->tape, VR_AT_PREFILL);
    if (p->w->decode != 0) {
        facts->steps_skipped = decode_all(p, &g);
        vr_tape_mark(p->tape, VR_AT_DECODE);
    }
    release_all(p, &g);
    return VRAM_OK;
}

/* ---- what the plan says of itself ---- */

/* Rotary embeddings that are recomputed while running take storages that no recorded run shows. */
static bool rotary_is_static(const vram_model *m)
{
    vr_json type, pairs;
    bool interleaved = true;
    if (!m->checkpoint->has_config)
        return true;
    if (vr_json_get(m->checkpoint->config, "rope_interleave", &pairs) && vr_json_bool(pairs, &interleaved) &&
        !interleaved) /* latent attention that rotates halves */
        return false;
    if (!vr_json_get(m->checkpoint->config, "rope_scaling.rope_type", &type) &&
        !vr_json_get(m->checkpoint->config, "rope_scaling.type", &type) &&
        !vr_json_get(m->checkpoint->config, "rope_parameters.rope_type", &type))
        return true;
    return !vr_json_str_is(type, "longrope") && !vr_json_str_is(type, "dynamic") &&
           !vr_json_str_is(type, "su");
}

static bool is_plain(const vr_pass *p)
{
    return p->w->weight_quant == VR_QUANT_NONE && !p->m->quantised;
}

static bool is_verified(const vr_pass *p, const vr_facts *f)
{
    const vram_workload *w = p->w;
    const vr_torch_rules *t = p->torch;
    bool kernels =
        w->attention == VR_IMPL_EAGER ? p->device->cc_major == 8 : vr_sdpa_traced(w, p->m, p->device);
    return f->has_activations && !vr_loops_over_experts(p) && is_plain(p) && kernels &&
           vr_family_held(p->m, w) && vr_version_traced(w) && rotary_is_static(p->m) && w->dtype == VR_BF16 &&
           w->device_map == VR_MAP_NONE && !f->steps_skipped && t->lt_stays && !t->unified &&
           p->m->uncounted_part == NULL && vr_whole_held(p->m, w);
}

static const char *why_no_cache(const vr_pass *p, const vr_facts *f)
{
    return f->refused != NULL            ? f->refused
           : p->m->cache_unknown != NULL ? p->m->cache_unknown
           : vr_no_assistant(p)          ? vr_no_assistant(p)
           : vr_no_cache(p->m, p->w)     ? vr_no_cache(p->m, p->w)
                                         : p->m->not_understood;
}

static const char *why_no_activations(const vr_pass *p)
{
    const char *packed = vr_no_packed_tape(p->m, p->w, p->device, p->arena);
    if (packed != NULL)
        return packed;
    if (p->m->uncounted_part == NULL)
        return vr_no_tape(p->m, p->w);
    return vr_text(p->arena, T("the "), T(p->m->uncounted_part),
                   T(" beside the decoder is not computed yet"));
}

/* Without files: a published configuration that is built in, or one that the user has. */
static void tell_evidence(vr_plan *plan, const vram_model *m)
{
    if (!m->checkpoint->config_only)
        return;
    uint8_t basis = m->n_assumed != 0                  ? VR_BASIS_ASSUMED
                    : m->checkpoint->catalogue != NULL ? VR_BASIS_TABLE
                                                       : VR_BASIS_FORMULA;
    plan->basis[VR_WEIGHTS] = m->dtype_assumed ? VR_BASIS_ASSUMED : basis;
    plan->basis[VR_KV_CACHE] = basis;
    if (m->weights_unknown == NULL)
        return;
    plan->counted[VR_WEIGHTS] = false;
    plan->why_not[VR_WEIGHTS] = m->weights_unknown;
}

/* A cache that grows or moves: what the peak finds of it is a matter of the rehearsal. */
static void tell_growth(vr_plan *plan, const vram_workload *w)
{
    if (vr_cache_offloads(w) || (w->decode != 0 && !vr_cache_fixed(w)))
        plan->basis[VR_KV_CACHE] = VR_BASIS_SIMULATED;
}

static uint64_t uncertain(const vr_plan *plan, const vr_pass *p)
{
    if (plan->verified)
        return 0;
    if (vr_quantises(p->w))
        return UNCERTAIN_QUANTISED;
    return p->packed != NULL ? vr_packed_uncertain(p) : UNCERTAIN_DENSE;
}

static vram_status describe(vr_plan *plan, const vr_pass *p, vr_facts *f)
{
    bool by_formula = p->w->weight_quant != VR_QUANT_NONE;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        plan->counted[c] = true;
        plan->basis[c] = VR_BASIS_EXACT;
    }
    plan->basis[VR_WEIGHTS] = by_formula       ? VR_BASIS_FORMULA
                              : f->n_anew != 0 ? VR_BASIS_ASSUMED
                                               : VR_BASIS_EXACT;
    tell_evidence(plan, p->m);
    VR_TRY(vr_tell_decoder(plan, p));
    if (p->w->assistant != NULL)
        tell_evidence(plan, p->w->assistant);
    tell_growth(plan, p->w);
    plan->basis[VR_ACTIVATIONS] = vr_quantises(p->w) ? VR_BASIS_FORMULA : VR_BASIS_SIMULATED;
    plan->basis[VR_OVERHEAD] = VR_BASIS_SIMULATED;
    plan->counted[VR_KV_CACHE] = f->has_kv;
    plan->counted[VR_ACTIVATIONS] = f->has_activations;
    if (!f->has_kv)
        plan->why_not[VR_KV_CACHE] = plan->why_not[VR_ACTIVATIONS] = why_no_cache(p, f);
    else if (!f->has_activations)
        plan->why_not[VR_ACTIVATIONS] = why_no_activations(p);
    if (p->m->gguf) { /* what PyTorch would add is no matter */
        plan->counted[VR_OVERHEAD] = false;
        plan->why_not[VR_OVERHEAD] = f->refused;
    }
    if (!f->has_activations && plan->why_not[VR_ACTIVATIONS] == NULL)
        return VRAM_ENOMEM;
    plan->refused = f->refused;
    plan->sums_only = p->m->gguf; /* another engine would not load it like this */
    plan->as_stored = f->as_stored;
    plan->stops = vr_packed_refused(p->m, p->w, p->device);
    plan->notice = vr_packed_notice(p->m, p->w, p->device, p->arena);
    if (plan->notice == NULL)
        return VRAM_ENOMEM;
    plan->weight_bytes = vr_add_sat(f->weight_bytes, f->assistant_bytes);
    plan->n_parameters = vr_add_sat(f->n_parameters, f->n_assistant);
    plan->verified = is_verified(p, f);
    plan->uncertain_permille = uncertain(plan, p);
    plan->above_permille =
        f->has_activations ? vr_experts_above_permille(p) + vr_packed_above_permille(p) : 0;
    return vr_formulas(plan, p, f);
}

/* ---- what plans share ---- */

static vram_status prepare_for(struct vr_prepared *out, const vram_workload *w, const vram_model *m,
                               vr_arena *a)
{
    *out = (struct vr_prepared){ .m = m, .rules = vr_rules_of(w) };
    out->as_stored =
        m->family == NULL || (m->quantised && !vr_packs_class(m, w)) || m->weights_unknown != NULL;
    if (!out->as_stored) {
        VR_TRY(vr_params_of(&out->params, m, out->rules, a));
        out->as_stored = out->params.refused != NULL;
    }
    if (m->gguf)
        out->params.refused = m->not_understood;
    return out->as_stored || m->quantised ? vr_tensors_in_order(&out->natural, m, a) : VRAM_OK;
}

static vram_status prepare(vram_workload *w, const vram_model *m, vr_arena *a)
{
    struct vr_prepared *made = VR_NEW(a, struct vr_prepared);
    if (made == NULL)
        return VRAM_ENOMEM;
    VR_TRY(prepare_for(made, w, m, a));
    w->prepared = made;
    return VRAM_OK;
}

vram_status vr_prepared_of(const struct vr_prepared **out, struct vr_prepared *own, const vram_model *m,
                           const vram_workload *w, vr_arena *a)
{
    const struct vr_prepared *shared = w->prepared;
    bool good = shared != NULL && shared->m == m && shared->rules == vr_rules_of(w);
    *out = good ? shared : own;
    return good ? VRAM_OK : prepare_for(own, w, m, a);
}

/* ---- the plan ---- */

static void note(vr_facts *f, const vr_pass *p, const struct vr_prepared *from)
{
    const vram_model *m = p->m;
    bool known = m->family != NULL && from->params.refused == NULL;
    f->refused = from->params.refused;
    f->n_anew = from->params.n_anew;
    f->as_stored = from->as_stored || vr_unpacks(m, p->w, p->device);
    bool cache = vr_no_cache(m, p->w) == NULL && vr_no_assistant(p) == NULL;
    f->has_kv = known && m->cache_unknown == NULL && cache;
    f->has_activations = known && cache && m->uncounted_part == NULL && vr_no_tape(m, p->w) == NULL &&
                         vr_no_packed_tape(m, p->w, p->device, p->arena) == NULL;
}

static vram_status write_tape(vr_pass *p, vr_facts *f)
{
    struct vr_prepared own;
    const struct vr_prepared *from;
    VR_TRY(vr_prepared_of(&from, &own, p->m, p->w, p->arena));
    note(f, p, from);
    if (f->has_kv)
        VR_TRY(vr_check_limits(p));
    VR_TRY(vr_pass_open(p));
    vr_tape_outside(p->tape, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(p->tape, VR_AT_CONTEXT);
    VR_TRY(vr_load(p, from, &f->weight_bytes, &f->n_parameters));
    VR_TRY(vr_assistant_load(p, &f->assistant_bytes, &f->n_assistant));
    vr_tape_mark(p->tape, VR_AT_LOADED);
    vr_packed_begin(p);
    if (f->has_activations)
        return run(p, f);
    if (f->has_kv) {
        vr_keep_all(p);
        vr_assistant_keep(p);
    }
    return VRAM_OK;
}

static vram_status plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a)
{
    static const vr_device_facts none = { 0 };
    vr_facts facts = { 0 };
    *out = (vr_plan){ 0 };
    vr_tape_init(&out->tape, a);
    out->tape.limit = MOST_TAPE;
    vr_pass p = { .tape = &out->tape,
                  .arena = a,
                  .m = m,
                  .w = w,
                  .device = device != NULL ? device : &none,
                  .placement = device != NULL ? device->placement : NULL,
                  .rules = vr_rules_of(w),
                  .torch = vr_torch_rules_of(w),
                  .deepened = VR_NONE,
                  .width = vr_dtype_bits(w->dtype) / 8 };
    VR_TRY(vr_assistant_open(&p));
    VR_TRY(write_tape(&p, &facts));
    if (out->tape.status != VRAM_OK)
        return out->tape.status;
    return describe(out, &p, &facts);
}

static bool places(const vram_model *m, const vram_workload *w)
{
    return !m->quantised || vr_packs_class(m, w);
}

const vr_engine vr_engine_transformers = {
    .name = "transformers",
    .summary = "Hugging Face transformers on one NVIDIA GPU",
    .default_version = "5.17",
    .version = vr_transformers_version,
    .plan = plan,
    .defaults = defaults,
    .prepare = prepare,
    .place = vr_transformers_place,
    .places = places,
    .kv_dtypes = 1u << VR_KV_AS_MODEL,
    .kv_words = "transformers keeps keys and values in the model's own dtype: only auto is known",
    .options = vr_transformers_options,
    .n_options = VR_TRANSFORMERS_OPTIONS,
};
