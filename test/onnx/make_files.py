# SPDX-License-Identifier: BSL-1.0
"""Writes the files of test/onnx/files by the package onnx: python3 test/onnx/make_files.py"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

folder = pathlib.Path(__file__).parent / "files"


def typed(name, type_, values, extents=None):
    return h.make_tensor(name, type_, extents if extents is not None else [len(values)], values)


weights = onnx.numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "weights")
outside = onnx.numpy_helper.from_array(np.arange(5, dtype=np.int64) - 2, "outside")
(folder / "outside.bin").write_bytes(b"\x7f" * 8 + outside.raw_data)
outside.ClearField("raw_data")
outside.data_location = T.EXTERNAL
for key, value in ("location", "outside.bin"), ("offset", "8"), ("length", "40"):
    outside.external_data.add(key=key, value=value)

constants = [
    weights, outside,
    typed("float", T.FLOAT, [1.5, -2]), typed("double", T.DOUBLE, [0.1, 1e300]), typed("int8", T.INT8, [-128, 127]),
    typed("uint8", T.UINT8, [0, 255]), typed("int16", T.INT16, [-32768, 7]), typed("uint16", T.UINT16, [65535]),
    typed("int32", T.INT32, [-2**31, 2**31 - 1]), typed("int64", T.INT64, [-2**63, 2**63 - 1]),
    typed("uint32", T.UINT32, [2**32 - 1]), typed("uint64", T.UINT64, [2**64 - 1]), typed("bool", T.BOOL, [True, False]),
    typed("half", T.FLOAT16, [1.5, -2]), typed("bfloat16", T.BFLOAT16, [1.5, -2]), typed("complex", T.COMPLEX64, [1 + 2j]),
    typed("int4", T.INT4, [1, -2, 3]), typed("float8", T.FLOAT8E4M3FN, [1, 2]), typed("text", T.STRING, [b"a", b"\x00b"]),
    typed("scalar", T.FLOAT, [3], []), typed("empty", T.INT64, [], [0, 4]),
]
inner = h.make_graph([h.make_node("Identity", ["x"], ["t"])], "then", [], [h.make_tensor_value_info("t", T.FLOAT, None)])
other = h.make_graph([h.make_node("Neg", ["x"], ["e"])], "else", [], [h.make_tensor_value_info("e", T.FLOAT, None)])
nodes = [
    h.make_node("If", ["bool0"], ["chosen"], name="branch", then_branch=inner, else_branch=other),
    h.make_node("Twice", ["chosen"], ["y"], domain="my", name="call", doc_string="a call"),
    h.make_node("Many", ["", "x"], ["z"], domain="my", f=0.5, i=-3, s="text", fs=[1.0, 2.0], ns=[1, -1], ss=["a", "b"],
                t=typed("", T.INT64, [4])),
]
graph = h.make_graph(
    nodes, "main", [h.make_tensor_value_info("x", T.FLOAT, ["batch", 3, None]), h.make_tensor_value_info("bool0", T.BOOL, []),
                    h.make_tensor_sequence_value_info("list", T.FLOAT, None)],
    [h.make_tensor_value_info("y", T.FLOAT, ["batch", 3, None])], constants)
function = h.make_function("my", "Twice", ["a"], ["b"], [h.make_node("Add", ["a", "a"], ["b"])], [h.make_opsetid("", 18)])
model = h.make_model(graph, functions=[function], producer_name="make_files", ir_version=10,
                     opset_imports=[h.make_opsetid("", 18), h.make_opsetid("my", 1)])
model.metadata_props.add(key="author", value="somebody")
(folder / "small.onnx").write_bytes(model.SerializeToString())
