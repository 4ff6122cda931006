/* SPDX-License-Identifier: MIT
 *
 * The settings behind an answer, in words and by who set them: what was assumed comes with the option that
 * changes it.
 */
#include "report/fit_report.h"

static const char *tokens(vr_report *r, const vram_workload *w)
{
    bool each = w->sequences > 1 && !w->slots && vr_engine_has(w->engine, VR_SET_N_CTX);

    return vr_say(r, T(vr_count(r, w->context, "token", "tokens")), T(each ? " for each sequence" : ""));
}

static const char *name_of(vr_report *r, const vram_workload *w, vr_setting setting);

static const char *program(vr_report *r, const vram_workload *w)
{
    return vr_say(r, T("llama-"), T(vr_workload_value(w, VR_SET_TOOL, &r->arena)));
}

/* Older builds put none on the card when nothing is said. */
static const char *layers(vr_report *r, const vram_workload *w)
{
    if (w->set_by[VR_SET_GPU_LAYERS] == VR_BY_USER)
        return vr_say(r, T(name_of(r, w, VR_SET_GPU_LAYERS)), T(" "),
                      T(vr_workload_value(w, VR_SET_GPU_LAYERS, &r->arena)));
    return w->gpu_layers == 0 ? "no layers on the card (-ngl)" : NULL;
}

static const char *host(vr_report *r, const vram_workload *w)
{
    return vr_say(r, T(vr_workload_value(w, VR_SET_HOST_MEMORY, &r->arena)), T(" of memory in the computer"));
}

/* It stands there as the context. */
static const char *nothing(vr_report *r, const vram_workload *w)
{
    (void)r;
    (void)w;
    return NULL;
}

static const char *sequences(vr_report *r, const vram_workload *w)
{
    if (w->slots)
        return vr_say(r, U(w->sequences), T(" slots (-np) that share the context"));
    return vr_count(r, w->sequences, "sequence", "sequences");
}

static const char *prefill(vr_report *r, const vram_workload *w)
{
    if (w->prefill_batch == w->sequences || w->prefill_batch == 0)
        return NULL;
    return vr_say(r, GROUPED(w->prefill_batch), T(" computed at once"));
}

static const char *decode(vr_report *r, const vram_workload *w)
{
    return w->decode != 0 ? vr_say(r, T(vr_count(r, w->decode, "token", "tokens")), T(" generated")) : NULL;
}

static const char *images(vr_report *r, const vram_workload *w)
{
    if (w->images == 0)
        return w->sees ? "no images" : NULL;
    return vr_say(r, T(vr_count(r, w->images, "image", "images")), T(" of "),
                  T(vr_count(r, w->picture.tokens, "token", "tokens")), T(w->images == 1 ? "" : " each"));
}

static const char *image_size(vr_report *r, const vram_workload *w)
{
    return w->images != 0 ? vr_say(r, T(vr_workload_value(w, VR_SET_IMAGE_SIZE, &r->arena)), T(" pixels"))
                          : NULL;
}

static const char *beams(vr_report *r, const vram_workload *w)
{
    return w->beams > 1 ? vr_count(r, w->beams, "beam", "beams") : NULL;
}

static const char *drafts(vr_report *r, const vram_workload *w)
{
    return w->lookup != 0 ? vr_say(r, T("drafts of "), T(vr_count(r, w->lookup, "token", "tokens"))) : NULL;
}

static const char *assistant(vr_report *r, const vram_workload *w)
{
    return w->assistant_name != NULL ? vr_say(r, T("assistant "), T(w->assistant_name)) : NULL;
}

static const char *assistant_tokens(vr_report *r, const vram_workload *w)
{
    return w->assistant_name != NULL
               ? vr_say(r, T("drafts of "), T(vr_count(r, w->assistant_tokens, "token", "tokens")))
               : NULL;
}

static const char *cache(vr_report *r, const vram_workload *w)
{
    if (w->cache == VR_CACHE_DYNAMIC)
        return NULL;
    const char *kind = vr_workload_value(w, VR_SET_CACHE, &r->arena);
    if (w->cache != VR_CACHE_QUANTIZED)
        return vr_say(r, T(kind), T(" cache"));
    return vr_say(r, T(kind), T(" cache ("), T(vr_workload_value(w, VR_SET_CACHE_BACKEND, &r->arena)),
                  T(", "), U(w->cache_bits), T(" bits)"));
}

static const char *logits(vr_report *r, const vram_workload *w)
{
    (void)r;
    return w->logits == VR_LOGITS_ALL ? "logits of every token" : "logits of the last token";
}

static const char *device_map(vr_report *r, const vram_workload *w)
{
    if (w->device_map == VR_MAP_NONE)
        return ".to(\"cuda\")";
    return vr_say(r, T("device_map "), T(vr_workload_value(w, VR_SET_DEVICE_MAP, &r->arena)));
}

static const char *quantization(vr_report *r, const vram_workload *w)
{
    if (w->weight_quant == VR_QUANT_NONE)
        return NULL;
    return vr_say(r, T("weights in "), T(vr_workload_value(w, VR_SET_WEIGHT_QUANT, &r->arena)));
}

static const char *version(vr_report *r, const vram_workload *w)
{
    return vr_say(r, T(w->engine->name), T(" "), T(vr_workload_value(w, VR_SET_ENGINE_VERSION, &r->arena)));
}

/* The name to type: its letters where there are any. */
static const char *name_of(vr_report *r, const vram_workload *w, vr_setting setting)
{
    const vram_option *row = vr_setting_option(w->engine, setting);
    vr_str rest = vr_str_of(row != NULL ? row->flags : NULL), best = { NULL, 0 }, word;

    while (row != NULL && vr_str_split(&rest, ' ', &word))
        if (best.n == 0 || (!vr_str_starts(word, "--") && vr_str_starts(best, "--")))
            best = word;
    return vr_say(r, S(best));
}

/* How to set it: "-c" where there is a letter, the long name only in the details. NULL: nothing to show. */
static const char *option_of(vr_report *r, const vram_workload *w, vr_setting setting)
{
    const char *name = name_of(r, w, setting);

    return vr_str_of(name).n == 2 || (*name != '\0' && r->style->verbose) ? name : NULL;
}

/* "-ctk q8_0": as it is typed, for settings that only some engines have. */
static const char *as_typed(vr_report *r, const vram_workload *w, vr_setting s)
{
    const vram_option *row = vr_setting_option(w->engine, s);
    const char *value = vr_workload_value(w, s, &r->arena), *name = name_of(r, w, s);

    if (row == NULL)
        return "";
    return row->type == VRAM_OPT_FLAG ? name : vr_say(r, T(name), T(" "), T(value));
}

/* In the order of the line; a setting without a function shows its value, one that gives NULL is left out. */
static const struct {
    vr_setting setting;
    const char *(*words)(vr_report *r, const vram_workload *w);
    bool only_by_user;
} shown[] = {
    { VR_SET_TOOL, program, true },
    { VR_SET_CONTEXT, tokens, false },
    { VR_SET_SEQUENCES, sequences, false },
    { VR_SET_PREFILL_BATCH, prefill, false },
    { VR_SET_DECODE, decode, false },
    { VR_SET_BEAMS, beams, false },
    { VR_SET_DRAFTS, drafts, false },
    { VR_SET_ASSISTANT, assistant, false },
    { VR_SET_ASSISTANT_TOKENS, assistant_tokens, false },
    { VR_SET_CACHE, cache, false },
    { VR_SET_IMAGES, images, false },
    { VR_SET_IMAGE_SIZE, image_size, false },
    { VR_SET_DTYPE, NULL, false },
    { VR_SET_KV_DTYPE, NULL, true },
    { VR_SET_WEIGHT_QUANT, quantization, false },
    { VR_SET_ATTENTION, NULL, false },
    { VR_SET_LOGITS, logits, false },
    { VR_SET_DEVICE_MAP, device_map, false },
    { VR_SET_ALLOC_CONF, NULL, true },
    { VR_SET_EXPERTS, NULL, true },
    { VR_SET_EXPERT_LOAD, NULL, true },
    { VR_SET_UTILIZATION, NULL, true },
    { VR_SET_BATCHED_TOKENS, NULL, true },
    { VR_SET_BLOCK_SIZE, NULL, true },
    { VR_SET_NO_HYBRID, NULL, true },
    { VR_SET_MAMBA_MODE, NULL, true },
    { VR_SET_STATIC_SHARE, NULL, true },
    { VR_SET_SWA_RATIO, NULL, true },
    { VR_SET_NO_RADIX, NULL, true },
    { VR_SET_GPU_LAYERS, layers, false },
    { VR_SET_CACHE_TYPE_K, NULL, true },
    { VR_SET_CACHE_TYPE_V, NULL, true },
    { VR_SET_UBATCH, NULL, true },
    { VR_SET_SWA_FULL, NULL, true },
    { VR_SET_KV_UNIFIED, NULL, true },
    { VR_SET_NO_KV_OFFLOAD, NULL, true },
    { VR_SET_N_CTX, nothing, true },
    { VR_SET_BATCH, NULL, true },
    { VR_SET_FLASH, NULL, true },
    { VR_SET_SPLIT_MODE, NULL, true },
    { VR_SET_TENSOR_SPLIT, NULL, true },
    { VR_SET_MAIN_GPU, NULL, true },
    { VR_SET_OVERRIDE, NULL, true },
    { VR_SET_HOST_MEMORY, host, true },
    { VR_SET_CPU_MOE, NULL, true },
    { VR_SET_N_CPU_MOE, NULL, true },
    { VR_SET_NO_OP_OFFLOAD, NULL, true },
    { VR_SET_EMBEDDING, NULL, true },
    { VR_SET_POOLING, NULL, true },
    { VR_SET_MMPROJ, NULL, true },
    { VR_SET_NO_MMPROJ, NULL, true },
    { VR_SET_NO_MMPROJ_OFFLOAD, NULL, true },
    { VR_SET_IMAGE_TOKENS, NULL, true },
    { VR_SET_LORA, NULL, true },
    { VR_SET_CONTROL_VECTOR, NULL, true },
    { VR_SET_MODEL_DRAFT, NULL, true },
    { VR_SET_DRAFT_LAYERS, NULL, true },
    { VR_SET_DRAFT_TYPE_K, NULL, true },
    { VR_SET_DRAFT_TYPE_V, NULL, true },
    { VR_SET_SPEC_TYPE, NULL, true },
    { VR_SET_DRAFT_MAX, NULL, true },
    { VR_SET_KV_CACHE_TYPE, NULL, true },
    { VR_SET_GPU_OVERHEAD, NULL, true },
    { VR_SET_SCHED_SPREAD, NULL, true },
    { VR_SET_ENGINE_VERSION, version, false },
};

bool vr_fit_setting_known(const vram_fit *f, vr_setting s)
{
    return !f->foreign || f->workload->set_by[s] == VR_BY_USER;
}

static const char *words_of(vr_report *r, const vram_fit *f, size_t i)
{
    const vram_workload *w = f->workload;

    if (!vr_fit_setting_known(f, shown[i].setting) || !vr_engine_has(w->engine, shown[i].setting))
        return NULL;
    if (shown[i].setting == VR_SET_LOGITS && f->model->structure == VR_ENCODER)
        return NULL;
    if (shown[i].only_by_user && w->set_by[shown[i].setting] != VR_BY_USER)
        return NULL;
    if (shown[i].words != NULL)
        return shown[i].words(r, w);
    return shown[i].setting >= VR_SET_EXPERTS ? as_typed(r, w, shown[i].setting)
                                              : vr_workload_value(w, shown[i].setting, &r->arena);
}

/* What was sought stands as if the user had typed it, in the place of what was typed. */
static bool is_sought(vr_report *r, const vram_fit *f, vr_setting s)
{
    const vram_workload *w = f->workload, *asked = f->asked;

    if (!f->solved || w->set_by[s] != VR_BY_USER)
        return false;
    if (s == VR_SET_CONTEXT && asked->set_by[VR_SET_N_CTX] == VR_BY_USER)
        return w->n_ctx == 0;
    return !vr_workload_same(w, asked, s, &r->arena);
}

static const char *list_of(vr_report *r, const vram_fit *f, vr_set_by by, bool sought)
{
    const char *list = "";

    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const char *words = words_of(r, f, i), *option;
        if (words == NULL || f->workload->set_by[shown[i].setting] != by ||
            is_sought(r, f, shown[i].setting) != sought)
            continue;
        option = by != VR_BY_USER ? option_of(r, f->workload, shown[i].setting) : NULL;
        list = vr_say(r, T(list), T(*list != '\0' ? ", " : ""), T(words), T(option != NULL ? " (" : ""),
                      T(option != NULL ? option : ""), T(option != NULL ? ")" : ""));
    }
    return list;
}

void vr_fit_settings(vr_report *r, const vram_fit *f)
{
    static const struct {
        vr_set_by by;
        const char *head;
        bool sought;
    } groups[] = {
        { VR_BY_DEFAULT, "", false },
        { VR_BY_MODEL, "by the model: ", false },
        { VR_BY_USER, "set by you: ", false },
        { VR_BY_USER, "solved: ", true },
    };
    const char *text =
        f->model->checkpoint->pipeline != NULL ? "all parts on the card at once, as they are stored" : "";

    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const char *list = list_of(r, f, groups[i].by, groups[i].sought);
        if (*list != '\0')
            text = vr_say(r, T(text), T(*text != '\0' ? vr_dot(r) : ""), T(groups[i].head), T(list));
    }
    if (*text != '\0')
        vr_para(r, VR_INK_BOLD, "assumed", VR_FIT_INDENT, text);
}
