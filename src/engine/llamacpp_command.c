/* SPDX-License-Identifier: MIT
 * The command line that runs a workload in llama.cpp.
 *
 * Source: llama.cpp b10470, common/arg.cpp, common/fit.cpp: what is given with -ngl and -c, which stand there
 * always, --fit leaves alone. */
#include <string.h>

#include "engine/llamacpp.h"

#define ALL 99 /* layers, as people write it */

/* A shell takes it as it is. */
static bool plain(vr_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && memchr("._/:@%+=,-", c, 10) == NULL)
            return false;
    }
    return s.n > 0 && s.s[0] != '-';
}

/* In single quotes, in which only themselves are special. */
static const char *quoted(const char *text, vr_arena *a)
{
    vr_str rest = vr_str_of(text), part;
    const char *out = "";
    if (text == NULL || plain(rest))
        return text;
    for (bool first = true; out != NULL && vr_str_split(&rest, '\'', &part); first = false)
        out = vr_text(a, T(out), T(first ? "" : "'\\''"), S(part));
    return out == NULL ? NULL : vr_text(a, T("'"), T(out), T("'"));
}

/* ---- the model ---- */

/* "org/name", read from a server or its cache on this disk. */
static bool is_repository(const vram_checkpoint *ck)
{
    vr_str name = vr_str_of(ck->name), rest = name, word;
    size_t words = 0;
    if (ck->read_from == NULL || !plain(name) || vr_str_find(name, ":", NULL))
        return false;
    while (vr_str_split(&rest, '/', &word))
        words += word.n != 0;
    return words == 2 && !vr_str_find(vr_str_of(ck->read_from), "modelscope", NULL);
}

static const char *path_of(const vram_checkpoint *ck, vr_arena *a)
{
    const char *file = ck->files[0].name;
    vr_str name = vr_str_of(ck->name);
    bool is_file = vr_str_ends(name, ".gguf") || vr_str_find(name, "://", NULL);
    if (ck->read_from != NULL && !is_file)
        return file;
    if (is_file)
        return ck->name;
    return vr_text(a, T(ck->name), T(vr_str_ends(name, "/") ? "" : "/"), T(file));
}

static const char *model_words(const vram_model *m, vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;
    if (!m->gguf || ck == NULL || ck->n_files == 0)
        return "-m MODEL.gguf";
    const char *name = quoted(is_repository(ck) ? ck->files[0].name : path_of(ck, a), a);
    if (name == NULL)
        return NULL;
    if (is_repository(ck))
        return vr_text(a, T("-hf "), T(ck->name), T(" -hff "), T(name));
    return vr_text(a, T("-m "), T(name));
}

/* ---- settings ---- */

/* Those that every engine has are named otherwise there, and how much of the cards a program has is no
 * setting. */
static bool is_own(vr_setting s)
{
    static const vr_setting others[] = {
        VR_SET_ENGINE_VERSION, VR_SET_CONTEXT, VR_SET_N_CTX, VR_SET_SEQUENCES, VR_SET_PREFILL_BATCH,
        VR_SET_GPU_LAYERS,     VR_SET_DECODE,  VR_SET_TOOL,  VR_SET_FIT,       VR_SET_HOST_MEMORY,
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (s == others[i])
            return false;
    }
    return true;
}

static const char *settings_words(const vram_workload *w, vr_arena *a)
{
    const char *list = "";
    for (int i = 0; i < VR_SETTING_COUNT && list != NULL; i++) {
        vr_setting s = (vr_setting)i;
        if (w->set_by[s] != VR_BY_USER || !is_own(s) || !vr_engine_has(w->engine, s))
            continue;
        const char *typed = vr_workload_typed(w, s, a);
        list = typed == NULL ? NULL : vr_text(a, T(list), T(" "), T(typed));
    }
    return list;
}

/* llama-bench has a model and layers alone in common with the others. */
static const char *program(const vram_workload *w)
{
    static const char *const names[] = { "llama-server", "llama-cli", "llama-bench" };
    return names[w->tool < sizeof(names) / sizeof(names[0]) ? w->tool : 0];
}

const char *vr_llamacpp_command(const vram_model *m, const vram_workload *w, vr_arena *a)
{
    uint64_t all = vr_add_sat(vr_add_sat(m->n_layers, m->n_predict_layers), 1);
    bool typed = w->set_by[VR_SET_GPU_LAYERS] == VR_BY_USER && w->gpu_layers != VR_ALL_LAYERS;
    uint64_t layers = typed || w->gpu_layers < all ? w->gpu_layers : all > ALL ? all : ALL;
    bool slots = w->set_by[VR_SET_SEQUENCES] == VR_BY_USER; /* otherwise the server's own number of them */
    const char *model = model_words(m, a), *settings = settings_words(w, a);
    if (model == NULL || settings == NULL)
        return NULL;
    return vr_text(a, T(program(w)), T(" "), T(model), T(" -ngl "), U(layers), T(" -c "),
                   U(vr_llamacpp_tokens(w)), T(slots ? " -np " : ""), slots ? U(w->sequences) : T(""),
                   T(settings));
}
