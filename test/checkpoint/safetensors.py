# SPDX-License-Identifier: BSL-1.0
"""Holds Weft's safetensors files against Python's library: each opens what the other writes, with the same values, and what
one refuses of damaged files the other refuses.

usage: safetensors.py PROGRAM      (test/checkpoint/interchange)

Needs the package `safetensors`, and is skipped without it; WEFT_PYTHON names an interpreter that has it.
"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.path.pop(0)  # this file has the package's name
try:
    from safetensors import SafetensorError, deserialize, serialize_file
except ImportError:
    if wanted := os.environ.pop("WEFT_PYTHON", None):  # once: it can be a script that starts this interpreter
        os.execv(wanted, [wanted, "-B", *sys.argv])
    print("skipped: Python's safetensors is not installed (pip install safetensors); WEFT_PYTHON names an interpreter "
          "that has it")
    sys.exit(77)

program = sys.argv[1]
folder = tempfile.TemporaryDirectory()
root = pathlib.Path(folder.name)
faults = []

TYPES = [("BOOL", "bool", "bool", 1), ("I8", "int8", "int8", 1), ("I16", "int16", "int16", 2), ("I32", "int32", "int32", 4),
         ("I64", "int64", "int64", 8), ("U8", "uint8", "uint8", 1), ("U16", "uint16", "uint16", 2),
         ("U32", "uint32", "uint32", 4), ("U64", "uint64", "uint64", 8), ("F16", "float16", "half", 2),
         ("BF16", "bfloat16", "bfloat16", 2), ("F32", "float32", "float", 4), ("F64", "float64", "double", 8)]


def known():
    """name, type as the file spells it, type as Python does, extents, bytes: as in interchange/main.cpp"""
    all_of = [(f"layer/{n}/{weft}", file, python, [3, n % 4, 2], size) for n, (file, python, weft, size) in enumerate(TYPES)]
    all_of += [("scalar", "F32", "float32", [], 4), ("\u00e4 \"quoted\" \\ \n \U0001f600", "U8", "uint8", [5], 1)]
    for n, (name, file, python, extents, size) in enumerate(all_of):
        count = size
        for extent in extents:
            count *= extent
        yield name, file, python, extents, bytes((7 * n + 3 * k + 1) & (1 if file == "BOOL" else 255) for k in range(count))


# ---- ours, read by Python ----

ours = root / "ours.safetensors"
subprocess.run([program, "write", ours], check=True)
data = ours.read_bytes()
read = dict(deserialize(data))
for name, file, _, extents, content in known():
    there = read.pop(name, None)
    if there is None:
        faults.append(f"{name!r} is not in Weft's file")
    elif (there["dtype"], list(there["shape"]), bytes(there["data"])) != (file, extents, content):
        faults.append(f"{name!r} differs: {there}")
faults += [f"{name!r} is too much in Weft's file" for name in read]
header = struct.unpack("<Q", data[:8])[0]
if json.loads(data[8:8 + header])["__metadata__"] != {"format": "pt", "note": "a \"b\""}:
    faults.append("Weft's metadata differs")
if header % 8:
    faults.append("tensors of Weft's file do not begin at a multiple of 8")

# ---- Python's, read by us ----

theirs = root / "theirs.safetensors"
def spec(python, extents, content):
    return {"dtype": python, "shape": extents, "data": content}


try:
    serialize_file({name: spec(python, extents, content) for name, _, python, extents, content in known()}, str(theirs),
                   {"format": "pt"})
except TypeError:  # newer versions take an object for each tensor, and where its bytes lie
    import ctypes

    from safetensors import TensorSpec
    held = [(name, file, python, extents, ctypes.create_string_buffer(content, max(len(content), 1)), len(content))
            for name, file, python, extents, content in known()]
    serialize_file({name: TensorSpec(dtype=python, shape=extents, data_ptr=ctypes.addressof(at), data_len=size)
                    for name, _, python, extents, at, size in held}, str(theirs), {"format": "pt"})
run = subprocess.run([program, "read", theirs], text=True, stdout=subprocess.PIPE)
if run.returncode:
    faults.append(f"Python's file is read otherwise:\n{run.stdout}")

# ---- damaged ones, opened by both ----

chance = random.Random(1)


def with_header(text, content=b""):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text + content


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def of(tensors, size=8, **more):
    return with_header(json.dumps({**tensors, **more}), bytes(size))


cases = [
    b"", b"\0" * 7, b"\0" * 8, with_header("{}"), with_header("{}", b"x"), with_header(" {}"), with_header("{}   "),
    with_header("{} x"), with_header("[]"), with_header("{\"a\"}"), with_header(b"{\"\xff\": 1}"), with_header("{,}"),
    struct.pack("<Q", 100_000_001) + b"{}", struct.pack("<Q", 2**64 - 1) + b"{}", struct.pack("<Q", 2**63) + b"{}",
    struct.pack("<Q", 3) + b"{}", with_header("{}")[:-1],
    of({"a": entry()}), of({"a": entry()}, 7), of({"a": entry()}, 9), of({"a": entry(offsets=(0, 4))}),
    of({"a": entry(offsets=(8, 0))}), of({"a": entry(offsets=(1, 9))}, 9), of({"a": entry(shape=(-2,))}),
    of({"a": entry(shape=(2.0,))}), of({"a": entry(dtype="F33")}), of({"a": entry(dtype="f32")}), of({"a": entry(shape=())}),
    of({"a": entry(), "b": entry()}), of({"a": entry(), "b": entry(offsets=(8, 16))}, 16),
    of({"a": entry(), "b": entry(offsets=(4, 12))}, 12), of({"a": entry(), "b": entry(offsets=(12, 20))}, 20),
    of({"a": entry(shape=(2**62, 4), offsets=(0, 0))}, 0), of({"a": entry(shape=(2**64, 0), offsets=(0, 0))}, 0),
    of({"a": entry(shape=(2**40, 2**40), offsets=(0, 0))}, 0), of({"a": entry(shape=(0, 5), offsets=(0, 0))}, 0),
    of({"a": entry(shape=(2**62, 0), offsets=(0, 0))}, 0), of({"a": entry(shape=(0,), offsets=(8, 8)), "b": entry()}),
    of({"a": entry(shape=(0,), offsets=(4, 4)), "b": entry()}), of({"a": entry(offsets=(2**64 - 8, 2**64))}),
    of({"a": entry(offsets=(2**64 - 8, 2**64 - 1))}), of({"a": {"dtype": "F32", "shape": [2]}}),
    of({"a": {"dtype": "F32", "data_offsets": [0, 8]}}), of({"a": {"shape": [2], "data_offsets": [0, 8]}}),
    of({"a": {**entry(), "more": {"x": [1.5e3, None, True, "y"]}}}), of({"a": entry(offsets=(0, 8, 8))}),
    of({"a": entry(offsets=(8,))}), of({"a": entry(dtype="F8_E4M3", shape=(8,))}), of({"a": entry(dtype="C64", shape=(1,))}),
    of({"a": entry(dtype="F4", shape=(16,))}), of({"a": entry(dtype="F4", shape=(15,))}),
    of({"a": entry()}, __metadata__={"k": "v"}), of({"a": entry()}, __metadata__={"k": 1}),
    of({"a": entry()}, __metadata__=None), of({"a": entry()}, __metadata__=[]), of({"a": entry()}, __metadata__={}),
    with_header('{"a":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}', bytes(8)),
    with_header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],}}', bytes(8)),
    with_header('{"\\u0061":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)),
    with_header('{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)),
    with_header('{"\\ud83d\\ude00":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)),
    with_header('{"a\n":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)),
]
# Weft's own file and a small one, of which something changed on the way.
small = of({"a": entry(), "b": entry("I16", (1, 2), (8, 12))}, 12)
for _ in range(3000):
    lie = bytearray(chance.choice([small, small, data]))
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.randrange(min(len(lie), 8 + 100))
        how = chance.randrange(4)
        if how == 0:
            lie[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            lie[at] = chance.choice(b'{}[]",:0123456789 \\u-.e')
        elif how == 2:
            del lie[at]
        else:
            lie = lie[:chance.randrange(len(lie) + 1)]
            break
    cases.append(bytes(lie))

paths = []
for number, content in enumerate(cases):
    paths.append(root / f"{number}.safetensors")
    paths[-1].write_bytes(content)
verdicts = []
for first in range(0, len(paths), 500):
    verdicts += subprocess.run([program, "open", *paths[first:first + 500]], text=True, stdout=subprocess.PIPE, check=True,
                               errors="replace").stdout.split("\n" + str(root) + "/")
accepted = 0
for content, verdict in zip(cases, verdicts, strict=True):
    try:
        deserialize(content)
        wanted = "ok"
    except SafetensorError as problem:
        wanted = f"refused: {problem}"
    given = verdict.split(" ", 1)[1]
    accepted += wanted == "ok"
    # Names must be unique in both, but Python's parser does not look.
    twice = "occurs twice" in given
    if (given.strip() == "ok") != (wanted == "ok") and not twice:
        faults.append(f"{content[:200]!r}\n  Weft: {given}\n  Python: {wanted}")

print("\n".join(faults) or f"{len(cases)} files, of which {accepted} are accepted, are judged alike")
sys.exit(1 if faults or accepted < 20 else 0)
