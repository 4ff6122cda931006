/* SPDX-License-Identifier: MIT
 * Manifests of Ollama. Sources: ollama 0.17.4, manifest/manifest.go and manifest/layer.go (the fields),
 * manifest/paths.go (what a digest is), server/images.go GetModel (media types of GGUF models),
 * x/create/client/create.go and x/imagegen/manifest/manifest.go (models of tensors: a safetensors blob for
 * each, `name` with its folder in front; JSON files under their own names). */
#include "io/ollama_manifest.h"

#include <string.h>

#include "base/json.h"

#define NAME_MOST 512

typedef struct reading {
    vram_ctx *ctx;
    vr_arena *arena;
    const char *name, *model;
    const char *begin; /* of the text */
    io_manifest *out;
    size_t n_models, n_tensors; /* layers of these kinds */
} reading;

#define BAD(r, code, value, ...)                                                                             \
    vr_fail_at((r)->ctx, (code), (r)->name, (uint64_t)((value).text.s - (r)->begin), __VA_ARGS__)

static const struct {
    const char *type;
    io_layer_kind kind;
} kinds[] = {
    { "application/vnd.ollama.image.model", IO_LAYER_MODEL },
    { "application/vnd.ollama.image.projector", IO_LAYER_PROJECTOR },
    { "application/vnd.ollama.image.tensor", IO_LAYER_TENSOR },
    { "application/vnd.ollama.image.json", IO_LAYER_CONFIG },
    { "application/vnd.ollama.image.adapter", IO_LAYER_ADAPTER },
    { "application/vnd.ollama.image.params", IO_LAYER_PARAMS },
};

/* A media type may have parameters: "...; name=input". */
static io_layer_kind kind_of(vr_str type)
{
    vr_str word;
    vr_str_split(&type, ';', &word);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (vr_str_is(word, kinds[i].type))
            return kinds[i].kind;
    }
    return IO_LAYER_OTHER;
}

/* ---- members ---- */

/* A member that must be a string; VRAM_OK with the empty slice when it need not be there and is not. */
static vram_status text_of(const reading *r, vr_json layer, const char *member, bool needed, vr_str *out)
{
    vr_json v;
    *out = (vr_str){ "", 0 };
    if (!vr_json_get(layer, member, &v))
        return needed ? BAD(r, VRAM_EFORMAT, layer, T("a layer of the manifest has no "), T(member))
                      : VRAM_OK;
    if (vr_json_str(v, r->arena, out))
        return VRAM_OK;
    if (v.type == VR_JSON_STRING)
        return VRAM_ENOMEM;
    return BAD(r, VRAM_EFORMAT, v, T("the "), T(member), T(" of a layer is not a text"));
}

static int hex_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ? c : c >= 'A' && c <= 'F' ? c + ('a' - 'A') : 0;
}

/* It becomes a file's name and a part of a URL, so it must be what it should be to the letter. */
static bool read_digest(char out[72], vr_str s)
{
    if (s.n != 71 || (!vr_str_starts(s, "sha256:") && !vr_str_starts(s, "sha256-")))
        return false;
    memcpy(out, "sha256:", 7);
    for (size_t i = 7; i < 71; i++) {
        out[i] = (char)hex_digit(s.s[i]);
        if (out[i] == '\0')
            return false;
    }
    out[71] = '\0';
    return true;
}

static vram_status digest_of(const reading *r, vr_json layer, io_layer *out)
{
    vr_str digest;
    VR_TRY(text_of(r, layer, "digest", true, &digest));
    if (read_digest(out->digest, digest))
        return VRAM_OK;
    digest.n = digest.n < 100 ? digest.n : 100;
    return BAD(r, VRAM_EFORMAT, layer,
               T("the digest of a layer is not sha256: and 64 hexadecimal digits: \""), S(digest), T("\""));
}

static vram_status size_of(const reading *r, vr_json layer, io_layer *out)
{
    vr_json v;
    if (!vr_json_get(layer, "size", &v))
        return BAD(r, VRAM_EFORMAT, layer, T("a layer of the manifest has no size"));
    if (vr_json_u64(v, &out->size) && out->size <= INT64_MAX)
        return VRAM_OK;
    v.text.n = v.text.n < 100 ? v.text.n : 100;
    return BAD(r, VRAM_EFORMAT, v, T("the size of a layer is not a whole number below 2^63: "), S(v.text));
}

/* ---- what the files are called ---- */

/* A tensor's name or a file's path: leads down, and can be shown. */
static bool name_fits(vr_str name)
{
    vr_str rest = name, part;
    if (name.n == 0 || name.n > NAME_MOST)
        return false;
    for (size_t at = 0; at < name.n;) {
        uint32_t hidden;
        at += vr_utf8_shown((vr_str){ name.s + at, name.n - at }, &hidden);
        if (hidden != VR_SHOWN || name.s[at - 1] == '\\')
            return false;
    }
    while (vr_str_split(&rest, '/', &part)) {
        if (part.n == 0 || vr_str_is(part, ".") || vr_str_is(part, ".."))
            return false;
    }
    return true;
}

static vram_status own_name(const reading *r, vr_json layer, io_layer *out)
{
    vr_str name;
    VR_TRY(text_of(r, layer, "name", out->kind == IO_LAYER_TENSOR, &name));
    if (name.n == 0 && out->kind == IO_LAYER_CONFIG)
        return VRAM_OK; /* not a file of the model */
    if (!name_fits(name))
        return BAD(r, VRAM_EFORMAT, layer, T("the name of a layer is no path that leads down: \""),
                   S(((vr_str){ name.s, name.n < 100 ? name.n : 100 })), T("\""));
    out->file = vr_text(r->arena, S(name), T(out->kind == IO_LAYER_TENSOR ? ".safetensors" : ""));
    return out->file == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vr_piece five_digits(char digits[6], size_t n)
{
    for (size_t i = 5; i-- > 0; n /= 10)
        digits[i] = (char)('0' + n % 10);
    digits[5] = '\0';
    return T(digits);
}

/* "qwen2.5-7b.gguf", of several as llama.cpp names them: "qwen2.5-7b-00001-of-00002.gguf". */
static vram_status name_models(const reading *r)
{
    size_t model = 0, projector = 0;
    char number[6], of[6];
    five_digits(of, r->n_models);
    for (size_t i = 0; i < r->out->n; i++) {
        io_layer *l = &r->out->layers[i];
        if (l->kind == IO_LAYER_PROJECTOR)
            l->file =
                projector++ == 0 ? "mmproj.gguf" : vr_text(r->arena, T("mmproj-"), U(projector), T(".gguf"));
        else if (l->kind == IO_LAYER_MODEL && r->n_models == 1)
            l->file = vr_text(r->arena, T(r->model), T(".gguf"));
        else if (l->kind == IO_LAYER_MODEL)
            l->file = vr_text(r->arena, T(r->model), T("-"), five_digits(number, ++model), T("-of-"), T(of),
                              T(".gguf"));
        if (l->file == NULL && (l->kind == IO_LAYER_PROJECTOR || l->kind == IO_LAYER_MODEL))
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

/* ---- the whole ---- */

static vram_status read_layer(reading *r, vr_json layer)
{
    io_layer l = { .file = NULL };
    vr_str type;
    if (layer.type != VR_JSON_OBJECT)
        return BAD(r, VRAM_EFORMAT, layer, T("a layer of the manifest is not an object"));
    VR_TRY(text_of(r, layer, "mediaType", true, &type));
    l.kind = kind_of(type);
    if (l.kind == IO_LAYER_OTHER)
        return VRAM_OK;
    VR_TRY(digest_of(r, layer, &l));
    VR_TRY(size_of(r, layer, &l));
    if (l.kind == IO_LAYER_TENSOR || l.kind == IO_LAYER_CONFIG)
        VR_TRY(own_name(r, layer, &l));
    r->n_models += l.kind == IO_LAYER_MODEL;
    r->n_tensors += l.kind == IO_LAYER_TENSOR;
    r->out->layers[r->out->n++] = l;
    return VRAM_OK;
}

static vram_status count_layers(const reading *r, vr_json layers, size_t *n)
{
    vr_json_iter it = vr_json_each(layers);
    vr_json layer;
    for (*n = 0; vr_json_next(&it, &layer); (*n)++) {
        if (*n == IO_LAYERS_MOST)
            return BAD(r, VRAM_ELIMIT, layer, T("the manifest has over "), GROUPED(IO_LAYERS_MOST),
                       T(" layers"));
    }
    return VRAM_OK;
}

static vram_status no_weights(const reading *r)
{
    vram_status s = vr_fail_file(r->ctx, VRAM_EUNSUPPORTED, r->name, T("the manifest names no weights"));
    vr_hint(r->ctx, "models of Ollama whose tag ends in \"cloud\" run on other computers and have none here");
    return s;
}

static vram_status read_layers(reading *r, vr_json root)
{
    vr_json layers, layer;
    size_t n;
    if (root.type != VR_JSON_OBJECT || !vr_json_get(root, "layers", &layers))
        return BAD(r, VRAM_EFORMAT, root, T("this is no manifest of a model: it has no layers"));
    if (layers.type == VR_JSON_NULL)
        return no_weights(r); /* Go writes an empty list so */
    if (layers.type != VR_JSON_ARRAY)
        return BAD(r, VRAM_EFORMAT, layers, T("the layers of the manifest are not a list"));
    VR_TRY(count_layers(r, layers, &n));
    r->out->layers = VR_ARRAY(r->arena, io_layer, n);
    if (r->out->layers == NULL)
        return VRAM_ENOMEM;
    vr_json_iter it = vr_json_each(layers);
    while (vr_json_next(&it, &layer))
        VR_TRY(read_layer(r, layer));
    return r->n_models + r->n_tensors == 0 ? no_weights(r) : name_models(r);
}

vram_status io_manifest_read(io_manifest *out, vr_arena *a, const char *name, const char *model, vr_str text)
{
    reading r = { .ctx = a->ctx, .arena = a, .name = name, .model = model, .begin = text.s, .out = out };
    vr_json root;
    vr_json_error e;
    *out = (io_manifest){ NULL, 0 };
    if (!vr_json_parse(text, &root, &e))
        return vr_fail_at(r.ctx, VRAM_EFORMAT, name, e.offset, T("the manifest is not JSON: "), T(e.reason));
    return read_layers(&r, root);
}
