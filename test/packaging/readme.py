# SPDX-License-Identifier: BSL-1.0
"""Compiles every C++ block of pages.

usage: readme.py PAGE|FOLDER[,PAGE|FOLDER...] COMPILE_FAIL_DIR PART[,PART...] COMPILER[,G++] [FLAG...]

Of a FOLDER all pages are read, also those in its subfolders. The PARTs are the optional parts of Weft that this build has, or
"none". Blocks whose program includes a header of another part are skipped (HEADERS). The first compiler compiles the blocks;
clang takes a third of the time of g++. The messages that pages quote are those of G++, by default the same compiler. Headers
that a page tells readers to generate are in the folder pages/.

A ```cpp block with `int main` is a program. Any other is marked on the line before it:
  <!-- compiled: in main -->          placed at the end of main of the last program before it
  <!-- compiled: body -->             the body of a function, after #include <weft/weft.hpp> and using namespace weft
  <!-- compiled: file -->             a whole file without main
  <!-- compiled: for a GPU -->        placed before main of the last program before it, where GPUs are emulated
  <!-- compile-fail: NAME -->         lines of the case NAME of test/compile_fail, with its mistake. The output of g++ can
                                      follow in a ```text block, and is then compared with G++'s.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HEADERS = {  # what a program includes, and the part that it needs for that
    r"<weft/(checkpoint/(saver|archive)|train/saved_run)\.hpp>": "checkpoint",
    r"<weft/distributed": "distributed",
    r"<weft/distributed/collective/mpi_": "mpi",
}
sys.path.insert(0, sys.argv[2])
from check import read_cases  # noqa: E402

mistakes = {case.name: case for file in pathlib.Path(sys.argv[2]).rglob("*.cpp") for case in read_cases(file)}
parts, compilers = sys.argv[3].split(","), sys.argv[4].split(",")
flags = [*sys.argv[5:], f"-I{pathlib.Path(__file__).resolve().parent / 'pages'}"]
pages = [page for name in sys.argv[1].split(",")
         for page in (sorted(pathlib.Path(name).rglob("*.md")) if pathlib.Path(name).is_dir() else [pathlib.Path(name)])]
faults, sources, messages, left_out = [], [], [], 0


def add(at, source):
    global left_out
    if any(part not in parts and re.search(header, source) for header, part in HEADERS.items()):
        left_out += 1
    else:
        sources.append((at, source))


def read_page(page):
    lines, number, program = page.read_text().splitlines(), 0, None
    while number < len(lines):
        if lines[number].strip() not in ("```cpp", "```c++"):
            number += 1
            continue
        start = number
        end = next(i for i in range(start + 1, len(lines)) if lines[i].strip() == "```")
        block = "\n".join(lines[start + 1:end]) + "\n"
        before = next((line.strip() for line in reversed(lines[:start]) if line.strip()), "")
        mark = re.fullmatch(r"<!-- (compiled|compile-fail): (.+?) -->", before)
        number, at, place = end + 1, f"{page.name}:{start + 1}", f'#line {start + 2} "{page.name}"\n'
        if re.search(r"\bint main\b", block):
            program = block
            add(at, place + block)
        elif not mark:
            faults.append(f"{at}: this block has no main and no mark, so nothing compiles it")
        elif mark[1] == "compile-fail":
            if not (mistake := mistakes.get(mark[2])):
                faults.append(f"{at}: test/compile_fail has no case {mark[2]}")
                continue
            there = {line.partition("  //")[0].strip() for line in mistake.program("wrong").splitlines()}
            faults.extend(f"{at}: case {mark[2]} of test/compile_fail has no line '{line.strip()}'"
                          for line in block.splitlines() if line.strip() not in there)
            text = "\n".join(lines[number:])
            if said := re.match(r"\s*```text\n(.*?)\n```", text, re.S):
                messages.append((at, mistake, said[1]))
        elif mark[2] == "in main" and program:
            head, brace, tail = program.rpartition("}")
            add(at, head + place + block + brace + tail)
        elif mark[2] == "for a GPU" and program:
            head, main, tail = program.partition("int main")
            add(at, "#define WEFT_GPU_EMULATION\n" + head + place + block + main + tail)
        elif mark[2] == "body":
            add(at, f"#include <weft/weft.hpp>\nusing namespace weft;\nvoid block() {{\n{place}{block}}}\n")
        elif mark[2] == "file":
            add(at, place + block)
        else:
            faults.append(f"{at}: cannot place a block marked '{mark[2]}'")


for each in pages:
    read_page(each)


def check_message(item):
    """The errors and notes that the page quotes must be the compiler's, word for word; paths and lines may move."""
    line, mistake, said = item
    run = subprocess.run([compilers[-1], *flags, "-fsyntax-only", "-x", "c++", "-"], input=mistake.program("wrong"), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "LC_ALL": "C", "GCC_COLORS": ""})
    quoted = re.findall(r"(?:error|note): (.+)", said)
    missing = [words for words in quoted if words not in run.stdout]
    return line, missing if quoted else ["an error or a note"], run.stdout


PRECOMPILED = ["<weft/distributed.hpp>", "<weft/weft.hpp>"]  # most blocks begin by including one of them


def is_gcc(compiler):
    return "Free Software Foundation" in subprocess.run([compiler, "--version"], text=True, stdout=subprocess.PIPE).stdout


def precompile(folder):
    """For each of PRECOMPILED, the flags by which the compiler reads it precompiled."""
    before = {}
    for number, header in enumerate(PRECOMPILED):
        file = f"{folder}/{number}.hpp"
        pathlib.Path(file).write_text(f"#include {header}\n")
        how, use = ([], ["-include", file]) if is_gcc(compilers[0]) else (
            ["-Xclang", "-fpch-instantiate-templates"], ["-include-pch", f"{file}.gch"])
        made = subprocess.run([compilers[0], *flags, "-Wno-unused", "-x", "c++-header", *how, file, "-o", f"{file}.gch"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode == 0:
            before[header] = use
    return before


def check(item):
    source = item[1]
    before = [] if "#define" in source else next((precompiled[each] for each in precompiled if each in source), [])
    run = subprocess.run([compilers[0], *flags, "-Wno-unused", *before, "-fsyntax-only", "-x", "c++", "-"], input=source,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return item[0], run


with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
    precompiled = precompile(folder) if sources else {}
    faults += [f"{line}: does not compile:\n{run.stdout}" for line, run in pool.map(check, sources)
               if run.returncode]
    if is_gcc(compilers[-1]):
        faults += [f"{line}: the compiler does not say '{words}':\n{output}"
                   for line, missing, output in pool.map(check_message, messages) for words in missing]
print("\n".join(faults) or f"{len(pages)} pages: {len(sources)} blocks compile, {len(messages)} messages are quoted, "
      f"{left_out} blocks need parts that this build has not")
sys.exit(1 if faults else 0)
