# SPDX-License-Identifier: BSL-1.0
"""Times training on a cluster of processes on loopback, with the example program: one parameter server and two workers
(asynchronous, synchronous), or two workers alone (all-reduce). Fashion-MNIST, 784-H-10, one thread a process.

usage: parameter_server.py [--program FILE] [--mode async|sync|allreduce] [--hidden H] [--steps N] [--ps N] [--workers N]
                           [--batch N] [--lr X] [--data DIR]
Without --mode and --hidden: all modes, 100 and 2000. Steps are those of all workers together.
Prints one JSON object each, with the keys of bench/peers/mnist_ps_tf.py (async, sync) and bench/peers/mnist_ddp_torch.py (allreduce).
"""
import argparse
import json
import pathlib
import socket
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
p = argparse.ArgumentParser()
p.add_argument("--program", default=root / "build/default/examples/mnist")
p.add_argument("--mode", choices=["async", "sync", "allreduce"])
p.add_argument("--hidden", type=int)
p.add_argument("--steps", type=int)
p.add_argument("--ps", type=int, default=1)
p.add_argument("--workers", type=int, default=2)
p.add_argument("--batch", type=int, default=100)
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
a = p.parse_args()

# As many as the peers make.
STEPS = {("async", 100): 6000, ("async", 2000): 1200, ("sync", 100): 1500, ("sync", 2000): 300,
         ("allreduce", 100): 3000, ("allreduce", 2000): 300}


def free_addresses(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return addresses


def train(mode, hidden, steps):
    servers = 0 if mode == "allreduce" else a.ps
    addresses = free_addresses(servers + a.workers)
    flags = [a.program, "--strategy", mode, "--worker_hosts", ",".join(addresses[servers:]), "--data_dir", a.data,
             "--batch_size", a.batch, "--hidden_units", hidden, "--optimizer", "gradient_descent", "--schedule", "constant",
             "--learning_rate", a.lr, "--train_steps", steps, "--threads", 1, "--progress", "none"]
    if servers:
        flags += ["--ps_hosts", ",".join(addresses[:servers])]
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        tasks = [("ps", i) for i in range(servers)] + [("worker", i) for i in range(a.workers)]
        children = []
        try:
            for job, index in tasks:
                own = ["--job_name", job, "--task_index", index] + (["--json", result] if (job, index) == ("worker", 0) else [])
                children.append(subprocess.Popen([str(word) for word in flags + own], stdout=subprocess.DEVNULL))
            for (job, index), child in zip(tasks[servers:], children[servers:]):
                if child.wait(timeout=600):
                    sys.exit(f"{job} {index} of the {mode} cluster ended with code {child.returncode}")
            for child in children[:servers]:
                child.wait(timeout=60)
        finally:
            for child in children:
                child.kill()
                child.wait()
        found = json.loads(result.read_text())
    cluster = {"ranks": a.workers} if mode == "allreduce" else {"mode": mode, "ps": a.ps, "workers": a.workers}
    figures = {key: found[key] for key in ("steps_per_s", "images_per_s", "test_accuracy", "final_cost")}
    print(json.dumps({"peer": "weft", **cluster, "batch": a.batch, "hidden": hidden, **figures}), flush=True)


for hidden in [a.hidden] if a.hidden else [100, 2000]:
    for mode in [a.mode] if a.mode else ["async", "sync", "allreduce"]:
        train(mode, hidden, a.steps or STEPS.get((mode, hidden), 1000))
