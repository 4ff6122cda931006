#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands of llama.cpp and Ollama pasted behind "--": each asks what the own words beside it ask; what is wrong is told with
its place; and no option of the tables is mistaken for the model or takes the word behind its own.

    VRAM=path/to/vram python3 pasted.py SOURCE_ROOT
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

VRAM = os.path.abspath(os.environ["VRAM"])
ROOT = sys.argv.pop(1)
sys.path.insert(0, os.path.join(ROOT, "tests", "oracle", "llamacpp"))
import gguf  # noqa: E402

TRAINED = 32768


def make(path):
    """4 layers of width 512, 8 heads, 4 of them for keys and values."""
    keys = [("general.architecture", "llama"), ("general.name", "made"), ("llama.block_count", 4),
            ("llama.embedding_length", 512), ("llama.feed_forward_length", 1024),
            ("llama.attention.head_count", 8), ("llama.attention.head_count_kv", 4), ("llama.context_length", TRAINED)]
    shapes = [("token_embd.weight", 512, 1024), ("output.weight", 512, 1024)]
    for i in range(4):
        shapes += [("blk.%d.attn_q.weight" % i, 512, 512), ("blk.%d.attn_k.weight" % i, 512, 256),
                   ("blk.%d.attn_v.weight" % i, 512, 256), ("blk.%d.attn_output.weight" % i, 512, 512),
                   ("blk.%d.ffn_up.weight" % i, 512, 1024), ("blk.%d.ffn_down.weight" % i, 1024, 512)]
    gguf.write(path, [(k, "str" if isinstance(v, str) else "u32", [v]) for k, v in keys],
               [(name, "f16", dims) for name, *dims in shapes])


class Pasted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory()
        make(os.path.join(cls.room.name, "m.gguf"))

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def run_words(self, words, *more):
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
        return subprocess.run([VRAM, "fit", *more, *words], cwd=self.room.name, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)

    def asked(self, words):
        done = self.run_words(words, "--json", "--gpu", "24GiB")
        self.assertNotEqual(done.stdout, "", (words, done.stderr))
        answer = json.loads(done.stdout)
        ledger = answer["devices"][0]["ledger"]
        return answer["engine"]["name"], answer["workload"], {k: v["bytes"] for k, v in ledger.items()}

    def same(self, pasted, own):
        self.assertEqual(self.asked(["--"] + pasted.split()), self.asked(own.split()), pasted)

    def test_servers(self):
        self.same("llama-server -m m.gguf -c 8192 -np 1 --port 8080 --jinja", "m.gguf --n-ctx 8192 -np 1 --tool server --fit on")
        self.same("llama-server -m m.gguf -c 8192", "m.gguf --n-ctx 8192 --tool server --fit on")
        self.same("./build/bin/llama-server --model m.gguf --ctx-size 8192 --parallel 2 -ctk q8_0 -ctv q8_0 -fa on",
                  "m.gguf --n-ctx 8192 -np 2 -ctk q8_0 -ctv q8_0 -fa on --tool server --fit on")
        self.same("llama serve -m m.gguf --ctx_size 8192 -np 2 -kvu -nkvo -ngl 3 -ub 256 -b 1024",
                  "m.gguf --n-ctx 8192 -np 2 -kvu -nkvo -ngl 3 -ub 256 -b 1024 --tool server --fit on")

    def test_others(self):
        self.same("llama-cli -m m.gguf -c 4096 -ngl all -p hello -no-cnv", "m.gguf --n-ctx 4096 -ngl all --tool cli --fit on")
        self.same("llama-fit-params -m m.gguf -c 16384 -fitp on", "m.gguf --n-ctx 16384 --tool fit-params")
        # 2048 of a prompt behind 4096; 128 generated are less
        self.same("llama-bench -m m.gguf -p 512,2048 -n 128 -d 0,4096 -ngl 99", "m.gguf --n-ctx 6144 -ngl 99 --tool bench")
        self.same("llama-bench -m m.gguf -fa 1", "m.gguf --n-ctx 512 -fa on --tool bench")
        self.same("llama-bench -m m.gguf -p 0 -n 32 -pg 1024,256", "m.gguf --n-ctx 1280 --tool bench")
        self.same("llama-bench -m m.gguf -p 128-1024*2 -n 0", "m.gguf --n-ctx 1024 --tool bench")

    def test_variables(self):
        self.same("CUDA_VISIBLE_DEVICES=0 LLAMA_ARG_CTX_SIZE=8192 LLAMA_ARG_N_PARALLEL=1 llama-server -m m.gguf",
                  "m.gguf --n-ctx 8192 -np 1 --tool server --fit on")
        self.same("env LLAMA_ARG_CTX_SIZE=8192 sudo nohup llama-cli -m m.gguf -c 4096",
                  "m.gguf --n-ctx 4096 --tool cli --fit on")

    def test_own_words_win(self):
        first = self.asked(["--n-ctx", "2048", "--", "llama-server", "-m", "m.gguf", "-c", "8192", "-np", "1"])
        self.assertEqual(first, self.asked("m.gguf --n-ctx 2048 -np 1 --tool server --fit on".split()))
        first = self.asked("-c 2048 -- llama-server -m m.gguf -c 8192 -np 2".split())
        self.assertEqual(first, self.asked("m.gguf -c 2048 -np 2 --tool server --fit on".split()))
        first = self.asked("-c 2048 -- llama-bench -m m.gguf -p 4096".split())
        self.assertEqual(first, self.asked("m.gguf -c 2048 --tool bench".split()))

    def wrong(self, pasted, *texts):
        done = self.run_words(["--"] + pasted.split())
        self.assertEqual(done.returncode, 2, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_errors(self):
        self.wrong("llama-server -m m.gguf --ctx-sizes 4096", "word 4: llama-server has no option --ctx-sizes",
                   "did you mean --ctx-size?")
        self.wrong("llama-server -m m.gguf -c", "word 4: -c: needs a value")
        self.wrong("llama-server -m m.gguf -c lots", "word 4: lots: must be a number of tokens")
        self.wrong("llama-server -m m.gguf 4096", "word 4: 4096: belongs to no option")
        self.wrong("llama-server -m m.gguf -np 0", "must be a number of sequences")
        self.wrong("llama-server --gpt-oss-20b-default --gpt-oss-120b-default", "only one can be run")
        # 2 ** 64 - 1 and 2 do not become 1
        self.wrong("llama-bench -m m.gguf -p 0 -n 0 -pg 18446744073709551615,2", "18446744073709551615")
        self.wrong("llama-server -dr ai/smollm2", "models of Docker are not read")
        self.wrong("llama-swerver -m m.gguf", "a command that is not known: llama-swerver")
        self.wrong("llama-server -c 4096", "vram fit needs MODEL")

    def test_uncounted(self):
        done = self.run_words("-- llama-server -m m.gguf -c 4096 -hfd org/name --rpc host:1 --draft-min 1".split())
        self.assertIn("-hfd of the pasted command: a draft model is not counted", done.stderr)
        self.assertIn("--rpc of the pasted command: the memory of other machines is not counted", done.stderr)
        self.assertNotIn("m.gguf", done.stderr)

    def test_no_context(self):
        """What llama.cpp takes by itself; --fit needs to know the whole graph."""
        done = self.run_words("-- llama-server -m m.gguf".split())
        self.assertIn("the context that llama.cpp takes by itself depends on the card", done.stderr)
        takes = "llama.cpp without -c takes %s tokens: --fit is off" % f"{TRAINED:,}"
        for words, context, told in (
                ("-- llama-server -m m.gguf", {"value": 4096, "set_by": "default"},
                 "llama.cpp: what --fit does is not known here; 4,096 tokens are counted (-c)"),
                ("-- llama-server -m m.gguf -fit off", {"value": TRAINED, "set_by": "model"}, takes)):
            answer = json.loads(self.run_words(words.split(), "--json", "--gpu", "24GiB").stdout)
            self.assertEqual((answer["workload"]["context"], answer["engine_says"]), (context, told))

    def test_context_of_old_builds(self):
        """common.h of each: n_ctx = 512 up to b3086, 0 for what the model was trained with up to b4013, 4096 up to b7406."""
        for build, tokens, by in (("b2000", 512, "default"), ("b3086", 512, "default"), ("b3087", TRAINED, "model"),
                                  ("b4013", TRAINED, "model"), ("b4014", 4096, "default"), ("b7406", 4096, "default")):
            words = "--engine-version %s -- llama-server -m m.gguf" % build
            answer = json.loads(self.run_words(words.split(), "--json", "--gpu", "24GiB").stdout)
            self.assertEqual((answer["workload"]["context"], answer["engine_says"]), (
                {"value": tokens, "set_by": by},
                "llama.cpp without -c takes %s tokens: this build has no --fit" % f"{tokens:,}"), build)
            answer = json.loads(self.run_words((words + " -c 0").split(), "--json", "--gpu", "24GiB").stdout)
            self.assertEqual(answer["workload"]["context"], {"value": TRAINED, "set_by": "model"}, build)

    def test_every_option(self):
        """Value words that look like models; the model comes last."""
        room = {"NONE": [[]], "ONE": [["v"]], "TWO": [["1", "2"]], "MAYBE": [[], ["on"]], "SCALED": [["v"], ["v", "0.5"]]}
        value = {"CONTEXT": "4096", "PARALLEL": "2", "PROMPT": "64", "GENERATE": "64", "DEPTH": "64", "PAIR": "64,64"}
        known = {"batch_size": "512", "ubatch_size": "256", "cache_type_k": "f16", "cache_type_v": "f16",
                 "n_gpu_layers": "2", "no_kv_offload": "1", "no_op_offload": "0", "embedding": "1", "flash_attn": "on",
                 "n_cpu_moe": "1", "main_gpu": "0", "split_mode": "layer", "tensor_split": "1",
                 "override_tensor": "exps=CPU", "image_max_tokens": "64", "spec_type": "none", "spec_draft_n_max": "4",
                 "n_gpu_layers_draft": "all", "cache_type_k_draft": "f16", "cache_type_v_draft": "f16"}
        left_out = {"mmproj", "model_draft", "control_vector", "fit", "fit_target", "fit_ctx", "lora", "pooling"}
        tried = 0
        for name, program in (("pasted_llama.inc", "llama-server"), ("pasted_bench.inc", "llama-bench")):
            with open(os.path.join(ROOT, "src", "cli", name), encoding="utf-8") as f:
                rows = re.findall(r'^X\("([^"]+)",\s*(?:NULL|"\w+"),\s*(\w+),\s*(\w+),\s*(?:NULL|"([^"]*)")', f.read(), re.M)
            self.assertGreater(len(rows), 40)
            for names, values, does, to in rows:
                if does in ("MODEL", "REPO", "FILE_OF", "REFUSED", "PRESET") or to in left_out:
                    continue
                for words in room[values]:
                    if words == ["v"]:
                        words = [value.get(does, known.get(to, "other.gguf"))]
                    line = ["--", program, names.split()[0], *words, "-m", "m.gguf"]
                    done = self.run_words(line, "--json")
                    self.assertIn(done.returncode, (0, 1, 3), (line, done.stderr))
                    self.assertEqual(json.loads(done.stdout)["model"]["name"], "m.gguf", line)
                    tried += 1
        self.assertGreater(tried, 300)


if __name__ == "__main__":
    unittest.main()
