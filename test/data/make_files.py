# SPDX-License-Identifier: BSL-1.0
"""Writes files beside this script that other libraries have made, for readers.cpp.

usage: make_files.py tensorflow     (needs TensorFlow 2: examples.tfrecord, the same .gz and .zlib)
       make_files.py pandas         (needs pandas: table.csv, numbers.csv)
"""
import pathlib
import sys
from fractions import Fraction

here = pathlib.Path(__file__).parent


def tensorflow():
    import tensorflow as tf

    def feature(**kinds):
        (kind, values), = kinds.items()
        lists = {"bytes": tf.train.BytesList, "floats": tf.train.FloatList, "integers": tf.train.Int64List}
        fields = {"bytes": "bytes_list", "floats": "float_list", "integers": "int64_list"}
        return tf.train.Feature(**{fields[kind]: lists[kind](value=values)})

    for kind, ending in (("", ""), ("GZIP", ".gz"), ("ZLIB", ".zlib")):
        with tf.io.TFRecordWriter(str(here / f"examples.tfrecord{ending}"), kind) as out:
            for i in range(5):
                out.write(tf.train.Example(features=tf.train.Features(feature={
                    "pair": feature(floats=[i + 0.5, -i]),
                    "label": feature(integers=[-(10 ** i)]),
                    "tokens": feature(integers=list(range(i))),
                    "name": feature(bytes=[f"record {i}".encode()]),
                    "words": feature(bytes=[b"w"] * i),
                    "pixels": feature(bytes=[bytes([i, 255, 7])]),
                })).SerializeToString())


def nearest_float(text):
    """The float32 nearest to a decimal number, ties to even, as bits."""
    import numpy as np
    guess = np.float32(float(text))
    exact = Fraction(text)
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    near = [x for x in near if np.isfinite(x)]
    best = min(near, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    return int(best.view(np.uint32))


def pandas():
    import numpy as np
    import pandas as pd

    pd.DataFrame({
        "id": [1, 2, 3, 4],
        "text": ['plain', 'a "quoted" word, and a comma', 'two\nlines\r\nor three', ''],
        "x": [0.1, np.nan, -1e-7, 12345678.9],
        "flag": [True, False, True, False],
    }).to_csv(here / "table.csv", index=False)

    r = np.random.default_rng(1)
    texts = ["0", "-0", "1", "-1", "0.1", "1e5", "1E-3", "16777217", "16777219", "9007199254740993", "0.000001", "1e-45",
             "1.17549435e-38", "3.4028235e38", "123456789012345678", "0.30000001192092896", "5e-324", "1e22", "1e23",
             "16777217.0000000001", "8388608.5", "8388609.5", "4.35", "0.500000029802322387695312", ".5", "5.", "+7"]
    texts += [f"{x:.{d}f}" for x, d in zip(r.normal(size=150) * 1000, r.integers(0, 9, size=150))]
    texts += [repr(float(x)) for x in r.normal(size=150) * 10.0 ** r.integers(-30, 30, size=150)]
    # Halfway between two floats, and just beside it.
    for x in r.uniform(1, 2, size=20).astype(np.float32):
        middle = (Fraction(float(x)) + Fraction(float(np.nextafter(x, np.float32(4))))) / 2
        digits = str(middle.numerator * 10 ** 24 // middle.denominator).rjust(25, "0")
        half = f"{digits[:-24]}.{digits[-24:]}"
        texts += [half, half + "1", half[:-1], half[:17]]
    # Read back by pandas itself, too.
    table = pd.DataFrame({"number": texts, "float": [nearest_float(t) for t in texts],
                          "double": [int(np.float64(float(t)).view(np.uint64)) for t in texts]})
    table.to_csv(here / "numbers.csv", index=False)
    again = pd.read_csv(here / "numbers.csv", float_precision="round_trip")
    assert (again["number"].to_numpy().view(np.uint64) == table["double"].to_numpy().astype(np.uint64)).all()


{"tensorflow": tensorflow, "pandas": pandas}[sys.argv[1]]()
