#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds the site: the API reference of include/weft and all Markdown pages, for a host of static files.

    build.py OUTPUT [--doxygen PROGRAM]

writes OUTPUT/VERSION/, where VERSION is the project's, such as 0.1. Folders of other versions in OUTPUT stay;
OUTPUT/versions.js lists all, and OUTPUT/index.html leads to the newest.

Doxygen reads the headers and writes XML. reference.py chooses what is public, markdown.py converts the pages, and this
file writes a page for each page of docs/, each file that pages link to, each group of the reference, and each name.
Faults name the files and lines: links that lead nowhere, names without a docstring, and what Doxygen does not read.
"""
import argparse
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import markdown
import reference
from reference import Fault

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Warnings about code that the reference does not show, or reads by itself.
NOT_PUBLIC = re.compile(r"detail::|\.inc not found|recursive class relation|while parsing initializer list|std::ranges::enable_borrowed_range")
SECTIONS = {"tutorial": "Tutorials", "how-to": "How-to guides", "reference": "Reference", "explanation": "Explanation"}
KINDS = {"define": "macro", "typedef": "alias", "variable": "constant", "enum": "enumeration"}


def project_version():
    parts = re.findall(r"define WEFT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", (ROOT / "include/weft/version.hpp").read_text(), re.M)
    if len(parts) != 3:
        raise Fault("include/weft/version.hpp does not define the version")
    return ".".join(parts)


def address(path):
    """The page of a file of the repository: docs/how-to/data.md is how-to/data.html."""
    relative = path.relative_to(ROOT).as_posix()
    if relative in ("README.md", "docs/README.md"):
        return "index.html" if relative == "README.md" else "contents.html"
    if path.suffix == ".md" and (path.parent == ROOT or path.is_relative_to(ROOT / "docs")):
        return relative.removeprefix("docs/")[:-3].lower() + ".html"
    return relative.removeprefix("docs/") if path.suffix == ".svg" else f"files/{relative}.html"


def doxygen_xml(folder, doxygen):
    settings = (HERE / "Doxyfile").read_text() + f'OUTPUT_DIRECTORY = "{folder}"\n'
    run = subprocess.run([doxygen, "-"], input=settings, text=True, capture_output=True, cwd=ROOT)
    said = re.split(r"\n(?=\S+:\d+: |error: )", (run.stdout + run.stderr).replace(f"{ROOT}/", "").strip())
    said = [message for message in said if message and not NOT_PUBLIC.search(message)]
    if said or run.returncode:
        raise Fault("\n".join(said) or f"{doxygen} failed: {run.returncode}: {run.stderr}")
    return folder / "xml"


class Site:
    def __init__(self, folder, api):
        self.folder, self.api, self.index, self.menus = folder, api, [], {}
        self.template = (HERE / "page.html").read_text().replace("{version}", project_version())
        self.linked, self.copied = set(), set()
        self.groups = {}  # group -> its names
        self.nested = {}  # scope -> its names
        for name in api.names.values():
            self.groups.setdefault(name.group, []).append(name)
            self.nested.setdefault(name.name.rpartition("::")[0], []).append(name)
        self.by_spelling = {name.name: name for name in api.names.values()}
        for name in api.names.values():
            if "::" in name.name and name.group != reference.MISTAKES:
                self.by_spelling.setdefault(name.name.split("::", 1)[1], name)

    def write(self, to, title, body):
        """Writes a page. Addresses in its body are relative to it."""
        up = "../" * to.count("/")
        navigation = self.navigation(up)
        page = self.template.replace("{title}", html.escape(title, False)).replace("{up}", up).replace("{navigation}", navigation)
        path = self.folder / to
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.replace("{body}", body))

    def navigation(self, up):
        if up not in self.menus:
            parts = [f'<p><a href="{up}index.html">Overview</a><br><a href="{up}contents.html">Contents</a></p>']
            for folder, title in SECTIONS.items():
                links = [f'<li><a href="{up}{address(path)}">{html.escape(self.title(path), False)}</a></li>'
                         for path in sorted((ROOT / "docs" / folder).glob("*.md"), key=self.title)]
                parts.append(f"<details><summary>{title}</summary><ul>{''.join(links)}</ul></details>")
            for chapter, title in reference.CHAPTERS.items():
                links = [f'<li><a href="{up}api/{self.group_page(group)}">{html.escape(reference.group_title(group), False)}</a></li>'
                         for group in self.ordered_groups(chapter)]
                parts.append(f"<details><summary>API: {title}</summary><ul>{''.join(links)}</ul></details>")
            parts.append(f'<p><a href="{up}api/index.html">All names</a><br><a href="{up}api/mistakes.html">Compile errors</a></p>')
            self.menus[up] = "\n".join(parts)
        return self.menus[up]

    def ordered_groups(self, chapter):
        known = [group for group, (parent, _) in reference.GROUPS.items() if parent == chapter and group in self.groups]
        return known + sorted(group for group in self.groups if group not in reference.GROUPS and group != reference.MISTAKES
                              and self.chapter(group) == chapter)

    @staticmethod
    def chapter(group):
        while group not in reference.GROUPS:
            group = group.rpartition("/")[0]
        return reference.GROUPS[group][0]

    @staticmethod
    def group_page(group):
        return "group-" + (group or "weft").replace("/", "-") + ".html"

    @staticmethod
    def title(path):
        return re.search(r"^# (.*)$", path.read_text(), re.M)[1].replace("`", "")

    # ---- Markdown ----

    def code(self, up):
        """Code in prose: a link to the name with which it begins."""
        def convert(text):
            shown = html.escape(text, False)
            found = re.match(r"(?:weft::)?((?:\w+::)*\w+|operator\W+?)(?=$|[({<])", text)
            name = self.by_spelling.get(found[1]) if found else None
            return f'<code><a href="{up}api/{name.page}">{shown}</a></code>' if name and len(found[1]) > 1 else f"<code>{shown}</code>"
        return convert

    def add_page(self, path):
        to = address(path)
        up = "../" * to.count("/")

        def link(target):
            if re.match(r"[a-z]+:", target):
                return target
            file, _, anchor = target.partition("#")
            at = (path.parent / file).resolve() if file else path
            if not at.exists() or not at.is_relative_to(ROOT):
                raise Fault(f"{path.relative_to(ROOT)}: {target}: no such file")
            if at.suffix == ".svg":
                self.copied.add(at)
            elif address(at).startswith("files/"):
                self.linked.add(at)
            return os.path.relpath(address(at), pathlib.PurePosixPath(to).parent) + (f"#{anchor}" if anchor else "")

        source = path.read_text()
        page = markdown.Page(source, link, self.code(up))
        body = page.html
        entries = [heading for heading in page.headings if heading[0] == 2]
        if len(entries) > 3:
            toc = "".join(f'<li><a href="#{anchor}">{html.escape(text, False)}</a></li>' for _, anchor, text in entries)
            body = body.replace("</h1>", f'</h1>\n<details class="toc"><summary>On this page</summary><ul>{toc}</ul></details>', 1)
        title = page.headings[0][2]
        if to == "reference/operations.html":
            body += self.list_of_operations(page.code)
        self.write(to, title, body)
        parts = re.split(r'<h\d id="([^"]*)">(.*?)</h\d>', page.html)
        for anchor, heading, text in zip(parts[1::3], parts[2::3], parts[3::3]):
            apart = re.sub(r"</(td|th|li|p|pre)>", " ", text)
            plain = " ".join(html.unescape(re.sub(r"<[^>]*>", "", apart)).split())
            self.index.append([html.unescape(re.sub(r"<[^>]*>", "", heading)), title, f"{to}#{anchor}", plain])

    def list_of_operations(self, code):
        names = sorted(n.name for group, members in self.groups.items() if group.startswith("ops") and group != "ops/writing"
                       for n in members if n.kind == "function" and "::" not in n.name and n.name.isidentifier())
        return ('<h2 id="all-operations">All operations</h2>\n<p class="names">' + " ".join(code(name) for name in names) + "</p>")

    def add_file(self, path):
        """A page that shows a file which pages link to."""
        relative = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            body = "<ul>" + "".join(f"<li><code>{html.escape(child.name)}</code></li>" for child in sorted(path.iterdir())) + "</ul>"
        else:
            text = path.read_text()
            shown = markdown.highlighted(text) if path.suffix in (".hpp", ".cpp", ".cu", ".inc") else html.escape(text, False)
            body = f"<pre>{shown}</pre>"
        self.write(address(path), relative, f"<h1>{html.escape(relative)}</h1>\n{body}")

    # ---- the reference ----

    @staticmethod
    def declarations(items, anchors):
        """Declarations with their docstrings. Overloads that share a docstring share a box, and so do neighbours without one."""
        blocks, seen = [], set()
        for each in items:
            if blocks and (each.same or not each.documented and not blocks[-1][0].documented):
                blocks[-1].append(each)
            else:
                blocks.append([each])
        for block in blocks:
            lines = []
            for each in block:
                anchor = f' id="{html.escape(each.name)}"' if anchors and each.name not in seen else ""
                seen.add(each.name)
                lines.append(f"<span{anchor}>{each.code()}</span>")
            doc = f'<div class="doc">{block[0].doc()}</div>' if block[0].documented else ""
            between = "\n\n" if len(block) > 1 and any("\n" in line for line in lines) else "\n"
            yield '<pre class="declaration">' + between.join(lines) + f"</pre>\n{doc}"

    def add_name(self, name):
        headers = list(dict.fromkeys(each.header for each in name.declarations))
        group = f'<a href="{self.group_page(name.group)}">{html.escape(reference.group_title(name.group), False)}</a>'
        kind, own = KINDS.get(name.kind, name.kind), name.name.rpartition("::")[2]
        body = [f"<h1>{html.escape(name.name, False)}</h1>",
                f'<p class="where">{kind} in <code>weft{"::" + name.name.rpartition("::")[0] if "::" in name.name else ""}</code>, {group}</p>',
                "<pre>" + "\n".join(f'<i class="p">#include &lt;weft/{header}&gt;</i>' for header in headers) + "</pre>"]
        others = []
        for each in name.declarations:
            others.append(each)
            if not each.members:
                continue
            body += self.declarations(others, False)
            others = []
            first = each is next(other for other in name.declarations if other.members)
            for title, kinds in (("Members", ("variable",)), ("Types", ("typedef", "enum")), ("Functions", ("function", "friend"))):
                if members := [member for member in each.members if member.kind in kinds]:
                    body += [f"<h2>{title}</h2>", *self.declarations(members, first)]
                    self.index += ([f"{name.name}::{member.name}", "member", f"api/{name.page}#{member.name}", member.brief()]
                                   for member in {m.name: m for m in members[::-1]}.values() if first and member.name != own)
        body += self.declarations(others, False)
        if name.kind in reference.CLASSES and name.name in self.nested:
            body.append("<h2>Nested types</h2>" + self.table(self.nested[name.name]))
        self.write(f"api/{name.page}", name.name, "\n".join(body))
        values = " ".join(value.findtext("name") for each in name.declarations if each.kind == "enum" for value in each.element.findall("enumvalue"))
        self.index.append([name.name, kind, f"api/{name.page}", f"{name.brief()} {values}".strip()])

    @staticmethod
    def table(names):
        rows = (f'<tr><td><a href="{n.page}"><code>{html.escape(n.name, False)}</code></a></td><td>{KINDS.get(n.kind, n.kind)}</td>'
                f"<td>{html.escape(n.brief(), False)}</td></tr>" for n in sorted(names, key=lambda n: n.name.lower()))
        return '<div class="wide"><table class="list"><tbody>' + "\n".join(rows) + "</tbody></table></div>"

    def add_reference(self):
        for name in self.api.names.values():
            if name.group != reference.MISTAKES:
                self.add_name(name)
        overview = ["<h1>API reference</h1>"]
        for chapter, title in reference.CHAPTERS.items():
            overview.append(f"<h2>{title}</h2>")
            for group in self.ordered_groups(chapter):
                heading = html.escape(reference.group_title(group), False)
                names = sorted(self.groups[group], key=lambda n: n.name.lower())
                self.write(f"api/{self.group_page(group)}", reference.group_title(group), f"<h1>{heading}</h1>" + self.table(names))
                overview.append(f'<h3><a href="{self.group_page(group)}">{heading}</a></h3><p class="names">' + " ".join(
                    f'<code><a href="{n.page}">{html.escape(n.name, False)}</a></code>' for n in names) + "</p>")
        self.write("api/index.html", "API reference", "\n".join(overview))
        mistakes = sorted(self.groups[reference.MISTAKES], key=lambda n: n.name)
        body = ["<h1>Compile errors</h1><p>Compilers print these names, with the types and extents that are at fault, "
                "if a call is wrong.</p>"]
        for name in mistakes:
            doc = "".join(each.doc() for each in name.declarations[:1] if each.documented)
            body.append(f'<h3 id="{name.name}"><code>{name.name}</code></h3>\n{doc}')
            self.index.append([name.name, "compile error", f"api/{name.page}", name.brief()])
        self.write("api/mistakes.html", "Compile errors", "\n".join(body))

    def write_tags(self):
        """A tag file, with which the Doxygen of another project links to these pages."""
        quoted = html.escape
        parts = ["<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n<tagfile>"]
        scopes = {}
        for name in self.api.names.values():
            if name.kind in (*reference.CLASSES, "concept"):
                members = "".join(self.tag(member, member.name, f"api/{name.page.partition('#')[0]}", quoted(member.name))
                                  for each in name.declarations for member in each.members)
                parts.append(f'<compound kind="{name.kind}"><name>weft::{quoted(name.name)}</name>'
                             f"<filename>api/{quoted(name.page)}</filename>{members}</compound>")
            else:
                scope, _, own = name.name.rpartition("::")
                scope = "" if name.kind == "define" else f"weft::{scope}".removesuffix("::")
                scopes.setdefault(scope, []).append(self.tag(name.declarations[0], own, f"api/{name.page}", ""))
        parts += (f'<compound kind="{"namespace" if scope else "file"}"><name>{scope or "config.hpp"}</name>'
                  f'<filename>api/index.html</filename>{"".join(members)}</compound>' for scope, members in scopes.items())
        (self.folder / "weft.tag").write_text("\n".join(parts) + "\n</tagfile>\n")

    @staticmethod
    def tag(declaration, name, file, anchor):
        values = "".join(f'<enumvalue file="{file}" anchor="{anchor}">{value.findtext("name")}</enumvalue>'
                         for value in declaration.element.findall("enumvalue") if declaration.kind == "enum")
        kind = "function" if declaration.kind == "friend" else {"enum": "enumeration"}.get(declaration.kind, declaration.kind)
        return (f'\n<member kind="{kind}"><type></type><name>{html.escape(name)}</name><anchorfile>{file}</anchorfile>'
                f"<anchor>{anchor}</anchor><arglist></arglist>{values}</member>")

    def finish(self):
        for path in self.copied:
            to = self.folder / address(path)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
        for name in ("site.css", "site.js"):
            shutil.copyfile(HERE / name, self.folder / name)
        (self.folder / "search.js").write_text("searchIndex = [\n" + ",\n".join(
            json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in self.index) + "\n];\n")
        self.write_tags()


def write_versions(output):
    """The list of the versions in output, newest first, and the page that leads to the newest."""
    versions = sorted((path.name for path in output.iterdir() if re.fullmatch(r"[\d.]+", path.name) and (path / "index.html").exists()),
                      key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    (output / "versions.js").write_text(f"versions = {json.dumps(versions)};\n")
    (output / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>Weft</title><meta http-equiv="refresh" content="0; url={versions[0]}/index.html">'
        f'<link rel="icon" href="data:,"><a href="{versions[0]}/index.html">Weft {versions[0]}</a>\n')


def build(output, doxygen="doxygen"):
    """Builds the site. Returns the folder of this version."""
    folder = output / ".".join(project_version().split(".")[:2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        api = reference.Reference(doxygen_xml(pathlib.Path(temporary), doxygen), ROOT / "include")
    if api.undocumented:
        raise Fault("\n".join(api.undocumented))
    site = Site(folder, api)
    names = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
    for path in [*(ROOT / f"{name}.md" for name in names), *sorted((ROOT / "docs").rglob("*.md"))]:
        site.add_page(path)
    for path in sorted(site.linked):
        site.add_file(path)
    site.add_reference()
    site.finish()
    write_versions(output)
    return folder


def main():
    arguments = argparse.ArgumentParser(usage="build.py OUTPUT [--doxygen PROGRAM]")
    arguments.add_argument("output", type=pathlib.Path)
    arguments.add_argument("--doxygen", default="doxygen")
    given = arguments.parse_args()
    try:
        print(f"{build(given.output, given.doxygen)}/index.html")
    except Fault as fault:
        sys.exit(f"{fault}\nerror: the site has faults")


if __name__ == "__main__":
    main()
