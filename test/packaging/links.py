# SPDX-License-Identifier: BSL-1.0
"""Checks that relative links of pages lead somewhere: to a file or folder of the project, and to a heading in it.

usage: links.py ROOT

The pages are README.md, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md, CODE_OF_CONDUCT.md and all below docs/. Every page
below docs/ is linked from docs/README.md. Links to other sites are not followed.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")] + sorted((root / "docs").rglob("*.md"))
LINK = re.compile(r"\]\(([^()\s]+)\)")  # its text may begin on the line before


def text_of(page):
    """The page without its code: (line number, line)."""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, re.sub(r"`[^`]*`", lambda code: code[0].replace("[", " ").replace("(", " "), line)


def anchors(page, found={}):
    """As GitHub makes them of headings: lower case, no punctuation, hyphens for spaces, numbers for repeated ones."""
    if page not in found:
        found[page] = set()
        for _, line in text_of(page):
            if heading := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
                words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
                anchor = base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
                repeats = 0
                while anchor in found[page]:
                    repeats += 1
                    anchor = f"{base}-{repeats}"
                found[page].add(anchor)
    return found[page]


faults, count, mapped = [], 0, set()
for page in pages:
    for number, line in text_of(page):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, anchor = target.partition("#")
            to = (page.parent / path).resolve() if path else page
            at = f"{page.relative_to(root)}:{number}"
            if page == root / "docs" / "README.md":
                mapped.add(to)
            if not to.exists() or not to.is_relative_to(root):
                faults.append(f"{at}: {target}: no such file")
            elif anchor and (to.suffix != ".md" or anchor not in anchors(to)):
                faults.append(f"{at}: {target}: no such heading")
faults += [f"docs/README.md does not link to {page.relative_to(root)}" for page in pages
           if page.parent != root and page != root / "docs" / "README.md" and page not in mapped]
if count < 50:
    faults.append(f"only {count} links were found")
print("\n".join(faults) or f"{count} links lead somewhere")
sys.exit(1 if faults else 0)
