"""What the tests of the examples share: they run a program, and check what it says and returns when something is wrong:
one clear sentence, a code that is not 0, and an end in time.

A test's only argument is the program.
"""
import os
import struct
import subprocess
import sys
import time

program = sys.argv[1]
data = "/usr/share/datasets/fashion-mnist"
faults = []


def run(*flags, seconds=20):
    start = time.monotonic()
    try:
        done = subprocess.run([program, *flags], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    except subprocess.TimeoutExpired:
        faults.append(f"{' '.join(flags)}: still runs after {seconds} s")
        return None, 0
    return done, time.monotonic() - start


def refused(words, *flags, seconds=20):
    """The program must end in time with a code that is not 0 and one sentence that has all the words."""
    done, took = run(*flags, seconds=seconds)
    if done is None:
        return
    lines = done.stderr.strip().splitlines()
    said = lines[-1] if lines else ""
    if done.returncode == 0 or done.returncode < 0:
        faults.append(f"{' '.join(flags)}: returned {done.returncode}, said {done.stderr!r}")
    elif len(lines) != 1 or not said.startswith("error: ") or any(word not in said for word in words):
        faults.append(f"{' '.join(flags)}: does not say {words} in one sentence: {done.stderr!r}")
    else:
        print(f"{took:5.2f} s  {' '.join(flags)}\n         {said}")


def training_flags(*own):
    """The flags that every example has, and that --help names its own."""
    help_text, _ = run("--help")
    for flag in ("device", "data_dir", "batch_size", "learning_rate", "epochs", "threads", "seed", "progress", "json", *own):
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
    refused(["--threads", "1000", "from 0 to"], "--threads", "1000")
    refused(["--device", "tpu", "cuda"], "--device", "tpu")
    refused(["loud"], "--progress", "loud")
    refused(["surplus"], "surplus")
    refused(["no/such/folder"], "--data_dir", "/no/such/folder")


def idx(folder, name, *extents, content):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(bytes([0, 0, 8, len(extents)]) + b"".join(struct.pack(">I", e) for e in extents) + content)


def finish():
    print("\n".join(faults))
    sys.exit(1 if faults else 0)
