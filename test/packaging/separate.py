"""Checks that what files with WEFT_SEPARATE_COMPILATION leave out is compiled by <weft/source.hpp>.

usage: separate.py INCLUDE_DIR

A function that is marked WEFT_DECL, or an instantiation that is marked WEFT_INSTANTIATE, in a header that source.hpp does
not reach would be an undefined symbol in a program that uses weft::compiled, and there alone.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
reached, waiting = set(), ["weft/source.hpp"]
while waiting:
    name = waiting.pop()
    if name not in reached and (root / name).is_file():
        reached.add(name)
        waiting += re.findall(r"^\s*#\s*include <(weft/[^>]+)>", (root / name).read_text(), re.M)

marked = [str(header.relative_to(root)) for header in sorted(root.rglob("*.hpp"))
          if re.search(r"^(?!\s*(?:#|//)).*\bWEFT_(?:DECL|INSTANTIATE)\b", header.read_text(), re.M)]
left_out = [header for header in marked if header not in reached]
for header in left_out:
    print(f"{header} has definitions under WEFT_DECL, and <weft/source.hpp> does not include it: "
          "no program with weft::compiled has them")
print(f"{len(marked)} headers with definitions that are compiled once, {len(left_out)} of them out of reach")
sys.exit(1 if left_out or not marked else 0)
