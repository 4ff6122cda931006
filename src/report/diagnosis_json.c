/* SPDX-License-Identifier: MIT
 *
 * `vram explain --json`: schema vram.explain/1. docs/json.md says what the keys mean.
 */
#include "report/diagnosis_report.h"

/* ---- figures ---- */

static void put_value(vr_json_out *o, const vr_fact *f)
{
    bool whole = vr_fact_kinds[f->id].unit != VR_UNIT_MICRO;

    if (f->negative && whole)
        vr_json_put_i64(o, vr_diff(0, f->value));
    else if (f->negative)
        vr_json_put_null(o); /* a share below 0 is none */
    else if (whole)
        vr_json_put_u64(o, f->value);
    else
        vr_json_put_fixed(o, f->value, 1000000, 6);
}

static const char *key_of(vr_report *r, const vr_fact *f)
{
    static const char *const suffix[] = {
        [VR_UNIT_BYTES] = "_bytes", [VR_UNIT_TOKENS] = "_tokens", [VR_UNIT_COUNT] = "", [VR_UNIT_MICRO] = ""
    };

    return vr_say(r, T(vr_fact_kinds[f->id].name), T(suffix[vr_fact_kinds[f->id].unit]));
}

/* The first of each kind; had: kinds that were written. A version is no figure: 2.10 would be 2.1. */
static void put_facts(vr_report *r, vr_json_out *o, const vr_fact_list *facts, bool *had)
{
    for (size_t i = 0; i < facts->n; i++) {
        if (had[facts->f[i].id])
            continue;
        had[facts->f[i].id] = true;
        vr_json_key(o, key_of(r, &facts->f[i]));
        put_value(o, &facts->f[i]);
    }
}

static void put_own_facts(vr_report *r, vr_json_out *o, const vr_finding *f)
{
    bool had[VR_FACT_COUNT] = { [VR_FACT_VERSION] = true };

    vr_json_key(o, "facts");
    vr_json_open(o, '{');
    if (f->event != NULL)
        put_facts(r, o, &f->event->sign.facts, had);
    vr_json_close(o, '}');
}

/* Of lines beside the messages: of each kind the last, which is the nearest to the failure. */
static void put_log_facts(vr_report *r, vr_json_out *o, const struct vram_diagnosis *d)
{
    bool had[VR_FACT_COUNT] = { [VR_FACT_VERSION] = true };

    vr_json_key(o, "log_facts");
    vr_json_open(o, '{');
    for (size_t i = d->found.n_seen; i > 0; i--)
        put_facts(r, o, &d->found.seen[i - 1].facts, had);
    vr_json_close(o, '}');
}

static void put_process(vr_json_out *o, const vr_fact *id, const vr_fact *bytes)
{
    vr_json_open(o, '{');
    vr_json_kv_if(o, "process_id", id != NULL, id != NULL ? id->value : 0);
    vr_json_kv_u64(o, "bytes", bytes->value);
    vr_json_close(o, '}');
}

/* The list has numbers and sizes in turn. */
static void put_processes(vr_json_out *o, const vr_finding *f)
{
    const vr_fact *id = NULL;

    vr_json_key(o, "processes");
    vr_json_open(o, '[');
    for (size_t i = 0; f->event != NULL && i < f->event->sign.facts.n; i++) {
        const vr_fact *fact = &f->event->sign.facts.f[i];
        if (fact->id == VR_FACT_PROCESS_ID)
            id = fact;
        if (fact->id != VR_FACT_PROCESS)
            continue;
        put_process(o, id, fact);
        id = NULL;
    }
    vr_json_close(o, ']');
}

/* ---- the rest of a diagnosis ---- */

static const char *file_of(const struct vram_diagnosis *d, uint32_t file)
{
    const char *name = file < d->found.n_files ? d->found.files[file] : NULL;

    return name != NULL && *name != '\0' ? name : NULL;
}

static void put_evidence(vr_json_out *o, const struct vram_diagnosis *d, const vr_finding *f)
{
    vr_json_key(o, "evidence");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_evidence; i++) {
        const vr_reason *e = &f->evidence[i];
        vr_json_open(o, '{');
        vr_json_kv_text(o, "text", e->text);
        vr_json_kv_text(o, "file", e->line != 0 ? file_of(d, e->file) : NULL);
        vr_json_kv_known(o, "line", e->line);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_shares(vr_json_out *o, const vr_shares *s)
{
    vr_json_key(o, "shares");
    if (!s->known) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '{');
    vr_json_kv_u64(o, "total_bytes", s->total);
    vr_json_kv_u64(o, "allocated_bytes", s->allocated);
    vr_json_kv_u64(o, "idle_bytes", s->idle);
    vr_json_kv_i64(o, "outside_bytes", s->outside);
    vr_json_kv_if(o, "own_outside_bytes", s->outside_is_split, s->own_outside);
    vr_json_kv_if(o, "others_bytes", s->outside_is_split, s->others);
    vr_json_kv_u64(o, "free_bytes", s->left);
    vr_json_close(o, '}');
}

static void put_futile(vr_json_out *o, const vr_finding *f)
{
    vr_json_key(o, "will_not_help");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_futile; i++) {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "what", f->futile[i].what);
        vr_json_kv_text(o, "why", f->futile[i].why);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_levers(vr_json_out *o, const vr_finding *f)
{
    vr_json_key(o, "levers");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_remedies; i++) {
        const vr_remedy *m = &f->remedies[i];
        vr_json_open(o, '{');
        vr_json_kv_text(o, "id", m->id);
        vr_json_kv_text(o, "change", m->change);
        vr_json_kv_text(o, "command", m->command);
        vr_json_kv_bool(o, "typed", m->command != NULL && !m->is_done);
        vr_json_kv_text(o, "cost", m->cost);
        vr_json_kv_text(o, "gain", m->gain);
        vr_json_kv_if(o, "required_bytes", m->sized, m->needs);
        vr_json_key(o, "fits");
        if (m->sized)
            vr_json_put_bool(o, m->fits);
        else
            vr_json_put_null(o);
        vr_json_kv_u64(o, "rank", i + 1);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_notes(vr_json_out *o, const vr_finding *f)
{
    vr_json_key(o, "notes");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_notes; i++)
        vr_json_put_text(o, f->notes[i]);
    vr_json_close(o, ']');
}

static void put_tell(vr_json_out *o, const vr_finding *f)
{
    vr_json_key(o, "tell");
    if (f->tell == NULL) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '{');
    vr_json_kv_text(o, "command", f->tell);
    vr_json_kv_text(o, "why", f->tell_why);
    vr_json_close(o, '}');
}

static void put_place(vr_json_out *o, const vr_spot *s)
{
    bool loads = s->found && s->to_come != 0;

    vr_json_key(o, "place");
    if (!s->tried) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '{');
    vr_json_kv_bool(o, "found", s->found);
    vr_json_kv_text(o, "label", s->label);
    vr_json_kv_if(o, "places", s->found, s->places);
    vr_json_key(o, "loaded_fraction");
    if (loads)
        vr_json_put_fixed(o, s->loaded_permille, 1000, 3);
    else
        vr_json_put_null(o);
    vr_json_kv_if(o, "to_come_bytes", loads, s->to_come);
    vr_json_kv_if(o, "short_bytes", s->found && s->short_bytes != 0, s->short_bytes);
    vr_json_kv_bool(o, "weights_alone", s->weights_alone);
    vr_json_kv_text(o, "matched", s->matched);
    vr_json_kv_text(o, "assumed", s->assumed);
    vr_json_kv_text(o, "not_found", s->not_found);
    vr_json_kv_text(o, "expandable", s->expandable);
    vr_json_kv_text(o, "expandable_label", s->expandable_label);
    vr_json_close(o, '}');
}

static void put_finding(vr_report *r, vr_json_out *o, const struct vram_diagnosis *d, const vr_finding *f)
{
    const vr_sign *s = f->event != NULL ? &f->event->sign : NULL;
    const char *program = vr_program_words[f->program].word;

    vr_json_open(o, '{');
    vr_json_kv_text(o, "memory", vr_memory_words[f->memory].word);
    vr_json_kv_text(o, "phase", vr_phase_words[f->phase].word);
    vr_json_kv_text(o, "cause", vr_cause_words[f->cause].word);
    vr_json_kv_text(o, "sub_cause", f->sub_cause);
    vr_json_kv_text(o, "certainty", vr_certainty_words[f->certainty].word);
    vr_json_kv_text(o, "program", f->program != VR_PROGRAM_UNKNOWN ? program : NULL);
    vr_json_kv_text(o, "summary", f->summary);
    vr_json_kv_text(o, "text", s != NULL ? s->row->id : NULL);
    vr_json_kv_text(o, "message", s != NULL ? s->text : NULL);
    vr_json_kv_text(o, "file", s != NULL ? file_of(d, s->file) : NULL);
    vr_json_kv_known(o, "line", s != NULL ? s->line : 0);
    vr_json_key(o, "process_rank");
    if (s != NULL && s->rank >= 0)
        vr_json_put_i64(o, s->rank);
    else
        vr_json_put_null(o);
    vr_json_kv_u64(o, "repeats", f->event != NULL ? f->event->repeats : 0);
    put_evidence(o, d, f);
    put_own_facts(r, o, f);
    put_processes(o, f);
    put_shares(o, &f->shares);
    vr_json_kv_if(o, "missing_at_least_bytes", f->missing_known, f->missing_at_least);
    vr_json_kv_text(o, "missing_note", f->missing_note);
    put_futile(o, f);
    put_levers(o, f);
    put_notes(o, f);
    put_tell(o, f);
    put_place(o, &f->spot);
    vr_json_close(o, '}');
}

void vr_diagnosis_json(vr_report *r, const struct vram_diagnosis *d)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.explain/1");
    vr_json_kv_text(&o, "model", d->model);
    vr_json_kv_text(&o, "symptom", d->found.symptom);
    vr_json_key(&o, "diagnoses");
    vr_json_open(&o, '[');
    for (size_t i = 0; i < d->n; i++)
        put_finding(r, &o, d, &d->list[i]);
    vr_json_close(&o, ']');
    vr_json_kv_u64(&o, "consequences", d->n_follow);
    put_log_facts(r, &o, d);
    vr_json_key(&o, "read");
    vr_json_open(&o, '{');
    vr_json_kv_u64(&o, "bytes", d->found.bytes);
    vr_json_kv_u64(&o, "lines", d->found.lines);
    vr_json_close(&o, '}');
    vr_json_warnings(&o, d->ctx);
    vr_json_end(&o, r);
}
