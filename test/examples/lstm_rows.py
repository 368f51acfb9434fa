# SPDX-License-Identifier: BSL-1.0
"""Checks that a recurrent network learns from the rows of images, with either cell, and what the program says when
something is wrong.

usage: lstm_rows.py PROGRAM
"""
import os
import tempfile

from checks import data, faults, finish, idx, refused, run

refused(["--cell", '"rnn"', "lstm, gru"], "--cell", "rnn")
refused(["--epochs", "from 1 to"], "--epochs", "0")
refused(["/no/such/folder"], "--data_dir", "/no/such/folder")

# Images of vertical and horizontal stripes, whose distance tells the class.
with tempfile.TemporaryDirectory() as folder:
    def image(label):
        distance = label // 2 + 2
        row = bytes(255 * (i % distance == 0) for i in range(28))
        return row * 28 if label % 2 else b"".join(bytes([pixel]) * 28 for pixel in row)

    labels = [n % 10 for n in range(2000)]
    for name, shown in (("train", labels), ("t10k", labels[:200])):
        idx(folder, f"{name}-images-idx3-ubyte", len(shown), 28, 28, content=b"".join(map(image, shown)))
        idx(folder, f"{name}-labels-idx1-ubyte", len(shown), content=bytes(shown))
    flags = ("--data_dir", folder, "--batch_size", "50", "--epochs", "4", "--least_accuracy", "0.9")
    for cell in ("lstm", "gru"):
        done, took = run("--cell", cell, *flags, seconds=100)
        if done is not None:
            print(f"{took:5.2f} s  {cell}\n{done.stdout}", end="")
            if done.returncode or "test accuracy" not in done.stdout:
                faults.append(f"{cell}: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
    refused(["test accuracy", "below 0.9"], *flags[:4], "--epochs", "1", "--learning_rate", "1e-9",
            "--least_accuracy", "0.9", seconds=60)
finish()
