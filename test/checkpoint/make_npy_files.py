# SPDX-License-Identifier: BSL-1.0
"""Writes small files by NumPy into npy/, for npy.cpp.

usage: make_npy_files.py        (needs NumPy)

Element i of an array, counted in row-major order, is (7 * i) % 13 - 5, or its absolute value where the type has no sign,
or (7 * i) % 2 where it is bool.
"""
import io
import pathlib
import zipfile

import numpy as np

folder = pathlib.Path(__file__).parent / "npy"
TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def array(type_, *extents):
    i = np.arange(int(np.prod(extents)))
    values = (7 * i) % 13 - 5
    type_ = np.dtype(type_)
    if type_.kind == "b":
        values = (7 * i) % 2
    elif type_.kind == "u":
        values = abs(values)
    return values.reshape(extents).astype(type_)


def main():
    folder.mkdir(exist_ok=True)
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(folder / f"version_{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, array("f4", 2, 3), version=version)
    np.save(folder / "big_endian.npy", array(">f4", 2, 3))
    np.save(folder / "column_major.npy", np.asfortranarray(array("f4", 2, 3, 4)))
    np.save(folder / "column_major_big_endian.npy", np.asfortranarray(array(">i2", 4, 3)))
    np.save(folder / "scalar.npy", array("f8"))
    np.save(folder / "empty.npy", array("f4", 0, 5))
    np.save(folder / "vector.npy", array("i8", 5))
    np.save(folder / "complex.npy", array("c8", 2))
    np.save(folder / "fields.npy", np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
    np.save(folder / "text.npy", np.array(["a", "bc"]))
    np.save(folder / "nine_axes.npy", array("f4", *[1] * 9))

    # Spellings of types that numpy.dtype() takes, and writers other than NumPy's use; and what NumPy reads them as.
    spelt = ["?", "b", "h", "i", "l", "q", "n", "p", "B", "H", "I", "L", "Q", "N", "P", "e", "f", "d"]
    spelt = [order + code for code in spelt for order in ("", "<", ">", "|", "=")]
    spelt += [n for n, t in np._core.numerictypes.sctypeDict.items() if isinstance(n, str) and np.dtype(t).kind in "biuf"
              and np.dtype(t).itemsize <= 8]
    with open(folder / "spellings.txt", "w") as out:
        for word in sorted(spelt):
            print(word, np.dtype(word).str, file=out)

    # Two arrays in one file.
    with open(folder / "two.npy", "wb") as file:
        np.save(file, array("f4", 2, 3))
        np.save(file, array("i8", 5))

    arrays = {f"{'b1' if t == '?' else t}": array(t, 3, 4) for t in TYPES}
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "deflated.npz", **arrays, **{"layer/big": array("f4", 100, 30)})

    # Without zip64's fields, and with a comment behind the directory.
    with zipfile.ZipFile(folder / "comment.npz", "w") as archive:
        content = io.BytesIO()
        np.save(content, array("f4", 2, 3))
        archive.writestr("a.npy", content.getvalue())
        archive.writestr("readme.txt", "not an array")
        archive.comment = b"PK\x05\x06 is not where it ends"


if __name__ == "__main__":
    main()
