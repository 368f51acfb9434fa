# SPDX-License-Identifier: BSL-1.0
"""Writes sequence_values.txt: what PyTorch's recurrent layers and attention compute, values and gradients, for
test/nn/recurrent.cpp and test/nn/attention.cpp to compare Weft with.

usage: PYTHON make_sequence_values.py > sequence_values.txt        with a PYTHON that has torch

Everything is computed in double. Variables have Weft's extents, [in, out]: they are the transposes of PyTorch's.
"""
import sys

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.set_default_dtype(torch.float64)
out = []


def numbers(which, *extents, scale=257.0):
    count = 1
    for extent in extents:
        count *= extent
    i = torch.arange(count)
    return ((((i * 7919 + 31 * which) % 257) - 128) / scale).reshape(extents).double()


def emit(name, t):
    out.append(" ".join([name, *map(repr, t.detach().flatten().tolist())]))


# ---- recurrent layers: batch 3, 5 steps, 4 features, 3 units ----

batch, time, features, units = 3, 5, 4, 3
lengths = torch.tensor([5, 2, 4])
gates = {"rnn": 1, "lstm": 4, "gru": 3}
modules = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def recurrent(kind, layers=1, bidirectional=False, with_lengths=False, with_initial=False, name=None):
    name = f"{kind}_{name}"
    n = gates[kind] * units
    module = modules[kind](features, units, num_layers=layers, bidirectional=bidirectional, batch_first=True)
    variables = {}  # Weft's
    for p, suffix in enumerate(f"_l{i}{r}" for i in range(layers) for r in (["", "_reverse"] if bidirectional else [""])):
        rows = features if p < (2 if bidirectional else 1) else units * (2 if bidirectional else 1)
        w, u = numbers(10 * p + 1, rows, n), numbers(10 * p + 2, units, n)
        b, c = numbers(10 * p + 3, n), numbers(10 * p + 4, n)
        if kind != "gru":
            c = torch.zeros(n)
        for own, value in {"weight_ih": w.t(), "weight_hh": u.t(), "bias_ih": b, "bias_hh": c}.items():
            with torch.no_grad():
                getattr(module, own + suffix).copy_(value)
        variables[p] = [getattr(module, own + suffix) for own in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    x = numbers(5, batch, time, features, scale=64.0).requires_grad_()
    directions = layers * (2 if bidirectional else 1)
    h0 = numbers(6, directions, batch, units).requires_grad_()
    c0 = numbers(7, directions, batch, units).requires_grad_()
    initial = ((h0, c0) if kind == "lstm" else h0) if with_initial else None
    given = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False) if with_lengths else x
    states, last = module(given, initial)
    if with_lengths:
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=time)
    h, c = last if kind == "lstm" else (last, None)
    loss = (states * numbers(8, *states.shape)).sum() + (h * numbers(9, *h.shape)).sum()
    if c is not None:
        loss = loss + (c * numbers(10, *c.shape)).sum()
    loss.backward()
    emit(f"{name}_states", states)
    emit(f"{name}_h", h)
    if c is not None:
        emit(f"{name}_c", c)
    emit(f"{name}_d_x", x.grad)
    if with_initial:
        emit(f"{name}_d_h0", h0.grad)
        if c is not None:
            emit(f"{name}_d_c0", c0.grad)
    for p, (w, u, b, c) in variables.items():
        emit(f"{name}_d_weights_{p}", w.grad.t())
        emit(f"{name}_d_recurrent_weights_{p}", u.grad.t())
        emit(f"{name}_d_bias_{p}", b.grad)
        if kind == "gru":
            emit(f"{name}_d_recurrent_bias_{p}", c.grad)


for kind in modules:
    recurrent(kind, name="plain")
    recurrent(kind, with_initial=True, name="initial")
    recurrent(kind, with_lengths=True, with_initial=True, name="lengths")
    recurrent(kind, bidirectional=True, with_lengths=True, with_initial=True, name="both")
    recurrent(kind, layers=2, bidirectional=True, with_lengths=True, name="stacked")

# ---- attention: batch 2, 5 queries of 6 features, 4 keys of 3 features and values of 5, 2 heads ----

embed, heads = 6, 2


def attention(name, query, key=None, value=None, valid=None, attn_mask=None):
    """`valid` are numbers of keys; the mask says which keys are attended to."""
    same = key is None
    widths = (embed, embed) if same else (key.shape[-1], value.shape[-1])
    module = torch.nn.MultiheadAttention(embed, heads, batch_first=True, kdim=widths[0], vdim=widths[1])
    rows = [embed, *widths, embed]
    weights = [numbers(20 + i, rows[i], embed) for i in range(4)]
    biases = [numbers(30 + i, embed) for i in range(4)]
    with torch.no_grad():
        if module._qkv_same_embed_dim:
            module.in_proj_weight.copy_(torch.cat([w.t() for w in weights[:3]]))
        else:
            for own, w in zip([module.q_proj_weight, module.k_proj_weight, module.v_proj_weight], weights):
                own.copy_(w.t())
        module.in_proj_bias.copy_(torch.cat(biases[:3]))
        module.out_proj.weight.copy_(weights[3].t())
        module.out_proj.bias.copy_(biases[3])
    operands = [query.requires_grad_()] if same else [x.requires_grad_() for x in (query, key, value)]
    q, k, v = operands * 3 if same else operands
    padding = None if valid is None else torch.arange(k.shape[1])[None, :] >= torch.tensor(valid)[:, None]
    y, _ = module(q, k, v, key_padding_mask=padding, attn_mask=None if attn_mask is None else ~attn_mask)
    (y * numbers(40, *y.shape)).sum().backward()
    emit(f"{name}_y", y)
    for which, x in zip(["query", "key", "value"], operands):
        emit(f"{name}_d_{which}", x.grad)
    if module._qkv_same_embed_dim:
        of_weights = list(module.in_proj_weight.grad.split(embed))
    else:
        of_weights = [module.q_proj_weight.grad, module.k_proj_weight.grad, module.v_proj_weight.grad]
    of_biases = list(module.in_proj_bias.grad.split(embed))
    for i, g in enumerate(of_weights + [module.out_proj.weight.grad]):
        emit(f"{name}_d_weights_{i}", g.t())
    for i, g in enumerate(of_biases + [module.out_proj.bias.grad]):
        emit(f"{name}_d_bias_{i}", g)


def query():
    return numbers(15, 2, 5, embed, scale=64.0)


causal = torch.ones(5, 5, dtype=torch.bool).tril()
mask = torch.tensor([[1, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]]).bool()
attention("self", query())
attention("causal", query(), attn_mask=causal)
attention("causal_lengths", query(), attn_mask=causal, valid=[3, 5])
attention("cross", query(), numbers(16, 2, 4, 3, scale=64.0), numbers(17, 2, 4, 5, scale=64.0))
attention("cross_lengths", query(), numbers(16, 2, 4, 3, scale=64.0), numbers(17, 2, 4, 5, scale=64.0), valid=[4, 2])
attention("cross_mask", query(), numbers(16, 2, 4, 3, scale=64.0), numbers(17, 2, 4, 5, scale=64.0), attn_mask=mask)



def rotary_attention(name, base, interleaved):
    """Causal attention of one head, whose queries and keys are turned as in Hugging Face's Llama and GPT-J."""
    x = query().requires_grad_()
    weights = [numbers(20 + i, embed, embed).requires_grad_() for i in range(4)]
    biases = [numbers(30 + i, embed).requires_grad_() for i in range(4)]
    q, k, v = (x @ weights[i] + biases[i] for i in range(3))
    angles = torch.arange(5)[:, None] / base ** (torch.arange(0, embed, 2) / embed)
    angles = torch.repeat_interleave(angles, 2, -1) if interleaved else torch.cat((angles, angles), -1)

    def turned(t):
        if interleaved:
            other = torch.stack((-t[..., 1::2], t[..., ::2]), -1).flatten(-2)
        else:
            other = torch.cat((-t[..., embed // 2:], t[..., :embed // 2]), -1)
        return t * angles.cos() + other * angles.sin()

    y = torch.nn.functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True) @ weights[3] + biases[3]
    (y * numbers(40, *y.shape)).sum().backward()
    emit(f"{name}_y", y)
    emit(f"{name}_d_query", x.grad)
    for i in range(4):
        emit(f"{name}_d_weights_{i}", weights[i].grad)
        emit(f"{name}_d_bias_{i}", biases[i].grad)


rotary_attention("rotary", 10000, False)
rotary_attention("rotary_pairs", 100, True)

sys.stdout.write("Made by make_sequence_values.py with PyTorch " + torch.__version__.split("+")[0] + "\n" +
                 "\n".join(out) + "\n")
