#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that clang-format would change no C++ file of the repository, and that sources name their licence.

    formatting.py ROOT [--fix]

Lines are broken differently by each major version, so that the version named in .clang-format is required. It is searched
for on the PATH and in ROOT/build/clang-format, where test/run.sh installs it; without it, the check is skipped (77).
"""
import os
import re
import subprocess
import sys

root = sys.argv[1]
with open(os.path.join(root, ".clang-format")) as f:
    wanted = re.search(r"clang-format==(\d+)\.", f.read())[1]

for program in ["clang-format", f"clang-format-{wanted}", os.path.join(root, "build/clang-format/clang_format/data/bin/clang-format")]:
    try:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        continue
    if re.search(rf"version {wanted}\.", version):
        break
else:
    print(f"skipped: no clang-format {wanted} (pip install --target build/clang-format clang-format=={wanted}.*)")
    sys.exit(77)

listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                        capture_output=True, text=True)
if listed.returncode:
    print("skipped: not a git checkout")
    sys.exit(77)
sources = [f for f in listed.stdout.split("\0") if re.search(r"\.(hpp|cpp|cu|inc|py|sh|cmake)$|CMakeLists", f)]
for f in filter(os.path.exists, (os.path.join(root, f) for f in sources)):
    with open(f) as opened:
        if "SPDX-License-Identifier: BSL-1.0" not in opened.readline() + opened.readline():
            sys.exit(f"error: {f} needs the line SPDX-License-Identifier: BSL-1.0 at its beginning")
files = [f for f in listed.stdout.split("\0") if re.search(r"\.(hpp|cpp|cu|cuh|h)$", f)]
files = [f for f in files if os.path.exists(os.path.join(root, f))]
if len(files) < 500:
    sys.exit(f"error: {len(files)} C++ files in {root}, expected at least 500")

mode = ["-i"] if "--fix" in sys.argv[2:] else ["--dry-run", "-Werror"]
batches = [files[i::8] for i in range(8)]
running = [subprocess.Popen([program, *mode, *batch], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
           for batch in batches]
output = [(p.communicate()[0], p.returncode) for p in running]
wrong = sorted({line.split(":")[0] for text, _ in output for line in text.splitlines() if "clang-format-violations" in line})
if wrong:
    print(*wrong, sep="\n")
    sys.exit(f"error: {len(wrong)} files are not formatted: python3 test/packaging/formatting.py . --fix")
if any(code for _, code in output):
    sys.exit("".join(text for text, _ in output))
print(f"{len(files)} files")
