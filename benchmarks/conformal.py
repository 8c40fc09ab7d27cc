"""Conformal sets and unanswered rows: how often a set contains the true class, and how large it is.

Rows are hidden from training and predicted from features and with links. Labels are drawn at
random, so that test rows are exchangeable with them, with folds (up to 1,000 labels) or with
validation nodes. For comparison, labels that are balanced by design, and streamers of other
countries: these rows are not exchangeable. Beside 1 - p of the true class, the score that is in
use, stand APS and RAPS, which add up the probabilities of the classes down to the true one.
Choices were made on seeds 0 to 7; seeds below 100 test on the other half of each graph.
Usage: python benchmarks/conformal.py --out FILE.json [--seeds 1100-1109] [--table]
"""

from functools import lru_cache

import numpy as np
from cells import run, scores_of, spread
from graphs import TWITCH, draw, load

from linkdist.tables.certainty import Certainty

LEVEL, LEVELS, SHARE = 0.9, (0.8, 0.9, 0.95), 0.2
EXCHANGEABLE = (
    ("cora", "10%"), ("pubmed", "2%"), ("amazon-computers", "3%"), ("citeseer", "10%"),
)  # fmt: skip
"""Graphs and labels of the claim: random labels and folds, and an accuracy below the level."""
OTHERS = (
    ("blogcatalog", "8%"), ("amazon-photo", "5%"), ("pubmed", "20%"), ("twitch-DE", "50%"),
    ("cora", "20"), ("pubmed", "20"),
)  # fmt: skip
"""An accuracy above the level; validation nodes; an unseen graph; balanced labels."""
CHOOSE = 100
"""Seeds below are those of choices."""
OURS = "SelfLinkDist"
MODES = ("features", "links")
PENALTY, FREE = 0.01, 2
"""RAPS adds this penalty for each class beyond so many."""

read = lru_cache(maxsize=1)(load)


def jobs(seeds):
    return [
        {"set": name, "labels": kind, "seed": seed, "method": OURS}
        for name, kind in (*EXCHANGEABLE, *OTHERS)
        for seed in seeds
    ]


def compute(job, setting):
    """Train on the labels, and score the test rows in both modes."""
    from linkdist.training.fit import fit

    graph = read(job["set"])
    split = draw(graph, job["labels"], job["seed"], final=job["seed"] >= CHOOSE)
    given = {"seeds": [job["seed"]], "device": setting.device, "epochs": setting.epochs}
    result = fit(graph, split, "inductive", **given)
    held = result.predictions.get("new row") or result.predictions["validation"]
    certainty = result.decision.certainty
    scores = {"train": len(split.train), "held": certainty.labels,
              "by": result.estimates.by}  # fmt: skip
    for mode, links in (("features", None), ("links", graph.all_links)):
        p = result.model.predict_proba(graph.features, links)[split.test]
        scores |= measured(certainty, mode, p, graph.labels[split.test], mode)
        scores |= rivals(held[mode], p, graph.labels[split.test], mode)
        if "known row" in result.predictions and result.estimates.by != "folds":
            known = result.predictions["known row"]
            other = Certainty.of({one: np.exp(known[one].scores) for one in MODES},
                                 known[mode].labels)  # fmt: skip
            scores |= {f"{mode}, by known rows": measured(
                other, mode, p, graph.labels[split.test], mode)[f"{mode}, coverage"]}  # fmt: skip
    if job["set"] in TWITCH:
        for name in TWITCH:
            if name != job["set"]:
                scores |= unseen(result.model, certainty, name)
    return scores


def unseen(model, certainty, name):
    graph, scores = load(name), {}
    for mode, links in (("features", None), ("links", graph.all_links)):
        p = model.predict_proba(graph.features, links)
        scores |= measured(certainty, mode, p, graph.labels, f"{name}, {mode}")
    return scores


def measured(certainty, mode, p, labels, name):
    """Coverage and size of the sets, and accuracy of the answers, with what was promised."""
    held, n, best = getattr(certainty, mode), len(labels), p.argmax(axis=1)
    right, found = best == labels, {}
    for level in LEVELS:
        sets = p >= held.threshold(level)
        found |= {f"scores reach {level}": float(sets[np.arange(n), labels].mean())}
        sets[np.arange(n), best] = True
        hits = sets[np.arange(n), labels]
        found |= {f"coverage {level}": float(hits.mean()), f"size {level}": float(sets.sum() / n)}
        if level == LEVEL:
            least = np.argsort(p.max(axis=1), kind="stable")[: n // 5]
            found |= {"coverage": float(hits.mean()), "size": float(sets.sum() / n),
                      "coverage of the least certain": float(hits[least].mean())}  # fmt: skip
    answered = p.max(axis=1) >= held.least(SHARE)
    found |= {
        "accuracy": float(right.mean()), "estimated accuracy": float(held.accuracy[-1]),
        "answered": float(answered.mean()), "accuracy of answers": float(right[answered].mean()),
        "estimated accuracy of answers": held.accuracy_of(SHARE),
    }  # fmt: skip
    return {f"{name}, {key}": value for key, value in found.items()}


def rivals(held, p, labels, mode):
    """Coverage and size of sets by other scores of the same held-out predictions."""
    found, n = {}, len(labels)
    for name, score in (("1 - p", lac), ("APS", aps), ("RAPS", raps)):
        own = np.sort(score(np.exp(held.scores))[np.arange(len(held.labels)), held.labels])
        rank = int(np.ceil((len(own) + 1) * LEVEL - 1e-9))
        sets = score(p.astype(np.float64)) <= (own[rank - 1] if rank <= len(own) else np.inf)
        sets[np.arange(n), p.argmax(axis=1)] = True
        hits, least = sets[np.arange(n), labels], np.argsort(p.max(axis=1))[: n // 5]
        of = f"{mode}, {name}"
        found |= {f"{of} coverage": float(hits.mean()), f"{of} size": float(sets.sum() / n),
                  f"{of} coverage of the least certain": float(hits[least].mean())}  # fmt: skip
    return found


def lac(p):
    return 1 - p


def aps(p, penalty=0.0):
    """The sum (n, C) of the probabilities of the classes down to each class."""
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    ranks = np.arange(1, p.shape[1] + 1)
    total = np.cumsum(ranked, axis=1) + penalty * np.maximum(ranks - FREE, 0)
    scores = np.empty_like(total)
    np.put_along_axis(scores, order, total, axis=1)
    return scores


def raps(p):
    return aps(p, PENALTY)


def percent(scores):
    return spread({seed: 100 * value for seed, value in scores.items()}, 1)


def table(cells):
    """A row for each graph, number of labels and mode; unseen graphs below."""
    rows, claim, smaller = [], [], []
    for name, kind in (*EXCHANGEABLE, *OTHERS):
        of = {"set": name, "labels": kind}
        if not scores_of(cells, "train", **of):
            continue
        for mode in MODES:
            rows.append(row(cells, of, mode, f"{name}, {_labels(kind)}"))
            if (name, kind) in EXCHANGEABLE:
                claim.append(np.mean(list(scores_of(cells, f"{mode}, coverage", **of).values())))
            smaller.append(_scores_line(cells, of, mode, f"{name}, {_labels(kind)}"))
        for other in TWITCH if name in TWITCH else ():
            for mode in MODES if other != name else ():
                rows.append(row(cells, of, f"{other}, {mode}", f"{name}, tested on {other}"))
    reach = (
        "Random labels, folds and an accuracy below the level: coverage is from "
        f"{100 * min(claim):.1f} % to {100 * max(claim):.1f} % for a level of {100 * LEVEL:.0f} %."
        if claim
        else ""
    )
    about = (
        "Mean ± standard deviation over seeds, in per cent except for sizes. 'With empty sets' is "
        "the coverage at 90 if the most probable class were not in each set: a model that is right "
        "more often than the level has to leave some sets empty for that. 'Least certain' is "
        "the coverage of the fifth of the test rows with the smallest confidence. 'Answered' and "
        f"the columns after it are those of --abstain {SHARE}."
    )
    other = ["", "Coverage, average size, and coverage of the least certain fifth by score:", ""]
    return rows, ["", about, "", reach, *other, *smaller, *_known_rows(cells)]


def _labels(kind):
    return f"{kind} of each class" if kind == "20" else f"{kind} labels"


def row(cells, of, mode, shown):
    def of_score(score):
        return scores_of(cells, f"{mode}, {score}", **of)

    held = scores_of(cells, "held", **of)
    (by,) = set(scores_of(cells, "by", **of).values())
    return {
        "graph": shown, "mode": mode.split(", ")[-1], "seeds": len(held),
        "held-out labels": f"{np.mean(list(held.values())):.0f} ({by})",
        "coverage at 80": percent(of_score("coverage 0.8")),
        "coverage at 90": percent(of_score("coverage")),
        "coverage at 95": percent(of_score("coverage 0.95")),
        "with empty sets": percent(of_score("scores reach 0.9")),
        "size at 90": spread(of_score("size")),
        "least certain": percent(of_score("coverage of the least certain")),
        "accuracy": percent(of_score("accuracy")),
        "estimated": percent(of_score("estimated accuracy")),
        "answered": percent(of_score("answered")),
        "accuracy of answers": percent(of_score("accuracy of answers")),
        "estimated of answers": percent(of_score("estimated accuracy of answers")),
    }  # fmt: skip


def _scores_line(cells, of, mode, shown):
    parts = []
    for name in ("1 - p", "APS", "RAPS"):
        coverage, size, least = (
            scores_of(cells, f"{mode}, {name} {what}", **of)
            for what in ("coverage", "size", "coverage of the least certain")
        )
        parts.append(f"{name} {percent(coverage)}, {spread(size)}, {percent(least)}")
    return f"- {shown}, {mode}: {'; '.join(parts)}"


def _known_rows(cells):
    """Whether scores of rows that chose nothing would cover better than validation nodes."""
    lines = [
        f"- {name}, {_labels(kind)}, {mode}: {percent(other)}"
        for name, kind in OTHERS
        for mode in MODES
        if (other := scores_of(cells, f"{mode}, by known rows", set=name, labels=kind))
    ]
    about = "Coverage by the labels that chose nothing, of rows that training saw without them:"
    return ["", about, "", *lines] if lines else []


if __name__ == "__main__":
    run("conformal", jobs, compute, table, __doc__)
