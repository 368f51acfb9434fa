"""Writes mixed_values.hpp: what PyTorch computes in half and bfloat16, for test/oracle/mixed_precision.cpp to compare Weft
with.

usage: PYTHON make_mixed_values.py > mixed_values.hpp        with a PYTHON that has torch

The inputs are fractions of 64, which both types hold exactly. Sums of their products are exact in float in any order, so
that products are compared bit by bit; the numbers of a network's gradients are not exact.
"""
import sys

import torch
import torch.nn.functional as F

out = []


def numbers(rows, columns, which, scale=64.0):
    i = torch.arange(rows * columns)
    return ((((i * 7919 + 31 * which) % 257) - 128) / scale).reshape(rows, columns).float()


def emit(name, t, kind="float"):
    values = ", ".join(repr(v) for v in t.detach().flatten().tolist())
    out.append(f"inline const std::vector<{kind}> {name}{{{values}}};")


for name, dtype in {"half": torch.float16, "bfloat16": torch.bfloat16}.items():
    m, k, n = 19, 37, 21
    a, b = numbers(m, k, 1).to(dtype), numbers(k, n, 2).to(dtype)
    # The same numbers under the transposed extents.
    at, bt = numbers(k, m, 1).to(dtype), numbers(n, k, 2).to(dtype)
    for form, product in {"": a @ b, "_a": at.t() @ b, "_b": a @ bt.t(), "_both": at.t() @ bt.t()}.items():
        emit(f"{name}_product{form}", product.view(torch.int16).int() & 0xffff, "unsigned short")

    # Two layers: variables in float, products in the other type, all else in float.
    x = numbers(6, 12, 3)
    w1, b1 = numbers(12, 9, 4, 300.0).requires_grad_(), numbers(1, 9, 5, 300.0)[0].requires_grad_()
    w2, b2 = numbers(9, 4, 6, 300.0).requires_grad_(), numbers(1, 4, 7, 300.0)[0].requires_grad_()
    labels = torch.tensor([3, 0, 2, 1, 1, 0])
    hidden = torch.relu((x.to(dtype) @ w1.to(dtype)).float() + b1)
    logits = (hidden.to(dtype) @ w2.to(dtype)).float() + b2
    loss = F.cross_entropy(logits, labels)
    emit(f"{name}_logits", logits)
    emit(f"{name}_loss", loss.reshape(1))
    for which, g in zip(["w1", "b1", "w2", "b2"], torch.autograd.grad(loss, [w1, b1, w2, b2])):
        emit(f"{name}_d_{which}", g)

sys.stdout.write("#pragma once\n\n// Made by make_mixed_values.py with PyTorch " + torch.__version__.split("+")[0] +
                 ".\n\n#include <vector>\n\nnamespace oracle {\n\n" + "\n".join(out) + "\n\n}  // namespace oracle\n")
