/* SPDX-License-Identifier: MIT
 * Settings of llama.cpp by its own names.
 *
 * Source: llama.cpp b10470, common/arg.cpp. */
#include "engine/llamacpp_beside.h"
#include "engine/options.h"
#include "llama/pattern.h"

const vr_word vr_llamacpp_types[] = {
    { "f16", VR_F16 },   { "f32", VR_F32 },   { "bf16", VR_BF16 }, { "q8_0", VR_Q8_0 },
    { "q4_0", VR_Q4_0 }, { "q4_1", VR_Q4_1 }, { "q5_0", VR_Q5_0 }, { "iq4_nl", VR_IQ4_NL },
    { "q5_1", VR_Q5_1 }, { NULL, 0 },
};
const vr_word vr_llamacpp_flashes[] = {
    { "auto", VR_FLASH_AUTO }, { "on", VR_FLASH_ON }, { "1", VR_FLASH_ON },
    { "off", VR_FLASH_OFF },   { "0", VR_FLASH_OFF }, { NULL, 0 },
};
static const vr_word modes[] = {
    { "layer", VR_LM_SPLIT_LAYER },
    { "row", VR_LM_SPLIT_ROW },
    { "none", VR_LM_SPLIT_NONE },
    { "tensor", VR_LM_SPLIT_TENSOR },
    { NULL, 0 },
};
static const vr_word tools[] = {
    { "server", VR_LM_SERVER },         { "cli", VR_LM_CLI }, { "bench", VR_LM_BENCH },
    { "fit-params", VR_LM_FIT_PARAMS }, { NULL, 0 },
};

static const vr_word pools[] = {
    { "file", VR_LM_POOL_FILE },
    { "none", VR_LM_POOL_NONE },
    { "mean", VR_LM_POOL_MEAN },
    { "cls", VR_LM_POOL_CLS },
    { "last", VR_LM_POOL_LAST },
    { "rank", VR_LM_POOL_RANK },
    { NULL, 0 },
};

vram_status vr_llamacpp_set_layers(vram_workload *w, const vram_option *o, vr_str value)
{
    if (vr_str_is(value, "all") || vr_str_is(value, "auto") || vr_str_is(value, "-1")) {
        w->gpu_layers = VR_ALL_LAYERS;
        return VRAM_OK;
    }
    return vr_option_count(w, o, value, &w->gpu_layers);
}

static const char *show_layers(const vram_workload *w, vr_arena *a)
{
    return w->gpu_layers == VR_ALL_LAYERS ? "all" : vr_text(a, U(w->gpu_layers));
}

/* "3,1" or "3/1": as many as there are GPUs, or fewer. */
static vram_status set_shares(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_str rest = value, word;
    uint64_t n, scale;
    size_t count = 0;
    bool slash = vr_str_find(value, "/", NULL), any = false;
    while (vr_str_split(&rest, slash ? '/' : ',', &word)) {
        if (!vr_parse_decimal(word, &n, &scale) || ++count > VR_MOST_GPUS)
            return vr_option_refuse(w, o, value, "must be a share for each GPU, such as 3,1");
        any = any || n != 0;
    }
    if (!any)
        return vr_option_refuse(w, o, value, "must be a share for each GPU, such as 3,1");
    w->shares_text = vr_arena_copy(&w->ctx->arena, value);
    return w->shares_text == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static const char *show_shares(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->shares_text != NULL ? w->shares_text : "";
}

/* "CPU", "CUDA1" */
static bool is_buffer(vr_str name)
{
    uint64_t n = 0;
    if (vr_str_is(name, "CPU"))
        return true;
    return vr_str_starts(name, "CUDA") && vr_parse_u64((vr_str){ name.s + 4, name.n - 4 }, &n) &&
           n < VR_MOST_GPUS;
}

static vram_status check_override(vram_workload *w, const vram_option *o, vr_str word)
{
    const struct vr_pattern *p = NULL;
    const char *why = NULL;
    vr_str rest = word, pattern;
    if (!vr_str_split(&rest, '=', &pattern) || rest.s == NULL || !is_buffer(rest))
        return vr_option_refuse(w, o, word, "must be PATTERN=BUFFER with the buffer CPU, CUDA0, CUDA1, ...");
    const char *text = vr_arena_copy(&w->ctx->arena, pattern);
    if (text == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_lm_pattern(&p, &why, text, &w->ctx->arena));
    return p == NULL ? vr_option_refuse(w, o, word, why) : VRAM_OK;
}

/* Given again it adds to what was given. */
static vram_status set_override(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_str rest = value, word;
    bool again = w->override_text != NULL;
    while (vr_str_split(&rest, ',', &word))
        VR_TRY(check_override(w, o, word));
    w->override_text =
        vr_text(&w->ctx->arena, T(again ? w->override_text : ""), T(again ? "," : ""), S(value));
    return w->override_text == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static const char *show_override(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->override_text != NULL ? w->override_text : "";
}

VR_OPTION_WORDS(k, vr_llamacpp_types, cache_k)

VR_OPTION_WORDS(v, vr_llamacpp_types, cache_v)

VR_OPTION_WORDS(flash, vr_llamacpp_flashes, flash)

VR_OPTION_WORDS(mode, modes, split_mode)

VR_OPTION_WORDS(tool, tools, tool)

VR_OPTION_WORDS(pooling, pools, pooling)

VR_OPTION_COUNT(n_ctx, n_ctx)

VR_OPTION_COUNT(batch, batch)

VR_OPTION_COUNT(ubatch, ubatch)

VR_OPTION_COUNT(main_gpu, main_gpu)

VR_OPTION_COUNT(n_cpu_moe, n_cpu_moe)

VR_OPTION_FLAG(swa_full, swa_full)
VR_OPTION_FLAG(kv_unified, kv_unified)
VR_OPTION_FLAG(no_kv_offload, no_kv_offload)
VR_OPTION_FLAG(cpu_moe, cpu_moe)
VR_OPTION_FLAG(no_op_offload, no_op_offload)
VR_OPTION_FLAG(embedding, embedding)

#define TYPES "f16|f32|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1"
#define FLAG(key, flags, help, setting, name)                                                                \
    {                                                                                                        \
        { key, flags, VRAM_OPT_FLAG, NULL, NULL, NULL, help, "fit", 0, 0 }, setting, set_##name, show_##name \
    }
#define COUNT(key, flags, value, most, otherwise, help, setting, name)                                       \
    {                                                                                                        \
        { key, flags, VRAM_OPT_COUNT, value, NULL, otherwise, help, "fit", 0, most }, setting, set_##name,   \
            show_##name                                                                                      \
    }
#define CHOICE(key, flags, value, words, otherwise, help, setting, name)                                     \
    {                                                                                                        \
        { key, flags, VRAM_OPT_CHOICE, value, words, otherwise, help, "fit", 0, 0 }, setting, set_##name,    \
            show_##name                                                                                      \
    }

static const vr_option_row rows[] = {
    { { "n_gpu_layers", "--n-gpu-layers --gpu-layers -ngl --num-gpu", VRAM_OPT_STRING, "N", NULL, "all",
        "llama.cpp: layers that lie on the card, from the last on; all or a number.", "fit", 0,
        VR_MOST_TOKENS },
      VR_SET_GPU_LAYERS,
      vr_llamacpp_set_layers,
      show_layers },
    CHOICE("cache_type_k", "--cache-type-k -ctk", "TYPE", TYPES, "f16", "llama.cpp: what keys are kept as.",
           VR_SET_CACHE_TYPE_K, k),
    CHOICE("cache_type_v", "--cache-type-v -ctv", "TYPE", TYPES, "f16", "llama.cpp: what values are kept as.",
           VR_SET_CACHE_TYPE_V, v),
    { { "ubatch_size", "--ubatch-size -ub --num-batch", VRAM_OPT_COUNT, "TOKENS", NULL, "512",
        "llama.cpp: tokens computed at once, for which sliding layers have room beside their window.", "fit",
        1, VR_MOST_TOKENS },
      VR_SET_UBATCH,
      set_ubatch,
      show_ubatch },
    FLAG("swa_full", "--swa-full", "llama.cpp: sliding layers keep every token.", VR_SET_SWA_FULL, swa_full),
    FLAG("kv_unified", "--kv-unified -kvu",
         "llama.cpp: one cache for all sequences; the server's own choice where no sequences are given.",
         VR_SET_KV_UNIFIED, kv_unified),
    FLAG("no_kv_offload", "--no-kv-offload -nkvo", "llama.cpp: the caches stay in host memory.",
         VR_SET_NO_KV_OFFLOAD, no_kv_offload),
    CHOICE("tool", "--tool", "TOOL", "server|cli|bench|fit-params", "server",
           "llama.cpp: the program that runs it: the server computes logits of as many tokens as it has "
           "sequences, the others of a whole batch; fit-params only measures, which on several cards is a "
           "little more than a run takes.",
           VR_SET_TOOL, tool),
    COUNT("n_ctx", "--n-ctx", "TOKENS", VR_MOST_TOKENS, "the context of each sequence times the sequences",
          "llama.cpp: tokens of all sequences together, which is what its own -c says.", VR_SET_N_CTX, n_ctx),
    { { "batch_size", "--batch-size -b", VRAM_OPT_COUNT, "TOKENS", NULL, "2048",
        "llama.cpp: tokens given at once, of which --ubatch-size are computed at once.", "fit", 1,
        VR_MOST_TOKENS },
      VR_SET_BATCH,
      set_batch,
      show_batch },
    CHOICE("flash_attn", "--flash-attn -fa", "WHEN", "auto|on|off", "auto",
           "llama.cpp: flash attention; auto: wherever the card can.", VR_SET_FLASH, flash),
    CHOICE("split_mode", "--split-mode -sm", "MODE", "layer|row|none|tensor", "layer",
           "llama.cpp: how several cards share the model.", VR_SET_SPLIT_MODE, mode),
    { { "tensor_split", "--tensor-split -ts", VRAM_OPT_STRING, "SHARES", NULL, "by what is free",
        "llama.cpp: what each card gets of the layers: 3,1.", "fit", 0, 0 },
      VR_SET_TENSOR_SPLIT,
      set_shares,
      show_shares },
    COUNT("main_gpu", "--main-gpu -mg", "N", VR_MOST_GPUS - 1, "0",
          "llama.cpp: the card that has all with --split-mode none.", VR_SET_MAIN_GPU, main_gpu),
    { { "override_tensor", "--override-tensor -ot", VRAM_OPT_STRING, "PATTERN=BUFFER", NULL, NULL,
        "llama.cpp: tensors whose names match a regular expression lie in that buffer: exps=CPU.", "fit", 0,
        0 },
      VR_SET_OVERRIDE,
      set_override,
      show_override },
    FLAG("cpu_moe", "--cpu-moe -cmoe", "llama.cpp: all experts stay in host memory.", VR_SET_CPU_MOE,
         cpu_moe),
    COUNT("n_cpu_moe", "--n-cpu-moe -ncmoe", "N", VR_MOST_TOKENS, "0",
          "llama.cpp: the experts of the first N layers stay in host memory.", VR_SET_N_CPU_MOE, n_cpu_moe),
    FLAG("no_op_offload", "--no-op-offload",
         "llama.cpp: what lies in host memory is computed there, however many tokens.", VR_SET_NO_OP_OFFLOAD,
         no_op_offload),
    FLAG("embedding", "--embedding --embeddings", "llama.cpp: the server gives embeddings.", VR_SET_EMBEDDING,
         embedding),
    CHOICE("pooling", "--pooling", "KIND", "file|none|mean|cls|last|rank", "file",
           "llama.cpp: what an embedding is made of, of all tokens or one; file: as the file says.",
           VR_SET_POOLING, pooling),
};

const vr_option_row *const vr_llamacpp_options[VR_LLAMACPP_N_OPTIONS] = {
    &vr_row_host_memory,
    &vr_row_fit,
    &rows[0],
    &rows[1],
    &rows[2],
    &rows[3],
    &rows[4],
    &rows[5],
    &rows[6],
    &rows[7],
    &rows[8],
    &rows[9],
    &rows[10],
    &rows[11],
    &rows[12],
    &rows[13],
    &rows[14],
    &rows[15],
    &rows[16],
    &rows[17],
    &rows[18],
    &rows[19],
    &vr_llamacpp_beside_rows[0],
    &vr_llamacpp_beside_rows[1],
    &vr_llamacpp_beside_rows[2],
    &vr_llamacpp_beside_rows[3],
    &vr_llamacpp_beside_rows[4],
    &vr_llamacpp_beside_rows[5],
    &vr_llamacpp_beside_rows[6],
    &vr_llamacpp_beside_rows[7],
    &vr_llamacpp_beside_rows[8],
    &vr_llamacpp_beside_rows[9],
    &vr_llamacpp_beside_rows[10],
    &vr_llamacpp_beside_rows[11],
};

/* ---- to what llama.cpp is started with ---- */

static void read_shares(vr_lm_params *p, const vram_workload *w)
{
    vr_str rest = vr_str_of(w->shares_text), word;
    char by = vr_str_find(rest, "/", NULL) ? '/' : ',';
    uint64_t n, scale;
    for (size_t i = 0; w->shares_text != NULL && i < VR_LM_MOST_DEVICES && vr_str_split(&rest, by, &word);
         i++) {
        if (vr_parse_decimal(word, &n, &scale))
            p->tensor_split[i] = (double)n / (double)scale;
    }
}

static size_t count_of(vr_str text, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += text.s[i] == c;
    return n;
}

static vram_status read_overrides(vr_lm_params *p, const vram_workload *w, vr_arena *a)
{
    vr_str rest = vr_str_of(w->override_text), word, pattern;
    if (w->override_text == NULL)
        return VRAM_OK;
    vr_lm_override *list = VR_ARRAY(a, vr_lm_override, count_of(rest, ',') + 1);
    if (list == NULL)
        return VRAM_ENOMEM;
    p->overrides = list;
    while (vr_str_split(&rest, ',', &word)) {
        uint64_t device = VR_LM_HOST;
        if (!vr_str_split(&word, '=', &pattern) || word.s == NULL)
            continue;
        if (vr_str_starts(word, "CUDA"))
            (void)vr_parse_u64((vr_str){ word.s + 4, word.n - 4 }, &device);
        list[p->n_overrides].device = (uint8_t)device;
        list[p->n_overrides].pattern = vr_arena_copy(a, pattern);
        if (list[p->n_overrides++].pattern == NULL)
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

uint64_t vr_llamacpp_tokens(const vram_workload *w)
{
    if (w->n_ctx != 0)
        return w->n_ctx;
    return w->slots ? w->context : vr_mul_sat(w->context, w->sequences);
}

static void count_tokens(vr_lm_params *p, const vram_workload *w, const vr_lm_rules *r)
{
    p->n_seq_max = w->sequences;
    p->n_ctx = vr_llamacpp_tokens(w);
    p->n_batch = w->batch;
    p->n_ubatch = w->ubatch;
    if (w->tool != VR_LM_SERVER)
        return;
    if (w->embedding && p->n_batch > p->n_ubatch) /* server.cpp: an embedding is computed at once */
        p->n_batch = p->n_ubatch;
    if (r->server_outputs != 0 && !w->embedding)
        p->n_outputs_max = p->n_seq_max < p->n_batch ? p->n_seq_max : p->n_batch;
}

vram_status vr_llamacpp_params(vr_lm_params *out, const vram_workload *w, vr_arena *a)
{
    vr_lm_rules r;
    vr_lm_rules_of(&r, w->version_major);
    *out = (vr_lm_params){ .build = w->version_major,
                           .tool = w->tool,
                           .type_k = w->cache_k,
                           .type_v = w->cache_v,
                           .kv_unified = w->kv_unified,
                           .swa_full = w->swa_full,
                           .offload_kqv = !w->no_kv_offload,
                           .op_offload = r.op_offload == 0 || !w->no_op_offload,
                           .n_gpu_layers = w->gpu_layers,
                           .split_mode = w->split_mode,
                           .main_gpu = (uint8_t)w->main_gpu,
                           .n_cpu_moe = w->cpu_moe ? UINT64_MAX : w->n_cpu_moe,
                           .as_fit = w->tool == VR_LM_FIT_PARAMS,
                           .embeddings = w->embedding,
                           .pooling = w->pooling };
    out->flash_attn = w->flash != VR_FLASH_OFF;
    out->flash_auto = w->flash == VR_FLASH_AUTO && vr_dtype_block((vr_dtype)w->cache_v) == 1;
    count_tokens(out, w, &r);
    read_shares(out, w);
    return read_overrides(out, w, a);
}
