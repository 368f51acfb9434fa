"""Checks that a cluster whose tasks are all killed goes on from its latest checkpoint, where updates are in order to the
bits of one that nobody disturbed; and that all of its tasks hear of a checkpoint that is another run's.

usage: cluster_resume.py PROGRAM, the classifier's
"""
import glob
import os
import socket
import subprocess
import tempfile
import time

from checks import data, faults, finish, program

quiet = ("--progress", "none", "--threads", "1", "--hidden_units", "32")


def newest(folder):
    """The step of the latest checkpoint that is complete; -1 where there is none."""
    found = glob.glob(os.path.join(folder, "checkpoint-*", "index.json"))
    return max((int(path.split(os.sep)[-2].split("-")[-1]) for path in found), default=-1)


def weights(folder, step):
    """The bytes of all variables, slots included."""
    content = b""
    for path in sorted(glob.glob(os.path.join(folder, f"checkpoint-{step}", "*-of-*.safetensors"))):
        with open(path, "rb") as read:
            content += read.read()
    return content


def same(what, folder, undisturbed, step):
    if newest(folder) != step:
        faults.append(f"{what}: ends at step {newest(folder)}, not {step}")
    elif weights(folder, step) != weights(undisturbed, step) or not weights(folder, step):
        faults.append(f"{what}: has other bits at step {step} than a run that nobody disturbed")


def wait_for(what, met, tasks, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not met() and all(task.poll() is None for task in tasks):
        time.sleep(0.005)
    if not met():
        faults.append(f"{what}: not within {seconds} s, or the program has ended")


def start_cluster(strategy, *flags):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ps, *workers = (f"127.0.0.1:{s.getsockname()[1]}" for s in held)
    for s in held:
        s.close()
    names = ["worker0", "worker1"] + ([] if strategy == "allreduce" else ["ps0"])
    hosts = ("--worker_hosts", ",".join(workers)) + (() if strategy == "allreduce" else ("--ps_hosts", ps))
    return {name: subprocess.Popen(
        [program, "--strategy", strategy, *hosts, "--job_name", name[:-1], "--task_index", name[-1], *quiet, *flags],
        text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name in names}


def ended(what, tasks, seconds=60):
    for name, task in tasks.items():
        try:
            said = task.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            task.kill()
            said = f"still runs after {seconds} s"
        if task.wait():
            faults.append(f"{what}: {name} returned {task.returncode}, said {said!r}")
        if name == "worker0":
            chief_said = said
    return chief_said


def killed_cluster(folder, strategy, recipe, steps, exact):
    """Every task is killed in the middle; all of them, started again, go on to the end."""
    flags = (*recipe, "--train_steps", str(steps), "--checkpoint_steps", "50", "--checkpoint_dir")
    undisturbed, kept = (os.path.join(folder, strategy + name) for name in ("", "_killed"))
    if exact:
        ended(f"{strategy}, undisturbed", start_cluster(strategy, *flags, undisturbed))
    tasks = start_cluster(strategy, *flags, kept)
    wait_for(f"{strategy}, a checkpoint", lambda: newest(kept) > 0, tasks.values())
    for task in tasks.values():
        task.kill()
    for task in tasks.values():
        task.communicate()
    stopped = newest(kept)
    if not 0 < stopped < steps:
        faults.append(f"{strategy}: killed when the checkpoint was of step {stopped}")
    said = ended(f"{strategy}, resumed", start_cluster(strategy, *flags, kept, "--resume"))
    if f"goes on from step {stopped}" not in said:
        faults.append(f"{strategy}: went not on from step {stopped}, said {said!r}")
    if exact:
        same(f"{strategy}, all killed", kept, undisturbed, steps)
    elif newest(kept) < steps:
        faults.append(f"{strategy}, all killed: ends at step {newest(kept)}, not {steps}")


def refused_by_the_chief(folder):
    """Before anything changes; the others are told, and end."""
    tasks = start_cluster("sync", "--train_steps", "800", "--checkpoint_dir", folder, "--resume", "--optimizer", "rmsprop")
    for name, task in tasks.items():
        try:
            said = task.communicate(timeout=20)[1].strip()
        except subprocess.TimeoutExpired:
            task.kill()
            said = "still runs after 20 s"
        if task.wait() != 1 or "is of a run with --optimizer adam, and this one has rmsprop" not in said:
            faults.append(f"another optimizer: {name} returned {task.returncode}, said {said!r}")


if os.path.isdir(data):
    with tempfile.TemporaryDirectory() as folder:
        killed_cluster(folder, "sync", ("--optimizer", "adam", "--schedule", "cosine"), 400, exact=True)
        before = weights(os.path.join(folder, "sync"), 400)
        refused_by_the_chief(os.path.join(folder, "sync"))
        if newest(os.path.join(folder, "sync")) != 400 or weights(os.path.join(folder, "sync"), 400) != before:
            faults.append("a run that was refused has changed the checkpoint")
        killed_cluster(folder, "allreduce", ("--optimizer", "nadam", "--schedule", "one_cycle"), 400, exact=True)
        killed_cluster(folder, "async", ("--optimizer", "rmsprop", "--learning_rate", "0.001"), 800, exact=False)

finish()
