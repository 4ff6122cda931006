// SPDX-License-Identifier: MIT
// As recorder.cpp, with what llama.cpp loads beside a model:
//
//   --lora FILE           an adapter
//   --control             a control vector on all layers
//   --draft-model FILE    a second model, whose context llama-server opens behind the first one's
//   --mtp                 a second context of the model itself, on its layers that predict further tokens
//   --draft-max N         tokens of a draft (default 3)
#define main recorder_main
#include "recorder.cpp"
#undef main

#include "../src/llama-context.h"
#ifdef LLAMA_HAS_LOAD_MTP
#include "../src/llama-ext.h"
#endif

namespace {

struct beside {
    std::string lora;
    std::string draft;
    bool control = false;
    bool mtp = false;
    int drafts = 3;
};

beside take_beside(int argc, char ** argv, std::vector<char *> & rest) {
    beside b;
    for (int i = 0; i < argc; i++) {
        const std::string a = argv[i];
        const char * value = i + 1 < argc ? argv[i + 1] : "";
        if (a == "--lora") {
            b.lora = value, i++;
        } else if (a == "--draft-model") {
            b.draft = value, i++;
        } else if (a == "--draft-max") {
            b.drafts = atoi(value), i++;
        } else if (a == "--control") {
            b.control = true;
        } else if (a == "--mtp") {
            b.mtp = true;
        } else {
            rest.push_back(argv[i]);
        }
    }
    return b;
}

// As llama.cpp's programs apply them: behind the context, which reserves anew.
bool adapt(const beside & b, llama_model * model, llama_context * ctx, std::map<std::string, size_t> & bytes) {
    const auto before = rec.buffers;
    rec.buffers.clear();
    rec.in_context = true;
    llama_adapter_lora * adapter = b.lora.empty() ? nullptr : llama_adapter_lora_init(model, b.lora.c_str());
    if (b.control) {
        const int n = llama_model_n_embd(model), layers = llama_model_n_layer(model);
        const std::vector<float> data(size_t(n) * (layers - 1));
        llama_set_adapter_cvec(ctx, data.data(), data.size(), n, 1, layers);
    }
    rec.in_context = false;
    for (const auto & buffer : rec.buffers) {
        bytes[buffer.first] += buffer.second;
    }
    rec.buffers = before;
    float scale = 1.0f;
    if (adapter != nullptr) {
        llama_set_adapters_lora(ctx, &adapter, 1, &scale);
    }
    if (adapter != nullptr || b.control) {
        rec.next = "probe";
        ctx->sched_reserve();
    }
    return adapter != nullptr || b.lora.empty();
}

llama_context * open_context(llama_model * model, const llama_context_params & params) {
    rec.buffers.clear();
    rec.sizes.clear();
    rec.next = "probe";
    rec.in_context = true;
    llama_context * ctx = llama_init_from_model(model, params);
    rec.in_context = false;
    return ctx;
}

llama_context * open_draft(const beside & b, const parameters & params) {
    llama_model_params model_params = params.model;
    model_params.n_gpu_layers = -1;
    llama_model * model = llama_model_load_from_file(b.draft.c_str(), model_params);
    llama_context_params context_params = params.context;
    context_params.type_k = context_params.type_v = GGML_TYPE_F16;
    set_n_outputs_max(context_params, context_params.n_seq_max, 0);
    return model == nullptr ? nullptr : open_context(model, context_params);
}

#ifdef LLAMA_HAS_LOAD_MTP
// Drafts are chosen on the device: the samplers make the context reserve anew.
llama_context * open_predicting(llama_model * model, llama_context * first, const parameters & params) {
    llama_context_params context_params = params.context;
    context_params.type_k = context_params.type_v = GGML_TYPE_F16;
    context_params.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
    context_params.ctx_other = first;
    context_params.n_rs_seq = 0;
    context_params.n_outputs_max = context_params.n_seq_max;
    context_params.n_outputs_max_per_seq = 1;
    llama_context * ctx = open_context(model, context_params);
    for (uint32_t seq = 0; ctx != nullptr && seq < context_params.n_seq_max; seq++) {
        llama_sampler * chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(10));
        llama_set_sampler(ctx, llama_seq_id(seq), chain);
    }
    if (ctx != nullptr) {
        llama_set_embeddings_nextn(first, true, false);
        llama_set_embeddings_nextn(ctx, true, true);
        rec.next = "probe";
        ctx->sched_reserve();
    }
    return ctx;
}

void predict_too(const beside & b, parameters & params) {
    params.model.load_mtp = true;
    params.context.n_rs_seq = uint32_t(b.drafts);
    params.context.n_outputs_max_per_seq = uint32_t(1 + b.drafts);
}
#else
llama_context * open_predicting(llama_model *, llama_context *, const parameters &) {
    return nullptr;
}

void predict_too(const beside &, parameters &) {}
#endif

int record_beside(const beside & b, const options & o, parameters & params) {
    set_no_alloc(params.model, true, 0);
    set_load_mode(params.model, 0, 0);
    set_use_mmap(params.model, false, 0);
    if (b.mtp) {
        predict_too(b, params);
    }
    llama_model * model = llama_model_load_from_file(params.path.c_str(), params.model);
    if (model == nullptr) {
        return fail("model");
    }
    if (o.n_outputs_max > 0) {
        set_n_outputs_max(params.context, o.n_outputs_max, 0);
    }
    if (o.unified) {
        set_kv_unified(params.context, true, 0);
    }
    llama_context * ctx = open_context(model, params.context);
    if (ctx == nullptr) {
        return fail("context");
    }
    std::map<std::string, size_t> adapters;
    if (!adapt(b, model, ctx, adapters)) {
        return fail("adapter");
    }
    printf("{");
    print_context(ctx);
    printf("\"adapters\":{");
    const char * comma = "";
    for (const auto & item : adapters) {
        printf("%s%s:%zu", comma, json_text(item.first).c_str(), item.second);
        comma = ",";
    }
    printf("},");
    if (b.mtp || !b.draft.empty()) {
        llama_context * second = b.mtp ? open_predicting(model, ctx, params) : open_draft(b, params);
        if (second == nullptr) {
            return fail("draft model");
        }
        printf("\"second\":{");
        print_context(second);
        printf("\"error\":null},");
    }
    if (b.mtp) { // rows are handed on from now
        rec.next = "probe";
        ctx->set_causal_attn(false);
        ctx->set_causal_attn(true); // it is reserved anew only where something has changed
        ctx->sched_reserve();
        printf("\"again\":{");
        print_context(ctx);
        printf("\"error\":null},");
    }
    printf("\"error\":null}\n");
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    std::vector<char *> words, rest;
    const beside b = take_beside(argc, argv, words);
    options o = take_options(int(words.size()), words.data(), rest);
    virtual_cuda_register(std::vector<virtual_cuda_card>(o.cards, {size_t(24) << 30, size_t(24) << 30}));
    llama_log_set(keep_errors, nullptr);
    llama_backend_init();
    parameters params;
    if (!parse_parameters(params, std::vector<std::string>(rest.begin(), rest.end()))) {
        return fail("options");
    }
    if (o.server) {
        apply_server(o, params.context, params.slots_given);
        if (b.mtp || !b.draft.empty()) { // each draft is an output too
            o.n_outputs_max = int(std::min(params.context.n_batch, params.context.n_seq_max * (1 + b.drafts)));
        }
    }
    const int status = record_beside(b, o, params);
    fflush(stdout);
    _Exit(status);
}
