# SPDX-License-Identifier: MIT
"""The measuring of `vram explain` itself: answers that hold all bounds, then one that does not; and what is done to texts."""
import random
import unittest

import explain
import explain_arithmetic
import explain_changes
import explain_variations
import explaining

MESSAGE = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 1 has a total capacity of 23.50 GiB of which 40.00 MiB is free. "
           "Process 812 has 2.00 GiB memory in use. Including non-PyTorch memory, this process has 21.40 GiB memory in use. Of the allocated memory 20.50 GiB is "
           "allocated by PyTorch, with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), and 300.00 MiB is reserved by PyTorch but unallocated.")
OLD = "CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 15.90 GiB total capacity; 15.00 GiB already allocated; 20.00 MiB free; 15.20 GiB reserved in total by PyTorch)"
FACTS = {"request_bytes": 64 << 20, "gpu": 1, "total_bytes": 47 << 29, "allocated_bytes": 41 << 29, "idle_bytes": 300 << 20}


def answer(cause="weights", memory="gpu", certainty="certain", facts=None, phase="load"):
    first = {"cause": cause, "memory": memory, "certainty": certainty, "phase": phase, "facts": facts or {}, "will_not_help": []}
    return explaining.answer_of(0, {"diagnoses": [first]})


def case(n, cause="weights", confidence="established", **more):
    return {"id": f"c-{n}", "true_cause": cause, "confidence": confidence, "log_kind": "verbatim", "phase": "load", "framework": "x", **more}


def misses(n=100, wrong=(), said=None, **more):
    """So many cases; of those in `wrong` the answer is `said`."""
    rows = explain.phase_table()
    return explain.misses([explain.judge(case(i, **more), said if i in wrong else answer(**({"facts": more.get("read")} if "read" in more else {})), rows)
                           for i in range(n)], [])


class Bounds(unittest.TestCase):
    def test_all_hold(self):
        self.assertEqual(misses(), [])

    def test_causes(self):
        likely = answer("activations", certainty="likely")
        self.assertEqual(misses(wrong=range(8), said=likely), [])
        self.assertIn("established", misses(wrong=range(9), said=likely)[0])
        self.assertEqual(misses(wrong=range(15), said=likely, confidence="likely"), [])
        self.assertEqual(len(misses(wrong=range(16), said=likely, confidence="likely")), 1)

    def test_memory(self):
        shm = answer("weights", "shm", "likely")
        self.assertEqual(misses(wrong=range(3), said=shm), [])
        self.assertIn("memory", misses(wrong=range(4), said=shm)[0])
        self.assertEqual(misses(wrong=range(50), said=answer("weights", "pool")), [])

    def test_certainty(self):
        self.assertIn("certain and wrong", misses(wrong=[3], said=answer("kv_cache"))[0])
        self.assertEqual(misses(wrong=range(60), said=answer(certainty="likely")), [])
        self.assertIn("called certain", misses(wrong=range(61), said=answer(certainty="possible"))[0])

    def test_not_counted(self):
        """Words of people, and causes that nobody knows."""
        for more in ({"log_kind": "description"}, {"cause": "unknown"}):
            self.assertEqual(misses(wrong=range(100), said=answer("kv_cache"), **more), [])

    def test_figures(self):
        wanted = {"request": 64 << 20, "gpu": 1, "total": (47 << 29) + 1, "reserved": (41 << 29) + (300 << 20), "format": "x", "outside": 1}
        self.assertEqual(misses(figures=wanted, read=FACTS), [])
        self.assertEqual(len(misses(3, figures={"request": 65 << 20}, read=FACTS)), 3)
        self.assertEqual(len(misses(3, figures={"free": 1}, read=FACTS)), 3)
        self.assertEqual(len(misses(3, figures={"processes": [{"pid": 1, "bytes": 5}]}, read=FACTS)), 3)
        self.assertEqual(misses(3, figures={"processes": [{"pid": 1, "bytes": 5}]}, read={"process_id": 1, "process_bytes": 5}), [])

    def test_phases(self):
        rows = explain.phase_table()
        for words, phases in (("engine init (KV sizing)", ["kv_cache"]), ("checkpoint load", ["load", "resume"]), ("any", None), ("never heard of", None),
                              ("VAE decode", ["decode_image"])):
            self.assertEqual(explain.phases_of(words, rows), phases, words)


class Changes(unittest.TestCase):
    def test_each_changes(self):
        """Something, in one text at least, and the same again from the same seed."""
        texts = [MESSAGE, OLD, f'  File "a.py", line 3, in f\n{MESSAGE} If reserved but unallocated memory is large try x', "Bus error\nKilled", "[Errno 12] Cannot allocate memory"]
        for change in explain_changes.CHANGES:
            made = [change.make(random.Random(7), text) for text in texts]
            self.assertTrue(any(m not in (None, t) for m, t in zip(made, texts)), change.name)
            self.assertEqual(made, [change.make(random.Random(7), text) for text in texts], change.name)

    def test_scaled(self):
        text, values = explain_changes.scaled_text("130.00 MiB, 11.50 GiB; 1,024 bytes", 1.1)
        self.assertEqual(text, "143.00 MiB, 12.65 GiB; 1,126 bytes")
        self.assertEqual(values, [143 << 20, int(12.65 * (1 << 30)), 1126])

    def test_compare(self):
        plain, less = answer(facts=FACTS), answer(certainty="likely", facts={"gpu": 1})
        self.assertEqual(explain_variations.compare(plain, plain), [])
        self.assertEqual(len(explain_variations.compare(plain, less)), 5)
        self.assertEqual(explain_variations.compare(plain, less, {explain_changes.FIGURES}), [])
        self.assertEqual(len(explain_variations.compare(less, plain, {explain_changes.FIGURES})), 1)
        self.assertEqual(len(explain_variations.compare(plain, answer(facts={**FACTS, "gpu": 2}), {explain_changes.FIGURES})), 1)
        self.assertEqual(len(explain_variations.compare(plain, answer("kv_cache", facts=FACTS))), 1)
        self.assertEqual(explain_variations.compare(plain, answer("kv_cache", facts=FACTS), {explain_changes.CAUSE}), [])


class Arithmetic(unittest.TestCase):
    def figures(self, text):
        found = explain_arithmetic.spot(text)
        of = {n: explain_arithmetic.bytes_of(v) for n, v in found.groupdict().items() if v and n != "processes"}
        return of, of.get("idle", of.get("reserved", 0) - of["allocated"])

    def test_what_each_says(self):
        for text in (MESSAGE, OLD):
            made = {c.name.split()[0]: self.figures(c.make(random.Random(3), text)) for c in explain_arithmetic.CHECKS}
            of, _ = made["free"]
            self.assertGreater(of["free"], of["request"])
            of, idle = made["idle"]
            self.assertTrue(of["free"] < of["request"] <= of["free"] + idle and idle > of["total"] * 0.08)
            of, _ = made["request"]
            self.assertGreater(of["request"], of["total"])
            of, idle = made["another"]
            self.assertGreater(of["total"] - of["free"] - of["allocated"] - idle, of["total"] // 2)
        self.assertIn("this process", explain_arithmetic.another_program(random.Random(3), MESSAGE))


if __name__ == "__main__":
    unittest.main()
