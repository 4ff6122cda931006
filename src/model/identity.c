/* SPDX-License-Identifier: MIT
 * Which model config.json says it is: model_type and architectures, flat or with the decoder under
 * text_config.
 *
 * A decoder is only taken for understood when the model around it is: in transformers the wrapper decides
 * what is tied and what runs besides (modeling_utils.py get_expanded_tied_weights_keys reads the outer
 * config, 5.24). */
#include "model/families.h"
#include "model/reading.h"

vram_status vr_not_understood_pieces(vr_reading *r, const vr_piece *p, size_t n)
{
    const char *why = vr_text_pieces(&r->m->arena, p, n);
    if (why == NULL)
        return VRAM_ENOMEM;
    r->m->not_understood = why;
    return VRAM_OK;
}

/* Under the name that the family's class has for it, or else under the usual one (attribute_map). */
bool vr_config_says(const vr_reading *r, const char *key, vr_json *out)
{
    vr_str word, own, rest = vr_str_of(r->family != NULL ? r->family->keys : NULL);
    char name[64];
    while (vr_next_pair(&rest, &word, &own)) {
        if (!vr_str_is(word, key) || own.n >= sizeof name)
            continue;
        memcpy(name, own.s, own.n);
        name[own.n] = '\0';
        if (vr_json_get(r->text, name, out))
            return true;
    }
    return vr_json_get(r->text, key, out);
}

bool vr_config_get(const vr_reading *r, const char *key, vr_json *out)
{
    return vr_config_says(r, key, out) && out->type != VR_JSON_NULL;
}

vram_status vr_config_refuse(const vr_reading *r, const char *key, vr_json value, const char *expected)
{
    static const char *const kinds[] = { "null",     "true",     "false",    "a number",
                                         "a string", "an array", "an object" };
    uint64_t at = (uint64_t)(value.text.s - r->ck->config_text.s);
    vr_str shown = value.type == VR_JSON_NUMBER ? value.text : vr_str_of(kinds[value.type]);
    vr_str word = vr_config_word(r->ck, at);
    if (word.n != 0)
        shown = word;
    bool cut = shown.n > 40;
    if (cut)
        shown.n = 40;
    return vr_fail_at(r->ctx, VRAM_EFORMAT, r->ck->config_file, at, T(key), T(" is "), S(shown),
                      T(cut ? "..." : ""), T(", not "), T(expected));
}

/* A name; one with a zero byte in it is none, and would end there for C. */
static vram_status copy_name(vr_reading *r, const char *key, vr_json v, const char **out)
{
    vr_str s;
    if (v.type != VR_JSON_STRING)
        return vr_config_refuse(r, key, v, "a string");
    if (!vr_json_str(v, &r->m->arena, &s))
        return VRAM_ENOMEM;
    if (s.n != 0 && memchr(s.s, 0, s.n) != NULL)
        return vr_config_refuse(r, key, v, "a name: it has a zero byte");
    *out = vr_arena_copy(&r->m->arena, s);
    return *out != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* A string of an object; *out NULL when it is absent or null. */
static vram_status string_of(vr_reading *r, vr_json from, const char *key, const char **out)
{
    vr_json v;
    *out = NULL;
    if (!vr_json_get(from, key, &v) || v.type == VR_JSON_NULL)
        return VRAM_OK;
    return copy_name(r, key, v, out);
}

static vram_status first_architecture(vr_reading *r)
{
    vr_json list, first;
    if (!vr_json_get(r->root, "architectures", &list) || list.type == VR_JSON_NULL)
        return VRAM_OK;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "architectures", list, "an array of strings");
    vr_json_iter it = vr_json_each(list);
    return vr_json_next(&it, &first) ? copy_name(r, "architectures", first, &r->m->architecture) : VRAM_OK;
}

/* config.dtype, torch_dtype before transformers 5; the outer one is what "auto" means for the whole. */
static vram_status read_dtype(vr_reading *r)
{
    const vr_json places[] = { r->root, r->text };
    static const char *const keys[] = { "dtype", "torch_dtype" };
    for (size_t i = 0; i < 4; i++) {
        const char *word;
        vr_json v;
        vr_dtype t;
        VR_TRY(string_of(r, places[i / 2], keys[i % 2], &word));
        if (word == NULL || vr_str_is(vr_str_of(word), "auto"))
            continue;
        if (vr_dtype_from_word(vr_str_of(word), &t)) {
            r->m->dtype = t;
            if (vr_json_get(places[i / 2], keys[i % 2], &v))
                r->m->dtype_at = (uint64_t)(v.text.s - r->ck->config_text.s);
            return VRAM_OK;
        }
        VR_TRY(vr_warn(r->ctx, r->ck->config_file, T(keys[i % 2]), T(" \""), T(word),
                       T("\" is not known: left out")));
    }
    return VRAM_OK;
}

static const vr_family *family_of_class(const char *class_name)
{
    size_t n;
    const vr_family *f = vr_families(&n);
    for (size_t i = 0; class_name != NULL && i < n; i++)
        if (vr_str_is(vr_str_of(class_name), f[i].class_name))
            return &f[i];
    return NULL;
}

/* The decoder's row, of the outer and the inner name: the inner one's, where the outer may stand around it.
 */
static const vr_family *family_of_names(const char *outer, const char *inner, const vr_family *f,
                                        const vr_family *g)
{
    if (inner == NULL || f == g)
        return f;
    bool fits = g != NULL && outer != NULL && vr_family_wrapped(g, vr_str_of(outer));
    return fits ? g : NULL;
}

/* The outer and the inner name must mean the same decoder. */
static vram_status choose_family(vr_reading *r, const char *inner)
{
    const char *outer = r->m->model_type;
    const vr_family *f =
        outer != NULL ? vr_family_find(vr_str_of(outer)) : family_of_class(r->m->architecture);
    const vr_family *g = inner != NULL ? vr_family_find(vr_str_of(inner)) : f;
    if (outer == NULL && f == NULL && r->m->architecture == NULL)
        f = g;
    r->family = family_of_names(outer, inner, f, g);
    if (r->family != NULL)
        return VRAM_OK;
    const char *name = outer != NULL ? outer : r->m->architecture;
    if (name == NULL)
        return vr_not_understood(r, T("config.json names no model_type"));
    if (g != NULL && f != g)
        return vr_not_understood(r, T("the architecture \""), T(name), T("\" around a \""), T(g->model_type),
                                 T("\" decoder is not known"));
    return vr_not_understood(r, T("the architecture \""), T(f == NULL || inner == NULL ? name : inner),
                             T("\" is not known"));
}

/* How its modules are called. */
static void take_naming(vr_reading *r)
{
    vram_model *m = r->m;
    vr_str word, name, rest;
    if (r->family == NULL)
        return;
    m->family = r->family;
    m->naming = vr_naming_of(r->family);
    rest = vr_str_of(m->naming->model);
    while (vr_next_pair(&rest, &word, &name)) {
        m->learned_positions = m->learned_positions || vr_str_is(word, "positions");
        m->embedding = vr_str_is(word, "embedding") ? name : m->embedding;
        m->stack = vr_str_is(word, "layers") ? name : m->stack;
    }
    rest = vr_str_of(m->naming->layer);
    while (vr_next_pair(&rest, &word, &name)) {
        vr_module_role role = vr_module_role_of(word);
        if (role < VR_MODULE_COUNT)
            m->modules[role] = name;
    }
}

/* A class beside the family's own, e.g. a classifier: computed as the family, and said. */
static vram_status check_class(vr_reading *r)
{
    vram_model *m = r->m;
    if (r->family == NULL)
        return VRAM_OK;
    if (m->architecture == NULL)
        m->architecture = r->family->class_name;
    if (m->model_type == NULL)
        m->model_type = r->family->model_type;
    bool wrapped = vr_family_wrapped(r->family, vr_str_of(m->model_type));
    if (wrapped || vr_str_is(vr_str_of(m->architecture), r->family->class_name))
        return VRAM_OK;
    return vr_warn(r->ctx, r->ck->config_file, T("the class "), T(m->architecture), T(" is computed as "),
                   T(r->family->class_name));
}

vram_status vr_read_identity(vr_reading *r)
{
    const char *inner = NULL;
    vr_json text, own;
    VR_TRY(first_architecture(r));
    VR_TRY(string_of(r, r->root, "model_type", &r->m->model_type));
    if (vr_json_get(r->root, "text_config", &text) && text.type != VR_JSON_NULL) {
        if (text.type != VR_JSON_OBJECT)
            return vr_config_refuse(r, "text_config", text, "an object");
        r->text = text;
        VR_TRY(string_of(r, text, "model_type", &inner));
    }
    VR_TRY(read_dtype(r));
    VR_TRY(choose_family(r, inner));
    take_naming(r);
    if (vr_config_get(r, "per_layer_config", &own))
        VR_TRY(vr_not_understood(
            r, T("config.json gives single layers settings of their own (per_layer_config)")));
    return check_class(r);
}
