# SPDX-License-Identifier: BSL-1.0
"""Writes what PyTorch makes of factorizations: factorizations_values.txt, beside this file.

Each line is a name and numbers: first the operands, then for each case the values y, "NAME", and the gradient of
sum((y + 1)^2) by the first operand, "NAME.gradient". What is written does not depend on the signs of vectors.
"""
import pathlib

import numpy
import torch

torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(3)
linalg = torch.linalg


def random(*extents):
    return (torch.randn(*extents, generator=generator) * 16).round() / 8


operands = {
    "square": random(2, 3, 3), "tall": random(2, 4, 3), "wide": random(2, 3, 5), "symmetric": random(2, 4, 4),
    "b3": random(2, 3, 2), "b4": random(2, 4, 2), "one": torch.tensor([[[2.5]]]),
    "ill": torch.tensor([[[1, 1], [1, 1 + 1e-6]]]),
    # Of ranks 2, 1 and 0, the first with a singular value that occurs twice.
    "deficient": torch.tensor([[[2, 0, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0]],
                               [[1, 2, -1], [2, 4, -2], [3, 6, -3], [0, 0, 0]], [[0, 0, 0]] * 4]).double(),
    "repeated": torch.tensor([[[2, 1, 1], [1, 2, 1], [1, 1, 2]], [[5, 0, 0], [0, 5, 0], [0, 0, 5]],
                              [[1, 0, 0], [0, 0, 0], [0, 0, 1]]], dtype=torch.float64),
    "general": torch.tensor([[[0, -1, 0], [1, 0, 0], [0, 0, 2]], [[1, 2, 3], [4, 5, 6], [7, 8, 10]],
                             [[1, 1, 0], [0, 1, 1], [0, 0, 1]]], dtype=torch.float64),
    "large": random(2, 3, 3) * 20,
}
operands["symmetric"] = operands["symmetric"] + operands["symmetric"].mT
operands["positive"] = operands["square"] @ operands["square"].mT + torch.eye(3)
b3, b4 = operands["b3"], operands["b4"]
lines = [f"# Made by make_factorizations_values.py with PyTorch {torch.__version__.split('+')[0]}."]


def write(name, values):
    lines.append(" ".join([name, *(repr(float(v)) for v in values.detach().ravel())]))


def case(name, x, f):
    at = operands[x].clone().requires_grad_()
    y = f(at)
    write(name, y)
    (gradient,) = torch.autograd.grad(((y + 1) ** 2).sum(), at)
    write(name + ".gradient", gradient)


def svd_of_squares(x):
    u, s, vt = linalg.svd(x, False)
    return (u * (s ** 2).unsqueeze(-2)) @ vt


def eigh_of_squares(x):
    values, v = linalg.eigh(x)
    return (v * (values ** 2).unsqueeze(-2)) @ v.mT


for name, values in operands.items():
    write(name, values)
case("cholesky", "positive", linalg.cholesky)
case("cholesky_one", "one", linalg.cholesky)
case("cholesky_ill", "ill", linalg.cholesky)
case("cholesky_solve", "positive", lambda x: torch.cholesky_solve(b3, linalg.cholesky(x)))
for upper in [False, True]:
    for adjoint in [False, True]:
        for unit in [False, True]:
            case(f"triangular_{int(upper)}{int(adjoint)}{int(unit)}", "square",
                 lambda x: linalg.solve_triangular((x.triu() if upper else x.tril()).mT if adjoint else x, b3,
                                                   upper=upper != adjoint, unitriangular=unit))
for x in ["square", "tall", "wide", "one"]:
    case("q_" + x, x, lambda x: linalg.qr(x)[0])
    case("r_" + x, x, lambda x: linalg.qr(x)[1])
    case("svd_" + x, x, svd_of_squares)
    case("u_" + x, x, lambda x: linalg.svd(x, False)[0] ** 2)
    case("vt_" + x, x, lambda x: linalg.svd(x, False)[2] ** 2)
    case("svdvals_" + x, x, linalg.svdvals)
    case("pinv_" + x, x, linalg.pinv)
case("complete_wide", "wide", lambda x: linalg.qr(x, "complete")[1])
write("complete_q_tall", linalg.qr(operands["tall"], "complete")[0])
write("complete_r_tall", linalg.qr(operands["tall"], "complete")[1])
case("nuclear", "tall", lambda x: linalg.matrix_norm(x, "nuc"))
case("spectral", "wide", lambda x: linalg.matrix_norm(x, 2))
case("pinv_deficient", "deficient", linalg.pinv)
write("svdvals_deficient", linalg.svdvals(operands["deficient"]))
write("rank_deficient", linalg.matrix_rank(operands["deficient"]))
case("eigh", "symmetric", eigh_of_squares)
case("eigenvectors", "symmetric", lambda x: linalg.eigh(x)[1] ** 2)
case("eigvalsh", "symmetric", linalg.eigvalsh)
write("eigvalsh_repeated", linalg.eigvalsh(operands["repeated"]))
# Sorted by the real and then the imaginary part.
eigenvalues = numpy.sort_complex(linalg.eigvals(operands["general"]).numpy().round(12))
write("eigvals", torch.view_as_real(torch.from_numpy(eigenvalues)))
case("lstsq_tall", "tall", lambda x: linalg.pinv(x) @ b4)
case("lstsq_wide", "wide", lambda x: linalg.pinv(x) @ b3)
case("sign", "square", lambda x: linalg.slogdet(x)[0] + 0 * x.sum())
case("slogdet", "square", lambda x: linalg.slogdet(x)[1])
case("exp", "square", linalg.matrix_exp)
case("exp_large", "large", lambda x: linalg.matrix_exp(x / 16))
case("exp_one", "one", linalg.matrix_exp)
for n in [-2, 0, 1, 5]:
    case(f"power_{n}", "square", lambda x: linalg.matrix_power(x, n) + 0 * x)
pathlib.Path(__file__).with_name("factorizations_values.txt").write_text("\n".join(lines) + "\n")
