#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that real PyTorch saved and what it said of them, and what `vram inspect` says: no PyTorch is needed.

    torch_facts.py VRAM FOLDER      FOLDER has facts.json and the files: torch_facts/ beside this file

For each file, or folder of shards, the names, dtypes and shapes of the model's tensors and their bytes (each storage
once, whole) as PyTorch had them in memory are held against the JSON. One line for each that differs; the exit status is
1 then. torch_oracle.sh --record writes the folder.
"""
import json
import os
import subprocess
import sys

LEAST_FILES = 25  # a folder that lost some is no proof


def compare(vram, path, want, out):
    """want: {'tensors': {name: [dtype, [shape]]}, 'bytes': of all storages}."""
    run = subprocess.run([vram, 'inspect', '--json', '--tensors', path], capture_output=True, text=True)
    if run.returncode != 0:
        out.append('%s: exit %d: %s' % (path, run.returncode, run.stderr.strip()))
        return
    said = json.loads(run.stdout)
    got = {t['name']: [t['dtype'], t['shape']] for t in said['tensor_list']}
    for name in sorted(set(got) | set(want['tensors'])):
        if got.get(name) != want['tensors'].get(name):
            out.append('%s: %s: %s, PyTorch says %s' % (path, name, got.get(name), want['tensors'].get(name)))
    total = want['bytes']
    if said['checkpoint_bytes'] != total or sum(t['bytes'] for t in said['tensor_list']) != total:
        out.append('%s: %d bytes, PyTorch says %d' % (path, said['checkpoint_bytes'], total))


def main():
    vram, folder = sys.argv[1:]
    with open(os.path.join(folder, 'facts.json'), encoding='utf-8') as f:
        facts = json.load(f)
    out = []
    for name, want in facts['files'].items():
        compare(vram, os.path.join(folder, name), want, out)
    beside = set(os.listdir(folder)) - set(facts['files']) - {'facts.json', 'README.md'}
    out += ['%s: facts.json does not know it' % name for name in sorted(beside)]
    print('\n'.join(out + ['%d files of PyTorch %s, %d differences' % (len(facts['files']), facts['torch'], len(out))]))
    return 1 if out or len(facts['files']) < LEAST_FILES else 0


if __name__ == '__main__':
    sys.exit(main())
