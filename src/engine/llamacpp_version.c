/* SPDX-License-Identifier: MIT
 * Builds and releases of llama.cpp as they are typed, and what a build has no option for yet.
 *
 * Source: llama.cpp's tags; its history as in src/llama/builds.c. */
#include "engine/llamacpp.h"
#include "engine/options.h"

/* Releases stand for builds: v0.1.1 is b10470, v0.2.0 b10566; v0.3.0 and v0.4.0 by their dates. */
static uint32_t build_of_release(unsigned minor)
{
    static const uint32_t builds[] = { 0, 10470, 10566, 10621, 10800, VR_LM_V0_5 };
    return minor < sizeof builds / sizeof *builds ? builds[minor] : VR_LM_LATER;
}

/* "v0.5.0", "0.5", "0.5.0-dev"; 0: it is no release. */
static uint32_t release(vr_str text, unsigned *minor)
{
    unsigned major;
    bool dev = vr_str_ends(text, "-dev");
    if (dev)
        text.n -= 4;
    if (!vr_version_numbers(text, "v", &major, minor) || major != 0 || *minor == 0 || *minor > 999)
        return 0;
    uint32_t build = build_of_release(*minor);
    return dev && build == VR_LM_V0_5 ? VR_LM_NEWEST : build;
}

vram_status vr_llamacpp_version(vram_workload *w, vr_str text)
{
    unsigned build, minor = 0;
    uint32_t of = release(text, &minor);
    if (of != 0) {
        build = of;
    } else {
        if (!vr_version_numbers(text, "b", &build, &minor) || minor != 0)
            return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version '"), S(text),
                           T("': must be a build or a release of llama.cpp, such as b10470 or v0.5.0"));
        if (build < VR_LM_OLDEST || build > VR_LM_MOST)
            return vr_fail(w->ctx, VRAM_ESETTING, T("llama.cpp "), S(text), T(" is not known; builds b"),
                           U(VR_LM_OLDEST), T(" to b"), U(VR_LM_MOST), T(" are"));
    }
    w->version_major = build;
    w->version_minor = minor;
    w->torch_given = false;
    return VRAM_OK;
}

const char *vr_llamacpp_version_text(const vram_workload *w, vr_arena *a)
{
    if (w->version_minor != 0)
        return vr_text(a, T("v0."), U(w->version_minor),
                       T(w->version_major == VR_LM_NEWEST ? ".0-dev" : ".0"));
    return vr_text(a, T("b"), U(w->version_major));
}

static vram_status lacks(const vram_workload *w, vr_setting s)
{
    vr_str rest = vr_str_of(vr_setting_option(w->engine, s)->flags), name;
    (void)vr_str_split(&rest, ' ', &name);
    const char *text = vr_llamacpp_version_text(w, &w->ctx->arena);
    return text == NULL
               ? VRAM_ENOMEM
               : vr_fail(w->ctx, VRAM_ESETTING, T("llama.cpp "), T(text), T(" has no "), S(name), T(" yet"));
}

vram_status vr_llamacpp_check_build(const vram_workload *w, const vr_lm_rules *r)
{
    const struct {
        vr_setting setting;
        uint32_t has;
    } rows[] = {
        { VR_SET_UBATCH, r->ubatch },       { VR_SET_FLASH, r->flash },
        { VR_SET_SWA_FULL, r->swa_full },   { VR_SET_KV_UNIFIED, r->kv_unified },
        { VR_SET_OVERRIDE, r->overrides },  { VR_SET_CPU_MOE, r->cpu_moe },
        { VR_SET_N_CPU_MOE, r->n_cpu_moe }, { VR_SET_NO_OP_OFFLOAD, r->op_offload },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].has == 0 && w->set_by[rows[i].setting] == VR_BY_USER)
            return lacks(w, rows[i].setting);
    }
    return VRAM_OK;
}
