/* SPDX-License-Identifier: MIT
 * Engine llama.cpp on NVIDIA cards: what of a GGUF file lies where, the caches, and the compute buffers that
 * its graph needs, by rehearsing what llama.cpp itself reckons before it starts (src/llama/).
 *
 * Source: llama.cpp b10470 of 2026-08-17, and its history for older builds: src/, common/, tools/server. */
#include "engine/llamacpp_beside.h"
#include "engine/options.h"

/* Assumed, none of it derived from llama.cpp's source. What a process takes more on a card once it has run
 * (modules, cuBLAS, CUDA graphs): of one run it is known, 79 MiB with the pool. */
#define KERNELS (64 * VR_MIB)
#define PROCESS (128 * VR_MIB) /* beside the buffers of one without a GPU: program, vocabulary, graphs */

/* How far off a figure may be, in thousandths. */
#define UNCERTAIN 600 /* assumed: of PROCESS, and of KERNELS with the pool */
#define NEAR 350      /* assumed: of a graph with other nodes; logs lie within 100 (docs/accuracy.md) */
#define GUESSED 350   /* of an architecture that is not known: 98 in 100 of those tried (docs/accuracy.md) */
#define MOST_BYTES (UINT64_C(1) << 58)

/* ---- what the user left open ---- */

/* llama-server without -np: slots of one cache, each as long as all. */
static void open_slots(vram_workload *w, const vr_lm_rules *r, const vram_model *m)
{
    w->slots = r->slots > 1 && w->tool == VR_LM_SERVER && vr_is_open(w, VR_SET_SEQUENCES) && m->gguf &&
               (vr_is_open(w, VR_SET_KV_UNIFIED) || w->kv_unified);
    if (!w->slots)
        return;
    w->sequences = r->slots;
    w->kv_unified = true;
}

/* What llama.cpp's own -c gives to each sequence. */
static void share_context(vram_workload *w)
{
    if (w->n_ctx == 0)
        return;
    w->context = w->slots || w->sequences == 0 ? w->n_ctx : w->n_ctx / w->sequences;
    w->set_by[VR_SET_CONTEXT] = w->set_by[VR_SET_N_CTX];
}

static vram_status defaults(vram_workload *w, const vram_model *m)
{
    vr_lm_rules r;
    vr_lm_rules_of(&r, w->version_major);
    VR_TRY(vr_llamacpp_check_build(w, &r));
    if (m->gguf && m->architecture != NULL)
        VR_TRY(vr_lm_check_known(w->ctx, vr_str_of(m->architecture), w->version_major));
    if (vr_is_open(w, VR_SET_GPU_LAYERS))
        w->gpu_layers = r.all_layers != 0 ? VR_ALL_LAYERS : 0;
    if (vr_is_open(w, VR_SET_CACHE_TYPE_K))
        w->cache_k = VR_F16;
    if (vr_is_open(w, VR_SET_CACHE_TYPE_V))
        w->cache_v = VR_F16;
    if (vr_is_open(w, VR_SET_BATCH))
        w->batch = r.default_batch;
    if (vr_is_open(w, VR_SET_UBATCH))
        w->ubatch = r.ubatch != 0 ? 512 : 0;
    if (vr_is_open(w, VR_SET_FLASH))
        w->flash = r.flash_auto != 0 ? VR_FLASH_AUTO : VR_FLASH_OFF;
    open_slots(w, &r, m);
    share_context(w);
    return VRAM_OK;
}

/* ---- the model ---- */

static vram_status prepare(vram_workload *w, const vram_model *m, vr_arena *a)
{
    const vr_lm *lm;
    const char *why;
    VR_TRY(vr_lm_of(&lm, &why, m, a));
    w->prepared = lm;
    return VRAM_OK;
}

vram_status vr_llamacpp_model(const vr_lm **out, const char **why, const vram_model *m,
                              const vram_workload *w, vr_arena *a)
{
    *out = w->prepared;
    *why = NULL;
    return *out != NULL && (*out)->model == m ? VRAM_OK : vr_lm_of(out, why, m, a);
}

/* ---- where things lie ---- */

static vr_lm_device device_of(const vr_device_facts *f)
{
    bool known = f->available != 0 && f->available != UINT64_MAX;
    return (vr_lm_device){ .free_bytes = known ? vr_sub_floor(f->available, f->context) : 0,
                           .total_bytes = f->usable != UINT64_MAX ? f->usable : 0,
                           .cc = f->cc_major * 10 + f->cc_minor };
}

/* Of unlike cards some may be of unknown size: then all count alike. */
void vr_llamacpp_devices(vr_lm_device *out, const vr_device_facts *gpus, size_t n)
{
    bool known = true;
    for (size_t i = 0; i < n; i++) {
        out[i] = device_of(&gpus[i]);
        known = known && out[i].free_bytes != 0;
    }
    for (size_t i = 0; i < n && !known; i++)
        out[i].free_bytes = 0;
}

static bool is_near(const vr_lm_sizes *s)
{
    return s->compute_near || s->compute_guessed;
}

static const char *host_words(const vr_lm_sizes *s, vr_arena *a)
{
    uint64_t weights = vr_add_sat(s->pinned.model, s->host.model);
    uint64_t kept = vr_add_sat(s->pinned.context, s->host.context);
    uint64_t compute = vr_add_sat(s->pinned.compute, s->host.compute);
    const char *text = vr_text(a, T("weights "), BYTES(weights));
    if (text != NULL && kept != 0)
        text = vr_text(a, T(text), T(", caches "), BYTES(kept));
    if (text != NULL && s->compute_known)
        text = vr_text(a, T(text), T(", inputs and results "), BYTES(vr_add_sat(compute, s->output)));
    return text;
}

static vram_status tell_host(vr_host_share *out, const vr_lm_sizes *s, vr_arena *a)
{
    *out = (vr_host_share){ .told = true,
                            .kv_counted = s->context_known,
                            .kv_basis = s->context_held ? VR_BASIS_EXACT : VR_BASIS_ASSUMED,
                            .compute_basis = is_near(s) ? VR_BASIS_FORMULA : VR_BASIS_SIMULATED,
                            .activations_counted = s->compute_known,
                            .weights = vr_add_sat(s->pinned.model, s->host.model),
                            .kv = vr_add_sat(s->pinned.context, s->host.context),
                            .words = host_words(s, a) };
    out->verified = s->compute_known && !is_near(s) && s->verified;
    out->compute = s->compute_known ? vr_add_sat(s->pinned.compute, s->host.compute) : 0;
    out->output = s->output;
    out->pinned = vr_add_sat(s->pinned.model, vr_add_sat(s->pinned.context, s->pinned.compute));
    out->pinned = vr_add_sat(out->pinned, s->output);
    vr_llamacpp_beside_on_host(out, s);
    return out->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* host: the computer's memory is what is planned, as if it were the only card. */
static vram_status place_layers(vr_placement *out, const vr_lm *lm, const vr_lm_sizes *s, bool host,
                                vr_arena *a)
{
    const uint16_t off = host ? 0 : VR_ON_HOST;
    uint16_t *layers = VR_ARRAY(a, uint16_t, lm->n_layer);
    if (layers == NULL)
        return VRAM_ENOMEM;
    for (uint32_t i = 0; i < lm->n_layer; i++) {
        layers[i] = s->layer_device[i] == VR_LM_HOST ? off : s->layer_device[i];
        out->layers_off += layers[i] == VR_ON_HOST;
    }
    out->experts_off = s->experts_off;
    uint8_t last = s->layer_device[lm->n_layer_all];
    out->layers = layers;
    out->embedding = off;
    out->rotary = out->norm = out->head = last == VR_LM_HOST ? off : last;
    return VRAM_OK;
}

vram_status vr_llamacpp_place_with(vr_placement *out, const vr_lm *lm, const vr_lm_params *p,
                                   const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    vr_lm_device devices[VR_LM_MOST_DEVICES];
    vr_lm_sizes *s = VR_NEW(a, vr_lm_sizes);
    *out = (vr_placement){ .n_gpus = n, .run = s };
    if (s == NULL)
        return VRAM_ENOMEM;
    bool host = n == 1 && gpus[0].host;
    n = host ? 0 : n < VR_LM_MOST_DEVICES ? n : VR_LM_MOST_DEVICES;
    vr_llamacpp_devices(devices, gpus, n);
    VR_TRY(vr_lm_measure(s, lm, p, devices, n, a));
    if (s->refused)
        out->refused = s->why;
    if (s->refused || s->unknown) {
        out->unknown = s->why;
        return VRAM_OK;
    }
    out->spread = n > 1;
    VR_TRY(place_layers(out, lm, s, host, a));
    VR_TRY(tell_host(&out->host, s, a));
    out->host.told = !host;
    return VRAM_OK;
}

static vram_status place(vr_placement *out, const vram_model *m, const vram_workload *w,
                         const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    const vr_lm *lm;
    vr_lm_params p;
    const char *why;
    VR_TRY(vr_llamacpp_model(&lm, &why, m, w, a));
    if (lm == NULL) {
        *out = (vr_placement){ .n_gpus = n,
                               .unknown = m->gguf ? why : "of a model that has yet to be converted" };
        return VRAM_OK;
    }
    VR_TRY(vr_llamacpp_params(&p, w, a));
    VR_TRY(vr_llamacpp_attach(&p, lm, w, a));
    return vr_llamacpp_place_with(out, lm, &p, gpus, n, a);
}

/* ---- in words ---- */

static bool joined(vr_arena *a, const char **list, const char *more)
{
    if (more != NULL && *list != NULL)
        *list = vr_text(a, T(*list), T(**list != '\0' ? "; " : ""), T(more));
    else
        *list = NULL;
    return *list != NULL;
}

static const char *of_layers(vr_arena *a, const vr_lm_kept_sum *k, uint64_t cells, uint64_t streams,
                             const char *what)
{
    const char *times = streams > 1 ? vr_text(a, U(streams), T(" x ")) : "";
    if (times == NULL)
        return NULL;
    return vr_text(a, GROUPED(k->layers), T(k->layers == 1 ? " layer of " : " layers of "), T(times),
                   GROUPED(cells), T(" cells"), T(what), T(": "), BYTES(k->bytes));
}

static const char *kept_words(const vr_lm_memory *d, const vr_lm_sizes *s, vr_arena *a)
{
    const char *list = "";
    uint64_t off = s->pinned.full.layers + s->pinned.sliding.layers + s->pinned.states.layers +
                   s->host.full.layers + s->host.sliding.layers + s->host.states.layers;
    if (d->full.layers != 0)
        (void)joined(a, &list, of_layers(a, &d->full, s->cells, s->n_stream, ""));
    if (d->sliding.layers != 0)
        (void)joined(a, &list,
                     of_layers(a, &d->sliding, s->swa_cells, s->n_stream, " for the window and a batch"));
    if (d->states.layers != 0)
        (void)joined(a, &list,
                     vr_text(a, GROUPED(s->n_seq_max), T(s->n_seq_max == 1 ? " state: " : " states: "),
                             BYTES(d->states.bytes)));
    if (off != 0 && !s->hosted)
        (void)joined(a, &list,
                     vr_text(a, T("those of "), GROUPED(off), T(off == 1 ? " layer" : " layers"),
                             T(" in host memory")));
    return list != NULL && *list == '\0' ? "no layer keeps anything there" : list;
}

static const char *weight_words(const vr_lm_memory *d, const vr_lm_sizes *s, size_t all, vr_arena *a)
{
    bool only = s->hosted;
    uint64_t host = only ? 0 : vr_add_sat(s->pinned.model, s->host.model);
    const char *text = vr_text(a, GROUPED(d->tensors), T(" of "), GROUPED(all),
                               T(all == 1 ? " tensor" : " tensors"), T(only ? "" : " on the card"));
    return text == NULL || host == 0 ? text : vr_text(a, T(text), T("; "), BYTES(host), T(" in host memory"));
}

/* Nodes and splits as llama.cpp's log has them, to be compared. */
static const char *compute_words(const vr_lm_sizes *s, vr_arena *a)
{
    return vr_text(
        a, T("buffer for "), GROUPED(s->n_tokens), T(" tokens computed at once"),
        T(s->pipelined ? ", inputs in four copies" : ""), T("; graph nodes = "), U(s->n_nodes),
        T(", graph splits = "), U(s->n_splits),
        T(s->compute_guessed ? "; about, for the architecture is not known: a graph by its tensors' names"
          : s->compute_near  ? "; about, for this build's graph has other nodes than the one known here"
                             : ""));
}

/* ---- the plan ---- */

static void take(vr_plan *out, vr_category c, vr_item item, const vr_sum *s)
{
    out->counted[c] = s->counted;
    out->basis[c] = s->counted ? s->basis : VR_BASIS_NOT_COUNTED;
    out->formula[c] = s->counted ? s->words : NULL;
    out->why_not[c] = s->counted ? NULL : s->words;
    if (s->counted && s->bytes != 0)
        vr_tape_outside(&out->tape, item, s->bytes);
}

static void none_of(vr_plan *out)
{
    for (int c = VR_GRADIENTS; c <= VR_OPTIMIZER; c++) {
        out->counted[c] = true;
        out->basis[c] = VR_BASIS_EXACT;
        out->formula[c] = "none in inference";
    }
}

/* permille: how far off it may be where it is no exact figure. */
static void take_compute(vr_plan *out, const vr_sum *s, uint32_t permille)
{
    bool about = s->counted && s->basis == VR_BASIS_FORMULA;
    const vr_sum nothing = { s->counted, s->basis, 0, s->words };
    take(out, VR_ACTIVATIONS, VR_ITEM_COMPUTE, about ? &nothing : s);
    if (about && s->bytes != 0)
        vr_tape_about(&out->tape, VR_ITEM_COMPUTE, s->bytes, permille);
}

/* Nothing can be said of where things go. */
static vram_status plan_of_nothing(vr_plan *out, const char *why, vr_arena *a)
{
    vr_tape_init(&out->tape, a);
    vr_tape_outside(&out->tape, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(&out->tape, VR_AT_CONTEXT);
    none_of(out);
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (c == VR_GRADIENTS || c == VR_OPTIMIZER)
            continue;
        out->basis[c] = VR_BASIS_NOT_COUNTED;
        out->why_not[c] = why;
    }
    out->as_stored = out->sums_only = true;
    return out->tape.status;
}

static vram_status sums_of(vr_sum sums[3], const vr_lm *lm, const vr_lm_sizes *s, const vr_lm_memory *d,
                           vr_arena *a)
{
    size_t all = lm->model->checkpoint->n_tensors;
    sums[0] = (vr_sum){ true, vr_lm_is_known(lm) && !lm->split_experts ? VR_BASIS_EXACT : VR_BASIS_ASSUMED,
                        d->model, weight_words(d, s, all, a) };
    sums[1] = (vr_sum){ s->context_known, s->context_held ? VR_BASIS_EXACT : VR_BASIS_ASSUMED, d->context,
                        s->context_known ? kept_words(d, s, a) : s->why };
    sums[2] = (vr_sum){ s->compute_known, is_near(s) ? VR_BASIS_FORMULA : VR_BASIS_SIMULATED, d->compute,
                        s->compute_known ? compute_words(s, a) : s->why };
    for (size_t i = 0; i < 3; i++) {
        if (sums[i].words == NULL)
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

static void take_rest(vr_plan *out, const vr_sum *kept, const vr_lm_sizes *s, size_t rank)
{
    const vr_lm_memory *d = &s->device[rank];
    const vr_beside_sum beside = vr_llamacpp_beside_of(s, rank);
    uint64_t pool = vr_add_sat(KERNELS, vr_add_sat(d->pool, beside.pool));
    out->sums_only = !kept->counted; /* how it goes on is not known then */
    out->counted[VR_OVERHEAD] = kept->counted;
    out->basis[VR_OVERHEAD] = kept->counted ? VR_BASIS_ASSUMED : VR_BASIS_NOT_COUNTED;
    out->why_not[VR_OVERHEAD] = kept->words;
    if (kept->counted &&
        (vr_add_sat(d->model, d->compute) != 0 || beside.weights != 0)) /* else nothing runs */
        vr_tape_about(&out->tape, s->hosted ? VR_ITEM_PROCESS : VR_ITEM_POOL, s->hosted ? PROCESS : pool,
                      UNCERTAIN);
}

static vram_status write_tape(vr_plan *out, const vr_sum sums[3], const vr_lm_sizes *s, size_t rank,
                              vr_arena *a)
{
    vr_tape_init(&out->tape, a);
    vr_tape_outside(&out->tape, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(&out->tape, VR_AT_CONTEXT);
    none_of(out);
    take(out, VR_WEIGHTS, VR_ITEM_PARAMETERS, &sums[0]);
    vr_llamacpp_put_beside(out, s, rank, VR_WEIGHTS);
    vr_tape_mark(&out->tape, VR_AT_LOADED);
    take(out, VR_KV_CACHE, VR_ITEM_KV, &sums[1]);
    vr_llamacpp_put_beside(out, s, rank, VR_KV_CACHE);
    take_compute(out, &sums[2], s->compute_guessed ? GUESSED : NEAR);
    vr_llamacpp_put_beside(out, s, rank, VR_ACTIVATIONS);
    take_rest(out, &sums[1], s, rank);
    vr_tape_mark(&out->tape, VR_AT_PREFILL);
    return out->tape.status;
}

static void add_kept(vr_lm_kept_sum *to, const vr_lm_kept_sum *k)
{
    to->layers += k->layers;
    to->bytes = vr_add_sat(to->bytes, k->bytes);
}

/* Without a GPU: the whole of the computer's memory, with the results. */
static vr_lm_memory whole_host(const vr_lm_sizes *s)
{
    vr_lm_memory m = s->host;
    m.model = vr_add_sat(m.model, s->pinned.model);
    m.context = vr_add_sat(m.context, s->pinned.context);
    m.compute = vr_add_sat(m.compute, s->pinned.compute);
    m.compute = s->compute_known ? vr_add_sat(m.compute, s->output) : 0;
    m.adapter = vr_add_sat(m.adapter, s->pinned.adapter);
    m.tensors += s->pinned.tensors;
    m.elements = vr_add_sat(m.elements, s->pinned.elements);
    m.token = vr_add_sat(m.token, s->pinned.token);
    add_kept(&m.full, &s->pinned.full);
    add_kept(&m.sliding, &s->pinned.sliding);
    add_kept(&m.states, &s->pinned.states);
    return m;
}

/* Where the computer's memory is all there is, it stands in the place of a card. */
static vram_status as_one(const vr_lm_sizes **out, const vr_lm_sizes *s, vr_arena *a)
{
    vr_lm_sizes *all = VR_NEW(a, vr_lm_sizes);
    vr_clip_sizes *p = s->projector != NULL ? VR_NEW(a, vr_clip_sizes) : NULL;
    if (all == NULL || (s->projector != NULL && p == NULL))
        return VRAM_ENOMEM;
    *all = *s;
    all->hosted = true;
    all->device[0] = whole_host(s);
    all->pinned = all->host = (vr_lm_memory){ 0 };
    if (p != NULL) {
        *p = *s->projector;
        p->on_host = false;
        all->projector = p;
    }
    *out = all;
    return s->draft != NULL ? as_one(&all->draft, s->draft, a) : VRAM_OK;
}

static vram_status plan_of_sizes(vr_plan *out, const vr_lm *lm, const vr_lm_sizes *s, size_t rank,
                                 vr_arena *a)
{
    const vr_lm_memory *d = &s->device[rank];
    const vr_beside_sum b = vr_llamacpp_beside_of(s, rank);
    vr_sum sums[3];
    if (d->model > MOST_BYTES || d->context > MOST_BYTES || d->compute > MOST_BYTES || d->pool > MOST_BYTES ||
        b.weights > MOST_BYTES || b.kept > MOST_BYTES || b.compute > MOST_BYTES)
        return vr_fail(
            lm->model->ctx, VRAM_ELIMIT,
            T("weights, caches or compute buffer would be over the limit of 256 PiB with this context "
              "and these sequences"));
    VR_TRY(sums_of(sums, lm, s, d, a));
    VR_TRY(vr_llamacpp_beside_told(sums, s, rank, a));
    VR_TRY(write_tape(out, sums, s, rank, a));
    out->outside_only = true;
    out->verified = s->compute_known && !is_near(s) && s->verified;
    out->uncertain_permille = UNCERTAIN;
    out->weight_bytes = vr_add_sat(d->model, b.weights);
    out->n_parameters = vr_add_sat(d->elements, b.elements);
    out->as_stored = true;
    out->kv_token = d->token;
    if (rank == 0 && s->device[1].model == 0) /* all that is kept, wherever */
        out->kv_token = vr_add_sat(d->token, vr_add_sat(s->pinned.token, s->host.token));
    out->kv_token = vr_add_sat(out->kv_token, b.token);
    out->kv_full = vr_add_sat(d->context, b.kept);
    return VRAM_OK;
}

vram_status vr_llamacpp_plan_with(vr_plan *out, const vr_lm *lm, const vr_lm_params *p,
                                  const vr_device_facts *device, const char *runs, vr_arena *a)
{
    const vr_lm_sizes *s = device->placement != NULL ? device->placement->run : NULL;
    vr_lm_sizes own;
    size_t rank = s != NULL ? device->rank : 0;
    *out = (vr_plan){ 0 };
    if (s == NULL) {
        vr_lm_device one;
        vr_llamacpp_devices(&one, device, 1);
        VR_TRY(vr_lm_measure(&own, lm, p, &one, device->host ? 0 : 1, a));
        s = &own;
    }
    if (s->refused || s->unknown) {
        VR_TRY(plan_of_nothing(out, s->why, a));
        out->stops = s->refused ? s->why : NULL;
        return VRAM_OK;
    }
    if (device->host)
        VR_TRY(as_one(&s, s, a));
    VR_TRY(plan_of_sizes(out, lm, s, device->host ? 0 : rank, a));
    return vr_lm_doubt(&out->doubt, lm, p->build, runs, a);
}

vram_status vr_llamacpp_plan_of_nothing(vr_plan *out, const vram_model *m, const char *why, vr_arena *a)
{
    VR_TRY(plan_of_nothing(out, why, a));
    out->refused = m->foreign ? why : NULL;
    return VRAM_OK;
}

/* ggml-cuda, fattn.cu: without GGML_CUDA_FA_ALL_QUANTS there are kernels for keys and values of one type. */
static const char *unlike_types(const vram_workload *w)
{
    if (w->cache_k == w->cache_v || w->flash == VR_FLASH_OFF)
        return NULL;
    return "keys and values of different types: llama.cpp's usual build has no flash attention for that on "
           "the "
           "card, which takes more memory or leaves it to the CPU; give -ctk and -ctv the same type";
}

static vram_status plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a)
{
    const vr_lm *lm;
    const char *why;
    vr_lm_params p;
    if (!m->gguf)
        return vr_llamacpp_converted(out, m, w, a);
    *out = (vr_plan){ 0 };
    VR_TRY(vr_llamacpp_model(&lm, &why, m, w, a));
    if (lm == NULL)
        return vr_llamacpp_plan_of_nothing(out, m, why, a);
    VR_TRY(vr_llamacpp_params(&p, w, a));
    VR_TRY(vr_llamacpp_attach(&p, lm, w, a));
    VR_TRY(vr_llamacpp_plan_with(out, lm, &p, device, "this build of llama.cpp", a));
    if (out->notice == NULL)
        out->notice = unlike_types(w);
    return VRAM_OK;
}

/* ggml-cuda.cu, ggml_backend_cuda_buffer_type_alloc_buffer */
bool vr_placement_buffers(vr_buffers *out, const vr_placement *p, size_t rank)
{
    const vr_lm_sizes *s = p->run;
    if (s == NULL || p->unknown != NULL || p->refused != NULL || rank >= VR_LM_MOST_DEVICES)
        return false;
    const vr_lm_memory *d = &s->device[rank];
    *out = (vr_buffers){ .weights = d->model,
                         .compute = d->compute,
                         .kept = { d->context, d->full.bytes, d->sliding.bytes, d->states.bytes },
                         .token = d->token };
    return true;
}

const char *vr_llamacpp_no_room(vr_item item, uint64_t bytes, size_t rank, vr_arena *a)
{
    if (item == VR_ITEM_CONTEXT || item == VR_ITEM_POOL)
        return "CUDA error: out of memory";
    return vr_text(a, T("allocating "), FIXED(bytes, VR_MIB, 2), T(" MiB on device "), U(rank),
                   T(": cudaMalloc failed: out of memory"));
}

const vr_engine vr_engine_llamacpp = {
    .name = "llama.cpp",
    .summary = "llama.cpp on NVIDIA GPUs: weights, caches and compute buffers",
    .default_version = "b10470",
    .version = vr_llamacpp_version,
    .version_text = vr_llamacpp_version_text,
    .plan = plan,
    .defaults = defaults,
    .prepare = prepare,
    .place = place,
    .by_cards = vr_llamacpp_by_cards,
    .always_spreads = true,
    .runs_on_host = true,
    .no_room = vr_llamacpp_no_room,
    .kv_dtypes = 1u << VR_KV_AS_MODEL,
    .kv_words = "llama.cpp keeps keys and values as -ctk and -ctv say",
    .solvable = &vr_solvable_llamacpp,
    .options = vr_llamacpp_options,
    .n_options = VR_LLAMACPP_N_OPTIONS,
};
