# SPDX-License-Identifier: BSL-1.0
"""Runs the command weft as a user does, on files that NumPy, PyTorch and TensorFlow have written.

usage: weft.py WEFT TEST_CHECKPOINT_FOLDER WRITES_EVENTS

What it converts is read by NumPy and by safetensors' library where WEFT_PYTHON, or else this Python, has them; events are
those that the test WRITES_EVENTS writes, and those of the package tensorboard where that Python has it.
"""
import bisect
import json
import math
import os
import pathlib
import re
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
says(text, "skipped: text is string [2]", "skipped: nine_axes", "skipped: complex", "saver.safetensors: 19 tensors")
for path in (made / "saver.npz", made / "saver.safetensors"):
    text = run("compare", saver, path, status=1)
    says(text, "only in", ": complex\n", ": nine_axes\n", ": text\n", "19 of 22 tensors are equal\n")
says(run("compare", made / "saver.npz", made / "saver.safetensors"), "19 of 19 tensors are equal\n")
run("convert", made / "saver.npz", made / "one.npy", "--tensor", "types/int64")
says(run("convert", made / "saver.npz", made / "no.npy", status=2), "one tensor, but", "has 19", "--tensor NAME")
says(run("convert", made / "saver.npz", made / "no.npy", "--tensor=weights", status=2), "has no tensor weights")
says(run("convert", made / "saver.npz", made / "no.ckpt", status=2), "must end in")
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

# ---- models ----

onnx = given.parent / "onnx" / "files" / "small.onnx"
text = run("show", lenet)
says(text, "conv1         104  bias float [4], weight float [4, 1, 5, 5]\n", "8 tensors, 10594 parameters\n")
text = run("show", onnx)
says(text, "weights            6  float [2, 3]\n", "int4               0  INT4 [3]\n", "\nopset              18\n",
     "\noperator my.Many   1\n", "\ninput x            float [batch, 3, ?]\n", "\ninput list         sequence\n",
     "ONNX: 21 tensors, 15 parameters\n")
says(run("inspect", onnx), "weights   float         [2, 3]              0            5          2.5")
model = onnx.read_bytes()
other = made / "other.onnx"
for old, new, *words in [
        (b"", b"", "17 of 21 tensors are equal, and so are the graphs\n", "not compared: int4 is INT4 [3]"),
        (b"Identity", b"Sigmoid_", "differs: node 0 is If 'branch', and If 'branch', with other inputs, outputs or attributes"),
        (b"\x04Many", b"\x04Mary", "differs: operator my.Many is 1, and absent", "operator my.Mary is absent, and 1"),
        (b"batch", b"times", "differs: input x is float [batch, 3, ?], and float [times, 3, ?]", "but the graphs differ")]:
    if model.count(old) == 0:
        faults.append(f"{old} is not in {onnx}")
    other.write_bytes(model.replace(old, new) if old else model)
    (made / "outside.bin").write_bytes((onnx.parent / "outside.bin").read_bytes())
    says(run("diff", onnx, other, status=1), *words)
run("convert", onnx, made / "weights.npy", "--tensor", "weights")
says(run("diff", made / "weights.npy", made / "weights.npy"), "1 of 1 tensors are equal\n")
says(run("convert", onnx, made / "onnx.safetensors"), "onnx.safetensors: 17 tensors\n")
text = run("diff", onnx, made / "onnx.safetensors", status=1)
says(text, "17 of 21 tensors are equal\n")
other.write_bytes(model[:-3])
says(run("show", other, status=2), "protobuf: ", "other.onnx: ", "it is damaged")
says(run("show", status=2), "show requires one file")

# ---- checkpoints of Weft's saver ----


def crc32c(content):
    crc = 0xffffffff
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def write_checkpoint(folder, step, value, kind="trained"):
    folder.mkdir(parents=True)
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    front, content = struct.pack("<Q", len(header)) + header, struct.pack("<f", value)
    (folder / "0-of-1.safetensors").write_bytes(front + content)
    body = json.dumps({"checkpoint": {
        "version": 1, "step": step, "sequence": step, "written_us": 0, "keep_after_us": 0, "without_value": [],
        "files": [{"name": "0-of-1.safetensors", "bytes": len(front + content), "header_crc32c": crc32c(front),
                   "records": [{"name": "w", "kind": kind, "crc32c": crc32c(content)}]}]}},
        separators=(",", ":"))[:-1]
    (folder / "index.json").write_text(f'{body},"crc32c":"{crc32c(body.encode()):08x}"}}\n')


training = made / "training"
training.mkdir()
says(run("inspect", training, status=2), "must be a checkpoint or a saver's folder", "index.json")
for step in [9, 10]:
    write_checkpoint(training / f"run-a-{step}", step, step)
for path, format_, value in [(training, "checkpoint run-a-10", "10"), (training / "run-a-9", "checkpoint", "9")]:
    text = run("inspect", path)
    says(text, f"{format_}: 1 tensors, 1 elements\n")
    if row(text, "w")[3:6] != [value] * 3:
        faults.append(f"{path} has {text}")
says(run("compare", training, training / "run-a-10"), "1 of 1 tensors are equal\n")
write_checkpoint(made / "slots" / "run-1", 1, 0, "slot")
says(run("show", made / "slots" / "run-1"), ": 0 tensors, 0 parameters, and 1 slots of an optimizer (--all shows them)\n")
says(run("show", made / "slots" / "run-1", "--all"), "w               1  float [1]\n", ": 1 tensors, 1 parameters\n")
write_checkpoint(training / "other-11", 11, 0)
says(run("inspect", training, status=2), "has checkpoints named other and run-a; pass the folder of one checkpoint")

# ---- what goes wrong ----

if not re.fullmatch(r"weft \d+\.\d+\.\d+\n", run("--version")):
    faults.append(f"--version prints {run('--version')!r}")

says(run("--help"), "usage:\n  weft show FILE")
manual = (pathlib.Path(__file__).parents[2] / "tools/man/weft.1").read_text().replace("\\", "").replace("\n.I", "")
says(manual, *re.findall(r"--[\w-]+|weft (?:records )?\w+(?= FILE| A| FROM| PATH)", run("--help")))
says(run(status=2), "a command is required; see weft --help")
says(run("look", lenet, status=2), "unknown command look")
says(run("inspect", status=2), "inspect requires one file")
says(run("inspect", lenet, "--all", status=2), "inspect has no option --all")
says(run("compare", lenet, lenet, "--tolerance", status=2), "--tolerance needs a value")
says(run("compare", lenet, lenet, "--tolerance", "x", status=2), "--tolerance must be a number of at least 0, but is x")
says(run("inspect", made / "absent", status=2), "absent")
cut = made / "cut.safetensors"
cut.write_bytes(content[:-1])
says(run("inspect", cut, status=2), "cut.safetensors is damaged")
strange = made / "strange.bin"
strange.write_bytes(b"\x7fELF, or anything else")
says(run("show", strange, status=2), "strange.bin is of no format that weft knows")
says(run("diff", lenet, odd, status=1), "no tensor was compared: the files have no name in common")
nothing = made / "nothing"
nothing.write_bytes(b"")
run("inspect", nothing, status=2)
run("inspect", made, status=2)

# ---- events ----

runs = made / "runs"
subprocess.run([sys.argv[3]], env={**os.environ, "WEFT_WRITE_EVENTS": str(runs / "one")}, check=True, timeout=60,
               capture_output=True)
event_file = next((runs / "one").iterdir())
text = run("events", runs)
shown = [line.split("  ", 2)[2] for line in text.splitlines()]
times = {line.split("  ")[1] for line in text.splitlines()}
if any(not re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d\d\d", t) for t in times):
    faults.append(f"times: {times}")
for line in ["version: brain.Event:2", "train/loss  0.00390625", "again  60",
             "w  histogram: count 41 min -2 max 3 mean 0.5", "grey  image: height 2 width 3 channels 1 bytes 77",
             "session: status start", "_hparams_/experiment  hparams: experiment 3 hyperparameters",
             "_hparams_/session_start_info  hparams: values rate=0.5, optimizer=adam, shuffled=true",
             "_hparams_/session_end_info  hparams: status success", "notes  text: **bold**, and \u03c0"]:
    # zlib may pack the image otherwise
    if line not in shown and not ("bytes" in line and any(s.startswith(line[:-2]) for s in shown)):
        faults.append(f"{line!r} is not in {text}")
if not any(re.fullmatch(r"graph: nodes \d+", line) for line in shown):
    faults.append(f"no graph in {text}")
says(text, "step 9  ", "step 4  ")
rows = [json.loads(line) for line in run("events", event_file, "--json", "--tag", "train/*").splitlines()]
if [(r["step"], r["kind"], r["tag"], r["value"]) for r in rows] != [
        (i, "scalar", "train/loss", 0.5 ** i) for i in range(10)]:
    faults.append(f"--json: {rows}")
for line in run("events", event_file, "--json").splitlines():
    json.loads(line, parse_constant=faults.append)

# A record after the other: where a bit differs, or the file is cut, those before it are shown.
content = event_file.read_bytes()
begins, at = [], 0
while at < len(content):
    begins.append(at)
    at += 16 + struct.unpack("<Q", content[at:at + 8])[0]
damaged = made / "damaged.tfevents"
third = begins[3]
for where, what in [(0, "length"), (9, "length"), (12, "data"), (begins[4] - 1 - third, "data")]:
    changed = bytearray(content)
    changed[third + where] ^= 0x10
    damaged.write_bytes(changed)
    done = subprocess.run([weft, "events", damaged], capture_output=True, text=True, timeout=60)
    says(done.stderr, f"damaged.tfevents: record 3 at offset {third} has", what)
    if done.returncode != 2 or done.stderr.count("\n") != 1 or done.stdout.count("\n") != 3:
        faults.append(f"{done.returncode}: {done.stdout}{done.stderr}")
for size in (third + 5, third + 12, begins[4] - 1):
    damaged.write_bytes(content[:size])
    says(run("events", damaged, status=2), f"damaged.tfevents: record 3 at offset {third}")

# The same all over the file, many files at once: a message for each, of the record that is hit, and the values of the
# records before it. The files that end between records have these values, and no message.
sweep = made / "sweep"
sweep.mkdir()
hits, shown = {}, {}


def damage(name, place, bytes_):
    path = sweep / f"{name}.{place}.tfevents"
    path.write_bytes(bytes_)
    shown[str(path)] = []
    return str(path)


before = [damage("cut", b, content[:b]) for b in begins]
for place in sorted({*range(0, len(content), 41), *(b + i for b in begins for i in (0, 7, 8, 11, 12))}):
    record = bisect.bisect_right(begins, place) - 1
    changed = bytearray(content)
    changed[place] ^= 1 << place % 8
    hits[damage("flipped", place, changed)] = record
    if place not in begins:
        hits[damage("cut", place, content[:place])] = record
whole = [json.loads(line) for line in run("events", event_file, "--json").splitlines()]
done = subprocess.run([weft, "events", sweep, "--json"], capture_output=True, text=True, timeout=60)
for line in done.stdout.splitlines():
    fields = json.loads(line)
    shown[fields.pop("file")].append(fields)
messages = done.stderr.splitlines()
if done.returncode != 2 or len(messages) != len(hits):
    faults.append(f"{done.returncode}: {len(messages)} messages of {len(hits)} damaged files")
for (path, record), message in zip(sorted(hits.items()), messages):
    says(message, f"{path}: record {record} at offset {begins[record]} ")
    if shown[path] != shown[before[record]]:
        faults.append(f"{path}, damaged in record {record}, shows {len(shown[path])} values")
for record, path in enumerate(before):
    if shown[path] != whole[:len(shown[path])] or not record <= len(shown[path]) < len(whole):
        faults.append(f"{path}, of {record} records, shows {len(shown[path])} values")

(runs / "two").mkdir()
(runs / "two" / "damaged.tfevents").write_bytes(content[:-1])
text = run("events", runs, status=2)
says(text, f"{event_file}:\n", "two/damaged.tfevents:\n",
     f"record {len(begins) - 1} at offset {begins[-1]} ends inside its checksum")
says(run("events", made / "absent", status=2), "absent cannot be opened")
says(run("events", given, status=2), "has no event file")
says(run("events", lenet, status=2), "record 0 at offset 0 has a length with a wrong checksum: the file is damaged")
says(run("events", event_file, "--tag", status=2), "--tag needs a value")

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

# ---- records ----

examples = pathlib.Path(given).parent / "data"
for ending in ("", ".gz", ".zlib"):
    says(run("records", "check", examples / f"examples.tfrecord{ending}"), "5 records, 635 bytes in them, 0 damaged places")
content = bytearray((examples / "examples.tfrecord").read_bytes())
content[200] ^= 1  # in the data of the second record
content[-3] ^= 1   # in the checksum of the last
(made / "damaged.tfrecord").write_bytes(content)
says(run("records", "check", made / "damaged.tfrecord", status=1), "3 records", "2 damaged places")
for name in ("repaired.tfrecord", "repaired.gz"):
    says(run("records", "repair", made / "damaged.tfrecord", made / name), "3 records", "2 damaged places")
    says(run("records", "check", made / name), "3 records", "0 damaged places")
if (made / "repaired.gz").read_bytes()[:2] != b"\x1f\x8b":
    faults.append("records repair: a name in .gz is not packed")
says(run("records", "repair", made / "damaged.tfrecord", made / "damaged.tfrecord", status=2), "to another file")
says(run("records", "check", made / "absent", status=2), "absent cannot be opened")
says(run("records", "mend", status=2), "records requires check or repair")

# ---- what TensorBoard's package writes ----

write = """
import sys
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.histogram import summary_v2 as histogram
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.scalar import summary_v2 as scalar
from tensorboard.plugins.text import summary_v2 as text
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(sys.argv[1])
def add(summary, step):
    writer.add_event(event_pb2.Event(wall_time=1.5, step=step, summary=summary))
add(scalar.scalar_pb("loss", 0.25), 1)
later = scalar.scalar_pb("loss", 0.125)
later.value[0].ClearField("metadata")  # as TensorFlow 2 does after the first
add(later, 2)
add(summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="old", simple_value=float("nan")),
                               summary_pb2.Summary.Value(tag="b\\x1b", simple_value=1e-7)]), -3)
add(histogram.histogram_pb("h", [0.0, 1.0, 2.0, 4.0], buckets=4), 4)  # of its buckets' middles the mean is 2
add(text.text_pb("words", "some\\nlines"), 5)
add(hparams.hparams_pb({"rate": 0.5, "kind": "adam"}), 6)
writer.close()
"""
has = subprocess.run([python, "-c", "import tensorboard"], cwd=made, stderr=subprocess.DEVNULL)
if has.returncode == 0:
    done = subprocess.run([python, "-B", "-c", write, str(made / "theirs")], cwd=made, capture_output=True, text=True)
    if done.returncode != 0:
        faults.append(f"tensorboard: {done.stderr}")
    text = run("events", made / "theirs")
    says(text, "step 1  1970-01-01 00:00:01.500  loss  0.25\n", "step 2  1970-01-01 00:00:01.500  loss  0.125\n",
         "step -3  1970-01-01 00:00:01.500  old  nan\n", "  b\\x1b  1e-07\n",
         "  h  histogram: count 4 min 0 max 4 mean 2\n", "  words  text: some\\x0alines\n", "hparams: values ",
         "rate=0.5", "kind=adam")
    rows = [json.loads(line) for line in run("events", made / "theirs", "--json").splitlines()]
    found = {r["tag"]: r.get("value", r.get("text")) for r in rows if "tag" in r}
    if (found["old"], found["b\x1b"], found["words"]) != ("nan", 1e-7, "some\nlines"):
        faults.append(f"--json: {rows}")
else:
    print("tensorboard is not installed: no events of its own are read")

print("\n".join(faults) or "weft inspects, compares, converts, shows events and mends records")
sys.exit(1 if faults else 0)
