# SPDX-License-Identifier: BSL-1.0
"""Writes adam_values.txt: what TensorFlow's Adam makes of a variable in 50 steps, for test/train/optimizers.cpp to compare
Weft with.

usage: PYTHON make_adam_values.py > adam_values.txt        with a PYTHON that has tensorflow

Of floats it is tf.train.AdamOptimizer. That one takes its hyperparameters, and the powers of beta1 and beta2, as floats
for doubles too; so of doubles it is the operation beneath, ApplyAdam, given doubles.

A line `adam TYPE LEARNING_RATE BETA1 BETA2 EPSILON`, then 50 lines: the variable's elements after each step, as
hexadecimal numbers.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

STEPS, START = 50, [1, -0.5, 3, 0.25]


def gradient(step):
    """The same numbers as gradient_of in optimizers.cpp: of many sizes and both signs, and once in a while 0."""
    i = np.arange(len(START))
    x = (step * 7919 + i * 31) % 257 - 128
    return np.where((step + i) % 7 == 3, 0, x / 64.0) * np.array([1, 2.0**-10, 2.0**6, 2.0**-20])


def floats(*options):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        w = tf.Variable(START, dtype=tf.float32)
        g = tf.compat.v1.placeholder(tf.float32, [len(START)])
        train = tf.compat.v1.train.AdamOptimizer(*options).apply_gradients([(g, w)])
        session.run(tf.compat.v1.global_variables_initializer())
        for step in range(STEPS):
            session.run(train, {g: gradient(step)})
            yield session.run(w)


def doubles(rate, beta1, beta2, epsilon):
    w = tf.Variable(START, dtype=tf.float64)
    m, v = (tf.Variable(np.zeros(len(START))) for _ in range(2))
    power1, power2 = np.float64(beta1), np.float64(beta2)
    for step in range(STEPS):
        tf.raw_ops.ResourceApplyAdam(
            var=w.handle, m=m.handle, v=v.handle, beta1_power=power1, beta2_power=power2, lr=np.float64(rate),
            beta1=np.float64(beta1), beta2=np.float64(beta2), epsilon=np.float64(epsilon), grad=gradient(step))
        power1, power2 = power1 * beta1, power2 * beta2
        yield w.numpy()


print(f"# Made by make_adam_values.py with TensorFlow {tf.__version__}.")
for kind, values in {"float": floats, "double": doubles}.items():
    for options in ((0.001, 0.9, 0.999, 1e-8), (0.0625, 0.75, 0.99, 0.001)):
        print("adam", kind, *(repr(x) for x in options))
        for w in values(*options):
            print(*(float(x).hex() for x in w))
