/* SPDX-License-Identifier: MIT
 *
 * What help and manual say of no single option: what MODEL may be, and which variables of the environment
 * are read.
 */
#include <string.h>

#include "cli.h"

#define WIDTH 80
#define COLUMN 30

static const cli_term models[] = {
    { "DIR, FILE",
      "A directory with weights, one file of weights, or an index of its shards. An existing path "
      "always wins." },
    { "config.json",
      "A configuration alone, whatever the file is called: the weights are those that its class declares." },
    { "qwen3-32b", "A published model that is built in, without files or network: vram models lists them." },
    { "ORG/NAME",
      "A model of the Hugging Face hub; ORG/NAME@REVISION a branch, tag or commit of it. Its copy "
      "in the hub's cache on this disk is read when it is whole." },
    { "ORG/NAME:Q4_K_M", "Of a repository with GGUF files the one of that quantisation." },
    { "hf:NAME", "A model without an organisation, such as hf:gpt2." },
    { "https://huggingface.co/...", "The address of a model, a folder or a file, as the browser shows it." },
    { "modelscope:ORG/NAME", "A model of ModelScope; its address does too." },
    { "ollama:NAME[:TAG]", "A model of Ollama: from its store on this disk, otherwise from its registry." },
    { "https://...", "Any other file of weights, with what lies beside it." },
    { "example:qwen2.5-7b",
      "A built-in example, without files or network; example:qwen2.5-1.5b is the other." },
};

static const cli_term formats[] = {
    { "safetensors", "One file, or shards with or without their index." },
    { "GGUF", "One file, or one that is split: what llama.cpp and Ollama take of it." },
    { "PyTorch", ".bin, .pt, .pth and .ckpt, as a zip file or older. No code in them is run." },
    { "several parts",
      "Pipelines of diffusers and sentence-transformers; adapters such as LoRA: weights alone." },
    { "quantised",
      "GPTQ, AWQ, bitsandbytes, FP8, NVFP4, MXFP4, compressed-tensors and others: by the tensors "
      "themselves." },
};

static const cli_term engines[] = {
    { "transformers",
      "Played allocation by allocation where the class is known: the verdict has every byte. Of "
      "a class that is not, weights and cache are counted." },
    { "vllm",
      "Weights, cache and what the server claims of the card. Activations and overhead are not counted, "
      "so the verdict is unknown until weights and cache alone are too much." },
    { "sglang", "As vllm." },
    { "llama.cpp",
      "Of a GGUF file weights, caches and compute buffer of each card to the byte, where the architecture's "
      "graph is known; CUDA's context by formula, what kernels put aside assumed. --solve seeks what fits, "
      "--fit on says what it takes by itself. Other models: weights and cache, as a GGUF file in 16 bits." },
    { "ollama", "llama.cpp as Ollama starts it: what it puts on the GPU and what on the CPU by its release, "
                "what ollama ps "
                "will show, and what to write into a Modelfile. The context is Ollama's own for the card, "
                "unless -c (num_ctx) is given." },
    { "all", "All side by side: what each needs, and what a token costs in each." },
};

static const cli_term pasted[] = {
    { "-- llama-server ...",
      "Also llama-cli, llama-bench, llama-fit-params, llama-completion: its options become those of this "
      "command. -c is of all sequences together; without it the context is what --fit would take. Without "
      "-np the server has four slots, which share one cache." },
    { "-- ollama run NAME",
      "The model of Ollama, with the context that it takes on that card; what follows is a "
      "prompt." },
    { "-- NAME=VALUE ...",
      "Variables in front count: LLAMA_ARG_CTX_SIZE=8192 llama-server ..., OLLAMA_NUM_PARALLEL=4 ollama run "
      "... With ollama serve the model is named before the --." },
    { "vram fit --gpu 24GiB -- ...", "What stands before the -- outdoes what stands behind it." },
};

static const cli_term environment[] = {
    { "HF_TOKEN",
      "The token for private and gated models; HF_TOKEN_PATH or $HF_HOME/token is a file with it. "
      "It is sent to the hub alone." },
    { "HF_ENDPOINT", "The hub, or a mirror of it: https://hf-mirror.com." },
    { "HF_HOME, HF_HUB_CACHE", "Where the hub's cache lies. Default: ~/.cache/huggingface." },
    { "HF_HUB_OFFLINE", "1: the hub is not asked; --offline does that for all places." },
    { "MODELSCOPE_API_TOKEN", "The token for ModelScope; MODELSCOPE_ENDPOINT names another server." },
    { "OLLAMA_MODELS", "Where Ollama's store lies. Default: ~/.ollama/models, then those of the service." },
    { "VRAM_CACHE", "Where headers that were read over a network are kept. Default: ~/.cache/vram." },
    { "VRAM_HTTP_TIMEOUT",
      "Seconds that one request may take, and all of them together. Default: 60, and 300." },
    { "SSL_CERT_FILE, SSL_CERT_DIR", "Certificates that are trusted instead of the system's." },
    { "https_proxy, all_proxy, no_proxy", "The proxy to use, and for which hosts not." },
    { "NO_COLOR", "When set and not empty, no colour unless --color always." },
    { "COLUMNS", "Width of the output on a terminal." },
    { "TERM", "\"dumb\" means no colour and no bars." },
};

static const cli_topic topics[] = {
    { "model", "MODELS", "What MODEL may be. Only headers are read: some KB to a few MB, whatever the size.",
      models, sizeof models / sizeof *models },
    { "formats", "FORMATS", "What is read of a checkpoint.", formats, sizeof formats / sizeof *formats },
    { "engines", "ENGINES", "What is counted for --engine NAME.", engines, sizeof engines / sizeof *engines },
    { "pasted", "PASTED COMMANDS",
      "A whole command of llama.cpp or Ollama behind --. What changes nothing on the card is passed over, "
      "what is "
      "not counted is named, and what is not known is an error that says which word.",
      pasted, sizeof pasted / sizeof *pasted },
    { "environment", "ENVIRONMENT", "Variables that are read.", environment,
      sizeof environment / sizeof *environment },
};

const cli_topic *cli_topic_at(size_t i)
{
    return i < sizeof topics / sizeof *topics ? &topics[i] : NULL;
}

const cli_topic *cli_topic_of(const char *name)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strcmp(topics[i].name, name) == 0)
            return &topics[i];
    return NULL;
}

void cli_print_topic(FILE *to, const cli_topic *topic)
{
    cli_wrap(to, topic->intro, 0, 0, WIDTH);
    fputc('\n', to);
    for (size_t i = 0; i < topic->n; i++) {
        fprintf(to, "  %-*s", COLUMN - 2, topic->terms[i].term);
        if (strlen(topic->terms[i].term) > COLUMN - 3)
            fprintf(to, "\n%*s", COLUMN, "");
        cli_wrap(to, topic->terms[i].text, COLUMN, COLUMN, WIDTH);
    }
}
