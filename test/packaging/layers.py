# SPDX-License-Identifier: BSL-1.0
"""Checks that the folders under weft/ include only downwards, that every include of Weft names a file that exists, and
that a program which does not ask for CUDA never meets a header of it.

usage: layers.py INCLUDE_DIR
"""
import os
import pathlib
import re
import sys

# Bottom to top. A header includes its own folder and those before it.
ORDER = ["tensor", "device", "encoding", "ops", "frozen", "graph", "plan", "session", "data", "summary", "checkpoint", "train", "nn", "onnx", "queue", "transport",
         "distributed/cluster", "distributed/membership", "distributed/parameter", "distributed/collective", "distributed/remote", "distributed/training"]
# Who may include headers of CUDA: bindings to one library each.
CUDA = re.compile(r"cuda|cublas|cudnn|cufft|curand|nccl|cub/")
BINDINGS = ["cuda.hpp", "cuda_error.hpp", "cuda_memory.hpp", "cuda_queue.hpp", "matmul_cublaslt.hpp",
            "convolution_cudnn.hpp", "nccl.hpp", "scan_cub.hpp", "sort_cub.hpp"]
# Headers directly under weft/: these are under every layer, the umbrellas are over all.
BOTTOM = ["compiler.hpp", "config.hpp", "deadline.hpp", "error.hpp", "printable.hpp", "text.hpp", "time_source.hpp",
          "version.hpp"]

root = pathlib.Path(sys.argv[1])
faults = []


def level(path):
    parts = path.parts[1:]                                # without "weft"
    if len(parts) == 1:
        return -1 if parts[0] in BOTTOM else len(ORDER)
    for folder in (parts[0], "/".join(parts[:2])):
        if folder in ORDER:
            return ORDER.index(folder)
    faults.append(f"{path}: folder {'/'.join(parts[:-1])} is not in the list of layers")
    return len(ORDER)


headers = [header.relative_to(root) for header in sorted(root.rglob("*.hpp"))]
for header in headers:
    for number, line in enumerate((root / header).read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if match and CUDA.match(match[2]) and header not in [pathlib.Path("weft/device/gpu", b) for b in BINDINGS]:
            faults.append(f"{header}:{number}: includes {match[2]}, which is for bindings in weft/device/gpu alone")
        if not match or (match[1] == "<" and not match[2].startswith("weft/")):
            continue
        named = match[2] if match[1] == "<" else os.path.normpath(header.parent / match[2])
        if not (root / named).is_file():
            faults.append(f"{header}:{number}: {match[2]} does not exist")
        elif level(pathlib.Path(named)) > level(header):
            faults.append(f"{header}:{number}: includes {match[2]}, which is a layer above it")
print("\n".join(faults) or f"{len(headers)} headers include downwards only")
sys.exit(1 if faults or not headers else 0)
