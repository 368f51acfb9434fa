"""Checks that the fine-tuning program comes to what it states from the weights that it carries, and what it says and returns
when something is wrong.

usage: finetune.py PROGRAM WEIGHTS_OF_ANOTHER_MODEL
"""
import json
import os
import sys
import tempfile

from checks import data, faults, finish, program, refused, run

refused(["no/such.safetensors"], "--weights", "/no/such.safetensors")
refused([sys.argv[2], "conv1/weights"], "--weights", sys.argv[2])
refused(["no/such/folder/out.safetensors"], "--save", "/no/such/folder/out.safetensors")
refused(["no/such/folder/result.json"], "--json", "/no/such/folder/result.json")
refused(["no/such/folder"], "--data_dir", "/no/such/folder")
refused(["--examples", "from 1 to"], "--examples", "0")
refused(["--weight"], "--weight", "x")

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(os.path.dirname(program), "pretrained.safetensors"), "rb") as original:
        whole = original.read()
    short = os.path.join(folder, "short.safetensors")
    with open(short, "wb") as out:
        out.write(whole[:-1000])
    refused([short], "--weights", short)

    if os.path.isdir(data):
        result, saved = os.path.join(folder, "result.json"), os.path.join(folder, "saved.safetensors")
        done, took = run("--json", result, "--save", saved, "--threads", "2", seconds=60)
        if done is None or done.returncode:
            faults.append(f"the usual run: {done}")
        else:
            print(f"{took:5.2f} s  {done.stdout}")
            with open(result) as lines:
                found = json.load(lines)
            if abs(found["old_accuracy"] - 0.9020) > 0.001 or found["last_layer"] < 0.78 or found["all_layers"] < 0.915:
                faults.append(f"the usual run: {found}")
            with open(saved, "rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
            if shapes.get("new/weights") != [32, 5] or shapes.get("conv2/weights") != [5, 5, 6, 12]:
                faults.append(f"the saved weights are {shapes}")
        # With zeros for half of its weights it does not recognise the old classes any more.
        other = os.path.join(folder, "other.safetensors")
        with open(other, "wb") as out:
            out.write(whole[:-40000] + bytes(40000))
        done, _ = run("--weights", other, "--epochs", "1", seconds=60)
        if done is None or done.returncode or "test accuracy 0.9020" in done.stdout:
            faults.append(f"other weights: {done}")

finish()
