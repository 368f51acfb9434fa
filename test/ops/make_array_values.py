# SPDX-License-Identifier: BSL-1.0
"""Writes array_values_torch.txt or array_values_tensorflow.txt, beside this file: values of operations that move elements.

usage: PYTHON make_array_values.py        with a PYTHON that has numpy, and torch or tensorflow

A line is a name and numbers: the value for x with the elements (37 i + 11) % 101 - 50, and the gradient of
sum(value * weight) with respect to x, with the weights (29 i + 3) % 23 - 11. These operations only move elements. What they
do to the numbers of the elements therefore gives the gradient: zeros are elements that come from nowhere.
"""
import pathlib

import numpy as np

try:
    import torch
    import torch.nn.functional as F
    library = f"torch.txt with PyTorch {torch.__version__.split('+')[0]}"
except ImportError:
    import tensorflow as tf
    torch, library = None, f"tensorflow.txt with TensorFlow {tf.__version__}"
lines = [f"# array_values_{library} and NumPy {np.__version__}, by make_array_values.py."]


def emit(name, values):
    lines.append(" ".join([name, *[format(float(v), "g") for v in np.asarray(values).ravel()]]))


def counted(*extents):
    return ((37 * np.arange(np.prod(extents, dtype=int)) + 11) % 101 - 50.0).reshape(extents)


def weights(count):
    return (29 * np.arange(count) + 3) % 23 - 11.0


def case(name, extents, f, gradient=True):
    x = counted(*extents)
    numbers = np.arange(1, x.size + 1, dtype=float).reshape(extents)
    if torch:
        value, moved = (np.asarray(f(torch.tensor(a))) for a in (x, numbers))
    else:
        value, moved = (np.asarray(f(tf.constant(a))) for a in (x, numbers))
    emit(name, value)
    if gradient:
        sums = np.zeros(x.size + 1)
        np.add.at(sums, moved.ravel().astype(int), weights(moved.size))
        emit(name + ".gradient", sums[1:])


def nhwc(f):
    """A function of images [batch, channels, height, width], for images with their channels last."""
    return lambda x: f(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def unfold(**options):
    """[batch, channels, windows] as [batch, windows, channels]"""
    return lambda x: F.unfold(x.permute(0, 3, 1, 2), **options).permute(0, 2, 1)


def of_numpy(f):
    return lambda x: f(np.asarray(x))


if torch:
    a = (5, 4, 3)
    case("slice_mixed", a, of_numpy(lambda x: x[1:-1, ::-2, 0]))
    case("slice_every_second", a, of_numpy(lambda x: x[::2, 1::2]))
    case("slice_index", a, of_numpy(lambda x: x[-1]))
    case("slice_back", a, of_numpy(lambda x: x[4:0:-2, -3:-1]))
    case("slice_clipped", a, of_numpy(lambda x: x[-100:100, 2:99, ::-5]))
    case("slice_whole_back", a, of_numpy(lambda x: x[::-1, ::-1, ::-1]))
    case("slice_from_end", a, of_numpy(lambda x: x[-2:, :-1, -1]))
    for mode in "reflect", "symmetric", "edge", "wrap":
        case("pad_" + mode, (3, 4), of_numpy(lambda x: np.pad(x, ((0, 0), (3, 2)), mode)))
    case("pad_images", (1, 3, 3, 2), nhwc(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect")))
    case("pad_circular", (1, 3, 3, 2), nhwc(lambda x: F.pad(x, (1, 2, 2, 1), mode="circular")))
    case("pad_replicate", (1, 3, 3, 2), nhwc(lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate")))
    case("pad_value", (2, 3), lambda x: F.pad(x, (1, 2), value=7), False)
    case("roll", (4, 3), lambda x: torch.roll(x, (1, -2), (0, 1)))
    case("roll_far", (4, 3), lambda x: torch.roll(x, -9, 0))
    case("repeat", (2, 3), lambda x: torch.repeat_interleave(x, 3, 1))
    case("repeat_rows", (2, 3), lambda x: torch.repeat_interleave(x, 2, 0))
    case("movedim", (2, 3, 4), lambda x: torch.movedim(x, -1, 0))
    case("movedim_back", (2, 3, 4), lambda x: torch.movedim(x, 0, 1))
    case("swap", (2, 3, 4), lambda x: torch.transpose(x, 0, 2))
    case("pixel_shuffle", (1, 2, 3, 8), nhwc(lambda x: F.pixel_shuffle(x, 2)))
    case("pixel_unshuffle", (1, 4, 6, 2), nhwc(lambda x: F.pixel_unshuffle(x, 2)))
    case("unfold", (1, 5, 4, 2), unfold(kernel_size=(3, 2), padding=1, stride=(2, 1)))
    case("unfold_dilated", (2, 5, 4, 1), unfold(kernel_size=2, dilation=2))
    y = counted(1, 4, 12)  # [batch, windows, channels * window]
    emit("fold", F.fold(torch.tensor(y).permute(0, 2, 1), (3, 4), kernel_size=(2, 3)).permute(0, 2, 3, 1))
    emit("block_diag", torch.block_diag(torch.tensor(counted(2, 3)), torch.tensor(counted(1, 1)), torch.tensor(counted(3, 2))))
    p, q = (torch.tensor(counted(*e), requires_grad=True) for e in ((2, 3), (3, 2)))
    k = torch.kron(p, q)
    (k.reshape(-1) * torch.tensor(weights(36))).sum().backward()
    emit("kron", k.detach()), emit("kron.left", p.grad), emit("kron.right", q.grad)
    case("diag_up", (2, 3), lambda x: torch.diag_embed(x, 2))
    case("diag_down", (2, 3), lambda x: torch.diag_embed(x, -1))
    case("diagonal_up", (2, 3, 4), lambda x: torch.diagonal(x, 1, 1, 2))
    case("diagonal_down", (4, 4), lambda x: torch.diagonal(x, -2))
    case("tril", (2, 3, 4), lambda x: torch.tril(x, -1))
    case("triu", (2, 3, 4), lambda x: torch.triu(x, 2))
    emit("tril_indices", torch.tril_indices(3, 5, 1))
    emit("triu_indices", torch.triu_indices(4, 3, -1))
    for i, c in enumerate(np.meshgrid(counted(2), counted(3), counted(2))):
        emit(f"mesh_xy{i}", c)
    for i, c in enumerate(torch.meshgrid(*map(torch.tensor, (counted(2), counted(3), counted(2))), indexing="ij")):
        emit(f"mesh_ij{i}", c)
else:
    case("strided_slice", (5, 4, 3), lambda x: tf.strided_slice(x, [4, -3, 1], [0, -1, 2], [-2, 1, 1], shrink_axis_mask=4))
    case("pad_reflect", (3, 4), lambda x: tf.pad(x, [[0, 0], [3, 2]], "REFLECT"))
    case("pad_symmetric", (3, 4), lambda x: tf.pad(x, [[3, 1], [0, 0]], "SYMMETRIC"))
    case("space_to_depth", (2, 4, 6, 3), lambda x: tf.nn.space_to_depth(x, 2))
    case("depth_to_space", (1, 2, 3, 8), lambda x: tf.nn.depth_to_space(x, 2))
    case("space_to_batch", (2, 4, 3, 2), lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [0, 0]]))
    case("batch_to_space", (6, 2, 1, 3), lambda x: tf.batch_to_space(x, [2, 3], [[0, 0], [0, 0]]))
    case("patches_same", (1, 5, 4, 2), lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"))
    case("patches_valid", (2, 5, 4, 1), lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 2, 1], [1, 2, 1, 1], "VALID"))
    case("set_diag", (2, 3, 4), lambda x: tf.linalg.set_diag(x, tf.zeros([2, 3], x.dtype), k=1))
    emit("sequence_mask", tf.cast(tf.sequence_mask([[1, 0], [7, 3]], 4), tf.float32))
path = pathlib.Path(__file__).with_name("array_values_" + library.split()[0])
path.write_text("\n".join(lines) + "\n")
