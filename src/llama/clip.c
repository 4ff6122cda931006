/* SPDX-License-Identifier: MIT
 * A projector file read, and what it takes.
 *
 * Source: llama.cpp b10470, tools/mtmd/clip.cpp (load_hparams, load_tensors, warmup, reserve_compute_meta).
 */
#include "llama/clip_kinds.h"

#include <string.h>

#define MOST_LAYERS 512
#define MOST_SIDE 8192 /* pixels: llama.cpp's own limit of image_size */
#define MOST_NUMBER 65535
#define MOST_WIDE (UINT64_C(1) << 24)
#define MOST_PATCHES (UINT64_C(1) << 18)

/* ---- tensors ---- */

/* Names behind "v.blk.N." that layers are loaded with. */
static bool of_layer(vr_str name)
{
    static const char *const both[] = { "attn_k", "attn_q", "attn_v", "attn_out", "attn_qkv",
                                        "ln1",    "ln2",    "ffn_up", "ffn_gate", "ffn_down" };
    static const char *const weights[] = { "attn_k_norm.weight",   "attn_q_norm.weight",
                                           "ls1.weight",           "ls2.weight",
                                           "out_scale.weight",     "attn_post_norm.weight",
                                           "ffn_post_norm.weight", "attn_sinks" };
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        if (vr_str_is(name, weights[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        size_t n = strlen(both[i]);
        vr_str rest = vr_str_starts(name, both[i]) ? (vr_str){ name.s + n, name.n - n } : (vr_str){ 0 };
        if (vr_str_is(rest, ".weight") || vr_str_is(rest, ".bias"))
            return true;
    }
    return false;
}

/* Loaded of every kind, and what the kind's own row names. */
static bool of_none(const vr_clip_kind *kind, vr_str name)
{
    vr_str rest, word;
    const char *const lists[] = { "v.class_embd v.pre_ln. v.post_ln. v.patch_embd.bias v.patch_embd.weight "
                                  "v.patch_embd.weight.1 v.norm_embd. v.position_embd.weight ",
                                  kind->outside };
    for (size_t i = 0; i < 2; i++) {
        rest = vr_str_of(lists[i]);
        while (vr_str_split(&rest, ' ', &word)) {
            bool open = word.n != 0 && word.s[word.n - 1] == '.';
            if (open ? name.n > word.n && memcmp(name.s, word.s, word.n) == 0 : vr_str_eq(name, word))
                return true;
        }
    }
    return false;
}

/* "v.blk.17.ln1.weight" to 17 and "ln1.weight". */
static bool split_name(vr_str *name, uint64_t *layer)
{
    vr_str digits, rest = *name;
    if (!vr_str_starts(rest, "v.blk."))
        return false;
    rest = (vr_str){ rest.s + 6, rest.n - 6 };
    if (!vr_str_split(&rest, '.', &digits) || digits.n > 9 || rest.s == NULL || !vr_parse_u64(digits, layer))
        return false;
    *name = rest;
    return true;
}

/* n_layer: of none; above: not loaded. */
static uint64_t layer_of(const vr_clip_tower *t, vr_str *name)
{
    uint64_t layer = t->n_layer;
    if (split_name(name, &layer))
        return layer < t->n_layer && of_layer(*name) ? layer : UINT64_MAX;
    return t->kind != NULL && of_none(t->kind, *name) ? t->n_layer : UINT64_MAX;
}

static vram_status sort_weights(vr_clip_tower *t, const vram_checkpoint *ck, vr_arena *a)
{
    vr_clip_layer *layers = VR_ARRAY(a, vr_clip_layer, (size_t)t->n_layer + 1);
    vr_clip_weight *all = VR_ARRAY(a, vr_clip_weight, ck->n_tensors);
    vr_clip_weight **next = VR_ARRAY(a, vr_clip_weight *, (size_t)t->n_layer + 1);
    if (layers == NULL || all == NULL || next == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        uint64_t il = layer_of(t, &name);
        if (il <= t->n_layer)
            layers[il].n++;
    }
    for (uint64_t il = 0; il <= t->n_layer; all += layers[il].n, il++)
        layers[il].weights = next[il] = all;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        uint64_t il = layer_of(t, &name);
        if (il <= t->n_layer)
            *next[il]++ = (vr_clip_weight){ name, i };
    }
    t->layers = layers;
    return VRAM_OK;
}

/* ---- keys ---- */

static uint64_t number(const vr_metadata *keys, const char *key, uint64_t otherwise)
{
    uint64_t n = otherwise;
    return vr_metadata_u64(keys, key, &n) ? n : otherwise;
}

static bool flag(const vr_metadata *keys, const char *key)
{
    return number(keys, key, 0) != 0;
}

/* llama.cpp's own limits, or beyond any model. */
static bool makes_sense(const vr_clip_tower *t)
{
    return t->n_embd != 0 && t->n_embd <= MOST_WIDE && t->head <= MOST_WIDE && t->n_head <= MOST_NUMBER &&
           t->n_head_kv <= MOST_NUMBER && t->n_layer <= MOST_LAYERS && t->projection <= MOST_WIDE &&
           t->image <= MOST_SIDE && t->patch != 0 && t->patch <= MOST_NUMBER && t->merge != 0 &&
           t->merge <= MOST_NUMBER;
}

static const char *read_numbers(vr_clip_tower *t, const vr_metadata *k)
{
    const vr_clip_kind *kind = t->kind;
    t->n_embd = number(k, "clip.vision.embedding_length", 0);
    t->n_head = number(k, "clip.vision.attention.head_count", 0);
    t->n_head_kv = number(k, "clip.vision.attention.head_count_kv", t->n_head);
    t->n_layer = number(k, "clip.vision.block_count", 0);
    t->projection = number(k, "clip.vision.projection_dim", 0);
    t->image = number(k, "clip.vision.image_size", 0);
    t->patch = number(k, "clip.vision.patch_size", 0);
    t->pattern = number(k, "clip.vision.n_wa_pattern", 0);
    t->merge = kind != NULL ? kind->merge : 1;
    if (kind != NULL && kind->merge_key != NULL)
        t->merge = number(k, kind->merge_key, t->merge);
    t->head = number(k, "clip.vision.attention.head_dim", t->n_head != 0 ? t->n_embd / t->n_head : 0);
    const vr_meta *f = vr_metadata_get(k, "clip.vision.feature_layer");
    t->features = f != NULL ? f->count : 0;
    return makes_sense(t) ? NULL : "its numbers make no sense";
}

vram_status vr_clip_of(const vr_clip **out, const char **why, const vram_model *m, vr_arena *a)
{
    const vr_metadata *k = m->checkpoint != NULL ? m->checkpoint->metadata : NULL;
    *out = NULL;
    *why = "it is no projector in a GGUF file";
    if (!m->gguf || m->architecture == NULL || strcmp(m->architecture, "clip") != 0)
        return VRAM_OK;
    vr_clip *c = VR_NEW(a, vr_clip);
    if (c == NULL)
        return VRAM_ENOMEM;
    c->model = m;
    c->sees = flag(k, "clip.has_vision_encoder");
    c->hears = flag(k, "clip.has_audio_encoder");
    c->speaks = flag(k, "clip.has_gen_audio_encoder");
    if (!vr_metadata_str(k, "clip.projector_type", &c->tower.type)) {
        (void)vr_metadata_str(k, "clip.vision.projector_type", &c->tower.type);
        (void)vr_metadata_str(k, "clip.audio.projector_type", &c->audio_type);
    } else if (vr_str_is(c->tower.type, "qwen2.5o")) {
        c->tower.type = vr_str_of("qwen2.5vl_merger");
    }
    *why = NULL;
    if (c->sees) {
        c->tower.kind = vr_clip_kind_of(c->tower.type);
        *why = read_numbers(&c->tower, k);
        if (*why != NULL)
            return VRAM_OK;
        VR_TRY(sort_weights(&c->tower, m->checkpoint, a));
    }
    *out = c;
    return VRAM_OK;
}

/* ---- the picture that memory is reserved for ---- */

/* Whole part of the root. */
static uint64_t root(uint64_t n)
{
    uint64_t low = 0, high = UINT64_C(1) << 24;
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        if (middle * middle <= n)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t first_side(const vr_clip_tower *t, const vr_clip_params *p)
{
    uint64_t token = t->patch * t->merge; /* both are below 2^16 */
    if (t->kind == NULL)
        return 0;
    if (t->kind->side != 0)
        return vr_mul_sat(t->kind->side, token);
    if (t->kind->most_tokens == 0)
        return t->image;
    uint64_t tokens = p->most_tokens != 0 ? p->most_tokens : t->kind->most_tokens;
    return root(vr_mul_sat(tokens, vr_mul_sat(token, token)));
}

/* ---- compute buffers ---- */

typedef struct machine {
    vr_gg_machine m;
    uint8_t buft;
} machine;

static void set_up(machine *x, const vr_clip_params *p)
{
    uint8_t pinned, host;
    *x = (machine){ .m = { .op_offload = true, .copies = 1, .cc = p->cc } };
    if (!p->on_host)
        vr_gg_add_cuda(&x->m, "CUDA0", &x->buft);
    vr_gg_add_cpu(&x->m, &pinned, &host);
    if (p->on_host)
        x->buft = host;
}

static vram_status build(vr_cg *c, vr_gg *g, const vr_clip *clip, uint64_t side, uint8_t buft, bool flash)
{
    const vr_clip_tower *t = &clip->tower;
    vr_arena *a = g->arena;
    vr_gg_reset(g);
    *c = (vr_cg){ .g = g,
                  .tower = t,
                  .file = clip->model->checkpoint,
                  .buft = buft,
                  .flash = flash,
                  .side = side,
                  .px = side / t->patch,
                  .py = side / t->patch,
                  .n_embd = t->n_embd,
                  .n_head = t->n_head,
                  .n_head_kv = t->n_head_kv,
                  .head = t->head,
                  .n_layer = t->n_layer,
                  .patch = t->patch,
                  .merge = t->merge,
                  .projection = t->projection,
                  .pattern = t->pattern };
    c->patches = c->px * c->py;
    c->made = VR_ARRAY(a, vr_t, c->file->n_tensors);
    if (c->made == NULL)
        return VRAM_ENOMEM;
    c->result = t->kind->build(c);
    vr_gg_build_forward_expand(g, c->result);
    return g->failed ? VRAM_ENOMEM : VRAM_OK;
}

static void keep_most(vr_clip_sizes *out, const machine *x, const vr_gg_reserved *r)
{
    size_t host = x->m.n_backends - 1;
    uint64_t first = r->bytes[0], beside = host != 0 ? r->bytes[host] : 0;
    out->compute = first > out->compute ? first : out->compute;
    out->host_compute = beside > out->host_compute ? beside : out->host_compute;
    out->n_nodes = r->n_nodes;
    out->n_splits = r->n_splits;
}

static const char *cannot(const vr_clip *c, const vr_clip_sizes *s)
{
    const vr_clip_tower *t = &c->tower;
    if (c->hears || c->speaks || !c->sees)
        return "the graph of the projector's encoder of sound is not known here";
    if (t->kind == NULL || t->kind->build == NULL)
        return "the graph of this kind of projector is not known here";
    if (t->features != 0)
        return "the projector stacks what several layers give";
    uint64_t side = s->side / t->patch;
    return side == 0 || side * side > MOST_PATCHES ? "the projector's first picture makes no sense" : NULL;
}

/* With flash attention first, and without where the card has no kernel for it; what was reserved stays. */
static vram_status reserve(vr_clip_sizes *out, const vr_clip *c, const vr_clip_params *p, vr_arena *a)
{
    machine x;
    vr_cg graph;
    vr_gg g;
    vr_gg_reserved r;
    bool flash = p->flash_attn, again = true;
    set_up(&x, p);
    vr_gg_init(&g, a);
    while (again) {
        VR_TRY(build(&graph, &g, c, out->side, x.buft, flash));
        if (g.broken != NULL)
            break;
        VR_TRY(vr_gg_reserve(&r, &g, &x.m, a));
        keep_most(out, &x, &r);
        vr_t node = graph.attention;
        again = flash && p->flash_auto && node != NULL && !x.m.backends[0].runs(&x.m, 0, node);
        flash = false;
    }
    out->compute_known = g.broken == NULL;
    if (g.broken == NULL) {
        out->width = graph.result->ne[0];
        return VRAM_OK;
    }
    out->compute = out->host_compute = 0;
    out->why = "the projector's tensors are not those of its kind";
    return VRAM_OK;
}

/* ---- weights ---- */

static uint64_t taken(const vr_gg_buft *b, const vr_tensor *t)
{
    vr_gg_tensor x = { .type = t->dtype, .nb = { vr_dtype_block_bytes((vr_dtype)t->dtype) } };
    for (size_t i = 0; i < VR_GG_DIMS; i++)
        x.ne[i] = i < t->n_dims ? t->dims[i] : 1;
    x.nb[1] = vr_gg_row_size((vr_dtype)t->dtype, x.ne[0]);
    x.nb[2] = vr_mul_sat(x.nb[1], x.ne[1]);
    x.nb[3] = vr_mul_sat(x.nb[2], x.ne[2]);
    return vr_round_up(vr_gg_alloc_size(b, &x), b->alignment);
}

static void add_weight(vr_clip_sizes *out, const vr_gg_buft *b, const vr_tensor *t)
{
    out->weights = vr_add_sat(out->weights, taken(b, t));
    out->elements = vr_add_sat(out->elements, t->elements);
    out->stored = vr_add_sat(out->stored, vr_sub_floor(t->end, t->begin));
    out->tensors++;
}

static void add_weights(vr_clip_sizes *out, const vr_clip *c, const vr_gg_buft *b)
{
    const vram_checkpoint *ck = c->model->checkpoint;
    const vr_clip_tower *t = &c->tower;
    out->listed = t->kind != NULL && !c->hears && !c->speaks;
    for (size_t i = 0; i < ck->n_tensors && !out->listed; i++)
        add_weight(out, b, &ck->tensors[i]);
    for (uint64_t il = 0; out->listed && il <= t->n_layer; il++) {
        for (size_t i = 0; i < t->layers[il].n; i++)
            add_weight(out, b, &ck->tensors[t->layers[il].weights[i].tensor]);
    }
}

/* ---- the whole ---- */

vram_status vr_clip_measure(vr_clip_sizes *out, const vr_clip *c, const vr_clip_params *p, vr_arena *a)
{
    machine x;
    set_up(&x, p);
    *out = (vr_clip_sizes){ .side = c->sees ? first_side(&c->tower, p) : 0 };
    add_weights(out, c, &x.m.bufts[x.buft]);
    out->why = cannot(c, out);
    return out->why == NULL ? reserve(out, c, p, a) : VRAM_OK;
}
