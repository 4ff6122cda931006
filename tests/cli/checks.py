#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts and terminals rely on: sums in the JSON, help, completion and manual from one table, exit statuses, widths.

    VRAM=path/to/vram python3 checks.py
"""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import unittest

VRAM = os.environ["VRAM"]
SIX = ["weights", "gradients", "optimizer_states", "kv_cache", "activations", "runtime_overhead"]
MIB = 1 << 20
GIB = 1 << 30
COMMANDS = ["fit", "inspect", "ledger", "explain", "gpus", "models", "example", "completion", "man", "help", "version"]
STORY = ["fit", "example:qwen2.5-7b", "--gpu", "rtx-3060-12gb", "--engine", "transformers", "--device-map", "none",
         "--dtype", "bf16", "--context", "4096"]
SMALL = ["fit", "example:qwen2.5-1.5b", "--gpu", "rtx-3060-12gb", "--device-map", "none", "--dtype", "bf16",
         "--attention", "sdpa", "--sequences", "1", "--context", "4096"]
LLAMA2 = ["ledger", "--params", "7e9", "--context", "4096", "--kv-bytes-per-token", "524288"]


LOAD = """    model = AutoModelForCausalLM.from_pretrained(NAME, torch_dtype="auto").to("cuda")
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 11.63 GiB of which 30.88 MiB is \
free. Process 4242 has 0.06 GiB memory in use. Including non-PyTorch memory, this process has 11.54 GiB memory in use. Of the allocated \
memory 11.34 GiB is allocated by PyTorch, and 105.47 MiB is reserved by PyTorch but unallocated."""


def environment():
    """That of the tests, without what the person who runs them has set or stored."""
    ours = ("PATH", "TERM", "LC_ALL", "LANG", "TMPDIR")
    kept = {k: v for k, v in os.environ.items() if k in ours or k.endswith("SAN_OPTIONS")}
    return {**kept, "HOME": "/nonexistent"}


def vram(*words, env=None, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL):
    e = environment()
    e.update(env or {})
    return subprocess.run([VRAM, *words], stdout=stdout, stderr=subprocess.PIPE, stdin=stdin, env=e, timeout=120)


def answer(*words):
    done = vram(*words, "--json")
    return json.loads(done.stdout), done.returncode


def on_terminal(columns, *words, env=None, messages=False):
    """Output (or messages) and exit status of the command on a terminal of that width."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    e = environment()
    e["TERM"] = "xterm-256color"
    e.update(env or {})
    out, err = (subprocess.DEVNULL, other) if messages else (other, subprocess.DEVNULL)
    child = subprocess.Popen([VRAM, *words], stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=e)
    os.close(other)
    got = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        got += part
    os.close(main)
    return got.decode().replace("\r\n", "\n"), child.wait()


def options_of(command):
    rows = re.findall(r"^  (-\w)? +(--[a-z0-9-]+)", vram("help", command).stdout.decode(), re.M)
    return {name for row in rows for name in row if name}


class Ledgers(unittest.TestCase):
    def check_sums(self, device):
        self.assertEqual(list(device["ledger"]), SIX)
        figures = [device["ledger"][name]["bytes"] for name in SIX]
        self.assertEqual(sum(f for f in figures if f is not None), device["required_bytes"])
        overhead = device["ledger"]["runtime_overhead"]["bytes"]
        if overhead is not None:
            self.assertEqual(sum(i["bytes"] for i in device["overhead"]), overhead)
        for name in SIX:
            entry = device["ledger"][name]
            if entry["bytes"] is None:
                self.assertEqual(entry["basis"], "not_counted")
            else:
                self.assertLessEqual(entry["low_bytes"], entry["bytes"])
                self.assertLessEqual(entry["bytes"], entry["high_bytes"])

    def test_the_death_that_was_published(self):
        d, status = answer(*STORY)
        self.assertEqual(status, 1)
        self.assertEqual(d["schema"], "vram.fit/1")
        self.assertEqual(d["model"]["checkpoint_bytes"], 15231233024)
        self.check_sums(d["devices"][0])
        death = d["devices"][0]["failure"]
        self.assertEqual(death["label"], "model.layers.23.mlp.down_proj.weight")
        self.assertEqual(death["tried_bytes"], 130 * MIB)
        self.assertEqual("%.2f" % (death["allocated_bytes"] / GIB), "11.34")
        self.assertEqual("%.2f" % (death["reserved_unallocated_bytes"] / MIB), "105.47")
        self.assertEqual(death["loaded_fraction"], 0.8)
        self.assertEqual(death["short_bytes"], 2740775936)
        self.assertIn("Tried to allocate 130.00 MiB", death["message"])
        self.assertLess(d["devices"][0]["headroom_bytes"], 0)
        self.assertEqual(sum(death["live"].values()), death["live"]["weights"] + death["live"]["runtime_overhead"])

    def test_a_cache_that_grows_after_the_peak_says_so(self):
        """The logits of the whole prompt are the peak; the 16 tokens generated after it need less."""
        fit, _ = answer(*SMALL, "--logits", "all", "--decode", "16")
        cache = fit["devices"][0]["ledger"]["kv_cache"]
        self.assertEqual(cache["bytes"], 112 * MIB)
        self.assertEqual(cache["basis"], "simulated")
        self.assertIn("4,112 tokens; in all 112.44 MiB, of that 112.00 MiB at the fullest point", cache["formula"])

    def test_layers_that_keep_otherwise_are_told_apart(self):
        """Gemma 4: its global layers have other heads, of another width; Kimi-Linear keeps latent vectors."""
        fit, _ = answer("fit", "gemma-4-26b-a4b", "-c", "64", "--gpu", "80GiB")
        cache = fit["devices"][0]["ledger"]["kv_cache"]
        lengths = 25 * 8  # how many tokens a sliding layer has seen, on the card
        self.assertEqual(cache["bytes"], (25 * 2 * 8 * 256 + 5 * 2 * 2 * 512) * 2 * 64 + lengths)
        self.assertEqual(cache["formula"], "(25 layers x 2 (K,V) x 8 heads x 256 + 5 layers x 2 (K,V) x 2 heads x 512)"
                                           " x 2 B x 64 tokens")
        inspected = vram("inspect", "gemma-4-26b-a4b").stdout.decode()
        self.assertIn("; MLP 2,112, 128 experts of 704, 8 for a token", inspected)
        fit, _ = answer("fit", "kimi-linear-48b-a3b-instruct", "-c", "64", "--gpu", "200GiB")
        self.assertIn("7 layers x (512 + 64) x 2 B x 64 tokens;", fit["devices"][0]["ledger"]["kv_cache"]["formula"])

    def test_the_figures_that_were_published(self):
        d, status = answer(*SMALL, "--logits", "all")
        self.assertEqual(status, 0)
        device = d["devices"][0]
        self.check_sums(device)
        moments = {m["name"]: m for m in device["moments"]}
        self.assertEqual("%.1f" % (moments["loaded"]["allocated_bytes"] / MIB), "2945.3")
        self.assertEqual(moments["loaded"]["reserved_bytes"], 3134 * MIB)
        self.assertEqual("%.1f" % (moments["prefill"]["allocated_bytes"] / MIB), "4254.4")
        self.assertEqual(moments["prefill"]["reserved_bytes"], 4722 * MIB)
        self.assertEqual(device["ledger"]["kv_cache"]["bytes"], 112 * MIB)

    def test_verdicts_follow_from_the_figures(self):
        """The rule of the manual: high <= available fits, low > available does not, otherwise tight."""
        seen = set()
        for free in ("3.5GiB", "3.58GiB", "3.6GiB"):
            d, _ = answer(*SMALL, "--free", free)
            device = d["devices"][0]
            gpu = device["gpu"]
            rule = "fits" if device["required_high_bytes"] <= gpu["available_low_bytes"] else \
                "does_not_fit" if device["required_low_bytes"] > gpu["available_high_bytes"] else "tight"
            self.assertEqual(d["verdict"], rule, free)
            seen.add(rule)
        self.assertEqual(seen, {"fits", "tight", "does_not_fit"})

    def test_an_unknown_class_dies_without_a_text(self):
        """Its weights are too much, that is sure; in which pieces its loader puts them on the card is not."""
        with tempfile.TemporaryDirectory() as where:
            header = json.dumps({"blocks.0.w": {"dtype": "BF16", "shape": [1 << 20, 4096],
                                                "data_offsets": [0, 1 << 33]}}).encode()
            with open(os.path.join(where, "model.safetensors"), "wb") as out:
                out.write(struct.pack("<Q", len(header)) + header)
                out.truncate(8 + len(header) + (1 << 33))
            with open(os.path.join(where, "config.json"), "w", encoding="utf-8") as out:
                out.write('{"model_type": "zzz"}')
            d, status = answer("fit", where, "--gpu", "6GiB")
            plain = vram("fit", where, "--gpu", "6GiB").stdout.decode()
            crowded, _ = answer("fit", where, "--gpu", "rtx-3060-12gb", "--free", "50MiB")
        self.assertEqual((status, d["verdict"]), (1, "does_not_fit"))
        self.assertIsNone(d["devices"][0]["ledger"]["kv_cache"]["bytes"])
        self.assertIsNone(d["devices"][0]["failure"]["message"])
        self.assertIn(d["devices"][0]["failure"]["label"], (None, ""))
        self.assertNotIn("Tried to allocate", plain)
        self.assertEqual(crowded["devices"][0]["failure"]["label"], "CUDA context")  # of no class: it comes before

    def test_cards_that_are_short_say_so(self):
        """A card can be tight with some room left by the middle figure, or short by it."""
        d, _ = answer("fit", "example:qwen2.5-7b", "-v")
        text = vram("fit", "example:qwen2.5-7b", "-v").stdout.decode()
        self.assertEqual(text.count(" short)"), sum(c["headroom_bytes"] < 0 for c in d["cards"]))
        self.assertTrue(any(c["verdict"] == "tight" and c["headroom_bytes"] < 0 for c in d["cards"]))

    def test_a_combination_is_about_its_own_card(self):
        d, _ = answer(*LLAMA2, "--sequences", "64", "--gpu-memory-gib", "24,80")
        for at, device in enumerate(d["devices"]):
            combination = device["combination"]
            if combination is not None:
                self.assertEqual(combination["fits"], combination["fits_on"][at])
        self.assertTrue(any(x["combination"] is not None and x["combination"]["fits"] for x in d["devices"]))

    def test_enough_room(self):
        d, status = answer(*STORY[:2], "--gpu", "24GiB", "--dtype", "bf16", "--device-map", "none", "--context", "4096")
        self.assertEqual(status, 0)
        self.assertEqual(d["verdict"], "fits")
        self.assertIsNone(d["devices"][0]["failure"])
        self.assertGreater(d["devices"][0]["headroom_bytes"], 0)

    def test_without_a_card(self):
        d, status = answer("fit", "example:qwen2.5-1.5b", "--dtype", "bf16")
        self.assertEqual(status, 0)
        self.assertEqual(d["devices"], [])
        self.assertTrue(any(c["verdict"] == "fits" for c in d["cards"]))

    def test_settings_tell_who_set_them(self):
        d, _ = answer(*STORY)
        self.assertEqual(d["workload"]["context"], {"value": 4096, "set_by": "user"})
        self.assertEqual(d["workload"]["sequences"]["set_by"], "default")
        for setting in d["workload"].values():
            self.assertIn(setting["set_by"], ("user", "default", "model"))

    def test_inspect(self):
        d, status = answer("inspect", "example:qwen2.5-7b", "--tensors")
        self.assertEqual(status, 0)
        self.assertEqual((d["checkpoint_bytes"], d["tensors"]), (15231233024, 339))
        self.assertEqual(sum(t["parameters"] for t in d["dtypes"].values()), d["parameters"])
        self.assertEqual(sum(t["bytes"] for t in d["tensor_list"]), d["checkpoint_bytes"])
        self.assertEqual(sum(c["bytes"] for c in d["components"] + d["layers"]), d["checkpoint_bytes"])
        self.assertEqual(d["kv_bytes_per_token"], 56 << 10)

    def test_bare_numbers(self):
        """Llama-2-7B's figures in GiB: one and sixteen sequences of 4,096 tokens, and mixed Adam."""
        for words, gib, fits in ((["--overhead", "0.2"], 17.6, (True, True)),
                                 (["--overhead", "0.2", "--sequences", "16"], 47.6, (False, True)),
                                 (["--overhead", "0.2", "--sequences", "16", "--weight-bytes", "0.5"], 35.9, (False, True)),
                                 (["--mode", "train"], 104.3, (False, False))):
            d, status = answer(*LLAMA2, *words, "--gpu-memory-gib", "24,80")
            self.assertEqual(d["schema"], "vram.ledger/1")
            self.assertEqual(status, 0 if all(fits) else 1)
            for device, fit in zip(d["devices"], fits):
                self.check_sums(device)
                self.assertEqual(round(device["required_bytes"] / GIB, 1), gib)
                self.assertEqual(device["headroom_bytes"] >= 0, fit)
                self.assertIsNone(device["ledger"]["activations"]["bytes"])

    def test_scenarios_side_by_side(self):
        two = {"scenarios": [{"name": "one", "params": 7e9}, {"name": "two", "params": 7e9, "mode": "train"}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(two, f)
            f.flush()
            d, status = answer("ledger", "--scenario", f.name, "--gpu-memory-gib", "24")
        self.assertEqual(status, 1)
        self.assertEqual([s["model"]["name"] for s in d["scenarios"]], ["one", "two"])
        self.assertEqual([s["verdict"] for s in d["scenarios"]], ["fits", "does_not_fit"])

    def test_built_in_models(self):
        """What is built in is what its checkpoint would be: only the evidence differs."""
        d, status = answer("models", "QWEN2.5-7B", "instruct")
        self.assertEqual((d["schema"], status), ("vram.models/1", 0))
        self.assertEqual([m["name"] for m in d["models"]], ["qwen2.5-7b-instruct"])
        self.assertEqual(d["models"][0]["parameters"], 7615616512)
        self.assertEqual(d["models"][0]["checkpoint_bytes"], 15231233024)
        for gpu in ("rtx-3060-12gb", "24GiB"):
            stored, known = (answer("fit", name, "--gpu", gpu) for name in ("example:qwen2.5-7b", "Qwen2.5-7B"))
            self.assertEqual(stored[1], known[1])
            for s, k in zip(stored[0]["devices"], known[0]["devices"]):
                self.assertEqual(k["moments"], s["moments"])
                self.assertEqual(k["failure"], s["failure"])
                self.assertEqual({c: k["ledger"][c]["bytes"] for c in SIX}, {c: s["ledger"][c]["bytes"] for c in SIX})
                self.assertEqual([k["ledger"][c]["basis"] for c in SIX[:4]], ["table", "exact", "exact", "table"])
            self.assertEqual((known[0]["model"]["evidence"], stored[0]["model"]["evidence"]), ("catalogue", "checkpoint"))

    def test_what_is_there_in_any_case(self):
        """A part whose size is not known does not hide what the rest is; changes that may be enough are told."""
        small, large = (vram("fit", "phi-3-vision-128k-instruct", "--gpu", size) for size in ("8GiB", "80GiB"))
        self.assertEqual((small.returncode, large.returncode), (1, 3))
        needs = [float(re.search(r"needs ([0-9.]+) GiB and what is not counted", x.stdout.decode())[1]) for x in (small, large)]
        self.assertTrue(all(3821079552 * 2 / GIB < n < 10 for n in needs), needs)
        device = answer("fit", "phi-3-vision-128k-instruct", "--gpu", "8GiB")[0]["devices"][0]
        self.assertEqual((device["weights_at_least_bytes"], device["ledger"]["weights"]["bytes"]), (3821079552 * 2, None))
        self.assertLess(device["headroom_bytes"], 0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as f:  # Falcon 40B
                json.dump({"model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 8192,
                           "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8, "vocab_size": 65024,
                           "new_decoder_architecture": True, "torch_dtype": "bfloat16"}, f)
            said = vram("fit", path, "--gpu", "79GiB").stdout.decode()
        self.assertIn("weights load, then keys and values find no room at model.layers.", said)
        self.assertRegex(said, r"try +1 +weights in 8 bits .* may fit; a small loss")

    def test_an_engine_of_another_program(self):
        said = vram("fit", "whisper-large-v3", "--engine", "all", "--gpu", "24GiB").stdout.decode()
        self.assertRegex(said, r"llama.cpp \S+ +does not run it: Whisper is run by whisper.cpp")

    def test_caches(self):
        """Another cache is offered where there is much to save; its figures are those of its option."""
        asked = ("fit", "llama-3.1-8b-instruct", "--gpu", "rtx-4090", "--decode", "4")
        def lever(d, name):
            return next((x for x in d["levers"] if x["ids"] == [name]), None)
        few, _ = answer(*asked, "--context", "2048")
        self.assertEqual([lever(few, n) for n in ("cache_offloaded", "cache_quantized")], [None, None])
        many, _ = answer(*asked, "--context", "60000")
        for name in ("offloaded", "quantized"):
            found = lever(many, "cache_" + name)
            self.assertEqual(found["option"], "--cache " + name)
            self.assertEqual(found["flag"], f'generate(..., cache_implementation="{name}")')
            typed, _ = answer(*asked, "--context", "60000", "--cache", name)
            self.assertEqual(typed["devices"][0]["required_bytes"], found["required_bytes"])
            self.assertEqual([lever(typed, n) for n in ("cache_offloaded", "cache_quantized")], [None, None])
            words = typed["devices"][0]["ledger"]["kv_cache"]["formula"]
            self.assertEqual("in all 7.32 GiB" in words, name == "offloaded")  # of that, what lies on the card
        self.assertIsNone(lever(answer(*asked, "--context", "60000", "--engine-version", "4.55")[0], "cache_offloaded"))
        slides, _ = answer("fit", "gemma-3-27b-it", "--gpu", "80GiB", "--context", "131072")
        self.assertIsNotNone(lever(slides, "cache_offloaded"))
        self.assertIsNone(lever(slides, "cache_quantized"))  # its class refuses it

    def test_assistant(self):
        """A second model is read, and its weights and cache are added; --revision is not its own."""
        asked = ("fit", "llama-3.1-8b-instruct", "--gpu", "rtx-4090", "--context", "4096", "--decode", "4")
        def sizes(d):
            return [d["devices"][0]["ledger"][c]["bytes"] for c in ("weights", "kv_cache")]
        alone, _ = answer(*asked, "--prompt-lookup", "20")
        both, status = answer(*asked, "--assistant", "llama-3.2-1b-instruct")
        self.assertEqual((status, both["verdict"]), (0, "fits"))
        self.assertEqual(both["workload"]["assistant_model"], {"value": "llama-3.2-1b-instruct", "set_by": "user"})
        self.assertEqual(both["workload"]["num_assistant_tokens"], {"value": 20, "set_by": "default"})
        self.assertEqual(both["model"]["loaded_parameters"] - alone["model"]["loaded_parameters"], 1235814400)
        more = sizes(both)[0] - sizes(alone)[0]
        self.assertTrue(2 * 1235814400 <= more < 2 * 1235814400 + 4096, more)
        self.assertTrue(sizes(both)[1] > sizes(alone)[1] + 16 * 2 * 8 * 64 * 2 * 4000)
        for words, part in (((*asked, "--assistant", "no-such-model-here"), "no-such-model-here"),
                            ((*asked, "--assistant", "llama-3.2-1b-instruct", "--sequences", "2"), "one sequence at a time"),
                            ((*asked, "--num-assistant-tokens", "5"), "there is no --assistant")):
            out = vram(*words)
            self.assertNotEqual(out.returncode, 0)
            self.assertIn(part, out.stderr.decode())

    def test_bare_configuration(self):
        """A directory without weights, a file of any name: figures by formula, and one sentence about it."""
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "float16", "num_hidden_layers": 2,
                  "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000}
        parameters = 2 * 1000 * 256 + 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512 + 2 * 256) + 256
        with tempfile.TemporaryDirectory() as d:
            def write(name, **changes):
                with open(os.path.join(d, name), "w", encoding="utf-8") as f:
                    json.dump({**config, **changes}, f)
            write("config.json")
            write("mine")
            for path, warnings in ((d, 1), (os.path.join(d, "config.json"), 0), (os.path.join(d, "mine"), 0)):
                fit, status = answer("fit", path, "--gpu", "24GiB")
                self.assertEqual((status, fit["verdict"], len(fit["warnings"])), (0, "fits", warnings))
                weights = fit["devices"][0]["ledger"]["weights"]
                self.assertEqual((weights["items"][0]["bytes"], weights["basis"]), (parameters * 2, "formula"))
                self.assertEqual((fit["model"]["parameters"], fit["model"]["evidence"]), (parameters, "configuration"))
                seen, _ = answer("inspect", path)
                self.assertEqual((seen["checkpoint_bytes"], seen["files"], len(seen["layers"])), (parameters * 2, [], 2))
            wide, _ = answer("fit", d, "--gpu", "24GiB", "--dtype", "fp32")
            self.assertEqual(wide["model"]["loaded_bytes"], parameters * 4)
            # never two bytes a parameter where they are not that
            for changes in ({"quantization_config": {"quant_method": "aqlm"}}, {"quantization": {"bits": 4, "group_size": 64}},
                            {"compression_config": {"config_groups": {}}}, {"model_type": "lama"},
                            {"quantization_config": {"quant_method": "modelopt"}}):
                write("config.json", **changes)
                fit, status = answer("fit", d, "--gpu", "24GiB")
                self.assertEqual((status, fit["verdict"]), (3, "unknown"))
                self.assertIsNone(fit["devices"][0]["ledger"]["weights"]["bytes"])
                self.assertIsNone(fit["model"]["checkpoint_bytes"])
            del config["torch_dtype"]
            write("config.json")
            fit, _ = answer("fit", os.path.join(d, "config.json"), "--gpu", "24GiB")
            self.assertEqual(fit["devices"][0]["ledger"]["weights"]["basis"], "assumed")
            self.assertIn("bf16 is assumed", fit["warnings"][0]["text"])

    def test_gpus(self):
        d, status = answer("gpus", "3060", "12gb")
        self.assertEqual(status, 0)
        self.assertEqual(d["schema"], "vram.gpus/1")
        self.assertEqual([g["id"] for g in d["gpus"]], ["rtx-3060-12gb"])
        self.assertEqual(d["gpus"][0]["usable"]["bytes"], 12490457088)


class Gguf(unittest.TestCase):
    def test_no_verdict_from_weights_alone(self):
        """One tensor of 64 F32, which llama.cpp does not load: inspected, and nothing is claimed of it."""
        def text(s):
            return struct.pack("<Q", len(s)) + s
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 3)
        head += text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
        head += text(b"llama.rope.freq_base") + struct.pack("<If", 6, 1e6)
        head += text(b"x.list") + struct.pack("<IIQ3h", 9, 3, 3, 1, -2, 3)
        head += text(b"output_norm.weight") + struct.pack("<IQIQ", 1, 64, 0, 0)
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "tiny.gguf")
            with open(path, "wb") as f:
                f.write(head + bytes(-len(head) % 32 + 256))
            fit, status = answer("fit", path, "--gpu", "24GiB")
            cards, _ = answer("fit", path)
            asked, _ = answer("fit", path, "--gpu", "24GiB", "--engine", "transformers")
            seen, inspected = answer("inspect", path)
        ledger = fit["devices"][0]["ledger"]
        self.assertEqual((status, fit["verdict"], inspected), (3, "unknown", 0))
        self.assertIn("not counted", fit["verdict_reason"])
        self.assertIn("it has no context_length", fit["verdict_reason"])
        for category in ("weights", "kv_cache", "activations", "runtime_overhead"):
            self.assertIsNone(ledger[category]["bytes"])
        self.assertIsNone(fit["devices"][0]["failure"])
        # llama.cpp's settings and none of another engine; nothing is told of how a run goes
        for d, device in ((fit, fit["devices"][0]), (cards, cards["needs"])):
            self.assertEqual((d["engine"]["name"], d["levers"], d["ranked_by"]), ("llama.cpp", [], None))
            self.assertEqual((device["moments"], device["peak_allocated_bytes"], device["pool"]), ([], None, None))
            self.assertEqual(d["workload"]["cache_type_k"], {"value": "f16", "set_by": "default"})
            self.assertNotIn("device_map", d["workload"])
        self.assertIn("llama.cpp and ollama run GGUF files", asked["verdict_reason"])
        self.assertEqual(asked["engine"]["name"], "transformers")
        self.assertEqual(asked["workload"]["device_map"], {"value": "none", "set_by": "default"})
        self.assertEqual(asked["verdict"], "unknown")
        self.assertEqual(seen["format"], "gguf")
        self.assertEqual(seen["metadata"], {"general.architecture": "llama", "llama.rope.freq_base": 1000000.0,
                                            "x.list": [1, -2, 3]})


class OneTable(unittest.TestCase):
    def test_help_of_every_command(self):
        for command in COMMANDS:
            by_word, by_option = vram("help", command), vram(command, "--help")
            self.assertEqual((by_word.returncode, by_option.returncode), (0, 0))
            self.assertEqual(by_word.stdout, by_option.stdout)
            text = by_word.stdout.decode()
            self.assertTrue(text.startswith("usage: vram " + command))
            self.assertIn("examples", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80, command)
        self.assertLessEqual(max(map(len, vram("help").stdout.decode().splitlines())), 80)

    def test_topics_of_help(self):
        """They stand in the manual too, and are as narrow as all help."""
        manual = vram("man").stdout.decode().replace("\\-", "-").replace("\\(dq", '"').replace("\\(ti", "~")
        for topic, words in (("model", ["ORG/NAME:Q4_K_M", "ollama:NAME", "example:qwen2.5-7b"]), ("formats", ["GGUF", "PyTorch"]),
                             ("environment", ["HF_TOKEN", "HF_ENDPOINT", "OLLAMA_MODELS", "VRAM_CACHE", "NO_COLOR"])):
            done = vram("help", topic)
            text = done.stdout.decode()
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
            for word in words:
                self.assertIn(word, text)
                self.assertIn(word, manual)
            self.assertIn(topic, vram("completion", "bash").stdout.decode())
        done = vram("help", "modle")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"did you mean vram help model?", done.stderr)

    def test_variables_are_documented(self):
        """Every variable of the environment that the sources read is in docs/places.md or in the manual."""
        here = os.path.dirname(os.path.abspath(__file__))
        root = os.path.join(here, "..", "..")
        text = vram("help", "environment").stdout.decode()
        with open(os.path.join(root, "docs", "places.md"), encoding="utf-8") as f:
            text += f.read()
        read = set()
        for folder in ("io", "cli"):
            for name in os.listdir(os.path.join(root, "src", folder)):
                if name.endswith(".c"):
                    with open(os.path.join(root, "src", folder, name), encoding="utf-8") as f:
                        read |= set(re.findall(r'(?:env|getenv)\([^()]*"([A-Z][A-Z_]+)"\)', f.read()))
        self.assertLessEqual({"HF_ENDPOINT", "OLLAMA_MODELS", "VRAM_CACHE", "NO_COLOR"}, read)
        self.assertEqual({name for name in read if name not in text} - {"HOME"}, set())

    def test_manual_and_completions_know_every_option(self):
        manual = vram("man").stdout.decode().replace("\\-", "-")
        scripts = {s: vram("completion", s).stdout.decode() for s in ("bash", "zsh", "fish")}
        for command in COMMANDS:
            self.assertIn("vram " + command, manual)
            for option in options_of(command):
                self.assertIn(option, manual)
                self.assertIn(option, scripts["bash"])
                self.assertIn(option, scripts["zsh"])
                self.assertIn(" -%s " % ("l" if option.startswith("--") else "s") + option.lstrip("-"), scripts["fish"])

    def test_completion_parses(self):
        for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
            if shutil.which(check[0]) is None:
                continue
            with tempfile.NamedTemporaryFile("wb") as f:
                f.write(vram("completion", shell).stdout)
                f.flush()
                done = subprocess.run([*check, f.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual((done.returncode, done.stdout), (0, b""))

    def test_completion_completes(self):
        script = vram("completion", "bash").stdout.decode() + """
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _vram; echo "${COMPREPLY[@]}"; }
        try vram in; try vram fit --logi; try vram fit x --logits a; try vram completion z; try vram fit exam
        """
        done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.stdout.decode().split("\n")[:5],
                         ["inspect", "--logits", "all", "zsh", "example:qwen2.5-7b example:qwen2.5-1.5b"])

    def test_manual_is_clean(self):
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is not here")
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=vram("man").stdout, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, ""))


class Documented(unittest.TestCase):
    """Every key that a command writes is named in docs/json.md."""

    def keys(self, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from self.keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from self.keys(inner)

    def packed(self, folder):
        """A checkpoint of one GPTQ matrix of 64 x 64."""
        shapes = {"a.qweight": ("I32", [8, 64], 2048), "a.qzeros": ("I32", [1, 8], 32), "a.scales": ("F16", [1, 64], 128)}
        header, at = {}, 0
        for name, (dtype, shape, size) in shapes.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        with open(os.path.join(folder, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + bytes(at))
        return folder

    def test_the_screen_of_the_readme(self):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "README.md"), encoding="utf-8") as f:
            readme = f.read()
        for case in ("example_terminal", "explain_readme"):
            with open(os.path.join(here, "cases", case + ".stdout"), encoding="utf-8") as screen:
                self.assertIn(screen.read().split("\n\n")[0], readme)

    def test_json_keys(self):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "docs", "json.md"), encoding="utf-8") as doc:
            named = set(re.findall(r"`([a-z_0-9]+)`", doc.read()))
        explain = [["explain", LOAD, "--model", "example:qwen2.5-7b"], ["explain", LOAD], ["explain", "--symptom", "exit code 137"], ["explain", "hello"]]
        commands = [STORY, SMALL, ["fit", "example:qwen2.5-1.5b"], ["inspect", "example:qwen2.5-1.5b", "--tensors"],
                    LLAMA2 + ["--gpu-memory-gib", "4,80"], LLAMA2 + ["--mode", "train", "--trainable", "0.5"], ["gpus"]]
        missing = set()
        with tempfile.TemporaryDirectory() as folder:
            for words in commands + explain + [["inspect", self.packed(folder)]]:
                found, _ = answer(*words)
                missing |= set(self.keys(found)) - named - {"BF16", "F16", "I32"}
        self.assertEqual(missing, set())


    def test_words_of_diagnoses(self):
        """The lists of words and of figures are told whole, as the library has them."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(root, "docs", "json.md"), encoding="utf-8") as doc:
            text = doc.read()
        named = set(re.findall(r"`([a-z_0-9]+)`", text[text.index("## `vram.explain/1`"):text.index("## `vram.models/1`")]))
        with open(os.path.join(root, "src", "diagnosis", "words.h"), encoding="utf-8") as header:
            words = header.read()
        for name in ("MEMORIES", "PHASES", "CAUSES", "CERTAINTIES"):
            block = words[words.index("#define VR_%s(X)" % name):].split("\n\n")[0]
            found = set(re.findall(r'X\(\w+, "([^"]+)"', block))
            self.assertTrue(len(found) >= 4, name)
            self.assertEqual(found - named, set(), name)
        with open(os.path.join(root, "src", "diagnosis", "facts.h"), encoding="utf-8") as header:
            rows = re.findall(r'X\(\w+,\s*"([^"]+)",\s*(BYTES|TOKENS|COUNT|MICRO),', header.read())
        ending = {"BYTES": "_bytes", "TOKENS": "_tokens"}
        self.assertGreater(len(rows), 50)
        self.assertEqual({name + ending.get(unit, "") for name, unit in rows} - named, set())


class Explain(unittest.TestCase):
    """What scripts rely on; what a text means is held in tests/diagnosis and tests/accuracy."""

    def fed(self, data, *words, env=None):
        return subprocess.run([VRAM, "explain", *words], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**environment(), **(env or {})}, timeout=120)

    def test_the_load_that_was_published(self):
        """Figures of a 7B model in bf16 on a 12 GB card; the shortfall is weights less the card's usable total."""
        for words, data in ((["--json"], LOAD), (["--model", "example:qwen2.5-7b", "--json"], LOAD)):
            done = self.fed(data.encode(), *words)
            d = json.loads(done.stdout)
            self.assertEqual((done.returncode, d["schema"]), (0, "vram.explain/1"))
            first = d["diagnoses"][0]
            self.assertEqual((first["memory"], first["phase"], first["cause"], first["certainty"]),
                             ("gpu", "load", "weights", "certain"))
            self.assertEqual(first["facts"]["request_bytes"], 130 * MIB)
            self.assertEqual("%.2f" % (first["facts"]["idle_bytes"] / MIB), "105.47")
            self.assertEqual(first["processes"], [{"process_id": 4242, "bytes": first["processes"][0]["bytes"]}])
            self.assertIn("expandable_segments", [x["what"] for x in first["will_not_help"]])
        self.assertEqual(first["place"]["label"], "model.layers.23.mlp.down_proj.weight")
        self.assertEqual(first["place"]["loaded_fraction"], 0.8)
        self.assertAlmostEqual(first["missing_at_least_bytes"], 15231233024 - 12490457088, delta=6 * MIB)

    def test_five_lines_answer(self):
        """What is to blame; what ran out and where; how much; what will not help; what to type: on any terminal."""
        for columns in (80, 100, 200):
            text, status = on_terminal(columns, "explain", LOAD, "--model", "example:qwen2.5-7b", env={"NO_COLOR": "1"})
            self.assertEqual(status, 0)
            heads = [line[:12].strip() for line in text.splitlines()[1:5]]
            self.assertEqual(heads, ["ran out", "missing", "won't help", "type"], text)
            self.assertTrue(text.startswith("WEIGHTS (certain): "))
            self.assertLessEqual(len(text.splitlines()), 14)

    def test_a_command_is_never_broken(self):
        """A shell would run the two lines as two commands; a terminal wraps one line softly, and it is copied whole."""
        for words in (["--symptom", "exit code 137"], ["--symptom", "fine for hours, then dies"]):
            text, _ = on_terminal(60, "explain", *words, env={"NO_COLOR": "1"})
            levers = [lever["command"] for lever in answer("explain", *words)[0]["diagnoses"][0]["levers"] if lever["typed"]]
            self.assertTrue(any(len(command) > 60 for command in levers) or "137" not in words[1])
            for command in levers[:2]:
                self.assertIn(command, text)

    def test_the_last_piece_has_its_unit(self):
        """However the text counts, the screen says bytes in their units, once."""
        for text, size in (("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory", "16.00 GiB"),
                           ("Failed to allocate memory for requested buffer of size 17179869184", "16.00 GiB")):
            line = [x for x in vram("explain", text).stdout.decode().splitlines() if x.startswith("missing")][0]
            self.assertIn(size, line)
            self.assertEqual(line.count("piece"), 1, line)

    def test_one_of_several_files_is_missing(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.log")
            with open(path, "w", encoding="utf-8") as f:
                f.write(LOAD + "\n")
            for words in (["no-such.log", path], [path, "no-such.log"]):
                done = vram("explain", *words)
                self.assertEqual(done.returncode, 4)
                self.assertTrue(done.stdout.startswith(b"WEIGHTS"), done.stdout)
                self.assertEqual(done.stderr.count(b"error: no-such.log"), 1, done.stderr)

    def test_unknown_words_beside_a_text_are_told(self):
        whole = self.fed(LOAD.encode(), "-", "--symptom", "purple")
        self.assertEqual(whole.returncode, 0)
        self.assertIn(b"no symptom that is known", whole.stderr)
        self.assertIn(b"warnings", self.fed(LOAD.encode(), "-", "--json", "--symptom", "purple").stdout)
        self.assertEqual(self.fed(LOAD.encode(), "-", "--symptom", "dies while loading").stderr, b"")

    def test_operands(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.log")
            with open(path, "w", encoding="utf-8") as f:
                f.write(LOAD + "\n")
            whole = [vram("explain", path, "--json"), vram("explain", LOAD, "--json"), self.fed(LOAD.encode(), "--json"),
                     self.fed(LOAD.encode(), "-", "--json")]
            for done in whole:
                self.assertEqual(done.returncode, 0, done.stderr)
            facts = [json.loads(done.stdout)["diagnoses"][0]["facts"] for done in whole]
            self.assertEqual(facts, [facts[0]] * len(facts))
            two = json.loads(vram("explain", path, path, "--json").stdout)
            self.assertEqual(two["read"]["bytes"], 2 * len(LOAD) + 2)
            self.assertEqual(json.loads(whole[0].stdout)["diagnoses"][0]["file"], path)
            os.chmod(path, 0)
            if os.geteuid() != 0:
                self.assertEqual(vram("explain", path).returncode, 4)
            pipe = os.path.join(d, "pipe")
            os.mkfifo(pipe)
            reader = subprocess.Popen([VRAM, "explain", pipe], stdout=subprocess.PIPE, env=environment())
            with open(pipe, "w", encoding="utf-8") as f:
                f.write(LOAD)
            self.assertIn(b"WEIGHTS", reader.communicate(timeout=60)[0])
            self.assertEqual(vram("explain", d).returncode, 4)
        self.assertEqual(vram("explain", "no/such").returncode, 4)
        self.assertEqual(vram("explain", "torch.cuda.OutOfMemoryError").returncode, 0)

    def test_nothing_recognised(self):
        for data in (b"", b"\n", b"hello\n", bytes(range(256)) * 64, b"\xff" * 5000, b"Tried to allocate 99999999999 GiB"):
            done = self.fed(data)
            self.assertEqual((done.returncode, done.stderr), (1, b""), data[:40])
            self.assertTrue(done.stdout.startswith(b"NOTHING RECOGNISED: "), done.stdout)
            self.assertIn(b"2>&1 | vram explain", done.stdout)
            answer = json.loads(self.fed(data, "--json").stdout)
            self.assertEqual((answer["diagnoses"], answer["read"]["bytes"]), ([], len(data)))

    def test_it_says_what_it_waits_for(self):
        """On a terminal; of a pipe that is slow it tells after a second that it reads."""
        main, other = pty.openpty()
        child = subprocess.Popen([VRAM, "explain"], stdin=other, stdout=subprocess.PIPE, stderr=other, env=environment())
        said = b""
        while b"Ctrl-D" not in said:
            said += os.read(main, 4096)
        self.assertEqual(select.select([main], [], [], 1.5)[0], [], "nothing is told into what is being pasted")
        os.write(main, b"RuntimeError: CUDA out of memory\n\x04")
        self.assertIn(b"ran out", child.communicate(timeout=60)[0])
        slow = subprocess.Popen(["sh", "-c", "echo epoch 1; sleep 2; echo epoch 2"], stdout=subprocess.PIPE)
        subprocess.run([VRAM, "explain"], stdin=slow.stdout, stdout=subprocess.PIPE, stderr=other, env=environment(), timeout=60)
        slow.stdout.close()
        slow.wait()
        told = os.read(main, 65536).decode()
        self.assertIn(" read, ", told)
        self.assertTrue(told.endswith("\r\033[K"), told)
        os.close(other)
        os.close(main)

    def test_an_endless_input_can_be_interrupted(self):
        main, other = pty.openpty()
        child = subprocess.Popen([VRAM, "explain", "/dev/zero"], stdout=subprocess.PIPE, stderr=other, env=environment())
        said = b""
        while b" read, " not in said:
            said += os.read(main, 4096)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), -signal.SIGINT)
        child.stdout.close()
        os.close(other)
        os.close(main)

    def test_names_cannot_steer_the_terminal(self):
        done = self.fed(b"x \x1b[2J\x9b7m " + LOAD.encode() + b"\x1b]0;x\x07\n", "-v")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(b"\x1b", done.stdout)
        self.assertNotIn(b"\x07", done.stdout)


class Usage(unittest.TestCase):
    def refused(self, words, text, hint=None, status=2):
        done = vram(*words)
        message = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (status, b""), message)
        self.assertIn("vram: error: " + text, message)
        if hint is not None:
            self.assertIn("vram: hint: " + hint, message)

    def test_wrong_usage(self):
        self.refused(["fti", "x"], "there is no command 'fti'", "did you mean vram fit?")
        self.refused(["fit"], "vram fit needs MODEL")
        self.refused(["inspect", "a", "b"], "vram inspect: 'b' is one word too many")
        self.refused(["fit", "x", "--contxt", "5"], "vram fit has no option --contxt", "did you mean --context?")
        self.refused(["fit", "x", "--contxt=5"], "vram fit has no option --contxt", "did you mean --context?")
        self.refused(["gpus", "-q"], "vram gpus has no option -q")
        self.refused(["gpus", "--json=yes"], "--json=yes takes no value")
        self.refused(["fit", "x", "--gpu"], "--gpu needs a value")
        self.refused(["gpus", "--color", "red"], "--color 'red': must be one of auto|always|never")
        self.refused(["fit", "x", "--gpu", "24GiB", "--free", "lots"], "--free 'lots': must be a size")
        self.refused(["fit", "x", "--gpu", "24GiB", "--free", "0MiB"], "--free '0MiB': where nothing is free nothing fits")
        self.refused(["fit", "x", "--free", "1GiB"], "--free says what is free on one card, but no --gpu is given")
        self.refused(
            ["fit", "x", "--gpu", "24GiB", "--gpu", "24GiB", "--gpu", "8GiB", "--free", "1GiB", "--free", "2GiB"],
            "--free was given more than once, but not once for each --gpu",
        )
        self.refused(["fit", "example:qwen2.5-7b", "--engine", "llama"], "")
        self.refused(["fit", "example:qwen2.5-7b", "--context", "-5"], "")
        self.refused(["completion", "tcsh"], "there is no completion for 'tcsh'")
        self.refused(["ledger", "--params", "many"], "")

    def test_only_near_words_are_guessed(self):
        self.refused(["fit", "x", "--nope"], "vram fit has no option --nope", "vram help fit lists its options")
        self.refused(["fit", "x", "--contextlength", "5"], "vram fit has no option", "did you mean --context?")
        self.refused(["comp"], "there is no command 'comp'", "did you mean vram completion?")
        self.refused(["fun"], "there is no command 'fun'", "vram help lists the commands")

    def test_a_card_is_named_or_asked_back(self):
        model = ["fit", "example:qwen2.5-1.5b", "--gpu"]
        for word in ("rtx", "x", "geforce", "nvidia", "rtx 24gb", "titan", "rtx 6000"):
            self.refused([*model, word], '"%s" could be ' % word, "name one of them")
        for word in ("4090", "rtx-4090-24gb", "RTX 4090", "t4"):
            self.assertEqual(vram(*model, word).returncode, 0, word)

    def test_cards_of_others_are_listed_but_not_judged(self):
        for card, maker in (("apple-m1-max-64gb", "Apple"), ("arc-a770-16gb", "Intel"), ("mi300x", "AMD")):
            self.refused(["fit", "example:qwen2.5-1.5b", "--gpu", card], "the memory of %s GPUs is not modelled yet" % maker,
                         '"vram gpus" lists this card', status=3)
            self.assertEqual(vram("gpus", card).returncode, 0)

    def test_a_search_without_result_is_no(self):
        for words in (["voodoo"], ["!!!"]):
            self.refused(["gpus", *words], "no card of the table matches", status=1)
            self.refused(["gpus", *words, "--json"], "no card of the table matches", status=1)

    def test_scenarios_are_read_from_files_and_standard_input(self):
        with tempfile.TemporaryDirectory() as d:
            pipe, large, empty = (os.path.join(d, n) for n in ("pipe", "large", "empty"))
            os.mkfifo(pipe)
            with open(large, "wb") as f:
                f.truncate((16 << 20) + 1)
            with open(empty, "wb"):
                pass
            for path, text in ((pipe, "this is a pipe, not a file"), ("/dev/null", "this is a device, not a file"), (d, ""),
                               (large, "the file has 16777217 bytes, over the limit of 16777216"), (empty, "byte 0: ")):
                self.refused(["ledger", "--scenario", path], path + ": " + text, status=3)
        for text, status in ((b'{"params": 7e9}', 0), (b"", 3), (b" " * ((16 << 20) + 1), 3)):
            done = subprocess.run([VRAM, "ledger", "--scenario", "-"], input=text, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(b"vram: error: standard input: " in done.stderr, status != 0)

    def test_nothing_there(self):
        self.refused(["fit", "no/such/dir/at/all"], "'no/such/dir/at/all': there is no such file or directory", status=4)
        self.refused(["fit", "Qwen/Qwen2.5-7B", "--offline"], "Qwen/Qwen2.5-7B: this model is not on this disk", status=4)
        self.refused(["fit", "https://example.org/m", "--offline"], "https://example.org/m: ", status=4)
        self.refused(["fit", "example:gpt-5"], "there is no built-in example 'gpt-5'", status=4)
        self.refused(["ledger", "--scenario", "/no/such/file"], "/no/such/file: ", status=4)

    def test_names_that_are_no_model(self):
        """What to do stands beside it, and is no command that could not work."""
        self.refused(["fit", ""], "the name of the model is empty", "a model is a path, org/name of the hub")
        self.refused(["fit", "-"], "a model is not read from standard input", "a model is a path")
        self.refused(["fit", "file:///m"], "'file:///m': addresses of this kind are not read", "a file on this disk is named by its path alone")
        self.refused(["fit", "C:\\m\\x.gguf"], "'C:\\m\\x.gguf': there is no such file or directory", "a path has slashes: / and not \\", status=4)
        for name in ("a\033[31mb", "model.safetensors", "x y", "--", "-x/y", "x\nvram: error: y"):
            done = vram("fit", "-m", name)
            self.assertNotIn(b"ORG/", done.stderr)
            self.assertNotIn(b"ollama:x", done.stderr)
            self.assertNotIn(b"\033", done.stderr)
        self.refused(["fit", "gpt2"], "'gpt2': there is no such file or directory", "a model of the hub has its organisation in front: ORG/gpt2",
                     status=4)
        with tempfile.TemporaryDirectory() as d:
            for name, text, error, hint in (
                    ("config.json", b"{}", "this is JSON, but no configuration of a model: it has no model_type",
                     "a config.json as transformers has it is read"),
                    ("notes.txt", b"{}", "this is JSON, but no configuration of a model", None),
                    ("README.md", b"# A model", "byte 0: the file begins like no format", None),
                    ("x.json", b"[1]", "byte 0: a configuration must be a JSON object", None),
                    ("x.json", b'{"model_type": ', "byte 15: not valid JSON", None),
                    ("x.json", b"", "byte 0: the file is empty", None),
                    ("tokenizer.json", b'{"version": "1.0", "added_tokens": [], "model": {}}', "this is a tokenizer", "the model's config.json lies beside it"),
                    ("generation_config.json", b'{"eos_token_id": 2, "transformers_version": "5.2.0"}',
                     "this is no configuration of a model: generation_config.json?", "the model's config.json lies beside it"),
                    ("x.json", b'{"weight_map": {}}', "this is the index of a checkpoint's shards", "give the directory in which it lies"),
                    ("adapter_config.json", b'{"peft_type": "LORA"}', "this is the configuration of an adapter", "give the directory in which it lies, or the base model"),
                    ("params.json", b'{"dim": 4096, "n_layers": 32}', "this is params.json", "config.json is read"),
                    ("x.json", b'{"model_type": "llama", "hidden_size": -1}', "byte 39: hidden_size is -1, not", None)):
                path = os.path.join(d, name)
                with open(path, "wb") as f:
                    f.write(text)
                self.refused(["inspect", path], path + ": " + error, hint, status=3)
            pipe = os.path.join(d, "x.gguf")
            os.mkfifo(pipe)
            self.refused(["inspect", pipe], pipe + ": this is a pipe, not a file", status=3)
        for bad in ("", "../..", "\033"):
            self.refused(["fit", "org/name", "--revision", bad], "'")

    def test_the_model_may_be_an_option(self):
        for name in ("-m", "--model", "-hf", "--model-id"):
            self.assertEqual(vram("inspect", name, "example:qwen2.5-7b").returncode, 0)
        self.refused(["inspect", "-m", "example:qwen2.5-7b", "x"], "vram inspect: 'x' is one word too many", status=2)

    def test_no_words(self):
        done = vram()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"vram example", done.stderr)

    def test_version(self):
        self.assertRegex(vram("--version").stdout.decode(), r"^vram \d+\.\d+\.\d+\n$")

    def test_a_word_after_two_dashes_is_a_model(self):
        self.refused(["fit", "--", "--json"], "'--json': there is no such file or directory", status=4)

    def test_damaged_input(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "model.safetensors")
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", 1 << 60) + b"{}")
            self.refused(["inspect", d], os.path.join(d, "model.safetensors") + ": byte 0: ", status=3)

    def test_a_missing_file_is_named_and_the_promise_given(self):
        with tempfile.TemporaryDirectory() as d:
            self.write_header(os.path.join(d, "a.safetensors"), {"one": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})
            with open(os.path.join(d, "model.safetensors.index.json"), "w") as f:
                json.dump({"metadata": {"total_size": 48},
                           "weight_map": {"one": "a.safetensors", "two": "b.safetensors"}}, f)
            done = vram("inspect", d, "--json")
            text = vram("inspect", d).stdout.decode()
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"b.safetensors", done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["incomplete"])
        self.assertEqual((answer["checkpoint_bytes"], answer["promised_bytes"]), (16, 48))
        self.assertEqual(answer["missing_files"], ["b.safetensors"])
        self.assertIn("INCOMPLETE", text)
        self.assertIn("promises 48 bytes", text)

    def test_names_cannot_steer_the_terminal(self):
        with tempfile.TemporaryDirectory() as d:
            self.write_header(os.path.join(d, "model.safetensors"),
                              {"\x1b[2J\x9b7m": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})
            done = vram("inspect", d, "--tensors")
            wrong = vram("fit", "\x1b[31mnothing")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(b"\x1b", done.stdout + done.stderr + wrong.stderr)
        self.assertNotIn("\x9b", done.stdout.decode())

    def test_arguments_cannot_steer_the_terminal(self):
        bad = "nothing\x9b2J\u202ec\u2028d\u200be\x85f"
        for words in (["fit", bad], ["inspect", bad], [bad], ["fit", "x", "--" + bad], ["fit", "x", "--gpu", bad], ["gpus", bad],
                      ["gpus", "--color", bad], ["ledger", "--scenario", bad], ["fit", "x", "--engine", bad],
                      ["fit", "x", "--gpu", "24GiB", "--free", bad], ["completion", bad], ["help", bad], ["fit", "example:" + bad],
                      ["explain", "/" + bad], ["explain", "x", "--model", "x", "--engine", bad]):
            shown = vram(*words).stderr
            self.assertIn("?", shown.decode())
            self.assertFalse(set(shown.decode()) & set("\x85\x9b\u200b\u2028\u202e"), shown)
        shown = vram("fit", b"no\xff\xfe").stderr
        self.assertIn("'no??'", shown.decode())

    def test_long_words_are_cut_between_characters(self):
        for word in ("--" + "\u00e9" * 300, "--x" + "\u00e9" * 300, "\u00e9" * 5000, "x" + "\u20ac" * 5000):
            for words in (["fit", "x", word], ["fit", word], [word], ["fit", "x", "--gpu", word], ["fit", "example:" + word]):
                shown = vram(*words).stderr.decode()
                self.assertNotIn("?", shown.replace("did you mean", ""))

    @staticmethod
    def write_header(path, tensors):
        text = json.dumps(tensors).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + max(t["data_offsets"][1] for t in tensors.values()))

    def test_a_pipe_that_closes_is_quiet(self):
        child = subprocess.Popen([VRAM, "inspect", "example:qwen2.5-7b", "--tensors"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        child.stdout.close()
        self.assertEqual(child.stderr.read(), b"")
        child.stderr.close()
        child.wait()

    def test_a_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("/dev/full is not here")
        for words in (["example"], ["help"], ["gpus", "--json"], ["inspect", "example:qwen2.5-7b", "--tensors"]):
            with open("/dev/full", "wb") as full:
                done = vram(*words, stdout=full)
            self.assertEqual(done.returncode, 4)
            self.assertEqual(done.stderr.count(b"could not be written"), 1, done.stderr)


class Patience(unittest.TestCase):
    def test_a_long_wait_is_announced_to_people_only(self):
        """Reading a scenario from a slow pipe takes over a second; only a terminal is told."""
        main, other = pty.openpty()
        words = [VRAM, "ledger", "--scenario", "-", "--gpu-memory-gib", "24"]
        slow = subprocess.Popen(["sh", "-c", "sleep 1.3; echo '{\"params\": 7e9}'"], stdout=subprocess.PIPE)
        done = subprocess.run(words, stdin=slow.stdout, stdout=subprocess.PIPE, stderr=other, timeout=60)
        os.close(other)
        told = os.read(main, 4096).decode()
        os.close(main)
        slow.wait()
        self.assertEqual(done.returncode, 0)
        self.assertIn("still at it", told)
        slow = subprocess.Popen(["sh", "-c", "sleep 1.3; echo '{\"params\": 7e9}'"], stdout=subprocess.PIPE)
        done = subprocess.run(words, stdin=slow.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        slow.wait()
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Screens(unittest.TestCase):
    WORDS = (["example"], [*STORY], [*STORY, "-v"], ["fit", "example:qwen2.5-7b"], ["inspect", "example:qwen2.5-7b"],
             ["inspect", "example:qwen2.5-7b", "-v"], ["gpus"], ["gpus", "h100"], ["explain", LOAD], ["explain", LOAD, "-v"],
             ["explain", "hello"], ["explain", "--symptom", "fine for hours, then dies"],
             ["explain", LOAD, "-v", "--model", "example:qwen2.5-7b"],
             [*LLAMA2, "--gpu-memory-gib", "24,80"])

    def test_nothing_is_wider_than_the_terminal(self):
        for columns in (80, 100, 200):
            for words in self.WORDS:
                text, _ = on_terminal(columns, *words, env={"NO_COLOR": "1"})
                self.assertNotIn("\033", text)
                for line in text.splitlines():
                    self.assertEqual(line, line.rstrip())
                    if not line.startswith(("$ ", *(["type ", "or ", "to be sure "] if words[0] == "explain" else []))):
                        self.assertLessEqual(len(line), columns, line)

    def test_a_short_answer(self):
        text, status = on_terminal(80, *STORY, env={"NO_COLOR": "1"})
        self.assertEqual(status, 1)
        self.assertTrue(text.startswith("DOES NOT FIT"))
        self.assertLessEqual(len(text.splitlines()), 14)
        for words in (["fit", "example:qwen2.5-7b"], ["fit", "example:qwen2.5-7b", "--gpu", "24GiB"],
                      ["fit", "example:qwen2.5-7b", "--gpu", "15.6GiB"]):
            text, _ = on_terminal(80, *words, env={"NO_COLOR": "1"})
            self.assertLessEqual(len(text.splitlines()), 14, text)
        text, _ = on_terminal(200, *STORY, env={"NO_COLOR": "1"})
        self.assertLessEqual(len(text.splitlines()), 14)
        text, _ = on_terminal(60, *STORY, env={"NO_COLOR": "1"})
        self.assertLessEqual(len(text.splitlines()), 24)
        self.assertIn('Tried to allocate 130.00 MiB. ..."', " ".join(text.split()))

    def test_colour_only_where_it_is_wanted(self):
        self.assertIn("\033[", on_terminal(80, *STORY)[0])
        self.assertNotIn("\033[", on_terminal(80, *STORY, env={"NO_COLOR": "1"})[0])
        self.assertIn("\033[", on_terminal(80, *STORY, env={"NO_COLOR": ""})[0])
        self.assertNotIn("\033[", on_terminal(80, *STORY, env={"TERM": "dumb"})[0])
        self.assertNotIn("\033[", on_terminal(80, *STORY, "--color", "never")[0])
        self.assertIn("\033[", on_terminal(80, *STORY, "--color=always", env={"NO_COLOR": "1"})[0])
        self.assertIn(b"\033[", vram(*STORY, "--color", "always").stdout)

    def test_a_pipe_gets_plain_text(self):
        for words in self.WORDS:
            out = vram(*words, env={"COLUMNS": "60"}).stdout.decode()
            self.assertTrue(out.isascii(), [c for c in out if not c.isascii()])
            self.assertNotIn("\033", out)
            self.assertFalse([line for line in out.splitlines() if line != line.rstrip()])

    def test_columns_wins(self):
        text, _ = on_terminal(200, *STORY, env={"COLUMNS": "80", "NO_COLOR": "1"})
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_messages_break_between_words(self):
        words = ["fit", "/" + "x" * 100 + "/no such directory", "--gpu", "24GiB"]
        line = vram(*words).stderr.decode()
        text, _ = on_terminal(60, *words, messages=True)
        self.assertEqual(text.split(), line.split())
        self.assertGreater(len(text.splitlines()), len(line.splitlines()))
        for row in text.splitlines():
            self.assertTrue(len(row) <= 60 or "/xxx" in row, row)


class Maps(unittest.TestCase):
    def test_a_map_of_unknown_modules_is_no_answer(self):
        """An encoder with a decoder on one card: what does not fit there would go to the CPU."""
        config = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "num_layers": 2, "d_model": 64,
                  "d_kv": 16, "d_ff": 96, "num_heads": 4, "vocab_size": 256, "torch_dtype": "float32"}
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "config.json")
            with open(path, "w") as f:
                json.dump(config, f)
            for device_map, context, verdict, told in (("auto", "9000", "unknown", True), ("auto", "64", "fits", True),
                                                       ("cuda", "9000", "does_not_fit", False)):
                words = ["fit", path, "--gpu", "1GiB", "-c", context, "--device-map", device_map]
                self.assertEqual(answer(*words)[0]["verdict"], verdict)
                self.assertEqual(b"where the device map puts" in vram(*words).stderr, told)


if __name__ == "__main__":
    unittest.main()
