# SPDX-License-Identifier: BSL-1.0
"""Compile time and memory: the core's include, the MNIST program, the same with its reader of images, LeNet, programs of many nodes, every layer of another size, and programs
of distinct units and distinct expressions.
nvcc compiles the models for two architectures and PTX, as the preset `cuda` does. Then the models once more, as files of a
program that links weft::compiled, and what that target compiles once.

usage: compile.py [--compilers g++,clang++,nvcc] [--nodes 125,250,500,1000]
Prints one JSON object a program: compiler, flags, seconds, peak memory in MB; for programs of many nodes, how many.
"""
import argparse
import pathlib
import shutil
import tempfile

from compiled_programs import INCLUDE, LENET, MNIST, READER, distinct_expressions, distinct_units, many_nodes, measure_compilation

p = argparse.ArgumentParser()
p.add_argument("--compilers", default="g++,clang++,nvcc")
p.add_argument("--nodes", default="125,250,500,1000")
a = p.parse_args()
include = pathlib.Path(__file__).resolve().parent.parent / "include"

NVCC = ["-O2", "--generate-code=arch=compute_80,code=[sm_80,sm_90,compute_80]"]


def measure(compiler, source, **what):
    flags, suffix = ["-O2"], ".cpp"
    if compiler == "nvcc":
        flags, suffix, source = list(NVCC), ".cu", source.replace("<weft/weft.hpp>", "<weft/cuda.hpp>")
    if what.get("separate"):
        flags.append("-DWEFT_SEPARATE_COMPILATION")
    with tempfile.TemporaryDirectory() as folder:
        path = (pathlib.Path(folder) / "program").with_suffix(suffix)
        path.write_text(source)
        command = [compiler, "-std=c++20", *flags, f"-I{include}", "-c", path, "-o", path.with_suffix(".o")]
        measure_compilation(command, compiler, " ".join(flags), **what)


for compiler in a.compilers.split(","):
    if not shutil.which(compiler):
        continue
    measure(compiler, INCLUDE, program="include")
    measure(compiler, MNIST, program="mnist")
    measure(compiler, LENET, program="lenet")
    measure(compiler, MNIST, program="mnist", separate=True)
    if compiler != "nvcc":
        measure(compiler, READER, program="reader")
        measure(compiler, READER, program="reader", separate=True)
    measure(compiler, LENET, program="lenet", separate=True)
    if compiler == "nvcc":
        continue
    measure(compiler, "#include <weft/source.hpp>\n", program="source")
    for nodes in map(int, a.nodes.split(",")):
        measure(compiler, many_nodes(nodes), program="chain", nodes=nodes)
    for count in 10, 40:
        measure(compiler, distinct_units(count), program="units", units=count)
    for count in 10, 30:
        measure(compiler, distinct_expressions(count), program="expressions", expressions=count)
