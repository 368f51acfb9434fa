# SPDX-License-Identifier: BSL-1.0
"""Holds what programs cost a compiler, in numbers that are the same on every machine.

usage: ledger.py INCLUDE_DIR PROGRAMS LEDGER [--write]

For each program of PROGRAMS, bench/compiled_programs.py, plain, as a file of weft::compiled, or both: bytes of code in its
object file and functions there (g++ -O2), preprocessed lines, and instantiations of functions and of classes (clang). LEDGER is the file of
those numbers. A number that is more than 3 % above, or below, the file's is a fault: a change that means it writes the file
anew with --write, and its commit says why. Compilers other than the file names are not held: exit status 77.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

include, programs, ledger = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(programs.parent))
from compiled_programs import CLUSTER, INCLUDE, LENET, MNIST, READER, distinct_units, many_nodes

PROGRAMS = {"include": INCLUDE, "model": MNIST, "model_and_reader": READER, "lenet": LENET}
# What a program of many nodes and shapes adds is the same both ways, and costs less to measure as a file of weft::compiled.
SEPARATE_PROGRAMS = {"nodes_1000": many_nodes(1000), "units_10": distinct_units(10), "units_40": distinct_units(40),
                     "cluster": CLUSTER}
SEPARATE = ["-DWEFT_SEPARATE_COMPILATION", "-DWEFT_SEPARATE_DISTRIBUTED"]
COLUMNS = ["text", "functions", "lines", "function_instantiations", "class_instantiations"]


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def version(compiler):
    try:
        return re.search(r"\d+", output(compiler, "-dumpversion"))[0]
    except OSError:
        return None


def count(source, flags, folder):
    program, object_file = folder / "program.cpp", folder / "program.o"
    program.write_text(source)
    command = ["-std=c++20", f"-I{include}", *flags]
    subprocess.run(["g++", *command, "-O2", "-c", program, "-o", object_file], check=True)
    sections = [line.split() for line in output("size", "-A", object_file).splitlines()]
    text = sum(int(row[1]) for row in sections if row and row[0].startswith(".text"))
    functions = sum(row.split()[-2] in "tTwW" for row in output("nm", "--defined-only", object_file).splitlines())
    lines = len(output("g++", *command, "-E", "-P", program).splitlines())
    trace = folder / "program.json"
    subprocess.run(["clang++", *command, "-O0", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", program, "-o",
                    folder / "program.bc", "-ftime-trace", "-ftime-trace-granularity=0"], check=True)
    events = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
    return [text, functions, lines, events.count("InstantiateFunction"), events.count("InstantiateClass")]


here = f"g++ {version('g++')}, clang {version('clang++')}"
known = {}
if ledger.exists():
    heading, *rows = [row.split() for row in ledger.read_text().splitlines() if row and not row.startswith("#")]
    known = {row[0]: list(map(int, row[1:])) for row in rows}
    measured_by = re.search(r"^# Measured by (.+)\.$", ledger.read_text(), re.M)[1]
    if "--write" not in sys.argv and measured_by != here:
        print(f"skipped: the ledger was measured by {measured_by}, and these are {here}")
        sys.exit(77)

table, faults = {}, 0
with tempfile.TemporaryDirectory() as folder:
    rows = [(name, source, []) for name, source in PROGRAMS.items()]
    rows += [(f"{name}.compiled", source, SEPARATE) for name, source in {**PROGRAMS, **SEPARATE_PROGRAMS}.items()]
    for name, source, flags in sorted(rows, key=lambda row: row[0]):
        numbers = table[name] = count(source, flags, pathlib.Path(folder))
        for column, number, before in zip(COLUMNS, numbers, known.get(name, numbers)):
            # So small numbers that one function is more than 3 %.
            if abs(number - before) > max(0.03 * before, 10):
                faults += 1
                print(f"{name}: {column} was {before} and is {number}, {100 * (number / max(before, 1) - 1):+.1f} %")
if "--write" in sys.argv:
    rows = [["program", *COLUMNS], *([name, *map(str, numbers)] for name, numbers in table.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    ledger.write_text(f"# What programs cost a compiler: see ledger.py.\n# Measured by {here}.\n" +
                      "".join("  ".join(f"{cell:>{width}}" if i else f"{cell:<{width}}"
                                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip() + "\n" for row in rows))
elif faults:
    print("A change that means to cost this runs ledger.py with --write, and its commit says why.")
print(f"{len(table)} programs, {faults} numbers off by more than 3 %")
sys.exit(1 if faults and "--write" not in sys.argv else 0)
