/* SPDX-License-Identifier: MIT
 * Models that consist of several, each in a folder of its own with its own index and precision: pipelines of
 * diffusers (model_index.json) and modules of sentence-transformers (modules.json).
 * Form: diffusers 0.35, pipelines/pipeline_utils.py (DiffusionPipeline.from_pretrained: name to
 * [library, class], [null, null] for what is left out) and pipeline_loading_utils.py (filter_model_files,
 * variant_compatible_siblings); sentence-transformers 5, SentenceTransformer.py (_load_sbert_model: idx,
 * name, path, type). */
#include "checkpoint/loading.h"

#include <string.h>

#define MAX_PARTS 256

/* ---- a set of each folder, before it is known which folders count ---- */

typedef struct folder {
    vr_str path;
    vr_set *best;
    bool several; /* others are as good */
} folder;

static bool is_preferred(const vr_loading *l, const vr_set *s)
{
    return l->chosen != NULL && vr_str_is(s->first->kind.variant, l->chosen);
}

static void consider(const vr_loading *l, folder *f, vr_set *s)
{
    bool a = f->best != NULL && is_preferred(l, f->best), b = is_preferred(l, s);
    if (f->best != NULL && a == b && f->best->rank == s->rank) {
        f->several = true;
    } else if (f->best == NULL || (a == b ? s->rank < f->best->rank : b)) {
        f->best = s;
        f->several = false;
    }
}

static bool is_part_folder(const vr_loading *l, vr_str path)
{
    if (path.n == 0)
        return l->modules != NULL;
    return memchr(path.s, '/', path.n - 1) == NULL;
}

static vram_status find_folders(vram_checkpoint *ck, folder *list, uint32_t *n)
{
    vr_loading *l = ck->loading;
    vr_map by_path;
    VR_TRY(vr_map_init(&by_path, &ck->arena, 16, l->n_sets));
    *n = 0;
    for (size_t i = 0; i < l->n_sets; i++) {
        vr_str path = l->sets[i].first->kind.folder;
        bool known = false;
        uint32_t at = *n;
        if (!is_part_folder(l, path))
            continue;
        if (*n == MAX_PARTS && !vr_map_get(&by_path, path, &at))
            return vr_fail_file(ck->ctx, VRAM_ELIMIT, ck->name, T("there are over "), U(MAX_PARTS),
                                T(" folders with weights"));
        VR_TRY(vr_map_put(&by_path, path, *n, &known, &at));
        if (!known)
            list[at = (*n)++] = (folder){ .path = path };
        consider(l, &list[at], &l->sets[i]);
    }
    return VRAM_OK;
}

static bool folder_before(void *ud, const void *x, const void *y)
{
    (void)ud;
    return vr_str_cmp(((const folder *)x)->path, ((const folder *)y)->path) < 0;
}

vram_status vr_parts_take(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    folder list[MAX_PARTS];
    uint32_t n;
    VR_TRY(find_folders(ck, list, &n));
    VR_TRY(vr_sort(ck->ctx, list, n, sizeof(*list), folder_before, NULL));
    l->groups = VR_ARRAY(&ck->arena, vr_group, n);
    if (l->groups == NULL)
        return VRAM_ENOMEM;
    l->n_groups = n;
    for (uint32_t i = 0; i < n; i++) {
        list[i].best->taken = true;
        l->groups[i].unclear = list[i].several;
        VR_TRY(vr_group_fill(ck, i, list[i].best));
    }
    return VRAM_OK;
}

bool vr_parts_choose(const vr_loading *l)
{
    for (size_t i = 0; i < l->n_sets; i++) {
        if (is_preferred(l, &l->sets[i]) && is_part_folder(l, l->sets[i].first->kind.folder))
            return true;
    }
    return false;
}

bool vr_parts_any(const vr_loading *l)
{
    for (size_t i = 0; i < l->n_sets; i++) {
        if (is_part_folder(l, l->sets[i].first->kind.folder))
            return true;
    }
    return false;
}

/* ---- what the JSON names ---- */

typedef struct named {
    const char *name, *class_name;
    const char *folder; /* with its slash, or "" */
    bool needs_weights;
    bool diffusers;
    uint32_t group; /* + 1; 0: the folder has no weights */
} named;

typedef struct naming {
    vram_checkpoint *ck;
    const vr_input *in;
    const char *text; /* of the file */
    named list[MAX_PARTS];
    uint32_t n;
} naming;

#define BAD(x, code, p, ...)                                                                                 \
    vr_fail_at((x)->ck->ctx, (code), (x)->in->name, (uint64_t)((p) - (x)->text), __VA_ARGS__)

static vram_status string_of(naming *x, vr_json v, const char *what, const char **out)
{
    vr_str s;
    if (v.type != VR_JSON_STRING)
        return BAD(x, VRAM_EFORMAT, v.text.s, T(what), T(" is not a string"));
    if (!vr_json_str(v, &x->ck->arena, &s))
        return VRAM_ENOMEM;
    if (s.n != 0 && memchr(s.s, 0, s.n) != NULL)
        return BAD(x, VRAM_EFORMAT, v.text.s, T(what), T(" has a zero byte"));
    *out = vr_arena_copy(&x->ck->arena, s);
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status add_named(naming *x, const char *at, named what)
{
    vr_str name = vr_str_of(what.name);
    const vr_loading *l = x->ck->loading;
    if (name.n != 0 && (vr_str_find(name, "/", NULL) || vr_name_leads_out(name)))
        return BAD(x, VRAM_EFORMAT, at, T("\""), S(vr_shown(name)), T("\" is not the name of a folder here"));
    for (uint32_t i = 0; i < x->n; i++) {
        if (strcmp(x->list[i].name, what.name) == 0)
            return BAD(x, VRAM_EFORMAT, at, T("\""), S(vr_shown(name)), T("\" is there twice"));
    }
    if (x->n == MAX_PARTS)
        return BAD(x, VRAM_ELIMIT, at, T("over "), U(MAX_PARTS), T(" parts are named"));
    what.folder = name.n == 0 ? "" : vr_text(&x->ck->arena, S(name), T("/"));
    if (what.folder == NULL)
        return VRAM_ENOMEM;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        if (vr_str_is(l->groups[g].set->first->kind.folder, what.folder))
            what.group = g + 1;
    }
    if (what.group != 0 || what.needs_weights)
        x->list[x->n++] = what;
    return VRAM_OK;
}

static bool has_word(const char *class_name, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (vr_str_find(vr_str_of(class_name), words[i], NULL))
            return true;
    }
    return false;
}

/* ---- model_index.json ---- */

/* What has a configuration but no weights. */
static bool is_weightless(const char *class_name)
{
    static const char *const words[] = { "Tokenizer", "Scheduler", "Processor", "FeatureExtractor",
                                         "Guider" };
    return has_word(class_name, words, sizeof(words) / sizeof(words[0]));
}

/* [library, class]; anything else is a setting of the pipeline, [null, null] a part that it goes without. */
static bool is_component(vr_json value, vr_json *library, vr_json *class_name)
{
    vr_json_iter it = vr_json_each(value);
    vr_json more;
    return value.type == VR_JSON_ARRAY && vr_json_next(&it, library) && vr_json_next(&it, class_name) &&
           !vr_json_next(&it, &more) && class_name->type == VR_JSON_STRING;
}

static vram_status read_component(naming *x, vr_json key, vr_json value)
{
    vr_json library, class_name;
    named what = { .name = NULL };
    if (vr_json_str_is(key, "_class_name"))
        return string_of(x, value, "_class_name", &x->ck->pipeline);
    if (vr_str_starts(key.text, "\"_") || !is_component(value, &library, &class_name))
        return VRAM_OK;
    VR_TRY(string_of(x, key, "the name of a component", &what.name));
    VR_TRY(string_of(x, class_name, "the class of a component", &what.class_name));
    if (*what.name == '\0')
        return BAD(x, VRAM_EFORMAT, key.text.s, T("a component has no name"));
    what.needs_weights = !is_weightless(what.class_name);
    what.diffusers = vr_json_str_is(library, "diffusers");
    return add_named(x, key.text.s, what);
}

/* ---- modules.json ---- */

static vram_status read_module(naming *x, vr_json value)
{
    vr_json path, type;
    named what = { .name = NULL, .class_name = "" };
    if (value.type != VR_JSON_OBJECT || !vr_json_get(value, "path", &path))
        return BAD(x, VRAM_EFORMAT, value.text.s, T("a module has no path"));
    VR_TRY(string_of(x, path, "the path of a module", &what.name));
    if (vr_json_get(value, "type", &type))
        VR_TRY(string_of(x, type, "the type of a module", &what.class_name));
    what.needs_weights = vr_str_ends(vr_str_of(what.class_name), ".Transformer") ||
                         vr_str_ends(vr_str_of(what.class_name), ".Dense");
    return add_named(x, path.text.s, what);
}

/* ---- the folders that count ---- */

static bool named_before(void *ud, const void *x, const void *y)
{
    (void)ud;
    return strcmp(((const named *)x)->folder, ((const named *)y)->folder) < 0;
}

static vram_status drop(vram_checkpoint *ck, const naming *x, uint32_t group)
{
    vr_loading *l = ck->loading;
    const char *why = vr_text(&ck->arena, S(l->groups[group].set->first->kind.folder), T(": not named by "),
                              T(x->in->name));
    if (why == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_inputs; i++) {
        if (l->inputs[i].group != group + 1)
            continue;
        l->inputs[i].group = 0;
        l->inputs[i].left_out = true;
        l->inputs[i].why = why;
    }
    return VRAM_OK;
}

static vram_status fill_missing(vram_checkpoint *ck, vr_group *g, const named *n)
{
    g->known = true;
    return vr_path_add(
        ck, &g->paths,
        vr_text(&ck->arena, T(n->folder),
                T(n->diffusers ? "diffusion_pytorch_model.safetensors" : "model.safetensors")));
}

static vram_status warn_part(vram_checkpoint *ck, const naming *x, const vr_part *p)
{
    const char *where = *p->prefix != '\0' ? p->prefix : ck->name;
    if (p->missing)
        return vr_warn(ck->ctx, where, T("missing: "), T(x->in->name),
                       T(" names it, and its folder has no weights"));
    if (p->variant == NULL || ck->loading->chosen != NULL)
        return VRAM_OK;
    return vr_warn(ck->ctx, where,
                   T("there are weights of this variant only: diffusers loads them with variant=\""),
                   T(p->variant), T("\""));
}

static vram_status make_part(vram_checkpoint *ck, const naming *x, const named *n, const vr_group *g,
                             vr_part *p)
{
    *p = (vr_part){ .name = n->name,
                    .class_name = *n->class_name != '\0' ? n->class_name : NULL,
                    .prefix = n->folder,
                    .missing = n->group == 0 };
    if (g->set != NULL && g->set->first->kind.variant.n != 0) {
        p->variant = vr_arena_copy(&ck->arena, g->set->first->kind.variant);
        if (p->variant == NULL)
            return VRAM_ENOMEM;
    }
    return warn_part(ck, x, p);
}

static vram_status unclear(vram_checkpoint *ck, const vr_set *set)
{
    const vr_loading *l = ck->loading;
    const vr_set **list = VR_ARRAY(&ck->arena, const vr_set *, l->n_sets);
    size_t n = 0;
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_sets; i++) {
        if (l->sets[i].rank == set->rank && vr_str_eq(l->sets[i].first->kind.folder, set->first->kind.folder))
            list[n++] = &l->sets[i];
    }
    return vr_choose_fail(ck, list, n, " different models lie in one folder: ");
}

/* Groups and parts anew, one for each that is named, in the same order. */
static vram_status keep_named(naming *x)
{
    vram_checkpoint *ck = x->ck;
    vr_loading *l = ck->loading;
    vr_group *groups = VR_ARRAY(&ck->arena, vr_group, x->n);
    uint32_t *now = VR_ARRAY(&ck->arena, uint32_t, l->n_groups + 1);
    ck->parts = VR_ARRAY(&ck->arena, vr_part, x->n);
    if (groups == NULL || now == NULL || ck->parts == NULL)
        return VRAM_ENOMEM;
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t was = x->list[i].group;
        if (was != 0 && l->groups[was - 1].unclear)
            return unclear(ck, l->groups[was - 1].set);
        if (was != 0)
            groups[i] = l->groups[was - 1];
        else
            VR_TRY(fill_missing(ck, &groups[i], &x->list[i]));
        now[was] = i + 1;
        VR_TRY(make_part(ck, x, &x->list[i], &groups[i], &ck->parts[i]));
    }
    for (uint32_t g = 0; g < l->n_groups; g++) {
        if (now[g + 1] == 0)
            VR_TRY(drop(ck, x, g));
    }
    for (size_t i = 0; i < l->n_inputs; i++)
        l->inputs[i].group = l->inputs[i].group == 0 ? 0 : now[l->inputs[i].group];
    l->groups = groups;
    l->n_groups = x->n;
    ck->n_parts = x->n == 1 && *ck->parts[0].prefix == '\0' ? 0 : x->n;
    return VRAM_OK;
}

static vram_status finish_naming(naming *x)
{
    if (x->n == 0)
        return vr_fail_file(x->ck->ctx, VRAM_EUNSUPPORTED, x->in->name,
                            T("it names no part that has weights"));
    VR_TRY(vr_sort(x->ck->ctx, x->list, x->n, sizeof(x->list[0]), named_before, NULL));
    return keep_named(x);
}

static naming *begin_naming(vram_checkpoint *ck, const vr_input *in, const char *text)
{
    naming *x = VR_NEW(&ck->arena, naming);
    if (x != NULL)
        *x = (naming){ .ck = ck, .in = in, .text = text };
    return x;
}

vram_status vr_parts_pipeline(vram_checkpoint *ck, vr_json root, const char *text)
{
    naming *x = begin_naming(ck, ck->loading->pipeline, text);
    vr_json_iter it = vr_json_each(root);
    vr_json key, value;
    if (x == NULL)
        return VRAM_ENOMEM;
    while (vr_json_next_member(&it, &key, &value))
        VR_TRY(read_component(x, key, value));
    return finish_naming(x);
}

vram_status vr_parts_modules(vram_checkpoint *ck, vr_json root, const char *text)
{
    naming *x = begin_naming(ck, ck->loading->modules, text);
    vr_json_iter it = vr_json_each(root);
    vr_json value;
    if (x == NULL)
        return VRAM_ENOMEM;
    while (vr_json_next(&it, &value))
        VR_TRY(read_module(x, value));
    return finish_naming(x);
}

/* ---- when all is read ---- */

/* Tensors of different parts may have one name. */
static vram_status qualify(vram_checkpoint *ck)
{
    size_t put = 0;
    const vr_tensor *other = NULL;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_tensor *t = &ck->tensors[i];
        const vr_part *p = &ck->parts[ck->files[t->file].part];
        if (*p->prefix == '\0')
            continue;
        const char *name = vr_text(&ck->arena, T(p->prefix), S(t->name));
        if (name == NULL)
            return VRAM_ENOMEM;
        t->name.n += strlen(p->prefix);
        t->name.s = name;
    }
    VR_TRY(vr_names_init(&ck->names, &ck->arena, ck->n_tensors, ck->n_tensors));
    vr_put_names(ck, 0, ck->n_tensors, &put, &other);
    if (other == NULL)
        return VRAM_OK;
    return vr_fail_file(ck->ctx, VRAM_EFORMAT, ck->name, T("two parts have the tensor "),
                        S(vr_shown(other->name)));
}

vram_status vr_parts_finish(vram_checkpoint *ck)
{
    if (ck->n_parts == 0)
        return VRAM_OK;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        vr_part *p = &ck->parts[ck->files[t->file].part];
        p->bytes = vr_add_sat(p->bytes, t->end - t->begin);
        p->elements = vr_add_sat(p->elements, t->elements);
        p->n_tensors++;
    }
    return qualify(ck);
}
