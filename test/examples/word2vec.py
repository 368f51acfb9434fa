# SPDX-License-Identifier: BSL-1.0
"""Checks that word2vec finds the topics of words in one process and on clusters, that SIGTERM ends a run, and what the
program says when something is wrong.

usage: word2vec.py PROGRAM WEFT_LAUNCH
"""
import os
import re
import signal
import subprocess
import sys
import time

from checks import faults, finish, program, refused, run

launch = os.path.abspath(sys.argv[2])

refused(["--strategy", '"mpi"', "local, async, sync"], "--strategy", "mpi")
refused(["--batch_size", "from 1 to"], "--batch_size", "0")
refused(["TF_CONFIG", "weft_launch"], "--strategy", "async")
help_text, _ = run("--help")
for flag in ("strategy", "steps", "batch_size", "sentences", "learning_rate", "threads", "seed", "least_share"):
    if f"--{flag}" not in help_text.stdout:
        faults.append(f"--help does not name --{flag}")

flags = ("--steps", "4000", "--threads", "1", "--least_share", "0.9")
results = []
for more in ((), (), ("--seed", "2")):
    done, took = run(*flags, *more, seconds=100)
    if done is None or done.returncode or "of the same topic" not in done.stdout:
        faults.append(f"one process: {done}")
    else:
        print(f"{took:5.2f} s\n{done.stdout}", end="")
        results.append(re.findall(r"cost .*|.* of the nearest words .*", done.stdout))
if len(results) == 3 and (results[0] != results[1] or results[0] == results[2]):
    faults.append(f"equal seeds give equal results, and different seeds others: {results}")
refused(["nearest words", "too few"], "--steps", "1", "--least_share", "0.9", seconds=60)


def start(servers, workers, *more):
    return subprocess.Popen([launch, "-n", str(servers + workers), "--ps", str(servers), "--", program, *more],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def end_of(task, seconds):
    try:
        return task.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        task.terminate()
        return "(still runs)\n" + task.communicate()[0]


# Tables on one server or on two, and two workers or three.
for servers, workers, strategy in ((1, 2, "async"), (1, 3, "async"), (2, 2, "async"), (1, 2, "sync")):
    begin = time.monotonic()
    task = start(servers, workers, *flags, "--strategy", strategy)
    said = end_of(task, 100)
    print(f"{time.monotonic() - begin:5.2f} s  {servers} + {workers}, {strategy}\n{said}", end="")
    if task.returncode or said.count("of the same topic") != 1:
        faults.append(f"{servers} servers, {workers} workers, {strategy}: returned {task.returncode}, said {said!r}")

# The launcher passes the signal on to all tasks, which leave in peace.
task = start(1, 2, "--strategy", "async", "--steps", "1000000000", "--threads", "1")
line = task.stdout.readline()
task.send_signal(signal.SIGTERM)
begin = time.monotonic()
said = line + end_of(task, 60)
print(f"{time.monotonic() - begin:5.2f} s after SIGTERM, returned {task.returncode}")
if task.returncode in (0, None) or "cost" not in line or "error" in said or "still runs" in said:
    faults.append(f"SIGTERM: returned {task.returncode}, said {said!r}")
alone = subprocess.Popen([program, "--steps", "1000000000"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
alone.stdout.readline()
alone.terminate()
if alone.wait(timeout=60) != -signal.SIGTERM or alone.stderr.read():
    faults.append(f"SIGTERM in one process: returned {alone.returncode}")
finish()
