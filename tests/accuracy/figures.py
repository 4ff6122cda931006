# SPDX-License-Identifier: MIT
"""Figures beside those of llama.cpp: how many are exact, how far the others are off, and what must hold."""
import collections

from asking import HOST, QUANTITIES

# kind: of a run, as in KINDS; within: what counts as exact, in bytes (a log prints two decimals of a MiB)
Row = collections.namedtuple("Row", "case arch kind memory quantity predicted actual basis within")
WHOLE, PART, HEAD, EXPERTS, NO_KV, TWO, NO_CARD = (
    "one card, all layers", "one card, half of the layers", "one card, -ngl 0 or 1",
    "one card, experts in host memory", "one card, caches in host memory", "two cards", "no card")
KINDS = (WHOLE, PART, HEAD, EXPERTS, NO_KV, TWO, NO_CARD)
CARDS = "cards"  # all of them together


def exact(row):
    return row.predicted is not None and abs(row.predicted - row.actual) <= row.within


def off(row):
    """Per cent; what is not there at all but foretold is all off."""
    if row.actual == 0:
        return 0.0 if row.predicted == 0 else 100.0
    return 100.0 * (row.predicted - row.actual) / row.actual


class Sum:
    """Of some rows: what the tables print."""

    def __init__(self, rows):
        self.rows = list(rows)
        self.told = [r for r in self.rows if r.predicted is not None]
        self.exact = sum(map(exact, self.told))
        by_size = sorted(self.told, key=lambda r: abs(off(r)))
        self.worst_row = by_size[-1] if by_size else None
        self.worst = abs(off(self.worst_row)) if by_size else 0.0
        self.median = abs(off(by_size[len(by_size) // 2])) if by_size else 0.0

    def within(self, per_cent):
        return sum(abs(off(r)) <= per_cent for r in self.told)

    def words(self):
        """"12 of 13", and where not all are exact the largest error."""
        if not self.rows:
            return "–"
        text = f"{self.exact} of {len(self.rows)}"
        untold = len(self.rows) - len(self.told)
        if untold:
            text += f", {untold} not counted"
        return text if self.exact == len(self.told) else f"{text}; worst {self.worst:.2f} %"


def of(rows, **wanted):
    """Rows whose fields are, or are among, those wanted."""
    def fits(row):
        return all(getattr(row, k) in v if isinstance(v, (tuple, set)) else getattr(row, k) == v for k, v in wanted.items())
    return [r for r in rows if fits(r)]


def on_cards(rows):
    return [r for r in rows if r.memory not in (HOST, CARDS)]


def table(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(line) + " |" for line in lines]


def by_kind(rows):
    """Cases of each kind: every card's figures, then the host's; total: of all cards of a case."""
    lines = []
    for kind in KINDS:
        these = of(rows, kind=kind)
        if not these:
            continue
        cells = [kind, str(len({r.case for r in these}))]
        for quantity in QUANTITIES[:-1]:
            cells.append(Sum(on_cards(of(these, quantity=quantity))).words())
        cells.append(Sum(of(these, memory=CARDS, quantity="total")).words())
        for quantity in QUANTITIES[:-1]:
            cells.append(Sum(of(these, memory=HOST, quantity=quantity)).words())
        lines.append(cells)
    return table(("run", "cases", "weights", "caches and states", "compute buffer", "total of the cards",
                  "host: weights", "host: caches", "host: compute"), lines)


def by_architecture(rows):
    lines = []
    for arch in sorted({r.arch for r in rows}):
        these = of(rows, arch=arch)
        lines.append([f"`{arch}`", str(len({r.case for r in these}))] +
                     [Sum(on_cards(of(these, quantity=q))).words() for q in QUANTITIES[:-1]] +
                     [Sum(of(these, memory=CARDS, quantity="total")).words()])
    return table(("architecture", "cases", "weights", "caches and states", "compute buffer", "total of the cards"), lines)


def by_basis(rows):
    compute = on_cards(of(rows, quantity="compute"))
    lines = [[basis, Sum(of(compute, basis=basis)).words()] for basis in sorted({r.basis for r in compute})]
    return table(("basis of the compute buffer", "exact"), lines)


def listing(rows):
    """A line a figure, for reading and sorting."""
    for row in rows:
        error = "-" if row.predicted is None else f"{row.predicted - row.actual:+d}"
        per_cent = "-" if row.predicted is None else f"{off(row):+.3f} %"
        yield "\t".join((row.case, row.memory, row.quantity, str(row.predicted), str(row.actual), error, per_cent, row.basis))
