// SPDX-License-Identifier: MIT
// What a projector file (mmproj) would take: the buffers that llama.cpp's clip asks for when it is loaded without data
// and warms up. Shares the hooks of recorder.cpp.
//
//   projector_recorder -m FILE [--devices N] [--no-mmproj-offload] [--image-max-tokens N] [-fa on|off|auto] [--dump FILE]
#define main recorder_main
#include "recorder.cpp"
#undef main

#include "clip.h"
#include "mtmd.h"

namespace {

struct projector_options {
    const char * file = nullptr;
    const char * dump = nullptr;
    int cards = 1;
    clip_context_params params = {};
};

projector_options read_options(int argc, char ** argv) {
    projector_options o;
    o.params.use_gpu = o.params.warmup = o.params.no_alloc = true;
    o.params.flash_attn_type = CLIP_FLASH_ATTN_TYPE_AUTO;
    o.params.image_min_tokens = o.params.image_max_tokens = -1;
    for (int i = 1; i < argc; i++) {
        const std::string a = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        if (a == "--no-mmproj-offload") {
            o.params.use_gpu = false;
            continue;
        }
        if (a == "-m") {
            o.file = argv[i + 1];
        } else if (a == "--dump") {
            o.dump = argv[i + 1];
        } else if (a == "--devices") {
            o.cards = std::stoi(value);
        } else if (a == "--image-max-tokens") {
            o.params.image_max_tokens = std::stoi(value);
        } else if (a == "-fa") {
            o.params.flash_attn_type = value == "on"    ? CLIP_FLASH_ATTN_TYPE_ENABLED
                                       : value == "off" ? CLIP_FLASH_ATTN_TYPE_DISABLED
                                                        : CLIP_FLASH_ATTN_TYPE_AUTO;
        }
        i++;
    }
    return o;
}

} // namespace

int main(int argc, char ** argv) {
    const projector_options o = read_options(argc, argv);
    virtual_cuda_register(std::vector<virtual_cuda_card>(o.cards, {size_t(24) << 30, size_t(24) << 30}));
    mtmd_log_set(keep_errors, nullptr);
    llama_log_set(keep_errors, nullptr);
    llama_backend_init();
    rec.dump = o.dump != nullptr ? fopen(o.dump, "w") : nullptr;
    rec.in_context = true;
    const clip_init_result made = clip_init(o.file, o.params);
    rec.in_context = false;
    if (made.ctx_v == nullptr && made.ctx_a == nullptr) {
        return fail("projector");
    }
    printf("{\"buffers\":["); // weights, then compute buffers, each as often as it grew
    const char * comma = "";
    for (const auto & b : rec.buffers) {
        printf("%s[%s,%zu]", comma, json_text(b.first).c_str(), b.second);
        comma = ",";
    }
    printf("],\"error\":null}\n");
    fflush(stdout);
    if (rec.dump != nullptr) {
        fclose(rec.dump);
    }
    _Exit(0);
}
