# SPDX-License-Identifier: BSL-1.0
"""Times PyTorch's steps on the first GPU, as bench/gpu.cu times Weft's: eager, and replayed as a CUDA graph.

A step takes a batch from the host's memory (page-locked), or one that is on the GPU already, and returns the loss to the
host. Convolutions run as they come, with the algorithms that cuDNN is timed for, and so with images as channels_last: the
best of the three counts. Prints one JSON object a line.

usage: gpu_torch.py [--seconds S]
"""
import argparse
import json
import time

p = argparse.ArgumentParser()
p.add_argument("--seconds", type=float, default=2)
a = p.parse_args()
import torch
from torch import nn

torch.manual_seed(1)
GPU = torch.device("cuda:0")


def mlp():
    return nn.Sequential(nn.Linear(784, 100), nn.Sigmoid(), nn.Linear(100, 10)), (784,), {"lr": 0.01}


def lenet():
    net = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
                        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(7 * 7 * 64, 1024), nn.ReLU(),
                        nn.Linear(1024, 10))
    return net, (1, 28, 28), {"lr": 1e-3, "momentum": 0.9}


def measure(step, seconds):
    for _ in range(50):
        step()
    samples, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end and len(samples) < 20000:
        start = time.perf_counter()
        step()
        samples.append(time.perf_counter() - start)
    samples.sort()
    return samples[len(samples) // 2] * 1e6, samples[0] * 1e6


def times(build, batch, graph, data, seconds, tuned, layout):
    torch.backends.cudnn.benchmark = tuned
    net, extents, options = build()
    net = net.to(GPU, memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), foreach=True, **options)
    host_x, host_y = torch.rand(batch, *extents), (torch.arange(batch) % 10).pin_memory()
    if len(extents) == 3:
        host_x = host_x.to(memory_format=layout)
    host_x = host_x.pin_memory()
    x, y = host_x.to(GPU), host_y.to(GPU)

    def compute():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    replay = compute
    if graph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                compute()
        torch.cuda.current_stream().wait_stream(side)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            result = compute()

        def replay():
            recorded.replay()
            return result

    def step():
        if data == "from the host":
            x.copy_(host_x, non_blocking=True)
            y.copy_(host_y, non_blocking=True)
        return replay().item()

    return measure(step, seconds)


def run(name, build, batch, graph, tf32, data):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    ways = [(False, torch.contiguous_format)]
    if name == "lenet":
        ways += [(True, torch.contiguous_format), (True, torch.channels_last)]
    median, least = min(times(build, batch, graph, data, a.seconds / len(ways), *way) for way in ways)
    peer = "torch " + ("graph" if graph else "eager") + (" tf32" if tf32 else "")
    print(json.dumps({"peer": peer, "model": name, "data": data, "batch": batch, "us_median": round(median, 2),
                      "us_min": round(least, 2)}), flush=True)


for tf32 in (False, True):
    for graph in (False, True):
        for name, build, batch in (("mlp", mlp, 100), ("lenet", lenet, 64), ("lenet", lenet, 1024)):
            for data in ("from the host", "on the GPU"):
                try:
                    run(name, build, batch, graph, tf32, data)
                except Exception as e:  # the others go on
                    print(f"torch {name}: {e}", flush=True)
