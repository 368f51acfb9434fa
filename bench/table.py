# SPDX-License-Identifier: BSL-1.0
"""Prints the rows that bench/run.sh has collected as tables, with ratios to the peers and to what is wanted.

usage: table.py ROWS.jsonl [--least]
       table.py ROWS.jsonl --results RESULTS.json MACHINE COMMIT   updates the README's figures in RESULTS.json
       table.py --readme README.md RESULTS.json [--check]   writes the README's table, or compares it with RESULTS.json

A row is one JSON object: its suite and round, who was measured ("peer"), what was measured (sizes, batches, threads, ...)
and the figures. Rows that differ in nothing but round and figures are one measurement: the table has the median of its
rounds. --results keeps the earlier figure, with its date, where the new one varies by more than 20 % between the rounds:
something disturbed it.
"x" is how many times as fast as that peer Weft is, whichever way the figure runs: the median of the rounds'
ratios, since both were measured a moment apart in each. --least judges a step by its minimum in place of its median,
which other programs on the machine disturb less.
"""
import datetime
import json
import pathlib
import statistics
import sys

# A row is judged by the first of these figures that it has; larger is better for those marked.
FIGURES = {"us_median": ("us", False), "us": ("us", False), "ns": ("ns", False), "ms_median": ("ms", False),
           "steps_per_s": ("steps/s", True), "seconds": ("s", False),
           "items_per_s": ("items/s", True)}
# And by these beside it, on lines of their own.
MORE_FIGURES = {"peak_mb": ("MB", False), "allocations": ("allocations", False), "resident_mb": ("MB", False),
                "cpu_us": ("us of a core", False), "clone_kb": ("kB a clone", False),
                "bind_share": ("of planning", False), "steps_stalled": ("of a step", False)}
# The other measured figures, which are not asked for.
FURTHER = {"us_min", "ms_min", "gflops", "GBs", "MBs", "busbw_GBs", "images_per_s", "images_per_s_best", "test_accuracy", "final_cost", "note",
           "schedule_ms", "step_ms", "beyond_repeated_us", "step_us", "first_us", "bindings", "beside_ms", "ratio"}


class Wanted:
    """The goal: of a figure itself (`most`), or times as fast as a peer (`times`, `peer`; the fastest one
    unless a peer is named, by the beginning of its name)."""

    def __init__(self, suite, case=lambda asked: True, unit=None, most=None, times=None, peer=""):
        self.suite, self.case, self.unit, self.most, self.times, self.peer = suite, case, unit, most, times, peer

    def applies(self, suite, asked, unit):
        return self.suite == suite and (self.unit is None or self.unit == unit) and self.case(asked)

    def verdict(self, weft, ratios):
        """`ratios`: of the peers. None where there is nothing to compare with."""
        if self.most is not None:
            return f"at most {number(self.most)}: {met(weft <= self.most)}"
        of = {peer: ratio for peer, ratio in ratios.items() if peer.startswith(self.peer)}
        if not of:
            return f"{number(self.times)} x {self.peer or 'the fastest'}"
        return f"{number(self.times)} x {self.peer or 'the fastest'}: {met(min(of.values()) >= self.times)}"


def one_thread_training(batch):
    return lambda asked: asked.get("workload") == "mlp_train" and asked["batch"] == batch and asked["threads"] == 1


def headers_alone(program):
    return lambda asked: asked["compiler"] == "g++" and asked["program"] == program and not asked.get("separate")


def planned(lanes):
    return lambda asked: asked.get("layers") == 4000 and asked.get("lanes") == lanes


# Issue 3, "Figures"; of the planner issue 15, "What it must show".
WANTED = [
    Wanted("step", one_thread_training(1), times=4),
    Wanted("step", one_thread_training(10), times=2),
    Wanted("step", one_thread_training(100), times=1.25),
    Wanted("step", lambda asked: asked.get("model") == "deep_mlp", times=6, peer="torch"),
    Wanted("models", lambda asked: asked["model"] == "lenet" and asked["mode"] == "train", times=1.8, peer="torch"),
    Wanted("models", lambda asked: asked["model"] == "lenet" and asked["mode"] == "infer", times=3, peer="torch"),
    Wanted("models", lambda asked: asked["model"] == "gpt", times=2, peer="torch"),
    Wanted("imported", lambda asked: "model" in asked, times=1, peer="onnxruntime"),
    Wanted("imported", lambda asked: asked.get("program") == "resnet50", unit="s", most=7),
    Wanted("loops", lambda asked: asked["model"] in ("lstm", "gru"), times=1.6, peer="torch"),
    Wanted("loops", lambda asked: asked["model"] == "tagger", times=20, peer="torch"),
    Wanted("loops", lambda asked: asked["model"] == "lstm_step", times=1),
    Wanted("loops", lambda asked: asked["model"].startswith("rows"), unit="ms", most=40),
    Wanted("checkpoint", lambda asked: asked["what"] == "load", times=1, peer="safetensors"),
    Wanted("checkpoint", lambda asked: asked["what"] == "save", times=0.7, peer="disk"),
    Wanted("checkpoint", unit="of a step", most=1),
    Wanted("checkpoint", lambda asked: asked["what"] == "scalar summary", unit="us", most=1),
    Wanted("overhead", lambda asked: not asked["step"].startswith("train"), unit="us", most=2),
    Wanted("overhead", unit="allocations", most=0),
    Wanted("data", lambda asked: asked["what"] == "csv", times=1.5, peer="pandas"),
    Wanted("data", lambda asked: asked["what"] == "tfrecord", unit="s", most=1),
    Wanted("data", lambda asked: asked["what"] == "shuffle", times=0.95, peer="plain loop"),
    Wanted("data", lambda asked: asked["what"] == "jpeg", times=1, peer="torchvision"),
    Wanted("data", lambda asked: asked["what"] == "prefetch", times=0.97, peer="synthetic data"),
    Wanted("queues", lambda asked: asked["queue"] == "scalar, one thread", unit="ns", most=200),
    Wanted("planner", planned(lanes=1), unit="ms", most=150),
    Wanted("planner", planned(lanes=2), unit="ms", most=300),
    Wanted("planner", unit="of planning", most=0.2),
    Wanted("planner", lambda asked: asked.get("sizes") == 100, unit="us", most=1),
    Wanted("elementwise", lambda asked: asked["elements"] >= 100_000, times=1, peer="eigen"),
    Wanted("operations", lambda asked: asked["kind"] == "einsum", times=1.5),
    Wanted("operations", lambda asked: asked["kind"] == "index", times=2),
    Wanted("operations", lambda asked: asked["kind"] in ("reduce", "fft"), times=1),
    Wanted("operations", lambda asked: asked["kind"] == "linear_algebra", times=0.97, peer="lapack"),
    Wanted("operations", lambda asked: asked["kind"] == "images", times=1.2),
    *[Wanted("operations", lambda asked, name=f"8 x {context} x 64": name in asked["operation"], times=times)
      for context, times in ((256, 2.5), (1024, 2), (4096, 1.5))],
    Wanted("normalization", times=0.9, peer="copy"),
    Wanted("matmul", times=0.98, peer="onednn"),
    Wanted("allreduce", lambda asked: asked["bytes"] <= 10_240, times=20, peer="gloo"),
    Wanted("allreduce", lambda asked: asked["bytes"] >= 1_000_000, times=1.5, peer="gloo"),
    Wanted("allreduce", times=1, peer="openmpi"),
    Wanted("parameter_server", lambda asked: asked.get("mode") == "async", times=5, peer="tensorflow"),
    Wanted("parameter_server", lambda asked: asked.get("mode") == "sync", times=8, peer="tensorflow"),
    Wanted("parameter_server", lambda asked: "ranks" in asked, times=5, peer="torch DDP"),
    Wanted("mpi", times=1 / 1.05, peer="MPI_Allreduce"),
    Wanted("transfer", times=0.7, peer="iperf3"),
    Wanted("transfer", times=10, peer="tensorflow"),
    Wanted("trust", lambda asked: asked["trust"] == "authenticated" and asked["bytes"] >= 1_000_000, times=0.8, peer="plain"),
    Wanted("trust", lambda asked: asked["trust"] == "tls" and asked["bytes"] >= 1_000_000, times=0.5, peer="plain"),
    Wanted("compile", headers_alone("include"), unit="s", most=0.5),
    Wanted("compile", headers_alone("mnist"), unit="s", most=5),
    Wanted("compile", headers_alone("lenet"), unit="s", most=10),
    Wanted("compile", lambda asked: asked["compiler"] == "g++" and asked.get("nodes") == 1000, unit="s", most=20),
    Wanted("compile", lambda asked: asked["compiler"] == "g++" and asked.get("nodes") == 1000, unit="MB", most=1000),
]


class Shown:
    """A row of the README's table: the measurement and the peer that it compares with, the fastest one unless named."""

    def __init__(self, title, suite, case, unit, peer):
        self.title, self.suite, self.case, self.unit, self.peer = title, suite, case, unit, peer


NAMES = {"torch DDP": "PyTorch DDP", "torch": "PyTorch", "tensorflow": "TensorFlow", "tf_": "TensorFlow",
         "jax pinned": "JAX pinned to a core", "jax": "JAX", "onednn": "oneDNN", "onnxruntime": "ONNX Runtime",
         "openvino": "OpenVINO", "openmpi": "Open MPI"}
# The most by which a published figure may vary between the rounds, relative to the smallest one.
VARIATION = 0.2
SHOWN = [
    Shown("training step, MLP 784-100-10, batch 1, 1 thread", "step", one_thread_training(1), "us", ""),
    Shown("training step, MLP 784-100-10, batch 10, 1 thread", "step", one_thread_training(10), "us", ""),
    Shown("training step, MLP 784-100-10, batch 100, 1 thread", "step", one_thread_training(100), "us", ""),
    Shown("training step, MLP of 64 layers, batch 16, 2 threads", "step",
          lambda asked: asked.get("model") == "deep_mlp" and asked["threads"] == 2, "ms", "torch"),
    Shown("training step, LeNet, batch 64, 2 threads", "models",
          lambda asked: asked["model"] == "lenet" and asked["mode"] == "train" and asked["threads"] == 2, "ms", "torch"),
    Shown("inference, LeNet, one image, 2 threads", "models",
          lambda asked: asked["model"] == "lenet" and asked["mode"] == "infer" and asked["threads"] == 2, "ms", ""),
    Shown("matrix product 1024 x 1024 x 1024, 1 thread", "matmul",
          lambda asked: asked["n"] == 1024 and asked["threads"] == 1, "us", "onednn"),
    Shown("asynchronous parameter server, 2 workers", "parameter_server",
          lambda asked: asked.get("mode") == "async" and asked["hidden"] == 100, "steps/s", "tensorflow"),
    Shown("synchronous parameter server, 2 workers", "parameter_server",
          lambda asked: asked.get("mode") == "sync" and asked["hidden"] == 100, "steps/s", "tensorflow"),
    Shown("all-reduce training, hidden layer of 2000, 2 workers", "parameter_server",
          lambda asked: "ranks" in asked and asked["hidden"] == 2000, "steps/s", "torch DDP"),
    Shown("all-reduce of 20 MB, 2 ranks, loopback TCP", "allreduce",
          lambda asked: 20_000_000 <= asked["bytes"] < 21_000_000 and asked["ranks"] == 2 and asked.get("over") == "tcp",
          "us", ""),
]


def met(reached):
    return "met" if reached else "NOT MET"


def read(path, least):
    """{suite: {(asked, unit, larger_is_better): {peer: {round: figure}}}}, in the order of the file."""
    suites = {}
    with open(path) as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                print(f"not a row: {line.rstrip()}", file=sys.stderr)
                continue
            if least:
                row = {**row, **{name[:2] + "_median": row[name] for name in ("us_min", "ms_min") if name in row}}
            # The layout is the peer's affair: one row each, of the same case.
            if row.pop("channels_last", False):
                row["peer"] = f"{row.get('peer', '')} channels last"
            figures = [name for name in FIGURES if name in row][:1] + [name for name in MORE_FIGURES if name in row]
            if not figures or "peer" not in row:
                continue
            # A false flag says what a row without the flag says by silence.
            asked = tuple((k, v) for k, v in sorted(row.items())
                          if k not in FURTHER and k not in FIGURES and k not in MORE_FIGURES
                          and k not in ("peer", "suite", "round") and v is not False)
            for name in figures:
                case = (asked, *{**FIGURES, **MORE_FIGURES}[name])
                peers = suites.setdefault(row.get("suite", ""), {}).setdefault(case, {})
                peers.setdefault(row["peer"], {})[row.get("round", 0)] = row[name]
    return suites


def describe(case):
    return ", ".join(str(v) if isinstance(v, str) else f"{k} {v:,}" for k, v in case)


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def ratio_of(weft, peer, larger_is_better):
    """How many times as fast Weft is; None where a figure is 0."""
    pairs = [(weft[r], peer[r]) for r in weft if r in peer] or [(statistics.median(weft.values()), statistics.median(peer.values()))]
    pairs = [pair if larger_is_better else pair[::-1] for pair in pairs]
    return statistics.median(a / b for a, b in pairs) if all(b for _, b in pairs) else None


def print_table(title, rows):
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    rows = [[row[i] for i in used] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print(f"\n{title}\n")
    for n, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if n == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def display_name(peer):
    return next((name for prefix, name in NAMES.items() if peer.startswith(prefix)), peer)


def disturbed(by_peer, peer, compared, larger_is_better):
    """One sentence for each figure that varies too much to publish: Weft's, that of the published peer, and those of
    compared peers that were faster in some round than the published median."""
    published = statistics.median(by_peer[peer].values())
    fastest = max if larger_is_better else min
    names = ["weft"] + [name for name in compared if fastest(fastest(by_peer[name].values()), published) != published or name == peer]
    sentences = []
    for name in names:
        figures = by_peer[name].values()
        if len(figures) < 2:
            sentences.append(f"{name} was measured in one round only")
        elif max(figures) > (1 + VARIATION) * min(figures):
            sentences.append(f"{name} varies from {number(min(figures))} to {number(max(figures))}")
    return sentences


def update_results(rows, results, machine, commit):
    """Replaces the figures that ROWS has, except those that vary too much, which are named on standard error."""
    path, suites = pathlib.Path(results), read(rows, least=False)
    old = json.loads(path.read_text()) if path.exists() else {}
    kept, faults = {row["what"]: row for row in old.get("rows", [])}, []
    for shown in SHOWN:
        for (asked, unit, larger_is_better), by_peer in suites.get(shown.suite, {}).items():
            peers = {name: ratio_of(by_peer["weft"], figures, larger_is_better) for name, figures in by_peer.items()
                     if "weft" in by_peer and name.startswith(shown.peer) and not name.startswith("weft")}
            if unit == shown.unit and shown.case(dict(asked)) and peers:
                peer = min(peers, key=peers.get)
                new = [f"{shown.title}: {fault}" for fault in disturbed(by_peer, peer, peers, larger_is_better)]
                faults += new
                if new:
                    continue
                kept[shown.title] = {
                    "what": shown.title, "date": f"{datetime.date.today()}", "machine": machine, "commit": commit, "unit": unit,
                    "weft": statistics.median(by_peer["weft"].values()), "peer": display_name(peer),
                    "peer_figure": statistics.median(by_peer[peer].values()), "times_as_fast": round(peers[peer], 3)}
    order = [shown.title for shown in SHOWN]
    path.write_text(json.dumps({"rows": [kept[title] for title in order if title in kept]}, indent=2) + "\n")
    missing = [title for title in order if title not in kept]
    print("".join(f"never measured: {title}\n" for title in missing), end="", file=sys.stderr)
    if faults:
        sys.exit("\n".join([f"unchanged, since they vary by more than {VARIATION:.0%} between rounds; measure them again on a quiet "
                            "machine:", *faults]))


BEGIN = "<!-- results: bench/table.py --readme writes this table from docs/explanation/results.json -->"
END = "<!-- end of results -->"


def readme_table(results):
    """One table for each machine, date and commit."""
    tables = {}
    for row in json.loads(pathlib.Path(results).read_text())["rows"]:
        unit, times = row["unit"], row["times_as_fast"]
        commit = f", commit {row['commit']}" if row.get("commit") else ""
        tables.setdefault(f"Medians of {row['date']}, {row['machine']}{commit}:", []).append(
            f"| {row['what']} | {number(row['weft'])} {unit} | {row['peer']}, {number(row['peer_figure'])} {unit} "
            f"| {times:.{2 if times < 2 else 1}f} |")
    head = ["", "| measurement | Weft | fastest peer measured | times as fast |", "|---|---:|---:|---:|"]
    return "\n\n".join("\n".join([caption, *head, *lines]) for caption, lines in tables.items())


def write_readme(readme, results, check):
    path = pathlib.Path(readme)
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{readme} has no lines '{BEGIN}' and '{END}'")
    new = f"{before}{begin}\n{readme_table(results)}\n{end}{after}"
    if check and new != path.read_text():
        sys.exit(f"{readme}'s results differ from {results}; run: python3 bench/table.py --readme {readme} {results}")
    if not check:
        path.write_text(new)


def main():
    if "--readme" in sys.argv:
        words = [word for word in sys.argv[1:] if word not in ("--readme", "--check")]
        return write_readme(*words, check="--check" in sys.argv) if len(words) == 2 else sys.exit(__doc__)
    if "--results" in sys.argv:
        words = [word for word in sys.argv[1:] if word != "--results"]
        return update_results(*words) if len(words) == 4 else sys.exit(__doc__)
    least = "--least" in sys.argv
    paths = [word for word in sys.argv[1:] if word != "--least"]
    if len(paths) != 1:
        sys.exit(__doc__)
    reached, open_ones = 0, []
    for suite, cases in read(paths[0], least).items():
        everybody = list(dict.fromkeys(peer for by_peer in cases.values() for peer in by_peer))
        # Weft may be measured in several forms, each a row of its own.
        forms, peers = [p for p in everybody if p.startswith("weft")], [p for p in everybody if not p.startswith("weft")]
        rows = [["case", "unit", "weft", *peers, "wanted"]]
        for (asked, unit, larger_is_better), by_peer in cases.items():
            for form in [f for f in forms if f in by_peer] or [None]:
                weft = by_peer.get(form)
                ratios, cells = {}, []
                for peer in peers:
                    cell = ""
                    if peer in by_peer:
                        cell = number(statistics.median(by_peer[peer].values()))
                        ratio = ratio_of(weft, by_peer[peer], larger_is_better) if weft else None
                        if ratio is not None:
                            ratios[peer] = ratio
                            cell += f" (x {number(ratio)})"
                    cells.append(cell)
                what = describe(asked) + (f"; {form[5:]}" if form and form != "weft" else "")
                verdicts = []
                if weft:
                    median = statistics.median(weft.values())
                    verdicts = [w.verdict(median, ratios) for w in WANTED if w.applies(suite, dict(asked), unit)]
                reached += sum(v.endswith(": met") for v in verdicts)
                open_ones += [f"{suite}: {what}: {v}" for v in verdicts if v.endswith("NOT MET")]
                rows.append([what, unit, number(median) if weft else "", *cells, "; ".join(verdicts)])
        print_table(suite, rows)
    print(f"\nof what is wanted {reached} met, {len(open_ones)} not met" + (":" if open_ones else ""))
    for one in open_ones:
        print("  " + one)


if __name__ == "__main__":
    main()
