# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of einsum: einsum_values.txt, beside this file.

Each line is the subscripts and the elements of the result. Element e of operand n is ((7 e + 5 n) mod 11 - 5) / 2, so all
results are exact.
"""
import pathlib

import torch

cases = [
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("bhqk,bhkd->bhqd", (2, 2, 3, 5), (2, 2, 5, 4)),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4)),
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,kj", (2, 3), (4, 3)),
    ("ki,kj->ji", (3, 2), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("bij,bkj->bki", (2, 3, 4), (2, 5, 4)),
    ("ijkl,klm->mij", (2, 3, 2, 4), (2, 4, 3)),
    ("ijkl,lkm->ijm", (2, 3, 2, 4), (4, 2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("bi,ijk,bk->bj", (2, 3), (3, 4, 2), (2, 2)),
    ("i,j,k,l,m,n->nmlkji", (2,), (1,), (2,), (3,), (1,), (2,)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 2), (2, 4), (4, 2)),
    ("i,j->ji", (3,), (4,)),
    ("bi,bj->bij", (2, 3), (2, 4)),
    ("i,i", (5,), (5,)),
    ("i,i->i", (5,), (5,)),
    ("ij,j->i", (3, 4), (4,)),
    ("ij,i->j", (3, 4), (3,)),
    ("bij,bj->ib", (2, 3, 4), (2, 4)),
    ("ij,ji", (3, 4), (4, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("iijj", (2, 2, 3, 3)),
    ("ba", (2, 3)),
    ("ijk->ki", (2, 3, 4)),
    ("ij,kl->", (2, 3), (2, 2)),
    ("ii,ij->j", (3, 3), (3, 2)),
    (",ij->ij", (), (2, 3)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)),
    ("...ij,...jk", (3, 2, 3), (3, 2)),
    ("i...,i...->...", (2, 3, 2), (2, 3, 1)),
    ("...ij->...ji", (2, 2, 3)),
    ("...i->i", (2, 2, 3)),
    ("abcdefgh,abcdefgh->ha", (2, 1, 2, 1, 2, 1, 1, 3), (2, 1, 2, 1, 2, 1, 1, 3)),
]
lines = [f"# Made by make_einsum_values.py with PyTorch {torch.__version__.split('+')[0]}."]
for subscripts, *shapes in cases:
    operands = []
    for n, s in enumerate(shapes):
        e = torch.arange(torch.Size(s).numel(), dtype=torch.float64).reshape(s)
        operands.append((torch.remainder(7 * e + 5 * n, 11) - 5) / 2)
    y = torch.einsum(subscripts, *operands)
    lines.append(" ".join([subscripts, *(f"{v:g}" for v in y.reshape(-1).tolist())]))
pathlib.Path(__file__).with_name("einsum_values.txt").write_text("\n".join(lines) + "\n")
