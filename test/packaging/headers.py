"""Checks that every header compiles alone, without a warning.

usage: headers.py INCLUDE_DIR COMPILER [FLAG...]
"""
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

root, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def check(header):
    # As an included file: a header given as the main file is warned about for its #pragma once.
    source = f"#include <{header.relative_to(root)}>\n"
    run = subprocess.run([compiler, *flags, *warnings, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return header, run


headers = sorted(root.rglob("*.hpp"))
with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
    failed = [(header, run.stdout) for header, run in pool.map(check, headers) if run.returncode]
for header, output in failed:
    print(f"{header} does not compile alone with {compiler}:\n{output}")
print(f"{len(headers)} headers, {len(failed)} of them faulty")
sys.exit(1 if failed or not headers else 0)
