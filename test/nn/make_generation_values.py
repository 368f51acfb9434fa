# SPDX-License-Identifier: BSL-1.0
"""Writes generation_values.txt: what a GPT of two layers computes in PyTorch without a cache, for
test/nn/generation.cpp to compare with caches: the logits of each step of a text, and greedy continuations.

usage: PYTHON make_generation_values.py > generation_values.txt        with a PYTHON that has torch

Everything is computed in double. Variables have Weft's extents, [in, out].
"""
import torch
from torch.nn import functional

torch.set_default_dtype(torch.float64)
vocabulary, features, heads, context = 11, 8, 2, 16


def numbers(which, *extents, scale=0.8):
    i = torch.arange(1, torch.Size(extents).numel() + 1)
    return (scale * torch.sin(1.7 * which + 0.9 * i * i)).reshape(extents)


def dense(x, which, rows, columns):
    return x @ numbers(which, rows, columns) + numbers(which + 1, columns)


def norm(x, which):
    return functional.layer_norm(x, (features,), 1 + numbers(which, features, scale=0.2), numbers(which + 1, features, scale=0.1), 1e-5)


def model(tokens):
    words, places = numbers(1, vocabulary, features, scale=2), numbers(2, context, features, scale=2)
    steps = tokens.shape[-1]
    h = words[tokens] + places[:steps]
    for layer in range(2):
        first = 10 + 20 * layer
        q, k, v = dense(norm(h, first), first + 2, features, 3 * features).split(features, -1)
        q, k, v = (x.reshape(steps, heads, -1).transpose(0, 1) for x in (q, k, v))
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + dense(a.transpose(0, 1).reshape(steps, features), first + 4, features, features)
        h = h + dense(functional.gelu(dense(norm(h, first + 6), first + 8, features, 4 * features)), first + 10, 4 * features, features)
    return norm(h, 3) @ numbers(5, features, vocabulary)


def greedy(prompt, count):
    text = list(prompt)
    for _ in range(count):
        text.append(int(model(torch.tensor(text))[-1].argmax()))
    return text[len(prompt):]


print("PyTorch", torch.__version__)
print("logits", *map(repr, model(torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])).flatten().tolist()))
for i, prompt in enumerate([[3, 1, 4, 1, 5], [7], [2, 10, 8, 1]]):
    print(f"greedy{i}", *greedy(prompt, 10))
