# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of normalizations at random: normalization_values.txt, beside this file.

Of each case: its name and its extents, then values, a line each, as exact numbers. Extents end with those of a
parameter, for groups with their number. Operands: x, the scale, the offset unless of rms, the residual if there is one,
and the gradient that arrives at the result. Results: the result, of batches the mean, the biased variance and the result
with other moments (the mean + 1/4 and twice the variance), and the gradients of the operands in their order. epsilon is
2^-7.
"""
import pathlib

import numpy
import torch
import torch.nn.functional as F

random = numpy.random.default_rng(11)
EPSILON = 2.0 ** -7
lines = [f"# Made by make_normalization_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def numbers(*extents):
    """Whole numbers over 8, which float has too."""
    return torch.tensor(random.integers(-16, 17, extents) / 8, requires_grad=True)


def case(name, extents, operands, function, more=lambda result: []):
    up = numbers(*operands[0].shape).detach()
    result = function(*operands)
    gradients = torch.autograd.grad((result * up).sum(), operands)
    lines.append(" ".join([name, *map(str, extents)]))
    for values in [*operands, up, result, *more(result), *gradients]:
        lines.append(" ".join(float(x).hex() for x in values.detach().double().ravel()))


def batches(rows, channels, relu, residual):
    def apply(x, scale, offset, *rest):
        y = F.batch_norm(x, None, None, scale, offset, training=True, eps=EPSILON)
        if rest:
            y = y + rest[0]
        return F.relu(y) if relu else y

    while True:
        operands = [numbers(rows, channels), numbers(channels), numbers(channels)]
        if residual:
            operands.append(numbers(rows, channels))
        x, scale, offset = operands[:3]
        # Away from the ReLU's kink, for float.
        before = F.batch_norm(x, None, None, scale, offset, training=True, eps=EPSILON) + (operands[3] if residual else 0)
        if not relu or before.abs().min() > 1e-4:
            break
    mean, variance = x.mean(0), x.var(0, unbiased=False)
    inferred = F.batch_norm(x, (mean + 0.25).detach(), 2 * variance.detach(), scale, offset, training=False, eps=EPSILON)
    name = "batch" + ("_residual" if residual else "") + ("_relu" if relu else "")
    case(name, [rows, channels], operands, apply, lambda _: [mean, variance, inferred])


for rows, channels in [(2, 1), (5, 3), (37, 2)]:
    for relu, residual in [(False, False), (True, False), (False, True), (True, True)]:
        batches(rows, channels, relu, residual)
batches(3, 66, True, True)
for rows, width in [(3, 1), (2, 5), (4, 40)]:
    case("layer", [rows, width], [numbers(rows, width), numbers(width), numbers(width)],
         lambda x, scale, offset: F.layer_norm(x, [width], scale, offset, EPSILON))
    case("rms", [rows, width], [numbers(rows, width), numbers(width)],
         lambda x, scale: F.rms_norm(x, [width], scale, EPSILON))
for groups in [1, 2, 6]:
    case("group", [2, 4, 6, groups], [numbers(2, 4, 6), numbers(6), numbers(6)],
         lambda x, scale, offset: F.group_norm(x.transpose(1, 2), groups, scale, offset, EPSILON).transpose(1, 2))
pathlib.Path(__file__).with_name("normalization_values.txt").write_text("\n".join(lines) + "\n")
