"""Checks that what files with WEFT_SEPARATE_COMPILATION leave out is compiled by <weft/source.hpp>, and what files with
WEFT_SEPARATE_DISTRIBUTED leave out by <weft/distributed_source.hpp>.

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
print(f"{count} headers with definitions that are compiled once, {faults} of them out of reach")
sys.exit(1 if faults else 0)
