# SPDX-License-Identifier: BSL-1.0
"""Checks that a program can use graphs, tensors and errors of shared libraries with hidden visibility, of one that it is
linked with and of a plugin that dlopen loads with RTLD_LOCAL; and that no header recognizes an operation by its address.

usage: modules.py INCLUDE_DIR SOURCES COMPILER [FLAG...]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

headers, sources, compiler, flags = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
by_address = [f"{header.relative_to(headers)}:{number}: {line.strip()}" for header in sorted(headers.rglob("*.hpp"))
              for number, line in enumerate(header.read_text().splitlines(), 1)
              if re.search(r"[!=]=\s*&(\w+::)*(operation_of|tokens_of|differentiated|evaluated|single)<", line)]
if by_address:
    sys.exit("each module has its own objects: compare with is_operation<Op> or skeleton::same\n" + "\n".join(by_address))
hidden = [compiler, *flags, "-O1", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    library, plugin, program = folder / "liblibrary.so", folder / "plugin.so", folder / "program"
    subprocess.run([*hidden, "-fPIC", "-shared", sources / "library.cpp", "-o", library], check=True)
    shutil.copy(library, plugin)
    # The program does not export its symbols either.
    subprocess.run([*hidden, sources / "program.cpp", library, f"-Wl,-rpath,{folder}", "-pthread", "-ldl", "-o", program],
                   check=True)
    run = subprocess.run([program, plugin], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
print(run.stdout or f"{compiler}: a library and a plugin")
sys.exit(run.returncode != 0)
