/* SPDX-License-Identifier: MIT
 * One call of model(ids, use_cache=True): embedding, positions, masks, rotary tables, layers, head, in the
 * order of the forward functions of modeling_*.py and of masking_utils.py. A variable of the calling function
 * holds what it names until it is assigned anew or the function returns: the embeddings live as long as the
 * model runs. */
#include "engine/caches.h"
#include "engine/experts.h"

static vr_block input(vr_pass *p, uint64_t bytes, vr_place place)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, place);
}

static vr_block hidden(vr_pass *p, vr_place place)
{
    return vr_take_at(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, place);
}

/* ---- embedding ---- */

/* gemma3 always, gemma2 from some version on: scaled within the embedding module */
static bool scales_inside(const vr_pass *p)
{
    const vr_family *f = p->m->family;
    return (f->embedding_multiplied && !f->multiplied_late) ||
           (f->embedding_scaled && (f->qk_norm || p->rules->gemma2_scales));
}

static vr_block embed(vr_pass *p)
{
    uint64_t weight = p->m->vocab * p->m->hidden * p->width;
    vr_block brought = vr_bring_at(p, weight, VR_PLACE_EMBEDDING);
    vr_block x = hidden(p, VR_PLACE_EMBEDDING);
    vr_drop(p, brought);
    if (!scales_inside(p))
        return x;
    bool casts = p->m->family->scale_cast;
    vr_block scale = casts ? vr_take_at(p, p->width, VR_ITEM_HIDDEN, VR_PLACE_EMBEDDING) : VR_NONE;
    vr_block scaled = hidden(p, VR_PLACE_EMBEDDING);
    vr_drop(p, scale);
    vr_drop(p, x);
    return scaled;
}

/* ---- positions ---- */

/* arange(n), and from some version on the sum with an offset in its place */
static vr_block range(vr_pass *p, uint64_t n, bool sum)
{
    vr_block plain = input(p, n * 8, VR_PLACE_POSITIONS);
    if (!sum)
        return plain;
    vr_block moved = input(p, n * 8, VR_PLACE_POSITIONS);
    vr_drop(p, plain);
    return moved;
}

/* ---- masks ---- */

static vr_block flags(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_SCORES, VR_PLACE_MASK);
}

/* kv <= q */
static vr_block causal(vr_pass *p, uint64_t kv)
{
    return flags(p, p->q * kv);
}

/* new_ones() & (kv > q - window) & (kv <= q): masking_utils.py, and_masks */
static vr_block causal_in_window(vr_pass *p, uint64_t kv)
{
    vr_block ones = flags(p, p->rules->plain_masks ? 1 : p->q);
    vr_block start = input(p, p->q * 8, VR_PLACE_POSITIONS);
    vr_block inside = flags(p, p->q * kv);
    vr_drop(p, start);
    vr_block both = flags(p, p->q * kv);
    vr_drop(p, inside);
    vr_drop(p, ones);
    vr_block before = causal(p, kv);
    vr_block all = flags(p, p->q * kv);
    vr_drop(p, before);
    vr_drop(p, both);
    return all;
}

static const vr_layer *windowed(const vram_model *m)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (vr_has_window(&m->layers[i]))
            return &m->layers[i];
    }
    return NULL;
}

static bool has_chunks(const vram_model *m)
{
    return windowed(m) != NULL && windowed(m)->attention == VR_ATTENTION_CHUNKED;
}

/* sdpa_mask: index ranges, then the comparison of all with all */
static vr_block bool_mask(vr_pass *p, uint64_t window, uint64_t kv)
{
    bool plain = p->rules->plain_masks;
    vr_block keys = plain ? VR_NONE : range(p, kv, false);
    vr_block batch = range(p, p->batch, false), head = range(p, 1, false);
    vr_block queries = plain ? range(p, p->q, true) : VR_NONE;
    if (plain)
        keys = range(p, kv, true);
    vr_block mask = window == 0        ? causal(p, kv)
                    : has_chunks(p->m) ? vr_causal_in_chunk(p, kv)
                                       : causal_in_window(p, kv);
    vr_drop(p, batch);
    vr_drop(p, head);
    vr_drop(p, queries);
    vr_drop(p, keys);
    return mask;
}

/* eager_mask: 0 and the least number where the mask says so, for every sequence */
static vr_block added_mask(vr_pass *p, uint64_t kv, vr_block mask)
{
    vr_block zero = flags(p, p->width), least = flags(p, p->width);
    vr_block out = flags(p, p->batch * p->q * kv * p->width);
    vr_drop(p, least);
    vr_drop(p, zero);
    vr_drop(p, mask);
    return out;
}

vr_block vr_added_mask(vr_pass *p, uint64_t kv)
{
    return added_mask(p, kv, bool_mask(p, 0, kv));
}

/* _ignore_causal_mask_sdpa: without padding, a window that everything fits in needs no mask; flash needs none
 * ever. */
static vr_block make_mask(vr_pass *p, uint64_t window)
{
    uint64_t kv = vr_kv_length(p, window);
    if (p->w->attention == VR_IMPL_FLASH)
        return VR_NONE;
    if (p->w->attention == VR_IMPL_EAGER)
        return added_mask(p, kv, bool_mask(p, window, kv));
    bool compiles = vr_cache_fixed(p->w) && p->q == 1;
    if (p->m->layers[0].index_topk != 0 || compiles) /* allow_is_causal_skip=False */
        return bool_mask(p, window, kv);
    if (p->q > 1 && p->group->past != 0) /* drafts */
        return bool_mask(p, window, kv);
    return window != 0 && kv >= window ? bool_mask(p, window, kv) : VR_NONE;
}

static bool has_full(const vram_model *m)
{
    uint64_t i = 0;
    while (i < m->n_layers && m->layers[i].attention != VR_ATTENTION_FULL)
        i++;
    return i < m->n_layers;
}

/* create_chunked_causal_mask: how many tokens are padding is counted first, needed or not. */
static vr_block windowed_mask(vr_pass *p, uint64_t window)
{
    vr_block padding = has_chunks(p->m) ? input(p, p->batch * 8, VR_PLACE_POSITIONS) : VR_NONE;
    vr_block mask = make_mask(p, window);
    vr_drop(p, padding);
    return mask;
}

/* Qwen2MoeModel and OlmoeModel._update_causal_mask of transformers 4: over one more key than there are. */
static vr_block early_mask(vr_pass *p)
{
    uint64_t kv = vr_kv_length(p, 0) + 1;
    if (p->w->attention != VR_IMPL_EAGER)
        return VR_NONE;
    vr_block mask = flags(p, p->q * kv * p->width);
    if (!p->m->family->both_masks && p->q > 1) { /* without windows: torch.triu */
        vr_replace(p, &mask, flags(p, p->q * kv * p->width));
    }
    vr_block keys = range(p, kv, false);
    vr_block later = flags(p, p->q * kv);
    vr_drop(p, keys);
    vr_drop(p, later);
    return mask;
}

/* A sliding window of 0 that no layer has. */
static vr_block idle_mask(vr_pass *p)
{
    uint64_t kv = vr_kv_length(p, 0);
    if (p->w->attention == VR_IMPL_FLASH)
        return VR_NONE;
    vr_block mask = bool_mask(p, 1, kv);
    return p->w->attention == VR_IMPL_EAGER ? added_mask(p, kv, mask) : mask;
}

/* llama knows no window; mistral and phi3 make one mask, qwen and gemma one for each kind of layer. */
static void make_masks(vr_pass *p)
{
    const vram_model *m = p->m;
    uint64_t window = windowed(m) != NULL ? windowed(m)->window : 0;
    bool one = m->family->window_rule == VR_WINDOW_ATTRIBUTE && !has_full(m);
    bool five = p->rules->plain_masks;
    if (m->family->early_masks && !five && window == 0) {
        p->full_mask = early_mask(p);
        return;
    }
    p->full_mask = one && window != 0 ? VR_NONE : make_mask(p, 0);
    p->sliding_mask = window != 0 ? windowed_mask(p, window) : VR_NONE;
    if (m->family->both_masks && five && window == 0)
        p->sliding_mask = idle_mask(p);
}

/* ---- layers ---- */

static vr_block sum(vr_pass *p, vr_step step)
{
    return vr_take(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, step);
}

static vr_block norm_then_drop(vr_pass *p, vr_block x, vr_step step)
{
    vr_block out = vr_norm(p, p->rows, p->m->hidden, step);
    vr_drop(p, x);
    return out;
}

static bool has(const vr_pass *p, vr_module_role role)
{
    return p->m->modules[role].n != 0;
}

static vr_block norm_if(vr_pass *p, vr_module_role role, vr_step step)
{
    return has(p, role) ? vr_norm(p, p->rows, p->m->hidden, step) : VR_NONE;
}

/* residual + x, of which granite takes a part; x stays */
static vr_block added(vr_pass *p, vr_step step)
{
    vr_block part = p->m->family->residual_multiplied ? sum(p, step) : VR_NONE;
    vr_block out = sum(p, step);
    vr_drop(p, part);
    return out;
}

static vr_block add_to_residual(vr_pass *p, vr_block x, vr_step step)
{
    vr_block out = added(p, step);
    vr_drop(p, x);
    return out;
}

/* What attention makes of the input, normalised before or after. */
static vr_block attend(vr_pass *p, vr_block normed, vr_block *probabilities)
{
    *probabilities = VR_NONE;
    vr_block out;
    switch (vr_layer_of(p)->attention) {
    case VR_ATTENTION_RECURRENT:
        out = vr_mixer_recurrent(p, normed);
        break;
    case VR_ATTENTION_LATENT:
        out = vr_attention_latent(p, normed, probabilities);
        break;
    default:
        out = vr_attention(p, normed, probabilities);
    }
    return has(p, VR_MODULE_POST_ATTENTION) ? norm_then_drop(p, out, VR_STEP_NORM_ATTENTION) : out;
}

/* *weights: what eager attention returned, until experts beside the MLP take its name. */
static vr_block feed_forward(vr_pass *p, vr_block *weights)
{
    bool after = has(p, VR_MODULE_POST_ATTENTION);
    p->mlp_input = norm_if(p, VR_MODULE_PRE_MLP, after ? VR_STEP_NORM_BEFORE : VR_STEP_NORM_ATTENTION);
    vr_block out = vr_mlp(p);
    vr_drop(p, p->mlp_input);
    if (vr_layer_of(p)->mlp != VR_MLP_EXPERTS && vr_layer_of(p)->experts != 0)
        out = vr_experts_beside(p, out, weights);
    return has(p, VR_MODULE_POST_MLP) ? norm_then_drop(p, out, VR_STEP_NORM_AFTER) : out;
}

/* Attention and MLP read the same input, with one norm for both (cohere, phi) or one each (gpt_neox). */
static vr_block parallel_layer(vr_pass *p)
{
    bool one = !has(p, VR_MODULE_PRE_MLP);
    vr_block probabilities, normed = norm_if(p, VR_MODULE_PRE_ATTENTION, VR_STEP_NORM_IN);
    vr_block mixed = attend(p, one ? VR_NONE : normed, &probabilities);
    vr_block fed = feed_forward(p, &probabilities);
    vr_block two = sum(p, VR_STEP_OUTPUT), next = sum(p, VR_STEP_OUTPUT);
    vr_drop(p, two);
    vr_drop(p, mixed);
    vr_drop(p, fed);
    vr_drop(p, one ? normed : VR_NONE);
    vr_drop(p, probabilities);
    return next;
}

/* gpt2, stablelm: variables that are assigned anew later than others', or never; the second has no name for
 * what its second norm gives. */
static vr_block keeping_layer(vr_pass *p)
{
    vr_block probabilities, normed = norm_if(p, VR_MODULE_PRE_ATTENTION, VR_STEP_NORM_IN);
    vr_block mixed = attend(p, VR_NONE, &probabilities);
    vr_block middle = sum(p, VR_STEP_MIDDLE);
    bool first = p->m->family->keeps_norm;
    if (!first)
        vr_drop(p, normed);
    vr_block second = norm_if(p, VR_MODULE_PRE_MLP, VR_STEP_NORM_ATTENTION);
    vr_block fed = vr_mlp(p);
    if (first)
        vr_drop(p, second);
    vr_block next = sum(p, VR_STEP_OUTPUT);
    const vr_block rest[] = { first ? normed : second, fed, mixed, middle, probabilities };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return next;
}

static void forget_if(vr_pass *p, bool condition, vr_block *block)
{
    if (!condition)
        return;
    vr_drop(p, *block);
    *block = VR_NONE;
}

/* One thing alone: a mixer or an MLP (nemotron_h). */
static vr_block single_layer(vr_pass *p)
{
    bool mixes = vr_layer_of(p)->attention != VR_ATTENTION_NONE;
    vr_block probabilities = VR_NONE, normed = norm_if(p, VR_MODULE_PRE_ATTENTION, VR_STEP_NORM_IN);
    vr_block out = mixes ? attend(p, normed, &probabilities) : vr_mlp(p);
    if (!mixes)
        vr_drop(p, normed);
    vr_block next = add_to_residual(p, out, VR_STEP_OUTPUT);
    vr_drop(p, probabilities);
    return next;
}

/* A decoder layer; its input belongs to the caller until it returns. */
static vr_block layer(vr_pass *p)
{
    vr_block probabilities;
    if (p->m->family->alibi)
        return vr_alibi_layer(p, &p->beside[0]);
    if (p->m->family->parallel)
        return parallel_layer(p);
    if (vr_layer_of(p)->mlp == VR_MLP_NONE || vr_layer_of(p)->attention == VR_ATTENTION_NONE)
        return single_layer(p);
    if (p->m->family->keeps_outputs)
        return keeping_layer(p);
    bool keeps = p->m->family->keeps_attention;
    vr_block normed = norm_if(p, VR_MODULE_PRE_ATTENTION, VR_STEP_NORM_IN);
    vr_block mixed = attend(p, keeps ? VR_NONE : normed, &probabilities);
    bool early =
        p->m->family->early_masks && !p->rules->plain_masks; /* attention that does not return them */
    forget_if(p, early, &probabilities);
    vr_block middle = added(p, VR_STEP_MIDDLE);
    vr_drop(p, keeps ? normed : mixed);
    vr_block out = feed_forward(p, &probabilities);
    /* hidden_states, _ = ...: what the router gives takes the name of the probabilities */
    forget_if(p, p->router_output != VR_NONE, &probabilities);
    vr_block next = add_to_residual(p, out, VR_STEP_OUTPUT);
    vr_drop(p, middle);
    vr_drop(p, keeps ? mixed : VR_NONE);
    if (vr_layer_of(p)->side_width != 0) {
        vr_block before = next;
        next = vr_side_add(p);
        vr_drop(p, before);
    }
    vr_drop(p, probabilities);
    vr_drop(p, p->router_output);
    p->router_output = VR_NONE;
    for (size_t i = 0; i < sizeof p->beside / sizeof *p->beside; i++)
        forget_if(p, true, &p->beside[i]);
    return next;
}

/* ---- the head ---- */

static vr_block take_logits(vr_pass *p, uint64_t rows)
{
    return vr_take_at(p, rows * p->m->vocab * p->width, VR_ITEM_LOGITS, VR_PLACE_LOGITS);
}

static vr_block head(vr_pass *p, vr_block normed)
{
    uint64_t rows = vr_logits_rows(p), h = p->m->hidden;
    vr_go_to(p, vr_ends(p).head);
    vr_block scaled = p->m->family->head_input_scaled ? hidden(p, VR_PLACE_FINAL_NORM) : VR_NONE;
    vr_block copy =
        vr_sent(p, normed, vr_ends(p).norm, rows * h * p->width, VR_ITEM_HIDDEN, VR_PLACE_FINAL_NORM);
    vr_block weight = vr_bring_at(p, p->m->vocab * h * p->width, VR_PLACE_LOGITS);
    vr_block logits = take_logits(p, rows);
    vr_gemm(p, p->m->family->head_bias);
    vr_drop(p, weight);
    vr_drop(p, copy);
    int more = p->m->final_softcap != 0 ? 3 : 0; /* / cap, tanh, * cap */
    more += p->m->family->logits_multiplied;
    for (int i = 0; i < more; i++) {
        vr_replace(p, &logits, take_logits(p, rows));
    }
    if (p->m->family->wide_logits && p->width != 4) {
        vr_replace(p, &logits, vr_take_at(p, rows * p->m->vocab * 4, VR_ITEM_LOGITS, VR_PLACE_LOGITS));
    }
    vr_drop(p, normed);
    vr_drop(p, scaled);
    vr_go_to(p, vr_ends(p).embedding); /* io_same_device: the output goes where the input came from */
    vr_block out =
        vr_sent(p, logits, vr_ends(p).head, rows * p->m->vocab * p->width, VR_ITEM_LOGITS, VR_PLACE_LOGITS);
    if (out != VR_NONE)
        vr_drop(p, logits);
    return out != VR_NONE ? out : logits;
}

/* ---- the model ---- */

/* gemma2 before it scaled inside its embedding: hidden_states * normalizer, beside the embeddings */
static vr_block first_hidden(vr_pass *p, vr_block embeddings)
{
    if (!p->m->family->embedding_scaled || scales_inside(p))
        return embeddings;
    return hidden(p, VR_PLACE_EMBEDDING);
}

/* GraniteMoeModel: inputs_embeds * embedding_multiplier, once there are masks */
static vr_block multiplied_late(vr_pass *p, vr_block embeddings)
{
    if (!p->m->family->multiplied_late)
        return embeddings;
    vr_block scaled = hidden(p, VR_PLACE_EMBEDDING);
    vr_drop(p, embeddings);
    return scaled;
}

/* *lies: the device of the hidden states, before and after. */
static vr_block run_layers(vr_pass *p, const vr_given *g, vr_block first, vr_block embeddings, uint16_t *lies)
{
    vr_block x = first;
    uint64_t bytes = p->rows * p->m->hidden * p->width;
    for (p->layer = 0; p->layer < p->m->n_layers; p->layer++) {
        uint16_t device = p->placement != NULL ? p->placement->layers[p->layer] : 0;
        vr_copies c = { .n = 0 };
        vr_go_to(p, device);
        vr_leave_out(p);
        vr_keep_copy(&c, vr_sent(p, x, *lies, bytes, VR_ITEM_HIDDEN, VR_PLACE_MOVED));
        vr_carry(p, g, &c);
        vr_block before = p->deepened, next = vr_deepen(p, layer(p), &p->deepened);
        vr_drop(p, before);
        if (p->chosen != p->chosen_now)
            vr_drop(p, p->chosen);
        p->chosen = p->chosen_now;
        vr_drop_copies(p, &c);
        if (x != embeddings)
            vr_drop(p, x);
        x = next;
        *lies = device;
    }
    return x;
}

static void make_tables(vr_pass *p, vr_given *g, vr_block embeddings)
{
    unsigned tables = vr_rotary_tables(p->m, p->rules);
    uint64_t bytes = p->rows * p->m->hidden * p->width;
    vr_go_to(p, vr_ends(p).rotary);
    for (int i = 0; i < 2; i++) {
        g->cos[i] = g->sin[i] = VR_NONE;
        if ((tables & (1u << i)) == 0)
            continue;
        vr_block x = vr_sent(p, embeddings, vr_ends(p).embedding, bytes, VR_ITEM_HIDDEN, VR_PLACE_MOVED);
        vr_block at =
            vr_sent(p, g->positions, vr_ends(p).embedding, p->q * 8, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
        vr_rotary_table(p, vr_table_columns(p->m, i == 1), &g->cos[i], &g->sin[i]);
        vr_drop(p, x);
        vr_drop(p, at);
    }
}

static void make_positions(vr_pass *p, vr_given *g)
{
    if (p->w->images != 0) { /* of time, height and width, for each sequence its own */
        g->positions = input(p, 3 * p->rows * 8, VR_PLACE_POSITIONS);
        return;
    }
    if (vr_beams(p->w) == 1) /* otherwise they are given */
        g->positions = range(p, p->q, p->rules->positions_added);
}

/* Gemma3Model makes the masks, Gemma3TextModel within it the positions; before transformers 5 the first made
 * both. `masked`: now that there are masks. */
static void positions_in_turn(vr_pass *p, vr_given *g, bool masked)
{
    bool masks_first = p->rules->positions_added && vr_str_is(vr_str_of(p->m->model_type), "gemma3");
    if (masks_first == masked)
        make_positions(p, g);
}

/* Positions and masks; the first hidden states, or VR_NONE where these are the embeddings themselves. */
/* bloom, mpt: no positions */
static vr_block prepare_biases(vr_pass *p, vr_given *g, vr_learned *l)
{
    bool wide = p->m->family->alibi_wide;
    vr_block first = wide ? VR_NONE : vr_norm_at(p, p->rows, p->m->hidden, VR_PLACE_EMBEDDING);
    l->list[1] = vr_alibi(p, &l->list[0]);
    l->n = 2;
    bool unmasked = wide || p->rules->opt_unmasked;
    p->full_mask = unmasked ? vr_added_mask(p, p->group->past + p->q) : vr_learned_mask(p);
    if (wide) /* .to(torch.bool) */
        vr_replace(p, &p->full_mask, flags(p, p->batch * p->q * (p->group->past + p->q)));
    g->full_mask = p->full_mask;
    g->sliding_mask = g->positions = VR_NONE;
    return first;
}

static vr_block prepare(vr_pass *p, vr_given *g, vr_learned *l)
{
    bool learns = p->m->learned_positions, counts = learns && p->m->family->position_offset != 0;
    bool late = !p->rules->positions_added; /* opt counted after it had made its mask, in its own way */
    vr_block first = VR_NONE;
    g->positions = VR_NONE;
    if (!counts || late)
        positions_in_turn(p, g, false);
    if (counts)
        vr_learned_ones(p, l);
    if (counts && !late)
        vr_learned_count(p, l);
    if (learns && !counts)
        first = vr_learned_add(p, l);
    if (counts && !p->rules->opt_unmasked)
        p->full_mask = vr_learned_mask(p);
    else
        make_masks(p);
    g->full_mask = p->full_mask;
    g->sliding_mask = p->sliding_mask;
    if (!counts)
        positions_in_turn(p, g, true);
    if (counts && late)
        vr_learned_count(p, l);
    return counts ? vr_learned_add(p, l) : first;
}

static vr_block run_model(vr_pass *p)
{
    vr_given g;
    vr_learned l = { .n = 0 };
    uint16_t lies = vr_ends(p).embedding;
    vr_go_to(p, lies);
    vr_block embeddings = embed(p);
    vr_sight sight;
    if (p->w->images != 0 && p->group->past == 0)
        embeddings = vr_see(p, embeddings, &sight);
    p->side = vr_side_inputs(p);
    vr_cache_start(p);
    vr_block first = p->m->family->alibi ? prepare_biases(p, &g, &l) : prepare(p, &g, &l);
    embeddings = multiplied_late(p, embeddings);
    make_tables(p, &g, embeddings);
    vr_go_to(p, lies);
    first = first != VR_NONE ? first : first_hidden(p, embeddings);
    vr_block x = run_layers(p, &g, first, embeddings, &lies);
    vr_go_to(p, vr_ends(p).norm);
    vr_block moved = vr_sent(p, x, lies, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, VR_PLACE_MOVED);
    vr_block normed = vr_norm_at(p, p->rows, p->m->hidden, VR_PLACE_FINAL_NORM);
    vr_block rest[] = {
        moved,    x,        g.full_mask, g.sliding_mask, x != embeddings ? embeddings : VR_NONE,
        g.cos[0], g.sin[0], g.cos[1],    g.sin[1],       g.positions
    };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    vr_drop_all(p, l.list, l.n);
    vr_drop(p, p->chosen);
    vr_replace(p, &p->side, VR_NONE);
    vr_replace(p, &p->beside[0], VR_NONE);
    vr_sight_end(p);
    p->full_mask = p->sliding_mask = p->chosen = p->chosen_now = VR_NONE;
    return normed;
}

void vr_forward(vr_pass *p, vr_group *g, uint64_t q)
{
    p->group = g;
    p->batch = g->sequences;
    p->q = q;
    p->rows = g->sequences * q;
    p->skipped = 0;
    vr_block logits = head(p, run_model(p));
    vr_drop(p, g->logits); /* the caller's variable is assigned anew only now */
    g->logits = logits;
    if (g->past != 0)
        vr_forget_seen(p, g);
    g->past += q;
}
