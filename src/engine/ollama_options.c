/* SPDX-License-Identifier: MIT
 * Settings of Ollama: parameters of a Modelfile (num_ctx, num_gpu, num_batch) and variables of its
 * environment.
 *
 * Source: Ollama v0.32.15, api/types.go (Runner), envconfig/config.go. */
#include "engine/ollama.h"
#include "engine/options.h"

static const char *show_layers(const vram_workload *w, vr_arena *a)
{
    return w->gpu_layers == VR_ALL_LAYERS ? "auto" : vr_text(a, U(w->gpu_layers));
}

/* Keys and values alike */
static vram_status set_type(vram_workload *w, const vram_option *o, vr_str value)
{
    VR_TRY(vr_option_word(w, o, value, vr_llamacpp_types, &w->cache_k));
    w->cache_v = w->cache_k;
    return VRAM_OK;
}

static const char *show_type(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return vr_option_word_text(vr_llamacpp_types, w->cache_k);
}

static vram_status set_overhead(vram_workload *w, const vram_option *o, vr_str value)
{
    if (!vr_parse_bytes(value, &w->gpu_overhead))
        return vr_option_refuse(w, o, value, "must be a size, such as 512MiB");
    w->overhead_text = vr_arena_copy(&w->ctx->arena, value);
    return w->overhead_text == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static const char *show_overhead(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->overhead_text != NULL ? w->overhead_text : "0";
}

VR_OPTION_WORDS(flash, vr_llamacpp_flashes, flash)

VR_OPTION_COUNT(batch, ubatch)

VR_OPTION_FLAG(spread, sched_spread)

#define TYPES "f16|q8_0|q4_0|f32|bf16|q4_1|q5_0|q5_1|iq4_nl"

static const vr_option_row rows[] = {
    { { "n_gpu_layers", "--num-gpu", VRAM_OPT_STRING, "N", NULL, "auto",
        "ollama: num_gpu, layers on the GPU.", "fit", 0, VR_MOST_TOKENS },
      VR_SET_GPU_LAYERS,
      vr_llamacpp_set_layers,
      show_layers },
    { { "ubatch_size", "--num-batch", VRAM_OPT_COUNT, "TOKENS", NULL, "512, or more where there is room",
        "ollama: num_batch, tokens computed at once.", "fit", 1, VR_MOST_TOKENS },
      VR_SET_UBATCH,
      set_batch,
      show_batch },
    { { "flash_attn", "--flash-attn", VRAM_OPT_CHOICE, "WHEN", "auto|on|off", "auto",
        "ollama: OLLAMA_FLASH_ATTENTION.", "fit", 0, 0 },
      VR_SET_FLASH,
      set_flash,
      show_flash },
    { { "kv_cache_type", "--kv-cache-type", VRAM_OPT_CHOICE, "TYPE", TYPES, "f16",
        "ollama: OLLAMA_KV_CACHE_TYPE, what keys and values are kept as.", "fit", 0, 0 },
      VR_SET_KV_CACHE_TYPE,
      set_type,
      show_type },
    { { "gpu_overhead", "--gpu-overhead", VRAM_OPT_BYTES, "BYTES", NULL, "0",
        "ollama before 0.30: OLLAMA_GPU_OVERHEAD, what of each GPU it leaves alone.", "fit", 0, 0 },
      VR_SET_GPU_OVERHEAD,
      set_overhead,
      show_overhead },
    { { "sched_spread", "--sched-spread", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "ollama: OLLAMA_SCHED_SPREAD, all GPUs share a model that one has room for.", "fit", 0, 0 },
      VR_SET_SCHED_SPREAD,
      set_spread,
      show_spread },
};

const vr_option_row *const vr_ollama_options[VR_OLLAMA_N_OPTIONS] = {
    &rows[0], &rows[1], &rows[2], &rows[3], &rows[4], &rows[5], &vr_row_host_memory,
};
