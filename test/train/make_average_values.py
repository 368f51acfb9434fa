# SPDX-License-Identifier: BSL-1.0
"""Writes average_values.txt: what TensorFlow's moving averages and loss scales, and PyTorch's GradScaler, do, for
test/train/averages_and_scales.cpp to compare Weft with.

usage: PYTHON make_average_values.py tensorflow > average_values.txt; PYTHON make_average_values.py torch >> average_values.txt
       each with a PYTHON that has the library

`average COUNTED DEBIASED`, then for each of 30 steps of gradient descent a line: the average of a variable of 4 floats.
`scale LIBRARY INTERVAL`, then for each of 40 steps a line: whether its gradients are finite, the scale and the good steps
after it.
"""
import os
import sys

STEPS, DECAY, RATE = 30, 0.9, 0.25


def gradient(step):
    """As test/train/fed_gradients.hpp has it."""
    sizes = [1, 2.0**-10, 2.0**6, 2.0**-20]
    return [0 if (step + i) % 7 == 3 else ((step * 7919 + i * 31) % 257 - 128) / 64 * sizes[i] for i in range(4)]


def finite(step):
    return step % 11 != 4 and step not in range(20, 28)


def hexes(values):
    return " ".join(float(x).hex() for x in values)


def averages(tf, counted, debiased):
    from tensorflow.python.training import moving_averages

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        w = tf.Variable([1, -0.5, 3, 0.25], dtype=tf.float32)
        x = v1.placeholder(tf.float32, [4])
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(w * x), step)
        with tf.control_dependencies([train]):
            if debiased:  # ExponentialMovingAverage has zero_debias for tensors alone
                average = v1.get_variable("average", [4], initializer=v1.zeros_initializer())
                run = moving_averages.assign_moving_average(average, w.read_value(), DECAY, zero_debias=True)
            else:
                ema = v1.train.ExponentialMovingAverage(DECAY, step if counted else None)
                run = ema.apply([w])
                average = ema.average(w)
        session.run(v1.global_variables_initializer())
        print("average", int(counted), int(debiased))
        for t in range(STEPS):
            session.run(run, {x: gradient(t)})
            print(hexes(session.run(average)))


def tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    v1 = tf.compat.v1
    print(f"# Made by make_average_values.py with TensorFlow {tf.__version__}.")
    for counted, debiased in (False, False), (True, False), (False, True):
        averages(tf, counted, debiased)
    for interval in 1, 3:
        with tf.Graph().as_default(), v1.Session() as session:
            scale = v1.mixed_precision.DynamicLossScale(8, interval, 2)
            x = v1.placeholder(tf.float32, [2])
            run, _ = scale.update([x])
            session.run(v1.global_variables_initializer())
            print("scale tensorflow", interval)
            for t in range(40):
                session.run(run, {x: [1, 1 if finite(t) else float("inf")]})
                print(int(finite(t)), *(int(session.run(v)) for v in (scale._current_loss_scale, scale._num_good_steps)))


def torch():
    import torch as pytorch

    print(f"# With PyTorch {pytorch.__version__}.")
    for interval in 1, 3:
        scaler = pytorch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=interval)
        w = pytorch.ones(2, requires_grad=True)
        optimizer = pytorch.optim.SGD([w], 0.1)
        print("scale torch", interval)
        for t in range(40):
            optimizer.zero_grad()
            scaler.scale((w * pytorch.tensor([1, 1 if finite(t) else float("inf")])).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            print(int(finite(t)), int(scaler.get_scale()), scaler.state_dict()["_growth_tracker"])


{"tensorflow": tensorflow, "torch": torch}[sys.argv[1]]()
