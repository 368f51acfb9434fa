# SPDX-License-Identifier: BSL-1.0
"""Writes what TensorFlow makes of masks and of repeated values: bounded_values.txt, beside this file.

For each mask: "mask", the ranks of x and of the mask, x's extents; then x, the mask, the rows that are kept, the gradient of
the sum of their squares with respect to x, and the mean of their squares, a line each. For each list: "unique", how many;
then the elements, the values, their indices and the counts. The numbers are exact.
"""
import pathlib

import numpy
import tensorflow as tf

random = numpy.random.default_rng(11)
lines = [f"# Made by make_bounded_values.py with TensorFlow {tf.__version__}."]


def write(values):
    # Whole numbers as they are.
    numbers = [float(x) for x in numpy.asarray(values).ravel()]
    lines.append(" ".join(str(int(x)) if x.is_integer() else x.hex() for x in numbers))


for extents, mask_rank in [((1,), 1), ((9,), 1), ((4, 3), 1), ((7, 2), 1), ((2, 5), 2), ((5, 3, 2), 1), ((1, 2, 2), 1),
                           ((3, 4, 2), 2), ((4, 2, 5), 2), ((2, 3, 4), 3)]:
    for kept in ["none", "all", "some"] if extents != (1,) else ["none", "all"]:
        x = tf.Variable(random.integers(-32, 33, extents) / 8, dtype=tf.float64)
        mask = {"none": numpy.zeros, "all": numpy.ones, "some": lambda e, t: random.random(e) < 0.5}[kept](
            extents[:mask_rank], bool)
        with tf.GradientTape() as tape:
            found = tf.boolean_mask(x, mask)
            loss = tf.reduce_sum(found * found)
        gradient = tf.convert_to_tensor(tape.gradient(loss, x))
        lines.append(" ".join(map(str, ["mask", len(extents), mask_rank, *extents])))
        for values in [x, mask, found, gradient, tf.reduce_mean(found * found)]:
            write(values)
for elements in [[], [7], [3, 3, 3, 3], [4, 3, 2, 1, 0], [0, 0, 5, 0], random.integers(-4, 5, 40),
                 random.integers(0, 1000, 300), random.integers(0, 20, 500)]:
    values, indices, counts = tf.unique_with_counts(tf.constant(elements, dtype=tf.int32))
    lines.append(f"unique {len(elements)}")
    for numbers in [elements, values, indices, counts]:
        write(numbers)
pathlib.Path(__file__).with_name("bounded_values.txt").write_text("\n".join(lines) + "\n")
