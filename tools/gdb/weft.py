# SPDX-License-Identifier: BSL-1.0
"""gdb's printers of Weft's types: tensors and views with their elements, shapes, extents, nodes by name and extents.

    (gdb) source weft.py

or the same line in ~/.gdbinit. `set print elements` limits the elements that are shown, `print/r` shows the members.
"""
import re

import gdb

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "half", "bfloat16", "float",
          "double"]
MAX_RANK = 8
HEADER_BYTES = 64  # of storage, before the elements


def integer(value):
    return int(value)


def extents_of(shape):
    rank = min(integer(shape["rank"]), MAX_RANK)
    return [integer(shape["extents"][i]) for i in range(rank)]


def extents_text(extents, names=None):
    return "[" + ", ".join(str(n) if n >= 0 else (names or {}).get(n, "?") for n in extents) + "]"


def arguments(name):
    """The template arguments in a type's name, each as its text."""
    start, depth, found, quoted = name.find("<") + 1, 0, [], False
    if not start: return []
    at = start
    while at < len(name):
        c = name[at]
        if c == '"': quoted = not quoted
        elif not quoted and c in "<({": depth += 1
        elif not quoted and c in ">)}":
            if depth == 0: break
            depth -= 1
        elif not quoted and c == "," and depth == 0:
            found.append(name[start:at].strip())
            start = at + 1
        at += 1
    return [*found, name[start:at].strip()] if name[start:at].strip() else found


def type_name(value):
    kind = value.type.strip_typedefs().unqualified()
    return kind.name or str(kind)


def dims_text(name):
    """The extents in `weft::dims<...>` as they are written in a shape: [batch, 784]."""
    texts = []
    for extent in arguments(name):
        quoted = re.search(r'"([^"]*)"', extent)
        characters = re.search(r"fixed_string<\d+\w*>\{(?:.*?)\{?((?:\(char\))?\d+(?:, *(?:\(char\))?\d+)*)", extent)
        number = re.fullmatch(r"(?:\([^)]*\))?(-?\d+)[ul]*", extent, re.I)
        if number: texts.append(number[1])
        elif "computed_extent" in extent: texts.append("?")
        elif quoted: texts.append(quoted[1].replace("\\000", ""))
        elif characters:
            codes = [int(re.sub(r"\(char\)", "", code)) for code in characters[1].split(",")]
            texts.append("".join(map(chr, codes)).rstrip("\0"))
        else: texts.append("?")
    return "[" + ", ".join(texts) + "]"


def float_of(value):
    """A half or bfloat16 as the number that it is."""
    bits, sixteen = integer(value["bits"]), type_name(value).endswith("bfloat16")
    exponents, digits = (8, 7) if sixteen else (5, 10)
    sign = -1.0 if bits >> 15 else 1.0
    exponent, fraction = (bits >> digits) & ((1 << exponents) - 1), bits & ((1 << digits) - 1)
    bias = (1 << (exponents - 1)) - 1
    if exponent == (1 << exponents) - 1: return sign * (float("nan") if fraction else float("inf"))
    if exponent == 0: return sign * fraction * 2.0 ** (1 - bias - digits)
    return sign * (1 + fraction / (1 << digits)) * 2.0 ** (exponent - bias)


class DimsPrinter:
    def __init__(self, value): self.value = value

    def to_string(self): return dims_text(type_name(self.value))


class ShapePrinter:
    def __init__(self, value): self.value = value

    def to_string(self): return extents_text(extents_of(self.value))


class ScalarPrinter:
    """half, bfloat16"""
    def __init__(self, value): self.value = value

    def to_string(self): return f"{float_of(self.value):g}"


class ElementsPrinter:
    """`tensor<float> [2, 3] = {1, 2, ...}`: elements row after row."""
    def __init__(self, value):
        self.value = value
        self.extents = extents_of(value["shape_"])
        name = type_name(value)
        self.kind = "tensor_view" if name.startswith("weft::tensor_view<") else "tensor"
        element = value.type.strip_typedefs().template_argument(0)
        if self.kind == "tensor_view":
            self.data = value["data_"]
        else:
            block = value["bytes_"]["block_"]
            first = integer(block) + HEADER_BYTES if integer(block) else 0
            self.data = gdb.Value(first).cast(element.pointer())
        self.element = element.unqualified()

    def count(self):
        n = 1
        for extent in self.extents: n *= max(extent, 0)
        return n if integer(self.data) else 0

    def to_string(self):
        return f"{self.kind}<{str(self.element).replace('weft::', '')}> {extents_text(self.extents)}"

    def children(self):
        for i in range(self.count()): yield f"[{i}]", self.data[i]

    def display_hint(self): return "array"


def sequence_items(sequence):
    return integer(sequence["size_"]), sequence["data_"]


class Graph:
    """What is read of a graph: nodes and the names of extents."""
    def __init__(self, builder):
        graph = builder.dereference().cast(gdb.lookup_type("weft::graph"))
        self.value = graph["data_"].dereference()

    def node(self, number):
        count, nodes = sequence_items(self.value["nodes"])
        return nodes[number] if number < count else None

    def extent_names(self):
        whole = self.value["whole"]                        # of a subgraph
        count, names = sequence_items((whole["data_"] if integer(whole) else self.value)["extent_names"])
        return {integer(names[i]["first"]): names[i]["second"].string() for i in range(count)}


def string(value):
    """A std::string, whose own printer may be absent."""
    try:
        return value["_M_dataplus"]["_M_p"].string(length=integer(value["_M_string_length"]))
    except gdb.error:
        return str(value).strip('"')                       # another library's


class SymbolPrinter:
    """symbol, node, variable_node, effect: `node<float, [batch, 10]> "logits"`."""
    def __init__(self, value): self.value = value

    def to_string(self):
        try:
            return self.text()
        except gdb.error:  # g++ describes a graph in the file alone that has its virtual functions
            return f"{type_name(self.value)}, of a graph without debug information: compile Weft with -g"

    def text(self):
        symbol = self.value if type_name(self.value) == "weft::symbol" else self.value["symbol_"]
        kind = re.match(r"weft::(\w+)", type_name(self.value))[1].replace("variable_node", "variable")
        builder, where = symbol["where_"], symbol["value_"]
        if not integer(builder):
            number = float(symbol["number_"])
            return f"{kind}, empty" if kind != "symbol" else f"symbol, the number {number:g}"
        if integer(builder["generation_"]) != integer(symbol["generation_"]): return f"{kind}, its graph no longer exists"
        graph = Graph(builder)
        node = graph.node(integer(where["node"]))
        if node is None: return f"{kind}, not in its graph"
        name, output = string(node["name"]), integer(where["output"])
        text = f'"{name}"' if output == 0 else f'"{name}:{output}"'
        if kind == "effect": return f"effect {text}"
        count, outputs = sequence_items(node["def"]["outputs"])
        if output >= count: return f"{kind} {text}"
        info = outputs[output]
        dtype = DTYPES[integer(info["type"])]
        return f"{kind}<{dtype}, {extents_text(extents_of(info['extents']), graph.extent_names())}> {text}"


class SequencePrinter:
    def __init__(self, value): self.value = value

    def to_string(self): return f"sequence of {sequence_items(self.value)[0]}"

    def children(self):
        count, items = sequence_items(self.value)
        for i in range(count): yield f"[{i}]", items[i]

    def display_hint(self): return "array"


PRINTERS = [
    (r"weft::(half|bfloat16)$", ScalarPrinter),
    (r"weft::shape$", ShapePrinter),
    (r"weft::dims<", DimsPrinter),
    (r"weft::tensor(_view)?<", ElementsPrinter),
    (r"weft::(node|variable_node)<|weft::(symbol|effect)$", SymbolPrinter),
    (r"weft::sequence<", SequencePrinter),
]


def find_printer(value):
    kind = value.type.strip_typedefs().unqualified()
    if kind.code != gdb.TYPE_CODE_STRUCT: return None
    for pattern, printer in PRINTERS:
        if re.match(pattern, kind.name or ""): return printer(value)
    return None


find_printer.name = "weft"
if not any(getattr(p, "name", None) == "weft" for p in gdb.pretty_printers):
    gdb.pretty_printers.insert(0, find_printer)
