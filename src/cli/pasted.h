/* SPDX-License-Identifier: MIT
 * Private to pasted*.c: a command of another program, as people paste it behind "--". */
#ifndef PASTED_H
#define PASTED_H

#include "cli.h"

/* How many words follow an option. */
typedef enum pasted_values {
    NONE,
    ONE,
    TWO,
    MAYBE, /* on, off or auto, if the next word is one of them */
    SCALED /* one, and a number if the next word is one */
} pasted_values;

typedef enum pasted_does {
    NOTHING, /* to the card's memory */
    SET,     /* the setting `to` to the value */
    ON,      /* the flag `to` */
    OFF,
    MODEL,     /* the value is the model */
    REPO,      /* of the hub */
    FILE_OF,   /* of that repository */
    CONTEXT,   /* tokens of all sequences */
    PARALLEL,  /* sequences */
    DEVICES,   /* none: no GPU; others are not told apart */
    UNCOUNTED, /* takes memory that is not counted: `to` in words */
    REFUSED,   /* why, in words */
    PRESET,    /* the options `to` in its place */
    PROMPT,    /* llama-bench: lengths, of which the largest counts */
    GENERATE,
    DEPTH,
    PAIR
} pasted_does;

typedef struct pasted_flag {
    const char *names; /* space-separated, as typed */
    const char *env;   /* the variable that does the same, or NULL */
    uint8_t values, does;
    const char *to;
} pasted_flag;

typedef struct pasted {
    cli *c;
    const struct pasted_program *program;
    char **words;
    int n, at;                                                 /* at: the word that is being read */
    const char *typed;                                         /* the option */
    uint64_t context, parallel, prompt, generate, depth, pair; /* 0: not said */
    bool preset;                                               /* one stood there */
    bool as_trained;                                           /* -c 0: the context of the model */
    const char *model;
    bool repo;
    int status;
} pasted;

typedef struct pasted_program {
    const char *name;          /* "llama-server"; of two words "ollama run" */
    const char *engine, *tool; /* tool: the engine's setting of that name, or NULL */
    const pasted_flag *flags;
    size_t n_flags;
    void (*begin)(pasted *p);
    void (*operand)(pasted *p, const char *word); /* NULL: it takes none */
    void (*finish)(pasted *p);
} pasted_program;

/* NULL behind the last. */
const pasted_program *pasted_program_at(size_t i);

/* Of the command's settings; a warning where it has none of that key. */
void pasted_set(pasted *p, const char *key, const char *value);
bool pasted_has(const pasted *p, const char *key); /* it was set, by the command or before it */
void pasted_set_number(pasted *p, const char *key, uint64_t value);
bool pasted_number(const char *text, uint64_t *out);

#endif
