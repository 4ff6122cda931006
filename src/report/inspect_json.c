/* SPDX-License-Identifier: MIT
 *
 * `vram inspect --json`: schema vram.inspect/1. `checkpoint_bytes`, `tensors`, `parameters`, `dtypes` are
 * relied on.
 */
#include "report/inspect_report.h"
#include "report/layer_kinds.h"
#include "report/quantised_report.h"

static void put_tally(vr_json_out *o, const vr_tally *t)
{
    vr_json_kv_u64(o, "tensors", t->n);
    vr_json_kv_u64(o, "parameters", t->elements);
    vr_json_kv_u64(o, "bytes", t->bytes);
}

static void put_dtypes(vr_json_out *o, const vr_inspection *x)
{
    vr_json_key(o, "dtypes");
    vr_json_open(o, '{');
    for (size_t i = 0; i < VR_DTYPE_COUNT; i++) {
        if (x->dtype[i].n == 0)
            continue;
        vr_json_key(o, vr_dtype_name((vr_dtype)i));
        vr_json_open(o, '{');
        put_tally(o, &x->dtype[i]);
        vr_json_close(o, '}');
    }
    vr_json_close(o, '}');
}

static void put_files(vr_json_out *o, const vram_checkpoint *ck)
{
    vr_json_key(o, "files");
    vr_json_open(o, '[');
    for (size_t i = 0; i < ck->n_files; i++) {
        const vr_file *f = &ck->files[i];
        vr_json_open(o, '{');
        vr_json_kv_text(o, "name", f->name);
        vr_json_kv_bool(o, "missing", f->missing);
        vr_json_kv_u64(o, "size_bytes", f->size);
        vr_json_kv_u64(o, "header_bytes", f->header_bytes);
        vr_json_kv_u64(o, "tensor_bytes", f->tensor_bytes);
        vr_json_kv_u64(o, "tensors", f->n_tensors);
        vr_json_kv_text(o, "format", vr_file_format(f));
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_left_out(vr_json_out *o, const vram_checkpoint *ck)
{
    vr_json_key(o, "left_out");
    vr_json_open(o, '[');
    for (size_t i = 0; i < ck->n_left_out; i++) {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "name", ck->left_out[i].name);
        vr_json_kv_u64(o, "size_bytes", ck->left_out[i].size);
        vr_json_kv_text(o, "why", ck->left_out[i].why);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

/* null unless the model consists of several. */
static void put_parts(vr_json_out *o, const vr_inspection *x)
{
    const vram_checkpoint *ck = x->model->checkpoint;

    vr_json_key(o, "parts");
    if (ck->n_parts == 0) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '[');
    for (size_t i = 0; i < ck->n_parts; i++) {
        const vr_part *p = &ck->parts[i];
        vr_json_open(o, '{');
        vr_json_kv_text(o, "name", p->name);
        vr_json_kv_text(o, "class", p->class_name);
        vr_json_kv_text(o, "variant", p->variant);
        vr_json_kv_bool(o, "missing", p->missing);
        vr_json_kv_u64(o, "tensors", p->n_tensors);
        vr_json_kv_u64(o, "parameters", x->in_part[i]);
        vr_json_kv_u64(o, "bytes", p->bytes);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_adapter(vr_json_out *o, const vr_adapter *a)
{
    vr_json_key(o, "adapter");
    if (a == NULL) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '{');
    vr_json_kv_text(o, "type", a->type);
    vr_json_kv_text(o, "base", a->base);
    vr_json_kv_known(o, "rank", a->rank);
    vr_json_kv_text(o, "alpha", a->alpha);
    vr_json_kv_text(o, "targets", a->targets);
    vr_json_kv_u64(o, "modules", a->n_modules);
    vr_json_close(o, '}');
}

/* Of the first file that is there. */
static const char *format_of(const vram_checkpoint *ck)
{
    const char *name = NULL;
    for (size_t i = 0; i < ck->n_files && name == NULL; i++)
        name = vr_file_format(&ck->files[i]);
    return name;
}

static void put_missing(vr_json_out *o, const vram_checkpoint *ck)
{
    vr_json_kv_bool(o, "incomplete", ck->incomplete);
    vr_json_kv_known(o, "promised_bytes", ck->promised_bytes);
    vr_json_kv_u64(o, "missing_tensors", ck->n_missing_tensors);
    vr_json_key(o, "missing_files");
    vr_json_open(o, '[');
    for (size_t i = 0; i < ck->n_files; i++)
        if (ck->files[i].missing)
            vr_json_put_text(o, ck->files[i].name);
    vr_json_close(o, ']');
}

static void put_layer(vr_json_out *o, const vr_layer *l)
{
    vr_json_kv_known(o, "window", l->window);
    vr_json_kv_u64(o, "key_elements", l->key_elements);
    vr_json_kv_u64(o, "value_elements", l->value_elements);
    vr_json_kv_u64(o, "state_bytes", l->state_bytes);
}

static void put_component(vr_json_out *o, const vr_inspection *x, const vr_component *c)
{
    vr_json_open(o, '{');
    if (c->layer == UINT64_MAX) {
        vr_json_kv_text(o, "name", c->name);
    } else {
        vr_json_kv_u64(o, "layer", c->layer);
        bool known = x->model->layers != NULL && c->layer < x->model->n_layers;
        vr_json_kv_text(o, "attention", known ? vr_attention_name(&x->model->layers[c->layer]) : NULL);
        if (x->model->shape_known && c->layer < x->model->n_layers)
            put_layer(o, &x->model->layers[c->layer]);
    }
    vr_json_kv_u64(o, "tensors", c->n_tensors);
    vr_json_kv_u64(o, "parameters", c->elements);
    vr_json_kv_u64(o, "bytes", c->bytes);
    vr_json_close(o, '}');
}

static void put_components(vr_json_out *o, const vr_inspection *x, const char *key, bool layers)
{
    vr_json_key(o, key);
    vr_json_open(o, '[');
    for (size_t i = 0; i < x->n_components; i++)
        if ((x->components[i].layer != UINT64_MAX) == layers)
            put_component(o, x, &x->components[i]);
    vr_json_close(o, ']');
}

static void put_model(vr_json_out *o, const vram_model *m)
{
    vr_json_key(o, "model");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "name", m->checkpoint->name);
    vr_json_kv_text(o, "read_from", m->checkpoint->read_from);
    vr_json_kv_text(o, "evidence", vr_evidence(m));
    vr_json_kv_text(o, "architecture", m->architecture);
    vr_json_kv_text(o, "model_type", m->model_type);
    vr_json_kv_bool(o, "understood", m->family != NULL);
    vr_json_kv_text(o, "not_understood", m->family == NULL ? m->not_understood : NULL);
    vr_json_kv_text(o, "dtype", m->dtype != VR_DTYPE_NONE ? vr_dtype_name(m->dtype) : NULL);
    vr_json_kv_known(o, "layers", m->n_layers);
    vr_json_kv_known(o, "hidden", m->hidden);
    vr_json_kv_known(o, "heads", m->heads);
    vr_json_kv_known(o, "kv_heads", m->kv_heads);
    vr_json_kv_known(o, "head_dim", m->head_dim);
    vr_json_kv_known(o, "ffn", m->ffn);
    vr_json_kv_known(o, "vocab", m->vocab);
    vr_json_kv_known(o, "max_context", m->max_context);
    vr_json_kv_known(o, "experts", m->experts);
    vr_json_kv_known(o, "experts_used", m->experts_used);
    vr_json_kv_known(o, "expert_ffn", m->expert_ffn);
    vr_json_kv_known(o, "ahead_layers", m->ahead.layers);
    vr_json_kv_known(o, "ahead_parameters", m->ahead.parameters);
    vr_json_kv_text(o, "file_type", m->file_type);
    vr_json_kv_bool(o, "shape_known", m->family != NULL || m->shape_known);
    vr_json_kv_bool(o, "tied", m->tied && m->structure != VR_ENCODER);
    vr_json_close(o, '}');
}

static void put_token(vr_json_out *o, const vr_inspection *x)
{
    vr_json_kv_if(o, "kv_bytes_per_token", x->token_known, x->kv_per_token);
    vr_json_kv_if(o, "logits_bytes_per_token", x->token_known, x->logits_per_token);
    vr_json_kv_u64(o, "state_bytes_per_sequence", x->model->state_bytes);
}

static void put_tensor(vr_json_out *o, const vram_checkpoint *ck, const vr_tensor *t)
{
    vr_json_open(o, '{');
    vr_json_key(o, "name");
    vr_json_put_str(o, t->name);
    vr_json_kv_text(o, "dtype", vr_dtype_name((vr_dtype)t->dtype));
    vr_json_key(o, "shape");
    vr_json_open(o, '[');
    for (size_t i = 0; i < t->n_dims; i++)
        vr_json_put_u64(o, t->dims[i]);
    vr_json_close(o, ']');
    vr_json_kv_u64(o, "bytes", t->end - t->begin);
    vr_json_kv_u64(o, "offset", t->begin);
    vr_json_kv_text(o, "file", ck->files[t->file].name);
    vr_json_close(o, '}');
}

static void put_tensors(vr_json_out *o, vr_report *r, const vram_checkpoint *ck)
{
    vr_json_key(o, "tensor_list");
    vr_json_open(o, '[');
    for (size_t i = 0; i < ck->n_tensors; i++) {
        put_tensor(o, ck, &ck->tensors[i]);
        vr_report_flush(r);
    }
    vr_json_close(o, ']');
}

/* ---- what stands in the file itself ---- */

#define LISTED 64 /* numbers of an array */

static void put_value(vr_json_out *o, const vr_metadata *m, const vr_meta *v, uint64_t at)
{
    uint8_t type = v->type == VR_META_ARRAY ? v->element : v->type;
    uint64_t whole = 0;
    int64_t negative = 0;
    double floating = 0;

    if (vr_meta_double(m, v, at, &floating))
        vr_json_put_double(o, floating, type == VR_META_F32);
    else if (vr_meta_u64(m, v, at, &whole) && type == VR_META_BOOL)
        vr_json_put_bool(o, whole != 0);
    else if (vr_meta_u64(m, v, at, &whole))
        vr_json_put_u64(o, whole);
    else if (vr_meta_i64(m, v, at, &negative))
        vr_json_put_i64(o, negative);
    else
        vr_json_put_str(o, v->bytes);
}

static void put_entry(vr_json_out *o, const vr_metadata *m, const vr_meta *v)
{
    if (v->type != VR_META_ARRAY) {
        put_value(o, m, v, 0);
    } else if (v->kept && v->count <= LISTED) {
        vr_json_open(o, '[');
        for (uint64_t i = 0; i < v->count; i++)
            put_value(o, m, v, i);
        vr_json_close(o, ']');
    } else {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "type", vr_meta_name(v->element));
        vr_json_kv_u64(o, "count", v->count);
        vr_json_close(o, '}');
    }
}

static void put_metadata(vr_json_out *o, vr_report *r, const vr_metadata *m)
{
    vr_json_key(o, "metadata");
    vr_json_open(o, '{');
    for (size_t i = 0; m != NULL && i < m->n; i++) {
        vr_json_key_str(o, m->list[i].key);
        put_entry(o, m, &m->list[i]);
        vr_report_flush(r);
    }
    vr_json_close(o, '}');
}

void vr_inspect_json(vr_report *r, const vr_inspection *x)
{
    const vram_checkpoint *ck = x->model->checkpoint;
    vr_json_out o;

    vr_json_start(&o, r, "vram.inspect/1");
    put_model(&o, x->model);
    vr_json_checkpoint_bytes(&o, x->model);
    vr_json_kv_u64(&o, "tensors", ck->n_tensors);
    vr_json_parameters(&o, x->model);
    vr_json_kv_text(&o, "format", format_of(ck));
    vr_json_quantization(&o, x->model);
    put_dtypes(&o, x);
    put_missing(&o, ck);
    put_files(&o, ck);
    put_left_out(&o, ck);
    put_parts(&o, x);
    put_adapter(&o, x->model->adapter);
    put_components(&o, x, "components", false);
    put_components(&o, x, "layers", true);
    vr_json_layer_kinds(&o, x->model, &r->arena);
    put_token(&o, x);
    put_metadata(&o, r, ck->metadata);
    if (r->style->tensors)
        put_tensors(&o, r, ck);
    vr_json_warnings(&o, ck->ctx);
    vr_json_end(&o, r);
}
