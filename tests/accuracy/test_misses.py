# SPDX-License-Identifier: MIT
"""What the report must not let pass: figures that all hold, and then one that does not, by the bounds that docs/accuracy.md
has. The figures are made up here; no file of cases is needed."""
import unittest

import figures
import real_logs
import virtual_device
from asking import HOST, QUANTITIES
from figures import CARDS, Row

SIZE = 1_000_000
REFUSED = {"case": "r", "error": "out of memory"}
FITTING = type("Fitting", (), {"verdict": "fits"})


def rows(wholes=200):
    """So many runs of all layers on a card, and one of each other kind."""
    found = []
    for n, kind in enumerate([figures.WHOLE] * wholes + [k for k in figures.KINDS if k != figures.WHOLE]):
        for memory in (HOST,) if kind == figures.NO_CARD else ("CUDA0", HOST):
            found += [Row(f"c{n}", "llama", kind, memory, q, SIZE, SIZE, "simulated", 0) for q in QUANTITIES]
        if kind != figures.NO_CARD:
            found.append(Row(f"c{n}", "llama", kind, CARDS, "total", SIZE, SIZE, "simulated", 0))
    return found


def misses(n, **changed):
    """What is missed where the first n of such rows, all with the fields of `of`, are off by so many bytes."""
    outcome, off, basis = virtual_device.Outcome(), changed.pop("off", 0), changed.pop("basis", "formula")
    outcome.rows = rows()
    for row in figures.of(outcome.rows, **changed)[:n]:
        predicted = None if off is None else SIZE + off
        outcome.rows[outcome.rows.index(row)] = row._replace(predicted=predicted, basis=basis)
    return virtual_device.misses(outcome)


class Cases(unittest.TestCase):
    def missed(self, word, n, **changed):
        found = misses(n, **changed)
        self.assertEqual(len(found), 1, found)
        self.assertIn(word, found[0])

    def test_all_hold(self):
        self.assertEqual(misses(0), [])

    def test_weights_and_caches(self):
        """To the byte, on each card and in host memory, in every run."""
        for quantity in ("weights", "cache"):
            for memory in ("CUDA0", HOST):
                for kind in (figures.WHOLE, figures.TWO):
                    self.missed(quantity, 1, quantity=quantity, memory=memory, kind=kind, off=1)
            self.missed(quantity, 1, quantity=quantity, memory=HOST, kind=figures.NO_CARD, off=None)

    def test_compute(self):
        """97 in 100 of one card; what is called simulated always."""
        of = {"quantity": "compute", "memory": "CUDA0", "kind": figures.WHOLE}
        self.assertEqual(misses(6, off=1, **of), [])
        self.missed("97 % must be", 7, off=1, **of)
        self.missed("97 % must be", 7, off=None, **of)
        self.missed("called simulated", 1, off=1, basis="simulated", **of)
        self.missed("called simulated", 1, off=-1, basis="simulated, verified", **of)
        self.missed("called simulated", 1, off=1, basis="simulated", quantity="compute", kind=figures.NO_CARD)
        self.missed("none is called simulated", 1000, quantity="compute")

    def test_totals(self):
        of = {"quantity": "total", "memory": CARDS, "kind": figures.WHOLE}
        self.assertEqual(misses(2, off=14_999, **of), [])
        self.missed("99 % must be", 3, off=5_001, **of)
        self.missed("below 1.5 %", 1, off=-15_000, **of)
        for kind in figures.KINDS[1:-1]:
            of["kind"] = kind
            self.assertEqual(misses(1, off=30_000, **of), [])
            self.missed("within 3 %", 1, off=30_001, **of)
            self.missed("within 3 %", 1, off=None, **of)

    def test_refusals(self):
        outcome = virtual_device.Outcome()
        outcome.take(REFUSED, {}, FITTING, None)
        outcome.take({"case": "s", "error": None}, {}, None, "no such option")
        self.assertEqual(len(virtual_device.misses(outcome)), 2)


class Logs(unittest.TestCase):
    def missed(self, off, within=0, quantity="weights", case="none"):
        outcome = real_logs.Outcome()
        outcome.ids.add(case)
        outcome.rows = [Row(case, "llama", "llama.cpp", CARDS, quantity, SIZE + off, SIZE, "exact", within)]
        return real_logs.misses(outcome)

    def test_two_hundredths_of_a_per_cent(self):
        self.assertEqual(self.missed(200), [])
        self.assertEqual(self.missed(5000, within=5000), [])
        for quantity in ("weights", "cache"):
            self.assertEqual(len(self.missed(201, quantity=quantity)), 1)
            self.assertEqual(len(self.missed(-201, quantity=quantity)), 1)

    def test_exceptions(self):
        """Each is needed."""
        case, quantity = next((c, q) for c, q in real_logs.exceptions() if q == "cache")
        others = sum(c == case for c, _ in real_logs.exceptions()) - 1
        self.assertEqual(len(self.missed(5000, quantity=quantity, case=case)), others)
        self.assertEqual(len(self.missed(0, quantity=quantity, case=case)), others + 1)


if __name__ == "__main__":
    unittest.main()
