// SPDX-License-Identifier: MIT
// The virtual cards of tests/oracle/llamacpp/virtual_cuda.cpp as a back end that a built llama.cpp loads in place of its
// libggml-cuda.so (GGML_BACKEND_DL): so node-llama-cpp's prebuilt llama.cpp measures as on a card of CUDA.
//
//   c++ -std=gnu++17 -O1 -shared -fPIC -I GGML/include -I GGML/src -I ORACLE virtual_cuda_plugin.cpp -o libggml-cuda.so
//
// CARDS is how many there are (1), CARD_MIB the memory of each (1048576).
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#define ggml_backend_register(registry) ((void) (registry)) /* the loader does it */
#include "virtual_cuda.cpp"

#include <cstdlib>

static size_t number_of(const char * name, size_t otherwise) {
    const char * text = getenv(name);
    return text ? strtoul(text, nullptr, 10) : otherwise;
}

// Host memory is real, so that a model can be loaded and not only measured: what a run reserves is not always what is
// measured without allocating.
static ggml_backend_buffer_t real_host_buffer(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer != nullptr) {
        buffer->buft = type;
    }
    return buffer;
}

static ggml_backend_buffer_type_t real_host_buffers(ggml_backend_dev_t dev) {
    ggml_backend_buffer_type_t type = host_buffers(dev);
    type->iface.alloc_buffer = real_host_buffer;
    return type;
}

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) {
    static ggml_backend_reg reg = {GGML_BACKEND_API_VERSION, {reg_name, reg_count, reg_device, reg_symbol}, nullptr};
    if (cards.empty()) {
        const size_t bytes = number_of("CARD_MIB", 1048576) << 20;
        virtual_cuda_register(std::vector<virtual_cuda_card>(number_of("CARDS", 1), {bytes, bytes}));
        for (card * c : cards) {
            c->device.reg = &reg;
            c->device.iface.get_host_buffer_type = real_host_buffers;
        }
    }
    return &reg;
}
