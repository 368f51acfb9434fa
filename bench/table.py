"""Prints the rows that bench/run.sh has collected as tables, with ratios to the peers.

usage: table.py ROWS.jsonl

A row is one JSON object: its suite, who was measured ("peer"), what was measured (sizes, batches, threads, ...) and the
figures. Rows that differ in nothing but the figures are rounds of one measurement: the table has their median. A ratio
says how many times as fast as the peer Weft is, whichever way the figure runs.
"""
import json
import statistics
import sys

# A row is judged by the first of these figures that it has, and by its memory; larger is better for those marked.
FIGURES = {"us_median": ("us", False), "us": ("us", False), "ns": ("ns", False), "ms_median": ("ms", False),
           "steps_per_s": ("steps/s", True), "gflops": ("GFLOP/s", True), "seconds": ("s", False),
           "peak_mb": ("MB", False)}
# What else is measured, not what is asked for.
FURTHER = {"us_min", "ms_min", "GBs", "busbw_GBs", "images_per_s", "items_per_s", "test_accuracy", "final_cost", "note"}


def read(path):
    """{suite: {case: {peer: [figure, ...]}}}, with the unit and its direction beside each case."""
    suites = {}
    with open(path) as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                print(f"not a row: {line.rstrip()}", file=sys.stderr)
                continue
            figures = [name for name in FIGURES if name in row]
            if not figures or "peer" not in row:
                continue
            # A false flag says what a row without the flag says by silence.
            asked = {k: v for k, v in row.items()
                     if k not in FURTHER and k not in FIGURES and k not in ("peer", "suite") and v is not False}
            for figure in {figures[0]: 0, "peak_mb": 0} if "peak_mb" in row else figures[:1]:
                case = (tuple(sorted(asked.items(), key=lambda item: item[0])), figure)
                cases = suites.setdefault(row.get("suite", ""), {})
                cases.setdefault(case, {}).setdefault(row["peer"], []).append(row[figure])
    return suites


def describe(case):
    return ", ".join(str(v) if isinstance(v, str) else f"{k} {v:,}" for k, v in case)


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def print_table(title, rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print(f"\n{title}\n")
    for n, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if n == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def main():
    for suite, cases in read(sys.argv[1]).items():
        rows = [("case", "unit", "weft", "peers", "weft is x times as fast")]
        for (case, figure), by_peer in cases.items():
            unit, larger_is_better = FIGURES[figure]
            medians = {peer: statistics.median(values) for peer, values in by_peer.items()}
            weft = medians.pop("weft", None)
            peers = sorted(medians.items(), key=lambda item: item[1], reverse=larger_is_better)
            ratios = [f"{value / weft if not larger_is_better else weft / value:.2f}" for _, value in peers if weft and value]
            rows.append((describe(case), unit, number(weft) if weft is not None else "",
                         ", ".join(f"{peer} {number(value)}" for peer, value in peers), ", ".join(ratios)))
        print_table(suite, rows)


if __name__ == "__main__":
    main()
