# SPDX-License-Identifier: BSL-1.0
"""Builds the site and checks that it has no warnings, that every link within it and every entry of its search leads to a page
and an anchor, that the names of docs/reference/names.md have entries with their text, that each operation of
docs/reference/operations.md has a page of its own, that nothing of the implementation has one, and that the site lists its
versions.

usage: site.py SOURCE_DIR [DOXYGEN]

Skipped (77) without Doxygen 1.9.4 or newer. With Chromium, site_browser.py opens pages, too.
"""
import html
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree

root = pathlib.Path(sys.argv[1]).resolve()
doxygen = shutil.which(sys.argv[2] if len(sys.argv) > 2 else "doxygen")
version = subprocess.run([doxygen, "--version"], capture_output=True, text=True).stdout if doxygen else "0"
if tuple(map(int, re.match(r"(\d+(?:\.\d+)*)", version)[1].split("."))) < (1, 9, 4):
    print("skipped: no Doxygen 1.9.4 or newer")
    sys.exit(77)


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.text, self.prose, self.code = set(), [], [], "", 0
        self.open, self.faults = [], []
        self.feed(path.read_text(errors="replace"))

    def handle_starttag(self, tag, attributes):
        self.code += tag in ("code", "pre", "script")
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)
        if "p" in self.open[:-1] and tag in ("p", "pre", "ul", "ol", "table", "div"):
            self.faults.append(f"line {self.getpos()[0]}: <{tag}> within a paragraph")
        if tag == "a" and "a" in self.open[:-1]:
            self.faults.append(f"line {self.getpos()[0]}: a link within a link")
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append((value, self.getpos()[0]))

    def handle_endtag(self, tag):
        self.code -= tag in ("code", "pre", "script")
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"line {self.getpos()[0]}: </{tag}> ends nothing")

    def handle_data(self, data):
        self.text.append(data)
        if not self.code:
            self.prose += data


def broken_links(pages):
    count = 0
    for path, page in pages.items():
        for link, line in page.links:
            target = urllib.parse.urlsplit(link)
            if target.scheme:
                continue
            count += 1
            to = (path.parent / urllib.parse.unquote(target.path)).resolve() if target.path else path
            if not to.is_file():
                yield f"{path.name}:{line}: {link}: no such file"
            elif target.fragment and urllib.parse.unquote(target.fragment) not in pages[to].anchors:
                yield f"{path.name}:{line}: {link}: no such anchor"
    if count < 10000:
        yield f"only {count} links were found"


def faults_of_text(pages):
    """Elements that do not nest, and Markdown that was not converted. Code is not prose."""
    for path, page in pages.items():
        yield from (f"{path.name}: {fault}" for fault in page.faults)
        if "files" not in path.parts and (found := re.search(r".{0,40}(`|\]\(|\*\*).{0,20}", page.prose)):
            yield f"{path.name} shows Markdown: {found[0]}"


def search_index(folder):
    """The entries of the search: title, kind or page, address, text."""
    return json.loads(re.sub(r"^searchIndex = |;\s*$", "", (folder / "search.js").read_text()))


def faults_of_search(folder, pages):
    entries = search_index(folder)
    for title, _, address, _ in entries:
        page, _, anchor = address.partition("#")
        if (folder / page).resolve() not in pages or anchor and html.unescape(anchor) not in pages[(folder / page).resolve()].anchors:
            yield f"search.js: {title}: {address}: no such page or anchor"
    if ["matmul", "function", "api/matmul.html"] not in [entry[:3] for entry in entries]:
        yield "search.js does not find matmul"
    if len(entries) < 2000:
        yield f"search.js has only {len(entries)} entries"


def faults_of_versions(output, folder, pages):
    header = (root / "include/weft/version.hpp").read_text()
    version = ".".join(re.search(rf"WEFT_VERSION_{part} (\d+)$", header, re.M)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    if folder.name != version.rpartition(".")[0]:
        yield f"version {version} is in the folder {folder.name}"
    yield from (f"{path.name} does not show version {version}" for path, page in pages.items() if f"Weft {version}" not in "".join(page.text))
    listed = json.loads(re.sub(r"^versions = |;\s*$", "", (output / "versions.js").read_text()))
    if listed != [folder.name, "0.0.10", "0.0.9"]:
        yield f"versions.js lists {listed}"
    if f"url={folder.name}/index.html" not in (output / "index.html").read_text():
        yield "index.html does not lead to the newest version"


def operations():
    """The functions that docs/reference/operations.md names, by their definitions in the headers."""
    code = "\n".join(path.read_text() for folder in ("ops", "graph") for path in sorted((root / "include/weft" / folder).rglob("*.hpp")))
    defined = set(re.findall(r"^(?:\[\[nodiscard\]\] )?(?:auto|[\w:]+<.*>|effect) (\w+)\(", code, re.M))
    text = re.sub(r"^```.*?^```", "", (root / "docs/reference/operations.md").read_text(), flags=re.S | re.M)
    names = {found[1] for span in re.findall(r"`([^`]+)`", text) if (found := re.match(r"(?:auto \[.*\] = )?(\w+)(?=$|[<(])", span))}
    return names & defined


def faults_of_operations(folder, pages):
    """Each operation has a page of its own, and the page of operations links to it."""
    links = {link for link, _ in pages[(folder / "reference/operations.html").resolve()].links}
    for name in sorted(operations()):
        if (folder / f"api/{name}.html").resolve() not in pages:
            yield f"{name}, of docs/reference/operations.md, has no page"
        elif f"../api/{name}.html" not in links:
            yield f"reference/operations.html does not link to api/{name}.html"
    if len(operations()) < 60:
        yield f"only {len(operations())} operations were found in docs/reference/operations.md"


def names_of_page():
    """The first name of each piece of code in the column of Weft's names; of TensorFlow's where they are the same."""
    names = set()
    for line in (root / "docs/reference/names.md").read_text().splitlines():
        if not line.startswith("| ") or line.startswith("| TensorFlow 1 "):
            continue
        theirs, ours = line.strip("| ").split(" | ", 1)
        for code in re.findall(r"`([^`]+)`", theirs if "the same names" in ours else ours):
            name = re.match(r"(?:auto \[.*\] = |s\.|tf\.(?:nn\.)?)?([A-Za-z_][\w:]*)(?=$|[<({])", code)
            if name and name[1] != "bool":
                names.add(name[1].rpartition("::")[2])
    return names


def entries(folder):
    """(kind, qualified name, page, anchor) of all that the reference lists."""
    for compound in xml.etree.ElementTree.parse(folder / "weft.tag").getroot():
        kind, scope, page = compound.get("kind"), compound.findtext("name") or "", compound.findtext("filename")
        if kind == "file":
            scope = ""
        else:
            yield kind, scope, page, ""
        for member in compound.iter("member"):
            name = member.findtext("name")
            yield member.get("kind"), f"{scope}::{name}" if scope else name, member.findtext("anchorfile"), member.findtext("anchor")
            for value in member.findall("enumvalue"):
                yield "enumvalue", f"{scope}::{name}::{value.text}", value.get("file"), value.get("anchor")


def check(output, folder):
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    yield from broken_links(pages)
    yield from faults_of_text(pages)
    yield from faults_of_search(folder, pages)
    yield from faults_of_versions(output, folder, pages)
    yield from faults_of_operations(folder, pages)

    listed = list(entries(folder))
    for kind, name, page, _ in listed:
        scope = name if kind == "namespace" else name.rpartition("::")[0]
        if re.search(r"(^|::)(detail|device|plan|gpu|skeleton|formula|library|math)(::|$)", scope) or re.search(r"\w_op$", name):
            yield f"{kind} {name} is listed ({page})"
        if kind == "define" and name not in ("WEFT_CHECKED", "WEFT_HOST_DEVICE", "WEFT_VERSION", "WEFT_VERSION_STRING"):
            yield f"the macro {name} is listed ({page})"
    found = {name.rpartition("::")[2] for _, name, _, _ in listed}
    wanted = names_of_page()
    yield from (f"{name}, of docs/reference/names.md, has no entry" for name in sorted(wanted - found))
    if len(wanted) < 90:
        yield f"only {len(wanted)} names were found in docs/reference/names.md"

    # Functions that a macro makes of the rows of a list: each has its own text.
    formulas = (root / "include/weft/ops/elementwise/formulas.hpp").read_text()
    rows = re.findall(r"^  (?:function|composed)\((\w+), \d\)", formulas, re.M)
    for name in rows:
        said = re.search(rf"((?:^/// .*\n)+)struct {name} \{{", formulas, re.M)
        words = " ".join(said[1].replace("///", " ").split()) if said else "?"
        shown = {" ".join("".join(pages[folder / page].text).split()) for kind, entry, page, _ in listed
                 if kind == "function" and entry.rpartition("::")[2] == name}
        if not any(re.sub(r"\W", "", words) in re.sub(r"\W", "", text) for text in shown):
            yield f"the function {name} does not show the docstring of formula::{name}: {words}"
    if len(rows) < 20:
        yield f"only {len(rows)} rows were found in ops/elementwise/formulas.hpp"


with tempfile.TemporaryDirectory() as temporary:
    output = pathlib.Path(temporary).resolve()
    for other in ("0.0.9", "0.0.10"):  # versions that were published before
        (output / other).mkdir()
        (output / other / "index.html").touch()
    built = subprocess.run([sys.executable, "-B", root / "docs/site/build.py", output, "--doxygen", doxygen],
                           capture_output=True, text=True)
    if built.returncode:
        sys.exit(built.stderr)
    faults = list(check(output, pathlib.Path(built.stdout.strip()).parent))
    browser = subprocess.run([sys.executable, "-B", pathlib.Path(__file__).with_name("site_browser.py"), output], capture_output=True, text=True, timeout=300)
    print(browser.stdout + browser.stderr, end="")
    if browser.returncode not in (0, 77):
        faults.append("site_browser.py has found faults")
print("\n".join(faults) or "the site has an entry for every name, and its links lead somewhere")
sys.exit(bool(faults))
