# SPDX-License-Identifier: BSL-1.0
"""Writes row_values.hpp: what TensorFlow computes along an axis, for test/oracle/rows.cpp to compare Weft with.

usage: PYTHON make_row_values.py > row_values.hpp        with a PYTHON that has tensorflow

All is computed in double, from fractions of 64: floats hold them and their sums exactly.
"""
import sys

import numpy as np
import tensorflow as tf

out = []


def numbers(extents, which, levels=257):
    i = np.arange(np.prod(extents))
    return ((((i * 7919 + 31 * which) % levels) - levels // 2) / 64.0).reshape(extents)


def emit(name, t):
    out.append(f"inline const std::vector<double> {name}{{{', '.join(repr(float(v)) for v in np.asarray(t).flatten())}}};")


def case(name, f, x):
    """f's value, and the gradient of sum(value * weight)."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
        weighted = tf.reduce_sum(y * numbers(tuple(y.shape), 4))
    emit(f"{name}_value", y)
    emit(f"{name}_d_x", tape.gradient(weighted, x))


x = numbers((2, 5, 3), 1)
emit("x", x)
for axis in range(3):
    for exclusive in (False, True):
        for reverse in (False, True):
            case(f"cumsum_{axis}_{exclusive:d}{reverse:d}",
                 lambda v: tf.math.cumsum(v, axis, exclusive=exclusive, reverse=reverse), x)

few = numbers((2, 5, 3), 3, levels=4)  # four numbers only, so that most are equal to others
emit("few", few)
for axis in range(3):
    for d in ("ascending", "descending"):
        case(f"sort_{axis}_{d}", lambda v: tf.sort(v, axis, d.upper()), x)
        emit(f"argsort_{axis}_{d}", tf.argsort(few, axis, d.upper(), stable=True))
case("top_2", lambda v: tf.math.top_k(v, 2).values, x)
emit("top_2_indices", tf.math.top_k(x, 2).indices)
emit("top_2_of_few", tf.math.top_k(few, 2).indices)

sys.stdout.write("#pragma once\n\n// Made by make_row_values.py with TensorFlow " + tf.__version__ +
                 ".\n\n#include <vector>\n\nnamespace oracle::rows {\n\n" + "\n".join(out) +
                 "\n\n}  // namespace oracle::rows\n")
