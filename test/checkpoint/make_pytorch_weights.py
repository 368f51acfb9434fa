"""Writes a small LeNet of PyTorch's into pytorch/: its weights as safetensors, and what it makes of four images.

usage: make_pytorch_weights.py        (needs PyTorch and safetensors)
"""
import pathlib
import sys

sys.path.pop(0)  # a file beside this one has the package's name
import numpy as np
import torch
from safetensors.torch import save_file

folder = pathlib.Path(__file__).parent / "pytorch"


class lenet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 4, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(4, 8, 5, padding=2)
        self.fc1 = torch.nn.Linear(8 * 7 * 7, 24)
        self.fc2 = torch.nn.Linear(24, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


folder.mkdir(exist_ok=True)
torch.manual_seed(7)
model = lenet()
images = torch.rand(4, 1, 28, 28)
with torch.no_grad():
    logits = model(images)
save_file(model.state_dict(), folder / "lenet.safetensors")
np.save(folder / "images.npy", images.numpy())  # [batch, channel, height, width]
np.save(folder / "logits.npy", logits.numpy())
