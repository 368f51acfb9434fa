"""Checks what a compiler says to one mistake.

usage: check.py PROGRAM.cpp COMPILER... -- [FLAG...]

The program has one mistake, under `#ifdef WEFT_SHOULD_FAIL`: without the macro it must compile, with it it must not. Its
comments say what the diagnostics must be:
  // error: REGEX             found in the output of every compiler; all such lines must be
  // error(clang++): REGEX    the same, of one compiler (its program's name, without a version)
  // max-lines: N             the output has at most so many lines (7 unless said), not counting where headers were included
"""
import os
import re
import subprocess
import sys

program = sys.argv[1]
split = sys.argv.index("--")
compilers, flags = sys.argv[2:split], sys.argv[split + 1:]
text = open(program).read()
expected = re.findall(r"^\s*// error(?:\(([^)]+)\))?: (.+?)\s*$", text, re.M)
limit = int((re.search(r"^\s*// max-lines: (\d+)", text, re.M) or [0, 7])[1])
faults = []

if "WEFT_SHOULD_FAIL" not in text or not expected or not compilers:
    sys.exit(f"{program}: needs a variant under WEFT_SHOULD_FAIL, at least one '// error: REGEX', and a compiler to ask")


def compile(compiler, *more):
    # The user's plain command line; only the language of the messages and their colours are fixed.
    return subprocess.run([compiler, *flags, *more, "-fsyntax-only", program], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C", "GCC_COLORS": ""})


for compiler in compilers:
    name = re.sub(r"-\d+$", "", os.path.basename(compiler))
    right, wrong = compile(compiler), compile(compiler, "-DWEFT_SHOULD_FAIL")
    if right.returncode:
        faults.append(f"{name} refuses the program without its mistake:\n{right.stdout}")
    if not wrong.returncode:
        faults.append(f"{name} accepts the program with its mistake")
        continue
    for only, regex in expected:
        if only in ("", name) and not re.search(regex, wrong.stdout):
            faults.append(f"{name} does not say /{regex}/:\n{wrong.stdout}")
    # Clang closes with a count of errors, which is no part of the diagnostics.
    # Through which files a header was reached is the program's affair, and no part of it either.
    extra = re.compile(r"\d+ errors? generated\.|In file included from .*|\s+from .*[:,]")
    lines = sum(not extra.fullmatch(line) for line in wrong.stdout.splitlines())
    if lines > limit:
        faults.append(f"{name} prints {lines} lines, {limit} at most are allowed:\n{wrong.stdout}")
    print(f"--- {name}, {lines} lines ---\n{wrong.stdout}")

print("\n".join(faults))
sys.exit(1 if faults else 0)
