# SPDX-License-Identifier: BSL-1.0
"""Writes index_values_tensorflow.txt or index_values_pytorch.txt, beside this file: results of operations by index.

usage: PYTHON make_index_values.py        with a PYTHON that has TensorFlow or PyTorch

A line is a name and numbers: of each case the operands, the value, and the gradients d_* of sum(value * weight), where the
weight is weight_of of test/oracle/compare.hpp. Numbers are fractions of 64.
"""
import pathlib

import numpy

try:
    import tensorflow as tf
    torch = None
    library, version = "tensorflow", tf.__version__
except ImportError:
    import torch
    library, version = "pytorch", torch.__version__.split("+")[0]

lines = [f"# Made by make_index_values.py with {library} {version}."]
random = numpy.random.default_rng(17)


def emit(name, values):
    lines.append(" ".join([name, *[format(float(v), ".17g") for v in numpy.asarray(values, numpy.float64).ravel()]]))


def fractions(*extents):
    return random.integers(-128, 129, extents) / 64


def weights(n):
    return (((numpy.arange(n) * 7919 + 124) % 257) - 128) / 64


def case(name, f, **operands):
    """f of float operands, whose gradients are written too."""
    for k, v in operands.items():
        emit(f"{name}_{k}", v)
    if torch:
        given = {k: torch.tensor(v, requires_grad=True) for k, v in operands.items()}
        y = f(**given)
        (y.reshape(-1) * torch.tensor(weights(y.numel()))).sum().backward()
        emit(f"{name}_value", y.detach().numpy())
        for k in operands:
            emit(f"{name}_d_{k}", given[k].grad)
    else:
        given = {k: tf.constant(v) for k, v in operands.items()}
        with tf.GradientTape() as tape:
            tape.watch(list(given.values()))
            y = f(**given)
            loss = tf.reduce_sum(tf.reshape(y, [-1]) * weights(tf.size(y).numpy()))
        emit(f"{name}_value", y)
        for k, d in tape.gradient(loss, given).items():
            emit(f"{name}_d_{k}", tf.convert_to_tensor(d))


def of_tensorflow():
    data = fractions(6, 3)
    data[3, 0] = data[2, 0] = data[4, 0]  # equal extrema
    data[1, 1] = 0
    ids, mixed = [0, 0, 2, 2, 2, 4], [3, -1, 0, 3, 3, 0]
    for how in ["sum", "mean", "max", "min"]:
        case(f"segment_{how}", lambda x, how=how: getattr(tf.math, f"segment_{how}")(x, ids), x=data)
    for how in ["sum", "mean", "prod", "max", "min"]:
        case(f"unsorted_{how}", lambda x, how=how: getattr(tf.math, f"unsorted_segment_{how}")(x, mixed, 5), x=data)
    case("matrix_of_ids", lambda x: tf.math.unsorted_segment_sum(x, [[1, 0], [1, 1], [-1, 0]], 3), x=fractions(3, 2, 2))
    ragged = lambda x: tf.RaggedTensor.from_row_splits(x, [0, 2, 2, 5, 6])
    case("ragged_sum", lambda x: tf.reduce_sum(ragged(x), 1), x=fractions(6, 2))
    case("ragged_max", lambda x: tf.reduce_max(ragged(x), 1), x=fractions(6, 2))
    case("ragged_softmax", lambda x: tf.concat([tf.nn.softmax(x[a:b], 0) for a, b in [(0, 2), (2, 5), (5, 6)]], 0),
         x=fractions(6, 2))
    vectors = [[2, 3], [0, 0], [2, 3], [1, 2]]
    case("gather_nd", lambda x: tf.gather_nd(x, vectors), x=fractions(3, 4, 2))
    case("gather_nd_batch", lambda x: tf.gather_nd(x, [[[2], [0]], [[1], [1]]], batch_dims=1), x=fractions(2, 3, 2))
    case("scatter_nd", lambda rows: tf.scatter_nd(vectors, rows, [3, 4, 2]), rows=fractions(4, 2))
    x, rows = fractions(3, 4, 2), fractions(4, 2)
    rows[0, 0] = rows[2, 0] = x[2, 3, 0]
    for how in ["add", "max", "min"]:
        case(f"nd_{how}", lambda x, rows, how=how: getattr(tf, f"tensor_scatter_nd_{how}")(x, vectors, rows), x=x, rows=rows)
    case("nd_update", lambda x, rows: tf.tensor_scatter_nd_update(x, vectors[1:], rows), x=x, rows=rows[1:])
    ordered = numpy.sort(fractions(2, 5), 1)
    values = numpy.concatenate([ordered[:, 1:4], fractions(2, 2) * 2], 1)
    emit("sorted", ordered)
    emit("values", values)
    for side in ["left", "right"]:
        emit(f"places_{side}", tf.searchsorted(ordered, values, side=side))
    emit("points", values)
    emit("histogram", tf.histogram_fixed_width(values.ravel(), [-1.0, 1.5], 4))
    emit("one_hot", tf.one_hot([1, 5, 0], 3, on_value=2.0, off_value=-1.0, axis=0))
    emit("where", tf.where(numpy.arange(12).reshape(2, 3, 2) % 5 < 2))
    emit("bincount", tf.math.bincount([1, 4, 1, 9, 0, 3, 4, 4], minlength=5, maxlength=5))
    emit("weighted", tf.math.bincount([1, 4, 1, 9, 0, 3, 4, 4], weights=numpy.arange(8.0) / 2, minlength=5, maxlength=5))


def of_pytorch():
    at = torch.tensor([[1, 0, 3], [1, 2, 0]])
    x, values = fractions(4, 3), fractions(2, 3)
    values[0, 0] = x[1, 0]
    x[3, 2] = 0
    for how in ["sum", "prod", "amax", "amin"]:
        case(f"reduce_{how}", lambda x, values, how=how: x.scatter_reduce(0, at, values, how), x=x, values=values)
    case("scatter", lambda x, values: x.scatter(1, at[:, :2], values), x=fractions(2, 4), values=fractions(2, 2))
    index = torch.tensor([2, 0, 2])
    case("index_add", lambda x, rows: x.index_add(1, index, rows), x=fractions(2, 4, 2), rows=fractions(2, 3, 2))
    case("index_copy", lambda x, rows: x.index_copy(0, index[:2], rows), x=fractions(3, 2), rows=fractions(2, 2))
    case("index_fill", lambda x: x.index_fill(0, index, 0.5), x=fractions(3, 2))
    case("repeat_counts", lambda x: x.repeat_interleave(torch.tensor([2, 0, 3, 1]), 0), x=fractions(4, 2))
    points = numpy.concatenate([fractions(6) * 1.5, [-1.0, 1.5, 0.25]])
    emit("points", points)
    emit("histc", torch.histc(torch.tensor(points), 4, -1.0, 1.5))
    for right in [False, True]:
        emit(f"buckets_{right}", torch.bucketize(torch.tensor(points), torch.tensor([-1.0, 0.25, 1.5]), right=right))


of_pytorch() if torch else of_tensorflow()
pathlib.Path(__file__).with_name(f"index_values_{library}.txt").write_text("\n".join(lines) + "\n")
