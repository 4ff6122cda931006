/* SPDX-License-Identifier: MIT
 *
 * A scenario file: one JSON object with the keys of `vram ledger`, or {"scenarios": [...]} where keys beside
 * the list hold for every scenario that does not set them itself. Every error names file, byte offset and
 * reason. */
#include "ledger/scenario.h"

typedef struct reading {
    vram_scenario *s;
    const char *start; /* of the document, for offsets */
} reading;

static uint64_t offset_of(const reading *r, vr_json v)
{
    return (uint64_t)(v.text.s - r->start);
}

#define REFUSE(r, at, ...)                                                                                   \
    vr_fail_at((r)->s->ctx, VRAM_EFORMAT, (r)->s->file, offset_of((r), (at)), __VA_ARGS__)

/* A string's bytes, or a number as the parsers of settings take it (7.0e+9 becomes 7000000000). */
static vram_status plain_text(const reading *r, vr_json value, vr_str *out)
{
    uint64_t whole;
    if (value.type == VR_JSON_STRING)
        return vr_json_str(value, &r->s->arena, out) ? VRAM_OK : VRAM_ENOMEM;
    if (value.type != VR_JSON_NUMBER)
        return REFUSE(r, value, T("expected a number or a text"));
    *out = value.text;
    if (!vr_json_u64(value, &whole))
        return VRAM_OK;
    const char *digits = vr_text(&r->s->arena, U(whole));
    if (digits == NULL)
        return VRAM_ENOMEM;
    *out = vr_str_of(digits);
    return VRAM_OK;
}

static vram_status read_value(const reading *r, vr_numbers *n, vr_number what, vr_json value)
{
    vr_str text;
    const char *why;
    VR_TRY(plain_text(r, value, &text));
    vram_status status = vr_numbers_set(n, what, text, &r->s->arena, &why);
    if (status == VRAM_ESETTING)
        return REFUSE(r, value, T(vr_number_key(what)), T(" "), T(why));
    return status;
}

static vram_status read_member(const reading *r, vr_numbers *n, vr_str key, vr_json key_at, vr_json value)
{
    vr_number what;
    if (!vr_number_of_key(key, &what)) {
        const char *near = vr_number_nearest(key);
        return REFUSE(r, key_at, T("unknown key '"), S(key), T("'"), T(near ? ", did you mean '" : ""),
                      T(near ? near : ""), T(near ? "'?" : ""));
    }
    if (n->given[what])
        return REFUSE(r, key_at, T("the key '"), S(key), T("' is there twice"));
    if (what == VR_NUM_GPU_MEMORY_GIB && value.type == VR_JSON_ARRAY) {
        vr_json_iter it = vr_json_each(value);
        vr_json size;
        while (vr_json_next(&it, &size))
            VR_TRY(read_value(r, n, what, size));
        if (n->n_cards == 0)
            return REFUSE(r, value, T("gpu_memory_gib is an empty list"));
    } else {
        VR_TRY(read_value(r, n, what, value));
    }
    n->offset[what] = offset_of(r, value);
    return VRAM_OK;
}

/* list NULL: no "scenarios" here. */
static vram_status read_object(const reading *r, vr_json object, vr_numbers *n, vr_json *list)
{
    vr_json_iter it = vr_json_each(object);
    vr_json key, value;
    while (vr_json_next_member(&it, &key, &value)) {
        vr_str name;
        if (!vr_json_str(key, &r->s->arena, &name))
            return VRAM_ENOMEM;
        if (list == NULL || !vr_str_is(name, "scenarios")) {
            VR_TRY(read_member(r, n, name, key, value));
            continue;
        }
        if (list->text.s != NULL)
            return REFUSE(r, key, T("the key 'scenarios' is there twice"));
        if (value.type != VR_JSON_ARRAY)
            return REFUSE(r, value, T("scenarios is not a list"));
        *list = value;
    }
    return VRAM_OK;
}

static vram_status read_list(const reading *r, vr_json list, const vr_numbers *common)
{
    vr_json_iter it = vr_json_each(list);
    vr_json one;
    while (vr_json_next(&it, &one)) {
        if (one.type != VR_JSON_OBJECT)
            return REFUSE(r, one, T("a scenario is not an object"));
        if (r->s->n_read == VR_SCENARIOS_MAX)
            return vr_fail_at(r->s->ctx, VRAM_ELIMIT, r->s->file, offset_of(r, one), T("more than "),
                              U(VR_SCENARIOS_MAX), T(" scenarios"));
        vr_numbers *n = &r->s->read[r->s->n_read];
        *n = (vr_numbers){ .name = NULL };
        VR_TRY(read_object(r, one, n, NULL));
        vr_numbers_merge(n, common, false);
        r->s->n_read++;
    }
    return r->s->n_read > 0 ? VRAM_OK : REFUSE(r, list, T("there is no scenario in it"));
}

static vram_status read_document(const reading *r, vr_str document)
{
    vr_json root, list = { .text = { NULL, 0 } };
    vr_json_error error;
    vr_numbers common = { .name = NULL };
    if (!vr_json_parse(document, &root, &error))
        return vr_fail_at(r->s->ctx, VRAM_EFORMAT, r->s->file, error.offset, T(error.reason));
    if (root.type != VR_JSON_OBJECT)
        return REFUSE(r, root, T("a scenario file is an object"));
    VR_TRY(read_object(r, root, &common, &list));
    if (list.text.s != NULL)
        return read_list(r, list, &common);
    r->s->read[0] = common;
    r->s->n_read = 1;
    return VRAM_OK;
}

vram_status vram_scenario_read(vram_scenario *s, const char *file, const void *json, size_t n)
{
    reading r = { s, json };
    if (s->read != NULL)
        return vr_fail(s->ctx, VRAM_ESETTING, T("only one scenario file can be read"));
    s->file = vr_arena_copy(&s->arena, vr_str_of(file == NULL ? "scenario" : file));
    vr_numbers *read = VR_ARRAY(&s->arena, vr_numbers, VR_SCENARIOS_MAX);
    if (s->file == NULL || read == NULL)
        return VRAM_ENOMEM;
    s->read = read;
    vram_status status = read_document(&r, (vr_str){ json, n });
    if (status != VRAM_OK) {
        s->read = NULL;
        s->n_read = 0;
    }
    return status;
}
