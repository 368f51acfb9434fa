# SPDX-License-Identifier: BSL-1.0
"""Writes torch_decay_values.txt: two dense layers after three steps of torch.optim.AdamW with two groups of parameters, a
weight decay of 0.25 for matrices and none for biases, whose gradients are clipped to a global norm of 0.5.

usage: PYTHON make_decay_values.py        with a PYTHON that has torch
"""
import pathlib

import torch

torch.set_default_dtype(torch.float64)


def numbers(which, *extents):
    count = 1
    for extent in extents:
        count *= extent
    return ((torch.arange(count) * 7919 + 31 * which) % 257 - 128).reshape(extents) / 128


x, target = numbers(1, 4, 3), numbers(2, 4, 2)
variables = {"first/weights": numbers(3, 3, 5), "first/bias": numbers(4, 5), "second/weights": numbers(5, 5, 2),
             "second/bias": numbers(6, 2)}
for v in variables.values():
    v.requires_grad_()
a, b, c, d = variables.values()
optimizer = torch.optim.AdamW([{"params": [a, c], "weight_decay": 0.25}, {"params": [b, d], "weight_decay": 0.0}], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    ((torch.tanh(x @ a + b) @ c + d - target) ** 2).sum().backward()
    torch.nn.utils.clip_grad_norm_(variables.values(), 0.5)
    optimizer.step()
lines = [f"# Made by make_decay_values.py with PyTorch {torch.__version__.split('+')[0]}."]
for name, v in variables.items():
    lines.append(" ".join([name, *map(repr, v.detach().flatten().tolist())]))
pathlib.Path(__file__).with_name("torch_decay_values.txt").write_text("\n".join(lines) + "\n")
