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
MORE = "610-619"
"""Seeds that are added for the intervals."""
OLD = "SelfLinkDist of 8a43fa0"
OURS = ("SelfLinkDist, features", "SelfLinkDist, links")
FEATURES = ("teacher: logistic regression on features", "teacher: logistic regression, features",
            "logistic regression (scikit-learn)", "MLP", "CoLinkDist, features",
            "SelfLinkDist of 8a43fa0, features", "teacher: gradient boosting, features",
            "teacher: gradient boosting on features",
            "gradient boosting (scikit-learn), features")  # fmt: skip
LINKS = ("teacher: label spreading", "teacher: logistic regression, 2-hop averages",
         "teacher: logistic regression on 2-hop averages", "GCN", "CoLinkDist, links",
         "SelfLinkDist of 8a43fa0, links", "teacher: gradient boosting, 2-hop averages",
         "teacher: gradient boosting on 2-hop averages",
         "gradient boosting (scikit-learn), neighbour averages")  # fmt: skip


def main():
    lines = [line for path in sys.argv[1:] for line in Path(path).read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    first = [r for r in records if r["seeds"] != MORE]
    found = {(r["kind"], r["set"], r["method"]): r for r in first}
    commits = sorted({r["commit"] for r in records if not r["method"].startswith(OLD)})
    places = sorted({r["machine"]["gpu"] for r in records if "machine" in r})
    lines = [
        "# Few labels, no validation nodes, new rows",
        "",
        f"`python benchmarks/few_labels.py` at {', '.join(commits)}, {', '.join(places)}; the "
        "SelfLinkDist before the panel at 8a43fa0. 100 labels: seeds 600 to 609, the other "
        "numbers of labels and all rivals but the teachers: seeds 600 to 604. No choice has seen "
        "these seeds, and the test nodes are of the half of each graph that no choice has seen. "
        "Test accuracy in percent, mean over the draws. Test nodes are hidden in training. A "
        "rival is compared on the draws that both have; n is their number. 'Teacher' is one of "
        "SelfLinkDist's own, calibrated by folds.",
    ]
    for kind, words in KINDS.items():
        sets = [s for s in [*PAPER, *OTHERS] if (kind, s, OURS[0]) in found]
        if not sets:
            continue
        measure = "auc" if kind.endswith("%") else "accuracy"
        lines += ["", f"## {words}{', ROC AUC' if measure == 'auc' else ''}", ""]
        lines += _table(found, kind, sets, measure)
    _before(found, lines)
    _coverage(records, lines)
    (OUT / "few-labels.md").write_text("\n".join(lines) + "\n")
    kept = [json.dumps(r) for r in records]
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


def _before(found, lines):
    """Beside the SelfLinkDist before the panel, on the draws that both have."""
    lines += ["", "## Beside the SelfLinkDist before the panel", "",
              "Mean lead in points, from features / with links, and the lowest and highest lead "
              "of a graph.", "",
              "| labels | graphs | mean lead | from features | with links |",
              "|" + " --- |" * 5]  # fmt: skip
    for kind, words in KINDS.items():
        leads = []
        for name in [*PAPER, *OTHERS]:
            pairs = [(found.get((kind, name, ours)), found.get((kind, name, ours.replace(
                "SelfLinkDist", OLD)))) for ours in OURS]  # fmt: skip
            if all(old is not None and new is not None for new, old in pairs):
                n = len(pairs[0][1]["accuracy"])
                leads.append([np.mean(new["accuracy"][:n]) - np.mean(old["accuracy"])
                              for new, old in pairs])  # fmt: skip
        if leads:
            mean, low, high = np.mean(leads, 0), np.min(leads, 0), np.max(leads, 0)
            spans = [f"{a:+.1f} to {b:+.1f}" for a, b in zip(low, high, strict=True)]
            cells = [words, str(len(leads)), f"{mean[0]:+.1f} / {mean[1]:+.1f}", *spans]
            lines.append("| " + " | ".join(cells) + " |")


def _coverage(records, lines):
    """How often the true accuracy lies inside the interval, and the calibration error."""
    ours = [r for r in records if r["kind"] == "100" and r["method"] == OURS[0]]
    more = {r["set"] for r in ours if r["seeds"] == MORE}
    twenty = _inside([r for r in ours if r["set"] in more])
    whole = _inside([r for r in ours if r["seeds"] != MORE])
    errors = [
        np.mean([np.mean(r["calibration"]) for r in records if r["kind"] == "100"
                 and r["method"] == mode and r["seeds"] != MORE]) for mode in OURS
    ]  # fmt: skip
    lines += [
        "",
        "## Is the estimate honest?",
        "",
        "100 labels, from features, new rows. The true accuracy lies inside the 90 % interval in "
        f"{np.mean(twenty):.1%} of {len(twenty)} draws, twenty on each of "
        f"{', '.join(sorted(more))} (seeds 600 to 619), and in {np.mean(whole):.1%} of "
        f"{len(whole)} draws, ten on each graph. Expected calibration error, mean over all "
        f"graphs: {errors[0]:.3f} from features, {errors[1]:.3f} with links.",
    ]


def _inside(records):
    from linkdist.training.panel.estimates import FOLDED, interval

    found = []
    for record in records:
        for true, guess in zip(record["accuracy"], record["estimate"], strict=True):
            low, high = interval(guess / 100, 100 * FOLDED)
            found.append(100 * low <= true <= 100 * high)
    return found


if __name__ == "__main__":
    main()
