/* SPDX-License-Identifier: MIT
 * A ggml back end that owns no memory: see virtual_cuda.cpp. */
#ifndef VIRTUAL_CUDA_H
#define VIRTUAL_CUDA_H

#include "ggml-backend.h"

#include <cstddef>
#include <vector>

struct virtual_cuda_card {
    size_t free_bytes;
    size_t total_bytes;
};

// Makes ggml believe in these cards. Call once, before any model is loaded.
void virtual_cuda_register(const std::vector<virtual_cuda_card> &cards);

#endif
