# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of reductions and arrays: reductions_values.txt, beside this file.

Each line is a name and numbers: first the operands, then for each case the values y, "NAME", and the gradient of
sum((y + 1)^2), "NAME.gradient".
"""
import math
import pathlib

import torch

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(7)
x = (torch.randn(2, 3, 4, generator=generator) * 16).round() / 8
rows = torch.tensor([[0, 0, 0, 0], [2, -2, 1, 2], [-1000, -1000.5, 0, -999], [1000, 1001, 1000, -1e300]])
squares = (torch.randn(2, 3, 3, generator=generator) * 16).round() / 8
lines = [f"# Made by make_reductions_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def write(name, values):
    lines.append(" ".join([name, *(repr(float(v)) for v in values.detach().ravel())]))


def case(name, f, x=x):
    at = x.clone().requires_grad_()
    y = f(at)
    write(name, y)
    (gradient,) = torch.autograd.grad(((y + 1) ** 2).sum(), at)
    write(name + ".gradient", gradient)


for name, values in [("x", x), ("rows", rows), ("squares", squares)]:
    write(name, values)
norm = torch.linalg.vector_norm
case("logsumexp", lambda x: torch.logsumexp(x, (0, 1, 2)))
case("logsumexp_1", lambda x: torch.logsumexp(x, 1))
case("logsumexp_02", lambda x: torch.logsumexp(x, (0, 2)))
case("logsumexp_rows", lambda x: torch.logsumexp(x, 1), rows)
case("norm", norm)
case("norm_one_2", lambda x: norm(x, 1, 2))
case("norm_two_01", lambda x: norm(x, 2, (0, 1)))
case("norm_infinity_1", lambda x: norm(x, math.inf, 1))
small = rows[:2]
case("norm_one_small", lambda x: norm(x, 1, 1), small)
case("norm_two_small", lambda x: norm(x, 2, 1), small)
case("norm_infinity_small", lambda x: norm(x, math.inf, 1), small)
for unbiased in [False, True]:
    end = "_unbiased" if unbiased else ""
    case("variance" + end, lambda x: torch.var(x, correction=int(unbiased)))
    case("variance_0" + end, lambda x: torch.var(x, 0, correction=int(unbiased)))
    case("variance_12" + end, lambda x: torch.var(x, (1, 2), correction=int(unbiased)))
    case("stddev_12" + end, lambda x: torch.std(x, (1, 2), correction=int(unbiased)))
    case("stddev_small" + end, lambda x: torch.std(x, 1, correction=int(unbiased)), small)
case("stack_0", lambda x: torch.stack([x, 2 * x], 0))
case("stack_2", lambda x: torch.stack([x, 2 * x, x * x], 2))
case("stack_last", lambda x: torch.stack([x, 2 * x], -1))
case("unstack_1", lambda x: x.unbind(1)[0] * 2 - x.unbind(1)[2])
case("tile_213", lambda x: torch.tile(x, (2, 1, 3)))
case("tile_122", lambda x: torch.tile(x, (1, 2, 2)))
case("diag", lambda x: torch.diag_embed(x))
case("diag_part", lambda x: torch.diagonal(x, dim1=1, dim2=2), squares)
case("trace", lambda x: torch.diagonal(x, dim1=1, dim2=2).sum(-1), squares)
case("band_lower", torch.tril)
case("band_upper", torch.triu)
case("band_01", lambda x: torch.triu(torch.tril(x, 1), 0))
case("band_10", lambda x: torch.triu(torch.tril(x, 0), -1))
pathlib.Path(__file__).with_name("reductions_values.txt").write_text("\n".join(lines) + "\n")
