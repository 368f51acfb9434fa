# SPDX-License-Identifier: BSL-1.0
"""Checks that programs do not include the standard library's costly headers through Weft's, which take longer to compile
than the part of Weft that would use them. A program that names what they have includes them itself.

usage: includes.py INCLUDE_DIR COMPILER
"""
import pathlib
import subprocess
import sys

include, compiler = sys.argv[1:]
COSTLY = set("""algorithm barrier chrono condition_variable filesystem format fstream functional future iomanip iostream istream
                iterator latch list locale map memory memory_resource mutex optional ostream random ranges regex semaphore set
                shared_mutex sstream stop_token streambuf syncstream thread unordered_map unordered_set variant""".split())
# What a standard library includes in these is not Weft's choice.
LIGHT = ["cstdint", "cstdio", "cstdlib", "cstring", "cmath", "exception", "initializer_list", "string", "string_view", "tuple",
         "type_traits", "utility", "vector"]
PROGRAMS = ["weft/weft.hpp", "weft/data/dataset.hpp", "weft/data/fashion_mnist.hpp", "weft/data/cifar10.hpp"]



def included(headers, *flags):
    source = "".join(f"#include <{header}>\n" for header in headers)
    run = subprocess.run([compiler, "-std=c++20", f"-I{include}", *flags, "-M", "-x", "c++", "-"], check=True, text=True,
                         input=source, stdout=subprocess.PIPE)
    return {path.name for path in map(pathlib.Path, run.stdout.split())}


faults = 0
costly = COSTLY - included(LIGHT)
for header in PROGRAMS:
    for separate in [], ["-DWEFT_SEPARATE_COMPILATION"]:
        found = sorted(included([header], *separate) & costly)
        if found:
            faults += 1
            print(f"<{header}>{' ' if separate else ''}{' '.join(separate)} includes <{'>, <'.join(found)}>")
sys.exit(faults > 0)
