/* SPDX-License-Identifier: MIT
 *
 * `vram explain --json`: schema vram.explain/1.
 */
#include "report/diagnosis_report.h"

static void put_value(vr_json_out *o, const vr_fact *f)
{
    if (vr_fact_kinds[f->id].unit == VR_UNIT_MICRO)
        vr_json_put_fixed(o, f->value, 1000000, 6);
    else if (f->negative)
        vr_json_put_i64(o, vr_diff(0, f->value));
    else
        vr_json_put_u64(o, f->value);
}

static const char *key_of(vr_report *r, const vr_fact *f)
{
    static const char *const suffix[] = { "_bytes", "_tokens", "", "" };

    return vr_say(r, T(vr_fact_kinds[f->id].name), T(suffix[vr_fact_kinds[f->id].unit]));
}

/* The first of each kind; further processes are in `processes`. */
static void put_facts(vr_report *r, vr_json_out *o, const vr_fact_list *facts)
{
    bool had[VR_FACT_COUNT] = { false };

    vr_json_key(o, "facts");
    vr_json_open(o, '{');
    for (size_t i = 0; i < facts->n; i++) {
        if (had[facts->f[i].id])
            continue;
        had[facts->f[i].id] = true;
        vr_json_key(o, key_of(r, &facts->f[i]));
        put_value(o, &facts->f[i]);
    }
    vr_json_close(o, '}');
}

static void put_evidence(vr_report *r, vr_json_out *o, const struct vram_diagnosis *d, const vr_finding *f)
{
    (void)r;
    vr_json_key(o, "evidence");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_evidence; i++) {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "text", f->evidence[i].text);
        vr_json_kv_text(o, "file", d->found.n_files != 0 ? d->found.files[f->evidence[i].file] : NULL);
        vr_json_kv_known(o, "line", f->evidence[i].line);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_finding(vr_report *r, vr_json_out *o, const struct vram_diagnosis *d, const vr_finding *f)
{
    static const vr_fact_list none = { NULL, 0 };

    vr_json_open(o, '{');
    vr_json_kv_text(o, "memory", vr_memory_words[f->memory].word);
    vr_json_kv_text(o, "phase", vr_phase_words[f->phase].word);
    vr_json_kv_text(o, "cause", vr_cause_words[f->cause].word);
    vr_json_kv_text(o, "sub_cause", f->sub_cause);
    vr_json_kv_text(o, "certainty", vr_certainty_words[f->certainty].word);
    vr_json_kv_text(o, "program", vr_program_words[f->program].word);
    vr_json_kv_text(o, "text", f->event != NULL ? f->event->sign.row->id : NULL);
    vr_json_kv_known(o, "line", f->event != NULL ? f->event->sign.line : 0);
    vr_json_kv_text(o, "summary", f->summary);
    put_evidence(r, o, d, f);
    put_facts(r, o, f->event != NULL ? &f->event->sign.facts : &none);
    vr_json_kv_if(o, "missing_at_least_bytes", f->missing_known, f->missing_at_least);
    vr_json_key(o, "will_not_help");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_futile; i++) {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "what", f->futile[i].what);
        vr_json_kv_text(o, "why", f->futile[i].why);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
    vr_json_key(o, "levers");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_remedies; i++) {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "id", f->remedies[i].id);
        vr_json_kv_text(o, "change", f->remedies[i].change);
        vr_json_kv_text(o, "command", f->remedies[i].command);
        vr_json_kv_text(o, "cost", f->remedies[i].cost);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
    vr_json_close(o, '}');
}

void vr_diagnosis_json(vr_report *r, const struct vram_diagnosis *d)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.explain/1");
    vr_json_key(&o, "diagnoses");
    vr_json_open(&o, '[');
    for (size_t i = 0; i < d->n; i++)
        put_finding(r, &o, d, &d->list[i]);
    vr_json_close(&o, ']');
    vr_json_warnings(&o, d->ctx);
    vr_json_end(&o, r);
}
