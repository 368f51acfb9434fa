# SPDX-License-Identifier: BSL-1.0
"""Writes values.hpp: what PyTorch computes, for test/oracle/oracle.cpp to compare Weft with.

usage: PYTHON make_values.py > values.hpp        with a PYTHON that has torch

All is computed in double, from inputs that floats hold exactly; what is left of a difference is Weft's rounding.
"""
import sys

import torch
import torch.nn.functional as F

torch.manual_seed(20240229)
torch.set_default_dtype(torch.float64)
out = []


def emit(name, t):
    values = ", ".join(repr(v) for v in t.detach().double().flatten().tolist())
    out.append(f"inline const std::vector<double> {name}{{{values}}};")


def draw(*shape, low=-2.0, high=2.0):
    return (torch.rand(*shape) * (high - low) + low).float().double().requires_grad_()


# The inputs, by the names that the test uses.
inputs = {
    "x": draw(3, 4), "y": draw(3, 4), "p": draw(3, 4, low=0.25, high=3), "q": draw(3, 4, low=0.25, high=3),
    "row": draw(4), "column": draw(3, 1), "scalar": draw(1).detach().reshape(()).requires_grad_(),
    "a": draw(3, 5), "b": draw(5, 4), "deep": draw(2, 3, 4, low=0.5, high=1.5),
    "weight": draw(3, 4),  # arrives as the gradient of every result, as far as it has elements
}
labels = torch.tensor([3, 0, 2])
for name, t in inputs.items():
    emit(f"in_{name}", t)
flat = inputs["weight"].detach().flatten()


def case(name, f, *names):
    """f's value, and the gradients with respect to its inputs of sum(f * weight)."""
    args = [inputs[n] for n in names]
    y = f(*args)
    w = flat.repeat(3)[:y.numel()].reshape(y.shape)
    emit(f"{name}_value", y)
    for n, g in zip(names, torch.autograd.grad((y * w).sum(), args)):
        emit(f"{name}_d_{n}", g)


for name, f in {
    "negate": lambda v: -v, "abs": torch.abs, "square": torch.square, "exp": torch.exp, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": torch.relu, "softmax": lambda v: F.softmax(v, -1),
    "log_softmax": lambda v: F.log_softmax(v, -1), "transpose": lambda v: v.t(), "reshape": lambda v: v.reshape(2, 6),
}.items():
    case(name, f, "x")
case("sqrt", torch.sqrt, "p")
case("log", torch.log, "p")
for name, f in {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "maximum": torch.maximum,
                "minimum": torch.minimum, "select": lambda v, w: torch.where(v < w, v * v, w)}.items():
    case(name, f, "x", "y")
case("divide", torch.div, "x", "p")
case("pow", torch.pow, "p", "y")
case("with_row", lambda v, r: v * r + r, "x", "row")
case("with_column", lambda v, c: v * c - c, "x", "column")
case("with_scalar", lambda v, s: v * s + s, "x", "scalar")
case("column_row", lambda c, r: torch.exp(c) * r, "column", "row")
for name, f in {"sum": torch.sum, "mean": torch.mean}.items():
    case(f"{name}_all", f, "deep")
    case(f"{name}_0", lambda v, f=f: f(v, 0), "deep")
    case(f"{name}_12", lambda v, f=f: f(v, (1, 2)), "deep")
case("max_1", lambda v: torch.amax(v, 1), "deep")
case("min_02", lambda v: torch.amin(v, (0, 2)), "deep")
case("product_2", lambda v: torch.prod(v, 2), "deep")
case("matmul", lambda a, b: a @ b, "a", "b")
case("matmul_ta", lambda a, b: a.t() @ b, "x", "y")
case("matmul_tb", lambda a, b: a @ b.t(), "x", "y")
case("matmul_both", lambda b, a: b.t() @ a.t(), "b", "a")
case("sparse_cross_entropy", lambda v: F.cross_entropy(v, labels, reduction="none"), "x")
targets = torch.softmax(inputs["y"].detach(), -1)
case("dense_cross_entropy", lambda v: -(targets * F.log_softmax(v, -1)).sum(-1), "x")
case("layer_norm", lambda v, r: F.layer_norm(v, (4,), eps=1e-3) * r, "x", "row")

# Second order: the gradient of the sum of squares of the gradient.
for name, f, n in [("exp_tanh", lambda v: torch.exp(torch.tanh(v)), "x"), ("log_sum", lambda v: torch.log(v.sum(1)), "p"),
                   ("softmax_twice", lambda v: torch.softmax(v, -1) ** 2, "y")]:
    g, = torch.autograd.grad(f(inputs[n]).sum(), inputs[n], create_graph=True)
    emit(f"second_{name}", torch.autograd.grad((g * g).sum(), inputs[n])[0])

# A training run: two layers, momentum, a batch per step.
images, classes = draw(5, 6, 8).detach(), torch.randint(0, 4, (5, 6))
parameters = [draw(8, 7, low=-0.5, high=0.5), draw(7, low=-0.1, high=0.1), draw(7, 4, low=-0.5, high=0.5),
              draw(4, low=-0.1, high=0.1)]
emit("run_images", images)
emit("run_classes", classes)
for i, t in enumerate(parameters):
    emit(f"run_start_{i}", t)
optimizer = torch.optim.SGD(parameters, lr=0.2, momentum=0.9)
costs = []
for step in range(15):
    w1, b1, w2, b2 = parameters
    loss = F.cross_entropy(torch.sigmoid(images[step % 5] @ w1 + b1) @ w2 + b2, classes[step % 5])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    costs.append(loss.item())
emit("run_costs", torch.tensor(costs))
for i, t in enumerate(parameters):
    emit(f"run_end_{i}", t)

sys.stdout.write("#pragma once\n\n// Made by make_values.py with PyTorch " + torch.__version__.split("+")[0] +
                 ".\n\n#include <vector>\n\nnamespace oracle {\n\n" + "\n".join(out) + "\n\n}  // namespace oracle\n")
