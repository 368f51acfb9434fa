# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch's layers do in three steps of training: layer_values.txt, beside this file.

A line each, as exact numbers: images [4, 3, 3, 2] with channels last, a residual of the same extents, and what the sum of
squares of relu(batch_norm(images) + residual) less 1 makes of scale, offset, moving mean and moving variance after three
steps of gradient descent at rate 2^-6; then the layer's result for inference. momentum 0.9, epsilon 1e-5.
"""
import pathlib

import numpy
import torch

random = numpy.random.default_rng(5)
images, residual = (torch.tensor(random.integers(-16, 17, (4, 3, 3, 2)) / 8) for _ in range(2))
layer = torch.nn.BatchNorm2d(2, eps=1e-5, momentum=0.1).double()
optimizer = torch.optim.SGD(layer.parameters(), lr=2.0 ** -6)


def call():
    return torch.relu(layer(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) + residual)


for _ in range(3):
    optimizer.zero_grad()
    ((call() - 1) ** 2).sum().backward()
    optimizer.step()
layer.eval()
lines = [f"# Made by make_layer_values.py with PyTorch {torch.__version__.split('+')[0]}."]
for values in [images, residual, layer.weight, layer.bias, layer.running_mean, layer.running_var, call()]:
    lines.append(" ".join(float(v).hex() for v in values.detach().reshape(-1)))
pathlib.Path(__file__).with_name("layer_values.txt").write_text("\n".join(lines) + "\n")
