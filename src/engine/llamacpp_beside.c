/* SPDX-License-Identifier: MIT
 * What is loaded beside a model in llama.cpp: projector, draft model, adapters, control vectors. Their
 * settings, and their lines on the tape.
 *
 * Source: llama.cpp b10470, common/arg.cpp, common/common.h, common/speculative.cpp, tools/server. */
#include "engine/llamacpp_beside.h"
#include "engine/options.h"

#define DRAFTS 3 /* common_params_speculative_draft.n_max */

vram_status vram_workload_attach(vram_workload *w, const char *key, const vram_model *file)
{
    vr_setting s = vr_setting_of(key);
    if (s == VR_SETTING_COUNT || w->n_attached == VR_MOST_ATTACHED)
        return vr_fail(w->ctx, VRAM_ESETTING, T(key),
                       T(s == VR_SETTING_COUNT ? ": there is no such setting" : ": too many files"));
    w->attached[w->n_attached++] = (vr_attached){ s, file };
    if (s == VR_SET_MMPROJ && w->mmproj_name == NULL) { /* what lies beside the model in its repository */
        w->mmproj_name = file->checkpoint->n_files > 0 ? file->checkpoint->files[0].name : "";
        w->set_by[s] = VR_BY_MODEL;
    }
    return VRAM_OK;
}

/* ---- settings ---- */

static vram_status keep(vram_workload *w, const char **field, vr_str value, bool more)
{
    bool again = more && *field != NULL;
    *field = vr_text(&w->ctx->arena, T(again ? *field : ""), T(again ? "," : ""), S(value));
    return *field == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status set_draft_layers(vram_workload *w, const vram_option *o, vr_str value)
{
    if (vr_str_is(value, "all") || vr_str_is(value, "auto") || vr_str_is(value, "-1")) {
        w->draft_layers = VR_ALL_LAYERS;
        return VRAM_OK;
    }
    return vr_option_count(w, o, value, &w->draft_layers);
}

static const char *show_draft_layers(const vram_workload *w, vr_arena *a)
{
    bool given = w->set_by[VR_SET_DRAFT_LAYERS] == VR_BY_USER;
    return !given || w->draft_layers == VR_ALL_LAYERS ? "all" : vr_text(a, U(w->draft_layers));
}

#define TEXT(name, field, more)                                                                              \
    static vram_status set_##name(vram_workload *w, const vram_option *o, vr_str value)                      \
    {                                                                                                        \
        (void)o;                                                                                             \
        return keep(w, &w->field, value, more);                                                              \
    }                                                                                                        \
    static const char *show_##name(const vram_workload *w, vr_arena *a)                                      \
    {                                                                                                        \
        (void)a;                                                                                             \
        return w->field != NULL ? w->field : "";                                                             \
    }
TEXT(mmproj, mmproj_name, false)
TEXT(lora, lora_names, true)
TEXT(control, control_names, true)
TEXT(draft, draft_name, false)

static const vr_word types[] = {
    { "f16", VR_F16 },   { "f32", VR_F32 },   { "bf16", VR_BF16 }, { "q8_0", VR_Q8_0 },
    { "q4_0", VR_Q4_0 }, { "q4_1", VR_Q4_1 }, { "q5_0", VR_Q5_0 }, { "iq4_nl", VR_IQ4_NL },
    { "q5_1", VR_Q5_1 }, { NULL, 0 },
};
static const vr_word specs[] = {
    { "none", VR_SPEC_NONE },          { "draft-simple", VR_SPEC_SIMPLE }, { "draft-mtp", VR_SPEC_MTP },
    { "draft-eagle3", VR_SPEC_OTHER }, { "draft-dflash", VR_SPEC_OTHER },  { "draft-dspark", VR_SPEC_OTHER },
    { "ngram-simple", VR_SPEC_NONE },  { "ngram-map-k", VR_SPEC_NONE },    { "ngram-map-k4v", VR_SPEC_NONE },
    { "ngram-mod", VR_SPEC_NONE },     { "ngram-cache", VR_SPEC_NONE },    { NULL, 0 },
};
VR_OPTION_WORDS(draft_k, types, draft_k)
VR_OPTION_WORDS(draft_v, types, draft_v)
VR_OPTION_WORDS(spec, specs, spec_type)
VR_OPTION_FLAG(no_mmproj, no_mmproj)
VR_OPTION_FLAG(no_mmproj_offload, no_mmproj_offload)
VR_OPTION_COUNT(image_tokens, image_tokens)
VR_OPTION_COUNT(draft_max, draft_max)

#define TYPES "f16|f32|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1"

const vr_option_row vr_llamacpp_beside_rows[VR_LLAMACPP_N_BESIDE] = {
    { { "mmproj", "--mmproj -mm", VRAM_OPT_STRING, "FILE", NULL, NULL,
        "llama.cpp: the projector of pictures that is loaded beside the model.", "fit", 0, 0 },
      VR_SET_MMPROJ,
      set_mmproj,
      show_mmproj },
    { { "no_mmproj", "--no-mmproj", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "llama.cpp: the projector in the model's repository is not loaded.", "fit", 0, 0 },
      VR_SET_NO_MMPROJ,
      set_no_mmproj,
      show_no_mmproj },
    { { "no_mmproj_offload", "--no-mmproj-offload", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "llama.cpp: the projector stays in host memory.", "fit", 0, 0 },
      VR_SET_NO_MMPROJ_OFFLOAD,
      set_no_mmproj_offload,
      show_no_mmproj_offload },
    { { "image_max_tokens", "--image-max-tokens", VRAM_OPT_COUNT, "TOKENS", NULL, "the projector's own",
        "llama.cpp: tokens of a picture, of projectors that take pictures of any size.", "fit", 1, 1 << 20 },
      VR_SET_IMAGE_TOKENS,
      set_image_tokens,
      show_image_tokens },
    { { "lora", "--lora", VRAM_OPT_STRING, "FILE", NULL, NULL,
        "llama.cpp: adapters on top of the model, with commas between them.", "fit", 0, 0 },
      VR_SET_LORA,
      set_lora,
      show_lora },
    { { "control_vector", "--control-vector", VRAM_OPT_STRING, "FILE", NULL, NULL,
        "llama.cpp: control vectors, which take a row for each layer.", "fit", 0, 0 },
      VR_SET_CONTROL_VECTOR,
      set_control,
      show_control },
    { { "model_draft", "--model-draft -md --spec-draft-model", VRAM_OPT_STRING, "FILE", NULL, NULL,
        "llama.cpp: a smaller model that drafts tokens, loaded beside the other with a context of its own.",
        "fit", 0, 0 },
      VR_SET_MODEL_DRAFT,
      set_draft,
      show_draft },
    { { "n_gpu_layers_draft", "--n-gpu-layers-draft --gpu-layers-draft -ngld --spec-draft-ngl",
        VRAM_OPT_STRING, "N", NULL, "all", "llama.cpp: layers of the draft model that lie on the cards.",
        "fit", 0, VR_MOST_TOKENS },
      VR_SET_DRAFT_LAYERS,
      set_draft_layers,
      show_draft_layers },
    { { "cache_type_k_draft", "--cache-type-k-draft -ctkd --spec-draft-type-k", VRAM_OPT_CHOICE, "TYPE",
        TYPES, "f16", "llama.cpp: what the keys of what drafts are kept as.", "fit", 0, 0 },
      VR_SET_DRAFT_TYPE_K,
      set_draft_k,
      show_draft_k },
    { { "cache_type_v_draft", "--cache-type-v-draft -ctvd --spec-draft-type-v", VRAM_OPT_CHOICE, "TYPE",
        TYPES, "f16", "llama.cpp: what the values of what drafts are kept as.", "fit", 0, 0 },
      VR_SET_DRAFT_TYPE_V,
      set_draft_v,
      show_draft_v },
    { { "spec_type", "--spec-type", VRAM_OPT_CHOICE, "TYPE",
        "none|draft-simple|draft-mtp|draft-eagle3|draft-dflash|draft-dspark|ngram-simple|ngram-map-k|"
        "ngram-map-k4v|ngram-mod|ngram-cache",
        "as the draft model is", "llama.cpp: what drafts.", "fit", 0, 0 },
      VR_SET_SPEC_TYPE,
      set_spec,
      show_spec },
    { { "spec_draft_n_max", "--spec-draft-n-max --draft-max --draft --draft-n", VRAM_OPT_COUNT, "N", NULL,
        "3", "llama.cpp: tokens of a draft.", "fit", 1, 1024 },
      VR_SET_DRAFT_MAX,
      set_draft_max,
      show_draft_max },
};

/* ---- from settings to what is loaded ---- */

static const vram_model *attached(const vram_workload *w, vr_setting s)
{
    for (size_t i = 0; i < w->n_attached; i++) {
        if (w->attached[i].setting == s)
            return w->attached[i].file;
    }
    return NULL;
}

static vram_status refuse(const vram_workload *w, vr_setting s, const char *name, const char *why)
{
    vr_str rest = vr_str_of(vr_setting_option(w->engine, s)->flags), flag;
    (void)vr_str_split(&rest, ' ', &flag);
    return vr_fail(w->ctx, VRAM_ESETTING, S(flag), T(" "), T(name), T(": "), T(why));
}

static vram_status read_projector(vr_lm_beside *b, const vram_workload *w, vr_arena *a)
{
    const vram_model *m = attached(w, VR_SET_MMPROJ);
    const char *why = "the file was not read";
    if (w->mmproj_name == NULL || w->no_mmproj)
        return VRAM_OK;
    if (m != NULL)
        VR_TRY(vr_clip_of(&b->projector, &why, m, a));
    b->seeing = (vr_clip_params){ .on_host = w->no_mmproj_offload,
                                  .flash_attn = w->flash != VR_FLASH_OFF,
                                  .flash_auto = w->flash == VR_FLASH_AUTO,
                                  .most_tokens = w->image_tokens };
    return b->projector != NULL ? VRAM_OK : refuse(w, VR_SET_MMPROJ, w->mmproj_name, why);
}

static uint8_t cache_type(const vram_workload *w, vr_setting s, uint8_t given)
{
    return w->set_by[s] == VR_BY_USER ? given : VR_F16;
}

/* The settings of the other model's context that are not its own, and an output for each sequence. */
static void draft_params(vr_lm_params *d, const vr_lm_params *p, const vram_workload *w)
{
    *d = *p;
    d->beside = NULL;
    d->adapters = NULL;
    d->n_adapters = 0;
    d->control_vector = false;
    d->overrides = NULL;
    d->n_overrides = 0;
    d->n_cpu_moe = 0;
    d->embeddings = false;
    d->n_gpu_layers = w->set_by[VR_SET_DRAFT_LAYERS] == VR_BY_USER ? w->draft_layers : VR_ALL_LAYERS;
    d->type_k = cache_type(w, VR_SET_DRAFT_TYPE_K, w->draft_k);
    d->type_v = cache_type(w, VR_SET_DRAFT_TYPE_V, w->draft_v);
    d->flash_auto = w->flash == VR_FLASH_AUTO && vr_dtype_block((vr_dtype)d->type_v) == 1;
    d->n_outputs_max = p->n_seq_max;
}

static bool drafts_by(const vram_workload *w, vr_spec_type type)
{
    return w->set_by[VR_SET_SPEC_TYPE] == VR_BY_USER && w->spec_type == type;
}

/* What drafts is no model that could run alone, or llama.cpp takes it for one that does not. */
static bool heads_alone(const vr_lm *lm, bool simple)
{
    static const char *const names[] = { "eagle3", "dflash", "gemma4-assistant" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (vr_str_is(lm->name, names[i]))
            return true;
    }
    bool predicts =
        lm->n_layer_all > 0 && vr_lm_find(lm, lm->n_layer_all - 1, "nextn.eh_proj.weight") != NULL;
    return predicts && (!simple || vr_lm_find(lm, 0, "attn_norm.weight") == NULL);
}

static vram_status read_draft(vr_lm_beside *b, const vr_lm_params *p, const vram_workload *w, vr_arena *a)
{
    const vram_model *m = attached(w, VR_SET_MODEL_DRAFT);
    const char *why = "the file was not read";
    if (w->draft_name == NULL)
        return VRAM_OK;
    if (m != NULL)
        VR_TRY(vr_lm_of(&b->draft, &why, m, a));
    if (b->draft != NULL && heads_alone(b->draft, drafts_by(w, VR_SPEC_SIMPLE))) {
        b->draft = NULL;
        b->unread = true;
        b->unknown = "llama.cpp drafts with layers of --model-draft's file that go on from what the model "
                     "computes (MTP, EAGLE-3, DFlash), which is not worked out";
        return VRAM_OK;
    }
    draft_params(&b->drafting, p, w);
    return b->draft != NULL ? VRAM_OK : refuse(w, VR_SET_MODEL_DRAFT, w->draft_name, why);
}

static vram_status read_adapters(vr_lm_params *p, const vr_lm *lm, const vram_workload *w, vr_arena *a)
{
    const char *why = "the file was not read";
    const vr_lm_adapter **list = VR_ARRAY(a, const vr_lm_adapter *, VR_MOST_ATTACHED);
    if (w->lora_names == NULL)
        return VRAM_OK;
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < w->n_attached; i++) {
        if (w->attached[i].setting != VR_SET_LORA)
            continue;
        VR_TRY(vr_lm_adapter_of(&list[p->n_adapters], &why, w->attached[i].file, lm, a));
        if (list[p->n_adapters++] == NULL)
            return refuse(w, VR_SET_LORA, w->lora_names, why);
    }
    p->adapters = list;
    return p->n_adapters != 0 ? VRAM_OK : refuse(w, VR_SET_LORA, w->lora_names, why);
}

static uint64_t drafts_of(const vram_workload *w)
{
    return w->set_by[VR_SET_DRAFT_MAX] == VR_BY_USER ? w->draft_max : DRAFTS;
}

/* Layers of the model itself, in a second context. */
static vram_status read_predicting(vr_lm_beside *b, vr_lm_params *p, const vr_lm *lm, const vram_workload *w)
{
    const char *why = NULL;
    if (!drafts_by(w, VR_SPEC_MTP))
        return VRAM_OK;
    if (b->draft != NULL || b->unread) {
        b->unknown = "what layers that predict take from a file of their own is not worked out";
        return VRAM_OK;
    }
    vr_lm_beside_predict(&why, b, p, lm, drafts_of(w));
    if (why != NULL)
        return refuse(w, VR_SET_SPEC_TYPE, "draft-mtp", why);
    b->drafting.type_k = cache_type(w, VR_SET_DRAFT_TYPE_K, w->draft_k);
    b->drafting.type_v = cache_type(w, VR_SET_DRAFT_TYPE_V, w->draft_v);
    b->drafting.flash_auto = p->flash_auto && vr_dtype_block((vr_dtype)b->drafting.type_v) == 1;
    b->drafting.adapters = NULL; /* they are the first context's */
    b->drafting.n_adapters = 0;
    b->drafting.control_vector = false;
    return VRAM_OK;
}

/* Drafts are computed at once, and each is an output. */
static void count_outputs(vr_lm_params *p, const vram_workload *w)
{
    uint64_t drafts = drafts_of(w);
    if ((!drafts_by(w, VR_SPEC_SIMPLE) && !drafts_by(w, VR_SPEC_MTP)) || p->n_outputs_max == 0)
        return;
    p->n_outputs_max = vr_mul_sat(p->n_seq_max, drafts + 1);
    p->n_outputs_max = p->n_outputs_max < p->n_batch ? p->n_outputs_max : p->n_batch;
}

vram_status vr_llamacpp_attach(vr_lm_params *p, const vr_lm *lm, const vram_workload *w, vr_arena *a)
{
    vr_lm_beside *b = VR_NEW(a, vr_lm_beside);
    if (b == NULL)
        return VRAM_ENOMEM;
    p->control_vector = w->control_names != NULL;
    VR_TRY(read_adapters(p, lm, w, a));
    VR_TRY(read_projector(b, w, a));
    VR_TRY(read_draft(b, p, w, a));
    VR_TRY(read_predicting(b, p, lm, w));
    if (drafts_by(w, VR_SPEC_OTHER))
        b->unknown = "what drafts of this kind take is not worked out";
    count_outputs(p, w);
    p->beside = b;
    return VRAM_OK;
}

static vram_status keep_for_draft(uint64_t *margins, const vr_lm_beside *b, const vr_lm_device *devices,
                                  size_t n, vr_arena *a)
{
    vr_lm_sizes *s = VR_NEW(a, vr_lm_sizes);
    if (s == NULL)
        return VRAM_ENOMEM;
    vr_lm_params drafting = b->drafting;
    drafting.chooses = false; /* its context alone is asked */
    VR_TRY(vr_lm_measure(s, b->draft, &drafting, devices, n, a));
    for (size_t i = 0; i < n; i++) {
        const vr_lm_memory *d = &s->device[i];
        margins[i] = vr_add_sat(margins[i], vr_add_sat(vr_add_sat(d->model, d->context), d->compute));
    }
    return VRAM_OK;
}

vram_status vr_llamacpp_beside_margins(uint64_t *margins, const vr_lm *lm, vr_lm_params *p,
                                       const vram_workload *w, const vr_lm_device *devices, size_t n,
                                       vr_arena *a)
{
    vr_lm_params own = *p;
    vr_clip_sizes s;
    VR_TRY(vr_llamacpp_attach(&own, lm, w, a));
    const vr_lm_beside *b = own.beside;
    p->load_mtp = own.load_mtp;
    p->n_rs_seq = own.n_rs_seq;
    p->n_outputs_max = own.n_outputs_max;
    if (w->tool != VR_LM_SERVER || n == 0)
        return VRAM_OK;
    if (b->draft != NULL)
        VR_TRY(keep_for_draft(margins, b, devices, n, a));
    if (b->projector == NULL || b->seeing.on_host)
        return VRAM_OK;
    vr_clip_params seeing = b->seeing;
    seeing.cc = devices[0].cc;
    VR_TRY(vr_clip_measure(&s, b->projector, &seeing, a));
    margins[0] = vr_add_sat(margins[0], vr_add_sat(s.stored, s.compute));
    return VRAM_OK;
}

/* ---- on the tape ---- */

static void put(vr_tape *t, vr_item item, uint64_t bytes)
{
    if (bytes != 0)
        vr_tape_outside(t, item, bytes);
}

void vr_llamacpp_put_beside(vr_plan *out, const vr_lm_sizes *s, size_t rank, vr_category c)
{
    vr_tape *t = &out->tape;
    const vr_lm_memory *d = s->draft != NULL ? &s->draft->device[rank] : NULL;
    const vr_clip_sizes *p =
        s->projector != NULL && !s->projector->on_host && rank == 0 ? s->projector : NULL;
    if (!out->counted[c])
        return;
    switch (c) {
    case VR_WEIGHTS:
        put(t, VR_ITEM_PROJECTOR, p != NULL ? p->weights : 0);
        put(t, VR_ITEM_DRAFT, d != NULL ? d->model : 0);
        put(t, VR_ITEM_ADAPTER, s->device[rank].adapter);
        break;
    case VR_KV_CACHE:
        put(t, VR_ITEM_DRAFT_KV, d != NULL ? d->context : 0);
        break;
    case VR_ACTIVATIONS:
        put(t, VR_ITEM_PROJECTOR_COMPUTE, p != NULL ? p->compute : 0);
        put(t, VR_ITEM_DRAFT_COMPUTE, d != NULL ? d->compute : 0);
        break;
    default:
        break;
    }
}

vr_beside_sum vr_llamacpp_beside_of(const vr_lm_sizes *s, size_t rank)
{
    const vr_lm_memory *d = s->draft != NULL ? &s->draft->device[rank] : NULL;
    const vr_clip_sizes *p =
        s->projector != NULL && !s->projector->on_host && rank == 0 ? s->projector : NULL;
    vr_beside_sum out = { .weights = s->device[rank].adapter };
    if (d != NULL)
        out = (vr_beside_sum){
            vr_add_sat(out.weights, d->model), d->elements, d->context, d->token, d->compute, d->pool
        };
    if (p == NULL)
        return out;
    out.weights = vr_add_sat(out.weights, p->weights);
    out.elements = vr_add_sat(out.elements, p->elements);
    out.compute = vr_add_sat(out.compute, p->compute);
    return out;
}

void vr_llamacpp_beside_on_host(vr_host_share *out, const vr_lm_sizes *s)
{
    const vr_lm_sizes *d = s->draft;
    const vr_clip_sizes *p = s->projector;
    out->weights = vr_add_sat(out->weights, vr_add_sat(s->host.adapter, s->pinned.adapter));
    if (d != NULL) {
        out->weights = vr_add_sat(out->weights, vr_add_sat(d->host.model, d->pinned.model));
        out->kv = vr_add_sat(out->kv, vr_add_sat(d->host.context, d->pinned.context));
        out->compute = vr_add_sat(out->compute, vr_add_sat(d->host.compute, d->pinned.compute));
        out->output = vr_add_sat(out->output, d->output);
        out->kv_counted = out->kv_counted && d->context_known;
        out->activations_counted = out->activations_counted && d->compute_known;
    }
    if (p != NULL) {
        out->weights = vr_add_sat(out->weights, p->on_host ? p->weights : 0);
        out->compute = vr_add_sat(out->compute, vr_add_sat(p->host_compute, p->on_host ? p->compute : 0));
        out->activations_counted = out->activations_counted && p->compute_known;
    }
}

/* Why it is not known what the category takes beside the model; NULL: it is. */
static const char *unknown(const vr_lm_sizes *s, vr_category c)
{
    const vr_lm_sizes *d = s->draft;
    if (s->drafts_unknown != NULL && (c != VR_WEIGHTS || s->draft_unread))
        return s->drafts_unknown;
    if (c == VR_KV_CACHE)
        return d != NULL && !d->context_known ? d->why : NULL;
    if (c != VR_ACTIVATIONS)
        return NULL;
    if (d != NULL && !d->compute_known)
        return d->why;
    return s->projector != NULL && !s->projector->compute_known ? s->projector->why : NULL;
}

/* "; and the projector's for a picture of 896 x 896" */
static const char *with(vr_arena *a, const char *text, bool there, const char *what, const char *detail)
{
    return text == NULL || !there ? text : vr_text(a, T(text), T("; "), T(what), T(detail));
}

static const char *words(const char *text, const vr_lm_sizes *s, size_t rank, vr_category c, vr_arena *a)
{
    const vr_clip_sizes *p =
        s->projector != NULL && !s->projector->on_host && rank == 0 ? s->projector : NULL;
    const char *picture = "";
    if (p != NULL && p->side != 0) {
        picture = vr_text(a, T(" for a picture of "), U(p->side), T(" x "), U(p->side));
        if (picture == NULL)
            return NULL;
    }
    if (c == VR_WEIGHTS) {
        text = with(a, text, p != NULL, "the projector", "");
        text = with(a, text, s->device[rank].adapter != 0, "adapters", "");
        return with(a, text, s->draft != NULL && !s->draft->shares_weights, "the draft model", "");
    }
    if (c == VR_ACTIVATIONS)
        text = with(a, text, p != NULL, "that of the projector", picture);
    return with(a, text, s->draft != NULL, c == VR_KV_CACHE ? "those of what drafts" : "that of what drafts",
                "");
}

vram_status vr_llamacpp_beside_told(vr_sum sums[3], const vr_lm_sizes *s, size_t rank, vr_arena *a)
{
    static const vr_category of[] = { VR_WEIGHTS, VR_KV_CACHE, VR_ACTIVATIONS };
    for (size_t i = 0; i < 3; i++) {
        const char *why = sums[i].counted ? unknown(s, of[i]) : NULL;
        if (why != NULL) {
            sums[i].counted = false;
            sums[i].words = why;
        } else if (sums[i].counted) {
            sums[i].words = words(sums[i].words, s, rank, of[i], a);
        }
        if (sums[i].words == NULL)
            return VRAM_ENOMEM;
    }
    if (s->draft != NULL && (s->draft->compute_near || s->draft->compute_guessed) && sums[2].counted)
        sums[2].basis = VR_BASIS_FORMULA;
    if (s->projector != NULL && !s->projector->listed && sums[0].basis == VR_BASIS_EXACT)
        sums[0].basis = VR_BASIS_FORMULA; /* all that the file has */
    return VRAM_OK;
}
