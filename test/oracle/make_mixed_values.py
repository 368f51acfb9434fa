# SPDX-License-Identifier: BSL-1.0
"""Writes mixed_values.txt: what PyTorch computes in half and bfloat16, for test/oracle/mixed_precision.cpp to compare Weft
with.

usage: PYTHON make_mixed_values.py > mixed_values.txt        with a PYTHON that has torch

The inputs are fractions of 64, which both types hold exactly. Sums of their products are exact in float in any order, so
that products and convolutions are compared bit by bit; the numbers of a network's gradients are not exact.
"""
import math
import sys

import torch
import torch.nn.functional as F

out = []


def numbers(rows, columns, which, scale=64.0):
    i = torch.arange(rows * columns)
    return ((((i * 7919 + 31 * which) % 257) - 128) / scale).reshape(rows, columns).float()


def emit(name, t):
    out.append(" ".join([name, *map(repr, t.detach().flatten().tolist())]))


for name, dtype in {"half": torch.float16, "bfloat16": torch.bfloat16}.items():
    m, k, n = 19, 37, 21
    a, b = numbers(m, k, 1).to(dtype), numbers(k, n, 2).to(dtype)
    # The same numbers under the transposed extents.
    at, bt = numbers(k, m, 1).to(dtype), numbers(n, k, 2).to(dtype)
    for form, product in {"": a @ b, "_a": at.t() @ b, "_b": a @ bt.t(), "_both": at.t() @ bt.t()}.items():
        emit(f"{name}_product{form}", product.view(torch.int16).int() & 0xffff)

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

# Images [batch, height, width, channels] and filters [height, width, channels, filters], and what PyTorch's convolution
# takes. Their sums are exact too; the gradients are those of sum(value * weight).
convolutions = {
    "same": ((2, 6, 5, 3), (3, 3, 3, 4), dict(padding="same")),
    "strided": ((5, 5, 4, 5), (3, 2, 5, 7), dict(stride=2)),
    "padded": ((4, 5, 3, 20), (3, 3, 20, 3), dict(stride=(2, 1), padding=1)),
    "dilated": ((2, 5, 4, 3), (3, 3, 3, 18), dict(padding=2, dilation=2)),
    "pointwise": ((4, 2, 2, 33), (1, 1, 33, 17), dict()),
}
pools = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "average": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
}


def shaped(extents, which):
    return numbers(1, math.prod(extents), which).reshape(extents)


def bits(t):
    return t.contiguous().view(torch.int16).int() & 0xffff


def value_and_gradients(f, args):
    args = [t.double().requires_grad_() for t in args]
    nchw = [args[0].permute(0, 3, 1, 2), *(t.permute(3, 2, 0, 1) for t in args[1:])]
    y = f(*nchw).permute(0, 2, 3, 1)
    return [y.detach(), *torch.autograd.grad(y, args, shaped(tuple(y.shape), 4).double())]


# On some processors PyTorch rounds on the way: all is computed in double, and rounded here.
for name, dtype in {"half": torch.float16, "bfloat16": torch.bfloat16}.items():
    for case, (images, filters, options) in convolutions.items():
        args = [shaped(images, 1), shaped(filters, 2)]
        for part, t in zip(["", "_d_x", "_d_w"], value_and_gradients(lambda x, w: F.conv2d(x, w, **options), args)):
            emit(f"{name}_{case}{part}", bits(t.to(dtype)))
    for case, f in pools.items():
        for part, t in zip(["", "_d_x"], value_and_gradients(f, [shaped((2, 6, 5, 3), 1)])):
            emit(f"{name}_{case}{part}", bits(t.to(dtype)))

sys.stdout.write("Made by make_mixed_values.py with PyTorch " + torch.__version__.split("+")[0] + "\n" + "\n".join(out) + "\n")
