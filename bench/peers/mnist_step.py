# SPDX-License-Identifier: BSL-1.0
"""Times one training step of the 784-100-10 sigmoid classifier in a peer framework.

usage: mnist_step.py PEER [--batch N] [--threads N] [--infer] [--pin]
PEER: torch, torch_compile, tf_graph (tf.compat.v1 session, as in TensorFlow 1), tf_function, tf_xla, jax
--pin confines the process to one core, where JAX's single thread is fastest; the peer is then called "PEER pinned".
Step: forward, softmax cross-entropy (mean), backward, plain SGD update; float32; inputs already in memory.
Prints one JSON object: peer, batch, threads, median and minimum microseconds per step.
"""
import argparse
import json
import os
import time

p = argparse.ArgumentParser()
p.add_argument("peer")
p.add_argument("--batch", type=int, default=100)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--infer", action="store_true", help="forward pass only")
p.add_argument("--pin", action="store_true", help="run on one core, the last that the process may use")
a = p.parse_args()
if a.pin:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before the import, which sizes the thread pools
os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
if a.peer == "jax" and a.threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
import numpy as np

rng = np.random.default_rng(1)
X = rng.random((a.batch, 784), dtype=np.float32)
Y = rng.integers(0, 10, a.batch).astype(np.int32)
W1 = (rng.standard_normal((784, 100)) * 0.05).astype(np.float32)
W2 = (rng.standard_normal((100, 10)) * 0.1).astype(np.float32)
LR = 0.01


def torch_step(compiled):
    import torch
    torch.set_num_threads(a.threads)
    w1, b1, w2, b2 = (torch.tensor(v, requires_grad=True) for v in (W1, np.zeros(100, np.float32), W2, np.zeros(10, np.float32)))
    params = [w1, b1, w2, b2]
    x, y = torch.tensor(X), torch.tensor(Y.astype(np.int64))

    def forward():
        return torch.addmm(b2, torch.sigmoid(torch.addmm(b1, x, w1)), w2)

    if a.infer:
        f = torch.compile(forward) if compiled else forward
        def step():
            with torch.inference_mode():
                return f()
        return step

    def loss_fn():
        return torch.nn.functional.cross_entropy(forward(), y)

    f = torch.compile(loss_fn) if compiled else loss_fn
    opt = torch.optim.SGD(params, lr=LR, foreach=True)

    def step():
        opt.zero_grad(set_to_none=True)
        loss = f()
        loss.backward()
        opt.step()
        return loss
    return step


def tf_graph_step():
    import tensorflow as tf
    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    x = tf1.placeholder(tf.float32, [None, 784])
    y = tf1.placeholder(tf.int32, [None])
    w1, b1, w2, b2 = (tf1.Variable(v, use_resource=False) for v in (W1, np.zeros(100, np.float32), W2, np.zeros(10, np.float32)))
    logits = tf.matmul(tf.sigmoid(tf.matmul(x, w1) + b1), w2) + b2
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf1.train.GradientDescentOptimizer(LR).minimize(loss)
    s = tf1.Session(config=tf1.ConfigProto(intra_op_parallelism_threads=a.threads, inter_op_parallelism_threads=a.threads))
    s.run(tf1.global_variables_initializer())
    call = s.make_callable([logits] if a.infer else [loss, train], feed_list=[x, y] if not a.infer else [x])
    return (lambda: call(X)) if a.infer else (lambda: call(X, Y))


def tf_function_step(xla):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(a.threads)
    tf.config.threading.set_inter_op_parallelism_threads(a.threads)
    params = [tf.Variable(v) for v in (W1, np.zeros(100, np.float32), W2, np.zeros(10, np.float32))]
    w1, b1, w2, b2 = params
    x, y = tf.constant(X), tf.constant(Y)

    @tf.function(jit_compile=xla)
    def step():
        if a.infer:
            return tf.matmul(tf.sigmoid(tf.matmul(x, w1) + b1), w2) + b2
        with tf.GradientTape() as t:
            logits = tf.matmul(tf.sigmoid(tf.matmul(x, w1) + b1), w2) + b2
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        for v, g in zip(params, t.gradient(loss, params)):
            v.assign_sub(LR * g)
        return loss
    return step


def jax_step():
    import jax
    import jax.numpy as jnp
    params = tuple(jnp.asarray(v) for v in (W1, np.zeros(100, np.float32), W2, np.zeros(10, np.float32)))
    x, y = jnp.asarray(X), jnp.asarray(Y)

    def forward(p):
        return jax.nn.sigmoid(x @ p[0] + p[1]) @ p[2] + p[3]

    if a.infer:
        f = jax.jit(forward)
        return lambda: f(params).block_until_ready()

    def loss_fn(p):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(p)), y[:, None], 1))

    @jax.jit
    def update(p):
        loss, g = jax.value_and_grad(loss_fn)(p)
        return loss, tuple(v - LR * d for v, d in zip(p, g))

    state = [params]

    def step():
        loss, state[0] = update(state[0])
        jax.block_until_ready(state[0])
        return loss
    return step


step = {"torch": lambda: torch_step(False), "torch_compile": lambda: torch_step(True), "tf_graph": tf_graph_step,
        "tf_function": lambda: tf_function_step(False), "tf_xla": lambda: tf_function_step(True), "jax": jax_step}[a.peer]()
for _ in range(50):
    step()
times = []
deadline = time.perf_counter() + 4
while time.perf_counter() < deadline and len(times) < 20000:
    t = time.perf_counter()
    step()
    times.append(time.perf_counter() - t)
times.sort()
print(json.dumps({"peer": a.peer + " pinned" * a.pin, "workload": "mlp_infer" if a.infer else "mlp_train", "batch": a.batch, "threads": a.threads,
                  "us_median": round(times[len(times) // 2] * 1e6, 1), "us_min": round(times[0] * 1e6, 1)}))
