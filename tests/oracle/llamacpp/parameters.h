/* SPDX-License-Identifier: MIT
 * Options of llama.cpp's tools as parameters of its library, with the tools' defaults. */
#ifndef PARAMETERS_H
#define PARAMETERS_H

#include "llama.h"

#include <string>
#include <vector>

struct parameters {
    std::string path;
    llama_model_params model;
    llama_context_params context;
    bool slots_given = false; // -np
};

// False: an option that is not known, or a value that is not.
bool parse_parameters(parameters & out, const std::vector<std::string> & words);

// The library's structures have had other members at other times: set one if it is there.
#define SET_MEMBER(member)                                                                                             \
    template <class T, class V> auto set_##member(T & to, V value, int) -> decltype(to.member, void()) {               \
        to.member = static_cast<decltype(to.member)>(value);                                                           \
    }                                                                                                                  \
    template <class T, class V> void set_##member(T &, V, long) {}

SET_MEMBER(load_mode)
SET_MEMBER(use_mmap)
SET_MEMBER(no_alloc)
SET_MEMBER(no_host)
SET_MEMBER(n_outputs_max)
SET_MEMBER(flash_attn)
SET_MEMBER(flash_attn_type)
SET_MEMBER(kv_unified)
SET_MEMBER(swa_full)
SET_MEMBER(op_offload)
SET_MEMBER(use_extra_bufts)

#endif
