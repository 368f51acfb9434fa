# SPDX-License-Identifier: BSL-1.0
"""Checks that the network with edges finds the communities of a small graph, that the one without does not, and what the
program says when something is wrong.

usage: graph_nodes.py PROGRAM
"""
import re

from checks import faults, finish, refused, run

refused(["--nodes", "from 50 to"], "--nodes", "0")
refused(["--noise", "above 0"], "--noise", "0")
help_text, _ = run("--help")
for flag in ("nodes", "noise", "steps", "learning_rate", "threads", "seed", "least_accuracy"):
    if f"--{flag}" not in help_text.stdout:
        faults.append(f"--help does not name --{flag}")

flags = ("--nodes", "1200", "--steps", "100", "--threads", "1")
done, took = run(*flags, "--least_accuracy", "0.85", seconds=60)
said = done and re.search(r"test accuracy (0\.\d+|1\.0+) with edges, (0\.\d+) without", done.stdout)
print(f"{took:5.2f} s\n{done and done.stdout}", end="")
if not said or done.returncode or float(said[1]) < 0.85 or float(said[2]) > 0.6:
    faults.append(f"{done}")
again, _ = run(*flags, seconds=60)
other, _ = run(*flags, "--seed", "2", seconds=60)
results = [each and re.findall(r"cost .*|test accuracy .*", each.stdout) for each in (done, again, other)]
if results[0] != results[1] or results[0] == results[2]:
    faults.append(f"equal seeds give equal results, and different seeds others: {results}")
refused(["test accuracy", "below 0.99"], *flags[:2], "--steps", "1", "--least_accuracy", "0.99", seconds=60)
finish()
