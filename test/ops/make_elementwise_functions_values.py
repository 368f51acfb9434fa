# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of elementwise functions: elementwise_functions_values.txt, beside this file.

Each line is a name and numbers: the operands; then of each function the results, "NAME", and the gradients of
sum((y + 1)^2) with respect to the operands, "NAME.gradient" and "NAME.gradient_b".
"""
import math
import pathlib

import numpy
import torch
import torch.nn.functional as F

lines = [f"# Made by make_elementwise_functions_values.py with PyTorch {torch.__version__}."]


def write(name, values):
    lines.append(" ".join([name, *(f"{float(v):.17g}" for v in numpy.asarray(values).ravel())]))


def case(name, f, *operands):
    operands = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in operands]
    y = f(*operands)
    write(name, y.detach())
    ((y + 1) ** 2).sum().backward()
    for suffix, x in zip((".gradient", ".gradient_b"), operands):
        write(name + suffix, x.grad)


def values(name, f, *operands):
    write(name, f(*(torch.tensor(numpy.asarray(x)) for x in operands)))


# Two operands: all pairs of edges, values alone.
edges = [-math.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 3.0, math.inf, math.nan]
a, b = (numpy.repeat(edges, len(edges)), numpy.tile(edges, len(edges)))
write("a", a)
write("b", b)
for name, f in {
    "atan2": torch.atan2, "hypot": torch.hypot, "logaddexp": torch.logaddexp, "xlogy": torch.xlogy,
    "floor_div": torch.floor_divide, "floor_mod": torch.remainder, "fmod": torch.fmod,
    "clamp": lambda x, y: torch.clamp(x, y, torch.tensor(1.0)), "lerp": lambda x, y: torch.lerp(x, y, 0.75),
}.items():
    values(name, f, a, b)
write("heaviside", numpy.heaviside(a, b))

# Integers.
i, j = (numpy.repeat(numpy.arange(-8, 8), 6).astype(numpy.int32), numpy.tile([-5, -2, -1, 1, 3, 7], 16).astype(numpy.int32))
write("i", i)
write("j", j)
for name, f in {
    "floor_div": torch.floor_divide, "floor_mod": torch.remainder, "fmod": torch.fmod, "and": torch.bitwise_and,
    "or": torch.bitwise_or, "xor": torch.bitwise_xor,
}.items():
    values("int." + name, f, i, j)
values("int.left", torch.bitwise_left_shift, i, abs(j))
values("int.right", torch.bitwise_right_shift, i, abs(j))
values("int.not", torch.bitwise_not, i)
write("int.popcount", [bin(n & 0xffffffff).count("1") for n in i.tolist()])

# One operand, with gradients.
x = [-math.inf, -20, -2, -1, -0.5, -0.25, 0, 0.125, 0.5, 1, 1.5, 2, 20, math.inf]
write("x", x)
write("x_finite", x[1:-1])
for name, f in {
    "celu": lambda x: F.celu(x, 0.5), "hard_tanh": F.hardtanh, "threshold": lambda x: F.threshold(x, 0.5, -3),
    "hard_shrink": F.hardshrink, "soft_shrink": F.softshrink, "clamp1": lambda x: torch.clamp(x, -0.4, 1.75),
}.items():
    case(name, f, x)
for name, f in {
    "tanh_shrink": F.tanhshrink, "mish": F.mish, "log_sigmoid": F.logsigmoid, "sinc": torch.sinc,
    "ndtr": torch.special.ndtr, "glu": F.glu,
}.items():
    case(name, f, x[1:-1])
values("nan_to_num", torch.nan_to_num, [*x[:-1], math.nan])
case("nan_to_num3", lambda x: torch.nan_to_num(x, 1, 2, -3), [*x[:-1], math.nan])
positive = [1e-3, 0.3, 1, 1.4616321449683622, 2, 7.5, 100]
write("positive", positive)
case("lgamma", torch.lgamma, positive)
case("digamma", torch.digamma, positive)
values("digamma_edges", torch.digamma, [0.0, -0.0, -1.0, -1.5, -0.1, math.inf, -math.inf])

# Two operands, with gradients.
u, v = [2, -1.5, 0.5, 3, -2.25, 1, 1, -1], [0.75, 2, -0.25, -1.25, -3, 0.5, 2, 2]
write("u", u)
write("v", v)
for name, f in {
    "atan2": torch.atan2, "hypot": torch.hypot, "logaddexp": torch.logaddexp, "floor_mod": torch.remainder,
    "fmod": torch.fmod, "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "clamp2": lambda x, y: torch.clamp(x, y, y + 1),
}.items():
    case("of." + name, f, u, v)
pathlib.Path(__file__).with_name("elementwise_functions_values.txt").write_text("\n".join(lines) + "\n")
