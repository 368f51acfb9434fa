# SPDX-License-Identifier: BSL-1.0
"""Writes rotary positions of PyTorch expressions and their gradients: rotary_values.txt, beside this file.

The expressions are those of Hugging Face's modeling_llama.py (halves) and modeling_gptj.py (interleaved pairs).
"""
import pathlib

import torch


def made(salt, *extents):
    n = torch.Size(extents).numel()
    return (((torch.arange(n) * 7919 + salt * 104729) % 2003).double() / 1000 - 1).reshape(extents)


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-second, first), dim=-1)


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


lines = [f"# Made by make_rotary_values.py with PyTorch {torch.__version__}."]


def case(name, batch, heads, steps, width, base=10000.0, interleaved=False, positions=(0,)):
    x = made(1, batch, heads, steps, width).requires_grad_()
    frequencies = 1.0 / base ** (torch.arange(0, width, 2).double() / width)
    at = torch.arange(steps)[:, None] + torch.tensor(positions)[:, None, None, None]
    angles = at * frequencies
    if interleaved:
        angles = torch.repeat_interleave(angles, 2, dim=-1)
        y = x * angles.cos() + rotate_every_two(x) * angles.sin()
    else:
        angles = torch.cat((angles, angles), dim=-1)
        y = x * angles.cos() + rotate_half(x) * angles.sin()
    (d,) = torch.autograd.grad(y, x, made(5, *y.shape))
    for part, of in (("", y), (".dx", d)):
        lines.append(" ".join([name + part, *(f"{float(e):.12g}" for e in of.detach().reshape(-1)[:24])]))


case("halves", 2, 2, 3, 8)
case("pairs", 2, 2, 3, 8, interleaved=True)
case("placed", 2, 1, 2, 6, base=500.0, positions=[7, 1000])
case("pairs_placed", 2, 1, 2, 6, base=500.0, interleaved=True, positions=[-3])
case("narrow", 1, 1, 4, 2)
pathlib.Path(__file__).with_name("rotary_values.txt").write_text("\n".join(lines) + "\n")
