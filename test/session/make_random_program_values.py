# SPDX-License-Identifier: BSL-1.0
"""Writes random_program_values.txt: what PyTorch computes of programs at random in float64, and their gradients by
autograd, for test/session/random_graphs.cpp to compare Weft with.

usage: WEFT_RANDOM_WRITE=programs.txt test_session_random_graphs --run_test=programs_compute_what_pytorch_computes
       PYTHON make_random_program_values.py programs.txt > random_program_values.txt     with a PYTHON that has torch

The programs are those of the seeds 0, 1, ... that have a block which occurs fewer than five times in the programs before,
until every block occurs five times (write_programs in random_graphs.cpp). Behind each is a line `values`: the loss, the
last matrix, the loss's gradients with respect to the first matrix, row and weights, and of those with respect to the
filters and the pictures a weighted sum. Blocks are as in random/blocks.hpp, of width 4.
"""
import math
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
LEAVES = "MMRCWPKLLBSrw"
MASK = (1 << 64) - 1


def word(seed, value, i):
    z = ((seed << 32) + (value << 24) + i) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def first_value(kind, seed, rows, value):
    extents = {"M": [rows, 4], "B": [rows, 4], "R": [4], "r": [4], "C": [rows, 1], "W": [4, 4], "w": [4, 4],
               "P": [rows, 4, 4, 2], "K": [3, 3, 2, 2], "L": [rows], "S": []}[kind]
    words = [word(seed, value, i) >> 40 for i in range(int(torch.tensor(extents).prod()))]
    if kind == "L":
        return torch.tensor([w % 4 for w in words]).reshape(extents)
    if kind == "B":
        return torch.tensor([w % 2 == 1 for w in words]).reshape(extents)
    return torch.tensor([w / (1 << 23) - 1 for w in words]).reshape(extents).requires_grad_()


def near_unit(a):
    return torch.tanh(a) * 0.2 + torch.eye(4)


def squares(a):
    return a.reshape(-1, 2, 2)


def cumsum(a, axis, exclusive=False, reverse=False):
    x = a.flip(axis) if reverse else a
    y = torch.cumsum(x, axis) - (x if exclusive else 0)
    return y.flip(axis) if reverse else y


def ordered(a):
    return torch.sort(a, dim=1, descending=True, stable=True)


def wide(a, b, c):
    hidden = torch.tanh(a @ torch.cat([b, b.T, b, b], 1) + 0.1)
    return hidden @ torch.cat([b, b, b.T, b], 1).T * 0.25 + c


def batched_t(a, b, c):
    return torch.tanh(squares(a).transpose(1, 2) @ squares(b) * 0.5 + c.reshape(2, 2)).reshape(-1, 4)


def turn(a):
    return torch.cat([a[:, 2:], a[:, :2] * 0.5], 1)


def loop(a, b):
    for _ in range(4):
        if not (a * a).mean() > 0.05:
            break
        a = torch.tanh(a) * 0.7 + b * 0.05
    return a


def nested_capture(p, a, b):
    x = a
    for _ in range(3):
        if not (x * x).mean() > 0.05:
            break
        x = torch.tanh(x * b) * 0.5 if p > 0 else x * 0.5 + a * 0.01
    return x


def one_of_three(p, a, b):
    i = int(p * 3)
    return a if i == 0 else a * b if i == 1 else torch.tanh(b)


def folded(a, b):
    h = a.mean(0)
    for row in b:
        h = torch.tanh(h * b.mean() + row)
    return a + h


def gates(a):
    left, right = tanh(a).split(2, 1)
    return (torch.sigmoid(left) * right).sum(1, keepdim=True) * 0.5


def parts_of_joined(a, b):
    left, right = torch.cat([a * b, a + b], 1).split(4, 1)
    return left - right


def loop_dense(a, b):
    for _ in range(3):
        a = torch.tanh(a @ b * 0.7)
    return a


def channels_first(a):
    return a.permute(0, 3, 1, 2)


def channels_last(a):
    return a.permute(0, 2, 3, 1)


def conv(a, b):
    y = F.conv2d(channels_first(a), b.permute(3, 2, 0, 1), padding=1)
    return torch.tanh(channels_last(y) * 0.3)


def pooled(how, a):
    return how(channels_first(a), 2)


def column(a):
    return a.reshape(-1, 1)


def normalized(a, axes, scale, offset):
    centred = a - a.mean(axes, keepdim=True)
    return centred / torch.sqrt(square(centred).mean(axes, keepdim=True) + 0.1) * scale + offset


def batch_moments(a):
    mean = a.mean(0)
    return mean, square(a - mean).mean(0)


def batch_normal_relu(a, b, c, d):
    mean, variance = batch_moments(a)
    return torch.relu(normalized(a, 0, b, c) + d) + 0.1 * tanh(mean - variance)


def dense_cross_entropy(a, b):
    return -(torch.softmax(b, 1) * torch.log_softmax(a, 1)).sum(1)


def cross_entropy(a, b):
    return F.cross_entropy(a, b, reduction="none")


def square(a):
    return a * a


def reshaped(a, b):
    halves = torch.tanh(a).reshape(-1, 2) * b.reshape(-1, 2)
    return (halves - halves.mean(-1, keepdim=True)).reshape(-1, 4)


def normalised(a):
    centred = a - a.mean(-1, keepdim=True)
    return centred * torch.rsqrt(square(centred).mean(-1, keepdim=True) + 0.5)


def cumprod_both(a):
    before = torch.cat([torch.ones(1, 4), tanh(a).flip(0)])
    return torch.cumprod(before, 0)[:-1].flip(0)


def unfolded(a):
    return tanh(channels_last(F.fold(F.unfold(channels_first(a), 3, padding=1), (4, 4), 3, padding=1)) * 0.1)


def resized(a):
    y = F.interpolate(pooled(F.avg_pool2d, a), (4, 4), mode="bilinear")
    return channels_last(y) * 0.5 + tanh(a)


where, tanh = torch.where, torch.tanh

BLOCKS = {
    "mul_add": ("M", lambda a, b, c: a * b + c),
    "tanh_sub": ("M", lambda a, b: tanh(a) - b),
    "sigmoid_mul": ("M", lambda a, b: torch.sigmoid(a * b)),
    "dense": ("M", lambda a, b, c: tanh(a @ b + c)),
    "matmul_half": ("M", lambda a, b: a @ b * 0.5),
    "dense_mean": ("M", lambda a, b, c: tanh(a @ c + (a * b).mean(0))),
    "wide": ("M", wide),
    "softmax_of": ("M", lambda a: torch.softmax(a, 1)),
    "log_softmax_of": ("M", lambda a: torch.log_softmax(a, 1) * 0.2),
    "batch_normal": ("M", lambda a, b, c: normalized(a, 0, b, c)),
    "batch_normal_relu": ("M", batch_normal_relu),
    "batch_normal_by": ("M", lambda a, b, c: (a - b) / torch.sqrt(square(c) + 0.1) * c + b),
    "layer_normal": ("M", lambda a, b, c: normalized(a, 1, b, c)),
    "rms_normal": ("M", lambda a, b: a / torch.sqrt(square(a).mean(1, keepdim=True) + 0.1) * b),
    "scale_shift": ("M", lambda a, b, c: a * b + c),
    "select_greater": ("M", lambda a, b: where(a > b, a, b * 0.5)),
    "select_mask": ("M", lambda p, a, b: where(p, tanh(a), b)),
    "cast_mask": ("M", lambda p, a: p.double() * 0.5 + a),
    "relu_add": ("M", lambda a, b: torch.relu(a) + 0.1 * b),
    "min_max": ("M", lambda a, b, c: torch.minimum(a, b) + torch.maximum(a, c)),
    "one_hot_add": ("M", lambda a, b: F.one_hot(a, 4).double() * 0.5 + b),
    "cumsum_of": ("M", lambda a: tanh(cumsum(a, 1) * 0.3)),
    "cumsum_exclusive": ("M", lambda a: tanh(cumsum(a, 1, exclusive=True) * 0.3)),
    "cumsum_reverse": ("M", lambda a: tanh(cumsum(a, 0, reverse=True) * 0.1)),
    "cumsum_both": ("M", lambda a, b: tanh(cumsum(a, 0, True, True) * 0.1) + b),
    "cumprod_both": ("M", cumprod_both),
    "logcumsumexp_of": ("M", lambda a: tanh(torch.logcumsumexp(a.flip(1), 1).flip(1) * 0.3)),
    "cummax_of": ("M", lambda a: torch.cummax(a, 1).values),
    "sort_rows": ("M", lambda a: torch.sort(a, dim=1, stable=True).values),
    "sort_columns": ("M", lambda a: torch.sort(a, dim=0, descending=True, stable=True).values),
    "pool_scale": ("M", lambda a, b: a * square(pooled(F.max_pool2d, b)).mean()),
    "divide": ("M", lambda a, b: a / (1.5 + b * b)),
    "exp_log_sqrt": ("M", lambda a, b: torch.exp(tanh(a) * 0.3 - 1) + torch.log(b * b + 1) - torch.sqrt(a * a + 0.5)),
    "add_constant": ("M", lambda a: a + torch.tensor([-1, -0.5, 0, 0.5]) * 0.25),
    "turn": ("M", turn),
    "reversed": ("M", lambda a, b: a.flip(0) * 0.5 + b.flip(1)),
    "stepped": ("M", lambda a: F.pad(a[:, [3, 1]], (1, 1)) + tanh(a)),
    "pad_slice": ("M", lambda a, b: F.pad(a[:, 1:2], (1, 2)) + b),
    "rolled": ("M", lambda a: torch.roll(a, (2, -1), (0, 1))),
    "batched_t": ("M", batched_t),
    "batched": ("M", lambda a, b, c: (squares(a) @ b[0:2, 1:3] * 0.5).reshape(-1, 4) + c),
    "einsum_of": ("M", lambda a, b, c: tanh(torch.einsum("bi,ij,bj->bi", a, b, c))),
    "squares_minus": ("M", lambda a, b: a - b.mean()),
    "erf_sin": ("M", lambda a, b: torch.erf(a) + torch.sin(b) * 0.5),
    "cos_mul": ("M", lambda a, b: torch.cos(a * 2) * b),
    "trigonometric": ("M", lambda a, b: torch.atan2(torch.asinh(a), torch.cosh(tanh(b)))),
    "special": ("M", lambda a: torch.erfc(a) * F.mish(a)),
    "log_of_sums": ("M", lambda a, b: torch.logaddexp(torch.hypot(a, torch.tensor(0.5)), b)),
    "pow_of": ("M", lambda a, b: torch.pow(square(tanh(a)) + 0.5, tanh(b))),
    "activated": ("M", lambda a, b: F.gelu(a) * 0.5 + F.silu(b) - F.softsign(a * b)),
    "kinked": ("M", lambda a, b, c: F.relu6(a + 1.0) * 0.3 - F.hardswish(b)
               + torch.where(a > 0, a, torch.sigmoid(c) * a) * 0.5),
    "exponential_units": ("M", lambda a, b: F.elu(a) * 0.5 + F.selu(b) * 0.3 + F.gelu(b, approximate="tanh") * 0.1),
    "clamped": ("M", lambda a, b: torch.clamp(F.softshrink(a), b, b + 1)),
    "independent_loss": ("M", lambda a, b: F.binary_cross_entropy_with_logits(a, torch.sigmoid(b), reduction="none")
                         * 0.5),
    "robust_loss": ("M", lambda a, b: F.huber_loss(a, tanh(b), reduction="none", delta=0.7) * 0.5
                    - torch.relu(1 - (2 * (a > 0).double() - 1) * b) * 0.1),
    "tiled": ("M", lambda a: torch.tile(a[:, :2], (1, 2)) * 0.5
              + torch.stack([a[:, 2:], tanh(a[:, :2])], 2).reshape(-1, 4)),
    "softplus_of": ("M", lambda a, b: torch.logaddexp(a, torch.zeros(())) * 0.5 - b),
    "floor_of": ("M", lambda a, b: torch.floor(a * 3) * 0.1 + b),
    "sign_abs": ("M", lambda a, b: torch.sign(a) * 0.3 + torch.abs(b)),
    "stopped": ("M", lambda a, b: tanh(a).detach() * b),
    "gather_rows": ("M", lambda a, b: a[b]),
    "gather_columns": ("M", lambda a: a[:, [0, 1, 3, 0]]),
    "taken_along": ("M", lambda a, b: torch.gather(a, 1, torch.sort(b, dim=1, stable=True).indices) * 0.5 + tanh(a)),
    "gather_unique": ("M", lambda a, b: tanh(a)[b]),
    "conditional": ("M", lambda p, a, b: tanh(a) * b if p > 0.1 else a * 0.5 - b),
    "captured_branch": ("M", lambda p, a, b: tanh(a) * b if p > 0.1 else a * 0.5 - b),
    "captured_loop": ("M", loop),
    "nested_capture": ("M", nested_capture),
    "one_of_three": ("M", one_of_three),
    "mapped": ("M", lambda a, b: a * b.mean()),
    "folded": ("M", folded),
    "swap_parts": ("M", lambda a: torch.cat([a[:, 2:] * 2, torch.sigmoid(a[:, :2])], 1)),
    "parts_of_joined": ("M", parts_of_joined),
    "loop": ("M", loop),
    "loop_dense": ("M", loop_dense),
    "recomputed": ("M", lambda a, b: tanh(a @ b)),
    "reshaped": ("M", reshaped),
    "normalised": ("M", normalised),
    "slice_computed": ("M", lambda a, b: a * 0.5 + tanh(a).narrow(1, int(b.min()), 1)),
    "filled": ("M", lambda a: a + a.mean() * 0.5 + torch.arange(4) * 0.025),
    "batch_moments": ("R", lambda a: tanh(batch_moments(a)[0] + batch_moments(a)[1] * 0.1)),
    "mean_rows": ("R", lambda a, b: (a * b).mean(0)),
    "last_row": ("R", lambda a: a[-1]),
    "scale_row": ("R", lambda a, b: a * tanh(b)),
    "max_rows": ("R", lambda a: a.amax(0)),
    "min_prod": ("R", lambda a, b: a.amin(0) * (tanh(b) * 0.1 + 1).prod()),
    "mean_concat": ("R", lambda a, b: torch.cat([a, b, a]).mean(0)),
    "solve_row": ("R", lambda a, b: torch.linalg.solve(near_unit(a), b)),
    "masked_rows": ("R", lambda a, b, c: tanh(a[b <= c].sum(0) * 0.1)),
    "spread": ("R", lambda a: torch.std(a, 0, correction=0) * 0.5 + tanh(torch.var(a, 0, correction=0))),
    "row_norms": ("R", lambda a, b: torch.linalg.vector_norm(a, math.inf, 0) * 0.3
                  - torch.linalg.vector_norm(b, 1, 0) * 0.1),
    "bins": ("R", lambda a: torch.bincount(a, minlength=4).double() * 0.2),
    "diagonal": ("R", lambda a: torch.diagonal(a)),
    "banded": ("W", lambda a, b: torch.triu(torch.tril(a), -1) + torch.diag(tanh(b)) * 0.5),
    "set_diagonal": ("W", lambda a, b: torch.diagonal_scatter(tanh(a), b)),
    "kron_of": ("W", lambda a, b: torch.kron(a.reshape(2, 2), b.reshape(2, 2))),
    "segment_sums": ("W", lambda a, b: tanh(torch.zeros(4, 4).index_add(0, b, a))),
    "scatter_rows": ("W", lambda a, b, c: tanh(torch.index_copy(torch.index_add(a, 0, b, c), 0, b, c))),
    "scatter_largest": ("W", lambda a, b, c: torch.index_reduce(a, 0, b, c, "amax")),
    "gram": ("W", lambda a, b: tanh(a.T @ b * 0.2)),
    "scale_weights": ("W", lambda a, b: a * b.reshape(4, 1)),
    "transposed": ("W", lambda a: a.T),
    "flat_tanh": ("W", lambda a: (tanh(a) + a) * 0.5),
    "join": ("W", lambda a, b: torch.cat([a[:1], b[1:]])),
    "inverse_of": ("W", lambda a: torch.linalg.inv(near_unit(a))),
    "product_ww": ("W", lambda a, b: a @ b * 0.5),
    "product_wwt": ("W", lambda a, b, c: a @ b.T * 0.5 + c * 0.25),
    "solve_of": ("W", lambda a, b: torch.linalg.solve(near_unit(a).T, b)),
    "cholesky_of": ("W", lambda a: torch.linalg.cholesky(near_unit(a) @ near_unit(a).T)),
    "q_of": ("W", lambda a: torch.linalg.qr(near_unit(a)).Q),
    "triangle_of": ("W", lambda a, b: torch.linalg.solve_triangular(near_unit(a), b, upper=True)),
    "exponential_of": ("W", lambda a: torch.linalg.matrix_exp(tanh(a) * 0.25)),
    "cumsum_weights": ("W", lambda a: tanh(cumsum(a, 0) * 0.3)),
    "row_mean": ("C", lambda a, b: column((a * b).mean(1))),
    "gates": ("C", gates),
    "kept_sum": ("C", lambda a: a.sum(1, keepdim=True) * 0.25),
    "matvec": ("C", lambda a, b: a @ b.reshape(4, 1) * 0.5),
    "dense_loss": ("C", lambda a, b: column(dense_cross_entropy(a, b)) * 0.3),
    "smoothed_loss": ("C", lambda a, b: column(F.cross_entropy(a, b, reduction="none", label_smoothing=0.2)) * 0.3),
    "row_logsumexp": ("C", lambda a: torch.logsumexp(a, 1, keepdim=True) * 0.3),
    "row_norm": ("C", lambda a: torch.linalg.vector_norm(a, 2, 1, keepdim=True) * 0.5),
    "picked": ("C", lambda a, b, c: column(tanh(a)[b, c])),
    "class_loss": ("C", lambda a, b: column(cross_entropy(a, b)) * 0.3),
    "batch_taken": ("C", lambda a, b: column(torch.gather(tanh(a), 1, b.reshape(-1, 1))[:, 0]) * 0.5),
    "top_mean": ("C", lambda a: column(ordered(a).values[:, :2].mean(1))),
    "row_extremes": ("C", lambda a: column(a.amax(1) * 0.5 - a.amin(1))),
    "row_product": ("C", lambda a: column((tanh(a) * 0.1 + 1).prod(1))),
    "counted": ("C", lambda a: column(torch.bincount(a)[a].double() * 0.1)),
    "mean_mul": ("S", lambda a, b: (a * b).mean()),
    "mean_weights": ("S", lambda a: a.mean() + square(a).sum() * 0.025),
    "mean_loss": ("S", lambda a, b: cross_entropy(a, b).mean()),
    "mean_pool": ("S", lambda a: pooled(F.avg_pool2d, a).mean()),
    "determinant_of": ("S", lambda a: torch.linalg.det(near_unit(a))),
    "log_determinant_of": ("S", lambda a: torch.linalg.slogdet(near_unit(a)).logabsdet),
    "trace_of": ("S", lambda a: torch.trace(a) * 0.3 + square(a).sum() * 0.025),
    "masked_mean": ("S", lambda a, b: a[b].sum() * 0.01),
    "deviation": ("S", lambda a: torch.sqrt(square(a).mean() + 0.1)),
    "largest": ("S", lambda a: a.amax() * 0.5),
    "argmax_of": ("L", lambda a: ordered(a).indices[:, 0]),
    "argmin_of": ("L", lambda a: torch.sort(a, dim=1, stable=True).indices[:, 0]),
    "second_best": ("L", lambda a: ordered(a).indices[:, 1]),
    "smallest_index": ("L", lambda a: torch.sort(a, dim=1, stable=True).indices[:, 0]),
    "class_of": ("L", lambda a: torch.clamp(torch.abs(a.reshape(-1)) * 2, max=3).long()),
    "bits_of": ("L", lambda a, b: a ^ (b >> 1)),
    "middle": ("L", lambda a, b: (a + b) // 2),
    "select_labels": ("L", lambda a, b: where(a < b, b - a, a)),
    "less_of": ("B", lambda a, b: a < b),
    "greater_equal_of": ("B", lambda a, b: a >= b * 0.5),
    "equal_floors": ("B", lambda a, b: torch.floor(a * 2) == torch.floor(b * 2)),
    "in_top": ("B", lambda a, b: (a > 0.1) & ((a > torch.gather(a, 1, column(b))).sum(1, keepdim=True) < 2)),
    "any_all": ("B", lambda a, b: (a & b.any(1, keepdim=True)) | b.all(0)),
    "logic": ("B", lambda a, b: (a & ~b) | (b != a)),
    "conv": ("P", conv),
    "batch_normal_pictures": ("P", lambda a, b: torch.relu(normalized(a, (0, 1, 2), b[0:2], b[1:3])) * 0.5),
    "group_normal": ("P", lambda a, b: normalized(a, (1, 2, 3), b[0:2], b[1:3])),
    "unfolded": ("P", unfolded),
    "resized": ("P", resized),
    "tanh_pictures": ("P", lambda a, b: tanh(a) * b),
    "flipped": ("P", lambda a: a.flip(1, 2) * 0.5 + a.flip(0, 1, 2, 3)),
    "swapped": ("P", lambda a: a.permute(0, 2, 1, 3)),
    "scale_filters": ("K", lambda a, b: tanh(a) * b),
    "new_row": ("r", None),
    "new_weights": ("w", None),
}


def run(seed, rows, steps):
    kinds = list(LEAVES)
    values = [first_value(kind, seed, rows, v) for v, kind in enumerate(kinds)]
    for name, *operands in steps:
        kind, block = BLOCKS[name]
        made = block(*[values[int(o)] for o in operands]) if block else first_value(kind, seed, rows, len(kinds))
        kinds.append(kind)
        values.append(made)

    def last(wanted):
        return [v for v, kind in zip(values, kinds) if kind in wanted][-1]

    loss = ((last("M") * last("Rr")).mean() + square(last("Ww")).mean() + 0.1 * last("S") + 0.1 * last("C").mean() +
            0.1 * last("P").mean())
    of = [values[LEAVES.index(kind)] for kind in "MRWKP"]
    found = [g if g is not None else torch.zeros_like(x)
             for g, x in zip(torch.autograd.grad(loss, of, allow_unused=True), of)]
    sums = [(g.reshape(-1) * (1 + torch.arange(g.numel()) % 7)).sum() for g in found[3:]]
    return [x.item() for v in [loss, last("M"), *found[:3], *sums] for x in v.reshape(-1)]


def main():
    print("make_random_program_values.py with PyTorch", torch.__version__.split("+")[0])
    programs = []
    for line in open(sys.argv[1]):
        if line.startswith("program"):
            programs.append([])
        programs[-1].append(line.split())
    for (_, seed, rows), *steps in programs:
        print("program", seed, rows)
        for step in steps:
            print(*step)
        print("values", *[format(x, ".12g") for x in run(int(seed), int(rows), steps)])


main()
