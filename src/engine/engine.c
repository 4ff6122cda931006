/* SPDX-License-Identifier: MIT
 * The list of engines, one line each, and the names of what all of them share. */
#include "engine/engine.h"

static const vr_engine *const engines[] = {
    &vr_engine_transformers, &vr_engine_vllm, &vr_engine_sglang, &vr_engine_llamacpp, &vr_engine_ollama,
};

const vr_engine *const *vr_engines(size_t *n)
{
    *n = sizeof(engines) / sizeof(engines[0]);
    return engines;
}

const vr_engine *vr_engine_find(vr_str name)
{
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        if (vr_str_is(name, engines[i]->name))
            return engines[i];
    }
    return NULL;
}

const char *vr_set_by_name(vr_set_by s)
{
    static const char *const names[] = { "default", "model", "user" };
    return (unsigned)s < sizeof(names) / sizeof(names[0]) ? names[s] : "";
}

const char *vr_setting_key(vr_setting s)
{
    static const char *const keys[] = {
#define X(id, key) key,
        VR_SETTINGS(X)
#undef X
    };
    return (unsigned)s < VR_SETTING_COUNT ? keys[s] : "";
}

vr_setting vr_setting_of(const char *key)
{
    int s = 0;
    while (s < VR_SETTING_COUNT && !vr_str_is(vr_str_of(key), vr_setting_key((vr_setting)s)))
        s++;
    return (vr_setting)s;
}

const char *vr_goal_word(vr_goal g)
{
    static const char *const words[] = {
#define X(id, word) word,
        VR_GOALS(X)
#undef X
    };
    return (unsigned)g < VR_GOAL_COUNT ? words[g] : "";
}

const char *vr_basis_name(vr_basis b)
{
    static const char *const names[] = {
#define X(id, name) name,
        VR_BASES(X)
#undef X
    };
    return (unsigned)b < VR_BASIS_COUNT ? names[b] : "";
}

uint64_t vr_host_bytes(const vr_host_share *h)
{
    return vr_add_sat(vr_add_sat(h->weights, h->kv), vr_add_sat(h->compute, h->output));
}
