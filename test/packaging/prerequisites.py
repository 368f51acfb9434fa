"""Checks that scripts/prerequisites.sh waits for another program's locks, and shows what apt-get says when it fails, with a
stand-in for apt-get.

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
print("\n".join(faults) or "prerequisites.sh waits for locks and shows what apt-get says")
sys.exit(bool(faults))
