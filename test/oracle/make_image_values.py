# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch or TensorFlow computes of images, for test/oracle/images.cpp to compare Weft with.

usage: PYTHON make_image_values.py pytorch > image_values_pytorch.hpp            with a PYTHON that has torch
       PYTHON make_image_values.py tensorflow > image_values_tensorflow.hpp      with one that has tensorflow

All is computed in double, from the same inputs: fractions of 64, which floats hold exactly.
"""
import sys

import numpy as np

who = sys.argv[1]
out = []


def numbers(extents, which, levels=257):
    i = np.arange(np.prod(extents))
    return ((((i * 7919 + 31 * which) % levels) - levels // 2) / 64.0).reshape(extents)


def emit(name, t):
    out.append(f"inline const std::vector<double> {name}{{{', '.join(repr(float(v)) for v in np.asarray(t).flatten())}}};")


images, filters = numbers((2, 6, 5, 3), 1), numbers((3, 3, 3, 4), 2)
few = numbers((2, 6, 5, 3), 3, levels=3)  # three numbers only, so that most windows have their maximum several times


def weight(shape):
    return numbers(shape, 4)


if who == "pytorch":
    import torch
    import torch.nn.functional as F
    version = "PyTorch " + torch.__version__.split("+")[0]

    def case(name, f, *inputs):
        args = [torch.tensor(t, requires_grad=True) for t in inputs]
        nchw = [args[0].permute(0, 3, 1, 2), *(t.permute(3, 2, 0, 1) for t in args[1:])]
        y = f(*nchw).permute(0, 2, 3, 1)
        emit(f"{name}_value", y.detach())
        grads = torch.autograd.grad((y * torch.tensor(weight(tuple(y.shape)))).sum(), args)
        for which, g in zip("xw", grads):
            emit(f"{name}_d_{which}", g)

    case("same", lambda x, w: F.conv2d(x, w, padding="same"), images, filters)
    case("valid_2", lambda x, w: F.conv2d(x, w, stride=2), images, filters)
    case("of_1_stride_2_1", lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=1), images, filters)
    case("dilated", lambda x, w: F.conv2d(x, w, padding=2, dilation=2), images, filters)
    case("max_2", lambda x: F.max_pool2d(x, 2), images)
    case("max_3_2_of_1", lambda x: F.max_pool2d(x, 3, 2, 1), images)
    case("max_of_few", lambda x: F.max_pool2d(x, 3, 2, 1), few)
    case("average_2", lambda x: F.avg_pool2d(x, 2), images)
    case("average_3_2_of_1", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), images)
else:
    import tensorflow as tf
    version = "TensorFlow " + tf.__version__

    def case(name, f, *inputs):
        args = [tf.constant(t) for t in inputs]
        with tf.GradientTape() as tape:
            for t in args:
                tape.watch(t)
            y = f(*args)
            total = tf.reduce_sum(y * weight(tuple(y.shape)))
        emit(f"{name}_value", y)
        for which, g in zip("xw", tape.gradient(total, args)):
            emit(f"{name}_d_{which}", g)

    case("same", lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), images, filters)
    case("same_2", lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), images, filters)
    case("same_3_2", lambda x, w: tf.nn.conv2d(x, w, [1, 3, 2, 1], "SAME"), images, filters)
    case("valid_2", lambda x, w: tf.nn.conv2d(x, w, 2, "VALID"), images, filters)
    case("of_1_2_0_1", lambda x, w: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 1], [0, 0]]), images, filters)
    case("max_2", lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), images)
    case("max_3_2_same", lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), images)
    case("max_of_few", lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), few)
    case("average_3_2_same", lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), images)

emit("images", images)
emit("filters", filters)
emit("few", few)
sys.stdout.write(f"#pragma once\n\n// Made by make_image_values.py with {version}.\n\n#include <vector>\n\nnamespace oracle::{who} {{\n\n" +
                 "\n".join(out) + f"\n\n}}  // namespace oracle::{who}\n")
