# SPDX-License-Identifier: BSL-1.0
"""Checks that the gallery's programs compute from PyTorch's first weights what PyTorch's modules compute, and that they
run without weights too. One that draws random numbers learns as much as it should.

usage: gallery.py FOLDER       (the folder of the programs)

gallery/expected.json has the lines that gallery/make_values.py would print in their place.
"""
import glob
import json
import math
import os
import re
import subprocess
import sys

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gallery")
sources = os.path.join(here, "..", "..", "..", "examples", "gallery", "*.cpp")
number = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|-?nan|-?inf")
measured = re.compile(r"\d+\.\d+ us per ")
faults = []
# The last line of a program that draws random numbers begins so, and has at least this number in it.
learnt = {"policy": (re.compile(r"episode 500: stands for (\d+) steps$"), 150)}


def lines_of(*command):
    """What the program prints, without what it measures."""
    try:
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    except subprocess.TimeoutExpired:
        faults.append(f"{' '.join(command)}: still runs after 60 s")
        return []
    if done.returncode or done.stderr:
        faults.append(f"{' '.join(command)}: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
    return [line for line in done.stdout.splitlines() if not measured.match(line)]


def agree(line, expected):
    """Whether the words are the same, and the numbers nearly."""
    return number.sub("#", line) == number.sub("#", expected) and all(
        math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=2e-6)
        for a, b in zip(number.findall(line), number.findall(expected)))


with open(os.path.join(here, "expected.json")) as file:
    expected = json.load(file)
names = sorted(os.path.splitext(os.path.basename(source))[0] for source in glob.glob(sources))
if names != sorted([*expected, *learnt]):
    faults.append(f"programs: {names}, but results are known of {sorted([*expected, *learnt])}")
for name in names:
    program = os.path.join(sys.argv[1], name)
    if name in learnt:
        pattern, least = learnt[name]
        said = lines_of(program)
        last = pattern.match(said[-1]) if said else None
        if not last or int(last[1]) < least:
            faults.append("\n  ".join([f"{name} does not reach {least}:", *said]))
        print(f"{name}: {said[-1:]}")
        continue
    said, wanted = lines_of(program, os.path.join(here, f"{name}.safetensors")), expected.get(name, [])
    if len(said) != len(wanted) or not all(map(agree, said, wanted)):
        faults.append("\n  ".join([f"{name} prints", *said, "where PyTorch has", *wanted]))
    with_random_weights = lines_of(program)
    if len(with_random_weights) != len(wanted) or "nan" in " ".join(with_random_weights):
        faults.append("\n  ".join([f"{name} without weights prints", *with_random_weights]))
    print(f"{name}: {len(said)} lines compared")

for fault in faults:
    print(f"error: {fault}")
sys.exit(bool(faults))
