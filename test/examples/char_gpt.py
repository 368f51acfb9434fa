# SPDX-License-Identifier: BSL-1.0
"""Checks that each kind of model learns a text that is easy to learn, that weights are kept, and what the program says
when something is wrong.

usage: char_gpt.py PROGRAM
"""
import os
import tempfile

from checks import faults, finish, refused, run

refused(["--cell", '"rnn"', "gpt, lstm, gru"], "--cell", "rnn")
refused(["--steps", "from 1 to"], "--steps", "0")
refused(["/no/such/text", "wordnet-base"], "--text", "/no/such/text")

with tempfile.TemporaryDirectory() as folder:
    text, weights = os.path.join(folder, "text"), os.path.join(folder, "weights.safetensors")
    with open(text, "w") as out:
        out.write("abcd efgh ijkl mnop\n" * 400)
    flags = ("--text", text, "--batch_size", "8", "--learning_rate", "0.01", "--most_perplexity", "1.5")
    for cell in ("gpt", "lstm", "gru"):
        kept = ("--checkpoint", weights) if cell == "gpt" else ()
        done, took = run("--cell", cell, *flags, *kept, "--steps", "60", "--characters", "40", seconds=200)
        if done is not None:
            print(f"{took:5.2f} s  {cell}\n{done.stdout}", end="")
            if done.returncode or "perplexity of held-out text" not in done.stdout:
                faults.append(f"{cell}: returned {done.returncode}, said {done.stdout!r} {done.stderr!r}")
    done, _ = run(*flags, "--checkpoint", weights, "--prompt", "abcd ef", "--characters", "10", "--temperature", "0.1",
                  seconds=60)
    if done is None or done.returncode or "abcd efgh ijkl mn" not in done.stdout or "s of training" in done.stdout:
        faults.append(f"the kept weights: {done and (done.returncode, done.stdout, done.stderr)!r}")
    refused(["perplexity", "above 1.5"], *flags, "--steps", "2", "--characters", "0", seconds=60)
    with open(text, "w") as out:
        out.write("short\n")
    refused([text, "too little text"], "--text", text)
finish()
