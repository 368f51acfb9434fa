# SPDX-License-Identifier: BSL-1.0
"""Runs a check of what compilers say, unless it has passed before, on this machine, with the very same inputs: those that
only look at syntax, or at errors, ccache does not know.

usage: remembered.py SOURCE_DIR CHECK.py ARGUMENT...

The inputs are the check, its arguments, the files and folders of the source folder that these name, and the compilers and
the installed packages. A pass is remembered in ccache's folder (CCACHE_DIR), with what the check printed; a failure never
is. Without ccache, or with CCACHE_DISABLE, every check runs.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

source = pathlib.Path(sys.argv[1]).resolve()
check = [sys.executable, "-B", *sys.argv[2:]]
if not shutil.which("ccache") or "CCACHE_DISABLE" in os.environ:
    sys.exit(subprocess.run(check).returncode)

key = hashlib.sha256()


def add(*parts):
    for part in parts:
        part = part if isinstance(part, bytes) else str(part).encode()
        key.update(b"%d:" % len(part) + part)


def add_stat(path):
    """A file that is no part of the source: it is another one where its size or its time is another one."""
    info = path.stat()
    add(info.st_size, info.st_mtime_ns)


def add_path(path):
    inside = path.resolve().is_relative_to(source)
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            folders.sort()
            for name in sorted(files):
                file = pathlib.Path(folder, name)
                if file.exists():
                    add(file.relative_to(path))
                    add(file.read_bytes()) if inside else add_stat(file)
    elif inside:
        add(path.read_bytes())
    else:  # a compiler
        add_stat(path.resolve())
        if os.access(path, os.X_OK):
            add(subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout)


for argument in sys.argv[2:]:
    add(argument.replace(str(source), "."))
    for word in re.sub("^-I|^-isystem", "", argument).split(","):
        if word.startswith("/") and os.path.exists(word):
            add_path(pathlib.Path(word))
packages = pathlib.Path("/var/lib/dpkg/status")  # of which other headers, and the linker, are
if packages.exists():
    add(packages.read_bytes())
for name in sorted(os.environ):
    if re.fullmatch("CPATH|.*_INCLUDE_PATH|LIBRARY_PATH|LANG|LC_.*|GCC_.*", name):
        add(name, os.environ[name])

folder = pathlib.Path(os.environ.get("CCACHE_DIR") or pathlib.Path.home() / ".cache/ccache") / "weft_checks"
remembered = folder / key.hexdigest()
try:
    print(remembered.read_text(), end="")
    print(f"(it has passed before, with all the same: {remembered})")
    sys.exit(0)
except FileNotFoundError:
    pass

run = subprocess.run(check, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
print(run.stdout, end="")
if run.returncode == 0:
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{remembered.name}.{os.getpid()}"
    unfinished.write_text(run.stdout)
    unfinished.rename(remembered)
sys.exit(run.returncode)
