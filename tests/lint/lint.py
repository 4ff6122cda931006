#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves the rules of this repository that a compiler does not.

    lint.py --root DIR --core libvramcore.a [--sanitized] [--nm NM]
    lint.py --selftest

Every finding is one line, "file:line: rule: what"; any finding makes the exit status 1. --selftest gives each check
something bad and something good: a check that finds nothing in the bad, or something in the good, fails.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

FUNCTION_MAX, FILE_MAX, LINE_MAX, COMPLEXITY_MAX = 80, 600, 110, 15

# What a room of src/ may include from; a room always may from itself. Arrows only run from the right to the left of
#   base <- checkpoint <- model <- engine <- device <- ledger <- report,     base <- rehearsal <- engine     and
#   checkpoint <- ggml <- llama <- engine, with model <- llama.
MAY_INCLUDE = {
    'base': set(),
    'checkpoint': {'base'},
    'model': {'base', 'checkpoint'},
    'rehearsal': {'base'},
    'ggml': {'base', 'checkpoint'},
    'llama': {'base', 'checkpoint', 'model', 'ggml'},
    'engine': {'base', 'checkpoint', 'model', 'rehearsal', 'ggml', 'llama'},
    'device': {'base', 'checkpoint', 'model', 'rehearsal', 'engine'},
    'ledger': {'base', 'checkpoint', 'model', 'rehearsal', 'engine', 'device'},
    'diagnosis': {'base', 'checkpoint', 'model', 'rehearsal', 'engine', 'device', 'ledger'},
    'report': {'base', 'checkpoint', 'model', 'rehearsal', 'engine', 'device', 'ledger', 'diagnosis'},
    'io': {'base'},  # its JSON and text
    'cli': {'io'},
}
SHELL = {'io', 'cli'}  # not the core: may use the C library, but of the core only what is public
CORE_SYSTEM = {'stdbool.h', 'stddef.h', 'stdint.h', 'string.h', 'limits.h', 'float.h', 'zlib.h',
               'sanitizer/asan_interface.h'}

# What the core may leave undefined: eight functions of string.h, two of zlib, and what compilers put in by
# themselves.
ALLOWED = re.compile(
    r'^(mem(cpy|set|cmp|move|chr)|bcmp|strlen|strn?cmp|inflate(Init2_)?|_GLOBAL_OFFSET_TABLE_|__stack_chk_(fail|guard)'
    r'|__(mem(cpy|set|move)|strlen)_chk'
    r'|__u?(div|mod|divmod|mul|mulo|cmp|ashl|ashr|lshr|neg|popcount|clz|ctz|ffs|bswap)[sdt]i[234]?'
    r'|__(float|floatun|fix|fixuns)[sdtx]f?[sdtx]?[if])$')
SANITIZER = re.compile(r'^_*(asan|ubsan|sanitizer|lsan|sancov|msan|tsan)_')

# In two halves, so that this file does not contain what it looks for. Issues of other projects, which may be sources
# of facts, have more digits.
UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|X' r'XX)\b')
# Files of text that people here write.
TEXT_NAMES = re.compile(r'\.(c|h|inc|py|sh|md|tsv|txt|in|build|yml|yaml|toml|1)$|^(run|Makefile|meson_options\.txt)$')
SKIPPED_FOLDERS = {'.git', '__pycache__', 'corpus', 'subprojects'}


class Findings:
    def __init__(self):
        self.list = []

    def add(self, path, line, rule, what):
        self.list.append((path, line, rule, what))

    def rules(self):
        return {f[2] for f in self.list}


# ---- the tree ----

def walk(root):
    """Text files of the tree as (path relative to root, lines)."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith('build'))
        for name in sorted(files):
            if not TEXT_NAMES.search(name):
                continue
            full = os.path.join(folder, name)
            with open(full, encoding='utf-8', errors='replace') as f:
                yield os.path.relpath(full, root), f.read().split('\n')


def is_c(path):
    return path.endswith(('.c', '.h', '.inc'))


def is_ours(path):
    """Bound by the limits of length; tests and tools are not."""
    return is_c(path) and path.split(os.sep)[0] in ('src', 'include')


def without_comments(lines):
    """The lines with comments and the insides of literals blanked, so that words in them are not code."""
    text = '\n'.join(lines)
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

    def blank(match):
        found = match.group(0)
        if found[0] in '"\'':
            return found[0] + found[0]
        return '\n' * found.count('\n')
    return pattern.sub(blank, text).split('\n')


# ---- texts ----

def check_licence(path, lines, out):
    if is_c(path) and not lines[0].startswith('/* SPDX-License-Identifier: MIT'):
        out.add(path, 1, 'licence', 'does not start with the SPDX line')
    elif 'cases' not in path.split(os.sep) and path.endswith(('.py', '.sh', 'meson.build', 'meson_options.txt')) and \
            not any(line.startswith('# SPDX-License-Identifier: MIT') for line in lines[:3]):
        out.add(path, 1, 'licence', 'no SPDX line among the first three')


def check_words(path, lines, out):
    for number, line in enumerate(lines, 1):
        match = UNFINISHED.search(line)
        if match:
            out.add(path, number, 'unfinished', 'says "%s"' % match.group(0))


def check_layout(path, lines, out):
    """One finding a file: clang-format -i mends all of it."""
    long = [n for n, line in enumerate(lines, 1) if is_ours(path) and len(line) > LINE_MAX]
    if long:
        out.add(path, long[0], 'line length', '%d lines over %d characters' % (len(long), LINE_MAX))
    untidy = [n for n, line in enumerate(lines, 1) if is_c(path) and (line != line.rstrip() or '\t' in line)]
    if untidy:
        out.add(path, untidy[0], 'white space', '%d lines with a tab, or with spaces at the end' % len(untidy))


# ---- functions ----

def functions(lines):
    """(name, first line, last line) of each function: its body is between braces at column 0."""
    found = []
    start = None
    for number, line in enumerate(lines):
        if line == '{':
            start = number
        elif line.startswith('}') and start is not None:
            first = start
            while first > 0 and not re.search(r'(^\s*$|[;}]\s*$|\*/\s*$|^#)', lines[first - 1]):
                first -= 1
            name = re.search(r'(\w+)\s*\(', ' '.join(lines[first:start]))
            found.append((name.group(1) if name else '?', first, number))
            start = None
    return found


def table_lines(lines):
    """How many lines are initialisers of tables."""
    count, inside = 0, False
    for line in lines:
        if re.search(r'=\s*\{\s*$', line) and not inside:
            inside, indent = True, len(line) - len(line.lstrip())
        count += inside
        if inside and re.match(r'\s{%d}\};' % indent, line):
            inside = False
    return count


def complexity(body):
    """McCabe's number as pmccabe counts it: one, and one for each branch, loop, case and short circuit."""
    text = '\n'.join(body)
    words = re.findall(r'\b(?:if|for|while|case)\b|&&|\|\||\?', text)
    return 1 + len(words)


def check_functions(path, lines, out, lengths):
    if not is_ours(path):
        return
    code = without_comments(lines)
    for name, first, last in functions(code):
        length = last - first + 1 - table_lines(code[first:last + 1])
        lengths.append(length)
        if length > FUNCTION_MAX:
            out.add(path, first + 1, 'function length', '%s has %d lines, at most %d' % (name, length, FUNCTION_MAX))
        number = complexity(code[first:last + 1])
        if number > COMPLEXITY_MAX:
            out.add(path, first + 1, 'complexity', '%s has %d, at most %d' % (name, number, COMPLEXITY_MAX))
    length = len(lines) - table_lines(lines)
    if length > FILE_MAX:
        out.add(path, 1, 'file length', '%d lines without tables, at most %d' % (length, FILE_MAX))


# ---- includes ----

def target_of(room, name):
    """Which room an #include "name" of a file of that room is about; None for the public headers."""
    if name in ('vram.h', 'vram_io.h'):
        return None
    return name.split('/')[0] if '/' in name else room


def check_includes(path, lines, out):
    parts = path.split(os.sep)
    if parts[0] != 'src' or len(parts) < 3 or not is_c(path):
        return
    room = parts[1]
    if room not in MAY_INCLUDE:
        out.add(path, 1, 'include direction', 'the room "%s" has no place in the order' % room)
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if not match:
            continue
        name = match.group(2)
        if match.group(1) == '<':
            if room not in SHELL and name not in CORE_SYSTEM:
                out.add(path, number, 'purity', 'the core includes <%s>' % name)
            continue
        target = target_of(room, name)
        if name == 'vram_io.h' and room not in SHELL:
            out.add(path, number, 'include direction', 'the core includes "%s"' % name)
        if target is not None and target != room and target not in MAY_INCLUDE[room]:
            out.add(path, number, 'include direction', '%s includes "%s"' % (room, name))


# ---- builds ----

def check_listed(paths, texts, out):
    """Every source is named in the meson.build beside it: what is not built is not tested."""
    for path in paths:
        folder, name = os.path.split(path)
        top = path.split(os.sep)[0]
        if not name.endswith('.c') or top not in ('src', 'tests', 'tools', 'bench') or '/oracle' in folder:
            continue  # an oracle is asked by hand, beside software that is not installed here
        build = '\n'.join(texts.get(os.path.join(folder, 'meson.build'), []))
        names = {name}
        if top != 'src':  # a list of bare names with a foreach over it
            stem = name[:-2]
            names |= {stem, stem.split('_', 1)[-1]}
        if not any("'%s'" % n in build for n in names):
            out.add(path, 1, 'listed', 'not in the meson.build of its folder')


# ---- the library ----

def nm(tool, options, core):
    result = subprocess.run([tool] + options + [core], capture_output=True, text=True, check=True)
    return result.stdout.split('\n')


def check_undefined(nm_lines, out, sanitized):
    """nm_lines: plain nm. Undefined symbols of the whole library."""
    defined, undefined = set(), set()
    for line in nm_lines:
        parts = line.split()
        if len(parts) >= 2 and len(parts[-2]) == 1:
            (undefined if parts[-2] in 'Uw' else defined).add(parts[-1])
    if not defined:
        out.add('library', 0, 'undefined', 'no symbols at all')
    for symbol in sorted(undefined - defined):
        if not ALLOWED.match(symbol) and not (sanitized and SANITIZER.match(symbol)):
            out.add('library', 0, 'undefined', 'the core needs %s' % symbol)


def check_data(sysv_lines, out):
    """sysv_lines: nm --format=sysv, which names the section. Constants with addresses in them lie in .data.rel.ro."""
    for line in sysv_lines:
        columns = [c.strip() for c in line.split('|')]
        if len(columns) == 7 and columns[2] in 'bBdDCgGsS' and columns[2] != '' and \
                not columns[6].startswith('.data.rel.ro'):
            out.add('library', 0, 'mutable global', '%s in %s' % (columns[0], columns[6] or 'common'))


def check_names(nm_lines, out):
    for line in nm_lines:
        parts = line.split()
        if len(parts) == 3 and parts[1] in 'TDBRVW' and not parts[2].startswith(('vr_', 'vram_', '__')):
            out.add('library', 0, 'symbol name', '%s is global and has no prefix' % parts[2])


# ---- all of it ----

def check_tree(root, out, lengths):
    texts = dict(walk(root))
    for path, lines in texts.items():
        check_licence(path, lines, out)
        check_words(path, lines, out)
        check_layout(path, lines, out)
        check_functions(path, lines, out, lengths)
        check_includes(path, lines, out)
    check_listed(list(texts), texts, out)
    return len(texts)


def check_library(tool, core, out, sanitized):
    plain = nm(tool, [], core)
    check_undefined(plain, out, sanitized)
    if sanitized:
        return  # sanitizers put data and symbols of their own there
    check_data(nm(tool, ['--format=sysv'], core), out)
    check_names(plain, out)


def report(out, lengths, files):
    for path, line, rule, what in sorted(out.list):
        print('%s:%d: %s: %s' % (path, line, rule, what))
    if lengths:
        lengths.sort()
        print('%d functions: median %d lines, nine of ten within %d, longest %d' % (
            len(lengths), statistics.median_low(lengths), lengths[len(lengths) * 9 // 10], lengths[-1]))
    print('%d files, %d findings' % (files, len(out.list)))


# ---- selftest ----

SPDX = '/* SPDX-License-Identifier: MIT\n * For a test. */\n'
GOOD = {
    'src/base/a.c': SPDX + '#include "base/base.h"\n#include <string.h>\n\nint vr_a(int x)\n{\n    return x;\n}\n',
    'src/base/base.h': SPDX,
    'src/base/meson.build': "# SPDX-License-Identifier: MIT\nfiles('a.c')\n",
    'src/engine/e.c': SPDX + '#include "model/model.h"\n#include "rehearsal/tape.h"\n#include "e.h"\n#include "vram.h"\n',
    'src/engine/meson.build': "# SPDX-License-Identifier: MIT\nfiles('e.c')\n",
    'src/cli/main.c': SPDX + '#include <stdio.h>\n#include "vram.h"\n#include "vram_io.h"\n#include "io/file.h"\n',
    'src/cli/meson.build': "# SPDX-License-Identifier: MIT\nexecutable('vram', 'main.c')\n",
    'tests/base/test_a.c': SPDX,
    'tests/base/meson.build': "# SPDX-License-Identifier: MIT\nforeach name : ['a']\nendforeach\n",
    'src/report/t.c': SPDX + 'static const int t[] = {\n' + '    1,\n' * 700 + '};\n',
    'src/report/meson.build': "# SPDX-License-Identifier: MIT\nfiles('t.c')\n",
}
LONG = 'int vr_f(int x)\n{\n' + '    x++;\n' * 90 + '    return x;\n}\n'
BRANCHES = 'int vr_f(int x)\n{\n' + '    if (x > 1 && x < 9)\n        x++;\n' * 8 + '    return x;\n}\n'
BAD = [  # rule, file, text
    ('licence', 'src/base/a.c', 'int x;\n'),
    ('licence', 'src/base/meson.build', "files('a.c')\n"),
    ('unfinished', 'docs/a.md', 'TO' + 'DO: write\n'),
    ('unfinished', 'src/base/a.c', SPDX + '/* FIX' + 'ME later */\n'),
    ('line length', 'src/base/a.c', SPDX + '/* ' + 'x' * 120 + ' */\n'),
    ('white space', 'tests/base/test_a.c', SPDX + 'int x; \n'),
    ('function length', 'src/base/a.c', SPDX + LONG),
    ('complexity', 'src/base/a.c', SPDX + BRANCHES),
    ('file length', 'src/base/a.c', SPDX + 'int vr_x;\n' * 650),
    ('include direction', 'src/base/a.c', SPDX + '#include "model/model.h"\n'),
    ('include direction', 'src/rehearsal/r.c', SPDX + '#include "model/model.h"\n'),
    ('include direction', 'src/checkpoint/c.c', SPDX + '#include "engine/engine.h"\n'),
    ('include direction', 'src/ledger/l.c', SPDX + '#include "report/report.h"\n'),
    ('include direction', 'src/ledger/l.c', SPDX + '#include "vram_io.h"\n'),
    ('include direction', 'src/cli/main.c', SPDX + '#include "base/base.h"\n'),
    ('include direction', 'src/io/f.c', SPDX + '#include "cli/cli.h"\n'),
    ('include direction', 'src/elsewhere/f.c', SPDX),
    ('purity', 'src/base/a.c', SPDX + '#include <stdio.h>\n'),
    ('listed', 'src/base/meson.build', "# SPDX-License-Identifier: MIT\nfiles('b.c')\n"),
    ('listed', 'tests/base/test_new.c', SPDX),
]
GOOD_NM = ['a.o:', '0000 T vr_a', '         U vr_b', '0010 r units.0', '         U memcpy', '         U __umodti3',
           '         U __udivmodti4', '         U __memcpy_chk', '         U __stack_chk_fail', 'b.o:', '0000 T vr_b']
BAD_NM = ['malloc', 'printf', 'strtod', 'qsort', 'open', 'getenv', '__assert_fail', '__printf_chk', 'pthread_self',
          'strcpy', '__errno_location', '__asan_report_load8', '__isoc99_sscanf']
GOOD_SYSV = ['Symbols from a.o:', '', 'Name|Value|Class|Type|Size|Line|Section', 'vr_a|0|T|FUNC|1||.text',
             'rows|0|d|OBJECT|16||.data.rel.ro.local', 'units.0|0|r|OBJECT|16||.rodata', 'memcpy||U|NOTYPE|||*UND*']
BAD_SYSV = ['n|0|b|OBJECT|4||.bss', 'n|0|B|OBJECT|4||.bss', 'n|0|d|OBJECT|4||.data', 'n|0|D|OBJECT|4||.data',
            'n|4|C|OBJECT|4||*COM*', 'n|0|b|TLS|4||.tbss']


def findings_of_tree(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as f:
                f.write(text)
        out, lengths = Findings(), []
        check_tree(root, out, lengths)
        return out, lengths


def findings_of(check, lines, *more):
    out = Findings()
    check(lines, out, *more)
    return out


def selftest():
    failures = []

    def expect(condition, what):
        if not condition:
            failures.append(what)

    out, lengths = findings_of_tree(GOOD)
    expect(not out.list, 'good tree: %s' % out.list)
    expect(lengths == [4], 'length of the good function: %s' % lengths)
    for rule, path, text in BAD:
        out, _ = findings_of_tree({**GOOD, path: text})
        expect(rule in out.rules(), '%s not found in %s' % (rule, path))
    expect(not findings_of(check_undefined, GOOD_NM, False).list, 'good symbols refused')
    expect(findings_of(check_undefined, [], False).list, 'an empty library passed')
    for symbol in BAD_NM:
        bad = GOOD_NM + ['         U ' + symbol]
        expect(findings_of(check_undefined, bad, False).list, 'undefined %s passed' % symbol)
    expect(not findings_of(check_undefined, GOOD_NM + ['         U __asan_report_load8'], True).list,
           'sanitizer symbol refused in a sanitizer build')
    expect(findings_of(check_undefined, GOOD_NM + ['         U malloc'], True).list, 'malloc passed when sanitized')
    expect(not findings_of(check_data, GOOD_SYSV).list, 'constants taken for variables')
    for line in BAD_SYSV:
        expect(findings_of(check_data, GOOD_SYSV + [line]).list, 'mutable %s passed' % line)
    expect(not findings_of(check_names, GOOD_NM).list, 'good names refused')
    expect(findings_of(check_names, GOOD_NM + ['0000 T helper']).list, 'a global without prefix passed')
    for failure in failures:
        print('selftest: ' + failure)
    print('selftest: %d bad samples, %d failures' % (len(BAD) + len(BAD_NM) + len(BAD_SYSV) + 3, len(failures)))
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--root')
    parser.add_argument('--core')
    parser.add_argument('--nm', default='nm')
    parser.add_argument('--sanitized', action='store_true')
    parser.add_argument('--selftest', action='store_true')
    args = parser.parse_args()
    if args.selftest:
        return selftest()
    if args.root is None or args.core is None:
        parser.error('--root and --core are needed')
    out, lengths = Findings(), []
    files = check_tree(args.root, out, lengths)
    check_library(args.nm, args.core, out, args.sanitized)
    report(out, lengths, files)
    return 1 if out.list or files == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
