#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies ggml-alloc.c and ggml-backend.cpp of a llama.cpp tree and puts the calls of trace.h into the copies.

    patch.py LLAMA_CPP_FOLDER OUT_FOLDER

Each call stands before or after a line that has been the same for many versions; a line that is missing or not
unique where it must be is an error.
"""
import pathlib
import sys

ALLOC = [
    # (line, what to insert, before or after, how often the line must occur)
    ("        hn->addr = ggml_dyn_tallocr_alloc(alloc, size, node);",
     "        trace_alloc(node, buffer_id, hn->addr.chunk, hn->addr.offset, size);", "after", 1),
    ("                            ggml_gallocr_free_extra_space(galloc, node, view_src);",
     "                            trace_reuse(node, parent, hn->buffer_id, hn->addr.chunk, hn->addr.offset);",
     "before", 1),
    ("                        ggml_gallocr_free_extra_space(galloc, node, parent);",
     "                        trace_reuse(node, parent, hn->buffer_id, hn->addr.chunk, hn->addr.offset);",
     "before", 1),
    ("        ggml_dyn_tallocr_free_bytes(p_alloc, p_addr, extra_size);",
     "        trace_extra(parent, p_hn->buffer_id, p_addr.chunk, p_addr.offset, extra_size);", "before", 1),
    ("    ggml_dyn_tallocr_free_bytes(alloc, hn->addr, size);",
     "    trace_free(node, buffer_id, hn->addr.chunk, hn->addr.offset, size);", "before", 1),
]
SCHEDULER = [
    ("    return buft->iface.alloc_buffer(buft, size);",
     "    trace_buffer(ggml_backend_buft_name(buft), size);", "before", 1),
    ("    ggml_backend_sched_split_graph(sched, measure_graph);\n\n    ggml_gallocr_reserve_n_size(",
     "    trace_measure();", "before", 1),
    ("    sched->n_graph_inputs = 0;\n    sched->is_reset = false;",
     "    trace_graph(sched, graph);", "after", 1),
    ("        split->graph = ggml_graph_view(graph, split->i_start, split->i_end);",
     "        trace_split(i, ggml_backend_name(sched->backends[split->backend_id]), split->i_start, split->i_end,\n"
     "                    split->inputs, split->n_inputs);", "before", 1),
    ("    // set ids for all splits",
     "    trace_planned(sched, graph, &sched->graph, sched->node_backend_ids, sched->leaf_backend_ids, sched->galloc);",
     "before", 1),
]


def patch(text, changes, name):
    for line, call, where, times in changes:
        if text.count(line) != times:
            sys.exit("%s: %r occurs %d times, expected %d" % (name, line, text.count(line), times))
        text = text.replace(line, call + "\n" + line if where == "before" else line + "\n" + call)
    return '#include "trace.h"\n' + text


def main():
    source, out = pathlib.Path(sys.argv[1]) / "ggml" / "src", pathlib.Path(sys.argv[2])
    for name, changes in (("ggml-alloc.c", ALLOC), ("ggml-backend.cpp", SCHEDULER)):
        (out / name).write_text(patch((source / name).read_text(), changes, name))


if __name__ == "__main__":
    main()
