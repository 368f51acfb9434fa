# SPDX-License-Identifier: BSL-1.0
"""Times the queues of TensorFlow: the peer of bench/queues.cpp. A loop within a graph, so that Python has no part in it,
and for two threads a loop each; and single steps, as of version 1.

usage: python queues_tf.py [--seconds S]
"""
import argparse
import json
import os
import statistics
import threading
import time

p = argparse.ArgumentParser()
p.add_argument("--seconds", type=float, default=1)
a = p.parse_args()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def timed(f, elements):
    f()
    times, end = [], time.perf_counter() + a.seconds
    while time.perf_counter() < end or not times:
        t = time.perf_counter()
        f()
        times.append((time.perf_counter() - t) / elements)
    return statistics.median(times)


def show(what, seconds):
    print(json.dumps({"peer": "tensorflow", "queue": what, "ns": round(seconds * 1e9, 1)}), flush=True)


def loop(n, body):
    """An operation that runs what body() makes n times."""
    def once(i):
        with tf.control_dependencies([body()]):
            return i + 1
    return tf1.while_loop(lambda i: i < n, once, [tf.constant(0)], parallel_iterations=1).op


def then(first, second):
    made = first()
    with tf.control_dependencies([made]):
        result = second()
    return tf.group(*(result if isinstance(result, (list, tuple)) else [result]))


x, batch = tf.zeros([784]), tf.zeros([32, 784])
label = tf.constant(1)
scalars = tf1.FIFOQueue(1000, [tf.float32], [[]])
images = tf1.FIFOQueue(1000, [tf.float32, tf.int32], [[784], []])
rows = tf1.FIFOQueue(1000, [tf.float32], [[784]])
shuffled = tf1.RandomShuffleQueue(1000, 500, [tf.float32, tf.int32], [[784], []])
N, M = 2000, 20000
cases = [
    ("scalar, one thread", N, loop(N, lambda: then(lambda: scalars.enqueue(1.0), scalars.dequeue))),
    ("784 floats and a label, one thread", N, loop(N, lambda: then(lambda: images.enqueue((x, label)), images.dequeue))),
    ("784 floats, 32 by 32, one thread", 100 * 32, loop(100, lambda: then(lambda: rows.enqueue_many([batch]), lambda: rows.dequeue_many(32)))),
    ("784 floats and a label, shuffled, one thread", N, loop(N, lambda: then(lambda: shuffled.enqueue((x, label)), shuffled.dequeue))),
]
threads = [
    ("scalar, two threads", loop(M, lambda: scalars.enqueue(1.0)), loop(M, lambda: tf.group(scalars.dequeue()))),
    ("784 floats and a label, in batches of 100, two threads", loop(M, lambda: images.enqueue((x, label))),
     loop(M // 100, lambda: tf.group(*images.dequeue_many(100)))),
]
fill = loop(600, lambda: shuffled.enqueue((x, label)))
fed = tf1.placeholder(tf.float32, [784])
put, out = rows.enqueue(fed), rows.dequeue()
with tf1.Session() as s:
    s.run(fill)
    for what, n, op in cases:
        show(what, timed(lambda: s.run(op), n))
    for what, producer, consumer in threads:
        def both():
            t = threading.Thread(target=lambda: s.run(producer))
            t.start()
            s.run(consumer)
            t.join()
        show(what, timed(both, M))
    enqueue, dequeue, value = s.make_callable(put, [fed]), s.make_callable(out), np.zeros(784, np.float32)

    def steps():
        for _ in range(100):
            enqueue(value)
            dequeue()
    show("784 floats, two steps", timed(steps, 100))
