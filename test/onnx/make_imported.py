# SPDX-License-Identifier: BSL-1.0
"""Writes test/onnx/files/imported.onnx, and imported_values.hpp: what PyTorch computes with this network and how it
trains it.

usage: make_imported.py   (in test/onnx, with the packages onnx and torch)
"""
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv2(torch.relu(self.conv1(x))) + x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.blocks = nn.Sequential(Block(), Block())
        self.gamma = nn.Parameter(torch.rand(4, 1, 1) + 0.5)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc((self.blocks(x) * self.gamma).mean((2, 3)))


torch.manual_seed(1)
net = Net()
net.bn1.running_mean.uniform_(-0.2, 0.2), net.bn1.running_var.uniform_(0.5, 1.5)

weights = {name: t.detach().numpy() for name, t in net.state_dict().items() if t.dtype == torch.float32}
nodes = []


def add(op, scope, inputs, output, **attributes):
    nodes.append(helper.make_node(op, inputs, [output], f"/{scope}{'/' if scope else ''}{op}", **attributes))
    return output


def conv(path, scope, x, bias=True):
    return add("Conv", scope, [x, path + ".weight"] + [path + ".bias"] * bias, f"/{scope}/Conv_output_0", pads=[1, 1, 1, 1])


h = conv("conv1", "conv1", "images", bias=False)
h = add("BatchNormalization", "bn1", [h] + ["bn1." + n for n in ("weight", "bias", "running_mean", "running_var")], "bn", epsilon=1e-5)
h = add("Relu", "", [h], "r")
for i in range(2):
    scope = f"blocks/blocks.{i}"
    y = add("Relu", scope, [conv(f"blocks.{i}.conv1", scope + "/conv1", h)], f"r{i}")
    y = conv(f"blocks.{i}.conv2", scope + "/conv2", y)
    h = add("Relu", scope, [add("Add", scope, [y, h], f"a{i}")], f"o{i}")
h = add("GlobalAveragePool", "", [add("Mul", "", [h, "gamma"], "m")], "p")
h = add("Flatten", "", [h], "f")
add("Gemm", "fc", [h, "fc.weight", "fc.bias"], "logits", transB=1)
graph = helper.make_graph(
    nodes, "net", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 8, 8])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
    [numpy_helper.from_array(t, name) for name, t in weights.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, "files/imported.onnx")

# Images [batch, height, width, channels] of x[i] = i % 7 / 4 - 0.5.
x = torch.tensor([i % 7 / 4 - 0.5 for i in range(4 * 8 * 8 * 3)]).reshape(4, 8, 8, 3).permute(0, 3, 1, 2)
labels = torch.tensor([0, 3, 1, 4])
logits = net.eval()(x).detach().numpy().reshape(-1)
losses = []
optimizer = torch.optim.SGD(net.parameters(), 0.1)
net.train()
for _ in range(100):
    loss = nn.functional.cross_entropy(net(x), labels)
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    losses.append(loss.item())


def numbers(values):
    return ", ".join(f"{v:.7g}f" for v in values)


with open("imported_values.hpp", "w") as out:
    out.write("// SPDX-License-Identifier: BSL-1.0\n#pragma once\n\n// Written by make_imported.py.\n"
              f"inline constexpr float logits_of_pytorch[] = {{{numbers(logits)}}};\n"
              "/// After 1, 10, 20, ..., 100 steps.\n"
              f"inline constexpr float losses_of_pytorch[] = {{{numbers([losses[0]] + losses[9::10])}}};\n")
