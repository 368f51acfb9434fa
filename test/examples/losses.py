# SPDX-License-Identifier: BSL-1.0
"""Checks that the classifier program goes on as --on_loss says when a process of its cluster is killed while it trains.

usage: losses.py PROGRAM
"""
import os
import signal
import socket
import subprocess
import tempfile
import time

from checks import data, faults, finish, latest, program, refused, result_of, skip

if not os.path.isdir(data):
    skip(f"{data} is missing")

# ---- flags ----
for wrong in ("wait", "wait:", "wait:x", "wait:-1", "wait:nan", "wait:inf", "wait:1e7", "wait:1,", "wait:1,stop", "shrink",
              "wait:1,shrink,shrink", "wait:1 ", ""):
    refused(["--on_loss", f'"{wrong}"', "wait:SECONDS,take_over"], "--strategy", "sync", "--on_loss", wrong)
refused(["local", "--on_loss"], "--on_loss", "wait:1")
refused(["--on_loss", "--input queue"], "--strategy", "sync", "--on_loss", "wait:1", "--input", "queue")
refused(["--shard_steps", "--shard_dir"], "--strategy", "sync", "--shard_steps", "5")
refused(["--shard_dir", "--on_loss wait:SECONDS"], "--strategy", "sync", "--shard_dir", "shards")
refused(["--shard_dir", "parameter servers"], "--strategy", "allreduce", "--shard_dir", "shards", "--on_loss", "wait:1")
refused(["--min_workers"], "--strategy", "sync", "--on_loss", "wait:1", "--min_workers", "1")


class cluster:
    """Three workers, and two parameter servers unless `strategy` needs none, as processes."""

    def __init__(self, strategy, folder, *flags):
        names = ([] if strategy == "allreduce" else ["ps0", "ps1"]) + ["worker0", "worker1", "worker2"]
        held = [socket.create_server(("127.0.0.1", 0)) for _ in names]
        at = [f"127.0.0.1:{s.getsockname()[1]}" for s in held]
        for s in held:
            s.close()
        hosts = ["--worker_hosts", ",".join(at[-3:])] + ([] if strategy == "allreduce" else ["--ps_hosts", ",".join(at[:2])])
        self.folder, self.kept, self.result = folder, os.path.join(folder, "kept"), os.path.join(folder, "result.json")
        # The chief would not begin again in a folder that has checkpoints without --resume.
        self.flags = [program, *hosts, "--strategy", strategy, "--train_steps", "2000", "--batch_size", "50", "--progress",
                      "none", "--threads", "1", "--checkpoint_dir", self.kept, "--checkpoint_steps", "100", "--resume",
                      "--json", self.result, *flags]
        self.tasks = {}
        for name in names:
            self.start(name)

    def start(self, name):
        self.tasks[name] = subprocess.Popen([*self.flags, "--job_name", name[:-1], "--task_index", name[-1]], text=True,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def await_step(self, step, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end and all(task.poll() is None for task in self.tasks.values()):
            path = latest(self.kept) if os.path.isdir(self.kept) else None
            if path and int(path.split("-")[-1]) >= step:
                return
            time.sleep(0.005)
        faults.append(f"{self.flags[5:]}: step {step} has not come")

    def kill(self, name):
        self.tasks[name].kill()
        self.tasks[name].wait()

    def end(self, seconds=120):
        """Returns (exit status, text on stderr) of each task."""
        ended, last = {}, time.monotonic() + seconds
        for name, task in self.tasks.items():
            try:
                said = task.communicate(timeout=max(1, last - time.monotonic()))[1].strip()
            except subprocess.TimeoutExpired:
                task.kill()
                said = f"still runs after {seconds} s: {task.communicate()[1]}"
            ended[name] = (task.wait(), said)
        return ended


def undisturbed(strategy):
    with tempfile.TemporaryDirectory() as folder:
        whole = cluster(strategy, folder)
        ended = whole.end()
        if any(code for code, _ in ended.values()):
            faults.append(f"{strategy}: {ended}")
            return None
        return result_of(whole.result)


def survived(strategy, policy, victim, whole, *flags, is_replaced, same_bits=True):
    """Kills a task in the middle. All others, and its replacement, must end well, with the undisturbed run's result."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [flag.replace("FOLDER", folder) for flag in flags]
        run = cluster(strategy, folder, "--on_loss", policy, *flags)
        run.await_step(500)
        run.kill(victim)
        if is_replaced:
            run.start(victim)
        begin = time.monotonic()
        ended = run.end()
        what = f"{strategy}, --on_loss {policy}, {victim} killed{' and started again' if is_replaced else ''}"
        if not is_replaced and ended.pop(victim)[0] != -signal.SIGKILL:
            faults.append(f"{what}: it had ended before")
        if any(code for code, _ in ended.values()):
            faults.append(f"{what}: {ended}")
            return
        found = result_of(run.result)
        print(f"{what}: {found}, undisturbed {whole}; {time.monotonic() - begin:.1f} s after the loss")
        if found["test_accuracy"] < 0.7 or (same_bits and found != whole):
            faults.append(f"{what}: {found}, and undisturbed {whole}")


whole = undisturbed("sync")
survived("sync", "wait:60", "worker1", whole, is_replaced=True)
survived("sync", "wait:60", "worker0", whole, is_replaced=True)
survived("sync", "wait:0.5,take_over", "worker1", whole, is_replaced=False)
survived("sync", "wait:0,shrink", "worker1", whole, is_replaced=False, same_bits=False)
survived("sync", "wait:60", "ps1", whole, "--shard_dir", "FOLDER/shards", "--shard_steps", "50", is_replaced=True)
survived("async", "wait:60", "worker1", None, is_replaced=True, same_bits=False)
whole = undisturbed("allreduce")
survived("allreduce", "wait:60", "worker1", whole, is_replaced=True)
survived("allreduce", "wait:0,shrink", "worker1", whole, is_replaced=False, same_bits=False)

finish()
