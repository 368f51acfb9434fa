"""Checks what a compiler says to mistakes.

usage: check.py COMPILER PROGRAM.cpp... -- [FLAG...]

Each program has one mistake, under `#ifdef WEFT_SHOULD_FAIL`: without the macro it must compile, with it it must not.
Its comments say what the diagnostics must be:
  // error: REGEX             found in the output of every compiler; all such lines must be
  // error(clang++): REGEX    the same, of one compiler (its program's name, without a version)
  // max-lines: N             the output has at most so many lines (7 unless said), not counting where headers were included
  // alone                    the program is compiled by itself: because of what it does not include, say

Including the headers takes longer than compiling ten such programs. So they are compiled together, once with their
mistakes and once without, and what the compiler says is told apart by the places that it names. A few are compiled by
themselves too, as a user would: they must say the same, line by line.
"""
import os
import re
import subprocess
import sys

split = sys.argv.index("--")
compiler, paths, flags = sys.argv[1], sys.argv[2:split], sys.argv[split + 1:]
name = re.sub(r"-\d+$", "", os.path.basename(compiler))
every = 60  # of so many programs one is compiled by itself too
faults = []

# Clang closes with a count of errors. Through which files a header was reached is the program's affair.
not_counted = re.compile(r"\d+ (?:warnings? and \d+ )?errors? generated\.|In file included from .*|\s+from .*[:,]")
# g++ prints these lines before an error, to say where it is; clang says it in notes behind.
context = re.compile(r"In file included from .*|\s+from .*[:,]|(\S+: )?(In|At) .*|\S+:\d+:\d+:   (required|in ).*")
diagnostic = re.compile(r"\S+?:\d+:\d+: (?:fatal )?(error|warning|sorry)")
error = re.compile(r"\S+?:\d+:\d+: (?:fatal )?error")
source_line = re.compile(r" +(\d+ )?\|")


class Program:
    def __init__(self, path):
        self.path, self.text = path, open(path).read()
        self.label = os.path.splitext(os.path.basename(path))[0]
        self.expected = re.findall(r"^// error(?:\(([^)]+)\))?: (.+?)\s*$", self.text, re.M)
        self.limit = int((re.search(r"^// max-lines: (\d+)", self.text, re.M) or [0, 7])[1])
        self.alone = re.search(r"^// alone", self.text, re.M)
        self.includes = re.findall(r"^#include .+$", self.text, re.M)
        if "WEFT_SHOULD_FAIL" not in self.text or not self.expected:
            sys.exit(f"{path}: needs a variant under WEFT_SHOULD_FAIL, and at least one '// error: REGEX'")

    def as_function(self):
        """The program without what all have in common, its lines where they were."""
        text = re.sub(r"^(#include .+|using namespace weft;)$", "", self.text, flags=re.M)
        return f'#line 1 "{self.path}"\n' + re.sub(r"\bint main\(", f"int main_of_{self.label}(", text)


def compile(source, *more):
    """The user's plain command line; only the language of the messages and their colours are fixed."""
    run = subprocess.run([compiler, *flags, *more, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "LC_ALL": "C", "GCC_COLORS": ""})
    return run.returncode, run.stdout


def counted(lines):
    return [line for line in lines if not not_counted.fullmatch(line)]


def unnumbered(line):
    """g++ counts the lambdas of all programs, and writes a default argument or not as it has met the type before."""
    line = re.sub(r", (weft::)?cpu>", " >", re.sub(r"auto:\d+", "auto", line))
    return line.replace(" > >", ">>").replace(" >", ">")


def compile_alone(program, *more):
    code, output = compile(f'#line 1 "{program.path}"\n{program.text}', *more)
    return code, counted(output.splitlines())


def tell_apart(output, programs):
    """What is said to each program: a list of lines. Each error belongs to the program that is named before or behind it.
    g++ shows a line of source once where several errors in turn are on it: it is put back."""
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
    said, of, shown = {}, None, {}
    labels = {program.path: program.label for program in programs}
    place = re.compile("(" + "|".join(map(re.escape, labels)) + "):")
    for lines in map(counted, messages):
        before = of
        of = next((labels[found[1]] for found in map(place.match, lines) if found), of)
        at = next((i for i, line in enumerate(lines) if diagnostic.match(line)), None)
        if at is not None:
            where, source = lines[at].split(" ")[0], lines[at + 1:]
            source = source[:next((i for i, line in enumerate(source) if not source_line.match(line)), len(source))]
            if source:
                shown[where] = source
            elif of != before:
                lines[at + 1:at + 1] = shown.get(where, [])
        said.setdefault(of, []).extend(lines)
    return said


def compile_together(programs, *more):
    """Whether all compile, and what is said to each."""
    together = [program for program in programs if not program.alone]
    includes = sorted({include for program in together for include in program.includes}, key=lambda i: ("weft" in i, i))
    source = "\n".join(includes + ["using namespace weft;"] + [program.as_function() for program in together])
    unlimited = ["-Wno-return-type", *(["-ferror-limit=0"] if "clang" in name else [])]
    said = tell_apart(compile(source, *more, *unlimited)[1], together)
    for program in programs:
        if program.alone: said[program.label] = compile_alone(program, *more)[1]
    return said


def as_in_main(lines, program):
    return [line.replace(f"main_of_{program.label}(", "main(") for line in lines]


programs = [Program(path) for path in sorted(paths)]
right, wrong = compile_together(programs), compile_together(programs, "-DWEFT_SHOULD_FAIL")
for program in programs:
    if lines := right.pop(program.label, None):
        faults.append(f"{program.label}: {name} does not accept the program without its mistake:\n" + "\n".join(lines))
    lines = as_in_main(wrong.pop(program.label, []), program)
    by_itself = program.alone
    if not any(map(error.match, lines)):
        # A mistake that is instantiated twice is said once: to another program, perhaps.
        lines, by_itself = compile_alone(program, "-DWEFT_SHOULD_FAIL")[1], True
    output = "\n".join(lines)
    print(f"--- {program.label}, {len(lines)} lines ---\n{output}\n")
    if not any(map(error.match, lines)):
        faults.append(f"{program.label}: {name} accepts the program with its mistake")
        continue
    for only, regex in program.expected:
        if only in ("", name) and not re.search(regex, output):
            faults.append(f"{program.label}: {name} does not say /{regex}/:\n{output}")
    if len(lines) > program.limit:
        faults.append(f"{program.label}: {name} prints {len(lines)} lines, {program.limit} at most are allowed:\n{output}")
    if programs.index(program) % every == 0 and not by_itself:
        alone = compile_alone(program, "-DWEFT_SHOULD_FAIL")[1]
        if [unnumbered(line) for line in alone] != [unnumbered(line) for line in lines]:
            faults.append(f"{program.label}: {name} says something else when the program is compiled by itself:\n" +
                          "\n".join(alone) + "\n--- and with others ---\n" + output)
for whose, lines in [*right.items(), *wrong.items()]:
    faults.append(f"{name} says, to no program that can be told:\n" + "\n".join(lines))

print(f"{len(programs)} mistakes, {len(faults)} faults")
print("\n".join(faults), file=sys.stderr)
sys.exit(1 if faults else 0)
