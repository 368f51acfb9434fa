# SPDX-License-Identifier: BSL-1.0
"""Writes signals_values.txt: transforms of sin(1.7 i + 1) and cos(0.3 i^2), by NumPy and PyTorch.

usage: PYTHON make_signals_values.py > signals_values.txt       with a PYTHON that has numpy and torch
"""
import numpy as np
import torch


def rows(*extents, second=False):
    i = np.arange(np.prod(extents), dtype=np.float64)
    return (np.cos(0.3 * i * i) if second else np.sin(1.7 * i + 1)).reshape(extents)


def write(name, *arrays):
    print(name, *(format(x, ".15g") for a in arrays for x in np.asarray(a).ravel()))


print(f"# Made by make_signals_values.py with NumPy {np.__version__} and PyTorch {torch.__version__.split('+')[0]}")
for n in (1, 2, 3, 8, 12, 15, 17, 26, 35, 44):
    z = rows(2, n) + 1j * rows(2, n, second=True)
    write(f"fft_{n}", np.fft.fft(z).real, np.fft.fft(z).imag)
    write(f"ifft_{n}", np.fft.ifft(z).real, np.fft.ifft(z).imag)
    write(f"rfft_{n}", np.fft.rfft(rows(2, n)).real, np.fft.rfft(rows(2, n)).imag)
    half = rows(2, n // 2 + 1) + 1j * rows(2, n // 2 + 1, second=True)
    write(f"irfft_{n}", np.fft.irfft(half, n))
image = np.fft.rfft2(rows(2, 3, 4))
write("rfft2", image.real, image.imag)
write("irfft2", np.fft.irfft2(rows(2, 3, 3) + 1j * rows(2, 3, 3, second=True), (3, 4)))
whole = np.fft.fft2(rows(2, 3, 4) + 1j * rows(2, 3, 4, second=True))
write("fft2", whole.real, whole.imag)
signal = torch.tensor(rows(2, 22))
short = torch.stft(signal, 8, 4, window=torch.hann_window(8, dtype=torch.float64), center=False, return_complex=True)
write("stft", short.real.transpose(1, 2), short.imag.transpose(1, 2))
