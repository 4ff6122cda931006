/* SPDX-License-Identifier: MIT
 * Quantised checkpoints: a Llama-3.1-8B in every layout. Whatever the layout, it has the 8,030,261,248
 * parameters that its publisher counts; names, types and shapes are those that each project's code writes
 * (the source stands at the layout's row in src/model/layouts.c). What is expected of bytes is computed from
 * the logical shapes:
 *
 *   weights of a layer   q, o 4096 x 4096; k, v 1024 x 4096; gate, up 14336 x 4096; down 4096 x 14336
 *                        = 2 x 16,777,216 + 2 x 4,194,304 + 3 x 58,720,256 = 218,103,808
 *   N, of 32 layers      6,979,321,856
 *   rows of a layer      4096 + 4096 + 1024 + 1024 + 2 x 14336 + 4096 = 43,008; ROWS, of 32: 1,376,256
 *   columns of a layer   6 x 4096 + 14336 = 38,912; COLUMNS, of 32: 1,245,184
 *   embeddings, head     2 x 128256 x 4096 = 1,050,673,152; norms 65 x 4096 = 266,240
 *   together             6,979,321,856 + 1,050,673,152 + 266,240 = 8,030,261,248 */
#include "support.h"

#define LAYERS 32
#define MATRICES (7 * LAYERS)
#define N UINT64_C(6979321856)
#define ROWS UINT64_C(1376256)
#define COLUMNS UINT64_C(1245184)
#define PARAMETERS UINT64_C(8030261248)
#define LLAMA                                                                                                \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":4096,"               \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":128,"        \
    "\"vocab_size\":128256,\"intermediate_size\":14336,\"torch_dtype\":\"bfloat16\","                        \
    "\"tie_word_embeddings\":false"

/* ---- a file of which only the header is there ---- */

typedef struct file {
    char *text;
    size_t n, room;
    uint64_t data;
} file;

static unsigned bits_of(const char *dtype)
{
    static const struct {
        const char *name;
        unsigned bits;
    } widths[] = { { "F4", 4 },   { "F8_E4M3", 8 }, { "F8_E8M0", 8 }, { "U8", 8 },
                   { "I8", 8 },   { "I16", 16 },    { "BF16", 16 },   { "F16", 16 },
                   { "I32", 32 }, { "U32", 32 },    { "F32", 32 },    { "I64", 64 } };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (strcmp(widths[i].name, dtype) == 0)
            return widths[i].bits;
    fail_msg("%s", dtype);
    return 0;
}

#define SHAPE(...)                                                                                           \
    (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)

static void put(file *f, const char *stem, const char *suffix, const char *dtype, const uint64_t *dims,
                size_t n_dims)
{
    uint64_t elements = 1, begin = f->data;
    if (f->room - f->n < 1024) {
        f->room = 2 * f->room + 65536;
        f->text = realloc(f->text, f->room);
        assert_non_null(f->text);
    }
    char *p = f->text + f->n;
    p += sprintf(p, "%c\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", f->n == 8 ? '{' : ',', stem, suffix, dtype);
    for (size_t i = 0; i < n_dims; i++) {
        p += sprintf(p, "%s%llu", i != 0 ? "," : "", (unsigned long long)dims[i]);
        elements *= dims[i];
    }
    f->data += elements * bits_of(dtype) / 8;
    p +=
        sprintf(p, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)f->data);
    f->n = (size_t)(p - f->text);
}

static void put_scalar(file *f, const char *stem, const char *suffix, const char *dtype)
{
    put(f, stem, suffix, dtype, NULL, 0);
}

static void start(file *f)
{
    *f = (file){ .n = 8, .room = 65536 };
    f->text = calloc(1, f->room);
    assert_non_null(f->text);
}

static void finish(file *f)
{
    f->text[f->n++] = '}';
    for (size_t i = 0; i < 8; i++)
        f->text[i] = (char)((f->n - 8) >> 8 * i & 0xff);
}

typedef struct place {
    hook h;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    vram_status status;
} place;

static void supply_header(place *p, const file *f, const char *config)
{
    const vram_want *w;
    size_t n = vram_checkpoint_wants(p->ck, &w);
    for (size_t i = 0; i < n; i++) {
        bool is_config = strcmp(w[i].file, "config.json") == 0;
        const char *from = is_config ? config : f->text;
        size_t size = is_config ? strlen(config) : f->n;
        if (w[i].kind == VRAM_WANT_LISTING || w[i].offset >= size)
            continue;
        uint64_t most = w[i].most < size - w[i].offset ? w[i].most : size - w[i].offset;
        vram_checkpoint_supply(p->ck, w[i].file, w[i].offset, from + w[i].offset, (size_t)most);
    }
}

static vram_status read_file(place *p, const file *f, const char *config)
{
    vram_status s = vram_open(&p->ctx, hook_alloc, &p->h);
    if (s == VRAM_OK)
        s = vram_checkpoint_new(&p->ck, p->ctx, "quantised");
    if (s == VRAM_OK && config != NULL)
        s = vram_checkpoint_add_file(p->ck, "config.json", strlen(config));
    if (s == VRAM_OK)
        s = vram_checkpoint_add_file(p->ck, "model.safetensors", f->n + f->data);
    if (s == VRAM_OK)
        s = vram_checkpoint_listed(p->ck);
    for (unsigned round = 0; s == VRAM_OK && round < 100; round++) {
        s = vram_checkpoint_step(p->ck);
        if (s != VRAM_MORE)
            break;
        supply_header(p, f, config);
        s = VRAM_OK;
    }
    return s == VRAM_OK ? vram_model_new(&p->m, p->ck) : s;
}

static void shut(place *p)
{
    if (p->ctx != NULL)
        vram_close(p->ctx);
    assert_int_equal(p->h.live_blocks, 0);
}

static size_t n_warnings(const vram_ctx *ctx)
{
    return vram_warnings(ctx, &(const vram_warning *){ NULL });
}

/* ---- layouts: what each writes for a matrix of `out` rows and `in` columns ---- */

typedef void (*writer)(file *f, const char *stem, uint64_t out, uint64_t in);

static void gptq_of(file *f, const char *stem, uint64_t out, uint64_t in, uint64_t bits, uint64_t groups,
                    bool index)
{
    put(f, stem, ".qweight", "I32", SHAPE(in * bits / 32, out));
    put(f, stem, ".qzeros", "I32", SHAPE(groups, out * bits / 32));
    put(f, stem, ".scales", "F16", SHAPE(groups, out));
    if (index)
        put(f, stem, ".g_idx", "I32", SHAPE(in));
}

static void gptq4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    gptq_of(f, stem, out, in, 4, in / 128, true);
}

static void gptq3(file *f, const char *stem, uint64_t out, uint64_t in)
{
    gptq_of(f, stem, out, in, 3, in / 128, true);
}

static void gptq2(file *f, const char *stem, uint64_t out, uint64_t in)
{
    gptq_of(f, stem, out, in, 2, in / 64, false); /* without g_idx the zero points tell */
}

static void gptq8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    gptq_of(f, stem, out, in, 8, 1, true); /* group_size -1 */
}

static void awq_gemm(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".qweight", "I32", SHAPE(in, out / 8));
    put(f, stem, ".qzeros", "I32", SHAPE(in / 128, out / 8));
    put(f, stem, ".scales", "F16", SHAPE(in / 128, out));
}

/* 4096 / 128 = 32 groups and 14336 / 128 = 112 are whole words of 8: no padding at groups of 128 */
static void awq_gemv(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".qweight", "I32", SHAPE(out, in / 8));
    put(f, stem, ".qzeros", "I32", SHAPE(out, in / 128 / 8));
    put(f, stem, ".scales", "F16", SHAPE(out, in / 128));
}

static void awq_fast(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".qweight", "I16", SHAPE(out / 4, in));
    put(f, stem, ".scales", "F16", SHAPE(in / 128, out));
    put(f, stem, ".scaled_zeros", "F16", SHAPE(in / 128, out));
}

static void marlin(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".B", "I32", SHAPE(in / 16, out * 16 / 8));
    put(f, stem, ".s", "F16", SHAPE(in / 128, out));
}

/* Double quantisation: a byte for 64 weights, a float for 256 of these, tables of 16 and 256 floats, and
 * JSON. */
static void bnb4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    uint64_t n = out * in;
    put(f, stem, ".weight", "U8", SHAPE(n / 2, 1));
    put(f, stem, ".weight.absmax", "U8", SHAPE(n / 64));
    put(f, stem, ".weight.nested_absmax", "F32", SHAPE(n / 64 / 256));
    put(f, stem, ".weight.nested_quant_map", "F32", SHAPE(256));
    put(f, stem, ".weight.quant_map", "F32", SHAPE(16));
    put(f, stem, ".weight.quant_state.bitsandbytes__nf4", "U8", SHAPE(180));
}

static void bnb4_in_bf16(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "BF16", SHAPE(out * in / 4, 1)); /* bnb_4bit_quant_storage */
    put(f, stem, ".weight.absmax", "F32", SHAPE(out * in / 64));
    put(f, stem, ".weight.quant_map", "F32", SHAPE(16));
    put(f, stem, ".weight.quant_state.bitsandbytes__fp4", "U8", SHAPE(90));
}

static void bnb8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "I8", SHAPE(out, in));
    put(f, stem, ".SCB", "F32", SHAPE(out));
    put_scalar(f, stem, ".weight_format", "U8");
}

static void fp8_tensor(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "F8_E4M3", SHAPE(out, in));
    put_scalar(f, stem, ".weight_scale", "F32");
    put_scalar(f, stem, ".input_scale", "F32");
}

/* All of the widths are whole blocks of 128. */
static void fp8_block(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "F8_E4M3", SHAPE(out, in));
    put(f, stem, ".weight_scale_inv", "F32", SHAPE(out / 128, in / 128));
}

static void fp8_row(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "F8_E4M3", SHAPE(out, in));
    put(f, stem, ".weight_scale", "BF16", SHAPE(out, 1));
}

static void fp8_cast(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "F8_E4M3", SHAPE(out, in));
}

static void mxfp8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "F8_E4M3", SHAPE(out, in));
    put(f, stem, ".weight_scale", "U8", SHAPE(out, in / 32));
}

static void ct_packed(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight_packed", "I32", SHAPE(out, in / 8));
    put(f, stem, ".weight_scale", "BF16", SHAPE(out, in / 128));
    put(f, stem, ".weight_zero_point", "I32", SHAPE(out / 8, in / 128));
    put(f, stem, ".weight_shape", "I64", SHAPE(2));
}

static void ct_int8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "I8", SHAPE(out, in));
    put(f, stem, ".weight_scale", "BF16", SHAPE(out, 1));
}

static void ct_nvfp4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight_packed", "U8", SHAPE(out, in / 2));
    put(f, stem, ".weight_scale", "F8_E4M3", SHAPE(out, in / 16));
    put(f, stem, ".weight_global_scale", "F32", SHAPE(1));
    put(f, stem, ".input_global_scale", "F32", SHAPE(1));
}

static void ct_mxfp4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight_packed", "U8", SHAPE(out, in / 2));
    put(f, stem, ".weight_scale", "U8", SHAPE(out, in / 32));
}

static void nvfp4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "U8", SHAPE(out, in / 2));
    put(f, stem, ".weight_scale", "F8_E4M3", SHAPE(out, in / 16));
    put_scalar(f, stem, ".weight_scale_2", "F32");
    put_scalar(f, stem, ".input_scale", "F32");
}

static void int4_awq(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "U8", SHAPE(out / 2, in));
    put(f, stem, ".weight_scale", "BF16", SHAPE(out, in / 128));
    put(f, stem, ".pre_quant_scale", "BF16", SHAPE(in));
}

static void deepseek4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "I8", SHAPE(out, in / 2));
    put(f, stem, ".scale", "F8_E8M0", SHAPE(out, in / 32));
}

static void hqq4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    uint64_t n = out * in;
    put(f, stem, ".W_q", "U8", SHAPE(n / 64 / 2, 64)); /* axis 1: a group in a row */
    put(f, stem, ".scale", "BF16", SHAPE(n / 64, 1));
    put(f, stem, ".zero", "BF16", SHAPE(n / 64, 1));
    put(f, stem, ".nbits", "I32", SHAPE(1));
    put(f, stem, ".shape", "I32", SHAPE(2));
}

/* Ten weights in a word; the rows of W_q are filled up to ten. */
static void hqq3(file *f, const char *stem, uint64_t out, uint64_t in)
{
    uint64_t groups = out * in / 64;
    put(f, stem, ".W_q", "I32", SHAPE((groups + 9) / 10, 64));
    put(f, stem, ".scale", "BF16", SHAPE(groups, 1));
    put(f, stem, ".zero", "BF16", SHAPE(groups, 1));
}

static void ao_int4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, "._weight_qdata", "I8", SHAPE(out, in / 2));
    put(f, stem, "._weight_scale", "BF16", SHAPE(in / 128, out));
    put(f, stem, "._weight_zero_point", "BF16", SHAPE(in / 128, out));
}

static void ao_tiles(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, "._weight_qdata", "I32", SHAPE(out / 8, in / 128, 32, 4)); /* inner_k_tiles 8 */
    put(f, stem, "._weight_scale_and_zero", "BF16", SHAPE(in / 128, out, 2));
}

static void ao_int8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, "._weight_qdata", "I8", SHAPE(out, in));
    put(f, stem, "._weight_scale", "BF16", SHAPE(out, 1));
}

static void ao_fp8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, "._weight_qdata", "F8_E4M3", SHAPE(out, in));
    put(f, stem, "._weight_scale", "F32", SHAPE(out, 1));
}

/* The names of attributes, as state dictionaries in pickles have them. */
static void ao_int8_pickled(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight.qdata", "I8", SHAPE(out, in));
    put(f, stem, ".weight.scale", "BF16", SHAPE(out, 1));
    put(f, stem, ".weight.zero_point", "I8", SHAPE(out, 1));
}

static void ao_fp8_pickled(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight.qdata", "F8_E4M3", SHAPE(out, in));
    put(f, stem, ".weight.scale", "F32", SHAPE(out, 1));
}

static void ao_tiles_before(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight.tensor_impl.packed_weight", "I32", SHAPE(out / 8, in / 128, 32, 4));
    put(f, stem, ".weight.tensor_impl.scale_and_zero", "BF16", SHAPE(in / 128, out, 2));
}

static void ao_int8_before(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight.tensor_impl.int_data", "I8", SHAPE(out, in));
    put(f, stem, ".weight.tensor_impl.scale", "BF16", SHAPE(out));
}

static void quanto8(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight._data", "I8", SHAPE(out, in));
    put(f, stem, ".weight._scale", "BF16", SHAPE(out, 1));
    put_scalar(f, stem, ".input_scale", "BF16");
    put_scalar(f, stem, ".output_scale", "BF16");
}

static void quanto4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight._data._data", "U8", SHAPE(out * in / 128 / 2, 128));
    put(f, stem, ".weight._scale", "BF16", SHAPE(out * in / 128, 1));
    put(f, stem, ".weight._shift", "BF16", SHAPE(out * in / 128, 1));
    put_scalar(f, stem, ".input_scale", "BF16");
    put_scalar(f, stem, ".output_scale", "BF16");
}

static void eetq(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "I8", SHAPE(in, out));
    put(f, stem, ".weight_scales", "F16", SHAPE(out));
}

/* 1 codebook of 2^16 vectors of 8 */
static void aqlm(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".codes", "I16", SHAPE(out, in / 8, 1));
    put(f, stem, ".codebooks", "F16", SHAPE(1, 65536, 1, 8));
    put(f, stem, ".scales", "F16", SHAPE(out, 1, 1, 1));
}

/* Which vectors an index means is not in the header: config.json's shapes count. */
static void vptq(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".indices", "I32", SHAPE(1, out / 8, in / 2));
    put(f, stem, ".centroids.weight", "BF16", SHAPE(1, 65536 * 8));
}

static void higgs(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "I16", SHAPE(out * 4 / 16, in));
    put(f, stem, ".scales", "BF16", SHAPE(out, in / 256));
    put(f, stem, ".tables", "BF16", SHAPE(16));
    put(f, stem, ".tables2", "BF16", SHAPE(16, 16, 2));
}

static void bitnet(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "U8", SHAPE(out / 4, in));
    put(f, stem, ".weight_scale", "BF16", SHAPE(1));
}

/* 128 rows at 5 bits, the rest at 4 */
static void exl2(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".q_weight", "I32", SHAPE((128 * 5 + (in - 128) * 4) / 32, out));
    put(f, stem, ".q_invperm", "I32", SHAPE(in));
    put(f, stem, ".q_scale", "I32", SHAPE(in / 128, out / 8));
    put(f, stem, ".q_scale_max", "F16", SHAPE(in / 128));
    put(f, stem, ".q_groups", "I16", SHAPE(in / 128 * 2));
}

static void exl3(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".trellis", "I16", SHAPE(in / 16, out / 16, 16 * 4));
    put(f, stem, ".suh", "F16", SHAPE(in));
    put(f, stem, ".svh", "F16", SHAPE(out));
}

static void mlx4(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "U32", SHAPE(out, in / 8));
    put(f, stem, ".scales", "BF16", SHAPE(out, in / 64));
    put(f, stem, ".biases", "BF16", SHAPE(out, in / 64));
}

/* Values in 6 bits, the keys' in 4 with groups of 32: modules with settings of their own. */
static void mlx_mixed(file *f, const char *stem, uint64_t out, uint64_t in)
{
    bool v = strstr(stem, "v_proj") != NULL, k = strstr(stem, "k_proj") != NULL;
    uint64_t bits = v ? 6 : 4, group = k ? 32 : 64;
    put(f, stem, ".weight", "U32", SHAPE(out, in * bits / 32));
    put(f, stem, ".scales", "BF16", SHAPE(out, in / group));
    put(f, stem, ".biases", "BF16", SHAPE(out, in / group));
}

/* ---- the model ---- */

static void whole(file *f, writer matrix)
{
    static const struct {
        const char *name;
        uint64_t out, in;
    } kinds[7] = { { "self_attn.q_proj", 4096, 4096 }, { "self_attn.k_proj", 1024, 4096 },
                   { "self_attn.v_proj", 1024, 4096 }, { "self_attn.o_proj", 4096, 4096 },
                   { "mlp.gate_proj", 14336, 4096 },   { "mlp.up_proj", 14336, 4096 },
                   { "mlp.down_proj", 4096, 14336 } };
    start(f);
    put(f, "model.embed_tokens", ".weight", "BF16", SHAPE(128256, 4096));
    put(f, "lm_head", ".weight", "BF16", SHAPE(128256, 4096));
    put(f, "model.norm", ".weight", "BF16", SHAPE(4096));
    for (int i = 0; i < LAYERS; i++) {
        char stem[64];
        for (int k = 0; k < 7; k++) {
            snprintf(stem, sizeof stem, "model.layers.%d.%s", i, kinds[k].name);
            matrix(f, stem, kinds[k].out, kinds[k].in);
        }
        snprintf(stem, sizeof stem, "model.layers.%d.", i);
        put(f, stem, "input_layernorm.weight", "BF16", SHAPE(4096));
        put(f, stem, "post_attention_layernorm.weight", "BF16", SHAPE(4096));
    }
    finish(f);
}

typedef struct expectation {
    writer matrix;
    const char *config; /* quantization_config, or another member with its name */
    const char *method, *layout;
    uint64_t bits;
    vr_grouping grouping;
    uint64_t group_size, packed_bytes, scale_bytes;
} expectation;

#define Q(text) "\"quantization_config\":{" text "}"
#define CT(format, bits, type, group)                                                                        \
    Q("\"quant_method\":\"compressed-tensors\",\"format\":\"" format "\",\"config_groups\":{\"group_0\":{"   \
      "\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":" bits ",\"type\":\"" type                         \
      "\",\"group_size\":" group "}}}")
#define G VR_GROUPING_GROUP

/* clang-format off */
static const expectation expectations[] = {
    /* GPTQ: scales 2 B and zero points bits/8 B for each group, g_idx 4 B for each column */
    { gptq4, Q("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,\"desc_act\":true"), "gptq", "gptq",
      4, G, 128, N / 2, N / 128 * 5 / 2 + 4 * COLUMNS },
    { gptq3, Q("\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":128"), "gptq", "gptq",
      3, G, 128, N / 8 * 3, N / 128 * 2 + N / 128 / 8 * 3 + 4 * COLUMNS },
    { gptq2, Q("\"quant_method\":\"gptq\",\"bits\":2,\"group_size\":64"), "gptq", "gptq",
      2, G, 64, N / 4, N / 64 * 2 + N / 64 / 4 },
    { gptq8, Q("\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":-1"), "gptq", "gptq",
      8, VR_GROUPING_ROW, 0, N, ROWS * 3 + 4 * COLUMNS },
    { gptq4, Q("\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":128,\"packing_format\":\"auto_round:auto_gptq\""),
      "auto-round", "gptq", 4, G, 128, N / 2, N / 128 * 5 / 2 + 4 * COLUMNS },
    { marlin, Q("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,\"is_marlin_format\":true"), "gptq", "marlin",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 128 * 2 },
    { awq_gemm, Q("\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"version\":\"gemm\""), "awq", "awq-gemm",
      4, G, 128, N / 2, N / 128 * 5 / 2 },
    { awq_gemv, Q("\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":128,\"version\":\"gemv\""), "awq", "awq-gemv",
      4, G, 128, N / 2, N / 128 * 5 / 2 },
    { awq_fast, Q("\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"version\":\"gemv_fast\""), "awq",
      "awq-gemv-fast", 4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 128 * 4 },
    /* a byte for 64 weights, 4 B for 256 of these, and (256 + 16) x 4 + 180 = 1,268 B a matrix */
    { bnb4, Q("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\""),
      "bitsandbytes", "bnb-4bit", 4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 64 + N / 64 / 64 + 1268 * MATRICES },
    { bnb4_in_bf16, Q("\"load_in_4bit\":true,\"bnb_4bit_quant_storage\":\"bfloat16\""), "bitsandbytes", "bnb-4bit",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 64 * 4 + (64 + 90) * MATRICES },
    { bnb8, Q("\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true"), "bitsandbytes", "bnb-8bit",
      8, VR_GROUPING_ROW, 0, N, 4 * ROWS + MATRICES },
    { fp8_tensor, Q("\"quant_method\":\"fp8\",\"activation_scheme\":\"static\""), "fp8", "fp8",
      8, VR_GROUPING_TENSOR, 0, N, 8 * MATRICES },
    { fp8_tensor, Q("\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\""), "modelopt", "fp8",
      8, VR_GROUPING_TENSOR, 0, N, 8 * MATRICES },
    { fp8_block, Q("\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]"), "fp8", "fp8",
      8, VR_GROUPING_BLOCK, 128, N, N / 128 / 128 * 4 },
    { fp8_row, CT("float-quantized", "8", "float", "null"), "compressed-tensors", "fp8",
      8, VR_GROUPING_ROW, 0, N, 2 * ROWS },
    { fp8_row, Q("\"quant_method\":\"fbgemm_fp8\",\"activation_scale_ub\":1200"), "fbgemm_fp8", "fp8",
      8, VR_GROUPING_ROW, 0, N, 2 * ROWS },
    { fp8_cast, Q("\"quant_method\":\"fp8\""), "fp8", "cast", 8, VR_GROUPING_UNKNOWN, 0, N, 0 },
    { mxfp8, Q("\"quant_method\":\"modelopt\",\"quant_algo\":\"MXFP8\""), "modelopt", "fp8", 8, G, 32, N, N / 32 },
    /* 2 B a group, half a byte of zero point, 16 B of shape */
    { ct_packed, CT("pack-quantized", "4", "int", "128"), "compressed-tensors", "pack-quantized",
      4, G, 128, N / 2, N / 128 * 5 / 2 + 16 * MATRICES },
    { ct_packed, "\"compression_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{"
      "\"weights\":{\"num_bits\":4,\"group_size\":128}}}}", "compressed-tensors", "pack-quantized",
      4, G, 128, N / 2, N / 128 * 5 / 2 + 16 * MATRICES },
    { ct_int8, CT("int-quantized", "8", "int", "null"), "compressed-tensors", "int8",
      8, VR_GROUPING_ROW, 0, N, 2 * ROWS },
    { ct_nvfp4, CT("nvfp4-pack-quantized", "4", "float", "16"), "compressed-tensors", "nvfp4",
      4, G, 16, N / 2, N / 16 + 8 * MATRICES },
    { ct_mxfp4, CT("mxfp4-pack-quantized", "4", "float", "32"), "compressed-tensors", "mxfp4",
      4, G, 32, N / 2, N / 32 },
    { nvfp4, Q("\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"config_groups\":{\"group_0\":{\"weights\":{"
      "\"num_bits\":4,\"type\":\"float\",\"group_size\":16}}}"), "modelopt", "nvfp4",
      4, G, 16, N / 2, N / 16 + 8 * MATRICES },
    { int4_awq, Q("\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A16_AWQ\""), "modelopt", "int4-awq",
      4, G, 128, N / 2, N / 128 * 2 + 2 * COLUMNS },
    { deepseek4, Q("\"quant_method\":\"fp8\",\"scale_fmt\":\"ue8m0\""), "fp8", "mxfp4", 4, G, 32, N / 2, N / 32 },
    { hqq4, Q("\"quant_method\":\"hqq\",\"quant_config\":{\"weight_quant_params\":{\"nbits\":4,\"group_size\":64}}"),
      "hqq", "hqq", 4, G, 64, N / 2, N / 64 * 4 + 12 * MATRICES },
    { ao_int4, Q("\"quant_method\":\"torchao\",\"quant_type\":{\"default\":{\"_type\":\"Int4WeightOnlyConfig\","
      "\"_data\":{\"group_size\":128}}}"), "torchao", "torchao-int", 4, G, 128, N / 2, N / 128 * 4 },
    { ao_tiles, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-int4",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 128 * 4 },
    { ao_int8, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-int", 8, VR_GROUPING_ROW, 0, N, 2 * ROWS },
    { ao_fp8, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-fp8", 8, VR_GROUPING_ROW, 0, N, 4 * ROWS },
    { ao_int8_pickled, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-int",
      8, VR_GROUPING_ROW, 0, N, 3 * ROWS },
    { ao_fp8_pickled, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-fp8",
      8, VR_GROUPING_ROW, 0, N, 4 * ROWS },
    { ao_tiles_before, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-int4",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 128 * 4 },
    { ao_int8_before, Q("\"quant_method\":\"torchao\""), "torchao", "torchao-int", 8, VR_GROUPING_ROW, 0, N, 2 * ROWS },
    { quanto8, Q("\"quant_method\":\"quanto\",\"weights\":\"int8\""), "quanto", "quanto",
      8, VR_GROUPING_ROW, 0, N, 2 * ROWS + 4 * MATRICES },
    { quanto4, Q("\"quant_method\":\"quanto\",\"weights\":\"int4\""), "quanto", "quanto-packed",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 128 * 4 + 4 * MATRICES },
    { eetq, Q("\"quant_method\":\"eetq\""), "eetq", "eetq", 8, VR_GROUPING_ROW, 0, N, 2 * ROWS },
    /* 2 B for 8 weights; a codebook of 65,536 x 8 x 2 B and 2 B a row */
    { aqlm, Q("\"quant_method\":\"aqlm\",\"nbits_per_codebook\":16"), "aqlm", "aqlm",
      2, VR_GROUPING_ROW, 0, N / 4, 1048576 * MATRICES + 2 * ROWS },
    { vptq, Q("\"quant_method\":\"vptq\""), "vptq", "vptq",
      0, VR_GROUPING_UNKNOWN, 0, N / 4, 1048576 * MATRICES },
    { higgs, Q("\"quant_method\":\"higgs\",\"bits\":4"), "higgs", "higgs",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, N / 256 * 2 + (32 + 1024) * MATRICES },
    { bitnet, Q("\"quant_method\":\"bitnet\""), "bitnet", "ternary",
      2, VR_GROUPING_TENSOR, 0, N / 4, 2 * MATRICES },
    /* 5 bits of 128 rows: half a byte x 128 x 1/4 more for each column of the transposed matrix, 43,008 a layer */
    { exl2, Q("\"quant_method\":\"exl2\",\"bits\":4.05"), "exl2", "exl2", 0, VR_GROUPING_UNKNOWN, 0,
      N / 2 + 128 * ROWS / 8, 4 * COLUMNS + N / 128 / 2 + COLUMNS / 128 * 6 },
    { exl3, Q("\"quant_method\":\"exl3\",\"bits\":4.0"), "exl3", "exl3",
      4, VR_GROUPING_UNKNOWN, 0, N / 2, 2 * COLUMNS + 2 * ROWS },
    { mlx4, "\"quantization\":{\"group_size\":64,\"bits\":4}", "mlx", "mlx", 4, G, 64, N / 2, N / 64 * 4 },
};
/* clang-format on */

static void read_whole(place *p, file *f, writer matrix, const char *config)
{
    char text[2048];
    snprintf(text, sizeof text, LLAMA ",%s}", config);
    whole(f, matrix);
    *p = (place){ .ctx = NULL };
    assert_int_equal(read_file(p, f, text), VRAM_OK);
}

static void check_figures(const place *p, const expectation *e)
{
    const vr_quantised *q = &p->m->packing;
    assert_int_equal(p->m->parameters, PARAMETERS);
    assert_int_equal(q->quantised_matrices, MATRICES);
    assert_int_equal(q->matrices, MATRICES + 2);
    assert_int_equal(q->packed_bytes, e->packed_bytes);
    assert_int_equal(q->scale_bytes, e->scale_bytes);
    /* the rest is in 16 bits */
    assert_int_equal(p->ck->tensor_bytes, q->packed_bytes + q->scale_bytes + 2 * (PARAMETERS - N));
    assert_int_equal(q->grouping, e->grouping);
    assert_int_equal(q->group_size, e->group_size);
    assert_int_equal(q->bits_low, e->bits);
    assert_int_equal(q->bits_high, e->bits);
    assert_false(q->uncountable);
}

static void every_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const expectation *e = &expectations[i];
        place p;
        file f;
        read_whole(&p, &f, e->matrix, e->config);
        if (p.m->packing.layout == NULL || strcmp(p.m->packing.layout, e->layout) != 0)
            fail_msg("%s: read as %s", e->config, p.m->packing.layout);
        const vram_warning *list;
        if (vram_warnings(p.ctx, &list) != 0)
            fail_msg("%s: %s", e->config, list[0].text);
        assert_string_equal(p.m->packing.method, e->method);
        assert_true(p.m->quantised);
        assert_non_null(p.m->family); /* a packed tensor is no size mismatch */
        assert_null(p.m->contradicted);
        assert_int_equal(p.m->dtype, VR_BF16);
        check_figures(&p, e);
        shut(&p);
        free(f.text);
    }
}

/* ---- config.json is silent, lies, or is hostile ---- */

static bool said(const vram_ctx *ctx, const char *part)
{
    if (warned(ctx, part))
        return true;
    const vram_warning *list;
    size_t n = vram_warnings(ctx, &list);
    for (size_t i = 0; i < n; i++)
        print_error("warned: %s\n", list[i].text);
    return false;
}

typedef struct contradiction {
    writer matrix;
    const char *config, *warning;
    const char *method;
    uint64_t bits, group_size;
} contradiction;

/* Of bits and group size the shapes tell, so that the figures stay right. */
static void contradictions(void **state)
{
    static const contradiction cases[] = {
        { gptq4, "\"x\":0", "there is no quantization_config, but tensors are packed as gptq does", "gptq", 4,
          128 },
        { gptq4, Q("\"quant_method\":\"awq\""), "says awq, the tensors are packed as gptq does", "gptq", 4,
          128 },
        { awq_gemm, Q("\"quant_method\":\"gptq\",\"bits\":4"),
          "says gptq, the tensors are packed as awq does", "awq", 4, 128 },
        { nvfp4, Q("\"quant_method\":\"\\u001b[31m\""), "the tensors are packed as modelopt does", "modelopt",
          4, 16 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"bits\":8"), "makes bits 8, the tensors make it 4", "gptq", 4,
          128 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"group_size\":64"),
          "makes group_size 64, the tensors make it 128", "gptq", 4, 128 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"bits\":0"), "bits of quantization_config is 0: left out",
          "gptq", 4, 128 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"bits\":3000000000"), "is 3000000000: left out", "gptq", 4,
          128 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"bits\":17"), "is 17: left out", "gptq", 4, 128 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"group_size\":0"), "group_size of quantization_config is 0",
          "gptq", 4, 128 },
        { gptq4, Q("\"quant_method\":\"gptq\",\"group_size\":99999999999999999999999999"),
          "is 999999999999999999999999: left out", "gptq", 4, 128 },
        { nvfp4, CT("nvfp4-pack-quantized", "3e9", "float", "16"),
          "weights.num_bits of quantization_config is 3e9", "compressed-tensors", 4, 16 },
        { fp8_block, Q("\"quant_method\":\"fp8\",\"weight_block_size\":[64,64]"), "makes group_size 64",
          "fp8", 8, 128 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        place p;
        file f;
        read_whole(&p, &f, cases[i].matrix, cases[i].config);
        if (!said(p.ctx, cases[i].warning))
            fail_msg("%s", cases[i].config);
        assert_int_equal(n_warnings(p.ctx), 1);
        assert_string_equal(p.m->packing.method, cases[i].method);
        assert_int_equal(p.m->packing.bits_low, cases[i].bits);
        assert_int_equal(p.m->packing.group_size, cases[i].group_size);
        assert_int_equal(p.m->parameters, PARAMETERS);
        shut(&p);
        free(f.text);
    }
}

/* Nothing of this is an error, and none changes what the tensors say. */
static void configs_of_the_wrong_kind(void **state)
{
    static const char *const configs[] = {
        "\"quantization_config\":null",
        "\"quantization_config\":[]",
        "\"quantization_config\":\"gptq\"",
        Q("\"quant_method\":7,\"bits\":\"4\",\"group_size\":[128]"),
        Q("\"quant_method\":\"gptq\",\"bits\":{},\"group_size\":-9999999999999999999999"),
        Q("\"quant_method\":\"gptq\",\"config_groups\":[1,2]"),
        Q("\"quant_method\":\"gptq\",\"config_groups\":{\"a\":7,\"b\":{\"weights\":[]}}"),
        Q("\"quant_method\":\"gptq\",\"weight_block_size\":{\"a\":1}"),
        Q("\"quant_method\":\"gptq\",\"weight_block_size\":[0,-1,\"x\",1e30]"),
        "\"text_config\":{\"model_type\":\"llama\"},\"quantization\":7",
    };
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        place p;
        file f;
        read_whole(&p, &f, gptq4, configs[i]);
        assert_string_equal(p.m->packing.layout, "gptq");
        assert_int_equal(p.m->parameters, PARAMETERS);
        shut(&p);
        free(f.text);
    }
}

static void plain(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "BF16", SHAPE(out, in));
}

/* bitsandbytes' configuration in a checkpoint that is not packed: nothing is taken for quantised but the
 * word. */
static void a_config_alone(void **state)
{
    (void)state;
    place p;
    file f;
    read_whole(&p, &f, plain, Q("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true"));
    assert_true(said(p.ctx, "says bitsandbytes, but no tensor is packed"));
    assert_true(p.m->quantised);
    assert_null(p.m->packing.layout);
    assert_int_equal(p.m->packing.quantised_matrices, 0);
    assert_int_equal(p.m->parameters, PARAMETERS);
    shut(&p);
    free(f.text);
    read_whole(&p, &f, plain, "\"x\":0");
    assert_false(p.m->quantised);
    assert_null(p.m->packing.method);
    assert_int_equal(p.m->packing.matrices, MATRICES + 2);
    assert_int_equal(n_warnings(p.ctx), 0);
    shut(&p);
    free(f.text);
}

/* MLX: modules with settings of their own; 4 x 64 and 6 x 64 differ from 4 x 32. */
static void settings_of_single_modules(void **state)
{
    char config[16384];
    int n = snprintf(config, sizeof config, "\"quantization\":{\"group_size\":64,\"bits\":4");
    (void)state;
    for (int i = 0; i < LAYERS; i++)
        n += snprintf(config + n, sizeof config - (size_t)n,
                      ",\"model.layers.%d.self_attn.v_proj\":{\"group_size\":64,\"bits\":6},"
                      "\"model.layers.%d.self_attn.k_proj\":{\"group_size\":32,\"bits\":4}",
                      i, i);
    char text[20000];
    snprintf(text, sizeof text, LLAMA ",%s}}", config);
    place p = { .ctx = NULL };
    file f;
    whole(&f, mlx_mixed);
    assert_int_equal(read_file(&p, &f, text), VRAM_OK);
    assert_int_equal(n_warnings(p.ctx), 0);
    assert_int_equal(p.m->packing.bits_low, 4);
    assert_int_equal(p.m->packing.bits_high, 6);
    assert_int_equal(p.m->packing.group_size, 0);
    assert_int_equal(p.m->parameters, PARAMETERS);
    /* 2 more bits of each of 32 x 1024 x 4096 values */
    assert_int_equal(p.m->packing.packed_bytes, N / 2 + UINT64_C(32) * 1024 * 4096 / 4);
    shut(&p);
    free(f.text);
}

/* A name that ends as scales do, with a number for each channel and no matrix beside it, is a weight. One
 * number beside a module without a matrix is a scale (of the KV cache: vLLM's k_scale). */
static void fp8_and_others(file *f, const char *stem, uint64_t out, uint64_t in)
{
    if (strstr(stem, "k_proj") != NULL)
        put(f, stem, ".layer_scale", "BF16", SHAPE(4096));
    if (strstr(stem, "v_proj") != NULL)
        put_scalar(f, stem, ".cache.k_scale", "F32");
    fp8_row(f, stem, out, in);
}

static void scales_of_something_else(void **state)
{
    (void)state;
    place p;
    file f;
    read_whole(&p, &f, fp8_and_others, Q("\"quant_method\":\"fbgemm_fp8\""));
    assert_int_equal(p.m->parameters, PARAMETERS + 4096 * LAYERS);
    assert_int_equal(p.m->packing.scale_bytes, 2 * ROWS + 4 * LAYERS);
    shut(&p);
    free(f.text);
}

/* Key and value matrices, 4 % of all, in 8 bits: the layout is that of the rest, wherever it comes first. */
static void two_layouts(file *f, const char *stem, uint64_t out, uint64_t in)
{
    (strstr(stem, "k_proj") != NULL || strstr(stem, "v_proj") != NULL ? fp8_row : ct_packed)(f, stem, out,
                                                                                             in);
}

static void the_layout_of_most_bytes(void **state)
{
    (void)state;
    place p;
    file f;
    read_whole(&p, &f, two_layouts, CT("mixed-precision", "4", "int", "128"));
    assert_string_equal(p.m->packing.layout, "pack-quantized");
    assert_int_equal(p.m->packing.group_size, 128);
    assert_int_equal(p.m->packing.bits_low, 4);
    assert_int_equal(p.m->packing.bits_high, 8);
    assert_int_equal(p.m->parameters, PARAMETERS);
    shut(&p);
    free(f.text);
}

/* The words of HQQ's 3 bits are filled up; the scales count the weights. */
static void words_that_are_not_full(void **state)
{
    (void)state;
    place p;
    file f;
    read_whole(&p, &f, hqq3,
               Q("\"quant_method\":\"hqq\",\"quant_config\":{\"weight_quant_params\":{\"nbits\":3,"
                 "\"group_size\":64}}"));
    assert_int_equal(p.m->parameters, PARAMETERS);
    assert_int_equal(p.m->packing.bits_low, 3);
    /* rows of W_q: 262144 / 10 -> 26215 of q and o, 65536 -> 6554 of k and v, 917504 -> 91751 of the rest; x
     * 64 x 4 B */
    assert_int_equal(p.m->packing.packed_bytes, (2 * 26215 + 2 * 6554 + 3 * 91751) * UINT64_C(256) * LAYERS);
    shut(&p);
    free(f.text);
}

/* ---- shapes that cannot be ---- */

static void wrong_scales(file *f, const char *stem, uint64_t out, uint64_t in)
{
    put(f, stem, ".weight", "U8", SHAPE(out, in / 2));
    put(f, stem, ".weight_scale", "F8_E4M3", SHAPE(out + 1, 7));
    put_scalar(f, stem, ".weight_scale_2", "F32");
}

static void half_as_wide(file *f, const char *stem, uint64_t out, uint64_t in)
{
    gptq4(f, stem, out, strstr(stem, "layers.3.mlp.down_proj") != NULL ? in / 2 : in);
}

static void shapes_that_contradict(void **state)
{
    (void)state;
    place p;
    file f;
    read_whole(&p, &f, wrong_scales, Q("\"quant_method\":\"modelopt\""));
    assert_true(
        said(p.ctx, "the scales of 224 quantised matrices do not have the shape that the packed weights call "
                    "for: model.layers.0.self_attn.q_proj.weight and others"));
    assert_int_equal(p.m->parameters, PARAMETERS);
    shut(&p);
    free(f.text);
    read_whole(&p, &f, half_as_wide, Q("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128"));
    assert_true(said(p.ctx,
                     "1 quantised matrix is not of the size that config.json gives: "
                     "model.layers.3.mlp.down_proj.qweight stands for 29,360,128 weights, not 58,720,256"));
    assert_int_equal(p.m->parameters, PARAMETERS - 29360128);
    assert_non_null(p.m->family);
    shut(&p);
    free(f.text);
}

/* Every layout with dimensions of 0 and 1, of other numbers, and up to 2^58 weights: no crash, and no figure
 * made up. */
static void hostile_shapes(void **state)
{
    static const uint64_t sizes[] = { 0, 1, 2, 31, UINT64_C(1) << 20, UINT64_C(1) << 36 };
    static const char *const dtypes[] = { "U8", "I32", "I16", "U32", "F8_E4M3" };
    static const char *const names[][2] = {
        { ".qweight", ".scales" },
        { ".weight", ".weight_scale" },
        { ".weight", ".weight_scale_2" },
        { ".weight", ".scale" },
        { ".weight", ".scales" },
        { ".weight_packed", ".weight_scale" },
        { ".W_q", ".scale" },
        { ".codes", ".codebooks" },
        { "_blocks", "_scales" },
        { ".weight", ".tables2" },
        { ".q_weight", ".q_invperm" },
        { ".trellis", ".suh" },
        { "._weight_qdata", "._weight_scale" },
        { ".weight", ".weight_scale_inv" },
        { ".weight", ".weight.absmax" },
    };
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        place p = { .ctx = NULL };
        file f;
        char stem[32];
        start(&f);
        for (unsigned i = 0; i < 6 * 6 * 5; i++) {
            uint64_t a = sizes[i % 6], b = sizes[i / 6 % 6] >> (i % 6 == 5 ? 24 : 0);
            snprintf(stem, sizeof stem, "m%u", i);
            put(&f, stem, names[k][0], dtypes[i / 36], (const uint64_t[]){ a, b }, i % 7 == 0 ? 1 : 2);
            put(&f, stem, names[k][1], "F16", (const uint64_t[]){ b, a % 1000, i % 3, 1 }, i % 5);
        }
        finish(&f);
        assert_int_equal(read_file(&p, &f, "{\"quantization_config\":{\"bits\":4,\"group_size\":16777216}}"),
                         VRAM_OK);
        assert_true(p.m->packing.quantised_matrices <= p.ck->n_tensors);
        assert_true(p.m->packing.packed_bytes + p.m->packing.scale_bytes <= p.ck->tensor_bytes);
        shut(&p);
        free(f.text);
    }
}

/* ---- experts, and what no row has ---- */

/* gpt-oss-20b, one layer: 32 experts, 2 x 2880 x 2880 and 2880 x 2880 weights, groups of 32. */
static void experts_in_one_tensor(void **state)
{
    place p = { .ctx = NULL };
    file f;
    (void)state;
    start(&f);
    put(&f, "model.layers.0.mlp.experts.gate_up_proj", "_blocks", "U8", SHAPE(32, 5760, 90, 16));
    put(&f, "model.layers.0.mlp.experts.gate_up_proj", "_scales", "U8", SHAPE(32, 5760, 90));
    put(&f, "model.layers.0.mlp.experts.gate_up_proj", "_bias", "BF16", SHAPE(32, 5760));
    put(&f, "model.layers.0.mlp.experts.down_proj", "_blocks", "U8", SHAPE(32, 2880, 90, 16));
    put(&f, "model.layers.0.mlp.experts.down_proj", "_scales", "U8", SHAPE(32, 2880, 90));
    put(&f, "model.layers.0.mlp.experts.down_proj", "_bias", "BF16", SHAPE(32, 2880));
    finish(&f);
    assert_int_equal(
        read_file(&p, &f,
                  "{\"model_type\":\"gpt_oss\",\"num_local_experts\":32,"
                  "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}"),
        VRAM_OK);
    /* 32 x 3 x 2880 x 2880 and the biases 32 x 3 x 2880 */
    assert_int_equal(p.m->parameters, 796262400 + 276480);
    assert_int_equal(p.m->packing.scale_bytes, 796262400 / 32);
    assert_int_equal(p.m->packing.group_size, 32);
    assert_int_equal(p.m->packing.matrices, 2);
    assert_int_equal(n_warnings(p.ctx), 0);
    shut(&p);
    free(f.text);
}

static void experts_of_eight_bits(void **state)
{
    place p = { .ctx = NULL };
    file f;
    (void)state;
    start(&f);
    put(&f, "model.layers.0.mlp.experts.down_proj", "", "F8_E4M3", SHAPE(8, 2048, 768));
    put(&f, "model.layers.0.mlp.experts.down_proj", "_scale_inv", "F32", SHAPE(8, 16, 6));
    finish(&f);
    assert_int_equal(
        read_file(&p, &f,
                  "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}"),
        VRAM_OK);
    assert_int_equal(p.m->parameters, 8 * 2048 * 768);
    assert_int_equal(p.m->packing.grouping, VR_GROUPING_BLOCK);
    assert_int_equal(p.m->packing.scale_bytes, 8 * 16 * 6 * 4);
    shut(&p);
    free(f.text);
}

/* Packed in a way that no row has, and config.json's class unknown: null rather than a product of nothing. */
static void what_cannot_be_counted(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        place p = { .ctx = NULL };
        file f;
        start(&f);
        if (k == 0) {
            put(&f, "a", ".weight", "I32", SHAPE(512, 4096));
            put(&f, "a", ".strange_scale", "F16", SHAPE(4096));
        } else {
            vptq(&f, "model.layers.0.self_attn.q_proj", 4096, 4096);
        }
        finish(&f);
        assert_int_equal(
            read_file(&p, &f, "{\"model_type\":\"zzz\",\"quantization_config\":{\"quant_method\":\"vptq\"}}"),
            VRAM_OK);
        assert_true(p.m->packing.uncountable);
        assert_true(said(p.ctx, "parameters are not counted"));
        assert_int_equal(p.m->packing.quantised_matrices, 1);
        shut(&p);
        free(f.text);
    }
}

/* ---- no memory ---- */

static void no_memory(void **state)
{
    static const char config[] =
        LLAMA ",\"quantization_config\":{\"quant_method\":\"a\\u0077q\",\"bits\":8,"
              "\"group_size\":64,\"model.layers.0.self_attn.v_pro\\u006a\":{\"bits\":4}}}";
    file f;
    (void)state;
    whole(&f, gptq4);
    for (int after = 0; after < 2; after++) {
        vram_status s = VRAM_ENOMEM;
        size_t n = 1;
        for (; s != VRAM_OK; n++) {
            place p = { .h = { .fail_at = n, .fail_after = after != 0 } };
            s = read_file(&p, &f, config);
            assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
            if (s == VRAM_OK)
                assert_int_equal(p.m->parameters, PARAMETERS);
            shut(&p);
        }
        assert_true(n > 5);
    }
    free(f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(configs_of_the_wrong_kind),
        cmocka_unit_test(a_config_alone),
        cmocka_unit_test(settings_of_single_modules),
        cmocka_unit_test(scales_of_something_else),
        cmocka_unit_test(the_layout_of_most_bytes),
        cmocka_unit_test(words_that_are_not_full),
        cmocka_unit_test(shapes_that_contradict),
        cmocka_unit_test(hostile_shapes),
        cmocka_unit_test(experts_in_one_tensor),
        cmocka_unit_test(experts_of_eight_bits),
        cmocka_unit_test(what_cannot_be_counted),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
