#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Draws the diagrams of the pages with Graphviz, and lists the layers of the headers in layers.dot.

    draw.py            writes layers.dot, and NAME.svg for each NAME.dot
    draw.py --check    checks that the files are up to date; without Graphviz, by the hash of NAME.dot in NAME.svg

Both are in the repository, so that pages show the diagrams without a build.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"
FONT = "fontname=Helvetica,Arial,sans-serif"
# Readable on white and on black: filled nodes with dark text, and grey lines and labels.
STYLE = ["-Gbgcolor=transparent", f"-G{FONT}", "-Gfontcolor=#768390", "-Gcolor=#768390", "-Gfontsize=12", "-Glabeljust=l", "-Gnodesep=.25", "-Granksep=.35",
         "-Nshape=box", "-Nstyle=filled,rounded", "-Nfillcolor=#dbeafe", "-Ncolor=#54719c", "-Nfontcolor=#1f2328", f"-N{FONT}", "-Nfontsize=12",
         "-Nheight=.35", "-Nmargin=.12,.06", "-Ecolor=#768390", "-Efontcolor=#768390", f"-E{FONT}", "-Efontsize=11", "-Earrowsize=.7"]


def folder_of(header):
    """The layer of a header, as test/packaging/layers.py orders them; the headers above all folders have none."""
    parts = pathlib.PurePosixPath(header).parts
    return None if len(parts) < 3 else "/".join(parts[1:3]) if parts[1] == "distributed" and len(parts) > 3 else parts[1]


def layers():
    """A graph of the folders: an edge for each folder that the headers of another one include, unless a third one connects
    the two."""
    uses = {}
    for path in sorted((INCLUDE / "weft").rglob("*.hpp")):
        name = path.relative_to(INCLUDE).as_posix()
        if not (own := folder_of(name)):
            continue
        for named in re.findall(r'^\s*#\s*include <(weft/[^>]+)>', path.read_text(), re.M):
            if (other := folder_of(named)) and other != own:
                uses.setdefault(own, set()).add(other)
        uses.setdefault(own, set())

    def reach(folder, seen):
        for other in uses[folder]:
            if other not in seen:
                seen.add(other)
                reach(other, seen)
        return seen

    lines = ["// Written by draw.py from the includes of include/weft.", "digraph layers {"]
    for folder in sorted(uses):
        direct = {other for other in uses[folder] if not any(other in reach(third, set()) and third != other for third in uses[folder])}
        lines += [f'  "{folder}" [fillcolor="{colour(folder)}"];', *(f'  "{folder}" -> "{other}";' for other in sorted(direct))]
    return "\n".join(lines) + "\n}\n"


def colour(folder):
    if folder.startswith("distributed") or folder == "transport":
        return "#fde2c8"
    return "#d9f2dc" if folder in ("data", "summary", "checkpoint", "train", "nn", "queue") else "#dbeafe"


def drawn(source):
    run = subprocess.run(["dot", "-Tsvg", *STYLE, source], capture_output=True, text=True, check=True)
    return re.sub(r"<!--.*?-->\n?", "", run.stdout, flags=re.S)


def mark(source):
    return f"<!-- {source.name}: {hashlib.sha256(source.read_bytes() + ''.join(STYLE).encode()).hexdigest()} -->\n"


def texts(svg):
    return sorted(re.findall(r"<text[^>]*>(.*?)</text>", svg))


def faults():
    if (HERE / "layers.dot").read_text() != layers():
        yield "layers.dot is not what the headers include"
    sources = sorted(HERE.glob("*.dot"))
    for source in sources:
        picture = source.with_suffix(".svg")
        svg = picture.read_text() if picture.exists() else ""
        if not svg.endswith(mark(source)):
            yield f"{picture.name} is not drawn from {source.name}"
        elif shutil.which("dot") and texts(svg) != texts(drawn(source)):
            yield f"{picture.name} shows other texts than {source.name}"
    if len(sources) < 5:
        yield "there are fewer than five diagrams"


def main():
    if sys.argv[1:] == ["--check"]:
        found = list(faults())
        print("\n".join(found) + f"\nerror: run {os.path.relpath(__file__)}" if found else "the diagrams are up to date")
        sys.exit(bool(found))
    if not shutil.which("dot"):
        sys.exit("error: install Graphviz, which contains dot")
    (HERE / "layers.dot").write_text(layers())
    for source in sorted(HERE.glob("*.dot")):
        source.with_suffix(".svg").write_text(drawn(source) + mark(source))


if __name__ == "__main__":
    main()
