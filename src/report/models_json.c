/* SPDX-License-Identifier: MIT
 *
 * `vram models --json`: schema vram.models/1. What a row does not tell is null.
 */
#include "report/models_report.h"

static void put_aliases(vr_json_out *o, const char *aliases)
{
    vr_str rest = vr_str_of(aliases != NULL ? aliases : ""), word;

    vr_json_key(o, "aliases");
    vr_json_open(o, '[');
    while (vr_str_split(&rest, ' ', &word))
        if (word.n != 0)
            vr_json_put_str(o, word);
    vr_json_close(o, ']');
}

static void put_model(vr_json_out *o, const vr_built_in *m)
{
    vr_json_open(o, '{');
    vr_json_kv_text(o, "name", m->row->name);
    vr_json_kv_text(o, "repository", m->row->repo);
    put_aliases(o, m->row->aliases);
    vr_json_kv_text(o, "model_type", m->model_type);
    vr_json_kv_text(o, "quantization", m->quantisation);
    vr_json_kv_known(o, "parameters", m->parameters);
    vr_json_kv_known(o, "checkpoint_bytes", m->weights);
    vr_json_kv_known(o, "max_context", m->max_context);
    vr_json_kv_known(o, "kv_bytes_per_token", m->kv_per_token);
    vr_json_kv_text(o, "not_known", m->not_known);
    vr_json_kv_text(o, "note", m->row->note);
    vr_json_kv_text(o, "source", m->row->source);
    vr_json_close(o, '}');
}

void vr_models_json(vr_report *r, const vr_built_in *models, size_t n)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.models/1");
    vr_json_key(&o, "models");
    vr_json_open(&o, '[');
    for (size_t i = 0; i < n; i++) {
        put_model(&o, &models[i]);
        vr_report_flush(r);
    }
    vr_json_close(&o, ']');
    vr_json_warnings(&o, r->ctx);
    vr_json_end(&o, r);
}
