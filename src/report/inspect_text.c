/* SPDX-License-Identifier: MIT
 *
 * `vram inspect` on a screen: what is in the checkpoint, where its bytes lie, what one token costs.
 */
#include "report/inspect_report.h"
#include "report/layer_kinds.h"
#include "report/quantised_report.h"

#define INDENT 13
#define NAME_WIDTH 16
#define GIB_WIDTH 8
#define BAR_MOST 60
#define NOTE_WIDTH 24
#define LEFT_OUT_KINDS 6

static const char *base_name(vr_report *r, const char *path)
{
    vr_str s = vr_str_of(path);
    size_t from;

    while (s.n > 1 && s.s[s.n - 1] == '/')
        s.n--;
    for (from = s.n; from > 0 && s.s[from - 1] != '/'; from--)
        ;
    return vr_say(r, S(((vr_str){ s.s + from, s.n - from })));
}

static const char *gib_with_unit(vr_report *r, uint64_t bytes)
{
    return bytes < VR_GIB / 10 ? vr_say(r, BYTES(bytes)) : vr_say(r, GIB(bytes), T(" GiB"));
}

/* Which file it is, where the name of the place does not say so. */
static void put_file(vr_report *r, const vram_checkpoint *ck)
{
    static const char *const usual[] = { "model.safetensors", "pytorch_model.bin",
                                         "adapter_model.safetensors" };

    if (ck->n_files != 1 || vr_str_starts(vr_str_of(ck->name), "ollama:") ||
        vr_str_is(vr_str_of(base_name(r, ck->name)), base_name(r, ck->files[0].name)))
        return;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (vr_str_is(vr_str_of(ck->files[0].name), usual[i]))
            return;
    vr_para(r, VR_INK_BOLD, "file", INDENT, ck->files[0].name);
}

static const char *files_words(vr_report *r, const vram_model *m)
{
    const vram_checkpoint *ck = m->checkpoint;
    const char *tensors = vr_count(r, ck->n_tensors, "tensor", "tensors");

    if (m->weights_unknown != NULL)
        return "by its configuration alone";
    return vr_say(
        r, T(tensors), T(vr_dot(r)),
        T(ck->config_only ? "by its configuration alone" : vr_count(r, ck->n_files, "file", "files")));
}

static void put_head(vr_report *r, const vr_inspection *x)
{
    const vram_model *m = x->model;
    const vram_checkpoint *ck = m->checkpoint;
    const char *arch = m->architecture != NULL ? m->architecture : "architecture not known";
    const char *type = m->file_type != NULL ? vr_say(r, T(" "), T(m->file_type)) : "";
    const char *parameters = m->packing.uncountable ? "parameters not known"
                                                    : vr_count(r, m->parameters, "parameter", "parameters");

    vr_para(r, VR_INK_BOLD, vr_say(r, T(base_name(r, ck->name)), T("  ")), 0,
            vr_say(r, T(arch), T(type), T(vr_dot(r)), T(parameters), T(vr_dot(r)), T(files_words(r, m))));
    put_file(r, ck);
    if (ck->read_from != NULL)
        vr_para(r, VR_INK_PLAIN, "", 0, vr_say(r, T("read from "), T(ck->read_from)));
}

/* "3 files, 13.50 GB" */
static const char *left_out_words(vr_report *r, uint64_t n, uint64_t bytes)
{
    const char *size = vr_decimal(r, bytes);
    return n == 1 ? size : vr_say(r, T(vr_count(r, n, "file", "files")), T(", "), T(size));
}

static void put_left_out(vr_report *r, const vr_inspection *x)
{
    const vram_checkpoint *ck = x->model->checkpoint;
    const char *text = "";

    for (size_t i = 0; i < x->n_left_out; i++) {
        const vr_left_out_kind *k = &x->left_out[i];
        if (i == LEFT_OUT_KINDS && !r->style->verbose) {
            text = vr_say(r, T(text), T(vr_dot(r)), T("and more: -v"));
            break;
        }
        text = vr_say(r, T(text), T(i != 0 ? vr_dot(r) : ""), T(k->why), T(" ("),
                      T(left_out_words(r, k->n, k->bytes)), T(")"));
    }
    if (x->n_left_out != 0)
        vr_para(r, VR_INK_FAINT, "left out", INDENT, text);
    for (size_t i = 0; r->style->verbose && i < ck->n_left_out; i++) {
        const vr_left_out *f = &ck->left_out[i];
        vr_para(r, VR_INK_FAINT, "", INDENT,
                vr_say(r, T(f->name), T("  "), T(vr_decimal(r, f->size)), T("  "), T(f->why)));
        vr_report_flush(r);
    }
}

static void put_adapter(vr_report *r, const vr_adapter *a)
{
    const char *text;

    if (a == NULL)
        return;
    text = vr_say(r, T(a->type != NULL ? a->type : "an"), T(" adapter of "),
                  T(a->base != NULL ? a->base : "a model that it does not name"));
    if (a->rank != 0)
        text = vr_say(r, T(text), T(", rank "), U(a->rank));
    if (a->alpha != NULL)
        text = vr_say(r, T(text), T(", alpha "), T(a->alpha));
    if (a->targets != NULL)
        text = vr_say(r, T(text), T(", on "), T(a->targets));
    if (a->n_modules != 0)
        text = vr_say(r, T(text), T(vr_dot(r)), T(vr_count(r, a->n_modules, "module", "modules")));
    vr_para(r, VR_INK_BOLD, "adapter", INDENT, text);
}

static void put_missing(vr_report *r, const vram_checkpoint *ck)
{
    const char *names = "";
    uint64_t n = 0;

    if (!ck->incomplete)
        return;
    for (size_t i = 0; i < ck->n_files; i++) {
        if (!ck->files[i].missing)
            continue;
        if (++n <= 3 || r->style->verbose)
            names = vr_say(r, T(names), T(n > 1 ? ", " : ""), T(ck->files[i].name));
    }
    if (n > 3 && !r->style->verbose)
        names = vr_say(r, T(names), T(" and "), U(n - 3), T(" more"));
    if (ck->n_missing_tensors != 0) /* known from an index only */
        names =
            vr_say(r, T(names), T(" ("), T(vr_count(r, ck->n_missing_tensors, "tensor", "tensors")), T(")"));
    vr_para(r, VR_INK_CARE, "INCOMPLETE", INDENT,
            vr_say(r, T(vr_plural(n, "a file is missing: ", "files are missing: ")), T(names)));
    if (ck->promised_bytes != 0)
        vr_para(r, VR_INK_CARE, "", INDENT,
                vr_say(r, T("the index promises "), GROUPED(ck->promised_bytes), T(" bytes = "),
                       GIB(ck->promised_bytes), T(" GiB in all; below is what is here")));
}

static void put_row(vr_report *r, const char *name, uint64_t begin, uint64_t bytes, const vr_scale *s,
                    const char *note)
{
    size_t at = 2 + NAME_WIDTH + GIB_WIDTH + 6 + (vr_terminal(r) ? s->cells + s->n_edges + 2 : 0);

    vr_put(&r->buf, T(vr_terminal(r) ? "  " : ""));
    vr_left(r, name, NAME_WIDTH);
    vr_right(r, vr_gib(r, bytes), GIB_WIDTH);
    vr_put(&r->buf, T(" GiB  "));
    if (vr_terminal(r)) {
        vr_bar(r, s, begin, vr_add_sat(begin, bytes));
        vr_put(&r->buf, T(*note != '\0' ? "  " : ""));
    }
    vr_wrap(r, at, at, note);
}

static vr_scale scale_of(const vr_report *r, uint64_t total)
{
    size_t taken = 2 + NAME_WIDTH + GIB_WIDTH + 6 + 2 + NOTE_WIDTH, columns = r->style->columns;
    size_t room = columns > taken + 8 ? columns - taken : 8;

    return vr_scale_of(room < BAR_MOST ? room : BAR_MOST, total, NULL, 0);
}

static void put_dtypes(vr_report *r, const vr_inspection *x, const vr_scale *s)
{
    uint64_t begin = 0;

    for (size_t i = 0; i < VR_DTYPE_COUNT; i++) {
        const vr_tally *t = &x->dtype[i];
        if (t->n == 0)
            continue;
        put_row(r, vr_dtype_name((vr_dtype)i), begin, t->bytes, s, vr_count(r, t->n, "tensor", "tensors"));
        begin = vr_add_sat(begin, t->bytes);
    }
}

static const char *layers_note(vr_report *r, const vr_inspection *x)
{
    uint64_t low = UINT64_MAX, high = 0;

    for (size_t i = 0; i < x->n_components; i++) {
        const vr_component *c = &x->components[i];
        if (c->layer == UINT64_MAX)
            continue;
        low = c->bytes < low ? c->bytes : low;
        high = c->bytes > high ? c->bytes : high;
    }
    if (x->layers_alike)
        return vr_say(r, T(gib_with_unit(r, low)), T(" each"));
    if (high >= VR_GIB) /* one unit for both */
        return vr_say(r, T(vr_gib(r, low)), T(" to "), GIB(high), T(" GiB each"));
    if (high >= VR_MIB)
        return vr_say(r, FIXED(low, VR_MIB, 2), T(" to "), BYTES(high), T(" each"));
    return vr_say(r, BYTES(low), T(" to "), BYTES(high), T(" each"));
}

static const char *layer_note(vr_report *r, const vram_model *m, uint64_t layer)
{
    if (m->layers == NULL || layer >= m->n_layers)
        return "";
    const vr_layer *l = &m->layers[layer];
    if (l->attention == VR_ATTENTION_SLIDING)
        return vr_say(r, T("last "), T(vr_count(r, l->window, "token", "tokens")));
    if (l->attention == VR_ATTENTION_NONE || l->attention == VR_ATTENTION_RECURRENT)
        return vr_say(r,
                      T(vr_str_is(vr_str_of(vr_attention_name(l)), "none") ? "no attention" : "recurrent"));
    return vr_say(r, T(vr_attention_name(l)), T(" attention"), T(l->state_bytes != 0 ? ", recurrent" : ""));
}

/* Of a part of a pipeline: the type of its weights. */
static const char *part_note(vr_report *r, const vram_checkpoint *ck, const vr_component *c)
{
    return ck->n_parts != 0 ? vr_say(r, T(vr_dtype_name(c->dtype)), T(", "),
                                     T(vr_count(r, c->n_tensors, "tensor", "tensors")))
                            : "";
}

/* Layers as one row, each of its own with -v; the place in the list is that of the first layer. */
static void put_components(vr_report *r, const vr_inspection *x, const vr_scale *s)
{
    uint64_t begin = 0;
    bool layers_done = false;

    for (size_t i = 0; i < x->n_components; i++) {
        const vr_component *c = &x->components[i];
        bool layer = c->layer != UINT64_MAX;
        if (layer && !r->style->verbose && !layers_done) {
            const char *name = vr_count(r, x->layers.n, "layer", "layers");
            put_row(r, name, begin, x->layers.bytes, s, layers_note(r, x));
        } else if (!layer || r->style->verbose) {
            put_row(r, c->name, begin, c->bytes, s,
                    layer ? layer_note(r, x->model, c->layer) : part_note(r, x->model->checkpoint, c));
        }
        layers_done = layers_done || layer;
        begin = vr_add_sat(begin, c->bytes);
        vr_report_flush(r);
    }
}

static void put_not_known(vr_report *r, const vram_model *m)
{
    const char *why = m->not_understood != NULL ? m->not_understood : "what this model computes is not known";

    vr_para(r, VR_INK_CARE, "not known", INDENT,
            vr_say(r, T(why),
                   T(m->weights_unknown != NULL ? "" : "; its weights are counted, nothing else can be")));
}

static const char *heads_words(vr_report *r, const vram_model *m)
{
    if (m->heads == 0)
        return "";
    return vr_say(r, T(vr_dot(r)), T(vr_count(r, m->heads, "head", "heads")), T(" of "), U(m->head_dim),
                  m->kv_heads != 0 ? T(", ") : T(""), m->kv_heads != 0 ? U(m->kv_heads) : T(""),
                  T(m->kv_heads != 0 ? " for keys and values" : ""));
}

static const char *experts_words(vr_report *r, const vram_model *m)
{
    if (m->experts == 0)
        return "";
    return vr_say(r, T(vr_dot(r)), T(vr_count(r, m->experts, "expert", "experts")),
                  T(m->experts_used != 0 ? ", " : ""), m->experts_used != 0 ? U(m->experts_used) : T(""),
                  T(m->experts_used != 0 ? " for a token" : ""));
}

/* How many layers have attention, slide, are recurrent; where they are not all alike. */
static const char *kinds_words(vr_report *r, const vram_model *m)
{
    uint64_t full = 0, sliding = 0, recurrent = 0;

    if (m->family != NULL)
        return "";
    for (uint64_t i = 0; i < m->n_layers; i++) {
        full += m->layers[i].attention == VR_ATTENTION_FULL;
        sliding += m->layers[i].attention == VR_ATTENTION_SLIDING;
        recurrent += m->layers[i].state_bytes != 0;
    }
    if (full == m->n_layers && recurrent == 0)
        return "";
    return vr_say(r, T(" ("), GROUPED(full), T(" with full attention"), T(sliding != 0 ? ", " : ""),
                  sliding != 0 ? GROUPED(sliding) : T(""), T(sliding != 0 ? " sliding" : ""),
                  T(recurrent != 0 ? ", " : ""), recurrent != 0 ? GROUPED(recurrent) : T(""),
                  T(recurrent != 0 ? " recurrent" : ""), T(")"));
}

static void put_shape(vr_report *r, const vram_model *m)
{
    const char *most = "", *vocabulary = "";
    bool plain = m->family == NULL || vr_layers_plain(m);

    if (m->family == NULL && !m->shape_known) {
        put_not_known(r, m);
        return;
    }
    if (m->max_context != 0)
        most = vr_say(r, T(vr_dot(r)), T("up to "), T(vr_count(r, m->max_context, "token", "tokens")));
    if (m->vocab != 0)
        vocabulary = vr_say(r, T(vr_dot(r)), T("vocabulary "), GROUPED(m->vocab),
                            T(m->tied && m->structure != VR_ENCODER ? ", head tied" : ""));
    vr_para(r, VR_INK_BOLD, "shape", INDENT,
            vr_say(r, T(vr_count(r, m->n_layers, "layer", "layers")), T(" of width "), GROUPED(m->hidden),
                   T(kinds_words(r, m)), T(plain ? heads_words(r, m) : ""),
                   T(plain ? experts_words(r, m) : ""), T(vocabulary), T(most)));
    vr_say_layer_kinds(r, m, INDENT);
}

/* "56 KiB", "1.25 MiB", "1 MiB" */
static const char *size_words(vr_report *r, uint64_t bytes)
{
    if (bytes >= VR_MIB && bytes < VR_GIB && bytes % VR_MIB == 0)
        return vr_say(r, U(bytes / VR_MIB), T(" MiB"));
    if (bytes >= VR_KIB && bytes < VR_MIB && bytes % VR_KIB == 0)
        return vr_say(r, U(bytes / VR_KIB), T(" KiB"));
    return vr_say(r, BYTES(bytes));
}

/* What engines keep that cache keys and values of all heads: transformers up to 5.14. */
static const char *expanded_words(vr_report *r, const vr_inspection *x)
{
    const vram_model *m = x->model;
    uint64_t bytes = 0;
    bool latent = false;
    for (uint64_t i = 0; m->layers != NULL && m->family != NULL && i < m->n_layers; i++) {
        latent = latent || m->layers[i].attention == VR_ATTENTION_LATENT;
        bytes =
            vr_add_sat(bytes, vr_layer_kv_elements(&m->layers[i]) + vr_layer_index_elements(&m->layers[i]));
    }
    if (!latent)
        return "";
    bytes = vr_mul_div(bytes, vr_dtype_bits(x->token_dtype), 8);
    return vr_say(r, T(" as short vectors, "), T(size_words(r, bytes)),
                  T(" as keys and values of all heads"));
}

/* No file is there that would show them. */
static void put_ahead(vr_report *r, const vram_model *m)
{
    if (m->ahead.layers == 0 || !m->checkpoint->config_only)
        return;
    vr_para(r, VR_INK_BOLD, "further", INDENT,
            vr_say(r, T(vr_count(r, m->ahead.layers, "layer", "layers")),
                   T(m->ahead.layers == 1 ? " predicts" : " predict"), T(" further tokens (MTP): "),
                   GROUPED(m->ahead.parameters),
                   T(" parameters more in published files; servers load them to draft tokens, transformers "
                     "leaves them out")));
}

static void put_costs(vr_report *r, const vr_inspection *x)
{
    const char *dtype = vr_dtype_name(x->token_dtype);
    const vram_checkpoint *ck = x->model->checkpoint;
    bool two = x->logits_dtype != x->token_dtype; /* llama.cpp's */

    if (x->token_known && x->model->structure != VR_ENCODER)
        vr_para(r, VR_INK_BOLD, "one token", INDENT,
                vr_say(r, T(size_words(r, x->kv_per_token)), T(" in the KV cache"), T(two ? " (" : ""),
                       T(two ? dtype : ""), T(two ? ")" : ""), T(expanded_words(r, x)), T(vr_dot(r)),
                       T(size_words(r, x->logits_per_token)), T(" of logits ("),
                       T(vr_dtype_name(x->logits_dtype)), T(")")));
    if (x->model->state_bytes != 0)
        vr_para(r, VR_INK_BOLD, "one sequence", INDENT,
                vr_say(r, T(size_words(r, x->model->state_bytes)),
                       T(x->model->gguf ? " of recurrent state (F32)"
                                        : " of recurrent state (F32, its convolution 16 bits)"),
                       T(", however long it is")));
    if (x->header_bytes != 0)
        vr_para(r, VR_INK_FAINT, "read", INDENT,
                vr_say(r, T(vr_decimal(r, x->header_bytes)), T(" of headers instead of "),
                       T(vr_decimal(r, ck->tensor_bytes))));
}

static const char *shape_of(vr_report *r, const vr_tensor *t)
{
    const char *shape = "[";

    for (size_t i = 0; i < t->n_dims; i++)
        shape = vr_say(r, T(shape), T(i != 0 ? ", " : ""), U(t->dims[i]));
    return vr_say(r, T(shape), T("]"));
}

/* Name last but one column free: "bytes dtype shape name" lines up without a pass for widths. */
static void put_tensors(vr_report *r, const vram_checkpoint *ck)
{
    vr_arena keep = r->arena;

    vr_arena_init(&r->arena, r->ctx); /* emptied after each line: there may be a hundred thousand */
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        vr_right(r, vr_say(r, U(t->end - t->begin)), 14);
        vr_put(&r->buf, T("  "));
        vr_left(r, vr_dtype_name((vr_dtype)t->dtype), 8);
        vr_put(&r->buf, T("  "));
        vr_left(r, shape_of(r, t), 18);
        vr_put(&r->buf, T("  "));
        vr_put_clean(r, t->name);
        vr_put(&r->buf, T("\n"));
        vr_arena_reset(&r->arena);
        vr_report_flush(r);
    }
    vr_arena_free(&r->arena);
    r->arena = keep;
}

static void put_weights(vr_report *r, const vram_model *m)
{
    uint64_t bytes = m->checkpoint->tensor_bytes;
    const char *known = vr_say(r, GROUPED(bytes), T(" bytes = "), T(gib_with_unit(r, bytes)), T(" ("),
                               T(vr_decimal(r, bytes)), T(")"));

    if (m->weights_unknown != NULL)
        known = m->family != NULL ? vr_say(r, T("not known: "), T(m->weights_unknown)) : "not known";
    vr_para(r, VR_INK_BOLD, "weights", INDENT, known);
}

static void put_sums(vr_report *r, const vr_inspection *x)
{
    vr_scale s = scale_of(r, x->model->checkpoint->tensor_bytes);

    put_dtypes(r, x, &s);
    vr_inked(r, VR_INK_BOLD, "by component");
    vr_put(&r->buf, T("\n"));
    put_components(r, x, &s);
}

void vr_inspect_text(vr_report *r, const vr_inspection *x)
{
    const vram_checkpoint *ck = x->model->checkpoint;

    put_head(r, x);
    put_missing(r, ck);
    put_weights(r, x->model);
    vr_say_quantised(r, x->model, INDENT);
    if (x->model->weights_unknown == NULL)
        put_sums(r, x);
    put_adapter(r, x->model->adapter);
    put_shape(r, x->model);
    put_ahead(r, x->model);
    put_costs(r, x);
    put_left_out(r, x);
    if (r->style->tensors)
        put_tensors(r, ck);
}
