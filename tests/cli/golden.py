#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden tests of the command: every cases/NAME.sh runs in an empty directory with `vram` on the path, and its stdout,
stderr and exit status must equal NAME.stdout, NAME.stderr (absent: empty) and NAME.exit (absent: 0).

    golden.py VRAM CASES [--update] [NAME...]      --update writes what came out; look at the difference before you keep it
"""
import os
import subprocess
import sys
import tempfile


def run(vram, script):
    with tempfile.TemporaryDirectory() as room:
        tools = os.path.join(room, "bin")
        work = os.path.join(room, "work")
        os.mkdir(tools)
        os.mkdir(work)
        os.symlink(os.path.abspath(vram), os.path.join(tools, "vram"))
        env = {"PATH": tools + ":/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": work}
        for name in os.environ:  # the sanitizers' settings of the build
            if name.endswith("SAN_OPTIONS"):
                env[name] = os.environ[name]
        done = subprocess.run(["sh", os.path.abspath(script)], cwd=work, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        return {"stdout": done.stdout.decode(), "stderr": done.stderr.decode(), "exit": "%d\n" % done.returncode}


def expected(base, kind):
    path = "%s.%s" % (base, kind)
    if not os.path.exists(path):
        return "0\n" if kind == "exit" else ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(base, kind, text):
    path = "%s.%s" % (base, kind)
    if text == ("0\n" if kind == "exit" else ""):
        if os.path.exists(path):
            os.remove(path)
        return
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def compare(base, got):
    bad = [kind for kind in ("stdout", "stderr", "exit") if got[kind] != expected(base, kind)]
    for kind in bad:
        print("FAILED %s: %s" % (os.path.basename(base), kind))
        print("--- expected\n%s--- got\n%s" % (expected(base, kind), got[kind]))
    return not bad


def main():
    words = [a for a in sys.argv[1:] if a != "--update"]
    vram, folder, only = words[0], words[1], words[2:]
    names = sorted(f[:-3] for f in os.listdir(folder) if f.endswith(".sh") and (not only or f[:-3] in only))
    failures = 0
    for name in names:
        base = os.path.join(folder, name)
        got = run(vram, base + ".sh")
        if "--update" in sys.argv:
            for kind, text in got.items():
                write(base, kind, text)
        elif not compare(base, got):
            failures += 1
    print("%d cases, %d failed" % (len(names), failures))
    return 1 if failures or not names else 0


if __name__ == "__main__":
    sys.exit(main())
