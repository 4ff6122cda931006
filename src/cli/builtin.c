/* SPDX-License-Identifier: MIT
 *
 * Built-in examples: the header of a checkpoint and its config.json, made from the published shape of a model
 * in the order of its module tree (Qwen2ForCausalLM of transformers). A header is all that an answer needs,
 * so a checkpoint of 15 GB fits into 40 KB of memory and nothing is downloaded.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Shapes: config.json of Qwen/Qwen2.5-7B-Instruct and Qwen/Qwen2.5-1.5B-Instruct on the Hugging Face hub. */
typedef struct shape {
    const char *name, *title;
    unsigned layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context;
    bool tied;
} shape;

static const shape shapes[] = {
    { "qwen2.5-7b", "Qwen2.5-7B-Instruct", 28, 3584, 28, 4, 128, 18944, 152064, 32768, false },
    { "qwen2.5-1.5b", "Qwen2.5-1.5B-Instruct", 28, 1536, 12, 2, 128, 8960, 151936, 32768, true },
};

#define ROOM ((size_t)128 << 10)

typedef struct text {
    char *p;
    size_t n;
    uint64_t data; /* bytes of the tensors so far */
} text;

static void put(text *t, const char *s)
{
    size_t n = strlen(s);

    if (t->n + n < ROOM) {
        memcpy(t->p + t->n, s, n + 1);
        t->n += n;
    }
}

static void put_tensor(text *t, const char *name, uint64_t rows, uint64_t columns)
{
    char line[256];
    uint64_t bytes = rows * (columns != 0 ? columns : 1) * 2;

    snprintf(line, sizeof line, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%llu", t->data != 0 ? "," : "", name,
             (unsigned long long)rows);
    put(t, line);
    if (columns != 0) {
        snprintf(line, sizeof line, ",%llu", (unsigned long long)columns);
        put(t, line);
    }
    snprintf(line, sizeof line, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->data,
             (unsigned long long)(t->data + bytes));
    put(t, line);
    t->data += bytes;
}

static void put_layer(text *t, const shape *s, unsigned layer)
{
    const struct {
        const char *name;
        unsigned rows, columns;
    } parts[] = {
        { "self_attn.q_proj.weight", s->heads * s->head_dim, s->hidden },
        { "self_attn.q_proj.bias", s->heads * s->head_dim, 0 },
        { "self_attn.k_proj.weight", s->kv_heads * s->head_dim, s->hidden },
        { "self_attn.k_proj.bias", s->kv_heads * s->head_dim, 0 },
        { "self_attn.v_proj.weight", s->kv_heads * s->head_dim, s->hidden },
        { "self_attn.v_proj.bias", s->kv_heads * s->head_dim, 0 },
        { "self_attn.o_proj.weight", s->hidden, s->heads * s->head_dim },
        { "mlp.gate_proj.weight", s->ffn, s->hidden },
        { "mlp.up_proj.weight", s->ffn, s->hidden },
        { "mlp.down_proj.weight", s->hidden, s->ffn },
        { "input_layernorm.weight", s->hidden, 0 },
        { "post_attention_layernorm.weight", s->hidden, 0 },
    };
    char name[96];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "model.layers.%u.%s", layer, parts[i].name);
        put_tensor(t, name, parts[i].rows, parts[i].columns);
    }
}

/* Eight bytes of length, then JSON. */
static void put_header(text *t, const shape *s)
{
    size_t start = t->n;
    uint64_t n;

    t->n += 8;
    put(t, "{");
    put_tensor(t, "model.embed_tokens.weight", s->vocab, s->hidden);
    for (unsigned i = 0; i < s->layers; i++)
        put_layer(t, s, i);
    put_tensor(t, "model.norm.weight", s->hidden, 0);
    if (!s->tied)
        put_tensor(t, "lm_head.weight", s->vocab, s->hidden);
    put(t, "}");
    n = t->n - start - 8;
    for (size_t i = 0; i < 8; i++)
        t->p[start + i] = (char)(n >> (8 * i) & 0xff);
}

static void put_config(text *t, const shape *s)
{
    char config[768];

    snprintf(
        config, sizeof config,
        "{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\",\"num_hidden_layers\":%u,"
        "\"hidden_size\":%u,\"intermediate_size\":%u,\"num_attention_heads\":%u,\"num_key_value_heads\":%u,"
        "\"vocab_size\":%u,\"max_position_embeddings\":%u,\"tie_word_embeddings\":%s,"
        "\"use_sliding_window\":false,\"torch_dtype\":\"bfloat16\"}",
        s->layers, s->hidden, s->ffn, s->heads, s->kv_heads, s->vocab, s->context,
        s->tied ? "true" : "false");
    put(t, config);
}

size_t cli_examples(const char *const **names)
{
    static const char *list[sizeof shapes / sizeof *shapes];

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        list[i] = shapes[i].name;
    *names = list;
    return sizeof shapes / sizeof *shapes;
}

static const shape *find(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

static vram_status supply(vram_checkpoint *ck, const vram_want *w, const char *config, size_t n_config,
                          const char *header, size_t n_header)
{
    bool is_config = strcmp(w->file, "config.json") == 0;
    const char *bytes = is_config ? config : header;
    size_t n = is_config ? n_config : n_header;

    if (w->offset > n)
        return VRAM_EINTERNAL;
    return vram_checkpoint_supply(ck, w->file, w->offset, bytes + w->offset, n - w->offset);
}

static vram_status feed(vram_checkpoint *ck, const char *config, size_t n_config, const char *header,
                        size_t n_header, uint64_t data)
{
    vram_status s = VRAM_MORE;
    const vram_want *wants;

    while (s == VRAM_MORE) {
        s = vram_checkpoint_step(ck);
        if (s != VRAM_MORE)
            break;
        size_t n = vram_checkpoint_wants(ck, &wants);
        s = VRAM_OK;
        for (size_t i = 0; i < n && s == VRAM_OK; i++) {
            if (wants[i].kind == VRAM_WANT_RANGE) {
                s = supply(ck, &wants[i], config, n_config, header, n_header);
                continue;
            }
            s = vram_checkpoint_add_file(ck, "config.json", n_config);
            if (s == VRAM_OK)
                s = vram_checkpoint_add_file(ck, "model.safetensors", n_header + data);
            if (s == VRAM_OK)
                s = vram_checkpoint_listed(ck);
        }
        s = s == VRAM_OK ? VRAM_MORE : s;
    }
    return s;
}

static vram_status no_such_example(vram_ctx *ctx, const char *name)
{
    char called[84], message[160];

    snprintf(message, sizeof message, "there is no built-in example '%s'",
             cli_short(called, sizeof called, name));
    return vram_fail(ctx, &(vram_error){ .code = VRAM_ENOTFOUND,
                                         .text = message,
                                         .hint = "there are example:qwen2.5-7b and example:qwen2.5-1.5b" });
}

vram_status cli_example_open(vram_checkpoint **out, vram_ctx *ctx, const char *name, char **keep)
{
    const shape *s = find(name);
    text t = { .p = calloc(1, ROOM) };
    size_t n_config;
    vram_status status;

    if (s == NULL || t.p == NULL) {
        free(t.p);
        return s == NULL ? no_such_example(ctx, name)
                         : vram_fail(ctx, &(vram_error){ .code = VRAM_ENOMEM, .text = "out of host memory" });
    }
    *keep = t.p;
    put_config(&t, s);
    n_config = t.n;
    put_header(&t, s);
    status = vram_checkpoint_new(out, ctx, s->title);
    if (status == VRAM_OK)
        status = feed(*out, t.p, n_config, t.p + n_config, t.n - n_config, t.data);
    return status;
}
