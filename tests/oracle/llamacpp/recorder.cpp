// SPDX-License-Identifier: MIT
// Loads a model without memory (llama.cpp's no_alloc), makes a context, and prints as one line of JSON what it would
// allocate. See run.sh for the options.
#include "parameters.h"
#include "shapes.h"
#include "trace.h"
#include "virtual_cuda.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-impl.h"
#include "ggml.h"
#include "llama.h"

#include "../src/llama-ext.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

struct graph_size {
    int nodes;
    int splits;
};

// What the hooks gather. One process records one context.
struct recording {
    FILE * dump = nullptr;
    std::string next = "probe"; // the kind of the graph that comes next
    std::string kind;           // the kind of the graph at hand
    bool tracing = false;       // lines of the graph allocator are wanted
    ggml_backend_sched * sched = nullptr;
    std::vector<std::string> nodes;
    std::vector<std::string> split_lines;
    std::vector<int> split_of;
    int splits = 0;
    std::unordered_map<const ggml_tensor *, std::string> labels;
    std::map<std::string, graph_size> sizes;
    std::map<std::string, size_t> one_token; // sizes of the arenas for the graph of one token a sequence
    bool in_context = false;
    std::vector<std::pair<std::string, size_t>> buffers; // those really asked for while the context was made
    std::string error;
};

recording rec;

// ---- text of a tensor ----------------------------------------------------------------------------------------------

std::string dims(const ggml_tensor * t) {
    char text[128];
    snprintf(text, sizeof text, "[%lld,%lld,%lld,%lld]", (long long) t->ne[0], (long long) t->ne[1],
             (long long) t->ne[2], (long long) t->ne[3]);
    return text;
}

std::string strides(const ggml_tensor * t) {
    char text[128];
    snprintf(text, sizeof text, "nb[%zu,%zu,%zu,%zu]", t->nb[0], t->nb[1], t->nb[2], t->nb[3]);
    return text;
}

std::string flags(const ggml_tensor * t) {
    std::string text;
    text += t->flags & GGML_TENSOR_FLAG_INPUT ? "I" : "";
    text += t->flags & GGML_TENSOR_FLAG_OUTPUT ? "O" : "";
    return text.empty() ? "-" : text;
}

// weight, cache or other memory that lies somewhere already; "" if the graph allocator must place it
std::string home(const ggml_tensor * t) {
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    if (buffer == nullptr) {
        return "";
    }
    const bool weight = ggml_backend_buffer_get_usage(buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    return std::string(weight ? "weight@" : "cache@") + ggml_backend_buffer_name(buffer);
}

std::string label(const ggml_tensor * t) {
    const auto found = rec.labels.find(t);
    return found != rec.labels.end() ? found->second : std::string("c(") + t->name + ")";
}

std::string describe(const ggml_tensor * t) {
    std::string text = std::string(ggml_type_name(t->type)) + " " + dims(t) + " " + strides(t) + " " + flags(t);
    if (t->view_src != nullptr) {
        text += " view=" + label(t->view_src) + "+" + std::to_string(t->view_offs);
    }
    const std::string where = home(t);
    return where.empty() ? text : text + " " + where;
}

std::string node_line(const ggml_tensor * t) {
    std::string text = std::string(ggml_op_desc(t)) + " " + (t->name[0] ? t->name : "-") + " " + describe(t) + " src=";
    bool first = true;
    for (const ggml_tensor * src : t->src) {
        if (src != nullptr) {
            text += (first ? "" : ",") + label(src);
            first = false;
        }
    }
    return first ? text + "-" : text;
}

const char * backend_of(const ggml_tensor * t) {
    ggml_backend_t backend = ggml_backend_sched_get_tensor_backend(rec.sched, const_cast<ggml_tensor *>(t));
    return backend != nullptr ? ggml_backend_name(backend) : "-";
}

std::string arena(int buffer) {
    ggml_backend_t backend = ggml_backend_sched_get_backend(rec.sched, buffer);
    return ggml_backend_buft_name(ggml_backend_sched_get_buffer_type(rec.sched, backend));
}

void trace_line(const char * what, int buffer, int chunk, size_t offset, const std::string & rest) {
    if (rec.tracing && rec.dump != nullptr) {
        fprintf(rec.dump, "%s %s %d:%zu %s\n", what, arena(buffer).c_str(), chunk, offset, rest.c_str());
    }
}

void label_tensors(ggml_cgraph * graph) {
    rec.labels.clear();
    for (int i = 0; i < graph->n_leafs; i++) {
        rec.labels[graph->leafs[i]] = "l" + std::to_string(i) + "(" + graph->leafs[i]->name + ")";
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        rec.labels[graph->nodes[i]] = "n" + std::to_string(i) + "(" + graph->nodes[i]->name + ")";
    }
}

void dump_graph(ggml_cgraph * graph) {
    fprintf(rec.dump, "graph %s nodes=%d leafs=%d splits=%d copies=%d\n", rec.kind.c_str(), graph->n_nodes,
            graph->n_leafs, rec.splits, ggml_backend_sched_get_n_copies(rec.sched));
    for (int i = 0; i < graph->n_leafs; i++) {
        const ggml_tensor * t = graph->leafs[i];
        fprintf(rec.dump, "leaf %d %s %s be=%s\n", i, t->name[0] ? t->name : "-", describe(t).c_str(), backend_of(t));
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        fprintf(rec.dump, "node %d %s be=%s sp=%d\n", i, rec.nodes[i].c_str(), backend_of(graph->nodes[i]),
                rec.split_of[i]);
    }
    for (const std::string & line : rec.split_lines) {
        fprintf(rec.dump, "%s\n", line.c_str());
    }
}

// ---- command line --------------------------------------------------------------------------------------------------

struct options {
    int cards = 1;
    std::vector<size_t> free;
    std::string dump;
    int n_outputs_max = -1;
    bool unified = false;
    bool embeddings = false;
    int pooling = -1;
    bool server = false;
    int shapes = -1; // a file type: print the tensors of a file of metadata alone
};

std::vector<size_t> mebibytes(const char * list) {
    std::vector<size_t> out;
    for (const char * at = list; *at != 0;) {
        char * end;
        out.push_back(size_t(strtoull(at, &end, 10)) << 20);
        at = *end == ',' ? end + 1 : end + strlen(end);
    }
    return out;
}

// Takes our own options out of the list; the rest is llama.cpp's.
options take_options(int argc, char ** argv, std::vector<char *> & rest) {
    options o;
    const char * devices = getenv("FAKE_NDEV");
    const char * outputs = getenv("N_OUTPUTS_MAX");
    const char * unified = getenv("KVU");
    o.cards = devices != nullptr ? atoi(devices) : o.cards;
    o.n_outputs_max = outputs != nullptr ? atoi(outputs) : o.n_outputs_max;
    o.unified = unified != nullptr && atoi(unified) != 0;
    for (int i = 0; i < argc; i++) {
        const std::string a = argv[i];
        const char * value = i + 1 < argc ? argv[i + 1] : "";
        if (a == "--devices") {
            o.cards = atoi(value), i++;
        } else if (a == "--free") {
            o.free = mebibytes(value), i++;
        } else if (a == "--dump") {
            o.dump = value, i++;
        } else if (a == "--n-outputs-max") {
            o.n_outputs_max = atoi(value), i++;
        } else if (a == "-kvu" || a == "--kv-unified") {
            o.unified = true;
        } else if (a == "--embeddings" || a == "--embedding") {
            o.embeddings = true;
        } else if (a == "--pooling") {
            const char * names[] = {"none", "mean", "cls", "last", "rank"};
            for (int p = 0; p < 5; p++) {
                o.pooling = strcmp(value, names[p]) == 0 ? p : o.pooling;
            }
            i++;
        } else if (a == "--shapes") {
            o.shapes = atoi(value), i++;
        } else if (a == "--server") {
            o.server = true;
        } else {
            rest.push_back(argv[i]);
        }
    }
    return o;
}

// llama-server: four slots that share one cache unless -np says otherwise, and one output for each.
void apply_server(options & o, llama_context_params & params, bool slots_given) {
    if (!slots_given) {
        params.n_seq_max = 4;
        o.unified = true;
    }
    if (o.n_outputs_max < 0 && !o.embeddings) {
        o.n_outputs_max = int(std::min(params.n_batch, std::max(1u, params.n_seq_max)));
    }
}

// ---- output --------------------------------------------------------------------------------------------------------

std::string json_text(const std::string & s) {
    std::string out = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c < ' ' ? ' ' : c;
    }
    return out + "\"";
}

void print_bytes(llama_context * ctx) {
    std::map<std::string, llama_memory_breakdown_data> by_name;
    for (const auto & item : llama_get_memory_breakdown(ctx)) {
        llama_memory_breakdown_data & sum = by_name[ggml_backend_buft_name(item.first)];
        sum.model += item.second.model;
        sum.context += item.second.context;
        sum.compute += item.second.compute;
    }
    printf("\"bytes\":{");
    const char * comma = "";
    for (const auto & item : by_name) {
        if (item.second.total() != 0) {
            printf("%s%s:{\"model\":%zu,\"context\":%zu,\"compute\":%zu}", comma, json_text(item.first).c_str(),
                   item.second.model, item.second.context, item.second.compute);
            comma = ",";
        }
    }
    printf("},");
}

void print_graphs() {
    printf("\"graphs\":{");
    const char * comma = "";
    for (const auto & item : rec.sizes) {
        printf("%s%s:{\"nodes\":%d,\"splits\":%d}", comma, json_text(item.first).c_str(), item.second.nodes,
               item.second.splits);
        comma = ",";
    }
    printf("},\"one_token_compute\":{");
    comma = "";
    for (const auto & item : rec.one_token) {
        printf("%s%s:%zu", comma, json_text(item.first).c_str(), item.second);
        comma = ",";
    }
    printf("},");
}

void print_context(llama_context * ctx) {
    print_bytes(ctx);
    const auto & output = rec.buffers.empty() ? std::pair<std::string, size_t>("-", 0) : rec.buffers[0];
    printf("\"output\":{%s:%zu},", json_text(output.first).c_str(), output.second);
    printf("\"effective\":{\"n_ctx\":%u,\"n_ctx_seq\":%u,\"n_batch\":%u,\"n_ubatch\":%u,\"n_seq_max\":%u},",
           llama_n_ctx(ctx), llama_n_ctx_seq(ctx), llama_n_batch(ctx), llama_n_ubatch(ctx), llama_n_seq_max(ctx));
    print_graphs();
}

void keep_errors(ggml_log_level level, const char * text, void *) {
    if (getenv("RECORDER_LOG") != nullptr) {
        fputs(text, stderr);
    }
    if (level == GGML_LOG_LEVEL_ERROR && rec.error.size() < 2000) {
        rec.error += text;
    }
}

int fail(const char * what) {
    while (!rec.error.empty() && rec.error.back() == '\n') {
        rec.error.pop_back();
    }
    printf("{\"error\":%s,\"text\":%s}\n", json_text(what).c_str(), json_text(rec.error).c_str());
    return 1;
}

int record(const options & o, parameters & params) {
    set_no_alloc(params.model, true, 0);
    set_load_mode(params.model, 0, 0); // neither mapped nor read
    set_use_mmap(params.model, false, 0);
    llama_model * model = llama_model_load_from_file(params.path.c_str(), params.model);
    if (model == nullptr) {
        return fail("model");
    }
    llama_context_params & context_params = params.context;
    if (o.n_outputs_max > 0) {
        set_n_outputs_max(context_params, o.n_outputs_max, 0);
    }
    if (o.unified) {
        set_kv_unified(context_params, true, 0);
    }
    context_params.embeddings = o.embeddings;
    if (o.pooling >= 0) {
        context_params.pooling_type = static_cast<enum llama_pooling_type>(o.pooling);
    }
    rec.in_context = true;
    llama_context * ctx = llama_init_from_model(model, context_params);
    rec.in_context = false;
    if (ctx == nullptr) {
        return fail("context");
    }
    printf("{");
    print_context(ctx);
    printf("\"error\":null}\n");
    return 0;
}

} // namespace

// ---- hooks ---------------------------------------------------------------------------------------------------------

extern "C" void trace_alloc(const ggml_tensor * t, int buffer, int chunk, size_t offset, size_t size) {
    trace_line("alloc", buffer, chunk, offset, std::to_string(size) + " " + label(t));
}

extern "C" void trace_reuse(const ggml_tensor * t, const ggml_tensor * from, int buffer, int chunk, size_t offset) {
    trace_line("reuse", buffer, chunk, offset, label(t) + " <- " + label(from));
}

extern "C" void trace_extra(const ggml_tensor * from, int buffer, int chunk, size_t offset, size_t size) {
    trace_line("extra", buffer, chunk, offset, std::to_string(size) + " of " + label(from));
}

extern "C" void trace_free(const ggml_tensor * t, int buffer, int chunk, size_t offset, size_t size) {
    trace_line("free", buffer, chunk, offset, std::to_string(size) + " " + label(t));
}

extern "C" void trace_measure(void) {
    rec.next = "pp";
}

extern "C" void trace_graph(ggml_backend_sched * sched, ggml_cgraph * graph) {
    rec.sched = sched;
    rec.kind = rec.next;
    rec.next = rec.kind == "pp" ? "tg" : rec.kind == "tg" ? "again" : rec.kind;
    rec.tracing = false;
    rec.splits = 0;
    rec.split_lines.clear();
    rec.split_of.assign(graph->n_nodes, 0);
    rec.nodes.clear();
    if (rec.dump != nullptr && (rec.kind == "pp" || rec.kind == "tg")) {
        label_tensors(graph);
        for (int i = 0; i < graph->n_nodes; i++) {
            rec.nodes.push_back(node_line(graph->nodes[i]));
        }
    }
}

extern "C" void trace_split(int number, const char * backend, int first, int end, ggml_tensor ** inputs, int n_inputs) {
    rec.splits++;
    for (int i = first; i < end && i < int(rec.split_of.size()); i++) {
        rec.split_of[i] = number;
    }
    if (rec.nodes.empty()) {
        return;
    }
    std::string line = "split " + std::to_string(number) + " " + backend + " nodes=" + std::to_string(first) + ".." +
                       std::to_string(end) + " inputs=";
    for (int i = 0; i < n_inputs; i++) {
        line += (i > 0 ? "," : "") + label(inputs[i]);
    }
    rec.split_lines.push_back(n_inputs == 0 ? line + "-" : line);
}

extern "C" void trace_planned(ggml_backend_sched * sched, ggml_cgraph * graph, ggml_cgraph * planned,
                              const int * node_ids, const int * leaf_ids, void * allocator) {
    if (rec.kind != "pp" && rec.kind != "tg") {
        return;
    }
    rec.sizes[rec.kind] = {graph->n_nodes, rec.splits};
    if (rec.dump != nullptr) {
        dump_graph(graph);
    }
    rec.tracing = true;
    if (rec.kind == "tg") { // llama.cpp only splits this one when it owns no memory; measure it all the same
        std::vector<size_t> sizes(ggml_backend_sched_get_n_backends(sched));
        ggml_gallocr_reserve_n_size(static_cast<ggml_gallocr_t>(allocator), planned, node_ids, leaf_ids, sizes.data());
        for (size_t i = 0; i < sizes.size(); i++) {
            rec.one_token[arena(int(i))] = sizes[i];
        }
        rec.tracing = false;
    }
}

extern "C" void trace_buffer(const char * type, size_t size) {
    if (rec.in_context) {
        rec.buffers.emplace_back(type, size);
    }
}

int main(int argc, char ** argv) {
    std::vector<char *> rest;
    options o = take_options(argc, argv, rest);
    std::vector<virtual_cuda_card> cards;
    for (int i = 0; i < o.cards; i++) {
        const size_t free = o.free.empty() ? size_t(24) << 30 : o.free[std::min(size_t(i), o.free.size() - 1)];
        cards.push_back({free, free});
    }
    virtual_cuda_register(cards);
    llama_log_set(keep_errors, nullptr);
    llama_backend_init();
    parameters params;
    if (!parse_parameters(params, std::vector<std::string>(rest.begin(), rest.end()))) {
        return fail("options");
    }
    if (o.server) {
        apply_server(o, params.context, params.slots_given);
    }
#ifndef RECORDER_WITHOUT_SHAPES
    if (o.shapes >= 0) {
        const int status = print_shapes(params.path.c_str(), o.shapes);
        if (status != 0) {
            fail("shapes");
        }
        fflush(stdout);
        _Exit(status);
    }
#endif
    rec.dump = o.dump.empty() ? nullptr : fopen(o.dump.c_str(), "w");
    const int status = record(o, params);
    fflush(stdout);
    if (rec.dump != nullptr) {
        fclose(rec.dump);
    }
    _Exit(status); // tearing llama.cpp down costs time and proves nothing
}
