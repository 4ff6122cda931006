/* SPDX-License-Identifier: MIT
 * The table of architectures. */
#include "llama/archs.h"
#include "llama/archs_more.h"
#include "llama/builds.h"

static const vr_lm_arch archs[] = {
#define X(name, function) { name, vr_lm_build_##function },
    VR_LM_ARCHS(X) VR_LM_ARCHS_MORE(X)
#undef X
};

const vr_lm_arch *vr_lm_arch_find(vr_str name)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (vr_str_is(name, archs[i].name))
            return &archs[i];
    }
    return NULL;
}

/* Those that llama.cpp has and whose graph is not known here. */
static bool only_named(vr_str name)
{
    static const char *const names[] = { "dflash",        "eagle3", "gemma4-assistant", "gptj",
                                         "graniteswitch", "plm",    "wavtokenizer-dec" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (vr_str_is(name, names[i]))
            return true;
    }
    return false;
}

bool vr_lm_is_known(const vr_lm *lm)
{
    return lm->arch != NULL && !lm->guessed;
}

vram_status vr_lm_doubt(const char **out, const vr_lm *lm, uint32_t build, const char *runs, vr_arena *a)
{
    *out = NULL;
    if (vr_lm_is_known(lm))
        return VRAM_OK;
    if (only_named(lm->name))
        *out = vr_text(a, T("a graph of the architecture "), S(lm->name),
                       T(" is not known here; the figures are about"));
    else if (build > VR_LM_NEWEST)
        *out = vr_text(a, T("whether "), T(runs), T(" has the architecture "), S(lm->name),
                       T(" is not known here; the figures are about"));
    else
        *out = vr_text(a, T(runs), T(" does not know the architecture "), S(lm->name),
                       T(", a newer one may; the figures are about"));
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}
