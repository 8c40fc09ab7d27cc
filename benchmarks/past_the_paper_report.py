"""Tables of `past_the_paper.py`'s records: ours beside the rivals', ours and published, and tests.

A paired t-test compares SelfLinkDist with a rival of ours on the same ten seeds.
"""

import json

import numpy as np
from past_the_paper import GLNN_SETS, SETS
from scipy import stats

from linkdist.paper.published import published

GLNN = {  # published there, from features: (GLNN, G2MLP) by setting and set
    "transductive": {
        "cora": (80.54, 82.54), "citeseer": (71.77, 74.51), "pubmed": (75.42, 78.17),
        "amazon-computers": (83.03, 83.87), "amazon-photo": (92.11, 92.85),
    },
    "production": {
        "cora": (73.82, 75.90), "citeseer": (69.25, 71.85), "pubmed": (74.30, 77.30),
        "amazon-computers": (80.92, 82.67), "amazon-photo": (91.18, 90.61),
    },
}  # fmt: skip
STRICT = "GCN2MLP, strict"
RIVALS = {
    "SelfLinkDistMLP": ("CoLinkDistMLP", "GCN2MLP", STRICT),
    "SelfLinkDist": ("CoLinkDist", "GCN"),
}


def report(folder):
    """Write tables.md beside the records."""
    files = sorted(folder.glob("*.json"))
    records = [r for path in files for r in json.loads(path.read_text())]
    found = {(r["protocol"], r["setting"], r["set"], r["method"]): r for r in records}
    first = records[0]
    lines = [
        "# SelfLinkDist beside its rivals, on seeds that no choice has seen",
        "",
        f"`python benchmarks/past_the_paper.py` at {first['commit']}, seeds {first['seeds'][0]} to "
        f"{first['seeds'][-1]}, {first['machine']['gpu']}; made by `--report`. Test accuracy in "
        "percent, mean ± standard deviation; in parentheses the published mean. A rival's cell "
        "ends with what SelfLinkDist is ahead and the p-value of a paired t-test. **Bold**: "
        "SelfLinkDist is ahead of every rival of the group, ours and published. The teacher of "
        "the paper's GCN2MLP reads the whole graph, hidden nodes too; a strict one does not.",
    ]
    for setting in ("inductive", "transductive", "full-supervised"):
        lines += ["", f"## The paper's protocol, {setting}", "", *_paper(found, setting)]
    for setting in GLNN:
        name = "ind, its name for hidden nodes" if setting == "production" else setting
        lines += ["", f"## GLNN's protocol, {name}", "", *_glnn(found, setting)]
    lines += ["", "## Seconds", "", *_seconds(folder / "seconds.jsonl")]
    (folder / "tables.md").write_text("\n".join(lines) + "\n")


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def _head(sets, *more):
    return [_row(["method", *sets, *more]), _row(["---"] + ["---:"] * (len(sets) + len(more)))]


def _mean(record):
    return f"{np.mean(record['scores']):.2f} ± {np.std(record['scores'], ddof=1):.2f}"


def _paper(found, setting):
    lines = _head(SETS)
    for ours, rivals in RIVALS.items():
        here = {name: found.get(("paper", setting, name, ours)) for name in SETS}
        cells = {name: [] for name in SETS}
        marks = {name: [] for name in SETS}
        for rival in rivals:
            for name in SETS:
                cell, values = _rival(found, setting, name, rival, here[name])
                cells[name].append(cell)
                marks[name] += values
        there = [n for n in SETS if here[n] is not None]
        bold = {n: np.mean(here[n]["scores"]) > max(marks[n]) for n in there}
        words = {n: f"**{_mean(here[n])}**" if bold[n] else _mean(here[n]) for n in there}
        own = [words.get(n, "not measured") for n in SETS]
        lines.append(_row([ours, *own]))
        for i, rival in enumerate(rivals):
            if not any(cells[name][i] for name in SETS):
                continue
            lines.append(_row([rival, *(cells[name][i] for name in SETS)]))
    return lines


def _rival(found, setting, name, rival, ours):
    """A rival's cell, and the means that are to be passed."""
    record = found.get(("paper", setting, name, rival))
    paper = None if rival == STRICT else published(name, setting, rival)
    words, values = [], []
    if record is not None and ours is not None:
        gap = np.array(ours["scores"]) - np.array(record["scores"])
        p = stats.ttest_rel(ours["scores"], record["scores"]).pvalue
        words.append(_mean(record))
        values.append(float(np.mean(record["scores"])))
    if paper is not None:
        words.append(f"({paper.mean:.2f})")
        values.append(paper.mean)
    if record is not None:
        words.append(f"{gap.mean():+.2f}, p = {p:.2g}")
    return " ".join(words), values


def _glnn(found, setting):
    lines = _head(GLNN_SETS)
    for method in ("SelfLinkDistMLP", "SelfLinkDist", "CoLinkDistMLP", "CoLinkDist"):
        cells = [_mean(found["glnn", setting, name, method]) for name in GLNN_SETS]
        lines.append(_row([method, *cells]))
    for i, rival in enumerate(("GLNN, published", "G2MLP, published")):
        lines.append(_row([rival, *(f"{GLNN[setting][name][i]:.2f}" for name in GLNN_SETS)]))
    return lines


def _seconds(path):
    """From `past_the_paper_time.py`: one table for each machine."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    lines = []
    for replicas in sorted({r["replicas"] for r in records}, reverse=True):
        rows = {r["set"]: r for r in records if r["replicas"] == replicas}
        about = next(iter(rows.values()))
        gpu, cpu = about["machine"]["gpu"], about["machine"]["cpu"]
        median = {
            name: {way: np.median(took) for way, took in row["seconds"].items()}
            for name, row in rows.items()
        }
        cells = [
            f"{median[n]['selflinkdist']:.1f} / {median[n]['colinkdist']:.1f} = "
            f"{rows[n]['ratio']:.2f}"
            for n in SETS
        ]
        ratios = np.median([row["ratio"] for row in rows.values()])
        lines += [
            f"`past_the_paper_time.py` at {about['commit']}, {cpu if gpu == 'none' else gpu}: "
            f"{replicas} run(s) at once, transductive, validation nodes given, nothing else on "
            f"the machine. Seconds of SelfLinkDist / CoLinkDist, median of "
            f"{len(about['seconds']['colinkdist'])}. Median of the ratios: {ratios:.2f}.",
            "",
            *_head(SETS),
            _row(["both modes", *cells]),
            "",
        ]
    return lines[:-1]
