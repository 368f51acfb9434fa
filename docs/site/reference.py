# SPDX-License-Identifier: BSL-1.0
"""Reads what is public from Doxygen's XML: one Name for each qualified name, with its declarations and docstrings.

Folders, headers and namespaces of the implementation are left out, and so are overloads that turn wrong calls into
readable errors. The elementwise functions, which a macro makes of the rows of WEFT_FORMULAS, get the docstrings of the
structures in namespace formula.
"""
import html
import pathlib
import re
import unicodedata
import xml.etree.ElementTree

# A folder of include/weft is a group of its chapter. A folder without an entry gets a group of its own name, within its
# parent folder's. None: the folder belongs to the implementation.
CHAPTERS = {"values": "Values and variables", "operations": "Operations", "training": "Training, data and clusters"}
GROUPS = {
    "": ("values", "Errors, text and time limits"),
    "tensor": ("values", "Tensors"),
    "graph": ("values", "Graphs, variables and control flow"),
    "session": ("values", "Sessions"),
    "ops/elementwise": ("operations", "Functions of elements"),
    "ops/arrays": ("operations", "Arrays"),
    "ops/index": ("operations", "Indices, masks and order"),
    "ops/reduce": ("operations", "Reductions, scans and normalization"),
    "ops/products": ("operations", "Products"),
    "ops/linear_algebra": ("operations", "Linear algebra"),
    "ops/images": ("operations", "Images and sequences"),
    "ops/losses": ("operations", "Losses"),
    "ops/random": ("operations", "Random numbers"),
    "ops/signals": ("operations", "Signals"),
    "ops": ("operations", "Operations on variables, and others"),
    "nn": ("operations", "Layers and models"),
    "ops/writing": ("operations", "For the authors of operations and optimizers"),
    "train": ("training", "Optimizers and training runs"),
    "train/metrics": ("training", "Metrics"),
    "data": ("training", "Data"),
    "queue": ("training", "Queues"),
    "checkpoint": ("training", "Checkpoints"),
    "summary": ("training", "Summaries for TensorBoard"),
    "distributed": ("training", "Clusters"),
    "distributed/cluster": ("training", "Clusters and their tasks"),
    "distributed/collective": ("training", "All-reduce"),
    "distributed/membership": ("training", "Servers and membership"),
    "distributed/parameter": ("training", "Parameter servers"),
    "distributed/remote": ("training", "Graphs over several tasks, and clients"),
    "distributed/training": ("training", "Replicated sessions"),
    "transport": ("training", "Transports"),
}
MISTAKES = "mistakes"
# Headers without public names, in folders that have some.
IMPLEMENTATION = re.compile(
    r"misuse|^source\.hpp$|^tensor/(block_pool|intrusive_ptr|read_elements|short_array)|"
    r"^ops/(dependence|elementwise/formulas|fused|fused_operations|primitives|skeleton)\.hpp|^transport/frame|\.inc$")
# Headers for those who write operations and optimizers.
WRITING = {f"ops/{name}.hpp" for name in (
    "arrays/box_copies", "check", "eager", "images/window", "operation", "optimizer_traits", "reduce/axis_kernel", "subgraphs",
    "symbol", "update", "update_view")}
# Namespaces of the implementation.
INTERNAL = re.compile(r"(^|::)(detail|device|formula|fortran|gpu|library|math|plan|pytorch|refused|skeleton|std)(::|$)")
# Overloads that turn wrong calls into readable errors.
WRONG_CALL = re.compile(r"=\s*delete|detail::(anything|braces)|\((const )?X ?&?&?\.\.\.\)|arguments_are_not_taken|"
                        r"class Nothing|initializer_list< ?X ?>\)")
WRONG_UNLESS_DOCUMENTED = re.compile(r"const [A-Z]\w* ?&(\.\.\.)?[,)]")  # a parameter without a name
PUBLIC_MACROS = ("WEFT_CHECKED", "WEFT_HOST_DEVICE", "WEFT_VERSION", "WEFT_VERSION_STRING")
CLASSES = ("class", "struct", "union")


class Fault(Exception):
    pass


def group_of(header):
    """The group of a header, or None if it belongs to the implementation."""
    if IMPLEMENTATION.search(header):
        return None
    return "ops/writing" if header in WRITING else header.rpartition("/")[0]


def group_title(group):
    return GROUPS[group][1] if group in GROUPS else group.rpartition("/")[2].replace("_", " ").capitalize()


def tidy(text):
    """A declaration with the spaces of this project's style."""
    text = re.sub(r"(?<![\w:/])(?:::)?weft::", "", re.sub(r"\s+", " ", text))
    text = re.sub(r"&lt; ", "&lt;", text)
    text = re.sub(r" (&gt;)(?!=)", r"\1", text)
    return re.sub(r" ((?:&amp;|\*)+(?:\.\.\.)?)(?=[\w<.,)]|$)", r"\1 ", text).replace(" ,", ",").replace(" )", ")").strip()


class Declaration:
    """A function, class, constant, alias, enumeration, concept, macro or member: its code and docstring as HTML."""

    def __init__(self, reference, element, header, name, owner=None):
        self.reference, self.element, self.header, self.owner = reference, element, header, owner
        self.kind = element.get("kind")
        self.id = element.get("id")
        self.name = name
        where = element.find("location")
        self.body = int(where.get("bodystart") or -1), int(where.get("bodyend") or -1)
        declared = int(where.get("declline") or -1)
        self.line, self.end = (int(where.get("line")), self.body[1]) if declared < 0 or self.kind in CLASSES else (declared, declared)
        if self.line == self.body[0]:
            self.end = self.body[1]
        self.words = element.find("briefdescription"), element.find("detaileddescription")
        self.documented = any(part is not None and len(part) for part in self.words)
        self.members, self.same = [], False  # same: its docstring is that of the overload before it

    def doc(self):
        """The brief description is the first sentence of a paragraph."""
        brief, rest = (self.reference.prose(part).strip() if part is not None else "" for part in self.words)
        text = f"{brief.removesuffix('</p>')} {rest.removeprefix('<p>')}" if brief and rest.startswith("<p>") else brief + rest
        text = re.sub(r"<(pre|ul|ol)>.*?</\1>", r"</p>\g<0><p>", text, flags=re.S)  # these end a paragraph
        return re.sub(r"<p>\s*</p>", "", text)

    def brief(self):
        return " ".join("".join(self.words[0].itertext()).split()) if self.words[0] is not None else ""

    def template(self):
        parameters = self.element.find("templateparamlist")
        if parameters is None:
            return ""
        result = "template &lt;" + ", ".join(self.parameter(p) for p in parameters.findall("param")) + "&gt;\n"
        required = self.element.find("requiresclause")
        return result + (f"  requires {tidy(self.reference.code(required))}\n" if required is not None else "")

    def parameter(self, element):
        kind = tidy(self.reference.code(element.find("type")))
        name = element.findtext("declname") or ""
        text = kind + ("" if not name or name == "..." and kind.endswith("...") else name if name == "..." else " " + name)
        array, default = element.find("array"), element.find("defval")
        text = text.replace("& ...", "&...") + (array.text if array is not None else "")
        return text + (f" = {tidy(self.reference.code(default))}" if default is not None else "")

    def code(self):
        """The declaration as HTML."""
        return ("protected: " if self.element.get("prot") == "protected" else "") + self.plain_code()

    def plain_code(self):
        element = self.element
        if self.kind == "define":
            return f"#define {self.name}"
        if self.kind == "concept":
            text = self.reference.code(element.find("initializer")).strip()
            return self.template() + f"concept {self.name} = " + re.sub(r"^.*?\s=\s+", "", text, count=1, flags=re.S) + ";"
        short = html.escape(self.name, False)
        if self.kind in CLASSES:
            bases = [tidy(html.escape(base.text.replace("weft::", ""), False)) for base in element.findall("basecompoundref")
                     if base.get("prot") == "public" and not INTERNAL.search(base.text)]
            return self.template() + f"{self.kind} {short}" + (" : " + ", ".join(bases) if bases else "") + ";"
        kind = tidy(self.reference.code(element.find("type")))
        if self.kind == "enum":
            values = "".join(f"  {value.findtext('name')}{',':<1}"
                             + (f"  // {' '.join(''.join(value.find('briefdescription').itertext()).split())}"
                                if value.find("briefdescription") is not None and len(value.find("briefdescription")) else "")
                             + "\n" for value in element.findall("enumvalue"))
            return f"enum {'class ' if element.get('strong') == 'yes' else ''}{short} {{\n{html.escape(values, False)}}};"
        if self.kind == "typedef":
            return self.template() + f"using {short} = {kind.removeprefix('typedef ')};"
        static = "static " if element.get("static") == "yes" and self.owner is not None else ""
        if element.get("constexpr") == "yes" and "constexpr" not in kind:  # which newer versions of Doxygen leave out
            kind = f"constexpr {kind}".strip()
        if self.kind == "variable":
            start = element.find("initializer")
            value = self.reference.code(start).strip() if start is not None else ""
            return self.template() + f"{static}{kind} {short}{element.findtext('argsstring') or ''}" + (
                " " + re.sub(r"\s+", " ", value) if 0 < len(value) < 90 else "") + ";"
        parameters = [self.parameter(p) for p in element.findall("param")]
        given, depth, at = element.findtext("argsstring") or "", 0, 0
        for at, letter in enumerate(given):
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if not depth:
                break
        tail = tidy(html.escape(given[at + 1:], False))
        head = ("explicit " if element.get("explicit") == "yes" and "explicit" not in kind else "") + static + (f"{kind} " if kind else "") + short
        inline = ", ".join(parameters)
        if len(re.sub(r"<[^>]*>|&\w+;", "", head + inline + tail)) > 96 and len(parameters) > 1:
            inline = "\n    " + ",\n    ".join(parameters)
        return self.template() + f"{head}({inline})" + (f" {tail}" if tail else "") + ";"

    def wrong_call(self):
        if self.kind not in ("function", "friend"):
            return False
        template, given = self.element.find("templateparamlist"), self.element.findtext("argsstring") or ""
        plain = " ".join(template.itertext() if template is not None else ()) + given
        return bool(WRONG_CALL.search(plain) or not self.documented and WRONG_UNLESS_DOCUMENTED.search(given))


class Name:
    """A public name, which has a page, or an entry on the page of mistakes."""

    def __init__(self, name, group):
        self.name, self.group, self.declarations = name, group, []
        self.page = None

    @property
    def kind(self):
        kinds = [each.kind for each in self.declarations]
        return next((kind for kind in (*CLASSES, "concept", "function", "enum", "typedef", "define") if kind in kinds), "variable")

    def brief(self):
        return next((each.brief() for each in self.declarations if each.documented), "")


class Reference:
    def __init__(self, xml_folder, include):
        self.include, self.addresses, self.names, self.undocumented = include, {}, {}, []
        self.sources = {}
        roots = [xml.etree.ElementTree.parse(path).getroot()[0]
                 for path in sorted(xml_folder.glob("*.xml"))
                 if re.match(r"(struct|class|union|namespaceweft|concept|.*_8inc|config_8hpp|formulas_8hpp|version_8hpp)", path.name)]
        self.shared = {}  # of .inc files, which classes include
        self.compounds = {root.findtext("compoundname"): root for root in roots}
        for root in roots:
            if root.get("kind") == "file":
                self.read_file(root)
        for root in roots:
            if root.get("kind") != "file":
                self.read(root)
        self.read_formulas()
        self.share_docstrings()
        self.name_pages()

    def read(self, root):
        full, kind = root.findtext("compoundname"), root.get("kind")
        if kind == "namespace":
            if full.startswith("weft") and not INTERNAL.search(full):
                for member in root.iter("memberdef"):
                    if member.get("kind") != "friend" and "<" not in re.sub(r"^operator.*", "", member.findtext("name")):
                        self.add(full, member)
            return
        if kind not in (*CLASSES, "concept") or not full.startswith("weft::") or root.get("prot") not in ("public", None):
            return
        scope = re.sub(r"<.*", "", full).rpartition("::")[0]
        if INTERNAL.search(scope) or re.search(r"_op(eration)?(::|$)", full) or re.search(r"_is_not_\w*<", full.replace(" ", "")):
            return
        self.add(scope, root, re.sub(r"\s*<.*", "", full))

    def read_file(self, root):
        path = root.find("location").get("file")
        members = list(root.iter("memberdef"))
        if path.endswith(".inc"):
            self.shared[path] = members
        for member in members:
            name = member.findtext("name")
            if name in PUBLIC_MACROS and name not in self.names and len(member.find("briefdescription")):
                self.add("", member)
            if name == "WEFT_FORMULAS" and member.find("initializer") is not None:
                self.rows = re.findall(r"(?:function|composed)\((\w+), (\d)\)", "".join(member.find("initializer").itertext()))

    def add(self, scope, element, full=None):
        header = element.find("location").get("file").removeprefix("weft/")
        group = group_of(header)
        if group is None:
            return
        kind, name = element.get("kind"), element.findtext("name") or full.rpartition("::")[2]
        if kind == "function" and (f"{scope}::{name}" in self.compounds or re.match(r"~", name)):
            return  # deduction guides, and members that are defined after their class
        if kind == "typedef" and name.endswith(("_mistake", "_op")):
            return
        declaration = Declaration(self, element, header, name)
        outer = self.compounds.get(scope)
        if outer is not None and outer.get("kind") in CLASSES and outer.get("prot") != "public":
            return
        specialization = kind in CLASSES and "<" in element.findtext("compoundname")
        if declaration.wrong_call() or specialization and not declaration.documented:
            return
        if kind in CLASSES:
            if any(re.match(r"(weft::)?mistake\b", base.text) for base in element.findall("basecompoundref")):
                group = MISTAKES
            self.add_members(declaration, element, header)
        qualified = f"{scope}::{name}".removeprefix("::").removeprefix("weft::")
        self.names.setdefault(qualified, Name(qualified, group)).declarations.append(declaration)
        self.names[qualified].group = min(self.names[qualified].group, group, key=lambda g: (g == "ops/writing", g == MISTAKES))

    def add_members(self, declaration, element, header):
        found = [member for member in element.iter("memberdef") if member.get("prot") != "private"]
        where = element.find("location")
        if where.get("bodyend", "-1") != "-1":
            for line in self.lines(header)[int(where.get("bodystart")) - 1:int(where.get("bodyend"))]:
                if included := re.match(r"#include <(weft/.*\.inc)>", line):
                    listed = {member.findtext("argsstring") for member in found}  # newer versions of Doxygen list them
                    found += [member for member in self.shared[included[1]]
                              if member.get("kind") == "function" and member.findtext("argsstring") not in listed]
        for member in found:
            if member.get("kind") == "friend" and not member.findtext("argsstring"):
                continue
            one = Declaration(self, member, header, member.findtext("name"), declaration)
            if one.name and not one.wrong_call() and not INTERNAL.search(member.findtext("definition") or ""
                                                                       if member.get("kind") == "typedef" else ""):
                declaration.members.append(one)

    def read_formulas(self):
        """The functions of the rows of WEFT_FORMULAS."""
        for name, operands in self.rows:
            formula = self.compounds[f"weft::formula::{name}"]
            if not len(formula.find("briefdescription")):
                raise Fault(f"ops/elementwise/formulas.hpp: formula::{name} has no docstring, which is that of the function {name}, too")
            declaration = Declaration(self, formula, "ops/elementwise/functions.hpp", name)
            declaration.kind, declaration.id = "function", None
            declaration.line = declaration.end = 0
            declaration.code = {
                "1": lambda name=name: f"template &lt;Expression X&gt;\nauto {name}(const X&amp; x);",
                "2": lambda name=name: "template &lt;Operand A, Operand B&gt;\n  requires(Expression&lt;A&gt; || Expression&lt;B&gt;)\n"
                                       f"auto {name}(const A&amp; a, const B&amp; b);"}[operands]
            self.names.setdefault(name, Name(name, "ops/elementwise")).declarations.insert(0, declaration)
            self.names[name].group = "ops/elementwise"

    def lines(self, header):
        if header not in self.sources:
            self.sources[header] = (self.include / "weft" / header).read_text().splitlines()
        return self.sources[header]

    def share_docstrings(self):
        """A docstring is that of the overloads, too, which follow without an empty line, except for constructors and
        assignments."""
        def share(declarations, own=None):
            before = None
            for each in sorted(declarations, key=lambda d: (d.header, d.name, d.line)):
                if not each.documented and before and each.name not in (own, "operator=") and (before.header, before.name) == (each.header, each.name) and all(
                        self.lines(each.header)[max(before.end, before.line) - 1:each.line - 1]):
                    each.documented = each.same = before.documented
                    each.words = before.words
                before = each

        for name in self.names.values():
            share(name.declarations)
            name.declarations = [each for each in name.declarations if each.documented or not self.is_internal(each)]
            name.declarations.sort(key=lambda d: (group_of(d.header) == "ops/writing", d.header == "ops/bounded.hpp", d.header, d.line))
            for each in name.declarations:
                share(each.members, each.name)
                if each.header == "graph/graph.hpp":  # most members of a graph serve sessions and clusters
                    each.members = [m for m in each.members if m.documented or m.name in ("graph", "operator=", "seed", "size")]
                if not each.documented and name.group != MISTAKES:  # whose names are sentences
                    self.undocumented.append(f"include/weft/{each.header}:{each.line}: {name.name} is not documented")

        self.names = {key: name for key, name in self.names.items() if name.declarations}

    def is_internal(self, declaration):
        """Of declarations without a docstring: names that another header defines, and wrong calls."""
        first, last = declaration.body
        body = self.lines(declaration.header)[first - 1:last] if last > 0 else []
        return declaration.kind in CLASSES and last < 0 or any("static_assert(correct<" in line for line in body)

    def name_pages(self):
        taken = set()
        for name in sorted(self.names.values(), key=lambda n: (n.kind == "concept", n.name)):
            if name.group == MISTAKES:
                name.page = f"mistakes.html#{name.name}"
            else:
                stem = re.sub(r"[^\w.]", lambda m: "-" + unicodedata.name(m[0]).lower().replace(" ", "-"), name.name.replace("::", ".")).replace(
                    "-sign", "")
                while stem.lower() in taken:  # on disks that do not distinguish cases
                    stem += f"-{name.kind}"
                taken.add(stem.lower())
                name.page = f"{stem}.html"
            for each in name.declarations:
                if each.id:
                    self.addresses[each.id] = name.page
                for member in each.members:
                    self.addresses[member.id] = name.page + ("" if "#" in name.page else f"#{html.escape(member.name)}")

    # ---- XML to HTML ----

    def anchor(self, element, inner):
        to = self.addresses.get(element.get("refid"))
        return f'<a href="{to}">{inner}</a>' if to else inner

    def code(self, element):
        """A piece of a declaration."""
        if element is None:
            return ""
        result = html.escape(element.text or "", False)
        for child in element:
            inner = html.escape("".join(child.itertext()), False)
            result += (self.anchor(child, inner) if child.tag == "ref" else inner) + html.escape(child.tail or "", False)
        return result

    TAGS = {"para": "p", "computeroutput": "code", "bold": "b", "emphasis": "em", "itemizedlist": "ul", "orderedlist": "ol",
            "listitem": "li", "verbatim": "pre", "briefdescription": "", "detaileddescription": ""}
    SIGNS = {"lsquo": "\u2018", "rsquo": "\u2019", "ndash": "\u2013", "sp": " ", "linebreak": "<br>"}

    def prose(self, element):
        """A docstring."""
        inner = html.escape(element.text or "", False)
        for child in element:
            inner += self.prose(child) + html.escape(child.tail or "", False)
        if element.tag == "ref":
            return self.anchor(element, inner)
        if element.tag == "ulink":
            return f'<a href="{html.escape(element.get("url"))}">{inner}</a>'
        if element.tag in self.SIGNS:
            return self.SIGNS[element.tag]
        if element.tag not in self.TAGS:
            raise Fault(f"a docstring has <{element.tag}>, which reference.py does not know: {inner[:80]}")
        tag = self.TAGS[element.tag]
        return f"<{tag}>{inner.strip() if tag != 'code' else inner}</{tag}>" if tag else inner
