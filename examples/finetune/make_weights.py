# SPDX-License-Identifier: BSL-1.0
"""Trains a small LeNet in PyTorch on the first five classes of Fashion-MNIST, and writes its state dict beside this file
as lenet_of_five.safetensors: what the example starts from.

usage: make_weights.py [FOLDER_OF_THE_IDX_FILES]      (needs PyTorch and safetensors)
"""
import gzip
import pathlib
import sys

import torch
from safetensors.torch import save_file


def idx(data, name, header):
    file = next(p for p in (data / name, data / f"{name}.gz") if p.exists())
    content = (gzip.open if file.suffix == ".gz" else open)(file, "rb").read()
    return torch.frombuffer(bytearray(content[header:]), dtype=torch.uint8)


class lenet(torch.nn.Module):
    """A network for 28 x 28 grey values: two convolutions of so many channels, a dense layer, and the classes."""

    def __init__(self, first, second, units, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, first, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(first, second, 5, padding=2)
        self.fc1 = torch.nn.Linear(second * 7 * 7, units)
        self.fc2 = torch.nn.Linear(units, classes)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


if __name__ == "__main__":
    data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")
    torch.manual_seed(1)
    images = idx(data, "train-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    labels = idx(data, "train-labels-idx1-ubyte", 8).long()
    images, labels = images[labels < 5].float() / 255, labels[labels < 5]
    model = lenet(8, 16, 64, 5)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(4):
        for batch in torch.randperm(len(labels)).split(64):
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    save_file(model.state_dict(), pathlib.Path(__file__).parent / "lenet_of_five.safetensors")
