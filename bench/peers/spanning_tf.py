# SPDX-License-Identifier: BSL-1.0
"""Times steps of graphs that span tasks of TensorFlow 2 through compat.v1's sessions, over gRPC on loopback: the peer of
bench/spanning.cpp. 1 kB goes through tasks 1 and 2 of three processes and back, to a client outside the cluster and to
a session in task 1. Then 100 MB go from one task to another, a step fetches a scalar of each of 16 tasks, and 1 kB goes
to a task and back, where every task is a server in this process, as in bench/spanning.cpp. The graph's optimizer is
off, so that all values travel. With --weft PROGRAM, runs of bench/spanning alternate with these.

usage: python spanning_tf.py [--rounds N] [--weft build/release/bench/spanning]
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

p = argparse.ArgumentParser()
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--weft")
p.add_argument("--serve", nargs=2, metavar=("ADDRESSES", "TASK"), help=argparse.SUPPRESS)
p.add_argument("--ask", nargs=2, metavar=("ADDRESSES", "TASK"), help=argparse.SUPPRESS)


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def time_of(run, seconds, warm_up):
    """The median and the 99th percentile, in seconds."""
    for _ in range(warm_up):
        run()
    times = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


def serve(tf1, config, addresses, task):
    spec = tf1.train.ClusterSpec({"worker": addresses.split(",")})
    tf1.train.Server(spec, job_name="worker", task_index=task, config=config).join()


def ask(tf, tf1, config, addresses, task):
    """Prints the times of steps of three processes: of this one, which is the task, or outside the cluster for 3."""
    spec = tf1.train.ClusterSpec({"worker": addresses.split(",")})
    x = tf1.placeholder(tf.float32, [256])
    with tf1.device("/job:worker/task:1/cpu:0"):
        there = x * 2.0
    with tf1.device("/job:worker/task:2/cpu:0"):
        there = there + 1.0
    if task < 3:
        target = tf1.train.Server(spec, job_name="worker", task_index=task, config=config).target
    else:
        target = "grpc://" + addresses.split(",")[0]
    value = [0.0] * 256
    with tf1.Session(target, config=config) as s:
        run = s.make_callable(there, feed_list=[x])
        print(json.dumps(time_of(lambda: run(value), 1, 200)), flush=True)
    os._exit(0)


def times_of_processes(task):
    """The times that ask() prints, with servers in processes of their own."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(3))
    others = [subprocess.Popen([sys.executable, __file__, "--serve", addresses, str(t)]) for t in range(3) if t != task]
    try:
        said = subprocess.run([sys.executable, __file__, "--ask", addresses, str(task)], check=True,
                              capture_output=True, text=True)
    finally:
        for each in others:
            each.kill()
            each.wait()
    return json.loads(said.stdout.splitlines()[-1])


def main():
    a = p.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf
    tf.compat.v1.disable_eager_execution()
    tf1 = tf.compat.v1
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    if a.serve:
        return serve(tf1, config, a.serve[0], int(a.serve[1]))
    if a.ask:
        return ask(tf, tf1, config, a.ask[0], int(a.ask[1]))
    spec = tf1.train.ClusterSpec({"worker": [f"127.0.0.1:{port}" for port in free_ports(16)]})
    servers = [tf1.train.Server(spec, job_name="worker", task_index=t, config=config) for t in range(16)]

    def on(t):
        return tf1.device(f"/job:worker/task:{t}/cpu:0")

    x = tf1.placeholder(tf.float32, [256])
    with on(1):
        doubled = x * 2.0
    with on(0):
        big = tf1.get_variable("big", [25_000_000], initializer=tf1.ones_initializer(), use_resource=False)
    with on(1):
        first = tf1.slice(tf1.identity(big), [0], [1]) + 1.0
    scalars = []
    for t in range(16):
        with on(t):
            v = tf1.get_variable(f"v{t}", [], initializer=tf1.ones_initializer(), use_resource=False)
            scalars.append(v + 1.0)
    value = [0.0] * 256
    with tf1.Session(servers[0].target, config=config) as s:
        s.run(tf1.global_variables_initializer())
        there = s.make_callable(doubled, feed_list=[x])
        cases = [("1 kB there and back", lambda: there(value), 0.5, 50),
                 ("100 MB to a task", s.make_callable(first), 2, 1),
                 ("16 scalars of 16 tasks", s.make_callable(scalars), 0.5, 20)]
        times = {}
        for _ in range(a.rounds):
            for what, task in [("a client outside", 3), ("a session in task 1", 1)]:
                case = f"1 kB through 3 processes, {what}"
                times.setdefault(("tensorflow", case), []).append(times_of_processes(task))
            for what, run, seconds, warm_up in cases:
                times.setdefault(("tensorflow", what), []).append(time_of(run, seconds, warm_up))
            if a.weft:
                said = subprocess.run([a.weft, "--rounds", "1", "--steps-only"], check=True, capture_output=True, text=True)
                for line in said.stdout.splitlines():
                    row = json.loads(line)
                    times.setdefault((row["peer"], row["case"]), []).append(
                        (row["us"] * 1e-6, row["p99_us"] * 1e-6))
        for (peer, what), all_times in times.items():
            us, p99 = (round(statistics.median(t) * 1e6, 1) for t in zip(*all_times))
            print(json.dumps({"peer": peer, "case": what, "us": us, "p99_us": p99}), flush=True)
    os._exit(0)  # servers of TensorFlow do not end


if __name__ == "__main__":
    main()
