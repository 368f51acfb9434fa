# SPDX-License-Identifier: BSL-1.0
"""Reads and writes the models of ONNX's node cases by Weft: they must mean the same, and onnx's checker must accept them.

usage: file.py PROGRAM      (test/onnx/interchange)

Needs the package `onnx`, and is skipped without it; WEFT_PYTHON names an interpreter that has it.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

sys.path.pop(0)
try:
    import onnx
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.case import node as node_cases
except ImportError:
    if wanted := os.environ.pop("WEFT_PYTHON", None):  # once: it can be a script that starts this interpreter
        os.execv(wanted, [wanted, "-B", *sys.argv])
    print("skipped: Python's onnx is not installed (pip install onnx); WEFT_PYTHON names an interpreter that has it")
    sys.exit(77)

warnings.simplefilter("ignore")
folder = tempfile.TemporaryDirectory()
root = pathlib.Path(folder.name)
DATA = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "raw_data", "external_data", "data_location")


def normal_tensor(t):
    """All elements in raw_data."""
    if t.name == "":
        t.ClearField("name")
    if t.data_type == TensorProto.STRING:
        return
    if t.data_location == TensorProto.EXTERNAL:
        onnx.external_data_helper.load_external_data_for_tensor(t, folder.name)
    raw = t.raw_data if t.HasField("raw_data") else onnx.helper.make_tensor(
        t.name, t.data_type, t.dims, numpy_helper.to_array(t), raw=True).raw_data
    for field in DATA:
        t.ClearField(field)
    t.raw_data = raw


def normal_nodes(nodes):
    for n in nodes:
        if n.domain in ("", "ai.onnx"):
            n.ClearField("domain")
        for a in n.attribute:
            for t in [a.t] * a.HasField("t") + list(a.tensors):
                normal_tensor(t)
            for g in [a.g] * a.HasField("g") + list(a.graphs):
                normal_graph(g)


def normal_graph(g):
    for t in g.initializer:
        normal_tensor(t)
    normal_nodes(g.node)


def normal(model):
    """The bytes of a model of which everything is written in one of the ways that mean the same."""
    normal_graph(model.graph)
    for f in model.functions:
        normal_nodes(f.node)
    for holder in (model, *model.functions):
        opsets = sorted((o.domain, o.version) for o in holder.opset_import)
        del holder.opset_import[:]
        for domain, version in opsets:
            holder.opset_import.add(domain=domain, version=version)
    return model.SerializeToString(deterministic=True)


def accepted(path):
    try:
        onnx.checker.check_model(path)
    except Exception as why:  # of any type
        return str(why)[:300]
    return ""


cases = {c.name: c.model for c in node_cases.collect_testcases(None) if c.model is not None}
for name, model in cases.items():
    (root / f"{name}.onnx").write_bytes(model.SerializeToString())
faults = []
for bytes_ in (64, 1 << 40):
    arguments = [str(root / f"{name}{end}") for name in cases for end in (".onnx", ".weft.onnx")]
    done = subprocess.run([sys.argv[1], str(bytes_), *arguments], capture_output=True, text=True)
    faults += [done.stdout + done.stderr] if done.returncode else []
    for name, model in cases.items():
        ours = str(root / f"{name}.weft.onnx")
        why = accepted(ours)
        if why and not accepted(str(root / f"{name}.onnx")):
            faults.append(f"{name}: {why}")
        elif normal(onnx.load(ours, load_external_data=False)) != normal(onnx.load(root / f"{name}.onnx")):
            faults.append(f"{name}: the written model means something else")
print(f"{len(cases)} models, {len(faults)} faults", *faults[:20], sep="\n")
sys.exit(bool(faults) or len(cases) < 1000)
