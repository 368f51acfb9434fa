# SPDX-License-Identifier: BSL-1.0
"""Checks that descent reaches the coefficients of the normal equations, and that the program says where it does not.

usage: regression.py PROGRAM
"""
import os
import re

from checks import faults, finish, program, refused, run

ridge = os.path.basename(program) == "ridge_regression"
for flags in ((), ("--seed", "7", "--examples", "300"), ("--noise", "3")):
    done, _ = run(*flags)
    if done is None:
        continue
    print(done.stdout, end="")
    rows = {line[:18].strip(): [float(n) for n in re.findall(r"-?\d+\.\d{4}\b", line)]
            for line in done.stdout.splitlines() if re.match(r"(normal|batch|mini|stoch)", line)}
    if done.returncode or len(rows) != 4 or any(len(w) != 8 for w in rows.values()):
        faults.append(f"{flags}: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
        continue
    exact = rows["normal equations"]
    for name, found in rows.items():
        if max(abs(a - b) for a, b in zip(exact, found)) > 0.005:
            faults.append(f"{flags}: {name} has found {found}, not {exact}")
if ridge:
    refused(["--penalty"], "--penalty", "-1")
    done, _ = run("--penalty", "10")  # the curvature is beyond what the rates are for
    if done is not None and (done.returncode == 0 or "did not reach" not in done.stderr):
        faults.append(f"--penalty 10: returned {done.returncode}, said {done.stderr!r}")
else:
    refused(["--penalty"], "--penalty", "1")
refused(["--examples", "from 100 to"], "--examples", "10")
refused(["--noise"], "--noise", "0")
refused(["surplus"], "surplus")
finish()
