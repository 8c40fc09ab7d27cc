"""Numbers to predict: R² of SelfLinkDist and of its rivals on the rows without a label.

counties: the margin of 2016 from the columns without the margins; twitch: the logarithm of views
from the games, each country a graph, with all columns and without those that are bins of the views.
5 % and 20 % of the rows have a label. All methods get the same columns, links and labels.
Usage: python benchmarks/regression.py --out FILE.json [--seeds 1000-1009] [--table]
"""

from functools import lru_cache

from cells import ahead, best_of, run, scores_of, spread
from graphs import NUMBERS, load_numbers, random_split
from rivals.cross_validated import boosting, dense, label_propagation, ridge, with_averages
from sklearn.metrics import r2_score

SHARES = (5, 20)
OURS = "SelfLinkDist"
FEATURES = ("ridge", "gradient boosting")
LINKS = ("label propagation", "ridge, 2-hop averages", "gradient boosting, 2-hop averages")

SLOW, FEW = "gradient boosting", 3
"""On the 3,170 columns of twitch, this rival takes minutes: fewer seeds."""

load = lru_cache(maxsize=1)(load_numbers)


@lru_cache(maxsize=1)
def columns(name, averages):
    graph = load(name)
    return with_averages(graph.features, graph.links) if averages else dense(graph.features)


def jobs(seeds):
    def of(name, method):
        return seeds[:FEW] if method.startswith(SLOW) and name.startswith("twitch") else seeds

    return [
        {"set": name, "labels": share, "method": method, "seed": seed}
        for name in NUMBERS
        for method in (OURS, *FEATURES, *LINKS)
        for seed in (
            seeds[:FEW] if method.startswith(SLOW) and name.startswith("twitch") else seeds
        )
        for share in SHARES
    ]


def compute(job, setting):
    """R² on the rows without a label; of ours from features and with links."""
    name, method, seed = job["set"], job["method"], job["seed"]
    graph = load(name)
    split = random_split(graph, job["labels"] / 100, seed)
    y, train, test = graph.labels, split.train, split.test
    if method == OURS:
        return ours(graph, split, seed, setting)
    if method == "label propagation":
        found = label_propagation(y, train, graph.links, seed)
    else:
        x = columns(name, "averages" in method)
        found = ridge(x, y, train) if "ridge" in method else boosting(x, y, train, seed)
    return {"r2": r2_score(y[test], found[test])}


def ours(graph, split, seed, setting):
    from linkdist.training.fit import fit

    result = fit(graph, split, seeds=[seed], device=setting.device, epochs=setting.epochs)
    y, test = graph.labels, split.test
    features = result.model.predict_proba(graph.features)[:, 0]
    links = result.model.predict_proba(graph.features, graph.all_links)[:, 0]
    scores = {
        "r2": r2_score(y[test], features[test]),
        "r2 with links": r2_score(y[test], links[test]),
    }
    for mode, width in (result.decision.widths or {}).items():
        predicted = links if mode == "links" else features
        inside = abs(predicted - y)[test] <= width
        scores[f"inside the 90 % interval, {mode}"] = float(inside.mean())
    return scores


def table(cells):
    """A row for each set, number of labels and mode; below, what is ahead of what."""
    rows, notes = [], []
    for name in NUMBERS:
        for share in SHARES:
            for mode, score, names in (
                ("features", "r2", FEATURES),
                ("links", "r2 with links", LINKS),
            ):
                of = {"set": name, "labels": share}
                mine = scores_of(cells, score, method=OURS, **of)
                rivals = {rival: scores_of(cells, "r2", method=rival, **of) for rival in names}
                if not mine and not any(rivals.values()):
                    continue
                inside = scores_of(cells, f"inside the 90 % interval, {mode}", method=OURS, **of)
                rows.append({
                    "set": name, "labels": f"{share} %", "mode": mode, "seeds": len(mine),
                    OURS: spread(mine, 3, median=True),
                    **{rival.split(",")[0]: spread(found, 3, median=True)
                       for rival, found in rivals.items()},
                    "inside the 90 % interval": spread(inside, 3),
                })  # fmt: skip
                if mine and (best := best_of(rivals)):
                    lead, wins, count = ahead(mine, rivals[best])
                    word = "ahead of" if lead > 0 else "behind"
                    notes.append(
                        f"- {name}, {share} %, {mode}: {word} {best} by {abs(lead):.3f}; "
                        f"ahead in {wins} of {count} seeds"
                    )
    about = (
        "R², mean ± standard deviation over the seeds (median). With links, ridge and gradient "
        "boosting read the columns joined with their 1- and 2-hop averages; gradient boosting on "
        f"twitch has {FEW} of the seeds. Some columns of twitch are bins of the views: "
        "'no bins' leaves them out. Beside the best rival:"
    )
    return rows, ["", about, "", *notes]


if __name__ == "__main__":
    run("regression", jobs, compute, table, __doc__)
