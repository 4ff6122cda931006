/* SPDX-License-Identifier: MIT
 * What llama.cpp takes by itself of what was not typed: the context that the model was trained with, or of
 * some older builds a number of their own; and with --fit, which is on by default where a build has it, as
 * much of the context and as many layers as leave each card a margin.
 *
 * Source: llama.cpp b10470, common/fit.cpp, common/arg.cpp. */
#include "engine/llamacpp_beside.h"
#include "engine/options.h"
#include "llama/fit.h"

static const vr_word whens[] = { { "off", 0 }, { "on", 1 }, { NULL, 0 } };

VR_OPTION_WORDS(fit, whens, fit)

const vr_option_row vr_row_fit = {
    { "fit", "--fit", VRAM_OPT_CHOICE, "WHEN", "on|off", NULL,
      "llama.cpp: the context and layers that it takes by itself where they are not given: on, as much as "
      "leaves 1 GiB of each card free; off, all. Of a pasted command that says nothing else: on.",
      "fit", 0, 0 },
    VR_SET_FIT,
    set_fit,
    show_fit,
};

static void give(vram_workload *to, vr_setting s, uint64_t *field, uint64_t value)
{
    *field = value;
    to->set_by[s] = VR_BY_USER;
}

/* Of each sequence, as this command counts it. */
static void give_context(vram_workload *to, const vram_workload *w, uint64_t tokens)
{
    if (vr_is_open(w, VR_SET_CONTEXT))
        give(to, VR_SET_CONTEXT, &to->context,
             w->slots || w->sequences == 0 ? tokens : tokens / w->sequences);
}

static vram_status give_shares(vram_workload *to, const vr_lm_params *p, size_t n, vr_arena *a)
{
    const char *list = "";
    for (size_t i = 0; i < n && list != NULL; i++)
        list = vr_text(a, T(list), T(i > 0 ? "," : ""), U((uint64_t)p->tensor_split[i]));
    to->shares_text = list;
    to->set_by[VR_SET_TENSOR_SPLIT] = VR_BY_USER;
    return list == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status give_overrides(vram_workload *to, const vr_lm_params *p, vr_arena *a)
{
    const char *list = "";
    for (size_t i = 0; i < p->n_overrides && list != NULL; i++) {
        const vr_lm_override *o = &p->overrides[i];
        bool host = o->device == VR_LM_HOST;
        list = vr_text(a, T(list), T(i > 0 ? "," : ""), T(o->pattern), T(host ? "=CPU" : "=CUDA"),
                       host ? T("") : U(o->device));
    }
    to->override_text = list;
    to->set_by[VR_SET_OVERRIDE] = VR_BY_USER;
    return list == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status give_fitted(vram_workload *to, const vram_workload *w, const vr_lm *lm,
                               const vr_lm_fitted *f, size_t n, vr_arena *a)
{
    const vr_lm_params *p = &f->params;
    give_context(to, w, p->n_ctx != 0 ? p->n_ctx : lm->n_ctx_train);
    if (!f->changed || p->n_gpu_layers == UINT64_MAX)
        return VRAM_OK;
    give(to, VR_SET_GPU_LAYERS, &to->gpu_layers, p->n_gpu_layers);
    if (n > 1)
        VR_TRY(give_shares(to, p, n, a));
    return p->n_overrides != 0 ? give_overrides(to, p, a) : VRAM_OK;
}

/* What --fit did about it; f NULL: it is off, or the build has none. */
static const char *fit_words(const vr_lm_fitted *f, bool fits)
{
    if (f == NULL)
        return fits ? "--fit is off" : "this build has no --fit";
    if (f->left != NULL)
        return f->left;
    if (f->changed && f->params.n_gpu_layers != UINT64_MAX)
        return "--fit keeps 1 GiB of each card free where it can, and leaves the rest to the CPU; with --fit "
               "off this command says what else would do";
    return "--fit keeps 1 GiB of each card free where it can";
}

static vram_status say(const char **says, const vram_workload *to, const vram_workload *w,
                       const vr_lm_fitted *f, bool fits, vr_arena *a)
{
    bool context = vr_is_open(w, VR_SET_CONTEXT), unsaid = vr_is_open(w, VR_SET_N_CTX);
    if (!context && (f == NULL || (!f->changed && f->left == NULL)))
        return VRAM_OK;
    *says = vr_text(a, T("llama.cpp"),
                    T(!context ? ""
                      : unsaid ? " without -c takes "
                               : " with -c 0 takes "),
                    context ? GROUPED(to->context) : T(""), T(context ? " tokens: " : ": "),
                    T(fit_words(f, fits)));
    return *says == NULL ? VRAM_ENOMEM : VRAM_OK;
}

vram_status vr_llamacpp_by_cards(vram_workload *to, const char **says, const vram_workload *w,
                                 const vram_model *m, const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    const vr_lm *lm;
    const char *why;
    vr_lm_device devices[VR_LM_MOST_DEVICES];
    uint64_t margins[VR_LM_MOST_DEVICES];
    vr_lm_params p;
    vr_lm_fitted f;
    vr_lm_rules r;
    bool unsaid = vr_is_open(w, VR_SET_N_CTX); /* else -c is 0, where the context is open */
    vr_lm_rules_of(&r, w->version_major);
    *says = NULL;
    if (vr_is_open(w, VR_SET_FIT) || !m->gguf || n > VR_LM_MOST_DEVICES)
        return VRAM_OK;
    VR_TRY(vr_llamacpp_model(&lm, &why, m, w, a));
    if (lm == NULL)
        return VRAM_OK;
    if (r.fits == 0 || !w->fit || (n == 1 && gpus[0].host)) { /* without a GPU there is nothing to fit to */
        give_context(to, w, unsaid && r.default_ctx != 0 ? r.default_ctx : lm->n_ctx_train);
        return say(says, to, w, NULL, r.fits != 0, a);
    }
    VR_TRY(vr_llamacpp_params(&p, w, a));
    if (vr_is_open(w, VR_SET_CONTEXT))
        p.n_ctx = 0;
    vr_llamacpp_devices(devices, gpus, n);
    for (size_t i = 0; i < n; i++)
        margins[i] = VR_LM_FIT_MARGIN;
    VR_TRY(vr_llamacpp_beside_margins(margins, lm, &p, w, devices, n, a));
    VR_TRY(vr_lm_fit(&f, lm, &p, devices, n, margins, VR_LM_FIT_CONTEXT, a));
    if (f.unknown != NULL) {
        *says = vr_text(a, T("llama.cpp: what --fit does is not known here; "), GROUPED(w->context),
                        T(" tokens are counted (-c)"));
        return *says == NULL ? VRAM_ENOMEM : VRAM_OK;
    }
    VR_TRY(give_fitted(to, w, lm, &f, n, a));
    return say(says, to, w, &f, true, a);
}
