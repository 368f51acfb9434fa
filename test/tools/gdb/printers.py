# SPDX-License-Identifier: BSL-1.0
"""Checks what gdb prints of a program's values by tools/gdb/weft.py; skipped (77) without gdb, or where it may not trace.

usage: printers.py PRINTERS.py PROGRAM STOP.cpp
"""
import pathlib
import re
import shutil
import subprocess
import sys

EXPECTED = {
    "matrix": "tensor<float> [2, 3] = {1, 2, 3, 4, 5, 6.5}",
    "number": "tensor<long> [] = {7}",
    "halves": "tensor<half> [2] = {0.5, -2}",
    "brains": "tensor<bfloat16> [1] = {1.5}",
    "flags": "tensor<bool> [2] = {true, false}",
    "view": "tensor_view<float> [2, 3] = {1, 2, 3, 4, 5, 6.5}",
    "extents": "[3, 784]",
    "none": "[]",
    "images": 'node<float, [batch, 784]> "images"',
    "weights": 'variable<float, [784, 10]> "weights"',
    "logits": 'node<float, [batch, 10]> "logits"',
    "unset": "node, empty",
    "ended": "node, its graph no longer exists",
    "erased": 'symbol<float, [batch, 10]> "logits"',
}
PATTERNS = {"train": r'effect "\S+"', "batches": r"\[(batch|\?), 10\]"}  # clang 14 writes `{}` for the name of an extent

printers, program, source = sys.argv[1:]
if not shutil.which("gdb"):
    print("skipped: no gdb")
    sys.exit(77)
line = next(i for i, text in enumerate(pathlib.Path(source).read_text().splitlines(), 1) if "// here" in text)
names = [*EXPECTED, *PATTERNS]
commands = [f"source {printers}", f"break {pathlib.Path(source).name}:{line}", "run"]
for name in names: commands += [f"echo \\n@{name}=", f"print {name}"]
run = subprocess.run(["gdb", "--batch", "--nx", *(word for c in commands for word in ("-ex", c)), program], text=True,
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
if re.search(r"ptrace: Operation not permitted|Could not trace the inferior|Python scripting is not supported", run.stdout):
    print("skipped: gdb cannot run a program here, or has no Python")
    sys.exit(77)
said = dict(re.findall(r"^@(\w+)=\$\d+ = (.*)$", run.stdout, re.M))
faults = [f"{name}: gdb prints {said.get(name)!r}, not {text!r}" for name, text in EXPECTED.items() if said.get(name) != text]
faults += [f"{name}: gdb prints {said.get(name)!r}, not {regex}" for name, regex in PATTERNS.items()
           if not re.fullmatch(regex, said.get(name, ""))]
print("\n".join(faults) or f"{len(names)} values")
if faults: print(run.stdout)
sys.exit(bool(faults))
