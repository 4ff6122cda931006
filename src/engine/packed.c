/* SPDX-License-Identifier: MIT
 * What becomes of weights that are stored quantised: kept as they are, unpacked to the load dtype because the
 * card (or the user) wants it so, or refused with an error before anything is loaded. Read in
 * quantizer_mxfp4.py, quantizer_finegrained_fp8.py and quantizer_nvfp4.py of
 * transformers 4.55, 4.56, 4.57, 5.0, 5.17 and 5.24. */
#include "engine/packed_run.h"

typedef struct packed_rule {
    const char *method;                              /* quant_method of config.json */
    unsigned major, minor, until_major, until_minor; /* from this version, up to but not including that one */
    unsigned capability; /* least compute capability, major x 10 + minor; 0: whatever it is */
    const char *error;   /* below it the engine stops; NULL: it unpacks */
} packed_rule;

#define NEVER 999, 0

static const packed_rule rules[] = {
    { "mxfp4", 4, 55, 4, 56, 90,
      "ValueError: MXFP4 quantized models is only supported on GPUs with compute capability >= 9.0 (e.g "
      "H100, or "
      "B100)" },
    { "mxfp4", 4, 56, NEVER, 75, NULL },
    { "fp8", 4, 0, 5, 0, 89,
      "ValueError: FP8 quantized models is only supported on GPUs with compute capability >= 8.9 (e.g "
      "4090/H100)" },
    { "fp8", 5, 0, NEVER, 89, NULL },
    { "nvfp4", 5, 17, NEVER, 999,
      "ValueError: Loading pre-quantized NVFP4 checkpoints is not supported yet." },
};

static bool before(unsigned major, unsigned minor, const vram_workload *w)
{
    return w->version_major < major || (w->version_major == major && w->version_minor < minor);
}

static bool is_method(const vram_model *m, const char *method)
{
    return m->packing.method != NULL && vr_str_is(vr_str_of(m->packing.method), method);
}

static const packed_rule *rule_of(const vram_model *m, const vram_workload *w)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const packed_rule *r = &rules[i];
        if (is_method(m, r->method) && !before(r->major, r->minor, w) &&
            before(r->until_major, r->until_minor, w))
            return r;
    }
    return NULL;
}

/* A card of unknown kind is taken as a new one. */
static bool too_old(const packed_rule *r, const vr_device_facts *d)
{
    return r->capability == 999 || (d->cc_major != 0 && d->cc_major * 10 + d->cc_minor < r->capability);
}

bool vr_can_unpack(const vram_model *m)
{
    return is_method(m, "mxfp4") || is_method(m, "fp8");
}

const char *vr_packed_refused(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    const packed_rule *r = rule_of(m, w);
    return r != NULL && r->error != NULL && too_old(r, d) ? r->error : NULL;
}

bool vr_unpacks(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    const packed_rule *r = rule_of(m, w);
    if (!vr_can_unpack(m))
        return false;
    return w->weight_quant == VR_QUANT_DEQUANTIZE || (r != NULL && r->error == NULL && too_old(r, d));
}

uint64_t vr_unpacked_bytes(const vram_model *m, const vram_workload *w, size_t tensor)
{
    if (m->packing.role[tensor] == VR_ROLE_SIDE)
        return 0;
    return vr_mul_sat(m->packing.parameters[tensor], vr_dtype_bits(w->dtype) / 8);
}

/* quantizers/auto.py, merge_quantization_configs */
static vram_status check_method(const vram_workload *w, const vram_model *m)
{
    const char *method = m->packing.method;
    bool other = m->quantised && method != NULL && !vr_str_starts(vr_str_of(method), "bitsandbytes");
    if (!other || !vr_quantises(w))
        return VRAM_OK;
    vram_status s =
        vr_fail(w->ctx, VRAM_ESETTING,
                T("--quantization: the checkpoint is quantised already, and from_pretrained refuses "
                  "a second method: it is stored in "),
                T(m->packing.title));
    vr_hint(w->ctx, "leave --quantization out, or take a checkpoint in 16 bits");
    return s;
}

vram_status vr_check_unpacking(const vram_workload *w, const vram_model *m)
{
    VR_TRY(check_method(w, m));
    if (w->weight_quant != VR_QUANT_DEQUANTIZE || vr_can_unpack(m))
        return VRAM_OK;
    vram_status s =
        vr_fail(w->ctx, VRAM_ESETTING, T("--quantization dequantize: "),
                T(m->quantised ? m->packing.title != NULL ? m->packing.title : "what is stored here"
                               : "the checkpoint is not quantised"),
                T(m->quantised ? " is not unpacked by transformers" : ""));
    vr_hint(w->ctx, "MXFP4 and FP8 are what it unpacks");
    return s;
}

/* ---- in words ---- */

static uint64_t all_unpacked(const vram_model *m, const vram_workload *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->checkpoint->n_tensors; i++) {
        const vr_tensor *t = &m->checkpoint->tensors[i];
        bool packed = m->packing.role[i] != VR_ROLE_PLAIN;
        sum = vr_add_sat(sum, packed ? vr_unpacked_bytes(m, w, i) : t->end - t->begin);
    }
    return sum;
}

static const char *capability_words(unsigned capability, vr_arena *a)
{
    return vr_text(a, U(capability / 10), T("."), U(capability % 10));
}

const char *vr_packed_notice(const vram_model *m, const vram_workload *w, const vr_device_facts *d,
                             vr_arena *a)
{
    const packed_rule *r = rule_of(m, w);
    const char *title = m->packing.title;
    if (vr_runs_unpacked(m) && m->checkpoint->n_tensors != 0)
        return vr_text(a, T(title), T(" is unpacked to 16 bits before the first pass: "),
                       BYTES(all_unpacked(m, w)), T(" instead of "), BYTES(m->checkpoint->tensor_bytes));
    if (!vr_can_unpack(m) || r == NULL || m->packing.role == NULL || m->checkpoint->n_tensors == 0)
        return "";
    uint64_t whole = all_unpacked(m, w), stored = m->checkpoint->tensor_bytes;
    if (vr_unpacks(m, w, d) && w->weight_quant != VR_QUANT_DEQUANTIZE) {
        const char *need = capability_words(r->capability, a);
        return need == NULL ? NULL
                            : vr_text(a, T(title), T(" needs compute capability "), T(need),
                                      T(": on this card the weights are unpacked to 16 bits, "), BYTES(whole),
                                      T(" instead of "), BYTES(stored));
    }
    if (w->weight_quant == VR_QUANT_DEQUANTIZE || !is_method(m, "mxfp4"))
        return "";
    return vr_text(a, T(title),
                   T(" stays packed with the kernels package and Triton 3.4 (pip install kernels); "),
                   T("without them it is unpacked to "), BYTES(whole), T(": --quantization dequantize"));
}
