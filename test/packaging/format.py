# SPDX-License-Identifier: BSL-1.0
"""Checks std::format of Weft's values: with the compiler's own <format>, else with one of the test's that has as much of it as
<weft/format.hpp> uses; and that the header compiles where the standard library has none.

usage: format.py COMPILER INCLUDE_DIR
"""
import pathlib
import subprocess
import sys
import tempfile

compiler, include = sys.argv[1:3]
here = pathlib.Path(__file__).parent / "format"
base = [compiler, f"-I{include}", "-Wall", "-Wextra", "-Werror"]


def has(standard, *more):
    source = "#include <version>\n#ifndef __cpp_lib_format\n#error\n#endif\n"
    return subprocess.run([compiler, standard, *more, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                          stderr=subprocess.DEVNULL).returncode == 0


# C++23 formats ranges, which tensors are.
ways = [way for way in (["-std=c++20"], ["-std=c++2b"]) if has(*way)]
for way in ways or [["-std=c++20", f"-I{here}", "-D__cpp_lib_format=201907L"]]:
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program"
        subprocess.run([*base, *way, here / "main.cpp", "-o", program], check=True)
        subprocess.run([program], check=True, timeout=60)
    print("formats with", " ".join(way))
if not has("-std=c++20"):
    subprocess.run([*base, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"], input="#include <weft/format.hpp>\n", text=True,
                   check=True)
