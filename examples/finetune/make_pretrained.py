"""Trains a small LeNet of PyTorch's on five of Fashion-MNIST's ten classes, T-shirts to coats, and writes its state_dict as
safetensors: the file that finetune begins with.

usage: make_pretrained.py [FOLDER]        (needs PyTorch and safetensors; the folder has Fashion-MNIST's four files)
"""
import gzip
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")


def read(name):
    with gzip.open(data / f"{name}-images-idx3-ubyte.gz") as images, gzip.open(data / f"{name}-labels-idx1-ubyte.gz") as labels:
        x = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
        y = np.frombuffer(labels.read(), np.uint8, offset=8)
    return torch.from_numpy(x[y < 5].astype(np.float32) / 255), torch.from_numpy(y[y < 5].astype(np.int64))


class lenet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 12, 5, padding=2)
        self.fc1 = torch.nn.Linear(12 * 7 * 7, 32)
        self.fc2 = torch.nn.Linear(32, 5)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


torch.manual_seed(1)
x, y = read("train")
test_x, test_y = read("t10k")
model = lenet()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
epochs, batch = 4, 100
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, epochs * len(x) // batch + epochs)
for epoch in range(epochs):
    for rows in torch.randperm(len(x)).split(batch):
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
with torch.no_grad():
    right = (model(test_x).argmax(1) == test_y).sum().item()
print(f"{right} of {len(test_y)} test images right: {right / len(test_y):.4f}")
save_file(model.state_dict(), pathlib.Path(__file__).parent / "pretrained.safetensors")
