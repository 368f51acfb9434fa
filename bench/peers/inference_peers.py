# SPDX-License-Identifier: BSL-1.0
"""Times inference of one model in ONNX Runtime, OpenVINO and PyTorch on the CPU.

usage: inference_peers.py MODEL [--batch N] [--threads N] [--seconds S] [--export FILE]
MODEL: mlp (784-100-10, sigmoid), lenet (as model_step.py), or a classifier of torchvision, such as resnet50. Synthetic data,
float32, the same weights in all. Prints one JSON object per peer, with the keys of bench/step.cpp (mlp) or bench/models.cpp
(the others). --export writes the model as an ONNX file instead.
"""
import argparse
import json
import os
import tempfile
import time

p = argparse.ArgumentParser()
p.add_argument("model")
p.add_argument("--batch", type=int, default=1)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--seconds", type=float, default=4)
p.add_argument("--export")
a = p.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
import numpy as np
import torch
import torchvision
from torch import nn

torch.set_num_threads(a.threads)
torch.manual_seed(1)
if a.model == "mlp":
    net, x = nn.Sequential(nn.Linear(784, 100), nn.Sigmoid(), nn.Linear(100, 10)), torch.randn(a.batch, 784)
elif a.model == "lenet":
    net = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))
    x = torch.randn(a.batch, 1, 28, 28)
else:
    net = getattr(torchvision.models, a.model)(weights=None, **({"init_weights": False} if a.model == "inception_v3" else {}))
    s = 299 if a.model == "inception_v3" else 224
    x = torch.randn(a.batch, 3, s, s)
net.eval()
path = a.export or os.path.join(tempfile.mkdtemp(), "m.onnx")
torch.onnx.export(net, (x,), path, input_names=["x"], output_names=["y"], dynamo=False)
if a.export:
    raise SystemExit
feed = x.numpy()
calls = {}
import onnxruntime as ort

o = ort.SessionOptions()
o.intra_op_num_threads = a.threads
session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
calls["onnxruntime"] = lambda: session.run(None, {"x": feed})
try:
    import openvino as ov

    core = ov.Core()
    compiled = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": a.threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    calls["openvino"] = lambda: request.infer({0: feed})
except ImportError:
    pass
with torch.inference_mode():
    calls["torch"] = lambda: net(x)
    times = {k: [] for k in calls}
    for f in calls.values():
        for _ in range(3):
            f()
    end = time.perf_counter() + a.seconds * len(calls)
    while time.perf_counter() < end:
        for k, f in calls.items():
            n = 20 if a.model in ("mlp", "lenet") else 1
            for _ in range(n):
                t = time.perf_counter()
                f()
                times[k].append(time.perf_counter() - t)
for k, v in times.items():
    median, least = float(np.median(v)), min(v)
    row = {"peer": k, "batch": a.batch, "threads": a.threads}
    if a.model == "mlp":
        row |= {"workload": "mlp_infer", "us_median": round(median * 1e6, 2), "us_min": round(least * 1e6, 2)}
    else:
        row |= {"model": a.model, "mode": "infer", "ms_median": round(median * 1e3, 4), "ms_min": round(least * 1e3, 4),
                "items_per_s": round(a.batch / median, 2)}
    print(json.dumps(row), flush=True)
