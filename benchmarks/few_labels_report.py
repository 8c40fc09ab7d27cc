"""The table of `few_labels.py`'s records: results/past-the-paper/few-labels.md.

Usage: python benchmarks/few_labels_report.py FILE [FILE ...]
The records that are used are kept beside the table, in few-labels.jsonl.
"""

import json
import sys
from pathlib import Path

import numpy as np
from graphs import OTHERS, PAPER

OUT = Path(__file__).parent.parent / "results" / "past-the-paper"
KINDS = {"5": "5 labels of each class", "20": "20 labels of each class", "100": "100 labels in all",
         "5%": "5 % of the labels", "20%": "20 % of the labels"}  # fmt: skip
OURS = ("SelfLinkDist, features", "SelfLinkDist, links")
FEATURES = ("teacher: logistic regression on features", "teacher: logistic regression, features",
            "logistic regression (scikit-learn)", "MLP", "CoLinkDist, features",
            "SelfLinkDist of 8a43fa0, features", "teacher: gradient boosting, features",
            "teacher: gradient boosting on features")  # fmt: skip
LINKS = ("teacher: label spreading", "teacher: logistic regression, 2-hop averages",
         "teacher: logistic regression on 2-hop averages", "GCN", "CoLinkDist, links",
         "SelfLinkDist of 8a43fa0, links", "teacher: gradient boosting, 2-hop averages",
         "teacher: gradient boosting on 2-hop averages")  # fmt: skip


def main():
    lines = [line for path in sys.argv[1:] for line in Path(path).read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    found = {(r["kind"], r["set"], r["method"]): r for r in records}
    commits = sorted({r["commit"] for r in records})
    lines = [
        "# Few labels, no validation nodes, new rows",
        "",
        "`python benchmarks/few_labels.py`, seeds 500 to 509 or the first of them, where the "
        f"number of draws says so; commits {', '.join(commits)} (8a43fa0 is the SelfLinkDist "
        "before the panel); an NVIDIA H200 at 7dfca07, otherwise CPU cores. Test accuracy in "
        "percent, mean over the draws. Test nodes are hidden in "
        "training. A rival is shown with the number of draws on which it was measured, and is "
        "compared on the same draws. 'Teacher' is one of SelfLinkDist's own, calibrated by folds. "
        "–: not measured.",
    ]
    for kind, words in KINDS.items():
        sets = [s for s in [*PAPER, *OTHERS] if (kind, s, OURS[0]) in found]
        if not sets:
            continue
        measure = "auc" if kind.endswith("%") else "accuracy"
        lines += ["", f"## {words}{', ROC AUC' if measure == 'auc' else ''}", ""]
        lines += _table(found, kind, sets, measure)
    _coverage(found, lines)
    (OUT / "few-labels.md").write_text("\n".join(lines) + "\n")
    kept = [json.dumps({k: v for k, v in r.items() if k != "machine"}) for r in records]
    (OUT / "few-labels.jsonl").write_text("\n".join(kept) + "\n")


def _table(found, kind, sets, measure):
    head = ["set", "draws", "from features", "best rival from features", "with links",
            "best rival with links", "worst draw below mean", "calibration error"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name in sets:
        features, links = (found[kind, name, method] for method in OURS)
        digits = 3 if measure == "auc" else 1
        cells = [name, str(len(features[measure]))]
        for ours, rivals in ((features, FEATURES), (links, LINKS)):
            cells.append(f"{np.mean(ours[measure]):.{digits}f}")
            cells.append(_best(found, kind, name, rivals, ours, measure, digits))
        below = [np.mean(r["accuracy"]) - min(r["accuracy"]) for r in (features, links)]
        errors = [np.mean(r["calibration"]) for r in (features, links)]
        cells.append(" / ".join(f"{b:.1f}" for b in below))
        cells.append(" / ".join(f"{e:.3f}" for e in errors))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _best(found, kind, name, rivals, ours, measure, digits):
    """The best rival, and how far SelfLinkDist is ahead on the draws that both have."""
    there = [found[kind, name, r] for r in rivals if (kind, name, r) in found]
    if not there:
        return "–"
    best = max(there, key=lambda r: np.mean(r[measure]))
    n = min(len(best[measure]), len(ours[measure]))
    gap = np.mean(ours[measure][:n]) - np.mean(best[measure][:n])
    word = best["method"].replace("logistic regression,", "logistic regression on")
    return f"{np.mean(best[measure][:n]):.{digits}f} {word}, n = {n}: {gap:+.{digits}f}"


def _coverage(found, lines):
    from linkdist.panel.estimates import FOLDED, interval

    inside, errors = [], []
    for (kind, _, method), record in found.items():
        if kind == "100" and method == OURS[0] and "estimate" in record:
            for true, guess in zip(record["accuracy"], record["estimate"], strict=True):
                low, high = interval(guess / 100, 100 * FOLDED)
                inside.append(100 * low <= true <= 100 * high)
            errors.append(np.mean(record["calibration"]))
    share, error = 100 * np.mean(inside), np.mean(errors)
    lines += [
        "",
        "## Is the estimate honest?",
        "",
        "100 labels, from features, new rows: the true accuracy lies inside the 90 % interval in "
        f"{share:.1f} % of {len(inside)} draws on {len(errors)} graphs. Expected calibration "
        f"error, mean over these graphs: {error:.3f}.",
    ]


if __name__ == "__main__":
    main()
