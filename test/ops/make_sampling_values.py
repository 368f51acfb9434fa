# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of pools, grids and new sizes: sampling_values.txt, beside this file.

Each line is a name and numbers: first the operands, channels last, then for each case the values y, "NAME", and the
gradients of sum((y + 1)^2), "NAME.x" and, where it has a second operand, "NAME.w".
"""
import pathlib

import torch
import torch.nn.functional as F
import torchvision.ops

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(5)
lines = [f"# Made by make_sampling_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def write(name, values):
    lines.append(" ".join([name, *(f"{float(v):.11g}" for v in values.detach().reshape(-1))]))


def operand(name, *extents, scale=1.0):
    values = (torch.randn(extents, generator=generator) * 16 * scale).round() / 8
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


images = operand("images", 2, 5, 3, 2)
sequences = operand("sequences", 2, 7, 2)
for name, f in [("avg", F.adaptive_avg_pool2d), ("max", F.adaptive_max_pool2d)]:
    case(f"adaptive_{name}_2", lambda x: last(f(first(x), 2)), images)
    case(f"adaptive_{name}_34", lambda x: last(f(first(x), (3, 4))), images)
case("adaptive_avg_1d", lambda x: last(F.adaptive_avg_pool1d(first(x), 3)), sequences)
case("adaptive_max_1d", lambda x: last(F.adaptive_max_pool1d(first(x), 3)), sequences)
case("max_1d", lambda x: last(F.max_pool1d(first(x), 3, 2, 1)), sequences)
case("avg_1d", lambda x: last(F.avg_pool1d(first(x), 3, 2, 1)), sequences)
case("lp_2d", lambda x: last(F.lp_pool2d(first(x.abs() + 0.125), 3.0, 2, 1)), images)
case("lp_1d", lambda x: last(F.lp_pool1d(first(x), 2.0, 3, 2)), sequences)
values, indices = F.max_pool2d(first(images), 2, return_indices=True)
write("indices", last(indices))
case("unpool", lambda x: last(F.max_unpool2d(first(x), indices, 2, output_size=(5, 3))), last(values))

grid = operand("grid", 2, 2, 3, 2, scale=0.45)
for mode in ["nearest", "bilinear", "bicubic"]:
    for border in ["zeros", "border", "reflection"]:
        for corners in [False, True]:
            case(f"grid_{mode}_{border}_{int(corners)}", lambda x, g: last(F.grid_sample(
                first(x), g, mode=mode, padding_mode=border, align_corners=corners)), images, grid)
volumes = operand("volumes", 1, 3, 2, 3, 2)
grid3 = operand("grid3", 1, 1, 2, 2, 3, scale=0.45)
case("grid3_bilinear", lambda x, g: last(F.grid_sample(first(x), g, align_corners=False)), volumes, grid3)
case("grid3_nearest", lambda x, g: last(F.grid_sample(first(x), g, "nearest", "border", False)), volumes, grid3)
theta = operand("theta", 2, 2, 3, scale=0.5)
case("affine", lambda t: F.affine_grid(t, (2, 1, 3, 2), align_corners=False), theta)
case("affine_corners", lambda t: F.affine_grid(t, (2, 1, 3, 1), align_corners=True), theta)

for size in [(3, 7), (2, 1), (8, 2)]:
    for mode in ["bilinear", "bicubic"]:
        label = f"{mode}_{size[0]}{size[1]}"
        case(label, lambda x: last(F.interpolate(first(x), size, mode=mode, align_corners=False)), images)
        case(f"{label}_aa", lambda x: last(F.interpolate(first(x), size, mode=mode, align_corners=False,
                                                         antialias=True)), images)
case("bicubic_corners", lambda x: last(F.interpolate(first(x), (3, 7), mode="bicubic", align_corners=True)), images)
write("nearest_84", last(F.interpolate(first(images), (8, 4), mode="nearest-exact")))

boxes = (torch.randn(3, 4, generator=generator) * 16).round() / 8
boxes[:, 2:] = boxes[:, :2] + 4 * boxes[:, 2:].abs()
write("boxes", boxes)
numbers = torch.tensor([[1.0], [0], [1]])
for aligned in [False, True]:
    write(f"roi_align_{int(aligned)}", torchvision.ops.roi_align(
        first(images), torch.cat([numbers, boxes], 1), (2, 3), 0.5, 2, aligned).movedim(1, -1))
corners = (torch.randn(8, 4, generator=generator) * 8).round() / 8
corners[:, 2:] = corners[:, :2] + 1 + corners[:, 2:].abs()
write("corners", corners)
scores = operand("scores", 8)
write("iou", torchvision.ops.box_iou(corners, boxes))
for threshold in [0.1, 0.3]:
    write(f"nms_{threshold}", torchvision.ops.nms(corners, scores, threshold))

pathlib.Path(__file__).with_name("sampling_values.txt").write_text("\n".join(lines) + "\n")
