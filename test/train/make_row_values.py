# SPDX-License-Identifier: BSL-1.0
"""Writes row_values.txt: what TensorFlow's optimizers make of a variable whose gradient is rows (tf.IndexedSlices), for
test/train/optimizers.cpp to compare Weft with.

usage: PYTHON make_row_values.py > row_values.txt        with a PYTHON that has tensorflow

A line `rows OPTIMIZER GATHERS DENSE`, then a line for each of 8 steps: the elements of a float variable [7, 3] after it.
DENSE is 1 where each element has a gradient beside that of its row.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
ROWS, WIDTH, STEPS = 7, 3, 8


def numbers(step, which):
    """The same as in optimizers.cpp: some more than once, and in some steps none."""
    count = [5, 1, 0, 6][(step + which) % 4]
    i = np.arange(count)
    return (i * i + step * 3 + which * 2) % 5 + which


def weights(step, which):
    """Of few bits, so that sums and products are exact."""
    i, c = np.arange(len(numbers(step, which)))[:, None], np.arange(WIDTH)[None, :]
    return ((step * 31 + i * 7 + c * 13 + which * 5) % 17 - 8) / 16.0


OPTIMIZERS = {
    "gradient_descent": lambda: v1.train.GradientDescentOptimizer(0.25),
    "momentum": lambda: v1.train.MomentumOptimizer(0.25, 0.5),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.25, 0.5),
    "adam": lambda: v1.train.AdamOptimizer(0.25, 0.5, 0.75, 0.125),
}


def train(optimizer, gathers, dense):
    with tf.Graph().as_default(), v1.Session() as session:
        w = tf.Variable((np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) - 10) / 4, dtype=tf.float32)
        n = [v1.placeholder(tf.int32, [None]) for _ in range(gathers)]
        x = [v1.placeholder(tf.float32, [None, WIDTH]) for _ in range(gathers)]
        loss = sum(tf.reduce_sum(tf.gather(w, n[k]) * x[k]) for k in range(gathers))
        if dense:
            loss += tf.reduce_sum(w) * 0.125
        step = OPTIMIZERS[optimizer]().minimize(loss)
        session.run(v1.global_variables_initializer())
        for t in range(STEPS):
            fed = {n[k]: numbers(t, k) for k in range(gathers)} | {x[k]: weights(t, k) for k in range(gathers)}
            session.run(step, fed)
            yield session.run(w)


print(f"# Made by make_row_values.py with TensorFlow {tf.__version__}.")
for optimizer in OPTIMIZERS:
    for gathers, dense in (1, 0), (2, 0), (1, 1):
        print("rows", optimizer, gathers, dense)
        for w in train(optimizer, gathers, dense):
            print(*(float(x).hex() for x in w.flatten()))
