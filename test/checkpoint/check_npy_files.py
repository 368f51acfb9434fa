# SPDX-License-Identifier: BSL-1.0
"""Reads by NumPy what npy.cpp has written by Weft, and holds it against NumPy's own.

usage: check_npy_files.py FOLDER
"""
import io
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from make_npy_files import TYPES, array  # noqa: E402

folder = pathlib.Path(sys.argv[1])
with np.load(folder / "written.npz") as written:
    assert sorted(written.files) == sorted(["b1" if t == "?" else t for t in TYPES] + ["bf16", "empty", "scalar"]), written.files
    for type_ in TYPES:
        found, expected = written["b1" if type_ == "?" else type_], array(type_, 3, 4)
        assert found.dtype == expected.dtype and found.shape == (3, 4) and (found == expected).all(), type_
        content = io.BytesIO()
        np.save(content, expected)
        name = "b1" if type_ == "?" else type_
        assert (folder / f"{name}.npy").read_bytes() == content.getvalue(), f"{name}.npy is not what numpy.save writes"
    assert written["empty"].shape == (0, 5) and written["scalar"].shape == ()
    bits = written["bf16"].view(np.uint16).astype(np.uint32) << 16
    assert (bits.view(np.float32) == array("f4", 3, 4)).all()
with np.load(folder / "many.npz") as many:
    assert len(many.files) == 66000 and many["65999"] == 65999
