# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of images and sequences: image_operation_values.txt, beside this file.

Each line is a name and numbers: first the operands, channels last, then for each case the values y, "NAME", and the
gradients of sum((y + 1)^2), "NAME.x" and, where it has filters, "NAME.w".
"""
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(11)
lines = [f"# Made by make_image_operation_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def write(name, values):
    lines.append(" ".join([name, *(repr(float(v)) for v in values.detach().reshape(-1))]))


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
    """Channels first."""
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


images = operand("images", 2, 4, 3, 2)
transposed = operand("transposed", 3, 2, 3, 2)  # height, width, out, in


def transpose(x, w, **options):
    return last(F.conv_transpose2d(first(x), w.permute(3, 2, 0, 1), **options))


def same(x, w, stride):
    """Crops the result without padding: the larger half of what the window exceeds the stride is below and right."""
    y = transpose(x, w, stride=stride)
    before = [max(n - stride, 0) // 2 for n in w.shape[:2]]
    if any(n < stride for n in w.shape[:2]):
        y = F.pad(y, (0, 0, 0, stride, 0, stride))
    rows, columns = (n * stride for n in x.shape[1:3])
    return y[:, before[0]:before[0] + rows, before[1]:before[1] + columns]


case("transpose_same_1", lambda x, w: same(x, w, 1), images, transposed)
case("transpose_same_2", lambda x, w: same(x, w, 2), images, transposed)
case("transpose_same_4", lambda x, w: same(x, w, 4), images, transposed)
case("transpose_valid_21", lambda x, w: transpose(x, w, stride=(2, 1)), images, transposed)
case("transpose_of_1_more", lambda x, w: transpose(x, w, stride=(3, 2), padding=(1, 1), output_padding=(2, 1)), images,
     transposed)
case("transpose_dilated", lambda x, w: transpose(x, w, stride=2, padding=1, dilation=(2, 3)), images, transposed)

sequences = operand("sequences", 2, 7, 3)
taps = operand("taps", 3, 3, 2)  # length, in, out


def conv1d(x, w, **options):
    return last(F.conv1d(first(x), w.permute(2, 1, 0), **options))


case("conv1d_same", lambda x, w: conv1d(x, w, padding="same"), sequences, taps)
case("conv1d_valid_2", lambda x, w: conv1d(x, w, stride=2), sequences, taps)
case("conv1d_of_2_dilated", lambda x, w: conv1d(x, w, padding=2, dilation=2), sequences, taps)
case("conv1d_causal", lambda x, w: conv1d(F.pad(x, (0, 0, 4, 0)), w, dilation=2), sequences, taps)

wide = operand("wide", 2, 4, 5, 6)
grouped = operand("grouped", 3, 2, 2, 9)  # height, width, in / 3, out
for name, options in [("of_1", dict(padding=1)), ("valid_2", dict(stride=2)), ("dilated", dict(padding=2, dilation=2))]:
    case("grouped_" + name, lambda x, w: last(F.conv2d(first(x), w.permute(3, 2, 0, 1), groups=3, **options)), wide,
         grouped)

for height, width in [(8, 10), (3, 7), (1, 1), (9, 2), (4, 6)]:
    for name, options in [("half", dict(mode="bilinear", align_corners=False)),
                          ("corners", dict(mode="bilinear", align_corners=True)),
                          ("nearest", dict(mode="nearest-exact")), ("asymmetric", dict(mode="nearest"))]:
        case(f"resize_{name}_{height}_{width}", lambda x: last(F.interpolate(first(x), (height, width), **options)), wide)

case("local_2", lambda x: last(F.local_response_norm(first(x), 5, 0.3 * 5, 0.75, 2.0)), wide)
case("local_0", lambda x: last(F.local_response_norm(first(x), 1, 0.5, 0.5, 1.0)), wide)
case("local_default", lambda x: last(F.local_response_norm(first(x), 11, 11.0, 0.5, 1.0)), wide)
for multiplier in [1, 3]:
    operand_name = f"depthwise_{multiplier}"
    depthwise = operand(operand_name, 3, 2, 6, multiplier)  # height, width, channels, multiplier
    for name, options in [("of_1", dict(padding=1)), ("valid_21", dict(stride=(2, 1))),
                          ("dilated", dict(padding=2, dilation=2, stride=2))]:
        case(f"{operand_name}_{name}",
             lambda x, w: last(F.conv2d(first(x), w.permute(2, 3, 0, 1).reshape(-1, 1, 3, 2), groups=6, **options)), wide,
             depthwise)
pathlib.Path(__file__).with_name("image_operation_values.txt").write_text("\n".join(lines) + "\n")
