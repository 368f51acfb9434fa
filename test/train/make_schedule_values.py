# SPDX-License-Identifier: BSL-1.0
"""Writes the values of TensorFlow's or PyTorch's schedules at some steps, for test/train/schedules.cpp to compare Weft with.

usage: PYTHON make_schedule_values.py tensorflow > tensorflow_schedule_values.txt
       PYTHON make_schedule_values.py torch > torch_schedule_values.txt

A line `schedule NAME`, then a line `STEP VALUE` for each of the steps, in float64 but for
polynomial_cycle and TensorFlow's cosines, which it computes of floats alone.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
STEPS = [0, 1, 2, 7, 9, 10, 11, 19, 20, 21, 29, 30, 31, 55, 69, 70, 71, 99, 100, 101, 149, 150, 151, 1000]


def tensorflow():
    import tensorflow as tf

    v1 = tf.compat.v1
    t = v1.train
    step = v1.placeholder(tf.int64, [])
    d = lambda x: tf.constant(x, tf.float64)  # numbers would become floats
    rate = d(0.3)
    schedules = {
        "exponential": lambda: t.exponential_decay(rate, step, 10, d(0.7)),
        "exponential_staircase": lambda: t.exponential_decay(rate, step, 10, d(0.7), staircase=True),
        "natural_exp": lambda: t.natural_exp_decay(rate, step, 10, d(0.35)),
        "natural_exp_staircase": lambda: t.natural_exp_decay(rate, step, 10, d(0.35), staircase=True),
        "inverse_time": lambda: t.inverse_time_decay(rate, step, 10, d(0.5)),
        "inverse_time_staircase": lambda: t.inverse_time_decay(rate, step, 10, d(0.5), staircase=True),
        "piecewise": lambda: t.piecewise_constant(
            step, [10, 20, 70], [d(0.5), d(0.25), d(0.1), d(0.01)]
        ),
        "polynomial": lambda: t.polynomial_decay(rate, step, 30, d(0.01), d(1.5)),
        "polynomial_cycle": lambda: t.polynomial_decay(0.3, tf.cast(step, tf.float32), 32, 0.01, 0.5, cycle=True),
        "cosine": lambda: t.cosine_decay(0.3, step, 70, 0.1),
        "cosine_restarts": lambda: t.cosine_decay_restarts(0.3, step, 10, 2.0, 0.75, 0.1),
        "cosine_restarts_even": lambda: t.cosine_decay_restarts(0.3, step, 10, 1.0, 0.5, 0.1),
    }
    print(f"# Made by make_schedule_values.py with TensorFlow {tf.__version__}.")
    with v1.Session() as session:
        for name, make in schedules.items():
            value = make()
            print("schedule", name)
            for s in STEPS:
                print(s, repr(float(session.run(value, {step: s}))))


def pytorch():
    import torch

    w = torch.zeros(1, requires_grad=True)
    lr = torch.optim.lr_scheduler
    print(f"# Made by make_schedule_values.py with PyTorch {torch.__version__}.")
    for name, more in {
        "one_cycle": {},
        "one_cycle_linear": {"anneal_strategy": "linear"},
        "one_cycle_three": {"three_phase": True, "pct_start": 0.4, "div_factor": 10, "final_div_factor": 100},
    }.items():
        optimizer = torch.optim.SGD([w], 0.1)
        schedule = lr.OneCycleLR(optimizer, 0.3, 151, cycle_momentum=False, **more)
        print("schedule", name)
        for s in range(151):
            if s in STEPS:
                print(s, repr(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            if s < 150:
                schedule.step()
    optimizer = torch.optim.SGD([w], 0.3)
    schedule = lr.CosineAnnealingWarmRestarts(optimizer, 10, 2, eta_min=0.03)
    print("schedule cosine_restarts")
    for s in STEPS:
        schedule.step(s)
        print(s, repr(optimizer.param_groups[0]["lr"]))


if sys.argv[1] == "tensorflow":
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    tensorflow()
else:
    pytorch()
