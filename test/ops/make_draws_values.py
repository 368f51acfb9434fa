# SPDX-License-Identifier: BSL-1.0
"""Writes quantiles of distributions by SciPy: draws_values.txt, beside this file. Each line is a name and the numbers that
divide the distribution into ten parts of equal probability; for discrete distributions, the probabilities of 0, 1, ...
and of all larger numbers.
"""
import pathlib

import numpy
import scipy
from scipy import stats

lines = [f"# Made by make_draws_values.py with SciPy {scipy.__version__}."]
tenths = numpy.arange(1, 10) / 10
for a in [0.05, 0.5, 1, 4.5, 250]:
    lines.append(" ".join([f"gamma_{a:g}", *(f"{q:.10g}" for q in stats.gamma(a).ppf(tenths))]))
lines.append(" ".join(["exponential", *(f"{q:.10g}" for q in stats.expon().ppf(tenths))]))
lines.append(" ".join(["truncated_normal", *(f"{q:.10g}" for q in stats.truncnorm(-2, 2).ppf(tenths))]))
for rate, bins in [(0.3, 4), (9.5, 20), (10.5, 22), (400, 460)]:
    p = stats.poisson(rate).pmf(numpy.arange(bins))
    lines.append(" ".join([f"poisson_{rate:g}", *(f"{q:.10g}" for q in [*p, 1 - p.sum()])]))
pathlib.Path(__file__).with_name("draws_values.txt").write_text("\n".join(lines) + "\n")
