/* SPDX-License-Identifier: MIT
 * The parts that every module of a pass uses: storages with their labels, and what a matrix product takes.
 *
 * cuBLAS inside PyTorch works in a workspace from the caching allocator, taken at the first matrix product
 * and kept: twice 4 MiB and eight times 16 KiB (":4096:2:16:8"), 32 MiB on Hopper; cublasLt, which runs
 * products with a bias, in 1 MiB of its own (ATen/cuda/CublasHandlePool.cpp; ATen/native/cuda/Blas.cpp: the
 * result is allocated first). */
#include <string.h>

#include "engine/caches.h"
#include "engine/packed_run.h"

#define WORKSPACE_SMALL (UINT64_C(2) * 4096 * VR_KIB + UINT64_C(8) * 16 * VR_KIB)
#define WORKSPACE_LARGE (32 * VR_MIB)
#define WORKSPACE_LT VR_MIB

static const char *const slot_names[] = {
#define X(id, name) name,
    VR_STEPS(X)
#undef X
};

static const char *const place_names[] = {
#define X(id, name) name,
    VR_PLACES(X)
#undef X
};

vram_status vr_pass_open(vr_pass *p)
{
    p->labels = VR_ARRAY(p->arena, uint32_t, (size_t)(p->m->n_layers + p->m->n_encoder) * VR_STEP_COUNT);
    if (p->placement != NULL && p->placement->layers_off != 0) {
        p->brought = VR_ARRAY(p->arena, uint32_t, (size_t)(p->m->n_layers + p->m->n_encoder) * VR_STEP_COUNT);
        if (p->brought == NULL)
            return VRAM_ENOMEM;
    }
    VR_TRY(vr_packed_open(p));
    p->workspace = p->lt_workspace = VR_NONE;
    p->side = VR_NONE;
    for (size_t i = 0; i < sizeof p->beside / sizeof *p->beside; i++)
        p->beside[i] = VR_NONE;
    p->full_mask = p->sliding_mask = p->router_output = p->chosen = p->chosen_now = VR_NONE;
    return p->labels == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Of an encoder and a decoder the layers are numbered in one row, the decoder's first. */
static const char *layer_path(const vram_model *m, uint64_t *layer)
{
    if (m->structure == VR_ENCODER)
        return "encoder.layer.";
    if (m->structure == VR_DECODER)
        return "model.layers.";
    bool hears = m->source_positions != 0;
    if (*layer < m->n_layers)
        return hears ? "model.decoder.layers." : "decoder.block.";
    *layer -= m->n_layers;
    return hears ? "model.encoder.layers." : "encoder.block.";
}

vr_str vr_step_module(vr_step step)
{
    vr_str rest = vr_str_of(slot_names[step]), word;
    (void)vr_str_split(&rest, ' ', &word);
    size_t at = word.n;
    while (at > 0 && word.s[at] != '.')
        at--;
    return (vr_str){ word.s + at, word.n - at };
}

/* "model.layers.17.self_attn.q_proj output", made at its first use */
uint32_t vr_pass_label(vr_pass *p, vr_step step)
{
    if (p->elsewhere)
        return 0;
    if (p->seen_label != 0)
        return p->seen_label;
    uint32_t *label = &p->labels[p->layer * VR_STEP_COUNT + step];
    if (*label == 0) {
        uint64_t layer = p->layer;
        const char *path = layer_path(p->m, &layer);
        const char *prefix = p->prefix != NULL ? p->prefix : "";
        const char *text = vr_text(p->arena, T(prefix), T(path), U(layer), T("."), T(slot_names[step]));
        if (text == NULL)
            p->tape->status = VRAM_ENOMEM;
        *label = vr_tape_label(p->tape, vr_str_of(text));
    }
    return *label;
}

uint32_t vr_place_label(vr_pass *p, vr_place place)
{
    if (p->places[place] == 0)
        p->places[place] = vr_tape_label(p->tape, vr_str_of(place_names[place]));
    return p->places[place];
}

vr_block vr_take_labelled(vr_pass *p, uint64_t bytes, vr_item item, uint32_t label)
{
    if (p->seen_label != 0 && vr_item_category(item) == VR_ACTIVATIONS)
        item = VR_ITEM_VISION;
    return p->elsewhere ? VR_ELSEWHERE : vr_tape_alloc(p->tape, bytes, item, label);
}

vr_block vr_take(vr_pass *p, uint64_t bytes, vr_item item, vr_step step)
{
    return p->elsewhere ? VR_ELSEWHERE : vr_take_labelled(p, bytes, item, vr_pass_label(p, step));
}

vr_block vr_take_at(vr_pass *p, uint64_t bytes, vr_item item, vr_place place)
{
    return p->elsewhere ? VR_ELSEWHERE : vr_take_labelled(p, bytes, item, vr_place_label(p, place));
}

void vr_drop(vr_pass *p, vr_block block)
{
    if (block != VR_NONE && block != VR_ELSEWHERE)
        vr_tape_release(p->tape, block);
}

void vr_drop_all(vr_pass *p, const vr_block *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vr_drop(p, list[i]);
}

void vr_replace(vr_pass *p, vr_block *x, vr_block next)
{
    vr_drop(p, *x);
    *x = next;
}

/* ---- several memories ---- */

uint16_t vr_pass_gpu(const vr_pass *p, uint16_t device)
{
    return p->placement == NULL || device >= VR_ON_HOST ? 0 : device;
}

void vr_pass_on(vr_pass *p, uint16_t device)
{
    p->elsewhere = p->placement != NULL && vr_pass_gpu(p, device) != p->device->rank;
    p->brings = p->placement != NULL && device >= VR_ON_HOST;
}

/* "model.layers.54.mlp.up_proj weight, brought to the card" */
static uint32_t brought_label(vr_pass *p, vr_step step)
{
    static const char output[] = " output";
    uint32_t *label = &p->brought[p->layer * VR_STEP_COUNT + step];
    vr_str name = vr_str_of(slot_names[step]);
    if (*label != 0)
        return *label;
    if (vr_str_ends(name, output))
        name.n -= sizeof output - 1;
    uint64_t layer = p->layer;
    const char *path = layer_path(p->m, &layer);
    const char *text =
        vr_text(p->arena, T(path), U(layer), T("."), S(name), T(" weight, brought to the card"));
    if (text == NULL)
        p->tape->status = VRAM_ENOMEM;
    *label = vr_tape_label(p->tape, vr_str_of(text));
    return *label;
}

vr_block vr_bring(vr_pass *p, uint64_t bytes, vr_step step)
{
    if (!p->brings || p->elsewhere || bytes == 0)
        return VR_NONE;
    return vr_take_labelled(p, bytes, VR_ITEM_PARAMETERS, brought_label(p, step));
}

vr_block vr_bring_at(vr_pass *p, uint64_t bytes, vr_place place)
{
    if (!p->brings || p->elsewhere || bytes == 0)
        return VR_NONE;
    return vr_take_at(p, bytes, VR_ITEM_PARAMETERS, place);
}

/* ---- matrix products ---- */

static uint64_t workspace_bytes(const vr_pass *p)
{
    unsigned major = p->device->cc_major;
    bool blackwell = major == 10 || major == 12;
    return major == 9 || (blackwell && p->torch->blackwell_large) ? WORKSPACE_LARGE : WORKSPACE_SMALL;
}

static void workspace_by_call(vr_pass *p, bool biased)
{
    vr_place place = biased ? VR_PLACE_LT_WORKSPACE : VR_PLACE_WORKSPACE;
    vr_drop(p, vr_take_at(p, biased ? WORKSPACE_LT : workspace_bytes(p), VR_ITEM_WORKSPACES, place));
}

static void lt_workspace(vr_pass *p)
{
    if (p->torch->unified || p->lt_workspace != VR_NONE)
        return;
    vr_block b = vr_take_at(p, WORKSPACE_LT, VR_ITEM_WORKSPACES, VR_PLACE_LT_WORKSPACE);
    if (p->torch->lt_stays)
        p->lt_workspace = b;
    else
        vr_drop(p, b);
}

void vr_gemm(vr_pass *p, bool biased)
{
    if (p->elsewhere)
        return;
    if (!p->has_kernels)
        vr_tape_outside(p->tape, VR_ITEM_KERNELS, 0); /* modules are loaded lazily; the device's figure */
    p->has_kernels = true;
    if (p->torch->by_call) {
        workspace_by_call(p, biased);
        return;
    }
    if (p->workspace == VR_NONE)
        p->workspace = vr_take_at(p, workspace_bytes(p), VR_ITEM_WORKSPACES, VR_PLACE_WORKSPACE);
    if (biased)
        lt_workspace(p);
}

/* bitsandbytes (memory figures of its functional.py and autograd/_functions.py): 4 bits and more than one
 * token: the whole weight in 16 bits for the time of the product; 8 bits: the input in 8 bits, sums in 32. */
static vr_block quantised_linear(vr_pass *p, uint64_t in, uint64_t out, vr_item item, vr_step step)
{
    vr_block extra = VR_NONE, sums = VR_NONE;
    if (p->w->weight_quant == VR_QUANT_BNB_8BIT) {
        extra = vr_take(p, p->rows * in, VR_ITEM_HIDDEN, step);
        sums = vr_take(p, p->rows * out * 4, VR_ITEM_HIDDEN, step);
    } else if (p->rows > 1) {
        extra = vr_take_at(p, in * out * 2, VR_ITEM_HIDDEN, VR_PLACE_DEQUANTISED);
    }
    vr_block result = vr_take(p, p->rows * out * p->width, item, step);
    vr_gemm(p, false);
    vr_drop(p, sums);
    vr_drop(p, extra);
    return result;
}

vr_block vr_linear(vr_pass *p, uint64_t in, uint64_t out, bool biased, vr_item item, vr_step step)
{
    if (vr_quantises(p->w))
        return quantised_linear(p, in, out, item, step);
    if (vr_is_packed(p, in, out, step))
        return vr_packed_linear(p, p->rows, in, out, biased, item, step);
    vr_block weight = vr_bring(p, in * out * p->width, step);
    vr_block bias = vr_bring(p, biased ? out * p->width : 0, step);
    vr_block result = vr_take(p, p->rows * out * p->width, item, step);
    vr_gemm(p, biased);
    vr_drop(p, weight);
    vr_drop(p, bias);
    return result;
}

/* ---- lengths ---- */

const vr_layer *vr_layer_of(const vr_pass *p)
{
    const vram_model *m = p->m;
    return p->layer < m->n_layers ? &m->layers[p->layer] : &m->encoder[p->layer - m->n_layers];
}

uint64_t vr_window(const vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    return vr_has_window(l) ? l->window : 0;
}

bool vr_has_window(const vr_layer *l)
{
    return l->attention == VR_ATTENTION_SLIDING || l->attention == VR_ATTENTION_CHUNKED;
}

/* cache_utils.py, get_mask_sizes: a sliding layer holds the last window - 1 tokens; early caches know no such
 * layers. */
uint64_t vr_kv_length(const vr_pass *p, uint64_t window)
{
    uint64_t past = p->group->past;
    if (vr_cache_fixed(p->w))
        return vr_static_length(p, window);
    if (window != 0 && !p->rules->appends && past > window - 1)
        past = window - 1;
    return past + p->q + p->skipped;
}
