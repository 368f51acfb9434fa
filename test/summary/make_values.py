# SPDX-License-Identifier: BSL-1.0
"""Writes histogram_values.txt and image_values.txt: what TensorFlow's summaries are of numbers given there.

usage: make_values.py        (needs TensorFlow 2)
"""
import pathlib

import numpy as np
import tensorflow as tf

here = pathlib.Path(__file__).parent
random = np.random.default_rng(1)


def summary_of(serialized):
    return tf.compat.v1.Summary.FromString(serialized.numpy()).value


def line(to, *numbers):
    print(*(repr(float(x)) for x in numbers), file=to)


# A case is four lines: the numbers; min, max, num, sum and sum of squares; the buckets' limits; the counts.
with open(here / "histogram_values.txt", "w") as to:
    for numbers in [[1.0], [0.0, 0.0, -0.0], [-1.0, 1.0, 1.0, 2.0], [1e-13, -1e-13, 1e25, -1e25, 1.0],
                    [1.1e-12, 1e-12, 1.0000000000000001e-12], list(np.linspace(-2, 3, 41)), list(random.normal(size=200)),
                    list(10 ** random.uniform(-14, 21, size=100) * random.choice([-1, 1], size=100))]:
        h = summary_of(tf.raw_ops.HistogramSummary(tag="h", values=np.array(numbers, np.float64)))[0].histo
        line(to, *numbers)
        line(to, h.min, h.max, h.num, h.sum, h.sum_squares)
        line(to, *h.bucket_limit)
        line(to, *h.bucket)

# A case is three lines: height, width, channels; the pixels, as floats; the bytes of TensorFlow's PNG.
with open(here / "image_values.txt", "w") as to:
    for h, w, c, scale, offset in [(3, 4, 1, 1, 0), (5, 2, 3, 10, 0), (2, 3, 4, 0.1, 0), (4, 4, 1, 2, -1), (3, 3, 3, 5, -4),
                                   (2, 2, 1, 0, 0), (2, 2, 3, 1e-8, 0), (2, 2, 1, 0, -3)]:
        image = (random.uniform(size=(1, h, w, c)) * scale + offset).astype(np.float32)
        if h == 5:
            image[0, 2, 1, 1] = np.nan
        if (h, c, scale) == (4, 1, 2):
            image[0, 1, 1, 0] = np.inf
        with tf.compat.v1.Session(graph=tf.Graph()) as session:
            serialized = session.run(tf.compat.v1.summary.image("i", tf.constant(image), max_outputs=1))
        v = tf.compat.v1.Summary.FromString(serialized).value[0]
        assert v.tag == "i/image" and (v.image.height, v.image.width, v.image.colorspace) == (h, w, c)
        line(to, h, w, c)
        line(to, *image.flatten())
        line(to, *tf.io.decode_png(v.image.encoded_image_string, channels=c).numpy().flatten())
