# SPDX-License-Identifier: BSL-1.0
"""Writes docs/reference/functions.md: the functions of TensorFlow 1 and PyTorch (tensorflow.txt, pytorch.txt) and how to
write them with Weft (weft.txt, whose head describes its form).

usage: table.py [--check COMPILER FLAG...]

--check compares the page with what it would be instead, and compiles every piece of code.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
include = here.parents[1] / "include" / "weft"
page = here.parent / "reference" / "functions.md"
faults = []
Answer = collections.namedtuple("Answer", "section kind text header names")


def lines(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("# ")]


def declarations():
    """The headers that declare each name, without `weft/`; names of the namespace nn begin with it."""
    found = collections.defaultdict(set)
    for path in sorted(include.rglob("*.hpp")):
        header, text = str(path.relative_to(include)), path.read_text()
        if header.split("/")[0] not in ("ops", "graph", "nn", "tensor", "train") or "misuse" in header:
            continue
        public = re.findall(r"^(?:template <.*?> )?\[\[nodiscard\]\] [^(\n]*?\b(\w+)\(", text, re.M) + \
            re.findall(r"^(?:struct|class|enum class) (\w+)", text, re.M) + \
            re.findall(r"^(?:inline )?constexpr [^(\n]*?(\w+)(?:\{.*\})?;|^auto (\w+)\(", text, re.M)
        for name in public:
            for each in [name] if isinstance(name, str) else filter(None, name):
                found["nn::" * header.startswith("nn/") + each].add(header)
    formulas = (include / "ops/elementwise/formulas.hpp").read_text()
    for name in re.findall(r"(?:operation|function|composed)\((\w+), \d\)", formulas):
        found[name].add("ops/elementwise/functions.hpp")
    return found


DECLARED = declarations()
EVERYWHERE = set(re.findall(r"<weft/(.*)>", (include / "weft.hpp").read_text()))


def headers_of(code, stated):
    """The headers beyond <weft/weft.hpp> that a piece of code needs."""
    needed = [stated] if stated else []
    for name in dict.fromkeys(re.findall(r"(?<![\w.:])((?:nn::)?[a-z]\w*)(?=[<(]|::| \w+[;{])", code)):
        if name in ("auto", "std", "nn", "layer", "let", "combine"):  # not words, or declared as no others are
            continue
        headers = DECLARED[name]
        if not headers:
            faults.append(f"{name}: no header declares it: {code}")
        elif not headers & EVERYWHERE and not headers & set(needed):
            if len(headers) > 1:
                faults.append(f"{name}: {', '.join(sorted(headers))} declare it; name one at the end of: {code}")
            needed.append(sorted(headers)[0])
    return needed


operands, keyed, section = [], {}, ""
for line in lines(here / "weft.txt"):
    if line.startswith("## "):
        section = line[3:]
    elif line.startswith("& "):
        operands.append(line[2:])
    elif answer := re.match(r"([\w. ]+?) ([-=~.]) (.*?)(?:  ; (\S+))?$", line):
        entry = Answer(section, answer[2], answer[3], answer[4], [])
        for name in answer[1].split():
            if name in keyed:
                faults.append(f"weft.txt: {name} has two answers")
            keyed[name] = entry
    else:
        faults.append(f"weft.txt: not an answer: {line}")

used, versions = set(), []
for package in ("tensorflow.txt", "pytorch.txt"):
    versions.append(re.search(r"(\w+ [\d.]+)", (here / package).read_text().splitlines()[1])[1])
    for name in lines(here / package):
        key = name if name in keyed else name.split(".")[-1]
        if key in keyed:
            keyed[key].names.append(name)
            used.add(key)
        else:
            faults.append(f"weft.txt: {name} has no answer")
faults += [f"weft.txt: {key} is not a name of a package" for key in keyed if key not in used]
answers = list({id(entry): entry for entry in keyed.values()}.values())
count = {kind: sum(len(entry.names) for entry in answers if entry.kind == kind) for kind in "=~-."}
missing = 100 * count["-"] / (count["="] + count["-"])
if missing > 10:
    faults.append(f"{missing:.1f} % of the differentiable functions are not available")


def names_of(entry):
    return ", ".join(f"`{name}`" for name in entry.names)


def page_text():
    yield f"""# Functions of TensorFlow 1 and PyTorch

All functions of `tf.math`, `nn`, `linalg`, `image`, `sparse`, `signal` and `random` ({versions[0]},
`tf.compat.v1`) and of `torch`, `torch.nn.functional`, `linalg`, `special` and `fft` ({versions[1]}), and how to write
them with Weft. The test `packaging.functions` compiles every piece of code. [Names](names.md) explains the most
frequent functions and lists layers.

| functions | |
|---|---|
| differentiable, available | {count["="]} |
| differentiable, not available | {count["-"]}, which is {missing:.1f} % of the differentiable ones |
| available, without a gradient: comparisons, integers, draws | {count["~"]} |
| outside: not a differentiable function of dense arrays, and not available | {count["."]} |

A function that a package has under two names counts twice. Operands have the following types, and `g` is the graph.
Some rows set an option that the other packages take as an argument, such as a window or the degree 3 of a polynomial.
A row without a header needs only `<weft/weft.hpp>`.

<!-- compiled: body -->
```cpp
""" + "\n".join(f"{operand};" for operand in operands) + "\n```\n"
    for title in dict.fromkeys(entry.section for entry in answers):
        rows = [entry for entry in answers if entry.section == title and entry.kind in "=~"]
        if rows:
            yield f"\n## {title}\n\n| TensorFlow 1 and PyTorch | Weft | header |\n|---|---|---|\n"
        for entry in rows:
            headers = ", ".join(f"`{header}`" for header in headers_of(entry.text, entry.header))
            code = entry.text.replace("|", "\\|")
            yield f"| {names_of(entry)} | `{code}` | {headers} |\n"
    for kind, title in (("-", "Not available"), (".", "Outside")):
        yield f"\n## {title}\n\n| TensorFlow 1 and PyTorch | why |\n|---|---|\n"
        yield from (f"| {names_of(entry)} | {entry.text} |\n" for entry in answers if entry.kind == kind)


def compile_codes(compiler, flags):
    codes = [entry for entry in answers if entry.kind in "=~"]
    needed = sorted({header for entry in codes for header in headers_of(entry.text, entry.header)})
    parameters = [f"const {of_type}>& {name}" for of_type, names in (operand.rsplit("> ", 1) for operand in operands)
                  for name in names.split(", ")]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "codes.cpp"
        source.write_text("#include <cmath>\n#include <weft/weft.hpp>\n" +
                          "".join(f"#include <weft/{header}>\n" for header in needed) +
                          f"using namespace weft;\nvoid codes(graph& g, {', '.join(parameters)}) {{\n" +
                          "".join(f'#line 1 "{entry.names[0]}"\n{{ {entry.text}; }}\n' for entry in codes) + "}\n")
        result = subprocess.run([compiler, *flags, "-fsyntax-only", "-w", str(source)], capture_output=True, text=True)
    if result.returncode:
        faults.append(result.stderr)


text = "".join(page_text())
if sys.argv[1:2] != ["--check"]:
    page.write_text(text)
else:
    if not page.exists() or page.read_text() != text:
        faults.append("docs/reference/functions.md is not up to date: run docs/vocabulary/table.py")
    compile_codes(sys.argv[2], sys.argv[3:])
for fault in dict.fromkeys(faults):
    print(fault)
print(f"{sum(count.values())} names, {len(answers)} answers, {missing:.1f} % of the differentiable functions not available")
sys.exit(bool(faults))
