# SPDX-License-Identifier: BSL-1.0
"""Writes PyTorch's scaled_dot_product_attention and its gradients: attention_values.txt, beside this file.

Each line is a name and numbers. Operands are made from indices, as attention.cpp makes them; results are folded into a
few sums, in which every element counts.
"""
import pathlib

import torch


def made(salt, *extents):
    n = torch.Size(extents).numel()
    return (((torch.arange(n) * 7919 + salt * 104729) % 2003).double() / 1000 - 1).reshape(extents)


def folded(x):
    x = x.detach().reshape(-1)
    weighted = x * (1 + torch.arange(len(x)) % 7)
    return torch.stack([weighted[j::13].sum() for j in range(13)])


lines = [f"# Made by make_attention_values.py with PyTorch {torch.__version__}."]


def case(name, batch, heads, kv_heads, queries, keys, width, value_width, causal=False, window=0, alibi=False,
         scale=None, mask=None, lengths=None, positions=None):
    q, k, v = made(1, batch, heads, queries, width), made(2, batch, kv_heads, keys, width), made(3, batch, kv_heads,
                                                                                                 keys, value_width)
    operands = [x.requires_grad_() for x in (q, k, v)]
    i = torch.arange(queries)[:, None] + torch.tensor(positions if positions else [0])[:, None, None, None]
    j = torch.arange(keys)
    allowed = torch.ones(batch, heads, queries, keys, dtype=torch.bool)
    if causal:
        allowed = allowed & (j <= i)
    if window:
        allowed = allowed & (j > i - window)
    if lengths:
        allowed = allowed & (j < torch.tensor(lengths)[:, None, None, None])
    bias = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    if alibi:
        bias = bias - 2.0 ** (-8 * (torch.arange(heads).double() + 1) / heads)[:, None, None] * (i - j).abs()
    if mask and mask[0] == "bool":
        allowed = allowed & (made(4, *mask[1:]) > -0.3)
    elif mask:
        added = made(4, *mask[1:]).requires_grad_()
        operands.append(added)
        bias = bias + added
    y = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias.masked_fill(~allowed, -torch.inf), scale=scale, enable_gqa=True)
    gradients = torch.autograd.grad(y, operands, made(5, *y.shape))
    for part, x in zip(["", ".dq", ".dk", ".dv", ".dm"], [y, *gradients]):
        lines.append(" ".join([name + part, *(f"{float(e):.12g}" for e in folded(x))]))


case("plain", 2, 2, 2, 5, 7, 8, 8)
case("causal", 1, 2, 2, 150, 150, 40, 36, causal=True)
case("groups", 2, 6, 2, 37, 300, 33, 64, causal=True, positions=[263, 100])
case("window", 1, 2, 1, 200, 200, 32, 32, causal=True, window=70)
case("band", 1, 1, 1, 70, 90, 4, 5, window=9, positions=[11])
case("alibi", 2, 3, 3, 66, 130, 16, 16, alibi=True, scale=0.3, lengths=[130, 41])
case("masked", 2, 2, 2, 9, 140, 8, 8, mask=("bool", 2, 1, 9, 140))
case("keys", 2, 4, 2, 65, 130, 8, 8, mask=("bool", 2, 1, 1, 130), causal=True)
case("added", 2, 2, 1, 70, 33, 8, 8, mask=("added", 2, 70, 33))
case("column", 2, 2, 1, 70, 33, 8, 8, mask=("added", 2, 1, 70, 1), causal=True, alibi=True)
case("empty", 3, 2, 2, 4, 6, 8, 8, lengths=[0, 6, 2])
case("before", 2, 2, 2, 4, 6, 8, 8, causal=True, positions=[-2, 3])
case("token", 2, 4, 2, 1, 200, 64, 64, causal=True, positions=[199, 20])
case("one", 1, 1, 1, 3, 1, 64, 1)
pathlib.Path(__file__).with_name("attention_values.txt").write_text("\n".join(lines) + "\n")
