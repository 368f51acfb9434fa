# SPDX-License-Identifier: BSL-1.0
"""Writes what TensorFlow's or PyTorch's optimizers make of a variable in 50 steps, for test/train/all_optimizers.cpp to
compare Weft with.

usage: PYTHON make_optimizer_values.py tensorflow > tensorflow_optimizer_values.txt
       PYTHON make_optimizer_values.py torch > torch_optimizer_values.txt

A line `dense OPTIMIZER TYPE`, then a line for each step: the elements of a variable [4] after it. Or `rows OPTIMIZER`:
those of a float variable [7, 3] whose gradient is rows (tf.IndexedSlices), after steps 5, 10, ... 50.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np

STEPS, ROWS, WIDTH = 50, 7, 3
START = np.array([1, -0.5, 3, 0.25])
SIZES = np.array([1, 2.0**-10, 2.0**6, 2.0**-20])


def gradient(step):
    """The same as in all_optimizers.cpp."""
    i = np.arange(4)
    return np.where((step + i) % 7 == 3, 0, ((step * 7919 + i * 31) % 257 - 128) / 64 * SIZES)


def numbers(step):
    """Rows: some more than once, and in some steps none."""
    i = np.arange([5, 1, 0, 6][step % 4])
    return (i * i + step * 3) % 6


def weights(step):
    i, c = np.arange(len(numbers(step)))[:, None], np.arange(WIDTH)[None, :]
    return ((step * 31 + i * 7 + c * 13) % 17 - 8) / 16.0


def show(values):
    print(*(float(x).hex() for x in np.asarray(values).flatten()))


def tensorflow():
    # Hyperparameters of few bits: TensorFlow rounds them to floats.
    import tensorflow as tf

    v1 = tf.compat.v1
    t = v1.train
    optimizers = {
        "rmsprop": lambda: t.RMSPropOptimizer(0.0625, 0.75, 0.5, 2**-10),
        "centered_rmsprop": lambda: t.RMSPropOptimizer(0.0625, 0.75, 0.5, 2**-10, centered=True),
        "adagrad": lambda: t.AdagradOptimizer(0.25, 0.5),
        "adadelta": lambda: t.AdadeltaOptimizer(0.75, 0.875, 2**-10),
        "nesterov_momentum": lambda: t.MomentumOptimizer(0.015625, 0.75, use_nesterov=True),
        "ftrl": lambda: t.FtrlOptimizer(0.25, -0.5, 0.5, 0.125, 0.25),
        "ftrl_shrinkage": lambda: t.FtrlOptimizer(
            0.25, -0.5, 0.5, 0.125, 0.25, l2_shrinkage_regularization_strength=0.0625
        ),
        "proximal_gradient_descent": lambda: t.ProximalGradientDescentOptimizer(0.0625, 0.125, 0.25),
        "proximal_adagrad": lambda: t.ProximalAdagradOptimizer(0.25, 0.5, 0.125, 0.25),
    }
    print(f"# Made by make_optimizer_values.py with TensorFlow {tf.__version__}.")
    for name, make in optimizers.items():
        for dtype in np.float32, np.float64:
            if dtype == np.float64 and name.startswith("proximal"):
                continue  # TensorFlow's take floats alone: their learning rate is one
            with tf.Graph().as_default(), v1.Session() as session:
                w, x = tf.Variable(START, dtype=dtype), v1.placeholder(dtype, [4])
                step = make().minimize(tf.reduce_sum(w * x))
                session.run(v1.global_variables_initializer())
                print("dense", name, "float" if dtype == np.float32 else "double")
                for k in range(STEPS):
                    session.run(step, {x: gradient(k)})
                    show(session.run(w))
        with tf.Graph().as_default(), v1.Session() as session:
            w = tf.Variable((np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) - 10) / 4, dtype=tf.float32)
            n, x = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.float32, [None, WIDTH])
            step = make().minimize(tf.reduce_sum(tf.gather(w, n) * x))
            session.run(v1.global_variables_initializer())
            print("rows", name)
            for k in range(STEPS):
                session.run(step, {n: numbers(k), x: weights(k)})
                if k % 5 == 4:
                    show(session.run(w))


def pytorch():
    import torch

    o = torch.optim
    optimizers = {
        "adamw": lambda w: o.AdamW([w], 0.0625, (0.75, 0.875), 1e-3, 0.125),
        "amsgrad": lambda w: o.Adam([w], 0.0625, (0.75, 0.875), 1e-3, amsgrad=True),
        "adamax": lambda w: o.Adamax([w], 0.0625, (0.75, 0.875), 1e-3),
        "nadam": lambda w: o.NAdam([w], 0.0625, (0.75, 0.875), 1e-3),
    }
    print(f"# Made by make_optimizer_values.py with PyTorch {torch.__version__}.")
    for name, make in optimizers.items():
        for dtype in torch.float32, torch.float64:
            torch.set_default_dtype(dtype)  # NAdam keeps a product in it
            w = torch.tensor(START, dtype=dtype, requires_grad=True)
            optimizer = make(w)
            print("dense", name, "float" if dtype == torch.float32 else "double")
            for k in range(STEPS):
                w.grad = torch.tensor(gradient(k), dtype=dtype)
                optimizer.step()
                show(w.detach().numpy())


{"tensorflow": tensorflow, "torch": pytorch}[sys.argv[1]]()
