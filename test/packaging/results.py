# SPDX-License-Identifier: BSL-1.0
"""Checks that the README's results are those of docs/explanation/results.json, what bench/table.py publishes, and that
bench/run.sh finds the peers' programs and environments.

usage: results.py SOURCE_DIR
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
table = source / "bench/table.py"
faults = []


def run(*words):
    return subprocess.run([sys.executable, "-B", table, *words], text=True, capture_output=True, timeout=60)


readme = run("--readme", source / "README.md", source / "docs/explanation/results.json", "--check")
if readme.returncode:
    faults.append(readme.stderr)


def publish(peers):
    """Publishes one case; returns the process and the row of results, or None if nothing was written."""
    with tempfile.TemporaryDirectory() as folder:
        rows, results = pathlib.Path(folder, "rows.jsonl"), pathlib.Path(folder, "results.json")
        results.write_text('{"rows": []}\n')
        with open(rows, "w") as out:
            for peer, figures in peers.items():
                for n, us in enumerate(figures):
                    out.write(json.dumps({"suite": "step", "round": n + 1, "peer": peer, "workload": "mlp_train", "batch": 1,
                                          "threads": 1, "us_median": us}) + "\n")
        result = run(rows, "--results", results, "a machine", "abc1234")
        written = json.loads(results.read_text())["rows"]
        return result, written[0] if written else None


# title, figures of each round, the published peer (None if nothing may be published), a part of the message
for title, peers, published, message in (
        ("steady", {"weft": [9, 9.5, 9.2], "jax pinned": [30, 31, 35]}, "JAX pinned to a core", ""),
        ("the peer varies", {"weft": [9, 9.5, 9.2], "jax": [30, 31, 77]}, None, "jax varies from 30 to 77"),
        ("just above 20 %", {"weft": [9, 9, 9], "jax": [30, 31, 36.1]}, None, "jax varies from 30 to 36.1"),
        ("Weft varies", {"weft": [9, 20, 9], "jax": [30, 31, 32]}, None, "weft varies from 9 to 20"),
        ("a slow peer varies", {"weft": [9, 9, 9], "jax": [30, 31, 32], "torch": [98, 140, 200]}, "JAX", ""),
        ("a peer is sometimes fastest", {"weft": [9, 9, 9], "jax pinned": [30, 31, 32], "jax": [24, 84, 90]}, None,
         "jax varies from 24 to 90"),
        ("one round", {"weft": [9], "jax": [30]}, None, "jax was measured in one round only")):
    result, row = publish(peers)
    if (result.returncode == 0) != (published is not None) or message not in result.stderr:
        faults.append(f"{title}: returned {result.returncode}, printed {result.stderr!r}")
    if (row["peer"] if row else None) != published:
        faults.append(f"{title}: published {row}")
    if row and (row["machine"], row["commit"]) != ("a machine", "abc1234"):
        faults.append(f"{title}: the row lacks its machine or commit: {row}")

script, peers = (source / "bench/run.sh").read_text(), source / "bench/peers"
called = set(re.findall(r"\bpeer (\w+) (\w+\.py)\b", script))
programs = {program for _, program in called} | {f"{name}.cpp" for name in re.findall(r"\bcompiled (\w+) (?:g\+\+|mpicxx)", script)}
if len(called) < 10 or len(programs) < 12:
    faults.append(f"bench/run.sh runs only {sorted(programs)}")
faults += [f"bench/run.sh runs {name}, which bench/peers does not have" for name in programs if not (peers / name).is_file()]
faults += [f"bench/peers/install.sh cannot install {name}" for name in {name for name, _ in called}
           if not (peers / f"requirements-{name}.txt").is_file()]
documented = (peers / "README.md").read_text()
faults += [f"bench/peers/README.md does not describe {path.name}" for path in [*peers.glob("*.py"), *peers.glob("*.cpp")]
           if path.name not in documented]

print("\n".join(faults) or "the README has the measured results, and unsteady figures are not published")
sys.exit(bool(faults))
