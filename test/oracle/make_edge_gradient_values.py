# SPDX-License-Identifier: BSL-1.0
"""Writes TensorFlow's gradients at the edges of domains: edge_gradient_values.txt, beside this file.

usage: PYTHON make_edge_gradient_values.py        with a PYTHON that has tensorflow

Three kinds of lines:

  one TYPE FUNCTION x g v first second_g second_x     f(x) with upstream gradient g; then the gradients of the first
                                                      gradient, with upstream gradient v, with respect to g and x
  two TYPE FUNCTION a b g of_a of_b                   f(a, b)
  composed TYPE NAME x... : first...                  a loss that hides the edge
"""
import itertools
import math
import pathlib

import numpy
import tensorflow as tf

lines = [f"# Made by make_edge_gradient_values.py with TensorFlow {tf.__version__}."]
infinity, nan = math.inf, math.nan


def write(kind, dtype, name, *numbers):
    as_text = [n if isinstance(n, str) else str(dtype.as_numpy_dtype(n)) for n in numbers]
    lines.append(" ".join([kind, dtype.name, name, *as_text]))


# tf.nn.gelu rounds its constants to float, in double too.
def gelu(x):
    return 0.5 * x * (1 + tf.math.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


# The gradient of tf.nn.softsign has none itself.
@tf.custom_gradient
def softsign(x):
    return tf.nn.softsign(x), lambda g: g / tf.square(1 + tf.abs(x))


# TensorFlow has none; PyTorch's gradient chooses by x, so that it is a number where x is infinite.
@tf.custom_gradient
def hard_swish(x):
    return x * tf.nn.relu6(x + 3) / 6, lambda g: tf.where(x < 3, tf.where(x > -3, g * (x + 1.5) / 3, 0 * g), g)


one = {
    "abs": tf.abs, "sign": tf.sign, "floor": tf.floor, "sqrt": tf.sqrt, "rsqrt": tf.math.rsqrt, "exp": tf.exp,
    "log": tf.math.log, "log1p": tf.math.log1p, "expm1": tf.math.expm1, "tanh": tf.tanh, "sigmoid": tf.sigmoid,
    "erf": tf.math.erf, "sin": tf.sin, "cos": tf.cos, "square": tf.square, "relu": tf.nn.relu,
    "softplus": tf.math.softplus, "relu6": tf.nn.relu6, "elu": tf.nn.elu, "selu": tf.nn.selu, "gelu": gelu,
    "gelu_tanh": gelu_tanh, "silu": tf.nn.silu, "softsign": softsign,
    "hard_sigmoid": lambda x: tf.nn.relu6(x + 3) / 6, "hard_swish": hard_swish,
}
two = {
    "multiply": tf.multiply, "divide": tf.divide, "pow": tf.pow, "maximum": tf.maximum, "minimum": tf.minimum,
}
composed = {
    "max": (lambda x: tf.reduce_sum(tf.maximum(tf.sqrt(x), 1.0)), [0, 4, -1]),
    "select_sqrt": (lambda x: tf.reduce_sum(tf.where(x > 0, tf.sqrt(x), 0.0)), [0, 4, -1]),
    "select_rsqrt": (lambda x: tf.reduce_sum(tf.where(x > 0, tf.math.rsqrt(x), 0.0)), [0, 4, -1]),
    "select_log": (lambda x: tf.reduce_sum(tf.where(x > 0, tf.math.log(x), 0.0)), [0, 4, -1]),
    "select_log1p": (lambda x: tf.reduce_sum(tf.where(x > -1, tf.math.log1p(x), 0.0)), [-1, 3, -2]),
    "select_quotient": (lambda x: tf.reduce_sum(tf.where(x != 0, 1 / x, 0.0)), [0, 4, -1]),
    "select_root": (lambda x: tf.reduce_sum(tf.where(x > 0, x**0.5, 0.0)), [0, 4, -1]),
    "slice": (lambda x: tf.reduce_sum(tf.sqrt(x)[1:]), [0, 4, 1]),
    "slice_rsqrt": (lambda x: tf.reduce_sum(tf.math.rsqrt(x)[1:]), [0, 4, 1]),
    "factor": (lambda x: tf.reduce_sum(tf.sqrt(x) * tf.constant([0, 1, 1], x.dtype)), [0, 4, 1]),
    "factor_of_sum": (lambda x: 0.0 * tf.reduce_sum(tf.sqrt(x)), [0, 4, 1]),
    "mean": (lambda x: tf.reduce_mean(tf.maximum(tf.sqrt(x), 1.0) + x), [0, 4, 1]),
    "clip_by_norm": (lambda x: tf.reduce_sum(tf.clip_by_norm(x, 1.0)), [0, 0, 0]),
    "clipped_norm": (lambda x: tf.reduce_sum(x / tf.maximum(tf.sqrt(tf.reduce_sum(x * x)), 1.0)), [0, 0, 0]),
    "norm": (lambda x: tf.sqrt(tf.reduce_sum(x * x)), [0, 0, 0]),
    "distance": (lambda x: tf.reduce_sum(tf.maximum(tf.sqrt(tf.square(x - x[::-1])) - 1, 0.0)), [2, 1, 2]),
    "prod": (lambda x: tf.reduce_prod(tf.sqrt(x)), [0, 4, 0]),
    "residual": (lambda x: tf.reduce_sum(tf.square(tf.sqrt(x) - 1)), [1, 1, 4]),
}

for dtype in [tf.float32, tf.float64]:
    tiny = float(numpy.finfo(dtype.as_numpy_dtype).tiny)
    for name, f in one.items():
        for x, g, v in itertools.product([0.0, -0.0, 1, -1, 0.5, -0.5, 4, tiny, infinity, -infinity, nan],
                                         [0.0, 1.0], [0.0, 1.0]):
            x_, g_, v_ = (tf.constant([number], dtype) for number in [x, g, v])
            with tf.GradientTape(persistent=True) as outer:
                outer.watch([x_, g_])
                with tf.GradientTape() as inner:
                    inner.watch(x_)
                    y = f(x_)
                first = inner.gradient(y, x_, output_gradients=g_)
                if first is None:  # of floor
                    first = tf.zeros_like(x_)
            second = [outer.gradient(first, at, output_gradients=v_) for at in [g_, x_]]
            write("one", dtype, name, x, g, v, first[0], *(0.0 if s is None else s[0] for s in second))
    for name, f in two.items():
        for a, b, g in itertools.product([0.0, -0.0, 1, -1, 2, infinity, nan], [0.0, 1, -1, 0.5, 2, infinity, nan],
                                         [0.0, 1.0]):
            a_, b_, g_ = (tf.constant([number], dtype) for number in [a, b, g])
            with tf.GradientTape() as tape:
                tape.watch([a_, b_])
                y = f(a_, b_)
            write("two", dtype, name, a, b, g, *(d[0] for d in tape.gradient(y, [a_, b_], output_gradients=g_)))
    for name, (f, values) in composed.items():
        x = tf.constant(values, dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = f(x)
        write("composed", dtype, name, *values, ":", *tf.convert_to_tensor(tape.gradient(loss, x)).numpy())
pathlib.Path(__file__).with_name("edge_gradient_values.txt").write_text("\n".join(lines) + "\n")
