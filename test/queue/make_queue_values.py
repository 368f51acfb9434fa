# SPDX-License-Identifier: BSL-1.0
"""Writes queue_values.txt: commands to queues, and what TensorFlow answers.

usage: python make_queue_values.py > queue_values.txt     (with TensorFlow, which still has the queues of version 1)

A line is a command, "=>" and the answer: numbers, ok, or the code of the error. Elements are numbers; those of a
priority_queue are their own priority and its negative. `later NAME COMMAND` begins a command in a thread that waits,
`await NAME` is its answer. Values of a padding_fifo_queue are rows "a,b" or "-"; a batch is its rows with their zeros.
"""
import os
import random
import threading
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
CODES = {1: "cancelled", 3: "invalid_argument", 4: "deadline_exceeded", 9: "failed_precondition", 11: "out_of_range"}


class Queue:
    def __init__(self, kind, capacity, min_after, seed):
        self.kind = kind
        self.graph = tf.Graph()
        with self.graph.as_default():
            if kind == "fifo":
                self.q = tf1.FIFOQueue(capacity, [tf.int64], [[]])
            elif kind == "shuffle":
                self.q = tf1.RandomShuffleQueue(capacity, min_after, [tf.int64], [[]], seed=seed)
            elif kind == "priority":
                self.q = tf1.PriorityQueue(capacity, [tf.int64], [[]])
            else:
                self.q = tf1.PaddingFIFOQueue(capacity, [tf.int64], [[None]])
            self.one = tf1.placeholder(tf.int64, [None] if kind == "padding" else [])
            self.many = tf1.placeholder(tf.int64, [None])
            self.n = tf1.placeholder(tf.int32, [])
            one, many = (self.one, self.many)
            if kind == "priority":
                one, many = (one, -one), (many, -many)
            self.ops = {
                "enqueue": self.q.enqueue(one),
                "dequeue": self.q.dequeue(), "dequeue_many": self.q.dequeue_many(self.n),
                "dequeue_up_to": self.q.dequeue_up_to(self.n), "size": self.q.size(), "close": self.q.close(),
                "close_and_cancel": self.q.close(cancel_pending_enqueues=True), "is_closed": self.q.is_closed(),
            }
            if kind != "padding":
                self.ops["enqueue_many"] = self.q.enqueue_many(many)
        self.session = tf1.Session(graph=self.graph)

    def run(self, words):
        name, rest = words[0], words[1:]
        feed = {}
        if name == "enqueue":
            if self.kind == "padding":
                feed[self.one] = [] if rest[0] == "-" else [int(x) for x in rest[0].split(",")]
            else:
                feed[self.one] = int(rest[0])
        elif name == "enqueue_many":
            feed[self.many] = np.array([int(x) for x in rest], np.int64)
        elif name in ("dequeue_many", "dequeue_up_to"):
            feed[self.n] = int(rest[0])
        try:
            result = self.session.run(self.ops[name], feed)
        except tf.errors.OpError as e:
            return CODES[e.error_code]
        if result is None:
            return "ok"
        if self.kind == "priority" and isinstance(result, (list, tuple)):
            assert np.array_equal(result[0], -np.asarray(result[1]))
            result = result[0]
        if self.kind == "padding" and name.startswith("dequeue"):
            rows = np.atleast_2d(result)
            return " ".join(",".join(str(int(x)) for x in row) or "-" for row in rows) or "none"
        return " ".join(str(int(x)) for x in np.atleast_1d(result)) or "none"


def play(header, commands):
    kind, capacity, min_after, seed = header
    print("queue", *header)
    q, waiting = Queue(kind, capacity, min_after, seed), {}
    for line in commands:
        words = line.split()
        if words[0] == "later":
            answer = []
            thread = threading.Thread(daemon=True, target=lambda a=answer, w=words[2:]: a.append(q.run(w)))
            thread.start()
            waiting[words[1]] = thread, answer
            time.sleep(0.1)
            print(line, "=> waits" if thread.is_alive() else "=> done")
        elif words[0] == "await":
            thread, answer = waiting.pop(words[1])
            thread.join(10)
            assert not thread.is_alive(), line
            print(line, "=>", answer[0])
        else:
            print(line, "=>", q.run(words))
    assert not waiting


def commands_at_random(kind, capacity, min_after, seed, length):
    """Such as never wait."""
    draw, size, closed, next_value = random.Random(seed), 0, False, 100
    priorities = list(range(1000))
    draw.shuffle(priorities)
    for _ in range(length):
        available = max(size - (0 if closed else min_after), 0)
        what = draw.choice(["enqueue", "enqueue_many", "dequeue", "dequeue_many", "dequeue_up_to", "size", "is_closed"])
        if what == "enqueue" and (closed or size < capacity):
            next_value += 1
            yield f"enqueue {priorities[next_value] if kind == 'priority' else next_value}"
            size += not closed
        elif what == "enqueue_many":
            n = draw.randint(0, 4 if closed else min(capacity - size, 6))
            values = range(next_value + 1, next_value + n + 1)
            next_value += n
            yield "enqueue_many " + " ".join(str(priorities[v] if kind == "priority" else v) for v in values)
            size += 0 if closed else n
        elif what == "dequeue" and (closed or available > 0):
            yield "dequeue"
            size -= size > 0
        elif what == "dequeue_many":
            n = draw.randint(0, size + 2 if closed else min(available, 6))
            yield f"dequeue_many {n}"
            size -= n if n <= size else 0
        elif what == "dequeue_up_to":
            # TensorFlow's priority queue loses what it has where that is less.
            n = draw.randint(0, size + 2 if closed and kind != "priority" else min(available, 6))
            yield f"dequeue_up_to {n}"
            size -= min(n, size)
        elif what in ("size", "is_closed"):
            yield what
        if not closed and draw.random() < 2 / length:
            closed = True
            yield draw.choice(["close", "close_and_cancel"])


print("make_queue_values.py with TensorFlow", tf.__version__)
for seed in range(6):
    for kind in ("fifo", "shuffle", "priority"):
        min_after = 4 if kind == "shuffle" else 0
        header = kind, 12, min_after, seed
        play(header, commands_at_random(*header, 60))

ENDS = {
    # A second close is an error, one that cancels is not; enqueues after it are cancelled, those of no rows are not.
    "closed": ["enqueue 1", "close", "is_closed", "close", "close_and_cancel", "enqueue 2", "enqueue_many", "enqueue_many 3 4",
               "dequeue_many 2", "dequeue_many 0", "size", "dequeue", "dequeue", "dequeue_up_to 3", "dequeue_up_to 0"],
    # More than the capacity at once, by turns.
    "turns": ["later a dequeue_many 7", "enqueue_many 1 2 3 4 5 6 7 8 9", "await a", "size", "dequeue_many 2"],
    # Nobody overtakes one who waits for more.
    "order": ["later a dequeue_many 4", "later b dequeue", "enqueue 1", "enqueue_many 2 3", "enqueue_many 4 5",
              "await a", "await b", "size"],
    # Those that waited before the close still go through.
    "close behind": ["enqueue_many 1 2 3 4", "later a enqueue 5", "later b enqueue_many 6 7", "later c close", "is_closed",
                     "dequeue", "await a", "is_closed", "dequeue", "is_closed", "dequeue", "await b", "await c", "is_closed",
                     "size", "dequeue_up_to 9", "dequeue"],
    # Those are cancelled, and what went in stays.
    "cancelled": ["enqueue_many 1 2", "later a enqueue_many 3 4 5 6", "later b enqueue 7", "size", "close_and_cancel",
                  "await a", "await b", "size", "dequeue_many 4", "dequeue"],
    # Elements that a call has taken while it waits for more come back to the front.
    "come back": ["later a dequeue_many 6", "later b dequeue_many 2", "later c dequeue_up_to 4", "enqueue_many 1 2 3", "size",
                  "close", "await a", "await b", "await c", "dequeue"],
    "up to": ["later a dequeue_up_to 6", "enqueue_many 1 2 3", "close", "await a", "size"],
    "nothing comes": ["later a dequeue_many 3", "later b dequeue", "later c dequeue_up_to 2", "close", "await a", "await b",
                      "await c"],
}
for kind in ("fifo", "shuffle"):
    for commands in ENDS.values():
        play((kind, 4, 0, 3), commands)
for commands in ("closed", "order", "close behind", "cancelled", "nothing comes"):
    play(("priority", 4, 0, 3), [c for c in ENDS[commands] if c != "dequeue_up_to 9"])
# A batch is the smallest of all that are there once there are enough.
play(("priority", 4, 0, 0), ["later a dequeue_many 3", "enqueue 9", "size", "enqueue 5", "later b dequeue", "enqueue 1",
                             "await a", "size", "enqueue 2", "await b"])
play(("priority", 4, 0, 0), ["later a dequeue_many 3", "enqueue 9", "later b dequeue", "enqueue 5", "close", "await a",
                             "await b", "size", "dequeue"])
# Elements that stay behind for the shuffle.
play(("shuffle", 9, 3, 5), ["enqueue_many 1 2 3", "later a dequeue", "enqueue 4", "await a", "size", "later b dequeue_many 2",
                            "enqueue 5", "size", "close", "await b", "size", "dequeue_many 2"])
play(("padding", 9, 0, 0), ["enqueue 1,2", "enqueue 3", "enqueue 4,5,6", "enqueue -", "enqueue 7,8", "dequeue_many 2",
                            "dequeue", "enqueue 9", "dequeue_many 2", "later a dequeue_many 3", "enqueue 1,2,3,4", "close",
                            "await a", "dequeue_up_to 5", "dequeue_up_to 1"])
