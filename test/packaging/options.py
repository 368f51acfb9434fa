# SPDX-License-Identifier: BSL-1.0
"""Checks the lists of options in comments that compilers show: `= delete;  // saver_options: shards, max_to_keep, name`.

usage: options.py INCLUDE

Each names the members of the structure, in their order and all of them, unless it ends in `...`.
"""
import pathlib
import re
import sys

text = "\n".join(path.read_text() for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.hpp")))
listed = re.findall(r"(?:= delete|WEFT_DELETED|WEFT_OTHER_CALLS\(\w+\));  // .*?(\w+_options): (\w+(?:, \w+)*)(, \.\.\.)?$", text, re.M)
if not listed:
    sys.exit("no list of options was found")


def members(structure):
    body = re.search(rf"^struct {structure} \{{\n(.*?)^\}};", text, re.M | re.S)
    if not body:
        sys.exit(f"there is no structure {structure}")
    code, before = re.sub(r"//.*", "", body[1]), None
    while code != before:  # leaves `T a = 1, b` of `T<U> a{1}, b = f(2)`: commas stand between declarators only
        code, before = re.sub(r"\([^()]*\)|<[^<>]*>|\{[^{}]*\}", "", code), code
    declarators = [one for one in re.split("[;,]", code) if re.search(r"\w", one.split("=")[0])]
    names = [re.findall(r"\w+", one.split("=")[0])[-1] for one in declarators]
    return names


faults = 0
for structure, names, is_cut in listed:
    have, named = members(structure), names.split(", ")
    if named != have[:len(named)] if is_cut else named != have:
        print(f"{structure} has the members {', '.join(have)}, and a comment lists {names}", file=sys.stderr)
        faults += 1
print(f"{len(listed)} lists of options")
sys.exit(1 if faults else 0)
