# SPDX-License-Identifier: BSL-1.0
"""Writes a small LeNet of PyTorch's into pytorch/: its weights as safetensors, and what it makes of four images.

usage: make_pytorch_weights.py        (needs PyTorch and safetensors)
"""
import pathlib
import sys

folder = pathlib.Path(__file__).parent / "pytorch"
sys.path[0] = str(pathlib.Path(__file__).parents[2] / "examples/finetune")  # beside this file one has a package's name
import numpy as np
import torch
from make_weights import lenet
from safetensors.torch import save_file

folder.mkdir(exist_ok=True)
torch.manual_seed(7)
model = lenet(4, 8, 24, 10)
images = torch.rand(4, 1, 28, 28)
with torch.no_grad():
    logits = model(images)
save_file(model.state_dict(), folder / "lenet.safetensors")
np.save(folder / "images.npy", images.numpy())  # [batch, channel, height, width]
np.save(folder / "logits.npy", logits.numpy())
