/* SPDX-License-Identifier: MIT
 * Any bytes as the text of a failure of a small model that is named beside it, with a card or without: a
 * diagnosis must come of it, and both reports; and when memory runs out on the way, nothing else but that is
 * told and nothing is left behind. */
#include <string.h>

#include "../support/hook.h"
#include "diagnosis/diagnosis.h"
#include "fuzz.h"

/* Few layers, for speed; weights of half a GiB. */
static const char config[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\",\"hidden_size\":2048,"
    "\"intermediate_size\":5632,\"num_hidden_layers\":3,\"num_attention_heads\":16,"
    "\"num_key_value_heads\":4,\"vocab_size\":32000,\"max_position_embeddings\":4096,"
    "\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false,"
    "\"torch_dtype\":\"bfloat16\"}";

typedef struct world {
    hook hook;
    vram_ctx *ctx;
    vram_model *model;
    vram_workload *work;
    vram_device *card;
} world;

static void open_model(world *w)
{
    vram_checkpoint *ck;
    const vram_want *wants;

    CHECK(vram_checkpoint_new(&ck, w->ctx, "fuzz") == VRAM_OK);
    CHECK(vram_checkpoint_add_file(ck, "config.json", sizeof config - 1) == VRAM_OK);
    CHECK(vram_checkpoint_listed(ck) == VRAM_OK);
    CHECK(vram_checkpoint_step(ck) == VRAM_MORE);
    CHECK(vram_checkpoint_wants(ck, &wants) == 1 && strcmp(wants[0].file, "config.json") == 0);
    CHECK(vram_checkpoint_supply(ck, "config.json", 0, config, sizeof config - 1) == VRAM_OK);
    CHECK(vram_checkpoint_step(ck) == VRAM_OK);
    CHECK(vram_model_new(&w->model, ck) == VRAM_OK);
}

/* What is said beside the text: by the bytes. */
static void open_world(world *w, unsigned said)
{
    static const char *const cards[] = { NULL, "768MiB", "24GiB", "2x1GiB" };
    static const char *const engines[] = { NULL, NULL, "transformers", "vllm" };
    static const char *const maps[] = { NULL, "auto" };

    memset(w, 0, sizeof *w);
    CHECK(vram_open(&w->ctx, hook_alloc, &w->hook) == VRAM_OK);
    open_model(w);
    CHECK(vram_workload_new(&w->work, w->ctx, engines[said / 4 % 4]) == VRAM_OK);
    if (maps[said / 16 % 2] != NULL && said / 4 % 4 != 3)
        CHECK(vram_workload_set(w->work, "device_map", maps[said / 16 % 2]) == VRAM_OK);
    if (cards[said % 4] != NULL)
        CHECK(vram_device_new(&w->card, w->ctx, cards[said % 4], said / 32 % 2 != 0 ? VR_MIB * 700 : 0) ==
              VRAM_OK);
}

static int count(void *ud, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)ud += n;
    return 0;
}

static vram_status render(const vram_diagnosis *d, vram_format format, int verbose)
{
    vram_style style = { .format = format,
                         .columns = format == VRAM_TEXT && !verbose ? 80 : 0,
                         .verbose = verbose };
    size_t n = 0;
    vram_status s = vram_diagnosis_render(d, &style, count, &n);

    CHECK(s != VRAM_OK || n != 0);
    return s;
}

static void sound(const vr_finding *f)
{
    const vr_spot *spot = &f->spot;

    CHECK(f->cause < VR_CAUSE_COUNT && f->certainty < VR_CERTAINTY_COUNT && f->phase < VR_PHASE_COUNT);
    CHECK(!spot->found || (spot->tried && spot->label != NULL && spot->places != 0));
    CHECK(!spot->tried || spot->found || spot->not_found != NULL);
    CHECK(spot->loaded_permille <= 1000 && f->n_remedies <= VR_MAX_REMEDIES);
    CHECK(spot->to_come == 0 || spot->to_come <= (uint64_t)4 * 266361856);
}

static vram_status explain(world *w, const uint8_t *data, size_t size)
{
    vram_log *log;
    vram_diagnosis *d;

    VR_TRY(vram_log_new(&log, w->ctx));
    VR_TRY(vram_log_feed(log, data, size));
    vram_log_card(log, w->card);
    VR_TRY(vram_diagnosis_new(&d, log, w->model, w->work));
    for (size_t i = 0; i < d->n; i++)
        sound(&d->list[i]);
    VR_TRY(render(d, VRAM_TEXT, 0));
    VR_TRY(render(d, VRAM_TEXT, 1));
    return render(d, VRAM_JSON, 0);
}

static unsigned hash(const uint8_t *data, size_t size)
{
    unsigned h = 2166136261u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 16777619u;
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w;
    unsigned said = hash(data, size);
    size_t before, calls;

    open_world(&w, said);
    before = w.hook.n_calls;
    CHECK(explain(&w, data, size) == VRAM_OK);
    calls = w.hook.n_calls - before;
    CHECK(w.hook.peak_bytes < (size_t)64 << 20);
    vram_close(w.ctx);
    CHECK(w.hook.live_bytes == 0);

    open_world(&w, said);
    w.hook.fail_at = w.hook.n_calls + 1 + said / 64 % calls;
    w.hook.fail_after = said % 3 == 0;
    CHECK(explain(&w, data, size) == VRAM_ENOMEM);
    w.hook.fail_at = 0;
    vram_close(w.ctx);
    CHECK(w.hook.live_bytes == 0);
    return 0;
}
