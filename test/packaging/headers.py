"""Checks that every header compiles without a warning: alone, or all of them together, in order and backwards.

What a header forgets to include is the same whichever compiler says so: one is asked about each header alone, which takes
minutes, the others about all together. A header that another one includes before anything else is alone there.
Clang reads what many headers include in precompiled form, where that is all the same: a header that includes another one,
by itself or through others, sees no more of it that way, and the precompiled one was alone when it was compiled.

Headers that need CUDA's are passed over unless a flag is -DWEFT_HAS_CUDA=1.

usage: headers.py INCLUDE_DIR alone|together COMPILER [FLAG...]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

root, how, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


# Each includes a good deal more than the one before it.
PRECOMPILED = ["weft/device/kernel.hpp", "weft/ops/operation.hpp", "weft/ops/lowering.hpp", "weft/graph/graph.hpp",
               "weft/distributed/messages.hpp", "weft/transport/tcp.hpp", "weft/distributed/parameter_client.hpp"]


def check(listed, *more):
    # As included files: a header given as the main file is warned about for its #pragma once.
    source = "".join(f"#include <{header.relative_to(root)}>\n" for header in listed)
    what = more or ["-fsyntax-only", "-x", "c++"]
    run = subprocess.run([compiler, *flags, *warnings, *what, "-"], input=source, text=True,
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


reached = {}


def reach(name):
    """What a header of Weft includes whatever is defined, itself or through others."""
    if name not in reached:
        reached[name] = set()                                 # until known, for headers that include each other
        text = (root / name).read_text().split("#if")[0]
        for included in re.findall(r'^\s*#\s*include\s*<(weft/[^>]+)>', text, re.M):
            reached[name] = reached[name] | {included} | reach(included)
    return reached[name]


def alone(header, folder):
    """Checks one header with the largest precompiled one that it includes."""
    last = [name for name in PRECOMPILED if name in reach(str(header.relative_to(root))) and file_of(name, folder).exists()]
    return check([header], *(["-fsyntax-only", "-x", "c++", "-include-pch", file_of(last[-1], folder)] if last else []))


def file_of(name, folder):
    return pathlib.Path(folder) / name.replace("/", "_")


has_cuda = "-DWEFT_HAS_CUDA=1" in flags
headers = [header for header in sorted(root.rglob("*.hpp"))
           if header.name != "source.hpp" and (has_cuda or not needs_cuda(header))]
source = [root / "weft/source.hpp"]  # comes before all others
with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
    if how == "alone":
        names_first = PRECOMPILED if "clang" in pathlib.Path(compiler).name else []
        precompiled = [root / name for name in names_first if (root / name) in headers]
        begins = {first_include(header) for header in headers} | set(precompiled)
        runs = list(pool.map(lambda header: check([header], "-Xclang", "-fpch-instantiate-templates", "-x", "c++-header",
                                                  "-o", file_of(str(header.relative_to(root)), folder)), precompiled))
        runs += pool.map(lambda header: alone(header, folder), [h for h in headers if h not in begins] + source)
    else:
        runs = list(pool.map(check, [source + headers, headers[::-1]]))
failed = [(listed, run.stdout) for listed, run in runs if run.returncode]
for listed, output in failed:
    print(f"{listed[0]} {'does' if len(listed) == 1 else 'and others do'} not compile with {compiler}:\n{output}")
print(f"{len(headers)} headers, {len(failed)} of {len(runs)} files faulty")
sys.exit(1 if failed or not headers else 0)
