// SPDX-License-Identifier: MIT
#include "parameters.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <cstdlib>
#include <cstring>
#include <list>

namespace {

const char * const experts = "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";

std::list<std::string> patterns; // the library keeps pointers
std::vector<llama_model_tensor_buft_override> overrides;
float shares[128];

void override_with(const std::string & pattern, ggml_backend_buffer_type_t type) {
    patterns.push_back(pattern);
    overrides.push_back({patterns.back().c_str(), type});
}

ggml_backend_buffer_type_t buffers_named(const std::string & name) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(ggml_backend_dev_get(i));
        if (type != nullptr && name == ggml_backend_buft_name(type)) {
            return type;
        }
    }
    return nullptr;
}

bool set_override(const std::string & text) {
    const size_t at = text.find('=');
    ggml_backend_buffer_type_t type = at == std::string::npos ? nullptr : buffers_named(text.substr(at + 1));
    if (type == nullptr) {
        return false;
    }
    override_with(text.substr(0, at), type);
    return true;
}

void set_shares(parameters & out, const std::string & text) {
    const char * from = text.c_str();
    for (size_t i = 0; i < 128 && *from != 0; i++) {
        char * end;
        shares[i] = strtof(from, &end);
        from = *end == 0 ? end : end + 1;
    }
    out.model.tensor_split = shares;
}

bool type_named(const std::string & name, ggml_type & out) {
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const char * known = ggml_type_name(ggml_type(t));
        if (known != nullptr && name == known) {
            out = ggml_type(t);
            return true;
        }
    }
    return false;
}

bool set_flag(parameters & out, const std::string & word) {
    if (word == "-nkvo" || word == "--no-kv-offload") {
        out.context.offload_kqv = false;
    } else if (word == "--no-op-offload") {
        set_op_offload(out.context, false, 0);
    } else if (word == "--swa-full") {
        set_swa_full(out.context, true, 0);
    } else if (word == "--no-repack") {
        set_use_extra_bufts(out.model, false, 0);
    } else if (word == "--no-host") {
        set_no_host(out.model, true, 0);
    } else if (word == "--cpu-moe") {
        override_with(experts, ggml_backend_cpu_buffer_type());
    } else {
        return false;
    }
    return true;
}

bool set_split_mode(parameters & out, const std::string & value) {
    const char * names[] = {"none", "layer", "row"};
    for (int i = 0; i < 3; i++) {
        if (value == names[i]) {
            out.model.split_mode = llama_split_mode(i);
            return true;
        }
    }
    return false;
}

bool set_flash(parameters & out, const std::string & value) {
    const int kind = value == "on" ? 1 : value == "off" ? 0 : -1;
    set_flash_attn_type(out.context, kind, 0);
    set_flash_attn(out.context, kind == 1, 0); // before there was "auto"
    return kind >= 0 || value == "auto";
}

bool set_value(parameters & out, const std::string & word, const std::string & value) {
    const int n = atoi(value.c_str());
    if (word == "-m") {
        out.path = value;
    } else if (word == "-c") {
        out.context.n_ctx = uint32_t(n);
    } else if (word == "-b") {
        out.context.n_batch = uint32_t(n);
    } else if (word == "-ub") {
        out.context.n_ubatch = uint32_t(n);
    } else if (word == "-np") {
        out.context.n_seq_max = uint32_t(n);
        out.slots_given = true;
    } else if (word == "-ngl") {
        out.model.n_gpu_layers = n;
    } else if (word == "-mg") {
        out.model.main_gpu = n;
    } else if (word == "--n-cpu-moe") {
        for (int il = 0; il < n; il++) {
            override_with("blk\\." + std::to_string(il) + experts, ggml_backend_cpu_buffer_type());
        }
    } else if (word == "-ts") {
        set_shares(out, value);
    } else if (word == "-fa") {
        return set_flash(out, value);
    } else if (word == "-sm") {
        return set_split_mode(out, value);
    } else if (word == "-ctk") {
        return type_named(value, out.context.type_k);
    } else if (word == "-ctv") {
        return type_named(value, out.context.type_v);
    } else if (word == "-ot") {
        return set_override(value);
    } else {
        return false;
    }
    return true;
}

} // namespace

bool parse_parameters(parameters & out, const std::vector<std::string> & words) {
    out.model = llama_model_default_params();
    out.context = llama_context_default_params();
    out.model.n_gpu_layers = -1;
    out.context.n_ctx = 0;
    out.context.n_batch = 2048;
    out.context.n_ubatch = 512;
    out.context.n_seq_max = 1;
    set_swa_full(out.context, false, 0);
    set_kv_unified(out.context, false, 0);
    set_flash_attn_type(out.context, -1, 0);
    for (size_t i = 1; i < words.size(); i++) {
        if (set_flag(out, words[i])) {
            continue;
        }
        if (i + 1 == words.size() || !set_value(out, words[i], words[i + 1])) {
            return false;
        }
        i++;
    }
    if (!overrides.empty()) {
        overrides.push_back({nullptr, nullptr});
        out.model.tensor_buft_overrides = overrides.data();
    }
    return true;
}
