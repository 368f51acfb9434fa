# SPDX-License-Identifier: BSL-1.0
"""Writes control_flow_scan_values.txt: what PyTorch's LSTM and GRU compute, and their gradients, for
test/session/control_flow_scan.cpp to compare Weft's scan with.

usage: PYTHON make_control_flow_scan_values.py > control_flow_scan_values.txt        with a PYTHON that has torch

A line `lstm T forwards` or `gru T reverse`, then as hexadecimal numbers, an array a line: x [T, 2, 3], the first states [2, 4] (of an LSTM
h and c), the weights [3, n] and [4, n] and both biases [n], of n = 16 or 12, gates in PyTorch's order; the outputs
[T, 2, 4] and last states; and the gradients of sum(outputs ** 2) + sum(last states ** 3) with respect to all of those.
"""
import torch
from torch import nn


def write(values):
    print(" ".join(float(v).hex() for v in values.detach().flatten()))


print("make_control_flow_scan_values.py with PyTorch", torch.__version__)
torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
for name, steps, reverse in [("lstm", 6, False), ("lstm", 1, False), ("lstm", 5, True), ("gru", 7, False), ("gru", 5, True)]:
    cell = (nn.LSTM if name == "lstm" else nn.GRU)(3, 4)
    with torch.no_grad():
        for p in cell.parameters():
            p.uniform_(-0.8, 0.8)
    x = torch.rand(steps, 2, 3) * 2 - 1
    states = [torch.rand(2, 4) * 2 - 1 for _ in range(2 if name == "lstm" else 1)]
    operands = [x, *states]
    for v in operands:
        v.requires_grad_()
    first = [s[None] for s in states]
    outputs, last = cell(x.flip(0) if reverse else x, tuple(first) if name == "lstm" else first[0])
    last = [s[0] for s in last] if name == "lstm" else [last[0]]
    outputs = outputs.flip(0) if reverse else outputs
    ((outputs**2).sum() + sum((s**3).sum() for s in last)).backward()
    print(name, steps, "reverse" if reverse else "forwards")
    w, u, b1, b2 = cell.parameters()
    for v in [*operands, w.T, u.T, b1, b2, outputs, *last, *[o.grad for o in operands], w.grad.T, u.grad.T, b1.grad, b2.grad]:
        write(v)
