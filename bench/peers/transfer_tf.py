# SPDX-License-Identifier: BSL-1.0
"""Times parameters of 100 MB between a worker and a parameter server of TensorFlow 1: the peer of bench/transfer.cpp. Two
processes over gRPC on loopback; the graph's optimizer is off, so that all values travel.

usage: python transfer_tf.py --ports P Q [--rounds N] [--megabytes N]      (two free ports)
"""
import argparse
import json
import multiprocessing as mp
import os
import statistics
import time

p = argparse.ArgumentParser()
p.add_argument("--ports", type=int, nargs=2, required=True)
p.add_argument("--rounds", type=int, default=9)
p.add_argument("--megabytes", type=int, default=100)


def load():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf
    tf.compat.v1.disable_eager_execution()
    return tf.compat.v1


def serve(cluster, ready):
    tf1 = load()
    server = tf1.train.Server(tf1.train.ClusterSpec(cluster), job_name="ps", task_index=0)
    ready.set()
    server.join()


def main():
    a = p.parse_args()
    cluster = {job: [f"127.0.0.1:{port}"] for job, port in zip(("ps", "worker"), a.ports)}
    ready = mp.get_context("spawn").Event()
    ps = mp.get_context("spawn").Process(target=serve, args=(cluster, ready), daemon=True)
    ps.start()
    ready.wait(120)
    tf1 = load()
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    server = tf1.train.Server(tf1.train.ClusterSpec(cluster), job_name="worker", task_index=0, config=config)
    n = a.megabytes * 250_000
    with tf1.device("/job:ps/task:0"):
        parameters = tf1.get_variable("parameters", [n], initializer=tf1.zeros_initializer(), use_resource=False)
    with tf1.device("/job:worker/task:0"):
        gradient = tf1.get_variable("gradient", [n], initializer=tf1.zeros_initializer(), use_resource=False)
        pulled = tf1.identity(parameters)
        with tf1.control_dependencies([pulled]):
            pull = tf1.no_op()
    with tf1.device("/job:ps/task:0"):
        arrived = tf1.identity(gradient)
        with tf1.control_dependencies([arrived]):
            push = tf1.no_op()
        updated = tf1.assign_sub(parameters, gradient, use_locking=True)
    with tf1.device("/job:worker/task:0"):
        with tf1.control_dependencies([tf1.identity(updated)]):
            both = tf1.no_op()
    cases = [("pull", pull, 1), ("push", push, 1), ("push and pull", both, 2)]
    with tf1.Session(server.target, config=config) as s:
        s.run(tf1.global_variables_initializer())
        times = {what: [] for what, _, _ in cases}
        for i in range(a.rounds + 1):
            for what, op, _ in cases:
                start = time.perf_counter()
                s.run(op)
                if i > 0:
                    times[what].append(time.perf_counter() - start)
        for what, _, factor in cases:
            print(json.dumps({"peer": "tensorflow", "protection": "none", "what": what, "bytes": 4 * n * factor,
                              "us": round(statistics.median(times[what]) * 1e6)}), flush=True)
    ps.terminate()


if __name__ == "__main__":
    main()
