# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of scans and order statistics: cumulative_values.txt, beside this file.

Each line is a name and numbers: first the operands, then for each case the values y, "NAME", and the gradient of
sum((y + 1)^2), "NAME.gradient".
"""
import pathlib

import torch

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(5)
x = (torch.randn(2, 5, 3, generator=generator) * 64).round() / 64
x[0, 1, 0] = 0  # one zero, two zeros, and equal elements
x[1, 1, 1] = x[1, 3, 1] = 0
x[0, 2, 2] = x[0, 0, 2]
inf, nan = torch.inf, torch.nan
special = torch.tensor([[1, nan, 3, nan, 2], [-inf, -inf, 2, inf, 1], [3, 3, -inf, 3, 2], [-0.0, 0, -1, inf, inf]])
large = torch.tensor([[-1000, 1000, 999.5, -1e300], [-inf, 0, -inf, 3], [700, 710, 720, 730.0]])
lines = [f"# Made by make_cumulative_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def write(name, values):
    lines.append(" ".join([name, *(f"{v:.17g}" for v in values.detach().double().ravel().tolist())]))


def case(name, f, x=x):
    at = x.clone().requires_grad_()
    y = f(at)
    write(name, y)
    (gradient,) = torch.autograd.grad(((y + 1) ** 2).sum(), at)
    write(name + ".gradient", gradient)


def reversed(f, dim):
    return lambda x: f(x.flip(dim), dim).flip(dim)


for name, values in [("x", x), ("special", special), ("large", large)]:
    write(name, values)
for dim in [0, 1, 2]:
    case(f"cumprod_{dim}", lambda x: x.cumprod(dim))
    case(f"logcumsumexp_{dim}", lambda x: x.logcumsumexp(dim))
    case(f"cummax_{dim}", lambda x: x.cummax(dim)[0])
    case(f"cummin_{dim}", lambda x: x.cummin(dim)[0])
    write(f"cummax_{dim}_indices", x.cummax(dim)[1])
case("cumprod_reverse", reversed(torch.cumprod, 1))
case("logcumsumexp_reverse", reversed(torch.logcumsumexp, 1))
case("logcumsumexp_large", lambda x: x[2:].logcumsumexp(1), large)
write("logcumsumexp_special", large.logcumsumexp(1))
for name, f in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
    write(f"{name}_special", f(special, 1)[0])
    write(f"{name}_special_indices", f(special, 1)[1])
for mode in ["linear", "lower", "higher", "nearest", "midpoint"]:
    case(f"quantile_{mode}", lambda x: torch.quantile(x, 0.3, 1, interpolation=mode))
    case(f"quantile_even_{mode}", lambda x: torch.quantile(x.reshape(6, 5), 0.3, 0, interpolation=mode))
case("quantile_all", lambda x: torch.quantile(x, 0.85))
case("quantile_several", lambda x: torch.quantile(x, torch.tensor([0, 0.5, 0.71, 1]), 1, keepdim=True))
case("median", lambda x: torch.quantile(x.reshape(6, 5), 0.5, 0))
case("lower_median", lambda x: torch.median(x.reshape(6, 5), 0)[0])
write("quantile_special", torch.quantile(special, 0.25, 1))
case("kthvalue", lambda x: torch.kthvalue(x, 2, 2)[0])
write("kthvalue_indices", torch.kthvalue(x, 2, 2)[1])
write("count_nonzero", torch.count_nonzero(special, 1))
case("nansum", lambda x: torch.nansum(x[::2], 0), special)
case("nanmean", lambda x: torch.nanmean(x[:1]), special)
case("covariance", lambda x: torch.stack([torch.cov(m) for m in x]))
case("covariance_biased", lambda x: torch.cov(x[0], correction=0))
case("correlation", lambda x: torch.corrcoef(x[1]))
pathlib.Path(__file__).with_name("cumulative_values.txt").write_text("\n".join(lines) + "\n")
