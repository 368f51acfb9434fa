# SPDX-License-Identifier: BSL-1.0
"""Checks that a model of one epoch is frozen, compiled and embedded, and what the program says when something is wrong.

usage: embed.py PROGRAM
"""
import re

from checks import faults, finish, refused, run

refused(["failed:", "no-such-compiler"], "--epochs", "0", "--compiler", "no-such-compiler", seconds=120)
done, took = run("--epochs", "1", "--seed", "2", seconds=300)
print(f"{took:5.2f} s\n{done and done.stdout}", end="")
said = done and re.search(r"float: (\d+) bytes, test accuracy (0\.\d+).*\n.*\nint8:  (\d+) bytes, test accuracy (0\.\d+)", done.stdout)
if not said or done.returncode:
    faults.append(f"{done}")
elif int(said[1]) > 130_000 or int(said[3]) >= int(said[1]) or float(said[2]) < 0.75 or abs(float(said[2]) - float(said[4])) > 0.02:
    faults.append(f"an unlikely result: {done.stdout}")
elif len(re.findall(r"latency of an image: p50 [\d.]+ us, p99 [\d.]+ us, p99.9 [\d.]+ us", done.stdout)) != 2:
    faults.append(f"no latencies: {done.stdout}")
finish()
