# SPDX-License-Identifier: BSL-1.0
"""Checks that fine-tuning reaches what it states, and what the program says when something is wrong.

usage: finetune.py PROGRAM       (from the source folder, where the weights are)
"""
import os
import shutil
import tempfile

from checks import data, faults, finish, refused, run

weights = "examples/finetune/lenet_of_five.safetensors"
refused(["--images_per_class", "from 1 to"], "--images_per_class", "0")
if os.path.isdir(data):
    with tempfile.TemporaryDirectory() as elsewhere:  # its weights lie beside the program
        source = os.getcwd()
        os.chdir(elsewhere)
        done, took = run(seconds=100)
        os.chdir(source)
    if done is not None:
        print(f"{took:5.2f} s\n{done.stdout}", end="")
        if done.returncode or done.stdout.count("test accuracy") != 3:
            faults.append(f"returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
    refused(["no/such/file"], "--weights", "/no/such/file")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "cut.safetensors")
        shutil.copy(weights, copy)
        os.truncate(copy, os.path.getsize(copy) - 1)
        refused(["cut.safetensors", "damaged", "truncated"], "--weights", copy)
        shutil.copy("test/checkpoint/pytorch/lenet.safetensors", copy)  # of other extents
        refused(["cut.safetensors", "conv1", "6 tensors"], "--weights", copy)
finish()
