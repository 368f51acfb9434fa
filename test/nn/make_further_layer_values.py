# SPDX-License-Identifier: BSL-1.0
"""Writes what further modules of PyTorch compute: further_layers.safetensors, the state dict of all of them, and
further_layer_values.txt, operands and results in lines of a name and numbers, both beside this file.

usage: PYTHON make_further_layer_values.py        with a PYTHON that has torch and safetensors

Images and sequences have channels last. The layers of spectral_norm are called for training, then for inference; the lines
".u" contain the singular vector after that, and ".dw" the gradient of the sum of the first result's squares.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

torch.manual_seed(11)
folder = pathlib.Path(__file__).parent
nn = torch.nn
net = nn.ModuleDict({
    "slope": nn.PReLU(),
    "slopes": nn.PReLU(3, init=0.5),
    "up": nn.ConvTranspose1d(3, 2, 3, stride=2, padding=1, output_padding=1),
    "normed_dense": weight_norm(nn.Linear(4, 3)),
    "normed_conv": weight_norm(nn.Conv2d(2, 3, 3, padding=1, bias=False)),
    "normed_up": weight_norm(nn.ConvTranspose1d(3, 2, 3, stride=2)),
    "spectral_dense": spectral_norm(nn.Linear(4, 3)),
    "spectral_conv": spectral_norm(nn.Conv2d(2, 3, (3, 2), padding="valid"), n_power_iterations=2),
    "spectral_up": spectral_norm(nn.ConvTranspose2d(2, 3, 2, stride=2)),
    "padded": nn.Embedding(6, 3, padding_idx=2),
    "bag_sum": nn.EmbeddingBag(6, 3, mode="sum"),
    "bag_mean": nn.EmbeddingBag(6, 3, mode="mean", padding_idx=2),
    "bag_max": nn.EmbeddingBag(6, 3, mode="max", padding_idx=2),
}).double()
lines = [f"# Made by make_further_layer_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def emit(name, t):
    lines.append(" ".join([name, *(repr(float(v)) for v in t.detach().reshape(-1))]))
    return t


def numbers(name, *extents):
    return emit(name, torch.randint(-16, 17, extents).double() / 8).requires_grad_()


def first(x):  # channels first
    return x.movedim(-1, 1) if x.dim() > 2 else x


def last(x):
    return x.movedim(1, -1) if x.dim() > 2 else x


def in_order(name, w):  # Linear to [in, out]; the others to [..., in, out], and transposed ones to [..., out, in]
    return w.permute(*range(2, w.dim()), 1, 0)


with torch.no_grad():
    for name, p in net.named_parameters():
        if "original0" not in name:
            p.copy_(torch.randint(-24, 25, p.shape).double() / 32)
        if name.startswith("slopes"):
            p.copy_(torch.tensor([0.5, -0.25, 1.5]))
    net["padded"].weight[2] = 0
state = {k: v.clone() for k, v in net.state_dict().items()}

rows, sequences, images = numbers("rows", 2, 4), numbers("sequences", 2, 4, 3), numbers("images", 2, 4, 3, 2)
operands = {"slope": sequences, "slopes": sequences, "up": sequences, "normed_dense": rows, "normed_conv": images,
            "normed_up": sequences, "spectral_dense": rows, "spectral_conv": images, "spectral_up": images}
for name, x in operands.items():
    module = net[name]
    y = emit(name, last(module(first(x))))
    (y ** 2).sum().backward()
    if name.startswith("slope"):
        emit(name + ".dw", module.weight.grad)
    elif hasattr(module, "parametrizations"):
        parts = module.parametrizations.weight
        normed = hasattr(parts, "original0")
        emit(name + ".dw", in_order(name, (parts.original1 if normed else parts.original).grad))
        if normed:
            emit(name + ".dg", parts.original0.grad)
        else:
            module.eval()
            emit(name + ".u", parts[0]._u)
            emit(name + ".inferred", last(module(first(x))))
ids = torch.tensor([[1, 2, 5, 1], [2, 2, 2, 2], [0, 3, 2, 4]])
for name in ["padded", "bag_mean", "bag_max"]:
    (emit(name, net[name](ids) + 1) ** 2).sum().backward()
    emit(name + ".dw", net[name].weight.grad)
splits = torch.tensor([0, 3, 3, 5, 8])
for name in ["bag_sum", "bag_mean", "bag_max"]:
    net[name].include_last_offset = True
    net[name].weight.grad = None
    y = emit(name + "_ragged", net[name](torch.tensor([1, 2, 5, 2, 2, 0, 3, 2]), splits))
    ((y + 1) ** 2).sum().backward()
    emit(name + "_ragged.dw", net[name].weight.grad)
    net[name].include_last_offset = False
weights = numbers("weights", 3, 4)
emit("bag_sum", net["bag_sum"](ids, per_sample_weights=weights))

# Made last, so that the numbers above stay.
deep = nn.Conv3d(2, 3, (2, 3, 1), stride=(1, 2, 1), padding=(1, 1, 0)).double()
with torch.no_grad():
    for p in deep.parameters():
        p.copy_(torch.randint(-24, 25, p.shape).double() / 32)
state |= {"deep." + k: v.clone() for k, v in deep.state_dict().items()}
y = emit("deep", last(deep(first(numbers("volumes", 2, 3, 3, 2, 2)))))
(y ** 2).sum().backward()
emit("deep.dw", in_order("deep", deep.weight.grad))

save_file(state, folder / "further_layers.safetensors")
(folder / "further_layer_values.txt").write_text("\n".join(lines) + "\n")
