# SPDX-License-Identifier: BSL-1.0
"""Times operations of each family on the CPU: the peer rows for bench/operations.cpp.

usage: operations_peers.py PEER KIND [--threads N] [--seconds S]
PEER: torch (einsum, index, reduce, images, attention), tensorflow (index), scipy (fft, on one thread)
"""
import argparse
import json
import os
import time

p = argparse.ArgumentParser()
p.add_argument("peer", choices=["torch", "tensorflow", "scipy"])
p.add_argument("kind")
p.add_argument("--threads", type=int, default=2)
p.add_argument("--seconds", type=float, default=1)
a = p.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np

r = np.random.default_rng(1)


def row(operation, f, form="", **further):
    for _ in range(3):
        f()
    times, end = [], time.perf_counter() + a.seconds
    while time.perf_counter() < end or not times:
        t = time.perf_counter()
        f()
        times.append((time.perf_counter() - t) * 1e6)
    times.sort()
    print(json.dumps({"peer": f"{a.peer} {form}".strip(), "kind": a.kind, "operation": operation, "threads": a.threads,
                      "us_median": round(times[len(times) // 2], 2), "us_min": round(times[0], 2), **further}), flush=True)


def numbers(*shape, dtype=np.float32):
    return r.random(shape, dtype=dtype) * 2 - 1


ROWS, TO, WIDTH = 1_000_000, 100_000, 16


def torch_rows():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    some = lambda *shape: torch.from_numpy(numbers(*shape))
    if a.kind == "einsum":
        for subscripts, *shapes in (("bhqd,bhkd->bhqk", (8, 8, 256, 64), (8, 8, 256, 64)),
                                    ("ij,jk,kl->il", (512, 256), (256, 1024), (1024, 64)),
                                    ("bij,bkj->bik", (64, 128, 64), (64, 128, 64)), ("i,j->ij", (2000,), (1000,))):
            x = [some(*s) for s in shapes]
            row(subscripts, lambda: torch.einsum(subscripts, *x))
    elif a.kind == "index":
        x, ids = some(ROWS, WIDTH), torch.from_numpy(r.integers(0, TO, ROWS))
        ascending, zeros = ids.sort().values, lambda: torch.zeros(TO, WIDTH)
        counts = torch.bincount(ascending, minlength=TO)
        row("segment_sum", lambda: zeros().index_add_(0, ascending, x))
        row("segment_sum", lambda: torch.segment_reduce(x, "sum", lengths=counts, axis=0), "segment_reduce")
        wide = ids[:, None].expand(ROWS, WIDTH)
        for name in ("unsorted_segment_sum", "scatter_add"):
            row(name, lambda: zeros().index_add_(0, ids, x))
            row(name, lambda: zeros().scatter_add_(0, wide, x), "scatter_add")
        row("bincount", lambda: torch.bincount(ids, minlength=TO))
    elif a.kind == "reduce":
        x, rows = some(1_000_000), some(1000, 1000)
        row("quantile of 1000000", lambda: torch.quantile(x, 0.9))
        row("quantile of rows of 1000", lambda: torch.quantile(rows, 0.9, dim=1))
    elif a.kind == "attention":
        torch.set_grad_enabled(True)
        attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
        for form, f in (("", attend), ("compiled", torch.compile(attend))):
            for context in (256, 1024, 4096):
                x = [some(1, 8, context, 64).requires_grad_() for _ in range(3)]
                upstream = some(1, 8, context, 64)
                row(f"attention and gradients of 8 x {context} x 64", lambda: torch.autograd.grad(f(*x), x, upstream), form)
    elif a.kind == "images":
        def both(operation, f, x, *more):
            last = torch.channels_last_3d if x.dim() == 5 else torch.channels_last
            row(operation, lambda: f(x, *more))
            y = [v.contiguous(memory_format=last) if v.dim() == x.dim() and v.shape[-1] != 2 else v for v in (x, *more)]
            row(operation, lambda: f(*y), channels_last=True)
        for n, d, h, c, o in ((2, 16, 56, 16, 32), (4, 8, 14, 64, 64)):
            both(f"conv3d of [{n}, {d}, {h}, {h}, {c}] by [3, 3, 3, {c}, {o}]", lambda x, w: F.conv3d(x, w, padding=1),
                 some(n, c, d, h, h), some(o, c, 3, 3, 3))
        for size, n, h, c in ((7, 32, 14, 256), (5, 8, 56, 64)):
            both(f"adaptive_avg_pool2d to {size} of [{n}, {h}, {h}, {c}]", lambda x: F.adaptive_avg_pool2d(x, size), some(n, c, h, h))
        for h, c in ((64, 3), (56, 64)):
            both(f"grid_sample of [8, {h}, {h}, {c}]", lambda x, g: F.grid_sample(x, g, align_corners=False),
                 some(8, c, h, h), some(8, h, h, 2))


def tensorflow_rows():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(a.threads)
    tf.config.threading.set_inter_op_parallelism_threads(a.threads)
    i = r.integers(0, TO, ROWS)
    x, ids, ascending = tf.constant(numbers(ROWS, WIDTH)), tf.constant(i), tf.constant(np.sort(i))
    small = tf.cast(ids, tf.int32)
    for name, f in (("segment_sum", lambda: tf.math.segment_sum(x, ascending)),
                    ("unsorted_segment_sum", lambda: tf.math.unsorted_segment_sum(x, ids, TO)),
                    ("scatter_add", lambda: tf.tensor_scatter_nd_add(tf.zeros([TO, WIDTH]), ids[:, None], x)),
                    ("bincount", lambda: tf.math.bincount(small, minlength=TO, maxlength=TO))):
        step = tf.function(f)
        row(name, lambda: step().numpy())


def scipy_rows():
    import scipy.fft
    for n in (1024, 1 << 20):
        x = numbers(n, dtype=np.float64)
        z = x + 1j * numbers(n, dtype=np.float64)
        row(f"fft of {n}", lambda: scipy.fft.fft(z))
        row(f"rfft of {n}", lambda: scipy.fft.rfft(x))


{"torch": torch_rows, "tensorflow": tensorflow_rows, "scipy": scipy_rows}[a.peer]()
