# SPDX-License-Identifier: BSL-1.0
"""Checks that what files with WEFT_SEPARATE_COMPILATION leave out is compiled by <weft/source.hpp>, and what files with
WEFT_SEPARATE_DISTRIBUTED leave out by <weft/distributed_source.hpp>; and that the latter include neither Boost nor
OpenSSL.

usage: separate.py INCLUDE_DIR

A function that is marked WEFT_DECL, or an instantiation that is marked WEFT_INSTANTIATE, in a header that source.hpp does
not reach would be an undefined symbol in a program that uses weft::compiled, and there alone.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])


def reached_from(source):
    reached, waiting = set(), [source]
    while waiting:
        name = waiting.pop()
        if name not in reached and (root / name).is_file():
            reached.add(name)
            waiting += re.findall(r"^\s*#\s*include <(weft/[^>]+)>", (root / name).read_text(), re.M)
    return reached


count, faults = 0, 0
for mark, source in (r"WEFT_(?:DECL|INSTANTIATE)", "weft/source.hpp"), (r"WEFT_DISTRIBUTED_(?:DECL|INSTANTIATE)", "weft/distributed_source.hpp"):
    reached = reached_from(source)
    marked = [str(header.relative_to(root)) for header in sorted(root.rglob("*.hpp"))
              if re.search(rf"^(?!\s*(?:#|//)).*\b{mark}\b", header.read_text(), re.M)]
    left_out = [header for header in marked if header not in reached]
    for header in left_out:
        print(f"{header} has definitions that are compiled once, and <{source}> does not include it: "
              "no program with weft::compiled has them")
    count, faults = count + len(marked), faults + len(left_out) + (not marked)


def outside_definitions(text):
    """The text without the parts for WEFT_DISTRIBUTED_DEFINITIONS."""
    left_out = []                                         # of each #if around a line, whether its part is
    for line in text.splitlines():
        directive = re.match(r"\s*#\s*(if|elif|else|endif)(.*)", line)
        if not directive:
            if not any(left_out):
                yield line
        elif directive[1].startswith("if"):
            left_out.append("WEFT_DISTRIBUTED_DEFINITIONS" in directive[2])
        elif directive[1] == "endif":
            left_out.pop()
        else:
            left_out[-1] = False


reached, waiting = set(), ["weft/distributed.hpp", "weft/distributed/cluster/environment.hpp"]
while waiting:
    name = waiting.pop()
    if name in reached or not (root / name).is_file():
        continue
    reached.add(name)
    for included in re.findall(r"^\s*#\s*include <([^>]+)>", "\n".join(outside_definitions((root / name).read_text())), re.M):
        if re.match(r"boost/|openssl/", included):
            print(f"{name} includes <{included}> where WEFT_DISTRIBUTED_DEFINITIONS is 0, for all files of programs with "
                  "weft::compiled_distributed")
            faults += 1
        waiting.append(included)
faults += len(reached) < 100
print(f"{count} headers with definitions that are compiled once, {faults} faults")
sys.exit(1 if faults else 0)
