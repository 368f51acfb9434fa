# SPDX-License-Identifier: BSL-1.0
"""Checks that pages, examples and headers construct tensors from their extents in braces.

usage: extents_in_braces.py ROOT

`tensor<float, D> t(shape(n));` declares a function where n is a variable: a reader who replaces the number of an example by one
gets no tensor.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
# A name behind a type, and extents in parentheses: "tensor<float, D> t(shape(", "batch t(shape(n))".
declared = re.compile(r"tensor(_view)?<.*> \w+\(shape\(|(?<!return )(?<!throw )(?<!new )\b\w+>? \w+\(shape\(\w+\)\)")
files = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*.cpp"), *root.glob("bench/*"),
         *root.rglob("include/weft/**/*.hpp")]
assert len(files) > 100, f"{root} is not the root of the project"
faults = [f"{path.relative_to(root)}:{number}: {line.strip()}" for path in files if path.is_file()
          for number, line in enumerate(path.read_text().splitlines(), 1) if declared.search(line)]
if faults:
    sys.exit("extents in parentheses may declare a function; write them in braces:\n" + "\n".join(faults))
