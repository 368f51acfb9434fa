# SPDX-License-Identifier: BSL-1.0
"""Checks what the classifier program says and returns when something is wrong: one clear sentence, a code that is not 0,
and an end in time.

usage: mnist.py PROGRAM
"""
import gzip
import json
import os
import pty
import random
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

from checks import (data, faults, finish, idx, kept_runs, latest, program, refused, result_of, run, shrunken_data, training_flags,
                    weights)

# ---- flags ----
training_flags("job_name", "task_index", "ps_hosts", "worker_hosts", "strategy", "hidden_units", "train_steps", "hosts", "ps",
               "secret_file", "tls_cert", "tls_key", "tls_ca", "heartbeat_timeout", "min_workers")
help_text = run("--help")[0].stdout
for heading in ("Training", "Data", "Checkpoints", "Output", "Cluster", "Trust between hosts"):
    if f"\n{heading}:\n" not in help_text:
        faults.append(f"--help has no heading {heading}")
refused(["--hidden_units", "0"], "--hidden_units", "0")
refused(["magic", "allreduce"], "--strategy", "magic")
for wrong in ("backups:", "backups:x", "backups:-1", "stale", "sync:1", "stale:1:2", "backups:N"):
    refused([wrong, "backups:N", "stale:N"], "--strategy", wrong)
refused(["backups:1", "fewer"], "--strategy", "backups:1", "--job_name", "worker", "--ps_hosts", "127.0.0.1:1",
        "--worker_hosts", "127.0.0.1:2")
refused(["--job_name"], "--strategy", "async", "--ps_hosts", "127.0.0.1:1", "--worker_hosts", "127.0.0.1:2")
refused(["--ps_hosts"], "--strategy", "sync", "--job_name", "worker", "--worker_hosts", "127.0.0.1:2")
refused(["allreduce", "--ps_hosts"], "--strategy", "allreduce", "--job_name", "worker", "--ps_hosts", "127.0.0.1:1",
        "--worker_hosts", "127.0.0.1:2")
refused(["--task_index", "0 to 0"], "--strategy", "async", "--job_name", "worker", "--task_index", "1", "--ps_hosts",
        "127.0.0.1:1", "--worker_hosts", "127.0.0.1:2")
refused(["local", "--ps_hosts"], "--ps_hosts", "127.0.0.1:1")
refused(["local", "--task_index"], "--task_index", "5")
refused(["--ps_hosts", "port 0"], "--strategy", "async", "--job_name", "worker", "--ps_hosts", "127.0.0.1:0",
        "--worker_hosts", "127.0.0.1:2")
refused(["127.0.0.01:1", "not a loopback address"], "--strategy", "async", "--job_name", "worker", "--ps_hosts",
        "127.0.0.01:1", "--worker_hosts", "127.0.0.1:2")

refused(["--hosts", "leave out", "--job_name"], "--strategy", "sync", "--hosts", "localhost", "--job_name", "ps")
refused(["local", "--hosts"], "--hosts", "a,b")
refused(["--min_workers", "async"], "--strategy", "sync", "--min_workers", "1")
several = {"cluster": {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"]}, "task": {"type": "worker", "index": 1}}
for count, variables in ((3, {"TF_CONFIG": json.dumps(several)}), (4, {"RANK": "1", "WORLD_SIZE": "4"})):
    os.environ.update(variables)
    refused([f"one of {count} tasks", "--strategy"])
    for name in variables:
        del os.environ[name]
refused(["local", "--secret_file"], "--secret_file", "/dev/null")
refused(["allreduce", "leave out --ps"], "--strategy", "allreduce", "--hosts", "a,b", "--ps", "1")
refused(["--ps is", "from 1"], "--strategy", "sync", "--hosts", "a,b", "--ps", "0")
refused(["2 tasks", "2 of them would be parameter servers"], "--strategy", "sync", "--hosts", "a,b", "--ps", "2")
refused(["--ps requires --hosts"], "--strategy", "sync", "--ps", "1", "--job_name", "ps", "--ps_hosts", "127.0.0.1:1",
        "--worker_hosts", "127.0.0.1:2")
refused(["--hosts: hosts='a.invalid,b.invalid'", "--task_index", "does not contain this host", socket.gethostname()], "--strategy", "sync", "--hosts",
        "a.invalid,b.invalid")
refused(["hosts='localhost,localhost'", "several tasks on this host", "0 and 1"], "--strategy", "allreduce", "--hosts",
        "localhost,localhost")
refused(["2 tasks", "no task 2"], "--strategy", "sync", "--hosts", "localhost,localhost", "--task_index", "2")
refused(["hosts='a,,b'", "character 3", "host name"], "--strategy", "sync", "--hosts", "a,,b")
refused(["'b'", "port is missing"], "--strategy", "sync", "--hosts", "a:1,b")
refused(["--tls_cert", "also give --tls_key and --tls_ca"], "--strategy", "sync", "--hosts", "a,b", "--tls_cert", "a.pem")
refused(["/no/such/secret"], "--strategy", "sync", "--hosts", "localhost,localhost", "--secret_file", "/no/such/secret")
refused(["local", "--heartbeat_timeout"], "--heartbeat_timeout", "3")
refused(["--heartbeat_timeout", "above 0"], "--strategy", "allreduce", "--hosts", "localhost", "--heartbeat_timeout", "0")
refused(["heartbeat_timeout is 100 ms", "exceed the 250 ms"], "--strategy", "allreduce", "--hosts", "localhost",
        "--heartbeat_timeout", "0.1")

# ---- what launchers and schedulers say, and what is missing there ----
ps, workers = '"ps": ["127.0.0.1:1"]', '"worker": ["127.0.0.1:2", "127.0.0.1:3"]'


def tf_config(*jobs, task=("worker", 0)):
    return {"TF_CONFIG": f'{{"cluster": {{{", ".join(jobs)}}}, "task": {{"type": "{task[0]}", "index": {task[1]}}}}}'}


rank = {"RANK": "0", "WORLD_SIZE": "2"}
for variables, strategy, words in (
        ({}, "sync", ["needs --hosts", "neither TF_CONFIG nor ranks", "weft_launch"]),
        ({"TF_CONFIG": "{}"}, "sync", ["needs --hosts", "TF_CONFIG='{}' has none"]),
        ({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "3"}, "sync", ["needs --hosts", "in a Slurm job", "write srun"]),
        ({"PBS_NODEFILE": "/dev/null"}, "sync", ["needs --hosts", "in a PBS job", "pbsdsh"]),
        (tf_config(workers), "sync", ["needs parameter servers", "TF_CONFIG names none", "weft_launch with --ps 1"]),
        (tf_config(ps, workers), "allreduce", ["has no parameter servers", "TF_CONFIG names 1", "without --ps"]),
        (tf_config(ps, '"worker": {"1": "127.0.0.1:2"}', task=("worker", 1)), "sync",
         ["TF_CONFIG must number the tasks of job 'worker' from 0", "1@127.0.0.1:2"]),
        (tf_config('"ps": {"1": "127.0.0.1:1"}', workers), "async", ["TF_CONFIG must number the tasks of job 'ps' from 0"]),
        (tf_config(ps, task=("ps", 0)), "sync", ["TF_CONFIG names no task of job 'worker'"]),
        (tf_config(ps, workers, '"other": ["127.0.0.1:4"]', task=("other", 0)), "sync", ["a task of job 'other'"]),
        ({**rank, "MASTER_ADDR": "127.0.0.1:1", "MASTER_PORT": "1"}, "sync", ["MASTER_ADDR='127.0.0.1:1' has a port"]),
        ({**rank, "WORLD_SIZE": "1"}, "sync", ["1 task", "start at least one more task as a worker"])):
    os.environ.update(variables)
    refused(words, "--strategy", strategy)
    for name in variables:
        del os.environ[name]
os.environ.update(rank)
refused(["needs --ps_hosts", "or leave out --job_name", "a launcher defined a cluster"], "--strategy", "sync", "--job_name", "worker")
for name in rank:
    del os.environ[name]
refused(["/no/such/a.pem"], "--strategy", "sync", "--hosts", "localhost,localhost", "--tls_cert", "/no/such/a.pem",
        "--tls_key", "/no/such/a.key", "--tls_ca", "/no/such/ca.pem")

# ---- files ----
with tempfile.TemporaryDirectory() as folder:
    refused(["train-images-idx3-ubyte", "dataset-fashion-mnist"], "--data_dir", folder)
    idx(folder, "train-images-idx3-ubyte", 2, 28, 28, content=bytes(2 * 784))
    idx(folder, "train-labels-idx1-ubyte", 3, content=bytes(3))
    refused(["3 labels", "2 images"], "--data_dir", folder)
    idx(folder, "train-labels-idx1-ubyte", 2, content=bytes([1, 77]))
    refused(["label 77"], "--data_dir", folder)
    idx(folder, "train-images-idx3-ubyte", 0xffffffff, 0xffffffff, 28, content=bytes(784))
    refused(["4294967295 x 4294967295 x 28"], "--data_dir", folder)
    idx(folder, "train-images-idx3-ubyte", 2, 28, 28, content=bytes(784))
    refused(["2 x 28 x 28", "a file of 800 bytes"], "--data_dir", folder)
    result = os.path.join(folder, "result.json")
    idx(folder, "train-images-idx3-ubyte", 0, 28, 28, content=b"")
    idx(folder, "train-labels-idx1-ubyte", 0, content=b"")
    refused(["contains no images"], "--data_dir", folder, "--json", result)
    if os.path.exists(result):
        faults.append("a run that failed has left a result")
    for name in ("train", "t10k"):
        idx(folder, f"{name}-images-idx3-ubyte", 2, 28, 28, content=bytes(2 * 784))
        idx(folder, f"{name}-labels-idx1-ubyte", 2, content=bytes(2))
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, "--data_dir", folder, "--epochs", "1", "--progress", "none"], text=True, stdout=full,
                              stderr=subprocess.PIPE, timeout=20)
    if done.returncode != 1 or "the output cannot be written: No space left" not in done.stderr:
        faults.append(f"/dev/full: returned {done.returncode}, said {done.stderr!r}")
    with open(os.path.join(folder, "train-images-idx3-ubyte.gz"), "wb") as out:
        out.write(gzip.compress(os.urandom(10_000))[:5_000])
    refused(["train-images-idx3-ubyte.gz"], "--data_dir", folder)

shrunken_data()
shrunken_data("--input", "queue")

# ---- optimizers and schedules ----
with tempfile.TemporaryDirectory() as folder:
    draw = random.Random(1)
    labels = [n % 10 for n in range(200)]
    for name in ("train", "t10k"):
        # A stripe in noise; where it is tells the class.
        rows = [bytes(v // 2 for v in draw.randbytes(784)) for _ in labels]
        rows = [row[:56 * n] + b"\xff" * 56 + row[56 * n + 56:] for n, row in zip(labels, rows)]
        idx(folder, f"{name}-images-idx3-ubyte", 200, 28, 28, content=b"".join(rows))
        idx(folder, f"{name}-labels-idx1-ubyte", 200, content=bytes(labels))
    small = ("--data_dir", folder, "--progress", "none", "--threads", "1", "--train_steps", "200")

    def reached(*flags):
        result = os.path.join(folder, "result.json")
        done, _ = run(*small, *flags, "--json", result)
        if done is None or done.returncode:
            faults.append(f"{flags}: {done}")
            return 0
        return result_of(result)["test_accuracy"]

    # Each learns, at a rate that suits it.
    rates = {"gradient_descent": 0.5, "momentum": 0.1, "nesterov_momentum": 0.1, "adam": 0.01, "adamw": 0.01, "adamax": 0.02,
             "nadam": 0.01, "amsgrad": 0.01, "rmsprop": 0.01, "centered_rmsprop": 0.01, "adagrad": 0.1, "adadelta": 20,
             "ftrl": 0.5, "proximal_gradient_descent": 0.5, "proximal_adagrad": 0.1, "lars": 20, "lamb": 0.02}
    for name, rate in rates.items():
        accuracy = reached("--optimizer", name, "--schedule", "constant", "--learning_rate", str(rate))
        if accuracy < 0.9:
            faults.append(f"--optimizer {name} --learning_rate {rate}: the accuracy is {accuracy}")
    for schedule in ("constant", "exponential:0.5/100", "natural_exp:0.5/100", "inverse_time:1/100",
                     "piecewise:100=0.5,150=0.1", "polynomial:200", "polynomial:200/2", "cosine", "cosine:150",
                     "cosine_restarts:50", "one_cycle", "one_cycle:180", "warmup:20", "warmup:20+cosine"):
        accuracy = reached("--schedule", schedule, "--learning_rate", "0.01")
        if accuracy < 0.9:
            faults.append(f"--schedule {schedule}: the accuracy is {accuracy}")
    # The usual rate, and what --learning_rate says.
    for rate, worse in (("1e-9", True), (None, False)):
        accuracy = reached("--schedule", "constant", *(("--learning_rate", rate) if rate else ()))
        if (accuracy < 0.5) != worse:
            faults.append(f"--learning_rate {rate}: the accuracy is {accuracy}")
    costs = {}
    for own in ((), ("--learning_rate", "0.01")):
        done, _ = run(*small, "--optimizer", "momentum", "--schedule", "constant", *own, "--json",
                      os.path.join(folder, "result.json"))
        costs[own] = result_of(os.path.join(folder, "result.json"))
    if len({str(cost) for cost in costs.values()}) != 1:
        faults.append(f"--optimizer momentum has not its usual rate: {costs}")
    # Images by a queue in the graph: the same ones in the same order, so the same cost, on a cluster too.
    def cost(strategy, way):
        result = os.path.join(folder, "result.json")
        flags = [program, *small, "--input", way, "--strategy", strategy]
        tasks = {"local": [()], "sync": ["ps0", "worker0", "worker1"], "allreduce": ["worker0", "worker1"]}[strategy]
        if strategy != "local":
            held = [socket.create_server(("127.0.0.1", 0)) for _ in tasks]
            addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in held]
            for s in held:
                s.close()
            flags += ["--worker_hosts", ",".join(addresses[-2:])] + (["--ps_hosts", addresses[0]] if strategy == "sync" else [])
        children = [subprocess.Popen([*flags, *(("--job_name", task[:-1], "--task_index", task[-1]) if task else ()),
                                      *(("--json", result) if task in ((), "worker0") else ())],
                                     text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for task in tasks]
        try:
            said = [each.communicate(timeout=30)[1] for each in children]
        except subprocess.TimeoutExpired:
            said = ["does not end"]
            for each in children:
                each.kill()
        if any(each.returncode for each in children):
            faults.append(f"--input {way} --strategy {strategy}: {said}")
            return None
        return result_of(result)["final_cost"]

    for strategy in ("local", "sync", "allreduce"):
        costs = [cost(strategy, way) for way in ("feed", "queue")]
        if costs[0] != costs[1]:
            faults.append(f"--strategy {strategy}: fed, the cost is {costs[0]}, by a queue {costs[1]}")
    # Several threads, of 15 each has less than a batch: in no certain order, but all is learnt, and they end.
    for threads in ("3", "15"):
        accuracy = reached("--input", "queue", "--input_threads", threads, "--schedule", "constant", "--learning_rate", "0.01")
        if accuracy < 0.9:
            faults.append(f"--input_threads {threads}: the accuracy is {accuracy}")
    refused(["--input_threads", "--input queue"], *small, "--input_threads", "2")
    refused(["the test accuracy is", "below 0.99"], *small, "--learning_rate", "1e-9", "--least_accuracy", "0.99")

# ---- Ctrl-C on a terminal ----
def interrupted(number):
    """The line of the bar is ended before the program is, as it would have been without a bar."""
    terminal, of_program = pty.openpty()
    task = subprocess.Popen([program, "--train_steps", "100000000", "--threads", "1", "--progress", "bar"],
                            stdout=subprocess.DEVNULL, stderr=of_program)
    os.close(of_program)
    shown = b""
    end = time.monotonic() + 20
    while b"\r" not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096)
    time.sleep(0.3)
    task.send_signal(number)
    try:
        task.wait(timeout=20)
        while True:
            shown += os.read(terminal, 4096)
    except OSError:
        pass  # the other end is closed
    except subprocess.TimeoutExpired:
        task.kill()
        task.wait()
    os.close(terminal)
    if task.returncode != -number or not shown.endswith(b"\x1b[K\r\n"):
        faults.append(f"signal {number}: returned {task.returncode}, last showed {shown[-40:]!r}")


if os.path.isdir(data):
    for number in (signal.SIGINT, signal.SIGTERM):
        interrupted(number)
    short = ("--train_steps", "200", "--progress", "none", "--threads", "1")
    refused(["no/such/folder/result.json"], *short, "--json", "/no/such/folder/result.json")

    # ---- the cluster ----
    with socket.socket() as taken, socket.socket() as other:
        for s in (taken, other):
            s.bind(("127.0.0.1", 0))
        taken.listen()
        used, free = (f"127.0.0.1:{s.getsockname()[1]}" for s in (taken, other))
        other.close()
        refused([used.split(":")[1]], *short, "--strategy", "async", "--job_name", "worker", "--ps_hosts", free,
                "--worker_hosts", used)
        other = socket.socket()
        other.bind(("127.0.0.1", 0))
        mine = f"127.0.0.1:{other.getsockname()[1]}"
        other.close()
        # It waits for a minute; the clusters below run meanwhile.
        waiting = threading.Thread(target=refused, args=(["/job:ps/task:0"], *short, "--strategy", "async", "--job_name",
                                                         "worker", "--ps_hosts", free, "--worker_hosts", mine),
                                   kwargs={"seconds": 75})
        waiting.start()

    # ---- the usual run, and runs that go on ----
    done, took = run("--progress", "none", seconds=60)
    if done is None or done.returncode or "test accuracy 0.8" not in done.stdout:
        faults.append(f"the usual run does not reach 0.885: {done}")
    else:
        print(f"{took:5.2f} s  {done.stdout.splitlines()[0]}")
    kept_runs("--train_steps", "3000", "--progress", "none", "--threads", "1", each=200, other=(("hidden_units", "50"),))

    # ---- a killed task of a cluster that shares memory ----
    def start_cluster(strategy, *flags):
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ps, *workers = (f"127.0.0.1:{s.getsockname()[1]}" for s in held)
        for s in held:
            s.close()
        hosts = ("--ps_hosts", ps, "--worker_hosts", ",".join(workers))
        return {name: subprocess.Popen(
            [program, *hosts, "--strategy", strategy, "--job_name", name[:-1], "--task_index", name[-1], "--train_steps",
             "1000000", "--progress", "none", "--threads", "1", "--hidden_units", "2000", *flags],
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name in ("ps0", "worker0", "worker1")}

    def in_the_middle(tasks):
        """Waits until all share memory, and for a second of steps."""
        end = time.monotonic() + 30
        for task in tasks.values():
            while time.monotonic() < end and task.poll() is None:
                with open(f"/proc/{task.pid}/maps") as maps:
                    if "/memfd:" in maps.read():
                        break
                time.sleep(0.05)
        time.sleep(1)

    def cluster(strategy, killed):
        tasks = start_cluster(strategy)
        try:
            in_the_middle(tasks)
            tasks[killed].kill()
            start = time.monotonic()
            for name, task in tasks.items():
                if name == killed:
                    continue
                said = task.communicate(timeout=20)[1].strip()
                last = said.splitlines()[-1] if said else ""  # before it worker 0 and the server may have named who is lost
                if task.returncode != 1 or not last.startswith("error: ") or f"/job:{killed[:-1]}/task:{killed[-1]}" not in last:
                    faults.append(f"{strategy}, {killed} killed: {name} returned {task.returncode}, said {said!r}")
                else:
                    print(f"{time.monotonic() - start:5.2f} s  {strategy}, {killed} killed, {name}\n         {said}")
            if time.monotonic() - start > 4:
                faults.append(f"{strategy}, {killed} killed: noticed after {time.monotonic() - start:.1f} s")
        except subprocess.TimeoutExpired:
            faults.append(f"{strategy}, {killed} killed: the others still run after 20 s")
        finally:
            for task in tasks.values():
                task.kill()
                task.wait()

    def without_workers():
        """Where it is told to, asynchronous training goes on without a worker, and says so at once; without any it has
        failed."""
        tasks = start_cluster("async", "--min_workers", "1")
        try:
            in_the_middle(tasks)
            tasks["worker1"].kill()
            for name in ("ps0", "worker0"):
                ready, _, _ = select.select([tasks[name].stderr], [], [], 3)
                said = tasks[name].stderr.readline() if ready else ""
                if not said.startswith("1 of 2 workers: /job:worker/task:1 has closed its connection"):
                    faults.append(f"async, worker1 killed: {name} says {said!r}")
            tasks["worker0"].kill()
            said = tasks["ps0"].communicate(timeout=20)[1].strip().splitlines()
            if tasks["ps0"].returncode != 1 or not said[-1].startswith(
                    "error: /job:ps/task:0: asynchronous training ended early: /job:worker/task:1"):
                faults.append(f"async, both workers killed: ps0 returned {tasks['ps0'].returncode}, said {said}")
        except subprocess.TimeoutExpired:
            faults.append("async, both workers killed: the parameter server still runs after 20 s")
        finally:
            for task in tasks.values():
                task.kill()
                task.wait()

    # ---- flags that differ between the workers ----
    def unlike(strategy, *flags):
        """Worker 1 has other flags. Returns how each task ended, and what it said."""
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ps, *workers = (f"127.0.0.1:{s.getsockname()[1]}" for s in held)
        for s in held:
            s.close()
        result = os.path.join(tempfile.gettempdir(), f"weft_unlike_{os.getpid()}.json")
        tasks = {}
        for name in ("worker0", "worker1") if strategy == "allreduce" else ("ps0", "worker0", "worker1"):
            hosts = ("--worker_hosts", ",".join(workers)) + (() if strategy == "allreduce" else ("--ps_hosts", ps))
            own = flags if name == "worker1" else ("--json", result)
            if "--train_steps" not in own:
                own += ("--train_steps", "300")
            own += ("--schedule", "constant")  # else the rates' length differs first
            tasks[name] = subprocess.Popen(
                [program, *hosts, "--strategy", strategy, "--job_name", name[:-1], "--task_index", name[-1],
                 "--progress", "none", "--threads", "1", *own],
                text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        ended = {}
        for name, task in tasks.items():
            try:
                said = task.communicate(timeout=60)[1].strip()
            except subprocess.TimeoutExpired:
                task.kill()
                said = "still runs after 60 s"
            ended[name] = (task.wait(), said)
        found = None
        if os.path.exists(result):
            with open(result) as lines:
                found = json.load(lines)
            os.remove(result)
        return ended, found

    for strategy in ("async", "sync", "allreduce"):
        ended, found = unlike(strategy, "--train_steps", "200")
        if all("its settings are '" not in said for _, said in ended.values()) or not any(code for code, _ in ended.values()):
            faults.append(f"{strategy}, other --train_steps: {ended}")
        ended, found = unlike(strategy, "--batch_size", "37")
        if any(code for code, _ in ended.values()) or found is None or found["test_accuracy"] < 0.7:
            faults.append(f"{strategy}, other --batch_size: {ended}, {found}")

    # ---- a cluster that is killed and goes on ----
    def cluster_tasks(strategy, *flags):
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ps, *workers = (f"127.0.0.1:{s.getsockname()[1]}" for s in held)
        for s in held:
            s.close()
        hosts = ("--worker_hosts", ",".join(workers)) + (() if strategy == "allreduce" else ("--ps_hosts", ps))
        names = ("worker0", "worker1") if strategy == "allreduce" else ("ps0", "worker0", "worker1")
        return {name: subprocess.Popen(
            [program, *hosts, "--strategy", strategy, "--job_name", name[:-1], "--task_index", name[-1], "--progress", "none",
             "--threads", "1", *flags], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name in names}

    def end_of(tasks, seconds=60):
        ended = {}
        for name, task in tasks.items():
            try:
                said = task.communicate(timeout=seconds)[1].strip()
            except subprocess.TimeoutExpired:
                task.kill()
                said = f"still runs after {seconds} s"
            ended[name] = (task.wait(), said)
        return ended

    def resumed_cluster(strategy, *flags):
        with tempfile.TemporaryDirectory() as folder:
            there = lambda name: os.path.join(folder, name)
            flags += ("--train_steps", "1000")
            ended = end_of(cluster_tasks(strategy, *flags, "--checkpoint_dir", there("whole"), "--json", there("whole.json")))
            if any(code for code, _ in ended.values()):
                faults.append(f"{strategy}, with checkpoints: {ended}")
                return
            kept = ("--checkpoint_dir", there("kept"), "--checkpoint_steps", "100")
            for turn in range(2):
                tasks = cluster_tasks(strategy, *flags, *kept, *(["--resume"] * turn))
                end = time.monotonic() + 30
                while time.monotonic() < end and tasks["worker0"].poll() is None:
                    path = latest(there("kept")) if os.path.isdir(there("kept")) else None
                    if path and int(path.split("-")[-1]) >= 100 + 300 * turn:
                        break
                    time.sleep(0.005)
                for task in tasks.values():
                    task.kill()
                killed = end_of(tasks)
                if killed["worker0"][0] != -signal.SIGKILL:
                    faults.append(f"{strategy}: the chief has not been killed: {killed}")
            ended = end_of(cluster_tasks(strategy, *flags, *kept, "--resume", "--json", there("kept.json"), "--log_dir",
                                         there("log")))
            if any(code for code, _ in ended.values()) or "continues from step " not in ended["worker0"][1]:
                faults.append(f"{strategy}, --resume: {ended}")
                return
            whole, again = result_of(there("whole.json")), result_of(there("kept.json"))
            print(f"{strategy} killed twice: {again}, undisturbed {whole}")
            if whole["test_accuracy"] < 0.7 or again["test_accuracy"] < 0.7 or not os.listdir(there("log")):
                faults.append(f"{strategy}: {whole}, and after two restarts {again}")
            if strategy != "async" and (whole != again or
                                        weights(latest(there("whole"))) != weights(latest(there("kept")))):
                faults.append(f"{strategy}: {whole}, and after two restarts {again}; the weights are others")
            # Another's checkpoint: the chief says so, and what the others were waiting for.
            ended = end_of(cluster_tasks(strategy, *flags, *kept, "--resume", "--seed", "5"))
            if "was saved with --seed 1, but this run has 5" not in ended["worker0"][1] or not all(
                    code for code, _ in ended.values()):
                faults.append(f"{strategy}, --seed 5: {ended}")

    def stopped_cluster(strategy, whom):
        """SIGTERM to some tasks of a cluster: worker 0 says from which step a run goes on, which then ends as one that
        nobody has disturbed."""
        with tempfile.TemporaryDirectory() as folder:
            there = lambda name: os.path.join(folder, name)
            flags = ("--train_steps", "1500")
            ended = end_of(cluster_tasks(strategy, *flags, "--checkpoint_dir", there("whole"), "--json", there("whole.json")))
            if any(code for code, _ in ended.values()):
                faults.append(f"{strategy}, with checkpoints: {ended}")
                return
            kept = ("--checkpoint_dir", there("kept"), "--checkpoint_steps", "100")
            tasks = cluster_tasks(strategy, *flags, *kept)
            end = time.monotonic() + 30
            while time.monotonic() < end and not (os.path.isdir(there("kept")) and latest(there("kept"))):
                time.sleep(0.005)
            for name in whom:
                if name in tasks:
                    tasks[name].send_signal(signal.SIGTERM)
            ended = end_of(tasks)
            step = latest(there("kept")).split("-")[-1]
            for name, (code, said) in ended.items():
                if code != (-signal.SIGTERM if name in whom else 1):
                    faults.append(f"{strategy}, SIGTERM to {whom}: {name} returned {code}, said {said!r}")
                if (f"stopped at step {step}; --resume continues from it" in said) != (name == "worker0"):
                    faults.append(f"{strategy}, SIGTERM to {whom}: {name} says {said!r}, and step {step} is kept")
            ended = end_of(cluster_tasks(strategy, *flags, *kept, "--resume", "--json", there("kept.json")))
            if any(code for code, _ in ended.values()) or f"continues from step {step}," not in ended["worker0"][1]:
                faults.append(f"{strategy}, --resume after SIGTERM to {whom}: {ended}")
                return
            whole, again = result_of(there("whole.json")), result_of(there("kept.json"))
            if strategy != "async" and (whole != again or weights(latest(there("whole"))) != weights(latest(there("kept")))):
                faults.append(f"{strategy}: {whole}, and after SIGTERM to {whom} at step {step} {again}")

    def replaced_worker(strategy, whom):
        """SIGTERM to one worker under a policy that waits is a loss: the process in its place and all others finish."""
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            tasks = cluster_tasks(strategy, "--train_steps", "5000", "--on_loss", "wait:30", "--checkpoint_dir", kept,
                                  "--checkpoint_steps", "100")
            end = time.monotonic() + 30
            while time.monotonic() < end and not (os.path.isdir(kept) and latest(kept)):
                time.sleep(0.005)
            tasks[whom].send_signal(signal.SIGTERM)
            code = end_of({whom: tasks[whom]})[whom][0]
            if code != -signal.SIGTERM:
                faults.append(f"{strategy}, SIGTERM to {whom} under a policy: it returned {code}")
            tasks[whom] = subprocess.Popen([*tasks[whom].args, "--resume"], text=True, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE)
            ended = end_of(tasks)
            if any(code for code, _ in ended.values()) or int(latest(kept).split("-")[-1]) < 5000:
                faults.append(f"{strategy}, {whom} is replaced after SIGTERM: {ended}")

    def finished_cluster(strategy):
        """A run with shards that has finished is started again: each task finds that the last step is reached. Shards of
        another seed are refused."""
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--train_steps", "60", "--on_loss", "wait:10", "--shard_dir", os.path.join(folder, "shards"))
            for turn in range(3):
                ended = end_of(cluster_tasks(strategy, *flags))
                if any(code for code, _ in ended.values()):
                    faults.append(f"{strategy}, a run with shards, started {turn} times before: {ended}")
            ended = end_of(cluster_tasks(strategy, *flags, "--seed", "5"))
            if not all("its seed is 1, but the first worker's is 5" in said for _, said in ended.values()):
                faults.append(f"{strategy}, shards of another seed: {ended}")

    finished_cluster("sync")
    finished_cluster("async")
    replaced_worker("sync", "worker1")
    replaced_worker("sync", "worker0")
    replaced_worker("async", "worker0")
    replaced_worker("allreduce", "worker1")
    for strategy in ("sync", "allreduce", "async"):
        stopped_cluster(strategy, ("ps0", "worker1", "worker0"))
    stopped_cluster("sync", ("worker0",))
    stopped_cluster("allreduce", ("worker1",))

    resumed_cluster("sync")
    resumed_cluster("allreduce", "--optimizer", "lamb", "--learning_rate", "0.01")
    resumed_cluster("async", "--optimizer", "adagrad", "--learning_rate", "0.05", "--schedule", "exponential:0.9/100")
    ended = end_of(cluster_tasks("sync", "--train_steps", "10", "--optimizer", "lars"))
    if not any("norms" in said for _, said in ended.values()) or not all(code for code, _ in ended.values()):
        faults.append(f"sync, lars: {ended}")

    names = os.listdir("/dev/shm")
    without_workers()
    cluster("sync", "worker1")
    cluster("sync", "ps0")
    cluster("async", "ps0")
    cluster("async", "worker0")
    cluster("async", "worker1")
    if os.listdir("/dev/shm") != names:
        faults.append(f"/dev/shm holds {os.listdir('/dev/shm')} after tasks were killed")
    waiting.join()

finish()
