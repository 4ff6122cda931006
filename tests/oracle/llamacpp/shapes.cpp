// SPDX-License-Identifier: MIT
#include "shapes.h"

#include "ggml.h"
#include "gguf.h"
#include "llama.h"

#include "../src/llama-ext.h"
#include "../src/llama-model.h"

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

std::set<std::string> read_keys;

void leave_data(ggml_tensor *, void *) {}

std::vector<ggml_type> types_of(const llama_model * model, std::vector<ggml_tensor *> & tensors, llama_ftype file_type) {
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = file_type;
    quantize_state_impl * state = llama_quant_init(model, &params);
    std::vector<ggml_tensor *> chosen;
    std::vector<ggml_type> types(tensors.size(), GGML_TYPE_F32);
    std::vector<size_t> at;
    for (size_t i = 0; i < tensors.size(); i++) {
        if (llama_quant_tensor_allows_quantization(state, tensors[i])) {
            chosen.push_back(tensors[i]);
            at.push_back(i);
        }
    }
    std::vector<ggml_type> found(chosen.size());
    llama_quant_compute_types(state, file_type, chosen.data(), found.data(), chosen.size());
    for (size_t i = 0; i < chosen.size(); i++) {
        types[at[i]] = found[i];
    }
    llama_quant_free(state);
    return types;
}

} // namespace

extern "C" int64_t __real_gguf_find_key(const gguf_context * ctx, const char * key);
extern "C" int64_t __wrap_gguf_find_key(const gguf_context * ctx, const char * key) {
    const int64_t found = __real_gguf_find_key(ctx, key);
    if (found >= 0) {
        read_keys.insert(key);
    }
    return found;
}

int print_shapes(const char * keys_file, int file_type) {
    gguf_init_params init = {true, nullptr};
    gguf_context * keys = gguf_init_from_file(keys_file, init);
    llama_model_params params = llama_model_default_params();
    params.no_alloc = true;
#ifdef LLAMA_HAS_LOAD_MTP
    params.load_mtp = true;
#endif
    read_keys.clear();
    llama_model * model = keys == nullptr ? nullptr : llama_model_init_from_user(keys, leave_data, nullptr, params);
    if (model == nullptr) {
        return 1;
    }
    std::vector<ggml_tensor *> tensors;
    std::set<std::string> seen; // some stand on several devices
    for (const auto & item : llama_internal_get_tensor_map(model)) {
        if (seen.insert(item.first).second) {
            tensors.push_back(item.second);
        }
    }
    const std::vector<ggml_type> types = types_of(model, tensors, llama_ftype(file_type));
    printf("{\"tensors\":[");
    for (size_t i = 0; i < tensors.size(); i++) {
        const ggml_tensor * t = tensors[i];
        printf("%s[\"%s\",\"%s\"", i > 0 ? "," : "", t->name, ggml_type_name(types[i]));
        for (int d = 0; d < ggml_n_dims(t); d++) {
            printf(",%lld", (long long) t->ne[d]);
        }
        printf("]");
    }
    printf("],\"keys\":[");
    const char * comma = "";
    for (const std::string & key : read_keys) {
        printf("%s\"%s\"", comma, key.c_str());
        comma = ",";
    }
    printf("]}\n");
    return 0;
}
