# SPDX-License-Identifier: MIT
"""What tests compare with that is not in this repository: the folder VRAM_DATA, otherwise ../shared beside the
source. Where VRAM_DATA names no such folder that is a failure, otherwise the test is skipped."""
import importlib.util
import os
import sys

SKIPPED = 77


def data_file(root, path):
    whole = os.path.join(os.environ.get("VRAM_DATA") or os.path.join(root, "../shared"), path)
    if not os.access(whole, os.R_OK):
        print("no", whole)
        sys.exit(1 if os.environ.get("VRAM_DATA") else SKIPPED)
    return whole


def make_gguf(root):
    """The module that makes GGUF files of known models."""
    spec = importlib.util.spec_from_file_location("make_gguf", data_file(root, "tools/make_gguf.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
