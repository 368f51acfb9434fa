# SPDX-License-Identifier: BSL-1.0
"""Writes norm_values.txt: what LARS (You, Gitman and Ginsburg 2017, algorithm 1) and LAMB (You et al. 2020, algorithm 2)
make of a variable in 50 steps, for test/train/all_optimizers.cpp to compare with. In float64.

usage: make_norm_values.py
"""
import os

import numpy

SIZES = numpy.array([1, 2.0 ** -10, 2.0 ** 6, 2.0 ** -20])


def gradient(step):
    i = numpy.arange(4)
    return numpy.where((step + i) % 7 == 3, 0, ((step * 7919 + i * 31) % 257 - 128) / 64 * SIZES)


def lars(steps, rate=0.5, momentum=0.75, decay=0.125, trust=0.25):
    w, v = numpy.array([1, -0.5, 3, 0.25]), numpy.zeros(4)
    for step in range(steps):
        g = gradient(step)
        length, slope = numpy.linalg.norm(w), numpy.linalg.norm(g)
        local = trust * length / (slope + decay * length)
        v = momentum * v + rate * local * (g + decay * w)
        w = w - v
        yield w


def lamb(steps, rate=0.125, beta1=0.75, beta2=0.875, epsilon=1e-3, decay=0.125):
    w, m, v = numpy.array([1, -0.5, 3, 0.25]), numpy.zeros(4), numpy.zeros(4)
    for step in range(steps):
        g = gradient(step)
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        mean, square = m / (1 - beta1 ** (step + 1)), v / (1 - beta2 ** (step + 1))
        r = mean / (numpy.sqrt(square) + epsilon) + decay * w
        w = w - rate * numpy.linalg.norm(w) / numpy.linalg.norm(r) * r
        yield w


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "norm_values.txt"), "w") as out:
    for rule in [lars, lamb]:
        print(rule.__name__, file=out)
        for values in rule(50):
            print(*(repr(float(x)) for x in values), file=out)
