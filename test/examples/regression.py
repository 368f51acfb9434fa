"""Checks that a regression program comes to the coefficients of its own data, which this solves for itself, and what it says
and returns when something is wrong.

usage: regression.py PROGRAM PENALTY
"""
import csv
import json
import os
import sys
import tempfile
from fractions import Fraction

from checks import faults, finish, refused, run

penalty = float(sys.argv[2])


def least_squares(rows, targets):
    """X'X w + n P w = X'y, in fractions: no rounding."""
    n = len(rows[0])
    matrix = [[sum(r[i] * r[j] for r in rows) for j in range(n)] + [sum(r[i] * y for r, y in zip(rows, targets))]
              for i in range(n)]
    for i in range(1, n):
        matrix[i][i] += Fraction(penalty) * len(rows)
    for i in range(n):
        for k in range(n):
            if k != i:
                factor = matrix[k][i] / matrix[i][i]
                matrix[k] = [a - factor * b for a, b in zip(matrix[k], matrix[i])]
    return [float(matrix[i][n] / matrix[i][i]) for i in range(n)]


with tempfile.TemporaryDirectory() as folder:
    result, data = os.path.join(folder, "result.json"), os.path.join(folder, "data.csv")
    for flags in ((), ("--seed", "2", "--examples", "333")):
        done, took = run(*flags, "--json", result, "--data", data)
        if done is None or done.returncode:
            faults.append(f"{flags}: {done}")
            continue
        print(f"{took:5.2f} s  {' '.join(flags)}\n{done.stdout}")
        with open(data, newline="") as lines:
            table = [[Fraction(float(x)) for x in row] for row in list(csv.reader(lines))[1:]]
        rows, targets = [[Fraction(1)] + row[:5] for row in table], [row[5] for row in table]
        right = least_squares(rows, targets)
        with open(result) as lines:
            found = json.load(lines)
        for way, most in (("closed form", 1e-9), ("batch descent", 1.1e-6), ("mini-batch descent", 0.0101),
                          ("stochastic descent", 0.0101)):
            away = max(abs(a - b) for a, b in zip(found[way]["coefficients"], right))
            if not away <= most:
                faults.append(f"{flags}, {way}: {away} away from {right}")
        if found["closed form"]["loss"] > min(found[way]["loss"] for way in found) * (1 + 1e-12):
            faults.append(f"{flags}: the closed form is not the least: {found}")
    os.remove(result)
    refused(["batch descent", "more than 1e-06", "--epochs"], "--epochs", "3", "--json", result)
    if not os.path.exists(result):
        faults.append("a run that did not converge has no result")

refused(["no/such/folder/result.json"], "--json", "/no/such/folder/result.json")
refused(["no/such/folder/data.csv"], "--data", "/no/such/folder/data.csv")
refused(["--examples", "from 100 to"], "--examples", "5")
refused(["--epochs", "0"], "--epochs", "0")
refused(["--penalty"], "--penalty", "-1" if penalty else "1")
refused(["surplus"], "surplus")
finish()
