/* SPDX-License-Identifier: MIT
 * Engine ollama: llama.cpp with the settings that Ollama starts it with, and its choice of what goes to the
 * GPUs and what stays on the CPU. Since 0.30 it runs llama-server and leaves the layers to --fit; before, its
 * own estimate placed them, whatever a run then took.
 *
 * Source: Ollama v0.3.0 to v0.32.15: llm/llama_server.go, llm/server.go, server/sched.go, llama/llama.go,
 * cmd/cmd.go (ps). */
#include "engine/ollama.h"
#include "engine/options.h"
#include "llama/fit.h"

#define EMBEDDING_BATCH 2048
#define OWN_ENGINE                                                                                           \
    "of this release Ollama runs the architecture on an engine of its own, whose memory is not known here"

/* ---- versions ---- */

#define ANY_PATCH 999 /* "0.32": the last of it */

static vram_status version(vram_workload *w, vr_str text)
{
    vr_str rest = text;
    unsigned minor = 0, patch = 0;
    if (vr_str_starts(rest, "v"))
        rest = (vr_str){ rest.s + 1, rest.n - 1 };
    if (!vr_str_starts(rest, "0.") || !vr_version_numbers(rest, "0.", &minor, &patch))
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version '"), S(text),
                       T("': must be a release of Ollama, such as 0.32.15"));
    vr_str number;
    size_t numbers = 0;
    while (vr_str_split(&rest, '.', &number))
        numbers++;
    patch = numbers < 3 ? ANY_PATCH : patch;
    uint32_t release = VR_OLLAMA_RELEASE(minor, patch), newest = VR_OLLAMA_NEWEST / 1000;
    if (minor > newest || patch > ANY_PATCH || release < VR_OLLAMA_OLDEST)
        return vr_fail(w->ctx, VRAM_ESETTING, T("Ollama "), S(text),
                       T(" is not known; releases 0.3.0 to 0.32 are"));
    w->version_major = minor;
    w->version_minor = patch;
    w->torch_given = false;
    return VRAM_OK;
}

static const char *version_text(const vram_workload *w, vr_arena *a)
{
    if (w->version_minor == ANY_PATCH)
        return vr_text(a, T("0."), U(w->version_major));
    return vr_text(a, T("0."), U(w->version_major), T("."), U(w->version_minor));
}

static vr_ollama_rules rules_of(const vram_workload *w)
{
    vr_ollama_rules r;
    vr_ollama_rules_of(&r, VR_OLLAMA_RELEASE(w->version_major, w->version_minor));
    return r;
}

/* ---- what the user left open ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* num_ctx by the size of the cards is not known before there are any; the smallest then. */
static vram_status defaults(vram_workload *w, const vram_model *m)
{
    vr_ollama_rules r = rules_of(w);
    uint64_t context = vr_ollama_context(&r, 0);
    if (vr_is_open(w, VR_SET_CONTEXT) && m->source_positions == 0) {
        w->context = m->max_context != 0 ? least(context, m->max_context) : context;
        w->set_by[VR_SET_CONTEXT] = w->context < context ? VR_BY_MODEL : VR_BY_DEFAULT;
    }
    if (vr_is_open(w, VR_SET_GPU_LAYERS))
        w->gpu_layers = VR_ALL_LAYERS;
    if (vr_is_open(w, VR_SET_KV_CACHE_TYPE))
        w->cache_k = w->cache_v = VR_F16;
    if (vr_is_open(w, VR_SET_FLASH))
        w->flash = r.flash_auto != 0 ? VR_FLASH_AUTO : VR_FLASH_OFF;
    return VRAM_OK;
}

static vram_status prepare(vram_workload *w, const vram_model *m, vr_arena *a)
{
    const vr_lm *lm;
    const char *why;
    VR_TRY(vr_lm_of(&lm, &why, m, a));
    w->prepared = lm;
    return VRAM_OK;
}

/* ---- what llama.cpp is started with ---- */

/* One run on these GPUs. */
typedef struct run {
    vr_ollama_rules rules;
    const vr_lm *lm;
    const vram_workload *w;
    const vr_device_facts *gpus;
    size_t n;
    vr_lm_params params;
    uint64_t tokens, parallel, file, predicted, available;
} run;

static bool is_embedding(const vr_lm *lm)
{
    return vr_lm_number(lm, "pooling_type", UINT64_MAX) != UINT64_MAX;
}

static uint64_t file_bytes(const vr_lm *lm)
{
    const vram_checkpoint *ck = lm->model->checkpoint;
    uint64_t sum = 0;
    for (size_t i = 0; i < ck->n_files; i++)
        sum = vr_add_sat(sum, ck->files[i].size);
    return sum;
}

static bool known(uint64_t bytes)
{
    return bytes != 0 && bytes != UINT64_MAX;
}

static void count_tokens(run *x)
{
    uint64_t context = x->w->context < 4 ? 4 : x->w->context;
    if (x->lm->n_ctx_train != 0)
        context = least(context, x->lm->n_ctx_train);
    x->parallel = is_embedding(x->lm) || vr_ollama_serial(x->lm->name) ? 1 : x->w->sequences;
    x->tokens = vr_mul_sat(context, x->parallel);
}

static uint64_t batch_of(const run *x)
{
    uint64_t smallest = UINT64_MAX;
    if (x->w->set_by[VR_SET_UBATCH] == VR_BY_USER)
        return x->w->ubatch;
    if (is_embedding(x->lm) && x->rules.era == VR_OLLAMA_SERVER)
        return least(EMBEDDING_BATCH, x->tokens);
    for (size_t i = 0; i < x->n; i++)
        smallest = known(x->gpus[i].available) ? least(smallest, x->gpus[i].available) : smallest;
    return vr_ollama_batch(&x->rules, x->tokens, x->w->flash != VR_FLASH_OFF, x->predicted, x->available,
                           smallest == UINT64_MAX ? 0 : smallest);
}

static void fill_params(run *x)
{
    bool server = x->rules.era == VR_OLLAMA_SERVER;
    uint64_t batch = batch_of(x);
    x->params = (vr_lm_params){ .build = x->rules.build,
                                .tool = VR_LM_SERVER,
                                .n_ctx = x->tokens,
                                .n_seq_max = x->parallel,
                                .n_ubatch = batch,
                                .n_batch = server ? batch : vr_mul_sat(batch, x->parallel),
                                .type_k = x->w->cache_k,
                                .type_v = x->w->cache_v,
                                .flash_attn = x->w->flash != VR_FLASH_OFF,
                                .swa_full = !server, /* what the library takes when nothing is said */
                                .offload_kqv = true,
                                .op_offload = true,
                                .n_gpu_layers = x->w->gpu_layers,
                                .embeddings = is_embedding(x->lm) };
    x->params.flash_auto = x->w->flash == VR_FLASH_AUTO && vr_dtype_block((vr_dtype)x->w->cache_v) == 1;
    if (server && !x->params.embeddings)
        x->params.n_outputs_max = least(x->parallel, batch);
}

static void start(run *x, const vr_lm *lm, const vram_workload *w, const vr_device_facts *gpus, size_t n)
{
    bool host = n == 1 && gpus[0].host;
    *x = (run){ .rules = rules_of(w), .lm = lm, .w = w, .gpus = gpus, .n = host ? 0 : n };
    x->file = file_bytes(lm);
    for (size_t i = 0; i < n; i++)
        x->available = known(gpus[i].available) ? vr_add_sat(x->available, gpus[i].available) : x->available;
    count_tokens(x);
    x->predicted = vr_ollama_predicted(lm, x->file, x->tokens);
    fill_params(x);
}

/* ---- what goes where ---- */

/* A model that is foreseen to fit one GPU with a fifth to spare has the one with the most room. n: none. */
static size_t single_gpu(const run *x)
{
    size_t best = x->n;
    if (x->n <= 1 || x->w->sched_spread || x->params.n_gpu_layers == 0)
        return x->n;
    for (size_t i = 0; i < x->n; i++) {
        uint64_t room = x->gpus[i].available;
        bool fits = known(room) && x->predicted <= vr_mul_div(room, 80, 100);
        if (fits && (best == x->n || room > x->gpus[best].available))
            best = i;
    }
    return best;
}

/* llama-server's --fit, with its own margin. */
static vram_status fit_by_server(run *x, const char **left, vr_arena *a)
{
    vr_lm_device devices[VR_LM_MOST_DEVICES];
    uint64_t margins[VR_LM_MOST_DEVICES];
    vr_lm_fitted f;
    size_t one = single_gpu(x), n = one < x->n ? 1 : x->n;
    for (size_t i = 0; i < n; i++) {
        const vr_device_facts *g = &x->gpus[one < x->n ? one : i];
        margins[i] = VR_LM_FIT_MARGIN;
        devices[i] = (vr_lm_device){ .free_bytes = vr_sub_floor(g->available, g->context),
                                     .cc = g->cc_major * 10 + g->cc_minor };
        if (!known(g->available))
            return VRAM_OK;
    }
    VR_TRY(vr_lm_fit(&f, x->lm, &x->params, devices, n, margins, VR_LM_FIT_CONTEXT, a));
    *left = f.left;
    x->params = f.params;
    if (one < x->n) {
        x->params.split_mode = VR_LM_SPLIT_NONE;
        x->params.main_gpu = (uint8_t)one;
    }
    return VRAM_OK;
}

static vram_status fit_by_estimate(run *x, vr_ollama_layout *out, vr_arena *a)
{
    vr_ollama_facts facts;
    uint64_t available[VR_MOST_GPUS];
    vr_ollama_ask q = { .tokens = x->tokens,
                        .batch = least(x->params.n_ubatch, x->tokens),
                        .parallel = x->parallel,
                        .kv_type = x->w->cache_k,
                        .flash = x->w->flash == VR_FLASH_ON,
                        .num_gpu = x->w->gpu_layers,
                        .overhead = x->w->gpu_overhead,
                        .spread = x->w->sched_spread };
    for (size_t i = 0; i < x->n; i++)
        available[i] = x->gpus[i].available;
    VR_TRY(vr_ollama_facts_of(&facts, x->lm, a));
    VR_TRY(vr_ollama_layout_of(out, &x->rules, &facts, &q, available, x->n, a));
    x->params.n_gpu_layers = out->layers;
    for (size_t i = 0; i < x->n && x->n > 1; i++)
        x->params.tensor_split[i] = (double)out->gpu_layers[i];
    return VRAM_OK;
}

/* Several sequences only where they leave the model whole on the GPUs. */
static vram_status fit_sequences(run *x, vr_ollama_layout *out, vr_arena *a)
{
    bool again = x->rules.parallel_auto != 0 && vr_is_open(x->w, VR_SET_SEQUENCES) && x->parallel == 1 &&
                 !is_embedding(x->lm) && !vr_ollama_serial(x->lm->name);
    uint64_t context = x->tokens;
    if (again) {
        x->parallel = x->rules.parallel;
        x->tokens = vr_mul_sat(context, x->parallel);
        fill_params(x);
        VR_TRY(fit_by_estimate(x, out, a));
        if (out->layers > x->lm->n_layer_all)
            return VRAM_OK;
        x->parallel = 1;
        x->tokens = context;
        fill_params(x);
    }
    return fit_by_estimate(x, out, a);
}

/* ---- what people are told ---- */

static uint64_t all_of(const vr_lm_memory *m)
{
    return vr_add_sat(m->model, vr_add_sat(m->context, m->compute));
}

/* `ollama ps` adds up buffers that llama-server logs. Weights that are mapped from the file span nearly all
 * of it once some layer stays on the CPU; what lies on a GPU as well is taken off again. */
static void shares_of(const run *x, const vr_lm_sizes *s, uint64_t *total, uint64_t *on_gpus)
{
    uint64_t weights = 0, rest = 0;
    *on_gpus = 0;
    for (size_t i = 0; i < x->n; i++) {
        *on_gpus = vr_add_sat(*on_gpus, all_of(&s->device[i]));
        weights = vr_add_sat(weights, s->device[i].model);
        rest = vr_add_sat(rest, vr_add_sat(s->device[i].context, s->device[i].compute));
    }
    rest = vr_add_sat(rest, vr_add_sat(s->pinned.context, s->pinned.compute));
    rest = vr_add_sat(rest, vr_add_sat(s->host.context, s->host.compute));
    weights = vr_add_sat(weights, vr_add_sat(s->pinned.model, s->host.model));
    *total = vr_add_sat(vr_add_sat(rest, s->output), weights > x->file ? weights : x->file);
}

static const char *share_words(uint64_t total, uint64_t on_gpus, bool whole, vr_arena *a)
{
    if (whole)
        return "100% GPU";
    if (on_gpus == 0)
        return "100% CPU";
    uint64_t cpu = (uint64_t)(100.0 * (double)vr_sub_floor(total, on_gpus) / (double)total + 0.5);
    return vr_text(a, U(cpu), T("%/"), U(100 - cpu), T("% CPU/GPU"));
}

static uint64_t layers_on(const run *x, const vr_lm_sizes *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; s->layer_device != NULL && i <= x->lm->n_layer_all; i++)
        n += s->layer_device[i] != VR_LM_HOST;
    return n;
}

static const char *placed_words(const run *x, const vr_lm_sizes *s, const char *share, vr_arena *a)
{
    uint64_t on = layers_on(x, s), all = (uint64_t)x->lm->n_layer_all + 1;
    const char *text = vr_text(a, T("ollama ps will show "), T(share));
    if (text != NULL && on < all)
        text = vr_text(a, T(text), T(": "), U(on), T(" of "), U(all), T(" layers on the GPU"));
    if (text != NULL && s->experts_off != 0)
        text = vr_text(a, T(text), T(on < all ? ", " : ": "), T("experts of "), U(s->experts_off),
                       T(" layers in host memory"));
    return text;
}

/* What to write into a Modelfile for just this. */
static const char *settings_words(const run *x, const vr_lm_sizes *s, vr_arena *a)
{
    uint64_t total = 0, on = layers_on(x, s), all = (uint64_t)x->lm->n_layer_all + 1;
    const char *text = vr_text(a, T("; in a Modelfile: PARAMETER num_ctx "), U(x->tokens / x->parallel));
    if (text != NULL && on < all && s->experts_off == 0)
        text = vr_text(a, T(text), T(", PARAMETER num_gpu "), U(on));
    for (size_t i = 0; i < x->n; i++)
        total = known(x->gpus[i].usable) ? vr_add_sat(total, x->gpus[i].usable) : total;
    uint64_t own =
        least(vr_ollama_context(&x->rules, total), x->lm->n_ctx_train != 0 ? x->lm->n_ctx_train : UINT64_MAX);
    if (text != NULL && total != 0 && vr_is_open(x->w, VR_SET_CONTEXT) && own != x->tokens / x->parallel)
        text = vr_text(a, T(text), T(" (left out it is "), GROUPED(own), T(" on cards of this size)"));
    return text;
}

static vram_status tell(const char **out, const run *x, const vr_lm_sizes *s, const vr_ollama_layout *l,
                        vr_arena *a)
{
    uint64_t total = 0, on_gpus = 0;
    bool whole = layers_on(x, s) > x->lm->n_layer_all && s->experts_off == 0;
    *out = NULL;
    if (l != NULL) {
        total = l->total;
        on_gpus = l->on_gpus;
    } else if (s->compute_known && s->context_known) {
        shares_of(x, s, &total, &on_gpus);
    } else {
        return VRAM_OK;
    }
    const char *share = share_words(total, on_gpus, whole, a);
    const char *placed = share == NULL ? NULL : placed_words(x, s, share, a);
    const char *settings = settings_words(x, s, a);
    if (placed != NULL && settings != NULL)
        *out = vr_text(a, T(placed), T(settings));
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- the engine ---- */

/* The engine's own of a placement: sizes first, as llama.cpp's plan reads them. */
typedef struct placed {
    vr_lm_sizes sizes;
    const char *says;
} placed;

static vram_status settle(vr_placement *out, run *x, const vr_ollama_layout *l, vr_arena *a)
{
    placed *p = VR_NEW(a, placed);
    size_t n = x->n == 0 ? 1 : x->n; /* none: the computer's memory stands in its place */
    VR_TRY(vr_llamacpp_place_with(out, x->lm, &x->params, x->gpus, n, a));
    if (p == NULL)
        return VRAM_ENOMEM;
    p->sizes = *(const vr_lm_sizes *)out->run;
    out->run = &p->sizes;
    if (vr_ollama_runs_itself(&x->rules, x->lm->name)) {
        p->sizes.compute_known = p->sizes.context_known = out->host.kv_counted =
            out->host.activations_counted = false;
        p->sizes.why = OWN_ENGINE;
    }
    if (out->unknown != NULL || p->sizes.refused)
        return VRAM_OK;
    return tell(&p->says, x, &p->sizes, l, a);
}

static vram_status place(vr_placement *out, const vram_model *m, const vram_workload *w,
                         const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    const vr_lm *lm;
    const char *why, *left = NULL;
    vr_ollama_layout *l = VR_NEW(a, vr_ollama_layout);
    run x;
    *out = (vr_placement){ .n_gpus = n };
    VR_TRY(vr_llamacpp_model(&lm, &why, m, w, a));
    if (l == NULL)
        return VRAM_ENOMEM;
    if (lm == NULL) {
        out->unknown = m->gguf ? why : "of a model that has yet to be converted";
        return VRAM_OK;
    }
    start(&x, lm, w, gpus, n < VR_LM_MOST_DEVICES ? n : VR_LM_MOST_DEVICES);
    if (x.rules.era == VR_OLLAMA_SERVER) {
        if (x.n != 0)
            VR_TRY(fit_by_server(&x, &left, a));
        return settle(out, &x, NULL, a);
    }
    bool sizes = x.n != 0;
    for (size_t i = 0; i < x.n; i++)
        sizes = sizes && known(gpus[i].available);
    if (sizes)
        VR_TRY(fit_sequences(&x, l, a));
    return settle(out, &x, sizes ? l : NULL, a);
}

/* num_ctx by what all cards have. */
static vram_status by_cards(vram_workload *to, const char **says, const vram_workload *w, const vram_model *m,
                            const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    vr_ollama_rules r = rules_of(w);
    uint64_t total = 0;
    (void)a;
    *says = NULL;
    for (size_t i = 0; i < n; i++)
        total = known(gpus[i].usable) ? vr_add_sat(total, gpus[i].usable) : total;
    if (!vr_is_open(w, VR_SET_CONTEXT) || total == 0 || m->source_positions != 0)
        return VRAM_OK;
    to->context = vr_ollama_context(&r, total);
    if (m->max_context != 0)
        to->context = least(to->context, m->max_context);
    to->set_by[VR_SET_CONTEXT] = VR_BY_USER;
    return VRAM_OK;
}

/* Of a model that is no GGUF file yet: llama.cpp's sums with what Ollama starts it with. */
static vram_status plan_converted(vr_plan *out, const vram_model *m, const vram_workload *w, vr_arena *a)
{
    vr_ollama_rules r = rules_of(w);
    vram_workload *copy = vr_workload_copy(w, a);
    if (copy == NULL)
        return VRAM_ENOMEM;
    copy->version_major = r.build;
    copy->version_minor = 0;
    copy->ubatch = w->ubatch != 0 ? w->ubatch : 512;
    copy->batch = copy->ubatch;
    copy->swa_full = r.era != VR_OLLAMA_SERVER;
    return vr_llamacpp_converted(out, m, copy, a);
}

/* On no card in particular the question is whether all of it goes onto one. */
static vram_status plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a)
{
    const vr_lm *lm;
    const char *why;
    run x;
    if (!m->gguf)
        return plan_converted(out, m, w, a);
    *out = (vr_plan){ 0 };
    VR_TRY(vr_llamacpp_model(&lm, &why, m, w, a));
    if (lm == NULL)
        return vr_llamacpp_plan_of_nothing(out, m, why, a);
    start(&x, lm, w, device, 1);
    VR_TRY(vr_llamacpp_plan_with(out, lm, &x.params, device, "the llama.cpp in this release of Ollama", a));
    if (device->placement != NULL && device->placement->run != NULL)
        out->says = ((const placed *)device->placement->run)->says;
    return VRAM_OK;
}

const vr_engine vr_engine_ollama = {
    .name = "ollama",
    .summary = "Ollama on NVIDIA GPUs: what it puts on the GPU and what on the CPU",
    .default_version = "0.32.15",
    .version = version,
    .version_text = version_text,
    .plan = plan,
    .defaults = defaults,
    .prepare = prepare,
    .place = place,
    .by_cards = by_cards,
    .always_spreads = true,
    .runs_on_host = true,
    .no_room = vr_llamacpp_no_room,
    .kv_dtypes = 1u << VR_KV_AS_MODEL,
    .kv_words = "Ollama keeps keys and values as --kv-cache-type says",
    .solvable = &vr_solvable_ollama,
    .options = vr_ollama_options,
    .n_options = VR_OLLAMA_N_OPTIONS,
};
