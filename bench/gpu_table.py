# SPDX-License-Identifier: BSL-1.0
"""Makes the table of a GPU from the JSON rows of bench/gpu.cu and bench/gpu_torch.py.

usage: gpu_table.py ROWS.jsonl
"""
import json
import sys

rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]


def find(peer, **keys):
    for row in rows:
        if row["peer"] == peer and all(row.get(k) == v for k, v in keys.items()):
            return row
    return None


def line(what, value, other, ratio, wanted=None):
    verdict = "" if ratio is None or wanted is None else ("reached" if ratio >= wanted else "not reached")
    shown = "" if ratio is None else f"{ratio:.2f}"
    print(f"| {what} | {value} | {other} | {shown} | {wanted or ''} | {verdict} |")


print("| what | Weft | against | ratio | wanted | |")
print("|---|---|---|---|---|---|")
for tf32 in ("", " tf32"):
    for model, batch, eager, graph in (("mlp", 100, 3.0, 1.0), ("lenet", 64, 1.2, 1.0), ("lenet", 1024, 1.2, 1.0)):
        # The wanted ratio is for steps that take their batch from the host. PyTorch's lies in pinned memory there.
        for data, wanted, of_peer in (("from the host", {"eager": eager, "graph": graph}, "from the host"),
                                      ("from pinned memory", {}, "from the host"), ("on the GPU", {}, "on the GPU")):
            ours = find("weft" + tf32, model=model, batch=batch, data=data)
            if not ours:
                continue
            for how in ("eager", "graph"):
                peer = find(f"torch {how}{tf32}", model=model, batch=batch, data=of_peer)
                line(f"{model} step, batch {batch} {data}{tf32}", f"{ours['us_median']} us",
                     f"PyTorch {how}: {peer['us_median']} us" if peer else f"PyTorch {how}: absent",
                     peer["us_median"] / ours["us_median"] if peer else None, wanted.get(how))
ours, copy = find("weft", workload="elementwise"), find("copy", workload="elementwise")
if ours and copy:
    line(f"fused elementwise, {ours['elements']} floats", f"{ours['gb_per_s']} GB/s", f"copy: {copy['gb_per_s']} GB/s",
         ours["gb_per_s"] / copy["gb_per_s"], 0.92)
for kind in ("bfloat16", "tf32"):
    for n in (4096, 8192):
        ours, direct = find("weft", workload=f"matmul {kind}", n=n), find("cublasLt", workload=f"matmul {kind}", n=n)
        if ours and direct:
            line(f"matmul {kind} {n}", f"{ours['tflop_per_s']} TFLOP/s", f"cuBLASLt: {direct['tflop_per_s']} TFLOP/s",
                 ours["tflop_per_s"] / direct["tflop_per_s"], 0.97)
ours, trip = find("weft", workload="overhead"), find("weft", workload="round trip")
if ours and trip:
    line("a replayed step, the host's part", f"{ours['us_median']} us", "at most 10 us", 10 / ours["us_median"], 1.0)
    line("a replayed step, there and back", f"{trip['us_median']} us", "", None)
