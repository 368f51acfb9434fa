# SPDX-License-Identifier: BSL-1.0
"""Writes the weights of a tiny ResNet-18 with PyTorch's names, four images and the logits that PyTorch computes:
tiny_resnet18.safetensors, tiny_resnet18_x.npy and tiny_resnet18_y.npy, beside this file.

The network is torchvision's ResNet-18 (version 1.5) with 4 filters in place of 64 and 10 classes; images are [4, 32, 32, 3].
"""
import pathlib

import numpy
import torch
import torchvision
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
torch.manual_seed(3)
width = 4


class Block(torchvision.models.resnet.BasicBlock):
    """torchvision's block, of width / 64 of the filters that ResNet asks for."""

    def __init__(self, inplanes, planes, stride=1, downsample=None, *rest):
        if downsample is not None:
            downsample = torch.nn.Sequential(torch.nn.Conv2d(inplanes, planes * width // 64, 1, stride, bias=False),
                                             torch.nn.BatchNorm2d(planes * width // 64))
        super().__init__(inplanes, planes * width // 64, stride, downsample, *rest)


class Tiny(torchvision.models.ResNet):
    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        narrow = planes * width // 64
        changes = stride != 1 or self.inplanes != narrow
        layers = [block(self.inplanes, planes, stride, True if changes else None)]
        self.inplanes = narrow
        return torch.nn.Sequential(*layers, *(block(narrow, planes) for _ in range(1, blocks)))


net = Tiny(Block, [2, 2, 2, 2], num_classes=10)
net.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
net.bn1 = torch.nn.BatchNorm2d(width)
net.inplanes = width
net.layer1 = net._make_layer(Block, 64, 2)
net.layer2 = net._make_layer(Block, 128, 2, 2)
net.layer3 = net._make_layer(Block, 256, 2, 2)
net.layer4 = net._make_layer(Block, 512, 2, 2)
net.fc = torch.nn.Linear(8 * width, 10)
for module in net.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.1, 0.5)  # so that images have logits that differ
        module.weight.data.uniform_(0.5, 1.5)
        module.bias.data.normal_(0, 0.1)
net.eval()
images = torch.randn(4, 32, 32, 3)
with torch.no_grad():
    logits = net(images.permute(0, 3, 1, 2))
save_file(net.state_dict(), here / "tiny_resnet18.safetensors")
numpy.save(here / "tiny_resnet18_x.npy", images.numpy())
numpy.save(here / "tiny_resnet18_y.npy", logits.numpy())
print(logits)
