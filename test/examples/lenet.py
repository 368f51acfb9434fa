# SPDX-License-Identifier: BSL-1.0
"""Checks that the LeNet program learns, and what it says and returns when something is wrong.

usage: lenet.py PROGRAM
"""
import json
import os
import random
import subprocess
import tempfile

from checks import data, faults, finish, idx, kept_runs, program, refused, run, shrunken_data, training_flags

training_flags()
refused(["no/such/folder/result.json"], "--json", "/no/such/folder/result.json")

draw = random.Random(1)


def image(label):
    """A bright spot in noise; where it is tells the class."""
    pixels = bytearray(value // 3 for value in draw.randbytes(784))
    top, left = 14 * (label // 5) + 3, 5 * (label % 5) + 1
    for row in range(top, top + 6):
        pixels[28 * row + left:28 * row + left + 4] = b"\xff" * 4
    return bytes(pixels)


def images(folder, name, labels, shown_labels=None):
    idx(folder, f"{name}-images-idx3-ubyte", len(labels), 28, 28, content=b"".join(map(image, labels)))
    idx(folder, f"{name}-labels-idx1-ubyte", len(labels), content=bytes(shown_labels or labels))


with tempfile.TemporaryDirectory() as folder:
    labels = [n % 10 for n in range(1280)]
    result = os.path.join(folder, "result.json")
    flags = ("--data_dir", folder, "--epochs", "2", "--progress", "none", "--least_accuracy", "0.91")
    images(folder, "train", labels)
    images(folder, "t10k", labels[:200])
    done, took = run(*flags, "--json", result, seconds=60)
    if done is not None and done.returncode:
        faults.append(f"learning: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
    elif done is not None:
        with open(result) as lines:
            found = json.load(lines)
        print(f"{took:5.2f} s  {found}")
        if found["model"] != "lenet" or found["test_accuracy"] < 0.91 or not found["final_cost"] < 0.5:
            faults.append(f"learning: the result is {found}")

    # A run whose cost is no number ends at once, and well it does not.
    os.remove(result)
    refused(["the cost is", "lower --learning_rate, which is 10000"], *flags, "--json", result, "--optimizer",
            "momentum", "--schedule", "constant", "--learning_rate", "10000", seconds=60)
    if os.path.exists(result):
        faults.append("a run that failed has left a result")

    # A model that is not right for its test images is an error, and the result is written all the same.
    images(folder, "t10k", labels[:200], [(n + 1) % 10 for n in labels[:200]])
    refused(["the test accuracy is 0.", "below 0.91"], *flags, "--json", result, seconds=60)
    if not os.path.exists(result):
        faults.append("a low accuracy: there is no result")

    images(folder, "t10k", labels[:200])
    shrunken_data()
    kept_runs("--data_dir", folder, "--train_steps", "40", "--progress", "none", each=4, other=())

    # Another program's checkpoint.
    mnist = os.path.join(os.path.dirname(program), "mnist")
    if os.path.exists(mnist):
        subprocess.run([mnist, "--data_dir", folder, "--train_steps", "3", "--progress", "none", "--checkpoint_dir",
                        os.path.join(folder, "mnist")], stdout=subprocess.DEVNULL, timeout=20, check=True)
        refused(["checkpoint-3", "another program"], *flags, "--resume", "--checkpoint_dir", os.path.join(folder, "mnist"))

# 120 steps, an eighth of an epoch, come to 0.84; the whole of the usual run, which takes minutes, to more than 0.92.
if os.path.isdir(data):
    done, took = run("--train_steps", "120", "--progress", "none", "--least_accuracy", "0.8", seconds=180)
    if done is not None and done.returncode:
        faults.append(f"120 steps: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
    elif done is not None:
        print(f"{took:5.2f} s  {done.stdout}")

finish()
