/* SPDX-License-Identifier: MIT
 * What a MODEL on the command line means: a path, a repository of a hub, a URL, a name of Ollama. Pure text:
 * no file and no server is asked here. */
#ifndef IO_PLACE_H
#define IO_PLACE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum io_place_kind {
    IO_PLACE_PATH,       /* none of the others */
    IO_PLACE_HUB,        /* org/name, hf://org/name, https://huggingface.co/org/name/... */
    IO_PLACE_MODELSCOPE, /* modelscope:org/name, https://modelscope.cn/models/org/name/... */
    IO_PLACE_OLLAMA,     /* ollama:name[:tag], https://ollama.com/library/name */
    IO_PLACE_URL         /* any other http(s) URL: one file, or a directory when it ends in '/' */
} io_place_kind;

typedef struct io_place {
    io_place_kind kind;
    char endpoint[256]; /* "https://huggingface.co", no slash at the end; "" for the default */
    char repo[256];     /* "org/name"; "library/qwen2.5" for Ollama */
    char revision[256]; /* after '@', of /tree/REV; "" = the default */
    char file[1024];    /* a file or folder of the repository, from /blob/, /resolve/, /tree/; "" */
    char quant[128];    /* after ':': "Q4_K_M"; for Ollama the tag, "" = latest */
    char url[2048];     /* of IO_PLACE_URL */
} io_place;

/* endpoint: value of HF_ENDPOINT, or NULL. False with *why (a constant sentence) when it looks like one of
 * these and is malformed. */
bool io_place_parse(io_place *out, const char *text, const char *endpoint, const char **why);
/* It ends as files of models do: no name of a model. */
bool io_place_is_file_name(const char *name);

#endif
