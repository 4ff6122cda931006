/* SPDX-License-Identifier: MIT
 * Ollama by release: which llama.cpp is in it, what it takes when nothing is said, who places the layers.
 *
 * Source: Ollama's tags v0.3.0 to v0.33.0-rc2 (2024-07-25 to 2026-08-21): LLAMA_CPP_VERSION, Makefile.sync,
 * llm/llama.cpp; envconfig/config.go, api/types.go, server/sched.go, server/routes.go, llm/server.go,
 * llm/memory.go, llm/llama_server.go, fs/ggml/ggml.go. */
#include "engine/ollama.h"

#include <string.h>

#define V(minor, patch) VR_OLLAMA_RELEASE(minor, patch)
#define COUNT(rows) (sizeof(rows) / sizeof(rows[0]))

/* ---- releases ---- */

typedef struct change {
    uint32_t release, field, value;
} change;

#define SINCE(release, field, value)                                                                         \
    {                                                                                                        \
        release, (uint32_t)offsetof(vr_ollama_rules, field), value                                           \
    }

static const change changes[] = {
    SINCE(0, default_context, 2048),
    SINCE(0, parallel, 4),
    SINCE(0, parallel_auto, 1),
    SINCE(V(6, 3), weights_alone, 1),
    SINCE(V(6, 7), default_context, 4096),
    SINCE(V(6, 7), parallel, 2),
    SINCE(V(7, 0), from_last, 1),
    SINCE(V(10, 0), parallel, 1),
    SINCE(V(10, 0), parallel_auto, 0),
    SINCE(V(11, 0), graph_doubled, 1),
    SINCE(V(11, 3), graph_doubled, 0),
    SINCE(V(11, 5), graph_halved, 1),
    SINCE(V(11, 11), recurrent, 1),
    SINCE(V(12, 11), era, VR_OLLAMA_LAYOUT),
    SINCE(V(13, 4), flash_auto, 1),
    SINCE(V(15, 5), default_context, 0),
    SINCE(V(30, 0), era, VR_OLLAMA_SERVER),
    SINCE(V(30, 0), batch_auto, 1),
};

/* Release, build of llama.cpp in it */
static const struct {
    uint32_t release, build;
} builds[] = {
    { V(3, 0), 3440 },   { V(3, 1), 3485 },    { V(3, 4), 3535 },    { V(3, 10), 3661 },
    { V(3, 14), 3862 },  { V(5, 2), 4260 },    { V(5, 3), 4327 },    { V(5, 5), 4419 },
    { V(5, 13), 4779 },  { V(6, 6), 5125 },    { V(6, 7), 5162 },    { V(6, 8), 5237 },
    { V(7, 0), 5359 },   { V(11, 5), 6121 },   { V(12, 4), 6646 },   { V(12, 6), 6752 },
    { V(12, 11), 6840 }, { V(13, 2), 7209 },   { V(13, 3), 7345 },   { V(13, 5), 7437 },
    { V(30, 0), 9452 },  { V(30, 1), 9479 },   { V(30, 4), 9493 },   { V(30, 5), 9509 },
    { V(30, 9), 9626 },  { V(30, 10), 9672 },  { V(30, 11), 9781 },  { V(31, 0), 9840 },
    { V(31, 2), 9888 },  { V(32, 2), 10069 },  { V(32, 3), 10091 },  { V(32, 6), 10242 },
    { V(32, 8), 10353 }, { V(32, 10), 10380 }, { V(32, 14), 10434 }, { V(32, 15), 10488 },
};

void vr_ollama_rules_of(vr_ollama_rules *out, uint32_t release)
{
    *out = (vr_ollama_rules){ .release = release };
    for (size_t i = 0; i < COUNT(changes); i++) {
        if (release >= changes[i].release)
            memcpy((char *)out + changes[i].field, &changes[i].value, sizeof(uint32_t));
    }
    for (size_t i = 0; i < COUNT(builds); i++) {
        if (i == 0 || release >= builds[i].release)
            out->build = builds[i].build;
    }
}

/* ---- what runs where ---- */

/* Architecture, release since which its own engine runs it; with llama-server nothing is any more. */
static const struct {
    const char *arch;
    uint32_t since;
} own[] = {
    { "gemma3", V(6, 0) },
    { "mistral3", V(6, 5) },
    { "llama4", V(6, 7) },
    { "mllama", V(7, 0) },
    { "qwen25vl", V(7, 0) },
    { "gemma3n", V(9, 3) },
    { "gptoss", V(11, 0) },
    { "gpt-oss", V(11, 5) },
    { "qwen3", V(12, 0) },
    { "qwen3moe", V(12, 2) },
    { "qwen3vl", V(12, 7) },
    { "qwen3vlmoe", V(12, 7) },
    { "deepseek2", V(13, 0) },
    { "deepseekocr", V(13, 0) },
    { "nomic-bert", V(13, 1) },
    { "olmo3", V(13, 4) },
    { "bert", V(13, 5) },
    { "glm4moelite", V(14, 3) },
    { "lfm2", V(14, 3) },
    { "glmocr", V(15, 5) },
    { "qwen3next", V(15, 5) },
    { "lfm2moe", V(17, 1) },
    { "nemotron_h", V(17, 1) },
    { "nemotron_h_moe", V(17, 1) },
    { "qwen35", V(17, 1) },
    { "qwen35moe", V(17, 1) },
    { "gemma4", V(20, 0) },
    { "laguna", V(22, 0) },
    { "nemotron_h_omni", V(22, 0) },
};

bool vr_ollama_runs_itself(const vr_ollama_rules *r, vr_str arch)
{
    for (size_t i = 0; i < COUNT(own) && r->era != VR_OLLAMA_SERVER; i++) {
        if (r->release >= own[i].since && vr_str_is(arch, own[i].arch))
            return true;
    }
    return false;
}

bool vr_ollama_serial(vr_str arch)
{
    static const char *const names[] = {
        "mllama", "qwen3vl", "qwen3vlmoe", "qwen35",         "qwen35moe",       "qwen3next",
        "lfm2",   "lfm2moe", "nemotron_h", "nemotron_h_moe", "nemotron_h_omni",
    };
    for (size_t i = 0; i < COUNT(names); i++) {
        if (vr_str_is(arch, names[i]))
            return true;
    }
    return false;
}

/* ---- what it takes when nothing is said ---- */

uint64_t vr_ollama_context(const vr_ollama_rules *r, uint64_t total)
{
    if (r->default_context != 0)
        return r->default_context;
    /* thresholds a little below 48 and 24 GiB */
    return total >= 47 * VR_GIB ? 262144 : total >= 23 * VR_GIB ? 32768 : 4096;
}

uint64_t vr_ollama_predicted(const vr_lm *lm, uint64_t file_bytes, uint64_t tokens)
{
    uint64_t heads = 0, kv = UINT64_MAX;
    for (uint32_t i = 0; i < lm->n_layer_all; i++) {
        heads = lm->layers[i].n_head > heads ? lm->layers[i].n_head : heads;
        kv = lm->layers[i].n_head_kv < kv ? lm->layers[i].n_head_kv : kv;
    }
    if (kv == 0 || kv == UINT64_MAX)
        kv = 1;
    uint64_t head = heads != 0 ? lm->n_embd / heads : 0;
    uint64_t cache = vr_mul_sat(vr_mul_sat(vr_mul_sat(4, lm->n_layer_all), kv), vr_mul_sat(head, tokens));
    return vr_add_sat(file_bytes, cache);
}

static uint64_t surcharge(uint64_t batch)
{
    return batch >= 2048 ? 2 * VR_GIB : batch >= 1024 ? 768 * VR_MIB : 0;
}

/* A larger batch only with room to spare beside what is predicted. */
static bool has_room(uint64_t batch, uint64_t predicted, uint64_t available)
{
    uint64_t most = vr_mul_div(available, 80, 100), share = batch >= 2048 ? 60 : batch >= 1024 ? 75 : 100;
    if (predicted == 0 || available == 0)
        return true;
    return predicted <= most && predicted <= vr_mul_div(available, share, 100) &&
           surcharge(batch) <= most - predicted;
}

uint64_t vr_ollama_batch(const vr_ollama_rules *r, uint64_t tokens, bool flash, uint64_t predicted,
                         uint64_t available, uint64_t smallest)
{
    if (r->batch_auto == 0)
        return 512;
    if (!flash)
        return tokens > 4096 && smallest != 0 && smallest <= 8 * VR_GIB ? 256 : 512;
    uint64_t batch = tokens > 32768 ? 2048 : tokens > 4096 ? 1024 : 512;
    while (batch > 512 && !has_room(batch, predicted, available))
        batch /= 2;
    return batch;
}
