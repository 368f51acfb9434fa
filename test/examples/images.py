# SPDX-License-Identifier: BSL-1.0
"""Checks that a network learns from a folder of JPEG files, the same with any number of threads that decode, and what
the program says when something is wrong.

usage: images.py PROGRAM
"""
import os
import re
import shutil
import tempfile

from checks import data, faults, finish, refused, run

refused(["--decode_threads", "from 1 to"], "--decode_threads", "0")
refused(["/no/such/folder"], "--image_dir", "no-images", "--data_dir", "/no/such/folder")
if os.path.isdir(data):
    with tempfile.TemporaryDirectory() as folder:
        there = os.path.join(folder, "images")
        flags = ("--image_dir", there, "--images_per_class", "200", "--progress", "none", "--threads", "1")
        said = []
        for threads in ("1", "3"):
            done, took = run(*flags, "--epochs", "3", "--decode_threads", threads, "--least_accuracy", "0.75", seconds=60)
            if done is not None:
                print(f"{took:5.2f} s\n{done.stdout}", end="")
                said.append(re.search(r"test accuracy (0\.\d+)", done.stdout))
                if done.returncode or not said[-1]:
                    faults.append(f"returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
        if len(said) == 2 and all(said) and said[0][1] != said[1][1]:
            faults.append(f"another number of threads has another result: {said[0][1]}, {said[1][1]}")
        classes = sorted(os.listdir(os.path.join(there, "train")))
        if len(classes) != 10 or len(os.listdir(os.path.join(there, "train", "shirt"))) != 200 or \
           len(os.listdir(os.path.join(there, "val", "bag"))) != 40:
            faults.append(f"the folder has {classes}")
        one = ("--epochs", "1", "--least_accuracy", "0.99")
        refused(["the test accuracy is 0.", "below 0.99"], *flags, *one)
        # A damaged file is named, or passed over and counted.
        damaged = os.path.join(there, "train", "coat", "00007.jpg")
        os.truncate(damaged, os.path.getsize(damaged) - 1)
        refused([damaged, "damaged near offset", "is truncated"], *flags, *one)
        done, took = run(*flags, "--epochs", "2", "--skip_damaged", seconds=60)
        if done is not None and (done.returncode or "\n2 damaged files were skipped" not in done.stdout):
            faults.append(f"--skip_damaged: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
        shutil.rmtree(os.path.join(there, "val", "bag"))
        refused([there, "the same classes"], *flags)
        shutil.rmtree(os.path.join(there, "val"))
        refused([os.path.join(there, "val"), "cannot be listed"], *flags)
finish()
