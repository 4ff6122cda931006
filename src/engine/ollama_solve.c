/* SPDX-License-Identifier: MIT
 * What can be sought of a run of Ollama, which leaves on the CPU what does not fit: the context, sequences at
 * once and the type of the cache with which all of the model is on the GPUs; and how one says so.
 *
 * Source: Ollama v0.32.15, api/types.go (num_ctx), envconfig/config.go. */
#include "engine/ollama.h"

#define MOST_SEQUENCES 64
#define CONTEXT_VARIABLE VR_OLLAMA_RELEASE(5, 13)

/* ---- values ---- */

/* A quantised cache needs flash attention. */
static bool has_types(const vram_workload *w)
{
    bool off = w->flash == VR_FLASH_OFF && w->set_by[VR_SET_FLASH] == VR_BY_USER;
    return w->cache_k == VR_F16 && !off;
}

static uint64_t count(vr_goal g, const vram_model *m, const vram_workload *w)
{
    if (!m->gguf || m->n_layers == 0 || w->set_by[VR_SET_GPU_LAYERS] == VR_BY_USER)
        return 0; /* or it is given what goes where */
    switch (g) {
    case VR_GOAL_CONTEXT:
        return vr_llamacpp_contexts(m);
    case VR_GOAL_SEQUENCES:
        return MOST_SEQUENCES;
    case VR_GOAL_CACHE:
        return has_types(w) ? VR_LLAMACPP_N_CACHES : 0;
    default:
        return 0;
    }
}

static uint64_t own(vr_goal g, const vram_model *m, const vram_workload *w)
{
    (void)m;
    switch (g) {
    case VR_GOAL_CONTEXT:
        return w->context % VR_LLAMACPP_STEP == 0 && w->context != 0 ? w->context / VR_LLAMACPP_STEP - 1
                                                                     : UINT64_MAX;
    case VR_GOAL_SEQUENCES:
        return w->sequences - 1;
    default:
        return VR_LLAMACPP_N_CACHES - 1;
    }
}

static uint64_t number(vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w)
{
    (void)m;
    (void)w;
    if (g == VR_GOAL_CACHE)
        return vr_llamacpp_caches[x < VR_LLAMACPP_N_CACHES ? x : VR_LLAMACPP_N_CACHES - 1].bits;
    return g == VR_GOAL_CONTEXT ? (x + 1) * VR_LLAMACPP_STEP : x + 1;
}

static void take_type(vram_workload *to, size_t x)
{
    to->cache_k = to->cache_v = vr_llamacpp_caches[x].type;
    to->set_by[VR_SET_KV_CACHE_TYPE] = VR_BY_USER;
    if (vr_llamacpp_caches[x].type == VR_F16)
        return;
    to->flash = VR_FLASH_ON;
    to->set_by[VR_SET_FLASH] = VR_BY_USER;
}

static vram_status set(vram_workload *to, vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w,
                       vr_arena *a)
{
    (void)a;
    if (g == VR_GOAL_CACHE) {
        take_type(to, (size_t)x);
        return VRAM_OK;
    }
    *(g == VR_GOAL_CONTEXT ? &to->context : &to->sequences) = number(g, x, m, w);
    to->set_by[g == VR_GOAL_CONTEXT ? VR_SET_CONTEXT : VR_SET_SEQUENCES] = VR_BY_USER;
    if (g == VR_GOAL_SEQUENCES)
        to->prefill_batch = 0;
    return VRAM_OK;
}

/* ---- words ---- */

static const char *words(vr_goal g, const vram_model *m, const vram_workload *w, size_t n_gpus, vr_arena *a)
{
    (void)m;
    (void)n_gpus;
    if (g == VR_GOAL_CACHE)
        return vr_llamacpp_cache_words(w, a);
    if (g == VR_GOAL_CONTEXT)
        return vr_text(a, T("a context of "), GROUPED(w->context), T(" tokens"),
                       T(w->sequences > 1 ? " for each sequence" : ""));
    return vr_text(a, GROUPED(w->sequences),
                   T(w->sequences == 1 ? " sequence of " : " sequences at once, each of "),
                   GROUPED(w->context), T(" tokens"));
}

static const char *cost(vr_goal g, const vram_workload *w)
{
    if (g == VR_GOAL_CACHE)
        return vr_llamacpp_cache_cost(w);
    return g == VR_GOAL_CONTEXT ? "shorter prompts" : "less at once";
}

static const char *variable(const char *list, const char *name, const char *value, bool given, vr_arena *a)
{
    if (list == NULL || !given)
        return list;
    return vr_text(a, T(list), T(name), T("="), T(value), T(" "));
}

/* The environment of the server; before it had a variable for the context, the line of a Modelfile. */
static const char *command(const vram_model *m, const vram_workload *w, vr_arena *a)
{
    static const char *const whens[] = { [VR_FLASH_AUTO] = NULL, [VR_FLASH_ON] = "1", [VR_FLASH_OFF] = "0" };
    const char *n = vr_text(a, U(w->sequences));
    const char *when = w->flash < sizeof(whens) / sizeof(whens[0]) ? whens[w->flash] : NULL, *list = "";
    (void)m;
    if (n == NULL)
        return NULL;
    list = variable(list, "OLLAMA_NUM_PARALLEL", n, w->set_by[VR_SET_SEQUENCES] == VR_BY_USER, a);
    list = variable(list, "OLLAMA_FLASH_ATTENTION", when,
                    w->set_by[VR_SET_FLASH] == VR_BY_USER && when != NULL, a);
    list = variable(list, "OLLAMA_KV_CACHE_TYPE", vr_option_word_text(vr_llamacpp_types, w->cache_k),
                    w->set_by[VR_SET_KV_CACHE_TYPE] == VR_BY_USER, a);
    list = variable(list, "OLLAMA_SCHED_SPREAD", "1", w->sched_spread, a);
    if (list == NULL)
        return NULL;
    if (VR_OLLAMA_RELEASE(w->version_major, w->version_minor) >= CONTEXT_VARIABLE)
        return vr_text(a, T("OLLAMA_CONTEXT_LENGTH="), U(w->context), T(" "), T(list), T("ollama serve"));
    return vr_text(a, T(list), T(*list != '\0' ? "ollama serve; " : ""), T("PARAMETER num_ctx "),
                   U(w->context));
}

const vr_solvable vr_solvable_ollama = {
    .whole = true,
    .count = count,
    .own = own,
    .set = set,
    .number = number,
    .words = words,
    .cost = cost,
    .command = command,
};
