"""Few labels, no validation nodes, test nodes that training has not seen.

SelfLinkDist, its teachers and its rivals on the paper's graphs and others, ten draws of labels.
SelfLinkDist validates itself by folds; CoLinkDist, MLP, GCN and the SelfLinkDist of 8a43fa0 hold a
tenth of the labels out, as they did by default. One record for each graph, number of labels and
method is appended to the file. `few_labels_report.py` makes the table.
Usage: python benchmarks/few_labels.py --out FILE [--sets ...] [--kinds 5,20,100] [--seeds 600-609]
       [--methods panel,colinkdist,mlp,gcn,lr,gb,selflinkdist] [--choose]
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from graphs import OTHERS, PAPER, draw, load
from measure import commit, machine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from linkdist.data.splits import Split, observe
from linkdist.model import logits
from linkdist.nn.aggregation import Neighbours
from linkdist.nn.inputs import make_inputs
from linkdist.training.fit import fit
from linkdist.training.loop import find_device

HELD = 0.1
MEASURES = {"accuracy", "auc", "calibration"}


def measures(p, labels):
    """Accuracy in percent, calibration error and, for two classes, ROC AUC."""
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == labels
    tenth = np.minimum((10 * confidence).astype(int), 9)
    error = sum(abs((confidence - hit)[tenth == k].sum()) for k in range(10)) / len(labels)
    found = {"accuracy": 100 * float(hit.mean()), "calibration": float(error)}
    if p.shape[1] == 2:
        found["auc"] = float(roc_auc_score(labels, p[:, 1]))
    return found


def judged(graph, splits, p):
    """Measures of each replica on its test nodes, from probabilities (R, n, C)."""
    rows = [measures(q[s.test], graph.labels[s.test]) for q, s in zip(p, splits, strict=True)]
    return {key: [round(row[key], 4) for row in rows] for key in rows[0]}


def both_modes(model, inputs, every, message=None):
    """Probabilities (R, n, C) from features and with links."""
    z, s = logits(model.network, inputs)
    if message is not None:
        linked = message(z, s, every, model.alpha)
    else:
        linked = model.with_neighbours(z, s, every)
    return {"features": z.softmax(-1).cpu().numpy(), "links": linked.softmax(-1).cpu().numpy()}


def panel(graph, splits, seeds, inputs, every, cycles=None, few=None):
    """All draws side by side: folds and the kept network of each."""
    from dataclasses import replace

    from linkdist.training.checkpoint import TrainingRun
    from linkdist.training.panel.estimates import interval
    from linkdist.training.panel.fitting import FEW, fold_replicas, held_out_replicas
    from linkdist.training.panel.learning import train_panel

    replicas = []
    for split, seed in zip(splits, seeds, strict=True):
        make = (
            fold_replicas
            if len(split.train) <= (FEW if few is None else few)
            else held_out_replicas
        )
        mine = [r for r in make(graph, split, "production", [seed]) if r.kind != "known row"]
        last, first = len(mine) - 1, len(replicas)
        for replica in mine:
            by = last if replica.kind == "kept" else replica.taught_by
            calibrated_by = tuple(first + place for place in replica.calibrated_by)
            replicas.append(replace(replica, taught_by=first + by, calibrated_by=calibrated_by))
    found = train_panel(graph, replicas, inputs, TrainingRun(None, None), cycles=cycles)
    records = {
        f"SelfLinkDist, {mode}": judged(graph, splits, p)
        for mode, p in both_modes(found.model, inputs, every).items()
    }
    # The teachers themselves, as they predict the test nodes over all links.
    ensemble = found.ensemble
    kept = [r for r, replica in enumerate(replicas) if replica.kind == "kept"]
    for g, group in enumerate(ensemble.groups):
        p = np.zeros((len(kept), graph.n, graph.C))
        for v, teacher in enumerate(group):
            users = [k for k, r in enumerate(kept) if ensemble.weights[r][g].variant == v]
            if users:
                links = ensemble.context.among([np.arange(graph.n)] * len(users))
                views = [ensemble.view_of[kept[k]] for k in users]
                log_p = teacher.log_p(views, links).cpu().numpy()
                for k, q in zip(users, log_p, strict=True):
                    scale, delta = ensemble.weights[kept[k]][g].exponents
                    scores = scale * q + delta * ensemble.class_prior(replicas[kept[k]])
                    e = np.exp(scores - scores.max(axis=1, keepdims=True))
                    p[k] = e / e.sum(axis=1, keepdims=True)
        records[f"teacher: {group[0].name}"] = judged(graph, splits, p)
    predictions = found.predictions.get("new row") or found.predictions["validation"]
    counts = [
        sum(
            len(replicas[r].validation)
            for r in range(len(replicas))
            if owner(replicas, kept, r) == k
        )
        for k in range(len(kept))
    ]
    ends = np.cumsum(counts)
    for mode in ("features", "links"):
        hits = predictions[mode].log_p.argmax(axis=1) == predictions[mode].labels
        parts = np.split(hits, ends[:-1])
        spans = [interval(float(part.mean()), len(part)) for part in parts]
        records[f"SelfLinkDist, {mode}"]["estimate"] = [
            round(100 * float(a.mean()), 3) for a in parts
        ]
        records[f"SelfLinkDist, {mode}"]["interval"] = [
            [round(100 * x, 3) for x in s] for s in spans
        ]
    shares = {name: round(share, 3) for name, share in found.mixture.items()}
    records["SelfLinkDist, features"]["teachers"] = shares
    return records


def owner(replicas, kept, r):
    """The draw that a replica belongs to: the next kept one at or after it."""
    return next(k for k, place in enumerate(kept) if place >= r)


def held_out_splits(graph, splits, seeds):
    """A tenth of each draw's labels as validation nodes, as many in every draw."""
    found = []
    for split, seed in zip(splits, seeds, strict=True):
        order = np.random.default_rng([9, seed]).permutation(split.train)
        size = max(1, round(HELD * len(order)))
        found.append(Split(np.sort(order[size:]), np.sort(order[:size]), split.test))
    return found


def links_method(method, message=None):
    def run(graph, splits, seeds, inputs, every):
        given = held_out_splits(graph, splits, seeds)
        result = fit(graph, given, "production", method=method, seeds=seeds, inputs=inputs,
                     device=inputs.device.type)  # fmt: skip
        name = {"colinkdist": "CoLinkDist", "selflinkdist": "SelfLinkDist of 8a43fa0"}[method]
        p = both_modes(result.model, inputs, every, message)
        return {f"{name}, {mode}": judged(graph, splits, part) for mode, part in p.items()}

    return run


def mlp(graph, splits, seeds, inputs, every):
    from linkdist.paper.baselines import MLP, label_loss, train_on_nodes

    given = held_out_splits(graph, splits, seeds)
    views = [observe(graph, split, "production") for split in given]
    network = MLP(graph.d, graph.C, seeds).to(inputs.device)
    best, p = torch.full((len(seeds),), -1.0), [None] * len(seeds)

    @torch.no_grad()
    def after(epoch):
        if epoch % 10 != 9:
            return
        z = network(inputs).squeeze(1).softmax(-1).cpu().numpy()
        for r, split in enumerate(given):
            right = (z[r][split.validation].argmax(1) == graph.labels[split.validation]).mean()
            if right > best[r]:
                best[r], p[r] = right, z[r]

    nodes, loss = [view.train for view in views], label_loss(views, inputs.device)
    train_on_nodes(network, inputs, nodes, loss, seeds, after)
    return {"MLP": judged(graph, splits, p)}


def gcn(graph, splits, seeds, inputs, every):
    from linkdist.paper.baselines import GCN, ViewGraph, train_gcn

    given = held_out_splits(graph, splits, seeds)
    views = [observe(graph, split, "production") for split in given]
    network = GCN(graph.d, graph.C, seeds).to(inputs.device)
    everyone = Neighbours([graph.edges] * len(seeds), graph.n, inputs.device)
    best, p = np.full(len(seeds), -1.0), [None] * len(seeds)

    @torch.no_grad()
    def after(epoch):
        if epoch % 10 != 9:
            return
        z = network.whole(inputs, everyone).softmax(-1).cpu().numpy()
        for r, split in enumerate(given):
            right = (z[r][split.validation].argmax(1) == graph.labels[split.validation]).mean()
            if right > best[r]:
                best[r], p[r] = right, z[r]

    train_gcn(network, inputs, ViewGraph(views, inputs.device), seeds, after)
    return {"GCN": judged(graph, splits, p)}


def lr(graph, splits, seeds, inputs, every):
    """scikit-learn's logistic regression with its own settings, on all labels."""
    p = []
    for split in splits:
        model = LogisticRegression(max_iter=1000)
        model.fit(graph.features[split.train], graph.labels[split.train])
        whole = np.zeros((graph.n, graph.C))
        whole[:, model.classes_] = model.predict_proba(graph.features)
        p.append(whole)
    return {"logistic regression (scikit-learn)": judged(graph, splits, p)}


def gb(graph, splits, seeds, inputs, every):
    """scikit-learn's gradient boosting on the columns, and beside their neighbours' means."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def means(edges):
        x = torch.from_numpy(graph.features).unsqueeze(0)
        return Neighbours([edges], graph.n, torch.device("cpu")).mean(x)[0].numpy()

    whole = means(graph.edges)
    p = {"features": [], "neighbour averages": []}
    for split, seed in zip(splits, seeds, strict=True):
        seen = means(observe(graph, split, "production").edges)
        x = {"features": (graph.features, graph.features),
             "neighbour averages": (np.c_[graph.features, seen],
                                    np.c_[graph.features, whole])}  # fmt: skip
        for word, (given, asked) in x.items():
            model = HistGradientBoostingClassifier(random_state=seed)
            model.fit(given[split.train], graph.labels[split.train])
            p[word].append(model.predict_proba(asked))
    return {
        f"gradient boosting (scikit-learn), {word}": judged(graph, splits, part)
        for word, part in p.items()
    }


METHODS = {"panel": panel, "colinkdist": links_method("colinkdist"), "mlp": mlp, "gcn": gcn,
           "lr": lr, "gb": gb, "selflinkdist": links_method("selflinkdist")}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join([*PAPER, *OTHERS]))
    parser.add_argument("--kinds", default="100,20,5")
    parser.add_argument("--seeds", default="600-609")
    parser.add_argument("--methods", default="panel,colinkdist,mlp,gcn,lr")
    parser.add_argument("--choose", action="store_true", help="Judge on the half for choices.")
    parser.add_argument("--old", action="store_true", help="The package is that of 8a43fa0.")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    seeds = list(range(first, last + 1))
    if asked.old:
        from linkdist.model import message_passing

        METHODS["selflinkdist"] = links_method("selflinkdist", message_passing)
    device = find_device("auto")
    for name in asked.sets.split(","):
        graph = load(name)
        inputs = make_inputs(graph.features, device)
        every = Neighbours([graph.edges], graph.n, device)
        for kind in asked.kinds.split(","):
            splits = [draw(graph, kind, seed, not asked.choose) for seed in seeds]
            for method in asked.methods.split(","):
                started = time.perf_counter()
                found = METHODS[method](graph, splits, seeds, inputs, every)
                took = round(time.perf_counter() - started, 2)
                about = {"set": name, "kind": kind, "seeds": asked.seeds, "seconds": took,
                         "commit": commit(), "machine": machine()}  # fmt: skip
                with asked.out.open("a") as file:
                    for word, record in found.items():
                        file.write(json.dumps({"method": word, **about, **record}) + "\n")
                for word, record in found.items():
                    if not word.startswith("teacher"):
                        means = {
                            key: round(np.mean(record[key]), 3) for key in MEASURES & set(record)
                        }
                        print(name, kind, word, means, took, file=sys.stderr, flush=True)
                if device.type == "cuda":
                    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
