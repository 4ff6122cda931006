/* SPDX-License-Identifier: MIT
 * What a GGUF file takes on some machine, as the library measures it: for scripts that hold it against
 * llama.cpp's own figures. Each line of the input is a file and settings, apart by
 * tabs: its path, c=4096, ngl=99, devices=2. Each line of the output is a JSON object. */
#include "llama/beside.h"
#include "llama/lora.h"
#include "llama/place.h"

#include "lines.h"

#include <stdlib.h>

#define FREE_BYTES (UINT64_C(4096) << 30)

typedef struct asked {
    const char *path;
    vr_lm_params p;
    vr_lm_device devices[VR_LM_MOST_DEVICES];
    size_t n_devices;
    vr_lm_override overrides[16];
    const char *lora, *draft;
    const vr_lm_adapter *adapter;
} asked;

static uint8_t type_of(const char *name)
{
    static const struct {
        const char *name;
        vr_dtype type;
    } types[] = {
        { "f32", VR_F32 },   { "f16", VR_F16 },   { "bf16", VR_BF16 },
        { "q8_0", VR_Q8_0 }, { "q4_0", VR_Q4_0 }, { "q4_1", VR_Q4_1 },
        { "q5_0", VR_Q5_0 }, { "q5_1", VR_Q5_1 }, { "iq4_nl", VR_IQ4_NL },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return (uint8_t)types[i].type;
    abort();
}

static void set_override(asked *q, char *value)
{
    char *at = strrchr(value, '=');
    *at = '\0';
    q->overrides[q->p.n_overrides++] = (vr_lm_override){
        .pattern = value,
        .device = strncmp(at + 1, "CUDA", 4) == 0 ? (uint8_t)atoi(at + 5) : VR_LM_HOST,
    };
}

static void set_shares(asked *q, char *value)
{
    for (size_t i = 0; value != NULL; i++) {
        q->p.tensor_split[i] = strtod(value, &value);
        value = *value == '\0' ? NULL : value + 1;
    }
}

/* Mebibytes of each device, the last of all that follow. */
static void set_free(asked *q, char *value)
{
    for (size_t i = 0; i < VR_LM_MOST_DEVICES; i++) {
        q->devices[i].free_bytes = strtoull(value, &value, 10) << 20;
        if (*value == ',')
            value++;
        else
            value = (char *)"0";
    }
}

static void set(asked *q, char *word)
{
    char *value = strchr(word, '=');
    *value++ = '\0';
    uint64_t n = strtoull(value, NULL, 10);
    const struct {
        const char *name;
        uint64_t *to;
    } counts[] = {
        { "c", &q->p.n_ctx },         { "b", &q->p.n_batch },        { "ub", &q->p.n_ubatch },
        { "np", &q->p.n_seq_max },    { "ngl", &q->p.n_gpu_layers }, { "outputs", &q->p.n_outputs_max },
        { "ncmoe", &q->p.n_cpu_moe }, { "mtp", &q->p.n_rs_seq },
    };
    const struct {
        const char *name;
        bool *to;
    } flags[] = {
        { "fa", &q->p.flash_attn },       { "kvu", &q->p.kv_unified },
        { "swa_full", &q->p.swa_full },   { "kvo", &q->p.offload_kqv },
        { "opo", &q->p.op_offload },      { "embeddings", &q->p.embeddings },
        { "as_fit", &q->p.as_fit },       { "fa_auto", &q->p.flash_auto },
        { "no_repack", &q->p.no_repack }, { "control", &q->p.control_vector },
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(counts[i].name, word) == 0)
            *counts[i].to = n;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flags[i].name, word) == 0)
            *flags[i].to = n != 0;
    if (strcmp(word, "build") == 0)
        q->p.build = (uint32_t)n;
    else if (strcmp(word, "ctk") == 0)
        q->p.type_k = type_of(value);
    else if (strcmp(word, "ctv") == 0)
        q->p.type_v = type_of(value);
    else if (strcmp(word, "devices") == 0)
        q->n_devices = (size_t)n;
    else if (strcmp(word, "sm") == 0)
        q->p.split_mode = (uint8_t)n;
    else if (strcmp(word, "pooling") == 0)
        q->p.pooling = (uint8_t)n;
    else if (strcmp(word, "mg") == 0)
        q->p.main_gpu = (uint8_t)n;
    else if (strcmp(word, "free") == 0)
        set_free(q, value);
    else if (strcmp(word, "ts") == 0)
        set_shares(q, value);
    else if (strcmp(word, "ot") == 0)
        set_override(q, value);
    else if (strcmp(word, "lora") == 0)
        q->lora = value;
    else if (strcmp(word, "draft") == 0)
        q->draft = value;
}

static void read_line(asked *q, char *line)
{
    q->path = strtok(line, "\t");
    q->p = (vr_lm_params){ .build = 10470,
                           .as_fit = true,
                           .n_batch = 2048,
                           .n_ubatch = 512,
                           .n_seq_max = 1,
                           .type_k = VR_F16,
                           .type_v = VR_F16,
                           .flash_attn = true,
                           .offload_kqv = true,
                           .op_offload = true,
                           .n_gpu_layers = UINT64_MAX };
    q->n_devices = 1;
    for (size_t i = 0; i < VR_LM_MOST_DEVICES; i++)
        q->devices[i] = (vr_lm_device){ FREE_BYTES, 89 };
    for (char *word = strtok(NULL, "\t"); word != NULL; word = strtok(NULL, "\t"))
        set(q, word);
    q->p.overrides = q->overrides;
}

static void print_memory(const char *of, const char *name, const vr_lm_memory *m)
{
    printf("\"%s%s\": [%llu, %llu, %llu, %llu], ", of, name, (unsigned long long)m->model,
           (unsigned long long)m->context, (unsigned long long)m->compute, (unsigned long long)m->adapter);
}

static void print_memories(const char *of, const vr_lm_sizes *s, size_t n)
{
    char name[16];
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "CUDA%zu", i);
        print_memory(of, name, &s->device[i]);
    }
    print_memory(of, "CUDA_Host", &s->pinned);
    print_memory(of, "CPU", &s->host);
}

static void print_sizes(const vr_lm_sizes *s, size_t n)
{
    printf("{");
    print_memories("", s, n);
    if (s->draft != NULL)
        print_memories("draft ", s->draft, n);
    printf("\"n_ctx\": %llu, \"n_ctx_seq\": %llu, \"n_batch\": %llu, \"n_ubatch\": %llu, \"nodes\": %zu, "
           "\"splits\": "
           "%zu, \"compute_known\": %s, \"guessed\": %s, \"held\": %s, \"context_known\": %s, \"refused\": "
           "%s, \"why\": "
           "\"%s\"}\n",
           (unsigned long long)s->n_ctx, (unsigned long long)s->n_ctx_seq, (unsigned long long)s->n_batch,
           (unsigned long long)s->n_ubatch, s->n_nodes, s->n_splits, s->compute_known ? "true" : "false",
           s->compute_guessed ? "true" : "false", s->held ? "true" : "false",
           s->context_known ? "true" : "false", s->refused ? "true" : "false", s->why != NULL ? s->why : "");
}

/* Of drafts by the model's own layers, or by another model. */
static vram_status add_drafts(asked *q, vr_lm_beside *beside, const vr_lm *lm, vram_ctx *ctx, vram_io *io)
{
    const char *why = NULL;
    if (q->p.n_rs_seq != 0) {
        vr_lm_beside_predict(&why, beside, &q->p, lm, q->p.n_rs_seq);
        if (why != NULL)
            return vr_fail(ctx, VRAM_EUNSUPPORTED, T(why));
        q->p.beside = beside;
    }
    if (q->draft != NULL) {
        VR_TRY(open_lm(&beside->draft, ctx, io, q->draft));
        beside->drafting = q->p;
        beside->drafting.n_outputs_max = q->p.n_seq_max;
        beside->drafting.n_gpu_layers = UINT64_MAX;
        q->p.beside = beside;
    }
    return VRAM_OK;
}

static vram_status add_adapter(asked *q, const vr_lm *lm, vram_ctx *ctx, vram_io *io)
{
    vram_model *m = NULL;
    const char *why = NULL;
    VR_TRY(open_model(&m, ctx, io, q->lora));
    VR_TRY(vr_lm_adapter_of(&q->adapter, &why, m, lm, &ctx->arena));
    if (q->adapter == NULL)
        return vr_fail(ctx, VRAM_EUNSUPPORTED, T(why));
    q->p.adapters = &q->adapter;
    q->p.n_adapters = 1;
    return VRAM_OK;
}

static vram_status answer(char *line, vram_ctx *ctx, vram_io *io)
{
    asked q = { .path = NULL };
    const vr_lm *lm = NULL;
    vr_lm_sizes sizes;
    vr_lm_beside beside = { .projector = NULL };
    read_line(&q, line);
    VR_TRY(open_lm(&lm, ctx, io, q.path));
    VR_TRY(add_drafts(&q, &beside, lm, ctx, io));
    if (q.lora != NULL)
        VR_TRY(add_adapter(&q, lm, ctx, io));
    VR_TRY(vr_lm_measure(&sizes, lm, &q.p, q.devices, q.n_devices, &ctx->arena));
    print_sizes(&sizes, q.n_devices);
    return VRAM_OK;
}

int main(void)
{
    return answer_lines(answer);
}
