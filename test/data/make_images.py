# SPDX-License-Identifier: BSL-1.0
"""Writes test/data/images/: small image files by Pillow, and values.txt, what Pillow and torchvision make of them.

usage: make_images.py     (needs Pillow, torch, torchvision)

A line of values.txt is a name, height, width, channels, and the bytes in hexadecimal.
"""
import pathlib
import random

import numpy as np
import torch
import torchvision.transforms.v2.functional as F
from PIL import Image, PngImagePlugin

here = pathlib.Path(__file__).parent / "images"
here.mkdir(exist_ok=True)
out = open(here / "values.txt", "w")


def value(name, array):
    array = np.asarray(array)
    array = array[:, :, None] if array.ndim == 2 else array
    out.write(f"{name} {' '.join(map(str, array.shape))} {array.astype(np.uint8).tobytes().hex()}\n")


r = np.random.default_rng(1)
small = Image.fromarray(r.integers(0, 256, (4, 5, 3), dtype=np.uint8)).resize((23, 17), Image.BICUBIC)
grey = small.convert("L")


def check(name):
    with Image.open(here / name) as made:
        if made.mode.startswith("I;16"):  # the upper byte, as libpng strips 16 bits
            grey_of_16 = Image.fromarray((np.asarray(made) >> 8).astype(np.uint8))
            value(name + ":3", grey_of_16.convert("RGB"))
            value(name + ":1", grey_of_16)
            return
        value(name + ":3", made.convert("RGB"))
        value(name + ":1", made if made.mode == "L" else made.convert("RGB").convert("L"))


# Grey out of colour is libjpeg's luma, Pillow's draft mode.
for name, picture, how in [("420.jpg", small, dict(subsampling="4:2:0")), ("444.jpg", small, dict(subsampling="4:4:4")),
                           ("422.jpg", small, dict(subsampling="4:2:2")), ("grey.jpg", grey, {}),
                           ("progressive.jpg", small, dict(progressive=True)),
                           ("cmyk.jpg", small.convert("CMYK"), {})]:
    picture.save(here / name, quality=90, **how)
    with Image.open(here / name) as made:
        value(name + ":3", made.convert("RGB"))
    with Image.open(here / name) as made:
        made.draft("L", made.size)
        value(name + ":1", made.convert("RGB").convert("L") if name == "cmyk.jpg" else made.convert("L"))

big = Image.fromarray(r.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((40, 32), Image.BICUBIC)
big.save(here / "halves.jpg", quality=60)
with Image.open(here / "halves.jpg") as made:
    made.draft("RGB", (20, 16))
    value("halves.jpg:half", made)

alpha = small.convert("RGBA")
alpha.putalpha(grey)
palette = small.quantize(16)
for name, picture, how in [("rgb.png", small, {}), ("grey.png", grey, {}), ("alpha.png", alpha, {}),
                           ("grey_alpha.png", alpha.convert("LA"), {}), ("palette.png", palette, dict(transparency=3)),
                           ("bits.png", grey.convert("1"), {}),
                           ("grey16.png", Image.fromarray(r.integers(0, 65536, (7, 9)).astype(np.uint16)), {})]:
    picture.save(here / name, **how)
    check(name)

# Pillow does not write these: interlaced rows and 16-bit colours.
import struct
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(name, pixels, bits, interlaced):
    height, width, _ = pixels.shape
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for top, left, down, right in passes:
        for row in pixels[top::down, left::right]:
            if row.size:
                rows += b"\0" + row.astype(">u2" if bits == 16 else "u1").tobytes()
    (here / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, int(interlaced))) +
                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    check(name)


png("interlaced.png", np.asarray(small), 8, True)
png("rgb16.png", np.asarray(small).astype(np.uint16) * 256 + 77, 16, False)

# Resized, by Pillow.
value("source", big)
for height, width in [(32, 40), (10, 15), (32, 15), (9, 40), (45, 41), (1, 1), (3, 60)]:
    for by, filter in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
        value(f"resized:{height}:{width}:{by}", big.resize((width, height), filter))
        value(f"grey_resized:{height}:{width}:{by}", big.convert("L").resize((width, height), filter))

# Cut and coloured, by torchvision.
pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)
one = torch.from_numpy(np.array(grey))[None]
show = lambda name, x: value(name, x.permute(1, 2, 0).numpy())
value("colours", small)
for height, width in [(5, 7), (8, 8), (17, 23), (30, 9), (20, 40)]:
    show(f"center:{height}:{width}", F.center_crop(pixels, [height, width]))
show("crop:-3:5", F.crop(pixels, -3, 5, 9, 30))
for size in (9, 30):
    show(f"shorter:{size}", F.resize(pixels, size, antialias=True))
show("flipped", F.horizontal_flip(pixels))
for factor in (0.0, 0.3, 1.0, 1.7):
    show(f"brightness:{factor}", F.adjust_brightness(pixels, factor))
    show(f"contrast:{factor}", F.adjust_contrast(pixels, factor))
    show(f"grey_contrast:{factor}", F.adjust_contrast(one, factor))
    show(f"saturation:{factor}", F.adjust_saturation(pixels, factor))
for turn in (-0.5, -0.13, 0.0, 0.25, 0.4):
    show(f"hue:{turn}", F.adjust_hue(pixels, turn))
normal = F.normalize(F.to_dtype(pixels, torch.float32, scale=True), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
value("normal", normal.permute(1, 2, 0).numpy().astype("<f4").view(np.uint8).reshape(17, 23, 12))
out.close()
