# SPDX-License-Identifier: BSL-1.0
"""Checks that a program needs nothing but the compiler and Weft's headers: no macro, no library, no CMake.

usage: alone.py COMPILER INCLUDE_DIR PROGRAM.cpp
"""
import pathlib
import subprocess
import sys
import tempfile

compiler, include, source = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder) / "alone"
    subprocess.run([compiler, "-std=c++20", f"-I{include}", source, "-o", program], check=True)
    subprocess.run([program], check=True, timeout=60)
