# SPDX-License-Identifier: BSL-1.0
"""Checks that scripts/build.sh does not leave a build folder that was moved, or copied, to CMake, which refuses it in words
of its own: what is of no use there is forgotten, and the reader is told. The same holds if CXX names another compiler, which
CMake would ignore.

usage: moved_build.py SOURCE_DIR
"""
import os
import pathlib
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1]).resolve()
faults = []


def forget(here, folder):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", f". {source}/scripts/build.sh; forget_if_moved {folder}"], cwd=here,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)


with tempfile.TemporaryDirectory() as here:
    build = pathlib.Path(here, "build/default")
    cache = build / "CMakeCache.txt"
    os.makedirs(build / "CMakeFiles")
    for home, folder, moved in ((here, build, False), ("/somewhere/else", build, True), (here, "/somewhere/else", True)):
        os.makedirs(build / "CMakeFiles", exist_ok=True)
        (build / "program").write_text("")
        cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={home}\nCMAKE_CACHEFILE_DIR:INTERNAL={folder}\n")
        done = forget(here, "build/default")
        if done.returncode:
            faults.append(f"{home}, {folder}: returned {done.returncode}, said {done.stdout!r}")
        if cache.exists() == moved or (build / "CMakeFiles").exists() == moved or not (build / "program").exists():
            faults.append(f"{home}, {folder}: what is left is {list(build.iterdir())}")
        if ("configured again" in done.stdout) != moved:
            faults.append(f"{home}, {folder}: says {done.stdout!r}")
    for cached, chosen, other in (("g++", "g++", False), ("/bin/sh", "bash", True), ("sh", None, False)):
        os.makedirs(build / "CMakeFiles", exist_ok=True)
        cache.write_text(f"CMAKE_CXX_COMPILER:FILEPATH={cached}\n")
        environment = {name: value for name, value in os.environ.items() if name != "CXX"}
        if chosen:
            environment["CXX"] = chosen
        run = subprocess.run(["bash", "-euo", "pipefail", "-c", f". {source}/scripts/build.sh; forget_other_compiler build/default"],
                             cwd=here, text=True, capture_output=True, timeout=20, env=environment)
        if run.returncode or cache.exists() == other or (build / "CMakeFiles").exists() == other:
            faults.append(f"{cached}, CXX={chosen}: returned {run.returncode}, said {run.stdout!r} {run.stderr!r}")
    if forget(here, "build/none").returncode:
        faults.append("a folder that is not there is a fault")

print("\n".join(faults) or "a moved build folder is configured again")
sys.exit(1 if faults else 0)
