/* SPDX-License-Identifier: MIT
 * The table of architectures. */
#include "llama/archs.h"
#include "llama/archs_more.h"

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

bool vr_lm_only_named(vr_str name)
{
    static const char *const names[] = { "dflash",        "eagle3", "gemma4-assistant", "gptj",
                                         "graniteswitch", "plm",    "wavtokenizer-dec" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (vr_str_is(name, names[i]))
            return true;
    }
    return false;
}
