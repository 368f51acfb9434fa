# SPDX-License-Identifier: BSL-1.0
"""Times ONNX Runtime on the models of `bench_serving --frozen`: one call on one thread, with inputs and outputs bound.
A model of one addition shows what a call from Python takes. Prints one JSON object for each model.

usage: frozen_peers.py     (needs torch, onnx and onnxruntime)
"""
import io
import json
import time

import onnxruntime
import torch
from torch import nn


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(1, 32), nn.Linear(32, 1)

    def forward(self, x, state):
        y, state = self.gru(x, state)
        return self.out(y), state


class Add(nn.Module):
    def forward(self, x):
        return x + 1


mlp = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10), nn.Softmax(1))
lenet = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10), nn.Softmax(1))
models = {"one addition": (Add(), torch.randn(1, 1)), "784-100-10": (mlp, torch.randn(1, 784)),
          "LeNet-5": (lenet, torch.randn(1, 1, 28, 28)), "GRU 32": (Gru(), torch.randn(1, 1, 1), torch.zeros(1, 1, 32))}
for name, (model, *inputs) in models.items():
    file = io.BytesIO()
    torch.onnx.export(model.eval(), tuple(inputs), file, dynamo=False, opset_version=17)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()
    for declared, value in zip(session.get_inputs(), inputs):
        bound.bind_cpu_input(declared.name, value.numpy())
    for declared in session.get_outputs():
        bound.bind_output(declared.name)
    us = []
    for _ in range(300):
        begin = time.perf_counter()
        for _ in range(100):
            session.run_with_iobinding(bound)
        us.append((time.perf_counter() - begin) * 1e4)
    us.sort()
    print(json.dumps({"peer": "onnxruntime", "model": name, "mode": "frozen", "us_median": round(us[150], 3), "us_min": round(us[0], 3)}))
