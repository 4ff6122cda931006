/* SPDX-License-Identifier: MIT
 * What --fit makes of a GGUF file's run, for scripts that hold it against llama.cpp's own. Each line of the
 * input: file, context, sequences, unified, flash attention, layers (-1: open), rows of logits, batch,
 * margins in MiB and free MiB of each device, apart by tabs. Each line of the output is a JSON object. */
#include "llama/fit.h"

#include "lines.h"

#include <stdlib.h>

#define MEBI (UINT64_C(1) << 20)

typedef struct asked {
    const char *path;
    vr_lm_params p;
    vr_lm_device devices[VR_LM_MOST_DEVICES];
    uint64_t margins[VR_LM_MOST_DEVICES];
    size_t n;
} asked;

static uint64_t number(void)
{
    const char *word = strtok(NULL, "\t");
    return word != NULL ? strtoull(word, NULL, 10) : 0;
}

static void read_line(asked *q, char *line)
{
    q->path = strtok(line, "\t");
    q->p = (vr_lm_params){
        .build = 10470, .type_k = VR_F16, .type_v = VR_F16, .offload_kqv = true, .op_offload = true
    };
    q->p.n_ctx = number();
    q->p.n_seq_max = number();
    q->p.kv_unified = number() != 0;
    q->p.flash_attn = number() != 0;
    q->p.n_gpu_layers = number();
    q->p.n_outputs_max = number();
    q->p.n_batch = number();
    q->p.n_ubatch = q->p.n_batch == 2048 ? 512 : q->p.n_batch;
    char *margins = strtok(NULL, "\t"), *bytes = strtok(NULL, "\t");
    for (q->n = 0; bytes != NULL && *bytes != '\0'; q->n++) {
        q->devices[q->n] = (vr_lm_device){ strtoull(bytes, &bytes, 10) * MEBI, 89 };
        q->margins[q->n] = strtoull(margins, &margins, 10) * MEBI;
        bytes += *bytes == ',';
        margins += *margins == ',';
    }
}

static void print_pattern(const char *pattern)
{
    for (; *pattern != '\0'; pattern++)
        printf("%s%c", *pattern == '\\' ? "\\" : "", *pattern);
}

static void print_fitted(const vr_lm_fitted *f, size_t n)
{
    const vr_lm_params *p = &f->params;
    printf(
        "{\"n_ctx\": %llu, \"ngl\": %lld, \"trials\": %llu, \"left\": \"%s\", \"unknown\": \"%s\", \"ts\": [",
        (unsigned long long)p->n_ctx, (long long)p->n_gpu_layers, (unsigned long long)f->trials,
        f->left != NULL ? f->left : "", f->unknown != NULL ? f->unknown : "");
    for (size_t i = 0; i < n; i++)
        printf("%s%g", i != 0 ? ", " : "", p->tensor_split[i]);
    printf("], \"ot\": [");
    for (size_t i = 0; i < p->n_overrides; i++) {
        printf("%s\"", i != 0 ? ", " : "");
        print_pattern(p->overrides[i].pattern);
        if (p->overrides[i].device == VR_LM_HOST)
            printf("=CPU\"");
        else
            printf("=CUDA%u\"", (unsigned)p->overrides[i].device);
    }
    printf("]}\n");
}

static vram_status answer(char *line, vram_ctx *ctx, vram_io *io)
{
    asked q = { .path = NULL };
    const vr_lm *lm = NULL;
    vr_lm_fitted f;
    read_line(&q, line);
    VR_TRY(open_lm(&lm, ctx, io, q.path));
    VR_TRY(vr_lm_fit(&f, lm, &q.p, q.devices, q.n, q.margins, VR_LM_FIT_CONTEXT, &ctx->arena));
    print_fitted(&f, q.n);
    return VRAM_OK;
}

int main(void)
{
    return answer_lines(answer);
}
