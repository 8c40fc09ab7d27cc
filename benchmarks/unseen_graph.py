"""A graph that training has not seen: `mature` of streamers of another country.

Trained on DE, or on all countries but one with whole countries held out in validation; tested on
all streamers of the other country. ROC AUC of SelfLinkDist, from features and with the links of the
new country, beside logistic regression on the same columns. Seeds are those of SelfLinkDist's
weights; logistic regression has none and is computed once.
Usage: python benchmarks/unseen_graph.py --out FILE.json [--seeds 1000-1009] [--table]
"""

from functools import lru_cache

import numpy as np
from cells import run, scores_of, spread
from graphs import TWITCH, everything, load, together
from rivals.cross_validated import logistic
from scipy import sparse
from sklearn.metrics import roc_auc_score

FROM = "twitch-DE"
OURS = "SelfLinkDist"
RIVAL = "logistic regression"
ONE, ALL_BUT_ONE = "DE", "all others"

read = lru_cache(maxsize=len(TWITCH))(load)


def jobs(seeds):
    """Jobs that train on DE test on all other countries at once."""
    trained = [(ONE, "")] + [(ALL_BUT_ONE, country) for country in TWITCH]
    runs = [(RIVAL, 0), *((OURS, seed) for seed in seeds)]
    return [
        {"trained on": given, "left out": out, "method": method, "seed": seed}
        for method, seed in runs
        for given, out in trained
    ]


def compute(job, setting):
    """ROC AUC on each country that was left out."""
    one = job["trained on"] == ONE
    given = [FROM] if one else [name for name in TWITCH if name != job["left out"]]
    tested = [read(name) for name in TWITCH if name not in given]
    graph = read(FROM) if one else together([read(name) for name in given])
    if job["method"] == OURS:
        return ours(graph, tested, job["seed"], setting)
    whole = sparse.vstack([other.features for other in tested], format="csr")
    p = logistic(graph.features, graph.labels, np.arange(graph.n), "roc_auc", graph.groups, whole)
    parts = np.split(p, np.cumsum([other.n for other in tested])[:-1])
    return {
        f"{other.name}, features": float(roc_auc_score(other.labels, part))
        for other, part in zip(tested, parts, strict=True)
    }


def ours(graph, tested, seed, setting):
    from linkdist.training.fit import fit

    given = {"seeds": [seed], "device": setting.device, "epochs": setting.epochs}
    whole = graph.groups is not None
    model = fit(graph, everything(graph), metric="roc-auc", hold_out_graphs=whole, **given).model
    scores = {}
    for other in tested:
        for mode, links in (("features", None), ("links", other.all_links)):
            p = model.predict_proba(other.features, links)[:, 1]
            scores[f"{other.name}, {mode}"] = float(roc_auc_score(other.labels, p))
    return scores


def table(cells):
    """A row for each training, country and mode; the rival reads features only."""
    rows, notes = [], [""]
    for given in (ONE, ALL_BUT_ONE):
        for name in TWITCH:
            of = {"trained on": given}
            rival = scores_of(cells, f"{name}, features", method=RIVAL, **of)
            for mode in ("features", "links"):
                mine = scores_of(cells, f"{name}, {mode}", method=OURS, **of)
                if not mine and not rival:
                    continue
                rows.append({
                    "trained on": given, "country": name.split("-")[1], "mode": mode,
                    "seeds": len(mine), OURS: spread(mine, 4),
                    RIVAL: spread(rival, 4).split(" ")[0],
                })  # fmt: skip
                if mine and rival:
                    (theirs,) = rival.values()
                    lead = np.mean(list(mine.values())) - theirs
                    wins = sum(value > theirs for value in mine.values())
                    notes.append(
                        f"- trained on {given}, {name}, {mode}: {lead:+.4f}; ahead in {wins} of "
                        f"{len(mine)} seeds"
                    )
    about = (
        "ROC AUC on all streamers of the country, mean ± standard deviation. Logistic regression "
        "reads features only, in both rows. SelfLinkDist beside it:"
    )
    return rows, ["", about, *notes]


if __name__ == "__main__":
    run("unseen_graph", jobs, compute, table, __doc__)
