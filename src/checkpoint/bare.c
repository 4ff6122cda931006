/* SPDX-License-Identifier: MIT
 * A configuration without weights: a config.json, a file of any name with such content, or a folder in which
 * nothing else lies. It has no tensors; what it declares is the model's (declared parameters). What other
 * JSON people have at hand is refused with what it is. Marks: transformers 5.24 configuration_utils.py
 * (model_type), generation/configuration_utils.py, tokenization_utils_base.py, image_processing_base.py,
 * processing_utils.py; tokenizers (tokenizer.json); safetensors indexes; diffusers 0.35
 * configuration_utils.py (_class_name); peft config.py (peft_type); meta-llama/llama params.json. */
#include "checkpoint/loading.h"

#include <string.h>

/* ---- a file whose name says nothing ---- */

/* An object of JSON, and no length of a header that happens to be a brace: those have zero bytes. */
static bool begins_object(const char *head, size_t n)
{
    vr_str rest = { head, n };
    if (memchr(head, 0, n) != NULL)
        return false;
    while (rest.n > 0 && (rest.s[0] == ' ' || (rest.s[0] >= '\t' && rest.s[0] <= '\r')))
        rest = (vr_str){ rest.s + 1, rest.n - 1 };
    return rest.n > 0 && rest.s[0] == '{';
}

vram_status vr_bare_look(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    vr_input *in = l->named != NULL ? vr_input_find(l, l->named) : NULL;
    char head[VR_SNIFF_BYTES];
    vr_kind by_name;
    bool known = false;
    if (in == NULL || !in->weights || in->size == 0 || vr_kind_of(vr_str_of(in->name), &by_name))
        return VRAM_OK;
    size_t n = in->size < sizeof(head) ? (size_t)in->size : sizeof(head);
    VR_TRY(vr_want_first(ck, in, n, &known));
    if (!known)
        return VRAM_MORE;
    vr_view_copy(&in->view, 0, head, n);
    if (begins_object(head, n)) {
        in->kind.role = VR_ROLE_CONFIG;
        in->weights = false;
    }
    return VRAM_OK;
}

bool vr_bare_is(const vram_checkpoint *ck)
{
    const vr_loading *l = ck->loading;
    bool named = l->config != NULL && l->named != NULL && strcmp(l->config->name, l->named) == 0;
    return named || (l->config != NULL && l->n_sets == 0 && l->pipeline == NULL && l->chosen == NULL);
}

/* ModelOpt's export, and AutoGPTQ's before transformers took it over. */
bool vr_bare_tells_quantised(const char *file)
{
    return strcmp(file, "hf_quant_config.json") == 0 || strcmp(file, "quantize_config.json") == 0;
}

/* ---- is it one? ---- */

/* The first row whose keys are all there says what it is. */
static const struct {
    const char *key, *also; /* also NULL: the first is enough */
    const char *what, *hint;
} others[] = {
    { "weight_map", NULL, "this is the index of a checkpoint's shards",
      "give the directory in which it lies" },
    { "peft_type", NULL, "this is the configuration of an adapter, not of a model",
      "give the directory in which it lies, or the base model" },
    { "_diffusers_version", NULL, "this is the configuration of a part of a pipeline of diffusers",
      "give the directory of the whole pipeline" },
    { "added_tokens", "model", "this is a tokenizer, not the configuration of a model", NULL },
    { "tokenizer_class", NULL, "this is the configuration of a tokenizer, not of a model", NULL },
    { "image_processor_type", NULL, "this is the configuration of a preprocessor, not of a model", NULL },
    { "feature_extractor_type", NULL, "this is the configuration of a preprocessor, not of a model", NULL },
    { "processor_class", NULL, "this is the configuration of a preprocessor, not of a model", NULL },
    { "n_layers", "dim", "this is params.json, the publisher's own settings of the model",
      "config.json is read, as transformers has it" },
    { "transformers_version", NULL, "this is no configuration of a model: generation_config.json?", NULL },
    { "eos_token_id", NULL, "this is no configuration of a model: generation_config.json?", NULL },
    { "bos_token", NULL, "this is a list of special tokens, not the configuration of a model", NULL },
};

static bool is_there(vr_json config, const char *key)
{
    vr_json v;
    return key == NULL || vr_json_get(config, key, &v);
}

static vram_status refuse(vram_checkpoint *ck)
{
    const char *what = "this is JSON, but no configuration of a model: it has no model_type";
    const char *hint = "a config.json as transformers has it is read";
    bool names_class = is_there(ck->config, "architectures");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !names_class; i++) {
        if (!is_there(ck->config, others[i].key) || !is_there(ck->config, others[i].also))
            continue;
        what = others[i].what;
        hint = others[i].hint != NULL ? others[i].hint : "the model's config.json lies beside it";
        break;
    }
    vram_status s = vr_fail_file(ck->ctx, VRAM_EUNSUPPORTED, ck->config_file, T(what));
    vr_hint(ck->ctx, hint);
    return s;
}

vram_status vr_bare_check(vram_checkpoint *ck)
{
    vr_json v;
    bool model = vr_json_get(ck->config, "model_type", &v) && v.type != VR_JSON_NULL;
    if (ck->loading->named != NULL)
        return model ? VRAM_OK : refuse(ck);
    if (!model)
        return vr_no_weights(ck);
    return vr_warn(ck->ctx, ck->name, T("there are no weight files: figures come from "), T(ck->config_file),
                   T(" alone"));
}

/* ---- and the tensors that it means ---- */

vram_status vr_checkpoint_declare(vram_checkpoint *out, const vram_checkpoint *from, vr_arena *a,
                                  vr_tensor *tensors, size_t n)
{
    size_t put = 0;
    const vr_tensor *twice = NULL;
    vr_file *file = VR_NEW(a, vr_file);
    if (file == NULL)
        return VRAM_ENOMEM;
    *out = *from;
    *file = (vr_file){ .name = from->config_file };
    out->files = file;
    out->tensors = tensors;
    out->n_tensors = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = tensors[i].end - tensors[i].begin;
        if (!vr_add(out->tensor_bytes, bytes, &out->tensor_bytes) ||
            !vr_add(out->elements, tensors[i].elements, &out->elements))
            return vr_fail_file(from->ctx, VRAM_ELIMIT, from->config_file,
                                T("the tensors that it declares have over 2^64 bytes together"));
    }
    VR_TRY(vr_names_init(&out->names, a, n, from->config_raw.n));
    vr_put_names(out, 0, n, &put, &twice);
    return twice == NULL ? VRAM_OK
                         : vr_fail_file(from->ctx, VRAM_EINTERNAL, from->config_file,
                                        T("two tensors would be called "), S(twice->name));
}
