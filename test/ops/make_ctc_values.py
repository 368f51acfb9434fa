# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch and TensorFlow make of connectionist temporal classification: ctc_values.txt, beside this file.

Run with PyTorch, which writes the file, then with TensorFlow, which adds lines: losses with gradients of sum(2 y), and
decoded sequences. Each line is a name and numbers.
"""
import pathlib
import sys

import numpy

path = pathlib.Path(__file__).with_name("ctc_values.txt")
random = numpy.random.default_rng(3)
x = numpy.round(random.normal(size=(6, 6, 4)) * 16) / 8
labels = numpy.array([[1, 2, 3], [1, 1, 2], [0, 0, 0], [2, 2, 1], [3, 1, 0], [0, 0, 0]])
frames = numpy.array([6, 5, 4, 3, 6, 0])  # the fourth needs one more; the third and the sixth have no labels
counts = numpy.array([3, 3, 0, 3, 2, 0])
lines = []


def write(name, values):
    lines.append(" ".join([name, *(f"{float(v):.15g}" for v in numpy.asarray(values).reshape(-1))]))


if sys.argv[1] == "torch":
    import torch

    lines.append(f"# Made by make_ctc_values.py with PyTorch {torch.__version__}.")
    for name, values in [("x", x), ("labels", labels), ("frames", frames), ("counts", counts)]:
        write(name, values)
    for zero in [False, True]:
        logits = torch.tensor(x, requires_grad=True)
        y = torch.nn.functional.ctc_loss(torch.log_softmax(logits, 2).transpose(0, 1), torch.tensor(labels),
                                         torch.tensor(frames), torch.tensor(counts), reduction="none",
                                         zero_infinity=zero)
        (2 * y).sum().backward()
        write(f"loss_{int(zero)}", y.detach())
        write(f"loss_{int(zero)}.gradient", logits.grad)
    path.write_text("\n".join(lines) + "\n")
else:
    import tensorflow as tf

    lines.append(f"# And with TensorFlow {tf.__version__}, with the last class as blank.")
    logits = tf.constant(x[:3], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        y = tf.nn.ctc_loss(numpy.minimum(labels[:3], 2), logits, counts[:3], frames[:3], logits_time_major=False,
                           blank_index=-1)
        twice = tf.reduce_sum(2 * y)
    write("last_blank", y)
    write("last_blank.gradient", tape.gradient(twice, logits))
    normal = tf.nn.log_softmax(tf.constant(x[:5], tf.float32))
    time_major = tf.transpose(normal, [1, 0, 2])
    for merged in [True, False]:
        (found,), scores = tf.nn.ctc_greedy_decoder(time_major, frames[:5], merge_repeated=merged, blank_index=-1)
        dense = tf.sparse.to_dense(found, default_value=-1).numpy()
        write(f"greedy_{int(merged)}", numpy.pad(dense, [(0, 0), (0, 6 - dense.shape[1])], constant_values=-1))
        write(f"greedy_{int(merged)}.score", -scores)
    for width in [100, 3]:
        found, scores = tf.nn.ctc_beam_search_decoder(time_major, frames[:5], beam_width=width, top_paths=3)
        paths = [tf.sparse.to_dense(f, default_value=-1).numpy() for f in found]
        write(f"beam_{width}", numpy.stack([numpy.pad(p, [(0, 0), (0, 6 - p.shape[1])], constant_values=-1)
                                            for p in paths], 1))
        write(f"beam_{width}.score", scores)
    path.write_text(path.read_text() + "\n".join(lines) + "\n")
