# SPDX-License-Identifier: BSL-1.0
"""Writes control_flow_values.txt: what TensorFlow's cond and while_loop compute, and their gradients, for
test/session/control_flow.cpp to compare Weft with.

usage: PYTHON make_control_flow_values.py > control_flow_values.txt        with a PYTHON that has tensorflow

A line `case N ITERATIONS`, then x, w, the result, and the gradients of sum(result ** 2 * x) with respect to x and w, as
hexadecimal numbers.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def layer(h, w):
    def twice():
        return tf1.while_loop(lambda j, h: j < 2, lambda j, h: (j + 1, h * 0.5 + tf.reduce_sum(w, 0)), (0, h))[1]

    return tf1.cond(tf.reduce_sum(h) > 0, lambda: tf.tanh(tf.matmul(h, w)), twice)


def words(values):
    return " ".join(float(v).hex() for v in np.ravel(values))


print("make_control_flow_values.py with TensorFlow", tf.__version__)
with tf.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float64, [2, 3])
    w = tf1.placeholder(tf.float64, [3, 3])
    n = tf1.placeholder(tf.int32, [])
    i, h = tf1.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, layer(h, w)), (0, x), maximum_iterations=5)
    dx, dw = tf1.gradients(tf.reduce_sum(h * h * x), [x, w])
    random = np.random.RandomState(3)
    for count in [0, 1, 2, 4, 5, 9]:
        xs, ws = random.uniform(-1, 1, [2, 3]), random.uniform(-1, 1, [3, 3])
        results = session.run([i, h, dx, dw], {x: xs, w: ws, n: count})
        print("case", count, results[0])
        for values in [xs, ws, *results[1:]]:
            print(words(values))
