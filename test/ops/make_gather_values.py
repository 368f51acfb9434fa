# SPDX-License-Identifier: BSL-1.0
"""Writes gather_values.txt, beside this file: what NumPy takes along axes, and PyTorch's gradients of it.

usage: PYTHON make_gather_values.py        with a PYTHON that has numpy and torch

A line is a name and numbers. Of each case: x, the indices, the value, and the gradient of sum(value * weight) with respect
to x; the weight is weight_of of test/oracle/compare.hpp. tf.gather defines batch_dims as the loop of `batch_gather` here.
Numbers are fractions of 64: floats hold them and their sums.
"""
import pathlib

import numpy
import torch

lines = [f"# Made by make_gather_values.py with NumPy {numpy.__version__} and PyTorch {torch.__version__.split('+')[0]}."]
random = numpy.random.default_rng(11)


def emit(name, values):
    lines.append(" ".join([name, *[format(float(v), ".17g") for v in numpy.asarray(values).ravel()]]))


def case(name, extents, index_extents, axis, of_numpy, of_torch):
    x = random.integers(-128, 129, extents) / 64
    indices = random.integers(0, extents[axis], index_extents)
    indices.ravel()[-1] = indices.ravel()[0]  # one is taken twice
    value = of_numpy(x, indices)
    at = torch.tensor(x, requires_grad=True)
    same = of_torch(at, torch.tensor(indices))
    assert (same.detach().numpy() == value).all(), name
    i = numpy.arange(value.size)
    weight = (((i * 7919 + 124) % 257) - 128) / 64
    (same.reshape(-1) * torch.tensor(weight)).sum().backward()
    for part, numbers in [("x", x), ("indices", indices), ("value", value), ("d_x", at.grad)]:
        emit(f"{name}_{part}", numbers)


def batch_gather(x, indices, batch_dims, axis, take, stack):
    if batch_dims == 0:
        return take(x, indices, axis)
    return stack([batch_gather(a, i, batch_dims - 1, axis - 1, take, stack) for a, i in zip(x, indices)])


def batch(name, extents, index_extents, batch_dims, axis):
    def torch_take(x, indices, axis):
        return x.index_select(axis, indices.reshape(-1)).reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])

    case(name, extents, index_extents, axis, lambda x, i: batch_gather(x, i, batch_dims, axis, numpy.take, numpy.stack),
         lambda x, i: batch_gather(x, i, batch_dims, axis, torch_take, torch.stack))


def along(name, extents, index_extents, axis):
    def of_torch(x, indices):
        extents = [max(a, b) for a, b in zip(x.shape, indices.shape)]
        of_x, of_indices = list(extents), list(extents)
        of_x[axis], of_indices[axis] = x.shape[axis], indices.shape[axis]
        return torch.gather(x.expand(of_x), axis, indices.expand(of_indices))

    case(name, extents, index_extents, axis, lambda x, i: numpy.take_along_axis(x, i, axis), of_torch)


batch("batch_elements", (4, 5), (4,), 1, 1)
batch("batch_rows", (3, 4, 2), (3, 3), 1, 1)
batch("batch_of_lists", (2, 4), (2, 3, 2), 1, 1)
batch("batch_axis", (2, 3, 4, 2), (2, 3), 1, 2)
batch("batch_2", (2, 3, 5), (2, 3), 2, 2)
along("along_0", (4, 3), (2, 3), 0)
along("along_1", (2, 4, 3), (2, 5, 3), 1)
along("along_last", (3, 5), (3, 2), 1)
along("along_broadcast_indices", (4, 3), (2, 1), 0)
along("along_broadcast_x", (1, 4), (3, 2), 1)
pathlib.Path(__file__).with_name("gather_values.txt").write_text("\n".join(lines) + "\n")
