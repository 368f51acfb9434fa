# SPDX-License-Identifier: BSL-1.0
"""Trains on two hosts that are network namespaces of this machine: a parameter server and a worker on one, a worker on the
other, which reach each other over a pair of virtual interfaces alone. Needs root; skipped in words elsewhere.

usage: hosts.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

import checks
import machines

program, faults = os.path.abspath(sys.argv[1]), checks.faults


def start(host, job, index, cluster, flags=(), **variables):
    environment = {n: v for n, v in os.environ.items() if not n.startswith("WEFT_")}
    if cluster:
        variables["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    else:
        variables.update(RANK=str(index + (job == "worker")), WORLD_SIZE="3")
    return subprocess.Popen([*net.enter(names[host]), program, "--strategy", "sync", "--data_dir", folder,
                             "--threads", "1", "--train_steps", "40", "--batch_size", "20", "--progress", "none", *flags],
                            env={**environment, **variables}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def finish(tasks):
    said = []
    for task in tasks:
        try:
            said.append((task.communicate(timeout=90)[0], task.returncode))
        except subprocess.TimeoutExpired:
            task.kill()
            said.append((task.communicate()[0] + "(does not end)", None))
    return said


if machines.why_not():
    checks.skip(machines.why_not())
temporary = tempfile.TemporaryDirectory()
folder, names = temporary.name, ["a", "b"]
try:
    net = machines.machines(names, "10.77.0", folder)
except OSError as problem:
    checks.skip(f"there are no network namespaces here ({problem})")
try:
    has_ipv6 = net.has_ipv6()
    for name in ("train", "t10k"):
        labels = [n % 10 for n in range(200)]
        rows = [b"\x40" * (56 * n) + b"\xff" * 56 + b"\x40" * (784 - 56 * (n + 1)) for n in labels]
        checks.idx(folder, f"{name}-images-idx3-ubyte", 200, 28, 28, content=b"".join(rows))
        checks.idx(folder, f"{name}-labels-idx1-ubyte", 200, content=bytes(labels))

    def cluster_at(hosts, port):
        return {"ps": [f"{hosts[0]}:{port}"], "worker": [f"{hosts[0]}:{port + 1}", f"{hosts[1]}:{port + 2}"]}

    def train(cluster, hosts=False, **variables):
        result = f"{folder}/result.json"
        if os.path.exists(result):
            os.remove(result)
        own = [{"WEFT_HOST": f"10.77.0.{i}"} if hosts else {} for i in (1, 2)]
        tasks = [start(0, "ps", 0, cluster, **variables, **own[0]),
                 start(0, "worker", 0, cluster, ("--json", result), **variables, **own[0]),
                 start(1, "worker", 1, cluster, **variables, **own[1])]
        said = finish(tasks)
        if any(code != 0 for _, code in said):
            faults.append(f"{cluster}: {said}")
            return None
        with open(result) as text:
            return json.load(text)["final_cost"]

    costs = [train(cluster_at(("10.77.0.1", "10.77.0.2"), 2222), WEFT_SECRET="known to all tasks alike")]
    if has_ipv6:
        costs.append(train(cluster_at(("[fd77::1]", "[fd77::2]"), 2322), WEFT_SECRET="known to all tasks alike"))
    # Tasks that know only their ranks, and meet at the first of them or in a folder.
    costs.append(train(None, WEFT_SECRET="known to all tasks alike", MASTER_ADDR="10.77.0.1", MASTER_PORT="2600"))
    costs.append(train(None, WEFT_SECRET="known to all tasks alike", WEFT_RENDEZVOUS=folder, WEFT_JOB_ID="1", hosts=True))
    # On this machine alone, through shared memory: the same steps, to the bit.
    names[1] = "a"
    costs.append(train(cluster_at(("127.0.0.1", "127.0.0.1"), 2422)))
    names[1] = "b"
    if len(set(costs)) != 1:
        faults.append(f"costs over networks and over loopback differ: {costs}")
    print(f"trained to a cost of {costs}")

    # Without a secret that was given: nothing is bound.
    cluster = cluster_at(("10.77.0.1", "10.77.0.2"), 2522)
    (said, code), = finish([start(0, "ps", 0, cluster)])
    if code != 1 or "is not a loopback address, and other hosts can join only with a secret" not in said:
        faults.append(f"no secret: {code}, {said}")
    # With two secrets the worker is told whom it does not know. The parameter server would wait for a minute.
    cluster = {"ps": cluster["ps"], "worker": ["10.77.0.2:2524"]}
    server = start(0, "ps", 0, cluster, WEFT_SECRET="known to one task alone")
    (said, code), = finish([start(1, "worker", 0, cluster, WEFT_SECRET="known to the other one")])
    if code != 1 or ("the process listening at 10.77.0.1:2522 does not have this task's secret (from WEFT_SECRET)"
                     not in said):
        faults.append(f"two secrets: {code}, {said}")
    if server.poll() is not None:
        faults.append(f"two secrets: the parameter server has ended: {server.communicate()}")
    server.kill()
    server.wait()
    if "known to" in said:
        faults.append("a secret is told")
finally:
    net.close()

print("\n".join(faults) or "two hosts train as one does")
sys.exit(1 if faults else 0)
