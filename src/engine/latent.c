/* SPDX-License-Identifier: MIT
 * Multi-head latent attention: projections through short vectors, the rotated part, the cache, keys and
 * values of all heads, the kernel (models/deepseek_v2, deepseek_v3, deepseek_v32, glm_moe_dsa, glm4_moe_lite,
 * minicpm3: modeling_*.py of transformers 4.57, 5.14, 5.15, 5.17, 5.24).
 *
 * Up to 5.14 keys and values of all heads are cached; from 5.15 on the short vector and the shared rotated
 * key, of which keys and values of all tokens are made anew in every call. */
#include "engine/pass.h"

vr_kept vr_kept_of(const vr_layer *l, const vr_rules *rules)
{
    if (l->attention == VR_ATTENTION_LATENT && rules->latent_cache)
        return (vr_kept){ l->latent, l->rotary_dim, l->index_dim };
    return (vr_kept){ l->key_elements, l->value_elements, l->index_dim };
}
