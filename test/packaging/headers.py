"""Checks that every header compiles without a warning: alone, or all of them together, in order and backwards.

What a header forgets to include is the same whichever compiler says so: one is asked about each header alone, which takes
minutes, the others about all together. A header that another one includes before anything else is alone there.

Headers that need CUDA's are passed over unless a flag is -DWEFT_HAS_CUDA=1.

usage: headers.py INCLUDE_DIR alone|together COMPILER [FLAG...]
"""
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

root, how, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def check(listed):
    # As included files: a header given as the main file is warned about for its #pragma once.
    source = "".join(f"#include <{header.relative_to(root)}>\n" for header in listed)
    run = subprocess.run([compiler, *flags, *warnings, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return listed, run


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


def first_include(header):
    found = re.search(r'^\s*#\s*include\s*<([^>]+)>', header.read_text().split("#if")[0], re.M)
    return found and root / found.group(1)


has_cuda = "-DWEFT_HAS_CUDA=1" in flags
headers = [header for header in sorted(root.rglob("*.hpp"))
           if header.name != "source.hpp" and (has_cuda or not needs_cuda(header))]
source = [root / "weft/source.hpp"]  # comes before all others
begins = {first_include(header) for header in headers}
units = ([[header] for header in headers if header not in begins] + [source] if how == "alone"
         else [source + headers, headers[::-1]])
with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
    failed = [(listed, run.stdout) for listed, run in pool.map(check, units) if run.returncode]
for listed, output in failed:
    print(f"{listed[0]} {'does' if len(listed) == 1 else 'and others do'} not compile with {compiler}:\n{output}")
print(f"{len(headers)} headers, {len(failed)} of {len(units)} files faulty")
sys.exit(1 if failed or not headers else 0)
