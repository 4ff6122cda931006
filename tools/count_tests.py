#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds up the results in meson's test logs and prints what was skipped and why, then 'N passed, N failed, N skipped'."""
import json
import sys


def main(paths):
    passed = failed = skipped = 0
    for path in paths:
        for line in open(path, encoding="utf-8"):
            test = json.loads(line)
            if test["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif test["result"] == "SKIP":
                skipped += 1
                reason = [s for s in test.get("stdout", "").splitlines() if "skip" in s.lower()]
                print(f"skipped: {test['name']}: {reason[-1] if reason else 'no reason given'}")
            else:
                failed += 1
                print(f"failed: {test['name']} ({test['result']}) in {path}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
