# SPDX-License-Identifier: BSL-1.0
"""Checks the messages that a compiler prints for mistakes.

usage: check.py COMPILER FILE.cpp[:CASE]... -- [FLAG...]

A file begins with its includes and `using namespace weft;`. A section follows for each case:

  // case reshape_minus_one: Two extents of -1 in a reshape.
  // error: REGEX             required in the output of every compiler; a case can have several
  // error(clang++): REGEX    required in the output of one compiler, named without its version
  // max-lines: N             the limit of the output, 7 by default; lines that say where headers were included do not count
  // alone                    the case is compiled by itself, with the includes of its section instead of the file's
  tensor<float, dims<2, 3>> x;
  auto y = reshape<dims<-1, -1>>(x);  // wrong
  auto y = reshape<dims<-1, 6>>(x);   // right

A section is the body of main(). One that needs types or templates at namespace scope defines `int main()` itself. Each case
must compile without its lines marked `// wrong`, and must fail without those marked `// right`. A mark applies to its own
line: a statement that continues over several lines is marked on each.

To include the headers takes longer than to compile ten cases. Therefore all cases are compiled together, once right and once
wrong, and the places named in the output tell which message belongs to which case. Some cases are also compiled by
themselves, as a user would compile them, and must print the same lines.
"""
import bisect
import os
import re
import subprocess
import sys

every = 60  # one case of this many is also compiled by itself

# Clang closes with a count of errors. Which headers lead to a header depends on the includes, not on the case.
not_counted = re.compile(r"\d+ (?:warnings? and \d+ )?errors? generated\.|In file included from .*|\s+from .*[:,]")
# g++ prints these lines before an error; clang prints notes after it instead.
context = re.compile(r"In file included from .*|\s+from .*[:,]|(\S+: )?(In|At) .*|\S+:\d+:\d+:   (required|in ).*")
diagnostic = re.compile(r"\S+?:\d+:\d+: (?:fatal )?(error|warning|sorry)")
error = re.compile(r"\S+?:\d+:\d+: (?:fatal )?error")
source_line = re.compile(r" +(\d+ )?\|")
header = re.compile(r"// SPDX-.+|#include .+|using namespace weft;|")
begin_of_case = re.compile(r"// case (\w+): .+")
mark = re.compile(r".*// (wrong|right)")


class Case:
    def __init__(self, name, path, number, lines, includes):
        self.name, self.path, self.number, self.lines = name, path, number, lines
        text = "\n".join(lines)
        self.expected = re.findall(r"^// error(?:\(([^)]+)\))?: (.+?)\s*$", text, re.M)
        self.limit = int((re.search(r"^// max-lines: (\d+)", text, re.M) or [0, 7])[1])
        self.alone = "// alone" in lines
        self.includes = [line for line in lines if line.startswith("#include ")]
        if self.includes and not self.alone:
            sys.exit(f"{path}:{number}: only a case marked '// alone' has includes; write them at the top of the file")
        if not self.alone:
            self.includes = includes
        if not self.expected or not any(map(mark.fullmatch, lines)):
            sys.exit(f"{path}:{number}: a case needs a line marked '// wrong' or '// right', and at least one '// error: REGEX'")

    def function(self, variant, main):
        """The case as a function named `main`, with each line at its number. `variant` is "wrong" or "right"."""
        lines = ["" if line.startswith("#include ") or (found := mark.fullmatch(line)) and found[1] != variant else line
                 for line in self.lines]
        place, text = f'#line {self.number} "{self.path}"\n', "\n".join(lines)
        if re.search(r"\bint main\(", text):
            return place + re.sub(r"\bint main\(", f"int {main}(", text) + "\n"
        return f"int {main}() {{\n{place}{text}\n}}\n"

    def program(self, variant):
        """The program that a user would write."""
        return "\n".join([*self.includes, "using namespace weft;", self.function(variant, "main")])


def read_cases(path):
    """Returns the cases of a file."""
    with open(path) as file:
        lines = file.read().splitlines()
    begins = [i for i, line in enumerate(lines) if begin_of_case.fullmatch(line)]
    if not begins:
        sys.exit(f"{path}: has no line '// case NAME: what is wrong'")
    for number, line in enumerate(lines):
        if number < begins[0] and not header.fullmatch(line) or line.startswith("// case") and number not in begins:
            sys.exit(f"{path}:{number + 1}: expected an include, 'using namespace weft;' or '// case NAME: what is wrong'")
    includes = [line for line in lines[:begins[0]] if line.startswith("#include ")]
    return [Case(begin_of_case.fullmatch(lines[begin])[1], path, begin + 1, lines[begin:end], includes)
            for begin, end in zip(begins, [*begins[1:], len(lines)])]


def find_cases(arguments):
    """Returns the cases of FILE.cpp or FILE.cpp:CASE, sorted by name."""
    cases = []
    for argument in arguments:
        path, extension, name = argument.partition(".cpp:")
        found = [case for case in read_cases(f"{path}.cpp" if extension else path) if name in ("", case.name)]
        if not found:
            sys.exit(f"{argument}: there is no such case")
        cases += found
    cases.sort(key=lambda case: case.name)
    for case, other in zip(cases, cases[1:]):
        if case.name == other.name:
            sys.exit(f"{other.path}:{other.number}: {case.path}:{case.number} has the same name")
    return cases


def compile(source, *more):
    """Runs the user's plain command line; only the language of the messages and their colours are fixed."""
    run = subprocess.run([compiler, *flags, *more, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "LC_ALL": "C", "GCC_COLORS": ""})
    return run.stdout


def counted(lines):
    return [line for line in lines if not not_counted.fullmatch(line)]


def unnumbered(line):
    """g++ numbers the lambdas of all cases, and prints a default argument or not depending on how it first met the type."""
    line = re.sub(r"(, weft::dims<>)?, (weft::)?cpu>", " >", re.sub(r"auto:\d+", "auto", line))
    return line.replace(" > >", ">>").replace(" >", ">")


def compile_alone(case, variant):
    return counted(compile(case.program(variant)).splitlines())


def tell_apart(output, cases):
    """Returns the list of lines that belong to each case. An error belongs to the case that is named before or after it.
    g++ shows a line of source once if several consecutive errors are on it: it is put back."""
    messages, before = [], []
    for line in output.splitlines():
        if context.fullmatch(line):
            before.append(line)
        elif diagnostic.match(line):
            messages.append(before + [line])
            before = []
        else:
            if not messages: messages.append([])
            messages[-1] += before + [line]
            before = []
    names, begins = {case.name for case in cases}, {}
    for case in cases:
        begins.setdefault(case.path, []).append((case.number, case.name))
    for each in begins.values():
        each.sort()
    place = re.compile("(" + "|".join(map(re.escape, begins)) + r"):(?:(\d+):| In function '.*?\bmain_of_(\w+)\()")

    def case_at(line):
        if not (found := place.match(line)): return None
        if found[3]: return found[3] if found[3] in names else None
        first = begins[found[1]]
        return first[bisect.bisect(first, (int(found[2]), chr(0x10ffff))) - 1][1]

    said, of, shown = {}, None, {}
    for lines in map(counted, messages):
        previous = of
        of = next(filter(None, map(case_at, lines)), of)
        at = next((i for i, line in enumerate(lines) if diagnostic.match(line)), None)
        if at is not None:
            where, source = lines[at].split(" ")[0], lines[at + 1:]
            source = source[:next((i for i, line in enumerate(source) if not source_line.match(line)), len(source))]
            if source:
                shown[where] = source
            elif of != previous:
                lines[at + 1:at + 1] = shown.get(where, [])
        said.setdefault(of, []).extend(lines)
    return said


def compile_together(cases, variant):
    """Compiles all cases. Returns the list of lines printed for each."""
    together = [case for case in cases if not case.alone]
    includes = sorted({include for case in together for include in case.includes}, key=lambda i: ("weft" in i, i))
    source = "\n".join([*includes, "using namespace weft;"] +
                       [case.function(variant, f"main_of_{case.name}") for case in together])
    unlimited = ["-Wno-return-type", *(["-ferror-limit=0"] if "clang" in compiler_name else [])]
    said = tell_apart(compile(source, *unlimited), together) if together else {}
    for case in cases:
        if case.alone and (lines := compile_alone(case, variant)): said[case.name] = lines
    return said


def as_in_main(lines, case):
    return [line.replace(f"main_of_{case.name}(", "main(") for line in lines]


def check(cases):
    """Prints the messages of all cases. Returns the faults."""
    faults = []
    right, wrong = compile_together(cases, "right"), compile_together(cases, "wrong")
    for number, case in enumerate(cases):
        where = f"{case.name} ({case.path}:{case.number})"
        if lines := right.pop(case.name, None):
            faults.append(f"{where}: {compiler_name} rejects the case without its mistake:\n" + "\n".join(lines))
        lines = as_in_main(wrong.pop(case.name, []), case)
        by_itself = case.alone
        if not any(map(error.match, lines)):
            # A mistake that is instantiated twice is reported once, perhaps for another case.
            lines, by_itself = compile_alone(case, "wrong"), True
        output = "\n".join(lines)
        print(f"--- {case.name}, {len(lines)} lines ---\n{output}\n")
        if not any(map(error.match, lines)):
            faults.append(f"{where}: {compiler_name} accepts the mistake")
            continue
        for only, regex in case.expected:
            if only in ("", compiler_name) and not re.search(regex, output):
                faults.append(f"{where}: {compiler_name} does not print /{regex}/:\n{output}")
        if len(lines) > case.limit:
            faults.append(f"{where}: {compiler_name} prints {len(lines)} lines, the limit is {case.limit}:\n{output}")
        if number % every == 0 and not by_itself:
            alone = compile_alone(case, "wrong")
            if list(map(unnumbered, alone)) != list(map(unnumbered, lines)):
                faults.append(f"{where}: {compiler_name} prints other lines if the case is compiled by itself:\n" +
                              "\n".join(alone) + "\n--- together with others ---\n" + output)
    for lines in [*right.values(), *wrong.values()]:
        faults.append(f"{compiler_name} prints lines that belong to no case:\n" + "\n".join(lines))
    return faults


if __name__ == "__main__":
    split = sys.argv.index("--")
    compiler, flags = sys.argv[1], sys.argv[split + 1:]
    compiler_name = re.sub(r"-\d+$", "", os.path.basename(compiler))
    cases = find_cases(sys.argv[2:split])
    faults = check(cases)
    print(f"{len(cases)} mistakes, {len(faults)} faults")
    print("\n".join(faults), file=sys.stderr)
    sys.exit(1 if faults else 0)
