# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of losses: torch_losses_values.txt, beside this file.

Each line is a name and numbers: the operands; then for each case the losses y, "NAME", and the gradients of
sum((y + 1)^2) with respect to the operands of floating type in order, "NAME.d0" and so on.
"""
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
lines = [f"# Made by make_torch_losses_values.py with PyTorch {torch.__version__}."]


def write(name, values):
    lines.append(" ".join([name, *(repr(float(f"{float(v):.15g}")) for v in values.detach().reshape(-1))]))


def rounded(x, parts=8):
    return torch.round(x * parts) / parts


def case(name, f, *operands):
    operands = [x.clone().requires_grad_() if x.dtype == torch.float64 else x for x in operands]
    y = f(*operands)
    write(name, y)
    for i, d in enumerate(torch.autograd.grad(((y + 1) ** 2).sum(), [x for x in operands if x.requires_grad])):
        write(f"{name}.d{i}", d)


n = dict(reduction="none")
x, t = rounded(torch.randn(4, 5) * 2), rounded(torch.randn(4, 5) * 2)
t[1] = x[1]  # no error
p = torch.sigmoid(x)
p[0, 0], p[0, 1] = 0, 1
z = (torch.rand(4, 5) < 0.5).double()
soft = torch.softmax(t, 1)
soft[0] = torch.tensor([0, 1, 0, 0, 0.0])
sign = 2 * z - 1
classes = torch.tensor([1, -1, 3, 0])
valid = torch.tensor([1, 2, 3, 0])
w = torch.tensor([1, 2, 0.5, 0, 3])
for name, values in [("x", x), ("t", t), ("p", p), ("z", z), ("soft", soft), ("sign", sign), ("classes", classes),
                     ("valid", valid), ("counts", torch.round(t.abs() * 2)), ("variance", t.abs()), ("w", w)]:
    write(name, values)
counts, variance = torch.round(t.abs() * 2), t.abs()

ignored = dict(ignore_index=-1)
for s in [0.0, 0.2]:
    smooth = dict(label_smoothing=s)
    case(f"weighted_{s}", lambda x: F.cross_entropy(x, classes, weight=w, **ignored, **smooth, **n), x)
    case(f"weighted_mean_{s}", lambda x: F.cross_entropy(x, classes, weight=w, **ignored, **smooth), x)
    case(f"weighted_soft_{s}", lambda x, y: F.cross_entropy(x, y, weight=w, **smooth, **n), x, soft)
case("ignored_mean", lambda x: F.cross_entropy(x, classes, **ignored), x)
case("soft_mean", lambda x, y: F.cross_entropy(x, y), x, soft)
case("nll", lambda x: F.nll_loss(x, classes, weight=w, **ignored, **n), x)


def categorical(p, y):
    """tf.keras.losses.CategoricalCrossentropy(from_logits=False)."""
    return -(y * torch.log((p / p.sum(-1, keepdim=True)).clamp(1e-7, 1 - 1e-7))).sum(-1)


case("categorical", categorical, p, soft)
case("categorical_classes", lambda p: categorical(p, F.one_hot(valid, 5)), p)
case("positive_weight", lambda x, z: F.binary_cross_entropy_with_logits(x, z, pos_weight=w, **n), x, z)
case("binary", lambda p, z: F.binary_cross_entropy(p, z, **n), p, soft)
case("multilabel", lambda x: F.multilabel_soft_margin_loss(x, z, **n), x)
for q in [1, 2]:
    case(f"multi_margin_{q}", lambda x: F.multi_margin_loss(x, valid, p=q, margin=1.5, weight=w, **n), x)


def focal(x, z, alpha, gamma):
    """torchvision.ops.sigmoid_focal_loss."""
    q = torch.sigmoid(x)
    loss = F.binary_cross_entropy_with_logits(x, z, **n) * (1 - (q * z + (1 - q) * (1 - z))) ** gamma
    return loss * (alpha * z + (1 - alpha) * (1 - z)) if alpha >= 0 else loss


case("focal", lambda x: focal(x, z, 0.25, 2), x)
case("focal_bare", lambda x: focal(x, z, -1, 1.5), x)
case("dice", lambda p, z: 1 - (2 * (p * z).sum(1) + 1) / (p.sum(1) + z.sum(1) + 1), p, z)

case("mse", lambda x, t: F.mse_loss(x, t, **n), x, t)
case("l1", lambda x, t: F.l1_loss(x, t, **n), x, t)
case("smooth_l1", lambda x, t: F.smooth_l1_loss(x, t, beta=0.7, **n), x, t)
case("smooth_l1_0", lambda x, t: F.smooth_l1_loss(x, t, beta=0, **n), x, t)
case("log_cosh", lambda x, t: x - t + F.softplus(-2 * (x - t)) - math.log(2), x, t)
case("kl_div", lambda x: F.kl_div(x, soft, **n), x)
case("kl_div_log", lambda x, t: F.kl_div(x, t, log_target=True, **n), x, t)
case("poisson", lambda x: F.poisson_nll_loss(x, counts, **n), x)
case("poisson_full", lambda x: F.poisson_nll_loss(x, counts, full=True, **n), x)
case("poisson_rate", lambda p: F.poisson_nll_loss(p, counts, log_input=False, full=True, **n), p)
case("gaussian", lambda x, t, v: F.gaussian_nll_loss(x, t, v, eps=0.5, **n), x, t, variance)
case("gaussian_full", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, eps=0.5, **n), x, t, variance)

a, b = x.clone(), t.clone()
a[3] = 0
write("a", a)
case("cosine", lambda a, b: F.cosine_similarity(a, b, dim=1), a, b)
case("cosine_0", lambda a, b: F.cosine_similarity(a, b, dim=0), a, b)
case("cosine_embedding", lambda a, b: F.cosine_embedding_loss(a, b, sign[:, 0], margin=0.1, **n), x, t)
points = rounded(torch.randn(3, 5))
points[2] = b[0]
write("points", points)
for q in [1, 1.5, 2, 3, math.inf]:
    case(f"pairwise_{q}", lambda a, b: F.pairwise_distance(a, b, p=q), a, b)
    if q < 4:  # for infinity, each of several largest differences has the whole gradient in torch.cdist
        case(f"cdist_{q}", lambda a, b: torch.cdist(a, b, p=q), b, points)
m = dict(margin=2.5)
case("triplet", lambda a, b, c: F.triplet_margin_loss(a, b, c, **m, **n), x, t, p)
case("triplet_swap", lambda a, b, c: F.triplet_margin_loss(a, b, c, p=1, swap=True, **m, **n), x, t, p)
case("ranking", lambda a, b: F.margin_ranking_loss(a, b, sign, margin=0.3, **n), x, t)
case("hinge_embedding", lambda x: F.hinge_embedding_loss(x, sign, margin=1.2, **n), x)
case("info_nce", lambda x, y: F.cross_entropy(F.normalize(x) @ F.normalize(y).T / 0.2, torch.arange(4), **n), x, p)
pathlib.Path(__file__).with_name("torch_losses_values.txt").write_text("\n".join(lines) + "\n")
