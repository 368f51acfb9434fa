# SPDX-License-Identifier: BSL-1.0
"""Checks scripts/prerequisites.sh with fakes of apt-get and pip: it waits for another program's locks, shows apt-get's errors,
and installs packages from PyPI once for each version of Python.

usage: prerequisites.py SOURCE_DIR
"""
import os
import subprocess
import sys
import tempfile
import time

source = sys.argv[1]
faults = []
APT = """#!/bin/sh
echo "$@" >> "$0.calls"
[ -e "$0.locked" ] && { echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)"; exit 100; }
[ -e "$0.broken" ] && { echo "E: Unable to locate package none"; exit 100; }
exit 0
"""


def install(folder, unlock_after=None, wait="600"):
    apt = os.path.join(folder, "apt-get")
    script = f'. "{source}/scripts/prerequisites.sh"; need none "a test" false; install_missing'
    sudo = os.path.join(folder, "sudo")
    for path, text in ((apt, APT), (sudo, '#!/bin/sh\nexec "$@"\n')):
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, 0o755)
    begin = time.monotonic()
    run = subprocess.Popen(["bash", "-c", script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "WEFT_APT_WAIT": wait})
    if unlock_after is not None:
        time.sleep(unlock_after)
        os.remove(apt + ".locked")
    out, err = run.communicate(timeout=60)
    with open(apt + ".calls") as calls:
        return run.returncode, out, err, calls.read().splitlines(), time.monotonic() - begin


for kind in ("free", "locked", "held", "broken"):
    with tempfile.TemporaryDirectory() as folder:
        if kind != "free":
            open(os.path.join(folder, "apt-get." + ("broken" if kind == "broken" else "locked")), "w").close()
        code, out, err, calls, took = install(folder, 1 if kind == "locked" else None, "0" if kind == "held" else "600")
        if (code == 0) != (kind in ("free", "locked")):
            faults.append(f"{kind}: returned {code}, said {out!r} {err!r}")
        if any("install" in call and "none" not in call for call in calls):
            faults.append(f"{kind}: called {calls}")
        if kind == "free" and (len(calls) != 1 or err):
            faults.append(f"{kind}: called {calls}, said {err!r}")
        if kind == "locked" and (not out.count("waiting for another program") == 1 or "unattended-upgr" not in out or took < 1):
            faults.append(f"{kind}: said {out!r} after {took} s")
        if kind == "held" and "held by process 7" not in err:
            faults.append(f"{kind}: said {err!r}")
        if kind == "broken" and ("Unable to locate package none" not in err or not any("update" in call for call in calls)):
            faults.append(f"{kind}: called {calls}, said {err!r}")

PYTHON = """#!/bin/sh
[ "$1" = -V ] && { cat "$0.version"; exit 0; }
echo "$@" >> "$0.calls"
[ -e "$0.broken" ] && { echo "ERROR: no matching distribution"; exit 1; }
while [ $# -gt 0 ]; do [ "$1" = --target ] && mkdir -p "$2"; shift; done
exit 0
"""
with tempfile.TemporaryDirectory() as folder:
    python = os.path.join(folder, "python3")
    with open(python, "w") as out:
        out.write(PYTHON)
    os.chmod(python, 0o755)
    packages = os.path.join(folder, "build", "packages")
    # version, requirement, is pip broken, status, calls of pip so far
    for version, requirement, broken, status, count in (("3.11", "one==1", True, 1, 1), ("3.11", "one==1", False, 0, 2),
                                                        ("3.11", "one==1", True, 0, 2), ("3.12", "one==1", False, 0, 3),
                                                        ("3.12", "one==2", False, 0, 4), ("3.12", "one==3", True, 1, 5)):
        with open(python + ".version", "w") as out:
            out.write(f"Python {version}\n")
        if broken:
            open(python + ".broken", "w").close()
        elif os.path.exists(python + ".broken"):
            os.remove(python + ".broken")
        run = subprocess.run(["bash", "-euc", f'. "{source}/scripts/prerequisites.sh"; python_packages "{packages}" "{requirement}"'],
                             text=True, capture_output=True, timeout=60,
                             env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        with open(python + ".calls") as calls:
            said = calls.read().splitlines()
        case = f"{requirement} for Python {version}{', broken' * broken}"
        if (run.returncode, len(said)) != (status, count):
            faults.append(f"{case}: returned {run.returncode} after the calls {said}")
        if run.stdout or run.stderr:
            faults.append(f"{case}: printed {run.stdout!r} {run.stderr!r}")
        if os.path.isdir(packages) != (status == 0):
            faults.append(f"{case}: the folder must exist only after a success")
        if status and "no matching distribution" not in open(packages + ".log").read():
            faults.append(f"{case}: the log lacks pip's error")
print("\n".join(faults) or "prerequisites.sh waits for locks, shows apt-get's errors and installs each Python package once")
sys.exit(bool(faults))
