/* SPDX-License-Identifier: MIT
 * Settings of the transformers engine. */
#include "engine/options.h"
#include "engine/pass.h"

#define MOST_IMAGES 65536

static const vr_word attention_words[] = {
    { "sdpa", VR_IMPL_SDPA },
    { "eager", VR_IMPL_EAGER },
    { "flash", VR_IMPL_FLASH },
    { "flash_attention_2", VR_IMPL_FLASH },
    { "flash_attention_3", VR_IMPL_FLASH },
    { NULL, 0 },
};
static const vr_word logits_words[] = { { "last", VR_LOGITS_LAST }, { "all", VR_LOGITS_ALL }, { NULL, 0 } };
static const vr_word map_words[] = {
    { "none", VR_MAP_NONE },
    { "auto", VR_MAP_AUTO },
    { "balanced", VR_MAP_BALANCED },
    { "balanced_low_0", VR_MAP_BALANCED_LOW_0 },
    { "sequential", VR_MAP_SEQUENTIAL },
    { "cuda", VR_MAP_CUDA },
    { NULL, 0 },
};
static const vr_word cache_words[] = {
    { "dynamic", VR_CACHE_DYNAMIC },     { "static", VR_CACHE_STATIC },
    { "offloaded", VR_CACHE_OFFLOADED }, { "offloaded_static", VR_CACHE_OFFLOADED_STATIC },
    { "quantized", VR_CACHE_QUANTIZED }, { NULL, 0 },
};
static const vr_word experts_words[] = {
    { "grouped_mm", VR_EXPERTS_GROUPED },
    { "eager", VR_EXPERTS_EAGER },
    { "batched_mm", VR_EXPERTS_BATCHED },
    { NULL, 0 },
};
static const vr_word load_words[] = { { "even", VR_LOAD_EVEN }, { "same", VR_LOAD_SAME }, { NULL, 0 } };
static const vr_word backend_words[] = { { "quanto", VR_BACKEND_QUANTO },
                                         { "fp8", VR_BACKEND_FP8 },
                                         { NULL, 0 } };
static const vr_word quant_words[] = {
    { "none", VR_QUANT_NONE },
    { "bnb-8bit", VR_QUANT_BNB_8BIT },
    { "bnb-4bit", VR_QUANT_BNB_4BIT },
    { "bnb-4bit-dq", VR_QUANT_BNB_4BIT_DQ },
    { "dequantize", VR_QUANT_DEQUANTIZE },
    { NULL, 0 },
};

VR_OPTION_COUNT(prefill_batch, prefill_batch)

VR_OPTION_COUNT(decode, decode)

VR_OPTION_COUNT(images, images)

/* "1024x768" */
static vram_status set_image_size(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_str rest = value, before;
    uint64_t width, height;
    bool split = vr_str_split(&rest, 'x', &before);
    if (!split || !vr_parse_u64(before, &width) || !vr_parse_u64(rest, &height) || width == 0 || height == 0)
        return vr_option_refuse(w, o, value, "must be width and height in pixels, such as 1024x768");
    if (width > VR_MOST_PIXELS || height > VR_MOST_PIXELS)
        return vr_option_refuse(w, o, value, "is too large");
    w->image_width = width;
    w->image_height = height;
    return VRAM_OK;
}

static const char *show_image_size(const vram_workload *w, vr_arena *a)
{
    return w->image_width != 0 ? vr_text(a, U(w->image_width), T("x"), U(w->image_height)) : "";
}

VR_OPTION_WORDS(attention, attention_words, attention)
VR_OPTION_WORDS(logits, logits_words, logits)
VR_OPTION_WORDS(device_map, map_words, device_map)
VR_OPTION_WORDS(cache, cache_words, cache)
VR_OPTION_WORDS(quantization, quant_words, weight_quant)

VR_OPTION(beams, vr_option_count(w, o, value, &w->beams), vr_text(a, U(vr_beams(w))))

VR_OPTION_WORDS(experts, experts_words, experts)

VR_OPTION_WORDS(expert_load, load_words, expert_load)

/* What only a quantised cache has. */
#define OF_QUANTIZED(name, field)                                                                            \
    VR_OPTION(name, vr_option_count(w, o, value, &w->field),                                                 \
              w->cache == VR_CACHE_QUANTIZED && w->field != 0 ? vr_text(a, U(w->field)) : "")
OF_QUANTIZED(cache_bits, cache_bits)
OF_QUANTIZED(cache_group, cache_group)
OF_QUANTIZED(cache_residual, cache_residual)
VR_OPTION(cache_backend, vr_option_word(w, o, value, backend_words, &w->cache_backend),
          w->cache == VR_CACHE_QUANTIZED ? vr_option_word_text(backend_words, w->cache_backend) : "")

static vram_status set_drafts(vram_workload *w, const vram_option *o, vr_str value)
{
    return vr_option_count(w, o, value, &w->lookup);
}

static const char *show_drafts(const vram_workload *w, vr_arena *a)
{
    return vr_text(a, U(w->lookup));
}

static vram_status set_assistant(vram_workload *w, const vram_option *o, vr_str value)
{
    (void)o;
    w->assistant_name = vr_arena_copy(&w->arena, value);
    return w->assistant_name == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static const char *show_assistant(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->assistant_name != NULL ? w->assistant_name : "";
}

VR_OPTION(assistant_tokens, vr_option_count(w, o, value, &w->assistant_tokens),
          w->assistant_name != NULL ? vr_text(a, U(w->assistant_tokens)) : "")

static vram_status set_alloc_conf(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_alloc_conf conf;
    (void)o;
    VR_TRY(vr_alloc_conf_parse(&conf, w->ctx, value));
    const char *text = vr_arena_copy(&w->arena, value);
    if (text == NULL)
        return VRAM_ENOMEM;
    w->alloc = conf;
    w->alloc_text = text;
    return VRAM_OK;
}

static const char *show_alloc_conf(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->alloc_text != NULL ? w->alloc_text : "";
}

static const vr_option_row own[] = {
    { { "prefill_batch", "--prefill-batch", VRAM_OPT_COUNT, "N", NULL, "all sequences",
        "Sequences whose prompts are computed at once.", "fit", 1, VR_MOST_TOKENS },
      VR_SET_PREFILL_BATCH,
      set_prefill_batch,
      show_prefill_batch },
    { { "decode", "--decode", VRAM_OPT_COUNT, "TOKENS", NULL, "0; of speech what the decoder has room for",
        "Tokens that every sequence generates after its prompt.", "fit", 0, VR_MOST_TOKENS },
      VR_SET_DECODE,
      set_decode,
      show_decode },
    { { "images", "--images", VRAM_OPT_COUNT, "N", NULL, "0",
        "Pictures in the prompt of each sequence; their tokens are some of --context.", "fit", 0,
        MOST_IMAGES },
      VR_SET_IMAGES,
      set_images,
      show_images },
    { { "image_size", "--image-size", VRAM_OPT_STRING, "WxH", NULL,
        "the model's own where it is fixed, or 1024x1024",
        "Pixels of each picture, before the model's processor scales it.", "fit", 0, 0 },
      VR_SET_IMAGE_SIZE,
      set_image_size,
      show_image_size },
    { { "attention", "--attention --attn-implementation", VRAM_OPT_CHOICE, "KIND",
        "sdpa|eager|flash|flash_attention_2|flash_attention_3", "what the engine takes for the model",
        "How attention is computed.", "fit", 0, 0 },
      VR_SET_ATTENTION,
      set_attention,
      show_attention },
    { { "logits", "--logits", VRAM_OPT_CHOICE, "WHICH", "all|last", "last",
        "Positions whose logits are computed: generate() needs the last, a plain forward pass computes all.",
        "fit", 0, 0 },
      VR_SET_LOGITS,
      set_logits,
      show_logits },
    { { "device_map", "--device-map", VRAM_OPT_CHOICE, "MAP",
        "none|auto|balanced|balanced_low_0|sequential|cuda", "none",
        "How the weights reach the cards: none is .to(\"cuda\"), auto spreads them, cuda is all onto the "
        "first.",
        "fit", 0, 0 },
      VR_SET_DEVICE_MAP,
      set_device_map,
      show_device_map },
    { { "quantization", "--quantization", VRAM_OPT_CHOICE, "KIND",
        "none|bnb-8bit|bnb-4bit|bnb-4bit-dq|dequantize", "none",
        "Quantise the weights while loading (dq: the scales of 4 bits as well), or unpack what is stored "
        "quantised.",
        "fit", 0, 0 },
      VR_SET_WEIGHT_QUANT,
      set_quantization,
      show_quantization },
    { { "alloc_conf", "--alloc-conf", VRAM_OPT_STRING, "SETTINGS", NULL, NULL,
        "PyTorch's allocator settings, as in PYTORCH_ALLOC_CONF.", "fit", 0, 0 },
      VR_SET_ALLOC_CONF,
      set_alloc_conf,
      show_alloc_conf },
    { { "cache", "--cache --cache-implementation", VRAM_OPT_CHOICE, "KIND",
        "dynamic|static|offloaded|offloaded_static|quantized", "dynamic",
        "How keys and values are kept: growing with each token, in room for all tokens from the first on, in "
        "host memory but for the layers that run, or in few bits.",
        "fit", 0, 0 },
      VR_SET_CACHE,
      set_cache,
      show_cache },
    { { "beams", "--beams --num-beams", VRAM_OPT_COUNT, "N", NULL, "1",
        "Beams that generate() searches with: each sequence is computed and kept so often.", "fit", 1,
        65536 },
      VR_SET_BEAMS,
      set_beams,
      show_beams },
    { { "experts_implementation", "--experts-implementation", VRAM_OPT_CHOICE, "KIND",
        "grouped_mm|eager|batched_mm", "grouped_mm; of transformers before 5 eager",
        "How experts are run: all by one product, or one after the other in a loop.", "fit", 0, 0 },
      VR_SET_EXPERTS,
      set_experts,
      show_experts },
    { { "expert_load", "--expert-load", VRAM_OPT_CHOICE, "LOAD", "even|same", "even",
        "How tokens are spread over experts that run in a loop: evenly, or all to the same.", "fit", 0, 0 },
      VR_SET_EXPERT_LOAD,
      set_expert_load,
      show_expert_load },
    { { "cache_backend", "--cache-backend", VRAM_OPT_CHOICE, "NAME", "quanto|fp8", "quanto",
        "What packs the keys and values of --cache quantized.", "fit", 0, 0 },
      VR_SET_CACHE_BACKEND,
      set_cache_backend,
      show_cache_backend },
    { { "cache_bits", "--cache-bits --nbits", VRAM_OPT_COUNT, "N", NULL, "4",
        "Bits of each key and value of --cache quantized.", "fit", 1, 8 },
      VR_SET_CACHE_BITS,
      set_cache_bits,
      show_cache_bits },
    { { "cache_group_size", "--cache-group-size --q-group-size", VRAM_OPT_COUNT, "N", NULL, "64",
        "Keys or values of --cache quantized that share a scale.", "fit", 1, 65536 },
      VR_SET_CACHE_GROUP,
      set_cache_group,
      show_cache_group },
    { { "cache_residual_length", "--residual-length", VRAM_OPT_COUNT, "TOKENS", NULL, "128",
        "Generated tokens that --cache quantized keeps as they are before it packs them.", "fit", 2,
        VR_MOST_TOKENS },
      VR_SET_CACHE_RESIDUAL,
      set_cache_residual,
      show_cache_residual },
    { { "prompt_lookup_num_tokens", "--prompt-lookup --prompt-lookup-num-tokens", VRAM_OPT_COUNT, "N", NULL,
        "0", "Tokens that generate() looks up in the prompt and tries at each step beside the next one.",
        "fit", 0, 65536 },
      VR_SET_DRAFTS,
      set_drafts,
      show_drafts },
    { { "assistant_model", "--assistant --assistant-model", VRAM_OPT_STRING, "MODEL", NULL, NULL,
        "A smaller model on the same card that drafts tokens for this one.", "fit", 0, 0 },
      VR_SET_ASSISTANT,
      set_assistant,
      show_assistant },
    { { "num_assistant_tokens", "--num-assistant-tokens", VRAM_OPT_COUNT, "N", NULL, "20",
        "Tokens that --assistant drafts for each call of the model.", "fit", 1, 65536 },
      VR_SET_ASSISTANT_TOKENS,
      set_assistant_tokens,
      show_assistant_tokens },
};

const vr_option_row *const vr_transformers_options[] = {
    &own[0],
    &own[1],
    &own[9],
    &own[13],
    &own[14],
    &own[15],
    &own[16],
    &own[10],
    &own[17],
    &own[18],
    &own[19],
    &own[2],
    &own[3],
    &vr_row_dtype,
    &vr_row_kv_dtype,
    &own[4],
    &own[5],
    &own[6],
    &vr_row_host_memory,
    &own[7],
    &own[8],
    &own[11],
    &own[12],
};
_Static_assert(sizeof(vr_transformers_options) / sizeof(vr_transformers_options[0]) ==
                   VR_TRANSFORMERS_OPTIONS,
               "all rows are listed");
