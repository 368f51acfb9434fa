"""Runs the command weft as a user does, on files that NumPy, PyTorch and TensorFlow have written.

usage: weft.py WEFT TEST_CHECKPOINT_FOLDER

What it converts is read by NumPy and by safetensors' library where WEFT_PYTHON, or else this Python, has them.
"""
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

weft, given = sys.argv[1], pathlib.Path(sys.argv[2])
temporary = tempfile.TemporaryDirectory()
made = pathlib.Path(temporary.name)
faults = []


def run(*arguments, status=0):
    done = subprocess.run([weft, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    if done.returncode != status:
        faults.append(f"weft {arguments}: status {done.returncode} in place of {status}: {done.stdout}{done.stderr}")
    if status == 2 and (not done.stderr.startswith("weft: ") or done.stderr.count("\n") != 1):
        faults.append(f"weft {arguments}: no message of one line: {done.stderr!r}")
    return done.stdout + done.stderr


def says(text, *words):
    faults.extend(f"{word!r} is not in {text!r}" for word in words if word not in text)


def values(type_, count):
    numbers = [7 * i % 13 - 5 for i in range(count)]
    if type_ == "bool":
        return [7 * i % 2 for i in range(count)]
    return [abs(n) for n in numbers] if type_.startswith("uint") else numbers


def row(text, name):
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == [name]]
    if len(rows) != 1:
        faults.append(f"{name} has {len(rows)} rows in {text}")
        return [""] * 20
    return rows[0]


def check_statistics(text, name, type_, extents, count):
    numbers = values(type_, count)
    expected = [min(numbers), max(numbers), statistics.fmean(numbers), statistics.pstdev(numbers), 0]
    found = row(text, name)
    if found[1] != type_ or " ".join(found[2:-5]) != extents:
        faults.append(f"{name} is {found} in place of {type_} {extents}")
    for what, number in zip(found[-5:], expected):
        if not math.isclose(float(what), number, rel_tol=1e-5, abs_tol=1e-9):
            faults.append(f"{name}: {what} in place of {number}")


# ---- inspect ----

saver = given / "tensorflow" / "saver"
for path in (saver, f"{saver}.index"):
    text = run("inspect", path)
    for type_ in ("bool", "int8", "int64", "uint16", "bfloat16"):
        check_statistics(text, f"types/{type_}", type_, "[3, 4]", 12)
    check_statistics(text, "types/float16", "half", "[3, 4]", 12)
    check_statistics(text, "parts/columns", "double", "[3, 7, 2]", 42)
    check_statistics(text, "parts/long", "int8", "[16500]", 16500)
    says(text, "text            string     [2]\n", "TensorFlow V2: 22 tensors")
text = run("inspect", given / "npy" / "stored.npz")
check_statistics(text, "f8", "double", "[3, 4]", 12)
check_statistics(run("inspect", given / "npy" / "big_endian.npy"), "big_endian", "float", "[2, 3]", 6)
text = run("inspect", given / "pytorch" / "lenet.safetensors", "--no-statistics")
says(text, "conv2.weight  float  [8, 4, 5, 5]\n", "safetensors: 8 tensors, 10594 elements\n")

# Two numbers, an infinity and a NaN, in a file made by hand; names are not let loose on a terminal.
header = b'{"a\\u001b[31m":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
odd = made / "odd.safetensors"
odd.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1, math.nan, math.inf, -2))
text = run("inspect", odd)
says(text, "a\\x1b[31m", "-2", "inf", " 1\n")
if "\x1b" in text:
    faults.append("a name writes control characters")

# ---- convert ----

run("convert", saver, made / "saver.npz")
text = run("convert", saver, made / "saver.safetensors")
says(text, "left out: text is string [2]", "left out: nine_axes", "left out: complex", "saver.safetensors: 19 tensors")
for path in (made / "saver.npz", made / "saver.safetensors"):
    text = run("compare", saver, path, status=1)
    says(text, "only in", ": complex\n", ": nine_axes\n", ": text\n", "19 of 22 tensors are equal\n")
says(run("compare", made / "saver.npz", made / "saver.safetensors"), "19 of 19 tensors are equal\n")
run("convert", made / "saver.npz", made / "one.npy", "--tensor", "types/int64")
says(run("convert", made / "saver.npz", made / "no.npy", status=2), "one tensor, and", "has 19", "--tensor NAME")
says(run("convert", made / "saver.npz", made / "no.npy", "--tensor=weights", status=2), "has no tensor weights")
says(run("convert", made / "saver.npz", made / "no.ckpt", status=2), "ends neither in")
says(run("convert", saver, made / "no.npy", "--tensor", "text", status=2), "elements of type string")
if list(made.glob("no*")):
    faults.append("a conversion that failed left a file")

# ---- compare ----

lenet = given / "pytorch" / "lenet.safetensors"
says(run("compare", lenet, lenet), "8 of 8 tensors are equal\n")
content = bytearray(lenet.read_bytes())
content[-4:] = struct.pack("<f", struct.unpack("<f", content[-4:])[0] + 0.25)
changed = made / "changed.safetensors"
changed.write_bytes(content)
text = run("compare", lenet, changed, status=1)
says(text, "in 1 of 240 elements, by up to 0.25, first at [9, 23]\n", "7 of 8 tensors are equal\n")
says(run("compare", lenet, changed, "--tolerance", "0.26"), "8 of 8 tensors are equal\n")
run("compare", lenet, changed, "--tolerance", "0.24", status=1)
says(run("compare", odd, odd), "1 of 1 tensors are equal\n")  # NaN too
says(run("compare", given / "npy" / "version_1.npy", given / "npy" / "big_endian.npy"), "1 of 1 tensors are equal\n")
text = run("compare", given / "npy" / "version_1.npy", given / "npy" / "vector.npy", status=1)
says(text, "differs: tensor is float [2, 3], and int64 [5]\n")

# ---- what goes wrong ----

says(run("--help"), "usage:\n  weft inspect FILE")
says(run(status=2), "there is no command; weft --help")
says(run("look", lenet, status=2), "there is no command look")
says(run("inspect", status=2), "inspect takes one file")
says(run("inspect", lenet, "--all", status=2), "there is no option --all of inspect")
says(run("compare", lenet, lenet, "--tolerance", status=2), "--tolerance needs a value")
says(run("compare", lenet, lenet, "--tolerance", "x", status=2), "--tolerance is a number of at least 0, not x")
says(run("inspect", made / "absent", status=2), "absent")
cut = made / "cut.safetensors"
cut.write_bytes(content[:-1])
says(run("inspect", cut, status=2), "cut.safetensors is damaged")
nothing = made / "nothing"
nothing.write_bytes(b"")
run("inspect", nothing, status=2)
run("inspect", made, status=2)

# ---- what was converted, read by others ----

python = os.environ.get("WEFT_PYTHON", sys.executable)
check = """
import sys
import numpy
with numpy.load(sys.argv[1] + "/saver.npz") as arrays:
    names = set(arrays.files)
    assert len(names) == 19, names
    for name in names - {"types/bfloat16", "types/bool"}:
        array = arrays[name]
        i = numpy.arange(array.size)
        expected = (7 * i) % 13 - 5
        if array.dtype.kind == "u":
            expected = abs(expected)
        assert (array.ravel() == expected).all(), name
assert numpy.load(sys.argv[1] + "/one.npy").dtype == numpy.int64
from safetensors import safe_open
with safe_open(sys.argv[1] + "/saver.safetensors", "numpy") as tensors:
    assert set(tensors.keys()) == names
    array = tensors.get_tensor("parts/rows")
    assert array.shape == (10, 4) and (array.ravel() == (7 * numpy.arange(40)) % 13 - 5).all()
"""
has = subprocess.run([python, "-c", "import numpy, safetensors"], cwd=made, stderr=subprocess.DEVNULL)
if has.returncode == 0:
    done = subprocess.run([python, "-B", "-c", check, str(made)], cwd=made, capture_output=True, text=True)
    if done.returncode != 0:
        faults.append(f"NumPy or safetensors: {done.stderr}")
else:
    print("NumPy and safetensors are not installed: what was converted is not read by them")

print("\n".join(faults) or "weft inspects, compares and converts")
sys.exit(1 if faults else 0)
