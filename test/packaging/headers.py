"""Checks that every header compiles alone, without a warning.

Headers that need CUDA's are passed over unless a flag is -DWEFT_HAS_CUDA=1.

usage: headers.py INCLUDE_DIR COMPILER [FLAG...]
"""
import os
import pathlib
import re
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


CUDA = {"cuda_runtime_api.h", "cublasLt.h", "cudnn.h", "nccl.h"}
names = {}


def needs_cuda(header):
    """Whether a header includes one of CUDA's, itself or through others of Weft's."""
    name = str(header.relative_to(root))
    if name not in names:
        names[name] = False                               # until known, for headers that include each other
        included = re.findall(r'^\s*#\s*include\s*<([^>]+)>', header.read_text(), re.M)
        names[name] = any(i in CUDA or ((root / i).is_file() and needs_cuda(root / i)) for i in included)
    return names[name]


has_cuda = "-DWEFT_HAS_CUDA=1" in flags
headers = [header for header in sorted(root.rglob("*.hpp")) if has_cuda or not needs_cuda(header)]
with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
    failed = [(header, run.stdout) for header, run in pool.map(check, headers) if run.returncode]
for header, output in failed:
    print(f"{header} does not compile alone with {compiler}:\n{output}")
print(f"{len(headers)} headers, {len(failed)} of them faulty")
sys.exit(1 if failed or not headers else 0)
