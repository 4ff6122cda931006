#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the commands of data/remedies.tsv against the language that each is said to be in.

    commands.py REMEDIES.tsv | --selftest
"""
import ast
import json
import re
import shlex
import subprocess
import sys

# What fills a hole; for others a number that every language takes.
HOLES = {'model': 'org/name', 'alloc_variable': 'PYTORCH_CUDA_ALLOC_CONF', 'dtype': 'dtype'}


def filled(command):
    return re.sub(r'\{([a-z_8]+)\}', lambda hole: HOLES.get(hole.group(1), '4096'), command)


def fails(call, *args):
    try:
        call(*args)
    except (ValueError, SyntaxError) as error:
        return str(error)
    return None


def shell(text):
    run = subprocess.run(['bash', '-n', '-c', text], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ValueError(run.stderr.strip())
    shlex.split(text)


def flags(text):
    words = shlex.split(text)
    if not words or not words[0].startswith('-'):
        raise ValueError('flags begin with "-"')
    shell('program ' + text)


def environment(text):
    for word in shlex.split(text):
        if not re.fullmatch(r'[A-Za-z_][A-Za-z0-9_]*=\S+', word):
            raise ValueError(f'"{word}" is no NAME=VALUE')
    shell(text + ' program')


def python(text):
    """Statements; a trailing block may follow its colon on the line."""
    ast.parse(text)


def members(text):
    json.loads('{' + text + '}')


def yaml(text):
    """One "key: value", the value plain or in flow style with keys without quotes."""
    key, _, value = text.partition(': ')
    if not re.fullmatch(r'[A-Za-z_]+', key) or not value:
        raise ValueError('no "key: value"')
    if value[0] in '{[':
        json.loads(re.sub(r'([{\[, ])([A-Za-z][\w.]*)', r'\1"\2"', re.sub(r'\b(\d+Gi)\b', r'"\1"', value)))


def ini(text):
    if not re.fullmatch(r'\w+ ?= ?\S+', text):
        raise ValueError('no "key = value"')


def balanced(text):
    if text.count('(') != text.count(')') or text.count('"') % 2:
        raise ValueError('not closed')


CHECKS = {'shell': shell, 'flags': flags, 'environment': environment, 'python': python, 'json': members,
          'yaml': yaml, 'ini': ini, 'julia': balanced, 'code': balanced, 'words': balanced}


def check(path):
    wrong, header, seen = 0, None, {}
    for number, line in enumerate(open(path, encoding='utf-8'), 1):
        if line.startswith('#'):
            continue
        cells = line.rstrip('\n').split('\t')
        if header is None:
            header = cells
            continue
        row = dict(zip(header, cells))
        error = fails(CHECKS[row['language']], filled(row['command']))
        if len(row['gain']) > 30:
            error = f'the gain has {len(row["gain"])} characters, at most 30 have room on the screen'
        if error:
            wrong += 1
            print(f'{path}:{number}: {row["id"]}: {error}: {row["command"]}')
        seen[row['language']] = seen.get(row['language'], 0) + 1
    print(', '.join(f'{n} {language}' for language, n in sorted(seen.items())))
    return wrong


def selftest():
    bad = [(shell, "echo 'a"), (flags, 'x'), (flags, "--a '{"), (environment, 'A B'), (python, 'f(x'),
           (members, '"a": '), (yaml, 'a'), (yaml, 'a: [b'), (ini, 'a'), (balanced, 'f(')]
    good = [(shell, 'a && b "c"'), (flags, "--a '{\"b\": 1}'"), (environment, 'A=1 B=x'), (python, 'f(..., a=1)'),
            (members, '"a": {"b": 5e7}'), (yaml, 'a: {b: fp8}'), (yaml, 'a: null'), (ini, 'a = 1'), (balanced, 'f()')]
    missed = [text for call, text in bad if fails(call, text) is None]
    refused = [text for call, text in good if fails(call, text) is not None]
    print('missed', missed, 'refused', refused)
    return len(missed) + len(refused)


if __name__ == '__main__':
    sys.exit(1 if (selftest() if sys.argv[1] == '--selftest' else check(sys.argv[1])) else 0)
