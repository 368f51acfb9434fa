# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch's transformer layers and Hugging Face's GPT-2 and BERT compute: transformers.safetensors, the
weights of all of them in float16, and transformer_values.txt, operands, results and gradients in lines of a name and
numbers, both beside this file.

usage: PYTHON make_transformer_values.py        with a PYTHON that has torch, safetensors and transformers

Everything is computed in double from the rounded weights. Gradients are those of the sum of the results' squares.
"""
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

torch.manual_seed(11)
folder = pathlib.Path(__file__).parent
width, heads, inner = 8, 2, 12
lines = [f"# Made by make_transformer_values.py with PyTorch {torch.__version__.split('+')[0]} and transformers "
         f"{transformers.__version__}."]


def emit(name, t):
    lines.append(" ".join([name, *(repr(v) for v in t.detach().reshape(-1).tolist())]))
    return t


def rounded(module, spread=0.25):
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_((torch.randn(p.shape) * spread + (1 if "norm" in name.lower() and "weight" in name else 0)).half())
    return module.double().eval()


def numbers(name, *extents):
    return emit(name, torch.randint(-16, 17, extents).double() / 8).requires_grad_()


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn, common = torch.nn, dict(dropout=0.1, batch_first=True)
        self.plain = nn.TransformerEncoderLayer(width, heads, inner, **common)
        self.pre = nn.TransformerEncoderLayer(width, heads, inner, activation="gelu", norm_first=True, bias=False,
                                              layer_norm_eps=1e-3, **common)
        self.decoder = nn.TransformerDecoderLayer(width, heads, inner, **common)
        self.pre_decoder = nn.TransformerDecoderLayer(width, heads, inner, norm_first=True, **common)
        layer = nn.TransformerEncoderLayer(width, heads, inner, norm_first=True, **common)
        self.stack = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(width), enable_nested_tensor=False)


layers = rounded(Layers())
x, memory = numbers("x", 2, 5, width), numbers("memory", 2, 4, width)
padding = torch.arange(5)[None] >= torch.tensor([5, 3])[:, None]
memory_padding = torch.arange(4)[None] >= torch.tensor([2, 4])[:, None]
causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)


def result(name, y, *operands):
    emit(name, y)
    for operand, gradient in zip(operands, torch.autograd.grad((y ** 2).sum(), operands)):
        emit(name + (".dx" if operand is x else ".dmemory"), gradient)


result("plain", layers.plain(x, src_key_padding_mask=padding), x)
result("pre", layers.pre(x, src_mask=causal, is_causal=True), x)
result("decoder", layers.decoder(x, memory, tgt_mask=causal, tgt_is_causal=True,
                                 memory_key_padding_mask=memory_padding), x, memory)
result("pre_decoder", layers.pre_decoder(x, memory, tgt_key_padding_mask=padding), x, memory)
result("stack", layers.stack(x, src_key_padding_mask=padding), x)

sizes = dict(vocab_size=11)
gpt2 = rounded(GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=heads, n_embd=width, n_positions=6, bos_token_id=0,
                                          eos_token_id=0, **sizes)))
bert = rounded(BertModel(BertConfig(num_hidden_layers=2, num_attention_heads=heads, hidden_size=width,
                                    intermediate_size=inner, max_position_embeddings=6, **sizes)))
ids, types = torch.tensor([[4, 1, 7, 10, 0], [3, 3, 9, 2, 5]]), torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 0]])
logits = emit("gpt2", gpt2(ids).logits)
tables = gpt2.transformer.wte.weight, gpt2.transformer.wpe.weight, gpt2.transformer.h[0].attn.c_attn.bias
for name, gradient in zip(("wte", "wpe", "c_attn"), torch.autograd.grad((logits ** 2).sum(), tables)):
    emit("gpt2.d" + name, gradient)
states, pooled = bert(ids, attention_mask=(~padding).long(), token_type_ids=types, return_dict=False)
emit("bert", states), emit("bert.pooled", pooled)
states, pooled = bert(ids, return_dict=False)
emit("bert.without_types", states)

tensors = {name: t for name, t in layers.state_dict().items()}
tensors |= {name: t.clone() for name, t in gpt2.state_dict().items()}  # with the tied head
tensors["transformer.h.0.attn.bias"] = torch.ones(1, 1, 6, 6)  # a buffer of published files
bert_names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}  # those of published files
for name, t in bert.state_dict().items():
    for ours, theirs in bert_names.items():
        name = name.replace(ours, theirs)
    tensors["bert." + name] = t
save_file({name: t.half().contiguous() for name, t in tensors.items()}, folder / "transformers.safetensors")
(folder / "transformer_values.txt").write_text("\n".join(lines) + "\n")
