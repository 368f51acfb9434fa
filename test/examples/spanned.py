# SPDX-License-Identifier: BSL-1.0
"""Runs the examples of graphs that span tasks under weft_launch: each must print its result and end on all tasks, and a
signal to one task or to all must end the run.

usage: spanned.py FOLDER_OF_EXAMPLES WEFT_LAUNCH
"""
import json
import os
import signal
import subprocess
import sys
import time

folder, launch = (os.path.abspath(each) for each in sys.argv[1:3])
faults = []


def start(name, tasks, *flags):
    return subprocess.Popen([launch, "-n", str(tasks), "--", os.path.join(folder, name), *flags], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def end_of(run, what, seconds):
    try:
        return run.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        faults.append(f"{what}: still runs after {seconds} s")
        os.killpg(run.pid, signal.SIGKILL)
        return run.communicate()[0]


def tasks_of(run, count):
    """The processes of the tasks, in the order of their numbers."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) != run.pid:
                        continue
                with open(f"/proc/{pid}/environ", "rb") as environment:
                    variables = dict(each.split(b"=", 1) for each in environment.read().split(b"\0") if b"=" in each)
                found[json.loads(variables[b"TF_CONFIG"])["task"]["index"]] = int(pid)
            except (OSError, KeyError):
                continue
        if len(found) == count:
            return [found[index] for index in sorted(found)]
        time.sleep(0.01)
    faults.append("the tasks have not started")
    return []


def ends_with_its_result(name, tasks, *flags):
    what = f"{name} on {tasks} tasks"
    run = start(name, tasks, *flags)
    text = end_of(run, what, 120)
    if run.returncode != 0 or "equal, to the bit," not in text:
        faults.append(f"{what}: returned {run.returncode}, printed {text!r}")


def ends_at_a_signal(name, tasks, told):
    """`told`: the numbers of the tasks that receive SIGTERM; none: the launcher itself, which passes it on to all."""
    what = f"{name} on {tasks} tasks, SIGTERM to {told or 'all'}"
    run = start(name, tasks, "--steps", "1000000")
    processes = tasks_of(run, tasks)
    time.sleep(0.5)  # before or after the first steps: both must end
    for pid in [processes[t] for t in told] if told and processes else [run.pid]:
        os.kill(pid, signal.SIGTERM)
    text = end_of(run, what, 60)
    if run.returncode == 0:
        faults.append(f"{what}: returned 0, printed {text!r}")


for example, flags in {"in_graph": [], "model_parallel": [], "pipeline": ["--steps", "10"],
                       "ensemble": ["--steps", "10"]}.items():
    for number in 3, 4:
        ends_with_its_result(example, number, *flags)
for signalled in [], [0], [2]:
    ends_at_a_signal("in_graph", 3, signalled)

for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
