/* SPDX-License-Identifier: MIT
 * Runs of an encoder and a decoder, as generate() has them: every batch of prompts is encoded, the decoder is
 * called with its start token and then with one token after the other. */
#include "engine/encdec.h"

/* What is more is taken in larger steps. Against every single step, T5 of 60 and 250 million, 128 to 4,096
 * tokens, 1 to 16 sequences: the driver figure differs by 2.4 % at most. */
#define MOST_STEPS 64
#define MOST_GROUPS 4096

typedef struct groups {
    vr_encdec_group *list;
    uint64_t n;
    vr_block ids, speech;
} groups;

uint64_t vr_encoded_tokens(const vr_pass *p)
{
    return p->m->source_positions != 0 ? p->m->source_positions : p->w->context;
}

uint64_t vr_decoder_prompt(const vr_pass *p)
{
    return p->m->source_positions != 0 ? p->w->context : 1;
}

void vr_encdec_keep(vr_pass *p, vr_kv *kv, vr_block k, vr_block v, uint64_t tokens)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t bytes = p->batch * tokens * l->heads * l->key_dim * p->width;
    vr_block keys = vr_take(p, bytes, VR_ITEM_KV, VR_STEP_KEYS);
    vr_drop(p, kv->k);
    vr_block values = vr_take(p, bytes, VR_ITEM_KV, VR_STEP_VALUES);
    vr_drop(p, kv->v);
    *kv = (vr_kv){ keys, values, VR_NONE };
    vr_drop(p, k);
    vr_drop(p, v);
}

static vr_block encode(vr_pass *p, uint64_t sequences)
{
    return p->m->source_positions != 0 ? vr_whisper_encode(p, sequences)
                                       : vr_t5_encode(p, sequences, p->w->context);
}

static void call_decoder(vr_pass *p, vr_encdec_group *g, uint64_t tokens)
{
    if (p->m->source_positions != 0)
        vr_whisper_decode(p, g, tokens);
    else
        vr_t5_decode(p, g);
}

/* What the user has on the card: the prompts, and of speech the frames that the encoder hears. */
static vr_block take_speech(vr_pass *p)
{
    uint64_t frames = p->w->sequences * 2 * p->m->source_positions;
    return frames != 0 ? vr_take_at(p, frames * p->m->mel_bins * p->width, VR_ITEM_INPUTS, VR_PLACE_SPEECH)
                       : VR_NONE;
}

static vram_status too_many(const vr_pass *p, uint64_t n)
{
    vram_status s = vr_fail(p->m->ctx, VRAM_ELIMIT, GROUPED(n),
                            T(" batches of prompts one after the other are more than can be rehearsed"));
    vr_hint(p->m->ctx, "raise --prefill-batch");
    return s;
}

static vram_status make_groups(groups *g, const vr_pass *p)
{
    const vram_workload *w = p->w;
    uint64_t left = w->sequences, layers = p->m->n_layers;
    g->n = w->sequences / w->prefill_batch + (w->sequences % w->prefill_batch != 0);
    if (g->n > MOST_GROUPS)
        return too_many(p, g->n);
    g->list = VR_ARRAY(p->arena, vr_encdec_group, (size_t)g->n);
    vr_kv *kv = VR_ARRAY(p->arena, vr_kv, (size_t)(2 * g->n * layers));
    if (g->list == NULL || kv == NULL)
        return VRAM_ENOMEM;
    for (uint64_t i = 0; i < 2 * g->n * layers; i++)
        kv[i] = (vr_kv){ VR_NONE, VR_NONE, VR_NONE };
    for (uint64_t i = 0; i < g->n; i++) {
        uint64_t n = left < w->prefill_batch ? left : w->prefill_batch;
        g->list[i] = (vr_encdec_group){ .sequences = n,
                                        .source = vr_encoded_tokens(p),
                                        .own = kv + 2 * i * layers,
                                        .cross = kv + (2 * i + 1) * layers,
                                        .encoded = VR_NONE,
                                        .logits = VR_NONE };
        left -= n;
    }
    return VRAM_OK;
}

static bool decode(vr_pass *p, groups *g)
{
    uint64_t n = p->w->decode, steps = n < MOST_STEPS ? n : MOST_STEPS;
    for (uint64_t s = 0; s < steps && p->tape->status == VRAM_OK; s++) {
        for (uint64_t i = 0; i < g->n; i++) {
            g->list[i].past = vr_decoder_prompt(p) + vr_mul_div(n, s + 1, steps) - 1;
            call_decoder(p, &g->list[i], 1);
        }
    }
    return steps != n;
}

static void release(vr_pass *p, groups *g)
{
    for (uint64_t i = 0; i < g->n; i++) {
        vr_encdec_group *group = &g->list[i];
        vr_drop(p, group->logits);
        for (uint64_t k = 0; k < p->m->n_layers; k++) {
            vr_block kept[] = { group->own[k].k, group->own[k].v, group->cross[k].k, group->cross[k].v };
            vr_drop_all(p, kept, sizeof(kept) / sizeof(kept[0]));
        }
        vr_drop(p, group->encoded);
    }
    vr_drop(p, g->ids);
    vr_drop(p, g->speech);
    vr_tape_empty_cache(p->tape);
    vr_tape_mark(p->tape, VR_AT_RELEASED);
}

vram_status vr_encdec_run(vr_pass *p, bool *skipped)
{
    groups g = { 0 };
    VR_TRY(make_groups(&g, p));
    g.speech = take_speech(p);
    g.ids = vr_take_at(p, p->w->sequences * p->w->context * 8, VR_ITEM_INPUTS, VR_PLACE_IDS);
    for (uint64_t i = 0; i < g.n && p->tape->status == VRAM_OK; i++) {
        g.list[i].encoded = encode(p, g.list[i].sequences);
        call_decoder(p, &g.list[i], vr_decoder_prompt(p));
    }
    vr_tape_mark(p->tape, VR_AT_PREFILL);
    if (p->w->decode != 0) {
        *skipped = decode(p, &g);
        vr_tape_mark(p->tape, VR_AT_DECODE);
    }
    release(p, &g);
    return VRAM_OK;
}
