# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of volumes: volume_values.txt, beside this file; see make_sampling_values.py."""
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(7)
lines = [f"# Made by make_volume_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def write(name, values):
    lines.append(" ".join([name, *(f"{float(v):.11g}" for v in values.detach().reshape(-1))]))


def operand(name, *extents):
    values = (torch.randn(extents, generator=generator) * 16).round() / 8
    write(name, values)
    return values


def case(name, f, *operands):
    at = [t.clone().requires_grad_() for t in operands]
    y = f(*at)
    write(name, y)
    for which, gradient in zip("xw", torch.autograd.grad(((y + 1) ** 2).sum(), at)):
        write(f"{name}.{which}", gradient)


def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


volumes = operand("volumes", 2, 4, 2, 3, 2)
filters = operand("filters", 3, 2, 2, 2, 2)  # depth, height, width, in, out
flat = operand("flat", 1, 2, 2, 2, 3)
transposed = operand("transposed", 3, 2, 2, 2, 2)  # depth, height, width, out, in


def convolve(x, w, **options):
    return last(F.conv3d(first(x), w.permute(4, 3, 0, 1, 2), **options))


def transpose(x, w, **options):
    return last(F.conv_transpose3d(first(x), w.permute(4, 3, 0, 1, 2), **options))


case("conv_valid", convolve, volumes, filters)
case("conv_same", lambda x, w: convolve(x, w, padding="same"), volumes, filters)
case("conv_212", lambda x, w: convolve(x, w, stride=(2, 1, 2), padding=(1, 0, 1)), volumes, filters)
case("conv_dilated", lambda x, w: convolve(x, w, padding=(3, 0, 2), stride=(3, 2, 1), dilation=(2, 1, 2)), volumes,
     filters)
case("conv_flat", convolve, volumes, flat)
case("transpose_valid", transpose, volumes, transposed)
case("transpose_2", lambda x, w: transpose(x, w, stride=2, padding=1, output_padding=1), volumes, transposed)
case("transpose_dilated", lambda x, w: transpose(x, w, stride=(1, 2, 2), dilation=(2, 1, 1)), volumes, transposed)
case("max_2", lambda x: last(F.max_pool3d(first(x), 2)), volumes)
case("max_3", lambda x: last(F.max_pool3d(first(x), (2, 3, 3), (1, 2, 2), (1, 1, 1))), volumes)
case("avg_2", lambda x: last(F.avg_pool3d(first(x), 2)), volumes)
case("avg_3", lambda x: last(F.avg_pool3d(first(x), (3, 2, 3), (1, 1, 2), 1, count_include_pad=True)), volumes)
case("avg_3_inside", lambda x: last(F.avg_pool3d(first(x), (3, 2, 3), (1, 1, 2), 1, count_include_pad=False)), volumes)
case("adaptive_avg", lambda x: last(F.adaptive_avg_pool3d(first(x), (3, 2, 2))), volumes)
case("adaptive_max", lambda x: last(F.adaptive_max_pool3d(first(x), (3, 2, 2))), volumes)

pathlib.Path(__file__).with_name("volume_values.txt").write_text("\n".join(lines) + "\n")
