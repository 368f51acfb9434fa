# SPDX-License-Identifier: BSL-1.0
"""Reads with TensorBoard's own package what test/summary/tensorboard.cpp has written.

usage: check_tensorboard.py FOLDER        ends with 77, and says so, where the package is not installed
"""
import struct
import sys
import zlib

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
except ImportError as e:
    print(f"skipped: this python has no tensorboard package ({e}); pip install tensorboard")
    sys.exit(77)

every = dict.fromkeys(("scalars", "images", "histograms", "tensors", "compressedHistograms"), 0)
events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance=every)
events.Reload()
tags = events.Tags()
assert events.file_version == 2.0, events.file_version

assert tags["scalars"] == ["again", "train/loss"], tags["scalars"]
assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(i, 1.0 / (1 << i)) for i in range(10)]
times = [e.wall_time for e in events.Scalars("train/loss")]
assert times == sorted(times)
# The run was resumed at step 5: what it had written of that step and later ones is forgotten.
assert [(e.step, e.value) for e in events.Scalars("again")] == [(3, 3.0), (4, 4.0), (5, 50.0), (6, 60.0)]

h = events.Histograms("w")[0]
assert h.step == 2
v = h.histogram_value
even = [-2 + 0.125 * i for i in range(41)]
assert (v.min, v.max, v.num, v.sum, v.sum_squares) == (-2, 3, 41, sum(even), sum(x * x for x in even)), v
assert sum(v.bucket) == 41 and len(v.bucket) == len(v.bucket_limit)


def pixels(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, size = 8, b"", None
    while at < len(png):
        n, kind = struct.unpack(">I4s", png[at:at + 8])
        chunk = png[at + 8:at + 8 + n]
        assert struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + chunk)
        if kind == b"IHDR":
            size = struct.unpack(">IIBB", chunk[:10])
        if kind == b"IDAT":
            data += chunk
        at += 12 + n
    return size, zlib.decompress(data)


assert set(tags["images"]) == {"grey", "batch/image/0", "batch/image/1", "large"}, tags["images"]
size, rows = pixels(events.Images("grey")[0].encoded_image_string)
assert size == (3, 2, 8, 0) and rows == bytes([0, 0, 50, 100, 0, 150, 200, 250]), (size, rows)
size, rows = pixels(events.Images("batch/image/1")[0].encoded_image_string)
assert size == (2, 1, 8, 2) and rows == bytes([0, 60, 70, 80, 90, 100, 110]), (size, rows)
size, rows = pixels(events.Images("large")[0].encoded_image_string)
assert size == (300, 200, 8, 6) and len(rows) == 200 * 1201 and rows[1] == 255, size

text = events.Tensors("notes")[0]
assert text.step == 4 and text.tensor_proto.string_val[0].decode() == "**bold**, and \N{GREEK SMALL LETTER PI}"
assert events.SummaryMetadata("notes").plugin_data.plugin_name == "text"

graph = events.Graph()
nodes = {n.name: n for n in graph.node}
assert nodes["x"].op == "Placeholder" and nodes["layer/w"].op == "VariableV2"
assert nodes["layer/w"].device == "/job:ps/task:0", nodes["layer/w"].device
assert list(nodes["matmul"].input) == ["x", "layer/w"]
dim = nodes["x"].attr["_output_shapes"].list.shape[0].dim
assert [(d.size, d.name) for d in dim] == [(-1, "batch"), (4, "")]
assert nodes["x"].attr["dtype"].type == 1

content = events.SummaryMetadata("_hparams_/experiment").plugin_data
assert content.plugin_name == "hparams"
experiment = plugin_data_pb2.HParamsPluginData.FromString(content.content).experiment
assert [(h.name, h.type) for h in experiment.hparam_infos] == [("rate", 3), ("optimizer", 1), ("shuffled", 2)]
assert [[v.bool_value for v in h.domain_discrete.values] for h in experiment.hparam_infos] == [[], [], [False, True]]
assert [m.name.tag for m in experiment.metric_infos] == ["train/loss"]
start = plugin_data_pb2.HParamsPluginData.FromString(
    events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content).session_start_info
assert start.hparams["rate"].number_value == 0.5 and start.hparams["optimizer"].string_value == "adam"
assert start.hparams["shuffled"].bool_value is True and start.start_time_secs > 1e9
end = plugin_data_pb2.HParamsPluginData.FromString(
    events.SummaryMetadata("_hparams_/session_end_info").plugin_data.content).session_end_info
assert end.status == 1
print("tensorboard reads all of it")
