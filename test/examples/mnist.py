"""Checks what the classifier program says and returns when something is wrong: one clear sentence, a code that is not 0,
and an end in time.

usage: mnist.py PROGRAM
"""
import gzip
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

program = sys.argv[1]
data = "/usr/share/datasets/fashion-mnist"
faults = []


def run(*flags, seconds=20):
    start = time.monotonic()
    try:
        done = subprocess.run([program, *flags], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    except subprocess.TimeoutExpired:
        faults.append(f"{' '.join(flags)}: still runs after {seconds} s")
        return None, 0
    return done, time.monotonic() - start


def refused(words, *flags, seconds=20):
    """The program must end in time with a code that is not 0 and one sentence that has all the words."""
    done, took = run(*flags, seconds=seconds)
    if done is None:
        return
    lines = done.stderr.strip().splitlines()
    said = lines[-1] if lines else ""
    if done.returncode == 0 or done.returncode < 0:
        faults.append(f"{' '.join(flags)}: returned {done.returncode}, said {done.stderr!r}")
    elif len(lines) != 1 or not said.startswith("error: ") or any(word not in said for word in words):
        faults.append(f"{' '.join(flags)}: does not say {words} in one sentence: {done.stderr!r}")
    else:
        print(f"{took:5.2f} s  {' '.join(flags)}\n         {said}")


help_text, _ = run("--help")
for flag in ("job_name task_index ps_hosts worker_hosts strategy data_dir batch_size hidden_units learning_rate epochs "
             "train_steps threads seed progress json").split():
    if f"--{flag}" not in help_text.stdout:
        faults.append(f"--help does not name --{flag}")
if help_text.returncode:
    faults.append("--help returns an error")

# ---- flags ----
refused(["--batchsize"], "--batchsize", "10")
refused(["--batch"], "--batch", "10")                     # no guessing
refused(["batch_size", "ten"], "--batch_size", "ten")
refused(["--batch_size", "-1"], "--batch_size", "-1")
refused(["--hidden_units", "0"], "--hidden_units", "0")
refused(["--learning_rate"], "--learning_rate", "0")
refused(["--learning_rate"], "--learning_rate", "nan")
refused(["loud"], "--progress", "loud")
refused(["magic", "allreduce"], "--strategy", "magic")
refused(["surplus"], "surplus")
refused(["--job_name"], "--strategy", "async", "--ps_hosts", "127.0.0.1:1", "--worker_hosts", "127.0.0.1:2")
refused(["--ps_hosts"], "--strategy", "sync", "--job_name", "worker", "--worker_hosts", "127.0.0.1:2")
refused(["allreduce", "--ps_hosts"], "--strategy", "allreduce", "--job_name", "worker", "--ps_hosts", "127.0.0.1:1",
        "--worker_hosts", "127.0.0.1:2")
refused(["--task_index", "0 to 0"], "--strategy", "async", "--job_name", "worker", "--task_index", "1", "--ps_hosts",
        "127.0.0.1:1", "--worker_hosts", "127.0.0.1:2")
refused(["local", "--ps_hosts"], "--ps_hosts", "127.0.0.1:1")

# ---- files ----
with tempfile.TemporaryDirectory() as folder:
    def idx(name, *extents, content):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(bytes([0, 0, 8, len(extents)]) + b"".join(struct.pack(">I", e) for e in extents) + content)

    refused(["train-images-idx3-ubyte", "dataset-fashion-mnist"], "--data_dir", folder)
    refused(["no/such/folder"], "--data_dir", "/no/such/folder")
    idx("train-images-idx3-ubyte", 2, 28, 28, content=bytes(2 * 784))
    idx("train-labels-idx1-ubyte", 3, content=bytes(3))
    refused(["3 labels", "2 images"], "--data_dir", folder)
    idx("train-labels-idx1-ubyte", 2, content=bytes([1, 77]))
    refused(["label 77"], "--data_dir", folder)
    idx("train-images-idx3-ubyte", 0xffffffff, 0xffffffff, 28, content=bytes(784))
    refused(["4294967295 x 4294967295 x 28"], "--data_dir", folder)
    idx("train-images-idx3-ubyte", 2, 28, 28, content=bytes(784))
    refused(["2 x 28 x 28", "a file of 800 bytes"], "--data_dir", folder)
    with open(os.path.join(folder, "train-images-idx3-ubyte.gz"), "wb") as out:
        out.write(gzip.compress(os.urandom(10_000))[:5_000])
    refused(["train-images-idx3-ubyte.gz"], "--data_dir", folder)

if os.path.isdir(data):
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
        refused(["/job:ps/task:0"], *short, "--strategy", "async", "--job_name", "worker", "--ps_hosts", free,
                "--worker_hosts", mine, seconds=75)

    # ---- a killed task of a cluster that shares memory ----
    def cluster(strategy, killed):
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ps, *workers = (f"127.0.0.1:{s.getsockname()[1]}" for s in held)
        for s in held:
            s.close()
        hosts = ("--ps_hosts", ps, "--worker_hosts", ",".join(workers))
        tasks = {name: subprocess.Popen(
            [program, *hosts, "--strategy", strategy, "--job_name", name[:-1], "--task_index", name[-1], "--train_steps",
             "1000000", "--progress", "none", "--threads", "1", "--hidden_units", "2000"],
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name in ("ps0", "worker0", "worker1")}
        try:
            time.sleep(5)
            tasks[killed].kill()
            start = time.monotonic()
            for name, task in tasks.items():
                if name == killed:
                    continue
                said = task.communicate(timeout=20)[1].strip()
                if task.returncode != 1 or not said.startswith("error: ") or f"/job:{killed[:-1]}/task:{killed[-1]}" not in said:
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

    names = os.listdir("/dev/shm")
    cluster("sync", "worker1")
    cluster("sync", "ps0")
    cluster("async", "ps0")
    if os.listdir("/dev/shm") != names:
        faults.append(f"/dev/shm holds {os.listdir('/dev/shm')} after tasks were killed")

print("\n".join(faults))
sys.exit(1 if faults else 0)
