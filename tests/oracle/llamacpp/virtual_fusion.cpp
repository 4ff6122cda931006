// SPDX-License-Identifier: MIT
// What ggml's CUDA back end keeps longer than the graph alone needs it: the routing of experts (from the activation of
// the gate to the weights), and the weighted sum over experts, are each computed in one kernel, which reads what the
// nodes before it have made. So those must not be overwritten by what comes in between.
#include "virtual_fusion.h"

#include "ggml-impl.h"
#include "ggml.h"

#include <cstring>
#include <vector>

namespace {

const int most_experts_summed = 15;

// ---- nodes in a row ------------------------------------------------------------------------------------------------

struct row {
    ggml_cgraph * graph;
    int at;

    ggml_tensor * node(int i) const {
        return at + i < graph->n_nodes ? graph->nodes[at + i] : nullptr;
    }
    bool is(int i, ggml_op op) const {
        return node(i) != nullptr && node(i)->op == op;
    }
    // node i is `op` of the one before it
    bool follows(int i, ggml_op op, int source = 0, int back = 1) const {
        return is(i, op) && node(i)->src[source] == node(i - back);
    }
};

// Nobody but the kernel sees what lies within.
bool one_kernel(const row & r, const std::vector<ggml_op> & ops, std::vector<int> seen) {
    for (int & s : seen) {
        s += r.at;
    }
    return ggml_can_fuse_subgraph(r.graph, r.at, int(ops.size()), ops.data(), seen.data(), int(seen.size()));
}

// ---- routing -------------------------------------------------------------------------------------------------------

bool kernel_has(int64_t experts) {
    return (experts <= 512 && (experts & (experts - 1)) == 0) || experts == 288 || experts == 576;
}

// Nodes of the routing that begins here, or 0.
int routing(const row & r) {
    std::vector<ggml_op> ops;
    const ggml_tensor * first = r.node(0);
    if (first->op == GGML_OP_SOFT_MAX) {
        ops = {GGML_OP_SOFT_MAX};
    } else if (first->op == GGML_OP_UNARY && ggml_get_unary_op(first) == GGML_UNARY_OP_SIGMOID) {
        ops = {GGML_OP_UNARY};
    } else if (first->op == GGML_OP_UNARY && ggml_get_unary_op(first) == GGML_UNARY_OP_SOFTPLUS &&
               r.follows(1, GGML_OP_SQRT)) {
        ops = {GGML_OP_UNARY, GGML_OP_SQRT};
    } else {
        return 0;
    }
    const int probs = int(ops.size()) - 1;
    if (!r.follows(probs + 1, GGML_OP_RESHAPE)) {
        return 0;
    }
    ops.push_back(GGML_OP_RESHAPE);
    const bool bias = r.is(probs + 2, GGML_OP_ADD) && r.node(probs + 2)->src[0] == r.node(probs);
    if (bias) {
        ops.push_back(GGML_OP_ADD);
    }
    int at = int(ops.size());
    if (!r.follows(at, GGML_OP_ARGSORT, 0, bias ? 1 : 2) || !r.follows(at + 1, GGML_OP_VIEW) ||
        !r.follows(at + 2, GGML_OP_GET_ROWS, 1) || r.node(at + 2)->src[0] != r.node(probs + 1)) {
        return 0;
    }
    ops.insert(ops.end(), {GGML_OP_ARGSORT, GGML_OP_VIEW, GGML_OP_GET_ROWS});
    const int ids = at + 1;
    at += 3;
    if (r.follows(at, GGML_OP_RESHAPE) && r.follows(at + 1, GGML_OP_SUM_ROWS) && r.follows(at + 2, GGML_OP_CLAMP) &&
        r.follows(at + 3, GGML_OP_DIV, 1) && r.node(at + 3)->src[0] == r.node(at) &&
        r.follows(at + 4, GGML_OP_RESHAPE)) {
        ops.insert(ops.end(),
                   {GGML_OP_RESHAPE, GGML_OP_SUM_ROWS, GGML_OP_CLAMP, GGML_OP_DIV, GGML_OP_RESHAPE});
        at += 5;
    }
    if (r.follows(at, GGML_OP_SCALE)) {
        ops.push_back(GGML_OP_SCALE);
    }
    const int last = int(ops.size()) - 1;
    const ggml_tensor * chosen = r.node(ids);
    float scale = 1.0f, alibi = 0.0f;
    if (first->op == GGML_OP_SOFT_MAX) {
        memcpy(&scale, first->op_params, sizeof scale);
        memcpy(&alibi, reinterpret_cast<const float *>(first->op_params) + 1, sizeof alibi);
        if (first->src[1] != nullptr || first->src[2] != nullptr || scale != 1.0f || alibi != 0.0f) {
            return 0;
        }
    }
    if (!kernel_has(int64_t(chosen->nb[1] / chosen->nb[0])) || !ggml_is_contiguous(first->src[0]) ||
        !ggml_is_contiguous(r.node(last))) {
        return 0;
    }
    return one_kernel(r, ops, {ids, last}) ? int(ops.size()) : 0;
}

// ---- weighted sum --------------------------------------------------------------------------------------------------

struct product {
    ggml_tensor * whole;
    ggml_tensor * each; // one factor for each expert of each token
};

bool is_plain(const ggml_tensor * t) {
    return t != nullptr && t->type == GGML_TYPE_F32 && ggml_is_contiguous(t);
}

bool split_product(const ggml_tensor * mul, product & out) {
    for (int i = 0; i < 2; i++) {
        ggml_tensor * whole = mul->src[i];
        ggml_tensor * each = mul->src[1 - i];
        if (is_plain(whole) && is_plain(each) && ggml_are_same_shape(whole, mul) && each->ne[0] == 1 &&
            each->ne[1] == mul->ne[1] && each->ne[2] == mul->ne[2] && each->ne[3] == mul->ne[3]) {
            out = {whole, each};
            return true;
        }
    }
    return false;
}

bool is_slice(const ggml_tensor * t, ggml_tensor * of, int expert) {
    return t->src[0] == of && t->view_src == of && t->type == GGML_TYPE_F32 && t->ne[0] == of->ne[0] &&
           t->ne[1] == of->ne[2] * of->ne[3] && t->ne[2] == 1 && t->ne[3] == 1 && t->nb[0] == of->nb[0] &&
           t->nb[1] == of->nb[2] && t->view_offs == size_t(expert) * of->nb[1];
}

// Nodes of the sum that begins here, or 0; what is to be kept for it in `kept`.
int weighted_sum(const row & r, std::vector<ggml_tensor *> & kept) {
    const ggml_tensor * first = r.node(0);
    if (first->op != GGML_OP_MUL || !is_plain(first)) {
        return 0;
    }
    product inner, outer;
    int products = 1;
    ggml_tensor * weighted = r.node(0);
    if (r.is(1, GGML_OP_MUL) && is_plain(r.node(1)) && split_product(r.node(1), outer) && outer.whole == first &&
        split_product(first, inner)) {
        products = 2;
        weighted = r.node(1);
        kept = {inner.whole, outer.each, inner.each};
    } else if (split_product(first, inner)) {
        kept = {inner.whole, inner.each};
    } else {
        return 0;
    }
    const int experts = int(weighted->ne[1]);
    const int n = 2 * experts + products - 1;
    if (experts < 2 || experts > most_experts_summed || r.node(n - 1) == nullptr) {
        return 0;
    }
    std::vector<ggml_op> ops(size_t(products), GGML_OP_MUL);
    std::vector<ggml_tensor *> slices;
    ggml_tensor * sum = nullptr;
    for (int i = products, sums = 0; i < n; i++) {
        ggml_tensor * t = r.node(i);
        ops.push_back(t->op);
        if (t->op == GGML_OP_VIEW && int(slices.size()) < experts && is_slice(t, weighted, int(slices.size()))) {
            slices.push_back(t);
        } else if (t->op == GGML_OP_ADD && sums + 1 < int(slices.size()) && t->type == GGML_TYPE_F32 &&
                   t->src[0] == (sums == 0 ? slices[0] : sum) && t->src[1] == slices[size_t(sums) + 1]) {
            sum = t;
            sums++;
        } else {
            return 0;
        }
    }
    if (int(slices.size()) != experts || sum != r.node(n - 1) || !ggml_is_contiguous(sum)) {
        return 0;
    }
    return one_kernel(r, ops, {n - 1}) ? n : 0;
}

} // namespace

void virtual_cuda_keep(ggml_cgraph * graph, virtual_keep keep, void * user) {
    for (int i = 0; i < graph->n_nodes; i++) {
        std::vector<ggml_tensor *> kept;
        int n = weighted_sum({graph, i}, kept);
        if (n > 0) {
            for (ggml_tensor * t : kept) {
                keep(user, t, graph->nodes[i + n - 1]);
            }
            i += n - 1;
        }
        n = routing({graph, i});
        for (int k = i; k < i + n; k++) { // until the node behind the last
            keep(user, graph->nodes[k], graph->nodes[i + n]);
            for (ggml_tensor * src : graph->nodes[k]->src) {
                if (src != nullptr) {
                    keep(user, src, graph->nodes[i + n]);
                }
            }
        }
        i += n > 0 ? n - 1 : 0;
    }
}
