# SPDX-License-Identifier: BSL-1.0
"""What the tests of the examples share: they run a program, and check what it says and returns when something is wrong:
one clear sentence, a code that is not 0, and an end in time.

A test's only argument is the program.
"""
import fcntl
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

program = sys.argv[1]
data = "/usr/share/datasets/fashion-mnist"
faults = []


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*flags, seconds=20):
    start = time.monotonic()
    try:
        done = subprocess.run([program, *flags], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    except subprocess.TimeoutExpired:
        faults.append(f"{' '.join(flags)}: still runs after {seconds} s")
        return None, 0
    return done, time.monotonic() - start


def refused(words, *flags, seconds=20):
    """The program must end in time with a code that is not 0 and one sentence that has all the words. Before it may stand
    whom it waits for."""
    done, took = run(*flags, seconds=seconds)
    if done is None:
        return
    lines = done.stderr.strip().splitlines()
    said = lines[-1] if lines else ""
    if done.returncode == 0 or done.returncode < 0:
        faults.append(f"{' '.join(flags)}: returned {done.returncode}, said {done.stderr!r}")
    elif (any(not line.startswith("waits up to ") for line in lines[:-1]) or not said.startswith("error: ")
          or any(word not in said for word in words)):
        faults.append(f"{' '.join(flags)}: does not say {words} in one sentence: {done.stderr!r}")
    else:
        print(f"{took:5.2f} s  {' '.join(flags)}\n         {said}")


def training_flags(*own):
    """The flags that every example has, and that --help names its own."""
    help_text, _ = run("--help")
    for flag in ("device", "data_dir", "batch_size", "learning_rate", "epochs", "threads", "seed", "progress", "json",
                 "optimizer", "schedule", "train_steps", "checkpoint_dir", "checkpoint_steps", "resume", "log_dir",
                 "least_accuracy", *own):
        if f"--{flag}" not in help_text.stdout:
            faults.append(f"--help does not name --{flag}")
    if help_text.returncode:
        faults.append("--help returns an error")

    refused(["--batchsize"], "--batchsize", "10")
    refused(["--batch"], "--batch", "10")                     # no guessing
    refused(["batch_size", "ten"], "--batch_size", "ten")
    refused(["--batch_size", "-1"], "--batch_size", "-1")
    refused(["--learning_rate"], "--learning_rate", "0")
    refused(["--learning_rate"], "--learning_rate", "nan")
    refused(["--learning_rate", "1e+30", "below 1e+06"], "--learning_rate", "1e30")
    refused(["--optimizer", "adamm", "gradient_descent", "adamw", "lamb"], "--optimizer", "adamm")
    for wrong in ("linear", "cosine:", "cosine:0", "cosine:1.5", "cosine:5x", "exponential:0.9", "piecewise:5=1,5=2",
                  "warmup:10+", "warmup:10+warmup:10", "one_cycles"):
        refused(["--schedule", f'"{wrong}"', "exponential:0.96/1000", "one_cycle", "warmup:500+"], "--schedule", wrong)
    refused(["--resume", "--checkpoint_dir"], "--resume")
    refused(["--checkpoint_dir", "/dev/null/x", "Not a directory"], "--checkpoint_dir", "/dev/null/x")
    refused(["/dev/null", "Not a directory"], "--log_dir", "/dev/null/x")
    refused(["--least_accuracy", "2", "below 1"], "--least_accuracy", "2")
    refused(["--threads", "1000", "from 0 to"], "--threads", "1000")
    refused(["--device", "tpu", "cuda"], "--device", "tpu")
    refused(["loud"], "--progress", "loud")
    refused(["surplus"], "surplus")
    refused(["no/such/folder"], "--data_dir", "/no/such/folder")


def weights(checkpoint):
    """The bytes of a checkpoint's variables."""
    files = sorted(glob.glob(os.path.join(checkpoint, "*-of-*.safetensors")))
    return b"".join(open(file, "rb").read() for file in files)


def latest(folder):
    found = [name for name in os.listdir(folder) if os.path.exists(os.path.join(folder, name, "index.json"))]
    return os.path.join(folder, max(found, key=lambda name: int(name.split("-")[-1]))) if found else None


def stop_when(task, folder, count, number, seconds=40):
    """Sends the signal when there is a checkpoint of step `count` or later; returns what the program has said then."""
    end = time.monotonic() + seconds
    while task.poll() is None and time.monotonic() < end:
        path = latest(folder) if os.path.isdir(folder) else None
        if path and int(path.split("-")[-1]) >= count:
            task.send_signal(number)
            break
        time.sleep(0.005)
    try:
        said = task.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        task.kill()
        said = task.communicate()[1]
    if task.returncode != -number:
        faults.append(f"signal {number} at step {count}: returned {task.returncode}, said {said!r}")
    return said


def result_of(path):
    with open(path) as lines:
        found = json.load(lines)
    return {key: found[key] for key in ("test_accuracy", "final_cost")}


def last_logged(path):
    """The last step of a file of events: TFRecords, each an Event whose field 2 is its step."""
    content, at, last = open(path, "rb").read(), 0, -1

    def varint(at):
        value = shift = 0
        while True:
            value, shift, at = value | (content[at] & 127) << shift, shift + 7, at + 1
            if content[at - 1] < 128:
                return value, at

    while at + 12 <= len(content):
        end = at + 12 + struct.unpack_from("<Q", content, at)[0]
        at += 12
        while at < end:
            key, at = varint(at)
            if key & 7 == 0:
                value, at = varint(at)
                last = max(last, value) if key >> 3 == 2 else last
            elif key & 7 == 1:
                at += 8
            elif key & 7 == 2:
                size, at = varint(at)
                at += size
            else:
                at += 4
        at = end + 4
    return last


def shrunken_data(*flags):
    """A position that the data does not have is an error, and --resume says so where it finds no checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        for size in (200, 40):
            os.mkdir(f"{folder}/{size}")
            for name in ("train", "t10k"):
                idx(f"{folder}/{size}", f"{name}-images-idx3-ubyte", size, 28, 28, content=bytes(size * 784))
                idx(f"{folder}/{size}", f"{name}-labels-idx1-ubyte", size, content=bytes(size))
        flags = (*flags, "--batch_size", "10", "--progress", "none", "--resume", "--checkpoint_dir", f"{folder}/kept")
        done = run("--data_dir", f"{folder}/200", "--train_steps", "15", *flags)[0]
        if done is None or done.returncode or f"{folder}/kept has no checkpoint, so training begins" not in done.stderr:
            faults.append(f"--resume without a checkpoint: {done}")
        refused(["batch 15 of epoch 0", "an epoch has 4 batches"], "--data_dir", f"{folder}/40", "--train_steps", "20", *flags)


def kept_runs(*flags, each, other):
    """A run that SIGTERM ends, and then SIGKILL, and that goes on each time, comes to the bits of one that nobody has
    disturbed. A checkpoint of another run is refused. `each`: steps between checkpoints; `other`: flags of other models."""
    with tempfile.TemporaryDirectory() as folder:
        there = lambda name: os.path.join(folder, name)
        checked = lambda *more: run(*flags, *more, seconds=180)[0]
        done = checked("--checkpoint_dir", there("whole"), "--json", there("whole.json"))
        if done is None or done.returncode:
            faults.append(f"a run with checkpoints: {done}")
            return
        kept = ("--checkpoint_dir", there("kept"), "--checkpoint_steps", str(each))
        for turn, number in enumerate((signal.SIGTERM, signal.SIGKILL)):
            task = subprocess.Popen([program, *flags, *kept, "--log_dir", there("log"), *(["--resume"] * turn)], text=True,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            said = stop_when(task, there("kept"), (2 * turn + 1) * each, number)
            if number == signal.SIGTERM and (not said.startswith("stopped at step ") or latest(there("kept")) is None or
                                             latest(there("kept")).split("-")[-1] != said.split()[3].rstrip(";")):
                faults.append(f"SIGTERM: said {said!r}, and the last checkpoint is {latest(there('kept'))}")
            if turn == 1 and not said.startswith("continues from step "):
                faults.append(f"--resume: said {said!r}")

            if number == signal.SIGKILL:
                # A run that goes on from the checkpoint has its events up to there.
                path, log = latest(there("kept")), max(glob.glob(there("log/events.out.tfevents.*")), key=os.path.getmtime)
                if last_logged(log) < int(path.split("-")[-1]) - 10:  # it logs a hundred times an epoch
                    faults.append(f"SIGKILL: {path} is there, and the events end at step {last_logged(log)}")

        path = latest(there("kept"))
        before = weights(path)
        refused([path, "--resume"], *flags, *kept)
        for flag, value in (("optimizer", "momentum"), ("seed", "77"), ("batch_size", "7"), *other):
            refused([path, f"--{flag} ", value], *[f for f in flags], *kept, "--resume", f"--{flag}", value)
        if latest(there("kept")) != path or weights(path) != before:
            faults.append("a refused run has changed the checkpoint")
        shutil.copytree(there("kept"), there("damaged"))
        file = sorted(glob.glob(os.path.join(latest(there("damaged")), "*-of-*.safetensors")))[0]
        with open(file, "r+b") as damaged:
            damaged.seek(-5, os.SEEK_END)
            byte = damaged.read(1)
            damaged.seek(-5, os.SEEK_END)
            damaged.write(bytes([byte[0] ^ 1]))
        # A damaged checkpoint is passed over for the one before; a run is refused where none is whole.
        # A killed run may have begun one that is newer than the latest, and not whole.
        step_of = lambda path: int(path.split("-")[-1])
        before_it = max((p for p in glob.glob(there("damaged/checkpoint-*")) if step_of(p) < step_of(latest(there("damaged")))),
                        key=step_of)
        copy = there("all_damaged")
        shutil.copytree(there("damaged"), copy)
        done = run(*flags, "--checkpoint_dir", there("damaged"), "--resume", seconds=180)[0]
        for words in (os.path.basename(file), "checksum", f"{before_it} was restored",
                      f"continues from step {before_it.split('-')[-1]}"):
            if done is None or done.returncode or words not in done.stderr:
                faults.append(f"the latest checkpoint is damaged: {done} does not say {words!r}")
        for index in glob.glob(os.path.join(copy, "*", "index.json")):
            if os.path.dirname(index) != latest(copy):
                os.truncate(index, 100)
        refused([os.path.basename(file), "checksum", "each of the"], *flags, "--checkpoint_dir", copy, "--resume")
        refused(["already exists", "--resume"], *flags, "--checkpoint_dir", copy)

        # Another run in the same folder is refused while this one lives, and no longer.
        with open(os.path.join(there("kept"), "checkpoint.lock"), "r+") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            refused(["is in use by process ", there("kept")], *flags, *kept, "--resume")

        done = checked(*kept, "--resume", "--json", there("kept.json"), "--log_dir", there("log"))
        if done is None or done.returncode or not done.stderr.startswith("continues from step "):
            faults.append(f"--resume: {done}")
            return
        if result_of(there("whole.json")) != result_of(there("kept.json")):
            faults.append(f"{result_of(there('whole.json'))}, and after two restarts {result_of(there('kept.json'))}")
        if not before or weights(latest(there("whole"))) != weights(latest(there("kept"))):
            faults.append("after two restarts the weights are others")
        if f"from step {path.split('-')[-1]}" not in done.stderr:
            faults.append(f"--resume: {done.stderr!r}")
        logged = b"".join(open(file, "rb").read() for file in glob.glob(os.path.join(there("log"), "events.out.tfevents.*")))
        for tag in (b"cost", b"learning_rate", b"test/accuracy", b"images/image/0", b"softmax/weights", b"softmax_cross"):
            if tag not in logged:
                faults.append(f"the event files do not have {tag}")
        # At its end there is nothing left to do.
        done = checked(*kept, "--resume", "--json", there("again.json"))
        if done is None or done.returncode or result_of(there("again.json")) != result_of(there("kept.json")):
            faults.append(f"--resume at the end: {done}")


def idx(folder, name, *extents, content):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(bytes([0, 0, 8, len(extents)]) + b"".join(struct.pack(">I", e) for e in extents) + content)


def finish():
    print("\n".join(faults))
    sys.exit(1 if faults else 0)
