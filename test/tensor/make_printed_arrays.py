# SPDX-License-Identifier: BSL-1.0
"""Writes printed_arrays.txt: arrays, and what NumPy prints of them.

Of each array one line, `TYPE EXTENTS BITS...`: the extents with commas, `-` for none; the elements' bits in hexadecimal,
repeated until the array is full. Lines that begin with `|` follow: numpy.array2string with default options.

NumPy has no bfloat16. Its own class FloatingFormat prints those of ml_dtypes here, by digits that are searched for by
exact arithmetic.

usage: make_printed_arrays.py > printed_arrays.txt       (NumPy 2.4, ml_dtypes 0.6)
"""
import fractions

import ml_dtypes
import numpy as np
from numpy._core import arrayprint

random = np.random.default_rng(7)
NAMES = {"bool": "bool", "float16": "half", "bfloat16": "bfloat16", "float32": "float", "float64": "double"}


# ---- the digits of a bfloat16 ----

def exact(x):
    return fractions.Fraction(float(x))


def rounded(x, digits):
    """The nearest integer to x of so many digits, times a power of ten: (integer, power)."""
    power = 0
    while x >= fractions.Fraction(10) ** (digits + power): power += 1
    while x < fractions.Fraction(10) ** (digits - 1 + power): power -= 1
    n = round(x / fractions.Fraction(10) ** power)         # to even
    return (n // 10, power + 1) if n == 10 ** digits else (n, power)


def interval(x):
    """The numbers that are read as x: their ends, and whether these belong to them."""
    bits = int(np.abs(x).view(np.uint16))
    at = [exact(np.array(b, np.uint16).view(ml_dtypes.bfloat16)) if b < 0x7f80 else fractions.Fraction(2) ** 128
          for b in (bits - 1, bits, bits + 1)]
    return (at[0] + at[1]) / 2, (at[1] + at[2]) / 2, bits % 2 == 0


def shortest(x):
    """The fewest digits, and of these the nearest: (integer, power)."""
    low, high, closed = interval(x)
    value = exact(np.abs(x))
    for digits in range(1, 20):
        n, power = rounded(value, digits)
        fits = []
        for m in (n - 1, n, n + 1):
            candidate = m * fractions.Fraction(10) ** power
            if low < candidate < high or (closed and candidate in (low, high)):
                fits.append((abs(candidate - value), m % 2, m))
        if fits: return min(fits)[2], power


def parts(x, scientific, precision, min_digits):
    """Digits before and behind the point, and the exponent."""
    if x == 0: return "0", "0" * max(min_digits, 0), 0
    n, power = shortest(x)
    exponent = power + len(str(n)) - 1
    fraction = len(str(n)) - 1 if scientific else -power
    if fraction > precision >= 0 or fraction < min_digits:
        wanted = precision if fraction > precision >= 0 else min_digits
        n, power = rounded(exact(np.abs(x)), wanted + 1 if scientific else exponent + wanted + 1)
        exponent = power + len(str(n)) - 1
    if scientific: return str(n)[0], str(n)[1:], exponent
    digits = str(n * 10 ** max(power, 0))
    digits = digits.rjust(max(-power, 0) + 1, "0")
    return (digits[:power], digits[power:], 0) if power < 0 else (digits, "", 0)


def signed(x, before):
    return "-" + before if np.signbit(x) else before


def scientific(x, precision, unique, trim, sign, min_digits=-1, pad_left=0, exp_digits=2):
    assert unique and not sign
    before, behind, exponent = parts(x, True, -1 if precision is None else precision, min_digits)
    behind = behind.rstrip("0") if trim == "." else behind.ljust(min_digits, "0")
    return f"{signed(x, before).rjust(pad_left)}.{behind}e{'-' if exponent < 0 else '+'}{abs(exponent):0{max(2, exp_digits)}d}"


def positional(x, precision, unique, fractional, trim, sign, min_digits=-1, pad_left=0, pad_right=0):
    assert unique and fractional and trim == "." and not sign
    before, behind, _ = parts(x, False, precision, min_digits)
    return f"{signed(x, before).rjust(pad_left)}.{behind.rstrip('0').ljust(pad_right)}"


class patched:
    """NumPy's formatting, for bfloat16."""
    def __enter__(self):
        self.saved = {name: getattr(arrayprint, name) for name in ("dragon4_scientific", "dragon4_positional", "np")}
        arrayprint.dragon4_scientific, arrayprint.dragon4_positional = scientific, positional

        class numpy_with_bfloat16:
            finfo = staticmethod(ml_dtypes.finfo)

            def __getattr__(self, name):
                return getattr(np, name)
        arrayprint.np = numpy_with_bfloat16()

    def __exit__(self, *_):
        for name, value in self.saved.items(): setattr(arrayprint, name, value)


def text(a):
    if a.dtype != ml_dtypes.bfloat16:
        return np.array2string(a)
    if a.size == 0:
        return "[]"
    with patched():
        options = arrayprint.format_options.get()
        summarized = a.size > options["threshold"]
        shown = arrayprint._leading_trailing(a, options["edgeitems"]) if summarized else a
        number = arrayprint.FloatingFormat(shown, options["precision"], options["floatmode"], options["suppress"],
                                           options["sign"], legacy=options["legacy"])
        return arrayprint._formatArray(a, number, options["linewidth"], " ", " ", options["edgeitems"],
                                       "..." if summarized else "", options["legacy"])


# ---- the arrays ----

def write(values, extents, dtype):
    values = np.asarray(values).astype(dtype).ravel()
    size = int(np.prod(extents, dtype=np.int64))
    a = np.resize(values, size).reshape(extents) if size else np.zeros(extents, dtype)
    bits = values.view(f"u{values.dtype.itemsize}")
    name = NAMES.get(np.dtype(dtype).name, np.dtype(dtype).name)
    print(name, ",".join(map(str, extents)) or "-", *(f"{int(b):x}" for b in bits))
    for line in text(a).split("\n"): print("|" + line)


np.seterr(all="ignore")
assert np.__version__.startswith("2.4.")
nan, inf = float("nan"), float("inf")
FLOATS = ["float16", ml_dtypes.bfloat16, "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]

for dtype in FLOATS:
    for values in [[0], [-0.0], [1], [-1.5], [0.1], [1 / 3], [nan], [inf], [-inf], [1e-5], [100], [12345.678], [65504],
                   [1e30], [3.0e-39]]:
        write(values, (), dtype)
        write(values, (1,), dtype)
    for values in [[1, 2, 3], [1, 2.5, 3], [0, -0.0], [-1, 1], [1, 10, 100], [1, 10, 1000], [1, 10, 1001], [0.001, 1],
                   [0.000999, 1], [0.0001], [0.00009], [0.1, 0.2, 0.3], [1, nan], [nan, inf, -inf], [1, inf], [1, -inf],
                   [12.5, nan, -inf], [nan, nan], [0, nan], [0, 1e-5], [99, 101], [999, 1000], [998, 999.5],
                   [1e5, 999999], [1e6], [99999999], [1e8], [1e-7, 1], [1e30, 1e-30, 0, nan, -inf], [2e38, -3e-38],
                   [0.333333333333, 100.1], [123456.789, 0.5], [1e100, 1], [-1e-100, 1e200], [5e-324],
                   [1.7976931348623157e308], [0.1, 1e10], [1.23456789012345, 1e9], [-0.0, 1e9], [1e22, 1e23],
                   [9.5, 9.995, 0.9999999999], [0.99999999999, 10], [0.000123456789012], [2 ** -24, 2 ** -14]]:
        write(values, (len(values),), dtype)
    for power in [-1074, -1022, -149, -133, -126, -44, -24, -14, -13, -10, -9, -4, 3, 10, 20, 25, 44, 63, 90, 127]:
        write([2.0 ** power], (1,), dtype)                 # whose lower neighbours are nearer
    info = ml_dtypes.finfo(dtype)
    write([info.max, info.min, info.tiny, info.smallest_subnormal], (4,), dtype)
    for _ in range(25):
        scale = 10.0 ** random.uniform(-6, 9)
        spread = random.choice([0.1, 1, 4])
        values = random.normal(size=random.integers(1, 30)) * scale * 10.0 ** random.normal(scale=spread)
        write(values, values.shape, dtype)
    for _ in range(20):                                    # any bits
        n = random.integers(1, 12)
        unsigned = f"u{np.dtype(dtype).itemsize}"
        write(np.frombuffer(random.bytes(8 * 12), unsigned)[:n].view(dtype), (n,), dtype)
    for extents in [(2, 3), (3, 1), (1, 3), (2, 2, 2), (2, 3, 1, 2), (1,) * 8, (40,), (2, 40), (3, 2, 30)]:
        write(random.normal(size=extents), extents, dtype)
        write(np.round(random.normal(size=extents), 1), extents, dtype)
    for extents in [(1000,), (1001,), (7, 200), (6, 200), (200, 6), (4, 5, 60), (12, 9, 10), (7, 7, 7, 7), (3, 400)]:
        write(np.round(random.normal(size=37), 2), extents, dtype)

for extents in [(0,), (2, 0), (0, 3), (1, 0, 1001)]:
    for dtype in ["bool", "int32", "float32"]: write([1], extents, dtype)

for dtype in INTEGERS:
    info = np.iinfo(dtype)
    for values in [[0], [info.max], [info.min]]: write(values, (), dtype)
    for values in [[1, 2, 3], [1, 10, 100], [info.min, info.max], [info.min, 0], [0, info.max]]:
        write(np.array(values, dtype), (len(values),), dtype)
    values = random.integers(info.min, info.max, size=60, dtype=dtype)
    for extents in [(60,), (3, 20), (2, 5, 6), (2, 2, 3, 5)]: write(values, extents, dtype)
    write(np.arange(100, dtype=dtype), (20, 60), dtype)
    write(np.arange(100, dtype=dtype), (1001,), dtype)
write([-5, 7], (2,), "int8")
write([True], (), "bool"), write([False], (), "bool")
for extents in [(1,), (2,), (2, 2), (30,), (3, 400)]:
    write([True, False, False], extents, "bool"), write([False], extents, "bool"), write([True], extents, "bool")
