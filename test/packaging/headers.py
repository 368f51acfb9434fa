# SPDX-License-Identifier: BSL-1.0
"""Checks that every header compiles without a warning: alone, or all of them together, in order and backwards.

What a header forgets to include is the same whichever compiler says so: one is asked about each header alone, which takes
minutes, the others about all together. A header that includes another one, by itself or through others, sees no more if
that one comes first. So headers are compiled in chains, and Clang reads what many of them include in precompiled form.

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


# Headers that many include. The later one of two includes more.
PRECOMPILED = ["weft/device/kernel.hpp", "weft/ops/operation.hpp", "weft/ops/lowering.hpp", "weft/graph/graph.hpp",
               "weft/distributed/cluster/messages.hpp", "weft/transport/tcp.hpp", "weft/distributed/parameter/parameter_client.hpp"]
SYNTAX = ["-fsyntax-only", "-x", "c++"]


def check(listed, how_to=SYNTAX):
    # As included files: a header given as the main file is warned about for its #pragma once.
    source = "".join(f"#include <{header.relative_to(root)}>\n" for header in listed)
    run = subprocess.run([compiler, *flags, *warnings, *how_to, "-"], input=source, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return listed, run


def includes(text):
    return re.findall(r'^\s*#\s*include\s*<([^>]+)>', text, re.M)


def sure_includes(header):
    """What it includes whatever is defined, in order."""
    return includes(header.read_text().split("#if")[0])


LIBRARIES = {"CUDA": {"cuda_runtime_api.h", "cublasLt.h", "cudnn.h", "nccl.h"}, "MPI": {"mpi.h"}}
absent = {name for library, its in LIBRARIES.items() if f"-DWEFT_HAS_{library}=1" not in flags for name in its}
names = {}


def needs_absent(header):
    """Whether a header includes one of a library that is not here, itself or through others of Weft's."""
    name = str(header.relative_to(root))
    if name not in names:
        names[name] = False                               # until known, for headers that include each other
        names[name] = any(i in absent or ((root / i).is_file() and needs_absent(root / i))
                          for i in includes(header.read_text()))
    return names[name]


reached = {}


def reach(header):
    """The headers of Weft that it includes whatever is defined, itself or through others."""
    if header not in reached:
        reached[header] = set()                               # until known, for headers that include each other
        for included in [root / name for name in sure_includes(header) if name.startswith("weft/")]:
            reached[header] = reached[header] | {included} | reach(included)
    return reached[header]


def chains(headers):
    """The headers in as few lists as there can be in which each one includes those before it, by itself or through others
    (Dilworth's theorem): one that follows them sees no more than alone."""
    after = {}                                                # by header: the next one of its chain

    def extend(header, tried):
        for lower in reach(header) & headers - tried:
            tried.add(lower)
            if lower not in after or extend(after[lower], tried):
                after[lower] = header
                return True
        return False

    for header in sorted(headers):
        extend(header, set())
    for first in sorted(headers - set(after.values())):
        chain = [first]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        yield chain


def check_alone(headers):
    large = [root / name for name in PRECOMPILED] if "clang" in pathlib.Path(compiler).name else []
    included = {header: [each for each in large if each in reach(header)][-1:] for header in headers}
    groups = [(before, chain) for before in [[], *([each] for each in large)]
              for chain in chains({header for header in headers if included[header] == before})]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        def file_of(header):
            return pathlib.Path(folder) / str(header.relative_to(root)).replace("/", "_")

        def precompile(header):
            return check([header], ["-Xclang", "-fpch-instantiate-templates", "-x", "c++-header", "-o", file_of(header)])

        def check_chain(group):
            before, chain = group
            ready = [file_of(each) for each in before if file_of(each).exists()]
            return check(chain, SYNTAX + [flag for file in ready for flag in ("-include-pch", file)])

        return [*pool.map(precompile, large), *pool.map(check_chain, [*groups, ([], source)])]


headers = [header for header in sorted(root.rglob("*.hpp"))
           if header.name != "source.hpp" and not needs_absent(header)]
source = [root / "weft/source.hpp"]  # comes before all others
if how == "alone":
    runs = check_alone(headers)
else:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(check, [source + headers, headers[::-1]]))
failed = [(listed, run.stdout) for listed, run in runs if run.returncode]
for listed, output in failed:
    print(f"{listed[0]} {'does' if len(listed) == 1 else 'and others do'} not compile with {compiler}:\n{output}")
print(f"{len(headers)} headers, {len(failed)} of {len(runs)} files faulty")
sys.exit(1 if failed or not headers else 0)
