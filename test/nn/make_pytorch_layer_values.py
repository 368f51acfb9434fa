# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch's modules compute: pytorch_layers.safetensors, the state dict of all of them, and
pytorch_layer_values.txt, operands and results in lines of a name and numbers, both beside this file.

usage: PYTHON make_pytorch_layer_values.py        with a PYTHON that has torch and safetensors

Images have channels last. The lines of the depthwise and the grouped convolution contain gradients, too: of the sum of
the result's squares. Those of "synchronized" are for one batch of 7 images, which replicas share: torch.nn.SyncBatchNorm,
which needs several processes, computes what torch.nn.BatchNorm2d computes for the whole batch.
"""
import pathlib

import torch
from safetensors.torch import save_file

torch.manual_seed(7)
folder = pathlib.Path(__file__).parent


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.depthwise = nn.Conv2d(3, 6, (3, 2), stride=2, padding=1, groups=3)
        self.grouped = nn.Conv2d(4, 6, 3, padding=2, dilation=2, groups=2, bias=False)
        self.rnn = nn.RNN(3, 2, batch_first=True)
        self.lstm = nn.LSTM(3, 2, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(3, 2, bidirectional=True, batch_first=True)
        self.deep_gru = nn.GRU(3, 2, num_layers=3, batch_first=True)
        self.unbiased = nn.LSTM(3, 2, bias=False, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.unbiased_attention = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
        self.memory = nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True)
        self.groups = nn.GroupNorm(2, 6)
        self.instances = nn.InstanceNorm2d(6, affine=True)
        self.rows = nn.LayerNorm(6)
        self.squares = nn.RMSNorm(6, eps=1e-6)


net = Net()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.randint(-24, 25, p.shape) / 32)  # biases of attention begin as 0
lines = [f"# Made by make_pytorch_layer_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def emit(name, t):
    lines.append(" ".join([name, *(repr(float(v)) for v in t.detach().reshape(-1))]))
    return t


def numbers(name, *extents):
    return emit(name, torch.randint(-16, 17, extents) / 8).requires_grad_()


def convolve(name, module, *extents):
    x = numbers(name + ".x", *extents)
    y = module(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    emit(name, y)
    (y ** 2).sum().backward()
    emit(name + ".dx", x.grad)
    w = module.weight.grad  # as Weft has them: [height, width, channels, multiplier], [height, width, channels, filters]
    emit(name + ".dw", w.reshape(3, 2, 3, 2).permute(2, 3, 0, 1) if name == "depthwise" else w.permute(2, 3, 1, 0))


convolve("depthwise", net.depthwise, 2, 5, 4, 3)
convolve("grouped", net.grouped, 2, 5, 4, 4)
sequences = numbers("sequences", 2, 5, 3)
for name in ["rnn", "lstm", "gru", "deep_gru", "unbiased"]:
    emit(name, getattr(net, name)(sequences)[0])
queries, keys, values = numbers("queries", 2, 3, 4), numbers("keys", 2, 5, 3), numbers("values", 2, 5, 5)
for name in ["attention", "unbiased_attention"]:
    emit(name, getattr(net, name)(queries, queries, queries, need_weights=False)[0])
images = numbers("images", 2, 3, 4, 6)
for name in ["groups", "instances"]:
    emit(name, getattr(net, name)(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
for name in ["rows", "squares"]:
    emit(name, getattr(net, name)(images))
emit("memory", net.memory(queries, keys, values, need_weights=False)[0])


def synchronized():
    norm = torch.nn.BatchNorm2d(3, eps=1e-3, momentum=0.25).double()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([0.75, -1.5, 1.25]))
        norm.bias.copy_(torch.tensor([0.5, -0.25, 0.125]))
    x = torch.randint(-16, 17, (7, 2, 2, 3)).double() / 8 + torch.tensor([0.0, 4.0, -1.0])
    emit("synchronized.x", x).requires_grad_()

    def call():
        return norm(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    before = call()
    assert before.abs().min() > 1e-3  # else float and double differ about the slope of the ReLU
    y = emit("synchronized", torch.relu(before))
    ((y - 1) ** 2).sum().backward()
    for name, gradient in [("dx", x.grad), ("dscale", norm.weight.grad), ("doffset", norm.bias.grad)]:
        emit("synchronized." + name, gradient)
    call()  # moves the averages a second time
    emit("synchronized.mean", norm.running_mean)
    emit("synchronized.variance", norm.running_var)
    norm.eval()
    emit("synchronized.inferred", torch.relu(call()))


synchronized()

save_file(net.state_dict(), folder / "pytorch_layers.safetensors")
(folder / "pytorch_layer_values.txt").write_text("\n".join(lines) + "\n")
