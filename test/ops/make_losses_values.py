# SPDX-License-Identifier: BSL-1.0
"""Writes what TensorFlow makes of losses: losses_values.txt, beside this file.

Each line is a name and numbers: the operands; then for each case the losses y, "NAME", and the gradients of
sum((y + 1)^2) with respect to the operands, "NAME.gradient" and "NAME.gradient_labels".
"""
import math
import pathlib

import numpy
import tensorflow as tf

tf.keras.backend.set_floatx("float64")
random = numpy.random.default_rng(7)
lines = [f"# Made by make_losses_values.py with TensorFlow {tf.__version__}."]


def write(name, values):
    lines.append(" ".join([name, *(repr(float(v)) for v in numpy.asarray(values).ravel())]))


def case(name, f, x, z):
    x, z = tf.constant(x), tf.constant(z)
    with tf.GradientTape() as tape:
        tape.watch([x, z])
        y = f(x, z)
        loss = tf.reduce_sum((y + 1) ** 2)
    write(name, y)
    of_x, of_z = tape.gradient(loss, [x, z])
    write(name + ".gradient", of_x)
    if of_z is not None:
        write(name + ".gradient_labels", of_z)


x = numpy.round(random.normal(size=(4, 5)) * 16) / 8
x[0] = [0, 30, -30, 800, -800]
probabilities = numpy.round(random.uniform(size=(4, 5)) * 16) / 16
binary = random.integers(0, 2, (4, 5)).astype(float)
distributions = probabilities + 0.125
distributions /= distributions.sum(1, keepdims=True)
classes = random.integers(0, 5, 4)
logits = x.copy()
logits[0] = [0, 3, -3, 1, 2]
for name, values in [("x", x), ("probabilities", probabilities), ("binary", binary), ("distributions", distributions),
                     ("classes", classes), ("logits", logits)]:
    write(name, values)
v1 = tf.compat.v1.losses
none = v1.Reduction.NONE
case("sigmoid", lambda x, z: tf.nn.sigmoid_cross_entropy_with_logits(logits=x, labels=z), x, probabilities)
case("l2", lambda x, z: tf.nn.l2_loss(x), logits, logits)
for delta in [0.5, 1.0, 2.0]:
    case(f"huber_{delta}", lambda x, z: v1.huber_loss(z, x, delta=delta, reduction=none), logits, probabilities)
case("hinge", lambda x, z: v1.hinge_loss(z, x, reduction=none), logits, binary)
for smoothing in [0.0, 0.1, 1.0]:
    loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing, reduction=None)
    case(f"smoothed_{smoothing}", lambda x, z: loss(z, x), logits, distributions)
    case(f"smoothed_classes_{smoothing}", lambda x, z: loss(tf.one_hot(z, 5, dtype=x.dtype), x), logits, classes)

nan, inf = math.nan, math.inf
predictions = [[1, 2, 3, 4], [4, 3, 2, 1], [2, 2, 2, 2], [1, 3, 3, 0], [nan, 1, 2, 3], [1, nan, 2, 3], [inf, 1, 2, 3],
               [-inf, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4], [0, -1, -2, -3]]
targets = [3, 3, 1, 2, 3, 1, 0, 3, 4, -1, 1]
write("predictions", predictions)
write("targets", targets)
for k in [0, 1, 2, 3, 4, 9]:
    write(f"in_top_{k}", tf.math.in_top_k(targets, tf.constant(predictions, tf.float32), k))
pathlib.Path(__file__).with_name("losses_values.txt").write_text("\n".join(lines) + "\n")
