# SPDX-License-Identifier: BSL-1.0
"""Writes the functions' names that an installed package gives: tensorflow.txt or pytorch.txt, next to this file.

usage: names.py tensorflow|pytorch
"""
import inspect
import pathlib
import sys

TENSORFLOW = ("math", "nn", "linalg", "image", "sparse", "signal", "random")
PYTORCH = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")


def of_tensorflow():
    import tensorflow
    for module in TENSORFLOW:
        members = getattr(tensorflow.compat.v1, module)
        for name in sorted(dir(members)):
            member = getattr(members, name)
            if not name.startswith("_") and callable(member) and not inspect.isclass(member):
                yield f"tf.{module}.{name}"


def of_pytorch():
    import torch
    overridable = set(torch.overrides.get_testing_overrides())
    for module in PYTORCH:
        members = torch
        for part in module.split(".")[1:]:
            members = getattr(members, part)
        for name in dir(members):
            member = getattr(members, name)
            if name.startswith("_") or not callable(member) or inspect.isclass(member):
                continue
            if member in overridable:
                yield f"{module}.{name}"


package = sys.argv[1]
names = sorted(set({"tensorflow": of_tensorflow, "pytorch": of_pytorch}[package]()))
version = __import__({"tensorflow": "tensorflow", "pytorch": "torch"}[package]).__version__
heading = f"# The functions of {'TensorFlow' if package == 'tensorflow' else 'PyTorch'} {version}, by names.py.\n"
path = pathlib.Path(__file__).parent / f"{package}.txt"
path.write_text("# SPDX-License-Identifier: BSL-1.0\n" + heading + "".join(f"{name}\n" for name in names))
print(f"{path.name}: {len(names)} names")
