# SPDX-License-Identifier: BSL-1.0
"""Writes what TensorFlow makes of colours and pairs of images, in float: color_values.txt, beside this file."""
import pathlib

import numpy as np
import tensorflow as tf

generator = np.random.default_rng(3)
lines = [f"# Made by make_color_values.py with TensorFlow {tf.__version__}."]


def write(name, values):
    lines.append(" ".join([name, *(f"{float(v):.9g}" for v in np.asarray(values).reshape(-1))]))


def operand(name, *extents):
    values = (generator.random(extents) * 32).round().astype(np.float32) / 32
    write(name, values)
    return tf.constant(values)


x = operand("x", 2, 4, 3, 3)
y = operand("y", 2, 4, 3, 3)
im = tf.image
write("gray", im.rgb_to_grayscale(x))
write("hsv", im.rgb_to_hsv(x))
write("rgb", im.hsv_to_rgb(y))
for name in ["rgb_to_yuv", "yuv_to_rgb", "rgb_to_yiq", "yiq_to_rgb"]:
    write(name, getattr(im, name)(x))
write("contrast", im.adjust_contrast(x, 1.5))
write("gamma", im.adjust_gamma(x, 2.5, 0.5))
write("saturation", im.adjust_saturation(x, 1.75))
write("hue", im.adjust_hue(x, -0.3))
write("standardized", im.per_image_standardization(x))
dy, dx = im.image_gradients(x)
write("dy", dy)
write("dx", dx)
write("variation", im.total_variation(x))
write("sobel", im.sobel_edges(x))
write("psnr", im.psnr(x, y, 1.0))
write("ssim", im.ssim(x, y, 1.0, filter_size=3))

pathlib.Path(__file__).with_name("color_values.txt").write_text("\n".join(lines) + "\n")
