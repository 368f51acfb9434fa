# SPDX-License-Identifier: BSL-1.0
"""Checks that programs which include Weft with -I, as third-party code in their tree, see no warning of it under the flags that
careful projects build with: the public headers together, and models whose templates are instantiated.

g++ compiles the models, since -fsyntax-only leaves out templates that are instantiated last and what its optimiser finds. A
program with faults of its own shows that the flags are in force.

usage: compiler_warnings.py INCLUDE_DIR COMPILED_PROGRAMS.py COMPILER [FLAG...]
"""
import importlib.util
import os
import pathlib
import subprocess
import sys

root, programs_file, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
clang = "clang" in pathlib.Path(compiler).name
warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wundef", *([] if clang else ["-Wuseless-cast"])]
spec = importlib.util.spec_from_file_location("compiled_programs", programs_file)
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)
faults = []

PUBLIC = ["weft.hpp", "control_flow.hpp", "queue.hpp", "summary.hpp", "format.hpp", "session/trace.hpp", "train/progress.hpp",
          "train/hooks.hpp", "train/metrics.hpp", "train/all_optimizers.hpp", "checkpoint/weights.hpp", "checkpoint/npz.hpp",
          "data/fashion_mnist.hpp", "data/cifar10.hpp", "data/csv.hpp", "data/records.hpp", "data/image_folder.hpp",
          "data/augment.hpp", "data/example.hpp"]
if "-DWEFT_WITHOUT_BOOST" not in flags: PUBLIC += ["distributed.hpp", "checkpoint/saver.hpp", "train/saved_run.hpp"]
flags = [flag for flag in flags if flag != "-DWEFT_WITHOUT_BOOST"]


def compile(source, *more):
    run = subprocess.run([compiler, f"-I{root}", *flags, *warnings, *more, "-x", "c++", "-"], input=source, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"})
    return run.returncode, run.stdout


def models():
    texts = ["#include <weft/weft.hpp>"]
    for i, text in enumerate([programs.MNIST, programs.LENET, programs.distinct_expressions(4)]):
        for line in ("#include <weft/weft.hpp>", "using namespace weft;"): text = text.replace(line, "")
        texts.append(f"namespace model{i} {{\nusing namespace weft;\n{text.replace('int main()', 'int run()')}}}")
    return "\n".join(texts)


compiled = ["-fsyntax-only"] if clang else ["-O2", "-c", "-o", os.devnull]
for what, source, how in [("headers", "".join(f"#include <weft/{h}>\n" for h in PUBLIC), ["-fsyntax-only"]),
                          ("models", models(), compiled)]:
    code, said = compile(source, "-Werror", *how)
    if code: faults.append(f"{what}: {compiler} warns:\n{said}")

planted = """
#include <weft/weft.hpp>
struct twice {
  int n;
  explicit twice(int n) : n(n) {}
  template <class T> char low(T x) const { return n * x; }
};
int main() { return twice(2).low(3L) + static_cast<int>(4); }
"""
said = compile(planted, *compiled)[1]
for flag in ["-Wshadow", "-Wconversion" if not clang else "-Wimplicit-int-conversion|-Wshorten-64-to-32",
             *([] if clang else ["-Wuseless-cast"])]:
    if flag == "-Wshadow" and clang: continue              # of constructors clang says nothing
    if not any(name in said for name in flag.split("|")): faults.append(f"{compiler} does not warn of a planted {flag}:\n{said}")

print(f"{len(PUBLIC)} headers, {len(faults)} faults")
print("\n".join(faults))
sys.exit(bool(faults))
