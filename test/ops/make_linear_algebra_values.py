# SPDX-License-Identifier: BSL-1.0
"""Writes what NumPy makes of matrices at random: linear_algebra_values.txt, beside this file.

Of each case: "case", how many matrices, their extent, how many right sides; then the matrices, the right sides, the
inverses, the determinants, and the solutions of a x = b and of a' x = b, a line each. The numbers are exact.
"""
import pathlib

import numpy

random = numpy.random.default_rng(7)
lines = [f"# Made by make_linear_algebra_values.py with NumPy {numpy.__version__}."]
for count, n, m in [(1, 1, 1), (3, 2, 1), (2, 3, 4), (4, 4, 2), (1, 5, 3), (2, 9, 1)]:
    # Whole numbers over 8, which float has too.
    a = random.integers(-16, 17, (count, n, n)) / 8 + 2 * numpy.eye(n)[random.permutation(n)]
    b = random.integers(-16, 17, (count, n, m)) / 8
    assert numpy.linalg.cond(a).max() < 200, (n, numpy.linalg.cond(a))
    lines.append(f"case {count} {n} {m}")
    for values in [a, b, numpy.linalg.inv(a), numpy.linalg.det(a), numpy.linalg.solve(a, b),
                   numpy.linalg.solve(a.transpose(0, 2, 1), b)]:
        lines.append(" ".join(float(x).hex() for x in values.ravel()))
pathlib.Path(__file__).with_name("linear_algebra_values.txt").write_text("\n".join(lines) + "\n")
