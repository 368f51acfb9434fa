#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds the site: the API reference of include/weft and all Markdown pages.

    build.py OUTPUT [--doxygen PROGRAM]     writes OUTPUT/html/index.html

Doxygen cannot read the originals alone, so it reads copies with the same line numbers:

  - Headers: the public names of a folder form a group (GROUPS). Folders and namespaces of the implementation are left
    out. The elementwise functions, which a macro makes of the rows of WEFT_FORMULAS, are declared one by one, and the
    docstring of formula::exp in ops/formulas.hpp becomes the one of exp(x).
  - Pages: headings get the anchors that GitHub gives them, and links to pages and files become links within the site.

Warnings are errors; they name the files and lines of the originals. Only members without a docstring are accepted, if
their class has one: accessors and nested types such as size() and value_type explain themselves.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A folder of include/weft is a group of its chapter. A folder without an entry gets a group of its own name, within its
# parent folder's. None: the folder belongs to the implementation.
CHAPTERS = {"values": "Values and variables", "operations": "Operations", "training": "Training, data and clusters"}
GROUPS = {
    "": ("values", "Errors, text and time limits"),
    "tensor": ("values", "Tensors"),
    "graph": ("values", "Graphs, variables and control flow"),
    "session": ("values", "Sessions"),
    "ops": ("operations", "Operations on tensors and nodes"),
    "ops/writing": ("operations", "For the authors of operations and optimizers"),
    "nn": ("operations", "Layers and models"),
    "train": ("training", "Optimizers and training runs"),
    "train/metrics": ("train", "Metrics"),
    "data": ("training", "Data"),
    "queue": ("training", "Queues"),
    "checkpoint": ("training", "Checkpoints"),
    "summary": ("training", "Summaries for TensorBoard"),
    "distributed": ("training", "Clusters"),
    "distributed/cluster": ("distributed", "Clusters and their tasks"),
    "distributed/collective": ("distributed", "All-reduce"),
    "distributed/membership": ("distributed", "Servers and membership"),
    "distributed/parameter": ("distributed", "Parameter servers"),
    "distributed/remote": ("distributed", "Graphs over several tasks, and clients"),
    "distributed/training": ("distributed", "Replicated sessions"),
    "transport": ("distributed", "Transports"),
    "encoding": None,
    "device": None,
    "plan": None,
    "ops/cpu": None,
    "ops/gpu": None,
}
# Headers without public names, in folders that have some.
IMPLEMENTATION = re.compile(
    r"misuse|^source\.hpp$|^tensor/(block_pool|intrusive_ptr|read_elements|short_array)|"
    r"^ops/(dependence|formulas|fused|fused_operations|primitives|skeleton)\.hpp|^transport/frame")
# Headers for those who write operations and optimizers.
WRITING = {f"ops/{name}.hpp" for name in (
    "axis_kernel", "box_copies", "check", "eager", "operation", "optimizer_traits", "subgraphs", "symbol", "update",
    "update_view", "window")}
NAMESPACES = {"weft": "All public names.", "weft::data": "Datasets, readers and changes of images.",
              "weft::metrics": "Metrics over many steps.", "weft::nn": "Layers and models."}
# Namespaces of the implementation.
INTERNAL = re.compile(r"(^|::)(detail|device|formula|fortran|gpu|library|math|plan|pytorch|refused|skeleton|std)(::|$)")

NO_DECLARATION = re.compile(r"(inline )?namespace\b|WEFT_\w+$|extern \"C|(public|private|protected):")
# Overloads that turn wrong calls into readable errors.
WRONG_CALL = re.compile(
    r"WEFT_DELETED|= delete;|detail::(anything|braces)|\((const )?X ?&?&?\.\.\.\)|arguments_are_not_taken|"
    r"class Nothing|initializer_list<X>\)", re.M)
# Unless they have a docstring: specializations of classes, which their templates describe; overloads that do not name
# a parameter.
INTERNAL_UNLESS_DOCUMENTED = re.compile(r"^(struct|class) [\w:]+<", re.M)
WRONG_UNLESS_DOCUMENTED = re.compile(r"^(explicit )?(\w+ )?\w+\([^;{]*const [A-Z]\w*&(\.\.\.)?[,)]", re.M)
# Declarations of the implementation at namespace scope.
INTERNAL_DECLARATION = re.compile(
    r"^(struct|class) (\w+_op\b|\w+<[^;{]*\bdetail::)|"  # operations; specializations for types of the implementation
    r"^(explicit )?\w+\([^;]*\)\s*-> |"  # deduction guides
    r"^(struct|class) \w+<\w+_is_not_|^using \w+_mistake =|"  # mistakes, selected among several
    r"^(?!template|using)[^ (#][^(=]*[\w>]::~?(operator\W+|\w+)\(|"  # members that are defined after their class
    r"^(static_assert|friend|extern template)\b|"
    r"^template <.*>\n(?:  requires.*\n)?(inline )?const\w* [\w:]+ [\w:]+<", re.M)  # specializations of variables

PUBLIC_MACROS = ("WEFT_CHECKED", "WEFT_HOST_DEVICE")  # of config.hpp
UNDOCUMENTED_MEMBER = re.compile(r"warning: Member .* of (class|struct|union) .* is not documented")
MAIN_PAGE = "README.md"


class Fault(Exception):
    pass


# ---- headers ----


def group_of(folder):
    """The group of a folder of include/weft, or None if the folder belongs to the implementation."""
    within = [folder, *map(str, pathlib.PurePosixPath(folder).parents)]
    return None if any(GROUPS.get(known, "") is None for known in within) else folder or "weft"


def group_name(folder):
    return "group_" + re.sub(r"\W", "_", folder)


def group_definitions(folders):
    """A file of Doxygen's that defines the chapters and the groups."""
    lines = [f"/** @defgroup {group_name(name)} {title} */" for name, title in CHAPTERS.items()]
    lines.append(f"""/** @defgroup {group_name("mistakes")} Compile errors
    Compilers print these names, with the types and extents that are at fault, where a call is wrong. */""")
    for folder in sorted(folders):
        parent, title = GROUPS.get("" if folder == "weft" else folder) or (
            str(pathlib.PurePosixPath(folder).parent), folder.rpartition("/")[2].replace("_", " ").capitalize())
        within = f"@ingroup {group_name(parent)} " if parent != "." else ""
        lines.append(f"/** @defgroup {group_name(folder)} {title}\n    {within}*/")
    lines += [f"/** @namespace {name}\n    {words} */" for name, words in NAMESPACES.items()]
    return "\n".join(lines) + "\n"


def without_internal_namespaces(lines):
    """Blanks the namespaces of the implementation. clang-format writes each namespace's name after its end, unless the
    namespace has one line."""
    scopes, result = [], []
    lines = [f"}}  // namespace {opened[1]}" if line == "}" and i >= 2
             and (opened := re.match(r"namespace ([\w:]+) \{", lines[i - 2])) else line for i, line in enumerate(lines)]
    for number, line in enumerate(lines, 1):
        opened = re.match(r"(?:inline )?namespace ([\w:]+) \{", line)
        closed = re.match(r"\}  // (?:inline )?namespace ([\w:]+)", line)
        if opened:
            scopes.append(opened[1])
        hidden = bool(INTERNAL.search("::".join(scopes)))
        if closed:
            if not scopes or scopes.pop() != closed[1]:
                raise Fault(f"{number}: the end of namespace {closed[1]} does not follow its beginning")
        result.append("" if hidden else line)
    if scopes:
        raise Fault(f"namespace {scopes[-1]} does not end: its closing brace names it in a comment")
    return result


def declarations(lines, indent=""):
    """(first line, line after the last, text without the docstring) of each declaration with this indentation, on which
    clang-format can be relied upon. A docstring belongs to its declaration."""
    first = start = None
    depth = 0
    for i, line in enumerate(lines):
        if start is None:
            if line.startswith(f"{indent}///"):
                first = i if first is None else first
                continue
            code = line[len(indent):]
            if not line.startswith(indent) or not code or code[0] in " #}/" or NO_DECLARATION.match(code):
                first = None
                continue
            start, first, depth = i, i if first is None else first, 0
        code = re.sub(r"//.*", "", re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'', "", line)).rstrip()
        depth += code.count("{") - code.count("}")
        head = re.match(r"\s*(template|requires)\b", code) and not code.endswith(";")
        if depth == 0 and code.endswith((";", "}")) and not head:
            yield first, i + 1, "\n".join(line[len(indent):] for line in lines[start:i + 1])
            first = start = None


def without_private_members(lines, indent, private):
    """Blanks them, because Doxygen links to nested private classes and then writes no page for them."""
    for i, line in enumerate(lines):
        if access := re.match(rf"{indent} (public|protected|private):", line):
            private = access[1] == "private"
        elif re.match(rf"{indent}}}", line):
            private = False
        if private:
            lines[i] = ""
    return lines


def without_internal_declarations(lines, indent=""):
    """Blanks INTERNAL_DECLARATION at namespace scope, and what wrong calls find in classes."""
    for first, end, text in list(declarations(lines, indent)):
        body = re.search(r"^(struct|class|union) [^;{]*\{\n", text, re.M)
        head = text[:body.end()] if body else text
        documented = lines[first].lstrip().startswith("///")
        if (WRONG_CALL.search(head) or (not documented and WRONG_UNLESS_DOCUMENTED.search(head)) or not indent and (
                INTERNAL_DECLARATION.search(head) or (not documented and INTERNAL_UNLESS_DOCUMENTED.search(head)))):
            lines[first:end] = [""] * (end - first)
        elif body:
            inside = end - text[body.end():].count("\n") - 1
            members = without_private_members(lines[inside:end], indent, body[1] == "class")
            lines[inside:end] = without_internal_declarations(members, indent + "  ")
    return lines


def with_shared_docstrings(lines, indent=""):
    """A docstring is that of the overloads, too, which follow without an empty line."""
    shared = None
    for first, end, text in list(declarations(lines, indent)):
        start = end - text.count("\n") - 1
        if body := re.search(r"^(struct|class|union) [^;{]*\{\n", text, re.M):
            inside = end - text[body.end():].count("\n") - 1
            lines[inside:end] = with_shared_docstrings(lines[inside:end], indent + "  ")
        found = re.search(r"^(?!template|requires)[^ (][^(]*?(operator\W+|\w+)\(", text, re.M)
        name = found and found[1] != "operator=" and found[1]  # constructors have no type, and do not match
        if start > first:
            shared = end, name, [re.sub(r"^ */// ?", "", line) for line in lines[first:start]]
        elif name and shared and shared[:2] == (first, name):
            lines[first] = f"{indent}/** {' '.join(shared[2])} */ {lines[first].lstrip()}"
            shared = end, name, shared[2]
    return lines


def with_file_docstrings(lines):
    """A docstring before a namespace is that of the header."""
    for i, line in enumerate(lines):
        if re.match(r"namespace weft", line):
            end = i - 1
            while re.match(r"WEFT_\w+$", lines[end]):
                end -= 1
            first = end
            while lines[first].startswith("///"):
                first -= 1
            if first < end and not lines[first]:
                lines[first] = "/// @file"
    return lines


def public_macros(lines, group):
    """Of config.hpp, in which conditions stand between the macros and their docstrings."""
    kept = [""] * len(lines)
    for i, line in enumerate(lines):
        found = re.match(r"\s*#\s*define (\w+)", line)
        if found and found[1] in PUBLIC_MACROS and not any(found[0].split()[-1] in line for line in kept):
            end = next(j for j in range(i, -1, -1) if lines[j].startswith("///"))
            first = next(j for j in range(end, -1, -1) if not lines[j - 1].startswith("///"))
            kept[first:end + 1] = lines[first:end + 1]
            kept[first - 1] = f"/** @addtogroup {group} */ /** @{{ */"
            kept[end + 1] = f"#define {found[1]}"
            kept[end + 2] = "/** @} */"
    return kept


def without_macros(lines):
    inside = False
    for i, line in enumerate(lines):
        if inside or re.match(r"\s*#\s*(define|undef)\b", line):
            inside = line.endswith("\\")
            lines[i] = ""
    return lines


def grouped(lines, group):
    """Public names of the header join the group, and names of mistakes their own."""
    begin, end = f"/** @addtogroup {group} */ /** @{{ */", "/** @} */"
    for first, last, text in list(declarations(lines)):
        if re.search(r"^struct \w+ : mistake<", text, re.M) and "//" not in lines[first - 1]:
            lines[first - 1] += f" {end} /** @addtogroup {group_name('mistakes')} */ /** @{{ */"
            lines[last - 1] += f" {end} {begin}"
    for i, line in enumerate(lines):
        if re.match(r"(?:inline )?namespace weft\b[\w:]* \{( /\*\* @|$)", line):
            name, brace, rest = line.partition("{")
            lines[i] = f"{name}{brace} {begin}{rest}"
        elif re.match(r"\}  // namespace weft\b", line):
            lines[i] = f"{end} {line}"
    return lines


def formulas(text):
    """The rows of WEFT_FORMULAS that are functions: name -> (number of operands, docstring)."""
    rows = re.findall(r"^  (?:function|composed)\((\w+), (\d)\)", text, re.M)
    result = {}
    for name, operands in rows:
        found = re.search(rf"((?:^///.*\n)*)^struct {name} \{{", text, re.M)
        if not found or not found[1]:
            raise Fault(f"formula::{name} has no docstring, which is that of the function {name}, too")
        result[name] = int(operands), re.sub(r"^/// ?", "", found[1], flags=re.M).strip()
    return result


def function_declarations(rows):
    """One line that declares what the macros of ops/elementwise.hpp define."""
    parts = []
    for name, (operands, words) in rows.items():
        head, arguments = {
            1: ("template <Expression X>", "const X& x"),
            2: ("template <Operand A, Operand B> requires(Expression<A> || Expression<B>)", "const A& a, const B& b"),
        }[operands]
        parts.append(f"/** {' '.join(words.split())} */ {head} auto {name}({arguments});")
    return " ".join(parts)


def header_copy(path, rows):
    """The copy of a header, or None if it belongs to the implementation."""
    relative = path.relative_to(ROOT / "include/weft").as_posix()
    folder = relative.rpartition("/")[0]
    group = "ops/writing" if relative in WRITING else group_of(folder)
    if group is None or IMPLEMENTATION.search(relative):
        return None
    lines = path.read_text().splitlines()
    if relative == "config.hpp":
        return "\n".join(public_macros(lines, group_name(group))) + "\n", group
    for i, line in enumerate(lines):
        if line == "WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_FUNCTION)" and relative == "ops/elementwise.hpp":
            lines[i] = function_declarations(rows)
        elif included := re.match(r"#include <(weft/.*\.inc)>", line):  # members that classes share
            shared = without_internal_declarations((ROOT / "include" / included[1]).read_text().splitlines())
            shared = re.sub(r"^// .*", "", "\n".join(shared), flags=re.M)
            shared = re.sub(r"(?:^///.*\n)+",
                            lambda words: "/** " + re.sub(r"^/// ?", "", words[0], flags=re.M) + "*/\n", shared, flags=re.M)
            lines[i] = " ".join(shared.split())
    lines = with_file_docstrings(lines)
    visible = with_shared_docstrings(without_internal_declarations(without_internal_namespaces(without_macros(lines))))
    return "\n".join(grouped(visible, group_name(group))) + "\n", group


# ---- pages ----


def page_name(path):
    """The page of a file of the repository: docs/how-to/data.md is how-to-data.html."""
    relative = path.relative_to(ROOT).as_posix()
    if relative == MAIN_PAGE:
        return "index"
    if path.suffix == ".md":
        relative = re.sub(r"^docs/(?!README)", "", relative)[:-3]
        return re.sub(r"\W+", "-", relative).lower()
    return "file-" + re.sub(r"\W+", "-", relative).lower()


def prose(lines):
    """(index, line, whether it is prose and not code) of each line."""
    fence = None
    for i, line in enumerate(lines):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence is None and mark:
            fence = mark[1]
            yield i, line, False
        elif fence is not None:
            if line.strip() == fence:
                fence = None
            yield i, line, False
        else:
            yield i, line, True


def outside_code(line, change):
    """Applies the change to what is not between backquotes."""
    return "".join(part if part.startswith("`") else change(part) for part in re.split(r"(`+[^`]*`+)", line))


def page_copy(path, linked):
    """The copy of a page. Adds the files that it links to."""
    lines = path.read_text().splitlines()
    name, seen = page_name(path), set()

    def heading(line):
        found = re.match(r"(#{1,6})\s+(.*?)\s*#*$", line)
        if not found:
            return line
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found[2]).replace("`", "").lower()
        anchor = base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        repeats = 0
        while anchor in seen:
            repeats += 1
            anchor = f"{base}-{repeats}"
        first = not seen
        seen.add(anchor)
        if first:
            return f"{line} {{#{name}}}" if name != "index" else line
        return f"{line} {{#{name}--{anchor}}}"

    def link(found):
        target = found[1]
        if re.match(r"[a-z]+:", target):
            return found[0]
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or not to.is_relative_to(ROOT):
            raise Fault(f"{path.relative_to(ROOT)}: {target}: no such file")
        if to.suffix != ".md":
            linked.add(to)
        page = page_name(to)
        return f"]({page}.html" + (f"#{page}--{anchor}" if anchor else "") + ")"

    for i, line, is_prose in prose(lines):
        if is_prose:
            line = outside_code(line, lambda text: re.sub(r"<(?!!--|https?:)", "&lt;", text))
            line = re.sub(r"`::(\w+)`", r"<code>&#58;:\1</code>", line)  # otherwise a link to a global name
            lines[i] = heading(re.sub(r"\]\(([^()\s]+)\)", link, line))
    return "\n".join(lines) + "\n"


def file_page(path):
    """A page that shows a file which pages link to."""
    relative = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        body = "\n".join(f"- `{child.name}`" for child in sorted(path.iterdir()))
        return f"# {relative} {{#{page_name(path)}}}\n\n{body}\n"
    kind = {".hpp": "{.cpp}", ".cpp": "{.cpp}", ".py": "{.py}"}.get(path.suffix, "")
    return f"# {relative} {{#{page_name(path)}}}\n\n~~~~~~{kind}\n{path.read_text()}\n~~~~~~\n"


# ---- the site ----


def copy_all(folder):
    """Writes the copies that Doxygen reads."""
    def write(path, text):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    rows = formulas((ROOT / "include/weft/ops/formulas.hpp").read_text())
    groups = set()
    for path in sorted((ROOT / "include/weft").rglob("*.hpp")):
        try:
            if copy := header_copy(path, rows):
                write(path, copy[0])
                groups |= {copy[1], *(str(p) for p in pathlib.PurePosixPath(copy[1]).parents if str(p) != ".")}
        except Fault as fault:
            raise Fault(f"{path.relative_to(ROOT)}:{fault}")
    (folder / "groups.dox").write_text(group_definitions(groups))

    linked = set()
    names = ("CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
    for path in [ROOT / MAIN_PAGE, *(ROOT / f"{name}.md" for name in names), *sorted((ROOT / "docs").rglob("*.md"))]:
        write(path, page_copy(path, linked))
    for path in sorted(linked):
        (folder / f"{page_name(path)}.md").write_text(file_page(path))


def build(output, doxygen="doxygen"):
    """Builds the site into output/html. Returns Doxygen's warnings and other faults."""
    shutil.rmtree(output / "html", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    version = re.search(r"project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary).resolve()
        try:
            copy_all(folder)
        except Fault as fault:
            return [str(fault)]
        settings = f"""@INCLUDE = "{ROOT}/docs/doxygen/Doxyfile"
PROJECT_NUMBER = {version}
INPUT = "{folder}"
USE_MDFILE_AS_MAINPAGE = "{folder}/README.md"
RECURSIVE = YES
FILE_PATTERNS = *.hpp *.md *.dox
STRIP_FROM_PATH = "{folder}/include" "{folder}"
STRIP_FROM_INC_PATH = "{folder}/include"
OUTPUT_DIRECTORY = "{output.resolve()}"
GENERATE_TAGFILE = "{output.resolve()}/html/weft.tag"
"""
        run = subprocess.run([doxygen, "-"], input=settings, text=True, capture_output=True, cwd=folder)
        said = (run.stdout + run.stderr).replace(f"{folder}/", "").strip().splitlines()
        said = [line for line in said if not UNDOCUMENTED_MEMBER.search(line)]
        return said or ([f"{doxygen} failed: {run.returncode}"] if run.returncode else [])


def main():
    arguments = argparse.ArgumentParser(usage="build.py OUTPUT [--doxygen PROGRAM]")
    arguments.add_argument("output", type=pathlib.Path)
    arguments.add_argument("--doxygen", default="doxygen")
    given = arguments.parse_args()
    faults = build(given.output, given.doxygen)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        sys.exit("error: the site has faults")
    print(f"{given.output}/html/index.html")


if __name__ == "__main__":
    main()
