# SPDX-License-Identifier: BSL-1.0
"""Writes what TensorFlow's or PyTorch's optimizers make of two variables whose gradients are clipped or decayed, for
test/train/gradient_changes.cpp to compare Weft with.

usage: PYTHON make_gradient_change_values.py tensorflow > tensorflow_gradient_change_values.txt
       PYTHON make_gradient_change_values.py torch > torch_gradient_change_values.txt

A line `dense CASE TYPE`, then a line for each of 12 steps: the elements of the variables, [4] and [2, 1], after it. Or
`rows CASE`: those of a float variable [7, 3] whose gradient is rows (tf.IndexedSlices) and of a scalar's.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np

STEPS, ROWS, WIDTH = 12, 7, 3
START_W, START_V = np.array([1, -0.5, 3, 0.25]), np.array([[-1.5], [0]])
SIZES = np.array([1, 2.0**-10, 2.0**2, 2.0**-20])


def gradients(step):
    """The same as in gradient_changes.cpp: large ones in some steps, small ones in others."""
    i = np.arange(6)
    g = np.where((step + i) % 7 == 3, 0, ((step * 7919 + i * 31) % 257 - 128) / 64 * 2.0 ** (1 - step % 4))
    return g[:4] * SIZES, g[4:].reshape(2, 1)


def numbers(step, repeated):
    """Rows, some of them more than once if they are to be `repeated`; in some steps none."""
    i = np.arange([5, 1, 0, 4][step % 4])
    return (i * i + step * 3) % 6 if repeated else (i * 3 + step) % 7


def weights(step, count):
    i, c = np.arange(count)[:, None], np.arange(WIDTH)[None, :]
    return ((step * 31 + i * 7 + c * 13) % 17 - 8) / 16.0


def show(*values):
    print(*(float(x).hex() for v in values for x in np.asarray(v).flatten()))


def tensorflow():
    # Hyperparameters of few bits: TensorFlow rounds them to floats.
    import tensorflow as tf

    v1 = tf.compat.v1
    t = v1.train
    momentum = lambda: t.MomentumOptimizer(0.25, 0.5)
    adam = lambda: t.AdamOptimizer(0.125, 0.5, 0.75, 2**-10)

    def clipped(change):
        """Of a list of gradients and a list of variables."""
        return lambda make: lambda loss, vs: make().apply_gradients(zip(change(tf.gradients(loss, vs), vs), vs))

    def penalty(term):
        return lambda make: lambda loss, vs: make().minimize(loss + sum(term(v) for v in vs), var_list=vs)

    def decayed(rate):
        """DecoupledWeightDecayExtension of tf.contrib.opt: the variables decay, and then they are updated."""

        def train(loss, vs, make):
            gs = tf.gradients(loss, vs)
            with tf.control_dependencies(gs):
                decays = [v.assign_sub(rate * v) for v in vs]
            with tf.control_dependencies(decays):
                return make().apply_gradients(zip(gs, vs))

        return lambda make: lambda loss, vs: train(loss, vs, make)

    by_value = clipped(lambda gs, vs: [tf.clip_by_value(g, -0.5, 0.75) for g in gs])
    by_norm = clipped(lambda gs, vs: [tf.clip_by_norm(g, 0.75) for g in gs])
    by_global_norm = clipped(lambda gs, vs: tf.clip_by_global_norm(gs, 1.5)[0])
    cases = {
        "value_momentum": by_value(momentum),
        "norm_adam": by_norm(adam),
        "global_norm_momentum": by_global_norm(momentum),
        "global_norm_adam": by_global_norm(adam),
        "l2_momentum": penalty(lambda v: 0.125 * tf.nn.l2_loss(v))(momentum),
        "l1_adam": penalty(lambda v: 0.0625 * tf.reduce_sum(tf.abs(v)))(adam),
        "decoupled_momentum": decayed(0.0625)(momentum),
        "decoupled_adam": decayed(0.0625)(adam),
        "decoupled_ftrl": decayed(0.0625)(lambda: t.FtrlOptimizer(0.25, -0.5, 0.5, 0.125, 0.25)),
    }
    for case, train in cases.items():
        for name in "double", "float":
            kind = tf.float64 if name == "double" else tf.float32
            print("dense", case, name)
            with tf.Graph().as_default(), v1.Session() as session:
                w, v = tf.Variable(START_W, dtype=kind), tf.Variable(START_V, dtype=kind)
                x, y = v1.placeholder(kind, [4]), v1.placeholder(kind, [2, 1])
                step = train(tf.reduce_sum(w * x) + tf.reduce_sum(v * y), [w, v])
                session.run(v1.global_variables_initializer())
                for i in range(STEPS):
                    a, b = gradients(i)
                    session.run(step, {x: a, y: b})
                    show(*session.run([w, v]))

    def of_sums(gs, vs):
        """TensorFlow's norm of rows is that of each by itself: here of the sums of those with one index."""
        return tf.clip_by_global_norm(gs, 0.5, tf.linalg.global_norm([tf.convert_to_tensor(g) for g in gs]))[0]

    cases = {
        "value_momentum": (False, clipped(lambda gs, vs: [tf.clip_by_value(g, -0.25, 0.125) for g in gs])(momentum)),
        "norm_momentum": (False, clipped(lambda gs, vs: [tf.clip_by_norm(g, 0.5) for g in gs])(momentum)),
        "global_norm_momentum": (False, clipped(lambda gs, vs: tf.clip_by_global_norm(gs, 0.5)[0])(momentum)),
        "global_norm_repeated": (True, clipped(of_sums)(momentum)),
        "global_norm_adam": (True, clipped(of_sums)(adam)),
    }
    for case, (repeated, train) in cases.items():
        print("rows", case)
        with tf.Graph().as_default(), v1.Session() as session:
            w = tf.Variable((np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) - 10) / 4, dtype=tf.float32)
            v = tf.Variable(1, dtype=tf.float32)
            n, x = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.float32, [None, WIDTH])
            step = train(tf.reduce_sum(tf.gather(w, n) * x) + v * 0.25, [w, v])
            session.run(v1.global_variables_initializer())
            for i in range(STEPS):
                m = numbers(i, repeated)
                session.run(step, {n: m, x: weights(i, len(m))})
                show(*session.run([w, v]))


def torch():
    import torch

    optim = torch.optim
    cases = {
        "clip_grad_norm": (
            lambda vs: optim.SGD(vs, 0.25, 0.5),
            lambda vs: torch.nn.utils.clip_grad_norm_(vs, 1.5),
        ),
        "clip_grad_value": (
            lambda vs: optim.SGD(vs, 0.25, 0.5),
            lambda vs: torch.nn.utils.clip_grad_value_(vs, 0.5),
        ),
        "weight_decay": (lambda vs: optim.SGD(vs, 0.25, 0.5, weight_decay=0.125), None),
        "adam_weight_decay": (lambda vs: optim.Adam(vs, 0.125, (0.5, 0.75), 1e-30, weight_decay=0.125), None),
        "adamw": (lambda vs: optim.AdamW(vs, 0.125, (0.5, 0.75), 1e-30, weight_decay=0.25), None),
    }
    for case, (make, change) in cases.items():
        for name in "double", "float":
            kind = torch.float64 if name == "double" else torch.float32
            print("dense", case, name)
            w, v = (torch.tensor(s, dtype=kind, requires_grad=True) for s in (START_W, START_V))
            optimizer = make([w, v])
            for i in range(STEPS):
                w.grad, v.grad = (torch.tensor(g, dtype=kind) for g in gradients(i))
                if change:
                    change([w, v])
                optimizer.step()
                show(w.detach(), v.detach())


if __name__ == "__main__":
    which = sys.argv[1]
    module = __import__(which)
    print(f"# Made by make_gradient_change_values.py with {which} {module.__version__}.")
    {"tensorflow": tensorflow, "torch": torch}[which]()
