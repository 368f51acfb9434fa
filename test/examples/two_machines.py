# SPDX-License-Identifier: BSL-1.0
"""Follows docs/how-to/clusters.md with two machines: runs the commands of its section "Two machines" verbatim, each block on
the machine that the line before it names, and then disconnects the two. Needs root, and is skipped without it.

usage: two_machines.py MNIST WEFT_LAUNCH CLUSTERS.md
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import checks
import machines

program, launch, page = (os.path.abspath(each) for each in sys.argv[1:4])
faults = checks.faults
between_hosts = 10  # seconds of silence after which a task is lost, unless a flag says otherwise
slack = 4  # for a machine that others use too


def blocks_of_page():
    """[[(machine, commands), ...], ...]: what is run at one time, in order."""
    section = re.search(r"^## Two machines\n(.*?)^## ", pathlib.Path(page).read_text(), re.M | re.S)[1]
    found, together = [], []
    for machine, beside, commands in re.findall(r"^<!-- run: on (\w+)(, beside the next)? -->\n```sh\n(.*?)^```$", section,
                                                re.M | re.S):
        together.append((machine, commands))
        if not beside:
            found.append(together)
            together = []
    if together or section.count("```sh\n") != sum(map(len, found)):
        faults.append("the page has blocks that nothing runs")
    return found


class task:
    """A shell's commands on a machine. Its lines come as they are said."""

    def __init__(self, machine, commands):
        self.lines, self.times, self.commands = [], [], commands
        self.shell = subprocess.Popen(
            [*net.enter(machine), "sh", "-e", "-c", f"cd {folder}/home\n{commands}"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.shell.stdout:
            self.lines.append(line)
            self.times.append(time.monotonic())

    def wait(self, seconds=60):
        try:
            self.shell.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self.lines.append("(does not end)\n")
        self.reader.join(timeout=5)
        return self.shell.returncode

    def kill(self):
        try:
            os.killpg(self.shell.pid, 9)
        except ProcessLookupError:
            pass
        self.shell.wait()

    def said(self):
        return "".join(self.lines)

    def when(self, words, seconds):
        """When it says so; None where it does not in that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line, at in zip(list(self.lines), list(self.times)):
                if words in line:
                    return at
            time.sleep(0.01)
        return None


def script(name, text):
    with open(f"{folder}/bin/{name}", "w") as out:
        out.write(f"#!/bin/sh\n{text}\n")
    os.chmod(f"{folder}/bin/{name}", 0o755)


def images():
    """Striped ones, where the real ones are not installed."""
    os.mkdir(f"{folder}/images")
    for name, count in (("train", 6000), ("t10k", 1000)):
        rows = [b"\x40" * (56 * n) + b"\xff" * 56 + b"\x40" * (784 - 56 * (n + 1)) for n in range(10)]
        checks.idx(f"{folder}/images", f"{name}-images-idx3-ubyte", count, 28, 28, content=b"".join(rows) * (count // 10))
        checks.idx(f"{folder}/images", f"{name}-labels-idx1-ubyte", count, content=bytes(range(10)) * (count // 10))
    return f"{folder}/images"


def follow(together):
    start = time.monotonic()
    tasks = [task(*each) for each in together]
    codes = [each.wait() for each in reversed(tasks)]
    said = "\n".join(each.said() for each in tasks)
    accuracies = [float(number) for number in re.findall(r"test accuracy ([\d.]+)", said)]
    trains = any("mnist --" in commands for _, commands in together)
    if any(codes) or len(accuracies) != trains or any(number < 0.8 for number in accuracies):
        faults.append(f"{together}: codes {codes[::-1]}, accuracies {accuracies}:\n{said}")
    print(f"{time.monotonic() - start:5.2f} s  {together[-1][1].strip().splitlines()[-1]}  {accuracies}")


# ---- the cable ----

def begin(strategy, steps, *more):
    """A cluster of the page's hosts and secret, once it trains."""
    line = f"exec mnist --strategy {strategy} --hosts a,a,b --ps 1 --secret_file secret --train_steps {steps} {' '.join(more)}"
    tasks = {"ps0": task("a", f"{line} --task_index 0"), "worker0": task("a", f"{line} --task_index 1"), "worker1": task("b", line)}
    before, end = net.received("b"), time.monotonic() + 30
    while net.received("b") < before + 3_000_000 and time.monotonic() < end:
        time.sleep(0.02)
    if time.monotonic() >= end or any(each.shell.poll() is not None for each in tasks.values()):
        faults.append(f"{strategy}: does not train: {[each.said() for each in tasks.values()]}")
    return tasks


def short_interruptions():
    """Shorter than the silence after which a task is lost: they only cost time."""
    steps = 1500
    undisturbed = result(begin("sync", steps), "an undisturbed run")
    for seconds, cut in ((1, net.plug), (2, net.pass_on), (3, net.plug), (3, net.pass_on)):
        tasks = begin("sync", steps)
        cut("b", False)
        time.sleep(seconds)
        before, running = net.received("b"), all(each.shell.poll() is None for each in tasks.values())
        cut("b", True)
        back = time.monotonic()
        while net.received("b") < before + 1_000_000 and time.monotonic() < back + between_hosts:
            time.sleep(0.02)
        print(f"sync, a link is down for {seconds} s: trains again {time.monotonic() - back:.1f} s later")
        if not running or net.received("b") < before + 1_000_000:
            faults.append(f"a link is down for {seconds} s: {running}, {[each.said() for each in tasks.values()]}")
        disturbed = result(tasks, f"a link is down for {seconds} s")
        if disturbed != undisturbed:
            faults.append(f"a link that is down for {seconds} s changes the result: {undisturbed} becomes {disturbed}")


def result(tasks, what):
    """What the chief reports at the end of a run in which nothing is lost."""
    codes = {name: each.wait() for name, each in tasks.items()}
    said = {name: each.said() for name, each in tasks.items()}
    if any(codes.values()) or any("lost" in each for each in said.values()):
        faults.append(f"{what}: {codes}, {said}")
    return re.findall(r"test accuracy .*", said["worker0"])


def long_interruption(strategy, *more, silence=between_hosts):
    """Each side names the tasks that it no longer hears. Asynchronous training goes on where the server is."""
    tasks, bound = begin(strategy, 1_000_000_000, *more), silence + slack
    try:
        out = time.monotonic()
        net.plug("b", False)
        others = {"ps0": ("/job:worker/task:1", bound), "worker0": ("/job:worker/task:1", bound),
                  "worker1": ("/job:ps/task:0", bound)}
        seen = {name: tasks[name].when(words, limit + 1) for name, (words, limit) in others.items()}
        late = {name: at and round(at - out, 2) for name, at in seen.items()}
        print(f"{strategy}, the cable is out: named after {late} s")
        if any(after is None or not silence - 1 < after < others[name][1] for name, after in late.items()):
            faults.append(f"{strategy}: {late}, {[each.said() for each in tasks.values()]}")
        net.plug("b", True)
        ending = ("worker1",) if strategy == "async" else tuple(tasks)
        codes = {name: tasks[name].wait(5) for name in ending}
        if any(code != 1 for code in codes.values()):
            faults.append(f"{strategy}, a long interruption: {codes}, {[each.said() for each in tasks.values()]}")
        if any(tasks[name].shell.poll() is not None for name in tasks if name not in ending):
            faults.append(f"{strategy}: has ended with its lost worker: {[each.said() for each in tasks.values()]}")
    finally:
        net.plug("b", True)
        for each in tasks.values():
            each.kill()


if machines.why_not():
    checks.skip(machines.why_not())
if not shutil.which("openssl"):
    checks.skip("there is no openssl")
temporary = tempfile.TemporaryDirectory(prefix="weft_page_")
folder = temporary.name
environment = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "TF_CONFIG"))}
environment |= {"HOME": f"{folder}/home", "PATH": f"{folder}/bin:{environment['PATH']}"}
try:
    net = machines.machines(("a", "b"), "10.79.0", folder)
except OSError as problem:
    checks.skip(f"there are no network namespaces here ({problem})")
try:
    os.mkdir(f"{folder}/bin")
    data = checks.data if os.path.isdir(checks.data) else images()
    script("mnist", f'exec {program} "$@" --data_dir {data} --threads 1 --progress none')
    script("weft_launch", f'exec {launch} "$@"')
    # In place of ssh and scp: machines are entered, and have folders of their own at one path.
    script("ssh", f"""while [ "$1" = -o ]; do shift 2; done
host=$1; shift
exec nsenter --target="$(cat {folder}/$host.pid)" --net --uts --mount sh -c "cd {folder}/home && $*\"""")
    script("scp", f"""[ "$1" = -p ] && shift
for to; do :; done
while [ $# -gt 1 ]; do cp -p "$1" "{folder}/${{to%:}}/" || exit 1; shift; done""")
    for name in net.names:
        with open(f"{folder}/{name}.pid", "w") as out:
            out.write(str(net.keepers[name].pid))
    for each in blocks_of_page():
        follow(each)
    short_interruptions()
    long_interruption("async", "--heartbeat_timeout 2 --min_workers 1", silence=2)
    long_interruption("sync")
finally:
    net.close()

print("\n".join(faults) or "the page's commands train on two machines")
sys.exit(1 if faults else 0)
