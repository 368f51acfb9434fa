# SPDX-License-Identifier: BSL-1.0
"""Checks that the network learns to write down tones that are easy to hear, and what the program says when something is
wrong.

usage: speech_ctc.py PROGRAM
"""
import re

from checks import faults, finish, refused, run

refused(["--steps", "from 1 to"], "--steps", "0")
refused(["--noise", "above 0"], "--noise", "0")
help_text, _ = run("--help")
for flag in ("noise", "steps", "batch_size", "tests", "learning_rate", "threads", "seed", "most_distance"):
    if f"--{flag}" not in help_text.stdout:
        faults.append(f"--help does not name --{flag}")

flags = ("--noise", "0.1", "--learning_rate", "0.01", "--tests", "50", "--threads", "1")
done, took = run(*flags, "--steps", "250", "--most_distance", "0.1", seconds=200)
if done is not None:
    print(f"{took:5.2f} s\n{done.stdout}", end="")
    if done.returncode or done.stdout.count("is heard as") != 4 or "edit distance 0.0" not in done.stdout:
        faults.append(f"returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
results = [re.findall("cost .*|edit distance .*", run(*flags, "--steps", "3", "--seed", seed, seconds=60)[0].stdout)
           for seed in ("1", "1", "2")]
if results[0] != results[1] or results[0] == results[2]:
    faults.append(f"equal seeds give equal results, and different seeds others: {results}")
refused(["edit distance", "too much"], *flags, "--steps", "1", "--most_distance", "0.1", seconds=60)
finish()
