"""Rare classes: how well nodes are ranked, by SelfLinkDist and its rivals.

tolokers and minesweeper with 5 % of each class labelled: ROC AUC on the other nodes. A made graph
with one rare node in 401: average precision. SelfLinkDist is trained with metric='roc-auc' or
'average-precision'; rivals choose their settings by the same measure.
Usage: python benchmarks/rare.py --out FILE.json [--seeds 1000-1009] [--table]
"""

from functools import lru_cache

import numpy as np
from cells import ahead, best_of, run, scores_of, spread
from graphs import load, stratified_split
from rivals.cross_validated import boosting, gcn, logistic, with_averages
from sklearn.metrics import average_precision_score, roc_auc_score

from linkdist.data import made

MADE = "made, 400 : 1"
SETS = ("tolokers", "minesweeper", MADE)
SHARE = 0.05
OURS = "SelfLinkDist"
FEATURES = ("logistic regression", "gradient boosting")
LINKS = ("logistic regression, 2-hop averages", "gradient boosting, 2-hop averages", "GCN")
MEASURES = {"roc-auc": ("roc_auc", roc_auc_score),
            "average-precision": ("average_precision", average_precision_score)}  # fmt: skip

read = lru_cache(maxsize=1)(load)


def metric_of(name):
    return "average-precision" if name == MADE else "roc-auc"


def jobs(seeds):
    return [
        {"set": name, "method": method, "seed": seed}
        for seed in seeds
        for name in SETS
        for method in (OURS, *FEATURES, *LINKS)
    ]


def compute(job, setting):
    """The measure of the set on the nodes without a label."""
    name, method, seed = job["set"], job["method"], job["seed"]
    if name == MADE:
        graph, split, _ = made.graph_of_rare_class(seed)
    else:
        graph = read(name)
        split = stratified_split(graph, SHARE, seed)
    y, train, test = graph.labels, split.train, split.test
    asked, score = MEASURES[metric_of(name)]
    if method == OURS:
        found = ours(graph, split, metric_of(name), seed, setting)
        return {mode: float(score(y[test], p[test])) for mode, p in found.items()}
    if method == "GCN":
        p = gcn(graph, train, seed, setting.device, asked, setting.epochs)
        return {"links": float(score(y[test], p[test]))}
    averages = "averages" in method
    x = with_averages(graph.features, graph.links) if averages else graph.features
    x = np.asarray(x)
    p = (
        logistic(x, y, train, asked)
        if method.startswith("logistic")
        else boosting(x, y, train, seed, asked)
    )
    return {"links" if averages else "features": float(score(y[test], p[test]))}


def ours(graph, split, metric, seed, setting):
    """The difference of the two probabilities, in both modes.

    It has the order of the probability of class 1, and tells apart those that round to 1.
    """
    from linkdist.training.fit import fit

    given = {"seeds": [seed], "device": setting.device, "epochs": setting.epochs}
    model = fit(graph, split, metric=metric, **given).model
    both = {
        "features": model.predict_proba(graph.features),
        "links": model.predict_proba(graph.features, graph.all_links),
    }
    return {mode: p[:, 1].astype(float) - p[:, 0] for mode, p in both.items()}


def table(cells):
    """A row for each set and mode; below, what is ahead of what."""
    rows, notes = [], [""]
    for name in SETS:
        for mode, names in (("features", FEATURES), ("links", LINKS)):
            mine = scores_of(cells, mode, set=name, method=OURS)
            rivals = {rival: scores_of(cells, mode, set=name, method=rival) for rival in names}
            if not mine and not any(rivals.values()):
                continue
            row = {"set": name, "measure": metric_of(name), "mode": mode, "seeds": len(mine)}
            shown = {rival.split(",")[0]: spread(found, 4) for rival, found in rivals.items()}
            rows.append({**row, OURS: spread(mine, 4), **shown})
            for rival, found in rivals.items():
                if mine and found:
                    lead, wins, count = ahead(mine, found)
                    best = ", the best rival" if rival == best_of(rivals) else ""
                    notes.append(
                        f"- {name}, {mode}: {lead:+.4f} beside {rival}{best}; ahead in {wins} of "
                        f"{count} seeds"
                    )
    about = (
        "Mean ± standard deviation over the seeds. With links, logistic regression and gradient "
        "boosting read the columns joined with their 1- and 2-hop averages."
    )
    return rows, ["", about, *notes]


if __name__ == "__main__":
    run("rare", jobs, compute, table, __doc__)
