# SPDX-License-Identifier: MIT
"""What llama.cpp asked of a virtual CUDA device, to the byte (data/llamacpp/virtual_device_cases.jsonl), beside `vram fit`
on sparse files of the same models."""
import concurrent.futures
import json
import os
import tempfile

import figures
from asking import HOST, QUANTITIES, Refused, ask
from figures import CARDS, Row

VALUED = {"-c", "-fa", "-b", "-ub", "-ctk", "-ctv", "-np", "-ngl", "-ts", "--n-cpu-moe", "-sm", "-fitt"}


def given(case):
    words, found = case["options"].split(), {}
    while words:
        word = words.pop(0)
        found[word] = words.pop(0) if word in VALUED else ""
    return found


def cards_of(case):
    return int(case["env"].get("FAKE_NDEV", "1")) if case["device"] == "virtual-cuda" else 0


def kind_of(case, options):
    layers = int(options.get("-ngl", "999"))
    if not cards_of(case):
        return figures.NO_CARD
    if cards_of(case) > 1:
        return figures.TWO
    if "--cpu-moe" in options or "--n-cpu-moe" in options:
        return figures.EXPERTS
    if layers <= 1:
        return figures.HEAD
    if layers <= case["shape"]["n"]:
        return figures.PART
    return figures.NO_KV if "--no-kv-offload" in options else figures.WHOLE


def ours(case, options):
    """Its -c is that of all sequences together; 0 is the trained length. What is repacked for the CPU is as large as before.
    llama-fit-params was asked, in some with the logits of a server."""
    words = ["--n-ctx", str(int(options.get("-c", "0")) or case["shape"]["ctx"]), "-np", options.get("-np", "1")]
    for word, value in options.items():
        if word not in ("-c", "-np", "--no-repack"):
            words += [word, value] if value else [word]
    words += ["--kv-unified"] if "KVU" in case["env"] else []
    return words + ["--tool", "server" if case["env"].get("N_OUTPUTS_MAX") == "1" else "fit-params"]


def actual(case):
    """Bytes by memory; what lies in host memory is pinned, pageable or repacked."""
    found = {}
    for name, told in case["bytes"].items():
        memory = found.setdefault(name if name.startswith("CUDA") and name != "CUDA_Host" else HOST, dict.fromkeys(QUANTITIES, 0))
        for quantity, word in zip(QUANTITIES, ("model", "context", "compute")):
            memory[quantity] += told[word]
            memory["total"] += told[word]
    return found


def rows_of(case, kind, answer):
    told, rows, sums = actual(case), [], {CARDS: [0, 0]}
    for memory in (*told, *(m for m in answer.memories if m not in told)):  # what llama.cpp does not have is nothing
        for quantity, size in told.get(memory, dict.fromkeys(QUANTITIES, 0)).items():
            figure = answer.memories[memory][quantity] if memory in answer.memories else None
            predicted = figure.bytes if figure else None
            rows.append(Row(case["case"], case["arch"], kind, memory, quantity, predicted, size, figure.basis if figure else "-", 0))
            if memory != HOST and quantity == "total":
                both = sums[CARDS]
                both[0] = None if predicted is None or both[0] is None else both[0] + predicted
                both[1] += size
    if kind != figures.NO_CARD:
        rows.append(Row(case["case"], case["arch"], kind, CARDS, "total", *sums[CARDS], rows[-1].basis, 0))
    return rows


class Outcome:
    def __init__(self):
        self.compute = []
        self.rows, self.left_out, self.refusals, self.wrongly_run = [], {}, 0, []

    def take(self, case, options, answer, why):
        if case["error"]:
            self.refusals += 1
            if answer is not None and answer.verdict in ("fits", "tight"):
                self.wrongly_run.append(case["case"])
        elif answer is None:
            self.left_out.setdefault(why, []).append(case["case"])
        else:
            self.rows += rows_of(case, kind_of(case, options), answer)


def run(vram, lines, gguf, workers):
    """Every case of the lines. Files are made one at a time; they take no room."""
    cases, outcome = {}, Outcome()
    for case in map(json.loads, lines):
        cases.setdefault((case["model"], case["file_type"]), []).append(case)

    def asked(path, case):
        try:
            return ask(vram, path, ours(case, given(case)), cards_of(case)), None
        except Refused as refused:
            return None, str(refused)

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        path = os.path.join(folder, "model.gguf")
        for (model, file_type), list_ in sorted(cases.items()):
            gguf.make(model, file_type, path, "none")
            for case, (answer, why) in zip(list_, pool.map(lambda c, p=path: asked(p, c), list_)):
                outcome.take(case, given(case), answer, why)
    return outcome


def misses(outcome):
    """What must hold and does not, in words."""
    rows = outcome.rows
    found = [f"{len(c)} cases without an answer: {why} ({c[0]}, ...)" for why, c in outcome.left_out.items()]
    found += [f"{case}: llama.cpp refuses it" for case in outcome.wrongly_run]

    def must(holds, words, worst):
        if not holds:
            found.append(words + (f"; worst {worst.case} {worst.memory} {figures.off(worst):+.3f} %" if worst else ""))

    for quantity in ("weights", "cache"):
        these = figures.Sum(figures.of([r for r in rows if r.memory != CARDS], quantity=quantity))
        must(these.exact == len(these.rows), f"{quantity}: {these.words()} exact", these.worst_row)
    cards = figures.on_cards(figures.of(rows, quantity="compute"))
    whole = figures.Sum(figures.of(cards, kind=figures.WHOLE))
    must(whole.exact >= 0.97 * len(whole.rows), f"compute, {figures.WHOLE}: {whole.words()} exact, 97 % must be", whole.worst_row)
    simulated = figures.Sum([r for r in figures.of(rows, quantity="compute") if r.basis.startswith("simulated")])
    must(simulated.rows or not whole.rows, "compute: none is called simulated", None)
    must(simulated.exact == len(simulated.rows), f"compute called simulated: {simulated.words()} exact", simulated.worst_row)
    totals = figures.of(rows, memory=CARDS)
    whole = figures.Sum(figures.of(totals, kind=figures.WHOLE))
    must(whole.within(0.5) >= 0.99 * len(whole.rows), f"total, {figures.WHOLE}: {whole.within(0.5)} of {len(whole.rows)} within "
         "0.5 %, 99 % must be", whole.worst_row)
    must(whole.worst < 1.5, f"total, {figures.WHOLE}: below 1.5 % each", whole.worst_row)
    others = figures.Sum([r for r in totals if r.kind != figures.WHOLE])
    must(others.within(3) == len(others.rows), f"total, other runs: {others.within(3)} of {len(others.rows)} within 3 %",
         others.worst_row)
    return found
